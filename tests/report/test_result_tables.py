"""Long frames and the tables made of them."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from beamlib.data import published
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.report.footer import OFFLINE, Footer, ensure_comparable, footer
from beamlib.report.long_frame import AVERAGE_ABILITY, COLUMNS, ROWS, check_frame, published_long
from beamlib.report.table import save_table
from beamlib.report.tables import ORDERING, published_footer, published_table, result_table, side_by_side

STAND_IN = "offline stand-in, not a language model"


def run_frame() -> pd.DataFrame:
    cells = [
        ("100K", "average", "light-hybrid-k5", 0.41249, 0.3812, 0.4467, 20, 20),
        ("100K", "abstention", "light-hybrid-k5", 0.5, float("nan"), float("nan"), 2, 1),
        ("100K", "abstention", "none", float("nan"), float("nan"), float("nan"), 0, 0),
    ]
    return pd.DataFrame(cells, columns=list(COLUMNS))


def run_footer(**changes: Any) -> Footer:
    values: dict[str, Any] = {
        "protocol": "paper",
        "judge": "judge-a",
        "reader": "reader-a",
        "data_revision": "folder chats",
        "n_conversations": 20,
        "n_questions": 400,
        "unscored": 1,
        "interval": "95 % t-interval over conversations (n = 20), logit scale",
        "treatment": "chat_variant=full, strip_markers=true, errata=none",
        "token_counter": "regex-words",
    }
    return Footer(**{**values, **changes})


def manifest(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "arm": "light-hybrid-k5",
        "size": "100K",
        "settings": {"chat_variant": "full", "strip_markers": True, "errata": "none", "k": 5},
        "question_set_sha256": "q1",
        "data_sha256": "d1",
        "judge": "judge-a",
        "reader": "reader-a",
        "data_revision": "folder chats",
        "token_counter": "regex-words",
        "conversations": {"100K-1": {}, "100K-2": {}},
    }
    return {**values, **changes}


@pytest.mark.parametrize(
    ("table", "rows", "series"), [("table1", 528, 12), ("table8", 220, 5), ("table9", 176, 4), ("table10", 88, 2)]
)
def test_published_tables_in_long_form(table: str, rows: int, series: int) -> None:
    frame = check_frame(published_long(table))
    assert (len(frame), frame["series"].nunique()) == (rows, series)
    assert set(frame["ability"]) == set(ROWS) == {*ABILITIES, AVERAGE_ABILITY}
    assert list(dict.fromkeys(frame["size"])) == list(published.LENGTHS)
    assert frame[["low", "high", "n"]].isna().to_numpy().all()
    assert (frame["printed"].astype(float) == frame["mean"]).all()


def test_published_long_of_one_backbone() -> None:
    frame = published_long("table1", "GPT-4.1-nano")
    assert list(dict.fromkeys(frame["series"])) == ["Vanilla", "RAG", "LIGHT"]
    assert "backbone" not in frame and published_long("table1")["backbone"].nunique() == 4
    cell = frame.query("size == '10M' and ability == 'multi_session_reasoning' and series == 'LIGHT'")
    expected = published.table("table1").query(
        "length == '10M' and ability == 'Multi-Hop Reasoning' and backbone == 'GPT-4.1-nano' and method == 'LIGHT'"
    )
    assert cell["printed"].tolist() == expected["printed"].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table2",), "'table2' has no scores"),
        (("table1", "GPT-9"), "no backbone 'GPT-9'; known ones: Qwen"),
        (("table8", "GPT-4.1-nano"), "table8 has no backbone"),
    ],
)
def test_published_long_refuses(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        published_long(*arguments)
    with pytest.raises(UserError, match="'Average' is not one"):
        published.ability_of("Average")
    assert published.ability_of("Multi-hop Reasoning") == "multi_session_reasoning"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (run_frame().drop(columns="low"), "column 'low' is missing"),
        (run_frame().head(0), "there is no row"),
        (run_frame().replace("abstention", "multi-hop"), "ability 'multi-hop'"),
        (pd.concat([run_frame(), run_frame().tail(1)]), "100K / abstention / none occurs twice"),
    ],
)
def test_other_frames_are_refused(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_frame(frame)


def test_cells_and_order() -> None:
    text = result_table(run_frame(), "A run", run_footer()).to_markdown()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines == [
        "| Ability | light-hybrid-k5 | none |",
        "|---|---|---|",
        "| Abstention | 0.500 (n = 1) | – |",
        "| **Average** | **0.412 [0.38, 0.45]** | **–** |",
    ]


def test_published_values_stay_as_printed() -> None:
    table = published_table("table8")
    assert table.notes == (
        "10M, Summarization, without working memory is printed 0.008; the printed Average implies 0.083.",
    )
    for text in (table.to_markdown(), table.to_html(), table.to_csv()):
        assert "0.008" in text
    assert (
        "| 0.068 | 0.008 |" in table.to_markdown()
        and "0.0083"
        in result_table(published_long("table8", paper="v1"), "Table 8", published_footer("Qwen")).to_markdown()
    )
    header = next(line for line in table.to_markdown().splitlines() if line.startswith("| Size"))
    assert header == (
        "| Size | Ability | base | without retrieval | without scratchpad | without working memory "
        "| without noise filtering |"
    )


def test_csv_reads_back() -> None:
    text = result_table(run_frame(), "A run", run_footer()).to_csv()
    frame = pd.read_csv(StringIO(text), comment="#").set_index("ability")
    assert frame["light-hybrid-k5"].to_list() == [0.5, 0.412]
    assert frame["light-hybrid-k5 low"].fillna(-1).to_list() == [-1, 0.381]
    assert frame["light-hybrid-k5 n"].to_list() == [2, 20]
    assert frame["light-hybrid-k5 conversations"].to_list() == [1, 20]
    assert frame["none"].isna().all()
    assert "# Protocol: paper. Judge: judge-a. Reader: reader-a." in text.splitlines()


def test_columns_stand_below_their_backbones() -> None:
    html = published_table("table1").to_html()
    assert '<th scope="colgroup" colspan="3">GPT-4.1-nano</th>' in html
    assert html.count('<th scope="col">LIGHT</th>') == 4
    assert "colgroup" not in published_table("table8").to_html()


def test_event_ordering_under_paper_is_told_apart() -> None:
    def lines(protocol: str, abilities: list[str]) -> str:
        rows = [("100K", ability, "none", 0.5, 0.4, 0.6, 20, 10) for ability in abilities]
        return result_table(pd.DataFrame(rows, columns=list(COLUMNS)), "A run", run_footer(protocol=protocol)).to_csv()

    assert ORDERING in lines("paper", ["event_ordering"]) and ORDERING in lines("paper", ["average"])
    assert ORDERING not in lines("paper", ["abstention"])
    assert ORDERING not in lines("released-code", ["event_ordering", "average"])
    assert ORDERING not in published_table("table1").to_markdown()


def test_fewer_conversations_than_the_others_are_told() -> None:
    rows = [("100K", "average", name, 0.5, 0.4, 0.6, 20 * n, n) for name, n in (("none", 7), ("rag", 20))]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    table = result_table(frame, "A run", run_footer())
    assert "| **0.500 [0.40, 0.60] (n = 7)** | **0.500 [0.40, 0.60]** |" in table.to_markdown()
    assert (
        "| **0.500 (n = 7)** | **0.500** |" in result_table(frame, "A run", run_footer(), intervals=False).to_markdown()
    )


def test_a_mean_without_its_unscored_questions_is_marked() -> None:
    table = result_table(run_frame().assign(unscored=[1, 0, 0]), "T", run_footer())
    assert table.to_markdown().count("†") == 2
    assert "0.412 [0.38, 0.45] †" in table.to_markdown()
    assert "† Partial: without the unscored questions (light-hybrid-k5 1)." in table.to_markdown()
    assert "†" not in result_table(run_frame().assign(unscored=0), "T", run_footer()).to_markdown()


def test_html_is_marked_up_and_escaped() -> None:
    table = result_table(published_long("table9"), "K < 20 & more", published_footer("<b>model</b>"))
    html = table.to_html()
    assert "K &lt; 20 &amp; more" in html and "&lt;b&gt;model" in html
    assert html.count('scope="rowgroup" rowspan="11"') == 4
    assert html == table._repr_html_()


def test_save_writes_three_files_again_alike(tmp_path: Path) -> None:
    table = result_table(run_frame(), "A run", run_footer())
    first = {path.name: path.read_bytes() for path in save_table(table, "results", tmp_path)}
    assert sorted(first) == ["results.csv", "results.html", "results.md"]
    assert {path.name: path.read_bytes() for path in save_table(table, "results", tmp_path)} == first


def test_footer_says_what_a_table_rests_on() -> None:
    text = " ".join(run_footer(unscored=3, n_conversations=1).lines())
    for part in (
        "Protocol: paper",
        "1 conversation,",
        "400 questions",
        "3 unscored",
        "95 % t-interval over conversations (n = 20)",
        "regex-words",
    ):
        assert part in text
    assert OFFLINE not in text
    assert "questions not reported" in " ".join(published_footer("Qwen2.5-32B-AWQ").lines())


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"judge": STAND_IN}, "Judge: offline stand-in, not a language model. Reader: "),
        ({"reader": "offline"}, "Reader: offline stand-in, not a language model."),
        (
            {"reader": STAND_IN, "judge": STAND_IN},
            "Judge: offline stand-in, not a language model. Reader: offline stand-in, not a language model.",
        ),
    ],
)
def test_the_first_line_names_the_stand_in(changes: dict[str, str], first: str) -> None:
    table = result_table(run_frame(), "A run", run_footer(**changes))
    assert first in table.footer[0]
    assert all(OFFLINE in text for text in (table.to_markdown(), table.to_html(), table.to_csv()))


def test_the_footer_names_the_indexes_and_what_is_searched() -> None:
    others = {"encoder": "folder/bge-small", "splade": "naver/splade", "reader_window": 32_768}
    runs = [
        manifest(settings={**manifest()["settings"], "arm": {"memory": memory, "retriever": retriever}, **others})
        for memory, retriever in (("rag", "hybrid"), ("light", "hybrid"), ("light", "dense"), ("none", None))
    ]
    made = footer(runs, protocol="paper", n_questions=1, unscored=0, interval="none")
    assert made.lines()[-1] == (
        "Retrieval: hybrid is words and vectors by bge-small; dense is vectors by bge-small; RAG searches pairs; LIGHT "
        "searches the keys of pairs, and has working memory, scratchpad and noise filter of its own."
    )
    assert "Retrieval" not in " ".join(
        footer([manifest()], protocol="paper", n_questions=1, unscored=0, interval="").lines()
    )


def test_equal_runs_and_other_sizes_may_share_a_table() -> None:
    other_size = manifest(size="1M", question_set_sha256="q2", data_sha256="d2")
    assert ensure_comparable([manifest(), manifest(arm="none"), other_size]) == []
    assert ensure_comparable([manifest(), manifest(reader="reader-b")]) == ["Readers differ: reader-a, reader-b."]
    with pytest.raises(UserError, match="judges"):
        ensure_comparable([manifest(), manifest(size="1M", judge="judge-b")])
    incomplete = {key: value for key, value in manifest().items() if key != "judge"}
    with pytest.raises(UserError, match="light-hybrid-k5: the field 'judge' is missing"):
        ensure_comparable([incomplete])


@pytest.mark.parametrize(
    ("change", "noun"),
    [
        ({"question_set_sha256": "q2"}, "questions"),
        ({"data_sha256": "d2"}, "conversations"),
        ({"judge": "judge-b"}, "judges"),
        ({"settings": {"chat_variant": "truncated", "strip_markers": True, "errata": "none"}}, "data treatments"),
    ],
)
def test_runs_that_cannot_be_compared_are_not_mixed(change: dict[str, Any], noun: str) -> None:
    runs = [manifest(), manifest(arm="none", **change)]
    with pytest.raises(UserError, match=f"light-hybrid-k5, none differ in their {noun} and cannot"):
        result_table(run_frame(), "Mixed", run_footer(), runs)
    text = result_table(run_frame(), "Mixed", run_footer(), runs, allow_mixed=True).to_markdown()
    assert f"*Mixed runs: their {noun} differ, so columns are not comparable.*" in text


def test_side_by_side_says_why_there_are_two_tables() -> None:
    theirs = published_table("table1", "GPT-4.1-nano")
    assert theirs.title == "Table 1 as published, GPT-4.1-nano" and theirs.notes == ()
    ours = result_table(run_frame(), "This run", run_footer(judge=STAND_IN))
    caption = side_by_side(theirs, ours)
    assert "not one table" in caption and "not the numbers across them" in caption and OFFLINE in caption
