"""Verdicts on answers: the offline judge beside a reader, what a reply may look like, and what is asked at all."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_answers import ANSWERS, HELD_OUT, Judged

from beam_meme.episode_gold import TASKS, Edge, EpisodeGold, MemeGold, MemeTask
from beam_meme.episodes import Phase
from beam_meme.meme_judge import MemeVerdict, ToJudgeMeme, contains, judge_round, question_to_judge, share_in_order
from beam_offline import OfflineModel
from beam_offline.meme_verdicts import MEME_VERDICTS, numbered_values
from beamlib.llm.model import OFFLINE_NAME, Completion, ModelError, Outcome, Prompt
from beamlib.llm.prompts import prompt_file

LEAST = 0.75
"""Share of verdicts that the stand-in's simple checks agree with."""


class Scripted:
    """Replies with given texts in turn, the last one for ever; errors are raised."""

    name = "scripted"

    def __init__(self, *replies: str | ModelError) -> None:
        self.replies = list(replies)
        self.prompts: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, ModelError):
            raise reply
        return Completion(reply)


def asked(one: Judged) -> ToJudgeMeme:
    scene = one.scene
    return ToJudgeMeme(f"q{one.number}", scene.question, one.answer, None, one.gold, scene.old, scene.change)


def gold(task: MemeTask, *values: str, phase: Phase = "after") -> MemeGold:
    return MemeGold("What is it?", phase, task, "thing", values, f"the reference sentence about {values}")


def judged(reply: str | ModelError, own: MemeGold, answer: str = "an answer") -> tuple[MemeVerdict, Scripted]:
    judge = Scripted(reply)
    return judge_round([ToJudgeMeme("q", own.question, answer, None, own, "old")], judge)[0], judge


def marks(verdict: MemeVerdict) -> str:
    assert verdict.unscored is None, verdict.unscored
    decided = verdict.present if verdict.present is not None else (verdict.passed,)
    return "".join("+" if one else "-" for one in decided)


def test_simple_checks_agree_with_a_reader_on_most_answers() -> None:
    verdicts = judge_round([asked(one) for one in ANSWERS], OfflineModel())
    same = sum(marks(verdict) == one.verdict for one, verdict in zip(ANSWERS, verdicts, strict=True))
    assert same / len(ANSWERS) >= LEAST
    assert all("simple check" in verdict.reason for verdict in verdicts)


def test_the_answers_cover_every_judged_task_and_both_phases() -> None:
    assert len(ANSWERS) >= 150 and 0.4 < len(HELD_OUT) / len(ANSWERS) < 0.6
    keys = {(one.scene.task, one.scene.phase) for one in HELD_OUT}
    assert keys == {(task, "after") for task in TASKS if task != "exact_recall"} | {
        (task, "before") for task in ("cascade", "absence", "deletion")
    }
    for key in keys:  # of each, answers that pass and answers that fail
        assert len({one.verdict for one in ANSWERS if (one.scene.task, one.scene.phase) == key}) >= 2


def test_the_offline_judge_is_named_for_what_it_is() -> None:
    assert judge_round([asked(ANSWERS[0])], OfflineModel())[0].judge == OFFLINE_NAME


# --- exact recall and partial credit ----------------------------------------------------------------------------------


def test_exact_recall_is_containment_and_asks_nobody() -> None:
    own = gold("exact_recall", "ERR 7:\n  Core   dumped")
    right, judge = judged("never sent", own, "It reads: err 7: core dumped.")
    wrong, _ = judged("never sent", own, "It reads: ERR-7: core dumped.")
    assert (right.passed, wrong.passed, judge.prompts) == (True, False, [])
    assert right.judge and right.partial is None


@given(st.text(min_size=1).filter(str.strip), st.text(), st.text())
def test_a_text_contains_what_is_put_into_it(value: str, before: str, after: str) -> None:
    spaced = " \n".join(value.split())
    assert contains(value, f"{before} {spaced} {after}")
    assert contains(value, value) and not contains(" ", before)


def test_partial_credit_of_tracking_walks_first_occurrences_in_order() -> None:
    values = ("Karvell", "Drosten", "Sylvar")
    assert share_in_order(values, "karvell, then drosten, then SYLVAR") == 1
    assert share_in_order(values, "Sylvar, Drosten, Karvell") == pytest.approx(1 / 3)
    assert share_in_order(values, "Now Sylvar; before it Karvell and Drosten") == pytest.approx(2 / 3)
    assert share_in_order(values, "Drosten and Sylvar") == pytest.approx(2 / 3)
    assert share_in_order(values, "I don't know") == 0


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), unique=True, min_size=1), st.randoms())
def test_partial_credit_is_full_only_in_order(values: list[str], random: object) -> None:
    assert share_in_order(values, " then ".join(values)) == 1
    if len(values) > 1:
        assert share_in_order(values, " then ".join(reversed(values))) == pytest.approx(1 / len(values))


def test_partial_credit_of_aggregation_is_the_share_the_judge_finds() -> None:
    verdict, _ = judged('{"present": [true, false, true], "reason": "two"}', gold("aggregation", "a", "b", "c"))
    assert (verdict.passed, verdict.present) == (False, (True, False, True))
    assert verdict.partial == pytest.approx(2 / 3)
    assert judged('{"present": [true]}', gold("aggregation", "a"))[0].passed is True


# --- replies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "passed"),
    [
        ('{"pass": true, "reason": "it is there"}', True),
        ('{"pass": false}', False),
        ('```json\n{"pass": true, "reason": "fine"}\n```', True),
        ('My verdict {as asked}: {"pass": false, "reason": "old {value}"} That is all.', False),
        ('{"pass": "true", "reason": ["not", "a", "text"]}', True),
        ('{"reason": "reason first", "pass": true}', True),
        ("{'pass': false, 'reason': 'single quotes'}", False),
        ('{"pass": true, "reason": "cut of', True),
        ('{"pass": true, "confidence": 1e999, "reason": "x"}', True),
    ],
)
def test_replies_that_can_be_read(reply: str, passed: bool) -> None:
    verdict, judge = judged(reply, gold("cascade", "new"))
    assert (verdict.passed, verdict.unscored, len(judge.prompts)) == (passed, None, 1)


@pytest.mark.parametrize(
    ("task", "reply"),
    [
        ("cascade", ""),
        ("cascade", "It passes."),
        ("cascade", '{"pass": 7}'),
        ("cascade", '{"pass": null, "reason": "cannot say"}'),
        ("cascade", '{"pass": true, "pass": false}'),
        ("cascade", '["pass"]'),
        ("cascade", "[" * 100_000),
        ("cascade", "x" + "\n" * 100_000 + "x"),
        ("cascade", "{ , " * 50_000),
        ("cascade", '{"pass": ' * 20_000),
        ("aggregation", '{"pass": true}'),
        ("aggregation", '{"present": true}'),
        ("aggregation", '{"present": [true]}'),
        ("aggregation", '{"present": [true, "perhaps"]}'),
    ],
)
def test_replies_that_cannot_be_read_leave_the_question_unscored(task: MemeTask, reply: str) -> None:
    start = time.process_time()
    verdict, judge = (
        judged(reply, gold(task, "new", "other")) if task == "aggregation" else judged(reply, gold(task, "new"))
    )
    assert verdict.passed is None and verdict.partial is None
    assert verdict.unscored and "judge's reply" in verdict.unscored
    assert len(judge.prompts) == 2 and "exactly the format" in judge.prompts[1].complaint
    assert not verdict.unanswered and time.process_time() - start < 5


def test_a_second_reply_may_be_the_usable_one() -> None:
    judge = Scripted("Well...", '{"pass": true}')
    own = gold("absence", "old")
    assert judge_round([ToJudgeMeme("q", "?", "unknown", None, own)], judge)[0].passed is True


@pytest.mark.parametrize(("outcome", "transient"), [(Outcome.UNAVAILABLE, True), (Outcome.FILTERED, False)])
def test_a_failed_call_leaves_the_question_unscored(outcome: Outcome, transient: bool) -> None:
    verdict, _ = judged(ModelError("no reply came", outcome), gold("deletion", "old"))
    assert verdict.passed is None and verdict.transient is transient
    assert verdict.unscored == f"{outcome}: no reply came"


@given(st.text(), st.sampled_from(["cascade", "aggregation"]))
def test_no_reply_breaks_the_reading(reply: str, task: MemeTask) -> None:
    verdict, _ = judged(reply, gold(task, "new"))
    assert (verdict.passed is None) == (verdict.unscored is not None)


@given(st.booleans(), st.text(), st.text(alphabet="abc {}[]\"'\n"), st.text(alphabet="xyz .\n"))
def test_a_whole_object_is_read_whatever_its_reason_says(passed: bool, reason: str, more: str, around: str) -> None:
    reply = f"{around}{json.dumps({'pass': passed, 'reason': reason + more})}"
    assert judged(reply, gold("cascade", "new"))[0].passed is passed


def test_a_missing_answer_is_not_judged() -> None:
    judge = Scripted("never sent")
    own = gold("cascade", "new")
    items = [ToJudgeMeme("a", "?", None, "content filter", own, transient=True), ToJudgeMeme("b", "?", None, None, own)]
    first, second = judge_round(items, judge)
    assert (first.unscored, first.transient, first.unanswered) == ("content filter", True, True)
    assert second.unscored == "there is no answer to judge" and judge.prompts == []


@pytest.mark.parametrize("values", [(), ("",), ("a", " ")])
def test_gold_without_a_value_leaves_the_question_unscored(values: tuple[str, ...]) -> None:
    verdict, judge = judged("never sent", gold("tracking", *values))
    assert verdict.unscored == "the gold holds no value" and judge.prompts == []


# --- what the judge is shown ------------------------------------------------------------------------------------------

EPISODE = EpisodeGold(
    "employer",
    ("Brack", "Sunfell"),
    (Edge("employer", "work_location", 1), Edge("work_location", "commute", 2), Edge("employer", "insurance", 1)),
    {
        "e-before-q01": MemeGold("Insurance?", "before", "cascade", "insurance", ("Holloway",), "Holloway.", 1),
        "e-after-q01": MemeGold(
            "Insurance?", "after", "cascade", "insurance", ("Verity",), "GOLD SENTENCE", 1, "employer"
        ),
        "e-after-q02": MemeGold(
            "Commute?", "after", "absence", "commute", ("tram",), "GOLD SENTENCE", 2, "work_location"
        ),
        "e-after-q03": MemeGold("Pet?", "after", "deletion", "pet", ("a cat",), "GOLD SENTENCE"),
        "e-after-q04": MemeGold("Cars?", "after", "tracking", "car", ("one\ntwo", "three"), "GOLD SENTENCE"),
    },
    (),
    (),
    {"employer": "Brack", "work_location": "Dock", "insurance": "Holloway", "commute": "tram", "pet": "a cat"},
    {"employer": "Sunfell", "work_location": "Tower", "insurance": "Verity", "commute": None, "pet": None},
)


def test_each_prompt_has_what_its_task_needs_and_never_the_reference_sentence() -> None:
    judge = Scripted('{"pass": true}')
    judge_round([question_to_judge(one, "The answer.", None, EPISODE) for one in EPISODE.questions], judge)
    by_id = {prompt.about.split()[-1]: prompt for prompt in judge.prompts}
    needed = {
        key: {k: v for k, v in p.variables.items() if k not in ("question", "answer")} for key, p in by_id.items()
    }
    assert needed == {
        "e-before-q01": {"value": "Holloway"},
        "e-after-q01": {"new_value": "Verity", "old_value": "Holloway"},
        "e-after-q02": {"old_value": "tram", "change": "work location: Dock -> Tower; employer: Brack -> Sunfell"},
        "e-after-q03": {"old_value": "a cat"},
        "e-after-q04": {"values": "1. one\ntwo\n2. three"},
    }
    for prompt in judge.prompts:
        assert set(prompt.variables) == set(prompt_file(prompt.id).variables)
        text = json.dumps(prompt.messages)
        assert "GOLD SENTENCE" not in text and "The answer." in text


@given(st.lists(st.text(alphabet="ab 1.2\n").map(str.strip).filter(lambda value: value and "\n" not in value)))
def test_a_numbered_list_is_read_back(values: list[str]) -> None:
    assert numbered_values("\n".join(f"{number}. {value}" for number, value in enumerate(values, start=1))) == values


# --- the simple checks ------------------------------------------------------------------------------------------------


def check(name: str, answer: str, **values: str) -> bool:
    reply = json.loads(MEME_VERDICTS[f"meme_judge_{name}"]({"question": "How?", "answer": answer, **values}))
    return bool(reply["pass"])


@pytest.mark.parametrize(
    ("value", "given_as", "another"),
    [
        ("30 minutes", "thirty minutes", "130 minutes"),
        ("Ostrow Guild Hall", "the guild hall of Ostrow", "the Maren guild hall"),
        ("#ember-watch", "the ember-watch channel", "#ember-desk"),
        ("the blue-green strategy", "a strategy, Blue/Green", "a green strategy"),
    ],
)
def test_a_value_is_there_whatever_its_case_marks_and_order(value: str, given_as: str, another: str) -> None:
    assert check("before", f"It is {value}.", value=value)
    assert check("before", f"It is {given_as}.", value=value)
    assert not check("before", f"It is {another}.", value=value)
    assert not check("deletion", f"It was {given_as}.", old_value=value)


def test_each_task_has_its_check() -> None:
    pair = {"new_value": "Verity Mutual", "old_value": "Holloway Shield"}
    assert check("cascade", "It is Verity Mutual.", **pair)
    assert not check("cascade", "It is Verity Mutual or Holloway Shield.", **pair)
    assert check("absence", "I don't know.", old_value="tram", change="")
    assert not check("absence", "By tram.", old_value="tram", change="")
    assert check("tracking", "Oak, then ash.", values="1. oak\n2. ash")
    assert not check("tracking", "Ash, then oak.", values="1. oak\n2. ash")


@pytest.mark.parametrize("piece", ["Tomas, ", "Tomas ", "no aaa ", "x", "((", "1,000", "\n"])
def test_checks_take_time_in_proportion_to_the_answer(piece: str) -> None:
    text, start = (piece * 60_000)[:60_000], time.process_time()
    check("cascade", text, new_value="Tomas Brellin", old_value="Ines Okavari")
    check("absence", text, old_value="Tomas Brellin", change="")
    check("tracking", text, values="1. Tomas Brellin\n2. Ines Okavari")
    assert time.process_time() - start < 10


@given(st.text(), st.text(min_size=1), st.text(min_size=1))
def test_no_answer_or_value_breaks_the_checks(answer: str, value: str, other: str) -> None:
    items = [
        ToJudgeMeme("q", "What?", answer, None, gold(task, value, other), other, f"a: {other} -> {value}")
        for task in TASKS
    ]
    for verdict in judge_round(items, OfflineModel()):
        assert (verdict.passed is None) == (not (value.strip() and other.strip()))
