"""What a run on MemoryCode would call and cost: a rehearsal, as `beamlib.evaluate.estimate` has it for BEAM."""

from __future__ import annotations

from collections.abc import Sequence

from tqdm import tqdm

from beam_memorycode.dialogues import Dialogue
from beam_memorycode.evaluating import plan_all
from beam_memorycode.running import PART, SHARED_STORE, run_dialogue, run_shared
from beam_memorycode.setups import SHARED, Setup
from beamlib.evaluate.costs import Estimate
from beamlib.evaluate.dry_run import Tally
from beamlib.evaluate.estimate import rehearsed_roster, stored_means, summary
from beamlib.params import RunParameters


def estimate_all(
    dialogues: Sequence[Dialogue], setups: Sequence[Setup], parameters: RunParameters, *, quiet: bool = False
) -> Estimate:
    """Rehearse what is left to do: the code of the run, with models that call nobody. Nothing is called or written.

    What the stores hold costs nothing. A memory of one's own is rehearsed as if it recalled like RAG with BM25.
    """
    if not parameters.models:
        return Estimate(size=PART, backbone="", conversations=0, arms=tuple(setups))
    plan = plan_all(dialogues, setups, parameters)
    parameters = plan.parameters
    expected = stored_means(parameters)
    tally = Tally()
    apart = [(one, [setup for setup in asked if setup not in SHARED]) for one, asked in plan.wanted]
    for dialogue, asked in tqdm(apart, desc=f"{PART}: counting calls", disable=quiet, leave=False, delay=2):
        with rehearsed_roster(parameters, dialogue.name, expected, suite=PART) as (roster, one):
            run_dialogue(dialogue, [setup for setup in asked if setup != "own"], parameters, roster)
            if "own" in asked:
                # One pair more: RAG itself may be among the setups, and equal requests would count once.
                lexical = parameters.model_copy(update={"retriever": "bm25", "k": parameters.k + 1})
                run_dialogue(dialogue, ["rag"], lexical, roster)
        tally.add(one)
    common = [(one, [setup for setup in asked if setup in SHARED]) for one, asked in plan.wanted]
    with rehearsed_roster(parameters, SHARED_STORE, expected, suite=PART) as (roster, one):
        run_shared([both for both in common if both[1]], roster.reader)
    tally.add(one)
    own = ("own",) if "own" in setups else ()
    return summary(parameters, tuple(setups), tally, expected, conversations=len(plan.wanted), own=own, suite=PART)
