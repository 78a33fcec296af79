"""Word banks: complete for every domain, nothing in them that gives away what abstention asks for."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from beamlib.errors import UserError
from beamlib.generate.author.bank import Bank, bank, common_lexicon, fill, read_bank
from beamlib.generate.domains import domains


def texts_without_absent(found: Bank) -> list[str]:
    values = found.model_dump()
    for subject in values["subjects"]:
        del subject["absent"]
    collected: list[str] = []

    def walk(value: object) -> None:
        if isinstance(value, str):
            collected.append(value)
        elif isinstance(value, dict):
            for part in value.values():
                walk(part)
        elif isinstance(value, list):
            for part in value:
                walk(part)

    walk(values)
    return collected


@pytest.mark.parametrize("domain", domains())
def test_what_abstention_asks_for_stands_nowhere_in_the_bank(domain: str) -> None:
    found = bank(domain)
    texts = " \n ".join(texts_without_absent(found)).casefold()
    keywords = [absent.keyword for subject in found.subjects for absent in subject.absent]
    assert not [word for word in keywords if re.search(rf"\b{re.escape(word.casefold())}(?:s|es)?\b", texts)]


@pytest.mark.parametrize("domain", domains())
def test_every_question_has_its_answer_and_actions_have_reasons(domain: str) -> None:
    for topic in bank(domain).topics:
        assert topic.direct
        assert topic.brief
        assert sum(link >= 0 for link in topic.because) >= len(topic.actions) / 2
        assert any(link >= 0 for link in topic.remedy)


@pytest.mark.parametrize("domain", domains())
def test_ten_million_tokens_have_enough_names(domain: str) -> None:
    found = bank(domain)
    rng = random.Random("names")
    for title in found.titles[:2]:
        lexicon = {**common_lexicon(), **found.lexicon, **title.lexicon}
        for subject in found.subjects:
            drawn = [{slot: rng.choice(words) for slot, words in lexicon.items()} for _ in range(400)]
            names = {fill(subject.name, words.__getitem__) for words in drawn}
            assert len(names) >= 60, f"{title.title}: {subject.name}"


@pytest.mark.parametrize(
    ("text", "word", "filled"),
    [
        ("a {x} day", "early", "an early day"),
        ("an {x} day", "late", "a late day"),
        ("A {x}", "hour", "An hour"),
        ("a {x}", "university", "a university"),
        ("a {x}", "European city", "a European city"),
        ("a {x}", "one-way ticket", "a one-way ticket"),
        ("a {x}", "unusual lamp", "an unusual lamp"),
        ("the {x}", "apple", "the apple"),
        ("Lisa {x}", "apple", "Lisa apple"),
    ],
)
def test_articles_follow_the_word(text: str, word: str, filled: str) -> None:
    assert fill(text, lambda _: word) == filled


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('domain = "Sport"', 'domain = "Sport', "not valid TOML"),
        ('kind = "event"', 'kind = "evnt"', "kind"),
        ("{subject}", "{sbject}", "sbject"),
        ("[[preferences]]", "[[preference]]", "preference"),
    ],
)
def test_a_broken_bank_is_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    from beamlib.generate.author.bank import banks

    source = banks()["Trip Planning"].read_text().replace('domain = "Trip Planning"', 'domain = "Sport"')
    path = tmp_path / "bank.toml"
    path.write_text(source.replace(old, new, 1))
    with pytest.raises(UserError, match=message) as raised:
        read_bank(path)
    assert str(path) in str(raised.value)


def test_an_unknown_domain_is_one_sentence() -> None:
    with pytest.raises(UserError, match="'Astrology' has no word bank; choose one of"):
        bank("Astrology")
