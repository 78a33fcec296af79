"""What the offline judge is measured by: agreement with published verdicts, answers made to be wrong, speed."""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

import judge_attacks as attacks
import judge_changes as changes
import judge_samples as samples
from beam_field.sources import question_hash, questions
from beam_offline.judge import judge
from beam_offline.judge.trained import trained
from beamlib.errors import UserError
from beamlib.places import ROOT
from beamlib.scoring.intervals import difference_interval

LEVELS: Final = (0.0, 0.5, 1.0)
HELD_OUT: Final = tuple(range(1, 11))
"""Conversations of 100K that nothing was trained on."""

COUNTED: Final = ("100k-run0", "100k-run1")

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Agreement:
    """The judge against GPT-5 on one run: a row of `judge_error.csv`.

    `kappa` is Cohen's over 0, 0.5 and 1, `kappa_half` over at least 0.5, `equal` the share of equal verdicts; None
    where only counts per question were published. `bias` is the judge's mean over questions of the nugget mean less
    GPT-5's, with a 95 % interval over conversations, and `conversation_sd` how far it differs between conversations.
    """

    run: str
    nuggets: int
    conversations: int
    kappa: float | None
    kappa_half: float | None
    equal: float | None
    bias: float
    bias_low: float | None
    bias_high: float | None
    conversation_sd: float | None


@dataclass(frozen=True, slots=True)
class Made:
    """What the judge pays for answers of one kind: the mean over the abilities of the mean over their nuggets."""

    answers: str
    n: int
    mean: float
    goal: str


def kappa(first: Scores, second: Scores) -> float:
    """Cohen's κ of two lists of verdicts."""
    levels = np.union1d(first, second)
    chance = sum((first == level).mean() * (second == level).mean() for level in levels)
    return float(((first == second).mean() - chance) / (1 - chance)) if chance < 1 else 1.0


def _bias(differences: dict[tuple[str, str], list[float]]) -> tuple[float, float | None, float | None, float | None]:
    """Mean, interval and spread over conversations of the questions' differences, by conversation and question."""
    by_conversation: dict[str, list[float]] = {}
    for (conversation, _), found in differences.items():
        by_conversation.setdefault(conversation, []).append(float(np.mean(found)))
    means = np.array([np.mean(found) for found in by_conversation.values()])
    if len(means) < 2:
        return float(means.mean()), None, None, None
    low, high = difference_interval(means)
    return float(means.mean()), float(low), float(high), float(means.std(ddof=1))


def agreement(run: str, rows: Sequence[samples.Judged], ours: Scores) -> Agreement:
    """How `ours` agree with the verdicts of `rows`."""
    theirs = np.array([row.score for row in rows])
    differences: dict[tuple[str, str], list[float]] = {}
    for row, one in zip(rows, ours.tolist(), strict=True):
        differences.setdefault((row.conversation, row.probe), []).append(one - row.score)
    return Agreement(
        run, len(rows), len({row.conversation for row in rows}), kappa(theirs, ours),
        kappa(theirs >= 0.5, ours >= 0.5), float((theirs == ours).mean()), *_bias(differences),
    )  # fmt: skip


def held_out_scores(data: Path) -> tuple[list[samples.Judged], Scores]:
    """Published verdicts, and those of models trained as the shipped one, without the conversation they are on."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import train_judge  # type: ignore[import-not-found]
    except ModuleNotFoundError as error:
        raise UserError(
            f"agreement needs {error.name}, which training needs too; pip install 'lightgbm>=4.5,<5'."
        ) from None
    found = train_judge.sample_rows(data)
    rows = train_judge.rows_of(found, train_judge.order_table(found))
    said = train_judge.out_of_fold(rows)
    ours = train_judge.verdicts(said, rows.values[rows.real], trained()["thresholds"])
    return list(samples.published_verdicts(data)), ours


def counted_runs(data: Path) -> Iterator[Agreement]:
    """The two runs on one conversation of 100K, of which only counts are known and nothing was trained on."""
    for number, run in enumerate(COUNTED):
        path = data / "verdicts" / f"100k_run{number}.json.gz"
        differences: dict[tuple[str, str], list[float]] = {}
        nuggets = 0
        for entry in json.loads(gzip.decompress(path.read_bytes())):
            full, partial, none = map(
                int, re.findall(r"(\d+) (?:full|partial|none)", entry["metrics"]["beam_rubric"]["reason"])
            )
            theirs = (full + partial / 2) / (full + partial + none)
            ours = np.mean([judge(entry["question"], nugget, entry["answer"]).score for nugget in entry["rubric"]])
            differences["100K-2", entry["question"]] = [float(ours) - theirs]
            nuggets += len(entry["rubric"])
        yield Agreement(run, nuggets, 1, None, None, None, *_bias(differences))


def packed(rows: Sequence[samples.Judged], ours: Scores) -> str:
    """`beam_field`'s judged_offline.csv: a line per question of a published run, its verdicts as halves."""
    known = questions()
    found: dict[tuple[str, str], str] = {}
    for row, score in zip(rows, ours, strict=True):
        key = f"mem0/{row.run}", known[question_hash(row.conversation.partition("-")[0], row.question)].probe_id
        found[key] = found.get(key, "") + str(int(2 * score))
    lines = [("run", "probe", "verdicts"), *((*key, said) for key, said in found.items())]
    return "".join(f"{','.join(line)}\n" for line in lines)


def agreements(data: Path, rows: Sequence[samples.Judged], ours: Scores) -> list[Agreement]:
    """A row for each published run, and for both of mem0 together; verdicts as `held_out_scores` gives them."""
    found = []
    for run in samples.VERDICT_FILES:
        chosen = [at for at, row in enumerate(rows) if row.run == run]
        found.append(agreement(run, [rows[at] for at in chosen], ours[chosen]))
    return [*found, agreement("1m-both", rows, ours), *counted_runs(data)]


# Answers that were made ----------------------------------------------------------------------------------------------

Maker = Callable[[samples.Asked, Sequence[samples.Asked], Sequence[tuple[str, str]], random.Random], str]

MADE: Final[dict[str, tuple[Maker, str]]] = {
    "the reference": (lambda one, all_, said, choice: one.reference, ">= .90"),
    "nothing": (lambda one, all_, said, choice: "", ".00"),
    "I don't know": (lambda one, all_, said, choice: "I don't know.", "low but for abstention"),
    "the question": (lambda one, all_, said, choice: one.question, "low"),
    "another question's reference": (lambda one, all_, said, choice: _other(one, all_, choice).reference, "low"),
    "the reference, negated (not)": (lambda one, all_, said, choice: changes.negated(one.reference), "<= .25"),
    "the reference, negated (never)": (lambda one, all_, said, choice: changes.negated(one.reference, 1), "<= .25"),
    "the reference, negated (it is not true that)": (
        lambda one, all_, said, choice: changes.negated(one.reference, 2),
        "<= .25",
    ),
    "the reference, words shuffled": (
        lambda one, all_, said, choice: changes.shuffled(one.reference, choice),
        "<= .35",
    ),
    "the reference, all numbers + 3": (
        lambda one, all_, said, choice: changes.numbers_changed(one.reference),
        "<= .35",
    ),
    "ten random pairs of messages": (lambda one, all_, said, choice: samples.random_pairs(said, choice), "<= .15"),
    "three random pairs of messages": (lambda one, all_, said, choice: samples.random_pairs(said, choice, 3), "low"),
    "the first 1,500 tokens of the chat": (lambda one, all_, said, choice: samples.first_tokens(said), "<= .20"),
    "the cited messages among others": (
        lambda one, all_, said, choice: samples.pasted_context(said, one.cited, choice),
        "low",
    ),
    "all references of the conversation": (
        lambda one, all_, said, choice: "\n".join(f"- {two.reference}" for two in all_),
        "low",
    ),
}
"""What stands in the place of an answer, by its name, and what it should be paid at most or at least."""


def _other(one: samples.Asked, asked: Sequence[samples.Asked], choice: random.Random) -> samples.Asked:
    return choice.choice([two for two in asked if two.ability != one.ability])


def _mean(found: dict[str, list[float]]) -> float:
    return float(np.mean([np.mean(scores) for scores in found.values()]))


def attacked(loaded: Mapping[int, Sequence[samples.Asked]]) -> Iterator[Made]:
    """What it pays for answers by `judge_attacks`; for changed figures, on nuggets that have such figures."""
    for name, change in attacks.CHANGES.items():
        found: dict[str, list[float]] = {}
        for number, asked in loaded.items():
            choice = random.Random(number)
            for one in asked:
                answer = change(one.reference, choice)
                for nugget in one.rubric:
                    if change(nugget, choice) != nugget:
                        found.setdefault(one.ability, []).append(judge(one.question, nugget, answer).score)
        yield Made(f"the reference, {name}: nuggets with such", sum(map(len, found.values())), _mean(found), "<= .35")
    for name, (make, goal) in attacks.ATTACKS.items():
        found = {}
        for number, asked in loaded.items():
            choice = random.Random(number)
            for one in asked:
                answer = make(one, asked, choice)
                for nugget in one.rubric:
                    found.setdefault(one.ability, []).append(judge(one.question, nugget, answer).score)
        yield Made(name, sum(map(len, found.values())), _mean(found), goal)


def made_answers(data: Path, conversations: Sequence[int] = HELD_OUT) -> Iterator[Made]:
    """What the judge pays on conversations of 100K for answers that are made up, and for pasted contexts."""
    loaded = {
        number: (samples.questions(data / "beam", "100K", number), samples.messages(data / "beam", "100K", number))
        for number in conversations
    }
    for name, (make, goal) in MADE.items():
        found: dict[str, list[float]] = {}
        figures: dict[str, list[float]] = {}
        for number, (asked, said) in loaded.items():
            choice = random.Random(number)
            for one in asked:
                answer = make(one, asked, said, choice)
                for nugget in one.rubric:
                    verdict = judge(one.question, nugget, answer).score
                    found.setdefault(one.ability, []).append(verdict)
                    if samples.has_figures(nugget):
                        figures.setdefault(one.ability, []).append(verdict)
        yield Made(name, sum(map(len, found.values())), _mean(found), goal)
        if "numbers" in name:
            yield Made(f"{name}: nuggets with numbers", sum(map(len, figures.values())), _mean(figures), goal)
    yield from attacked({number: asked for number, (asked, _) in loaded.items()})
    for number in range(len(COUNTED)):
        yield _contexts(data / "verdicts" / f"100k_run{number}.json.gz", COUNTED[number])


def _contexts(path: Path, run: str) -> Made:
    """A real system's whole retrieved context in the place of its answers."""
    found: dict[str, list[float]] = {}
    for entry in json.loads(gzip.decompress(path.read_bytes())):
        for nugget in entry["rubric"]:
            verdict = judge(entry["question"], nugget, str(entry["retrieval_context"])).score
            found.setdefault(entry["question_type"], []).append(verdict)
    return Made(f"the whole retrieved context of {run}", sum(map(len, found.values())), _mean(found), "low")


def speed(data: Path, passes: int = 6) -> tuple[float, float, float]:
    """Nuggets of the first published run that are judged in a second of processor time, the encoder being loaded.

    While words and nuggets are new; the median of the passes after; and the seconds of ten million additions in Python,
    which tell how fast the machine is.
    """
    rows = [row for row in samples.published_verdicts(data) if row.run == "1m-top200"]
    judge("Where is it?", "LLM response should state: here", "It is here.")
    rates = []
    for _ in range(passes):
        started = time.process_time()
        for row in rows:
            judge(row.question, row.nugget, row.answer)
        rates.append(len(rows) / (time.process_time() - started))
    started, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return rates[0], float(np.median(rates[1:])), time.process_time() - started


def as_csv(rows: Sequence[Agreement] | Sequence[Made]) -> str:
    """A table as CSV: shares with three decimals, empty where there is none."""
    lines = [",".join(asdict(rows[0]))]
    for row in rows:
        cells = [
            f"{cell:.3f}" if isinstance(cell, float) else "" if cell is None else str(cell)
            for cell in asdict(row).values()
        ]
        lines.append(",".join(f'"{cell}"' if "," in cell else cell for cell in cells))
    return "\n".join(lines) + "\n"
