// The page checks itself: every number that it prints, computed again from the verdicts that it holds.

// Every check as {protocol, treatment, series, size, ability, what, printed, found, follows}.
function* checks() {
  for (const [protocol, treatments] of Object.entries(run.headlines))
    for (const [treatment, allSeries] of Object.entries(treatments)) {
      for (const [series, bySize] of Object.entries(allSeries))
        for (const [size, byAbility] of Object.entries(bySize)) {
          const fixed = protocol === "recall" && seriesOf.get(series)?.fixed;
          const found = summarise(rowsOf(series, protocol, size, treatment), abilities, run.quantiles, fixed);
          for (const [ability, printed] of Object.entries(byAbility))
            yield { protocol, treatment, series, size, ability, printed, ...checked(printed, found.get(ability)) };
        }
      yield* bestChecks(protocol, treatment);
    }
}

function checked(printed, found) {
  if (!found) return { found: "nothing", follows: false };
  const [mean, low, high] = found.numbers;
  const right = follows(printed[0], mean, 3) && follows(printed[1], low, 2) && follows(printed[2], high, 2);
  const text = [mean.toFixed(3), low.toFixed(2), high.toFixed(2), ...found.counts].join(" ");
  return { found: text, follows: right && found.counts.every((count, place) => count === printed[3 + place]) };
}

function pairedAgain(first, second, protocol, size, treatment) {
  const own = asked(first).filter((one) => one.size === size && (treatment !== "drop" || one.d !== 2));
  return compareScores(own, scoresOf(first, protocol), scoresOf(second, protocol), run.quantiles);
}

function pairCheck(printed, found) {
  const right = found.numbers.every((value, place) => follows(printed[place], value, 3));
  return { found: [...found.numbers.map((value) => value.toFixed(3)), ...found.counts].join(" "), follows: right && found.counts.every((count, place) => count === printed[4 + place]) };
}

function* bestChecks(protocol, treatment) {
  for (const [size, best] of Object.entries(run.best[protocol]?.[treatment] ?? {}))
    for (const [series, ...printed] of best.against) {
      const found = pairedAgain(best.series, series, protocol, size, treatment);
      const check = pairCheck(printed, found);
      const right = !best.supported || (found.numbers[1] > 0 && found.numbers[3] <= run.quantiles.significant);
      yield { protocol, treatment, series: `${best.series} against ${series}`, size, ability: "average", printed, ...check, follows: check.follows && right };
    }
}

let wrongKeys = null; // after a check: what does not follow
const keyOf = (one) => [one.protocol, one.treatment, one.series, one.size, one.ability].join("|");

async function verify() {
  cache.clear();
  const started = performance.now();
  const all = [];
  for (const one of checks()) {
    all.push(one);
    if (all.length % 2000 === 0) await new Promise((resolve) => setTimeout(resolve));
  }
  const wrong = all.filter((one) => !one.follows);
  wrongKeys = new Set(wrong.map(keyOf));
  return { checked: all.length, protocols: Object.keys(run.headlines), wrong, milliseconds: Math.round(performance.now() - started) };
}

const verdictOf = (result) => !result.checked
  ? "This page prints no number that rests on several verdicts."
  : result.wrong.length
  ? `${result.wrong.length} of ${result.checked} numbers do NOT follow from the verdicts on this page.`
  : `All ${result.checked} numbers follow from the verdicts on this page, under ${result.protocols.join(", ")}, to the last printed digit.`;

async function verifyView() {
  const result = await verify();
  say(verdictOf(result));
  const head = ["protocol", "questions", "series", "size", "ability", "printed", "recomputed"];
  return [h("h1", { tabindex: -1 }, "This page, checked by itself"),
    h("p", { id: "verified", class: result.wrong.length ? "wrong" : "good" }, verdictOf(result)),
    h("p", {}, `Means, intervals, counts, paired differences and evidence recall were computed again in this browser in ${result.milliseconds} ms.`),
    result.wrong.length ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Numbers that do not follow" }, h("table", {}, h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, result.wrong.slice(0, 500).map((one) => h("tr", {}, [one.protocol, one.treatment, one.series, one.size, one.ability].map((value) => h("td", {}, value)),
        h("td", { class: "wrong" }, one.printed.map((value) => value ?? "–").join(" ")), h("td", {}, one.found)))))) : null];
}
