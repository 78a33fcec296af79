"""MemoryCode's records as rows of data frames (`beamlib.frames`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_memorycode.dialogue_files import LoadedDialogue, load_dialogues
from beam_memorycode.dialogues import dialogue_as_conversation
from beam_memorycode.rule_scoring import Scorer
from beam_memorycode.rules import Rule, RuleVerdict
from beam_memorycode.running import SETUPS, Place, Setup, answer_places, place_id, query_at, request
from beam_memorycode.task import dialogue_hash
from beamlib.evaluate.records import RunManifest
from beamlib.files import to_json
from beamlib.frames import AskedQuestion, OpenedArm, UnitText

RULES = "rules"
"""Who judges: no model does."""


class MemoryCodeFrames:
    """Dialogues: a verdict per rule that an answer's code is held against, by the authors' scoring."""

    data = "memorycode/data"

    def units(self, data: Path, manifests: Sequence[RunManifest]) -> Mapping[str, UnitText]:
        """Read the dialogues that the manifests name, by name. The ids of their questions differ by setup."""
        units = {}
        for item in _named(data, manifests):
            dialogue = item.dialogue
            questions = [
                AskedQuestion(
                    place_id(dialogue, setup, place),
                    text=request(query_at(dialogue, setup, place)),
                    rubric=[to_json(rule.as_json) for rule in _rules(item, setup, place)],
                )
                for setup in SETUPS
                for place in answer_places(dialogue, setup)
            ]
            told = dialogue_as_conversation(dialogue) if dialogue.has_texts else ()
            messages = {message.id: (message.role, message.content) for message in told}
            units[dialogue.name] = UnitText({question.id: question for question in questions}, messages)
        return units

    def verdicts(self, arm: OpenedArm, data: Path | None) -> Iterator[Mapping[str, Any]]:
        """Yield what every rule says of every answer; none without the dialogues, which hold the rules.

        A rule whose object the code does not have says nothing, as in the authors' scoring.
        """
        rules = {
            place_id(item.dialogue, setup, place): _rules(item, setup, place)
            for item in (_named(data, [arm.manifest]) if data else ())
            for setup in SETUPS
            for place in answer_places(item.dialogue, setup)
        }
        scorer = Scorer()
        scores = {RuleVerdict.PASS: 1.0, RuleVerdict.FAIL: 0.0}
        for answer in arm.answers:
            ids = {"conversation": answer.conversation_id, "question": answer.probe_id, "judge": RULES}
            own = rules.get(answer.probe_id, ())
            verdicts, failure = scorer.verdicts(answer.text, own) if answer.text is not None else ((), "")
            for number, rule in enumerate(own):
                said = verdicts[number] if verdicts else None
                reason = answer.unscored or failure or (str(said) if said is RuleVerdict.ABSENT else None)
                score = scores.get(said) if said else None
                yield {**ids, "number": number, "nugget": to_json(rule.as_json), "score": score, "reason": reason}

    def contexts(self, arm: OpenedArm) -> Mapping[str, str]:
        """Return nothing: records keep no contexts."""
        return {}


def _named(data: Path, manifests: Sequence[RunManifest]) -> list[LoadedDialogue]:
    hashes = {record.sha256 for manifest in manifests for record in manifest.conversations.values()}
    return [item for item in load_dialogues(data) if dialogue_hash(item.dialogue) in hashes]


def _rules(item: LoadedDialogue, setup: Setup, place: Place) -> Sequence[Rule]:
    """Return the rules of an answer: of one instruction, of a session, or of all that hold at the end."""
    if setup == "instruction":
        return item.rules.sessions[place.session][place.query : place.query + 1]
    return item.rules.sessions[place.session] if setup == "session" else item.rules.history


FRAMES = MemoryCodeFrames()
