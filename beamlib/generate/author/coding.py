"""Messages that share code, and answers that fix, improve or write exactly that code (paper Listings 33 and 37)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping

from beamlib.generate.author.bank import Topic, fill
from beamlib.generate.author.coding_snippets import (
    Form,
    Snippet,
    draw_words,
    fenced,
    filled,
    recognise,
    snippets_for,
)
from beamlib.generate.author.coding_text import (
    ABOUT_FACT,
    ASK_FASTER,
    ASK_FIX,
    ASK_REVIEW,
    ASK_WANTED,
    CHECKLIST,
    EXAMPLE,
    FAILS,
    FASTER,
    FIXED,
    FURTHER,
    GAIN,
    LEAD,
    REASON,
    RECALL,
    REVIEWED,
    RISK,
    SHOW_BROKEN,
    SHOW_SLOW,
    SHOW_WORKING,
    STEPS,
    TESTED,
    TRAP,
    WHY,
    WRITTEN,
)
from beamlib.generate.author.facts import Fact, Occasion
from beamlib.text import count_tokens

_INSTRUCTION = re.compile(r"Always (.+?) when I ask about (.+?)\.")
_NEAR = 0.03
"""How far from its target an answer may end before filling goes on; the contract allows 5 %."""


def coding_question(occasion: Occasion) -> str:
    """The middle part of a user message: failing code with its error, working code to improve, or a function wanted."""
    rng, title = occasion.rng, occasion.title.title
    snippet = rng.choice(snippets_for(title))
    words = draw_words(title, rng)
    case = rng.random()
    if case < 0.2:
        return rng.choice(ASK_WANTED).format(
            wanted=filled(snippet.wanted, words), language=snippet.language_name, goal=occasion.words["goal"]
        )
    if case < 0.55 and snippet.slow:
        code = fenced(snippet, snippet.slow, words)
        return f"{rng.choice(SHOW_SLOW)}\n{code}\n{rng.choice(ASK_FASTER)}"
    if case < 0.35:
        code = fenced(snippet, snippet.fixed, words)
        return f"{rng.choice(SHOW_WORKING)}\n{code}\n{rng.choice(ASK_REVIEW)}"
    code = fenced(snippet, snippet.broken, words)
    if snippet.error:
        fails = rng.choice(FAILS).format(error=filled(snippet.error, words), line=snippet.line)
    else:
        fails = f"{filled(snippet.symptom, words)}."
    return f"{rng.choice(SHOW_BROKEN)}\n{code}\n{fails} {rng.choice(ASK_FIX)}".rstrip()


def write_coding_answer(occasion: Occasion) -> str:
    """An answer to `occasion.question` of `occasion.target` tokens within 5 %, from 200 tokens on.

    The code that the question shows is taken up with its identifiers. Only facts of `occasion` are stated.
    """
    ending = count_tokens(occasion.closing) if occasion.closing else 0
    room = occasion.target - ending
    parts: list[str] = []
    used = 0
    for part in _needed(occasion):
        size = count_tokens(part)
        if parts and used + size > room * (1 + _NEAR):
            continue
        parts.append(part)
        used += size
    parts += _fill(occasion, room - used, room * _NEAR)
    if occasion.closing:
        parts.append(occasion.closing)
    return "\n\n".join(parts)


def _needed(occasion: Occasion) -> Iterator[str]:
    """What the answer must say, most important first."""
    rng = occasion.rng
    known = recognise(occasion.question, occasion.title.title, rng)
    opening = _opening(occasion, shows=known is not None)
    if known is None:
        yield opening
        if occasion.topic.label in EXAMPLE and occasion.purpose not in ("instruction", "contradiction", "reply"):
            yield _example(occasion)
        return
    yield from _about_code(occasion, opening, *known)


def _example(occasion: Occasion) -> str:
    """Code that shows what the topic is about, with its test, its faster form or the cause of its failure."""
    rng, title, label = occasion.rng, occasion.title.title, occasion.topic.label
    suited = [one for one in snippets_for(title) if one.slow or label != "Performance and Profiling"]
    if label == "Testing Strategy":
        suited = [one for one in suited if one.test] or suited
    snippet = rng.choice(suited)
    words = draw_words(title, rng)
    lead = rng.choice(EXAMPLE[label]).format(wanted=filled(snippet.wanted, words))
    if label == "Performance and Profiling":
        before, joint, after = snippet.slow, f"{filled(snippet.gain, words)}. So:", snippet.faster
    elif label == "Testing Strategy" and snippet.test:
        before, joint, after = snippet.fixed, "And the test:", snippet.test
    else:
        before, joint, after = snippet.broken, f"{filled(snippet.why, words)}. Corrected:", snippet.fixed
    return "\n\n".join([lead, fenced(snippet, before, words), joint, fenced(snippet, after, words)])


def _about_code(occasion: Occasion, opening: str, snippet: Snippet, form: Form, words: dict[str, str]) -> Iterator[str]:
    rng = occasion.rng
    why = filled(snippet.why, words)
    lead: tuple[str, ...]
    if form == "slow":
        lead, code, cause = FASTER, snippet.faster, f"{rng.choice(GAIN)}{_lower(filled(snippet.gain, words))}."
    elif form == "broken":
        lead, code, cause = FIXED, snippet.fixed, f"{rng.choice(WHY)}{_lower(why)}."
    else:
        improved = form == "fixed" and snippet.slow
        lead, code = (REVIEWED if form == "fixed" else WRITTEN), (snippet.faster if improved else snippet.fixed)
        cause = f"{rng.choice(TRAP)}{_lower(why)}."
    body = f"{rng.choice(lead)}\n\n{fenced(snippet, code, words)}"
    if opening:
        yield opening
    yield from (cause, body) if form == "broken" else (body, cause)
    check = f"{filled(snippet.check, words)}."
    if snippet.test:
        yield f"{rng.choice(TESTED)}\n\n{fenced(snippet, snippet.test, words)}\n\n{check}"
    else:
        yield check


def _opening(occasion: Occasion, *, shows: bool) -> str:
    """One or two sentences that take up what the message told."""
    rng, fact = occasion.rng, occasion.fact
    about = occasion.thing.name if occasion.thing is not None else occasion.words["goal"]
    if occasion.purpose == "instruction" and (rule := _INSTRUCTION.search(occasion.question)):
        return f"Understood. From now on I will {rule[1]} when you ask about {rule[2]}."
    if occasion.purpose == "preference":
        for one in occasion.bank.preferences:
            if one.likes in occasion.question:
                return f"Good to know. I will lean towards {one.likes} and leave {one.dislikes} aside."
    # A message with code wants the code looked at, whatever else it says.
    purpose = "code" if shows and occasion.purpose in ("dig", "followup") else occasion.purpose
    lead = rng.choice(LEAD[purpose]).format(about=about, goal=occasion.words["goal"])
    if fact is None or occasion.purpose == "contradiction":
        return lead
    state = fact.fill(fact.aspect.state, "you")
    # A day that lies behind is nothing to plan around.
    past = fact.aspect.kind == "date" and fact.day is not None and fact.day < occasion.today
    told = rng.choice(ABOUT_FACT["past" if past else fact.aspect.kind]).format(
        state=state, State=_capital(state), mention=fact.mention, value=fact.values.get("value", "")
    )
    return f"{lead} {told}".strip()


def _recall(occasion: Occasion) -> Iterator[str]:
    """Facts told before, in other words than the message's own; none where the message denies one of them."""
    if occasion.purpose == "contradiction":
        return
    others: list[Fact] = [one for one in occasion.known if one is not occasion.fact]
    leads = occasion.rng.sample(RECALL, 2)
    for one, lead in zip(occasion.rng.sample(others, min(2, len(others))), leads, strict=False):
        yield lead.format(state=one.fill(one.aspect.state, "you"))


def _fill(occasion: Occasion, missing: int, near: float) -> list[str]:
    """Advice of the topic, then of neighbouring ones, in sections; at most `missing` tokens, short of it by `near`."""
    parts: list[str] = []
    for head, items, joint in _sections(occasion):
        if missing <= near:
            break
        kept: list[str] = []
        for item in items:
            size = count_tokens(item) + (0 if kept or not head else count_tokens(head))
            if size <= missing + near:
                kept.append(item)
                missing -= size
            if missing <= near:
                break
        if kept:
            body = joint.join(kept)
            parts.append(f"{head}\n{body}" if head else body)
    return parts


_Section = tuple[str, list[str], str]


def _sections(occasion: Occasion) -> Iterator[_Section]:
    """(heading, items, what joins them) without end in practice: the topic's own, then the other topics'."""
    rng = occasion.rng
    yield "", list(_recall(occasion)), " "
    own = [occasion.topic]
    others = [topic for topic in occasion.bank.topics if topic is not occasion.topic]
    rng.shuffle(others)
    lexicon = {**occasion.bank.lexicon, **occasion.title.lexicon}
    heads = [rng.sample(texts, len(texts)) for texts in (STEPS, RISK, CHECKLIST, REASON)]
    for place, topic in enumerate([*own, *others]):
        words = occasion.words if place == 0 else _other_words(occasion, lexicon)
        if place:
            yield "", [rng.choice(FURTHER).format(about=topic.about)], " "
        yield from _topic_sections(rng, topic, words, [texts[place % len(texts)] for texts in heads])


def _other_words(occasion: Occasion, lexicon: Mapping[str, list[str]]) -> Mapping[str, str]:
    drawn = {name: occasion.rng.choice(words) for name, words in lexicon.items()}
    return {**occasion.words, **drawn}


def _topic_sections(rng: random.Random, topic: Topic, words: Mapping[str, str], heads: list[str]) -> Iterator[_Section]:
    steps, trouble, ticks, grounds = heads

    def mixed(texts: list[str]) -> list[str]:
        return [fill(text, words.__getitem__) for text in rng.sample(texts, len(texts))]

    actions, reasons, risks, checks = (mixed(one) for one in (topic.actions, topic.reasons, topic.risks, topic.checks))
    sections: list[_Section] = [
        (steps, [f"{number}. {_capital(one)}." for number, one in enumerate(actions[:5], start=1)], "\n"),
        ("", mixed(topic.tips)[:2], "\n\n"),
        (trouble, [f"- {_capital(risk)}." for risk in risks[:4]], "\n"),
        (ticks, [f"- {_capital(check)}" for check in checks[:4]], "\n"),
        ("", [f"{grounds} {_capital(reasons[0])}.", *(f"{_capital(reason)}." for reason in reasons[1:4])], " "),
    ]
    rng.shuffle(sections)
    yield from sections
    yield "", [f"{_capital(reason)}." for reason in reasons[4:]], " "


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    """`text` within a sentence; names and code keep their capitals."""
    first = text.split(" ", 1)[0]
    keeps = first in ("Python", "YAML", "Express", "JSON", "I") or (len(first) > 1 and not first[1:].islower())
    return text if keeps else text[:1].lower() + text[1:]
