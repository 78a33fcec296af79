"""The stand-in's reader: it answers by extraction, from the question and the context alone (paper, Listing 44)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from beam_offline.advice import advice
from beam_offline.answer_wording import MISSING, cut, plain, to_user
from beam_offline.context import USER, ContextHit, Search, read_context
from beam_offline.cues import NEVER
from beam_offline.lookup import count, lookup, order, summary
from beam_offline.question import ParsedQuestion, QuestionKind, read_question
from beam_offline.sums import reckon
from beam_offline.timing import duration, which_first


def whether(question: ParsedQuestion, search: Search) -> str:
    """Yes or no with the statement behind it; both statements and the question which holds, where they contradict."""
    said = [hit for hit in search.hits(question.topic) if hit.unit.role == USER]
    denials = [hit for hit in said if NEVER.search(hit.unit.text)]
    never = [ContextHit(max(hit.score, _share(question, hit)), hit.block, hit.unit) for hit in denials]
    never.sort(key=lambda hit: -hit.score)
    ever = [hit for hit in said if not NEVER.search(hit.unit.text)]
    no = never[0] if never and never[0].score >= 0.45 else None
    yes = ever[0] if ever and ever[0].score >= (0.3 if no else 0.5) else None
    if no and yes:
        return (
            f'There is contradictory information about this. You said: "{_said(no)}" You also mentioned: '
            f'"{_said(yes)}" Which statement is correct?'
        )
    if yes:
        return f'Yes. You said: "{_said(yes)}"'
    return f'No. You said: "{_said(no)}"' if no else MISSING


def _share(question: ParsedQuestion, hit: ContextHit) -> float:
    """How much of a denial the question takes up: "I've never used X" is all about X, however long the question."""
    shared = hit.unit.stems & set(question.topic)
    return len(shared) / len(hit.unit.stems) if len(shared) > 1 else 0.0


def _said(hit: ContextHit) -> str:
    return cut(to_user(plain(hit.unit.text)), 45)


_ANSWERS: Mapping[QuestionKind, Callable[[ParsedQuestion, Search], str]] = {
    QuestionKind.ORDER: order,
    QuestionKind.SUMMARY: summary,
    QuestionKind.WHETHER: whether,
    QuestionKind.DURATION: duration,
    QuestionKind.FIRST: which_first,
    QuestionKind.COUNT: count,
    QuestionKind.REQUEST: advice,
    QuestionKind.DATE: lookup,
    QuestionKind.NUMBER: lookup,
    QuestionKind.LOOKUP: lookup,
}


_ABOUT_EVERYTHING = (QuestionKind.ORDER, QuestionKind.SUMMARY)
"""Questions that take in the whole conversation: "in total" in one of them asks for no sum."""


def answer(variables: Mapping[str, str]) -> str:
    """Reply to the prompts `answer` and `answer_full`."""
    context = read_context(variables["context"])
    question = read_question(variables["question"])
    if not question.topic or not context.size:
        return MISSING
    search = Search(context)
    # Sums come first: "by how much do the hours before and after the move differ" is no question about dates.
    reckoned = None if question.kind in _ABOUT_EVERYTHING else reckon(question, search)
    return reckoned or _ANSWERS[question.kind](question, search)
