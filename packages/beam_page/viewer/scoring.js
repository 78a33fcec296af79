// The scoring protocols, means and intervals of beamlib.scoring, again: from the verdicts that this page holds.
// Nothing in this file touches the page; `beam_page/verdict_rows.py` says what a row holds.

const NOT_COMPUTABLE = "not computable from this source"; // nothing failed: what was published lacks it
const UNDEFINED_TAU = "Kendall's tau-b is undefined: fewer than two different events";
const scored = (value) => ({ value, why: "" });
const unscored = (why, stops = false) => ({ value: null, why, stops });

function nuggetScores(row) {
  if (!row.v.length) return unscored(row.u ?? "the judgement holds no verdicts");
  const missing = row.v.filter((one) => one === null).length;
  if (missing && row.w.startsWith(NOT_COMPUTABLE)) return unscored(row.w);
  if (missing) return unscored(`${missing} of ${row.v.length} nuggets unscored: ${row.w}`);
  return row.v.map((one) => one / 2);
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
const meanOf = (values) => sum(values) / values.length;

function rubricMean(row) {
  const scores = nuggetScores(row);
  return Array.isArray(scores) ? scored(meanOf(scores)) : scores;
}

function ranks(side, union) {
  const position = new Map(side.map((event, place) => [event, place + 1])); // a repeated event keeps its last position
  return union.map((event) => position.get(event) ?? union.length + 1);
}

function tauB(first, second) {
  if (new Set(first).size < 2 || new Set(second).size < 2) return NaN;
  let agreeing = 0;
  for (let i = 1; i < first.length; i++)
    for (let j = 0; j < i; j++) agreeing += Math.sign(first[i] - first[j]) * Math.sign(second[i] - second[j]);
  const pairs = (number) => (number * (number - 1)) / 2;
  const untied = (side) => {
    const counts = new Map();
    for (const one of side) counts.set(one, (counts.get(one) ?? 0) + 1);
    return pairs(side.length) - sum([...counts.values()].map(pairs));
  };
  return Math.min(1, Math.max(-1, agreeing / Math.sqrt(untied(first)) / Math.sqrt(untied(second))));
}

function orderOf(reference, system) {
  const inReference = new Set(reference);
  const inSystem = new Set(system);
  const hits = [...inReference].filter((one) => inSystem.has(one)).length;
  const ratio = (part, whole) => (whole ? part / whole : 0);
  const precision = ratio(hits, hits + system.filter((one) => !inReference.has(one)).length);
  const recall = ratio(hits, hits + reference.filter((one) => !inSystem.has(one)).length);
  const f1 = ratio(2 * precision * recall, precision + recall);
  const union = [...new Set([...reference, ...system])];
  const tau = tauB(ranks(reference, union), ranks(system, union));
  return { precision, recall, f1, tau };
}

function itemOrder(row) {
  if (!row.i) return unscored(row.u ?? "the judgement holds no 'items' alignment");
  const events = row.v.map((_, nugget) => nugget).filter((nugget) => !(row.o ?? []).includes(nugget));
  const place = new Map(events.map((nugget, event) => [nugget, event]));
  const matches = row.i.map((match) => (match === null ? null : place.get(match) ?? null));
  return orderOf(events.map((_, event) => event), matches.map((match, item) => match ?? events.length + item));
}

function ordered(row, ability, worth) {
  if (ability !== "event_ordering") return rubricMean(row);
  const order = itemOrder(row);
  if (order.why !== undefined) return order;
  const value = order.f1 === 0 ? 0 : worth(order);
  return Number.isNaN(value) ? unscored(UNDEFINED_TAU) : scored(value);
}

function releasedCode(row, ability) {
  if (!row.v.length) return unscored(row.u ?? "the judgement holds no verdicts");
  const stopped = (number) =>
    unscored(`the released scorer stops: it cannot read the reply to nugget ${number}`, true);
  if (ability === "event_ordering") {
    if (!row.l) return unscored(row.u ?? "the judgement holds no 'newline' alignment", true);
    const unread = (row.r ?? []).indexOf(null);
    if (unread >= 0) return stopped(unread + 1);
    const tau = orderOf(row.l[0], row.l[1]).tau;
    return Number.isNaN(tau) ? unscored(UNDEFINED_TAU) : scored((tau + 1) / 2);
  }
  const read = row.r ?? row.v.map((half) => (half === null ? null : Math.floor(half / 2)));
  const unread = read.indexOf(null);
  return unread >= 0 ? stopped(unread + 1) : scored(sum(read) / read.length);
}

const PROTOCOLS = {
  paper: (row, ability) => ordered(row, ability, (order) => (Number.isNaN(order.tau) ? NaN : Math.max(0, order.tau))),
  "released-code": releasedCode,
  "f1-weighted": (row, ability) => ordered(row, ability, (order) => ((order.tau + 1) / 2) * order.f1),
  "nugget-mean": rubricMean,
  binary: (row) => {
    const scores = nuggetScores(row);
    return Array.isArray(scores) ? scored(scores.every((one) => one === 1) ? 1 : 0) : scores;
  },
  "as-published": (row) => unscored(row.u ?? `${NOT_COMPUTABLE}: no score of the question`),
  "majority-vote": (row) => unscored(row.u ?? `${NOT_COMPUTABLE}: no votes`),
};

// `asked`: [{id, conversation, ability, rows}]. A map from id to {value, why}; value null where there is none.
function scoreQuestions(asked, protocol, abilities) {
  const rounds = Math.max(1, ...asked.map((one) => one.rows.length));
  const found = [];
  for (let number = 0; number < rounds; number++) {
    const own = asked.filter((one) => one.rows.length > number);
    const scores = new Map(own.map((one) => [one.id, scoreRow(one.rows[number], one.ability, protocol)]));
    const stopped = new Map();
    for (const one of own)
      if (scores.get(one.id).stops) {
        const place = abilities.indexOf(one.ability);
        stopped.set(one.conversation, Math.min(place, stopped.get(one.conversation) ?? place));
      }
    for (const one of own) {
      const place = stopped.get(one.conversation) ?? abilities.length;
      if (abilities.indexOf(one.ability) >= place && scores.get(one.id).value !== null)
        scores.set(one.id, unscored(`the scorer stopped at ${abilities[place]}`));
    }
    found.push(scores);
  }
  return new Map(
    asked.map((one) => {
      const values = found.map((scores) => scores.get(one.id)?.value ?? null).filter((value) => value !== null);
      return [one.id, values.length ? scored(meanOf(values)) : found[0].get(one.id)];
    }),
  );
}

function scoreRow(row, ability, protocol) {
  if (row.x?.[protocol]) {
    const [value, why, stops] = row.x[protocol];
    return value === null ? unscored(why, stops) : scored(value);
  }
  return PROTOCOLS[protocol](row, ability);
}

const TINY = 1e-12;

function student(values, quantiles) {
  const n = values.length;
  if (n < 2) return [NaN, NaN];
  const mean = meanOf(values);
  const deviation = Math.sqrt(sum(values.map((value) => (value - mean) ** 2)) / (n - 1));
  return [mean, (quantiles[n] * deviation) / Math.sqrt(n)];
}

// Equal values show no spread that an interval could rest on.
const areEqual = (values) => values.length > 1 && Math.max(...values) - Math.min(...values) < TINY;

function meanInterval(values, quantiles) {
  const [mean, half] = student(values, quantiles);
  if (Number.isNaN(mean) || areEqual(values)) return [NaN, NaN];
  const inside = Math.min(1 - TINY, Math.max(TINY, mean));
  const reach = half / (inside * (1 - inside));
  const logit = Math.log(inside / (1 - inside));
  return [-reach, reach].map((step) => 1 / (1 + Math.exp(-(logit + step))));
}

function differenceInterval(values, quantiles) {
  const [mean, half] = student(values, quantiles);
  if (Number.isNaN(mean) || areEqual(values)) return [NaN, NaN];
  return [mean - half, mean + half].map((end) => Math.min(1, Math.max(-1, end)));
}

function signFlip(values, quantiles) {
  const n = values.length;
  if (n < 2) return NaN;
  const observed = Math.abs(sum(values)) - TINY * Math.max(1, sum(values.map(Math.abs)));
  const drawn = n > quantiles.exact;
  const patterns = drawn ? quantiles.resamples : 2 ** n;
  const signs = drawn ? drawnSigns(patterns * n, quantiles) : null;
  let reached = 0;
  for (let pattern = 0; pattern < patterns; pattern++) {
    let total = 0;
    for (let place = 0; place < n; place++)
      total += (drawn ? signs[pattern * n + place] : (pattern >> place) & 1) ? -values[place] : values[place];
    if (Math.abs(total) >= observed) reached++;
  }
  return drawn ? (reached + 1) / (patterns + 1) : reached / patterns;
}

// The signs that Python draws, 1 for minus: numpy's generator (PCG64, XSL-RR) from its state; a choice of two is the
// highest bit of 32. They are one sequence whatever the number of values, so the longest so far serves all.
let signsDrawn = { signs: new Uint8Array(0) };
function drawnSigns(count, { state, increment }) {
  if (signsDrawn.signs.length >= count && signsDrawn.state === state) return signsDrawn.signs;
  const signs = new Uint8Array(count + 1);
  let held = BigInt(state);
  for (let place = 0; place < count; place += 2) {
    held = BigInt.asUintN(128, held * 0x2360ed051fc65da44385df649fccf645n + BigInt(increment));
    const mixed = (held >> 64n) ^ (held & 0xffffffffffffffffn), turn = held >> 122n;
    signs[place] = Number((mixed >> ((31n + turn) % 64n)) & 1n);
    signs[place + 1] = Number((mixed >> ((63n + turn) % 64n)) & 1n);
  }
  signsDrawn = { state, signs };
  return signs;
}

function byConversation(rows) {
  const cells = new Map();
  for (const one of rows) {
    if (!cells.has(one.conversation)) cells.set(one.conversation, new Map());
    const own = cells.get(one.conversation);
    if (!own.has(one.ability)) own.set(one.ability, []);
    if (one.value !== null) own.get(one.ability).push(one.value);
  }
  return cells;
}

const isNever = (score) => score?.why?.startsWith(NOT_COMPUTABLE) ?? false;

// `rows`: [{conversation, ability, value, never}] of one size. By ability and "average": mean, low, high, counts.
// `fixed`: by construction and no sample's means, so without intervals.
function summarise(rows, abilities, quantiles, fixed = false) {
  const present = abilities.filter((ability) => rows.some((one) => one.ability === ability));
  const lacks = new Set(rows.filter((one) => one.never).map((one) => one.ability));
  const valued = (own, ability) => !lacks.has(ability) && own.get(ability)?.length;
  const means = [...byConversation(rows).values()]
    .map((own) => present.map((ability) => (valued(own, ability) ? meanOf(own.get(ability)) : NaN)))
    .filter((line) => line.some((value) => !Number.isNaN(value)));
  const columns = present.map((_, place) => means.map((line) => line[place]));
  const held = columns.map((column) => column.filter((value) => !Number.isNaN(value)));
  const fewest = Math.min(...held.map((column) => column.length));
  const found = new Map();
  const put = (ability, values, own, conversations, spread) => {
    const ends = spread ? meanInterval(values, quantiles) : [NaN, NaN];
    const valued = own.filter((one) => one.value !== null).length;
    const missing = own.filter((one) => one.value === null && !one.never).length;
    found.set(ability, {
      numbers: [values.length ? meanOf(values) : NaN, ...ends],
      counts: [values.length || ability === "average" ? valued : 0, conversations, missing, Number(spread && areEqual(values))],
    });
  };
  present.forEach((ability, place) =>
    put(ability, held[place], rows.filter((one) => one.ability === ability), held[place].length, !fixed));
  put("average", fewest ? averageValues(columns, means.length) : [], rows, means.length, fewest >= 2 && !fixed);
  return found;
}

// A value per conversation whose mean is the average over abilities, gaps included (`intervals.conversation_values`).
function averageValues(columns, n) {
  const parts = columns.map((column) => {
    const held = column.map((value) => (Number.isNaN(value) ? 0 : 1));
    const sums = column.map((value) => (Number.isNaN(value) ? 0 : value));
    const ratio = sum(sums) / sum(held);
    return sums.map((value, place) => ratio + (value - ratio * held[place]) / (sum(held) / n));
  });
  return Array.from({ length: n }, (_, place) => meanOf(parts.map((part) => part[place])));
}

// Paired: both are maps from question id to {value}; `asked` as above. Difference, ends, p, conversations, left out.
function compareScores(asked, first, second, quantiles) {
  const both = asked.filter((one) => first.has(one.id) && second.has(one.id));
  if (both.some((one) => isNever(first.get(one.id)) || isNever(second.get(one.id))))
    return { numbers: [NaN, NaN, NaN, NaN], counts: [0, both.length] }; // the rest would not be the average
  const rows = both
    .filter((one) => first.get(one.id).value !== null && second.get(one.id).value !== null)
    .map((one) => ({ ...one, value: first.get(one.id).value - second.get(one.id).value }));
  // In Python's order of conversations: which sign a difference gets rests on its place.
  const own = [...byConversation(rows)].sort(([one], [other]) => (one < other ? -1 : 1));
  const values = own.map(([, abilities]) => meanOf([...abilities.values()].map(meanOf)));
  const mean = values.length ? meanOf(values) : NaN;
  return {
    numbers: [mean, ...differenceInterval(values, quantiles), signFlip(values, quantiles)],
    counts: [values.length, both.length - rows.length],
  };
}

// Whether what is printed is `value` to its last digit. Rounding in another order of summing may move a value by 1e-9.
function follows(printed, value, decimals) {
  if (printed === null) return Number.isNaN(value);
  return Math.abs(Number(printed) - value) <= 0.5 * 10 ** -decimals + 1e-9;
}
