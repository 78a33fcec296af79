"""Statements of docs/meme-fidelity.md that no other test holds."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from beam_meme.domains import bank_of
from beam_meme.drawing import draw_all
from beam_meme.episode_gold import TASKS, MemeGold
from beam_meme.fillers import GAP_TOKENS, Filler, haystack, nearest
from beam_meme.meme_judge import MemeVerdict, ToJudgeMeme, judge_round
from beam_meme.meme_scoring import FILTERED, JudgedEpisode, score_episodes
from beam_meme.telling import tell_sessions
from beamlib.llm.model import Completion, Prompt, run
from beamlib.llm.prompts import prompt_ids

EPISODES = draw_all(20, 42)


def test_recall_deletion_cascade_and_absence_are_asked_before_the_change_too() -> None:
    for drawn in EPISODES:
        loaded = haystack(drawn, run(tell_sessions(drawn)), [], "nofiller", random.Random(1))
        asked = {
            phase: {loaded.gold.questions[question.id].task for question in loaded.episode.rounds[phase].questions}
            for phase in ("before", "after")
        }
        assert asked["before"] == {"exact_recall", "deletion", "cascade", "absence"}
        assert asked["after"] == set(TASKS) == asked["before"] | {"tracking", "aggregation"}


def test_hop_2_is_asked_for_wherever_something_lies_there() -> None:
    for drawn in draw_all(100, 42):
        bank = bank_of(drawn.domain)
        first = bank.dependants(drawn.root)
        second = {name for one in first for name in bank.dependants(one)} - {*first}
        hops = {task: sorted(one.hop or 0 for one in drawn.tasks if one.task == task) for task in FILTERED}
        assert hops["cascade"] == ([1, 2] if second else [1])
        assert hops["absence"] == ([1, 2] if len(second) > 1 else [1])


def test_sessions_are_2_to_48_hours_apart_and_the_last_questions_2_to_24_hours_later() -> None:
    steps: list[timedelta] = []
    for number, drawn in enumerate(EPISODES):
        episode = haystack(drawn, run(tell_sessions(drawn)), [], "nofiller", random.Random(number)).episode
        times = [datetime.strptime(one.timestamp, "%Y/%m/%d (%a) %H:%M") for one in episode.sessions]
        assert times[0] == datetime(2023, 3, 1, 9)
        steps += [after - before for before, after in pairwise(times)]
        wait = datetime.strptime(episode.after.timestamp, "%Y/%m/%d (%a) %H:%M") - times[-1]
        assert timedelta(hours=2) <= wait <= timedelta(hours=24)
    assert timedelta(hours=2) <= min(steps) < timedelta(hours=8) and timedelta(hours=40) < max(steps)
    assert max(steps) <= timedelta(hours=48)


def test_the_conditions_are_none_32k_and_128k() -> None:
    assert GAP_TOKENS == {"nofiller": 0, "filler32k": 7_000, "filler128k": 25_000}


def test_only_dependencies_and_deletions_are_filtered() -> None:
    assert set(FILTERED) == {"deletion", "cascade", "absence"}


def test_every_judged_task_has_a_prompt_of_its_own_and_the_first_round_one_for_all() -> None:
    judges = {name.removeprefix("meme_judge_") for name in prompt_ids() if name.startswith("meme_judge_")}
    assert judges == {*TASKS, "before"} - {"exact_recall"}
    for task in judges - {"before"}:
        for phase in ("before", "after") if task in FILTERED else ("after",):
            own = MemeGold("What is it?", phase, task, "thing", ("old",), "")
            judge = Judge()
            judge_round([ToJudgeMeme("q", "What is it?", "An answer.", None, own, "old", "a -> b")], judge)
            (prompt,) = judge.prompts
            assert prompt.id == f"meme_judge_{task if phase == 'after' else 'before'}"
            assert (prompt.variables["question"], prompt.variables["answer"]) == ("What is it?", "An answer.")


class Judge:
    """Passes everything, and keeps what it was shown."""

    name = "judge"

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        return Completion('{"pass": true, "present": [true]}')


def test_overall_is_the_plain_mean_whatever_the_number_of_questions() -> None:
    counts = dict(zip(TASKS, (4, 1, 2, 1, 3, 1), strict=True))
    gold = {
        f"{phase}-{task}-{number}": MemeGold("?", phase, task, f"{task}{number}", ("value",), "")
        for task, count in counts.items()
        for number in range(count)
        for phase in ("before", "after")
    }
    right = {"exact_recall": 1.0, "aggregation": 0.0, "tracking": 1.0, "deletion": 0.0, "cascade": 1.0, "absence": 0.0}
    verdicts = {
        name: MemeVerdict(question_id=name, passed=own.phase == "before" or bool(right[own.task]), judge="j")
        for name, own in gold.items()
    }
    scores = score_episodes([JudgedEpisode("m", "e", gold, verdicts)]).set_index(["task", "hop"])["real"]
    assert {task: scores[task, 0] for task in TASKS} == right
    assert scores["overall", 0] == pytest.approx(0.5)


def test_ten_fillers_near_by_words_and_ten_near_by_vectors_are_judged() -> None:
    def filler(name: str, text: str) -> Filler:
        from beam_meme.episodes import Line

        return Filler(name, (Line("user", text), Line("assistant", "Gladly.")))

    words = [filler(f"word {n}", f"The physician of the zoo, number {n}, likes {'a b c ' * n}") for n in range(12)]
    senses = [filler(f"sense {n}", f"Doctors and nurses treat patients in hospital {n}.") for n in range(12)]
    others = [filler(f"other {n}", f"Kites, tiles and maps for sale, lot {n}.") for n in range(30)]
    near = [one.name for _, one in nearest([*words, *senses, *others], ["The physician"])]
    assert sum(name.startswith("word") for name in near) >= 10
    assert any(name.startswith("sense") for name in near) and len(near) <= 20
