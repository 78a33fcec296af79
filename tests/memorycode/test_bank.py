"""The seeds of generation: the published facts are met, the prose is our own, and spoilt files are refused."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from beam_memorycode import bank as words
from beam_memorycode.bank import UPDATABLE, Wording, foreign, instructions, take_apart, topics_json
from beam_memorycode.rules import RULE_KINDS
from beamlib.errors import UserError


@pytest.fixture(scope="module")
def published(memorycode_data: Path) -> dict[str, Any]:
    with gzip.open(memorycode_data / "topics.json.gz") as handle:
        seeds: dict[str, Any] = json.load(handle)
    return seeds


def test_the_bank_has_the_published_counts() -> None:
    bank = instructions()
    assert [entry.id for entry in bank] == list(range(51))
    assert sum(len(entry.texts) for entry in bank) == 123
    assert [entry.id for entry in bank if len(entry.texts) == 8] == list(UPDATABLE)
    assert {entry.kind for entry in bank} == set(RULE_KINDS)
    assert (len(words.fillers()), len(words.orders()), len(words.people().pairs)) == (51, 30, 19)
    assert (len(words.people().mentor), len(words.people().mentee)) == (5, 6)
    assert {len(entry.texts) for entry in words.orders()} == {2, 3, 4}


def test_forms_values_and_checks_are_the_published_ones(published: dict[str, Any]) -> None:
    ours = topics_json()["instructions"]
    for name in ("id", "text", "regex", "shuffle_updates"):
        assert [entry[name] for entry in ours] == [entry[name] for entry in published["instructions"]]
    assert [len(entry["text"]) for entry in topics_json()["fillers_instruction"]] == [
        len(entry["text"]) for entry in published["fillers_instruction"]
    ]


def test_the_prose_is_our_own(published: dict[str, Any]) -> None:
    ours = topics_json()
    assert not {entry["eval_query"] for entry in ours["instructions"]} & {
        entry["eval_query"] for entry in published["instructions"]
    }
    assert not {entry["text"].lower() for entry in ours["fillers"]} & {
        entry["text"].lower() for entry in published["fillers"]
    }
    theirs = {text.lower() for entry in published["fillers_instruction"] for text in entry["text"]}
    assert not {text.lower() for entry in ours["fillers_instruction"] for text in entry["text"]} & theirs
    names = {value.lower() for entry in published["contexts"] for value in entry.values()}
    assert not {value.lower() for entry in ours["contexts"] for value in entry.values()} & names
    for role in ("mentor", "mentee"):
        assert not set(ours["personas"][role]) & set(published["personas"][role])


def test_every_query_suits_what_its_instruction_is_about() -> None:
    for entry in instructions():
        if entry.kind.startswith(("class", "method", "attribute")):
            assert re.search(r" class with .+ methods$", entry.query), entry
        else:
            assert entry.query.startswith("function that "), entry


def test_no_filler_or_phrase_says_what_only_an_instruction_may() -> None:
    phrases = words.phrases()
    pools = [*phrases.mentor.values(), *phrases.mentee.values(), *phrases.slots.values()]
    pools += [*phrases.tone.mentor.values(), *phrases.tone.mentee.values()]
    pools += [
        [entry.about, *entry.aspects, *entry.steps] for entry in (*words.fillers(), *words.orders(), *phrases.project)
    ]
    pools += [entry.texts for entry in words.orders()] + [[entry.text] for entry in words.fillers()]
    assert [text for pool in pools for text in pool if foreign(text, [])] == []


def test_mentees_ask_nothing() -> None:
    phrases = words.phrases()
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


def test_the_bank_files_are_consistent() -> None:
    bank, people, phrases = instructions(), words.people(), words.phrases()
    for values in (
        [text for entry in bank for text in entry.texts],
        [entry.query for entry in bank],
        [entry.text for entry in words.fillers()],
        [text for entry in words.orders() for text in entry.texts],
        [entry.id for entry in (*words.fillers(), *words.orders(), *people.mentor, *people.mentee)],
        [(pair.mentor, pair.mentee) for pair in people.pairs],
    ):
        assert len(set(values)) == len(values)
    for entry in bank:
        wordings = [take_apart(text) for text in entry.texts]
        assert len(entry.conditions) == len(wordings)
        assert all(wording and entry.kind.startswith(wording.object) for wording in wordings)
    for role in ("mentor", "mentee"):
        personas = getattr(people, role)
        assert all(f"[{role}]" in persona.text for persona in personas)
        assert {persona.id for persona in personas} == set(getattr(phrases.tone, role))


def test_phrases_have_known_slots_and_paired_brackets() -> None:
    phrases = words.phrases()
    always = set(phrases.slots) | {"mentor", "mentee", "company", "project"}
    about = always | {"about", "aspect", "other", "step"}
    for pools, slots in (
        ({**phrases.mentor, **phrases.mentee, **phrases.tone.mentor, **phrases.tone.mentee}, about),
        (phrases.state, {"object", "objects", "value"}),
        (phrases.frame, always | {"rule", "order", "about"}),
    ):
        for template in (text for pool in pools.values() for text in pool):
            assert set(re.findall(r"\{(\w+)\}", template)) <= slots, template
            assert not re.search(r"[\[\]{}]", re.sub(r"\{\w+\}", "x", re.sub(r"\[[^\[\]]*\]", "x", template))), template


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[filler]", "not valid TOML"),
        ('[[filler]]\nid = 500\nabout = "a"\naspects = ["b", "c"]\ntext = "d"', "filler.0.id is 500"),
    ],
)
def test_an_invalid_bank_file_is_refused_in_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "fillers.toml").write_text(text)
    with pytest.raises(UserError, match=re.escape(problem)) as caught:
        words.read_rule_bank(tmp_path / "fillers.toml", words._Fillers)
    assert "fillers.toml" in str(caught.value) and "\n" not in str(caught.value)
