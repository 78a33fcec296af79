// Which view is shown: the document (tables, claims, figures) or one of those that the address names.

const VIEWS = { list: listView, q: questionView, verify: verifyView };
let lastList = "#/list";
let turn = 0;

async function render() {
  const mine = ++turn;
  let at;
  try {
    at = place();
  } catch {
    at = { view: "" }; // an address that is no text
  }
  const view = VIEWS[at.view];
  $("document").hidden = Boolean(view);
  $("view").hidden = !view;
  if (at.view === "list") lastList = location.hash;
  if (!view) {
    fillNumbers(at);
    const anchor = !location.hash.startsWith("#/") && location.hash.slice(1);
    if (anchor) document.getElementById(anchor)?.scrollIntoView();
    return;
  }
  let made;
  say("");
  try {
    made = await view();
  } catch (error) {
    made = [h("h1", { tabindex: -1 }, "This cannot be shown"), h("p", { class: "note" }, String(error.message ?? error))];
  }
  if (mine !== turn) return; // another address has been asked for meanwhile
  const kept = document.activeElement?.id;
  $("view").replaceChildren(...made.flat().filter(Boolean));
  document.title = `${$("view").querySelector("h1").textContent.slice(0, 80)} · ${run.name}`;
  const chosen = at.m === undefined ? null : $(`m${Number(at.m)}`);
  if (chosen) chosen.scrollIntoView();
  else if (kept && $("view").querySelector(`#${CSS.escape(kept)}`)) $(kept).focus();
  else {
    scrollTo(0, 0);
    $("view").querySelector("h1").focus({ preventScroll: true });
  }
}

// The document's numbers under the protocol and treatment chosen; those that were found wrong in red.
function fillNumbers(at) {
  const protocol = protocolNow(at);
  const treatment = at.errata === "drop" && run.headlines[protocol]?.drop ? "drop" : "full";
  for (const form of document.querySelectorAll("form.protocols")) {
    form.elements.protocol.value = protocol;
    if (form.elements.errata) form.elements.errata.value = treatment;
  }
  for (const cell of document.querySelectorAll("[data-cell]")) {
    const [kind, series, size, ability] = JSON.parse(cell.dataset.cell);
    const measure = kind === "recall" ? "recall" : protocol;
    const found = run.headlines[measure]?.[treatment]?.[series]?.[size]?.[ability];
    cell.textContent = cellText(found, run.most[size]);
    const values = { size, arm: series, with: counterpart(series), ability: ability === "average" ? "" : ability, protocol: protocol === run.protocol ? "" : protocol };
    cell.href = address("list", "", values);
    cell.classList.toggle("wrong", Boolean(wrongKeys?.has([measure, treatment, series, size, ability].join("|"))));
    const best = run.best[protocol]?.[treatment]?.[size];
    const marked = kind === "score" && ability === "average" && best?.series === series && best.supported;
    cell.classList.toggle("best", Boolean(marked));
    if (marked) cell.append(" ★");
  }
  for (const dot of document.querySelectorAll(".chart")) dot.hidden = protocol !== run.protocol || treatment !== "full";
}

async function checkHere() {
  say("checking …");
  const result = await verify();
  fillNumbers(place());
  for (const one of document.querySelectorAll(".verdict")) {
    one.textContent = verdictOf(result);
    one.className = `verdict ${result.wrong.length ? "wrong" : "good"}`;
  }
  say(verdictOf(result));
}

function begin() {
  for (const form of document.querySelectorAll("form.protocols")) {
    form.hidden = false;
    form.addEventListener("change", () => {
      const errata = form.elements.errata?.value === "drop" ? "drop" : "";
      const protocol = form.elements.protocol.value;
      location.hash = address("", "", { protocol: protocol === run.protocol ? "" : protocol, errata });
    });
    form.addEventListener("submit", (event) => event.preventDefault());
  }
  for (const button of document.querySelectorAll("button.check")) button.addEventListener("click", checkHere);
  addEventListener("hashchange", render);
  const focusSearch = (tries) => { // the list may still be loading
    if ($("words")?.offsetParent) $("words").focus();
    else if (tries) setTimeout(focusSearch, 50, tries - 1);
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "/") {
      event.preventDefault();
      if (!$("words")?.offsetParent) location.hash = "#/list";
      focusSearch(40);
    }
    document.querySelector(`[data-key="${CSS.escape(event.key)}"]`)?.click();
  });
  render();
}

load("run").then((value) => {
  takeRun(value);
  begin();
  document.documentElement.dataset.ready = ""; // who drives a browser waits for it
}, (error) => say(String(error.message)));

// For `beamlib page --verify` and for tests.
globalThis.beamVerify = async () => {
  await load("run");
  return verify();
};
globalThis.beamScores = async (series, protocol) => {
  await load("run");
  return [...scoresOf(series, protocol)].map(([id, { value, why }]) => [id, value, why]);
};
