"""Evidence recall counts a cited message where its whole text is in the rendered context, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamlib.data.conversations import Batch, Conversation, Message, Probe, Seed, Turn
from beamlib.data.gold import Gold
from beamlib.data.loading import PAPER_TREATMENT, load
from beamlib.data.sources import find_conversations
from beamlib.evaluate.answering import answers_to, ask_probes
from beamlib.evaluate.records import Answer, ContextLosses
from beamlib.llm.model import Completion, Prompt, run
from beamlib.memory.budget import LEAST_TOKENS, fit_pairs
from beamlib.memory.protocol import Cuts, Passage, RetrievedContext, passage
from beamlib.memory.rag import Rag
from beamlib.report.footer import footer
from beamlib.report.results import recall_rows, recalled_ids

WORDS = st.lists(st.sampled_from(["kiln", "loom", "anvil", "3.50", "Ünal", "\n\n", "-"]), min_size=1, max_size=120)
TEXTS = WORDS.map(" ".join)


def conversation_of(texts: list[tuple[str, str]]) -> Conversation:
    turns = [
        Turn((Message(2 * place, "user", user), Message(2 * place + 1, "assistant", reply)))
        for place, (user, reply) in enumerate(texts)
    ]
    return Conversation("100K-0", "100K", Seed("Cooking", "made up"), (Batch(1, tuple(turns)),))


class Cut:
    """Recalls all pairs in a given room, and a note on the first message."""

    name = "cut"

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def ingest(self, conversation: Conversation) -> None:
        self.pairs = conversation.pairs

    def recall(self, question: str) -> RetrievedContext:
        shown, cuts = fit_pairs([passage(pair) for pair in self.pairs], self.tokens)
        return RetrievedContext.of([*shown, Passage("- a note", (0,), "scratchpad")], cuts)


class Echo:
    """Answers with the context that it was handed."""

    name = "echo"

    async def complete(self, prompt: Prompt) -> Completion:
        return Completion(prompt.variables["context"])


def answer_over(memory: Cut, conversation: Conversation) -> Answer:
    memory.ingest(conversation)
    probe = Probe("100K-0-q01", conversation.id, "which?")
    prompts = ask_probes(
        [probe],
        memory,
        lambda place, recalled: Prompt("answer", {"question": "which?", "context": recalled.context}, about="q"),
        conversation,
    )
    return run(answers_to(prompts, Echo()))[0]


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6), st.integers(LEAST_TOKENS + 2, 700), st.data())
def test_recall_agrees_with_a_search_in_the_rendered_context(
    texts: list[tuple[str, str]], tokens: int, data: st.DataObject
) -> None:
    conversation = conversation_of(texts)
    answer = answer_over(Cut(tokens), conversation)
    ids = [message.id for message in conversation.messages]
    cited = tuple(data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True)))
    gold = {"100K-0-q01": Gold("100K-0-q01", "100K-0", "summarization", ("nugget",), "", cited, "easy")}
    named = set(answer.message_ids)
    content = {message.id: message.content for message in conversation.messages}
    whole = {i for i in named if content[i] in (answer.text or "")}
    (row,) = recall_rows([answer], gold).to_dict("records")
    assert row["score"] == sum(i in whole for i in cited) / len(cited)
    (row,) = recall_rows([answer], gold, "partial").to_dict("records")
    assert row["score"] >= sum(i in whole for i in cited) / len(cited)
    assert recalled_ids(answer) <= recalled_ids(answer, "partial") <= recalled_ids(answer, "noted")


def test_a_shortened_pair_and_a_note_do_not_show_their_message() -> None:
    long = " ".join(f"word{i}" for i in range(2_000))
    answer = answer_over(Cut(200), conversation_of([(long, "Noted."), ("Thanks.", "Gladly.")]))
    assert answer.cuts == Cuts(pairs_shortened=1)
    assert answer.partial_ids == (0,)
    assert recalled_ids(answer) == {1, 2, 3}
    assert recalled_ids(answer, "partial") == {0, 1, 2, 3}
    losses = ContextLosses.of([answer, answer])
    assert (losses.cut_answers, losses.cuts) == (2, Cuts(pairs_shortened=2))


def test_records_of_earlier_versions_keep_their_bytes_and_their_recall() -> None:
    line = {
        "schema_version": 1, "probe_id": "100K-0-q01", "conversation_id": "100K-0", "text": "yes", "unscored": None,
        "transient": False, "message_ids": [4, 5, 9], "parts": {"episodic": [4, 5], "scratchpad": [9]},
        "context_tokens": 7, "gaps": 0,
    }  # fmt: skip
    answer = Answer.model_validate_json(json.dumps(line))
    assert answer.model_dump(mode="json") == line
    assert recalled_ids(answer) == {4, 5}
    assert ContextLosses.of([answer]) == ContextLosses()


@pytest.mark.parametrize("window", [32_768, 131_072])
def test_recall_of_real_questions_by_search(beam_data: Path, window: int) -> None:
    """At 32K twenty pairs of the first conversation do not fit; what is dropped or cut is never counted."""
    loaded = load(find_conversations(beam_data, ["100K"])[0], PAPER_TREATMENT)
    content = {message.id: message.content for message in loaded.conversation.messages}
    rag = Rag(20, window_tokens=window)
    rag.ingest(loaded.conversation)
    asked = ask_probes(
        loaded.probes,
        rag,
        lambda place, recalled: Prompt("answer", {"question": "?", "context": recalled.context}, about="q"),
        loaded.conversation,
    )
    answers = run(answers_to(asked, Echo()))
    rows = recall_rows(answers, loaded.gold).set_index("probe_id")["score"]
    for answer in answers:
        cited = loaded.gold[answer.probe_id].evidence
        if cited:
            found = [i for i in cited if i in answer.message_ids and content[i] in (answer.text or "")]
            assert rows[answer.probe_id] == len(found) / len(cited)
    dropped = sum(answer.cuts.pairs_dropped for answer in answers if answer.cuts)
    assert (dropped > 0) == (window == 32_768)


def test_a_footer_says_which_arm_lacks_what() -> None:
    manifest = {
        "arm": "a", "judge": "j", "reader": "r", "data_revision": "d", "conversations": ["100K-0"],
        "token_counter": "regex-words", "settings": {"chat_variant": "full", "strip_markers": True, "errata": "none"},
    }  # fmt: skip
    losses = {"full-context": ContextLosses(0, 20, Cuts(pairs_dropped=8_000)), "rag": ContextLosses()}
    losses["light"] = ContextLosses(1, 2, Cuts(newest_cut=1, chunks_dropped=3))
    found = footer([manifest], protocol="paper", n_questions=1, unscored=0, interval="none", losses=losses).lines()
    assert found[-2:] == [
        "Contexts with too little room for all: full-context 20 (8,000 pairs dropped); "
        "light 2 (1 newest pairs cut, 3 chunks dropped).",
        "1 answer from a memory that lacks a reply of its model.",
    ]
    assert not any("room" in line for line in footer([manifest], protocol="p", n_questions=1, unscored=0, interval="")
                   .lines())  # fmt: skip
