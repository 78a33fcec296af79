"""The judge: what it asks, what it keeps, and what it does when a call fails."""

from __future__ import annotations

import asyncio
import json

import pytest

from beamlib.data.gold import ABILITIES, Gold
from beamlib.errors import UserError
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt
from beamlib.scoring.judge import ToJudge, judge_answers
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


def gold(rubric, ability="summarization", probe_id="100K-1-q00"):
    return Gold(probe_id, "100K-1", ability, tuple(rubric), "reference", (), "easy")


def judge_answer(question, answer, unscored, gold, model, *, aligner=None, **options):
    (judgement,) = judge_answers([ToJudge(question, answer, unscored, gold)], model, aligner or model, **options)
    return judgement


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
    assert judgement.alignments == () and judgement.unscored is None and model.asked("align_events") == []


@pytest.mark.parametrize("ability", ABILITIES)
def test_nine_abilities_are_never_aligned(ability):
    model = Scripted()
    judgement = judge_answer("Q", "First beans.\nThen peas.", None, gold(["beans", "peas"], ability), model)
    assert bool(model.asked("align_events")) == bool(judgement.alignments) == (ability == "event_ordering")
    assert len(judgement.verdicts) == 2


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
    assert pairs.count(("fence", "fence")) == 1 and ("2. fence", "fence") not in pairs, "a list mark is no new question"
    assert ("fence", "beans") not in pairs, "nothing is asked beyond the first yes"
    assert not any(event in ("", "1. beans") for event, _ in pairs)


def test_an_order_nugget_is_aligned_by_newline_only():
    order = "Presents the events in the correct chronological order"
    model = Scripted(same=lambda event, nugget: nugget == order)
    judgement = judge_answer("Q", "beans\nfence", None, gold(["beans", order], "event_ordering"), model)
    assert [alignment.matches for alignment in judgement.alignments] == [(None, None), (1, None)]
    assert [verdict.nugget for verdict in judgement.verdicts] == ["beans", order]


def test_a_yes_inside_a_word_or_a_denial_matches_nothing():
    replies = {"a": "No. The first happened yesterday.", "b": "eyes... no", "c": "Yes."}
    model = Scripted(same=lambda event, nugget: replies[nugget])
    judgement = judge_answer("Q", "one", None, gold(replies, "event_ordering"), model)
    assert judgement.alignments[0].matches == (2,) and len(model.asked("align_events")) == 3


def test_an_unclear_alignment_is_asked_for_again_and_then_unscored():
    replies = iter(["Yes and no.", "no", "Hm.", "I would not say yes"])
    model = Scripted(same=lambda event, nugget: next(replies))
    judgement = judge_answer("Q", "one", None, gold(["a", "b"], "event_ordering"), model)
    assert judgement.unscored.endswith("unreadable reply: the aligner's reply is not a clear yes or no")
    assert [bool(prompt.complaint) for prompt in model.prompts if prompt.id == "align_events"] == [False, True] * 2


def test_a_failed_alignment_call_keeps_the_verdicts():
    model = Scripted(same=lambda event, nugget: None if nugget == "b" else False)
    judgement = judge_answer("Q", "one\ntwo", None, gold(["a", "b"], "event_ordering"), model)
    assert judgement.unscored == "an event could not be aligned: 429 after 5 tries"
    assert [verdict.score for verdict in judgement.verdicts] == [1.0, 1.0] and judgement.alignments == ()


def test_errors_of_the_program_are_not_taken_for_failed_calls():
    def broken(nugget):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        judge_answer("Q", "A", None, gold(["a"]), Scripted(verdict=broken))


def test_the_record_survives_its_line_of_json():
    judgement = judge_answer("Q", "1. a\n2. b", None, gold(["a", "b"], "event_ordering"), Scripted())
    line = judgement.model_dump_json()
    assert type(judgement).model_validate_json(line) == judgement
    fields = json.loads(line)  # without repeats: manifests hash the bytes
    known = ("probe_id", "conversation_id", "ability", "verdicts", "alignments", "unscored")
    assert list(fields) == ["schema_version", *known] and fields["schema_version"] == 1


class Judge:
    """Replies with what a list holds for a nugget, one after the other; an exception is raised; keeps its prompts."""

    name = "judge"

    def __init__(self, **replies):
        self.replies = {nugget: list(given) for nugget, given in replies.items()}
        self.prompts = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        waiting = self.replies.get(prompt.variables["nugget"])
        reply = waiting.pop(0) if waiting else '{"score": 1}'
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Completion) else Completion(reply)


def test_an_unreadable_reply_is_asked_for_once_more():
    off_the_scale = Judge(a=['{"score": 0.25}', '{"score": 0}'])
    assert judge_answer("Q", "A", None, gold(["a"]), off_the_scale).verdicts[0].score == 0.0
    assert "0.25" in off_the_scale.prompts[1].complaint
    model = Judge(a=["hm", '{"score": 0.5}'], b=["hm", "hmm", '{"score": 1}'])
    a, b = judge_answer("Q", "A", None, gold(["a", "b"]), model).verdicts
    assert (a.score, a.reason, a.reply) == (0.5, "", '{"score": 0.5}')
    assert (b.score, b.reply) == (None, "hmm") and b.reason.startswith("unreadable reply: the judge's reply holds no")
    again = [prompt for prompt in model.prompts if prompt.attempt]
    assert [prompt.variables["nugget"] for prompt in again] == ["a", "b"] and len(model.prompts) == 4
    for prompt in again:
        assert prompt.attempt == 1 and "the judge's reply holds no object with a score" in prompt.complaint


@pytest.mark.parametrize("text", ['{"score": 0.5, "reason": "the ans', '{"score": 0.5,', '{"score": 0.5}'])
def test_a_cut_reply_counts_if_its_score_is_whole(text):
    model = Judge(a=[Completion(text, finish_reason="length")])
    verdict = judge_answer("Q", "A", None, gold(["a"]), model).verdicts[0]
    assert (verdict.score, verdict.reply, len(model.prompts)) == (0.5, text, 1)


def test_a_score_that_may_be_cut_is_not_taken():
    cut = Completion('{"score": 0', finish_reason="length")
    model = Judge(a=[cut, '{"score": 0.5}'], b=[cut, cut])
    a, b = judge_answer("Q", "A", None, gold(["a", "b"]), model).verdicts
    assert a.score == 0.5
    assert b.score is None and b.reason == "unreadable reply: the judge's reply was cut off before the end of the score"


def test_a_call_that_fails_the_second_time_keeps_the_first_reply():
    model = Judge(a=["hm", ModelError("503 after 5 tries", Outcome.UNAVAILABLE)])
    judgement = judge_answer("Q", "A", None, gold(["a", "b"]), model)
    first, second = judgement.verdicts
    assert (first.score, first.reply, first.reason) == (None, "hm", "endpoint unavailable: 503 after 5 tries")
    assert second.score == 1.0 and judgement.transient


@pytest.mark.parametrize(
    ("outcome", "transient"), [(Outcome.UNAVAILABLE, True), (Outcome.TRUNCATED, False), (Outcome.FILTERED, False)]
)
def test_only_failures_that_may_pass_are_transient(outcome, transient):
    one = judge_answer("Q", "A", None, gold(["a", "b"]), Judge(a=[ModelError("x", outcome)]))
    assert one.transient == transient and one.verdicts[0].reason == f"{outcome}: x"
    ordering = Scripted()
    failing = Failing(ModelError("x", outcome))
    judged = judge_answer("Q", "one", None, gold(["a"], "event_ordering"), ordering, aligner=failing)
    assert judged.transient == transient
    assert judged.unscored == f"an event could not be aligned: {outcome}: x" and judged.verdicts[0].score == 1.0
    item = ToJudge("Q", None, f"{outcome}: x", gold(["a"]), transient=transient)
    assert judge_answers([item], ordering, ordering)[0].transient == transient


class Failing:
    name = "failing"

    def __init__(self, error):
        self.error = error

    async def complete(self, prompt: Prompt) -> Completion:
        raise self.error


def test_answers_are_judged_together_and_returned_in_order():
    items = [
        ToJudge("Q0", "A0", None, gold(["a", "b"], probe_id="100K-1-q00")),
        ToJudge("Q1", None, "the reader timed out", gold(["c"], probe_id="100K-1-q01")),
        ToJudge("Q2", "one", None, gold(["d", "e"], "event_ordering", "100K-1-q02")),
        ToJudge("Q3", "A3", None, gold(["f"], probe_id="100K-1-q03")),
    ]
    judge, aligner = Judge(b=[ModelError("429")]), Scripted()
    judgements = judge_answers(items, judge, aligner)
    assert [judgement.probe_id[-3:] for judgement in judgements] == ["q00", "q01", "q02", "q03"]
    assert [[v.score for v in j.verdicts] for j in judgements] == [[1.0, None], [], [1.0, 1.0], [1.0]]
    assert judgements[1].unscored == "the reader timed out" and not any(j.transient for j in judgements)
    assert [prompt.about for prompt in judge.prompts] == [
        "100K-1-q00 nugget 1",
        "100K-1-q00 nugget 2",
        "100K-1-q02 nugget 1",
        "100K-1-q02 nugget 2",
        "100K-1-q03 nugget 1",
    ]
    assert [prompt.about for prompt in aligner.prompts] == ["100K-1-q02 nugget 1", "100K-1-q02 nugget 2"]


class Gate:
    """Lets no call return before `expected` calls are in flight."""

    name = "gate"

    def __init__(self, expected):
        self.expected, self.waiting, self.open = expected, 0, None

    async def complete(self, prompt: Prompt) -> Completion:
        self.open = self.open or asyncio.Event()
        self.waiting += 1
        if self.waiting == self.expected:
            self.open.set()
        await asyncio.wait_for(self.open.wait(), 10)
        return Completion("no" if prompt.id == "align_events" else '{"score": 1}')


def test_all_verdicts_of_all_repeats_and_the_first_alignments_are_in_flight_at_once():
    rubrics = [["a", "b"], ["c"], ["d", "e", "f"]]
    items = [ToJudge("Q", "one", None, gold(r, "event_ordering", f"100K-1-q{n:02d}")) for n, r in enumerate(rubrics)]
    gate = Gate(2 * (6 + 3))
    judgements = judge_answers(items, gate, gate, repeats=2)
    assert [len(judgement.verdicts) for judgement in judgements] == [2, 1, 3]


def test_without_the_question_no_prompt_holds_it():
    items = [ToJudge("the secret question", "one", None, gold(["a", "b"], "event_ordering"))]
    for kept, count in [(True, 2), (False, 0)]:
        judge, aligner = Judge(), Scripted()
        judge_answers(items, judge, aligner, question_in_prompt=kept)
        texts = [str(prompt.messages) for prompt in [*judge.prompts, *aligner.prompts]]
        assert len(texts) == 4 and sum("the secret question" in text for text in texts) == count
    assert {prompt.variables["question"] for prompt in judge.prompts} == {""}


def test_repeats_are_asked_and_kept_apart():
    class Moody:
        name = "moody"

        def __init__(self):
            self.prompts = []

        async def complete(self, prompt: Prompt) -> Completion:
            self.prompts.append(prompt)
            if prompt.id == "align_events":
                return Completion("yes" if prompt.repeat == 1 else "no")
            if prompt.repeat == 2:
                raise ModelError("down", Outcome.UNAVAILABLE)
            return Completion(json.dumps({"score": 0.5 * prompt.repeat}))

    model = Moody()
    judgement = judge_answer("Q", "one", None, gold(["a"], "event_ordering"), model, repeats=3)
    assert [prompt.repeat for prompt in model.prompts if prompt.id == "judge_nugget"] == [0, 1, 2]
    assert [prompt.repeat for prompt in model.prompts if prompt.id == "align_events"] == [0, 1, 2]
    assert [own.verdicts[0].score for own in judgement.rounds] == [0.0, 0.5, None]
    assert [own.alignments[0].matches for own in judgement.rounds] == [(None,), (0,), (None,)]
    assert judgement.verdicts[0].score == 0.0 and len(judgement.repeats) == 2 and judgement.transient
    assert type(judgement).model_validate_json(judgement.model_dump_json()) == judgement


def test_nothing_to_call_stops_the_judging_after_what_is_in_flight():
    class Replaying(Judge):
        async def complete(self, prompt: Prompt) -> Completion:
            reply = await super().complete(prompt)
            if prompt.variables["nugget"] == "a":
                raise UserError("this call is not stored.")
            await asyncio.sleep(0.01)
            self.ended = getattr(self, "ended", 0) + 1
            return reply

    model = Replaying()
    with pytest.raises(UserError, match="not stored"):
        judge_answers([ToJudge("Q", "A", None, gold(["a", "b", "c"]))] * 2, model, model)
    assert model.ended == 4
