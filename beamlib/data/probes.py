"""Parse `probing_questions.json` into probes and, apart from them, gold (section 1.5 of the format; appendix D)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from beamlib.data.checked_json import Log, check_data_text, expect, is_a, is_writable, need, need_text, show
from beamlib.data.conversations import Probe
from beamlib.data.gold import ABILITIES, Ability, Gold

QUESTIONS_PER_ABILITY = 2


@dataclass(frozen=True)
class Shape:
    """The published fields of one ability's questions besides question, difficulty and rubric.

    Attributes:
        reference: The field of the reference answer.
        fields: The other fields with their types.
        parts: The keys of `source_chat_ids` where it is an object.
        cites: Whether questions cite message ids.
    """

    reference: str
    fields: Mapping[str, type]
    parts: tuple[str, ...] = ()
    cites: bool = True


_REFERENCES = {"conversation_references": list}
_COMPLIANCE = {"compliance_indicators": list, "non_compliance_signs": list}
SHAPES: Mapping[Ability, Shape] = {
    "abstention": Shape(
        "ideal_response", {"abstention_type": str, "why_unanswerable": str, "plan_reference": str}, cites=False
    ),
    "contradiction_resolution": Shape(
        "ideal_answer",
        {"contradiction_type": str, "topic_questioned": str, **_REFERENCES, "tests_for": str},
        ("first_statement", "second_statement"),
    ),
    "event_ordering": Shape(
        "answer", {"ordering_type": str, "total_mentions": int, **_REFERENCES, "ordering_tested": list}
    ),
    "information_extraction": Shape(
        "answer", {"question_type": str, "conversation_reference": str, "key_facts_tested": list}
    ),
    "instruction_following": Shape(
        "expected_compliance", {"instruction_being_tested": str, **_COMPLIANCE, "instruction_type": str}
    ),
    "knowledge_update": Shape(
        "answer",
        {"update_type": str, "tests_retention_of": str, **_REFERENCES, "potential_confusion": str},
        ("original_info", "updated_info"),
    ),
    "multi_session_reasoning": Shape(
        "answer", {"reasoning_type": str, "sessions_required": int, **_REFERENCES, "reasoning_steps": list}
    ),
    "preference_following": Shape(
        "expected_compliance", {"preference_being_tested": str, **_COMPLIANCE, "preference_type": str}
    ),
    "summarization": Shape(
        "ideal_summary",
        {
            "summarization_type": str,
            "bullet_points_covered": int,
            "conversation_sessions": object,  # published as a list, a number or a text
            "key_elements_tested": list,
            "synthesis_required": str,
        },
    ),
    "temporal_reasoning": Shape(
        "answer",
        {"temporal_type": str, "time_points": list, **_REFERENCES, "calculation_required": str},
        ("first_event", "second_event"),
    ),
}
_OPTIONAL: Mapping[str, type] = {"complexity_factors": list, "extraction_challenge": str, "plan_reference": str}


def parse_questions(
    value: Any, conversation_id: str, message_ids: Container[int], log: Log
) -> tuple[tuple[Probe, ...], dict[str, Gold]]:
    """Parse the questions of one conversation.

    Args:
        message_ids: The ids in the chat. Cited ids outside it go to `Gold.evidence_missing` and are noted.

    Returns:
        The probes in file order, and their gold by probe id.

    Raises:
        Unreadable: For a question without text or rubric. Everything else that is odd is noted and kept in
            `Gold.extras`.
    """
    expect(value, dict, "an object with the ten abilities", log)
    for key in value:
        if key not in SHAPES:
            log.note("unknown_ability", f"{show(key)} is no BEAM ability; what it holds is not asked")
    for ability in ABILITIES:
        count = len(value[ability]) if is_a(value.get(ability), list) else 0
        if count != QUESTIONS_PER_ABILITY:
            log.at(ability).note("question_count", f"{count} questions instead of {QUESTIONS_PER_ABILITY}")
    if [key for key in value if key in SHAPES] != [ability for ability in ABILITIES if ability in value]:
        log.note("ability_order", "abilities are not in alphabetical order, so question numbers differ from usual")
    probes: list[Probe] = []
    gold: dict[str, Gold] = {}
    first_with: dict[str, str] = {}
    for ability, questions in value.items():
        if ability not in SHAPES or questions is None:
            continue
        for number, raw in enumerate(expect(questions, list, "a list of questions", log.at(ability))):
            place = log.at(f"{ability} {number}")
            expect(raw, dict, "an object", place)
            probe = Probe(f"{conversation_id}-q{len(probes):02d}", conversation_id, need_text(raw, "question", place))
            first = first_with.setdefault(probe.question, probe.id)
            if first != probe.id:
                place.note("duplicate_question", f"{probe.id} asks the same as {first}")
            probes.append(probe)
            gold[probe.id] = _gold(raw, ability, probe, message_ids, place)
    if not probes:
        log.fail(f"it holds no question of a BEAM ability ({', '.join(ABILITIES)})")
    return tuple(probes), gold


def _gold(raw: dict[str, Any], ability: Ability, probe: Probe, ids: Container[int], log: Log) -> Gold:
    shape = SHAPES[ability]
    rubric = need(raw, "rubric", list, log)
    if not rubric:
        log.fail("`rubric` is empty")
    for number, item in enumerate(rubric):
        if not is_a(item, str) or not item.strip():
            log.fail(f"rubric item {number} must be text, not {show(item)}")
        check_data_text(item, f"rubric item {number}", log)
    if len(set(rubric)) != len(rubric):
        log.note("duplicate_rubric_item", "the rubric repeats an item")
    cited = _cited_ids(raw, shape, log)
    missing = tuple(i for i in cited if i not in ids)
    if missing:
        log.note("evidence_missing", f"{probe.id} cites {len(missing)} id(s) that the chat does not have")
    _note_fields(raw, shape, probe.id.startswith("10M-") and ability != "abstention", log)
    texts = {
        key: raw[key] for key in (shape.reference, "difficulty") if is_a(raw.get(key), str) and is_writable(raw[key])
    }
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


def _cited_ids(raw: dict[str, Any], shape: Shape, log: Log) -> tuple[int, ...]:
    """Flatten the cited message ids, in order, without repeats; note and skip what is no id."""
    value = raw.get("source_chat_ids")
    if value is None:
        if shape.cites:
            log.note("evidence_absent", "no `source_chat_ids`: evidence recall leaves the question out")
        return ()
    parts = value if is_a(value, dict) else {}
    if not shape.cites:
        log.note("unknown_field", "an abstention question cites evidence; the ids are kept")
    elif shape.parts and (set(parts) != set(shape.parts) or not all(is_a(part, list) for part in parts.values())):
        log.note("evidence_shape", f"`source_chat_ids` is no object with lists {' and '.join(shape.parts)}")
    elif not shape.parts and not is_a(value, list):
        log.note("evidence_shape", f"`source_chat_ids` is no list but {show(value)}")
    elif value == []:
        log.note("evidence_empty", "`source_chat_ids` is empty: evidence recall leaves the question out")
    for part in shape.parts:
        if parts.get(part) == []:
            log.note("evidence_empty", f"`{part}` cites nothing")
    leaves = list(_leaves(list(parts.values()) if parts else value))
    if not shape.parts and value != [] and [] in leaves:
        log.note("evidence_empty", "`source_chat_ids` holds an empty list")
    odd = [item for item in leaves if not is_a(item, int) and item != []]
    if odd:
        log.note("evidence_unreadable", f"`source_chat_ids` holds {len(odd)} value(s) like {show(odd[0])}; skipped")
    return tuple(dict.fromkeys(item for item in leaves if is_a(item, int)))


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the items of nested lists in order; an empty list is an item itself."""
    pending = [value]
    while pending:
        item = pending.pop()
        if item and is_a(item, list):
            pending.extend(reversed(item))
        else:
            yield item


def _note_fields(raw: dict[str, Any], shape: Shape, needs_plan: bool, log: Log) -> None:
    """Note oddities in fields that are never asked, recalled or scored."""
    published = {"difficulty": str, shape.reference: str, **shape.fields}
    for key, kind in published.items():
        if key not in raw:
            log.note("field_missing", f"`{key}` is missing")
        elif not _has_kind(key, raw[key], kind):
            log.note("field_type", f"`{key}` is {show(raw[key])}")
        elif raw[key] == [] or (is_a(raw[key], str) and not raw[key].strip()):
            log.note("field_empty", f"`{key}` is empty")
    if needs_plan and "plan_reference" not in raw:
        log.note("field_missing", "`plan_reference` is missing")
    for key, value in raw.items():
        if not is_writable(value):
            log.note("unwritable", f"{show(key)} holds what cannot be written as JSON ({show(value)}); kept")
        if key not in {"question", "rubric", "source_chat_ids", *published, *_OPTIONAL}:
            log.note("unknown_field", f"`{show(key)}` is unusual here; kept")
        if key in _OPTIONAL and key not in shape.fields and not _has_kind(key, value, _OPTIONAL[key]):
            log.note("field_type", f"`{key}` is {show(value)}")


def _has_kind(key: str, value: Any, kind: type) -> bool:
    """Tell whether a field has its published type; lists hold texts, those of sessions numbers."""
    if kind is object and not is_a(value, list):
        return is_a(value, int) or is_a(value, str)
    if is_a(value, list) and kind in (list, object):
        return all(is_a(item, int if key == "conversation_sessions" else str) for item in value)
    return is_a(value, kind)
