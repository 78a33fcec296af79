"""Word banks: whole, within their size, and nothing in them that gives away what abstention asks for."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from beam_generate.probes.wording import content, share
from beam_generate.seeds import titles
from beam_offline.author.grammar import Grammar, compiled, is_plural, sentence, slots, to_me, to_you
from beam_offline.author.word_bank import NUMBERS, FactKind, StrandKind, bank, banks, common, grammar, long_bank

_SCOPE = {
    "it", "full", "ref", "other", "thing", "this", "bare", "person", "do", "do2", "why",
    "risk", "want", "talk", "matter", "own", "do_this", "timed", "worry", "my_other", "fault", "goal", "name",
    "clause", "aim", "act", "aim_title", "echo", "rule", "about", "my_thing", "weekday", "v", "reason", "a", "task",
    "slip",
    "error", "line", "symptom", "wanted", "check", "np", "done", "first", "second", "parts", "theme",
    "count", "ask", "he", "place", "side", "topic", "worst", "who", "day", "what",
}  # fmt: skip
"""Slots that messages, answers and questions fill by themselves."""


def texts(part: BaseModel) -> Iterator[str]:
    """Every text of a part of a bank."""
    for value in part.__dict__.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, BaseModel):
                yield from texts(one)
            elif isinstance(one, str):
                yield one


def strands() -> list[tuple[str, StrandKind]]:
    own = [(domain, one) for domain in banks() for one in bank(domain).strand]
    return [*own, *(("common", one) for one in common().strand)]


@pytest.mark.parametrize("domain", sorted(banks()))
def test_a_domain_has_its_titles_and_enough_for_each(domain: str) -> None:
    found = bank(domain)
    assert {title.title for title in found.titles} == set(titles()[domain])
    shared = common().strand if found.style == "general" else []
    for title in found.titles:
        assert len(found.strands(title.title)) + len(shared) >= 9
        assert found.titled(title.title).theme
    assert len(found.preference) >= 5
    labels = [one.label for one in [*found.strand, *shared]]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("domain", sorted(banks()))
def test_every_slot_of_every_list_is_filled(domain: str) -> None:
    own, names = grammar(domain, long=True), {"first", "surname", "town", "trade", "term"}
    for lists in (common().lists, bank(domain).lists, long_bank().lists):
        for name, alternatives in lists.items():
            for text in alternatives:
                compiled(text)
                assert slots(text) <= own.names | _SCOPE | names | {"b", "c", "d", *long_bank().words}, (
                    f"{name}: {text}"
                )


def test_a_strand_has_what_the_readme_asks_for() -> None:
    for domain, one in strands():
        where = f"{domain}: {one.label}"
        kinds = [fact.kind for fact in one.fact]
        assert kinds.count("event") >= 1, where
        assert "date" in kinds or domain == "common", where
        assert sum(kind in NUMBERS for kind in kinds) >= 1, where
        keys = {fact.key for fact in one.fact if fact.key}
        assert {fact.after for fact in one.fact} | {fact.before for fact in one.fact} <= keys | {""}, where
        assert all(slots(text) <= {"it", "person", "v", "other", "reason"} for text in texts(one)), where
        drawn = {
            grammar("Coding").fill(random.Random(seed).choice(one.it), {}, random.Random(seed)) for seed in range(300)
        }
        assert len(drawn) >= 8, where


def test_no_word_that_a_message_has_once_stands_twice_in_its_list() -> None:
    lists = [*long_bank().words.items(), *((f"{domain}: {one.label}", one.terms) for domain, one in strands())]
    assert not [name for name, words in lists if len(set(words)) < len(words)]


def test_what_abstention_asks_for_stands_nowhere_else_in_its_strand() -> None:
    for domain, one in strands():
        for absent in one.absent:
            told = [text for text in texts(one) if text not in (absent.ask, absent.detail, absent.keyword)]
            word = re.compile(rf"\b{re.escape(absent.keyword)}(?:s|es)?\b", re.IGNORECASE)
            assert not [text for text in told if word.search(text)], f"{domain}: {one.label}: {absent.keyword}"


def needs(fact: FactKind) -> bool:
    """Whether a fact has what its kind needs."""
    if fact.kind == "event":
        return "/" in fact.did.split(" ", 1)[0] and bool(fact.ask)
    value = {"v", "other", "reason"}
    filled = all((value if fact.kind == "choice" else {"v"}) <= slots(text) for text in fact.say)
    told = [share(content(fact.np), content(re.sub(r"\{\w+\}", " ", f"{text} {fact.unit}"))) for text in fact.say]
    least = {"choice": 4, "list": 4}.get(fact.kind, 0)
    return (
        len(fact.say) > 1 and filled and all(text.endswith("?") and not slots(text) & value for text in fact.ask)
        and (fact.kind in ("tally", "list") or min(told) >= 0.5)
        and not any(text.endswith((".", "!", "?")) for text in fact.say)
        and (fact.kind not in NUMBERS or 0 < fact.low + 5 * fact.step <= fact.high)
        and (fact.kind not in ("count", "span", "tally") or bool(fact.unit))
        and (fact.kind != "date" or (fact.days == sorted(set(fact.days)) and len(fact.days) == 2))
        and len(fact.options) >= least and (fact.kind != "choice" or len(fact.reasons) >= 3)
    )  # fmt: skip


def test_every_fact_has_what_its_kind_needs() -> None:
    assert not [
        f"{domain}: {one.label}: {fact.np}" for domain, one in strands() for fact in one.fact if not needs(fact)
    ]


def test_a_phrase_with_open_brackets_is_refused() -> None:
    assert slots("{Word} [x {b}|{c}]") == {"word", "b", "c"}
    for broken in ("[a|b", "a]", "{x"):
        with pytest.raises(ValueError, match=r"bracket|closed"):
            compiled(broken)


def test_phrases_agree_in_number_and_article_and_turn_to_another_person() -> None:
    own = Grammar({"color": ["red", "dark [green|blue]"]})
    said = {own.fill("{Color} {thing} <is|are>", {"thing": "bills"}, random.Random(seed)) for seed in range(60)}
    assert said == {"Red bills are", "Dark green bills are", "Dark blue bills are"}
    for thing, many in (("the list of results", False), ("the people who came", True), ("the hand luggage", False)):
        assert is_plural(thing) == many
    assert own.fill("a hour and an pear", {}, random.Random(0)) == "an hour and a pear"
    assert to_you("we've sold our car and I was late") == "you've sold your car and you were late"
    assert to_me("note what confused you and what you tried") == "note what confused me and what I tried"
    assert sentence("so , it  is done") == "So, it is done."
