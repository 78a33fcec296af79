"""The marker parser: every spelling of the published table, and that nothing a user said is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamlib.data.conversations import Marker
from beamlib.data.markers import ARROW, INDEX, MARKER_FORMS, index_marker, split_marker, strip_stray

SPELLINGS = [
    ("3,12", "", Marker(3, (12,), "", "i,j")),
    ("3, 12 ", "", Marker(3, (12,), "", "i,j")),
    ("3,N/A", "", Marker(3, (), "", "i,N/A")),
    ("3,n/a", "", Marker(3, (), "", "i,N/A")),
    ("3,", "", Marker(3, (), "", "i,")),
    ("3,(no bullet fits)", "", Marker(3, (), "(no bullet fits)", "i,(remark)")),
    ("3,N/A (asked in\npassing)", "", Marker(3, (), "(asked in\npassing)", "i,(remark)")),
    ("3,12\nprint(1)\n  print(2)", "\nprint(1)\n  print(2)", Marker(3, (12,), "", "i,j+text")),
    ("3,12, 14", "", Marker(3, (12, 14), "", "i,j,k")),
    ("3,12,14,15", "", Marker(3, (12, 14, 15), "", "i,j,k")),
    ("3,Testing", " Testing", Marker(3, (), "", "i,label")),
    ("3,\nprint(1)", "\nprint(1)", Marker(3, (), "", "i,label")),
    ("3,N/A\nprint(1)", "\nprint(1)", Marker(3, (), "", "i,label")),
    ("3,12)", "", Marker(3, (12,), "", "i,j)")),
    ("3,12) Testing: run it", "", Marker(3, (12,), "Testing: run it", "i,j) label")),
    ("3,12, and others", "", Marker(3, (12,), ", and others", "other")),
    ("3,6.2", "", Marker(3, (6,), ".2", "other")),
    ("3,12) Testing\n  run()", "\n  run()", Marker(3, (12,), "Testing", "i,j) label")),
    ("3,12, 14\nrun()", "\nrun()", Marker(3, (12, 14), "", "i,j,k")),
    ("3,N/A (in passing)\nrun()", "\nrun()", Marker(3, (), "(in passing)", "i,(remark)")),
    ("3,(see) run(1)", " (see) run(1)", Marker(3, (), "", "i,label")),
    ("3,(open", " (open", Marker(3, (), "", "i,label")),
]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize(("after", "kept", "marker"), SPELLINGS)
def test_each_spelling(after: str, kept: str, marker: Marker) -> None:
    assert split_marker(f"How do I test it? ->-> {after}") == (f"How do I test it?{kept}", marker)


def test_every_variant_is_covered() -> None:
    assert {marker.variant for _, _, marker in SPELLINGS} == set(MARKER_FORMS)


@pytest.mark.parametrize("text", ["no marker", "an arrow ->-> alone", "->->", "A ->> B: a diagram", "x ->-> y, 2"])
def test_text_without_a_marker_is_untouched(text: str) -> None:
    assert split_marker(text) == (text, None)
    assert strip_stray(text) == (text, 0)


@pytest.mark.parametrize(
    ("index", "bullets"),
    [("3,12", (12,)), ("3,N/A", ()), ("4,12", None), ("3", None), ("3,", None), ("3,12, 14", None), ("", None),
     ("3,12 why?", None), (None, None), (312, None), ("x 3,12", None)],
)  # fmt: skip
def test_an_index_alone_is_a_marker_where_it_is_whole_and_of_this_batch(
    index: object, bullets: tuple[int, ...] | None
) -> None:
    expected = None if bullets is None else Marker(3, bullets, "", INDEX)
    assert index_marker(index, 3) == expected


def test_last_arrow_counts() -> None:
    assert split_marker("a ->-> 1,2 b ->-> 3,4") == ("a ->-> 1,2 b", Marker(3, (4,)))
    assert strip_stray("a ->-> 1,2 b") == ("a b", 1)


def test_stray_markers_in_the_middle_and_at_the_end() -> None:
    assert strip_stray("Next? ->->  3,8") == ("Next?", 1)
    assert strip_stray("x ->-> 1,2\ny ->-> 1,N/A z ->-> 2,") == ("x\ny z", 3)


@given(TEXT, st.integers(1, 99), st.lists(st.integers(1, 999), min_size=1, max_size=4))
def test_round_trip(text: str, batch: int, bullets: list[int]) -> None:
    content, marker = split_marker(f"{text} {ARROW} {batch},{','.join(map(str, bullets))}")
    assert content == f"{text} ".rstrip()
    assert marker is not None
    assert (marker.batch, marker.bullets) == (batch, tuple(bullets))


@given(TEXT, TEXT, st.integers(1, 99), st.sampled_from(["4", "N/A", "", "4)", "4, 5", "4) label", "N/A (remark)"]))
def test_text_on_the_next_line_survives(text: str, code: str, batch: int, bullet: str) -> None:
    content, marker = split_marker(f"{text} {ARROW} {batch},{bullet}\n{code}")
    assert marker is not None
    if ARROW not in code:
        assert content.split() == (text.split() + code.split())


@given(TEXT)
def test_any_text_is_parsed(text: str) -> None:
    content, marker = split_marker(text)
    assert marker is not None or content == text
    stripped, count = strip_stray(text)
    assert (count == 0) == (stripped == text)
