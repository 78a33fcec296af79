"""The code of the domain Coding: templates of `banks/snippets.toml`, filled with identifiers and recognised again.

A slot is `«list»` or `«list:form»`; the form says how the word is written. Lists are those of `[words]` and
`entity`, which each title has of its own.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beamlib.errors import UserError
from beamlib.files import read_text
from beamlib.generate.author.bank import BANKS

_FILE = BANKS / "snippets.toml"
_SLOT = re.compile(r"«(\w+)(?::(\w+))?»")
_FENCED = re.compile(r"```\w*\n(.*?)\n```", re.DOTALL)
_LANGUAGES = {"numpy": "python", "flask": "python", "node": "javascript", "browser": "javascript"}
_NAMES = {"javascript": "JavaScript", "html": "HTML", "css": "CSS", "sql": "SQL", "yaml": "YAML"}

Form = Literal["broken", "slow", "fixed", "wanted"]
_SHOWN: tuple[Form, ...] = ("broken", "slow", "fixed")


class Snippet(BaseModel):
    """One template; the fields are explained at the top of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

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

    @property
    def language(self) -> str:
        """What stands behind the opening fence."""
        return _LANGUAGES.get(self.kind, self.kind)

    @property
    def language_name(self) -> str:
        """The language as it is written in a sentence."""
        return _NAMES.get(self.language, self.language.capitalize())


class _Suits(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    kinds: list[str]
    entity: list[str] = Field(min_length=8)


class _Library(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    words: dict[str, list[str]]
    titles: dict[str, _Suits]
    snippets: list[Snippet] = Field(min_length=36)


@cache
def library() -> _Library:
    """All templates and words; a `UserError` names the place that is wrong."""
    try:
        return _Library.model_validate(tomllib.loads(read_text(_FILE)))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{_FILE}: not valid TOML ({error}); correct it.") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{_FILE}: {place}: {first['msg']}; correct it.") from None


@cache
def snippets_for(title: str) -> tuple[Snippet, ...]:
    """The templates that suit a title of Table 5; another title gets those of the first."""
    kinds = _suits(title).kinds
    return tuple(one for one in library().snippets if one.kind in kinds)


def _suits(title: str) -> _Suits:
    titles = library().titles
    return titles[title] if title in titles else next(iter(titles.values()))


@cache
def _list(title: str, name: str) -> list[str]:
    return _suits(title).entity if name == "entity" else library().words[name]


@cache
def written(word: str, form: str) -> str:
    """`word` in a form: plural `s`, camelCase `c`, PascalCase `P`, kebab-case `k`, with blanks `w`; `cs`, `Ps`, ..."""
    if form.endswith("s"):
        word = _plural(word)
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


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"


def draw_words(title: str, rng: random.Random) -> dict[str, str]:
    """A word for every list."""
    return {name: rng.choice(_list(title, name)) for name in ("entity", *library().words)}


def filled(text: str, words: Mapping[str, str]) -> str:
    """`text` with its slots filled, without the line break at its ends."""
    return _SLOT.sub(lambda slot: written(words[slot[1]], slot[2] or ""), text).strip("\n")


def fenced(snippet: Snippet, text: str, words: Mapping[str, str]) -> str:
    """`text` filled, as a fenced block that names its language."""
    return f"```{snippet.language}\n{filled(text, words)}\n```"


def recognise(question: str, title: str, rng: random.Random) -> tuple[Snippet, Form, dict[str, str]] | None:
    """What a message shows or asks for: the template, which of its texts, and the words in it; None without any.

    A word that does not occur in the shown text is drawn from `rng`.
    """
    found = _FENCED.search(question)
    for snippet in snippets_for(title):
        for form in _SHOWN if found else ("wanted",):
            pattern, groups = _pattern(snippet.id, form, title)
            if pattern is None:
                continue
            match = pattern.fullmatch(found[1]) if found else pattern.search(question)
            if match is not None:
                words = draw_words(title, rng)
                for group, (name, base) in groups.items():
                    words[name] = base[match[group]]
                return snippet, form, words
    return None


@cache
def _pattern(
    snippet_id: str, form: Form, title: str
) -> tuple[re.Pattern[str] | None, dict[str, tuple[str, dict[str, str]]]]:
    """The template's text as a pattern, and for each of its groups the list and the words by how they are written."""
    snippet = next(one for one in library().snippets if one.id == snippet_id)
    text = getattr(snippet, form).strip("\n")
    if not text:
        return None, {}
    groups: dict[str, tuple[str, dict[str, str]]] = {}
    parts, end = [], 0
    for slot in _SLOT.finditer(text):
        parts.append(re.escape(text[end : slot.start()]))
        end = slot.end()
        group = f"{slot[1]}_{slot[2] or 'x'}"
        if group in groups:
            parts.append(f"(?P={group})")
            continue
        base = {written(word, slot[2] or ""): word for word in _list(title, slot[1])}
        groups[group] = (slot[1], base)
        # Longer words first: a word must not be taken for the beginning of another.
        parts.append(f"(?P<{group}>{'|'.join(re.escape(word) for word in sorted(base, key=len, reverse=True))})")
    parts.append(re.escape(text[end:]))
    return re.compile("".join(parts)), groups
