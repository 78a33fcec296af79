"""The tables and figures of the MEME report, published results beside those of a run, and what the episodes hold.

What was published stands in `published_meme.csv` as it was printed (section 2.9 of the fact sheet; the last row is from
its section 1). It was measured on the released episodes with models of its own, so the two blocks are no one table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from io import StringIO
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beam_meme.episode_gold import SHORT, TASKS, EpisodeGold, LoadedEpisode, MemeGold, MemeTask
from beam_meme.episodes import DOMAINS, Session
from beam_meme.meme_memories import own_name
from beam_meme.meme_scoring import FAILURE_STAGES, FILTERED, OUTCOME_KINDS, OVERALL, FailureStage
from beamlib.evaluate.records import ContextLosses
from beamlib.llm.model import Usage
from beamlib.report.figures import COLUMN_WIDTH, PAGE_WIDTH, bars, legend, style
from beamlib.report.footer import Footer
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING, with_interval
from beamlib.text import money, token_counter

_PROTOCOL = (
    "exact recall by containment, the other tasks by the judge; a cascade, absence or deletion counts only if the "
    "value was known before the change; overall is the plain mean of the six tasks"
)
_PUBLISHED = "published"
OURS = "this run"
USED = ("ingest", "maintenance", "retrieval", "answer")
"""The stages that spend tokens."""

_NAMES: Mapping[str, str] = {**{str(task): SHORT[task] for task in TASKS}, OVERALL: "Overall"}
_PUBLISHED_NOTE = (
    "Published: gpt-4.1-mini inside and answering unless the row says otherwise, judge GPT-4o, filler 32K, 100 "
    "episodes (Opus 4.7: 20); its intervals are not known."
)


def published() -> pd.DataFrame:
    """What was published, a row per system, every cell as the text that was printed (or "")."""
    text = files("beam_meme").joinpath("published_meme.csv").read_text("utf-8")
    return pd.read_csv(StringIO(text), dtype=str, keep_default_na=False)


def meme_basis(
    scores: pd.DataFrame,
    *,
    judge: str,
    reader: str,
    data: str,
    treatment: str,
    token_counter: str,
    episodes: int,
    reasons: Mapping[str, int] | None = None,
    losses: Mapping[str, ContextLosses] | None = None,
    memories: tuple[str, ...] = (),
) -> Footer:
    """What the tables of `scores` (of `meme_scoring.score_episodes`) rest on.

    `data` says where the episodes come from, `treatment` the filler variant; the rest is as in `Footer`.
    """
    overall = scores[scores["task"] == OVERALL]
    asked = overall["n"] + overall["unscored"]
    return Footer(
        protocol=f"MEME: {_PROTOCOL}",
        judge=judge,
        reader=reader,
        data_revision=f"{data} (a conversation is an episode)",
        n_conversations=episodes,
        n_questions=int(asked.max()) if len(asked) else 0,
        unscored=int(overall["unscored"].sum()),
        interval=f"95 % t-interval over episodes (n = {episodes}), logit scale"
        if episodes > 1
        else "none (one episode)",
        treatment=treatment,
        token_counter=token_counter,
        reasons=reasons or {},
        losses=losses or {},
        memories=memories,
    )


def results_table(scores: pd.DataFrame, basis: Footer, *, filtered: bool = True) -> Table:
    """Every memory's share per task with its interval, below what was published.

    Not `filtered`: the share of plain passes, known before the change or not, which nothing was published of.
    """
    if not filtered:
        return _unfiltered(scores, basis)
    names = [SHORT[task] for task in TASKS]
    order = [*TASKS, OVERALL]
    rows = [(_PUBLISHED, row["system"], *(_printed(row[name]) for name in (*names, "overall"))) for row in _published()]
    for memory, own in _by_memory(scores):
        rows.append((OURS, memory, *(_share(own[task, 0]) for task in order)))
    cells = pd.DataFrame(rows, columns=["", "System", *names, "Overall"])
    notes = (_PUBLISHED_NOTE, *_same_make(scores))
    pooled = scores[scores["hop"] == 0].drop(columns="hop")
    return Table("MEME: results", cells, tuple(basis.lines()), notes, csv=pooled, frame=pooled, basis=basis)


def _unfiltered(scores: pd.DataFrame, basis: Footer) -> Table:
    order = [*TASKS, OVERALL]
    rows = [(OURS, memory, *(_plain(own[task, 0]["raw"]) for task in order)) for memory, own in _by_memory(scores)]
    cells = pd.DataFrame(rows, columns=["", "System", *(SHORT[task] for task in TASKS), "Overall"])
    notes = (
        "Plain passes: of deletion, cascade and absence also those of a memory that did not know the value before. An "
        "empty one passes every deletion and absence.",
    )
    return Table("MEME: results before the filter", cells, tuple(basis.lines()), notes, csv=cells, basis=basis)


def _same_make(scores: pd.DataFrame) -> tuple[str, ...]:
    own = set(scores["memory"])
    systems = ((system, own_name(system)) for system in published()["system"])
    pairs = [f"{system} and {memory}" for system, memory in systems if memory in own]
    return (f"Of the same make: {', '.join(pairs)}.",) if pairs else ()


def kinds_table(scores: pd.DataFrame, basis: Footer) -> Table:
    """Per memory and task what counts, what plainly passes, partial credit, and the four kinds of outcome."""
    rows = [
        (
            memory,
            _task_name(task, hop),
            str(row["n"]),
            str(row["unscored"]),
            _share(row),
            _plain(row["raw"]),
            _plain(row["partial"]),
            *(str(row[f"n {kind}"]) if task in FILTERED else NOTHING for kind in OUTCOME_KINDS),
            str(row["not known"]) if task in FILTERED else NOTHING,
        )
        for memory, own in _by_memory(scores)
        for (task, hop), row in own.items()
    ]
    columns = [
        "Memory",
        "Task",
        "n",
        "Unscored",
        "Counts",
        "Passes",
        "Partial",
        *map(str.capitalize, OUTCOME_KINDS),
        "No before",
    ]
    notes = (
        "Counts: the published score, of deletion, cascade and absence the real passes alone. Passes: before that "
        "filter. Partial: share of values given (Agg), given in order (Tr).",
        "Real: known before the change, right after it. Trivial: only right after it. No before: of these outcomes, "
        "those without an answer from before the change, which count as not known.",
    )
    cells = pd.DataFrame(rows, columns=columns)
    return Table("MEME: kinds of pass", cells, tuple(basis.lines()), notes, csv=scores, frame=scores, basis=basis)


def stage_table(found: Iterable[tuple[str, MemeTask, FailureStage]], basis: Footer) -> Table:
    """How many answers of each memory and task went wrong at each stage; `found` has a row per scored answer."""
    counts: dict[tuple[str, MemeTask], Counter[FailureStage]] = {}
    for memory, task, stage in found:
        counts.setdefault((memory, task), Counter())[stage] += 1
    memories = list(dict.fromkeys(memory for memory, _ in counts))
    rows = [
        (memory, SHORT[task], str(own.total()), *(str(own[stage]) for stage in FAILURE_STAGES))
        for memory in memories
        for task in TASKS
        if (own := counts.get((memory, task)))
    ]
    columns = ["Memory", "Task", "n", *(stage if stage == "right" else f"not {stage}" for stage in FAILURE_STAGES)]
    notes = (
        "The first stage that failed: stored at all, still there when asked, retrieved whole, used in the answer.",
    )
    cells = pd.DataFrame(rows, columns=columns)
    return Table("MEME: where answers go wrong", cells, tuple(basis.lines()), notes, basis=basis)


def token_table(used: Mapping[str, Mapping[str, Usage]], episodes: Mapping[str, int], basis: Footer) -> Table:
    """Show tokens per episode by stage (`USED`), in and out, of each memory.

    `used` has the sums over the `episodes` of a memory.
    """
    rows = []
    for memory, stages in used.items():
        count = max(episodes[memory], 1)
        tokens = [stages.get(stage, Usage()) for stage in USED]
        rows.append(
            (memory, *(f"{part / count:,.0f}" for one in tokens for part in (one.input_tokens, one.output_tokens)))
        )
    groups = ("", *(stage for stage in USED for _ in range(2)))
    cells = pd.DataFrame(rows, columns=["System", *("in", "out") * len(USED)])
    named = cells.set_axis(["System", *(f"{stage} {way}" for stage in USED for way in ("in", "out"))], axis=1)
    notes = ("Tokens per episode as the models' replies report them.",)
    footer = tuple(basis.lines())
    return Table("MEME: tokens per episode", cells, footer, notes, groups=groups, csv=named, frame=named, basis=basis)


def episode_cost_table(
    dollars: Mapping[str, Sequence[Mapping[str, float | None]]],
    basis: Footer,
    scored: Mapping[str, tuple[int, int]] | None = None,
) -> Table:
    """Show what each memory cost in dollars, below what was published.

    Args:
        dollars: The costs of each episode by stage.
        scored: By memory, how many of its questions could be scored, and how many were asked. The ratio is to the
            cheapest system of the same block that costs anything and has at least half of its questions scored: one
            that failed is cheap because it stopped. It has no ratio.
    """
    counts = {memory: (asked - done, asked) for memory, (done, asked) in (scored or {}).items()}
    failed = {memory for memory, (missing, asked) in counts.items() if 2 * missing > asked}
    rows: list[tuple[str, str, list[float | None], float | None, float | None]] = []
    for row in _published():
        if row["inference_dollars"]:
            ingest, inference = float(row["ingest_dollars"] or 0), float(row["inference_dollars"])
            rows.append((_PUBLISHED, row["system"], [ingest, None, inference], ingest + inference, None))
    for memory, episodes in dollars.items():
        means = [_mean_cost(episodes, stages) for stages in (("ingest",), ("maintenance",), ("retrieval", "answer"))]
        known = [part for part in means if part is not None]
        whole = sum(known) if len(known) == len(means) else None
        rows.append((OURS, memory, means, whole, None if whole is None else whole * len(episodes)))
    theirs = [whole for block, _, _, whole, _ in rows if block == _PUBLISHED and whole]
    ours = [whole for block, memory, _, whole, _ in rows if block == OURS and whole and memory not in failed]
    cheapest = {_PUBLISHED: min(theirs, default=None), OURS: min(ours, default=None)}

    def ratio(block: str, system: str, whole: float | None) -> str:
        missing, asked = counts.get(system, (0, 0)) if block == OURS else (0, 0)
        least = None if block == OURS and system in failed else cheapest[block]
        shown = f"{whole / least:.1f}" if whole and least else NOTHING
        return f"{shown} ({missing} of {asked} unscored)" if missing else shown

    cells = pd.DataFrame(
        [
            (
                block,
                system,
                *(_dollars(part, NOTHING if block == _PUBLISHED else "unknown") for part in parts),
                _dollars(whole),
                ratio(block, system, whole),
                _dollars(total, NOTHING if block == _PUBLISHED else "unknown"),
            )
            for block, system, parts, whole, total in rows
        ],
        columns=["", "System", "ingest", "maintenance", "answering", "per episode", "ratio", "all episodes"],
    )
    notes = (
        "US dollars per episode: by the prices of the models file and the tokens that endpoints report; unknown where "
        "the file has no price for a model that was called, or another model. Published: ingest holds maintenance.",
        "Ratio: to the cheapest of the block with at least half of its questions scored. Answering holds retrieval. "
        "Vectors count where an endpoint makes them.",
    )
    return Table("MEME: costs", cells, tuple(basis.lines()), notes, csv=cells, frame=cells, basis=basis)


def _mean_cost(episodes: Sequence[Mapping[str, float | None]], stages: Sequence[str]) -> float | None:
    costs = [episode[stage] for episode in episodes for stage in stages]
    known = [cost for cost in costs if cost is not None]
    return sum(known) / len(episodes) if episodes and len(known) == len(costs) else None


def _dollars(value: float | None, unknown: str = "unknown") -> str:
    return unknown if value is None else money(value)


def _published() -> list[dict[str, str]]:
    rows: list[dict[str, str]] = published().to_dict("records")  # type: ignore[assignment]
    return rows


def _by_memory(scores: pd.DataFrame) -> Sequence[tuple[str, dict[tuple[str, int], Mapping[str, Any]]]]:
    """The rows of each memory by task and hop, in the order of the frame; hops that were not asked are left out."""
    found: dict[str, dict[tuple[str, int], Mapping[str, Any]]] = {}
    for row in scores.to_dict("records"):
        if row["hop"] == 0 or row["n"] + row["unscored"] > 0:
            found.setdefault(row["memory"], {})[row["task"], row["hop"]] = {str(key): row[key] for key in row}
    return list(found.items())


def _task_name(task: str, hop: int) -> str:
    return f"{_NAMES[task]}, hop {hop}" if hop else _NAMES[task]


def _share(row: Mapping[str, Any]) -> str:
    return with_interval(_plain(row["real"]), row["low"], row["high"], None)


def _plain(value: float) -> str:
    return NOTHING if pd.isna(value) else f"{value:.2f}"


def _printed(text: str) -> str:
    """A printed share with its zero: ".05" becomes "0.05"; nothing was printed where there is none."""
    return f"0{text}" if text.startswith(".") else text or NOTHING


def published_table() -> Table:
    """Show what was published, a row per system, without anything of this run."""
    names = [SHORT[task] for task in TASKS]
    rows = [(row["system"], *(_printed(row[name]) for name in (*names, "overall"))) for row in _published()]
    cells = pd.DataFrame(rows, columns=["System", *names, "Overall"])
    return Table("MEME: published results", cells, (_PUBLISHED_NOTE,), csv=cells, frame=cells)


def published_figure() -> Figure:
    """Draw the published shares: a group of bars per task, a bar per system; their intervals are not known."""
    frame = published_table().cells.set_index("System").T
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 2.8))
        axes = figure.subplots()
        frame.apply(pd.to_numeric, errors="coerce").plot.bar(ax=axes, width=0.8, edgecolor="white", legend=False, rot=0)
        axes.set(ylim=(0, 1.02), ylabel="share that counts, published\n(no intervals known)")
        legend(figure, axes, 3)
    return figure


_KIND_COLOURS = ("#0072B2", "#E69F00", "#999999", "#DDDDDD")
_STAGE_COLOURS = ("#DDDDDD", "#999999", "#E69F00", "#D55E00", "#0072B2")
"""What is right is blue in both, and what a memory never had is light."""


def filler_figure(frame: pd.DataFrame, answered_by: str) -> Figure:
    """The overall share of every memory with and without filler, as `meme_study.filler_frame` has it."""
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 2.8))
        axes = figure.subplots()
        bars(axes, frame, "memory", "variant")
        axes.set(ylim=(0, 1.02), xlabel="", ylabel=f"overall share that counts\n{answered_by}")
        for name in axes.get_xticklabels():
            name.set(rotation=25, ha="right", rotation_mode="anchor")
        legend(figure, axes, 3)
    return figure


def kinds_figure(frame: pd.DataFrame, answered_by: str) -> Figure:
    """The four kinds of outcome of each filtered task, a panel per task and a bar per memory."""
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 1.0 + 0.2 * frame["memory"].nunique()))
        panels = figure.subplots(1, len(FILTERED), sharey=True)
        for axes, task in zip(panels, FILTERED, strict=True):
            _stacked(axes, frame[frame["task"] == task], OUTCOME_KINDS, _KIND_COLOURS)
            axes.set_title(f"{task} ({SHORT[task]})", loc="left")
        figure.supxlabel(f"questions after the change; {answered_by}", fontsize="medium")
        legend(figure, panels[0], len(OUTCOME_KINDS))
    return figure


def stage_figure(frame: pd.DataFrame, answered_by: str) -> Figure:
    """At which stage each memory's answers failed, a bar per memory."""
    with style():
        figure = Figure(figsize=(COLUMN_WIDTH * 1.6, 1.0 + 0.2 * len(frame)))
        axes = figure.subplots()
        named = frame.rename(columns={stage: _stage_name(stage) for stage in FAILURE_STAGES})
        _stacked(axes, named, [_stage_name(stage) for stage in FAILURE_STAGES], _STAGE_COLOURS)
        axes.set(xlabel=f"answers after the change; {answered_by}")
        legend(figure, axes, 3)
    return figure


def _stage_name(stage: str) -> str:
    return stage if stage == "right" else f"not {stage}"


def _stacked(axes: Axes, frame: pd.DataFrame, parts: Sequence[str], colours: Sequence[str]) -> None:
    """A bar per memory, the first on top, its parts side by side."""
    own = frame.set_index("memory")[list(parts)].iloc[::-1]
    own.plot.barh(stacked=True, ax=axes, color=list(colours), width=0.8, edgecolor="white")
    axes.set_ylabel("")
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")


PUBLISHED_COUNTS = {
    "episodes": "100",
    **dict.fromkeys((f"episodes, {domain}" for domain in DOMAINS), "50"),
    "questions after the change": "694",
    "questions before the change": "494",
    **dict.fromkeys((f"questions, {task}" for task in TASKS), "100"),
    "questions, absence": "130",
    "questions, cascade": "164",
    "questions after the change per episode, fewest": "6",
    "questions after the change per episode, most": "8",
    "sessions per episode": "about 21",
    "evidence sessions per episode": "5 in the one at hand",
    "tokens per episode": "about 32K of filler",
}
"""Of the variant with 32K tokens of filler, unless it says otherwise; counts of questions are from third parties."""

PUBLISHED_COUNTS_128K = {"episodes": "40", "questions after the change": "277", "questions before the change": "197"}
"""Of the variant with 128K tokens, which has fewer episodes; no other count of it is known to us."""


def statistics(loaded: Sequence[LoadedEpisode]) -> Table:
    """What the episodes hold: a row per count, ours and the published one."""
    counter = token_counter("auto")
    rows = dict(_counts(loaded)) | {"tokens per episode": _mean(sum(map(counter.count, _texts(one))) for one in loaded)}
    variant = loaded[0].variant if loaded else "none"
    published = PUBLISHED_COUNTS_128K if variant == "filler128k" else PUBLISHED_COUNTS
    frame = pd.DataFrame(
        [{"count": name, "these": value, "published": published.get(name, "")} for name, value in rows.items()],
        dtype=object,
    )
    odd = sum(bool(one.notes) for one in loaded)
    notes = (f"Tokens by {counter.name}, of all that is said. {odd} of {len(loaded)} episodes had something odd.",)
    return Table(f"MEME episodes, {variant}", frame.astype(str), notes, names=1, frame=frame)


def _counts(loaded: Sequence[LoadedEpisode]) -> Iterator[tuple[str, float]]:
    yield "episodes", len(loaded)
    domains = Counter(one.episode.domain for one in loaded)
    yield from ((f"episodes, {domain}", domains[domain]) for domain in DOMAINS)
    after = [[gold for gold in one.gold.questions.values() if gold.phase == "after"] for one in loaded]
    yield "questions after the change", sum(map(len, after))
    tasks = Counter(gold.task for questions in after for gold in questions)
    yield from ((f"questions, {task}", tasks[task]) for task in TASKS)
    changed = [
        one for questions, of in zip(after, loaded, strict=True) for one in questions if _over_a_middle(one, of.gold)
    ]
    yield "questions, aggregation with a value that follows from a rule", len(changed)
    yield "questions after the change per episode, fewest", min(map(len, after), default=0)
    yield "questions after the change per episode, most", max(map(len, after), default=0)
    yield "questions before the change", sum(len(one.gold.questions) for one in loaded) - sum(map(len, after))
    yield "sessions per episode", _mean(len(one.episode.sessions) for one in loaded)
    yield "evidence sessions per episode", _mean(len(one.gold.evidence) for one in loaded)
    yield "facts per episode", _mean(len(one.gold.facts) for one in loaded)


def _over_a_middle(asked: MemeGold, gold: EpisodeGold) -> bool:
    """Whether an aggregation asks for a value that a rule has changed, so that it is a cascade in part."""
    return asked.task == "aggregation" and any(edge.target in asked.entity.split("+") for edge in gold.edges)


def _texts(loaded: LoadedEpisode) -> Iterator[str]:
    sessions: Sequence[Session] = loaded.episode.sessions
    return (line.content for session in sessions for line in session.lines)


def _mean(values: Iterator[int]) -> float:
    found = list(values)
    return round(sum(found) / len(found), 1) if found else 0.0
