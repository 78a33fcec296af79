"""Each row of docs/memorycode-fidelity.md: its test fails when the code stops doing what the row says."""

from __future__ import annotations

import pytest

from ledger_mutants import Checkout, Mutant, mutants_of

LEDGER = "memorycode-fidelity"
MUTANTS = mutants_of(LEDGER)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A copy of the repository for this ledger's mutants."""
    return Checkout(tmp_path_factory.mktemp("mutants") / "beam", MUTANTS)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_test_of_a_row_fails_when_the_row_is_not_true_any_more(checkout: Checkout, mutant: Mutant) -> None:
    checkout.check(mutant)
