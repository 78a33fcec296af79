from hypothesis import given
from hypothesis import strategies as st

from beamlib.memory.budget import LEAST_TOKENS, newest_that_fit, shorten
from beamlib.text import count_tokens

SIZES = st.lists(st.integers(0, 500), max_size=30)


@given(st.text(st.characters(codec="utf-8"), max_size=2_000), st.integers(LEAST_TOKENS, 300))
def test_shorten_never_exceeds_its_budget_and_keeps_both_ends(text: str, tokens: int) -> None:
    short = shorten(text, tokens)
    assert count_tokens(short) <= tokens
    if count_tokens(text) <= tokens:
        assert short == text
    else:
        head, _, rest = short.partition("\n[… ")
        tail = rest.partition("…]\n")[2]
        assert text.startswith(head) and text.endswith(tail)
        assert "tokens left out" in short


def test_shorten_copes_with_one_endless_word() -> None:
    short = shorten("=" * 350_000, 100)
    assert count_tokens(short) == 100
    assert "349908 tokens left out" in short


@given(SIZES, st.integers(0, 2_000))
def test_newest_that_fit_is_the_longest_tail_within_budget(sizes: list[int], tokens: int) -> None:
    start = newest_that_fit(sizes, tokens)
    assert sum(sizes[start:]) <= tokens
    assert start == 0 or sum(sizes[start - 1 :]) > tokens
