"""The ten abilities as the makers of probing questions see them: what is asked, and in which shape it is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from beamlib.data.conversations import ABILITIES, Ability

__all__ = ["ABILITIES", "KINDS", "PER_ABILITY", "Ability", "AbilityKind"]

PER_ABILITY = 2


@dataclass(frozen=True, slots=True)
class AbilityKind:
    """One ability. `count` and `count_10m` go into the prompt for candidates (of one plan, or of a pair at 10M).

    `pairs`: at 10M the window is two consecutive plans, else one. `both_roles`: the assistant's messages are shown and
    may be cited too. `least` bullets make a candidate. `parts` maps the names of a candidate's two bullets, and of the
    two halves of the evidence in a reply, to the published ones; empty where evidence is one list. `verb` is the
    rubric's ("LLM response should <verb>: "), empty for bare items. `fields` are the published ones in their order,
    with the type of each; `question`, `rubric` and the evidence are among them. `listed` is the field whose list
    stands behind the reference answer.
    """

    count: str
    count_10m: str
    pairs: bool
    both_roles: bool
    least: int
    reference: str
    fields: Mapping[str, type]
    verb: str = ""
    parts: Mapping[str, str] | None = None
    listed: str = ""


def _fields(order: str) -> dict[str, type]:
    """Fields from `name`, `name*` (a list), `name#` (a whole number)."""
    kinds = {"*": list, "#": int}
    return {name.rstrip("*#"): kinds.get(name[-1], str) for name in order.split()}


KINDS: Mapping[Ability, AbilityKind] = {
    "abstention": AbilityKind(
        "8 to 15", "8 to 15", False, False, 0, "ideal_response",
        _fields("question ideal_response difficulty abstention_type why_unanswerable plan_reference rubric*"),
    ),
    "contradiction_resolution": AbilityKind(
        "8 to 12", "2", False, False, 2, "ideal_answer",
        _fields(
            "question ideal_answer difficulty contradiction_type topic_questioned conversation_references* tests_for"
            " source_chat_ids* plan_reference rubric*"
        ),
        verb="mention", parts={"first": "first_statement", "second": "second_statement"},
    ),
    "event_ordering": AbilityKind(
        "8 to 10", "2 to 3", True, False, 3, "answer",
        _fields(
            "question answer difficulty ordering_type total_mentions# conversation_references* ordering_tested*"
            " source_chat_ids* plan_reference rubric*"
        ),
        listed="ordering_tested",
    ),
    "information_extraction": AbilityKind(
        "8 to 10", "2", False, True, 1, "answer",
        _fields(
            "question answer difficulty question_type conversation_reference key_facts_tested* source_chat_ids*"
            " plan_reference rubric*"
        ),
        verb="state", listed="key_facts_tested",
    ),
    "instruction_following": AbilityKind(
        "about 10", "about 10", False, False, 1, "expected_compliance",
        _fields(
            "question instruction_being_tested expected_compliance compliance_indicators* non_compliance_signs*"
            " difficulty instruction_type source_chat_ids* plan_reference rubric*"
        ),
        verb="contain", listed="compliance_indicators",
    ),
    "knowledge_update": AbilityKind(
        "about 10", "about 10", False, False, 2, "answer",
        _fields(
            "question answer difficulty update_type tests_retention_of conversation_references* potential_confusion"
            " source_chat_ids* plan_reference rubric*"
        ),
        verb="state", parts={"original": "original_info", "updated": "updated_info"},
    ),
    "multi_session_reasoning": AbilityKind(
        "8 to 12", "2 to 3", True, True, 2, "answer",
        _fields(
            "question answer difficulty reasoning_type sessions_required# conversation_references* reasoning_steps*"
            " source_chat_ids* plan_reference rubric*"
        ),
        verb="state", listed="reasoning_steps",
    ),
    "preference_following": AbilityKind(
        "8 to 12", "2", False, False, 1, "expected_compliance",
        _fields(
            "question preference_being_tested expected_compliance compliance_indicators* non_compliance_signs*"
            " difficulty preference_type source_chat_ids* plan_reference rubric*"
        ),
        verb="contain", listed="compliance_indicators",
    ),
    "summarization": AbilityKind(
        "7 to 9", "2 to 3", True, True, 2, "ideal_summary",
        _fields(
            "question ideal_summary difficulty summarization_type bullet_points_covered# conversation_sessions*"
            " key_elements_tested* synthesis_required source_chat_ids* plan_reference rubric*"
        ),
        verb="contain",
    ),
    "temporal_reasoning": AbilityKind(
        "8 to 10", "2 to 3", True, False, 2, "answer",
        _fields(
            "question answer difficulty temporal_type time_points* conversation_references* calculation_required"
            " source_chat_ids* plan_reference rubric*"
        ),
        verb="state", parts={"first": "first_event", "second": "second_event"}, listed="time_points",
    ),
}  # fmt: skip
"""Numbers of candidates and windows as in the released code (reference 3.5). At 10M it asks for two where the listing
leaves the number open (1, 5 and 7). In published instruction questions the instruction comes before the answer."""
