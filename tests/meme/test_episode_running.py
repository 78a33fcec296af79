"""The protocol of MEME: what a memory is handed and when, what the reader is asked, what is counted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from beam_meme import episode_running
from beam_meme.episode_gold import episode_evidence
from beam_meme.episode_results import EpisodeContexts, Meter
from beam_meme.episode_running import ANSWER_PROMPT, run_episode
from beam_meme.episodes import Line, episode_conversation
from beam_meme.meme_memories import SessionSearch, arm_of, meme_memories, reads_sessions
from beam_meme.task import Meme
from beam_memories.evolving.evolving_memory import SessionRead
from beam_offline import OfflineModel
from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.evaluate.records import Answer
from beamlib.llm.model import Completion, ModelError, ModelRoles, Outcome, Prompt, Usage, run
from beamlib.memory.declared import kind_of
from beamlib.memory.protocol import RetrievedContext
from beamlib.params import load_parameters
from beamlib.run import Run
from small_episodes import EPISODES, LOADED

EPISODE, GOLD = LOADED[0].episode, LOADED[0].gold


class Reader:
    """Replies with the number of the call, and keeps the prompts."""

    name = "reader"

    def __init__(self, fails: str = "", outcome: Outcome = Outcome.FILTERED) -> None:
        self.prompts: list[Prompt] = []
        self.fails, self.outcome = fails, outcome

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        if self.fails and self.fails in prompt.variables.get("question", ""):
            raise ModelError("no such luck", self.outcome)
        return Completion(f"reply {len(self.prompts)}", Usage(100, 10, 5))


class Fake:
    """Keeps a file with the texts of its sessions; a model is called once per session and once per question."""

    name = "fake"

    def __init__(self, model: Any, breaks: int = 99) -> None:
        self.model, self.breaks = model, breaks
        self.log: list[str] = []
        self.files: dict[str, str] = {}

    def reset(self) -> None:
        self.files = {}

    def ingest(self, conversation: Conversation) -> None:
        raise AssertionError("a memory that evolves reads session by session")

    def read_session(self, session: SessionRead) -> None:
        self.log.append(f"read {session.number}")
        if session.number == self.breaks:
            raise ModelError("out of order", Outcome.UNAVAILABLE)
        text = "\n".join(f"{message.id} {message.content}" for message in session.messages)
        run(self.model.complete(Prompt("scratchpad_notes", {"pair": text, "history": ""})))
        self.files[f"{session.number}.md"] = f"{session.date}\n{text}"

    def finalise(self) -> None:
        self.log.append("finalise")
        self.files["index.md"] = f"{len(self.files)} files"

    def snapshot(self) -> Mapping[str, str]:
        return self.files

    def recall(self, question: str) -> RetrievedContext:
        self.log.append("recall")
        run(self.model.complete(Prompt("scratchpad_filter", {"piece": "x", "question": question})))
        return RetrievedContext("\n".join(self.files.values()), (1, 2), {"files": (1, 2)}, gaps=3)


def given(root: Path, run_folder: Path, **changes: Any) -> Run:
    fixed = {"run": str(run_folder), "data": "", "workers": 1, "confirm_cost": True, "retriever": "bm25", "k": 2}
    return Run.of(load_parameters(root / "params" / "100k.yaml", **{**fixed, **changes}))


@pytest.fixture
def parameters(repo_root: Path, tmp_path: Path) -> Run:
    return given(repo_root, tmp_path)


def evolving(monkeypatch: pytest.MonkeyPatch, breaks: int = 99) -> list[Fake]:
    made: list[Fake] = []

    def make(memory: str, model: Any, parameters: Any) -> Fake:
        made.append(Fake(model, breaks))
        return made[-1]

    monkeypatch.setattr(episode_running, "evolving_memory", make)
    return made


@dataclass
class Asked:
    """The records of an episode with one memory."""

    answers: list[Answer]
    record: EpisodeContexts

    def of(self, phase: str) -> list[Answer]:
        return [answer for answer in self.answers if f"-{phase}-" in answer.probe_id]

    def contexts(self, phase: str) -> list[str]:
        return [self.record.context(answer.probe_id) for answer in self.of(phase)]


def ask(episode: Any, memory: Any, *rest: Any) -> Asked:
    records: Any = run_episode(episode, memory, *rest)
    return Asked(records["answers"], records["contexts"][0])


# What is handed over


def test_sessions_come_one_at_a_time_and_questions_at_their_place(
    parameters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = evolving(monkeypatch)
    found = ask(EPISODE, "md-flat", parameters, ModelRoles.of(Reader()))
    ask(EPISODES[1], "md-flat", parameters, ModelRoles.of(Reader()))
    first = ["read 0", "read 1", "read 2", "finalise", *["recall"] * 3]
    assert made[0].log == [*first, "read 3", "finalise", *["recall"] * 5]
    assert len(made) == 2  # a fresh memory per episode
    assert "Per Lind" not in found.contexts("before")[0]
    assert "Per Lind" in found.contexts("after")[0]
    assert (found.answers[0].message_ids, found.answers[0].gaps) == ((1, 2), 3)


def test_there_is_a_snapshot_after_each_session_and_the_last_of_a_round_is_finalised(
    parameters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    evolving(monkeypatch)
    found = ask(EPISODE, "wiki", parameters, ModelRoles.of(Reader()))
    assert [sorted(one) for one in found.record.kept] == [
        ["0.md"],
        ["0.md", "1.md"],
        ["0.md", "1.md", "2.md", "index.md"],
        ["0.md", "1.md", "2.md", "3.md", "index.md"],
    ]
    assert found.record.kept[2]["0.md"].startswith("2023/03/01 (Wed) 09:00")


@pytest.mark.parametrize("memory", [memory for memory in meme_memories() if reads_sessions(memory)])
def test_the_first_round_does_not_change_what_a_memory_of_ours_keeps(
    memory: Any, parameters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without questions before the change, the same is kept and the same recalled after it."""
    asked = ask(EPISODE, memory, parameters, ModelRoles.of(OfflineModel()))
    silent = replace(EPISODE, before=replace(EPISODE.before, questions=()))
    unasked = ask(silent, memory, parameters, ModelRoles.of(OfflineModel()))
    assert asked.record.kept == unasked.record.kept
    assert asked.of("after") == unasked.answers
    assert len(asked.answers) == 8


@pytest.mark.parametrize("memory", ["full-context", "bm25", "dense", "rag", "light"])
def test_a_plain_memory_has_read_what_came_before_the_round(memory: Any, parameters: Run) -> None:
    found = ask(EPISODE, memory, parameters, ModelRoles.of(OfflineModel()))
    before = found.of("before")
    assert len(before) == 3
    limit = sum(1 for _ in episode_conversation(EPISODE, 3))
    assert all(one.message_ids and max(one.message_ids) < limit for one in before)
    assert "Per Lind" not in "".join(found.contexts("before"))
    assert "Synth" in "".join(found.contexts("after"))
    assert found.record.kept == []


@pytest.mark.parametrize("memory", [memory for memory in meme_memories() if not kind_of(memory).outside])
def test_every_question_is_one_prompt_alone_over_what_was_recalled_for_it(memory: Any, parameters: Run) -> None:
    reader, inside = Reader(), OfflineModel()
    found = ask(EPISODE, memory, parameters, ModelRoles(reader, inside, inside, inside, inside))
    questions = [question for one in EPISODE.rounds.values() for question in one.questions]
    assert [prompt.id for prompt in reader.prompts] == [ANSWER_PROMPT] * 8
    assert {prompt.about: prompt.variables["question"] for prompt in reader.prompts} == {
        question.id: question.text for question in questions
    }
    by_id = {prompt.about: prompt.variables["context"] for prompt in reader.prompts}
    assert all(by_id[one.probe_id] == found.record.context(one.probe_id) for one in found.answers)
    assert [one.probe_id for one in found.answers] == [question.id for question in questions]


def test_the_ceiling_has_the_messages_it_is_handed_and_others_have_none_of_it(parameters: Run) -> None:
    evidence = episode_evidence(LOADED[0])
    found = ask(EPISODE, "gold-facts", parameters, ModelRoles.of(Reader()), evidence)
    report = found.record.context("sw_001-after-q01")
    for text in ("team lead is Ada Orlik", "Olof Brandt", "Ines Vogel", "now Per Lind"):
        assert text in report
    assert "Mina Falk" not in report
    without = ask(EPISODE, "gold-facts", parameters, ModelRoles.of(Reader()))
    assert {*without.contexts("before"), *without.contexts("after")} == {""}
    rag = [ask(EPISODE, "rag", parameters, ModelRoles.of(OfflineModel()), one) for one in (evidence, {})]
    assert rag[0].answers == rag[1].answers


def test_evidence_is_what_was_told_by_then() -> None:
    found = episode_evidence(LOADED[0])
    early = sum(1 for _ in episode_conversation(EPISODE, 3))
    assert all(max(found[question.id]) < early for question in EPISODE.before.questions)
    assert len(found["sw_001-after-q05"]) == 3  # all three values
    assert found["sw_001-after-q03"][-1] >= early  # the request to delete


def test_running_cannot_reach_gold_or_scoring() -> None:
    program = (
        "import sys\n"
        "import beam_memories.evolving, beam_meme.episode_running, beamlib.evaluate.jobs\n"
        "bad = ['episode_gold', 'gold_evidence', 'meme_judge', 'meme_scoring', 'failure_stages', 'episode_files']\n"
        "print([name for name in bad if f'beam_meme.{name}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# What fails


def test_a_failed_call_is_no_answer_and_has_its_reason(parameters: Run) -> None:
    found = ask(EPISODE, "none", parameters, ModelRoles.of(Reader("log drain")))
    failed = [one for one in found.answers if one.text is None]
    assert [answer.probe_id for answer in failed] == ["sw_001-before-q03", "sw_001-after-q03"]
    assert {answer.unscored for answer in failed} == {"content filter: no such luck"}


def test_a_reading_that_fails_leaves_the_round_before_it(parameters: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made = evolving(monkeypatch, breaks=3)
    found = ask(EPISODE, "wiki", parameters, ModelRoles.of(Reader()))
    assert [one.text is not None for one in found.answers] == [True] * 3 + [False] * 5
    assert {one.transient for one in found.answers[3:]} == {True}
    assert found.answers[3].unscored == "the memory could not be built: endpoint unavailable: out of order"
    assert "read 3" in made[0].log


def test_a_reading_that_fails_early_is_not_taken_up_again(parameters: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made = evolving(monkeypatch, breaks=1)
    found = ask(EPISODE, "wiki", parameters, ModelRoles.of(Reader()))
    assert not [one for one in found.answers if one.text is not None]
    assert made[0].log == ["read 0", "read 1"]


# What is counted


def test_tokens_are_counted_apart_by_stage(parameters: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    evolving(monkeypatch)
    spent = ask(EPISODE, "dependencies", parameters, ModelRoles.of(Reader())).record.spent
    assert {stage: (one.calls, one.input_tokens, one.output_tokens) for stage, one in spent.items()} == {
        "ingest": (4, 400, 40),
        "maintenance": (0, 0, 0),
        "retrieval": (5, 500, 50),  # three of the questions are asked in both rounds: an equal call is one call
        "answer": (8, 800, 80),
    }
    assert spent["answer"].cached_tokens == 40


def test_what_is_read_anew_at_the_second_round_counts_once(parameters: Run) -> None:
    memory = Reader()
    roster = ModelRoles(Reader(), memory, memory, memory, memory)
    spent = ask(EPISODE, "light", parameters, roster).record.spent
    pairs = len(episode_conversation(EPISODE, 4).pairs)
    keys = [prompt for prompt in memory.prompts if prompt.id == "episodic_keys"]
    assert len(keys) > pairs  # asked at both rounds
    assert spent["ingest"].calls < len(memory.prompts)
    assert len({tuple(prompt.variables.items()) for prompt in keys}) == pairs


def test_a_senseless_usage_does_no_harm() -> None:
    meter = Meter()
    meter.count("answer", "reader", "m", Prompt("a", {}), Completion("x", Usage(-5, 2**80)))
    assert (meter.spent["answer"].input_tokens, meter.spent["answer"].output_tokens) == (0, 2**53)


# The memories


@pytest.mark.parametrize("retriever", ["bm25", "dense"])
def test_sessions_are_found_whole_with_their_date_and_speakers(retriever: Any) -> None:
    memory = SessionSearch(retriever, k=2)
    conversation = episode_conversation(EPISODE, 4)
    memory.ingest(conversation)
    found = memory.recall("Who gets the weekly report?")
    best = found.context.split("\n\n")[0]
    assert best.startswith("[2023/03/03 (Wed) 09:00]\nASSISTANT: Hello.\nUSER: Code reviews go to Mina Falk")
    assert found.context.count("[2023/03/03 (Wed) 09:00]") == 1
    batch = conversation.batches[2]
    assert found.message_ids[: len(batch.turns) * 2] == tuple(
        message.id for turn in batch.turns for message in turn.messages
    )
    assert len({conversation.sessions[i] for i in found.message_ids if i in conversation.sessions}) == 2


@pytest.mark.parametrize("memory", ["bm25", "dense"])
@pytest.mark.parametrize(("settings", "sessions"), [({}, 5), ({"k": 7}, 7)])
def test_a_run_shows_the_reader_the_best_five_sessions_unless_k_says_otherwise(
    memory: Any, settings: dict[str, int], sessions: int, repo_root: Path, tmp_path: Path
) -> None:
    more = tuple(replace(EPISODE.sessions[1], id=f"s{n}", timestamp=f"day {n}") for n in range(10, 18))
    many = replace(EPISODE, sessions=(*EPISODE.sessions, *more), after=replace(EPISODE.after, sessions=12))
    usual = {"run": str(tmp_path), "data": "", "workers": 1, "confirm_cost": True}
    run = Run.of(load_parameters(repo_root / "params" / "100k.yaml", **usual, **settings))
    found = ask(many, memory, run, ModelRoles.of(Reader()))
    assert {context.count("ASSISTANT: Hello.") for context in found.contexts("after")} == {sessions}


def test_at_most_five_sessions_and_no_more_than_the_window_holds() -> None:
    long = replace(EPISODE.sessions[1], lines=(Line("user", "The package manager is slow. " * 40),))
    many = replace(EPISODE, sessions=(*EPISODE.sessions, *[long] * 8), after=replace(EPISODE.after, sessions=12))
    memory = SessionSearch("bm25", window_tokens=3_340)
    memory.ingest(episode_conversation(many, 12))
    found = memory.recall("package manager")
    shown = found.context.count("(Wed) 09:00]")
    assert 1 <= shown < 5 and found.cuts.pairs_dropped == 5 - shown  # the sessions shown are whole
    assert "tokens left out" not in found.context
    assert len(found.context.split()) < 400
    with pytest.raises(UserError, match="sessions: k is 5 in a window of 3100 tokens"):
        SessionSearch("bm25", window_tokens=3_100)


def test_nothing_read_recalls_nothing() -> None:
    memory = SessionSearch("bm25")
    memory.ingest(episode_conversation(EPISODE, 0))
    assert memory.recall("anything") == RetrievedContext("")


def test_names_of_memories_are_a_closed_set(parameters: Run) -> None:
    assert Meme().parse_arms(["Full_Context", "bm25", "bm25"]) == ["full-context", "bm25"]
    with pytest.raises(UserError, match=r"--arms: '\.\./x' does not exist; choose among none"):
        Meme().parse_arms(["../x"])
    with pytest.raises(UserError, match="the memory own needs a class of your own"):
        arm_of("own", parameters)
    assert len(meme_memories()) == 15
