from hypothesis import given
from hypothesis import strategies as st

from beamlib.memory.budget import newest_that_fit, shorten
from beamlib.text import count_tokens

SIZES = st.lists(st.integers(0, 500), max_size=30)


def test_shorten_copes_with_one_endless_word() -> None:
    short = shorten("=" * 350_000, 100)
    assert count_tokens(short) == 100
    assert "349908 tokens left out" in short


@given(SIZES, st.integers(0, 2_000))
def test_newest_that_fit_is_the_longest_tail_within_budget(sizes: list[int], tokens: int) -> None:
    start = newest_that_fit(sizes, tokens)
    assert sum(sizes[start:]) <= tokens
    assert start == 0 or sum(sizes[start - 1 :]) > tokens
