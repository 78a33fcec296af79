"""The stand-in's reader: it quotes the nearest sentences, abstains below a score, and needs the evidence."""

from __future__ import annotations

import ast
import random
import time
from collections import defaultdict
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_offline.judge import judge
from beam_offline.reader import MISSING, SENTENCES, answer
from beamlib.data.loading import load
from beamlib.data.sources import find_conversations
from beamlib.llm.model import Prompt
from beamlib.memory.protocol import RetrievedContext, passage

TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=400)


def pair(first: int, user: str, assistant: str = "Understood.") -> str:
    return f"[messages {first}-{first + 1}]\nUSER: {user}\nASSISTANT: {assistant}"


def ask(question: str, *passages: str) -> str:
    return answer(Prompt("answer", {"question": question, "context": "\n\n".join(passages)}))


ORCHARD = (
    pair(20, "I moved the date: the first harvest festival is on April 19, can you help me invite people?"),
    pair(0, "I'm planting an orchard with 30 pear trees. I want to finish it by March 29, 2024."),
    pair(8, "The pump for the irrigation costs $420 and pushes 55 litres a minute.", "```\nprint('pump')\n```\nFine."),
)


def test_it_quotes_the_nearest_sentences_in_order_of_mention() -> None:
    lines = ask("How much does my irrigation pump cost?", *ORCHARD).splitlines()
    assert "The pump for the irrigation costs $420 and pushes 55 litres a minute." in lines
    assert len(lines) <= SENTENCES and "print('pump')" not in lines
    whole = "\n\n".join((*ORCHARD[1:], ORCHARD[0])).replace("\n", " ")
    assert [whole.index(line) for line in lines] == sorted(whole.index(line) for line in lines)


@pytest.mark.parametrize("question", ["What colour is my sailing boat?", "", "What did I say?"])
def test_it_abstains_where_nothing_is_near(question: str) -> None:
    assert ask(question, *ORCHARD) == MISSING
    assert ask("How much does my irrigation pump cost?") == MISSING


def test_an_order_is_a_list_with_a_sentence_of_each_message() -> None:
    lines = ask(
        "In which order did I bring up the orchard, the pump and the festival? Mention ONLY two items.", *ORCHARD
    )
    assert [line[:3] for line in lines.splitlines()] == ["1. ", "2. "]
    every = ask("In which order did I bring up the orchard, the pump and the festival?", *ORCHARD).splitlines()
    assert [word in line for word, line in zip(("orchard", "pump", "festival"), every, strict=True)] == [True] * 3


def test_memorycode_gets_python_and_dated_sessions_are_read() -> None:
    told = "Meeting 0\n\nAna: Always end function names with '_su'."
    variables = {"mentor": "Ana", "mentee": "Bo", "company": "X", "sessions": told, "query": "function names, sorted"}
    reply = answer(Prompt("memorycode_history", variables))
    code = reply.removeprefix("```python\n").removesuffix("\n```")
    (function,) = ast.parse(code).body
    assert "'_su'" in code and isinstance(function, ast.FunctionDef)
    session = "[2023/03/09 (Thu) 18:20]\nUSER: Our CI runner is Torvex now.\nASSISTANT: Noted."
    assert "Torvex" in answer(Prompt("meme_answer", {"context": session, "question": "What is our CI runner?"}))


@given(TEXT, st.lists(TEXT, max_size=4))
def test_any_text_is_read(question: str, passages: list[str]) -> None:
    assert ask(question, *passages)


@pytest.mark.parametrize("piece", ["bees. ", "x", "[messages 1-2]\n", "USER: pump\n", "**1. ", "```\n"])
def test_it_takes_time_in_proportion_to_the_context(piece: str) -> None:
    started = time.process_time()
    ask("How many bees does the pump have?", piece * 40_000)
    assert time.process_time() - started < 10


Scores = dict[str, dict[str, list[float]]]


@pytest.fixture(scope="module")
def scores(beam_data: Path) -> Scores:
    """Nugget means per arm and ability over the questions of four 100K conversations that nothing was chosen on."""
    found: Scores = {arm: defaultdict(list) for arm in ("oracle", "none", "random")}
    chosen = {f"100K-{number}" for number in range(11, 15)}
    sources = [source for source in find_conversations(beam_data, ["100K"]) if source.id in chosen]
    if len(sources) < len(chosen):
        pytest.skip(f"not all of {', '.join(sorted(chosen))} in {beam_data}")
    for source in sources:
        loaded = load(source)
        pairs, choice = loaded.conversation.pairs, random.Random(source.id)
        for probe in loaded.probes:
            gold = loaded.gold[probe.id]
            cited = [pair for pair in pairs if set(pair.message_ids) & set(gold.evidence)]
            others = [pair for pair in pairs if pair not in cited]
            for arm, shown in (("oracle", cited), ("none", []), ("random", choice.sample(others, 5))):
                context = RetrievedContext.of([passage(pair) for pair in shown]).context
                reply = ask(probe.question, context)
                assert len(reply.split()) <= 500
                verdicts = [judge(probe.question, nugget, reply).score for nugget in gold.rubric]
                found[arm][gold.ability].append(mean(verdicts))
    return found


def test_evidence_beats_other_pairs_and_nothing(scores: Scores) -> None:
    oracle, other, none = (
        mean(mean(values) for ability, values in scores[arm].items() if ability != "abstention")
        for arm in ("oracle", "random", "none")
    )
    assert oracle > 0.33 and other < 0.4 * oracle and none == 0
    assert mean(scores["none"]["abstention"]) == 1 and mean(scores["random"]["abstention"]) >= 0.5
