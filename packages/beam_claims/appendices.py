"""Show the examples of the paper's appendices from the released data: B.6, D, E, and the case study F.

`appendix_examples.csv` names them by id, found by their texts. F answers its questions by LIGHT with and without the
scratchpad; both are arms of every run (Table 8), so a run on its six conversations makes them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from beamlib.data.conversations import Message, Probe, Treatment
from beamlib.data.gold import Gold
from beamlib.data.loading import load, load_questions
from beamlib.data.published import table
from beamlib.data.sources import CUT_CHAT, Source, find_conversations, plan_folders, present
from beamlib.errors import UserError
from beamlib.files import make_folder
from beamlib.places import CHAT
from beamlib.text import count

_SHOWN = 400
"""Characters of a message that are shown."""
_OPENING = 4
"""Messages of the conversation of appendix E that are shown."""
_ARMS = {None: "LIGHT", "scratchpad": "LIGHT without scratchpad"}


class Example(BaseModel):
    """One example: a question with its gold, or a conversation (`question` is empty).

    `why` says what `folder` lacks, where it lacks something.
    """

    appendix: str
    item: str
    id: str
    folder: Path | None = None
    question: str = ""
    reference: str = ""
    rubric: tuple[str, ...] = ()
    messages: tuple[tuple[int, str, str], ...] = ()
    answers: dict[str, str] = {}
    why: str = ""

    @property
    def conversation(self) -> str:
        return self.id.partition("-q")[0]


def examples(folder: Path, appendix: str = "", run: Path | None = None) -> list[Example]:
    """Return the examples of an appendix, or of all, as far as `folder` has them.

    Args:
        folder: Released conversations, with or without chats.
        run: A run folder whose answers by LIGHT are added.

    Raises:
        UserError: There is no such appendix, or none of its conversations is in `folder`.
    """
    rows = table("appendix_examples")
    known = list(dict.fromkeys(rows["appendix"]))
    if appendix and appendix not in known:
        raise UserError(f"--appendix is {appendix!r:.40}; choose one of {', '.join(known)}.")
    sources = {source.id: source for source in find_conversations(folder)}
    answers = _answers(run) if run else {}
    found = []
    for row in rows[rows["appendix"].isin([appendix] if appendix else known)].to_dict("records"):
        example = Example.model_validate({**row, "answers": answers.get(row["id"], {})})
        source = sources.get(example.conversation)
        if source is None:
            found.append(example.model_copy(update={"why": f"{folder} has no {example.conversation}"}))
        else:
            found.append(_filled(example, source))
    if all(example.why for example in found):
        wanted = ", ".join(sorted({example.conversation for example in found}))
        raise UserError(f"{folder}: none of the conversations of these examples is in it ({wanted}).")
    return found


def _filled(example: Example, source: Source) -> Example:
    """Add what a conversation has of an example: the question, its gold and the cited messages, or the opening."""
    folder = source.path
    chat = any(present(folder / name) for name in (CHAT, CUT_CHAT)) or (folder.is_dir() and bool(plan_folders(folder)))
    messages: Sequence[Message] = ()
    probes: Sequence[Probe]
    gold: Mapping[str, Gold]
    if chat or source.kind != "released":
        loaded = load(source, Treatment(errata="none"))
        probes, gold, messages = loaded.probes, loaded.gold, loaded.conversation.messages
    else:
        probes, gold, _ = load_questions(source)
    if example.id == example.conversation:
        shown = messages[:_OPENING]
        return example.model_copy(
            update={"folder": folder, "messages": _texts(shown), "why": "" if shown else f"{folder} has no chat"}
        )
    question = {probe.id: probe.question for probe in probes}.get(example.id)
    if question is None:
        return example.model_copy(update={"why": f"{folder} has no question {example.id}"})
    own = gold[example.id]
    cited = [message for message in messages if message.id in own.evidence]
    return example.model_copy(
        update={
            "folder": folder, "question": question, "reference": own.reference, "rubric": own.rubric,
            "messages": _texts(cited),
        }
    )  # fmt: skip


def _texts(messages: Sequence[Message]) -> tuple[tuple[int, str, str], ...]:
    return tuple((message.id, message.role, message.content) for message in messages)


def _answers(run: Path) -> dict[str, dict[str, str]]:
    """Return what LIGHT answered with and without the scratchpad, by question."""
    from beamlib.evaluate.arms import Arm
    from beamlib.evaluate.beam_records import read_answers, read_manifest

    answers: dict[str, dict[str, str]] = {}
    for path in sorted(run.glob("*/light-*/manifest.json")):
        manifest = read_manifest(path.parent)
        arm = Arm.model_validate(manifest.settings["arm"])
        if arm.without not in _ARMS:
            continue
        for answer in read_answers(path.parent):
            name = f"{_ARMS[arm.without]} ({path.parent.name}, {manifest.reader})"
            answers.setdefault(answer.probe_id, {})[name] = answer.text or f"unscored: {answer.unscored}"
    if not answers:
        raise UserError(f"{run}: it has no answers by LIGHT; name a run folder that run_all.sh wrote.")
    return answers


def copy_conversations(found: Sequence[Example], out: Path) -> str:
    """Copy the conversations of these examples, whole, into a new data folder; return what to run.

    All their questions stay, so that ids are the released ones: reading costs more than nineteen questions.

    Raises:
        UserError: `out` exists, or a conversation has no chat.
    """
    if out.exists():
        raise UserError(f"{out}: it exists, and nothing is written over it; name a new folder.")
    folders = {example.conversation: example.folder for example in found if example.folder is not None}
    for folder in folders.values():
        if not folder.is_dir() or not any(present(folder / name) for name in (CHAT, CUT_CHAT)):
            raise UserError(f"{folder}: it has no chat, which answering needs; give a folder with chats.")
    for folder in folders.values():
        shutil.copytree(folder, make_folder(out / folder.parent.name) / folder.name)
    sizes = dict.fromkeys(name.rpartition("-")[0].lower() for name in folders)
    return (
        f"{out}: {count(len(folders), 'conversation')}; run ./run_all.sh --data {out} --sizes {','.join(sizes)}, then "
        "this command with --run"
    )


def render(found: Sequence[Example]) -> str:
    """Write examples for the terminal."""
    lines = []
    for example in found:
        lines += ["", f"{example.appendix}, {example.item} ({example.id})"]
        if example.why:
            lines.append(f"    not shown: {example.why}")
            continue
        if example.question:
            lines += [f"    question: {example.question}", f"    reference: {example.reference}"]
            lines += [f"    nugget: {nugget}" for nugget in example.rubric]
        for number, role, text in example.messages:
            flat = " ".join(text.split())
            lines.append(f"    message {number}, {role}: {flat[:_SHOWN]}{' …' if len(flat) > _SHOWN else ''}")
        lines += [f"    {arm}: {' '.join(text.split())}" for arm, text in example.answers.items()]
    return "\n".join(lines[1:])
