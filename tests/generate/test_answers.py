"""The offline author's answers: the question is answered, nothing is said twice, length and ending are kept."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from typing import get_args

import pytest

from beamlib.errors import UserError
from beamlib.generate.author.answers import write_answer
from beamlib.generate.author.bank import SLOT, Aspect, Bank, bank, banks, common_lexicon, fill
from beamlib.generate.author.facts import Companion, Fact, Occasion, Purpose, Thing
from beamlib.generate.author.sections import Draft
from beamlib.generate.author.values import draw_number, show_number
from beamlib.generate.author.wording import check_slots, phrases, short_name
from beamlib.generate.plan_text import show_day
from beamlib.generate.shapes import Profile
from beamlib.text import count_tokens, split_sentences

TODAY = date(2024, 3, 5)
DOMAIN = "Trip Planning"
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


def _fact(aspect: Aspect, thing: Thing, rng: random.Random) -> Fact:
    number, day, companion = None, None, None
    values: dict[str, str] = {}
    if aspect.kind == "quantity":
        number = draw_number(aspect, rng)
        values = {"value": show_number(number, aspect.unit), "old": show_number(number + aspect.step, aspect.unit)}
    elif aspect.kind == "date":
        day = TODAY + timedelta(rng.randrange(*aspect.ahead))
        values = {"value": show_day(day), "old": show_day(day - timedelta(9))}
    elif aspect.kind == "choice":
        value, other = rng.sample(aspect.options, 2)
        texts = {"value": value, "other": other, "reason": rng.choice(aspect.reasons)}
        own = {**thing.slots, "subject": thing.name}
        values = {name: fill(text, own.__getitem__) for name, text in texts.items()}
    elif aspect.kind == "person":
        companion = Companion("Ana Ruiz", "friend")
    return Fact(thing, aspect, 0, 1, 1, values, number, day, companion)


def _occasion(of: Bank, number: int, purpose: Purpose, target: int, closing: str = "") -> Occasion:
    rng = random.Random(f"occasion {number} {purpose} {target}")
    topic, title, subject = rng.choice(of.topics), rng.choice(of.titles), rng.choice(of.subjects)
    words = {k: rng.choice(v) for k, v in {**common_lexicon(), **of.lexicon, **title.lexicon}.items()}
    words |= {"goal": title.goal, "subject": title.goal, "person": "Ana"}
    words["preference"] = "I prefer short lists to long talks because I forget the middle"
    thing = Thing(fill(subject.name, words.__getitem__), subject, words)
    facts = [_fact(aspect, thing, rng) for aspect in subject.aspects]
    rng.shuffle(facts)
    fact = facts[0] if purpose in ("fact", "update", "contradiction") else None
    if purpose == "update":
        fact = next(one for one in facts if one.aspect.update and one.aspect.kind in ("quantity", "date"))
    texts = topic.followups if purpose == "followup" else topic.questions
    asked = rng.randrange(len(texts))
    question = f"{fill(rng.choice(topic.situations), words.__getitem__)}. {fill(texts[asked], words.__getitem__)}"
    if purpose == "instruction":
        question = f"Always {rng.choice(of.rules).rule} when I ask about {topic.occasion}."
    if purpose == "reply":
        question = fill(rng.choice(rng.choice(topic.asked).replies), words.__getitem__)
    known = tuple(one for one in facts[1:] if one is not fact)
    profile = Profile("Dana Cole", 41, "female", "Leeds", "Nurse", ())
    return Occasion(
        rng, of, title, profile, topic, purpose, words, TODAY, thing if number % 5 else None, fact,
        known if number % 5 else (), question, target, closing, -1 if purpose in ("reply", "instruction") else asked,
    )  # fmt: skip


def _answers(number: int, target: int = 600) -> Iterator[tuple[Occasion, str]]:
    of = bank(DOMAIN)
    for purpose in PURPOSES:
        for at in range(number):
            yield (occasion := _occasion(of, at, purpose, target)), write_answer(occasion)


@pytest.mark.parametrize("domain", sorted(banks()))
def test_length_ending_and_kept_words(domain: str) -> None:
    of = bank(domain)
    if of.style != "general":
        pytest.skip("answers in coding and mathematics have their own writers")
    kept = re.compile("|".join(rf"\b{re.escape(one.keyword)}\b" for subject in of.subjects for one in subject.absent))
    for purpose in PURPOSES:
        for number, target in enumerate((150, 280, 600, 1500)):
            closing = "Which day suits you best?" if number % 2 else ""
            text = write_answer(_occasion(of, number, purpose, target, closing))
            assert abs(count_tokens(text) - target) <= 0.05 * target
            assert text.endswith(closing) if closing else not text.endswith("?")
            assert not re.search(r"[{}]", text) and not kept.search(text.lower())
            assert text == write_answer(_occasion(of, number, purpose, target, closing))


def test_the_question_is_answered_first() -> None:
    for occasion, text in _answers(6):
        texts = occasion.topic.brief if occasion.purpose == "followup" else occasion.topic.direct
        if occasion.purpose in ("reply", "instruction") or not texts:
            continue
        direct = occasion.fill(texts[occasion.asked])
        place = text.find(
            direct[1:].replace(occasion.thing.name, short_name(occasion.thing)) if occasion.thing else direct[1:]
        )
        allowed = 130 if occasion.purpose in ("introduction", "preference") else 80
        assert place >= 0 and count_tokens(text[:place]) <= allowed, text


def test_nothing_is_said_twice_and_lists_are_few() -> None:
    for occasion, text in _answers(8, 1500):
        lines = [line for line in text.splitlines() if line.strip(">| -") and not line.startswith("| ")]
        said = [one for line in lines for one in split_sentences(line) if not re.fullmatch(r"\d+\.", one)]
        assert len(said) == len(set(said)), occasion.purpose
        assert len(re.findall(r"(?:^|\n\n)(?:- |1\. |\| )", text)) <= 3
        for action in occasion.topic.actions:
            assert text.lower().count(occasion.fill(action).lower()) <= 1


def test_reasons_and_remedies_stand_with_what_they_belong_to() -> None:
    found = 0
    for occasion, text in _answers(8):
        topic = occasion.topic
        actions, reasons = (list(map(occasion.fill, texts)) for texts in (topic.actions, topic.reasons))
        for sentence in split_sentences(text):
            there = [number for number, action in enumerate(actions) if action.lower() in sentence.lower()]
            for number, reason in enumerate(reasons):
                if there and reason.lower() in sentence.lower():
                    found += 1
                    assert number in [topic.because[action] for action in there], sentence
    assert found > 20


def test_an_update_leaves_the_old_value_behind_and_a_contradiction_is_not_settled() -> None:
    for occasion, text in _answers(12):
        fact = occasion.fact
        if fact is not None and occasion.purpose == "update":
            assert fact.values["value"] in text
            assert not re.search(rf"{re.escape(fact.values['old'])}(?![\d,])", text.split("\n")[0])
        if fact is not None and occasion.purpose == "contradiction":
            for word in (fact.aspect.told, fact.aspect.denied, fact.aspect.state):
                assert not word or fact.fill(word, "you") not in text


def test_answers_are_varied() -> None:
    plain = ("fact", "update", "contradiction", "dig", "reply", "followup")
    texts = [text for occasion, text in _answers(80) if occasion.purpose in plain]
    assert len({split_sentences(text)[0] for text in texts}) >= 0.95 * len(texts)
    said = [one for text in texts for one in split_sentences(text)]
    assert len(set(said)) >= 0.65 * len(said)


def test_every_list_of_phrases_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: set[str] = set()
    draw = Draft._draw

    def note(self: Draft, key: str) -> str:
        drawn.add(key)
        return draw(self, key)

    monkeypatch.setattr(Draft, "_draw", note)
    general = [of for of in map(bank, sorted(banks())) if of.style == "general"]
    rng = random.Random("phrases")
    for number in range(300):
        purpose = rng.choice(PURPOSES) if number % 2 else "fact"
        write_answer(_occasion(rng.choice(general), number, purpose, rng.choice((200, 700, 1400))))
    for subject in (subject for of in general for subject in of.subjects):
        thing = Thing(subject.name, subject, dict.fromkeys(SLOT.findall(f"{subject}"), "Oak"))
        facts = tuple(_fact(aspect, thing, rng) for aspect in subject.aspects)
        for fact in (one for one in facts if one.number or one.day):
            told = _occasion(bank(DOMAIN), 1, "fact", 200)
            for known in ((), facts):
                write_answer(replace(told, thing=thing, fact=fact, known=known))
    for rule in bank(DOMAIN).rules:
        asking = f"Always {rule.rule} when I ask about costs."
        write_answer(replace(_occasion(bank(DOMAIN), 1, "instruction", 200), question=asking))
    plain = replace(_occasion(bank(DOMAIN), 1, "instruction", 200), question="Please be brief.")
    write_answer(plain)
    write_answer(replace(_occasion(bank(DOMAIN), 1, "reply", 200), question="Something else entirely."))
    topic = plain.topic.model_copy(update={"direct": [], "brief": [], "because": [], "remedy": []})
    for topic_now in (topic, plain.topic):
        write_answer(replace(_occasion(bank(DOMAIN), 2, "dig", 400), topic=topic_now, asked=-1))
    assert phrases(DOMAIN).keys() == drawn


def test_an_unknown_slot_is_refused() -> None:
    with pytest.raises(UserError, match=r"advise\.two: unknown slot \{acton\}"):
        check_slots("advise.two", ["First {acton}."])


def test_short_names_keep_the_noun() -> None:
    for subject in bank(DOMAIN).subjects:
        words = {
            slot: "Quigley" if slot == "family" else "Kyoto" if slot == "town" else "kayak"
            for slot in SLOT.findall(subject.name)
        }
        thing = Thing(fill(subject.name, words.__getitem__), subject, words)
        assert short_name(thing) and "Kyoto" not in short_name(thing) and "Quigley" not in short_name(thing)
