"""Say of every claim on scores what a run says of it (`beamlib reproduce RUN`): nothing is called.

reproduced     all its comparisons lie where the claim puts them, at the level of Holm's correction
contradicted   one of them lies elsewhere, at that level
undecided      the intervals allow both; says how many conversations would decide
not run        an arm, a length or a reader is missing; says which options make it
confounded     the arms differ in something else, hardly differ in what they showed the reader, or lack what is compared
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel

from beam_claims.contrasts import ALPHA, POWER, Bounds, Decision, Estimate, decide, holm
from beam_claims.engine import BEAM_CLAIMS
from beam_claims.statements import AVERAGE, MARGIN, Comparison, Series, Term, comparisons
from beamlib.data.published import LENGTHS, Paper
from beamlib.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from beamlib.evaluate.arms import Arm
    from beamlib.evaluate.beam_records import Manifest
    from beamlib.evaluate.records import Answer

Outcome = Literal["reproduced", "contradicted", "confounded", "undecided", "not run"]
OUTCOMES: tuple[Outcome, ...] = ("reproduced", "contradicted", "undecided", "confounded", "not run")
_WEAKEST_FIRST: tuple[Outcome, ...] = ("contradicted", "confounded", "undecided", "not run", "reproduced")
"""A compound claim has the first of these that one of its comparisons has."""

CONVERSATIONS: Mapping[str, int] = {"100K": 20, "500K": 35, "1M": 35, "10M": 10}
LEAST_DIFFERING = 0.5
"""Contexts of two arms have to differ for this share of questions, else a difference of scores is not about them."""
MOST_CUT = 0.05
"""The share of questions at which what is compared may be missing from a context, as it did not fit."""

RULE = (
    "Rules, stated beforehand: differences are paired over conversations, on the printed scale (0 to 1). A direction "
    f"is reproduced when its interval, Holm-corrected within its table at {ALPHA:g}, excludes 0; a size when it "
    f"lies within {MARGIN:g} of the printed one; a claim when all its comparisons are. Arms whose contexts differ for "
    f"less than {LEAST_DIFFERING:.0%} of the questions, or lack what is compared for more than {MOST_CUT:.0%}, are "
    "confounded."
)

_CUTS: Mapping[str, tuple[str, ...]] = {
    "K": ("pairs_dropped", "pairs_shortened"),
    "retriever": ("pairs_dropped", "pairs_shortened"),
    "part: retrieval": ("pairs_dropped", "pairs_shortened"),
    "part: scratchpad": ("chunks_dropped",),
    "part: noise-filter": ("chunks_dropped",),
    "part: working-memory": ("newest_cut",),
}
"""The counts of a context that bear on a treatment; other treatments are on all of it."""
_METHODS = {"Vanilla": "full-context", "RAG": "rag", "LIGHT": "light"}


class ComparisonResult(BaseModel):
    """What a run says of one comparison.

    `low` to `high` is the interval at 1 - `level`, the level of Holm's correction over `family`. `needed` conversations
    would decide; None where more than the tier has would be needed. `differing` of `questions` contexts differ.
    """

    label: str
    family: str
    reader: str = ""
    outcome: Outcome
    claimed_low: float | None
    claimed_high: float | None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    p: float | None = None
    conversations: int = 0
    tier: int | None = None
    needed: int | None = None
    differing: int | None = None
    questions: int | None = None
    why: str = ""


class ClaimReproduction(BaseModel):
    """A claim with what a run says of its comparisons."""

    id: str
    section: str
    claim: str
    printed: str
    source: str
    outcome: Outcome
    comparisons: list[ComparisonResult]


class Reproduction(BaseModel):
    """What a run says of all claims on scores. Without any where the stand-in answered or judged (`offline`)."""

    run: str
    paper: str
    protocol: str
    readers: dict[str, str]
    judges: list[str]
    offline: bool
    contexts: list[str]
    claims: list[ClaimReproduction]

    @property
    def counts(self) -> dict[Outcome, int]:
        return {name: sum(claim.outcome == name for claim in self.claims) for name in OUTCOMES}


@dataclass(frozen=True, eq=False)
class RunArm:
    """One arm of a run: its manifest, and its scores and answers by question."""

    folder: Path
    manifest: Manifest
    arm: Arm
    protocol: str

    @cached_property
    def scores(self) -> pd.DataFrame:
        from beamlib.evaluate.beam_records import stored_judgements
        from beamlib.scoring.scores import score_run

        return score_run(stored_judgements(self.folder), self.protocol)

    @cached_property
    def answers(self) -> dict[str, Answer]:
        from beamlib.evaluate.beam_records import read_answers

        return {answer.probe_id: answer for answer in read_answers(self.folder)}

    @property
    def setup(self) -> dict[str, Any]:
        """What may differ between two arms only if that is what is compared."""
        settings = {name: value for name, value in self.manifest.settings.items() if name != "arm"}
        data = {key: record.sha256 for key, record in self.manifest.conversations.items()}
        return {**settings, "models": self.manifest.models, "judge": self.manifest.judge, "conversations": data}

    def cut(self, names: Sequence[str]) -> int:
        """Count the questions whose contexts lack something of these kinds."""
        found = [answer.cuts for answer in self.answers.values() if answer.cuts is not None]
        return sum(any(getattr(cuts, name) for name in names) for cuts in found)


class RunArms:
    """The arms of a run folder, or of a part of one, by length and reader."""

    def __init__(self, run: Path, protocol: str) -> None:
        from beamlib.evaluate.arms import Arm
        from beamlib.evaluate.beam_records import read_manifest, run_and_part
        from beamlib.scoring.protocols import find_protocol

        find_protocol(protocol)
        self.arms: dict[tuple[str, str], list[RunArm]] = {}
        folder, part = run_and_part(run)
        for path in sorted(folder.glob(f"{part or '*'}/*/manifest.json")):
            manifest = read_manifest(path.parent)
            arm = Arm.model_validate(manifest.settings["arm"])
            if manifest.imported is None:
                backbone = path.parent.parent.name.removeprefix(manifest.size.lower()).removeprefix("-")
                place = (manifest.size, backbone or manifest.reader)
                self.arms.setdefault(place, []).append(RunArm(path.parent, manifest, arm, protocol))
        if not self.arms:
            raise UserError(f"{run}: no finished results in it; name a run folder that run_all.sh wrote.")

    @property
    def readers(self) -> dict[str, str]:
        """The model of each reader."""
        return {backbone: arms[0].manifest.reader for (_, backbone), arms in self.arms.items()}

    def of(self, length: str, series: Series) -> RunArm | None:
        """Return the arm that a series is at a length, None where it was not run."""
        for (size, backbone), arms in self.arms.items():
            names = (backbone, self.readers[backbone])
            if size == length and (series.backbone in names or any(_is(series.backbone, name) for name in names)):
                return _matching(arms, series)
        return None


def _is(published: str, model: str) -> bool:
    """Tell whether a model's name has all words and numbers of a published backbone's name."""
    words = [set(_split(name)) for name in (published, model)]
    return bool(words[0]) and words[0] <= words[1]


def _split(name: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in name.casefold()).split()


def _matching(arms: Sequence[RunArm], series: Series) -> RunArm | None:
    """Return the arm of a series: the base LIGHT (RAG's index and K, else K = 5), changed in what the series names."""
    if series.method not in _METHODS:
        return next((arm for arm in arms if arm.arm.name.casefold().startswith(series.method.casefold())), None)
    rag = [arm for arm in arms if arm.arm.memory == "rag"]
    light = [arm for arm in arms if arm.arm.memory == "light"]
    removed = [arm for arm in light if arm.arm.without]
    lead = next(iter([*rag, *removed, *(arm for arm in light if arm.arm.k == 5), *light]), None)
    for arm in arms:
        own = arm.arm
        if own.memory != _METHODS[series.method] or own.without != series.without:
            continue
        if own.memory == "full-context":
            return arm
        k = series.k or (lead.arm.k if lead else None)
        retriever = series.retriever or ("dense" if series.faiss_index else lead.arm.retriever if lead else None)
        if (own.k, own.retriever) == (k, retriever) and _searches_by(arm, series):
            return arm
    return None


def _searches_by(arm: RunArm, series: Series) -> bool:
    """Tell whether an arm has the encoder and the index of a series: the run's own where the series names none."""
    settings, own = arm.manifest.settings, arm.arm
    encoder = own.encoder or str(settings.get("encoder", ""))
    index = own.faiss_index or settings.get("faiss_index", "flat")
    by_encoder = own.encoder is None if series.encoder is None else series.encoder in encoder
    return by_encoder and (own.faiss_index is None if series.faiss_index is None else series.faiss_index == index)


def reproduce(run: Path, protocol: str = "released-code", paper: Paper = "v2") -> Reproduction:
    """Compare the arms of `run` as the claims of the paper do.

    Args:
        protocol: By default the one that the printed scores follow.

    Raises:
        UserError: The folder has no results, or they do not match their manifests.
    """
    from beamlib.report.footer import is_offline

    arms = RunArms(run, protocol)
    judges = sorted({arm.manifest.judge for own in arms.arms.values() for arm in own})
    offline = any(map(is_offline, [*judges, *arms.readers.values()]))
    stated = [(claim, comparisons(claim)) for claim in BEAM_CLAIMS.declared(paper)]
    stated = [(claim, parts) for claim, parts in stated if parts]
    claims = [] if offline else _claims(arms, stated)
    return Reproduction(
        run=run.as_posix(),
        paper=paper,
        protocol=protocol,
        readers=arms.readers,
        judges=judges,
        offline=offline,
        contexts=_contexts(arms, [part for _, parts in stated for part in parts]),
        claims=claims,
    )


def _claims(arms: RunArms, stated: Sequence[tuple[Mapping[str, Any], list[Comparison]]]) -> list[ClaimReproduction]:
    readings = [
        (claim, part if named else part.read_by(reader))
        for claim, parts in stated
        for part in parts
        for named in [all(term.series.backbone for term in part.terms)]
        for reader in ([""] if named else arms.readers)
    ]
    found = [_Finding.of(arms, claim["id"], part) for claim, part in readings]
    levels = _levels(found)
    results: dict[str, list[ComparisonResult]] = {}
    for finding in found:
        results.setdefault(finding.claim, []).append(finding.result(levels))
    rows = []
    for claim, _ in stated:
        parts = results[claim["id"]]
        outcome = next(name for name in _WEAKEST_FIRST if any(part.outcome == name for part in parts))
        fields = {name: claim[name] for name in ("id", "section", "claim", "printed", "source")}
        rows.append(ClaimReproduction(**fields, outcome=outcome, comparisons=parts))
    return rows


def _levels(found: Iterable[_Finding]) -> dict[tuple[str, str], tuple[float, bool]]:
    """Correct the p-values of each family by Holm; comparisons that several claims make count once."""
    families: dict[str, dict[str, float]] = {}
    for finding in found:
        if finding.estimate is not None:
            families.setdefault(finding.part.family, {})[finding.key] = min(finding.evidence)
    return {(family, key): level for family, own in families.items() for key, level in holm(own).items()}


@dataclass(frozen=True, eq=False)
class _Finding:
    """A comparison of a claim with what the run has of it: an estimate, or why there is none."""

    claim: str
    part: Comparison
    reader: str
    estimate: Estimate | None = None
    blocked: Outcome = "not run"
    why: str = ""
    differing: tuple[int, int] | None = None

    @classmethod
    def of(cls, arms: RunArms, claim: str, part: Comparison) -> _Finding:
        reader = ", ".join(dict.fromkeys(term.series.backbone for term in part.terms))
        found = {(term.length, term.series): arms.of(term.length, term.series) for term in part.terms}
        missing = [place for place, arm in found.items() if arm is None]
        if missing:
            return cls(claim, part, reader, why=_options(missing, arms.readers))
        there = {place: arm for place, arm in found.items() if arm is not None}
        differing, reason = _confounded(part, there)
        if reason:
            return cls(claim, part, reader, blocked="confounded", why=reason, differing=differing)
        samples = tuple(_sample(length, part.terms, there) for length in part.lengths)
        if not all(map(len, samples)):
            return cls(claim, part, reader, why="no conversation has scores in all arms", differing=differing)
        return cls(claim, part, reader, Estimate(samples), differing=differing)

    @property
    def key(self) -> str:
        """Names the hypothesis: a comparison with 0 is one, whichever sign a claim expects."""
        bounds = self.part.bounds
        size = f" in {bounds.low:g}, {bounds.high:g}" if len(bounds.finite) == 2 else ""
        terms = sorted(f"{term}" for term in self.part.terms)
        mirrored = sorted(f"{Term(-term.weight, term.length, term.series, term.ability)}" for term in self.part.terms)
        return f"{min(terms, mirrored)}{size}"

    @property
    def evidence(self) -> tuple[float, float]:
        assert self.estimate is not None
        return self.estimate.evidence(self.part.bounds)

    def result(self, levels: Mapping[tuple[str, str], tuple[float, bool]]) -> ComparisonResult:
        bounds = self.part.bounds
        differing, questions = self.differing or (None, None)
        fixed: dict[str, Any] = {
            "label": self.part.label, "family": self.part.family, "reader": self.reader,
            "claimed_low": _finite(bounds.low), "claimed_high": _finite(bounds.high),
            "differing": differing, "questions": questions,
        }  # fmt: skip
        if self.estimate is None:
            return ComparisonResult(**fixed, outcome=self.blocked, why=self.why)
        level, passes = levels[self.part.family, self.key]
        decision: Decision = decide(*self.evidence, passes)
        low, high = self.estimate.interval(level)
        tier = min(CONVERSATIONS[length] for length in self.part.lengths)
        needed = self.estimate.enough(bounds, level, tier) if decision == "undecided" else None
        return ComparisonResult(
            **fixed,
            outcome=decision,
            value=self.estimate.value,
            low=_finite(low),
            high=_finite(high),
            level=level,
            p=min(self.evidence),
            conversations=self.estimate.conversations,
            tier=tier,
            needed=needed,
            why=_undecided(self.estimate, bounds, level, needed, tier) if decision == "undecided" else "",
        )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _undecided(estimate: Estimate, bounds: Bounds, level: float, needed: int | None, tier: int) -> str:
    if estimate.conversations < 2:
        return "one conversation shows no spread"
    if needed is not None:
        return f"{needed} conversations would decide, were the difference as it is here (power {POWER:g})"
    more = estimate.enough(bounds, level, 100 * tier)
    many = f"{more} conversations" if more else f"more than {100 * tier} conversations"
    return f"{many} would decide, were the difference as it is here; the tier has {tier}"


def _options(missing: Sequence[tuple[str, Series]], readers: Mapping[str, str]) -> str:
    """Name the options that make the missing arms."""
    lengths = [length for length in LENGTHS if any(length == place for place, _ in missing)]
    options = [f"--sizes {','.join(length.lower() for length in lengths)}"]
    own: dict[str, list[str]] = {}
    for _, series in missing:
        if series.encoder:
            own.setdefault("--set encoders=", []).append(series.encoder)
        if series.faiss_index:
            own.setdefault("--set faiss_indexes=", []).append(series.faiss_index)
        if series.method not in _METHODS:
            own.setdefault("--memory ", []).append(series.method.casefold())
        if series.k:
            own.setdefault("--set budgets=", []).append(str(series.k))
        if series.retriever:
            own.setdefault("--set retrievers=", []).append(series.retriever)
        if series.backbone and readers.get(series.backbone) != series.backbone:  # else it is the only one there is
            own.setdefault("--backbones ", []).append(series.backbone)
    for option, values in own.items():
        listed = ",".join(dict.fromkeys(values))
        options.append(f"{option}[{listed}]" if option.startswith("--set") else f"{option}{listed}")
    return " ".join(options)


def _confounded(part: Comparison, found: Mapping[tuple[str, Series], RunArm]) -> tuple[tuple[int, int] | None, str]:
    """Return how many contexts differ, of how many, and what keeps the arms from being compared."""
    if not part.treatment:
        return None, ""
    differing, questions, reasons = 0, 0, []
    for length in part.lengths:
        first, *others = [arm for (at, _), arm in found.items() if at == length]
        for other in others:
            same_reader = first.manifest.reader == other.manifest.reader
            changed = [name for name in first.setup if first.setup[name] != other.setup.get(name)]
            changed = [name for name in changed if name not in part.treatment.split(", ")]
            changed = _apart_from_unused(changed, first, other)
            if changed and same_reader:
                reasons.append(f"{length}: the arms differ in {', '.join(changed)}, too")
            if same_reader:
                shared = first.answers.keys() & other.answers.keys()
                differing += sum(first.answers[key].context_key != other.answers[key].context_key for key in shared)
                questions += len(shared)
    if questions and differing < LEAST_DIFFERING * questions:
        reasons.append(f"the contexts differ for {differing} of {questions} questions only")
    names = next((own for treatment, own in _CUTS.items() if treatment == part.treatment), None)
    kinds = names or ("pairs_dropped", "pairs_shortened", "newest_cut", "chunks_dropped")
    for arm in dict.fromkeys(found.values()):
        if arm.arm.memory == "full-context":  # the paper, too, gives the reader the newest part that fits
            continue
        if (cut := arm.cut(kinds)) > MOST_CUT * max(1, len(arm.answers)):
            lost = ", ".join(name.replace("_", " ") for name in kinds)
            reasons.append(f"{arm.arm.name} lacks what did not fit ({lost}) at {cut} of {len(arm.answers)} questions")
    return (differing, questions) if questions else None, "; ".join(dict.fromkeys(reasons))


def _apart_from_unused(changed: Sequence[str], first: RunArm, other: RunArm) -> list[str]:
    """Leave out settings that one of the arms does not have, and models of roles that only one of them calls."""
    kept = []
    for name in changed:
        ours, theirs = first.setup[name], other.setup.get(name)
        if name in ("models", "conversations") and isinstance(ours, dict) and isinstance(theirs, dict):
            if any(ours[key] != theirs[key] for key in ours.keys() & theirs.keys()):
                kept.append(name)
        elif name in other.setup:
            kept.append(name)
    return kept


def _sample(length: str, terms: Sequence[Term], found: Mapping[tuple[str, Series], RunArm]) -> np.ndarray[Any, Any]:
    """Return the weighted sum of averages per conversation of one length, over questions scored in all arms."""
    import pandas as pd

    own = [term for term in terms if term.length == length]
    arms = list(dict.fromkeys(found[length, term.series] for term in own))
    keys = ["probe_id", "conversation_id", "ability"]
    joined = pd.concat(
        [arm.scores.set_index(keys)["score"] for arm in arms], axis=1, join="inner", keys=range(len(arms))
    )
    means = joined.dropna().groupby(["conversation_id", "ability"]).mean()
    total = None
    for term in own:
        column = means[arms.index(found[length, term.series])]
        if term.ability == AVERAGE:
            values = column.groupby("conversation_id").mean()
        else:
            values = column[column.index.get_level_values("ability") == term.ability].droplevel("ability")
        total = term.weight * values if total is None else total.add(term.weight * values)
    assert total is not None
    return total.dropna().to_numpy(dtype=np.float64)


def _contexts(arms: RunArms, parts: Sequence[Comparison]) -> list[str]:
    """Say of each pair of arms that claims compare for how many questions their contexts differ."""
    lines: dict[str, None] = {}
    for part in parts:
        if not part.treatment or len(part.lengths) != 1:
            continue
        for reader in arms.readers:
            filled = part.read_by(reader)
            found = {(term.length, term.series): arms.of(term.length, term.series) for term in filled.terms}
            there = {place: arm for place, arm in found.items() if arm is not None}
            if len(there) == len(found) == 2:
                differing, _ = _confounded(filled, there)
                if differing:
                    names = " and ".join(arm.arm.name for arm in there.values())
                    lines[f"{part.lengths[0]}: contexts of {names} differ for {differing[0]} of {differing[1]}"] = None
    return list(lines)


def render(found: Reproduction) -> str:
    """Write a reproduction for the terminal."""
    readers = ", ".join(f"{name} ({model})" if name != model else model for name, model in found.readers.items())
    lines = [
        f"Claims of the paper ({found.paper}) on scores, and what {found.run} says of them; protocol {found.protocol}.",
        f"Reader: {readers}. Judge: {', '.join(found.judges)}. A claim that names no backbone is asked of each reader.",
    ]
    if found.offline:
        lines += [
            "The offline stand-in, not a language model, answered or judged: no claim about models can be checked.",
            "What retrieval alone can say is for how many questions the arms show the reader different contexts:",
            *(f"  {line}" for line in found.contexts),
        ]
        return "\n".join(lines)
    lines += [
        RULE,
        ", ".join(f"{count} {name}" for name, count in found.counts.items()) + f" of {len(found.claims)} claims",
        "",
    ]
    for claim in found.claims:
        lines.append(f"{claim.id}  {claim.outcome.upper()}  {claim.claim} ({claim.section}; {claim.source})")
        lines += [f"    {_line(part)}" for part in claim.comparisons if part.outcome != "not run"]
        missing = Counter(part.why for part in claim.comparisons if part.outcome == "not run")
        lines += [f"    not run: {number} of {len(claim.comparisons)} ({why})" for why, number in missing.items()]
    return "\n".join(lines)


def _line(part: ComparisonResult) -> str:
    contexts = f"; contexts differ for {part.differing} of {part.questions}" if part.questions else ""
    if part.value is None:
        return f"{part.outcome}: {part.label} [{part.reader}]: {part.why}{contexts}"
    interval = f"[{part.low:+.3f}, {part.high:+.3f}]" if part.low is not None else "no interval"
    low, high = part.claimed_low, part.claimed_high
    claimed = f"{low:+.3f} to {high:+.3f}" if None not in (low, high) else "above 0" if high is None else "below 0"
    level = f"{1 - part.level:.2%}" if part.level else ""
    why = f"; {part.why}" if part.why else ""
    return (
        f"{part.outcome}: {part.label} [{part.reader}] {part.value:+.3f} {interval} at {level}, claimed {claimed}, "
        f"n = {part.conversations}{contexts}{why}"
    )
