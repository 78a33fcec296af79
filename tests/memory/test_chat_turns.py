"""Long context in roles: what a reader's endpoint receives, over a real server and real conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beam_commands.dry_run import REQUEST_TOKENS, input_tokens
from beam_offline import OfflineModel
from beamlib.data.conversations import Conversation
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import find_conversations
from beamlib.evaluate.answering import answer_arms
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.calling import open_models
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import load_models
from beamlib.llm.model import Prompt, run
from beamlib.llm.prompts import OPENING, ChatTurn, insert_turns, render
from beamlib.llm.stored_model import CallStore
from beamlib.memory.budget import RESERVE_TOKENS
from beamlib.memory.full_context import MESSAGE_TOKENS, FullContext, dialogue_text
from beamlib.memory.protocol import RetrievedContext, chat_turns, passage
from beamlib.params import load_parameters
from beamlib.run import Run
from beamlib.text import WORDS, count_tokens
from scripted_server import ScriptedServer
from steady_replies import steady_reply

Messages = list[dict[str, str]]
Send = Callable[..., list[Messages]]

QUESTIONS = 3


@pytest.fixture(scope="module")
def real(beam_data: Path) -> Loaded:
    """The first released 100K conversation."""
    return load(next(source for source in find_conversations(beam_data) if source.size == "100K"))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(steady_reply) as running:
        yield running


@pytest.fixture
def models(server: ScriptedServer, tmp_path: Path) -> Path:
    return models_file(server, tmp_path)


@pytest.fixture
def send(real: Loaded, server: ScriptedServer, models: Path, repo_root: Path, tmp_path: Path) -> Send:
    """Ask the first questions about a conversation with long context; returns the messages of each request."""

    def sent(conversation: Conversation = real.conversation, **changes: Any) -> list[Messages]:
        values = {"run": str(tmp_path / "run"), "models": str(models), "confirm_cost": True, **changes}
        parameters = Run.of(load_parameters(repo_root / "params/100k.yaml", **values))
        probes = real.probes[:QUESTIONS]
        with open_models(parameters, conversation.id) as roster:
            answers = answer_arms([Arm(memory="full-context")], conversation, probes, parameters, roster, {})
        assert [answer.text is not None for answer in answers["full-context"]] == [True] * QUESTIONS
        place = {probe.question: number for number, probe in enumerate(probes)}
        last = [request.body["messages"] for request in server.requests[-QUESTIONS:]]
        return sorted(last, key=lambda messages: max(n for text, n in place.items() if text in messages[-1]["content"]))

    return sent


def models_file(server: ScriptedServer, folder: Path, **reader: Any) -> Path:
    endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 200_000}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path = folder / "models.yaml"
    path.write_text(yaml.safe_dump({"readers": {"one": {**endpoint, **reader}}, **roles}))
    return path


def roles_of(messages: Messages) -> list[str]:
    return [message["role"] for message in messages]


def recalled(conversation: Conversation, window: int, reserve: int = RESERVE_TOKENS) -> RetrievedContext:
    memory = FullContext(window, reserve, as_turns=True)
    memory.ingest(conversation)
    return memory.recall("anything?")


def test_the_dialogue_goes_in_roles_and_the_question_is_its_last_turn(real: Loaded, send: Send, tmp_path: Path) -> None:
    pairs = real.conversation.pairs
    for messages, probe in zip(send(), real.probes, strict=False):
        assert roles_of(messages) == ["system", *["user", "assistant"] * len(pairs), "user"]
        assert messages[-1]["content"] == probe.question
        for pair, user, assistant in zip(pairs, messages[1:-1:2], messages[2:-1:2], strict=True):
            assert user["content"] == f"[messages {pair.user.id}-{pair.assistant.id}]\n{pair.user.content}"
            assert assistant["content"] == pair.assistant.content
    with CallStore(tmp_path / "run/calls/100k" / f"{real.conversation.id}.sqlite", read_only=True) as store:
        assert {call.step for call in store.calls()} == {"answer_turns"}


def test_all_questions_share_what_is_before_them(send: Send) -> None:
    first, *others = [messages[:-1] for messages in send()]
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("reader", "changes", "prompt_id"),
    [
        ({"chat_turns": False}, {}, "answer_full"),
        ({"methods": {"full-context": {"chat_turns": False}}}, {}, "answer_full"),
        ({}, {"released": ["questions_accumulate"]}, "answer_full"),
        ({}, {"released": ["long_context_prompt"]}, "answer_full_released"),
        ({}, {"variant": "released"}, "answer_full_released"),
    ],
)
def test_one_text_as_released_and_for_an_endpoint_without_roles(
    reader: dict[str, Any],
    changes: dict[str, Any],
    prompt_id: str,
    real: Loaded,
    server: ScriptedServer,
    send: Send,
    tmp_path: Path,
) -> None:
    models_file(server, tmp_path, **reader)
    context = "\n\n".join(passage(pair).text for pair in real.conversation.pairs)
    first = send(**changes)[0]
    assert first == render(prompt_id, {"question": real.probes[0].question, "context": context})
    assert roles_of(first) == ["user"]


def test_the_switch_is_no_part_of_a_request(server: ScriptedServer, tmp_path: Path, real: Loaded) -> None:
    """So no other call has another key, and manifests from before it stay as they are."""
    takes = load_models(models_file(server, tmp_path)).reader("")
    refuses = load_models(models_file(server, tmp_path, chat_turns=False)).reader("")
    prompt = Prompt("answer", {"question": "What?", "context": passage(real.conversation.pairs[0]).text})
    assert EndpointModel("reader", takes).request(prompt) == EndpointModel("reader", refuses).request(prompt)
    assert "chat_turns" not in takes.settings
    assert refuses.settings == {**takes.settings, "chat_turns": False}


@pytest.mark.parametrize("window", [20_000, 60_000])
def test_a_smaller_window_shows_the_newest_pairs_whole(real: Loaded, send: Send, window: int) -> None:
    pairs = real.conversation.pairs
    messages = send(full_context_window=window)[0]
    count = (len(messages) - 2) // 2
    assert 0 < count < len(pairs)
    shown = [turn for pair in pairs[-count:] for turn in chat_turns(pair)]
    assert messages[1:-1] == [{"role": turn.role, "content": turn.text} for turn in shown]
    sizes = [sum(count_tokens(turn.text) + MESSAGE_TOKENS for turn in chat_turns(pair)) for pair in pairs]
    assert sum(sizes[-count:]) <= window - RESERVE_TOKENS < sum(sizes[-count - 1 :])


def test_two_turns_of_one_role_are_merged(real: Loaded, send: Send) -> None:
    """A reply without text leaves two messages of the user next to each other, the last of them the question."""
    pairs = real.conversation.pairs
    silent = {pairs[1].assistant.id, pairs[-1].assistant.id}
    batches = tuple(
        replace(
            batch,
            turns=tuple(
                replace(
                    turn,
                    messages=tuple(replace(one, content=" ") if one.id in silent else one for one in turn.messages),
                )
                for turn in batch.turns
            ),
        )
        for batch in real.conversation.batches
    )
    messages = send(Conversation(real.conversation.id, "100K", real.conversation.seed, batches))[0]
    assert roles_of(messages) == ["system", *["user", "assistant"] * (len(pairs) - 2), "user"]
    second, third = (chat_turns(pair)[0].text for pair in pairs[1:3])
    assert messages[3]["content"] == f"{second}\n\n{third}"
    assert messages[-1]["content"] == f"{chat_turns(pairs[-1])[0].text}\n\n{real.probes[0].question}"


def test_an_assistant_who_speaks_first_follows_a_user_message(server: ScriptedServer, models: Path) -> None:
    turns = (
        ChatTurn("assistant", "Welcome!"),
        ChatTurn("assistant", "How can I help?"),
        ChatTurn("user", "With bees."),
    )
    reader = EndpointModel("reader", load_models(models).reader(""))
    assert run(reader.complete(Prompt("answer_turns", {"question": "Which animals?"}, turns=turns))).text
    (request,) = server.requests
    assert request.body["messages"][1:] == [
        {"role": "user", "content": OPENING},
        {"role": "assistant", "content": "Welcome!\n\nHow can I help?"},
        {"role": "user", "content": "With bees.\n\nWhich animals?"},
    ]


@given(st.lists(st.builds(ChatTurn, st.sampled_from(["user", "assistant"]), st.sampled_from(["", " ", "a", "b\n"]))))
def test_any_dialogue_alternates_and_keeps_its_words(turns: list[ChatTurn]) -> None:
    system, *dialogue = insert_turns([{"role": "system", "content": "s"}, {"role": "user", "content": "last"}], turns)
    assert system == {"role": "system", "content": "s"}
    assert roles_of(dialogue) == (["user", "assistant"] * len(dialogue))[: len(dialogue)]
    assert dialogue[-1]["role"] == "user"
    texts = "\n\n".join(message["content"] for message in dialogue).removeprefix(f"{OPENING}\n\n")
    assert texts == "\n\n".join([turn.text for turn in turns if turn.text.strip()] + ["last"])


def test_a_complaint_is_said_by_the_user(models: Path, real: Loaded) -> None:
    reader = EndpointModel("reader", load_models(models).reader(""))
    prompt = Prompt("answer_turns", {"question": "Why?"}, turns=chat_turns(real.conversation.pairs[0]))
    *before, last = reader.request(prompt.again("Shorter."))["messages"]
    assert last == {"role": "user", "content": "Why?\n\nShorter."}
    assert before == reader.request(prompt)["messages"][:-1]


def test_the_context_on_record_is_the_dialogue_that_is_sent(real: Loaded) -> None:
    for window in (20_000, 200_000):
        found = recalled(real.conversation, window)
        assert dialogue_text(found.turns) == found.context
        assert found.parts == {"history": found.message_ids}
        texts = {message.id: message.content for message in real.conversation.messages}
        assert all(texts[i] in found.context for i in found.message_ids)


def test_a_newest_pair_too_long_is_shortened_in_each_of_its_turns(
    make_conversation: Callable[..., Conversation],
) -> None:
    long = make_conversation([[("first", "reply")], [("The question. " + "x y " * 900, "z " * 900 + "The end.")]])
    found = recalled(long, 300, 0)
    assert found.message_ids == (2, 3)
    user, assistant = found.turns
    assert (user.role, assistant.role) == ("user", "assistant")
    assert user.text.startswith("[messages 2-3]\nThe question.") and assistant.text.endswith("The end.")
    assert all("tokens left out" in turn.text for turn in found.turns)
    assert 280 <= sum(count_tokens(turn.text) + MESSAGE_TOKENS for turn in found.turns) <= 300
    assert dialogue_text(found.turns) == found.context


def test_an_estimate_counts_every_message(real: Loaded) -> None:
    found = recalled(real.conversation, 200_000)
    prompt = Prompt("answer_turns", {"question": real.probes[0].question}, turns=found.turns)
    expected = REQUEST_TOKENS + sum(count_tokens(one["content"]) + MESSAGE_TOKENS for one in prompt.messages)
    assert input_tokens(prompt, None, WORDS) == expected


def test_the_stand_in_reads_turns_as_it_reads_the_text(real: Loaded) -> None:
    found = recalled(real.conversation, 200_000)
    model = OfflineModel()
    for probe in real.probes:
        question = {"question": probe.question}
        turns = asyncio.run(model.complete(Prompt("answer_turns", question, turns=found.turns)))
        text = asyncio.run(model.complete(Prompt("answer_full", {**question, "context": found.context})))
        assert turns.text == text.text
