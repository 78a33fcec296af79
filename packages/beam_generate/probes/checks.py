"""Every check of a probing question that needs no judgement (paper section 2.3: what is unsupported is discarded).

A check takes a draft and the conversation and returns what is wrong, or None. `CHECKS` says which abilities it is for;
`examine` runs them in order and names the first that fails. Words are compared as stems without stop words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import re2

from beam_generate.probes.drafts import Draft, View
from beam_generate.probes.kinds import ABILITIES, KINDS, Ability
from beam_generate.probes.nuggets import ABSENT, CONTRADICTORY, WHICH, payload
from beam_generate.probes.wording import content, days, names, numbers, quotations, raw_words, share, spans, totals
from beamlib.text import split_sentences

Check = Callable[[Draft, View], str | None]

MOST = 0.6
"""The share of a statement's content words that counts as holding the statement."""
_SAME = 0.8
"""The share of two statements' common words that shows that a later sentence is about what they disagree on."""
_LEAST_WORDS = 4
_NEGATION = re.compile(r"\b(?:never|not|no|none|nobody|nothing|without|neither|cannot|\w+n['’]t)\b", re.IGNORECASE)
_CHANGE = content(
    "currently updated changed revised adjusted rescheduled latest newest now anymore originally formerly"
)
_OPPOSING: Mapping[str, tuple[re.Pattern[str], bool]] = {
    "only": (re.compile(r"\b(?:only|sole|solely|single|exclusively|except|apart from|always)\b", re.IGNORECASE), False),
    "location": (re.compile(r"\b(?:in|at|to|from|near|on) +(?:the +|my +|our +)?[A-Z]\w+"), True),
    "reversal": (re.compile(r"[0-9]|\b(?:older|younger|born|aged?|before|after|since|years?)\b", re.IGNORECASE), True),
    "death": (
        re.compile(r"\b(?:die[ds]?|dead|death|late|passed away|funeral|buried|widow\w*)\b", re.IGNORECASE),
        False,
    ),
}
"""By a word of the kind's name, what one statement (True: both) must hold to rule the other out in its way."""
_REMARK = re2.compile(  # a tenth of the time of `re` over ten million tokens
    r"(?i)\b(?:contradict(?:s|ed|ing)? (?:what|you|your|something|the fact)\b|contradictory (?:information|statements?)"
    r"|(?:inconsisten\w+|discrepanc\w+|conflicts?|contradictions?) (?:here\b|(?:between|with|in) (?:what|you|your)\b)"
    r"|(?:earlier|before|previously),? (?:you|I) (?:had )?(?:said|told|mentioned|wrote|stated)"
    r"|(?:you|I)(?:['’]ve| have| had)? (?:said|told (?:you|me)|mentioned|wrote|stated)\b[^.?!\n]{0,60}"
    r"\b(?:earlier|before|previously|but|while|although)"
    r"|which (?:of (?:the two|these|them)|one|statement|version) (?:holds|applies|(?:is|was) (?:it|right|correct|true))"
    r"|misspoke|misremember\w*|mixed (?:that|it|this) up|take (?:that|it) back|was wrong about|correct myself)\b"
)
"""Wordings by which somebody notices that two statements cannot both be true, or takes one back."""
_CONFLICT = content("contradict contradictory contradiction conflicting inconsistent inconsistency")


def evidence_exists(draft: Draft, view: View) -> str | None:
    """Evidence is cited, in each of its parts, and every id is a message; abstention cites none."""
    if draft.ability == "abstention":
        return "cites evidence for what is said to be absent" if draft.evidence_ids else None
    parts = KINDS[draft.ability].parts
    for part in parts.values() if parts else [""]:
        if not draft.evidence.get(part):
            return f"no evidence{f' for {part}' if part else ''}"
    unknown = [i for i in draft.evidence_ids if not 0 <= i < len(view.messages)]
    return f"no such message: {unknown[0]}" if unknown else None


def evidence_of_its_bullets(draft: Draft, view: View) -> str | None:
    """Every cited message belongs to a turn about one of the question's bullets."""
    strangers = [i for i in draft.evidence_ids if view.messages[i].ref not in draft.refs]
    return f"message {strangers[0]} belongs to none of its bullets" if strangers else None


def evidence_roles(draft: Draft, view: View) -> str | None:
    """Only the user is cited, except where the published questions cite assistants as well."""
    if KINDS[draft.ability].both_roles:
        return None
    wrong = [i for i in draft.evidence_ids if view.messages[i].role != "user"]
    return f"message {wrong[0]} is the assistant's" if wrong else None


def question_leaks(draft: Draft, view: View) -> str | None:
    """The question gives no nugget away.

    A nugget is given away where the question holds all its days, numbers, quotations and names, or 60 % of its content
    words if it has at least four; words of what is asked about (`Draft.about`) do not count.
    """
    asked, topic = content(draft.question), content(draft.about)
    lower, about = draft.question.lower(), draft.about.lower()
    figures, dated = set(numbers(draft.question)), days(draft.question)
    for nugget in map(payload, draft.rubric):
        found = [any(day.agrees(other) for other in dated) for day in days(nugget)]
        found += [number in figures for number in numbers(nugget)]
        named = [*quotations(nugget), *names(nugget)]
        found += [name.lower() in lower for name in named if name.lower() not in about]
        if found and all(found):
            return f"the question holds the figures and names of {nugget!r}"
        words = content(nugget) - topic
        if len(words) >= _LEAST_WORDS and not found and share(words, asked) >= MOST:
            return f"the question holds the words of {nugget!r}"
    return None


def question_hints(draft: Draft, view: View) -> str | None:
    """A question about an update does not speak of change, one about a contradiction does not speak of conflict."""
    hints = content(draft.question) & (_CHANGE if draft.ability == "knowledge_update" else _CONFLICT)
    return f"the question hints by {min(hints)!r}" if hints else None


def abstention_absent(draft: Draft, view: View) -> str | None:
    """What is asked for really is nowhere.

    The maker may name the thing (`entity`) and what is not known about it (`keyword`, one word; else `detail`). No
    message that holds most words of the entity may hold the keyword, or most words of the detail. Where no entity is
    named, no message at all may. An entity that is named must occur. Without keyword and detail, the question's own
    words but for the entity's are the detail.
    """
    entity, detail = _absent(draft)
    if not detail:
        return "nothing is asked for but the thing itself"
    holding = view.holding(entity | detail)
    near = _most(entity, holding) if entity else None
    if near is not None and not near:
        return f"no message speaks of {draft.hints['entity']!r}"
    told = _most(detail, holding)
    told = told if near is None else told & near
    return f"message {min(told)} may tell it" if told else None


def _absent(draft: Draft) -> tuple[frozenset[str], frozenset[str]]:
    """Stems of the thing and of what is not known about it."""
    entity = content(draft.hints.get("entity", ""))
    told = draft.hints.get("keyword") or draft.hints.get("detail") or draft.question
    return entity, content(told) - entity


def _most(stems: frozenset[str], holding: Mapping[str, Sequence[int]]) -> set[int]:
    """The messages that hold at least 60 % of `stems`."""
    counts = Counter(i for one in sorted(stems) for i in holding[one])
    return {i for i, count in counts.items() if count >= MOST * len(stems)}


def rubric_form(draft: Draft, view: View) -> str | None:
    """The rubric has the published form: no repeats; abstention's phrase; the four items of a contradiction."""
    if not draft.rubric or not all(payload(nugget) for nugget in draft.rubric):
        return "an empty nugget"
    if len(set(draft.rubric)) < len(draft.rubric):
        return "a nugget occurs twice"
    if draft.ability == "abstention" and not all(nugget.startswith(ABSENT) for nugget in draft.rubric):
        return f"a nugget does not begin {ABSENT!r}"
    if draft.ability == "contradiction_resolution":
        whole = len(draft.rubric) == 4 and draft.rubric[0] == CONTRADICTORY and draft.rubric[3] == WHICH
        return None if whole else "not the four items"
    return None


def rubric_grounded(draft: Draft, view: View) -> str | None:
    """Every day, number, quotation and name in the rubric stands in an evidence message, or follows from them.

    A number may follow as the length between two days (`temporal_reasoning`), or as a count of what is cited, a sum, a
    mean or a difference of at most six numbers (`multi_session_reasoning`): those of the reasoning steps that stand in
    the evidence, else all of the evidence.
    """
    texts = view.texts(draft.evidence_ids)
    told_days = [day for text in texts for day in days(text)]
    told = {number for text in texts for number in numbers(text)}
    joined = " ".join([*texts, draft.question]).lower().replace("’", "'")
    figures = told | _computed(draft, texts) | (spans(told_days) if draft.ability == "temporal_reasoning" else set())
    for nugget in map(payload, draft.rubric):
        for day in days(nugget):
            if not any(day.agrees(other) for other in told_days):
                return f"the day {day.month}/{day.day} of {nugget!r} is not in the evidence"
        for number in numbers(nugget):
            if number not in figures:
                return f"the number {float(number):g} of {nugget!r} is not in the evidence"
        for name in [*quotations(nugget), *names(nugget)]:
            if name.lower().replace("’", "'") not in joined:
                return f"the name {name!r} is not in the evidence"
    return None


def _computed(draft: Draft, texts: Sequence[str]) -> set[Fraction]:
    """Counts of what is cited; totals of the numbers in the reasoning steps, each as often as the evidence has it."""
    if draft.ability != "multi_session_reasoning":
        return set()
    told = Counter(number for text in texts for number in numbers(text))
    stated = {number for step in draft.fields["reasoning_steps"] for number in numbers(step)}
    summands = {number: count for number, count in told.items() if number in stated} or told
    counts = {Fraction(len(draft.evidence_ids)), Fraction(len(draft.refs))}
    return counts | totals(sorted(Counter(summands).elements()))


def temporal_dated(draft: Draft, view: View) -> str | None:
    """Both events have a day in their own evidence."""
    for part, ids in draft.evidence.items():
        if not any(days(text) for text in view.texts(ids)):
            return f"no day in the evidence for {part}"
    return None


def update_order(draft: Draft, view: View) -> str | None:
    """The updated information is given after the original one."""
    original, updated = draft.evidence["original_info"], draft.evidence["updated_info"]
    return None if max(original) < min(updated) else "the update does not come after the original"


def update_values(draft: Draft, view: View) -> str | None:
    """The new value is in the updated evidence and not in the original, the old one in the original, and they differ.

    The new value is what the maker said, else the answer; the old one what it said, else the figures of the field
    `potential_confusion` that the new value lacks.
    """
    new = draft.hints.get("new_value") or draft.reference
    old = draft.hints.get("old_value", "")
    before, after = (" ".join(view.texts(draft.evidence[part])) for part in ("original_info", "updated_info"))
    if not _holds(after, new):
        return f"the new value {new!r} is not in the updated evidence"
    if _holds(before, new):
        return f"the new value {new!r} is in the original evidence"
    if old:
        if " ".join(old.lower().split()) == " ".join(new.lower().split()):
            return "the old value is the new one"
        return None if _holds(before, old) else f"the old value {old!r} is not in the original evidence"
    confusion = str(draft.fields["potential_confusion"])
    stale = [n for n in numbers(confusion) if n not in numbers(new)]
    dated = [day for day in days(confusion) if not any(day.agrees(other) for other in days(new))]
    missing = bool(stale) and not set(stale) & set(numbers(before))
    missing |= bool(dated) and not any(day.agrees(other) for day in dated for other in days(before))
    return "the old value is not in the original evidence" if missing else None


def _holds(text: str, value: str) -> bool:
    """Whether `text` tells `value`: all its days, numbers; without any, most of its content words."""
    dated, figures = days(value), numbers(value)
    if dated or figures:
        told_days, told = days(text), set(numbers(text))
        return all(any(day.agrees(other) for other in told_days) for day in dated) and told.issuperset(figures)
    return share(content(value), content(text)) >= MOST


def contradiction_opposes(draft: Draft, view: View) -> str | None:
    """The statements stand in different messages, share at least two content words, and the second rules the first out
    in the way of its kind (`contradiction_type`, Listing 27): as a rule it denies (never, not, no, ...); it or the
    first says that something is the only one; both name a day, an age or a place; one of them tells of a death.
    """
    first, second = (" ".join(view.texts(draft.evidence[part])) for part in ("first_statement", "second_statement"))
    kind = str(draft.fields["contradiction_type"])
    pattern, both = next((shape for name, shape in _OPPOSING.items() if name in kind.casefold()), (_NEGATION, False))
    held = [bool(pattern.search(text)) for text in (first, second)]
    if pattern is _NEGATION and not held[1]:
        return "the second statement denies nothing"
    if not (all(held) if both else any(held)):
        return f"the statements are no {kind}"
    if set(draft.evidence["first_statement"]) & set(draft.evidence["second_statement"]):
        return "one message is cited for both statements"
    return None if len(content(first) & content(second)) >= 2 else "the statements are about different things"


def contradiction_unremarked(draft: Draft, view: View) -> str | None:
    """After both statements nobody points at the contradiction, asks which of them holds, or takes one back.

    Looked at: turns of the later statement's bullet, later sentences with four fifths of the words in both statements.
    """
    parts = [draft.evidence[part] for part in ("first_statement", "second_statement")]
    first, second = (content(" ".join(view.texts(ids))) for ids in parts)
    start = max(min(ids) for ids in parts)
    ref = view.messages[start].ref
    own = {one.id for turn in (view.turns_of(ref) if ref else ()) for one in turn}
    for number, sentence in _remarks(view):
        close = number in own or share(first & second, content(sentence)) >= _SAME
        if number >= start and close:
            return f"message {number} speaks of the contradiction: {sentence[:80]!r}"
    return None


@lru_cache(maxsize=1)  # one pass over a conversation, and not one for each question
def _remarks(view: View) -> tuple[tuple[int, str], ...]:
    """The sentences of a conversation that remark on something said, with the ids of their messages."""
    found = []
    for message in view.messages:
        if _REMARK.search(message.text):
            sentences = split_sentences(message.text)
            found += [(message.id, sentence) for sentence in sentences if _REMARK.search(sentence)]
    return tuple(found)


def events_in_order(draft: Draft, view: View) -> str | None:
    """Evidence ascends; items are as many as `total_mentions`, all different, and each holds half of its content words
    in a message of its own place: the message of the same number where one is cited per item, else one that does not
    come before the last item's. No two items would fit better the other way round (`_swapped`).
    """
    ids = draft.evidence_ids
    if list(ids) != sorted(ids):
        return "the evidence is not in the order of the conversation"
    if len({" ".join(raw_words(payload(item))) for item in draft.rubric}) < len(draft.rubric):
        return "an item occurs twice"
    if len(draft.rubric) != draft.fields["total_mentions"]:
        return f"{len(draft.rubric)} items where the question tells of {draft.fields['total_mentions']}"
    told = [content(text) for text in view.texts(ids)]
    items = [content(payload(item)) for item in draft.rubric]
    place = 0
    for number, (item, words) in enumerate(zip(draft.rubric, items, strict=True)):
        if len(told) == len(items):
            place = number
        else:
            place = next((at for at in range(place, len(told)) if share(words, told[at]) >= 0.5), len(told))
        if place == len(told) or share(words, told[place]) < 0.5:
            return f"{item!r} is not mentioned at its place"
    return _swapped(draft, items, told) if len(told) == len(items) else None


def _swapped(draft: Draft, items: Sequence[frozenset[str]], told: Sequence[frozenset[str]]) -> str | None:
    """Two items whose own words (those that are not the subject's) clearly fit each other's messages better."""
    own = [words - content(draft.about) or words for words in items]
    for one, other in combinations(range(len(own)), 2):
        straight = share(own[one], told[one]) + share(own[other], told[other])
        crossed = share(own[one], told[other]) + share(own[other], told[one])
        if crossed - straight >= 1:
            return f"{draft.rubric[one]!r} and {draft.rubric[other]!r} stand the wrong way round"
    return None


def statement_in_evidence(draft: Draft, view: View) -> str | None:
    """One evidence message holds the instruction or preference."""
    words = content(_statement(draft))
    held = max((share(words, content(text)) for text in view.texts(draft.evidence_ids)), default=0.0)
    return None if held >= MOST else f"no evidence message holds {_statement(draft)!r}"


def question_repeats_statement(draft: Draft, view: View) -> str | None:
    """The question does not repeat the instruction or preference."""
    return (
        "the question repeats what it tests"
        if share(content(_statement(draft)), content(draft.question)) >= MOST
        else None
    )


def _statement(draft: Draft) -> str:
    name = "instruction_being_tested" if draft.ability == "instruction_following" else "preference_being_tested"
    return str(draft.fields[name])


_FOLLOWING: tuple[Ability, ...] = ("instruction_following", "preference_following")
_TOLD = tuple(ability for ability in ABILITIES if ability not in ("abstention", "contradiction_resolution"))
CHECKS: Mapping[str, tuple[Check, tuple[Ability, ...]]] = {
    check.__name__: (check, abilities)
    for check, abilities in (
        (evidence_exists, ABILITIES),
        (evidence_of_its_bullets, ABILITIES),
        (evidence_roles, ABILITIES),
        (rubric_form, ABILITIES),
        (question_leaks, tuple(ability for ability in _TOLD if ability not in _FOLLOWING)),
        (question_hints, ("contradiction_resolution", "knowledge_update")),
        (question_repeats_statement, _FOLLOWING),
        (statement_in_evidence, _FOLLOWING),
        (rubric_grounded, tuple(ability for ability in ABILITIES if ability != "abstention")),
        (temporal_dated, ("temporal_reasoning",)),
        (update_order, ("knowledge_update",)),
        (update_values, ("knowledge_update",)),
        (contradiction_opposes, ("contradiction_resolution",)),
        (contradiction_unremarked, ("contradiction_resolution",)),
        (events_in_order, ("event_ordering",)),
        (abstention_absent, ("abstention",)),
    )
}
"""Each check by name, with the abilities it is for; later ones may rely on what earlier ones found in order."""
DUPLICATE = "duplicate_question"


def examine(draft: Draft, view: View) -> Draft:
    """The draft with the name of the first check it fails and the reason, both empty if it passes all."""
    for name, (check, abilities) in CHECKS.items():
        if draft.ability in abilities and (why := check(draft, view)) is not None:
            return replace(draft, dropped=name, why=why)
    return replace(draft, dropped="", why="")


def examine_all(drafts: Sequence[Draft], view: View) -> list[Draft]:
    """`examine` for all, with one pass over the conversation; of usable questions that read alike the first stays."""
    view.holding(one for draft in drafts if draft.ability == "abstention" for part in _absent(draft) for one in part)
    seen: dict[str, str] = {}
    found = []
    for draft in drafts:
        examined = examine(draft, view)
        if not examined.dropped:
            first = seen.setdefault(" ".join(raw_words(draft.question)), draft.id)
            if first != draft.id:
                examined = replace(examined, dropped=DUPLICATE, why=f"asks the same as {first}")
        found.append(examined)
    return found
