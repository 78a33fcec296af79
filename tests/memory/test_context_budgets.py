"""No memory hands the reader more than its window less the reserve, by whatever counter it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.memory.budget import JOINT_TOKENS, LEAST_TOKENS, passage_tokens, shorten
from beamlib.memory.full_context import FullContext
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.rag import Rag
from beamlib.memory.released_memory import LIGHT_FLAGS, RAG_FLAGS
from beamlib.text import COUNTERS, TokenCounter, cl100k_missing, token_counter

PIECES = st.sampled_from(
    ["word ", "internationalisation ", "!?", "\n\n\n", "   ", "東京", "🙂", "0123456789", "e\u0301", " .\n", "\u2003"]
)
TEXTS = st.builds(lambda piece, count, end: piece * count + end, PIECES, st.integers(0, 250), PIECES)
TURNS = st.lists(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3), min_size=1, max_size=6)
FLAGS = st.sets(st.sampled_from(sorted(LIGHT_FLAGS))).map(frozenset)


CHARACTERS = TokenCounter("characters", len, lambda text: [(place, place + 1) for place in range(len(text))])


@pytest.fixture(scope="module", params=[*COUNTERS, CHARACTERS.name])
def counter(request: pytest.FixtureRequest) -> TokenCounter:
    if request.param == "cl100k" and (why := cl100k_missing()):
        pytest.skip(f"cl100k cannot be used here: {why}")
    return CHARACTERS if request.param == CHARACTERS.name else token_counter(request.param)


@pytest.fixture(scope="module", autouse=True)
def _known() -> Iterator[None]:
    """LIGHT's settings name their counter."""
    known = {CHARACTERS.name: CHARACTERS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beamlib.memory.light.token_counter", lambda name: known.get(name) or token_counter(name))
        yield


@settings(max_examples=40)
@given(TURNS, st.integers(100, 4_000), st.integers(0, 500))
def test_full_context(
    counter: TokenCounter, make_conversation: Callable[..., Conversation], turns: Any, tokens: int, reserve: int
) -> None:
    memory = FullContext(tokens + reserve, reserve, counter)
    memory.ingest(make_conversation(turns))
    assert counter.count(memory.recall("?").context) <= tokens


@settings(max_examples=40)
@given(
    TURNS,
    st.integers(700, 4_000),
    st.integers(0, 500),
    st.integers(1, 8),
    st.sets(st.sampled_from(sorted(RAG_FLAGS))).map(frozenset),
)
def test_rag(
    counter: TokenCounter,
    make_conversation: Callable[..., Conversation],
    turns: Any,
    tokens: int,
    reserve: int,
    k: int,
    released: frozenset[str],
) -> None:
    memory = Rag(k, "bm25", tokens + reserve, reserve_tokens=reserve, released=released, counter=counter)
    memory.ingest(make_conversation(turns))
    assert counter.count(memory.recall("word 東京").context) <= tokens


@given(TURNS, st.integers(1_500, 6_000), st.integers(0, 500), st.integers(1, 5), st.integers(0, 6), FLAGS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_light(
    counter: TokenCounter,
    make_conversation: Callable[..., Conversation],
    make_model: Any,
    turns: Any,
    tokens: int,
    reserve: int,
    k: int,
    working: int,
    released: frozenset[str],
) -> None:
    notes = lambda v: v["pair"].split("USER: ", 1)[1] * 2  # noqa: E731
    chosen = LightSettings(
        k=k,
        retriever="bm25",
        working_pairs=working,
        reader_window=tokens + reserve,
        reserve_tokens=reserve,
        token_counter=counter.name,
        released=released,
    )
    light = Light(make_model(scratchpad_notes=notes, episodic_keys=lambda v: "word"), chosen)
    light.ingest(make_conversation(turns, plans=[2 * place // len(turns) for place in range(len(turns))]))
    recollection = light.recall("word 東京")
    assert counter.count(recollection.context) <= tokens
    if not released:
        newest = light.pairs[-1]
        assert set(newest.message_ids) <= set(recollection.message_ids) or working == 0


@given(st.lists(TEXTS.map(str.strip), min_size=1, max_size=8))
def test_a_joint_covers_what_joining_adds(counter: TokenCounter, texts: list[str]) -> None:
    shown = [f"[messages 0-1]\nUSER: {text}" for text in texts]
    assert counter.count("\n\n".join(shown)) <= sum(passage_tokens(text, counter) for text in shown)


@given(TEXTS, st.integers(LEAST_TOKENS, 300))
def test_shortening_keeps_to_its_budget(counter: TokenCounter, text: str, tokens: int) -> None:
    short = shorten(text, tokens, counter)
    assert counter.count(short) <= tokens
    if counter.count(text) <= tokens:
        assert short == text
    else:
        head, _, rest = short.partition("\n[… ")
        assert text.startswith(head) and text.endswith(rest.partition(" tokens left out …]\n")[2])


@given(st.integers(4_000, 200_000), st.integers(0, 2_000), st.floats(0.1, 0.7), st.floats(0.07, 0.2))
def test_the_table_of_budgets_adds_up_to_the_window(window: int, reserve: int, episodic: float, working: float) -> None:
    chosen = LightSettings(
        k=1, reader_window=window, reserve_tokens=reserve, episodic_share=episodic, working_share=working
    )
    budget = chosen.budget
    assert list(budget) == ["episodic", "working", "scratchpad", "reserve"]
    assert sum(budget.values()) == chosen.reader_window
    assert all(tokens >= LEAST_TOKENS + JOINT_TOKENS for part, tokens in budget.items() if part != "reserve")


def test_the_default_table() -> None:
    assert LightSettings().budget == {"episodic": 57_632, "working": 19_210, "scratchpad": 51_230, "reserve": 3_000}


def test_parts_keep_to_their_budgets(make_conversation: Callable[..., Conversation], make_model: Any) -> None:
    conversation = make_conversation([[(f"item{i} " + "long " * 700, "words " * 600)] for i in range(20)])
    light = Light(make_model(), LightSettings(k=10, working_pairs=9, reader_window=12_000, use_scratchpad=False))
    light.ingest(conversation)
    recollection, budget = light.recall("item3"), light.settings.budget
    sizes = [passage_tokens(text) for text in recollection.context.split("\n\n")]
    retrieved = len(recollection.parts["episodic"]) // 2
    assert sum(sizes[:retrieved]) <= budget["episodic"] < sum(sizes[:retrieved]) + sizes[0]
    assert recollection.cuts.pairs_shortened == 0
    assert recollection.cuts.pairs_dropped == 10 - retrieved
    assert recollection.cuts.newest_cut == 9 - len(recollection.parts["working"]) // 2


@pytest.mark.parametrize("changes", [{"k": 0}, {"k": -3}, {"k": 5_000}, {"window_tokens": 3_100}])
def test_a_rag_that_cannot_fit_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(UserError, match=r"^RAG settings: k is -?\d+ in a window of \d+ tokens less a reserve of 3000"):
        Rag(**changes)
