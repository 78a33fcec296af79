"""From candidates to questions, reference answers and evidence (paper section 2.3, Listings 10 to 19)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from beam_generate.probes.candidates import Candidate, CandidateWindow, plan_name
from beam_generate.probes.drafts import Draft, Ref, Spoken, View, read_ref
from beam_generate.probes.kinds import KINDS, Ability
from beam_generate.probes.nuggets import ABSENT
from beam_generate.reply_json import ask_json
from beam_generate.shapes import Repairs
from beamlib.llm.model import Completion, Model, Prompt, gather_all
from beamlib.text import count_tokens

_HINTED: Mapping[str, tuple[str, ...]] = {
    "abstention": ("entity", "detail", "keyword"),
    "knowledge_update": ("old_value", "new_value"),
}
_FIXED = frozenset({"question", "difficulty", "source_chat_ids", "rubric", "plan_reference"})


async def ask_questions(model: Model, candidates: Sequence[Candidate], view: View, repairs: Repairs) -> list[Draft]:
    """A draft without rubric for each candidate that the conversation speaks of; the others are noted and dropped."""
    kept = []
    for candidate in candidates:
        spoken, what = spoken_of(candidate, view)
        if what:
            repairs.note("probes", _where(candidate), what, "bullets left out" if spoken else "dropped")
        if spoken is not None:
            kept.append(spoken)
    turns = await show_turns(model, kept, view, repairs)
    bullets = [candidate.window.bullets for candidate in kept]
    prompts = [
        Prompt(
            f"probe_{candidate.ability}",
            {"bullets": bullet_lines(candidate.refs, texts), "turns": shown, "about": candidate.about},
            about=_where(candidate),
        )
        for candidate, shown, texts in zip(kept, turns, bullets, strict=True)
    ]
    found = []
    for candidate, texts, reply in zip(kept, bullets, await ask_json(model, prompts, dict, repairs), strict=True):
        if reply is None:
            continue
        quoted = [f"Batch {ref.batch}, bullet {ref.bullet}: {texts[ref]}" for ref in candidate.refs]
        draft = _draft(reply, candidate.ability, candidate.window, candidate.refs, candidate.about, quoted, repairs)
        if draft is not None:
            found.append(draft)
    return found


async def ask_abstention(model: Model, windows: Sequence[CandidateWindow], repairs: Repairs) -> list[Draft]:
    """Questions that the conversation cannot answer, several per plan (Listing 14)."""
    prompts = [
        Prompt("probe_abstention", {"plan": window.text, "count": window.count}, about=plan_name(window))
        for window in windows
    ]
    found = []
    for window, reply in zip(windows, await ask_json(model, prompts, list, repairs), strict=True):
        for number, entry in enumerate(reply or [], start=1):
            if not isinstance(entry, dict):
                where = f"probe_abstention, {plan_name(window)}, entry {number}"
                repairs.note("probes", where, f"no object: {entry!r:.60}", "dropped")
                continue
            told = re.findall(r"\d+\.\d+\.\d+", str(entry.get("plan_reference", "")))
            refs = tuple(ref for ref in map(read_ref, told) if ref is not None and ref in window.bullets)
            about = str(entry.get("entity", ""))
            draft = _draft(entry, "abstention", window, refs, about, [], repairs)
            if draft is not None:
                found.append(draft)
    return found


def _where(candidate: Candidate) -> str:
    return f"{candidate.ability}, {' '.join(map(str, candidate.refs))}"


def _draft(
    reply: Mapping[str, Any], ability: Ability, window: CandidateWindow, refs: tuple[Ref, ...], about: str,
    quoted: list[str], repairs: Repairs,
) -> Draft | None:  # fmt: skip
    """A reply as a draft; None (and a note) without a question or an answer."""
    kind = KINDS[ability]
    where = f"{ability}, {' '.join(map(str, refs)) or plan_name(window)}"
    question = _text(reply.get("question"))
    reference = _text(reply.get("answer", reply.get(kind.reference)))
    detail = _text(reply.get("detail"))
    if ability == "abstention" and detail and not reference.startswith(ABSENT):
        reference = f"{ABSENT} information related to {detail.rstrip('.')}."
    if not question or not reference:
        repairs.note("probes", where, f"no {'answer' if question else 'question'} in the reply", "dropped")
        return None
    said = reply.get("absent", reply)
    hints = {
        name: _text(said.get(name) if isinstance(said, dict) else "") or _text(reply.get(name))
        for name in _HINTED.get(ability, ())
    }
    evidence = {} if ability == "abstention" else _evidence(reply, kind.parts)
    fields = {name: reply.get(name) for name in kind.fields if name not in _FIXED and name != kind.reference}
    draft = Draft(
        ability, question, reference, (), evidence, _text(reply.get("difficulty")) or "medium", fields,
        about or question, refs, window.indices, {name: text for name, text in hints.items() if text},
    )  # fmt: skip
    return _completed(draft, quoted, where, repairs)


def _evidence(reply: Mapping[str, Any], parts: Mapping[str, str] | None) -> dict[str, tuple[int, ...]]:
    value = reply.get("evidence", reply.get("source_chat_ids"))
    if not parts:
        return {"": tuple(dict.fromkeys(_ids(value)))}
    given = value if isinstance(value, dict) else {}
    return {
        published: tuple(dict.fromkeys(_ids(given.get(part, given.get(published)))))
        for part, published in parts.items()
    }


def _ids(value: Any) -> list[int]:
    """Message ids of a number, a text of digits, or lists of them; -1, which no message has, for anything else."""
    if isinstance(value, list):
        return [i for item in value for i in _ids(item)]
    if type(value) is int:
        return [value]
    if isinstance(value, str) and value.strip().isdecimal():
        return [int(value)]
    return [] if value is None else [-1]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(_text(item) for item in value if item)
    return " ".join(str(value).split()) if isinstance(value, str | int | float) and value is not True else ""


def _completed(draft: Draft, quoted: list[str], where: str, repairs: Repairs) -> Draft:
    """Every published field there, with its type: counts are counted, texts and lists turned into each other, what
    describes and is missing is taken from the bullets, the answer or the ability's name, and noted."""
    kind = KINDS[draft.ability]
    counted = {
        "total_mentions": len(draft.fields.get("ordering_tested") or ()),
        "sessions_required": len({(ref.plan, ref.batch) for ref in draft.refs}),
        "bullet_points_covered": len(draft.refs),
    }
    fields: dict[str, Any] = {}
    filled = []
    for name, wanted in kind.fields.items():
        if name not in draft.fields:
            continue
        value = draft.fields[name]
        if name == "conversation_sessions":
            fields[name] = sorted({ref.batch for ref in draft.refs}) if not _whole(value) else value
        elif wanted is int:
            fields[name] = value if type(value) is int else counted[name]
        elif wanted is list:
            items = [_text(item) for item in (value if isinstance(value, list) else [value])]
            fields[name] = [item for item in items if item] or quoted or [draft.reference]
            filled += [] if any(items) else [name]
        else:
            fields[name] = _text(value) or (quoted[0] if name == "conversation_reference" and quoted else "")
            if not fields[name]:
                fields[name] = draft.ability
                filled.append(name)
    if filled:
        repairs.note("probes", where, f"missing in the reply: {', '.join(filled)}", "filled in")
    return replace(draft, fields=fields)


def _whole(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) is int for item in value)


BUDGET = 27_000
"""Tokens that the turns of one candidate may have; each of them gets an equal share."""

Turn = tuple[Spoken, ...]


def spoken_of(candidate: Candidate, view: View) -> tuple[Candidate | None, str]:
    """The candidate with those of its bullets that a turn speaks of, and what was left out; None where too little is
    left (a named part, or fewer bullets than its ability needs)."""
    silent = [ref for ref in candidate.refs if not view.turns_of(ref)]
    if not silent:
        return candidate, ""
    what = f"no turn speaks of {', '.join(map(str, silent))}"
    kept = tuple(ref for ref in candidate.refs if ref not in silent)
    if len(kept) < KINDS[candidate.ability].least or set(candidate.parts.values()) & set(silent):
        return None, what
    return replace(candidate, refs=kept), what


async def show_turns(model: Model, candidates: Sequence[Candidate], view: View, repairs: Repairs) -> list[str]:
    """For each candidate its turns as lines `[message 86, user] text`, in the order of the conversation.

    Only what the user said, except where `Kind.both_roles`. A turn longer than its share of `BUDGET` is summarised by
    the model and begins `[messages 86-89, both, summary]`; where that call fails, it is cut to its share and noted.
    """
    shown = [_turns(candidate, view) for candidate in candidates]
    limits = [BUDGET // max(1, len(turns)) for turns in shown]
    long: dict[str, Turn] = {}
    for turns, limit in zip(shown, limits, strict=True):
        for turn in turns:
            if count_tokens(text := _lines(turn)) > limit:
                long.setdefault(text, turn)
    prompts = [
        Prompt("dialogue_summary", {"summary": "", "exchanges": text}, about=_span(turn)) for text, turn in long.items()
    ]
    replies = await gather_all(model, prompts)
    short: dict[str, str] = {}
    for (text, turn), reply in zip(long.items(), replies, strict=True):
        if isinstance(reply, Completion) and reply.text.strip():
            short[text] = f"[{_span(turn)}, {_roles(turn)}, summary] {reply.text.strip()}"
        elif not isinstance(reply, Completion) and reply.transient:
            raise reply
        else:
            why = "empty summary" if isinstance(reply, Completion) else reply.reason
            repairs.note("probes", _span(turn), f"too long, and {why}", "cut to its share")
    return [
        "\n\n".join(_fit(_lines(turn), limit, short) for turn in turns)
        for turns, limit in zip(shown, limits, strict=True)
    ]


def _turns(candidate: Candidate, view: View) -> list[Turn]:
    both = KINDS[candidate.ability].both_roles
    turns = [turn for ref in candidate.refs for turn in view.turns_of(ref)]
    shown = [tuple(message for message in turn if both or message.role == "user") for turn in turns]
    return sorted(shown, key=lambda turn: turn[0].id)


def _lines(turn: Sequence[Spoken]) -> str:
    return "\n".join(f"[message {message.id}, {message.role}] {message.text}" for message in turn)


def _span(turn: Sequence[Spoken]) -> str:
    return f"messages {turn[0].id}-{turn[-1].id}"


def _roles(turn: Sequence[Spoken]) -> str:
    return "both" if any(message.role == "assistant" for message in turn) else "user"


def _fit(text: str, limit: int, short: Mapping[str, str]) -> str:
    if text in short:
        return short[text]
    if count_tokens(text) <= limit:
        return text
    return text[: limit * 3]  # three characters and more are a token in every domain measured (reference 1.2)


def bullet_lines(refs: Sequence[Ref], bullets: Mapping[Ref, str]) -> str:
    """Lines `[0.3.12] label: text`."""
    return "\n".join(f"[{ref}] {bullets[ref]}" for ref in refs)
