"""The stand-in's judge for MEME: verdicts by rules over the answer and the values. It is not a language model.

What passes is written in `prompts/meme_judge_*.md`; here it is read off wordings. A value is mentioned as `meme_values`
finds it, and the clause around a mention says how it is meant: as what holds now, as past, as coming or conditional, as
a guess, or denied. On first sight of answers that were written after them the rules agreed with their author in 100 of
104 (plain ones) and 62 of 70 (long ones): `tests/meme/judged_later.py` and `judged_harder.py`. No model was compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from beam_offline.meme_values import Clause, Mention, Value, clauses, marked, words
from beamlib.files import to_json

_NEGATIVE = r"(?:not|never|isn't|wasn't|aren't|weren't|hasn't|haven't|don't|doesn't|didn't|won't|cannot|can't|couldn't)"
_REFUSES = re.compile(
    # "no record of ...", "nothing about ..."
    r"\bno (?:[\w-]+ ){0,4}?(?:information|mention|records?|details?|data|evidence|indication|entry|memory|answer|"
    r"knowledge|confirmation)\b"
    r"|\bno (?:confirmed|known|stated|recorded|specified|listed|such|new)\b"
    r"|\bnothing (?:\w+ ){0,3}?(?:on|about|stored|recorded|known|mentioned|said|listed|kept)\b"
    # "not specified", "has not been mentioned", "isn't available", "not on record"
    rf"|\b{_NEGATIVE} (?:been |be |yet |currently |explicitly |\w+ly ){{0,2}}(?:specified|mentioned|provided|stated|"
    r"listed|included|discussed|described|recorded|available|given|documented|disclosed|shared|found|known|confirmed|"
    r"stored|told|said|on record|sure|certain|clear|aware|able|determined|established|"
    r"re-?confirmed|named|chosen|set)\b"
    # "does not say", "I don't have", "you haven't told me", "I couldn't find"
    rf"|\b{_NEGATIVE} (?:any ?longer |currently |actually |yet |explicitly |\w+ly )?(?:specify|mention|provide|state|"
    r"include|contain|describe|list|say|have|know|indicate|give|discuss|find|see|recall|remember|determine|tell|"
    r"answer|confirm|keep|locate)\b"
    r"|\bunable to\b|\bno longer (?:\w+ ){0,3}(?:have|keep|know|store|exist|remember|available|stored|listed|on record|"
    r"in memory|recorded|retain)\w*|\bno longer have\b"
    r"|\b(?:unknown|unspecified|uncertain|unclear|unsure|unconfirmed|undetermined|undefined)\b"
    r"|^[^\w\n]{0,9}(?:none|n/?a|nothing|no idea|not mentioned)\b|\bnone (?:that|is|was|are|of|on)\b"
    # "no pet is mentioned", "no X has been confirmed"
    r"|\bno (?:[\w-]+ ){1,5}?(?:is|was|are|were|has been|have been)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""The answer says that it does not know, or that there is nothing."""

_DELETED = re.compile(
    r"\b(?:delet|eras|remov|forg[eo]t|purg|wip|discard|redact)\w*"
    rf"|\basked (?:me )?{_NEGATIVE} to (?:keep|store|remember|retain)\b|\bno longer\b|\bdon't keep\b",
    re.IGNORECASE,
)
_TOLD_OF_DELETING = frozenset(words("memory memories record records note notes information data request entry stored"))
"""Words that speak of the deletion itself and give nothing away."""

_COMING = re.compile(
    r"\bwill\b|\b(?:it|they|that|you|he|she)'ll\b|\bwould\b|\b(?:it|that|you)'d be\b|\bshould (?:now |then )?be\b"
    r"|\bshould (?:change|switch|go|become)\b|\bgoing to (?:be|become|change|switch|go)\b|\bplan(?:s|ning)? to\b"
    r"|\bplanned\b|\bset to (?:be|become|change|switch|move|go)\b|\b(?:expected|supposed) to\b"
    r"|\bin (?:that|this) case\b",
    re.IGNORECASE,
)
"""Coming, or what would hold under a condition."""

_CONDITION = re.compile(
    r"^\W*(?:and |or |only )?(?:if|unless|in case|should|assuming|provided|depending|in the event)\b"
    r"|^\W*(?:when|whenever|once|after|upon)\b[^.]*\b(?:changes|change|moves|leaves|switches|is replaced)\b"
    r"|\b(?:after|upon|on|in case of) an? [\w -]{0,30}change\b|\bif\b",
    re.IGNORECASE,
)
_GUESS = re.compile(
    r"\b(?:probably|possibly|perhaps|maybe|presumably|likely|seemingly|apparently|either|assume|guess|i think|"
    r"i believe|unsure|uncertain|unclear|unconfirmed|tentative\w*|not (?:entirely |fully |completely )?(?:sure|certain|"
    r"clear|confirmed)|appears?)\b"
    r"|\b(?:(?-i:may)|might|could)(?! (?:change|be changed|switch|shift|vary))\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:was|were|had|used to|previous(?:ly)?|former(?:ly)?|earlier|originally|initially|at first|before|prior|old|"
    r"until|till|no longer|instead of|rather than|replac\w+|not any ?more|in the past|lived|went|took|lay|worked|"
    r"received|until recently|once|last|(?:changed|moved|switched|up|down|taken over|took over|updated) from)\b",
    re.IGNORECASE,
)
_NOW = re.compile(r"\b(?:now|current(?:ly)?|today|at present|presently|these days|nowadays|updated?)\b", re.IGNORECASE)
_TURNED = re.compile(
    r"\b(?:to|into|became|become|replac\w*|succeed\w*|supersed\w*|switch\w*|chang\w*|took over|taken over)\b",
    re.IGNORECASE,
)
"""One value follows another."""

_OR = re.compile(r"\bor\b", re.IGNORECASE)
_DENIED = re.compile(
    r"\b(?:no longer|instead of|rather than)\b|\b(?:is|are|was|does|do|did|has|have)? ?(?:not|n't)\b(?! only| just)"
    r"|\b(?:isn't|aren't|wasn't|don't|doesn't|didn't)\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    rf"\b(?:(?-i:may)|might|could)(?! (?:change|be changed|switch|shift|vary))\b|\b(?:unclear|uncertain|unsure|"
    r"unknown|unconfirmed|possibly|probably|perhaps|maybe|presumably|outdated|out of date|questionable|doubtful)\b"
    rf"|\b{_NEGATIVE} (?:be |been |entirely |fully |completely |yet )?(?:sure|certain|clear|confirmed|known|updated|"
    r"guaranteed|valid|apply|hold)\b|\bno longer\b|\bany ?more\b|\b(?:verify|double-check|to check|re-?confirm)\b"
    r"|\bwhether\b|\bremains to be\b|\bif (?:it|that|this) (?:still|is still)\b",
    re.IGNORECASE,
)
_CHANGED = re.compile(
    r"\b(?:changed|change of|since then|has moved|moved|have since|left|took over|new (?:\w+ ){0,2}(?:lead|job|home|"
    r"employer)|now|recently|replaced|no longer)\b",
    re.IGNORECASE,
)
_DEPENDED = re.compile(
    r"\bdepended\b|\b(?:has|have|had|will|must)(?: since| probably| likely)?(?: have)? changed?\b(?! to\b)",
    re.IGNORECASE,
)
_FORMERLY = re.compile(r"\b(?:used to|previous(?:ly)?|former(?:ly)?|in the past|earlier|at the time|back then)\b", re.I)
_NOW_TOO = re.compile(r"\b(?:still|remains|continues)\b", re.IGNORECASE)
_ONLY_WHILE = re.compile(r"\b(?:only )?(?:as|so) long as\b|\bonly while\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Read:
    """An answer taken apart, with marks in place of `values` that it has to the letter."""

    text: str
    parts: list[Clause]
    values: tuple[str, ...]

    @classmethod
    def of(cls, answer: str, *values: str) -> Read:
        """The answer, spelt in one way."""
        text = marked(answer, values)
        return cls(text, clauses(text), values)

    def mentions(self, number: int, question: str = "", rival: str = "") -> list[Mention]:
        """The mentions of one of the values, in order; an empty one has none."""
        value = self.values[number]
        return list(Value.of(value, number, question, rival).mentions(self.parts)) if value.strip() else []

    def clauses_with(self, number: int, question: str = "", rival: str = "") -> list[Mention]:
        """The first mention in each clause that has one."""
        found = self.mentions(number, question, rival)
        return list({one.clause.number: one for one in reversed(found)}.values())[::-1]


@lru_cache(maxsize=64)
def _search(pattern: re.Pattern[str], sentence: str) -> bool:
    """Whether `pattern` occurs; kept, for a sentence is asked about as often as it mentions something."""
    return pattern.search(sentence) is not None


Verdict = tuple[bool, str]
"""Whether the answer passes, and why."""


def judge_cascade(answer: str, question: str, new: str, old: str) -> Verdict:
    """The new value alone, as definite and current."""
    read = Read.of(answer, new, old)
    found = read.clauses_with(0, question, old)
    if not found:
        return False, "the new value is not given"
    others = read.clauses_with(1, question, new)
    beside = {one.clause.number for one in others}
    definite = [one for one in found if _definite(one) and not _undecided(one, beside)]
    if not definite:
        return False, "the new value is given as coming, conditional, a guess or denied"
    last = definite[-1]
    for other in others:
        if not _past(other) and not _overtaken(other, last):
            return False, "the old value is given as well"
    return True, "the new value is given as what holds now"


def _definite(one: Mention) -> bool:
    clause = one.clause
    conditional = any(_CONDITION.search(part) for part in (clause.before, one.clause.text, clause.after))
    return not (conditional or _COMING.search(one.clause.text) or _search(_GUESS, clause.whole) or _denied(one))


def _undecided(one: Mention, beside: set[int]) -> bool:
    """Whether the clause leaves open which holds: "A or B", or both `beside` each other with nothing between them."""
    text = one.clause.text
    if one.clause.number in beside:
        return _OR.search(text) is not None or not (_TURNED.search(text) or _NOW.search(text))
    return _OR.match(text.strip(" *_-")) is not None


def _overtaken(one: Mention, last: Mention) -> bool:
    """Whether a sentence further on gives `last` as what holds now."""
    return one.clause.sentence_number < last.clause.sentence_number and _search(_NOW, last.clause.whole)


def _denied(one: Mention) -> bool:
    return _DENIED.search(one.clause.text) is not None


def _past(one: Mention) -> bool:
    return _PAST.search(one.clause.text) is not None or _denied(one)


def judge_absence(answer: str, question: str, old: str, change: str) -> Verdict:
    """Not known, or in doubt because what it depends on changed."""
    read = Read.of(answer, old, change.rpartition("->")[2].strip())
    found = read.clauses_with(0, question)
    if not found:
        refuses = any(pattern.search(read.text) for pattern in (_REFUSES, _DOUBT, _DEPENDED))
        return refuses, "the answer says that it is not known" if refuses else "the answer gives something else"
    if _DOUBT.search(read.text):
        return True, "the old value is put in doubt"
    past = all(_past(one) for one in found)
    changed = _CHANGED.search(read.text) is not None or bool(read.mentions(1))
    if _REFUSES.search(read.text) and (past or changed):
        return True, "the old value is given as past and the present one as not known"
    if changed and ((past and not _NOW_TOO.search(read.text)) or _ONLY_WHILE.search(read.text)):
        return True, "the old value is given as past, and what it depends on as changed"
    if past and all(_search(_FORMERLY, one.clause.whole) for one in found):
        return True, "the old value is given as a former one"
    return False, "the old value is given without a doubt"


def judge_deletion(answer: str, question: str, old: str) -> Verdict:
    """No such information, or no longer, and the value not revealed."""
    read = Read.of(answer, old)
    if _reveals(read, Value.of(old, 0, question)):
        return False, "the answer reveals the value"
    if _REFUSES.search(read.text) or _DELETED.search(read.text):
        return True, "the answer says that there is no such information"
    return False, "the answer does not say that the information is missing"


def _reveals(read: Read, value: Value) -> bool:
    sentences = dict.fromkeys(clause.whole for clause in read.parts)
    return any(value.shows_in(set(words(sentence)) - _TOLD_OF_DELETING) for sentence in sentences)


def judge_before(answer: str, question: str, value: str) -> Verdict:
    """The value, as what holds; remarks on what may come do not matter."""
    for one in Read.of(answer, value).clauses_with(0, question):
        if not (_denied(one) or _COMING.search(one.clause.text)):
            return True, "the value is given"
    return False, "the value is not given as what holds"


def judge_tracking(answer: str, question: str, values: list[str]) -> Verdict:
    """All values, in order."""
    read, last = Read.of(answer, *values), (-1, -1)
    for number, value in enumerate(values, start=1):
        rival = " ".join(other for other in values if other != value)
        found = read.mentions(number - 1, question, rival)
        later = [one.place for one in found if one.place > last]
        if not later:
            return False, f"value {number} {'stands out of order' if found else 'is not given'}"
        last = later[0]
    return True, "all values are given in order"


def judge_aggregation(answer: str, question: str, values: list[str]) -> list[bool]:
    """For each value whether it is given."""
    read = Read.of(answer, *values)
    return [any(not _denied(one) for one in read.clauses_with(number, question)) for number in range(len(values))]


def listed(values: str) -> list[str]:
    """The values of a prompt's numbered list; a line whose number does not go on belongs to the value before."""
    found: list[str] = []
    for line in values.split("\n"):
        number, dot, value = line.partition(". ")
        if dot and number == str(len(found) + 1):
            found.append(value)
        elif found:
            found[-1] += f"\n{line}"
    return found


def _reply(verdict: Verdict) -> str:
    return to_json({"pass": verdict[0], "reason": verdict[1]})


def _aggregation(variables: Mapping[str, str]) -> str:
    present = judge_aggregation(variables["answer"], variables["question"], listed(variables["values"]))
    return to_json({"present": present, "reason": f"{sum(present)} of {len(present)} values are given"})


def _tracking(variables: Mapping[str, str]) -> str:
    return _reply(judge_tracking(variables["answer"], variables["question"], listed(variables["values"])))


def _cascade(variables: Mapping[str, str]) -> str:
    return _reply(
        judge_cascade(variables["answer"], variables["question"], variables["new_value"], variables["old_value"])
    )


def _absence(variables: Mapping[str, str]) -> str:
    return _reply(
        judge_absence(variables["answer"], variables["question"], variables["old_value"], variables["change"])
    )


def _deletion(variables: Mapping[str, str]) -> str:
    return _reply(judge_deletion(variables["answer"], variables["question"], variables["old_value"]))


def _before(variables: Mapping[str, str]) -> str:
    return _reply(judge_before(variables["answer"], variables["question"], variables["value"]))


MEME_VERDICTS: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "meme_judge_aggregation": _aggregation,
    "meme_judge_tracking": _tracking,
    "meme_judge_cascade": _cascade,
    "meme_judge_absence": _absence,
    "meme_judge_deletion": _deletion,
    "meme_judge_before": _before,
}
"""The prompt ids of the judge of MEME, and the function of the variables that answers each."""
