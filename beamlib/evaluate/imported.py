"""What a manifest says of results that others made: who, how they were judged, which files, what was matched."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from beamlib.errors import UserError
from beamlib.evaluate.records import checked
from beamlib.files import read_jsonl, read_text, sha256, to_json

Known = Literal["yes", "no", "unknown"]
DETAILS = "imported.jsonl"
"""The file of an imported arm's folder that holds an `ImportedQuestion` per question."""
NEUTRAL = "beam-results"
"""The form of this project, in which anybody may publish."""
RECORDS = "records"
"""Lists of questions and answers as anybody may write them."""
UNNAMED_PROMPT = "a prompt that nobody names"


class Provenance(BaseModel):
    """Who made results, and how they were judged; empty or `unknown` where nobody says.

    `judge_sees_*` say what the judge was shown beside the answer. `gold_in_prompt`: whether parts of the gold stood in
    the prompt that asked for the answer; `prompt`, what else is known of that prompt. `context` is the budget of the
    context and `cut` how answers were cut. `judge_prompt` names the prompt of the judge.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str = ""
    reader: str = ""
    judge: str = ""
    judge_sees_question: Known = "unknown"
    judge_sees_rubric: Known = "unknown"
    judge_sees_reference: Known = "unknown"
    judge_prompt: str = ""
    gold_in_prompt: Known = "unknown"
    prompt: str = ""
    context: str = ""
    cut: str = ""
    licence: str = ""
    where: str = ""
    commit: str = ""
    date: str = ""

    def by_prompt_of(self, harness: str) -> str:
        """Who judged, by which prompt: this is what tables compare, as one model is another judge by another prompt.

        Of `harness` where nobody names it; the neutral form and plain lists are nobody's harness.
        """
        shown = [name for name in ("question", "rubric", "reference") if getattr(self, f"judge_sees_{name}") == "yes"]
        usual = UNNAMED_PROMPT if harness in (NEUTRAL, RECORDS) else f"the prompt of {harness}"
        asked = f"the prompt {self.judge_prompt!r}" if self.judge_prompt else usual
        prompt = f"{asked} ({', '.join(shown) or 'shown things unknown'})"
        return f"{self.judge or 'unknown judge'} by {prompt}"


class Imported(Provenance):
    """The record of an import in an arm's manifest.

    `shipped` is the run of `beam_field` that these verdicts are, where they are one. `files` hold the SHA-256 of each
    file read, `kinds` how many questions have nuggets, counts, votes, or only a score. `unmatched` are questions that
    are none of the tier's (the first, shortened; `unmatched_count` counts all), `twice` those that occur again (the
    first is taken), `missing` those of the conversations here that have no answer, `other_rubric` those with another
    number of nuggets than their rubric. `details_sha256` hashes `DETAILS`.
    """

    format: str
    shipped: str = ""
    number: int | None = None
    files: dict[str, str]
    kinds: dict[str, int] = Field(default_factory=dict)
    unmatched_count: int = 0
    unmatched: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    other_rubric: tuple[str, ...] = ()
    details_sha256: str = ""

    @property
    def judged_by(self) -> str:
        """Who judged, by the prompt of the file's format."""
        return self.by_prompt_of(self.format)

    def lines(self) -> list[str]:
        """What footers say of it."""
        made = ", ".join(part for part in (self.where, self.commit and f"commit {self.commit}", self.licence) if part)
        said = [f"{self.system or 'A system without a name'}, imported ({self.format}{made and '; ' + made})"]
        said.append(f"gold in the answer prompt: {self.gold_in_prompt}")
        said += [f"answers cut {self.cut}"] if self.cut else []
        counts = {"not matched": self.unmatched_count, "there twice": len(self.twice), "missing": len(self.missing)}
        said += [f"{count} questions {what}" for what, count in counts.items() if count]
        return ["; ".join(said) + "."]


class ImportedQuestion(BaseModel):
    """What a source says of a question beside answer and verdicts, a line of `DETAILS`: enough to judge it again.

    `rubric` and `reference` are empty where the file has none; the context is told by its length in characters, or in
    tokens as its source counts them, or by its number of memories. `cut` says that the answer was.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    probe_id: str
    question: str
    rubric: tuple[str, ...] = ()
    reference: str = ""
    context_chars: int | None = None
    context_tokens: int | None = None
    memories: int | None = None
    cut: bool | None = None


def read_details(folder: Path, imported: Imported) -> dict[str, ImportedQuestion]:
    """What an imported arm's source said of its questions, by probe id; `UserError` if it was changed."""
    path = folder / DETAILS
    if sha256(read_text(path)) != imported.details_sha256:
        raise UserError(f"{path}: it was changed after the import; import the file again.")
    rows = (checked(ImportedQuestion, row, f"{path}: ") for row in read_jsonl(path))
    return {one.probe_id: one for one in rows}


def question_set(probes: list[str]) -> str:
    """The hash of an imported conversation's questions: their ids, as their rubrics are not at hand."""
    return sha256(to_json(["imported", *probes]))
