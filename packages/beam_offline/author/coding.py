"""Code in messages of the domain Coding: templates of `banks/snippets.toml`, filled with identifiers.

A slot is `«list»` or `«list:form»`; the form says how the word is written. Lists are those of `[words]` and
`entity`, which each title has of its own.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from functools import cache

from pydantic import BaseModel, ConfigDict, Field

from beam_offline.author.answers import AnswerDraft, Exercise
from beam_offline.author.grammar import plural
from beam_offline.author.scenario import Scenario
from beam_offline.author.word_bank import read_bank

_NAMED = re.compile(r"^\s*(?:async )?(?:def|function|func|class) (\w+)", re.MULTILINE)
_SLOT = re.compile(r"«(\w+)(?::(\w+))?»")
LANGUAGES = {"numpy": "python", "flask": "python", "node": "javascript", "browser": "javascript"}


class _Snippet(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Snippet(_Snippet):
    """One template; the fields are explained at the top of the file."""

    id: str
    kind: str
    wanted: str
    broken: str
    error: str = ""
    line: int = 0
    symptom: str = ""
    fixed: str
    why: str
    test: str = ""
    check: str
    slow: str = ""
    faster: str = ""
    gain: str = ""


class _Suits(_Snippet):
    kinds: list[str]
    entity: list[str] = Field(min_length=8)


class _Library(_Snippet):
    words: dict[str, list[str]]
    titles: dict[str, _Suits]
    snippets: list[Snippet] = Field(min_length=36)


@cache
def library() -> _Library:
    """Read all templates and words."""
    return read_bank(_Library, "snippets")


def suits(title: str) -> _Suits:
    """Return what suits a title of Table 5. Any other title gets what the first has."""
    titles = library().titles
    return titles[title] if title in titles else next(iter(titles.values()))


def draw_words(title: str, rng: random.Random) -> dict[str, str]:
    """Draw a word for every list."""
    return {name: rng.choice(words) for name, words in {**library().words, "entity": suits(title).entity}.items()}


def filled(text: str, words: Mapping[str, str]) -> str:
    """Fill the slots of `text` and strip line breaks at its ends."""
    return _SLOT.sub(lambda slot: _written(words[slot[1]], slot[2] or ""), text).strip("\n")


@cache
def _written(word: str, form: str) -> str:
    """Write `word` in a form: plural `s`, camelCase `c`, PascalCase `P`, kebab-case `k`, blanks `w`; also `cs`, `Ps`"""
    if form.endswith("s"):
        head, mark, last = word.rpartition("_")
        word = f"{head}{mark}{plural(last)}"
    parts = word.split("_")
    match form.removesuffix("s"):
        case "c":
            return parts[0] + "".join(part.capitalize() for part in parts[1:])
        case "P":
            return "".join(part.capitalize() for part in parts)
        case "k":
            return "-".join(parts)
        case "w":
            return " ".join(parts)
    return word


def coding_exercises(scenario: Scenario, rng: random.Random) -> Iterator[Exercise]:
    """Yield code that fails, is slow or is missing, with the answer's part on it: every template in turn."""
    kinds = suits(scenario.title.title).kinds
    snippets = [one for one in library().snippets if one.kind in kinds]
    while True:
        yield from (_exercise(scenario, snippet, rng) for snippet in rng.sample(snippets, len(snippets)))


def _exercise(scenario: Scenario, snippet: Snippet, rng: random.Random) -> Exercise:
    title = scenario.title.title
    words, form = draw_words(title, rng), rng.choice(("broken", "broken", "slow", "wanted"))
    form = "broken" if form == "slow" and not snippet.slow else form
    language = LANGUAGES.get(snippet.kind, snippet.kind)

    def fenced(text: str) -> str:
        return f"```{language}\n{filled(text, words)}\n```"

    error = filled(snippet.error, words)
    scope = {
        "error": f"`{error}`" if error else "",
        "line": str(snippet.line),
        "symptom": _small(filled(snippet.symptom, words)),
        "wanted": filled(snippet.wanted, words),
        "person": rng.choice(scenario.people[0]),
    }
    shape = form if form != "broken" else "error" if error else "symptom"
    said = scenario.grammar.say(f"code_{shape}", scope, rng)
    message = said if form == "wanted" else f"{said}\n{fenced(getattr(snippet, form))}"

    def answer(draft: AnswerDraft) -> list[str]:
        cure = filled(snippet.faster if form == "slow" else snippet.fixed, words)
        named = _NAMED.search(cure)
        said = scope | {
            "place": f"`{named[1]}`" if named else f"the part with the {filled('«entity:ws»', words)}",
            "reason": _small(filled(snippet.gain if form == "slow" else snippet.why, words)),
            "check": _small(filled(snippet.check, words)),
        }  # fmt: skip
        lead = {"wanted": "code_draft", "slow": "code_gain"}.get(form, "code_why")
        return [draft.say(lead, **said), f"```{language}\n{cure}\n```", draft.say("code_check", **said)]

    return Exercise(message, answer)


def _small(text: str) -> str:
    """A sentence as it goes on within another; an identifier or an abbreviation keeps its letters."""
    return text if text[1:2].isupper() or not text[:1].isalpha() else text[:1].lower() + text[1:]
