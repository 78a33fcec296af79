"""A dialogue as the conversation that a memory reads: nothing of what was said is lost, and nothing else is in it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_memorycode.dialogue_files import load_dialogues
from beam_memorycode.dialogues import Dialogue, DialogueSession, Mention, Setting, Topic, dialogue_as_conversation
from beam_offline import OfflineModel
from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.memory import Memory
from beamlib.memory.full_context import FullContext
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.rag import Rag

PEOPLE = Setting("Ruth", "Björn", "Halden Works")
NAMED = re.compile(r"\s*(Ruth|Björn)\s*:")


MENTEE_FIRST = "Björn: Morning.\n\nRuth: From now on, start method names with 'w_'."


def dialogue(*texts: str | None) -> Dialogue:
    sessions = tuple(DialogueSession((), (), (), "short", text=text) for text in texts)
    return Dialogue(7, PEOPLE, sessions, ())


def said(conversation: Conversation) -> list[list[tuple[str, str]]]:
    return [[(m.role, m.content) for turn in batch.turns for m in turn.messages] for batch in conversation.batches]


def pressed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_mentor_and_mentee_are_user_and_assistant_and_a_session_is_a_batch() -> None:
    conversation = dialogue_as_conversation(
        dialogue("Ruth: Hi.\n\nBjörn: Hello.\n\nRuth: Bye.\n\nBjörn: See you.", "Ruth: A\n\nBjörn: B")
    )
    assert said(conversation) == [
        [
            ("user", "Ruth: Hi."),
            ("assistant", "Björn: Hello."),
            ("user", "Ruth: Bye."),
            ("assistant", "Björn: See you."),
        ],
        [("user", "Ruth: A"), ("assistant", "Björn: B")],
    ]
    assert [message.id for message in conversation] == list(range(6))
    assert [len(turn.messages) for turn in conversation.turns] == [2, 2, 2]
    assert [batch.number for batch in conversation.batches] == [1, 2]
    assert conversation.id == "dialogue_7"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "Ruth: One.\n\nRuth: Two.\n\nBjörn: Yes.",
            [("user", "Ruth: One.\n\nRuth: Two."), ("assistant", "Björn: Yes.")],
        ),
        (
            "Björn: First!\n\nRuth: Hi.",
            [("user", ""), ("assistant", "Björn: First!"), ("user", "Ruth: Hi."), ("assistant", "")],
        ),
        ("Ruth: Only me.", [("user", "Ruth: Only me."), ("assistant", "")]),
        ("Welcome.\n\nBjörn: Thanks.", [("user", "Welcome."), ("assistant", "Björn: Thanks.")]),
        ("[They sit.]\n\nRuth: Hi.", [("user", "[They sit.]\n\nRuth: Hi."), ("assistant", "")]),
        ("Ruth: A\nBjörn: B", [("user", "Ruth: A"), ("assistant", "Björn: B")]),
        ("Ruth: A\n\nNow, more.\n\nBjörn: B", [("user", "Ruth: A\n\nNow, more."), ("assistant", "Björn: B")]),
        ("Ruth: A\n\nRuths: odd.\n\n Björn : B", [("user", "Ruth: A\n\nRuths: odd."), ("assistant", "Björn : B")]),
        ("Ruth: I told Björn: go.", [("user", "Ruth: I told Björn: go."), ("assistant", "")]),
        ("", []),
        (" \n\n ", []),
    ],
    ids=[
        "twice",
        "mentee first",
        "no reply",
        "no name",
        "a remark first",
        "no blank line",
        "more",
        "names",
        "in a line",
        "empty",
        "blank",
    ],
)
def test_what_does_not_alternate_is_kept_by_the_stated_rule(text: str, messages: list[tuple[str, str]]) -> None:
    assert said(dialogue_as_conversation(dialogue(text))) == [messages]


piece = st.sampled_from(
    [
        "Ruth: ",
        "Björn: ",
        "Ruth:",
        " Björn :",
        "\n",
        "\n\n",
        "\n \n",
        "start names with 'x_'",
        "[aside]",
        "Bob: hi",
        "a: b",
        "\t",
        "\r\n",
        "\x0b",
        "\u2028",
    ]
)


@given(st.lists(piece, max_size=14).map("".join))
def test_no_character_is_lost_and_roles_alternate(text: str) -> None:
    (messages,) = said(dialogue_as_conversation(dialogue(text)))
    assert pressed("".join(content for _, content in messages)) == pressed(text)
    assert [role for role, _ in messages] == ["user", "assistant"] * (len(messages) // 2)
    for role, content in messages:
        begun = NAMED.match(content)
        assert begun or role == "user" or not content
        assert not begun or begun[1] == {"user": "Ruth", "assistant": "Björn"}[role]


def test_a_dialogue_without_texts_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"dialogue_7: session 1 has no text"):
        dialogue_as_conversation(dialogue("Ruth: Hi.", None))


def test_the_hash_is_that_of_what_was_said_alone() -> None:
    text = "Ruth: Hi.\n\nBjörn: Hello."
    plain = dialogue_as_conversation(dialogue(text))
    topics = (Topic("instruction-add", "always start variable names with 'q_'"),)
    full = Dialogue(7, PEOPLE, (DialogueSession(topics, (Mention(9, 1),), ("stack",), "long", 3, text),), ("stack",))
    assert dialogue_as_conversation(full) == plain
    assert dialogue_as_conversation(dialogue(text + "!")).sha256 != plain.sha256


@cache
def released(folder: Path) -> list[Dialogue]:
    return [item.dialogue for item in load_dialogues(folder) if item.dialogue.has_texts]


def test_every_character_of_the_released_texts_is_kept(memorycode_data: Path) -> None:
    sessions = 0
    for dialogue in released(memorycode_data):
        conversation = dialogue_as_conversation(dialogue)
        for session, batch in zip(dialogue.sessions, conversation.batches, strict=True):
            content = [message.content for turn in batch.turns for message in turn.messages]
            assert pressed("".join(content)) == pressed(session.text or "")
            assert all(batch.turns), dialogue.name
            sessions += 1
    assert sessions == 560


@pytest.mark.parametrize(
    "memory",
    [FullContext(32_768), Rag(3, "bm25"), Rag(3), Light(OfflineModel(), LightSettings(k=3))],
    ids=["full context", "bm25", "rag", "light"],
)
def test_every_memory_reads_it_empty_halves_included(memory: Memory) -> None:
    memory.ingest(dialogue_as_conversation(dialogue(MENTEE_FIRST, "Ruth: Update: 'k_' now.", "")))
    recalled = memory.recall("Write a stack, following the newest guidelines on method names.")
    assert "'w_'" in recalled.context
    assert set(recalled.message_ids) <= set(range(6))
