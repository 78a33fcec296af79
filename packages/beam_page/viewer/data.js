// What the page knows: the run's own data file, and those of conversations as they are asked for.

const $ = (id) => document.getElementById(id);
const waiting = new Map();
const loadedFiles = new Map();
globalThis.beamPage = (name, packed) => waiting.get(name)?.(packed);

async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function load(name) {
  if (!loadedFiles.has(name)) {
    const file = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      waiting.set(name, resolve);
      script.onerror = () => reject(new Error(`page/${name}.js is missing: keep the folder "page" beside index.html.`));
      script.onload = () => script.remove();
      script.src = `page/${name}.js`;
      document.head.append(script);
    });
    const value = file.then(unpacked);
    loadedFiles.set(name, value);
    value.catch(() => loadedFiles.delete(name));
  }
  return loadedFiles.get(name);
}

let run; // the run's data file
let abilities; // their names, in order
const questions = new Map(); // by id: {id, a, q, e, em, d, c: number of the conversation, size}
const seriesOf = new Map(); // by id
const cache = new Map();

const sizeOf = (id) => id.split("-")[0];

function takeRun(value) {
  run = value;
  abilities = Object.keys(run.abilities);
  run.conversations.forEach((conversation, c) => {
    for (const one of conversation.questions)
      questions.set(one.id, { ...one, c, size: sizeOf(conversation.id), conversation: conversation.id });
  });
  for (const one of run.series) seriesOf.set(one.id, one);
}

const sizes = () => [...new Set([...questions.values()].map((one) => one.size))];
const cellOf = (series, id) => run.cells[series]?.[id];

// The arm that an arm is compared with: an ablation with the complete one, LIGHT with RAG, all others with LIGHT.
function counterpart(id) {
  const complete = id.split("-without-")[0];
  if (complete !== id && seriesOf.has(complete)) return complete;
  const wanted = seriesOf.get(id)?.memory === "light" ? "rag" : "light";
  return run.series.find((one) => one.main && one.id !== id && one.memory === wanted)?.id ?? "";
}

function asked(series) {
  const cells = run.cells[series];
  return [...questions.values()]
    .filter((one) => cells[one.id])
    .map((one) => ({ ...one, ability: one.a, rows: cells[one.id].j }));
}

// Scores of a series by question id, under a protocol or as evidence recall ("recall"); kept once made.
function scoresOf(series, protocol) {
  const key = `${protocol} ${series}`;
  if (!cache.has(key)) cache.set(key, protocol === "recall" ? recalls(series) : scoreQuestions(asked(series), protocol, abilities));
  return cache.get(key);
}

function recalls(series) {
  const cells = asked(series).map((one) => [one, cellOf(series, one.id)]);
  const held = cells.filter(([one, cell]) => one.e && (cell.s || cell.u !== undefined));
  return new Map(held.map(([one, cell]) => [one.id, cell.s ? scored(cell.s.length / one.e.length) : unscored(cell.u)]));
}

function rowsOf(series, protocol, size, treatment) {
  const scores = scoresOf(series, protocol);
  return asked(series)
    .filter((one) => one.size === size && scores.has(one.id) && (treatment !== "drop" || one.d !== 2))
    .map((one) => ({ id: one.id, conversation: one.conversation, ability: one.ability, value: scores.get(one.id).value, never: isNever(scores.get(one.id)) }));
}

// A number as cells show it, of what Python printed: [mean, low, high, questions, conversations, unscored].
// One over fewer conversations than `most`, which its table names for the size, says how many.
function cellText(found, most) {
  if (!found || found[0] === null) return found && !found[5] ? "not computable" : "–";
  if (found[6]) return `${found[0]} (equal in all ${found[4]})`;
  const shown = found[1] === null ? found[0] : `${found[0]} [${found[1]}, ${found[2]}]`;
  return found[4] < most ? `${shown} (n = ${found[4]})` : shown;
}

// Where we are: {view, id, and what stands after "?"}; the address of the page holds all of it.
function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  const found = { view, id: decodeURIComponent(rest.join("/")) };
  for (const [name, value] of new URLSearchParams(query ?? "")) found[name] = value;
  return found;
}

function address(view, id, values) {
  const given = Object.entries(values).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const query = new URLSearchParams(given).toString();
  return `#/${view}${id ? `/${encodeURIComponent(id)}` : ""}${query ? `?${query}` : ""}`;
}

const protocolNow = (at) => (run.protocols.some(([name]) => name === at.protocol) ? at.protocol : run.protocol);

// An element; every text goes in as text.
function h(tag, values, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(values ?? {}))
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  made.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== ""));
  return made;
}

const say = (text) => ($("said").textContent = text);
