"""The claims of the MemoryCode paper's text, recomputed: from its tables, its dialogues, and its models' outputs.

`beamlib/data/published/memorycode_claims.json` says which formula a claim rests on (`module.function`, without the
`on_` of this package's modules) and what the
formula needs (`basis`). Statuses are those of `beam_claims.engine`. What a claim needs and is not at hand
makes it "cannot be checked", with the reason: outputs of the models of Table 4 on the authors' dialogues, or those
dialogues. A set that we generated bears on no claim about theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from beam_claims.engine import ClaimResult
from beam_claims.values import ClaimOutcome
from beam_memorycode.dialogue_files import LoadedDialogue
from beam_memorycode.paper_claims import on_dialogues, on_outputs, on_print
from beam_memorycode.paper_claims.on_evidence import Evidence, evidence, unchecked
from beam_memorycode.scored import ScoredModel
from beamlib.files import read_json

_MODULES: Mapping[str, ModuleType] = {"dialogues": on_dialogues, "outputs": on_outputs, "printed": on_print}


def declared() -> list[dict[str, Any]]:
    """The claims as packaged: id, section, claim, printed, basis, formula, parameters, and the status that is computed
    with the authors' dialogues and the outputs of GPT-4o and Llama 3.1 8B at hand."""
    found: list[dict[str, Any]] = read_json(Path(str(files("beamlib.data.published") / "memorycode_claims.json")))
    return found


def audit_memorycode(
    items: Sequence[LoadedDialogue] = (),
    models: Sequence[ScoredModel] = (),
    replaced: Mapping[str, pd.DataFrame] | None = None,
) -> list[ClaimResult]:
    """Recompute every claim, in order; the stored status is not read.

    `items` are the dialogues at hand, `models` the scored outputs; `replaced` puts frames in the place of published
    tables (`table1`, `table2`, `table4`), which shows what another value would change. A table that does not exist is a
    `UserError`.
    """
    data = evidence(items, models, replaced)
    results = []
    for claim in declared():
        reason = _missing(claim, data)
        outcome = (
            unchecked(reason) if reason else _formula(claim["formula"])(data, claim["printed"], **claim["parameters"])
        )
        results.append(ClaimResult.of(claim, outcome, source=claim["basis"]))
    return results


def _missing(claim: Mapping[str, Any], data: Evidence) -> str:
    """Why a claim cannot be checked with what is at hand, or ""."""
    if claim["basis"] not in ("templates", "outputs"):
        return ""
    if not data.items:
        return "the authors' dialogues are not at hand."
    if not data.authors:
        return "the dialogues at hand are not the authors' 360."
    if claim["basis"] == "outputs" and not data.known:
        return "no complete outputs of a model of Table 4 are at hand."
    return ""


def _formula(name: str) -> Callable[..., ClaimOutcome]:
    module, function = name.split(".")
    found: Callable[..., ClaimOutcome] = getattr(_MODULES[module], function)
    return found
