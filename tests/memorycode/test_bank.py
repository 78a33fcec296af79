"""The seeds of generation: the published facts are met, the prose is our own, and spoilt files are refused."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from beam_memorycode import talk
from beam_memorycode.bank import UPDATABLE, Wording, foreign, instructions, take_apart, topics_json
from beam_memorycode.rules import KINDS
from beamlib.errors import UserError


@pytest.fixture(scope="module")
def published(memorycode_data: Path) -> dict[str, Any]:
    with gzip.open(memorycode_data / "topics.json.gz") as handle:
        found: dict[str, Any] = json.load(handle)
    return found


def test_the_bank_has_the_published_counts() -> None:
    bank = instructions()
    assert [one.id for one in bank] == list(range(51))
    assert sum(len(one.texts) for one in bank) == 123
    assert [one.id for one in bank if len(one.texts) == 8] == list(UPDATABLE)
    assert {one.kind for one in bank} == set(KINDS)
    assert (len(talk.fillers()), len(talk.orders()), len(talk.people().pairs)) == (51, 30, 19)
    assert (len(talk.people().mentor), len(talk.people().mentee)) == (5, 6)
    assert {len(one.texts) for one in talk.orders()} == {2, 3, 4}


def test_forms_values_and_checks_are_the_published_ones(published: dict[str, Any]) -> None:
    ours = topics_json()["instructions"]
    for name in ("id", "text", "regex", "shuffle_updates"):
        assert [one[name] for one in ours] == [one[name] for one in published["instructions"]]
    assert [len(one["text"]) for one in topics_json()["fillers_instruction"]] == [
        len(one["text"]) for one in published["fillers_instruction"]
    ]


def test_the_prose_is_our_own(published: dict[str, Any]) -> None:
    ours = topics_json()
    assert not {one["eval_query"] for one in ours["instructions"]} & {
        one["eval_query"] for one in published["instructions"]
    }
    assert not {one["text"].lower() for one in ours["fillers"]} & {one["text"].lower() for one in published["fillers"]}
    theirs = {text.lower() for one in published["fillers_instruction"] for text in one["text"]}
    assert not {text.lower() for one in ours["fillers_instruction"] for text in one["text"]} & theirs
    names = {value.lower() for one in published["contexts"] for value in one.values()}
    assert not {value.lower() for one in ours["contexts"] for value in one.values()} & names
    for role in ("mentor", "mentee"):
        assert not set(ours["personas"][role]) & set(published["personas"][role])


def test_every_query_suits_what_its_instruction_is_about() -> None:
    for one in instructions():
        if one.kind.startswith(("class", "method", "attribute")):
            assert re.search(r" class with .+ methods$", one.query), one
        else:
            assert one.query.startswith("function that "), one


def test_no_filler_or_phrase_says_what_only_an_instruction_may() -> None:
    phrases = talk.phrases()
    pools = [*phrases.mentor.values(), *phrases.mentee.values(), *phrases.slots.values()]
    pools += [*phrases.tone.mentor.values(), *phrases.tone.mentee.values()]
    pools += [[one.about, *one.aspects, *one.steps] for one in (*talk.fillers(), *talk.orders(), *phrases.project)]
    pools += [one.texts for one in talk.orders()] + [[one.text] for one in talk.fillers()]
    assert [text for pool in pools for text in pool if foreign(text, [])] == []


def test_mentees_ask_nothing() -> None:
    phrases = talk.phrases()
    pools = [*phrases.mentee.values(), *phrases.tone.mentee.values()]
    assert [text for pool in pools for text in pool if "?" in text] == []


def test_an_instruction_is_found_where_it_is_stated_and_not_elsewhere() -> None:
    start = take_apart("always start function names with 'a_'")
    assert start == Wording("start", "function", "a_")
    assert start.stated_in("The name of each function begins with \u2018a_\u2019.")
    assert not start.stated_in("The name of each variable begins with 'a_'.")
    assert not start.stated_in("The name of each function begins with 'da_'.")
    assert foreign("Names start with 'a_' and use '@retry' from 'pedantic'.", [start]) == "@retry"
    assert foreign("Please mention @everyone, and end with 'b'.", [start]) == ""
    assert foreign("Write a docstring.", [start]) == "docstring"
    assert take_apart("sing a song") is None


def _spoil(folder: Path, name: str, old: str, new: str) -> Path:
    shutil.copytree(talk.BANK, folder, dirs_exist_ok=True)
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("instructions.toml", 'kind = "class"', 'kind = "klass"', "instruction.0.kind is 'klass'"),
        ("instructions.toml", "shuffle = true", 'shuffle = "yes"', "instruction.0.shuffle is 'yes'"),
        ("instructions.toml", "id = 3\n", "id = 2\n", "the id 2 occurs twice"),
        ("instructions.toml", "id = 50\n", "id = 60\n", "do not count from 0"),
        ("instructions.toml", '".*chx.*"', '".*(chx.*"', "is no regular expression"),
        ("instructions.toml", '["secrets", true]', '["secrets", false]', "is not [name, true]"),
        ("instructions.toml", "'chx' in function names", "'chx' in method names", "is not about the kind 'function'"),
        ("instructions.toml", "always include the string", "perhaps include the string", "none of the known forms"),
        ("instructions.toml", "[[instruction]]", "[[instruction]", "not valid TOML"),
        ("people.toml", "[mentor] never hurries", "They never hurry", "calm"),
        ("people.toml", 'id = "calm"', 'id = "lazy"', "tone.mentor lacks the persona 'lazy'"),
        ("fillers.toml", 'about = "the winter party"', 'about = ""', "filler.1.about is ''"),
        ("fillers.toml", "id = 50", "id = 500", "filler.50.id is 500"),
        ("filler_instructions.toml", "work in Emacs", "work in Vim", "'work in Vim' occurs twice"),
        ("phrases.toml", "{mentee}, welcome to {company}", "{mentee}, welcome to {firm}", "the unknown slot {firm}"),
        ("phrases.toml", "[Good morning|Hello|Welcome]", "[Good morning|[Hello]|Welcome]", "nest or do not pair"),
        ("phrases.toml", "greet_first", "greet_once", "greet_first"),
    ],
)
def test_a_spoilt_bank_is_refused_in_one_sentence(tmp_path: Path, name: str, old: str, new: str, says: str) -> None:
    folder = _spoil(tmp_path / "bank", name, old, new)
    if old == "[mentor] never hurries":  # the placeholder occurs twice in the text
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(text.replace("[mentor] lets people", "They let people"), encoding="utf-8")
    with pytest.raises(UserError) as found:
        instructions(folder)
        talk.fillers(folder)
        talk.orders(folder)
        talk.phrases(folder)
    message = str(found.value)
    assert says in message
    assert str(folder / name) in message or "phrases.toml" in message
    assert "\n" not in message
