"""The stand-in's judge: does an answer satisfy a nugget, and which snippets name the same event?

Matching is by normalised numbers, dates, names and word stems; it knows no synonyms, so it is stricter than a language
model towards paraphrase. Its thresholds were set on the two judged runs that `tests/offline/test_judge_agreement.py`
reads: 20 questions of one conversation. On 2,415 verdicts of GPT-5 at 1M, which it was not tuned on, κ is .43, and
question scores correlate at .79 instead of .92.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from beam_offline.read_facts import find_dates, find_numbers, stem, stems, without_dates
from beamlib.text import split_sentences

FULL, PARTIAL = 0.55, 0.3
"""Shares of a nugget's weight that an answer must cover for full and for half credit."""

_FEW = 3
"""Content words below which a clause cannot be said to say the opposite."""

_SHORT = 8
"""Content words up to which a nugget is about one thing: the form of the answer, or that there is a contradiction."""

_STEM = re.compile(
    r"^\s*(?:the )?(?:LLM )?(?:response|answer) should\s+(?:(?:also )?(?:state|mention|contain|include|list|note|say|"
    r"indicate|provide|explain|describe|acknowledge)s?\b\s*(?:that\b)?\s*:?\s*)?",
    re.IGNORECASE,
)
_ABSTAINS = re.compile(
    r"\bno (?:\w+ ){0,3}(?:information|mention|record|details?|evidence|indication)\b"
    r"|\b(?:not|never|isn't|wasn't|aren't|weren't) (?:\w+ )?(?:specified|mentioned|provided|stated|listed|included|"
    r"discussed|described|recorded|available|given|documented|disclosed|shared|found|specify|mention|provide|state|"
    r"include|contain|describe|list|say)\b"
    r"|\b(?:doesn't|does not|do not|don't|didn't|did not) (?:\w+ )?(?:specify|mention|provide|state|include|contain|"
    r"describe|list|say|have|know|indicate|give|discuss)\b"
    r"|\b(?:cannot|can't|could not|unable to) (?:\w+ )?(?:find|determine|answer|tell|say)\b",
    re.IGNORECASE,
)
_NO_INFORMATION = re.compile(
    r"\bno information\b|\bthere is no (?:\w+ )?(?:mention|record|detail)"
    r"|\b(?:not|doesn't) (?:\w+ )?(?:contain|provide|mention|include)\w* (?:any )?information\b",
    re.IGNORECASE,
)
_CONFLICT = re.compile(
    r"contradict|conflict|inconsisten|discrepan|mixed (?:statements|signals|information)|opposite statements",
    re.IGNORECASE,
)
_ASKS_WHICH = re.compile(
    r"\bwhich (?:\w+ ){0,3}(?:is|are|was) (?:\w+ )?(?:correct|right|true|accurate|current)"
    r"|\bwhich (?:one|statement|version)\b[^.]*\?|\b(?:clarify|clarification|confirm which|let me know which)\b",
    re.IGNORECASE,
)
_RESOLVES = re.compile(
    r"\b(?:authoritative|most recent|latest|later|resolution|takes precedence|more reliable|supersede)", re.IGNORECASE
)
_ASKING_NUGGET = re.compile(r"\bwhich (?:\w+ ){0,3}(?:is|are) (?:\w+ )?correct\b|\bclarif", re.IGNORECASE)
_AVOID = re.compile(
    r"^\W*(?:should )?(?:avoids?|not|does not|do not|doesn't|don't|must not|refrains? from|no|without|excludes?|never "
    r"(?:suggest|recommend)\w*)\b\s*(?P<what>.+)$",
    re.IGNORECASE | re.DOTALL,
)
_NEGATED = re.compile(
    r"\b(?:never|no longer|none|nobody|nothing|not)\b|(?<!ca)n['’]t\b|\bwithout having\b", re.IGNORECASE
)
_TURNED_DOWN = re.compile(
    r"\b(?:avoid\w*|not|never|without|instead of|rather than|over|no|skip\w*|against|unlike|don't|doesn't|n't)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[\w,] )[A-Z]\w+")  # capitalised, and not because a sentence begins
_CLAUSES = re.compile(
    r"(?<=[.!?;:])\s+|,\s+(?=but|and|so|while|which|however|I|you|since|as)|\n+|\bbut\b"
    r"|\s+(?=because\b)|,?\s+(?=(?:and )?not (?:the|a|an|my|your|with|for|in|on)\b)"
)
# What "prefer A to B" and its like turn down: B, up to the end of the clause.
_PREFERRED = re.compile(
    r"\b(?:prefer(?:s|red)?|like[sd]?|favou?r(?:s|ed)?|chose|choose|go with|rather)\b(?P<kept>[^.;!?]*?)\s"
    r"(?:to|over|rather than|more than|instead of)\s(?P<turned_down>[^.;!?]*)",
    re.IGNORECASE,
)

# What a nugget about the form of an answer asks for, and how that form shows. Order matters: the first that fits.
_FORMS = tuple(
    (re.compile(asked, re.IGNORECASE), re.compile(shown, re.IGNORECASE | re.MULTILINE))
    for asked, shown in (
        (r"\bsyntax highlight|\bcode (?:block|snippet|example)|\bexample \w+ code\b|\bexample code\b", r"```\w*\n"),
        (r"\bbullet", r"^[ \t]*[-*•] "),
        (r"\bversion (?:number|detail)|\bversions listed\b", r"\bv?\d+\.\d+|\b(?:ES|HTML|CSS)\d+|\bv\d+\b"),
        (r"\b(?:numeric|status|error) codes?\b", r"\b[1-5]\d\d\b"),
        (r"\b24-hour\b", r"\b(?:[01]?\d|2[0-3]):[0-5]\d\b(?!\s*[ap]\.?m)"),
        (
            r"\bstep[- ]by[- ]step\b|\bnumbered (?:list|steps)\b",
            r"^[ \t]*(?:\*\*)?(?:step )?\d+[.):]|\bstep 1\b|\bfirst\b.*\bthen\b",
        ),
        (r"\b(?:specific|explicit|exact) (?:\w+ )?(?:numbers?|figures?|amounts?)\b|\bsalary number\b", r"\d"),
        (r"\btables?\b.*\bformat|\bformat\w* .*\btables?\b", r"^[ \t]*\|.+\|"),
    )
)

# Words of nuggets that say what kind of thing is meant rather than which.
_VAGUE_TEXT = """
implement implementation concern handle handling discuss discussion question initial feature aspect use usage
consideration process approach mention state suggest recommend include example specific detail improve improvement setup
set work plan planning related general basic enhance enhancement focus project explore explain help ask provide ensure
various key first next finally user
"""
_VAGUE = frozenset(stem(word) for word in _VAGUE_TEXT.split())


@dataclass(frozen=True, slots=True)
class RuledNugget:
    """A score (0, 0.5 or 1) and why."""

    score: float
    reason: str


def criterion(nugget: str) -> str:
    """The nugget without its stem ("LLM response should state: ...")."""
    return _STEM.sub("", nugget).strip() or nugget.strip()


def abstains(answer: str) -> bool:
    """Whether `answer` says, at its beginning, that the information is not there."""
    return any(_ABSTAINS.search(sentence) for sentence in split_sentences(answer)[:2])


def _weights(text: str) -> dict[str, float]:
    """The content stems of `text` that are not numbers, with what each weighs: names most, vague words least."""
    names = frozenset(stem(name) for name in _NAME.findall(text))
    return {
        word: 0.4 if word in _VAGUE else 1.5 if word in names else 1.0
        for word in dict.fromkeys(stems(text))
        if not word[0].isdigit()
    }


def _share(wanted: Mapping[str, float], present: frozenset[str]) -> float:
    """Share of the weight of `wanted` that is `present`."""
    total = sum(wanted.values())
    return sum(weight for word, weight in wanted.items() if word in present) / total if total else 0.0


def _judge_abstention(question: str, wanted: str, answer: str) -> RuledNugget:
    if not abstains(answer):
        return RuledNugget(0, "the answer does not say that the information is missing")
    known = frozenset(stems(question)) | frozenset(stems(wanted))
    rest = [s for s in split_sentences(answer) if not _ABSTAINS.search(s)]
    asserted = {word for sentence in rest for word in stems(sentence)} - known
    if len(asserted) > 25:
        return RuledNugget(0, "the answer says that the information is missing and then gives some")
    return RuledNugget(1, "the answer says that the information is missing")


def _judge_avoidance(wanted: str, answer: str) -> RuledNugget:
    if abstains(answer):
        return RuledNugget(0, "the answer does not respond to the question")
    forbidden = {word: weight for word, weight in _weights(wanted).items() if word not in _VAGUE}
    # A preference repeated to the user names what is turned down and does not suggest it.
    for clause in _CLAUSES.split(_PREFERRED.sub(lambda match: match["kept"], answer)):
        if _share(forbidden, frozenset(stems(clause))) >= 0.6 and not _TURNED_DOWN.search(clause):
            return RuledNugget(0, f"the answer contains what it should leave out: {clause.strip()[:80]}")
    return RuledNugget(1, "the answer leaves out what it should")


def _figures(text: str) -> list[tuple[str, object, frozenset[str]]]:
    """Dates and numbers of `text` as (kind, value, stems of the two words around)."""
    found: list[tuple[str, object, frozenset[str]]] = [("date", d.day, frozenset()) for d in find_dates(text)]
    for number in find_numbers(text):
        after = stems(" ".join(text[number.end : number.end + 60].split()[:4]))
        found.append((number.kind or "number", number.value, frozenset(after)))
    return found


def _same_figure(wanted: tuple[str, object, frozenset[str]], given: tuple[str, object, frozenset[str]]) -> bool:
    (kind, value, _), (other_kind, other, _) = wanted, given
    if kind == "date" or other_kind == "date":
        return kind == other_kind and value.same(other)  # type: ignore[attr-defined]
    plain = {"number"}
    return value == other and (kind == other_kind or kind in plain or other_kind in plain)


def _headline_differs(wanted: str, answer: str) -> bool:
    """Whether the answer leads with another figure of the kind that is wanted, whatever it says further on."""
    lead = _figures(split_sentences(answer)[0])
    asked = _figures(wanted)
    rivals = [f for f in lead if any(f[0] == a[0] and (not f[2] or not a[2] or f[2] & a[2]) for a in asked)]
    met = sum(any(_same_figure(figure, other) for other in lead) for figure in asked)
    return len(rivals) >= len(asked) > met


def _figures_met(wanted: str, answer: str) -> tuple[int, int]:
    """How many of the figures of `wanted` stand in `answer`, and how many there are."""
    given = _figures(answer)
    asked = _figures(wanted)
    return sum(any(_same_figure(figure, other) for other in given) for figure in asked), len(asked)


def _windows(answer: str) -> list[str]:
    sentences = split_sentences(answer)
    return [" ".join(sentences[i : i + 3]) for i in range(len(sentences))]


def _polarity_clash(wanted: str, words: Mapping[str, float], answer: str) -> bool:
    """Whether the clause of `answer` that speaks most of the nugget says the opposite of it."""
    negative = _NEGATED.search(wanted) is not None
    clauses = [c for c in _CLAUSES.split(answer) if c.strip()]
    scored = sorted(((_share(words, frozenset(stems(c))), -i) for i, c in enumerate(clauses)), reverse=True)
    best = scored[0][0] if scored else 0.0
    if best < PARTIAL:
        return False
    near = [clauses[-i] for share, i in scored if share >= 0.75 * best]
    return all((_NEGATED.search(clause) is not None) != negative for clause in near)


def _judge_content(wanted: str, answer: str) -> RuledNugget:
    words = _weights(without_dates(wanted))
    met, figures = _figures_met(wanted, answer)
    everything = frozenset(stems(answer))
    windowed = max((_share(words, frozenset(stems(window))) for window in _windows(answer)), default=0.0)
    cover = 0.5 * windowed + 0.5 * _share(words, everything)
    if figures and not met:
        return RuledNugget(0, "no figure of the criterion stands in the answer")
    if figures and len(words) < _FEW and _headline_differs(wanted, answer):
        return RuledNugget(0, "the answer leads with another figure")
    if figures and (not words or all(word in _VAGUE for word in words)):
        return RuledNugget(float(met == figures), f"{met} of {figures} figures stand in the answer")
    share = 0.5 * met / figures + 0.5 * cover if figures else cover
    if len(words) >= _FEW and _polarity_clash(wanted, words, answer):
        return RuledNugget(0, "the answer says the opposite")
    score = 1.0 if share >= FULL else 0.5 if share >= PARTIAL else 0.0
    if met < figures:
        score = min(score, 0.5)
    return RuledNugget(score, f"{share:.2f} of the criterion's words and figures stand in the answer")


def _unnumbered(answer: str) -> str:
    """`answer` without the numbers of its list items, which state nothing."""
    return re.sub(r"^[ \t]*\d+[.)][ \t]+", "", answer, flags=re.MULTILINE)


def judge(question: str, nugget: str, answer: str) -> RuledNugget:
    """Score `answer` against one nugget: 1 satisfied, 0.5 partly, 0 not (paper, Listing 20)."""
    wanted = criterion(nugget)
    if not answer.strip():
        return RuledNugget(0, "the answer is empty")
    if _NO_INFORMATION.search(wanted):
        return _judge_abstention(question, wanted, answer)
    if _CONFLICT.search(wanted) and len(stems(wanted)) <= _SHORT:
        named = _CONFLICT.search(answer) is not None
        return RuledNugget(float(named), "it names the contradiction" if named else "no contradiction is named")
    if _ASKING_NUGGET.search(wanted) and len(stems(wanted)) <= _SHORT:
        if _ASKS_WHICH.search(answer):
            return RuledNugget(1, "it asks which statement is correct")
        if _CONFLICT.search(answer) and _RESOLVES.search(answer):
            return RuledNugget(0.5, "it decides which statement is correct and does not ask")
        return RuledNugget(0, "it does not ask which statement is correct")
    if (avoided := _AVOID.match(wanted)) and " but " not in wanted:
        return _judge_avoidance(avoided["what"], answer)
    for asked, shown in _FORMS:
        if asked.search(wanted) and len(stems(wanted)) <= _SHORT:
            found = shown.search(answer) is not None and not abstains(answer)
            return RuledNugget(float(found), "it has the form asked for" if found else "it lacks the form asked for")
    if abstains(answer) and len(stems(answer)) < 25:
        return RuledNugget(0, "the answer abstains")
    return _judge_content(wanted, _unnumbered(answer))


def judge_nugget(variables: Mapping[str, str]) -> str:
    """Reply to the prompt `judge_nugget`: a JSON object with `score` and `reason`."""
    verdict = judge(variables["question"], variables["nugget"], variables["answer"])
    return json.dumps({"score": float(verdict.score), "reason": verdict.reason}, ensure_ascii=False)


def same_event(event: str, nugget: str) -> bool:
    """Whether the shorter text's content is found in the longer one (paper, Listing 21)."""
    first, second = frozenset(stems(criterion(event))), frozenset(stems(criterion(nugget)))
    short, long = sorted((first, second), key=len)
    return _share({word: 0.4 if word in _VAGUE else 1.0 for word in sorted(short)}, long) >= FULL


def align_events(variables: Mapping[str, str]) -> str:
    """Reply to the prompt `align_events`: `yes` or `no`."""
    return "yes" if same_event(variables["event"], variables["nugget"]) else "no"


_NUMBERED = re.compile(r"(\d+)[.)](?: |$)(.*)")


def _entries(numbered: str) -> list[tuple[int, str]]:
    """The entries of a numbered list. A line whose number does not go on from the last belongs to the entry before."""
    entries: list[tuple[int, str]] = []
    for line in numbered.split("\n"):
        match = _NUMBERED.match(line)
        if match and int(match[1]) == len(entries) + 1:
            entries.append((int(match[1]), match[2]))
        elif entries:
            number, text = entries[-1]
            entries[-1] = (number, f"{text}\n{line}")
    return entries


def align_batch(variables: Mapping[str, str]) -> str:
    """Reply to the prompt `align_batch`: a JSON object from each item's number to the numbers of its nuggets.

    `items` and `nuggets` are lists numbered from 1. Each item is compared with each nugget as by `align_events`.
    """
    nuggets = _entries(variables["nuggets"])
    matches = {
        str(number): [candidate for candidate, nugget in nuggets if same_event(item, nugget)]
        for number, item in _entries(variables["items"])
    }
    return json.dumps(matches)
