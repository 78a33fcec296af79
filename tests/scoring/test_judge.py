"""The judge: what it asks, what it keeps, and what it does when a call fails."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamlib.benchmark.gold import Gold
from beamlib.models.base import Completion, ModelError, Prompt
from beamlib.scoring import judge_answer
from beamlib.scoring.items import parse_items
from beamlib.scoring.protocols import PROTOCOLS


class Scripted:
    """A model that answers by two functions and remembers its prompts; None stands for a failed call."""

    name = "scripted"

    def __init__(self, verdict=lambda nugget: '{"score": 1.0, "reason": "fine"}', same=lambda event, nugget: False):
        self.verdict, self.same, self.prompts = verdict, same, []

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        if prompt.id == "judge_nugget":
            reply = self.verdict(prompt.variables["nugget"])
        else:
            assert prompt.id == "align_events"
            reply = self.same(prompt.variables["event"], prompt.variables["nugget"])
            reply = {True: "**YES**", False: "NO"}.get(reply, reply)
        if reply is None:
            raise ModelError("429 after 5 tries")
        return Completion(reply)

    def asked(self, prompt_id):
        return [dict(prompt.variables) for prompt in self.prompts if prompt.id == prompt_id]


def gold(rubric, ability="summarization"):
    return Gold("100K-1-q00", "100K-1", ability, tuple(rubric), "reference", (), "easy")


def test_one_call_per_nugget_with_question_nugget_and_answer():
    model = Scripted()
    judgement = judge_answer("What grew?", "Beans.", None, gold(["says beans", "says peas"]), model)
    assert model.asked("judge_nugget") == [
        {"question": "What grew?", "nugget": "says beans", "answer": "Beans."},
        {"question": "What grew?", "nugget": "says peas", "answer": "Beans."},
    ]
    assert [(v.nugget, v.score, v.reason) for v in judgement.verdicts] == [
        ("says beans", 1.0, ""),
        ("says peas", 1.0, ""),
    ]
    assert judgement.verdicts[0].reply == '{"score": 1.0, "reason": "fine"}'
    assert (judgement.probe_id, judgement.conversation_id, judgement.ability) == (
        "100K-1-q00",
        "100K-1",
        "summarization",
    )
    assert judgement.alignments == () and judgement.unscored is None


def test_unscored_answers_cost_nothing():
    model = Scripted()
    for answer, reason, kept in [(None, "the reader timed out", "the reader timed out"), (None, None, "no answer")]:
        judgement = judge_answer("Q", answer, reason, gold(["n"], "event_ordering"), model)
        assert kept in judgement.unscored and judgement.verdicts == () and judgement.alignments == ()
    assert model.prompts == []


def test_an_empty_answer_is_an_answer():
    judgement = judge_answer("Q", "", None, gold(["a", "b"], "event_ordering"), Scripted())
    assert judgement.unscored is None and len(judgement.verdicts) == 2
    assert {alignment.parser: alignment.items for alignment in judgement.alignments} == {"items": (), "newline": ("",)}


def test_failed_and_unreadable_replies_keep_their_reason_and_spare_the_others():
    replies = {"a": None, "b": "I think so", "c": '{"score": 0.25}', "d": '{"score": "0.5"}', "e": '{"score": true}'}
    judgement = judge_answer("Q", "A", None, gold(replies), Scripted(verdict=replies.get))
    a, b, c, d, e = judgement.verdicts
    assert (a.score, a.reason, a.reply) == (None, "429 after 5 tries", "")
    assert b.score is None and b.reason and b.reply == "I think so"
    assert c.score is None and "0.25" in c.reason and c.reply == '{"score": 0.25}'
    assert d.score == 0.5
    assert e.score is None
    assert judgement.unscored is None
    assert PROTOCOLS["paper"].score_question(judgement).unscored.startswith("4 of 5 nuggets unscored: 429")


def test_both_parsers_are_aligned_and_no_pair_is_asked_twice():
    answer = "# Order\n\n1. beans\n\n2. fence"
    model = Scripted(same=lambda event, nugget: nugget in event)
    judgement = judge_answer("Q", answer, None, gold(["fence", "beans", "harvest"], "event_ordering"), model)
    items, lines = judgement.alignments
    assert (items.parser, items.items, items.matches) == ("items", ("beans", "fence"), (1, 0))
    assert (lines.parser, lines.items) == ("newline", ("# Order", "", "1. beans", "", "2. fence"))
    assert lines.matches == (None, None, 1, None, 0)
    pairs = [tuple(asked.values()) for asked in model.asked("align_events")]
    assert len(pairs) == len(set(pairs))
    assert ("2. fence", "beans") not in pairs, "a used nugget is not asked about again"


def test_only_event_ordering_is_aligned():
    model = Scripted()
    judge_answer("Q", "1. a\n2. b", None, gold(["a"], "summarization"), model)
    assert model.asked("align_events") == []


def test_an_order_nugget_is_aligned_by_newline_only():
    order = "Presents the events in the correct chronological order"
    model = Scripted(same=lambda event, nugget: nugget == order)
    judgement = judge_answer("Q", "beans\nfence", None, gold(["beans", order], "event_ordering"), model)
    assert [alignment.matches for alignment in judgement.alignments] == [(None, None), (1, None)]
    assert [verdict.nugget for verdict in judgement.verdicts] == ["beans", order]


def test_any_reply_with_yes_in_it_is_a_yes():
    model = Scripted(same=lambda event, nugget: "Yes." if nugget == "b" else "eyes... no")
    judgement = judge_answer("Q", "one", None, gold(["a", "b"], "event_ordering"), model)
    assert judgement.alignments[0].matches == (0,), "'eyes' holds yes, as released"


def test_a_failed_alignment_call_keeps_the_verdicts():
    model = Scripted(same=lambda event, nugget: None if nugget == "b" else False)
    judgement = judge_answer("Q", "one\ntwo", None, gold(["a", "b"], "event_ordering"), model)
    assert judgement.unscored == "an event could not be aligned: 429 after 5 tries"
    assert [verdict.score for verdict in judgement.verdicts] == [1.0, 1.0] and judgement.alignments == ()


def test_a_failed_call_that_nobody_needed_changes_nothing():
    model = Scripted(same=lambda event, nugget: True if nugget == "a" else None)
    judgement = judge_answer("Q", "one", None, gold(["a", "b"], "event_ordering"), model)
    assert judgement.unscored is None and judgement.alignments[0].matches == (0,)


def test_errors_of_the_program_are_not_taken_for_failed_calls():
    def broken(nugget):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        judge_answer("Q", "A", None, gold(["a"]), Scripted(verdict=broken))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=6),
    st.lists(st.sampled_from(["one", "two", "three", ""]), min_size=1, max_size=6),
    st.sets(st.tuples(st.sampled_from(["one", "two", "three", ""]), st.sampled_from("abcdefg")), max_size=12),
)
def test_asking_together_gives_what_asking_one_by_one_gives(rubric, lines, yes):
    answer = "\n".join(lines)
    judgement = judge_answer(
        "Q", answer, None, gold(rubric, "event_ordering"), Scripted(same=lambda event, nugget: (event, nugget) in yes)
    )
    for items, alignment in zip((parse_items(answer), answer.split("\n")), judgement.alignments, strict=True):
        used, expected = set(), []
        for item in items:
            found = None
            for index, nugget in enumerate(rubric):
                if index not in used and (item, nugget) in yes:
                    found = index
                    used.add(index)
                    break
            expected.append(found)
        assert alignment.matches == tuple(expected)


def test_the_record_survives_its_line_of_json():
    judgement = judge_answer("Q", "1. a\n2. b", None, gold(["a", "b"], "event_ordering"), Scripted())
    line = judgement.model_dump_json()
    assert type(judgement).model_validate_json(line) == judgement
    assert json.loads(line)["schema_version"] == 1
