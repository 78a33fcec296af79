"""The sandbox of files: what each tool does, and that no call gets beyond its bounds or half way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_memories.evolving.file_tools import NAME, Bounds, FileTools, Folder, ToolRefused, chosen_lines, numbers_in

TEXT = "- [messages 0-1] tea is black\n- [messages 2-3] the boat is green\n- [messages 4-5] tea at four\n"


def folder(text: str = TEXT, **bounds: int) -> Folder:
    made = Folder(Bounds(**bounds))
    made.write("memory.md", text)
    return made


def act(made: Folder, tool: str, **arguments: str) -> str:
    tools = {one.definition.name: one for one in FileTools("memory.md").writing()}
    return tools[tool].act(made, arguments)


def test_reading_shows_all_ranges_or_the_lines_that_hold_the_words() -> None:
    assert act(folder(), "read", what="all").splitlines()[1] == "2: - [messages 2-3] the boat is green"
    assert act(folder(), "read") == act(folder(), "read", what="all")
    assert act(folder(), "read", what="2, 3-99").count("\n") == 1
    assert [line[0] for line in act(folder(), "read", what="Tea?").splitlines()] == ["1", "3"]
    assert act(folder(), "read", what="whale") == "No line is like that."
    assert act(Folder(), "read") == "The file is empty."


def test_a_reading_has_a_bound_in_tokens() -> None:
    tools = FileTools("memory.md", tokens=100)
    said = tools.reading()[0].act(folder("many words in a row\n" * 500), {})
    assert tools.counter.count(said) <= 100 and "left out" in said


def test_changes_do_what_they_say() -> None:
    made = folder()
    act(made, "append", text="- new\n")
    act(made, "replace", old="the boat is green", new="the boat is red (before: green)")
    act(made, "delete", text="TEA")
    assert made.texts == {"memory.md": "- [messages 2-3] the boat is red (before: green)\n- new\n"}


def test_a_file_that_is_emptied_is_gone() -> None:
    made = folder("only tea\n")
    act(made, "delete", text="tea")
    assert made.texts == {}


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("append", {}, "lacks the argument 'text'"),
        ("append", {"text": "  "}, "lacks the argument 'text'"),
        ("append", {"text": "x" * 500}, "longer than a file may be"),
        ("replace", {"old": "tea", "new": "x"}, "2 times"),
        ("replace", {"old": "whale", "new": "x"}, "0 times"),
        ("delete", {"text": "whale"}, "0 lines"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(tool: str, arguments: dict[str, str], said: str) -> None:
    made = folder(file_characters=300)
    with pytest.raises(ToolRefused, match=said) as refused:
        act(made, tool, **arguments)
    assert "\n" not in str(refused.value)
    assert made.texts == {"memory.md": TEXT}


def test_a_common_word_does_not_empty_the_file() -> None:
    made = folder("a line\n" * 11)
    with pytest.raises(ToolRefused, match="11 lines"):
        act(made, "delete", text="a")
    assert made.texts["memory.md"].count("\n") == 11


def test_files_and_all_characters_together_are_bounded() -> None:
    made = Folder(Bounds(files=2, characters=20))
    made.write("a.md", "x" * 10)
    made.write("b.md", "x" * 10)
    with pytest.raises(ToolRefused, match="All files together"):
        made.write("b.md", "x" * 11)
    made.write("a.md", "x")
    with pytest.raises(ToolRefused, match="There are 2 files"):
        made.write("c.md", "x")
    made.write("a.md", "")
    made.write("c.md", "x")
    assert list(made.texts) == ["b.md", "c.md"]


def test_names_that_could_be_paths_are_refused() -> None:
    made = Folder()
    for name in ("", "memory", "../memory.md", "/etc/passwd", "a/b.md", "a..md", "a.md\n", "é.md", "a" * 70 + ".md"):
        for work in (made.read, lambda one: made.write(one, "x")):
            with pytest.raises(ToolRefused, match="no file name"):
                work(name)
    assert made.texts == {}


def test_where_there_are_several_files_a_call_names_one() -> None:
    made = Folder()
    tools = {one.definition.name: one for one in FileTools().writing()}
    assert [name for name, _ in tools["append"].definition.arguments] == ["file", "text"]
    tools["append"].act(made, {"file": "boat.md", "text": "# Boat"})
    assert made.texts == {"boat.md": "# Boat\n"}
    with pytest.raises(ToolRefused, match="no file name"):
        tools["append"].act(made, {"text": "# Boat"})


@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=30))
def test_lines_are_chosen_from_those_that_there_are(what: str, lines: list[str]) -> None:
    found = chosen_lines(what, lines)
    assert found == sorted(set(found)) and all(1 <= number <= len(lines) for number in found)


@given(st.lists(st.tuples(st.integers(0, 9_999_999), st.integers(0, 9_999_999)), max_size=9), st.integers(0, 50))
def test_ranges_name_the_lines_between_their_ends(ranges: list[tuple[int, int]], last: int) -> None:
    text = ", ".join(f"{first}-{end}" for first, end in ranges)
    expected = {n for n in range(1, last + 1) if any(first <= n <= end for first, end in ranges)}
    assert numbers_in(text, last) == sorted(expected)


@given(st.lists(st.tuples(st.sampled_from(["append", "replace", "delete"]), st.text(max_size=9), st.text(max_size=40))))
def test_no_sequence_of_calls_gets_beyond_the_bounds(sequence: list[tuple[str, str, str]]) -> None:
    bounds = Bounds(files=2, file_characters=60, characters=80)
    made, tools = Folder(bounds), {one.definition.name: one for one in FileTools().writing()}
    for tool, name, text in sequence:
        arguments: dict[str, Any] = {"file": f"{name}.md", "text": text, "old": text, "new": text * 2}
        before = made.texts
        try:
            tools[tool].act(made, arguments)
        except ToolRefused:
            assert made.texts == before
    assert len(made.texts) <= 2 and sum(map(len, made.texts.values())) <= 80
    assert all(NAME.fullmatch(name) and 0 < len(text) <= 60 for name, text in made.texts.items())
