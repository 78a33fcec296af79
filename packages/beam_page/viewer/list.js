// The list of questions: ways in by size, ability and arm, and by what went wrong; search over questions and answers.

const RIGHT = 0.5; // from here on a score counts as right in these filters
const PAGE = 100;
const MESSAGE = /^(?:message\s*|m)?(\d{1,7})$/i;

// What is shown: its name, and whether an arm (or, of the last three, a question) is of it.
const SHOW = {
  "": ["all questions", () => true],
  unscored: ["unscored", (one, at, arm) => scoreAt(arm, one, at)?.value === null],
  shown: ["evidence shown but judged wrong (score below 0.5)",
    (one, at, arm) => allShown(arm, one, at) && isBelow(scoreAt(arm, one, at), RIGHT)],
  without: ["right without evidence (score 0.5 or more, no cited message shown)",
    (one, at, arm) => noneShown(arm, one, at) && isFrom(scoreAt(arm, one, at), RIGHT)],
  protocols: ["scores differ between two protocols",
    (one, at, arm) => !same(scoreAt(arm, one, at), scoresOf(arm, at.against).get(one.id))],
  repeats: ["the judge's repeats differ", (one, at, arm) => repeatsDiffer(cellOf(arm, one.id))],
  arms: ["verdicts differ between two arms or judges", (one, at) => difference(one, at) !== 0],
  right: ["answered right (score 0.5 or more)", (one, at, arm) => outcome(one, at, arm) === "right"],
  whole: ["lost: evidence shown whole", (one, at, arm) => outcome(one, at, arm) === "whole"],
  part: ["lost: evidence shown in part", (one, at, arm) => outcome(one, at, arm) === "part"],
  none: ["lost: evidence not shown", (one, at, arm) => outcome(one, at, arm) === "none"],
  uncited: ["lost: the question cites nothing", (one, at, arm) => outcome(one, at, arm) === "uncited"],
  oracle: ["lost: the oracle loses it too", (one, at, arm) => outcome(one, at, arm) === "oracle"],
  defective: ["lost: the question is defective", (one, at, arm) => outcome(one, at, arm) === "defective"],
  seen: ["evidence shown whole", (one, at, arm) => evidence(one, arm) === "whole"],
  partly: ["evidence shown in part", (one, at, arm) => evidence(one, arm) === "part"],
  unseen: ["evidence not shown", (one, at, arm) => evidence(one, arm) === "none"],
  drop: ["left out by errata: drop", (one) => one.d === 2],
  errata: ["known defects", (one) => one.d > 0],
};
const OF_ARMS = ["unscored", "shown", "without", "protocols", "repeats", "right", "whole", "part", "none", "uncited", "oracle", "defective", "seen", "partly", "unseen"];
const ORACLE = "oracle";

// Why an arm lost a question, as beamlib/report/outcomes.py says it; of several reasons the last one tried there.
function outcome(one, at, arm) {
  const score = scoreAt(arm, one, at);
  if (!score) return "";
  if (score.value === null) return "unscored";
  if (score.value >= RIGHT) return "right";
  if (one.d === 2) return "defective";
  if (arm !== ORACLE && seriesOf.has(ORACLE) && isBelow(scoreAt(ORACLE, one, at), RIGHT)) return "oracle";
  return evidence(one, arm);
}

// What the context shows of the messages that the question cites.
function evidence(one, arm) {
  const { s, p } = cellOf(arm, one.id) ?? {};
  if (s === undefined || !one.e?.length) return "uncited";
  if (s.length === one.e.length) return "whole";
  return s.length || p?.length ? "part" : "none";
}

const scoreAt = (arm, one, at) => scoresOf(arm, at.protocol).get(one.id);
const isBelow = (score, bound) => score && score.value !== null && score.value < bound;
const isFrom = (score, bound) => score && score.value !== null && score.value >= bound;
// All cited messages, or none; where one was searched for ("message 142"), that one.
const allShown = (arm, one, at) => {
  const shown = cellOf(arm, one.id)?.s;
  return shown !== undefined && (at.message === null ? shown.length === one.e.length : shown.includes(at.message));
};
const noneShown = (arm, one, at) => {
  const shown = cellOf(arm, one.id)?.s;
  return shown !== undefined && (at.message === null ? !shown.length : !shown.includes(at.message));
};
const same = (first, second) => (first?.value ?? null) === (second?.value ?? null);
const repeatsDiffer = (cell) =>
  cell?.j.length > 1 && cell.j.some((row) => JSON.stringify(row.v) !== JSON.stringify(cell.j[0].v));

function difference(one, at) {
  const [first, second] = at.arms.map((arm) => scoreAt(arm, one, at));
  if (!first || !second || at.arms.length < 2) return 0;
  if (first.value === null || second.value === null) return same(first, second) ? 0 : 0.001;
  return Math.abs(first.value - second.value);
}

// The address with everything filled in: `arms` are the columns.
function listPlace() {
  const at = { ...place() };
  at.protocol = protocolNow(at);
  const names = run.protocols.map(([name]) => name);
  at.against = names.includes(at.against) ? at.against : names.find((name) => name !== at.protocol);
  at.show = SHOW[at.show] ? at.show : "";
  at.message = Number((at.words ?? "").trim().match(MESSAGE)?.[1] ?? NaN);
  if (Number.isNaN(at.message)) at.message = null;
  const main = run.series.filter((one) => one.main).map((one) => one.id);
  const two = [at.arm, at.with].filter((arm) => seriesOf.has(arm));
  at.arms = two.length ? two : at.arm === "all" ? [...seriesOf.keys()] : main;
  if (at.show === "arms" && at.arms.length > 2) at.arms = [...(two.length ? two : main.slice(-3, -1))].slice(0, 2);
  return at;
}

function choice(name, label, value, options) {
  const made = h("select", { name, id: `choose-${name}` });
  for (const [key, text] of options) made.append(h("option", { value: key, selected: key === value }, text));
  return h("label", { class: "choice" }, h("span", {}, label), made);
}

function filterForm(at) {
  const series = [...seriesOf.values()].map((one) => [one.id, one.id]);
  const form = h("form", { class: "filters", role: "search", "aria-label": "Filter questions" },
    choice("size", "Size", at.size ?? "", [["", "all sizes"], ...sizes().map((size) => [size, size])]),
    choice("ability", "Ability", at.ability ?? "", [["", "all abilities"], ...Object.entries(run.abilities)]),
    choice("arm", "Memory", at.arm ?? "", [["", "the main ones"], ["all", "all"], ...series]),
    choice("with", "beside", at.with ?? "", [["", "–"], ...series]),
    choice("show", "Show", at.show, Object.entries(SHOW).map(([key, [text]]) => [key, text])),
    choice("protocol", "Protocol", at.protocol, run.protocols.map(([name]) => [name, name])),
    choice("against", "other protocol", at.against, run.protocols.map(([name]) => [name, name])),
    h("label", { class: "choice wide" }, h("span", {}, "Search (words, a question's id, or “message 142”)"),
      h("input", { type: "search", name: "words", id: "words", value: at.words ?? "", maxlength: 300 })),
    h("label", { class: "tick" }, h("input", { type: "checkbox", name: "answers", checked: at.answers === "1" }), " in answers too"),
    h("button", { type: "submit" }, "Search"));
  const go = (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(form));
    if (values.show !== "protocols") delete values.against;
    if (values.protocol === run.protocol) delete values.protocol;
    location.hash = address("list", "", { ...values, answers: values.answers ? "1" : "" });
  };
  form.addEventListener("submit", go);
  form.addEventListener("change", (event) => event.target.id === "words" || go(event));
  return form;
}

async function matching(at) {
  const own = [...questions.values()].filter((one) =>
    (!at.size || one.size === at.size) && (!at.ability || one.a === at.ability) &&
    (!at.conversation || one.conversation === at.conversation) && at.arms.some((arm) => cellOf(arm, one.id)));
  const left = own.filter((one) => at.arms.some((arm) => SHOW[at.show][1](one, at, arm)));
  const words = (at.words ?? "").trim();
  if (!words) return at.show === "arms" ? left.sort((a, b) => difference(b, at) - difference(a, at)) : left;
  if (at.message !== null) return left.filter((one) => one.e?.includes(at.message) || one.em?.includes(at.message));
  if (questions.has(words)) return left.filter((one) => one.id === words);
  const found = await searched(words, at.answers === "1");
  return left.filter((one) => found.has(one.id)).sort((a, b) => found.get(b.id) - found.get(a.id));
}

let index; // of MiniSearch; holds the questions, and the answers of conversations that were searched
let indexed = 0; // of how many conversations
let indexing = null;
const PATIENCE = 500; // milliseconds after which what was found so far is shown

async function indexAnswers() {
  for (; indexed < run.conversations.length; indexed++) {
    const { answers } = await load(`a${indexed}`);
    for (const one of run.conversations[indexed].questions) {
      const texts = Object.values(answers).map((own) => own[one.id]?.t ?? "");
      index.replace({ id: one.id, question: one.q, answers: [...new Set(texts)].join("\n") });
    }
    await new Promise((resolve) => setTimeout(resolve)); // lets the page be used meanwhile
  }
}

async function searched(words, inAnswers) {
  if (!index) {
    index = new MiniSearch({ autoVacuum: false, fields: ["question", "answers"], searchOptions: { prefix: true, fuzzy: 0.15, combineWith: "AND", boost: { question: 2 } } });
    index.addAll([...questions.values()].map((one) => ({ id: one.id, question: one.q, answers: "" })));
  }
  if (inAnswers && indexed < run.conversations.length) {
    indexing ??= indexAnswers();
    const here = location.hash;
    await Promise.race([indexing, new Promise((resolve) => setTimeout(resolve, PATIENCE))]);
    if (indexed < run.conversations.length) indexing.then(() => location.hash === here && render());
  }
  const fields = inAnswers ? ["question", "answers"] : ["question"];
  return new Map(index.search(words, { fields }).map((one) => [one.id, one.score]));
}

const shownNumber = (score) => (!score ? "" : score.value === null ? "unscored" : score.value.toFixed(2));

function scoreClass(score) {
  if (!score) return "none";
  return score.value === null ? "none" : score.value >= 1 ? "good" : score.value > 0 ? "half" : "bad";
}

function listRow(one, at) {
  const kept = { protocol: at.protocol === run.protocol ? "" : at.protocol };
  const link = (arm, text, label) =>
    h("a", { href: address("q", one.id, { ...kept, arms: at.arms.length > 2 && !arm ? "" : arm || at.arms.join(",") }), "aria-label": label }, text);
  return h("tr", {},
    h("th", { scope: "row" }, link("", one.q || one.id), h("small", {}, `${one.id} · ${run.abilities[one.a] ?? one.a}${one.d ? " · known defect" : ""}`)),
    at.arms.map((arm) => {
      const score = scoreAt(arm, one, at);
      const cell = cellOf(arm, one.id);
      const seen = cell?.s ? `${cell.s.length}/${one.e.length} shown` : "";
      const other = at.show === "protocols" && score ? ` / ${shownNumber(scoresOf(arm, at.against).get(one.id))}` : "";
      const hit = OF_ARMS.includes(at.show) && SHOW[at.show][1](one, at, arm);
      return h("td", { class: `${scoreClass(score)}${hit ? " hit" : ""}`, title: score?.why ?? "" },
        score ? link(arm, `${hit ? "▸ " : ""}${shownNumber(score)}${other}`, `${arm}: ${shownNumber(score)}, ${one.id}`) : "", h("small", {}, seen));
    }));
}

let listed = []; // ids, for the ways to the next and the last question

async function listView() {
  const at = listPlace();
  const found = await matching(at);
  listed = found.map((one) => one.id);
  const body = h("tbody", {});
  const more = h("button", { type: "button", onclick: () => grow() }, `show ${PAGE} more`);
  const grow = () => {
    const from = body.children.length;
    body.append(...found.slice(from, from + PAGE).map((one) => listRow(one, at)));
    more.hidden = body.children.length >= found.length;
  };
  grow();
  say(`${found.length} questions`);
  const what = [at.size, run.abilities[at.ability], SHOW[at.show][0]].filter(Boolean).join(", ");
  return [
    h("h1", { tabindex: -1 }, "Questions"), filterForm(at),
    h("p", { id: "count" }, `${found.length} of ${questions.size} questions: ${what}. Protocol ${at.protocol}. `,
      at.answers === "1" && at.words && at.message === null && indexed < run.conversations.length ? `Answers of ${indexed} of ${run.conversations.length} conversations were searched so far. ` : "",
      OF_ARMS.includes(at.show) ? "▸ marks the arms that it is true of. " : "",
      at.message === null ? "" : `Of message ${at.message}: questions that cite it; “shown” means this message. `,
      at.show === "arms" ? `Between ${at.arms.join(" and ")}, the greatest difference first.` : ""),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Questions and scores" },
      h("table", { class: "list" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "question"), at.arms.map((arm) => h("th", { scope: "col" }, arm)))), body)),
    more,
  ];
}
