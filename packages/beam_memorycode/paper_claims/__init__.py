"""The claims of the MemoryCode paper's text, recomputed: from its tables, its dialogues, and its models' outputs.

`beamlib/data/published/memorycode_claims.json` says which formula a claim rests on (`module.function`, without the
`on_` of this package's modules) and what the formula needs (`basis`); its statuses are those with the authors'
dialogues and the outputs of GPT-4o and Llama 3.1 8B at hand. What a claim needs and is not at hand makes it "cannot be
checked", with the reason. A set that we generated bears on no claim about theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from beam_claims.engine import ClaimResult, PaperClaims
from beam_memorycode.dialogue_files import LoadedDialogue
from beam_memorycode.paper_claims import on_dialogues, on_outputs, on_print
from beam_memorycode.paper_claims.on_evidence import MemoryCodeEvidence
from beam_memorycode.scored import Published, ScoredModel

MEMORYCODE_CLAIMS = PaperClaims(
    "memorycode_claims.json", "basis", {"dialogues": on_dialogues, "outputs": on_outputs, "printed": on_print}
)


def audit_memorycode(
    items: Sequence[LoadedDialogue] = (),
    models: Sequence[ScoredModel] = (),
    replaced: Mapping[str, pd.DataFrame] | None = None,
) -> list[ClaimResult]:
    """Recompute every claim from the dialogues and the scored outputs at hand.

    `replaced` puts frames in the place of published tables (`table1`, `table2`, `table4`), which shows what another
    value would change. A table that does not exist is a `UserError`.
    """
    evidence = MemoryCodeEvidence(Published(replaced), tuple(items), tuple(models))
    return MEMORYCODE_CLAIMS.audit(evidence, evidence.missing)
