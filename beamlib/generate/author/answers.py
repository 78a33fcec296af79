"""The assistant's answers in a general domain: the question is answered first, sections follow up to the length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from beamlib.generate.author.consequences import FACT_BUILDERS
from beamlib.generate.author.facts import Occasion
from beamlib.generate.author.sections import LISTS, Builder, Draft, background, heading, prose, recap
from beamlib.generate.author.wording import capital, infinitive, small, to_you
from beamlib.text import count_tokens

_RULE = re.compile(r"^Always (.+) when I ask about (.+?)\.?$")
_LIKING = re.compile(r"I prefer (.+) to (.+?) because (.+?)\.?$")
_ASIDE = re.compile(r"^(?:Yes|No|Honestly|Well|Hmm|Mostly yes)[,.:;] ")
_I = re.compile(r"I\b")
_SLACK = 0.04
_LEAST = 45  # room for a section


def write_answer(occasion: Occasion) -> str:
    """The answer to `occasion.question`: within 5 % of `target` tokens, ending with `closing` where there is one."""
    draft = Draft(occasion)
    first = _opening(draft)
    last = [] if occasion.closing and occasion.rng.random() < 0.5 else [_end(draft)]
    if occasion.closing:
        last.append(occasion.closing)
    room = round(occasion.target * (1 + _SLACK)) - sum(count_tokens(text) for text in (first, *last))
    body: list[str] = []
    for name, builder in _sections(draft):
        if room < _LEAST:
            break
        text = draft.attempt(partial(_headed, name=name, builder=builder), room)
        if text:
            body.append(text)
            room -= count_tokens(text)
    rest = _remainder(draft, room, round(occasion.target * 2 * _SLACK))
    return "\n\n".join([first, *body, *([rest] if rest else []), *last])


def _headed(draft: Draft, name: str, builder: Builder) -> str:
    text = builder(draft)
    title = heading(draft, name) if text and name else ""
    return f"{title}\n\n{text}" if title else text


def _sections(draft: Draft) -> Iterator[tuple[str, Builder]]:
    """Sections in the order of trial: what the fact asks for, then the topic's, then neighbouring topics."""
    occasion, rng = draft.occasion, draft.rng
    fact = occasion.fact
    if fact is not None and occasion.purpose in ("fact", "update"):
        yield FACT_BUILDERS[fact.aspect.kind]
    lists = rng.sample(sorted(LISTS), len(LISTS))
    yield ("", prose)
    plan: list[tuple[str, Builder]] = [(name, LISTS[name]) for name in lists[:2]] + [("", background)]
    if occasion.purpose not in ("reply", "followup", "instruction"):
        plan.append(("", recap))
    rng.shuffle(plan)
    yield from plan
    yield ("", background)
    yield ("", prose)
    while draft.move():
        yield ("over", _over)
        if draft.untouched:
            draft.back()  # no room left to lead over to another topic
            break
        name = rng.choice(lists)
        plan = [("", background), ("", prose), (name, LISTS[name])]
        rng.shuffle(plan)
        yield from plan


def _over(draft: Draft) -> str:
    """A paragraph that leads over to the next topic."""
    text = prose(draft)
    lower = small(text, draft.occasion.bank.domain)
    if not text or draft.headed:
        return text  # its heading says what it is about
    return draft.say("join.over", direct=lower) if lower else f"{draft.say('join.over_plain')} {text}"


def _end(draft: Draft) -> str:
    words = draft.one("check") if draft.rng.random() < 0.6 else draft.action()
    return draft.say("end.check" if "check" in words else "end.action", **words)


def _remainder(draft: Draft, room: int, slack: int) -> str:
    """A paragraph of short sentences that takes the answer into its range of lengths."""
    sentences: list[str] = []
    while room > slack:
        fitting = _short_sentence(draft, room, slack)
        if not fitting:
            break
        sentences.append(fitting)
        room -= count_tokens(fitting)
    return " ".join(sentences)


def _short_sentence(draft: Draft, room: int, slack: int) -> str:
    """A sentence about one small thing to do that fits into `room`, and fills it where one does."""
    best, cost, used = "", 0, None
    for stock in draft.nearest():
        topic = stock.topic
        for kind, texts, left in (("check", topic.checks, stock.checks), ("action", topic.actions, stock.actions)):
            for number in left[-4:]:
                if not draft.fresh(texts[number]):
                    continue
                filled = draft.fill(texts[number])
                words = {
                    "field": topic.occasion,
                    kind: filled,
                    "to": infinitive(filled),
                    "to_check": infinitive(filled),
                }
                tokens = count_tokens(text := draft.say(f"advise.{kind}", **words))
                if cost < tokens <= room and (tokens >= room - slack or tokens <= room - 8):
                    best, cost, used = text, tokens, (texts[number], left, number)
        if cost >= room - slack or (cost and room - cost > 25):
            break
    if used is not None:
        draft.note(used[0])
        used[1].remove(used[2])
    return best


def _opening(draft: Draft) -> str:
    """A sentence that takes up what the user told, then the answer to the question."""
    occasion, purpose = draft.occasion, draft.occasion.purpose
    direct = _direct(draft)
    if purpose == "instruction":
        return _instruction(draft)
    if purpose == "introduction":
        told = [draft.say("open.introduction", name=occasion.profile.name.split()[0]), draft.say("join.welcome")]
        return f"{' '.join(told)}\n\n{_joined(draft, direct)}"
    if purpose in ("fact", "update") and occasion.fact is not None:
        told = [_told(draft)]
        if purpose == "update":
            told.append(draft.say("join.update"))
        return f"{' '.join(told)} {_joined(draft, direct)}"
    if purpose == "preference" and (liked := _LIKING.search(occasion.words.get("preference", ""))):
        return _preference(draft, liked, direct)
    if purpose == "reply":
        return f"{_reply(draft)} {draft.say('join.after_reply')}"
    start = "followup" if purpose == "followup" else "dig"
    situation = _situation(occasion)
    if start == "dig" and situation and occasion.rng.random() < 0.5:
        return f"{draft.say('open.situation', you=situation)} {direct}"
    lower = small(direct, occasion.bank.domain)
    if lower and occasion.rng.random() < 0.65:
        return draft.say(f"open.{start}_join", direct=lower)
    return f"{draft.say(f'open.{start}')} {direct}"


def _direct(draft: Draft) -> str:
    """The topic's answer to the question asked; where it has none, the advice that is nearest to it."""
    occasion = draft.occasion
    answers = occasion.topic.brief if occasion.purpose == "followup" else occasion.topic.direct
    if occasion.purpose in ("reply", "instruction"):
        return ""
    if answers and occasion.asked >= 0:
        draft.note(answers[occasion.asked])
        return draft.fill(answers[occasion.asked])
    words = draft.because()
    if words:
        return draft.say("join.bare_because", **words)
    return draft.say("join.bare", **draft.action())


def _joined(draft: Draft, direct: str) -> str:
    lower = small(direct, draft.occasion.bank.domain)
    return draft.say("join.answer", direct=lower) if lower and draft.rng.random() < 0.35 else direct


def _told(draft: Draft) -> str:
    fact, purpose = draft.occasion.fact, draft.occasion.purpose
    assert fact is not None
    told = draft.tell(fact, fact.aspect.told if fact.aspect.kind == "event" else fact.aspect.state)
    words = {"told": told, "mention": fact.mention, "value": fact.values.get("value", "")}
    return draft.say(f"open.{'update' if purpose == 'update' else fact.aspect.kind}", **words)


def _preference(draft: Draft, liked: re.Match[str], direct: str) -> str:
    you = to_you(liked[0].rstrip("."))
    words = {"likes": liked[1], "dislikes": liked[2], "because": to_you(liked[3]) or "it suits you"}
    said = [draft.say("open.preference", you=you)] if you else []
    said += [draft.say("join.preference", **words) for _ in range(2)]
    return f"{' '.join(said)}\n\n{_joined(draft, direct)}"


def _reply(draft: Draft) -> str:
    """The user's words turned to `you`, where they can be found and turned."""
    occasion = draft.occasion
    for text in (reply for asked in occasion.topic.asked for reply in asked.replies):
        if (reply := occasion.fill(text)) in occasion.question:
            words = _ASIDE.sub("", reply).rstrip(".!")
            named = text.startswith("{") or _I.match(words)
            if turned := to_you(words if named else words[:1].lower() + words[1:]):
                return draft.say("open.reply", you=turned)
    return draft.say("open.reply_plain")


def _situation(occasion: Occasion) -> str:
    """The situation that the message describes, turned to `you`."""
    message = occasion.question.lower()
    for text in occasion.topic.situations:
        if (filled := occasion.fill(text)).lower() in message:
            return to_you(filled)
    return ""


def _instruction(draft: Draft) -> str:
    """Consent, and where the rule can be shown at once, a small example of it."""
    rule = _RULE.match(draft.occasion.question)
    if rule is None:
        return draft.say("open.instruction_plain")
    said = [draft.say("open.instruction", rule=rule[1], field=rule[2]), draft.say("rule.other")]
    example = _example(draft, rule[1])
    rest = draft.say("rule.meanwhile")
    return "\n\n".join(part for part in (" ".join(said), example, rest) if part)


def _example(draft: Draft, rule: str) -> str:
    if "checklist" in rule or "numbered" in rule:
        draft.lists -= 1
    if "checklist" in rule:
        items = [f"- [ ] {capital(draft.one('check')['check'])}" for _ in range(3)]
        return f"{draft.say('rule.checklist')}\n\n" + "\n".join(items)
    if "numbered" in rule:
        items = [f"{number}. {capital(draft.action()['action'])}." for number in range(1, 4)]
        return f"{draft.say('rule.steps')}\n\n" + "\n".join(items)
    if "urgent" in rule:
        return draft.say("rule.urgent", **{key: capital(text) for key, text in draft.action().items()})
    if "risk" in rule or "wrong" in rule:
        return draft.say("rule.risk", **draft.one("risk"))
    return ""
