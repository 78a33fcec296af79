"""Join the results of a run over sizes and backbones: Tables 1, 8, 9, 10 and Figures 3 to 5.

Everything is read from the run folder: its parts (`100k`, `500k-<backbone>`), their arms and judgements. Nothing is
computed or called. A missing arm leaves its cells empty; a cell with fewer conversations states their number. Each
table shows the arms that differ from the base arm (LIGHT with RAG's index and K) in the one field that the table is
about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from pydantic import ValidationError

from beamlib.errors import UserError
from beamlib.evaluate.answer_record import NO_LOSSES, ContextLosses
from beamlib.evaluate.arm_folder import Manifest, read_answers, read_manifest, stored_judgements
from beamlib.evaluate.arms import COMPONENTS, Arm, experiments
from beamlib.evaluate.calling import run_subdir
from beamlib.evaluate.run_store import combined_hash
from beamlib.files import to_json
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import EVOLVING, RunParameters
from beamlib.report.figures import ablation_figure, averages, budget_figure, retriever_figure, save_figure
from beamlib.report.footer import Footer, model_shown
from beamlib.report.results import changes_of, footer_of, long_frame, of_arm
from beamlib.report.table import Table, join_tables, save_table
from beamlib.report.tables import result_table
from beamlib.scoring.protocols import find_protocol
from beamlib.scoring.scores import present_sizes, score_run

ALL = "all"
"""The part of a run's tables and figures that what is put together goes to."""

_METHODS: dict[str, str] = {
    "none": "none",
    "full-context": "full context",
    "rag": "RAG",
    "light": "LIGHT",
    **{name: name for name in EVOLVING},
    "own": "",
    "imported": "",
    "oracle": "oracle",
}
MAIN_TABLE = "table1_main_results"
_TITLES = {
    MAIN_TABLE: "Table 1",
    "table8_ablation": "Table 8",
    "table9_retrieval_budget": "Table 9",
    "table10_dense_vs_sparse": "Table 10",
}
_VARIED = {
    "table8_ablation": ("without",),
    "table9_retrieval_budget": ("k",),
    "table10_dense_vs_sparse": ("retriever",),
}
"""The fields of an arm that a table is about."""

_COMPLETE = "complete"


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper: how it is drawn, and its captions as published and for a run."""

    number: int
    name: str
    published: str
    draw: Callable[[pd.DataFrame, Footer], Figure]
    caption: str
    run_caption: str


ASSEMBLED_FIGURES = {
    "table8_ablation": PaperFigure(
        3, "ablation", "table8", ablation_figure,
        "change of the average score when one component of LIGHT is removed",
        "change of the average without a part of LIGHT",
    ),
    "table9_retrieval_budget": PaperFigure(
        4, "retrieval_budget", "table9", budget_figure,
        "average score of LIGHT against the retrieval budget K",
        "average of LIGHT against the budget K",
    ),
    "table10_dense_vs_sparse": PaperFigure(
        5, "dense_vs_sparse", "table10", retriever_figure,
        "average score of LIGHT with dense and with sparse retrieval",
        "average of LIGHT by retriever",
    ),
}  # fmt: skip
"""The figures by the tables that they show."""

_OF_DATA = {
    "table3_conversations": "Table 3, the conversations that this run read",
    "table7_deciles": "Table 7, where the evidence of this run's questions lies",
}


@dataclass(frozen=True)
class AssemblyOptions:
    """Options of `assemble`.

    Attributes:
        protocol: Scoring protocol.
        seed: Seed of the paired tests.
        parts: Parts to use, empty for all.
        bases: Names of base arms by part. Other parts join only with the same judge, data treatment and kind of
            data.
        base: Name of the base arm of the remaining parts; by default it is derived.
        allow_mixed: Join runs whose judges or data differ.
    """

    protocol: str = "paper"
    seed: int = 0
    parts: Collection[str] = ()
    bases: Mapping[str, str] | None = None
    base: str = ""
    allow_mixed: bool = False


@dataclass(frozen=True, eq=False)
class Stored:
    """A stored arm with its scores. `backbone` is the part's name without the size."""

    part: str
    backbone: str
    arm: Arm
    manifest: Manifest
    scores: pd.DataFrame
    losses: ContextLosses

    @property
    def kind(self) -> tuple[object, ...]:
        """What the arms of one run share: judge, data treatment, and whether conversations were generated."""
        settings = self.manifest.settings
        treatment = [settings.get(name) for name in ("chat_variant", "strip_markers", "errata")]
        return (self.manifest.judge, *treatment, self.manifest.data_revision.startswith("generated by"))

    @property
    def setup(self) -> str:
        """What the arms of a part share when one run made them: settings, prompts and models except the reader."""
        settings = {name: value for name, value in self.manifest.settings.items() if name != "arm"}
        models = {role: model for role, model in self.manifest.models.items() if role != "reader"}
        return to_json([settings, models, self.manifest.prompts])

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: backbone, method as in Table 1, K, retriever, component, size."""
        arm = self.arm
        component = 1 + COMPONENTS.index(arm.without) if arm.without else 0
        rest = (arm.k or 0, arm.retriever or "", component, self.manifest.size)
        return (self.backbone, list(_METHODS).index(arm.memory), arm.target or "", *rest)

    def comparable(self) -> Iterator[dict[str, Any]]:
        """Yield the input of `ensure_comparable` for each conversation."""
        facts = self.manifest.model_dump(include={"size", "judge", "reader", "settings", "imported"})
        for key, record in self.manifest.conversations.items():
            hashes = {"question_set_sha256": record.questions_sha256, "data_sha256": record.sha256}
            yield {**facts, **hashes, "arm": f"{self.part}/{self.arm.name}", "conversations": [key]}


@dataclass(frozen=True)
class _Columns:
    """The arms of one table with their column labels; `backbone` is empty in the table of all backbones.

    With `several` backbones, columns are grouped by backbone.
    """

    table: str
    backbone: str
    members: Sequence[tuple[str, Stored]]
    several: bool = False

    @property
    def name(self) -> str:
        """File name of the table."""
        return f"{self.table}_{self.backbone}" if self.backbone else self.table

    @property
    def scores(self) -> dict[str, pd.DataFrame]:
        """Scores of each column, a row per question, over all sizes."""
        parts: dict[str, list[pd.DataFrame]] = {}
        for label, arm in self.members:
            if self.several:
                column = arm.scores.assign(backbone=arm.backbone, method=label)
                parts.setdefault(f"{arm.backbone} / {label}", []).append(column)
            else:
                parts.setdefault(label, []).append(arm.scores)
        return {name: pd.concat(own) for name, own in parts.items()}


class Assembly:
    """The results of a run over all sizes and backbones, read once.

    Raises:
        UserError: The folder has no results, a base is missing or ambiguous, or runs cannot share a table.
    """

    def __init__(self, run: Path, options: AssemblyOptions) -> None:
        self.run, self.options = run, options
        self.columns, self.sizes, self.notes = _compared(run, options)

    def tables(self, names: Collection[str] = ()) -> tuple[dict[str, Table], list[Path]]:
        """Build the tables of these names, or all, and draw their figures; return the tables by name and the files.

        Captions name what is left out, and why.
        """
        tables: dict[str, Table] = {}
        files: list[Path] = []
        for columns in self.columns:
            if not names or columns.table in names:
                tables[columns.name] = table = _table(columns, self.options, self.sizes, self.notes)
                files += _figure(columns, table, self.options, self.run / "figures" / ALL)
        return tables, files


def assemble(run: Path, options: AssemblyOptions) -> dict[str, Table]:
    """Write tables and figures over all sizes and backbones of `run` to its parts `all`; return the tables by name."""
    assembly = Assembly(run, options)
    tables, files = assembly.tables()
    for name, title in _OF_DATA.items():
        parts: dict[str, str] = {
            stored.manifest.size: stored.part for _, stored in reversed(assembly.columns[0].members)
        }
        paths = [run / "tables" / parts[size] / f"{name}.csv" for size in assembly.sizes]
        if there := [path for path in paths if path.exists()]:
            tables[name] = join_tables(f"{title}, all sizes", there)
    for name, table in tables.items():
        files += save_table(table, name, run / "tables" / ALL)
    _remove_others(run, files)
    return tables


def _remove_others(run: Path, files: Collection[Path] = ()) -> None:
    """Delete joined tables and figures that are not among `files`."""
    for earlier in {*run.glob(f"tables/{ALL}/*"), *run.glob(f"figures/{ALL}/*")} - set(files):
        earlier.unlink()


def assemble_job(run: Path, runs: Sequence[RunParameters]) -> str:
    """Join the results at the end of a main job; return the reason if they cannot be joined."""
    bases = {run_subdir(parameters): experiments(parameters)["ablation"][0].name for parameters in runs}
    try:
        assemble(run, AssemblyOptions(runs[0].judging.protocol, runs[0].judging.seed, bases=bases))
    except UserError as error:
        _remove_others(run)  # else the page would show them in place of the tiers' own
        return str(error)
    return ""


def _compared(run: Path, options: AssemblyOptions) -> tuple[list[_Columns], list[str], list[str]]:
    """Return the columns of all tables, the sizes, and notes for captions on arms that are left out."""
    arms, notes = _found(run, options)
    bases = _bases(arms, options, run)
    differing = [arm for arm in arms if arm.setup != _setup(arms, arm.part, bases[arm.part])]
    arms = [arm for arm in arms if arm not in differing]
    if differing:
        notes.append(
            f"Left out, made with other settings: {', '.join(f'{arm.part}/{arm.arm.name}' for arm in differing)}."
        )
    return list(_all_columns(arms, bases)), present_sizes(pd.concat([arm.scores for arm in arms])), notes


def _found(run: Path, options: AssemblyOptions) -> tuple[list[Stored], list[str]]:
    """Return the arms to use, in order, and notes for captions on those that are left out."""
    find_protocol(options.protocol)
    arms: list[Stored] = []
    unread: list[str] = []
    for path in sorted(run.glob("*/*/manifest.json")):
        try:
            one = _stored(path.parent, options.protocol)
            arms += [] if one.arm.other_budget else [one]  # no table has a column for it
        except UserError:  # of another version, or damaged: for a run it counts as not there, and so it does here
            unread.append(f"{path.parent.parent.name}/{path.parent.name}")
    if not arms:
        raise UserError(f"{run}: no finished results in it; name a run folder that run_all.sh wrote.")
    excluded = _imported_beside(arms, options)
    arms = [arm for arm in arms if arm.part not in excluded]
    known = {arm.part for arm in arms}
    if unknown := sorted(set(options.parts) - known):
        raise UserError(f"{run}: it has no part {unknown[0]!r} with results; it has {', '.join(sorted(known))}.")
    kinds = {arm.kind for arm in arms if arm.part in (options.bases or known)}
    kept = [arm for arm in arms if arm.kind in kinds and (not options.parts or arm.part in options.parts)]
    others = sorted(known - {arm.part for arm in kept})
    notes = [f"Left out, with another judge or other data: {', '.join(others)}."] if others and options.bases else []
    notes += [f"Left out, imported: {', '.join(excluded)}; `beamlib tables --mixed` has them."] if excluded else []
    notes += [f"Left out, damaged or of another version: {', '.join(unread)}."] if unread else []
    return sorted(kept, key=lambda arm: arm.order), notes


def _imported_beside(arms: Sequence[Stored], options: AssemblyOptions) -> list[str]:
    """Return the imported parts to leave out: by default, a run's tables show its own results."""
    imported = {arm.part for arm in arms if arm.manifest.imported is not None}
    requested = options.allow_mixed or bool(options.parts) or len(imported) == len({arm.part for arm in arms})
    return [] if requested else sorted(imported)


def _stored(folder: Path, protocol: str) -> Stored:
    manifest = read_manifest(folder)
    try:
        arm = Arm.model_validate(manifest.settings.get("arm"))
    except ValidationError:
        raise UserError(f"{folder / 'manifest.json'}: it was written by another version; run again.") from None
    part = folder.parent.name
    backbone = part.removeprefix(manifest.size.lower()).removeprefix("-") or OFFLINE_NAME
    losses = ContextLosses.of(read_answers(folder))
    scores = of_arm(score_run(stored_judgements(folder), protocol), arm)
    return Stored(part, backbone, arm, manifest, scores, losses)


def _bases(stored: Sequence[Stored], options: AssemblyOptions, run: Path) -> dict[str, Arm]:
    """Return the base arm of each part: the named LIGHT, else the LIGHT with RAG's index and K.

    Without RAG it is the LIGHT whose components were removed, or the only LIGHT.
    """
    bases: dict[str, Arm] = {}
    for part in dict.fromkeys(entry.part for entry in stored):
        arms = [entry.arm for entry in stored if entry.part == part]
        complete = [arm for arm in arms if arm.memory == "light" and arm.without is None]
        names = ", ".join(arm.name for arm in complete)
        if name := (options.bases or {}).get(part, options.base):
            if not (named := [arm for arm in complete if arm.name == name]):
                raise UserError(f"{run / part}: it has no arm {name!r}; the complete LIGHTs in it: {names or 'none'}.")
            bases[part] = named[0]
            continue
        rag, partial = [arm for arm in arms if arm.memory == "rag"], [arm for arm in arms if arm.without is not None]
        settings = {(arm.retriever, arm.k) for arm in rag or partial or complete}
        if len(settings) > 1:
            raise UserError(f"{run / part}: several LIGHTs can be the base of its tables: {names}; name one by --base.")
        retriever, k = settings.pop() if settings else (None, None)
        bases[part] = Arm(memory="light", retriever=retriever, k=k)
    return bases


def _setup(stored: Sequence[Stored], part: str, base: Arm) -> str:
    """Return the setup of a part: that of its base arm if stored, else the most frequent."""
    entries = [entry for entry in stored if entry.part == part]
    most_frequent = Counter(entry.setup for entry in entries).most_common(1)[0][0]
    return next((entry.setup for entry in entries if entry.arm == base), most_frequent)


def _all_columns(stored: Sequence[Stored], bases: Mapping[str, Arm]) -> Iterator[_Columns]:
    """Yield Table 1 over all backbones, then Tables 8 to 10 for each; tables of a single column are left out."""
    backbones = list(dict.fromkeys(entry.backbone for entry in stored))
    several = len(backbones) > 1
    methods = [(_method(entry.arm, bases[entry.part]), entry) for entry in stored]
    yield _Columns(MAIN_TABLE, "", [(method, entry) for method, entry in methods if method], several)
    for table, fields in _VARIED.items():
        for backbone in backbones:
            members = [
                (_variant(entry.arm, bases[entry.part], fields), entry)
                for entry in stored
                if entry.backbone == backbone
            ]
            if len({label for label, _ in members if label}) > 1:
                yield _Columns(
                    table, backbone if several else "", [(label, entry) for label, entry in members if label]
                )


def _method(arm: Arm, base: Arm) -> str:
    """Return the column of Table 1 for an arm, empty for none."""
    if arm.memory == "light" and arm != base:
        return ""
    if arm.memory == "rag" and (arm.retriever, arm.k) != (base.retriever, base.k):
        return ""
    return _METHODS[arm.memory] or arm.name.removeprefix("own-")


def _variant(arm: Arm, base: Arm, fields: Sequence[str]) -> str:
    """Return the column of a table about `fields` for an arm that differs from `base` in at most one of them."""
    varied = [name for name in Arm.model_fields if getattr(arm, name) != getattr(base, name)]
    if len(varied) > 1 or not set(varied) <= set(fields):
        return ""
    if fields != _VARIED["table8_ablation"]:
        return f"K={arm.k}" if "k" in fields else str(arm.retriever)
    return f"without {arm.without}" if arm.without else _COMPLETE


def _table(columns: _Columns, options: AssemblyOptions, sizes: Sequence[str], notes: Sequence[str]) -> Table:
    scores, entries = columns.scores, [entry for _, entry in columns.members]
    losses: dict[str, ContextLosses] = {}  # by arm, over sizes and backbones
    for entry in entries:
        losses[entry.arm.name] = losses.get(entry.arm.name, NO_LOSSES) + entry.losses
    frame = long_frame(scores)
    return result_table(
        frame,
        f"{_TITLES[columns.table]}, this run, all sizes{columns.backbone and ', ' + columns.backbone}",
        footer_of([entry.manifest for entry in entries], scores, options.protocol, losses),
        [comparable for entry in entries for comparable in entry.comparable()],
        allow_mixed=options.allow_mixed,
        notes=[*notes, *_missing(frame, sizes)],
        intervals=False,
    )


def _missing(frame: pd.DataFrame, sizes: Sequence[str]) -> list[str]:
    """Return notes on empty cells: a backbone that a size lacks, or single columns."""
    present = set(zip(frame["size"], frame["series"], strict=True))
    backbones = {name: f"{name} / " for name in dict.fromkeys(frame.get("backbone", ()))} or {"": ""}
    theirs = set(frame.loc[frame["memory"] == "imported", "series"])  # no other reader is missing from these
    methods = list(dict.fromkeys(frame.get("method", frame["series"])[~frame["series"].isin(theirs)]))
    missing = []
    for size in sizes:
        for backbone, head in backbones.items():
            expected = [series for series in theirs if head and series.startswith(head)]
            expected = expected or [
                head + name for name in methods
            ]  # one that this backbone was never asked by is missed too
            absent = [name for name in expected if (size, name) not in present]
            missing += [f"{name} at {size}" for name in ([backbone] if backbone and absent == expected else absent)]
    return [f"Not run, or not finished: {', '.join(missing)}."] if missing else []


def _figure(columns: _Columns, shown: Table, options: AssemblyOptions, folder: Path) -> list[Path]:
    """Write the figure of a table and return its files, none where there is nothing to draw."""
    frame, footer = shown.frame, shown.basis
    if columns.table not in ASSEMBLED_FIGURES or frame is None or footer is None:
        return []
    figure = ASSEMBLED_FIGURES[columns.table]
    frame = averages(frame)
    if figure.number == 3:
        scores = columns.scores.items()
        removals = {label: column for label, column in scores if label == _COMPLETE or column["removed"].notna().all()}
        frame = changes_of(removals, _COMPLETE, options.seed)
        if frame.empty:
            return []
    rests = {
        f"{entry.part}/{entry.arm.name}": combined_hash(entry.manifest.judgements_sha256)
        for _, entry in columns.members
    }
    caption = (
        f"Figure {figure.number}, this run, all sizes: {figure.run_caption}. Reader: {model_shown(footer.reader)}."
    )
    parameters = {"protocol": options.protocol, "seed": options.seed}
    name = columns.name.replace(columns.table, f"figure{figure.number}_{figure.name}")
    return save_figure(figure.draw(frame, footer), name, folder, frame, {"judgements": rests}, parameters, caption)
