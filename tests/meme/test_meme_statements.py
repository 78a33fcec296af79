"""Statements of docs/meme-fidelity.md that no other test holds."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from itertools import pairwise

from beam_meme.drawing import draw_all
from beam_meme.episode_gold import TASKS
from beam_meme.fillers import GAP_TOKENS, haystack
from beam_meme.meme_scoring import FILTERED
from beam_meme.telling import tell_sessions
from beamlib.llm.model import run
from beamlib.llm.prompts import prompt_ids

EPISODES = draw_all(20, 42)


def test_recall_deletion_cascade_and_absence_are_asked_before_the_change_too() -> None:
    for drawn in EPISODES:
        asked = {task.task for task in drawn.tasks if task.before_question}
        assert asked == {"exact_recall", "deletion", "cascade", "absence"}
        assert {task.task for task in drawn.tasks} == set(TASKS) == asked | {"tracking", "aggregation"}


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
