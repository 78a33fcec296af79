import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamlib.data.conversations import Conversation
from beamlib.llm.model import ModelError
from beamlib.memory.budget import passage_tokens
from beamlib.memory.extraction import INPUT_TOKENS, PAIR_TOKENS, extract, extraction_prompts
from beamlib.memory.scratchpad import (
    COMPRESSION_ROUNDS,
    Chunk,
    Scratchpad,
    build_scratchpad,
    read_numbers,
    relevant_chunks,
    relevant_in_batches,
    scratchpad_passages,
    semantic_chunks,
)
from beamlib.text import count_tokens


def _pad(model: Any, conversation: Conversation, encoder: Any, threshold: int = 100, target: int = 80) -> Scratchpad:
    notes = extract(model, extraction_prompts("scratchpad_notes", conversation))
    return build_scratchpad(
        model, conversation, notes, encoder, threshold=threshold, target=target, percentile=80, buffer=1
    )


def test_history_is_the_turn_before_or_the_earlier_pairs_of_the_turn(make_conversation: Any) -> None:
    turns = [[("u0", "a0")], [("u1", "a1"), ("u2", "a2"), ("u3", "a3")], [("u4", "a4")], [("u5", "a5")]]
    conversation = make_conversation(turns, plans=[0, 0, 0, 1])
    inputs = [prompt.variables for prompt in extraction_prompts("scratchpad_notes", conversation)]
    users = [[word for word in item["history"].split() if word.startswith("u")] for item in inputs]
    assert users == [[], ["u0"], ["u1"], ["u1", "u2"], ["u1", "u2", "u3"], []]
    assert [item["pair"].split("\n")[0] for item in inputs] == [f"[messages {i}-{i + 1}]" for i in range(0, 12, 2)]


def test_endless_messages_are_shortened_for_the_extractor(make_conversation: Any) -> None:
    conversation = make_conversation([[("short", "blah " * 90_000)], [("again", "blub " * 20_000)]])
    first, second = (prompt.variables for prompt in extraction_prompts("episodic_keys", conversation))
    assert count_tokens(first["pair"]) == PAIR_TOKENS
    assert count_tokens(second["pair"]) == PAIR_TOKENS
    assert count_tokens(second["history"]) == INPUT_TOKENS - PAIR_TOKENS
    assert first["history"] == "" and second["history"].startswith("[messages 0-1]")


def test_notes_are_merged_in_order_under_their_pairs_header(
    bakery: Conversation, make_model: Any, toy_encoder: Any
) -> None:
    replies = {4: "* [messages 0-1] wrong header?\n\n2 plain:", 6: "", 8: "- "}
    model = make_model(
        scratchpad_notes=lambda v: replies.get(int(v["pair"].split("-")[0].split()[1]), "- a note")
    )  # fmt: skip
    pad = _pad(model, bakery, toy_encoder, threshold=10_000)
    lines = pad.text.split("\n")
    assert lines[:5] == [
        "- [messages 0-1] a note.",
        "- [messages 2-3] a note.",
        "- [messages 4-5] wrong header?",
        "- [messages 4-5] 2 plain.",
        "- [messages 10-11] a note.",
    ]
    assert (pad.compressions, pad.lines_cut) == (0, 0)
    assert {i for chunk in pad.chunks for i in chunk.message_ids} == set(range(32)) - {6, 7, 8, 9}


PIECES = st.sampled_from([*'ab .?!:;,")\t', "[messages 0-1] ", "oven ", "the sign. "])
NOTES = st.lists(st.lists(PIECES, max_size=25).map("".join), max_size=5).map("\n".join)


@given(st.lists(NOTES, min_size=1, max_size=6))
def test_chunks_are_langchains_of_the_notes_without_headers(
    make_conversation: Any, make_model: Any, toy_encoder: Any, replies: list[str]
) -> None:
    """Whatever a model writes: as many chunks as its notes give as one text, and each knows its pairs."""
    conversation = make_conversation([[(f"u{i}", "a")] for i in range(len(replies))])
    pad = build_scratchpad(
        make_model(), conversation, replies, toy_encoder, threshold=10_000, target=100, percentile=80, buffer=1
    )
    lines = pad.text.split("\n") if pad.text else []
    notes = [line.partition("] ")[2] for line in lines]
    assert all(note.endswith((".", "?", "!")) and note == note.strip() for note in notes)
    expected = semantic_chunks("\n".join(notes), toy_encoder, 80, 1) if notes else []
    bodies = [[part.removeprefix("- ").partition("] ") for part in c.text.split("\n")] for c in pad.chunks]
    assert [" ".join(body for _, _, body in parts) for parts in bodies] == expected
    for chunk, parts in zip(pad.chunks, bodies, strict=True):
        named = [int(i) for head, _, _ in parts for i in head.removeprefix("[messages ").split("-")]
        assert set(named) <= set(chunk.message_ids)
        inside = [
            int(i) for line in lines for i in _ids(line) if line.partition("]")[0][2:] in {h for h, _, _ in parts}
        ]
        assert set(chunk.message_ids) <= {*named, *inside}


def _ids(line: str) -> list[str]:
    return [i for found in re.findall(r"\[messages (\d+)-(\d+)\]", line) for i in found]


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("plain", "plain."), ("Done.", "Done."), ("Is it?", "Is it?"), ("Stop!", "Stop!"), ("Needed:", "Needed."),
        ("first, then;", "first, then."), ('He said "go."', 'He said "go.".'), ("(see above)", "(see above)."),
        ("**bold.**", "**bold.**."), ("[messages 0-1] kept", "kept."), (": odd", "odd."),
    ],
)  # fmt: skip
def test_a_note_ends_with_a_mark_that_the_chunker_cuts_after(
    make_conversation: Any, make_model: Any, toy_encoder: Any, line: str, note: str
) -> None:
    model = make_model(scratchpad_notes=lambda v: f"- {line}\n- [messages 0-1]")
    pad = _pad(model, make_conversation([[("u", "a")]]), toy_encoder)
    assert pad.text == f"- [messages 0-1] {note}"
    squeezed = make_model(scratchpad_notes=lambda v: "- " + "w " * 99, scratchpad_compress=lambda v: f"- {line}")
    pad = _pad(squeezed, make_conversation([[("u", "a")]]), toy_encoder)
    assert pad.text.endswith(note) and pad.compressions == 1


def test_compressed_once_each_time_the_threshold_is_crossed(
    bakery: Conversation, make_model: Any, toy_encoder: Any
) -> None:
    model = make_model(
        scratchpad_notes=lambda v: "- " + "w " * 14,  # 21 tokens with its header
        scratchpad_compress=lambda v: v["notes"].split("\n")[-1],
    )
    pad = _pad(model, bakery, toy_encoder, threshold=104, target=60)
    asked = model.variables("scratchpad_compress")
    # Five notes cross 104; then one is left, and every four new ones cross it again: 16 pairs make 3 crossings.
    assert pad.compressions == len(asked) == 3
    assert [v["notes"].count("\n") + 1 for v in asked] == [5, 5, 5]
    assert {v["target_tokens"] for v in asked} == {"60"}
    assert pad.lines_cut == 0
    assert len(pad.text.split("\n")) == 1 + (16 - 5) % 4


@pytest.mark.parametrize(
    ("compress", "calls"),
    [
        (lambda v: v["notes"], 1),  # changes nothing: asking again would not end
        (lambda v: v["notes"] + "\nand more", 1),
        (lambda v: v["notes"][: -len("w w ")], COMPRESSION_ROUNDS),  # shrinks, far too slowly
    ],
)
def test_a_compressor_that_stays_too_long_is_bounded_and_the_oldest_lines_cut(
    bakery: Conversation, make_model: Any, toy_encoder: Any, compress: Callable[[dict[str, str]], str], calls: int
) -> None:
    conversation = Conversation(bakery.id, bakery.size, bakery.seed, bakery.batches[:5])  # seven pairs
    model = make_model(scratchpad_notes=lambda v: "- " + "w " * 14, scratchpad_compress=compress)
    pad = _pad(model, conversation, toy_encoder, threshold=140, target=60)  # crossed by the seventh note
    assert pad.compressions == calls
    assert count_tokens(pad.text) <= 60
    assert pad.lines_cut >= 4
    assert "[messages 0-1]" not in pad.text
    assert "[messages 12-13]" in pad.text or "and more" in pad.text


def test_one_endless_line_is_shortened_and_not_lost(bakery: Conversation, make_model: Any, toy_encoder: Any) -> None:
    model = make_model(scratchpad_compress=lambda v: "- [messages 2-3] " + "on and " * 400 + "end")
    pad = _pad(model, bakery, toy_encoder, threshold=150, target=100)
    assert pad.text.startswith("- [messages 2-3] on and")
    assert all(line.startswith("- ") for line in pad.text.split("\n"))


def test_an_empty_compression_is_an_error(bakery: Conversation, make_model: Any, toy_encoder: Any) -> None:
    with pytest.raises(ModelError, match=r"scratchpad_compress for messages 0-[0-9]+: no note in the reply"):
        _pad(make_model(scratchpad_compress=lambda v: " \n- \n- [messages 0-1]"), bakery, toy_encoder)


def test_ids_that_the_conversation_lacks_are_ignored(make_conversation: Any, make_model: Any, toy_encoder: Any) -> None:
    model = make_model(
        scratchpad_notes=lambda v: "- " + "w " * 60,
        scratchpad_compress=lambda v: (
            "- [messages 1-2], [messages 90-999999999999] merged\nno header\n- [messages 3-3] x"
        ),
    )
    pad = _pad(model, make_conversation([[("u", "a")], [("u", "a")]]), toy_encoder, threshold=100, target=90)
    assert pad.chunks[0].message_ids[:2] == (1, 2)
    assert {i for chunk in pad.chunks for i in chunk.message_ids} == {1, 2, 3}
    assert "no header" in "\n".join(chunk.text for chunk in pad.chunks)


def test_a_chunk_that_begins_inside_a_note_carries_its_header(
    make_conversation: Any, make_model: Any, toy_encoder: Any
) -> None:
    note = "- " + " ".join(["The oven is hot."] * 3 + ["Her sign hangs low."] * 3)
    model = make_model(scratchpad_notes=lambda v: note)
    pad = _pad(model, make_conversation([[("u", "a")]]), toy_encoder, threshold=1_000)
    assert len(pad.chunks) > 1
    assert all(chunk.text.startswith("- [messages 0-1] ") for chunk in pad.chunks)
    assert all(chunk.message_ids == (0, 1) for chunk in pad.chunks)
    assert all(chunk.tokens == count_tokens(chunk.text) for chunk in pad.chunks)
    said = " ".join(chunk.text.removeprefix("- [messages 0-1] ") for chunk in pad.chunks)
    assert "- " + said == note


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("yes", True), ("Yes.", True), (" YES\n", True), ("**Yes**, it does", True), ('"yes"', True),
        ("no", False), ("No, yes would be wrong", False), ("No, that was yesterday", False), ("I think yes", True),
    ],
)  # fmt: skip
def test_the_filter_reads_any_yes(make_model: Any, reply: str, kept: bool) -> None:
    """The released code keeps a chunk only for the exact word (M14)."""
    chunk = Chunk("- a note", (0, 1), 4)
    model = make_model(scratchpad_filter=lambda v: reply)
    assert relevant_chunks(model, ["q?"], [chunk]) == [([chunk] if kept else [], 0)]
    exactly = [chunk] if reply.strip() in ("yes", "YES") else []
    assert relevant_chunks(model, ["q?"], [chunk], exact=True) == [(exactly, 0)]


def test_an_unclear_decision_is_asked_for_again_and_then_fails(make_model: Any) -> None:
    chunk = Chunk("- a note", (0, 1), 4)
    replies = iter(["yes or no", "yes"])
    assert relevant_chunks(make_model(scratchpad_filter=lambda v: next(replies)), ["q?"], [chunk]) == [([chunk], 0)]
    model = make_model(scratchpad_filter=lambda v: "yesterday")
    (error,) = relevant_chunks(model, ["q?"], [chunk])
    assert isinstance(error, ModelError) and "not a clear yes or no" in str(error) and len(model.asked) == 2
    assert relevant_chunks(model, ["q?"], [chunk], exact=True) == [([], 0)]


def test_the_filter_sees_question_and_chunk_and_keeps_order(make_model: Any) -> None:
    chunks = [Chunk(f"- note {i}", (i,), 4) for i in range(6)]
    model = make_model(scratchpad_filter=lambda v: "yes" if int(v["chunk"][-1]) % 2 else "no")
    assert relevant_chunks(model, ["which odd ones?"], chunks) == [(chunks[1::2], 0)]
    assert {v["question"] for v in model.variables("scratchpad_filter")} == {"which odd ones?"}


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        ("[1, 3]", {1, 3}), ("[]", set()), ('```json\n["2"]\n```', {2}), ('{"keep": [3, 1]}', {1, 3}),
        ("The relevant pieces are: [2].\n\nThe others do not help.", {2}), ("[1] and once more [1]", None),
        ("[1, 2] are irrelevant", None), ("Leave out: [1]", None), ("[1, 9]", None), ("[0]", None), ("[-1]", None),
        ("[1]\n[2]", None), ("1 and 3", None), ("[1, 2", None), ("", None), ("[1.5]", None), ("[9999999999]", None),
    ],
)  # fmt: skip
def test_a_batched_reply_is_one_list_or_nothing(reply: str, numbers: set[int] | None) -> None:
    assert read_numbers(reply, 3) == numbers
    assert read_numbers(reply, 3, cut=True) is None


def test_the_batched_filter_asks_once_and_falls_back_chunk_by_chunk(make_model: Any) -> None:
    chunks = [Chunk(f"- note {i}", (i,), 4) for i in range(6)]
    replies = {"odd?": "[2, 4, 6]", "none?": "[]", "vague?": "some of them", "refused?": "FAIL", "down?": "DOWN"}
    model = make_model(
        filter_batch=lambda v: replies[v["question"]],
        scratchpad_filter=lambda v: "yes" if v["chunk"] == "- note 5" else "no",
    )
    *kept, down = relevant_in_batches(model, list(replies), chunks)
    assert kept == [(chunks[1::2], 0), ([], 0), (chunks[5:], 0), (chunks[5:], 0)]
    assert isinstance(down, ModelError) and down.transient
    assert len(model.variables("filter_batch")) == 5
    assert [v["question"] for v in model.variables("scratchpad_filter")] == ["vague?", "refused?"] * 6


def test_chunks_that_do_not_fit_one_call_are_asked_about_in_several(make_model: Any) -> None:
    chunks = [Chunk(f"- note {i}", (i,), 9_000) for i in range(5)]
    model = make_model(filter_batch=lambda v: "[1]")
    assert relevant_in_batches(model, ["q?", "r?"], chunks) == [(chunks[::2], 0)] * 2
    assert [v["question"] for v in model.variables("filter_batch")] == ["q?", "r?"] * 3
    assert relevant_in_batches(model, ["q?"], []) == [([], 0)]


def test_passages_keep_the_newest_within_the_budget_and_say_what_is_missing() -> None:
    chunks = [Chunk(f"- note {i} " + "w " * 30, (2 * i, 2 * i + 1), 33) for i in range(10)]
    assert all(chunk.tokens == count_tokens(chunk.text) for chunk in chunks)
    passages, dropped = scratchpad_passages(chunks, 130)
    assert dropped == 7
    assert [p.message_ids for p in passages] == [(14, 15), (16, 17), (18, 19)]
    assert passages[0].text.startswith("SCRATCHPAD [… 7 older chunks left out for lack of room …]\n- note 7")
    assert sum(passage_tokens(p.text) for p in passages) <= 130
    assert {p.part for p in passages} == {"scratchpad"}
    whole, dropped = scratchpad_passages(chunks, 10_000)
    assert dropped == 0
    assert len(whole) == 10 and whole[0].text.startswith("SCRATCHPAD\n- note 0")
    assert scratchpad_passages([], 120) == ([], 0)


def test_a_chunk_larger_than_the_budget_is_shortened() -> None:
    (only,), dropped = scratchpad_passages([Chunk("- " + "w " * 999, (0, 1), 1_000)], 150)
    assert dropped == 1
    assert count_tokens(only.text) <= 150
    assert "tokens left out" in only.text
