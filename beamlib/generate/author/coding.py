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
    CORRECTED,
    EXAMPLE,
    EXAMPLE_MORE,
    FAILS,
    FASTER,
    FIXED,
    FURTHER,
    GAIN,
    LAST,
    LEAD,
    NEXT_QUESTIONS,
    OTHER_QUESTION,
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
from beamlib.generate.author.wording import to_you
from beamlib.text import count_tokens

_INSTRUCTION = re.compile(r"Always (.+?) when I ask about (.+?)\.")
_OWN = re.compile(r"\b(I|my|me)\b")
_NEAR = 0.03
"""How far from its target an answer may end before filling goes on; the contract allows 5 %."""
_SMALL = 45
"""Tokens that are left to single sentences."""


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

    The code that the question shows is taken up with its identifiers; a question of the topic (`occasion.asked`) gets
    the topic's answer, after the code where there is some. Only facts of `occasion` are stated.
    """
    ending = count_tokens(occasion.closing) if occasion.closing else 0
    room = occasion.target - ending
    known = recognise(occasion.question, occasion.title.title, occasion.rng)
    direct = _direct(occasion, shows=known is not None)
    parts: list[str] = []
    used = count_tokens(direct)
    for part in _needed(occasion, known, direct):
        if part == direct:
            parts.append(part)
            continue
        size = count_tokens(part)
        if parts and used + size > room * (1 + _NEAR):
            continue
        parts.append(part)
        used += size
    parts += _fill(occasion, room - used, room * _NEAR, known=known[0] if known else None)
    if occasion.closing:
        parts.append(occasion.closing)
    return "\n\n".join(parts)


def _direct(occasion: Occasion, *, shows: bool) -> str:
    """The topic's answer to the question that the message holds, empty where it holds none."""
    topic, asked = occasion.topic, occasion.asked
    answers, questions = (
        (topic.brief, topic.followups) if occasion.purpose == "followup" else (topic.direct, topic.questions)
    )
    if asked < 0 or not answers or occasion.purpose == "reply":
        return ""
    # A rule may be given without any question; then nothing is to be answered.
    if occasion.purpose == "instruction" and occasion.fill(questions[asked]).lower() not in occasion.question.lower():
        return ""
    answer = occasion.fill(answers[asked])
    return f"{occasion.rng.choice(OTHER_QUESTION)} {answer}" if shows else answer


def _needed(occasion: Occasion, known: tuple[Snippet, Form, dict[str, str]] | None, direct: str) -> Iterator[str]:
    """What the answer must say, in order; `direct` is the answer to the topic's question, maybe empty."""
    opening = _opening(occasion, shows=known is not None, direct=bool(direct))
    if known is None:
        yield from (text for text in (opening, direct) if text)
        return
    yield from _about_code(occasion, opening, *known)
    if direct:
        yield direct


def _example(occasion: Occasion, shown: list[str]) -> str:
    """Code that shows what the topic is about, with its test, its faster form or the cause of its failure.

    `shown` holds the ids of the snippets that the conversation's turn has shown, and gets the new one.
    """
    rng, title, label = occasion.rng, occasion.title.title, occasion.topic.label
    fresh = [one for one in snippets_for(title) if one.id not in shown]
    suited = [one for one in fresh if one.slow or label != "Performance and Profiling"] or fresh
    if label == "Testing Strategy":
        suited = [one for one in suited if one.test] or suited
    snippet = rng.choice(suited)
    words = draw_words(title, rng)
    leads = EXAMPLE.get(label, EXAMPLE[""]) if not shown else EXAMPLE_MORE
    lead = rng.choice(leads).format(wanted=filled(snippet.wanted, words))
    shown.append(snippet.id)
    if label == "Performance and Profiling" and snippet.slow:
        before, joint, after = snippet.slow, f"{filled(snippet.gain, words)}. So:", snippet.faster
    elif label == "Testing Strategy" and snippet.test:
        before, joint, after = snippet.fixed, "And the test:", snippet.test
    else:
        before, joint, after = (
            snippet.broken,
            f"{filled(snippet.why, words)}. {rng.choice(CORRECTED[len(shown) % 2 :: 2])}",
            snippet.fixed,
        )
    return "\n\n".join([lead, fenced(snippet, before, words), _capital(joint), fenced(snippet, after, words)])


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


def _opening(occasion: Occasion, *, shows: bool, direct: bool) -> str:
    """One or two sentences that take up what the message told; none where the answer itself can come first."""
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
    if direct and purpose == "followup":
        return ""
    lead = rng.choice(LEAD["asked" if direct and purpose == "dig" else purpose]).format(
        about=about, goal=occasion.words["goal"]
    )
    if fact is None or occasion.purpose == "contradiction":
        return lead
    state = _state(fact)
    # A day that lies behind is nothing to plan around.
    past = fact.aspect.kind == "date" and fact.day is not None and fact.day < occasion.today
    told = rng.choice(ABOUT_FACT["past" if past else fact.aspect.kind]).format(
        state=state, State=_capital(state), mention=fact.mention, value=fact.values.get("value", "")
    )
    return f"{lead} {told}".strip()


def _state(fact: Fact) -> str:
    """The fact said to the user; a reason in the user's own words is turned to `you`."""
    state = fact.fill(fact.aspect.state, "you")
    return to_you(state) or state if _OWN.search(state) else state


def _recall(occasion: Occasion) -> Iterator[str]:
    """Facts told before, in other words than the message's own; none where the message denies one of them."""
    if occasion.purpose == "contradiction":
        return
    others: list[Fact] = [one for one in occasion.known if one is not occasion.fact]
    leads = occasion.rng.sample(RECALL, 2)
    for one, lead in zip(occasion.rng.sample(others, min(2, len(others))), leads, strict=False):
        yield lead.format(state=_state(one))


def _fill(occasion: Occasion, missing: int, near: float, *, known: Snippet | None) -> list[str]:
    """Advice of the topic, an example in code, then neighbouring topics: `missing` tokens, give or take `near`."""
    parts: list[str] = []
    spare: list[str] = []
    for head, items, joint in _sections(occasion, spare, known):
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
        if missing < _SMALL and spare:
            break
    return parts + _last(occasion.rng, spare, missing, near)


def _last(rng: random.Random, spare: list[str], missing: int, near: float) -> list[str]:
    """A paragraph of what is left to tick off, the longest that fit first."""
    said: list[str] = []
    leads = rng.sample(LAST, len(LAST))
    for check in sorted(spare, key=count_tokens, reverse=True):
        text = f"{leads[len(said) % len(leads)].format(check=check)}"
        size = count_tokens(text)
        if missing > near and size <= missing + near:
            said.append(text)
            missing -= size
    return [" ".join(said)] if said else []


_Section = tuple[str, list[str], str]


def _sections(occasion: Occasion, spare: list[str], known: Snippet | None) -> Iterator[_Section]:
    """(heading, items, what joins them) without end in practice: the topic's own, then the other topics'.

    What a topic has to tick off and no section takes goes to `spare`, for the answer's last few tokens.
    """
    rng = occasion.rng
    yield "", list(_recall(occasion)), " "
    heads = [rng.sample(texts, len(texts)) for texts in (STEPS, RISK, CHECKLIST)]
    own = _topic_sections(rng, occasion.topic, occasion.words, [texts[0] for texts in heads], spare)
    shown = [known.id] if known else []
    # What the topic is known for stands early; elsewhere code is only something to try it on.
    early = known is None and (occasion.topic.label in EXAMPLE or rng.random() < 0.3)
    if early:
        yield "", [_example(occasion, shown)], ""
    yield from own[:3]
    if not early:
        yield "", [_example(occasion, shown)], ""
    yield own[3]
    yield _further_questions(occasion)
    yield "", [_example(occasion, shown)], ""
    yield own[4]
    others = [topic for topic in occasion.bank.topics if topic is not occasion.topic]
    rng.shuffle(others)
    further = rng.sample(FURTHER, len(FURTHER))
    lexicon = {**occasion.bank.lexicon, **occasion.title.lexicon}
    for place, topic in enumerate(others, start=1):
        words = _other_words(occasion, lexicon)
        sections = _topic_sections(rng, topic, words, [texts[place % len(texts)] for texts in heads], spare)
        lead = further[place % len(further)].format(about=topic.about)
        head, items, joint = sections[0]
        yield (f"{lead} {head}", items, joint) if head else ("", [f"{lead} {items[0]}", *items[1:]], joint)
        yield from sections[1:]


def _further_questions(occasion: Occasion) -> _Section:
    """Two more of the topic's questions, answered: what somebody who asked the one wants to know next."""
    topic = occasion.topic
    places = [place for place in range(len(topic.direct)) if place != occasion.asked or occasion.purpose == "followup"]
    chosen = occasion.rng.sample(places, min(2, len(places)))
    items = [f"- **{occasion.fill(topic.questions[one])}** {occasion.fill(topic.direct[one])}" for one in chosen]
    return occasion.rng.choice(NEXT_QUESTIONS), items, "\n"


def _other_words(occasion: Occasion, lexicon: Mapping[str, list[str]]) -> Mapping[str, str]:
    drawn = {name: occasion.rng.choice(words) for name, words in lexicon.items()}
    return {**occasion.words, **drawn}


def _topic_sections(
    rng: random.Random, topic: Topic, words: Mapping[str, str], heads: list[str], spare: list[str]
) -> list[_Section]:
    """Steps with their reasons, risks with their remedies, background and checks of a topic; no text in two of them."""
    steps, trouble, ticks = heads

    def put(text: str) -> str:
        return fill(text, words.__getitem__)

    cures: dict[int, int] = {}
    for risk in rng.sample(range(len(topic.remedy)), len(topic.remedy)):
        if topic.remedy[risk] >= 0 and topic.remedy[risk] not in cures.values() and len(cures) < 3:
            cures[risk] = topic.remedy[risk]
    given: set[int] = set()
    actions: list[str] = []
    for number in rng.sample(range(len(topic.actions)), len(topic.actions)):
        if number in cures.values():
            continue
        reason = topic.because[number] if topic.because else -1
        why = f"{rng.choice((', because', ', since'))} {put(topic.reasons[reason])}"
        actions.append(_capital(put(topic.actions[number])) + (why if reason >= 0 and reason not in given else ""))
        given.add(reason)
    risks = [f"- If {put(topic.risks[risk])}, {put(topic.actions[cure])}." for risk, cure in cures.items()]
    tips = [put(text) for text in rng.sample(topic.tips, len(topic.tips))]
    checks = [put(text) for text in rng.sample(topic.checks, len(topic.checks))]
    spare += checks[3:]
    wanted = rng.choice((3, 4, 5))
    sections: list[_Section] = [
        (steps, [f"{number}. {text}." for number, text in enumerate(actions[:wanted], start=1)], "\n"),
        (trouble, risks, "\n"),
        ("", tips[:2], "\n\n"),
    ]
    rng.shuffle(sections)
    return [*sections, (ticks, [f"- {_capital(check)}" for check in checks[:3]], "\n"), ("", tips[2:], "\n\n")]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    """`text` within a sentence; names and code keep their capitals."""
    first = text.split(" ", 1)[0]
    keeps = first in ("Python", "YAML", "Express", "JSON", "I") or (len(first) > 1 and not first[1:].islower())
    return text if keeps else text[:1].lower() + text[1:]
