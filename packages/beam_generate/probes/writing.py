"""Write probing questions: candidate bullets, then question, answer and evidence, then rubrics (paper section 2.3).

Candidates follow Listings 1 to 9, questions Listings 10 to 19, rubrics Appendix D. A reply without a question, an
answer or usable references is dropped and noted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from beam_generate.probes.drafts import PROBE_KINDS, Draft, Ref, Spoken, View, read_ref
from beam_generate.replies import ask_json
from beam_generate.shapes import Bullet, Plan, Repairs
from beamlib.data.conversations import ABILITIES, Ability
from beamlib.llm.model import Completion, Model, Prompt, gather_all
from beamlib.text import count_tokens

BUDGET = 27_000
"""Tokens of all turns of a candidate; each turn gets an equal share."""
_HINTED: Mapping[str, tuple[str, ...]] = {
    "abstention": ("entity", "detail", "keyword"),
    "knowledge_update": ("old_value", "new_value"),
}
_FIXED = frozenset({"question", "difficulty", "source_chat_ids", "rubric", "plan_reference"})

ABSENT = "Based on the provided chat, there is no"
CONTRADICTORY = "LLM response should state: there is contradictory information"
WHICH = "LLM response should mention: which statement is correct?"
_STEM = re.compile(
    r"(?:the )?(?:LLM )?response should (state|mention|contain|include|avoid|list)s?\s*:\s*", re.IGNORECASE
)
_NUMBERED = re.compile(r"^\s*(?:\d{1,2}(?:st|nd|rd|th)?\s*[.:)]|[-•*])\s*", re.IGNORECASE)

_Turn = tuple[Spoken, ...]


@dataclass(frozen=True)
class CandidateWindow:
    """The plans of one call (one, or two consecutive ones at 10M) and the number of candidates to ask for."""

    plans: tuple[Plan, ...]
    count: str

    @property
    def indices(self) -> tuple[int, ...]:
        """0-based numbers of the plans."""
        return tuple(plan.index for plan in self.plans)

    @property
    def name(self) -> str:
        """Name as in `plan_reference`: `Plan 3` or `Plan 2-3`."""
        return "Plan " + "-".join(map(str, self.indices))

    @cached_property
    def text(self) -> str:
        """The plans: a line `PLAN p, BATCH b, date` per sub-plan and `[p.b.n] **label:** text` per bullet."""
        lines = []
        for plan in self.plans:
            for subplan in plan.subplans:
                lines += ["", f"PLAN {plan.index}, BATCH {subplan.number}, {subplan.anchor:%Y-%m-%d}"]
                for bullet in subplan.bullets:
                    ref = Ref(plan.index, subplan.number, bullet.number)
                    lines.append(f"[{ref}] **{bullet.label}:** {bullet.text}")
        return "\n".join(lines).strip()

    @cached_property
    def bullets(self) -> dict[Ref, Bullet]:
        """Each bullet by its reference."""
        return {
            Ref(plan.index, subplan.number, bullet.number): bullet
            for plan in self.plans
            for subplan in plan.subplans
            for bullet in subplan.bullets
        }


@dataclass(frozen=True, slots=True)
class Candidate:
    """Bullets that a question can rest on; `parts` names two of them (`original`, `updated`; `first`, `second`)."""

    ability: Ability
    window: CandidateWindow
    refs: tuple[Ref, ...]
    about: str
    parts: Mapping[str, Ref] = field(default_factory=dict)

    @property
    def bullets(self) -> str:
        """Its bullets as lines `[0.3.12] label: text`."""
        bullets = [(ref, self.window.bullets[ref]) for ref in self.refs]
        return "\n".join(f"[{ref}] {bullet.label}: {bullet.text}" for ref, bullet in bullets)

    @property
    def where(self) -> str:
        """Place in notes on repairs: ability and bullets."""
        return f"{self.ability}, {' '.join(map(str, self.refs))}"


def candidate_windows(plans: Sequence[Plan]) -> dict[Ability, list[CandidateWindow]]:
    """Return the windows of each ability: each plan or, at 10M for some abilities, plans 0-1, 2-3 and so on.

    An odd last plan is paired with the one before it, as in the released code.
    """
    many = len(plans) > 1
    singles = [(plan,) for plan in plans]
    pairs = [tuple(plans[start : start + 2]) for start in range(0, len(plans), 2)]
    if many and len(pairs[-1]) == 1:
        pairs[-1] = tuple(plans[-2:])
    return {
        ability: [
            CandidateWindow(window, PROBE_KINDS[ability].count_10m if many else PROBE_KINDS[ability].count)
            for window in (pairs if PROBE_KINDS[ability].pairs else singles)
        ]
        for ability in ABILITIES
    }


async def find_candidates(
    model: Model, candidate_windows: Mapping[Ability, Sequence[CandidateWindow]], repairs: Repairs
) -> list[Candidate]:
    """Ask for the candidates of every ability but abstention, one call per ability and window, concurrently.

    Candidates with unknown, too few or repeated bullets are dropped.
    """
    calls = [
        (ability, window) for ability in ABILITIES if ability != "abstention" for window in candidate_windows[ability]
    ]
    prompts = [
        Prompt(f"candidates_{ability}", {"plan": window.text, "count": window.count}, about=window.name)
        for ability, window in calls
    ]
    candidates: list[Candidate] = []
    for (ability, window), reply in zip(calls, await ask_json(model, prompts, list, repairs), strict=True):
        seen: set[tuple[Ref, ...]] = set()
        for number, entry in enumerate(reply or [], start=1):
            candidate = _candidate(entry, ability, window)
            if not isinstance(candidate, str) and candidate.refs in seen:
                candidate = "the same bullets as another"
            if isinstance(candidate, str):
                where = f"candidates_{ability}, {window.name}, entry {number}"
                repairs.note("probes", where, candidate, "dropped")
            else:
                seen.add(candidate.refs)
                candidates.append(candidate)
    return candidates


def _candidate(entry: Any, ability: Ability, window: CandidateWindow) -> Candidate | str:
    """Read a candidate, or return what is wrong with it."""
    if not isinstance(entry, dict):
        return f"no object: {entry!r:.60}"
    kind = PROBE_KINDS[ability]
    cited = entry.get("bullets")
    named = [entry.get(part) for part in kind.parts]
    refs = []
    for value in [*named, *(cited if isinstance(cited, list) else [])]:
        ref = read_ref(value)
        if ref is None or ref not in window.bullets:
            return f"no bullet of the plan: {value!r:.60}"
        refs.append(ref)
    unique = tuple(sorted(set(refs)))
    if len(unique) < kind.least:
        return f"{len(unique)} bullets where {kind.least} are needed"
    parts = dict(zip(kind.parts, refs, strict=False))
    return Candidate(ability, window, unique, _text(entry.get("about")), parts)


class ProbeReply(BaseModel, extra="allow"):
    """The reply to `probe_<ability>`. Which of its fields an ability has to have, `_draft` says."""

    question: Any = None
    answer: Any = None
    evidence: Any = None


async def ask_questions(model: Model, candidates: Sequence[Candidate], view: View, repairs: Repairs) -> list[Draft]:
    """Write a draft without rubric for each candidate. Bullets that no turn is about are left out first."""
    kept = []
    for candidate in candidates:
        spoken, problem = spoken_of(candidate, view)
        if problem:
            repairs.note("probes", candidate.where, problem, "bullets left out" if spoken else "dropped")
        if spoken is not None:
            kept.append(spoken)
    prompts = [
        Prompt(
            f"probe_{candidate.ability}",
            {"bullets": candidate.bullets, "turns": shown, "about": candidate.about},
            about=candidate.where,
        )
        for candidate, shown in zip(kept, await show_turns(model, kept, view, repairs), strict=True)
    ]
    drafts = []
    for candidate, reply in zip(kept, await ask_json(model, prompts, ProbeReply, repairs), strict=True):
        if reply is not None and (draft := _draft(reply, candidate, repairs)):
            drafts.append(draft)
    return drafts


async def ask_abstention(model: Model, candidate_windows: Sequence[CandidateWindow], repairs: Repairs) -> list[Draft]:
    """Write questions that the conversation cannot answer, several per plan (Listing 14)."""
    prompts = [
        Prompt("probe_abstention", {"plan": window.text, "count": window.count}, about=window.name)
        for window in candidate_windows
    ]
    drafts = []
    for window, reply in zip(candidate_windows, await ask_json(model, prompts, list, repairs), strict=True):
        for entry in reply or []:
            entry = entry if isinstance(entry, dict) else {}
            cited = map(read_ref, re.findall(r"\d+\.\d+\.\d+", str(entry.get("plan_reference", ""))))
            refs = tuple(ref for ref in cited if ref is not None and ref in window.bullets)
            candidate = Candidate("abstention", window, refs, str(entry.get("entity", "")))
            if draft := _draft(entry, candidate, repairs):
                drafts.append(draft)
    return drafts


def _draft(reply: Mapping[str, Any], candidate: Candidate, repairs: Repairs) -> Draft | None:
    """Read a reply as a draft; one that lacks a field is noted and dropped (None)."""
    kind, ability = PROBE_KINDS[candidate.ability], candidate.ability
    question, detail = _text(reply.get("question")), _text(reply.get("detail"))
    reference = _text(reply.get("answer", reply.get(kind.reference)))
    if ability == "abstention" and detail and not reference.startswith(ABSENT):
        reference = f"{ABSENT} information related to {detail.rstrip('.')}."
    fields = _published_fields(reply, candidate)
    if not question or not reference or isinstance(fields, str):
        lacking = "question" if not question else "answer" if not reference else fields
        where = f"{ability}, {' '.join(map(str, candidate.refs)) or candidate.window.name}"
        repairs.note("probes", where, f"no {lacking} in the reply", "dropped")
        return None
    cited = reply.get("evidence")
    by_part = cited if isinstance(cited, dict) else {}
    evidence = {published: _ids(by_part.get(part)) for part, published in kind.parts.items()}
    if not kind.parts and ability != "abstention":
        evidence = {"": _ids(cited)}
    hints = {name: text for name in _HINTED.get(ability, ()) if (text := _text(reply.get(name)))}
    return Draft(
        ability, question, reference, (), evidence, _text(reply.get("difficulty")) or "medium", fields,
        candidate.about or question, candidate.refs, candidate.window.indices, hints,
    )  # fmt: skip


def _ids(value: Any) -> tuple[int, ...]:
    """Return the message ids of a list, without repeats; -1, which no message has, for anything else in it."""
    ids = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(i if type(i) is int else -1 for i in ids))


def _text(value: Any) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) and value is not True else ""


def _published_fields(reply: Mapping[str, Any], candidate: Candidate) -> dict[str, Any] | str:
    """Return the published fields of a reply, or the name of one that is missing or of another type.

    Counts that are missing are counted.
    """
    kind, refs = PROBE_KINDS[candidate.ability], candidate.refs
    counts = {
        "total_mentions": len(_texts(reply.get("ordering_tested"))),
        "sessions_required": len({(ref.plan, ref.batch) for ref in refs}),
        "bullet_points_covered": len(refs),
    }
    fields: dict[str, Any] = {}
    for name, type_ in kind.fields.items():
        if name in _FIXED or name == kind.reference:
            continue
        value = reply.get(name)
        if name == "conversation_sessions":
            whole = isinstance(value, list) and value and all(type(item) is int for item in value)
            fields[name] = value if whole else sorted({ref.batch for ref in refs})
        elif type_ is int:
            fields[name] = value if type(value) is int else counts[name]
        else:
            fields[name] = _texts(value) if type_ is list else _text(value)
            if not fields[name]:
                return name
    return fields


def _texts(value: Any) -> list[str]:
    return list(filter(None, map(_text, value))) if isinstance(value, list) else []


def spoken_of(candidate: Candidate, view: View) -> tuple[Candidate | None, str]:
    """Leave out bullets that no turn is about.

    Returns:
        The candidate, None if a named bullet or too many were left out; and what was left out.
    """
    silent = [ref for ref in candidate.refs if not view.turns_of(ref)]
    if not silent:
        return candidate, ""
    problem = f"no turn speaks of {', '.join(map(str, silent))}"
    kept = tuple(ref for ref in candidate.refs if ref not in silent)
    if len(kept) < PROBE_KINDS[candidate.ability].least or set(candidate.parts.values()) & set(silent):
        return None, problem
    return replace(candidate, refs=kept), problem


async def show_turns(model: Model, candidates: Sequence[Candidate], view: View, repairs: Repairs) -> list[str]:
    """Render the turns of each candidate as lines `[message 86, user] text`, in order.

    Only the user's messages are shown, except with `AbilityKind.both_roles`. A turn longer than its share of `BUDGET`
    is summarized by the model and begins `[messages 86-89, both, summary]`; without a summary it is cut and noted.

    Raises:
        ModelError: A call failed and may succeed later.
    """
    shown = [_turns(candidate, view) for candidate in candidates]
    limits = [BUDGET // max(1, len(turns)) for turns in shown]
    long: dict[str, _Turn] = {}
    for turns, limit in zip(shown, limits, strict=True):
        long |= {text: turn for turn in turns if count_tokens(text := _lines(turn)) > limit and text not in long}
    prompts = [
        Prompt("dialogue_summary", {"summary": "", "exchanges": text}, about=_span(turn)) for text, turn in long.items()
    ]
    summaries: dict[str, str] = {}
    for (text, turn), reply in zip(long.items(), await gather_all(model, prompts), strict=True):
        if isinstance(reply, Completion) and reply.text.strip():
            roles = "both" if any(message.role == "assistant" for message in turn) else "user"
            summaries[text] = f"[{_span(turn)}, {roles}, summary] {reply.text.strip()}"
        elif not isinstance(reply, Completion) and reply.transient:
            raise reply
        else:
            why = "empty summary" if isinstance(reply, Completion) else reply.reason
            repairs.note("probes", _span(turn), f"too long, and {why}", "cut to its share")

    def fitted(turn: _Turn, limit: int) -> str:
        text = _lines(turn)
        if text not in summaries and count_tokens(text) > limit:
            return text[: limit * 3]  # a token has at least three characters in every domain measured
        return summaries.get(text, text)

    return ["\n\n".join(fitted(turn, limit) for turn in turns) for turns, limit in zip(shown, limits, strict=True)]


def _turns(candidate: Candidate, view: View) -> list[_Turn]:
    both = PROBE_KINDS[candidate.ability].both_roles
    turns = [turn for ref in candidate.refs for turn in view.turns_of(ref)]
    shown = [tuple(message for message in turn if both or message.role == "user") for turn in turns]
    return sorted(shown, key=lambda turn: turn[0].id)


def _lines(turn: Sequence[Spoken]) -> str:
    return "\n".join(f"[message {message.id}, {message.role}] {message.text}" for message in turn)


def _span(turn: Sequence[Spoken]) -> str:
    return f"messages {turn[0].id}-{turn[-1].id}"


def payload(nugget: str) -> str:
    """Return what a nugget demands, without its stem."""
    return _STEM.sub("", nugget, count=1).strip()


async def write_rubrics(model: Model, drafts: Sequence[Draft], repairs: Repairs) -> list[Draft]:
    """Add rubrics to drafts, in the published wording.

    The only nugget of abstention is its answer. A draft without a usable reply is dropped.
    """
    answerable = [draft for draft in drafts if draft.ability != "abstention"]
    prompts = [
        Prompt(
            "probe_nuggets",
            {"ability": draft.ability, "question": draft.question, "reference": _reference(draft)},
            about=draft.where,
        )
        for draft in answerable
    ]
    replies = dict(zip(map(id, answerable), await ask_json(model, prompts, list, repairs), strict=True))
    finished = []
    for draft in drafts:
        if rubric := tidy_rubric(draft, replies.get(id(draft), [draft.reference.rstrip(".")]) or []):
            finished.append(replace(draft, rubric=rubric))
        else:
            repairs.note("probes", draft.where, "no usable rubric", "dropped")
    return finished


def _reference(draft: Draft) -> str:
    """Return the reference answer and the list behind it, an item per line."""
    listed = PROBE_KINDS[draft.ability].listed
    return "\n".join([draft.reference, *(f"- {item}" for item in draft.fields.get(listed, []))])


def tidy_rubric(draft: Draft, items: Sequence[Any]) -> tuple[str, ...]:
    """Put rubric items into the published wording, without repeats; () if that is not possible."""
    texts = [" ".join(item.split()) for item in items if isinstance(item, str) and item.strip()]
    if len(texts) != len(items) or not texts:
        return ()
    if draft.ability == "abstention":
        return tuple(dict.fromkeys(texts)) if all(text.startswith(ABSENT) for text in texts) else ()
    if draft.ability == "event_ordering":
        return tuple(dict.fromkeys(_NUMBERED.sub("", payload(text)) for text in texts))
    if draft.ability == "contradiction_resolution":
        if len(texts) != 4:
            return ()
        claims = [f"LLM response should mention: {payload(text)}" for text in texts[1:3]]
        return (CONTRADICTORY, *claims, WHICH)
    return tuple(dict.fromkeys(_stemmed(text, PROBE_KINDS[draft.ability].verb) for text in texts))


def _stemmed(text: str, verb: str) -> str:
    stem = _STEM.match(text)
    return f"LLM response should {stem[1].lower() if stem else verb}: {payload(text)}"
