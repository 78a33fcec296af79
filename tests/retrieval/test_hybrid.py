"""The neutral default index: each signal against brute force, and what must make no difference."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from beamlib.retrieval import Document, embedded_encoder
from beamlib.retrieval.hybrid import (
    HYBRID_WEIGHTS,
    SESSION,
    HybridIndex,
    TermScores,
    Vocabulary,
    bm25,
    is_preference,
    is_request,
    is_standing_instruction,
    term_counts,
    with_session,
)
from beamlib.retrieval.sparse import WordIndex, tokenize

DOCUMENTS = [
    Document((), ("We adopted a grey cat called Momo.", "Momo eats twice a day, at 7:30 and 19:00."), "A fine cat."),
    Document(
        (), ("The boiler was repaired on October 14 for $320.",), "Keep the bill. ```\nsecret code\n``` It is due."
    ),
    Document((), ("I play the cello in an orchestra.", "Rehearsals are on Mondays."), "Scales help. " * 40, session=1),
    Document((), (), "Nothing was said.", session=1),
    Document((), ("Always name a brand when you speak of boilers.",), "Noted.", session=1),
    Document((), ("I prefer wool to cotton, so which blanket suits a cat?",), "Wool is warm.", session=2),
]
QUESTION = "When was the boiler of the cat repaired?"
ADVICE = "Which boiler should I buy?"


@pytest.fixture(scope="module")
def index() -> HybridIndex:
    return HybridIndex(DOCUMENTS, embedded_encoder())


def standard(values: list[float]) -> list[float]:
    return list((np.array(values) - np.mean(values)) / np.std(values))


@pytest.mark.parametrize("k1, b", [(1.2, 0.6), (1.5, 0.75)])
def test_bm25_is_that_of_the_library(k1: float, b: float) -> None:
    words = tokenize(["\n".join(document.lines) + document.body for document in DOCUMENTS])
    vocabulary = Vocabulary()
    ours = TermScores(bm25(term_counts(words, vocabulary), k1, b))
    asked = tokenize([QUESTION + " cat"])[0]
    theirs = WordIndex(words, k1, b).scores(asked)
    np.testing.assert_allclose(ours.of(Counter(vocabulary.known(asked))), theirs, rtol=1e-5)


def test_signals_by_hand(index: HybridIndex) -> None:
    signals = index.signals(QUESTION)
    encoder = embedded_encoder()
    asked = encoder.encode([QUESTION])[0]
    lines = [max((float(encoder.encode([line])[0] @ asked) for line in d.lines), default=0.0) for d in DOCUMENTS]
    np.testing.assert_allclose(signals["nearest line"], standard(lines), atol=1e-4)
    words = [set(itertools.chain(*tokenize(document.lines))) for document in DOCUMENTS]
    rarity = {word: np.log(7 / (sum(word in held for held in words) + 0.5)) for word in ("boiler", "cat", "repair")}
    covered = [
        max((sum(rarity[w] for w in rarity if w in tokenize([line])[0]) for line in d.lines), default=0.0)
        for d in DOCUMENTS
    ]
    np.testing.assert_allclose(signals["coverage"], standard(covered), atol=1e-6)
    figures = [np.log1p(count) for count in (4, 2, 0, 0, 0, 0)]
    np.testing.assert_allclose(signals["figures"], standard(figures), atol=1e-6)
    assert not signals["instruction"].any() and not signals["preference"].any(), "no request"
    advice = index.signals(ADVICE)
    assert advice["instruction"].argmax() == 4 and advice["preference"].argmax() == 5


def test_code_of_a_body_is_not_looked_at(index: HybridIndex) -> None:
    assert not index.signals("secret code")["words"].any()
    assert index.signals("due bill")["words"].argmax() == 1


def test_scores_are_the_weighted_sum_and_the_sessions_share(index: HybridIndex) -> None:
    signals = index.signals(ADVICE)
    assert list(signals) and sorted(signals) == sorted(HYBRID_WEIGHTS)
    total = sum(HYBRID_WEIGHTS[name] * signal for name, signal in signals.items())
    mean_of_best = [np.mean(total[[0, 1]])] * 2 + [np.mean(total[[2, 3, 4]])] * 3 + [total[5]]
    np.testing.assert_allclose(index.scores(ADVICE), total + SESSION * np.array(standard(mean_of_best)), atol=1e-9)
    four = with_session(np.array([1.0, 5.0, 3.0, 4.0, 0.0]), np.array([0, 0, 0, 0, 1]), 1.0)
    np.testing.assert_allclose(four - [1, 5, 3, 4, 0], standard([4, 4, 4, 4, 0]))


def test_the_place_in_the_conversation_makes_no_difference() -> None:
    turned = HybridIndex(
        [replace(document, session=9 - document.session) for document in DOCUMENTS[::-1]], embedded_encoder()
    )
    for question in (QUESTION, ADVICE, "List the order in which I spoke of my cat."):
        forth = HybridIndex(DOCUMENTS, embedded_encoder()).scores(question)
        np.testing.assert_allclose(turned.scores(question)[::-1], forth, atol=1e-5)


@pytest.mark.parametrize(
    "line, instruction, preference",
    [
        ("Always give prices in pesos.", True, False),
        ("rule: please never use tables.", True, False),
        ("From now on, I prefer metric units.", True, False),
        ("Whenever you cite a law, add its year.", True, False),
        ("I have never flown.", False, False),
        ("I'd rather take the train.", False, True),
        ("My favourite colour is teal", False, True),
        ("What do you prefer to be called?", False, True),
        ("The build breaks every time.", False, False),
    ],
)
def test_statements_are_told_apart(line: str, instruction: bool, preference: bool) -> None:
    assert (is_standing_instruction(line), is_preference(line)) == (instruction, preference)


@pytest.mark.parametrize(
    "question, request_",
    [
        ("How should I glaze the next bowl?", True),
        ("Could you give me an example of a kiln schedule?", True),
        ("How many bowls did I fire in May?", False),
        ("When does my lease end?", False),
        ("Summarise my pottery course.", False),
        ("In what order did my classes come?", False),
        ("Have I ever rented a kiln?", False),
        ("Which glaze did I choose?", False),
        ("What is my budget for clay?", False),
    ],
)
def test_requests_are_told_from_questions_about_what_was_said(question: str, request_: bool) -> None:
    assert is_request(question) == request_
