"""What an import found, and what each protocol can and cannot compute of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from beam_field.importing import ImportedArm
from beamlib.scoring.protocols import NOT_COMPUTABLE, PROTOCOLS, REPORTED
from beamlib.scoring.scores import AVERAGE, score_run, summarise
from beamlib.text import count

_SHOWN = 10


def protocol_rows(one: ImportedArm) -> list[dict[str, Any]]:
    """A row per protocol: the average over abilities and the mean over questions, None where not computable.

    `lacking` names the abilities that are not computable, or "all"; `unscored` counts questions that failed.
    """
    rows: list[dict[str, Any]] = []
    for protocol in PROTOCOLS | REPORTED:
        scores = score_run(one.judgements, protocol)
        summed: dict[str, Any] = {str(row["ability"]): row for row in summarise(scores).to_dict("records")}
        lacking = [name for name, row in summed.items() if row["not_computable"] and name != AVERAGE]
        rows.append(
            {
                "protocol": protocol,
                "average": _value(summed[AVERAGE]["mean"]),
                "over_questions": None if lacking else _value(scores["score"].mean()),
                "lacking": ["all"] if len(lacking) == len(summed) - 1 else lacking,
                "unscored": int(summed[AVERAGE]["unscored"]),
            }
        )
    return rows


def _value(mean: float) -> float | None:
    return None if math.isnan(mean) else float(mean)


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
    head = f"{one.part}/{one.arm.name}: {count(len(one.judgements), 'question')} of "
    head += f"{count(len(one.manifest.conversations), 'conversation')} at {size}; verdicts: {kinds}"
    lines = [head, *(f"  {line}" for line in found.lines())]
    lines.append(f"  reader: {one.manifest.reader}; judge: {one.manifest.judge}")
    unsaid = [role for role in ("reader", "judge") if not getattr(found, role)]
    if unsaid:  # a guess here would put numbers of two judges into one average
        options = " and ".join(f"--{role}" for role in unsaid)
        lines.append(
            f"  the file does not say the {' and '.join(unsaid)}: not pooled with other runs; say it by {options}"
        )
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
        means = {"abilities": row["average"], "questions": row["over_questions"]}
        told = [f"{mean:.4f} over {what}" for what, mean in means.items() if mean is not None]
        lacking = f"{NOT_COMPUTABLE}: {', '.join(row['lacking'])}"
        value = lacking if row["lacking"] else ", ".join(told) or "no score"
        value += f"; {row['unscored']} unscored" if row["unscored"] else ""
        lines.append(f"  {row['protocol']}: {value}")
    return "\n".join(lines)


def _named(what: str, names: Sequence[str], count: int) -> list[str]:
    shown = ", ".join(repr(name) if " " in name else name for name in names[:_SHOWN])
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    return [f"  {count} {what}: {shown}{more}"] if count else []
