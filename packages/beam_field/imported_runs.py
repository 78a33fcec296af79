"""Runs that were imported into a run folder, as the field's comparison takes them: beside the shipped ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from beam_field.sources import Kind, Source
from beamlib.evaluate.arm_folder import MANIFEST, Manifest, read_manifest, stored_judgements
from beamlib.evaluate.imported import Imported, Provenance
from beamlib.scoring.records import Judgement


def imported_in(run: Path) -> Iterator[tuple[Source, list[Judgement]]]:
    """Each imported arm of a run folder with its judgements, those judged again too; what is shipped anyway is not."""
    for path in sorted(run.glob(f"*/*/{MANIFEST}")):
        found = read_manifest(path.parent)
        if found.imported is not None and not found.imported.shipped:
            judgements = stored_judgements(path.parent)
            yield _source(found, found.imported, judgements), judgements


def _source(found: Manifest, imported: Imported, judgements: list[Judgement]) -> Source:
    told: dict[str, Any] = {name: getattr(imported, name) for name in Provenance.model_fields}
    # Runs of one system are repeats of it; with another context it is another system.
    system = ", ".join(filter(None, (imported.system or found.arm, imported.context)))
    told |= {"system": system, "reader": found.reader, "judged_again": found.judge != imported.judged_by}
    names: dict[str, Any] = {"source": _plain(imported.format), "run": _plain(found.arm)}
    kind = Counter(map(_kind, judgements)).most_common(1)[0][0]
    return Source(**told, **names, number=imported.number or 0, tier=found.size, kind=kind, n=len(judgements))


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name.casefold()).strip("-") or "x"


def _kind(judgement: Judgement) -> Kind:
    """The finest thing that is known of an answer."""
    told = judgement.reported
    there = (judgement.verdicts, told and told.full is not None, told and told.votes, True)
    return next(kind for kind, known in zip(get_args(Kind), there, strict=True) if known)
