"""The turns behind a candidate's bullets, as the maker of its question sees them (reference 3.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beam_generate.probes.candidates import Candidate
from beam_generate.probes.drafts import Ref, Spoken, View
from beam_generate.probes.kinds import KINDS
from beam_generate.shapes import Repairs
from beamlib.llm.model import Completion, Model, Prompt, gather_all
from beamlib.text import count_tokens

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
    return Candidate(candidate.ability, candidate.window, kept, candidate.about, candidate.parts), what


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
