"""Every flag of the released variant, on conversations small enough to work out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beamlib.data.conversations import Batch, Conversation, Message, Seed, Turn
from beamlib.errors import UserError
from beamlib.memory import Passage, passage
from beamlib.memory.budget import passage_tokens
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.rag import Rag
from beamlib.memory.released_memory import LIGHT_FLAGS, RAG_FLAGS, entries, namesakes, pack
from beamlib.settings import RELEASED_FLAGS

M1 = frozenset({"duplicate_per_message"})
M2 = frozenset({"oldest_working_memory"})
CHARACTERS = frozenset({"character_budgets"})
M3 = frozenset({"plan_blind_ids"})
M7 = frozenset({"one_vector_per_pair"})
M14 = frozenset({"exact_yes"})


def _light(make_model: Any, conversation: Conversation, settings: LightSettings, **replies: Any) -> Light:
    light = Light(make_model(**replies), settings)
    light.ingest(conversation)
    return light


@pytest.fixture
def three(make_conversation: Callable[..., Conversation]) -> Conversation:
    """A turn of one pair, one of two, one of one: eight messages."""
    return make_conversation([[("u0", "a1")], [("u2", "a3"), ("u4", "a5")], [("u6", "a7")]])


def test_the_names_are_those_of_the_parameters() -> None:
    assert set(RELEASED_FLAGS) >= LIGHT_FLAGS >= RAG_FLAGS


@pytest.mark.parametrize(("owner", "make"), [("LIGHT", LightSettings), ("RAG", Rag)])
def test_an_unknown_flag_is_refused(owner: str, make: Callable[..., object]) -> None:
    with pytest.raises(UserError, match=f"^{owner} settings: released names 'keep_markers'; the known ones are char"):
        make(released=frozenset({"keep_markers"}))


def test_names_tell_the_flags() -> None:
    assert LightSettings(released=M1 | M14).name == "light-hybrid-k5-released-duplicate-per-message-exact-yes"
    assert LightSettings(released=LIGHT_FLAGS).name == "light-hybrid-k5-released"
    assert LightSettings(encoder="BAAI/bge-small-en-v1.5").name == "light-hybrid-k5-encoder-bge-small-en-v1.5"


def test_m1_enters_all_pairs_of_a_turn_once_per_message_of_it(three: Conversation) -> None:
    users = [pair.user.id for pair in entries(three, M1)]
    assert users == [0, 0, 2, 4, 2, 4, 2, 4, 2, 4, 6, 6]
    assert entries(three, frozenset()) == list(three.pairs)


def test_m1_in_rag_shows_a_pair_repeatedly(three: Conversation) -> None:
    memory = Rag(k=4, retriever="bm25", released=M1)
    memory.ingest(three)
    recollection = memory.recall("u2")
    assert recollection.message_ids == (2, 3)
    assert recollection.context == "\n\n".join([passage(three.pairs[1]).text] * 4)


def test_m1_in_working_memory_counts_copies(make_model: Any, three: Conversation) -> None:
    settings = LightSettings(k=1, working_pairs=5, use_retrieval=False, use_scratchpad=False, released=M1)
    found = _light(make_model, three, settings).recall("?")
    shown = [three.pairs[place] for place in (2, 1, 2, 3, 3)]
    assert found.context == "\n\n".join(passage(pair).text for pair in shown)


def test_m2_fills_from_the_old_end(make_model: Any, make_conversation: Callable[..., Conversation]) -> None:
    conversation = make_conversation([[(f"u{i}", "w " * 100)] for i in range(120)])
    settings = LightSettings(k=1, reader_window=6_000, use_retrieval=False, use_scratchpad=False, released=M2)
    ids = _light(make_model, conversation, settings).recall("?").message_ids
    each = passage_tokens(passage(conversation.pairs[0]).text)
    count = settings.budget["working"] // each
    assert ids == tuple(range(40, 40 + 2 * count)) and count > 2  # the last hundred begin with message 40


def test_m2_repeats_what_was_retrieved(make_model: Any, three: Conversation) -> None:
    settings = LightSettings(k=1, use_scratchpad=False, released=M2)
    recollection = _light(make_model, three, settings).recall("u4")
    assert recollection.parts == {"episodic": (4, 5), "working": tuple(range(8))}
    assert recollection.context.count(passage(three.pairs[2]).text) == 2


def test_character_budgets_skip_what_does_not_fit(make_conversation: Callable[..., Conversation]) -> None:
    texts = [Passage("a" * 20_000, (0,)), Passage("b" * 29_000, (1,)), Passage("c" * 28_999, (2,)), Passage("d", (3,))]
    assert [item.message_ids for item in pack(texts, 10**6, 14_000)] == [(0,), (2,)]  # 49,000 // 3.5 is 14,000
    assert [item.message_ids for item in pack(texts[:1] + texts[3:], 10**6, 14_000)] == [(0,), (3,)]
    assert [item.message_ids for item in pack(texts, 10**6)] == [(0,), (1,), (2,), (3,)]
    dense = [Passage("! " * 50, (i,)) for i in range(9)]
    assert len(pack(dense, 160, 14_000)) == 3  # 52 tokens each, joint included


def test_character_budgets_of_light(make_model: Any, make_conversation: Callable[..., Conversation]) -> None:
    """Retrieved pairs come first, in rank order; working memory gets what they leave, oldest first."""
    turns = [[(f"topic{i}", "word " * 2_200)] for i in range(8)]  # 11,000 characters each: four fit
    conversation = make_conversation(turns)
    settings = LightSettings(k=2, use_scratchpad=False, released=CHARACTERS | M2)
    recollection = _light(make_model, conversation, settings).recall("topic5")
    assert recollection.parts["episodic"][:2] == (10, 11) and len(recollection.parts["episodic"]) == 4
    assert recollection.parts["working"] == (0, 1, 2, 3)
    newest = _light(
        make_model, conversation, settings.model_copy(update={"released": CHARACTERS, "working_pairs": 3})
    ).recall("topic5")
    assert newest.parts["working"] == (10, 11, 12, 13)  # four pairs fit: two retrieved and two of the newest three
    assert newest.cuts.pairs_dropped == 0


def test_character_budgets_of_rag(make_conversation: Callable[..., Conversation]) -> None:
    conversation = make_conversation([[("apple " * 8_000, "x")], [("apple pear", "x")], [("apple " * 8_100, "x")]])
    memory = Rag(k=3, retriever="bm25", released=CHARACTERS)
    memory.ingest(conversation)
    ranked = [pair.user.id for pair in memory.search("apple", 3)]
    shown = memory.recall("apple").message_ids
    assert sorted(ranked) == [0, 2, 4]
    assert 48_000 + 48_600 < 101_500  # both long ones fit by characters, and by tokens
    assert shown == tuple(i for first in ranked for i in (first, first + 1))
    least = Rag(k=3, retriever="bm25", window_tokens=13_000, released=CHARACTERS)
    least.ingest(conversation)
    assert 2 <= len(least.recall("apple").message_ids) <= 4  # where the window is smaller, whole pairs are left out
    assert "tokens left out" not in least.recall("apple").context


def _two_plans() -> Conversation:
    """Two plans of two batches; a batch has two turns in the first plan, one in the second."""
    batches, next_id = [], 0
    for plan, (subject, turns) in enumerate([("kiln", 2), ("loom", 1)]):
        for number in (1, 2):
            made = []
            for turn in range(turns):
                text = f"the {subject} in batch {number} turn {turn}"
                made.append(Turn((Message(next_id, "user", text), Message(next_id + 1, "assistant", "noted"))))
                next_id += 2
            batches.append(Batch(number, tuple(made), plan=plan))
    return Conversation("10M-0", "10M", Seed("Craft", "made up"), tuple(batches))


def test_m3_brings_the_pairs_of_the_same_place_in_every_plan(make_model: Any) -> None:
    conversation = _two_plans()
    groups = {first: [pair.user.id for pair in group] for first, group in namesakes(conversation).items()}
    assert groups == {0: [0, 8], 8: [0, 8], 2: [2], 4: [4, 10], 10: [4, 10], 6: [6]}
    light = _light(make_model, conversation, LightSettings(k=1, use_working=False, use_scratchpad=False, released=M3))
    question = "the kiln in batch 2 turn 0"
    assert [pair.user.id for pair in light.retrieved(question)] == [4, 10]
    assert light.recall(question).parts["episodic"] == (4, 5, 10, 11)
    assert [
        pair.user.id
        for pair in light.variant(light.settings.model_copy(update={"released": frozenset()})).retrieved(question)
    ] == [4]
    everything = [pair.user.id for pair in light.retrieved(question, 6)]
    assert sorted(everything) == [0, 2, 4, 6, 8, 10]


def test_m7_embeds_the_keys_of_a_pair_as_one_text(
    make_model: Any, make_conversation: Callable[..., Conversation]
) -> None:
    """One key that says just what is asked wins on its own, not diluted by many others."""
    keys = {"u0": ["the oven is from Lyon", *(f"matter {i}: paint and wood" for i in range(30))], "u2": ["an oven"]}
    conversation = make_conversation([[("u0", "a")], [("u2", "a")]])
    settings = LightSettings(k=1, retriever="dense", use_scratchpad=False)
    reply = lambda v: "\n".join(keys[v["pair"].split("USER: ")[1].split("\n")[0]])  # noqa: E731
    light = _light(make_model, conversation, settings, episodic_keys=reply)
    question = "the oven is from Lyon"
    assert light.retrieved(question)[0].user.content == "u0"
    assert light.variant(settings.model_copy(update={"released": M7})).retrieved(question)[0].user.content == "u2"
    assert light.keys[0] == tuple(keys["u0"])


def test_m14_wants_the_bare_word(make_model: Any, bakery: Conversation) -> None:
    replies = {"Gerda": " Yes\n", "Lyon": "Yes.", "rent": "yes, keep it"}
    reply = lambda v: next((said for word, said in replies.items() if word in v["chunk"]), "no")  # noqa: E731
    settings = LightSettings(k=1, use_retrieval=False, use_working=False, chunk_percentile=0.0)
    light = _light(make_model, bakery, settings, scratchpad_filter=reply)
    tolerant = light.recall("?").context
    exact = light.variant(settings.model_copy(update={"released": M14})).recall("?").context
    assert all(word in tolerant for word in replies)
    assert "Gerda" in exact and "Lyon" not in exact and "rent" not in exact
