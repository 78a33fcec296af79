"""Published files for the tests: real ones where they are at hand, and made-up ones of every format."""

from __future__ import annotations

from pathlib import Path

import pytest
from published_results import text

from beam_field.sources import question_hash
from beamlib.data.gold import ABILITIES

CONVERSATIONS = ("1M-1", "1M-2", "10M-1")


@pytest.fixture(scope="session")
def field_data(shared: Path) -> Path:
    """Real result files of others; the test is skipped where they are missing."""
    folder = shared / "data" / "field"
    if not folder.is_dir():
        pytest.skip(f"no published result files at {folder}")
    return folder


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of invented questions: two conversations of 1M and one of 10M, three nuggets each."""
    lines = ["sha256,probe,ability,nuggets"]
    for conversation in CONVERSATIONS:
        tier = conversation.partition("-")[0]
        asked = [(ability, number) for ability in ABILITIES for number in (0, 1)]
        for place, (ability, number) in enumerate(asked):
            digest = question_hash(tier, text(conversation, ability, number))
            lines.append(f"{digest},{conversation}-q{place:02d},{ability},3")
    path = tmp_path_factory.mktemp("table") / "questions.csv"
    path.write_text("\n".join(lines) + "\n")
    return path
