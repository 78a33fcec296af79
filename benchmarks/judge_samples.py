"""What the offline judge is trained and measured on: published verdicts, and answers made to be right or wrong."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import judge_changes as changes
from beam_offline.read_facts import find_dates, find_numbers
from beamlib.data.probes import SHAPES
from beamlib.text import token_spans

VERDICT_FILES: Final = {"1m-top200": "mem0_1m_top200.json.gz", "1m-top50": "mem0_1m_top50.json.gz"}
CHAT_TOKENS: Final = 1500
PAIRS: Final = 10


@dataclass(frozen=True, slots=True)
class Judged:
    """A nugget of a published answer with the verdict that it got."""

    run: str
    conversation: str
    ability: str
    probe: str
    question: str
    nugget: str
    answer: str
    score: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its reference answer and rubric."""

    conversation: str
    ability: str
    question: str
    reference: str
    rubric: tuple[str, ...]
    cited: tuple[int, ...]


def published_verdicts(data: Path) -> Iterator[Judged]:
    """Every nugget verdict of the two result files of mem0 at 1M, in the order of the files."""
    for run, name in VERDICT_FILES.items():
        for entry in json.loads(gzip.decompress((data / "field" / name).read_bytes()))["evaluations"]:
            (result,) = entry["cutoff_results"].values()
            for one in result["nugget_scores"]:
                yield Judged(
                    run,
                    f"1M-{entry['conversation_idx'] + 1}",
                    entry["question_type"],
                    entry["question_id"],
                    entry["question"],
                    one["nugget"],
                    result["generated_answer"],
                    one["score"],
                )


def _ids(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    for one in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _ids(one)


def questions(folder: Path, tier: str, number: int) -> list[Asked]:
    """The questions of one conversation; `folder` is laid out as the released data set is."""
    raw = json.loads((folder / tier / str(number) / "probing_questions" / "probing_questions.json").read_bytes())
    return [
        Asked(
            f"{tier}-{number}",
            ability,
            one["question"],
            str(one.get(SHAPES[ability].reference, "")),
            tuple(one["rubric"]),
            tuple(_ids(one.get("source_chat_ids", []))),
        )
        for ability, asked in raw.items()
        for one in asked
    ]


def messages(folder: Path, tier: str, number: int) -> list[tuple[str, str]]:
    """The messages of one conversation by role and text, in order."""
    found: list[tuple[str, str]] = []

    def walk(value: Any) -> None:
        if isinstance(value, Mapping) and "role" in value and "content" in value:
            found.append((str(value["role"]), str(value["content"]).split("->->")[0].strip()))
        else:
            for one in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
                walk(one)

    walk(json.loads((folder / tier / str(number) / "chat.json").read_bytes()))
    return found


# Answers made to be wrong ------------------------------------------------------------------------------------------


def has_figures(text: str) -> bool:
    """Whether a date or a number stands in `text`."""
    return bool(find_dates(text) or find_numbers(text))


def chat_text(said: Iterable[tuple[str, str]], marks: tuple[str, str] = ("", "")) -> str:
    """Messages as one text, each with its role's mark in front."""
    return "\n\n".join(f"{marks[role != 'user']}{text}" for role, text in said)


def first_tokens(said: Sequence[tuple[str, str]], marks: tuple[str, str] = ("", "")) -> str:
    """The first 1,500 tokens of a conversation."""
    text = chat_text(said[:40], marks)
    spans = token_spans(text)
    return text[: spans[min(CHAT_TOKENS, len(spans)) - 1][1]]


def random_pairs(
    said: Sequence[tuple[str, str]], choice: random.Random, count: int = PAIRS, marks: tuple[str, str] = ("", "")
) -> str:
    """Some pairs of messages, in order."""
    begins = [at for at, (role, _) in enumerate(said[:-1]) if role == "user" and said[at + 1][0] != "user"]
    chosen = sorted(choice.sample(begins, min(count, len(begins))))
    return chat_text([one for at in chosen for one in said[at : at + 2]], marks)


def pasted_context(
    said: Sequence[tuple[str, str]], cited: Sequence[int], choice: random.Random, marks: tuple[str, str] = ("", "")
) -> str:
    """What a retriever might hand on: the cited messages with those beside them, among others."""
    near = {at for one in cited for at in (one - one % 2, one - one % 2 + 1) if 0 <= at < len(said)}
    others = [at - at % 2 for at in choice.sample(range(len(said)), min(6, len(said)))]
    chosen = sorted(set(sorted(near)[:12]) | set(others) | {at + 1 for at in others if at + 1 < len(said)})
    return chat_text([said[at] for at in chosen], marks)


# Samples with a verdict -------------------------------------------------------------------------------------------

Row = tuple[str, str, str, str, str, str, float]
"""Kind, conversation, ability, question, nugget, answer, verdict."""

MARKS: Final = (("", ""), ("User: ", "Assistant: "), ("[user] ", "[assistant] "))


def made_from_references(asked: Sequence[Asked], choice: random.Random) -> Iterator[Row]:
    """Reference answers, and what was made of them to be wrong, against their own rubrics."""
    for at, one in enumerate(asked):
        if not one.reference:
            continue
        other = asked[choice.randrange(len(asked))]
        answers = {
            "reference": (one.reference, 1.0),
            "negated": (changes.negated(one.reference, choice.randrange(2)), 0.0),
            "denied": (changes.negated(one.reference, choice.randrange(2, 5)), 0.0),
            "denied in words": (changes.framed(one.reference, [choice.choice(changes.NEGATIONS_TRAINED)], choice), 0.0),
            "hedged": (changes.framed(one.reference, [choice.choice(changes.HEDGES_TRAINED)], choice), 0.0),
            "shuffled": (changes.shuffled(one.reference, choice), 0.0),
            "instructions": (choice.choice(("", f"{one.question} ")) + choice.choice(changes.INSTRUCTIONS), 0.0),
            "talk": (changes.with_talk(one.reference, choice), 1.0),
            "other": (other.reference, 0.0),
            "question": (one.question, 0.0),
            "do not know": ("I don't know.", float(one.ability == "abstention")),
        }
        if other.ability == one.ability == "abstention" or other.question == one.question:
            del answers["other"]
        if len(one.reference.split()) < 5:
            del answers["shuffled"]
        for kind, (answer, verdict) in answers.items():
            for nugget in one.rubric:
                yield kind, one.conversation, one.ability, one.question, nugget, answer, verdict
        yield from _from_nuggets(one, choice)
        change = _change(choice)
        changed = change(one.reference)
        for nugget in one.rubric:
            if change(nugget) != nugget and changed != one.reference:
                yield "numbers", one.conversation, one.ability, one.question, nugget, changed, 0.0
        nuggets = [nugget for two in asked if two.question != one.question for nugget in two.rubric]
        some = choice.sample(nuggets, min(len(nuggets), choice.choice((3, 6, 10, 20, 50))))
        stuffed = choice.choice(("; ", ". ", "\n- ", " ")).join(_SAID.sub("", nugget) for nugget in some)
        for nugget in one.rubric:
            yield "other nuggets", one.conversation, one.ability, one.question, nugget, stuffed, 0.0
        together = [two.reference for two in asked if two.reference]
        choice.shuffle(together)
        lines = "\n".join(f"- {line}" for line in together[: 6 + at % 14])
        for nugget in one.rubric:
            yield "pasted notes", one.conversation, one.ability, one.question, nugget, lines, 0.0


def _change(choice: random.Random) -> Callable[[str], str]:
    """A way of changing figures."""
    seed = choice.random()
    return choice.choice(
        (
            lambda text: changes.numbers_changed(text, int(1 + 10 * seed)),
            lambda text: changes.numbers_changed(text, 3),
            changes.doubled,
            lambda text: changes.other_digits(text, random.Random(seed)),
            lambda text: changes.months_moved(text, random.Random(seed)),
            lambda text: changes.in_words_changed(text, 1 + int(3 * seed)),
            changes.all_changed,
        )
    )


_SAID = re.compile(r"^.*?should (?:state|mention)s?:? *", re.IGNORECASE)
_CONFLICTS: Final = (
    "Your statements conflict.",
    "You have said both, which contradicts itself.",
    "There is a contradiction in what you told me. Which of the two is correct?",
    "I see contradictory statements about this: could you clarify which one is right?",
    "What you said is inconsistent, so I cannot tell; please confirm which is true.",
    "You gave conflicting information on this. Which statement is correct?",
)
_ABOUT = re.compile(r"contradictory information|statement is correct|no information")


def _from_nuggets(one: Asked, choice: random.Random) -> Iterator[Row]:
    """Nuggets in the place of answers: as they are, in the negative, with other numbers; a conflict named."""
    for nugget in one.rubric:
        rest = (one.conversation, one.ability, one.question, nugget)
        said = _SAID.sub("", nugget)
        if "contradictory information" in nugget or "statement is correct" in nugget:
            answer = choice.choice(_CONFLICTS)
            yield (
                "conflict",
                *rest,
                answer,
                float("contradictory" in nugget or " which " in answer.lower() or "Which" in answer),
            )
        if said == nugget or _ABOUT.search(nugget):
            continue
        yield "nugget", *rest, f"{said}.", 1.0
        yield "nugget negated", *rest, changes.negated(f"{said}.", choice.randrange(2)), 0.0
        if (changed := _change(choice)(said)) != said:
            yield "nugget numbers", *rest, f"{changed}.", 0.0


def made_from_chat(asked: Sequence[Asked], said: Sequence[tuple[str, str]], choice: random.Random) -> Iterator[Row]:
    """Pieces of a conversation in the place of answers."""
    for one in asked:
        marks = choice.choice(MARKS)
        answers = {
            "pairs": random_pairs(said, choice, marks=marks),
            "few pairs": random_pairs(said, choice, choice.randint(1, 5), marks),
            "chat": first_tokens(said, marks),
            "context": pasted_context(said, one.cited, choice, marks),
        }
        for kind, answer in answers.items():
            for nugget in one.rubric:
                yield kind, one.conversation, one.ability, one.question, nugget, answer, 0.0


_LISTED = re.compile(r"(?:^|[\s,;:])\d{1,2}[.)]\s+")


def reference_items(reference: str) -> list[str]:
    """The items of a reference that numbers its events within a sentence: "1) …, 2) …"."""
    return [part.strip(" ,;.") for part in _LISTED.split(reference)[1:]]
