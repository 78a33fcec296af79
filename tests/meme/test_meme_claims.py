"""The claims of the MEME page: recomputed from the printed rows and the episodes at hand, and moved by other values."""

from __future__ import annotations

import pytest

from beam_meme.meme_claims import MEME, audit_meme
from beam_meme.meme_tables import published
from small_episodes import LOADED


def moved(system: str, column: str, value: str) -> dict[str, str]:
    """Claims whose status another printed value changes, with the new status."""
    frame = published()
    frame.loc[frame["system"] == system, column] = value
    before = {one.id: one.status for one in audit_meme()}
    return {one.claim: one.status for one in audit_meme(replaced=frame) if one.status != before[one.id]}


def test_every_claim_is_there_once_with_the_status_it_is_given() -> None:
    claims = MEME.declared()
    assert len(claims) >= 20
    assert [claim["id"] for claim in claims] == [f"mm-{number:03}" for number in range(1, len(claims) + 1)]
    assert len({(claim["claim"], claim["printed"]) for claim in claims}) == len(claims)
    assert [one.status for one in audit_meme()] == [claim["status"] for claim in claims]


def test_the_factor_of_cost_does_not_come_out() -> None:
    (found,) = (one for one in audit_meme() if "70 times" in one.claim)
    assert (found.status, found.recomputed) == ("differs", 90.6)  # (3.87 + 0.66) / (0.04 + 0.01)


def test_what_cannot_be_checked_says_why() -> None:
    left = [one for one in audit_meme() if one.status == "cannot be checked"]
    assert left and all(len(one.note) > 20 for one in left)


def test_counts_are_those_of_the_episodes_at_hand() -> None:
    found = {one.claim: one for one in audit_meme({"filler32k": LOADED}) if one.source == "episodes"}
    halves = found["100 episodes, half of each domain"]
    assert (halves.status, halves.recomputed) == ("differs", [2, 0, 2])


@pytest.mark.parametrize(
    ("system", "column", "value", "claim", "status"),
    [
        ("MD-flat", "Cas", ".46", "The six systems average 3 % on Cascade", "differs"),
        ("Graphiti", "overall", ".63", "MD-flat is the best of the six overall", "differs"),
        ("MD-flat (Opus 4.7 inside)", "ingest_dollars", "2.84",
         "The configuration that closes part of the gap costs about 70 times the base", "holds"),
        ("BM25", "ER", ".10", "Overall of BM25 is the plain mean of its six tasks", "differs"),
    ],
)  # fmt: skip
def test_another_value_moves_the_claims_that_rest_on_it(
    system: str, column: str, value: str, claim: str, status: str
) -> None:
    assert moved(system, column, value)[claim] == status
