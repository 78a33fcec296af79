"""Look for defective questions (`beamlib data audit`), and show the known ones (`beamlib data errata`).

A detector takes the questions of one conversation (`shared_reference`: of all) and yields what disagrees within a
question, between questions, or with the cited messages. A finding is a reason to read a question, not a verdict on it:
`errata.json` lists the defects that somebody read. Detectors prefer precision to recall.

This module reads gold; nothing that answers questions imports it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import get_args

import pandas as pd
from jinja2 import Environment, PackageLoader
from pydantic import BaseModel, Field
from tqdm import tqdm

from beam_field.defective import universal_failures
from beam_field.sources import question_hash, released_questions
from beam_generate.read_facts import (
    NUMBER_WORDS,
    Day,
    count_asked,
    find_dates,
    find_numbers,
    stems,
    without_dates,
)
from beamlib.data.conversations import SIZES, Message, Probe, Treatment
from beamlib.data.errata import DefectKind, Detector, Erratum, known_defects, load_errata
from beamlib.data.gold import Gold
from beamlib.data.loading import load, load_questions
from beamlib.data.sources import CUT_CHAT, Source, plan_folders, present, scan
from beamlib.errors import UserError
from beamlib.files import to_json
from beamlib.places import CHAT
from beamlib.report.table import markdown_text

MOST_ALIKE = 0.6
"""Two questions are similar from this share of common content words (Jaccard); 12 pairs in the released 2,000."""
MOST_CONTAINED = 0.75
"""The same as a share of the shorter question, where both ask for a fact and their figures are disjoint."""
SHORTEST_SHARED = 8
"""The fewest words of a text that several conversations do not share by chance."""

_WORDS = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_INTERVAL = re.compile(
    rf"(?<!to )(?<!or )\b(\d[\d,]*(?:\.\d+)?|{_WORDS})[\s-]+(?:(?:full|calendar|more|total|whole|consecutive) )?"
    r"(minute|hour|day|week|month|year)s?\b",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\b([A-Z][a-z]+)\.? (\d{1,2}) ?[-–] ?(\d{1,2})\b")
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_STOCK = set(stems("contradictory"))
"""The stem of the first rubric item of every contradiction."""
_FACTS = ("information_extraction", "knowledge_update", "multi_session_reasoning", "temporal_reasoning")
_DAYS = {"day": 1.0, "week": 7.0, "month": 30.44, "year": 365.25}


class Suspicion(BaseModel):
    """A finding of one detector on `question_ids`, with the cited messages.

    `confirmed` are the questions among them whose entry in `errata.json` names this detector.
    """

    detector: Detector
    question_ids: tuple[str, ...]
    what: str
    message_ids: tuple[int, ...] = ()
    confirmed: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditedQuestion:
    """A question with its gold."""

    probe: Probe
    gold: Gold

    @property
    def rubric(self) -> str:
        return "; ".join(self.gold.rubric)

    @property
    def sources(self) -> object:
        """Return `source_chat_ids` as published."""
        return self.gold.extras.get("source_chat_ids")

    def finding(
        self, detector: Detector, what: str, *others: AuditedQuestion, messages: Iterable[int] = ()
    ) -> Suspicion:
        ids = (self.probe.id, *(other.probe.id for other in others))
        return Suspicion(detector=detector, question_ids=ids, what=what, message_ids=tuple(messages))


@dataclass(frozen=True)
class Sheet:
    """The questions of one conversation and its messages, None where there is no (whole) chat."""

    items: Sequence[AuditedQuestion]
    messages: Sequence[Message] | None = None


def interval(sheet: Sheet) -> Iterator[Suspicion]:
    """An interval that disagrees with the dates it is stated with."""
    for item in _of(sheet, "temporal_reasoning"):
        for name, text in (("reference", item.gold.reference), ("rubric", item.rubric)):
            days, stated = _days(text), [interval for interval in _intervals(text) if interval[1] in _DAYS]
            gaps = [gap for pair in itertools.combinations(days, 2) for gap in _gaps(*pair)]
            if not gaps or len(stated) != 1:
                continue
            [(number, unit)] = stated
            length = _DAYS[unit]
            nearest = min(gaps, key=lambda gap: (abs(gap / length - number), gap))
            if abs(nearest / length - number) >= (0.5 if unit == "day" else 1):
                what = f"the {name} says {number:g} {unit}s; {_list(map(_day, days))} are {nearest} days apart"
                yield item.finding("interval", what, messages=item.gold.evidence)


def reference_rubric(sheet: Sheet) -> Iterator[Suspicion]:
    """A reference and a rubric that name different intervals, dates or numbers."""
    for item in _of(sheet, "temporal_reasoning"):
        both = [_intervals(text) for text in (item.gold.reference, item.rubric)]
        for unit in sorted(set.intersection(*({unit for _, unit in own} for own in both))):
            first, second = ({number for number, own in intervals if own == unit} for intervals in both)
            if not first & second:
                what = f"the reference says {_figures(first)} {unit}s, the rubric {_figures(second)}"
                yield item.finding("reference_rubric", what)
        dates = _days(item.gold.reference)
        extra = _not_in(_days(item.rubric), dates)
        if len(dates) > 1 and extra:
            what = f"the rubric names {_list(extra)}, the reference {_list(map(_day, dates))}"
            yield item.finding("reference_rubric", what)
    for item in _of(sheet, "contradiction_resolution", "information_extraction", "multi_session_reasoning"):
        numbers, rubric = _numbers(item.gold.reference), _numbers(item.rubric)
        # The rubric of a sum lists its parts, which the reference need not.
        if rubric - numbers and (numbers - rubric or item.gold.ability != "multi_session_reasoning"):
            what = f"only the rubric has {_figures(rubric - numbers)}, only the reference {_figures(numbers - rubric)}"
            yield item.finding("reference_rubric", what)


def foreign_rubric(sheet: Sheet) -> Iterator[Suspicion]:
    """A rubric item that has next to no word in common with its question, reference and notes."""
    for item in sheet.items:
        own = set(stems(f"{item.probe.question} {item.gold.reference} {to_json(dict(item.gold.extras))}"))
        for number, nugget in enumerate(item.gold.rubric):
            words = {stem for stem in stems(nugget.partition(":")[2] or nugget) if not stem[0].isdigit()}
            if len(words) > 1 and len(words & own) < len(words) / 3 and not words & _STOCK:
                yield item.finding("foreign_rubric", f"rubric item {number} speaks of {_list(sorted(words - own))}")


def figure_not_cited(sheet: Sheet) -> Iterator[Suspicion]:
    """A number or date of the reference that none of the cited messages has."""
    if sheet.messages is None:
        return
    texts = {message.id: message.content for message in sheet.messages}
    for item in _of(sheet, "information_extraction", "knowledge_update", "contradiction_resolution"):
        if not item.gold.evidence or item.gold.evidence_missing:
            continue
        cited = "\n".join(texts[number] for number in item.gold.evidence)
        cited_numbers = _numbers(cited) | {float(text) for text in _DIGITS.findall(cited.replace(",", ""))}
        missing = [f"{number:g}" for number in sorted(_numbers(item.gold.reference) - cited_numbers)]
        missing += _not_in(_days(item.gold.reference), _days(cited))
        if missing:
            what = f"the cited messages do not have {_list(missing)}"
            yield item.finding("figure_not_cited", what, messages=item.gold.evidence)


def date_not_said(sheet: Sheet) -> Iterator[Suspicion]:
    """A date of the reference or the rubric that no message of the user has."""
    if sheet.messages is None:
        return
    by_user = _days("\n".join(message.content for message in sheet.messages if message.role == "user"))
    for item in sheet.items:
        expected = _days(f"{item.gold.reference}; {item.rubric}")
        missing = _not_in(expected, by_user)
        if missing and not item.gold.evidence_missing and item.gold.ability != "summarization":
            what = f"no message of the user has {_list(missing)}"
            yield item.finding("date_not_said", what, messages=item.gold.evidence)


def one_source(sheet: Sheet) -> Iterator[Suspicion]:
    """Original and updated value, or two contradicting statements, that cite the same messages, or one of them none."""
    for item in _of(sheet, "knowledge_update", "contradiction_resolution"):
        parts = item.sources
        if isinstance(parts, Mapping) and len(parts) == 2:
            first, second = (_whole_numbers(part) for part in parts.values())
            if sorted(first) == sorted(second) or not (first and second):
                what = "; ".join(
                    f"{name} cites {_list(_whole_numbers(ids)) or 'nothing'}" for name, ids in parts.items()
                )
                yield item.finding("one_source", what, messages=item.gold.evidence)


def order(sheet: Sheet) -> Iterator[Suspicion]:
    """Events to be put in the order of mention whose cited messages do not ascend."""
    for item in _of(sheet, "event_ordering"):
        entries = item.sources if isinstance(item.sources, list) else []
        firsts = [min(ids) for entry in entries if (ids := _whole_numbers(entry))]
        back = [f"{later} after {earlier}" for earlier, later in itertools.pairwise(firsts) if later < earlier]
        if back:
            what = f"the cited messages go back: {_list(back)}"
            yield item.finding("order", what, messages=item.gold.evidence)


def only_n_items(sheet: Sheet) -> Iterator[Suspicion]:
    """A question for n items whose rubric has more or fewer."""
    for item in _of(sheet, "event_ordering"):
        count, expected = count_asked(item.probe.question), len(item.gold.rubric)
        if count is not None and count != expected:
            yield item.finding("only_n_items", f"the question asks for {count} items, the rubric has {expected}")


def twin_rubric(sheet: Sheet) -> Iterator[Suspicion]:
    """Two questions of an ability that are judged by one rubric."""
    for first, second in itertools.combinations(sheet.items, 2):
        if first.gold.ability == second.gold.ability and first.gold.rubric == second.gold.rubric:
            yield first.finding("twin_rubric", f"both have the same {len(first.gold.rubric)} rubric item(s)", second)


def similar_question(sheet: Sheet) -> Iterator[Suspicion]:
    """Two questions that ask nearly the same and expect different answers."""
    items = [item for item in sheet.items if item.gold.ability != "event_ordering"]  # which differ in one word only
    words = {item.probe.id: set(stems(item.probe.question)) for item in items}
    for first, second in itertools.combinations(items, 2):
        mine, theirs = words[first.probe.id], words[second.probe.id]
        if not mine or not theirs or first.gold.reference == second.gold.reference:
            continue
        alike = len(mine & theirs) / len(mine | theirs)
        figures = [_figures_of(item.gold.reference) for item in (first, second)]
        facts = first.gold.ability in _FACTS and second.gold.ability in _FACTS
        apart = facts and all(figures) and figures[0].isdisjoint(figures[1])
        if alike >= MOST_ALIKE or (apart and len(mine & theirs) / min(len(mine), len(theirs)) >= MOST_CONTAINED):
            what = f"{len(mine & theirs)} content words in common, the references differ"
            yield first.finding("similar_question", what, second)


def shared_reference(items: Iterable[AuditedQuestion]) -> Iterator[Suspicion]:
    """A reference or a whole rubric that stands under questions of several conversations.

    Takes the questions of all conversations. What every abstention or contradiction has in common is no finding, for
    texts are compared as a whole; short ones ("95%") agree by chance and are left out.
    """
    for name in ("reference", "rubric"):
        groups: dict[str, list[AuditedQuestion]] = defaultdict(list)
        for item in items if isinstance(items, Sequence) else list(items):
            text = " ".join((item.gold.reference if name == "reference" else item.rubric).casefold().split())
            if len(text.split()) >= SHORTEST_SHARED:
                groups[text].append(item)
        for group in groups.values():
            conversations = {item.probe.conversation_id for item in group}
            if len(conversations) > 1:
                what = f"one {name} under {len(group)} questions of {len(conversations)} conversations"
                yield group[0].finding("shared_reference", what, *group[1:])


def universal_failure(sheet: Sheet) -> Iterator[Suspicion]:
    """A released question that every whole public run of its tier fails (at most a third of the score)."""
    failed = universal_failures()
    for item in sheet.items:
        tier = item.probe.conversation_id.partition("-")[0]
        released = released_questions().get(question_hash(tier, item.probe.question))
        if released and released.probe_id in failed.index:
            row = failed.loc[released.probe_id]
            what = f"none of {row['runs']} public runs scores more than {row['best']:.2f}"
            yield item.finding("universal_failure", what, messages=item.gold.evidence)


IN_CONVERSATION: Sequence[Callable[[Sheet], Iterator[Suspicion]]] = (
    interval,
    reference_rubric,
    foreign_rubric,
    figure_not_cited,
    date_not_said,
    one_source,
    order,
    only_n_items,
    twin_rubric,
    similar_question,
    universal_failure,
)
"""All detectors but `shared_reference`. Only `figure_not_cited` and `date_not_said` need a chat."""


def _of(sheet: Sheet, *abilities: str) -> Iterator[AuditedQuestion]:
    return (item for item in sheet.items if item.gold.ability in abilities)


def _days(text: str) -> list[Day]:
    """Return the calendar days of a text, each once, in order; "April 20-21" are two."""
    text = _RANGE.sub(r"\1 \2, \1 \3", text)
    days: list[Day] = []
    for match in find_dates(text):
        if not any(match.day.same(day) for day in days):
            days.append(match.day)
    return days


def _not_in(days: Iterable[Day], others: Sequence[Day]) -> list[str]:
    return [_day(day) for day in days if not any(day.same(other) for other in others)]


def _day(day: Day) -> str:
    return f"{date(2000, day.month, 1):%B} {day.day}" + (f", {day.year}" if day.year else "")


def _gaps(first: Day, second: Day) -> set[int]:
    """Return the days between two dates; without years, in a common and a leap year, and over the new year."""
    gaps = set()
    over_new_year = (second.month, second.day) < (first.month, first.day)
    for year, later in itertools.product((2023, 2024), (0, 1) if over_new_year else (0,)):
        try:
            gaps.add(abs((second.on(year + later) - first.on(year)).days))
        except ValueError:  # 29 February
            continue
    return gaps


def _intervals(text: str) -> list[tuple[float, str]]:
    matches = [(match[1], match[2].lower()) for match in _INTERVAL.finditer(without_dates(text))]
    values = {
        (float(NUMBER_WORDS[text.lower()] if text[0].isalpha() else text.replace(",", "")), unit)
        for text, unit in matches
    }
    return sorted(values)


def _numbers(text: str) -> set[float]:
    return {number.value for number in find_numbers(text)}


def _figures_of(text: str) -> set[object]:
    return {*_numbers(text), *((day.month, day.day) for day in _days(text))}


def _figures(numbers: Iterable[float]) -> str:
    return _list(f"{number:g}" for number in sorted(numbers)) or "none"


def _whole_numbers(value: object) -> list[int]:
    if isinstance(value, list):
        return [number for entry in value for number in _whole_numbers(entry)]
    return [value] if isinstance(value, int) else []


def _list(parts: Iterable[object]) -> str:
    return ", ".join(map(str, parts))


ABOUT = {
    detector.__name__: (detector.__doc__ or "").split("\n")[0] for detector in (*IN_CONVERSATION, shared_reference)
}


class AuditReport(BaseModel):
    """The report of `audit_folder`.

    `without_chat` are conversations whose chat is missing or not whole: `figure_not_cited` and `date_not_said` need
    one. `errors` names what could not be read.
    """

    folder: str
    questions: int = 0
    conversations: int = 0
    without_chat: list[str] = Field(default_factory=list)
    findings: list[Suspicion] = Field(default_factory=list)
    errors: list[str] = Field(default_factory=list)

    def render(self) -> str:
        """Return the report as plain text, by detector."""
        lines = [
            f"Questions in {self.folder}: {self.questions:,} of {self.conversations} conversations, "
            f"{len(self.without_chat)} of them without a whole chat",
            "A finding is a reason to read a question. [erratum]: it was read, and errata.json lists it.",
        ]
        for name in get_args(Detector):
            own = [finding for finding in self.findings if finding.detector == name]
            confirmed = sum(bool(finding.confirmed) for finding in own)
            lines += ["", f"{name}: {ABOUT[name]} {len(own)} found, {confirmed} listed as errata"]
            lines += [f"  {_line(finding)}" for finding in own]
        lines += ["", f"Errors: {len(self.errors)}", *(f"  {error}" for error in self.errors)]
        return "\n".join(lines) + "\n"


def _line(finding: Suspicion) -> str:
    names = ", ".join(name + " [erratum]" * (name in finding.confirmed) for name in finding.question_ids)
    cited = f" (cites {', '.join(map(str, finding.message_ids))})" if finding.message_ids else ""
    return f"{names}: {finding.what}{cited}"


def audit_folder(folder: Path) -> AuditReport:
    """Run all detectors over every conversation in `folder`, with or without chats.

    Chats are read as the paper evaluated them (cut where a cut exists). An unreadable conversation is listed in
    `errors`. Raises `UserError` only where there is no conversation at all.
    """
    sources, problems = scan(folder)
    report = AuditReport(
        folder=str(folder), errors=[problem.sentence for problem in problems if problem.size or not sources]
    )
    everything: list[AuditedQuestion] = []
    for source in tqdm(sources, desc="auditing", unit="conversation", disable=None):  # shown on a terminal
        try:
            sheet = _sheet(source)
        except UserError as error:
            report.errors.append(str(error))
            continue
        report.conversations += 1
        if sheet.messages is None:
            report.without_chat.append(source.id)
        report.findings += [finding for detector in IN_CONVERSATION for finding in detector(sheet)]
        everything += sheet.items
    report.questions = len(everything)
    report.findings = _confirmed([*report.findings, *shared_reference(everything)], everything)
    return report


def _sheet(source: Source) -> Sheet:
    """Read the questions of a conversation and its chat, if there is one."""
    folder = source.path
    chat = any(present(folder / name) for name in (CHAT, CUT_CHAT)) or (folder.is_dir() and bool(plan_folders(folder)))
    if source.kind == "released" and not chat:
        probes, gold, _ = load_questions(source)
        return Sheet([AuditedQuestion(probe, gold[probe.id]) for probe in probes])
    loaded = load(source, Treatment(errata="none"))
    whole = all(anomaly.kind != "plans_missing" for anomaly in loaded.anomalies)
    items = [AuditedQuestion(probe, loaded.gold[probe.id]) for probe in loaded.probes]
    return Sheet(items, loaded.conversation.messages if whole else None)


def _confirmed(findings: Iterable[Suspicion], items: Iterable[AuditedQuestion]) -> list[Suspicion]:
    """Add to each finding the questions for which `errata.json` names its detector."""
    listed = {entry.question_id: entry.detectors for entry in known_defects([item.probe for item in items])}
    confirmed = []
    for finding in findings:
        questions = tuple(name for name in finding.question_ids if finding.detector in listed.get(name, ()))
        confirmed.append(finding.model_copy(update={"confirmed": questions}))
    return confirmed


def errata_page(verdicts: Path | None = None) -> str:
    """Return `docs/errata.md`: the errata, the detectors and, for a file of `verdicts`, what `drop` does to scores.

    Raises `UserError` for a file that `published_effect` cannot use.
    """
    errata = load_errata()
    environment = Environment(loader=PackageLoader("beam_claims", ""), keep_trailing_newline=True)
    environment.filters["shown"] = lambda value: markdown_text(str(value))
    return environment.get_template("errata.md.j2").render(
        version=errata.version,
        entries=errata.entries,
        summary=_summary(errata.entries),
        kinds=_kinds(errata.entries),
        tiers=list(SIZES),
        readings=errata.readings,
        detectors=ABOUT,
        failures=universal_failures(),
        verdicts=verdicts.name if verdicts else "",
        effect=_effect_rows(published_effect(verdicts)) if verdicts else [],
    )


def _summary(entries: Sequence[Erratum]) -> list[list[object]]:
    rows: list[list[object]] = []
    for size in SIZES:
        own = [entry for entry in entries if entry.question_id.startswith(f"{size}-")]
        thresholds = Counter(entry.threshold for entry in own)
        corrected = sum(bool(entry.corrected) for entry in own)
        rows.append([size, len(own), thresholds["beyond doubt"], corrected, thresholds["strict"], thresholds[None]])
    return rows


def _kinds(entries: Sequence[Erratum]) -> list[list[object]]:
    """Count entries that spoil the score beyond doubt, by kind and tier."""
    counts = Counter((entry.kind, entry.question_id.partition("-")[0]) for entry in entries if entry.spoils_score)
    return [[kind, *(counts[kind, size] for size in SIZES)] for kind in get_args(DefectKind) if kind != "citation"]


VERDICT_COLUMNS = ("source", "run", "tier", "probe", "kind", "published")


def published_effect(path: Path) -> pd.DataFrame:
    """Return mean and rank (by source and tier) of each published run with and without the questions that `drop` drops.

    `path` is a CSV of verdicts with `VERDICT_COLUMNS` and any number of rows per question; `published` is the
    question's score as its source has it. Where the judge saw the reference answer and no rubric (kind `votes`),
    questions with a wrong answer are dropped as well. Raises `UserError` for any other file.
    """
    try:
        rows = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as CSV ({error}); name a file of verdicts.") from None
    if missing := [name for name in VERDICT_COLUMNS if name not in rows]:
        raise UserError(f"{path}: the column '{missing[0]}' is missing; the columns are {', '.join(VERDICT_COLUMNS)}.")
    entries = load_errata().entries
    spoilt = {entry.question_id for entry in entries if entry.spoils_score}
    misled = spoilt | {entry.question_id for entry in entries if entry.part == "answer"}
    keys = ["tier", "source", "run"]
    questions = rows.drop_duplicates([*keys, "probe"]).dropna(subset=["published"])
    out = questions["probe"].isin(spoilt) | ((questions["kind"] == "votes") & questions["probe"].isin(misled))
    effect = questions.groupby(keys)["published"].agg(["size", "mean"])
    kept = questions[~out].groupby(keys)["published"].agg(["size", "mean"])
    effect = effect.join(kept.add_suffix(" kept")).fillna({"size kept": 0})
    for name in ("mean", "mean kept"):
        effect[f"rank {name}"] = effect.groupby(level=["tier", "source"])[name].rank(ascending=False, method="min")
    places = [SIZES.index(tier) for tier in effect.index.get_level_values("tier")]
    return effect.assign(place=places).sort_values(["place", "source", "rank mean"]).drop(columns="place").reset_index()


def _effect_rows(effect: pd.DataFrame) -> list[list[object]]:
    return [
        [
            *(row["tier"], row["source"], row["run"], row["size"], f"{row['mean']:.4f}"),
            *(int(row["size"] - row["size kept"]), f"{row['mean kept']:.4f}", f"{row['mean kept'] - row['mean']:+.4f}"),
            f"{row['rank mean']:.0f} / {row['rank mean kept']:.0f}",
        ]
        for row in effect.to_dict("records")
    ]
