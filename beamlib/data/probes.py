"""From `probing_questions.json` to probes and, apart from them, gold (section 1.5 of the format; paper appendix D)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from beamlib.data.checked_json import Log, check_text, is_a, is_writable, need, need_text, show
from beamlib.data.conversations import Probe
from beamlib.data.gold import ABILITIES, Ability, Gold

QUESTIONS_PER_ABILITY = 2
_TEXT = (str,)
_LIST = (list,)


@dataclass(frozen=True)
class Shape:
    """What the questions of one ability carry besides question, difficulty and rubric.

    `reference` is the field of the reference answer, `fields` the others with the types they may have, `parts` the
    keys of `source_chat_ids` where it is an object. `cites`: whether there are ids at all.
    """

    reference: str
    fields: Mapping[str, tuple[type, ...]]
    parts: tuple[str, ...] = ()
    cites: bool = True


_FOLLOWING: dict[str, tuple[type, ...]] = {"compliance_indicators": _LIST, "non_compliance_signs": _LIST}
SHAPES: Mapping[Ability, Shape] = {
    "abstention": Shape(
        "ideal_response",
        {"abstention_type": _TEXT, "why_unanswerable": _TEXT, "plan_reference": _TEXT},
        cites=False,
    ),
    "contradiction_resolution": Shape(
        "ideal_answer",
        {
            "contradiction_type": _TEXT,
            "topic_questioned": _TEXT,
            "conversation_references": _LIST,
            "tests_for": _TEXT,
        },
        ("first_statement", "second_statement"),
    ),
    "event_ordering": Shape(
        "answer",
        {"ordering_type": _TEXT, "total_mentions": (int,), "conversation_references": _LIST, "ordering_tested": _LIST},
    ),
    "information_extraction": Shape(
        "answer", {"question_type": _TEXT, "conversation_reference": _TEXT, "key_facts_tested": _LIST}
    ),
    "instruction_following": Shape(
        "expected_compliance", {"instruction_being_tested": _TEXT, **_FOLLOWING, "instruction_type": _TEXT}
    ),
    "knowledge_update": Shape(
        "answer",
        {
            "update_type": _TEXT,
            "tests_retention_of": _TEXT,
            "conversation_references": _LIST,
            "potential_confusion": _TEXT,
        },
        ("original_info", "updated_info"),
    ),
    "multi_session_reasoning": Shape(
        "answer",
        {
            "reasoning_type": _TEXT,
            "sessions_required": (int,),
            "conversation_references": _LIST,
            "reasoning_steps": _LIST,
        },
    ),
    "preference_following": Shape(
        "expected_compliance", {"preference_being_tested": _TEXT, **_FOLLOWING, "preference_type": _TEXT}
    ),
    "summarization": Shape(
        "ideal_summary",
        {
            "summarization_type": _TEXT,
            "bullet_points_covered": (int,),
            "conversation_sessions": (list, int, str),
            "key_elements_tested": _LIST,
            "synthesis_required": _TEXT,
        },
    ),
    "temporal_reasoning": Shape(
        "answer",
        {
            "temporal_type": _TEXT,
            "time_points": _LIST,
            "conversation_references": _LIST,
            "calculation_required": _TEXT,
        },
        ("first_event", "second_event"),
    ),
}
_OPTIONAL: Mapping[str, type] = {"complexity_factors": list, "extraction_challenge": str, "plan_reference": str}


def parse_questions(
    value: Any, conversation_id: str, message_ids: Container[int], log: Log
) -> tuple[tuple[Probe, ...], dict[str, Gold]]:
    """Probes in file order and their gold by probe id.

    `message_ids` are the ids in the chat: cited ids outside it go to `Gold.evidence_missing` and are noted. A question
    without text or without rubric items is `Unreadable`. Everything else is noted where it is odd, and kept as it is in
    `Gold.extras`.
    """
    if not is_a(value, dict):
        log.fail("", f"expected an object with the ten abilities, not {show(value)}")
    _note_abilities(value, log)
    probes: list[Probe] = []
    gold: dict[str, Gold] = {}
    seen: dict[str, str] = {}
    for ability, questions in value.items():
        if ability not in SHAPES or questions is None:
            continue
        if not is_a(questions, list):
            log.fail(ability, f"expected a list of questions, not {show(questions)}")
        for number, raw in enumerate(questions):
            where = f"{ability} {number}"
            if not is_a(raw, dict):
                log.fail(where, f"expected an object, not {show(raw)}")
            probe = Probe(
                f"{conversation_id}-q{len(probes):02d}", conversation_id, need_text(raw, "question", log, where)
            )
            first = seen.setdefault(probe.question, probe.id)
            if first != probe.id:
                log.note("duplicate_question", where, f"{probe.id} asks the same as {first}")
            probes.append(probe)
            gold[probe.id] = _gold(raw, ability, probe, message_ids, log, where)
    if not probes:
        log.fail("", f"it holds no question of a BEAM ability ({', '.join(ABILITIES)})")
    return tuple(probes), gold


def _note_abilities(value: dict[str, Any], log: Log) -> None:
    for key in value:
        if key not in SHAPES:
            log.note("unknown_ability", "", f"{show(key)} is no BEAM ability; what it holds is not asked")
    for ability in ABILITIES:
        questions: Any = value.get(ability)
        count = len(questions) if is_a(questions, list) else 0
        if count != QUESTIONS_PER_ABILITY:
            log.note("question_count", ability, f"{count} questions instead of {QUESTIONS_PER_ABILITY}")
    known = [key for key in value if key in SHAPES]
    if known != [ability for ability in ABILITIES if ability in value]:
        log.note("ability_order", "", "abilities are not in alphabetical order, so question numbers differ from usual")


def _gold(raw: dict[str, Any], ability: Ability, probe: Probe, ids: Container[int], log: Log, where: str) -> Gold:
    shape = SHAPES[ability]
    rubric = need(raw, "rubric", list, log, where)
    if not rubric:
        log.fail(where, "`rubric` is empty")
    for number, item in enumerate(rubric):
        if not is_a(item, str) or not item.strip():
            log.fail(where, f"rubric item {number} must be text, not {show(item)}")
        check_text(item, f"rubric item {number}", log, where)
    if len(set(rubric)) != len(rubric):
        log.note("duplicate_rubric_item", where, "the rubric repeats an item")
    cited = _cited(raw, shape, log, where)
    missing = tuple(i for i in cited if i not in ids)
    if missing:
        log.note("evidence_missing", where, f"{probe.id} cites {len(missing)} id(s) that the chat does not have")
    _note_fields(raw, shape, probe.id.startswith("10M-") and ability != "abstention", log, where)
    texts = {key: raw[key] for key in (shape.reference, "difficulty") if _is_text(raw.get(key))}
    return Gold(
        probe_id=probe.id,
        conversation_id=probe.conversation_id,
        ability=ability,
        rubric=tuple(rubric),
        reference=texts.get(shape.reference, ""),
        evidence=tuple(i for i in cited if i in ids),
        difficulty=texts.get("difficulty", ""),
        evidence_missing=missing,
        extras={key: item for key, item in raw.items() if key not in {"question", "rubric", *texts}},
    )


def _cited(raw: dict[str, Any], shape: Shape, log: Log, where: str) -> tuple[int, ...]:
    """The cited message ids, flattened, in order, without repeats; what is no id is noted and passed over."""
    value = raw.get("source_chat_ids")
    if value is None:
        if shape.cites:
            log.note("evidence_absent", where, "no `source_chat_ids`: evidence recall leaves the question out")
        return ()
    parts = value if is_a(value, dict) else {}
    if not shape.cites:
        log.note("unknown_field", where, "an abstention question cites evidence; the ids are kept")
    elif shape.parts and (set(parts) != set(shape.parts) or not all(is_a(part, list) for part in parts.values())):
        log.note("evidence_shape", where, f"`source_chat_ids` is no object with lists {' and '.join(shape.parts)}")
    elif not shape.parts and not is_a(value, list):
        log.note("evidence_shape", where, f"`source_chat_ids` is no list but {show(value)}")
    elif value == []:
        log.note("evidence_empty", where, "`source_chat_ids` is empty: evidence recall leaves the question out")
    for part in shape.parts:
        if parts.get(part) == []:
            log.note("evidence_empty", where, f"`{part}` cites nothing")
    leaves = list(_leaves(list(parts.values()) if parts else value))
    if not shape.parts and value != [] and [] in leaves:
        log.note("evidence_empty", where, "`source_chat_ids` holds an empty list")
    odd = [item for item in leaves if not is_a(item, int) and item != []]
    if odd:
        log.note(
            "evidence_unreadable",
            where,
            f"`source_chat_ids` holds {len(odd)} value(s) like {show(odd[0])}; passed over",
        )
    return tuple(dict.fromkeys(item for item in leaves if is_a(item, int)))


def _leaves(value: Any) -> Iterator[Any]:
    """What stands in lists however they are nested, in order; an empty one is a leaf itself."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if item and is_a(item, list):
            waiting.extend(reversed(item))
        else:
            yield item


def _note_fields(raw: dict[str, Any], shape: Shape, needs_plan: bool, log: Log, where: str) -> None:
    """Note what is odd in the fields that nothing asks, recalls or scores."""
    for key, kinds in {"difficulty": _TEXT, shape.reference: _TEXT, **shape.fields}.items():
        if key not in raw:
            log.note("field_missing", where, f"`{key}` is missing")
        elif not any(is_a(raw[key], kind) for kind in kinds):
            log.note("field_type", where, f"`{key}` is {show(raw[key])}")
        elif is_a(raw[key], list) and not _uniform(key, raw[key]):
            log.note("field_type", where, f"`{key}` holds {show(raw[key])}")
        elif raw[key] == [] or (is_a(raw[key], str) and not raw[key].strip()):
            log.note("field_empty", where, f"`{key}` is empty")
    if needs_plan and "plan_reference" not in raw:
        log.note("field_missing", where, "`plan_reference` is missing")
    usual = {"question", "difficulty", "rubric", "source_chat_ids", shape.reference, *shape.fields, *_OPTIONAL}
    for key, value in raw.items():
        if not is_writable(value):
            log.note("unwritable", where, f"{show(key)} holds what cannot be written as JSON ({show(value)}); kept")
        if key not in usual:
            log.note("unknown_field", where, f"`{show(key)}` is unusual here; kept")
        if (
            key in _OPTIONAL
            and key not in shape.fields
            and not (is_a(value, _OPTIONAL[key]) and (is_a(value, str) or _uniform(key, value)))
        ):
            log.note("field_type", where, f"`{key}` is {show(value)}")


def _is_text(value: Any) -> bool:
    return is_a(value, str) and is_writable(value)


def _uniform(key: str, items: list[Any]) -> bool:
    """Whether a list holds what such lists hold: session numbers, or texts."""
    return all(is_a(item, int if key == "conversation_sessions" else str) for item in items)
