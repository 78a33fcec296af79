"""The RAG baseline and LIGHT's episodic index on a small conversation of our own."""

from __future__ import annotations

from collections import Counter

import pytest

from beam_offline.notes import MOST_OF_SENTENCE, MOST_SENTENCES, episodic_keys
from beamlib.data.conversations import Batch, Conversation, Message, Seed, Turn
from beamlib.errors import UserError
from beamlib.memory.episodic import EpisodicIndex
from beamlib.memory.extraction import read_keys
from beamlib.memory.rag import Rag
from beamlib.memory.released_memory import RAG_FLAGS

DUPLICATES = frozenset({"duplicate_per_message"})
TURNS = [
    ["My rowing club meets at 6:30 on the river Elbe."],
    ["Our boat is called Kestrel.", "And its oars are ash.", "They weigh 2 kg."],
    ["I baked rye bread on June 4.", "It took 5 hours."],
]


def conversation() -> Conversation:
    turns, number = [], 0
    for users in TURNS:
        messages = []
        for text in users:
            messages += [Message(number, "user", text), Message(number + 1, "assistant", "Noted.")]
            number += 2
        turns.append(Turn(tuple(messages)))
    return Conversation("100K-1", "100K", Seed("Sport", "Rowing"), (Batch(1, tuple(turns)),))


@pytest.mark.parametrize("retriever", ["bm25", "dense", "hybrid"])
def test_recalls_pairs_in_rank_order(retriever: str) -> None:
    memory = Rag(k=2, retriever=retriever)
    memory.ingest(conversation())
    recollection = memory.recall("What is our boat called?")
    assert recollection.message_ids[:2] == (2, 3)
    assert recollection.context.startswith("[messages 2-3]\nUSER: Our boat is called Kestrel.\nASSISTANT: Noted.")
    assert recollection.parts == {"retrieved": recollection.message_ids} and len(recollection.message_ids) == 4


def test_names_tell_the_settings() -> None:
    assert Rag().full_name == "rag-hybrid-k5"
    assert Rag(k=10, retriever="bm25", released=DUPLICATES).full_name == "rag-bm25-k10-released-duplicate-per-message"
    assert Rag(released=RAG_FLAGS, encoder="/models/bge-small").full_name == "rag-hybrid-k5-bge-small-released"


def test_the_released_index_holds_a_pair_once_per_message_of_its_turn() -> None:
    memory = Rag(k=5, retriever="bm25", released=DUPLICATES)
    memory.ingest(conversation())
    copies = Counter(pair.user.id for pair in memory.search("anything", 100))
    assert copies == {0: 2, 2: 6, 4: 6, 6: 6, 8: 4, 10: 4}
    assert memory.recall("What is our boat called?").message_ids == (2, 3)


def test_before_ingest_nothing_is_recalled_and_ingest_replaces() -> None:
    memory = Rag(retriever="bm25")
    assert memory.recall("rowing").context == ""
    memory.ingest(conversation())
    memory.ingest(conversation())
    assert len(memory.search("rowing", 100)) == 6


def test_one_episodic_index_serves_every_budget() -> None:
    talk = conversation()
    pairs = talk.pairs
    index = EpisodicIndex(talk, [[pair.user.content] for pair in pairs])
    found = index.search("When did I bake bread?", 6)
    assert found[0] is pairs[4] and sorted(p.user.id for p in found) == [0, 2, 4, 6, 8, 10]
    assert index.search("When did I bake bread?", 2) == found[:2]


def test_keys_must_match_pairs() -> None:
    with pytest.raises(UserError, match="1 pairs but 6 pairs"):
        EpisodicIndex(conversation(), [["only one"]])


def test_values_are_found_by_keys_alone() -> None:
    talk = conversation()
    keys = [[f"hobby: {name}"] for name in ("falconry", "chess", "golf", "judo", "polo", "yoga")]
    assert EpisodicIndex(talk, keys, "bm25").search("chess", 1) == [talk.pairs[1]]


def test_reading_a_reply() -> None:
    reply = "- boat: Kestrel\n\nsaid: It floats.\n* boat: Kestrel\nSummary: A boat.\n"
    assert read_keys(reply) == ("boat: Kestrel", "It floats.", "A boat.")
    assert read_keys("\n \n") == ()


def test_offline_keys_are_sentences_names_and_figures() -> None:
    pair = (
        "[messages 4-5]\nUSER: I met Ada Byron on May 7, 2021 in Lund. The ticket was $12.50, 20% off.\n"
        "```python\nprint('hidden')\n```\nASSISTANT: Fine. ASSISTANT work."
    )
    assert episodic_keys({"history": "", "pair": pair}).split("\n") == [
        "said: I met Ada Byron on May 7, 2021 in Lund.",
        "said: The ticket was $12.50, 20% off.",
        "names: Ada Byron; May; Lund",
        "figures: 7; 2021; $12.50; 20%",
    ]


def test_offline_keys_of_code_alone_and_of_a_pasted_book() -> None:
    code = "[messages 0-1]\nUSER: ```\nx = 1\n```\nASSISTANT: ok"
    assert "x = 1" in episodic_keys({"history": "", "pair": code})
    book = "[messages 0-1]\nUSER: " + "It rained. " * 35_000 + "y" * 5_000 + "\nASSISTANT: ok"
    lines = episodic_keys({"history": "", "pair": book}).split("\n")
    assert len(lines) <= MOST_SENTENCES + 3 and max(map(len, lines)) <= MOST_OF_SENTENCE
