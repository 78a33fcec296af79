"""Compare the stored calls of an archive with what its replay asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

from beamlib.errors import UserError
from beamlib.llm.call_store import CallStore, StoredCall
from beamlib.llm.exchange import Basis, basis_of
from beamlib.llm.replay_log import ENDING, Asked, asked_of

ASKED = tuple(name for name, basis in basis_of(StoredCall).items() if basis is Basis.COMPUTED)
"""The fields of a call that follow from the request and from who sends it."""


def watch(stores: Iterable[Path]) -> None:
    """Have the replays of these stores noted, and go on where a call is missing, so that all missing ones are found."""
    for store in stores:
        store.with_suffix(ENDING).touch()


class Verification(BaseModel):
    """The calls of a store against what a replay asked of it, by model.

    Attributes:
        missing: What was asked and is not stored, in words.
        contradicted: Stored calls that say of themselves what their request does not say, in words.
        surplus: Calls that nothing asked for.
        altered: Calls that were sent otherwise than asked, because the server refused a field.
        characters: Of the requests whose calls are stored.
        input_tokens: Of the same calls, as the records have them.
        used: Role, model and address of the calls that were asked for.
        steps: Their prompts.
    """

    missing: list[str] = []
    contradicted: list[str] = []
    surplus: dict[str, int] = {}
    altered: dict[str, int] = {}
    characters: dict[str, int] = {}
    input_tokens: dict[str, int] = {}
    used: set[tuple[str, str, str]] = set()
    steps: set[str] = set()


def verify_calls(stores: Iterable[Path]) -> Verification:
    """Compare every stored call with the requests of a replay that found it."""
    found = Verification()
    for path in stores:
        requests: dict[str, list[Asked]] = {}
        for asked in asked_of(path):
            requests.setdefault(asked.fields["key"], []).append(asked)
            if not asked.stored:
                fields = asked.fields
                found.missing.append(f"conversation {fields['conversation']}, step {fields['step']}, {fields['about']}")
        with CallStore(path, read_only=True) as store:
            for call in store.calls():
                _verify_call(found, call, requests.get(call.key, []))
    return found


def _verify_call(found: Verification, call: StoredCall, requests: list[Asked]) -> None:
    if not requests:
        found.surplus[call.model] = found.surplus.get(call.model, 0) + 1
        return
    stated = {name: getattr(call, name) for name in ASKED}
    if all(stated != asked.fields for asked in requests):
        asked = requests[0].fields
        name = next(name for name in ASKED if stated[name] != asked[name])
        found.contradicted.append(
            f"the call {call.key[:12]} of {call.conversation}: field '{name}' is {stated[name]!r:.80}, and the replay "
            f"asks for it as {asked[name]!r:.80}"
        )
    found.used.add((call.role, call.model, call.base_url))
    found.steps.add(call.step)
    if call.sent:
        found.altered[call.model] = found.altered.get(call.model, 0) + 1
    for sums, value in ((found.characters, requests[0].characters), (found.input_tokens, call.input_tokens)):
        sums[call.model] = sums.get(call.model, 0) + value


def refuse_missing(found: Verification, where: str, shown: int = 5) -> None:
    """Raise `UserError` that names the calls that a replay misses."""
    missing = sorted(set(found.missing))
    if missing:
        more = f"; and {len(missing) - shown:,} more" if len(missing) > shown else ""
        noun = "the call is not stored" if len(missing) == 1 else f"{len(missing):,} calls are not stored"
        raise UserError(
            f"{where}: {noun}, so the answers do not follow from the archive: {'; '.join(missing[:shown])}{more}."
        )
