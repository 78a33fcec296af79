// One question: what was asked, what each arm was shown and said, and how that was judged.

const AROUND = 3;
// What an address of a question holds, for another one like it. `gold` says that gold and verdicts are not to be guessed.
const kept = (at) => ({ protocol: at.protocol === run.protocol ? "" : at.protocol, arms: at.arms, gold: at.gold, m: at.m });
const verdictText = (half) => (half === null ? "unscored" : String(half / 2));

// What a judge's reply says, where it is plain JSON: {score, reason}.
function replyOf(text) {
  try {
    const found = JSON.parse(text.trim().replace(/^```(?:json)?\s*([\s\S]*?)\s*```$/, "$1"));
    return found && typeof found === "object" ? found : {};
  } catch {
    return {};
  }
}

async function questionView() {
  const at = place();
  at.protocol = protocolNow(at);
  const one = questions.get(at.id);
  if (!one) return [h("h1", { tabindex: -1 }, "No such question"), h("p", {}, `This page has no question ${at.id}.`)];
  const texts = await load(`a${one.c}`);
  const held = [...seriesOf.keys()].filter((arm) => cellOf(arm, one.id));
  const wanted = (at.arms ?? "").split(",").filter((arm) => held.includes(arm));
  const arms = wanted.length ? wanted : held.filter((arm) => seriesOf.get(arm).main);
  const shown = arms.length ? arms : held;
  const about = run.conversations[one.c];
  return [
    steps(one, at),
    h("p", { class: "trail" }, `${one.id} · ${one.size} · ${run.abilities[one.a] ?? one.a}`,
      about.title ? ` · conversation “${about.title}”` : "", " · ",
      h("a", { href: address("list", "", { conversation: one.conversation }) }, "all of this conversation")),
    h("h1", { tabindex: -1, class: "question" }, one.q || `${one.id} (its text is not at hand)`),
    about.note ? h("p", { class: "note" }, `${one.q ? "Conversation and cited messages" : "Text and gold"} are missing: ${about.note}.`) : null,
    questionForm(one, at, held, shown),
    goldPart(one, at, texts),
    evidencePart(one, at, shown),
    h("h2", {}, "Answers"),
    h("div", { class: "cards" }, shown.map((arm) => answerCard(one, at, arm, texts))),
    messagePart(one, at),
    callsPart(one, texts, shown),
  ];
}

function steps(one, at) {
  const ids = listed.includes(one.id) ? listed : [...questions.keys()];
  const here = ids.indexOf(one.id);
  const link = (id, text, key) => id && h("a", { href: address("q", id, { ...kept(at), m: "" }), "data-key": key }, text);
  return h("nav", { class: "steps", "aria-label": "Questions" }, link(ids[here - 1], "← previous (k)", "k"),
    h("a", { href: listed.length ? lastList : "#/list" }, `list (${here + 1} of ${ids.length})`), link(ids[here + 1], "next (j) →", "j"));
}

function questionForm(one, at, held, shown) {
  const form = h("form", { class: "filters", "aria-label": "What is shown" },
    choice("protocol", "Protocol", at.protocol, run.protocols.map(([name]) => [name, name])),
    h("details", {}, h("summary", {}, `${shown.length} of ${held.length} arms`),
      h("fieldset", {}, h("legend", {}, "Arms"), held.map((arm) =>
        h("label", { class: "tick" }, h("input", { type: "checkbox", name: "arm", value: arm, checked: shown.includes(arm) }), ` ${arm}`)))));
  form.addEventListener("change", () => {
    const given = new FormData(form);
    location.hash = address("q", one.id, kept({ ...at, protocol: given.get("protocol"), arms: given.getAll("arm").join(",") }));
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  return form;
}

function goldPart(one, at, texts) {
  const gold = texts.gold[one.id] ?? {};
  const erratum = gold.erratum;
  const reveal = (event) => {
    at.gold = event.target.open ? "1" : "";
    history.replaceState(null, "", address("q", one.id, kept(at)));
    for (const fold of document.querySelectorAll("details.verdicts")) fold.open = event.target.open;
    document.querySelector("nav.steps")?.replaceWith(steps(one, at));
  };
  return h("details", { class: "gold", open: at.gold === "1", ontoggle: reveal },
    h("summary", {}, `Gold${erratum ? " and a known defect" : ""}, and every verdict (guess first)`),
    gold.reference ? h("p", {}, h("strong", {}, "Reference: "), gold.reference) : null,
    h("p", {}, h("strong", {}, "Rubric:")), h("ol", {}, (gold.rubric ?? []).map((nugget) => h("li", {}, nugget))),
    one.e ? h("p", {}, `Cited messages: ${one.e.join(", ") || "none"}.`, one.em ? ` Not in the chat: ${one.em.join(", ")}.` : "") : null,
    gold.difficulty ? h("p", {}, `Difficulty: ${gold.difficulty}.`) : null,
    erratum ? h("p", { class: "note" }, h("strong", {}, `Erratum (${erratum.kind}${erratum.spoils ? ", can spoil the score" : ""}): `), erratum.defect) : null);
}

function evidencePart(one, at, shown) {
  if (!one.e?.length) return h("p", {}, one.e ? "This question cites no message of the chat." : "");
  const link = (m) => h("a", { href: address("q", one.id, { ...kept(at), m }) }, `message ${m}`);
  const mark = (arm, m) => {
    const cell = cellOf(arm, one.id);
    if (!cell.s) return h("td", { class: "none" }, "unknown");
    if (cell.s.includes(m)) return h("td", { class: "good" }, "● shown whole");
    if (cell.p?.includes(m)) return h("td", { class: "half" }, "◐ only in part");
    return cell.n?.includes(m) ? h("td", { class: "half" }, "◐ only in a note") : h("td", { class: "bad" }, "○ missed");
  };
  return h("section", { "aria-label": "Evidence" }, h("h2", {}, "Cited messages in each context"),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Cited messages by arm" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "cited"), shown.map((arm) => h("th", { scope: "col" }, arm)))),
      h("tbody", {}, one.e.map((m) => h("tr", {}, h("th", { scope: "row" }, link(m)), shown.map((arm) => mark(arm, m)))),
        h("tr", {}, h("th", { scope: "row" }, `score, ${at.protocol}`), shown.map((arm) => {
          const score = scoresOf(arm, at.protocol).get(one.id);
          return h("td", { class: scoreClass(score) }, shownNumber(score));
        }))))));
}

function answerCard(one, at, arm, texts) {
  const cell = cellOf(arm, one.id);
  const own = texts.answers[arm]?.[one.id] ?? { j: [] };
  const score = scoresOf(arm, at.protocol).get(one.id);
  const facts = [cell.s ? `${cell.s.length} of ${one.e.length} cited messages shown whole` : "", cell.t ? `${cell.t.toLocaleString("en")} tokens of context` : "",
    cell.g ? `${cell.g} gaps in the memory` : ""].filter(Boolean).join(" · ");
  const { reader, judge, part } = seriesOf.get(arm).parts[one.size] ?? {};
  return h("article", { class: "card", "aria-label": arm },
    h("h3", {}, arm, " ", h("span", { class: `score ${scoreClass(score)}` }, shownNumber(score))),
    score?.why ? h("p", { class: "note" }, score.why) : null,
    h("p", { class: "answer" }, own.t ?? (cell.u !== undefined ? `No answer: ${cell.u}` : "The answer is not at hand.")),
    h("p", { class: "facts" }, facts),
    verdictFold(one, at, cell, own, texts.gold[one.id]?.rubric ?? []),
    contextFold(one, arm, own),
    h("details", {}, h("summary", {}, "How to replay it"), h("p", {}, `Reader: ${reader || "unknown"}. Judge: ${judge || "unknown"}.`),
      h("pre", {}, run.commands[part] ? run.commands[part].replace("ARM", () => arm.split("/").pop()).replace("QUESTION", () => one.id) : "An imported run is not replayed.")));
}

function verdictFold(one, at, cell, own, rubric) {
  const several = cell.j.length > 1;
  const full = cell.j[0].v.filter((half) => half === 2).length;
  const title = cell.j[0].v.length ? `Verdicts: ${full} of ${cell.j[0].v.length} nuggets satisfied${several ? `, ${cell.j.length} repeats` : ""}` : "Verdicts: none";
  return h("details", { class: "verdicts", open: at.gold === "1" }, h("summary", {}, title),
    cell.j.map((row, repeat) => [
      verdictTable(row, own.j[repeat] ?? {}, rubric, several ? `repeat ${repeat + 1}` : ""),
      reportedPart(own.j[repeat]?.x),
      one.a === "event_ordering" ? orderTable(row, own.j[repeat] ?? {}, at.protocol) : null,
    ]));
}

function verdictTable(row, texts, rubric, caption) {
  if (!row.v.length) return row.x ? h("p", { class: "facts" }, "Its source tells no verdict for each nugget.") : null;
  return h("table", { class: "nuggets" }, caption ? h("caption", {}, caption) : null,
    h("thead", {}, h("tr", {}, ["nugget", "verdict", "the judge's reason"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, row.v.map((half, place) => {
      const reply = texts.r?.[place] ?? "";
      const said = replyOf(reply);
      const other = typeof said.score === "number" && half !== null && said.score !== half / 2;
      return h("tr", {}, h("td", {}, (texts.n ?? rubric)[place] ?? `nugget ${place + 1}`),
        h("td", { class: other ? "wrong" : half === null ? "none" : half === 2 ? "good" : half ? "half" : "bad" }, verdictText(half),
          other ? h("strong", {}, ` the reply says ${said.score}`) : null),
        h("td", {}, typeof said.reason === "string" ? said.reason : reply));
    })));
}

// What a published source has beside verdicts: its score of the question, counts, scores off the scale, votes.
function reportedPart(said) {
  if (!said) return null;
  const counts = said.full === undefined ? "" : `nuggets: ${said.full} satisfied, ${said.partial} in part, ${said.none} not`;
  const votes = said.votes ? `votes that it is correct: ${said.votes.filter(Boolean).length} of ${said.votes.length}` : "";
  const facts = [said.score === undefined ? "" : `score of the question: ${said.score}`, counts,
    said.nuggets ? `scores of nuggets: ${said.nuggets.join(", ")}` : "", votes,
    said.order === undefined ? "" : `order of events: ${said.order}`].filter(Boolean);
  return h("p", { class: "facts" }, `As its source has it: ${facts.join("; ") || "nothing more"}.`);
}

function orderTable(row, texts, protocol) {
  const released = protocol === "released-code";
  const matches = released ? texts.m : row.i;
  const items = released ? texts.l : texts.i;
  if (!matches || !items) return null;
  const order = released ? orderOf(row.l[0], row.l[1]) : itemOrder(row);
  const numbers = ["precision", "recall", "f1", "tau"].map((name) => `${name} ${order[name]?.toFixed(2)}`).join(", ");
  return h("details", {}, h("summary", {}, `Alignment of events: ${matches.filter((one) => one !== null).length} of ${matches.length} ${released ? "lines" : "items"} matched`),
    h("p", { class: "facts" }, `Kendall's tau-b over the aligned events: ${numbers}.`),
    h("table", {}, h("thead", {}, h("tr", {}, ["place", released ? "line" : "item", "nugget"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, matches.map((match, place) => h("tr", {}, h("td", {}, place + 1), h("td", {}, items[place]),
        h("td", { class: match === null ? "bad" : "good" }, match === null ? "none" : String(match + 1)))))));
}

function contextFold(one, arm, own) {
  const body = h("div", { class: "context" }, h("p", {}, "loading …"));
  const title = own.c === undefined ? "Context: not at hand" : "Context that it was given";
  return h("details", { ontoggle: async (event) => {
    if (!event.target.open || body.dataset.done) return;
    body.dataset.done = "1";
    body.replaceChildren(...(own.c === undefined ? withoutContext(own) : await contextText(one, own)));
  } }, h("summary", {}, title), body);
}

// A line of a context: its text, or [message, place of the line in it], with a third number where no line break follows.
function lineText(held, line) {
  if (typeof line === "string") return line;
  const [message, place, last] = line;
  return `${held.texts.get(message).split("\n")[place]}${last === undefined ? "\n" : ""}`;
}

const partsText = (parts) => Object.entries(parts ?? {}).map(([part, ids]) => `${part}: ${ids.length} messages`).join(" · ");

function withoutContext(own) {
  const ids = own.p && Object.keys(own.p).length ? Object.entries(own.p) : [["messages", own.ids ?? []]];
  return [h("p", {}, own.no ?? "Nothing is known of it."), ...ids.map(([part, found]) => h("p", {}, `${part}: ${found.join(", ") || "none"}`))];
}

// The references that one stands for: a number itself, a pair its first and those that follow, away from zero.
const references = (one) =>
  Array.isArray(one) ? Array.from({ length: one[1] }, (_, step) => one[0] + (one[0] < 0 ? -step : step)) : [one];

async function contextText(one, own) {
  const held = await messagesOf(one.c);
  const pieces = held.contexts[own.c].flatMap(references).map((reference) => {
    if (reference < 0) return lineText(held, held.lines[-1 - reference]);
    const cited = one.e?.includes(reference);
    const text = held.texts.get(reference) ?? `[message ${reference}: shown to the arm; this page leaves its text out]`;
    return cited ? h("mark", {}, text, h("small", {}, ` (cited: message ${reference})`)) : text;
  });
  const parts = (partsText(own.p) || "no message") + (own.k ? ` · sent as ${own.k} chat turns, the question last` : "");
  return [h("p", { class: "facts" }, parts), h("div", { class: "text", tabindex: 0, role: "region", "aria-label": "Context" }, pieces.length ? pieces : "The context is empty.")];
}

const messageMaps = new Map();

async function messagesOf(c) {
  if (!messageMaps.has(c)) {
    const held = await load(`m${c}`);
    messageMaps.set(c, { ...held, texts: new Map(held.ids.map((id, place) => [id, held.texts[place]])), role: new Map(held.ids.map((id, place) => [id, held.roles[place]])) });
  }
  return messageMaps.get(c);
}

function messagePart(one, at) {
  const about = run.conversations[one.c];
  if (!about.m || !one.e?.length) return null;
  const chosen = at.m === undefined ? null : Number(at.m);
  const around = (m) => {
    const body = h("div", {}, h("p", {}, "loading …"));
    const fill = async () => {
      if (body.dataset.done) return;
      body.dataset.done = "1";
      const held = await messagesOf(one.c);
      const ids = Array.from({ length: 2 * AROUND + 1 }, (_, step) => m - AROUND + step).filter((id) => id >= 0 && id < held.total);
      body.replaceChildren(...ids.map((id) => h("div", { class: `message${id === m ? " cited" : ""}` },
        h("strong", {}, `${id} ${held.role.get(id) === "u" ? "user" : "assistant"}${one.e.includes(id) ? " (cited)" : ""}`),
        h("div", { class: "text" }, held.texts.get(id) ?? "This page leaves its text out."))));
    };
    const fold = h("details", { id: `m${m}`, open: m === chosen, ontoggle: fill }, h("summary", {}, `around message ${m}`), body);
    if (m === chosen) fill();
    return fold;
  };
  return h("section", { "aria-label": "Conversation" }, h("h2", {}, "Conversation around the cited messages"), one.e.map(around));
}

function callsPart(one, texts, shown) {
  const calls = texts.calls[one.id] ?? [];
  const none = texts.calls_problem || (shown.every((arm) => seriesOf.get(arm).offline) ? "None: the offline stand-in, not a language model, answered and judged." : "None is on file.");
  const money = (value) => (value === null ? "–" : `$${value.toFixed(5)}`);
  const head = ["step", "role", "model", "about", "tokens in", "cached", "out", "seconds", "cost", "outcome", "arm"];
  return h("section", { "aria-label": "Calls" }, h("h2", {}, "Calls"), calls.length === 0 ? h("p", {}, none) :
    h("details", {}, h("summary", {}, `${calls.length} calls`), h("p", { class: "facts" }, `Equal requests of several arms are one call. Only a reader's reply tells its arm. Costs rest on ${run.costs_rest_on}.`),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Calls" }, h("table", {}, h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, calls.map(([step, role, model, about, input, cached, output, seconds, dollars, outcome, message, series]) =>
          h("tr", {}, [step, role, model, about, input, cached, output, seconds, money(dollars)].map((value) => h("td", {}, String(value))),
            h("td", { class: outcome ? "bad" : "" }, outcome ? `${outcome}: ${message}` : "ok"), h("td", {}, series.join(", ")))))))));
}
