"""Sessions in which nothing of an episode is told: from the offline author's conversations, or a folder of the user's.

Of either only what agrees with every episode of the domain may be used; `beam_meme.filler_check` sees to that.

("MEME", arXiv 2605.12477, section 2.5 of the fact sheet: chats of everyday life for Personal Life, of programmers for
Software Project. Ours are told apart by subject in the same way.)
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_args

from beam_generate.seeds import general_domains, make_story
from beam_generate.shapes import Story, Timeline
from beam_meme.episodes import DOMAINS, Domain, Line
from beam_offline.author.author import OfflineAuthor
from beam_offline.author.word_bank import banks
from beamlib.data.checked_json import show
from beamlib.data.conversations import Role
from beamlib.errors import UserError
from beamlib.files import parse_json, read_text
from beamlib.params import RunParameters, usual_parameters
from beamlib.text import count_tokens

LEAST, MOST = 1_500, 4_000
"""Tokens of a session of the offline author."""

_USUAL_MOST = 3_000  # a session ends with the first turn that reaches a goal drawn between LEAST and this
STORIES = 7
"""Conversations behind a pool: some 25 to 35 sessions each, once turns are left out. An episode of 128K needs 60."""

_FIRST_DAY = date(2023, 3, 1)  # of the sessions' dates, so that a day told in a filler is not years away
_MOST_FILES, _MOST_TOGETHER, _MOST_BYTES, _MOST_LINES = 20_000, 1 << 28, 1 << 20, 1_000
"""Bounds of a folder of fillers: files, bytes of all and of one, lines of a session."""


@dataclass(frozen=True)
class Filler:
    """A neutral session. `name` is where it comes from, for the record and for sentences."""

    name: str
    lines: tuple[Line, ...]

    @cached_property
    def tokens(self) -> int:
        """Tokens of all that is said, by `beamlib.text.count_tokens`."""
        return sum(count_tokens(line.content) for line in self.lines)

    @cached_property
    def text(self) -> str:
        """All that is said, a line after the other."""
        return "\n".join(line.content for line in self.lines)

    @cached_property
    def said(self) -> str:
        """What the user says."""
        return "\n".join(line.content for line in self.lines if line.role == "user")


Turn = tuple[Line, ...]
"""A question with its answer and what follows from it: the smallest part that can stand alone."""


def offline_conversations(domain: Domain, seed: int) -> Iterator[tuple[str, list[Turn]]]:
    """The offline author's conversations for a domain, by name: each a list of turns.

    Without those in which its user gives a name, the introduction first of all: it says where they live and work too.
    """
    parameters = usual_parameters("100K", generation_seed=seed)
    for number in range(1, STORIES + 1):
        story = _story(parameters, domain, number)
        script = OfflineAuthor(story).script(0)
        named = re.compile("|".join(rf"\b{re.escape(part)}\b" for part in story.profile.name.split()))
        turns: list[Turn] = []
        for turn in script.all_turns:
            pairs = [(step.text, script.answer(turn, place).text) for place, step in enumerate(turn.steps)]
            lines = tuple(line for pair in pairs for line in map(Line, get_args(Role), pair))
            if not any(named.search(text) for text, _ in pairs):
                turns.append(lines)
        yield f"offline {domain} {number}", turns


def _story(parameters: RunParameters, domain: Domain, number: int) -> Story:
    known = [name for name in general_domains() if name in banks()]
    category = "Coding" if domain == "software_project" else known[(number - 1) % len(known)]
    story = make_story(parameters.model_copy(update={"domain": category}), number)
    start = _FIRST_DAY + timedelta(7 * (number - 1))
    return replace(story, timeline=Timeline(start, start + (story.timeline.end - story.timeline.start)))


def cut(name: str, turns: Sequence[Turn], rng: random.Random) -> list[Filler]:
    """A conversation in sessions of `LEAST` to `MOST` tokens, between turns; what is shorter or longer is dropped."""
    parts = [part for part in _parts(turns, rng) if LEAST <= _tokens(part) <= MOST]
    return [Filler(f"{name}, session {number}", part) for number, part in enumerate(parts, start=1)]


def _parts(turns: Sequence[Turn], rng: random.Random) -> Iterator[tuple[Line, ...]]:
    """Turns put together until a goal is reached, drawn anew for each part, or the next one would be too many."""
    held: tuple[Line, ...] = ()
    goal = rng.randint(LEAST, _USUAL_MOST)
    for turn in turns:
        if _tokens(held) >= goal or (held and _tokens(held + turn) > MOST):
            yield held
            held, goal = (), rng.randint(LEAST, _USUAL_MOST)
        held += turn
    yield held


def _tokens(lines: Sequence[Line]) -> int:
    return sum(count_tokens(line.content) for line in lines)


def read_fillers(folder: Path, domain: Domain) -> list[Filler]:
    """The sessions in a folder of the user's, by file name: each `*.json` is a list of `{"role", "content"}`.

    Where it has folders named like the domains, those in `domain`'s are taken, else those in the folder itself. Equal
    sessions count once. Other fields of a message are passed over. What cannot be read is a `UserError`.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: not a folder; name one that holds sessions as *.json files.")
    place = folder / domain if any((folder / name).is_dir() for name in DOMAINS) else folder
    paths = sorted(path for path in place.glob("*.json") if not path.name.startswith("."))
    if not paths:
        raise UserError(f"{place}: no *.json file; each session is one, a list of objects with role and content.")
    if len(paths) > _MOST_FILES or sum(map(_size, paths)) > _MOST_TOGETHER:
        raise UserError(
            f"{place}: {len(paths):,} files of {sum(map(_size, paths)):,} bytes, more than {_MOST_FILES:,} files or "
            f"{_MOST_TOGETHER:,} bytes; take some away."
        )
    found: dict[tuple[Line, ...], Filler] = {}
    for path in paths:
        lines = _read_lines(path)
        found.setdefault(lines, Filler(path.name, lines))
    return list(found.values())


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0  # reading says what is wrong with anything else


def _read_lines(path: Path) -> tuple[Line, ...]:
    if _size(path) > _MOST_BYTES:
        raise UserError(f"{path}: larger than {_MOST_BYTES:,} bytes, more than a session has; cut it into several.")
    try:
        value = parse_json(read_text(path).removeprefix("\ufeff"))
    except ValueError as error:
        raise UserError(f"{path}: {error}; correct it or take it away.") from None
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST_LINES:
        raise UserError(f"{path}: a session is a list of 1 to {_MOST_LINES:,} messages, not {show(value)}; correct it.")
    return tuple(_read_line(path, number, one) for number, one in enumerate(value, start=1))


def _read_line(path: Path, number: int, value: Any) -> Line:
    role, content = (value.get("role"), value.get("content")) if isinstance(value, dict) else (None, None)
    if role not in get_args(Role):
        known = " or ".join(get_args(Role))
        raise UserError(f"{path}: message {number}: `role` is {show(role)}; write {known}.")
    if not isinstance(content, str) or not content.strip():
        raise UserError(f"{path}: message {number}: `content` is {show(content)}; write the text of the message.")
    try:
        content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(
            f"{path}: message {number}: `content` holds half a character at position {error.start}; remove it."
        ) from None
    return Line(cast(Role, role), content)
