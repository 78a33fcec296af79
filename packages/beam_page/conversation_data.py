"""Collect the page's data on one conversation: two data files, and its rows of the run's file.

File `a` has gold, answers, the judge's replies and calls. File `m` has the messages, each once, and the contexts as
references to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_page.calls_of import ConversationCalls
from beam_page.context_refs import ContextTable
from beam_page.headlines import evidence_held
from beam_page.replaying import OTHERWISE, OWN, Remade, remade_contexts
from beam_page.run_folder import RunFolder, StoredArm
from beam_page.verdict_rows import verdict_rows
from beamlib.data.conversations import Conversation, Treatment
from beamlib.data.errata import Erratum, known_defects
from beamlib.data.gold import Gold
from beamlib.data.loading import Loaded, load
from beamlib.errors import UserError
from beamlib.evaluate.imported import ImportedQuestion
from beamlib.evaluate.run_store import ANSWER_CODE
from beamlib.files import code_hash, sha256, to_json
from beamlib.memory.protocol import RetrievedContext
from beamlib.scoring.records import Judgement

WHOLE = 700_000
"""Characters of a conversation up to which the page shows all of it; of a longer one, what questions need."""
AROUND = 3
"""Messages before and after a cited one that are shown with it."""
_WHOLE_CONVERSATION = "full-context"
_CODE = ("beam_page", *ANSWER_CODE, "beam_memories.evolving")


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
    key = sha256(to_json([code_hash(_CODE), text, keys, facts, answers]).encode("utf-8", "surrogatepass"))
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

    Cited messages are shown whole (`s`), shown in part (`p`) or only noted (`n`).
    """
    cell: dict[str, Any] = {"j": verdict_rows(judgement)}
    answer, probe_gold = arm.answers.get(judgement.probe_id), gold.get(judgement.probe_id)
    if answer is None:
        return cell
    if answer.unscored is not None:
        cell["u"] = answer.unscored[:500]
    if probe_gold is not None and probe_gold.evidence:
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


def _messages(
    conversation: Conversation,
    gold: Mapping[str, Gold],
    table: ContextTable,
    answers: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> dict[str, Any]:
    """Select the messages to show: all of a short conversation, else cited ones, neighbours and those in contexts."""
    everything = conversation.messages
    whole = sum(len(message.content) for message in everything) <= WHOLE
    needed = {
        i + step for probe_gold in gold.values() for i in probe_gold.evidence for step in range(-AROUND, AROUND + 1)
    }
    for series, of_series in answers.items():
        if not series.endswith(_WHOLE_CONVERSATION):
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
