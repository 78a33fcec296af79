"""A model that repeats its prompt instead of answering gives nothing that anybody reads: all prompts, all readers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from pydantic import StrictInt

from beam_generate.plan_text import read_batches, read_narratives
from beam_generate.replies import reply_json, reply_questions
from beam_meme.auditing import Annotation, Audit, ThirdPerson
from beam_meme.episode_gold import MemeGold, MemeTask
from beam_meme.fillers import read_verdict
from beam_meme.meme_judge import ToJudgeMeme, judge_round
from beam_memories.by_name.readagent import CHOICE
from beam_memories.evolving.dependencies import read_notes
from beam_memories.evolving.json_replies import json_object
from beamlib.llm.json_replies import found_json, read_json
from beamlib.llm.model import Completion, ModelError, Prompt, run
from beamlib.llm.prompts import prompt_file, prompt_ids, static_texts
from beamlib.llm.retrying import RetryingModel, read_decision
from beamlib.memory.scratchpad import read_numbers
from beamlib.scoring.replies import read_matches, read_score

Reader = Callable[[str], object]


class Says:
    """A model with one reply."""

    name = "says"

    def __init__(self, reply: str) -> None:
        self.reply = reply

    async def complete(self, prompt: Prompt) -> Completion:
        return Completion(self.reply)


def meme_reader(task: MemeTask, phase: str = "after") -> Reader:
    def read(reply: str) -> object:
        gold = MemeGold("What?", phase, task, "thing", ("a", "b"), "gold")  # type: ignore[arg-type]
        return judge_round([ToJudgeMeme("q", "What?", "an answer", None, gold, "old", "x: a -> b")], Says(reply))[
            0
        ].passed

    return read


def list_reader(prompt: str) -> Reader:
    return lambda reply: [entry for entry in reply_json(reply, list, prompt) or [] if isinstance(entry, dict)]


def files(prompt: str) -> Reader:
    """Calls of tools: an empty list is the reply that is asked for when nothing is left to do."""
    return lambda reply: (json_object(reply, prompt) or {}).get("calls")


SPEECH: Reader = lambda reply: reply  # noqa: E731 - whatever gets here is used as it is
READERS: dict[str, Reader] = {
    "judge_nugget": lambda reply: read_score(reply)[0] is not None,
    "align_batch": lambda reply: read_matches(reply, 3, 3)[0],
    "align_events": read_decision,
    "scratchpad_filter": read_decision,
    "detect_question": read_decision,
    "detect_followup": read_decision,
    "filter_batch": lambda reply: read_numbers(reply, 9),
    "wiki_choose": lambda reply: (json_object(reply, "wiki_choose") or {}).get("pages"),
    "dependency_notes": read_notes,
    "readagent_page": lambda reply: CHOICE.fullmatch(reply),
    "readagent_lookup": lambda reply: read_json(reply, list[StrictInt], strict=True, prompt="readagent_lookup")[0],
    "meme_filler_conflict": read_verdict,
    "meme_third_person": lambda reply: read_json(reply, ThirdPerson, strict=True, prompt="meme_third_person")[0],
    "meme_annotation": lambda reply: read_json(reply, Annotation, strict=True, prompt="meme_annotation")[0],
    "meme_audit": lambda reply: getattr(read_json(reply, Audit, strict=True, prompt="meme_audit")[0], "issues", None),
    "meme_judge_before": meme_reader("cascade", "before"),
    **{
        f"meme_judge_{task}": meme_reader(task)
        for task in ("aggregation", "tracking", "cascade", "absence", "deletion")
    },
    **{name: files(name) for name in ("file_memory_ingest", "file_memory_recall", "wiki_compile")},
    **{name: list_reader(name) for name in prompt_ids() if name.startswith(("candidates_", "seeds_"))},
    **{name: list_reader(name) for name in ("titles", "special_bullets", "probe_abstention")},
    **{
        name: (lambda reply, name=name: reply_json(reply, dict, name))
        for name in prompt_ids()
        if name.startswith("probe_") and name not in ("probe_abstention", "probe_nuggets")
    },
    "probe_nuggets": lambda reply: reply_json(reply, list, "probe_nuggets"),
    **{f"narratives_{kind}": read_narratives for kind in ("general", "coding", "math")},
    **{name: read_batches for name in prompt_ids() if name.startswith("plan_") and name != "plan_summary"},
    "questions_general": lambda reply: reply_questions(reply, "general"),
    **{f"questions_{kind}": lambda reply: reply_questions(reply, "coding") for kind in ("coding", "math")},
    **dict.fromkeys(
        (
            "answer", "answer_full", "answer_full_released", "answer_turns", "assistant_answer", "biography",
            "dialogue_summary", "episodic_keys", "meme_answer", "meme_session_assistant", "meme_session_user",
            "plan_summary", "readagent_gist", "scratchpad_compress", "scratchpad_notes", "user_followup", "user_reply",
            *(name for name in prompt_ids() if name.startswith("memorycode_")),
        ),
        SPEECH,
    ),
}  # fmt: skip
"""How the reply to each prompt is read, once it has passed the model that asks again."""


def used(prompt_id: str, reply: str) -> object:
    prompt = Prompt(prompt_id, dict.fromkeys(prompt_file(prompt_id).variables, "12"))
    try:
        text = run(RetryingModel(Says(reply)).complete(prompt)).text
    except ModelError:
        return None
    return READERS[prompt_id](text)


def forms(prompt_id: str) -> Iterator[str]:
    """Yield what a prompt shows as JSON, whole, from its start to everywhere, and with other literals in place."""
    for part in static_texts(prompt_file(prompt_id)):
        for found in found_json(part):
            if len(found.text.split()) > 1:
                yield from (found.text[:end] for end in range(2, len(found.text) + 1))
                yield f"```json\n{found.text}\n```"
                yield f"Sure! Here it is:\n{found.text}\nI hope this helps."


def altered_forms(prompt_id: str) -> Iterator[str]:
    """Yield forms with literals in place of their alternatives, their stand-ins cut, shortened or in other signs."""
    for form in forms(prompt_id):
        if not (form.startswith("{") and form.endswith("}") and ': "' in form):
            continue  # without a text that stands for something, literals in place make a reply
        literal = re.sub(r": ([\w.]+)(?: or [\w.]+)+", r": \1", form)
        yield from (literal, form + form, f"{form}\n{literal}", literal.replace('."', '"').upper())
        for text in re.findall(r'"((?:[\w\',-]+ ){3,}[\w.]+)"', literal):
            words = text.split()
            for other in (words[:2], words[2:], [*words[:2], *words[3:]], [*words[:-2], "so"]):
                yield literal.replace(text, " ".join(other))


def parts(prompt_id: str) -> Iterator[str]:
    """Yield the rendered prompt, its own texts, and their paragraphs and lines that are more than a word or two."""
    prompt = Prompt(prompt_id, dict.fromkeys(prompt_file(prompt_id).variables, "12"))
    yield "\n\n".join(message["content"] for message in prompt.messages)
    for text in static_texts(prompt_file(prompt_id)):
        pieces = [text, *text.split("\n\n"), *text.split("\n"), *re.split(r"(?<=[.:]) ", text)]
        yield from (piece for piece in pieces if len(piece.strip("`*- ").split()) >= 4)


def test_every_prompt_has_a_reader() -> None:
    assert set(READERS) == set(prompt_ids())


@pytest.mark.parametrize("prompt_id", prompt_ids())
def test_a_prompt_that_is_repeated_in_whole_or_in_part_is_no_reply(prompt_id: str) -> None:
    for echo in [*parts(prompt_id), *forms(prompt_id), *altered_forms(prompt_id)]:
        assert not used(prompt_id, echo), echo


@pytest.mark.parametrize("prompt_id", prompt_ids())
def test_no_example_in_a_prompt_could_be_the_true_reply_to_it(prompt_id: str) -> None:
    """A list of piece numbers that the prompt shows as an example would be taken for an echo of it."""
    for part in static_texts(prompt_file(prompt_id)):
        for found in found_json(part):
            rest = re.sub(r'"[^"]*":|[\s\[\]{},]', "", found.text)  # without names of fields
            assert not re.fullmatch(r"(?:\d|null|true|false)+", rest), found


@pytest.mark.parametrize(
    ("prompt_id", "reply"),
    [
        ("align_batch", '{"1": [2], "2": [], "3": [1]}'),
        ("filter_batch", "[2, 5]"),
        ("readagent_lookup", "[8, 11]"),
        ("meme_annotation", '{"lines": {"1": 2, "2": null}}'),
    ],
)
def test_a_reply_of_numbers_alone_is_no_echo(prompt_id: str, reply: str) -> None:
    assert used(prompt_id, reply)


@pytest.mark.parametrize(
    "reply",
    [
        '{"score": 1.0 or 0.5 or 0.0, "reason": "met"}',
        '{"score": 0.0 or 1.0, "reason": "met"}',
        '{"score": <1.0>, "reason": "met"}',
        '{"score": "1.0 or 0.5 or 0.0", "reason": "met"}',
        '{"score": [1.0, 0.5, 0.0], "reason": "met"}',
        '{"score": 1.0/0.5/0.0, "reason": "met"}',
        '{"score": 0.5/1, "reason": "met"}',
        '{"score": 1.0 | 0.5 | 0.0, "reason": "met"}',
        '{"score": (1.0), "reason": "met"}',
        '{"score": {1.0}, "reason": "met"}',
        '{"score": 1.0?, "reason": "met"}',
        '{"score": ~1.0, "reason": "met"}',
        '{"score": 1.0 (full), "reason": "met"}',
        '{"score": 0,5, "reason": "met"}',
        '{"score": 1.0-0.5, "reason": "met"}',
        '{"score": 1.0.0, "reason": "met"}',
        '{"score": 01, "reason": "met"}',
        '{"score": 1.0 0.5, "reason": "met"}',
        '{"score": 1.0\n0.5, "reason": "met"}',
        '{"score": "1.0" or "0.5", "reason": "met"}',
        '{"score": , "reason": "1.0"}',
        '{"score": "one", "reason": "met"}',
        '{"score": 1.0, "reason": "in detail, whether the criterion was met and why that earns this score"}',
        '{"score": 0.0, "reason": "In detail, whether the criterion was met"}',
        '{"score": 0.0, "reason": "In detail: whether the criterion was met and why that earns this score."}',
        "{'score': 0.5, 'reason': 'in detail, whether the criterion was met and why that earns this score'}",
        '{"score": 1.0, "reason": "in detail whether the criterion was met, and why this earns the score"}',
        '{"score": 1.0, "reason": "in detail"}',
        '{"score": 1.0, "reason": "<your reason>"}',
        '{"score": 1.0, "reason": "[explanation]"}',
        '{"score": 1.0, "reason": "..."}',
        '{"score": 1.0, "reason": "reason"}',
        '{"score": "1/1", "reason": "met"}',
        '{"score": "100%", "reason": "met"}',
        '{"score": 100%, "reason": "met"}',
        '{"score": "fully met", "reason": "met"}',
        '{"score": "1.0 or 0.5", "reason": "met"}',
        '{"score": true, "reason": "met"}',
        '{"score": 0.75, "reason": "met"}',
        '{"score": ½, "reason": "met"}',
        '{"score": 1.0, "score": 0.5, "reason": "met"}',
        '{"score": 1.0, "reason": "met"}\n{"score": 0.5, "reason": "in part"}',
        '{"score": 1.0 or 0.5 or 0.0, "reason": "in detail"}\n{"score": 1.0, "reason": "met"}',
    ],
)
def test_a_verdict_is_one_literal_number_and_a_reason_of_the_judges_own(reply: str) -> None:
    assert read_score(reply)[0] is None


@pytest.mark.parametrize(
    "value", ["true or false", "true/false", "<true>", "1", '"yes"', "[true]", "true?", "null", "tru"]
)
def test_a_verdict_of_meme_is_one_literal(value: str) -> None:
    assert meme_reader("cascade")(f'{{"pass": {value}, "reason": "both names are given"}}') is None
    assert meme_reader("cascade")('{"pass": true, "reason": "one sentence"}') is None
    assert meme_reader("cascade")('{"pass": true, "reason": "both names are given"}') is True
