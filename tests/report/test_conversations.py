"""Tables 3 and 7 of conversations at hand: the released tier gives what is known of it, the print is put beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import beamlib
from beam_generate.described import Described, decile_figure, describe
from beamlib.data.conversations import Treatment
from beamlib.data.sources import find_conversations
from beamlib.report.long_frame import benchmark_comparison
from beamlib.report.table import join_tables, save_table

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"


@pytest.fixture(scope="module")
def tier(beam_data: Path) -> Described:
    sources = find_conversations(beam_data, ["100K"])
    if len(sources) != 20:
        pytest.skip(f"{beam_data} holds {len(sources)} of the 20 conversations of 100K")
    return describe(sources, Treatment())


def test_the_released_tier_beside_table_3(tier: Described) -> None:
    rows = {row[1]: row[2:] for row in tier.table3().rows()}
    assert rows["user messages"] == ("127.3", "143.3", "144", "the mean, rounded up")
    assert rows["assistant messages"][1:] == ("143.3", "144", "the mean, rounded up")
    assert rows["turns"] == ("93.8", "106.3", "107", "the mean, rounded up")
    assert rows["answered assistant questions"][1:] == ("26.1", "27", "the mean, rounded up")
    assert rows["follow-up questions"][1:] == ("10.8", "216", "the total of all 20, not their mean")
    assert rows["tokens"][2:] == ("–", "none: the size is called 128K")
    assert "10 of 20 are cut" in tier.table3().footer[0] and "chat_variant=truncated" in tier.table3().footer[0]


def test_the_released_tier_beside_table_7(tier: Described) -> None:
    assert tier.deciles["measured"].sum() == pytest.approx(100, abs=0.1)
    assert tier.deciles["measured"].iloc[0] == pytest.approx(14.73, abs=0.01)
    assert tier.deciles["Table 7 as printed"].iloc[0] == 0
    text = tier.table7().to_markdown()
    assert "| 100K | 1 | 14.7 % | 0.00 % | +14.7 |" in text
    assert "355 questions, n = 20;" in text


def test_a_whole_chat_that_is_not_there_stops_nothing(tiny_release: Path) -> None:
    for number in (1, 2):
        folder = tiny_release / "100K" / str(number)
        (folder / "chat.json").rename(folder / "chat_trunecated.json")
        sources = find_conversations(tiny_release)
        table = describe(sources, Treatment()).table3()
        assert f"({number} of them cannot be read and do not count there)" in table.footer[0]
        turns = next(row[2:] for row in table.rows() if row[1] == "turns")
        assert turns[:2] == ("8.0", "8.0" if number == 1 else "–")


def test_one_conversation_and_what_is_known_of_the_print() -> None:
    found = describe(find_conversations(EXAMPLE), Treatment())
    rows = {row[1]: row[2:] for row in found.table3().rows()}
    assert rows["user messages"][0] == rows["user messages"][1]  # nothing was cut
    assert rows["follow-up questions"][3].startswith("a total, 10.8 for each; ")
    assert rows["turns"][3].endswith("above the mean")
    figure = decile_figure(found.deciles, "100K", "n = 1")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["measured", "Table 7 as printed"]


def test_tables_of_several_sizes_are_joined(tmp_path: Path) -> None:
    found = describe(find_conversations(EXAMPLE), Treatment())
    other = Described("1M", found.read, found.whole, found.shares, found.questions, found.source)
    for size, one in (("100k", found), ("1m", other)):
        save_table(one.table3(), "table3", tmp_path / size)
    table = join_tables("Both", [tmp_path / "100k" / "table3.csv", tmp_path / "1m" / "table3.csv"])
    assert table.header == found.table3().header
    assert table.rows() == [*found.table3().rows(), *other.table3().rows()]
    assert table.to_html().count('<th scope="rowgroup" rowspan="6">') == 2
    assert table.footer == (found.table3().footer[0], found.table3().footer[1], other.table3().footer[0])


def test_table_2_as_marked_by_its_authors() -> None:
    frame = benchmark_comparison()
    assert frame.shape == (9, 10)
    assert (frame == "✓").sum(axis=1).tolist() == [0, 0, 2, 2, 5, 4, 6, 5, 10]
    assert (frame.loc["BEAM"] == "✓").all(axis=None) and frame.index.get_level_values("benchmark")[-1] == "BEAM"
    alone = [ability for ability in frame if (frame[ability] == "✓").sum() == 1]
    assert alone == ["Contradiction Resolution", "Event Ordering", "Instruction Following"]
