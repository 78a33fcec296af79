"""Rubrics: the reference answer taken apart into nuggets (paper section 2.3 and Appendix D)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from beam_generate.probes.drafts import Draft
from beam_generate.probes.kinds import KINDS
from beam_generate.reply_json import ask_json
from beam_generate.shapes import Repairs
from beamlib.llm.model import Model, Prompt
from beamlib.text import split_sentences

ABSENT = "Based on the provided chat, there is no"
CONTRADICTORY = "LLM response should state: there is contradictory information"
WHICH = "LLM response should mention: which statement is correct?"
_STEM = re.compile(
    r"(?:the )?(?:LLM )?response should (state|mention|contain|include|avoid|list)s?\s*:\s*", re.IGNORECASE
)
_NUMBERED = re.compile(r"^\s*(?:\d{1,2}(?:st|nd|rd|th)?\s*[.:)]|[-•*])\s*", re.IGNORECASE)
_CLAIMS = re.compile(r"\b(You [^.]*?),? but (you also [^.]*(?:\.\d[^.]*)*)", re.IGNORECASE)


def payload(nugget: str) -> str:
    """What a nugget demands, without its stem."""
    return _STEM.sub("", nugget, count=1).strip()


async def write_rubrics(model: Model, drafts: Sequence[Draft], repairs: Repairs) -> list[Draft]:
    """The drafts with their rubrics, in the published stems.

    The one nugget of abstention is its answer. Where the model gives no usable rubric, it is taken from the
    answer's own fields by `by_rule`; a draft for which that gives none either is dropped and noted.
    """
    asked = [draft for draft in drafts if draft.ability != "abstention"]
    prompts = [
        Prompt(
            "probe_nuggets",
            {"ability": draft.ability, "question": draft.question, "reference": standing(draft)},
            about=_where(draft),
        )
        for draft in asked
    ]
    replies = dict(zip(map(id, asked), await ask_json(model, prompts, list, repairs), strict=True))
    found = []
    for draft in drafts:
        reply = replies.get(id(draft))
        rubric = tidy(draft, reply) if reply is not None else ()
        if not rubric:
            rubric = by_rule(draft)
            done = "taken from the answer by rule" if rubric else "dropped"
            if draft.ability != "abstention" or not rubric:
                repairs.note("probes", _where(draft), "no usable rubric", done)
        if rubric:
            whole = replace(draft, rubric=rubric)
            found.append(replace(whole, key=whole.id))  # kept: the digest is asked for many times from here on
    return found


def _where(draft: Draft) -> str:
    return f"{draft.ability}, {' '.join(map(str, draft.refs)) or draft.about}"


def standing(draft: Draft) -> str:
    """The reference answer with the list that stands behind it, a line each: what nuggets are made of."""
    listed = KINDS[draft.ability].listed
    return "\n".join([draft.reference, *(f"- {item}" for item in draft.fields.get(listed, []))])


def tidy(draft: Draft, items: Sequence[Any]) -> tuple[str, ...]:
    """Rubric items in the published stems, without repeats; () where they cannot be brought into that shape."""
    texts = [" ".join(item.split()) for item in items if isinstance(item, str) and item.strip()]
    if len(texts) != len(items):
        return ()
    if draft.ability == "abstention":
        return tuple(dict.fromkeys(texts)) if texts and all(text.startswith(ABSENT) for text in texts) else ()
    if draft.ability == "event_ordering":
        return tuple(dict.fromkeys(_NUMBERED.sub("", payload(text)) for text in texts))
    if draft.ability == "contradiction_resolution":
        if len(texts) != 4:
            return ()
        claims = [f"LLM response should mention: {payload(text)}" for text in texts[1:3]]
        return (CONTRADICTORY, *claims, WHICH)
    return tuple(dict.fromkeys(_stemmed(text, KINDS[draft.ability].verb) for text in texts))


def _stemmed(text: str, verb: str) -> str:
    found = _STEM.match(text)
    return f"LLM response should {found[1].lower() if found else verb}: {payload(text)}"


def by_rule(draft: Draft) -> tuple[str, ...]:
    """A rubric from the answer's fields: listed facts, indicators or events; else the sentences or the whole of it."""
    if draft.ability == "abstention":
        return tidy(draft, [draft.reference.rstrip(".")])
    if draft.ability == "contradiction_resolution":
        claims = _CLAIMS.search(draft.reference)
        return (
            (CONTRADICTORY, *(f"LLM response should mention: {claims[part].strip()}" for part in (1, 2)), WHICH)
            if claims
            else ()
        )
    if draft.ability in ("event_ordering", "information_extraction", "instruction_following", "preference_following"):
        return tidy(draft, draft.fields[KINDS[draft.ability].listed])
    if draft.ability == "summarization":
        return tidy(draft, [sentence.rstrip(".") for sentence in split_sentences(draft.reference)])
    return tidy(draft, [draft.reference.rstrip(".")])
