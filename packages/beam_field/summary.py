"""What an import found, and what each protocol can and cannot compute of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_field.importing import ImportedArm
from beamlib.report.markdown import counted
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.scores import AVERAGE, score_run, summarise

_SHOWN = 10


def protocol_rows(one: ImportedArm) -> list[dict[str, Any]]:
    """A row per protocol: the average over abilities and the mean over questions, None where not computable.

    `lacking` names the abilities that are not computable, `unscored` counts questions that failed.
    """
    rows = []
    for protocol in PROTOCOLS | REPORTED:
        scores = score_run(one.judgements, protocol)
        summed = summarise(scores).set_index("ability")
        lacking = [name for name in summed.index[summed["not_computable"] > 0] if name != AVERAGE]
        average = summed.loc[AVERAGE, "mean"]
        questions = float("nan") if lacking else scores["score"].mean()
        rows.append(
            {
                "protocol": protocol,
                "average": None if average != average else float(average),
                "over_questions": None if questions != questions else float(questions),
                "lacking": lacking,
                "unscored": int(summed.loc[AVERAGE, "unscored"]),
            }
        )
    return rows


def records(arms: Sequence[ImportedArm]) -> list[dict[str, Any]]:
    """Everything that `summary` says, as plain values."""
    return [
        {
            "part": one.part,
            "arm": one.arm.name,
            "size": one.manifest.size,
            "questions": len(one.judgements),
            "conversations": len(one.manifest.conversations),
            "imported": one.imported.model_dump(mode="json"),
            "protocols": protocol_rows(one),
        }
        for one in arms
    ]


def summary(one: ImportedArm) -> str:
    """What was found in one run, as lines."""
    found, size = one.imported, one.manifest.size
    kinds = ", ".join(f"{kind} of {count}" for kind, count in sorted(found.kinds.items()))
    head = f"{one.part}/{one.arm.name}: {counted(len(one.judgements), 'question')} of "
    head += f"{counted(len(one.manifest.conversations), 'conversation')} at {size}; verdicts: {kinds}"
    lines = [head, *(f"  {line}" for line in found.lines())]
    lines.append(f"  reader: {one.manifest.reader}; judge: {one.manifest.judge}")
    lines += [f"  {name}: SHA-256 {digest}" for name, digest in found.files.items()]
    lines += [f"  these are the shipped verdicts of {found.shipped}"] if found.shipped else []
    lines += _named("not a released question", found.unmatched, found.unmatched_count)
    for what, names in (
        ("there twice, the first taken", found.twice),
        ("missing from these conversations", found.missing),
        ("with another number of nuggets than the rubric", found.other_rubric),
    ):
        lines += _named(what, names, len(names))
    for row in protocol_rows(one):
        value = "not computable" if row["average"] is None else f"{row['average']:.4f} over abilities"
        value += "" if row["over_questions"] is None else f", {row['over_questions']:.4f} over questions"
        lacking = row["lacking"]
        why = "of any ability" if len(lacking) == 10 else f"of {', '.join(lacking)}"
        value = f"not computable from this source {why}" if lacking else value
        value += f"; {row['unscored']} unscored" if row["unscored"] else ""
        lines.append(f"  {row['protocol']}: {value}")
    return "\n".join(lines)


def _named(what: str, names: Sequence[str], count: int) -> list[str]:
    shown = ", ".join(repr(name) if " " in name else name for name in names[:_SHOWN])
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    return [f"  {count} {what}: {shown}{more}"] if count else []
