"""Check probing questions by rule (paper section 2.3: what the conversation does not support is discarded).

A check takes a draft and the conversation and returns what is wrong, or None. `CHECKS` lists the abilities of each
check; `examine` runs them in order and names the first that fails. Words are compared as stems without stop words.
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

from beam_generate.probes.drafts import PROBE_KINDS, Draft, View
from beam_generate.probes.wording import content, days, names, numbers, quotations, raw_words, share, spans, totals
from beam_generate.probes.writing import ABSENT, CONTRADICTORY, WHICH, payload
from beamlib.data.conversations import ABILITIES, Ability
from beamlib.text import split_sentences

Check = Callable[[Draft, View], str | None]

_MOST = 0.6
"""A text with this share of a statement's content words counts as holding the statement."""
_SAME = 0.8
"""A later sentence with this share of the words that two statements have in common is about their disagreement."""
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
"""Word of a contradiction's type -> what a statement (True: both statements) must hold to be of that type."""
_REMARK = re2.compile(  # a tenth of the time of `re` over ten million tokens
    r"(?i)\b(?:contradict(?:s|ed|ing)? (?:what|you|your|something|the fact)\b|contradictory (?:information|statements?)"
    r"|(?:inconsisten\w+|discrepanc\w+|conflicts?|contradictions?) (?:here\b|(?:between|with|in) (?:what|you|your)\b)"
    r"|(?:earlier|before|previously),? (?:you|I) (?:had )?(?:said|told|mentioned|wrote|stated)"
    r"|(?:you|I)(?:['’]ve| have| had)? (?:said|told (?:you|me)|mentioned|wrote|stated)\b[^.?!\n]{0,60}"
    r"\b(?:earlier|before|previously|but|while|although)"
    r"|which (?:of (?:the two|these|them)|one|statement|version) (?:holds|applies|(?:is|was) (?:it|right|correct|true))"
    r"|misspoke|misremember\w*|mixed (?:that|it|this) up|take (?:that|it) back|was wrong about|correct myself)\b"
)
"""Phrases that point at a contradiction between two statements, or take one back."""
_CONFLICT = content("contradict contradictory contradiction conflicting inconsistent inconsistency")


def evidence_exists(draft: Draft, view: View) -> str | None:
    """Evidence is cited in each of its parts and every id is a message; abstention cites none."""
    if draft.ability == "abstention":
        return "cites evidence for what is said to be absent" if draft.evidence_ids else None
    for part in PROBE_KINDS[draft.ability].parts.values() or [""]:
        if not draft.evidence.get(part):
            return f"no evidence{f' for {part}' if part else ''}"
    unknown = [i for i in draft.evidence_ids if not 0 <= i < len(view.messages)]
    return f"no such message: {unknown[0]}" if unknown else None


def evidence_of_its_bullets(draft: Draft, view: View) -> str | None:
    """Every cited message belongs to a turn about one of the question's bullets."""
    strangers = [i for i in draft.evidence_ids if view.messages[i].ref not in draft.refs]
    return f"message {strangers[0]} belongs to none of its bullets" if strangers else None


def evidence_roles(draft: Draft, view: View) -> str | None:
    """Only the user is cited, except for abilities whose published questions cite the assistant as well."""
    if PROBE_KINDS[draft.ability].both_roles:
        return None
    wrong = [i for i in draft.evidence_ids if view.messages[i].role != "user"]
    return f"message {wrong[0]} is the assistant's" if wrong else None


def question_leaks(draft: Draft, view: View) -> str | None:
    """The question does not give a nugget away.

    It gives a nugget away if it holds all its days, numbers, quotations and names. A nugget without any of these, with
    at least four content words, is given away by 60 % of them. Words of `Draft.about` do not count.
    """
    in_question, topic = content(draft.question), content(draft.about)
    lower, about = draft.question.lower(), draft.about.lower()
    figures, dated = set(numbers(draft.question)), days(draft.question)
    for nugget in map(payload, draft.rubric):
        leaks = [any(day.same(other) for other in dated) for day in days(nugget)]
        leaks += [number in figures for number in numbers(nugget)]
        named = [*quotations(nugget), *names(nugget)]
        leaks += [name.lower() in lower for name in named if name.lower() not in about]
        if leaks and all(leaks):
            return f"the question holds the figures and names of {nugget!r}"
        words = content(nugget) - topic
        if len(words) >= _LEAST_WORDS and not leaks and share(words, in_question) >= _MOST:
            return f"the question holds the words of {nugget!r}"
    return None


def question_hints(draft: Draft, view: View) -> str | None:
    """A question about an update does not mention change, one about a contradiction does not mention conflict."""
    hints = content(draft.question) & (_CHANGE if draft.ability == "knowledge_update" else _CONFLICT)
    return f"the question hints by {min(hints)!r}" if hints else None


def abstention_absent(draft: Draft, view: View) -> str | None:
    """What is asked for occurs nowhere.

    The writer may name a thing (`entity`) and what is not known about it (`keyword`, one word, or `detail`). The thing
    must occur. No message with most words of the thing may hold the keyword or most words of the detail; without a
    thing, no message at all may. Without keyword and detail, the question's other words are the detail.
    """
    entity, detail = _absent(draft)
    if not detail:
        return "nothing is asked for but the thing itself"
    ids = view.ids_by_stem(entity | detail)
    near = _holders(entity, ids) if entity else None
    if near is not None and not near:
        return f"no message speaks of {draft.hints['entity']!r}"
    holders = _holders(detail, ids)
    holders = holders if near is None else holders & near
    return f"message {min(holders)} may tell it" if holders else None


def _absent(draft: Draft) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stems of the thing and of what is not known about it."""
    entity = content(draft.hints.get("entity", ""))
    detail = draft.hints.get("keyword") or draft.hints.get("detail") or draft.question
    return entity, content(detail) - entity


def _holders(stems: frozenset[str], ids: Mapping[str, Sequence[int]]) -> set[int]:
    """Return the messages that hold at least 60 % of the stems."""
    counts = Counter(i for one in sorted(stems) for i in ids[one])
    return {i for i, count in counts.items() if count >= _MOST * len(stems)}


def rubric_form(draft: Draft, view: View) -> str | None:
    """The rubric has the published form: no repeats, abstention's phrase, the four items of a contradiction."""
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
    """Every day, number, quotation and name of the rubric stands in the evidence or follows from it.

    In `temporal_reasoning` a number may be the time between two days. In `multi_session_reasoning` it may be a count of
    what is cited, or a sum, mean or difference of at most six numbers: those of the reasoning steps that stand in the
    evidence, else all of the evidence.
    """
    texts = view.texts(draft.evidence_ids)
    cited_days = [day for text in texts for day in days(text)]
    cited = [number for text in texts for number in numbers(text)]
    joined = " ".join([*texts, draft.question]).lower().replace("’", "'")
    figures = set(cited) | _computed(draft, Counter(cited))
    if draft.ability == "temporal_reasoning":
        figures |= spans(cited_days)
    for nugget in map(payload, draft.rubric):
        for day in days(nugget):
            if not any(day.same(other) for other in cited_days):
                return f"the day {day.month}/{day.day} of {nugget!r} is not in the evidence"
        for number in numbers(nugget):
            if number not in figures:
                return f"the number {float(number):g} of {nugget!r} is not in the evidence"
        for name in [*quotations(nugget), *names(nugget)]:
            if name.lower().replace("’", "'") not in joined:
                return f"the name {name!r} is not in the evidence"
    return None


def _computed(draft: Draft, cited: Counter[Fraction]) -> set[Fraction]:
    """Return counts of what is cited and totals of the cited numbers, each as often as it is cited."""
    if draft.ability != "multi_session_reasoning":
        return set()
    stated = {number for step in draft.fields["reasoning_steps"] for number in numbers(step)}
    summands = {number: count for number, count in cited.items() if number in stated} or cited
    counts = {Fraction(len(draft.evidence_ids)), Fraction(len(draft.refs))}
    return counts | totals(sorted(Counter(summands).elements()))


def temporal_dated(draft: Draft, view: View) -> str | None:
    """Both events have a day in their own evidence."""
    for part, ids in draft.evidence.items():
        if not any(days(text) for text in view.texts(ids)):
            return f"no day in the evidence for {part}"
    return None


def update_order(draft: Draft, view: View) -> str | None:
    """The updated information comes after the original."""
    original, updated = draft.evidence["original_info"], draft.evidence["updated_info"]
    return None if max(original) < min(updated) else "the update does not come after the original"


def update_values(draft: Draft, view: View) -> str | None:
    """The new value stands in the updated evidence only, the old one in the original evidence, and they differ.

    Values are the writer's hints. Without a hint the new value is the answer, and the old one is not checked.
    """
    new = draft.hints.get("new_value") or draft.reference
    old = draft.hints.get("old_value", "")
    before, after = (" ".join(view.texts(draft.evidence[part])) for part in ("original_info", "updated_info"))
    if not _holds(after, new):
        return f"the new value {new!r} is not in the updated evidence"
    if _holds(before, new):
        return f"the new value {new!r} is in the original evidence"
    return f"the old value {old!r} is not in the original evidence" if old and not _holds(before, old) else None


def _holds(text: str, value: str) -> bool:
    """Tell whether a text holds all days and numbers of a value; without any, most of its content words."""
    dated, figures = days(value), numbers(value)
    if dated or figures:
        text_days, text_numbers = days(text), set(numbers(text))
        return all(any(day.same(other) for other in text_days) for day in dated) and text_numbers.issuperset(figures)
    return share(content(value), content(text)) >= _MOST


def contradiction_opposes(draft: Draft, view: View) -> str | None:
    """The statements stand in different messages, share two content words, and the second rules the first out.

    How it does so depends on its type (`contradiction_type`, Listing 27). As a rule it denies something (never, not,
    no). By type, one of them says that something is the only one, both name a day, an age or a place, or one tells of
    a death.
    """
    first, second = (" ".join(view.texts(draft.evidence[part])) for part in ("first_statement", "second_statement"))
    kind = str(draft.fields["contradiction_type"])
    pattern, both = next((shape for name, shape in _OPPOSING.items() if name in kind.casefold()), (_NEGATION, False))
    matches = [bool(pattern.search(text)) for text in (first, second)]
    if pattern is _NEGATION and not matches[1]:
        return "the second statement denies nothing"
    if not (all(matches) if both else any(matches)):
        return f"the statements are no {kind}"
    if set(draft.evidence["first_statement"]) & set(draft.evidence["second_statement"]):
        return "one message is cited for both statements"
    return None if len(content(first) & content(second)) >= 2 else "the statements are about different things"


def contradiction_unremarked(draft: Draft, view: View) -> str | None:
    """After both statements nobody points at the contradiction, asks which one holds, or takes one back.

    This looks at the turns of the later statement's bullet, and at later sentences that hold 80 % of the words that
    both statements have in common.
    """
    parts = [draft.evidence[part] for part in ("first_statement", "second_statement")]
    first, second = (content(" ".join(view.texts(ids))) for ids in parts)
    start = max(min(ids) for ids in parts)
    ref = view.messages[start].ref
    own = {message.id for turn in (view.turns_of(ref) if ref else ()) for message in turn}
    for number, sentence in _remarks(view):
        close = number in own or share(first & second, content(sentence)) >= _SAME
        if number >= start and close:
            return f"message {number} speaks of the contradiction: {sentence[:80]!r}"
    return None


@lru_cache(maxsize=1)  # one pass over a conversation, not one per question
def _remarks(view: View) -> tuple[tuple[int, str], ...]:
    """Return the sentences of a conversation that remark on something said, with the ids of their messages."""
    remarks = []
    for message in view.messages:
        if _REMARK.search(message.text):
            sentences = split_sentences(message.text)
            remarks += [(message.id, sentence) for sentence in sentences if _REMARK.search(sentence)]
    return tuple(remarks)


def events_in_order(draft: Draft, view: View) -> str | None:
    """Evidence ascends, and each item of the rubric has half of its content words in a message at its place.

    Items are as many as `total_mentions` and all different. The place of an item is the message of the same number if
    one is cited per item, else a message not before the last item's. No two items may clearly fit the other way round.
    """
    ids = draft.evidence_ids
    if list(ids) != sorted(ids):
        return "the evidence is not in the order of the conversation"
    if len({" ".join(raw_words(payload(item))) for item in draft.rubric}) < len(draft.rubric):
        return "an item occurs twice"
    if len(draft.rubric) != draft.fields["total_mentions"]:
        return f"{len(draft.rubric)} items where the question tells of {draft.fields['total_mentions']}"
    messages = [content(text) for text in view.texts(ids)]
    items = [content(payload(item)) for item in draft.rubric]
    place = 0
    for number, (item, words) in enumerate(zip(draft.rubric, items, strict=True)):
        if len(messages) == len(items):
            place = number
        else:
            fitting = (at for at in range(place, len(messages)) if share(words, messages[at]) >= 0.5)
            place = next(fitting, len(messages))
        if place == len(messages) or share(words, messages[place]) < 0.5:
            return f"{item!r} is not mentioned at its place"
    return _swapped(draft, items, messages) if len(messages) == len(items) else None


def _swapped(draft: Draft, items: Sequence[frozenset[str]], messages: Sequence[frozenset[str]]) -> str | None:
    """Find two items whose own words (those that are not the subject's) clearly fit each other's messages better."""
    own = [words - content(draft.about) or words for words in items]
    for one, other in combinations(range(len(own)), 2):
        straight = share(own[one], messages[one]) + share(own[other], messages[other])
        crossed = share(own[one], messages[other]) + share(own[other], messages[one])
        if crossed - straight >= 1:
            return f"{draft.rubric[one]!r} and {draft.rubric[other]!r} stand the wrong way round"
    return None


def statement_in_evidence(draft: Draft, view: View) -> str | None:
    """One evidence message holds the instruction or preference."""
    words = content(_statement(draft))
    most = max((share(words, content(text)) for text in view.texts(draft.evidence_ids)), default=0.0)
    return None if most >= _MOST else f"no evidence message holds {_statement(draft)!r}"


def question_repeats_statement(draft: Draft, view: View) -> str | None:
    """The question does not repeat the instruction or preference."""
    repeats = share(content(_statement(draft)), content(draft.question)) >= _MOST
    return "the question repeats what it tests" if repeats else None


def _statement(draft: Draft) -> str:
    name = "instruction_being_tested" if draft.ability == "instruction_following" else "preference_being_tested"
    return str(draft.fields[name])


def _all_but(*left_out: Ability) -> tuple[Ability, ...]:
    return tuple(ability for ability in ABILITIES if ability not in left_out)


_FOLLOWING: tuple[Ability, ...] = ("instruction_following", "preference_following")
CHECKS: Mapping[str, tuple[Check, tuple[Ability, ...]]] = {
    check.__name__: (check, abilities)
    for check, abilities in (
        (evidence_exists, ABILITIES),
        (evidence_of_its_bullets, ABILITIES),
        (evidence_roles, ABILITIES),
        (rubric_form, ABILITIES),
        (question_leaks, _all_but("abstention", "contradiction_resolution", *_FOLLOWING)),
        (question_hints, ("contradiction_resolution", "knowledge_update")),
        (question_repeats_statement, _FOLLOWING),
        (statement_in_evidence, _FOLLOWING),
        (rubric_grounded, _all_but("abstention")),
        (temporal_dated, ("temporal_reasoning",)),
        (update_order, ("knowledge_update",)),
        (update_values, ("knowledge_update",)),
        (contradiction_opposes, ("contradiction_resolution",)),
        (contradiction_unremarked, ("contradiction_resolution",)),
        (events_in_order, ("event_ordering",)),
        (abstention_absent, ("abstention",)),
    )
}
"""Each check by name, with its abilities; later checks rely on what earlier ones made sure of."""
DUPLICATE = "duplicate_question"


def examine(draft: Draft, view: View) -> Draft:
    """Return the draft with the name of the first check it fails and the reason, both empty if it passes."""
    for name, (check, abilities) in CHECKS.items():
        if draft.ability in abilities and (why := check(draft, view)) is not None:
            return replace(draft, dropped=name, why=why)
    return replace(draft, dropped="", why="")


def examine_all(drafts: Sequence[Draft], view: View) -> list[Draft]:
    """Examine all drafts; of usable questions with the same words the first is kept."""
    view.ids_by_stem(
        one for draft in drafts if draft.ability == "abstention" for part in _absent(draft) for one in part
    )  # cached: one pass over the conversation for all
    seen: dict[str, str] = {}
    examined = []
    for draft in drafts:
        draft = examine(draft, view)
        if not draft.dropped:
            first = seen.setdefault(" ".join(raw_words(draft.question)), draft.id)
            if first != draft.id:
                draft = replace(draft, dropped=DUPLICATE, why=f"asks the same as {first}")
        examined.append(draft)
    return examined
