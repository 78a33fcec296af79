"""Probing questions from a scripted model: candidates, turns shown, replies repaired, selection, published shape."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from typing import Any

import pytest

from beam_generate.probes.deciles import deciles, released_deciles
from beam_generate.probes.drafts import PROBE_KINDS, Draft, Ref, read_candidates
from beam_generate.probes.making import ProbeSet, make_probes, select
from beam_generate.probes.writing import candidate_windows, find_candidates
from beam_generate.replies import reply_json
from beam_generate.shapes import DialogueMessage, DialogueTurn, Repairs
from beamlib.data.checked_json import Log
from beamlib.data.conversations import ABILITIES
from beamlib.data.probes import SHAPES, parse_questions
from beamlib.llm.model import ModelError, Outcome
from scripted_probes import MESSAGE, REPLIES, TOLD, Scripted, draft, plan, reply_of, story, turns


def made(model: Scripted, repairs: Repairs | None = None, plans: int = 1) -> ProbeSet:
    size = "10M" if plans > 1 else "100K"
    return asyncio.run(
        make_probes(
            model, story(size), [plan(i) for i in range(plans)], [turns(i) for i in range(plans)],
            Repairs() if repairs is None else repairs,
        )
    )  # fmt: skip


def dropped(probes: ProbeSet) -> Counter[str]:
    return Counter(draft.dropped for draft in probes.drafts if draft.dropped)


# Names and shape


def test_the_abilities_and_fields_are_the_published_ones() -> None:
    assert tuple(sorted(PROBE_KINDS)) == tuple(sorted(ABILITIES))
    for ability, shape in SHAPES.items():
        fields = set(PROBE_KINDS[ability].fields)
        assert set(shape.fields) <= fields
        assert shape.reference == PROBE_KINDS[ability].reference
        assert tuple(PROBE_KINDS[ability].parts.values()) == shape.parts


def test_field_order_is_the_released_one(beam_data: Any) -> None:
    for size, many in (("100K", False), ("10M", True)):
        files = sorted(beam_data.glob(f"{size}/*/probing_questions/probing_questions.json"))
        for ability, questions in json.loads(files[0].read_text(encoding="utf-8")).items():
            ours = [
                key for key in PROBE_KINDS[ability].fields if many or ability == "abstention" or key != "plan_reference"
            ]
            for question in questions:
                assert [key for key in question if key in ours] == [key for key in ours if key in question], ability


@pytest.mark.parametrize("plans", [1, 10])
def test_all_abilities_are_made_and_read_by_our_loader_without_an_anomaly(plans: int) -> None:
    repairs = Repairs()
    probes = made(Scripted(), repairs, plans)
    # The ten plans of the long story are alike here, so the same things are asked about each.
    assert set(dropped(probes)) == ({"duplicate_question"} if plans > 1 else set())
    assert len(repairs.entries) == sum(dropped(probes).values())
    log = Log("questions", "questions")
    ids = range(2 * len(TOLD) * plans)
    name = "10M-1" if plans > 1 else "100K-1"
    found, answers = parse_questions(json.loads(json.dumps(probes.questions)), name, ids, log)
    assert not log.anomalies
    assert len(found) == 20
    assert list(probes.questions) == list(ABILITIES)
    assert all(one.evidence or one.ability == "abstention" for one in answers.values())
    if plans > 1:
        references = [question["plan_reference"] for some in probes.questions.values() for question in some]
        assert all(re.fullmatch(r"Plan \d(-\d)?", reference) for reference in references)
    else:
        assert [ability for ability, some in probes.questions.items() if "plan_reference" in some[0]] == ["abstention"]


# Windows and candidates


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"bullets": ["0.1.99"], "about": "x"}, "no bullet of the plan"),
        ({"bullets": ["one"], "about": "x"}, "no bullet of the plan"),
        ({"bullets": [], "about": "x"}, "0 bullets where 1 are needed"),
        ("0.1.1", "no object"),
    ],
)
def test_a_candidate_with_wrong_references_is_dropped_and_noted(entry: Any, why: str) -> None:
    good = {"bullets": ["0.1.1"], "about": "the hall"}
    repairs = Repairs()
    model = Scripted({"candidates_information_extraction": [json.dumps([entry, good, good])]})
    found = asyncio.run(find_candidates(model, candidate_windows([plan()]), repairs))
    assert [one.refs for one in found if one.ability == "information_extraction"] == [(Ref(0, 1, 1),)]
    notes = [entry for entry in repairs.entries if "information_extraction" in entry[1]]
    assert [note[2].split(":")[0] for note in notes] == [why, "the same bullets as another"]


# Replies


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ('Sure! Here they are [as asked]:\n```json\n[{"a": 1}]\n```\nEnjoy.', list, [{"a": 1}]),
        ('[{"a": 1}, {"b": 2,}', list, [{"a": 1}, {"b": 2}]),
        ('{"candidates": [{"a": 1}]}', list, [{"a": 1}]),
        ('[{"a": 1}]', dict, {"a": 1}),
        ("{'a': 'b'}", dict, {"a": "b"}),
        ("[]", list, []),
        ('{"a": 1, "b": [2]}', list, None),
        ("I cannot do that.", list, None),
        ("", dict, None),
        ("[" * 5000, list, None),
    ],
)
def test_json_is_found_in_a_reply(text: str, wanted: Any, value: Any) -> None:
    assert reply_json(text, wanted) == value


def test_a_reply_that_is_no_json_is_asked_for_once_more() -> None:
    repairs = Repairs()
    model = Scripted({"candidates_summarization": ["Let me think about it."]})
    assert not made(model, repairs).missing
    assert [entry[3] for entry in repairs.entries] == ["asked again"]
    assert "JSON list" in next(prompt.complaint for prompt in model.asked if prompt.attempt)


def test_a_second_bad_reply_is_given_up_and_leaves_the_ability_empty() -> None:
    repairs, replies = Repairs(), ["No.", ModelError("too long", Outcome.TRUNCATED)]
    probes = made(Scripted({"candidates_summarization": replies}), repairs)
    assert (probes.missing, len(probes.drafts)) == ("summarization (2)", 18)
    assert [entry[3] for entry in repairs.entries] == ["asked again", "given up", "left short"]


def test_a_dead_line_is_no_reason_for_fewer_questions() -> None:
    with pytest.raises(ModelError, match="down"):
        made(Scripted({"probe_summarization": [ModelError("down", Outcome.UNAVAILABLE)]}))


@pytest.mark.parametrize("lost", ["question", "answer", "question_type"])
def test_a_reply_that_lacks_a_field_is_dropped(lost: str) -> None:
    repairs = Repairs()
    reply = {key: value for key, value in reply_of("information_extraction").items() if key != lost}
    probes = made(Scripted({"probe_information_extraction": [json.dumps(reply)]}), repairs)
    assert probes.missing == "information_extraction (1)"
    assert f"no {lost} in the reply" in [entry[2] for entry in repairs.entries]


def test_counts_that_are_missing_are_counted() -> None:
    reply = {**reply_of("summarization"), "bullet_points_covered": "three", "conversation_sessions": "all"}
    probes = made(Scripted({"probe_summarization": [json.dumps(reply)]}))
    fields = next(one for one in probes.drafts if one.question == reply["question"]).fields
    assert (fields["bullet_points_covered"], fields["conversation_sessions"]) == (3, [1, 2])


def test_evidence_that_is_no_id_drops_the_draft_by_name() -> None:
    reply = {**reply_of("information_extraction"), "evidence": ["the first one"]}
    probes = made(Scripted({"probe_information_extraction": [json.dumps(reply)]}))
    assert dropped(probes) == {"evidence_exists": 1}


# Turns shown


def test_the_turns_of_the_bullets_are_shown_with_global_ids() -> None:
    model = Scripted()
    made(model, plans=10)
    shown = next(p for p in model.asked if p.id == "probe_knowledge_update" and "[3." in p.variables["bullets"])
    first = 3 * 2 * len(TOLD) + MESSAGE["1.2"]
    assert f"[message {first}, user] {TOLD['1.2'][1]}" in shown.variables["turns"]
    assert "assistant]" not in shown.variables["turns"]
    both = {p.id for p in model.asked if "assistant]" in p.variables.get("turns", "")}
    assert both == {"probe_information_extraction", "probe_multi_session_reasoning", "probe_summarization"}


@pytest.mark.parametrize("plans", [1, 10])
def test_candidates_and_abstention_questions_are_asked_for_with_the_plan_alone(plans: int) -> None:
    model = Scripted()
    made(model, plans=plans)
    windows = candidate_windows([plan(index) for index in range(plans)])
    for ability in ABILITIES:
        name = "probe_abstention" if ability == "abstention" else f"candidates_{ability}"
        asked = [prompt.variables for prompt in model.asked if prompt.id == name]
        assert asked == [{"plan": window.text, "count": window.count} for window in windows[ability]]
        for index, text in ((index, TOLD["1.1"][1]) for index in range(plans)):
            assert any(f"[{index}.1.1]" in one["plan"] and text in one["plan"] for one in asked)


def test_a_question_is_written_from_its_candidates_bullets_and_turns() -> None:
    model = Scripted()
    made(model)
    for ability in set(ABILITIES) - {"abstention"}:
        (asked,) = [prompt.variables for prompt in model.asked if prompt.id == f"probe_{ability}"][:1]
        refs = REPLIES[ability]["refs"]
        assert asked["about"] == REPLIES[ability]["about"]
        assert [f"[0.{one}]" in asked["bullets"] for one in TOLD] == [one in refs for one in TOLD]
        shown = {one for one in TOLD if f"[message {MESSAGE[one]}, user] {TOLD[one][1]}" in asked["turns"]}
        assert shown == set(refs)


@pytest.mark.parametrize("fails", [False, True])
def test_a_long_turn_is_summarised_or_cut_and_keeps_its_ids(fails: bool) -> None:
    long = turns()
    long[0] = DialogueTurn(0, 1, 1, (long[0].messages[0], DialogueMessage("assistant", "word " * 40_000)))
    repairs, model = Repairs(), Scripted({"dialogue_summary": [ModelError("no", Outcome.FILTERED)][:fails]})
    asyncio.run(make_probes(model, story(), [plan()], [long], repairs))
    assert sum(prompt.id == "dialogue_summary" for prompt in model.asked) == 1
    assert [entry[3] for entry in repairs.entries] == ["cut to its share"][:fails]
    shown = next(prompt for prompt in model.asked if prompt.id == "probe_information_extraction").variables["turns"]
    assert shown.startswith("[message 0, user]" if fails else '[messages 0-1, both, summary] "A short summary."')
    assert len(shown) <= 27_000 * 3


def test_bullets_that_nobody_spoke_of_are_left_out_or_drop_the_candidate() -> None:
    repairs = Repairs()
    silent = [turn for turn in turns() if (turn.batch, turn.bullet) not in ((1, 2), (2, 6))]
    asyncio.run(make_probes(Scripted(), story(), [plan()], [silent], repairs))
    done = {(entry[1].split(",")[0], entry[3]) for entry in repairs.entries if "no turn speaks" in entry[2]}
    assert ("knowledge_update", "dropped") in done
    assert ("summarization", "bullets left out") in done
    assert not [name for name, how in done if how == "dropped" and name != "knowledge_update"]


# Selection


def test_deciles_give_each_question_the_same_weight() -> None:
    assert deciles([], 10) == (0.0,) * 10
    assert deciles([[0], [99]], 100) == (0.5, *(0.0,) * 8, 0.5)
    assert deciles([[0, 1, 2, 50], [99], []], 100) == pytest.approx((0.25, 0, 0, 0, 0, 0.25, 0, 0, 0, 0.5))


def pool(rng: random.Random, messages: int) -> list[Draft]:
    found = []
    for ability in ABILITIES:
        for number in range(12):
            place = rng.randrange(messages)
            parts = PROBE_KINDS[ability].parts
            names = list(parts.values()) if parts else [] if ability == "abstention" else [""]
            found.append(
                draft(
                    ability,
                    question=f"{ability} {number}?",
                    evidence=dict.fromkeys(names, (place,)),
                    refs=(Ref(0, 1 + place * 10 // messages, 1 + rng.randrange(30)),),
                )
            )
    return found


@pytest.mark.parametrize("size", ["100K", "500K", "1M", "10M"])
def test_chosen_evidence_lies_where_the_released_does(size: Any) -> None:
    drafts = pool(random.Random(f"pool {size}"), 1000)
    chosen = [one for some in select(drafts, frozenset(), 1000, size, 7).values() for one in some]
    assert len(chosen) == 20

    def apart(some: list[Draft]) -> float:
        shares = deciles([one.evidence_ids for one in some], 1000)
        return sum(abs(a - b) for a, b in zip(shares, released_deciles(size), strict=True))

    assert apart(chosen) < 0.4
    assert apart(chosen) < apart(drafts) / 2


def test_two_of_many_questions_are_chosen_per_ability() -> None:
    chosen = select(pool(random.Random(3), 1000), frozenset(), 1000, "1M", 7)
    assert {ability: len(some) for ability, some in chosen.items()} == dict.fromkeys(ABILITIES, 2)


def test_the_choice_depends_on_the_seed_and_on_nothing_else() -> None:
    drafts = pool(random.Random("pool"), 1000)

    def ids(some: list[Draft], seed: int) -> list[str]:
        return [one.id for chosen in select(some, frozenset(), 1000, "1M", seed).values() for one in chosen]

    assert ids(drafts, 1) == ids(drafts[::-1], 1)
    assert len({tuple(ids(drafts, seed)) for seed in range(4)}) > 1


def test_accepted_questions_come_first_and_bullets_are_not_used_twice() -> None:
    drafts = pool(random.Random("pool"), 1000)
    wanted = frozenset(one.id for one in drafts if one.question.endswith((" 3?", " 7?")))
    chosen = [one for some in select(drafts, wanted, 1000, "1M", 1).values() for one in some]
    assert {one.id for one in chosen} == wanted
    free = [one for some in select(drafts, frozenset(), 1000, "1M", 1).values() for one in some]
    assert len({ref for one in free for ref in one.refs}) == 20


# Files


def test_candidates_are_read_back(tmp_path: Any) -> None:
    probes = made(Scripted())
    path = tmp_path / "candidates.json"
    path.write_text(json.dumps(probes.candidates), encoding="utf-8")
    found = read_candidates(path)
    assert [one.id for one in found] == [one.id for one in probes.drafts]
    assert [one.to_record() for one in found] == [one.to_record() for one in probes.drafts]
    assert sum(entry["chosen"] for entry in probes.candidates) == 20
