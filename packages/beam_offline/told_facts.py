"""What a user tells of themselves in ordinary English: what something is, what it hangs on, that it changed, and what
is to be forgotten. Rules of the stand-in; what they miss, they miss.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from beam_offline.context import sentences_of
from beam_offline.read_facts import stems
from beam_offline.told_dependencies import mentioned, mentioned_beside, supposed
from beamlib.text import whole_sentences

Kind = Literal["fact", "change", "dependency", "deletion"]


@dataclass(frozen=True, slots=True)
class Statement:
    """`subject` is `value`; or hangs on `source`, and is `value` once that changes (to `when`); or is to go."""

    kind: Kind
    subject: str
    value: str = ""
    source: str = ""
    when: str = ""


_MOST = 1_200  # characters of a sentence; the patterns are not meant for longer ones
_DATE = re.compile(r"\A\[\d[^\]\n]{0,40}\]\s*")
_OWN = r"(?:my|our|the)"
_NAME = r"[A-Za-z][\w/-]*(?:[ '’][\w/’'-]+){0,6}?"
_MAYBE = r"(?:\s+(?:now|just|also|still|currently|recently|already|officially|actually|always|generally))*"
_BE = (
    r"(?:\s+(?:is|are|was|has been|have been|is set to|are set to|has become|became|becomes|goes to|go to|"
    r"lives? (?:at|on|in)|runs? on|comes? from|(?:has |have )?(?:just )?(?:changed|moved|switched|gone|passed|shifted)"
    r" (?:over )?to))"
)
_DO = (
    r"(?:use|used|using|run|running|chose|have chosen|picked|went with|go with|going with|adopted|work with|rely on|"
    r"(?:have |'ve |’ve )?(?:switched|moved|changed|migrated|gone over)(?: over)? to|settled on|have|got)"
)
_IS = re.compile(rf"\b{_OWN}\s+(?P<name>{_NAME}){_BE}{_MAYBE}\s+(?P<value>\S.*)", re.IGNORECASE | re.DOTALL)
_USES = re.compile(
    rf"\b(?:I|we)(?:'ve|’ve|'re|’re|'m|’m| have| are| am)?{_MAYBE}\s+{_DO}{_MAYBE}\s+(?P<value>\S.*?)\s+(?:as|for)\s+"
    rf"{_OWN}\s+(?P<name>{_NAME})(?=[,.;:!?]|\s+(?:now|these days|from now on|since|because|which|and)\b|\s*$)",
    re.IGNORECASE | re.DOTALL,
)
_MOVED = re.compile(
    rf"\b(?:I|we)(?:'ve|’ve| have)?{_MAYBE}\s+(?:switched|changed|moved|updated|set|swapped)\s+{_OWN}\s+"
    rf"(?P<name>{_NAME})(?:\s+over)?(?:\s+from\s+.{{1,80}}?)?\s+to\s+(?P<value>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_AS = re.compile(
    r"\A(?P<value>(?:[^,;:]|,(?=\d)){1,120}?)\s+(?:is|are|was|will be|has become|became|serves? as|acts? as)"
    rf"{_MAYBE}\s+"
    r"(?:my|our)\s+(?P<name>[\w' /-]{2,60}?)\s*(?=[,.;:!?]|$)",
    re.IGNORECASE,
)
_FOR = re.compile(
    rf"\A(?:for|as)\s+{_OWN}\s+(?P<name>{_NAME}),?\s+(?:I|we)(?:'ve|’ve| have)?{_MAYBE}\s+{_DO}\s+(?P<value>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_APPOSED = re.compile(
    rf"\A(?:I|we){_MAYBE}\s+\w+\s+(?:(?:\w+\s+){{0,3}}(?:with|in|on|at|by|to|from|through|for)\s+)?"
    r"(?P<value>(?:[^,;]|,(?=\d)){1,120}),\s+(?:that's\s+|that’s\s+|that is\s+|which is\s+)?(?:my|our)\s+"
    r"(?P<name>[\w' /-]{2,60}?)\s*(?=[,.;:!?]|$)",
    re.IGNORECASE,
)
_AS_MY = re.compile(
    rf"\A(?:I|we)(?:'ve|’ve|'re|’re|'m|’m)?{_MAYBE}\s+(?:have |am |are )?\w+\s+"
    r"(?P<value>(?:[^,;]|,(?=\d)){1,120}?)\s+as\s+(?:my|our)\s+(?P<name>[\w' /-]{2,60}?)\s*(?=[,.;:!?]|$)",
    re.IGNORECASE,
)
_COLON = re.compile(
    rf"\A{_OWN}\s+(?P<name>{_NAME})(?:\s+(?!is\b|are\b)\w+){{0,3}}:\s+(?P<value>\S.*)", re.IGNORECASE | re.DOTALL
)
_FACTS = (_MOVED, _FOR, _USES, _AS_MY, _APPOSED, _COLON, _IS, _AS)

_NEWLY = re.compile(
    r"\b(?:now|no longer|anymore|any more|from now on|as of|switched|changed|moved|migrated|replaced|instead|took over|"
    r"has become|became|updated?)\b",
    re.IGNORECASE,
)
_END = re.compile(
    r"\s*(?:[;!?]|\s[-–—]\s|,\s+(?:and|but|so|which|who|since|because|as|though|although|if|when|while|given|"
    r"depending|based|tied|it|that|this)\b|\s+(?:because|since|as long as|so long as|depending on|based on|thanks to|"
    r"due to|which|if|whenever|these days|instead|anymore|any more|from now on|at the moment|right now)\b).*",
    re.IGNORECASE | re.DOTALL,
)
_BEFORE = re.compile(
    r"\A(?:(?:is|are|now|currently|to be|still|just|called|named|,)\s+|(?:which|that)\s+(?:I|we)?\s*"
    r"(?:said|told you|mentioned)?\s*(?:is|was|are|were)\s+)+",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"(?:\s+(?:now|currently|as well|too|for now|here|for (?:me|us)|from (?:then|there|now|that \w+) on(?:wards?)?|"
    r"these days|at present|this time))+\Z",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\A[\"“'‘`*]+(.+?)[\"”'’`*]+[.!?]?\Z", re.DOTALL)

_ON = re.compile(
    r"\b(?:depend(?:s|ed|ing)?(?: \w+ly)? (?:up)?on|hinges? on|hangs? on|rests? on|relies on|"
    r"(?:tied|linked|bound|pegged|geared|coupled|matched)(?: \w+ly)? to|because of|due to|thanks to|based on|"
    r"(?:determined|dictated|driven|decided|set|fixed|given) by|follows from|"
    r"(?:as|so) long as|contingent on|goes with|comes with|specific to)\s+(?P<source>[^.;!?]+)",
    re.IGNORECASE,
)
_WHILE = re.compile(
    r"\b(?:since|because|given that|as long as|so long as|now that|while)\s+(?:I|we)(?:'m|’m|'re|’re| am| are)?\s+"
    r"(?:still\s+)?(?:use|using|have|on|with|at|in|run|running|work(?:ing)? (?:at|for|with|on)|"
    r"live|living|stay|keep|deploy(?:ing)? (?:on|to))\s+"
    r"(?:in\s+|on\s+|at\s+|with\s+)?(?P<value>[^,.;!?]+)",
    re.IGNORECASE,
)
_IF = re.compile(
    rf"\b(?:if|when|once|whenever|should)\s+(?:{_OWN}\s+|that\s+)?(?P<source>{_NAME})\s+"
    r"(?:ever\s+|were to\s+|does\s+|should\s+)?(?:is\s+|are\s+|gets?\s+)?"
    r"(?:chang\w*|switch\w*|mov\w+|becom\w+|replaced|swapped|turns?)(?:\s+(?:over\s+)?(?:to|into)\s+(?P<when>[^,;]+?)|"
    r"\s+(?P<what>[^,;\s][^,;]*?))?\s*(?:,|\bthen\b)\s*(?P<then>[^;!?]+)",
    re.IGNORECASE,
)
_IF_I = re.compile(
    rf"\b(?:if|when|once|whenever)\s+(?:I|we)\s+(?:ever\s+|do\s+)?(?:change|switch|replace|leave|swap)\s+(?:{_OWN}\s+)?"
    rf"(?P<source>{_NAME})(?:\s+(?:over\s+)?to\s+(?P<when>[^,;]+?))?\s*,\s*(?:then\s+)?(?P<then>[^;!?]+)",
    re.IGNORECASE,
)
_IF_LAST = re.compile(
    rf"\A(?P<then>[^;!?]+?\b(?:will|'ll|’ll)\b[^;!?]+?),?\s+(?:if|when|once|should)\s+(?:{_OWN}\s+|that\s+)?"
    rf"(?P<source>{_NAME})\s+(?:ever\s+)?(?:is\s+|gets?\s+)?(?:chang\w*|switch\w*|mov\w+|becom\w+)"
    r"(?:\s+(?:to\s+)?(?P<when>[^,;.!?]+))?",
    re.IGNORECASE,
)
_THEN = re.compile(
    rf"\A\s*(?:then\s+)?(?:(?:{_OWN}\s+)?(?P<name>{_NAME})|I|we)(?:\s+will|'ll|’ll)(?:\s+then|\s+instead)?"
    r"(?:\s+have\s+to)?\s+(?:be|become|change to|switch to|move to|go to|use|using|turn into|run)\s+(?P<value>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_CLAUSE = re.compile(r"(?:this|that|it|I|we|if|when|what|which|there)\b", re.IGNORECASE)
"""Begins a clause, which is no value."""
_PRONOUN = frozenset({"i", "we", "you", "it", "this", "that", "these", "those", "they", "this one", "that one", "both"})

_FORGET = re.compile(
    r"\b(?:delete|forget|remove|erase|wipe|scrub|purge|discard|clear out|get rid of|drop|"
    r"(?:stop|don't|do not) (?:remember|keep|stor)\w*)\b\s*(?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_OF_MEMORY = re.compile(
    r"\b(?:from|out of|in)\s+(?:your|the|our)?\s*(?:memory|memories|notes?|records?|files?|history)\b|"
    r"\b(?:forget|don't (?:remember|keep|store)|stop remembering)\b",
    re.IGNORECASE,
)
_NOT_FORGET = re.compile(r"\b(?:don't|do not|never|won't|not|can't|to)\s+forget\b", re.IGNORECASE)
_VERBATIM = re.compile(
    r"\b(?:word for word|word-for-word|verbatim|letter for letter|character for character|exactly as (?:it|I)|"
    r"exact (?:wording|words|text|string|message))\b",
    re.IGNORECASE,
)
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:\n?```|\Z)", re.DOTALL)
_LEAST_QUOTED = 8  # characters: a shorter quotation is a name


def without_date(text: str) -> str:
    """A message without the date in brackets that it may begin with."""
    return _DATE.sub("", text.strip())


def told_sentences(message: str) -> list[str]:
    """The sentences of a message; none ends with the stop of "Dr." and the like."""
    return whole_sentences(sentences_of(message))


def is_question(sentence: str) -> bool:
    """Whether a sentence asks, and so tells nothing."""
    return sentence.rstrip("\"'”’ ").endswith("?")


def statements_of(message: str, known: Mapping[str, str]) -> list[Statement]:
    """What a user's message tells, in order. `known` are subjects with values, as they were noted before."""
    message = without_date(message)
    if (exact := _verbatim(message)) is not None:
        return [exact]
    found: list[Statement] = []
    for sentence in told_sentences(message):
        if len(sentence) > _MOST:
            continue
        last = next((one.subject for one in reversed(found)), "")
        if forgotten := _forgotten(sentence, last, {**known, **{one.subject: one.value for one in found}}):
            found.append(forgotten)
        elif not is_question(sentence):
            told = {one.subject: one.value for one in found if one.kind in ("fact", "change")}
            source = next((one.source for one in reversed(found) if one.source and one.subject == last), "")
            found += _of_sentence(sentence, last, source, {**known, **told})
    return found


def _of_sentence(sentence: str, last: str, source: str, known: Mapping[str, str]) -> Iterator[Statement]:
    rule = _rule_in(sentence, last)
    if rule is not None and rule.value:
        yield rule
        sentence = _main_part(sentence)
    elif other := _supposed_in(sentence, last, source, known):
        yield from other
        return
    elif rule is not None:
        yield rule
        sentence = _main_part(sentence)
    fact = _fact(sentence)
    if fact is not None:
        yield replace(fact, value=_value_alone(fact, known))
    subject = fact.subject if fact else last
    sources = [one for one in _sources(sentence, known) if any(_alike(one, name) for name in known)]
    if fact and fact.kind == "fact" and not sources:
        sources = [*mentioned_beside(sentence, fact.subject, known)] or [*_sources(sentence, known)]
    for one in sources or _sources(sentence, known):
        if subject and not _alike(subject, one):
            yield Statement("dependency", subject, source=one)


def _supposed_in(sentence: str, last: str, source: str, known: Mapping[str, str]) -> list[Statement]:
    """What a sentence says before it supposes a change, and what is to follow from that."""
    before, _, rest = sentence.partition(";")
    first = _fact(before) if rest else None
    known = {**known, first.subject: first.value} if first else known
    found = supposed(rest if first else sentence, first.subject if first else last, source, known)
    if found is None:
        return []
    rule = Statement("dependency", found.dependent, _value(found.value), found.source)
    return [*([first] if first else []), rule]


def _value_alone(fact: Statement, known: Mapping[str, str]) -> str:
    """A value without the clause after it that speaks of another subject."""
    head, comma, rest = fact.value.partition(", ")
    others = {name: value for name, value in known.items() if name != fact.subject}
    return head if comma and mentioned(rest, others) else fact.value


def _main_part(sentence: str) -> str:
    """What a sentence says before its condition."""
    return re.split(
        r"[,;]?\s*\b(?:and\s+|but\s+)?(?:if|when|once|whenever|should)\b", sentence, maxsplit=1, flags=re.I
    )[0]


def _rule_in(sentence: str, last: str) -> Statement | None:
    found = _IF_I.search(sentence) or _IF.search(sentence) or _IF_LAST.search(sentence)
    if found is None:
        return None
    groups = found.groupdict()
    source = _clean_name(groups["source"])
    when = _value(groups.get("when") or groups.get("what") or "")
    then = _THEN.match(groups["then"])
    name = _clean_name(then["name"] or "") if then else ""
    subject = last if not name or name.lower() in _PRONOUN else name
    if not then:
        named = re.match(
            rf"\s*(?:then\s+)?{_OWN}\s+(?P<name>{_NAME})\s+(?:would|will|may|might|could)\b", groups["then"]
        )
        subject = _clean_name(named["name"]) if named else last
    if not subject or not source or source.lower() in _PRONOUN or _alike(subject, source):
        return None
    return Statement("dependency", subject, _value(then["value"]) if then else "", source, when)


def _fact(sentence: str) -> Statement | None:
    for pattern in _FACTS:
        found = pattern.search(sentence)
        if found is None:
            continue
        name, value = _clean_name(found["name"]), _value(found["value"])
        if name and value and not _CLAUSE.match(value) and len(stems(name)) <= 5 and name.lower() not in _PRONOUN:
            before = sentence[: found.end("name")] + found[0][: found.start("value") - found.start()]
            changed = _NEWLY.search(before) or re.match(r"(?:now|instead)\b", found["value"], re.IGNORECASE)
            return Statement("change" if changed else "fact", name, value)
    return None


def _sources(sentence: str, known: Mapping[str, str]) -> Iterator[str]:
    """The names of what a sentence says its subject hangs on; one named by its value where that is known."""
    if found := _WHILE.search(sentence):
        value = _value(found["value"])
        named = _name_of_value(value, known)
        if named:
            yield named
            return
    for found in _ON.finditer(sentence):
        text = re.sub(r"\A(?:what|which|who|where|how|the fact that)\s+", "", found["source"].strip(), flags=re.I)
        text = re.split(
            r",|\s+(?:and|so|but|if|when|stays?|remains?|is|are|does|doesn't|holds|we|I|at|being|because|since)\b",
            text, maxsplit=1,
        )[0]  # fmt: skip
        name = _name_of_value(text.strip(), known) or _clean_name(text)
        if name and len(stems(name)) <= 5 and name.lower() not in _PRONOUN:
            yield name


def _name_of_value(value: str, known: Mapping[str, str]) -> str:
    said = value.lower().strip(" .")
    return next((name for name, held in reversed(list(known.items())) if said and held.lower() == said), "")


def _forgotten(sentence: str, last: str, known: Mapping[str, str]) -> Statement | None:
    """What a sentence asks to be forgotten: by its name, or, as "that", what was told `last`."""
    found = _FORGET.search(sentence)
    if found is None or not _OF_MEMORY.search(sentence) or _NOT_FORGET.search(sentence):
        return None
    words = set(stems(sentence))
    named = [name for name in known if stems(name) and set(stems(name)) <= words]
    what = re.sub(_OF_MEMORY, "", found["what"])
    told = re.search(
        rf"{_OWN}\s+(?P<name>{_NAME})\s*(?:[,(:–—-]\s*|\s(?:is|was|being|of)\s+)(?P<value>(?:[^,;)]|,(?=\d))+)",
        what,
        re.IGNORECASE,
    )
    bare = re.search(rf"{_OWN}\s+(?P<name>[\w' /-]{{2,60}})", what, re.IGNORECASE)
    name = max(named, key=lambda one: len(stems(one)), default="")
    name = name or _clean_name((told or bare or {"name": ""})["name"])
    if last and (not name or re.match(r"(?:about\s+)?(?:it|that|this)\b(?!\s+(?:my|our|the)\b)", what, re.IGNORECASE)):
        name, told = last, None
    if not name:
        return None
    value = known.get(name, "")
    return Statement("deletion", name, value or (_value(told["value"]) if told else ""))


def _verbatim(message: str) -> Statement | None:
    """The exact string of a message that asks for one to be kept word for word, and what it is of."""
    cue = _VERBATIM.search(message)
    if cue is None:
        return None
    named = re.search(
        rf"\b{_OWN}\s+(?P<name>[A-Za-z][\w' /-]{{1,60}}?)(?=\s+(?:is|are|was|reads?|says?|goes|which|that|"
        r"exactly|word|verbatim|so|to|for|in|as|character|letter)\b|[,.:;(\n—–-])",
        message,
        re.IGNORECASE,
    )
    name = _clean_name(named["name"]) if named else ""
    value = _exact_value(message, cue.end())
    return Statement("fact", name, value) if name and value else None


def _exact_value(message: str, after: int) -> str:
    if fenced := _FENCE.search(message):
        return fenced[1].strip("\n")
    quoted = [part.strip() for part in re.split(r"[\"“”]", message)[1:-1:2]]
    if long := [part for part in quoted if len(part) >= _LEAST_QUOTED]:
        return long[0]
    colon = message.find(":", after)
    colon = colon if colon >= 0 else message.find(":")
    return _without_question(message[colon + 1 :].strip()) if colon >= 0 else ""


def _without_question(text: str) -> str:
    """A text without questions and thanks that its end was given."""
    paragraphs = text.split("\n\n")
    while len(paragraphs) > 1 and is_question(paragraphs[-1]):
        del paragraphs[-1]
    text = "\n\n".join(paragraphs).strip()
    return re.sub(r"(?<=[.!])\s+[A-Z][^.!?\n]*\?\s*\Z", "", text)


def _clean_name(text: str) -> str:
    """A name without what introduces it and what is said about it in a clause of its own."""
    text = re.sub(
        r"\A(?:(?:my|our|the|a|an|that|this|your|name of)\s+)+", "", " ".join(text.split()), flags=re.IGNORECASE
    )
    text = re.sub(
        r"\s+(?:that|which|who|(?:I|we)(?:['’]\w+)?|in (?:my|our|the)|for (?:my|our|the|me|us))(?:\s.*|\Z)", "", text
    )
    text = re.sub(
        r"\s+(?:now|currently|itself|also|ever|then|of mine|of ours|right now|here|this time|is|are|was)\Z", "", text
    )
    return text.strip(" ,.;:!?'\"()")


def _value(text: str) -> str:
    """What stands for a value at the beginning of `text`, without the clauses after it."""
    quoted = re.match(r"[\"“`](.+?)[\"”`]", text)
    if quoted:
        return quoted[1].strip()
    text = _BEFORE.sub("", text.strip())
    text = _END.sub("", text).rstrip(" ,.;:!?")
    text = _AFTER.sub("", text)
    return _QUOTED.sub(r"\1", text).strip().rstrip(" ,.;:!?")


def _alike(one: str, other: str) -> bool:
    return bool(stems(one)) and set(stems(one)) == set(stems(other))
