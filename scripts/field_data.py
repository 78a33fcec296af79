"""Build questions.csv and verdicts.csv of `packages/beam_field` from the released questions and published verdicts.

    python scripts/field_data.py QUESTIONS [VERDICTS]

QUESTIONS is a folder laid out as the released chats/ (probing_questions.json is enough). VERDICTS is a CSV with a row
per nugget, or per question where a source has no more: source, run, probe, kind (nugget, counts, votes), nugget,
score, full, partial, none, votes, published, answer_chars. Of a text only its hash is written.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from beam_field.sources import QUESTIONS, VERDICTS, question_hash
from beamlib.data.conversations import SIZES
from beamlib.data.gold import ABILITIES
from beamlib.files import read_json, write_text


def questions(folder: Path) -> str:
    """Return the lines of questions.csv, conversation by conversation."""
    lines = ["sha256,probe,ability,nuggets"]
    for size in SIZES:
        for number in sorted(int(path.name) for path in (folder / size).iterdir()):
            value = read_json(folder / size / str(number) / "probing_questions" / "probing_questions.json")
            asked = [(ability, one) for ability in value if ability in ABILITIES for one in value[ability]]
            for place, (ability, one) in enumerate(asked):
                probe = f"{size}-{number}-q{place:02d}"
                lines.append(f"{question_hash(size, one['question'])},{probe},{ability},{len(one['rubric'])}")
    return "\n".join(lines) + "\n"


def pack_verdicts(frame: pd.DataFrame) -> str:
    """Return verdicts.csv for a frame in long form: a line per question, its nuggets as halves ("210").

    Counts are full-partial-none ("3-0-1"), votes stay as they are.
    """
    lines = ["run,probe,verdicts,order,published,answer_chars"]
    for (source, run, probe), own in frame.groupby(["source", "run", "probe"], sort=False):
        first = own.iloc[0]
        verdicts, order = str(first["votes"]), ""
        if first["kind"] == "nugget":
            verdicts = "".join(str(int(2 * score)) for score in own.sort_values("nugget")["score"])
        elif first["kind"] == "counts":
            verdicts = "-".join(str(int(first[name])) for name in ("full", "partial", "none"))
            order = "" if pd.isna(first["score"]) else repr(float(first["score"]))
        value = f"{float(first['published'])!r},{int(first['answer_chars'])}"
        lines.append(f"{source}/{run},{probe},{verdicts},{order},{value}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_text(QUESTIONS, questions(Path(sys.argv[1])))
    if len(sys.argv) > 2:
        write_text(VERDICTS, pack_verdicts(pd.read_csv(sys.argv[2], dtype={"votes": str})))
