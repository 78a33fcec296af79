"""Make the numbers of `packages/beam_field` anew: questions.csv from the released questions, verdicts.csv packed.

    python scripts/field_data.py QUESTIONS [VERDICTS]

QUESTIONS is a folder laid out as the released chats/ (probing_questions.json is enough). VERDICTS is a CSV in the long
form of `beam_field.sources.verdicts`. Nothing of a text is written but its hash.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from beam_field.questions import QUESTIONS, question_hash
from beam_field.sources import VERDICTS, packed
from beamlib.data.conversations import SIZES
from beamlib.data.gold import ABILITIES
from beamlib.files import read_json, write_text


def questions(folder: Path) -> str:
    """The lines of questions.csv, conversation by conversation."""
    lines = ["sha256,probe,ability,nuggets"]
    for size in SIZES:
        for number in sorted(int(path.name) for path in (folder / size).iterdir()):
            value = read_json(folder / size / str(number) / "probing_questions" / "probing_questions.json")
            asked = [(ability, one) for ability in value if ability in ABILITIES for one in value[ability]]
            for place, (ability, one) in enumerate(asked):
                probe = f"{size}-{number}-q{place:02d}"
                lines.append(f"{question_hash(size, one['question'])},{probe},{ability},{len(one['rubric'])}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_text(QUESTIONS, questions(Path(sys.argv[1])))
    if len(sys.argv) > 2:
        write_text(VERDICTS, packed(pd.read_csv(sys.argv[2], dtype={"votes": str})))
