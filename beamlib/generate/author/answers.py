"""The assistant's answers in a general domain, put together from sections until they have the length wanted."""

from __future__ import annotations

import re
from collections.abc import Callable

from beamlib.generate.author.facts import Occasion
from beamlib.generate.author.sections import BUILDERS, FACT_BUILDERS, Draft, heading
from beamlib.generate.author.wording import capital, indirect, to_you
from beamlib.text import count_tokens

_QUESTION = re.compile(r"[^.?!\n]+\?")
_RULE = re.compile(r"^Always (.+) when I ask about (.+?)\.?$")
_LIKING = re.compile(r"I prefer (.+) because (.+?)\.?$")
_SLACK = 0.04
_TRIES = 14
_LAST_TRIES = 200


def write_answer(occasion: Occasion) -> str:
    """The answer to `occasion.question`: within 5 % of `target` tokens, ending with `closing` where there is one."""
    draft = Draft(occasion)
    first = _opening(draft)
    last = [draft.say("end.next" if occasion.rng.random() < 0.5 else "end.summary", **draft.advice())]
    if occasion.closing:
        last.append(occasion.closing)
    room = round(occasion.target * (1 + _SLACK)) - count_tokens(first) - sum(map(count_tokens, last))
    body: list[str] = []
    for name, builder in _chosen(draft):
        if room < 60:
            break
        text = builder(draft)
        title = heading(draft, name)
        cost = count_tokens(text) + count_tokens(title)
        if text and cost <= room:
            body += [part for part in (title, text) if part]
            room -= cost
    rest = _remainder(draft, room, round(occasion.target * 2 * _SLACK))
    return "\n\n".join([first, *body, *rest, *last])


def _chosen(draft: Draft) -> list[tuple[str, Callable[[Draft], str]]]:
    """Sections in the order of trial: what the fact asks for first, then the others at random."""
    occasion = draft.occasion
    names = draft.rng.sample(sorted(BUILDERS), len(BUILDERS))
    if occasion.purpose == "contradiction":
        names.remove("recap")
    found = [(name, BUILDERS[name]) for name in names]
    fact = occasion.fact
    if fact is not None and occasion.purpose in ("fact", "update") and fact.aspect.kind in FACT_BUILDERS:
        found.insert(0, FACT_BUILDERS[fact.aspect.kind])
    return found


def _remainder(draft: Draft, room: int, slack: int) -> list[str]:
    """Paragraphs of single sentences that take the answer into its range of lengths."""
    sentences: list[str] = []
    while room > slack:
        fitting = [text for _ in range(_TRIES) if count_tokens(text := draft.sentence()) <= room]
        if not fitting:  # little room left: look on for a short one
            short = (draft.sentence() for _ in range(_LAST_TRIES))
            fitting = [text for text in short if count_tokens(text) <= room][:1]
        if not fitting:
            break
        sentences.append(draft.rng.choice(fitting))
        room -= count_tokens(sentences[-1])
    return [" ".join(sentences[at : at + 4]) for at in range(0, len(sentences), 4)]


def _opening(draft: Draft) -> str:
    occasion, fact = draft.occasion, draft.occasion.fact
    asked = _asked(occasion)
    words = {"asked": indirect(asked), "quoted": asked.rstrip("?"), "you": _situation(occasion)}
    link = "asked" if words["asked"] else "quoted" if asked else "you" if words["you"] else "topic"
    purpose = occasion.purpose
    if purpose in ("fact", "update") and fact is not None:
        told = fact.aspect.told if fact.aspect.kind == "event" else fact.aspect.state
        words |= {"told": fact.fill(told, "you"), "mention": fact.mention, "why": fact.values.get("reason", "")}
        words |= {name: fact.values[name] for name in ("value", "other") if name in fact.values}
        if fact.companion is not None:
            words["name"] = fact.companion.name
        key = "update" if purpose == "update" else fact.aspect.kind
        return f"{draft.say(f'open.{key}', **words)} {draft.say(f'link.{link}', **words)}"
    if purpose == "introduction":
        words["name"] = occasion.profile.name
        return f"{draft.say('open.introduction', **words)} {draft.say(f'link.{link}', **words)}"
    if purpose == "contradiction":
        return f"{draft.say('open.contradiction')} {draft.say(f'link.{link}', **words)}"
    if purpose == "preference" and (liked := _LIKING.search(occasion.words.get("preference", ""))):
        words |= {"liking": to_you(liked[0].rstrip(".")), "because": to_you(liked[2])}
        if all(words[name] for name in ("liking", "because")):
            return f"{draft.say('open.preference', **words)} {draft.say(f'link.{link}', **words)}"
    if purpose == "instruction":
        if rule := _RULE.match(occasion.question):
            return draft.say("open.instruction", rule=rule[1], field=rule[2])
        return draft.say("open.instruction_plain")
    if purpose == "reply":
        return draft.say("open.reply_plain")
    start = "followup" if purpose == "followup" else "dig"
    if start == "dig" and words["you"] and occasion.rng.random() < 0.4:
        return f"{draft.say('open.situation', **words)} {draft.say(f'link.{link}', **words)}"
    if words["asked"]:
        return draft.say(f"open.{start}", **words)
    if not asked:
        return draft.say("open.followup_bare" if start == "followup" else "open.bare")
    return draft.say("open.followup_plain" if start == "followup" else "open.plain", **words)


def _asked(occasion: Occasion) -> str:
    """The question of the topic that the message holds, else its last one."""
    for text in (*occasion.topic.questions, *occasion.topic.followups):
        if (filled := occasion.fill(text)).lower() in occasion.question.lower():
            return capital(filled)
    found = _QUESTION.findall(occasion.question)
    return capital(found[-1].strip()) if found else ""


def _situation(occasion: Occasion) -> str:
    for text in occasion.topic.situations:
        filled = occasion.fill(text)
        if filled in occasion.question and filled.startswith("I "):
            return to_you(filled)
    return ""
