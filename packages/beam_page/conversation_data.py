"""Collect the page's data on one conversation: two data files, and its rows of the run's file.

File `a` has gold, answers, the judge's replies and calls. File `m` has the messages, each once, and the contexts as
references to them. The run's file has rows with every fact that a protocol counts, and no text: the viewer recomputes
all scores from them (`viewer/scoring.js`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from beam_page.calls_of import ConversationCalls
from beam_page.headlines import evidence_held
from beam_page.replaying import OTHERWISE, OWN, Remade, remade_contexts
from beam_page.run_folder import RunFolder, StoredArm
from beamlib.data.conversations import Conversation, Treatment
from beamlib.data.errata import Erratum, known_defects
from beamlib.data.gold import Gold
from beamlib.data.loading import Loaded, load
from beamlib.errors import UserError
from beamlib.evaluate.beam_records import ImportedQuestion
from beamlib.evaluate.run_store import ANSWER_CODE
from beamlib.files import code_hash, sha256, to_json
from beamlib.memory.declared import memories
from beamlib.memory.protocol import RetrievedContext
from beamlib.scoring.event_ordering import is_order_nugget
from beamlib.scoring.protocols import PROTOCOLS, REPORTED, released_reply, released_score
from beamlib.scoring.records import Alignment, Judgement

_WHOLE = 700_000
"""Characters of a conversation up to which the page shows all of it; of a longer one, what questions need."""
AROUND = 3
"""Messages before and after a cited one that are shown with it."""
_CODE = ("beam_page", *ANSWER_CODE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SHORTEST = 24
"""Characters from which on a message is looked for in a context: "Thanks!" may stand there by chance."""
_STOPS = (TypeError, ValueError, KeyError, IndexError, OverflowError, RecursionError)
"""What the released code ends with at a reply that it cannot read."""


@dataclass(frozen=True)
class ConversationData:
    """The data of one conversation.

    Attributes:
        key: Hash of everything that the two data files depend on.
        answers: Data file `a`; None where the file on disk has the same key.
        messages: Data file `m`, likewise; empty without the conversation.
        has_messages: Whether there is a file `m`.
        questions: Rows of the run's file.
        cells: Rows of the run's file, by series and question.
        gold: For the headlines.
        spoilt: Questions whose score a known defect can spoil.
        spent: Sums over the reader's calls, by series.
        about: The title, or why the text is missing.
    """

    id: str
    key: str
    answers: dict[str, Any] | None
    messages: dict[str, Any]
    has_messages: bool
    questions: list[dict[str, Any]]
    cells: dict[str, dict[str, Any]]
    gold: Mapping[str, Gold]
    spoilt: frozenset[str]
    spent: Mapping[str, list[float | None]]
    about: dict[str, Any]


def conversation_data(run: RunFolder, conversation: str, written: str = "") -> ConversationData:
    """Collect what the arms of `run` have on a conversation, with its text and gold where available.

    `written` is the key of its data files on disk. With the same key they are kept: recalling all contexts again takes
    most of the time.
    """
    arms = [arm for arm in run.arms if any(j.conversation_id == conversation for j in arm.judgements)]
    loaded, note = _loaded(run, conversation, arms)
    judged = {arm.series: {j.probe_id: j for j in arm.judgements if j.conversation_id == conversation} for arm in arms}
    gold = dict(loaded.gold) if loaded else {}
    stated = {
        probe: question
        for arm in arms
        for probe, question in arm.details.items()
        if question.probe_id.startswith(f"{conversation}-")
    }
    questions = {probe: question.question for probe, question in stated.items()}
    questions = {probe.id: probe.question for probe in loaded.probes} if loaded else questions
    ids = list(dict.fromkeys([*questions, *sorted({probe for verdicts in judged.values() for probe in verdicts})]))
    ids = [probe for probe in ids if any(probe in verdicts for verdicts in judged.values())]
    errata = {arm.question_id: arm for arm in known_defects(loaded.probes)} if loaded else {}
    calls = ConversationCalls(conversation, arms, questions)
    facts = {
        "gold": {probe: _gold(gold.get(probe) or stated.get(probe), errata.get(probe), judged, probe) for probe in ids},
        "calls": calls.of,
        "calls_problem": calls.problem,
    }
    answers = {arm.series: _answers(arm, judged[arm.series]) for arm in arms}
    keys = {arm.series: arm.manifest.answers_key if arm.manifest else "" for arm in arms}
    text = loaded.conversation.sha256 if loaded else note
    key = sha256(to_json([code_hash(_code()), text, keys, facts, answers]).encode("utf-8", "surrogatepass"))
    messages: dict[str, Any] = {}
    if loaded and key != written:
        table = ContextTable({message.id: message.content for message in loaded.conversation})
        _add_contexts(answers, remade_contexts(run, arms, loaded), table)
        messages = _messages(loaded.conversation, gold, table, answers)
    # A context that is missing for want of an encoder or a call may be there the next time.
    final = all(row.get("no", OWN) in (OWN, OTHERWISE) for rows in answers.values() for row in rows.values())
    return ConversationData(
        id=conversation,
        key=key if final else "",
        answers=None if key == written else {**facts, "answers": answers},
        messages=messages,
        has_messages=loaded is not None,
        questions=[_question(probe, questions, gold, errata, judged) for probe in ids],
        cells={arm.series: {p: _cell(arm, j, gold) for p, j in judged[arm.series].items()} for arm in arms},
        gold=gold,
        spoilt=frozenset(key for key, arm in errata.items() if arm.spoils_score),
        spent=calls.spent,
        about=_about(loaded, note),
    )


def _loaded(run: RunFolder, conversation: str, arms: Sequence[StoredArm]) -> tuple[Loaded | None, str]:
    """Load the conversation as most of its arms read it, or return why its text cannot be shown."""
    source = run.sources.get(conversation)
    if source is None:
        return None, "the conversation is not at hand: name the folder of the data with --data"
    treatment = next((arm.treatment for arm in arms if arm.manifest), Treatment())
    try:
        loaded = load(source, Treatment(treatment.chat_variant, treatment.strip_markers, "flag"))
    except UserError as error:
        return None, str(error).replace(f"{source.path}", "its folder")
    for arm in arms:
        record = arm.manifest.conversations.get(conversation) if arm.manifest else None
        if record is not None and record.sha256 != loaded.conversation.sha256:
            return None, "the conversation at hand is not the one that this run read, so its text is not shown"
    return loaded, ""


def _about(loaded: Loaded | None, note: str) -> dict[str, Any]:
    if loaded is None:
        return {"note": note}
    seed = loaded.conversation.seed
    return {
        "title": seed.title,
        "category": seed.category,
        "messages": len(loaded.conversation.messages),
        "variant": loaded.conversation.variant,
    }


def _question(
    probe: str,
    questions: Mapping[str, str],
    gold: Mapping[str, Gold],
    errata: Mapping[str, Erratum],
    judged: Mapping[str, Mapping[str, Judgement]],
) -> dict[str, Any]:
    """Build a question's row: id, ability, text, cited messages, missing ones, and defects (2: may spoil the score)."""
    first = next(verdicts[probe] for verdicts in judged.values() if probe in verdicts)
    row: dict[str, Any] = {"id": probe, "a": first.ability, "q": questions.get(probe, "")}
    if probe_gold := gold.get(probe):
        row |= {"e": list(probe_gold.evidence)} | (
            {"em": list(probe_gold.evidence_missing)} if probe_gold.evidence_missing else {}
        )
    if erratum := errata.get(probe):
        row["d"] = 2 if erratum.spoils_score else 1
    return row


def _cell(arm: StoredArm, judgement: Judgement, gold: Mapping[str, Gold]) -> dict[str, Any]:
    """Build an arm's row on a question, without texts: verdicts, cited messages, tokens.

    Cited messages are shown whole (`s`), shown in part (`p`) or only noted (`n`): also where the reader failed (`u`).
    """
    cell: dict[str, Any] = {"j": verdict_rows(judgement)}
    answer, probe_gold = arm.answers.get(judgement.probe_id), gold.get(judgement.probe_id)
    if answer is None:
        return cell
    if answer.unscored is not None:
        cell["u"] = answer.unscored[:500]
    if probe_gold is not None and probe_gold.evidence and answer.context_recorded:
        shown, partly, noted = evidence_held(answer, probe_gold)
        cell |= {"s": shown} | ({"p": partly} if partly else {}) | ({"n": noted} if noted else {})
    return cell | {"t": answer.context_tokens} | ({"g": answer.gaps} if answer.gaps else {})


def _gold(
    source: Gold | ImportedQuestion | None,
    erratum: Erratum | None,
    judged: Mapping[str, Mapping[str, Judgement]],
    probe: str,
) -> dict[str, Any]:
    judgements = [verdicts[probe] for verdicts in judged.values() if probe in verdicts]
    nuggets = [verdict.nugget for verdict in judgements[0].verdicts] if judgements else []
    row: dict[str, Any] = {"rubric": list(source.rubric) if source and source.rubric else nuggets}
    row |= {"reference": source.reference} if source else {}
    row |= {"difficulty": source.difficulty} if isinstance(source, Gold) else {}
    if erratum is not None:
        row["erratum"] = {
            "kind": erratum.kind,
            "part": erratum.part,
            "defect": erratum.defect,
            "spoils": erratum.spoils_score,
            "messages": list(erratum.message_ids),
        }
    return row


def _answers(arm: StoredArm, judged: Mapping[str, Judgement]) -> dict[str, dict[str, Any]]:
    """Return an arm's texts by question: the answer and the judge's replies."""
    rows: dict[str, dict[str, Any]] = {}
    for probe, judgement in judged.items():
        answer = arm.answers.get(probe)
        row: dict[str, Any] = {"j": [_replies(one_round) for one_round in judgement.rounds]}
        if answer is not None:
            row |= {"t": answer.text, "p": {part: list(ids) for part, ids in answer.parts.items()}}
            row |= {} if answer.parts else {"ids": list(answer.message_ids)}
        rows[probe] = row
    return rows


def _add_contexts(answers: Mapping[str, dict[str, dict[str, Any]]], remade: Remade, table: ContextTable) -> None:
    """Add to each answer the place of its context in `table`, or why there is none.

    `k` is how many chat turns the context was sent as; without it, it was one text.
    """
    for series, rows in answers.items():
        for probe, row in rows.items():
            context = remade.get(series, {}).get(probe)
            if isinstance(context, RetrievedContext):
                row["c"] = table.add(context.context, context.message_ids)
                row |= {"k": len(context.turns)} if context.turns else {}
            elif context:
                row["no"] = context


def _replies(judgement: Judgement) -> dict[str, Any]:
    """Return the texts of one round: replies or failures by nugget; items, lines, and the nuggets of lines.

    `x` is what a published source has instead of verdicts, or in addition.
    """
    texts: dict[str, Any] = {"r": [verdict.reply or verdict.reason for verdict in judgement.verdicts]}
    if judgement.reported is not None:
        texts["x"] = judgement.reported.model_dump(mode="json")
    for alignment in judgement.alignments:
        items = alignment.items
        texts |= {"i": items} if alignment.parser == "items" else {"l": items, "m": alignment.matches}
    return texts


def _code() -> tuple[str, ...]:
    """Name the modules that what is shown of a conversation rests on."""
    own = (name for kind in memories().values() for name in kind.code_names())
    return tuple(dict.fromkeys((*_CODE, *own)))


def _messages(
    conversation: Conversation,
    gold: Mapping[str, Gold],
    table: ContextTable,
    answers: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> dict[str, Any]:
    """Select the messages to show: all of a short conversation, else cited ones, neighbours and those in contexts."""
    everything = conversation.messages
    whole = sum(len(message.content) for message in everything) <= _WHOLE
    needed = {
        i + step for probe_gold in gold.values() for i in probe_gold.evidence for step in range(-AROUND, AROUND + 1)
    }
    for series, of_series in answers.items():
        if not series.endswith(tuple(name for name, kind in memories().items() if kind.whole)):
            needed |= {m for row in of_series.values() if "c" in row for m in table.contexts[row["c"]] if m >= 0}
    kept = [message for message in everything if whole or message.id in needed]
    return {
        "ids": [message.id for message in kept],
        "roles": "".join(message.role[0] for message in kept),
        "texts": [message.content for message in kept],
        "whole": whole,
        "total": len(everything),
        "contexts": table.coded(),
        "lines": table.lines([message.id for message in kept]),
    }


def _run_key(placed: tuple[int, int]) -> tuple[bool, int]:
    """Return a key that is equal for consecutive references: rising ones of messages, falling ones of lines."""
    place, number = placed
    return number >= 0, number - place if number >= 0 else number + place


def _first_and_count(numbers: list[int]) -> int | list[int]:
    return numbers[0] if len(numbers) == 1 else [numbers[0], len(numbers)]


class ContextTable:
    """The contexts of a conversation, without duplicates.

    A context is a list of integers: `m` >= 0 is the text of message `m`, and `-1 - i` is `lines[i]`, for what is not
    verbatim in a message (headings, notes). Joined they are the context.
    """

    def __init__(self, messages: Mapping[int, str]) -> None:
        self._messages = messages
        self._places: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self.contexts: list[list[int]] = []

    def lines(self, kept: Collection[int]) -> list[str | list[int]]:
        """Return the lines that contexts refer to; a line of a message of `kept` becomes a reference.

        [m, k] is line k of message m with a line break, [m, k, 0] without one. Notes and shortened messages contain
        many such lines.
        """
        places: dict[str, list[int]] = {}
        for number in kept:
            for place, line in enumerate(self._messages[number].split("\n")):
                if len(line) >= _SHORTEST:
                    places.setdefault(f"{line}\n", [number, place])
                    places.setdefault(line, [number, place, 0])
        return [places.get(line, line) for line in self._lines]

    def coded(self) -> list[list[int | list[int]]]:
        """Return the contexts with consecutive references as a pair: the first and their number."""
        return [
            [_first_and_count([n for _, n in run]) for _, run in groupby(enumerate(context), _run_key)]
            for context in self.contexts
        ]

    def add(self, context: str, shown: Iterable[int]) -> int:
        """Return the index of `context`, which may contain the messages `shown`."""
        if context not in self._places:
            self._places[context] = len(self.contexts)
            self.contexts.append(list(self._references(context, shown)))
        return self._places[context]

    def _references(self, context: str, shown: Iterable[int]) -> Iterable[int]:
        places = []
        for number in set(shown):
            text = self._messages.get(number, "")
            start = context.find(text) if len(text) >= _SHORTEST else -1
            while start >= 0:
                places.append((start, -len(text), number))
                start = context.find(text, start + len(text))
        at = 0
        for start, length, number in sorted(places):  # of messages that begin alike, the longest
            if start >= at:
                yield from self._line_references(context[at:start])
                yield number
                at = start - length
        yield from self._line_references(context[at:])

    def _line_references(self, text: str) -> Iterable[int]:
        for line in _LINE.findall(text):
            yield -1 - self._lines.setdefault(line, len(self._lines))


def verdict_rows(judgement: Judgement) -> list[dict[str, Any]]:
    """Return a row per repeat of the judgement.

    Keys:
        v: Verdicts in halves (0, 1, 2, None).
        r: What the released code reads, where it differs from the integer part of `v`; None where it stops; for
            event ordering, 1 where it can read the reply.
        w: Why the first nugget without a verdict has none.
        u: Why the answer, or its order, was not judged.
        o: Nuggets that ask for the order.
        i: The nugget of each item.
        l: Texts of rubric and lines as numbers; equal texts have equal numbers.
        x: Per protocol the score, why there is none, and whether the scorer stops, where verdicts alone do not give
            it.
    """
    return [_verdict_row(own) | _score_changes(own) for own in judgement.rounds]


def _score_changes(judgement: Judgement) -> dict[str, Any]:
    """Return `x` of a published judgement: protocols whose score differs from that of its verdicts alone."""
    if judgement.reported is None:
        return {}
    bare, known = judgement.model_copy(update={"reported": None}), (PROTOCOLS | REPORTED).items()
    scores = {name: (protocol.score_question(judgement), protocol.score_question(bare)) for name, protocol in known}
    return {
        "x": {
            name: [score.value, score.unscored or "", score.aborts_conversation]
            for name, (score, other) in scores.items()
            if (score.value, score.unscored) != (other.value, other.unscored)
        }
    }


def _verdict_row(judgement: Judgement) -> dict[str, Any]:
    verdicts = judgement.verdicts
    missing = [verdict.reason for verdict in verdicts if verdict.score is None]
    ordering = judgement.ability == "event_ordering"
    read = [_released(verdict.reply, whole=not ordering) for verdict in verdicts]
    usual = [1 if ordering else (None if verdict.score is None else int(verdict.score)) for verdict in verdicts]
    row: dict[str, Any] = {"v": [None if verdict.score is None else int(2 * verdict.score) for verdict in verdicts]}
    row |= {"r": read} if read != usual and judgement.reported is None else {}
    row |= {"w": missing[0]} if missing else {}
    row |= {"u": judgement.unscored} if judgement.unscored is not None else {}
    if ordering:
        row["o"] = [number for number, verdict in enumerate(verdicts) if is_order_nugget(verdict.nugget)]
        for alignment in judgement.alignments:
            name = "i" if alignment.parser == "items" else "l"
            row[name] = list(alignment.matches) if name == "i" else _line_numbers(judgement, alignment)
    return row


def _released(reply: str, *, whole: bool) -> int | None:
    try:
        if whole:
            return released_score(reply)
        float(released_reply(reply)["score"])
        return 1
    except _STOPS:
        return None


def _line_numbers(judgement: Judgement, alignment: Alignment) -> list[list[int]]:
    rubric = [verdict.nugget for verdict in judgement.verdicts]
    pairs = zip(alignment.items, alignment.matches, strict=True)
    lines = [item if match is None else rubric[match] for item, match in pairs]
    numbers: dict[str, int] = {}
    return [[numbers.setdefault(text, len(numbers)) for text in side] for side in (rubric, lines)]
