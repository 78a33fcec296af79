"""The shipped second opinion: what the offline judge says of answers that GPT-5 has judged, as numbers.

The judge was trained on these verdicts, so what is shipped are not its own but those of judges that were trained like
it without the conversation in question: what it says of its own school says nothing of other answers.
`judged_offline.csv` is made by `benchmarks/judge.py --verdicts` from the result files, which are not shipped: a line
per question, the verdicts as halves ("210").
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from beam_field.comparing import FieldSystem
from beam_field.judge_card import JudgeCard, corrections, judge_card, verdict_frame
from beam_field.questions import by_probe
from beam_field.sources import find_source, judgements, placeholder
from beamlib.files import read_text
from beamlib.llm.model import OFFLINE_NAME
from beamlib.scoring.records import Judgement, NuggetVerdict
from beamlib.scoring.scores import score_run

JUDGED_OFFLINE = Path(__file__).with_name("judged_offline.csv")


def offline_judgements(name: str) -> list[Judgement]:
    """The offline judge's verdicts on the answers of the shipped run `source/run`; empty where there are none."""
    lines = [line.split(",") for line in read_text(JUDGED_OFFLINE).splitlines()[1:]]
    return [_judgement(probe, said) for run, probe, said in lines if run == name]


def _judgement(probe: str, said: str) -> Judgement:
    question = by_probe()[probe]
    verdicts = (NuggetVerdict(nugget=placeholder(n), score=int(half) / 2) for n, half in enumerate(said))
    return Judgement(
        probe_id=probe, conversation_id=question.conversation_id, ability=question.ability, verdicts=tuple(verdicts)
    )


def judged_by_offline(system: FieldSystem) -> FieldSystem | None:
    """The system with the offline judge's verdicts in the place of the published ones, None where there are none."""
    runs = tuple((source, tuple(offline_judgements(source.name))) for source, _ in system.runs)
    return FieldSystem(runs) if all(own for _, own in runs) else None


GRADED = ("mem0/1m-top200", "mem0/1m-top50")
"""The shipped runs that both judges have judged."""


@dataclass(frozen=True, eq=False)
class JudgedTwice:
    """Scores by system, of all answers, by GPT-5 (`better`) and by the offline judge (`cheap`)."""

    better: dict[str, pd.DataFrame]
    cheap: dict[str, pd.DataFrame]


def shipped_card(protocol: str) -> tuple[JudgeCard, JudgedTwice]:
    """GPT-5 and the offline judge on the same published answers, and their scores by `protocol`."""
    systems = {find_source(name).system: name for name in GRADED}
    both = [{system: own(name) for system, name in systems.items()} for own in (judgements, offline_judgements)]
    scores = [{system: score_run(own, protocol) for system, own in judged.items()} for judged in both]
    judges = (find_source(GRADED[0]).judge, OFFLINE_NAME)
    sides = [(judge, verdict_frame(judged), own) for judge, judged, own in zip(judges, both, scores, strict=True)]
    return judge_card(sides[0], sides[1]), JudgedTwice(*scores)


def labelled_part(judged: JudgedTwice, conversations: int, seed: int) -> pd.DataFrame:
    """Each system's offline average, corrected by the better judge's scores of some conversations, drawn by `seed`."""
    known = sorted({name for frame in judged.better.values() for name in frame["conversation_id"]})
    drawn = set(np.random.default_rng(seed).permutation(known)[:conversations])
    part = {name: frame[frame["conversation_id"].isin(drawn)] for name, frame in judged.better.items()}
    return corrections(judged.cheap, part)
