"""Retrieval measured on conversations: the messages that each context shows, as ids and numbers without any text.

No model answered or judged (`beam_commands.measuring`). `SHIPPED_FILE` holds the measurements of the released
conversations at hand.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from beamlib.data.gold import Ability, Gold
from beamlib.errors import UserError
from beamlib.scoring.scores import SCORE_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

RETRIEVERS = ("bm25", "dense", "hybrid")
"""The retrievers that need no weights beyond those shipped."""

MOST_PAIRS = 30
"""The largest retrieval budget that is measured; a smaller one shows the first of its pairs."""

RAG, LIGHT = "rag", "light"
LIGHT_ARMS: Mapping[str, tuple[bool, bool, str]] = {
    LIGHT: (True, True, "filtered"),
    "light without retrieval": (False, True, "filtered"),
    "light without working memory": (True, False, "filtered"),
    "light without scratchpad": (True, True, ""),
    "light without noise filter": (True, True, "whole"),
    "light retrieval alone": (True, False, ""),
}
"""LIGHT and the ablations of Table 8: whether retrieved pairs and newest pairs are shown, and which notes."""

ARMS = (RAG, *LIGHT_ARMS)

BEST = "best possible"
"""The pairs that hold most cited messages: what retrieval of whole pairs can reach."""

Counting = Literal["whole", "partial", "noted"]
"""Which messages count as recalled: those whose whole text is in the context; also those that it shows in part; also
those that only a note paraphrases."""
COUNTINGS: Sequence[Counting] = ("whole", "partial", "noted")

ROOMS: Mapping[str, int] = {RAG: 128_072, LIGHT: 57_632}
"""Tokens that retrieved pairs may fill, by memory, with the default settings by which `measure` measures."""

SHIPPED_FILE = Path(str(files("beamlib.data"))) / "measured" / "retrieval.jsonl.xz"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class FileHeader(_Record):
    """What a file of measurements rests on; `seconds` is how long it took."""

    schema_version: int = 1
    command: str
    code: str
    treatment: dict[str, Any]
    seconds: float


class Notes(_Record):
    """Notes in a context: the messages they come from, those of them whose whole text they repeat, their tokens."""

    ids: list[int]
    whole: list[int]
    tokens: int


_NO_NOTES = Notes(ids=[], whole=[], tokens=0)


class MeasuredQuestion(_Record):
    """A question's measurements.

    Attributes:
        cited: The messages that its gold cites.
        ranks: By "<rag or light> <retriever>" the positions of the best pairs in the conversation, best first.
        notes: The notes that LIGHT's filter keeps.
    """

    id: str
    ability: Ability
    cited: list[int]
    ranks: dict[str, list[int]]
    notes: Notes


class Measurement(_Record):
    """The measurements of a conversation.

    Attributes:
        files: SHA-256 of every file that was read, by name.
        pairs: Per pair the ids of its messages and its tokens in a context.
        overlong: By memory, per position of a pair that exceeds all its room: its shortened tokens, and the ids of its
            messages that lose text.
        newest: Positions of the pairs of working memory.
        notes: All notes of LIGHT's scratchpad that its room holds.
        seconds: By memory and retriever: reading the conversation, then recalling once, in seconds.
    """

    id: str
    size: str
    files: dict[str, str]
    pairs: list[tuple[int, int, int]]
    overlong: dict[str, dict[int, tuple[int, list[int]]]]
    newest: list[int]
    notes: Notes
    seconds: dict[str, tuple[float, float]]
    questions: list[MeasuredQuestion]


class Shown(NamedTuple):
    """What a context shows: messages whole, in part and as the source of a note; and its tokens."""

    whole: frozenset[int]
    in_part: frozenset[int]
    noted: frozenset[int]
    tokens: int


def evidence_recall(gold: Gold, message_ids: Iterable[int]) -> float | None:
    """Return the share of the cited messages among `message_ids`; None if the question cites no message of the chat."""
    shown = frozenset(message_ids)
    return sum(cited in shown for cited in gold.evidence) / len(gold.evidence) if gold.evidence else None


def context_shown(measurement: Measurement, question: MeasuredQuestion, arm: str, retriever: str, k: int) -> Shown:
    """Return what the context of an arm (one of `ARMS`) shows for a question with a budget of `k` pairs."""
    retrieved, working, notes = LIGHT_ARMS.get(arm, (True, False, ""))
    memory = "rag" if arm == "rag" else "light"
    overlong = measurement.overlong[memory]

    def tokens_of(place: int) -> int:
        return overlong[place][0] if place in overlong else measurement.pairs[place][2]

    ranked = question.ranks[f"{memory} {retriever}"][:k] if retrieved else []
    filled = accumulate(map(tokens_of, ranked))
    places = [place for place, tokens in zip(ranked, filled, strict=True) if tokens <= ROOMS[memory]]
    places += measurement.newest if working else []
    whole, in_part = set[int](), set[int]()
    for place in places:
        ids = measurement.pairs[place][:2]
        in_part.update(ids)
        whole.update(set(ids).difference(overlong[place][1] if place in overlong else ()))
    noted = {"": _NO_NOTES, "filtered": question.notes, "whole": measurement.notes}[notes]
    tokens = sum(map(tokens_of, places)) + noted.tokens
    return Shown(frozenset(whole.union(noted.whole)), frozenset(in_part), frozenset(noted.ids), tokens)


def recalled_ids(
    measurement: Measurement, question: MeasuredQuestion, arm: str, retriever: str, k: int, counting: Counting
) -> frozenset[int]:
    """Return the messages of a context that count as recalled, by one of `COUNTINGS`."""
    if arm == BEST:
        cited = frozenset(question.cited)
        pairs = sorted((cited.intersection(ids) for *ids, _ in measurement.pairs), key=len, reverse=True)
        return frozenset().union(*pairs[:k])
    context = context_shown(measurement, question, arm, retriever, k)
    recalled = context.whole if counting == "whole" else context.whole | context.in_part
    return recalled | context.noted if counting == "noted" else recalled


def recall_scores(
    measurements: Iterable[Measurement], arm: str, retriever: str, k: int, counting: Counting = "whole"
) -> pd.DataFrame:
    """Compute evidence recall per question that cites messages of the chat, in the shape of scores.

    Args:
        arm: One of `ARMS`, or `BEST`.
    """
    import pandas as pd

    rows = []
    for measurement in measurements:
        for question in measurement.questions:
            if question.cited:
                recalled = recalled_ids(measurement, question, arm, retriever, k, counting)
                recall = len(recalled.intersection(question.cited)) / len(question.cited)
                rows.append((question.id, measurement.id, measurement.size, question.ability, recall, ""))
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS)).astype({"score": float})


def check_budgets(ks: Sequence[int]) -> None:
    """Raise `UserError` unless `ks` has some, all of them measured: a larger one would show the pairs of the last."""
    if not ks or not 1 <= min(ks) <= max(ks) <= MOST_PAIRS:
        raise UserError(f"--k is {', '.join(map(str, ks)) or 'empty'}; a retrieval budget is 1 to {MOST_PAIRS} pairs.")


def read_measurements(path: Path = SHIPPED_FILE) -> tuple[FileHeader, list[Measurement]]:
    """Read a file of `write_measurements`.

    Raises:
        UserError: If it is not one.
    """
    try:
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            header = FileHeader.model_validate_json(next(lines))
            return header, [Measurement.model_validate_json(line) for line in lines]
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; `beamlib measure --data FOLDER` makes such a file.") from None
    except (lzma.LZMAError, ValidationError, EOFError, UnicodeDecodeError, StopIteration) as error:
        raise UserError(f"{path} is no file of measurements ({error!s:.200}); make it again.") from None
