"""Counts over a set of episodes, beside the published ones (section 2.1 of the fact sheet). Reads gold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pandas as pd

from beam_meme.episode_gold import TASKS, EpisodeGold, LoadedEpisode, MemeGold
from beam_meme.episodes import DOMAINS, Session
from beamlib.report.table import Table
from beamlib.text import token_counter

PUBLISHED = {
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

PUBLISHED_128K = {"episodes": "40", "questions after the change": "277", "questions before the change": "197"}
"""Of the variant with 128K tokens, which has fewer episodes; no other count of it is known to us."""


def statistics(loaded: Sequence[LoadedEpisode]) -> Table:
    """What the episodes hold: a row per count, ours and the published one."""
    counter = token_counter("auto")
    rows = dict(_counts(loaded)) | {"tokens per episode": _mean(sum(map(counter.count, _texts(one))) for one in loaded)}
    variant = loaded[0].variant if loaded else "none"
    published = PUBLISHED_128K if variant == "filler128k" else PUBLISHED
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
