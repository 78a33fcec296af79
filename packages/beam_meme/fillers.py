"""Filler sessions: which agree with every episode of a domain, where they are from, and how they go between the others.

They are the offline author's conversations, cut into sessions, or a folder of the user's. Three kinds of conflict with
an episode are looked for by rules. A model, where there is one, judges what the rules leave: for every sentence that
could be gold the ten nearest fillers by BM25 and the ten nearest by static vectors. Any conflict removes a filler; of
the offline author's conversations, single turns are removed by the rules before they are cut into sessions.

A gap lies before each of the four sessions that introduce something, before the questions before the change, and after
the session with the change: six in all. Tokens are counted by `beamlib.text.count_tokens` everywhere, and never by
cl100k: the same seed has to give the same bytes where tiktoken is missing.

("MEME", arXiv 2605.12477, sections 1, 2.4 and 2.5 of the fact sheet; there text-embedding-3-small and GPT-4o-mini.)
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast, get_args

from pydantic import BaseModel, StrictBool
from tqdm import tqdm

from beam_generate.seeds import general_domains, make_story
from beam_generate.shapes import Story, Timeline
from beam_meme.domains import bank_of, gold_sentences
from beam_meme.drawing import Drawn, blocked, gold_of
from beam_meme.episode_gold import EpisodeGold, LoadedEpisode
from beam_meme.episodes import DOMAINS, Domain, Episode, Line, Phase, Question, Round, Session, Variant
from beam_meme.telling import ToldSession
from beam_offline.author.author import OfflineAuthor
from beam_offline.author.word_bank import banks
from beamlib.data.checked_json import show
from beamlib.data.conversations import Role
from beamlib.errors import UserError
from beamlib.files import parse_json, read_text
from beamlib.llm.json_replies import read_json
from beamlib.llm.model import Completion, Model, ModelError, Prompt
from beamlib.llm.retrying import ReadReply, ask, gather
from beamlib.params import RunParameters, usual_parameters
from beamlib.retrieval.dense import DenseIndex
from beamlib.retrieval.encoder import embedded_encoder
from beamlib.retrieval.sparse import SparseIndex, tokenize
from beamlib.text import count_tokens, split_sentences

CONFLICT = "meme_filler_conflict"
"""Prompt id."""

Conflict = Literal["contradiction", "alternative", "confusion"]
"""A: the user says something that cannot be true beside the sentence. B: a value of the thing is given. C: the user
speaks of a thing of their own that goes by nearly the same name."""
CONFLICTS: tuple[Conflict, ...] = get_args(Conflict)
NEAREST = 10
"""Fillers that are judged for a sentence, of either kind of nearness."""

_WORD = re.compile(r"\w+")
_FIRST_PERSON = frozenset({"i", "my", "mine", "me", "we", "our", "ours", "us"})
_POSSESSIVE = frozenset({"my", "our"})
_BETWEEN = 2  # words between "my" and the thing, as in "my usual weekly plan"
_AGAIN = 'The first reply was not the JSON object asked for. Reply with {"contradiction", "alternative", "confusion"}.'


class Rules:
    """The three conflicts by rule, with anything that an episode of a domain can be about."""

    def __init__(self, domain: Domain) -> None:
        self._values: dict[str, list[list[str]]] = {}
        self._keywords: list[list[str]] = []
        self._stems: dict[str, str] = {}
        bank = bank_of(domain)
        self._heads = frozenset(self._stemmed(bank.heads))
        for one in bank.entities.values():
            self._keywords.append(self._stemmed(_words(one.keyword)))
            for words in map(_words, one.pool):
                self._values.setdefault(words[0], []).append(words)

    def conflict(self, lines: Iterable[Line]) -> Conflict | None:
        """The first conflict of what is said with any episode, None without one."""
        for line in lines:
            if self._names_value(_words(line.content)):
                return "alternative"
            if line.role == "user":
                for sentence in split_sentences(line.content):
                    if found := self._own(_words(sentence)):
                        return found
        return None

    def _names_value(self, words: Sequence[str]) -> bool:
        places = [place for place, word in enumerate(words) if word in self._values]
        return any(words[place : place + len(one)] == one for place in places for one in self._values[words[place]])

    def _own(self, words: Sequence[str]) -> Conflict | None:
        """What the user says of a thing of their own: under its whole keyword A, under a head of it alone C.

        A head that names it in other words is C whoever's it is: a user seldom says "my" of an insomnia.
        """
        stems = self._stemmed(words)
        spoken_of: Conflict | None = "confusion" if self._heads.intersection(stems) else None
        if not _FIRST_PERSON.intersection(words):
            return spoken_of
        near = {
            stem
            for place, word in enumerate(words)
            if word in _POSSESSIVE
            for stem in stems[place + 1 : place + 2 + _BETWEEN]
        }
        for keyword in self._keywords:
            if set(keyword) <= set(stems):
                return "contradiction"
            if keyword[-1] in near:
                return "confusion"
        return spoken_of

    def _stemmed(self, words: Sequence[str]) -> list[str]:
        for word, found in zip(new := [word for word in words if word not in self._stems], tokenize(new), strict=True):
            self._stems[word] = found[0] if found else word
        return [self._stems[word] for word in words]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


@dataclass(frozen=True)
class Checked:
    """The fillers that are left, in order; why others (or single turns) went, by name; pairs that a model judged."""

    free: tuple[Filler, ...]
    removed: tuple[tuple[str, Conflict], ...]
    judged: int = 0


def pool_of(domain: Domain, seed: int, folder: Path | None = None) -> Checked:
    """The fillers of a domain in which the rules find nothing, from a folder of the user's or the offline author.

    Of the author's conversations the turns with a conflict are left out before the conversations are cut.
    """
    rules = Rules(domain)
    if folder is not None:
        return by_rules(read_fillers(folder, domain), rules)
    told = offline_conversations(domain, seed)
    free: list[Filler] = []
    removed: list[tuple[str, Conflict]] = []
    for name, turns in tqdm(told, desc=f"fillers, {domain}", total=STORIES, disable=None, leave=False, delay=2):
        whole = [Filler(f"{name}, turn {number}", turn) for number, turn in enumerate(turns, start=1)]
        neutral = by_rules(whole, rules)
        free += cut(name, [one.lines for one in neutral.free], random.Random(f"meme fillers {seed} {name}"))
        removed += neutral.removed
    return Checked(tuple(free), tuple(removed))


def by_rules(fillers: Sequence[Filler], rules: Rules) -> Checked:
    """Those of `fillers` in which the rules find nothing."""
    found = [(one, rules.conflict(one.lines)) for one in fillers]
    removed = tuple((one.name, conflict) for one, conflict in found if conflict)
    return Checked(tuple(one for one, conflict in found if conflict is None), removed)


async def by_model(fillers: Sequence[Filler], domain: Domain, model: Model) -> Checked:
    """Those of `fillers` in which `model` finds nothing beside the sentences that they are near to.

    Where it gives no readable verdict the filler goes: there are others. A `ModelError` that may pass is raised.
    """
    pairs = nearest(fillers, gold_sentences(domain))
    verdicts = await gather(_judge(model, _prompt(*pair)) for pair in pairs)
    removed = {one.name: conflict for (_, one), conflict in zip(pairs, verdicts, strict=True) if conflict}
    free = tuple(one for one in fillers if one.name not in removed)
    return Checked(free, tuple(sorted(removed.items())), len(pairs))


def verdict_prompts(fillers: Sequence[Filler], domain: Domain) -> list[Prompt]:
    """What `by_model` asks."""
    return [_prompt(*pair) for pair in nearest(fillers, gold_sentences(domain))]


def nearest(fillers: Sequence[Filler], sentences: Sequence[str]) -> list[tuple[str, Filler]]:
    """Each sentence with the `NEAREST` fillers by words and by vectors."""
    if not fillers:
        return []
    texts = [[one.text] for one in fillers]
    indexes = (SparseIndex(texts), DenseIndex(texts, embedded_encoder()))
    found: list[tuple[str, Filler]] = []
    for sentence in sentences:
        owners = {hit.owner for index in indexes for hit in index.search(sentence, NEAREST)}
        found += [(sentence, fillers[owner]) for owner in sorted(owners)]
    return found


def _prompt(sentence: str, filler: Filler) -> Prompt:
    session = "\n\n".join(f"{line.role.upper()}: {line.content}" for line in filler.lines)
    return Prompt(CONFLICT, {"sentence": sentence, "session": session}, f"filler {filler.name}")


async def _judge(model: Model, prompt: Prompt) -> Conflict | None:
    def read(reply: Completion, attempt: int) -> ReadReply[dict[str, bool] | None]:
        found = read_verdict(reply.text)
        return found, _AGAIN if found is None else None

    try:
        verdict = await ask(model, prompt, read)
    except ModelError as error:
        if error.transient:
            raise
        verdict = None
    if verdict is None:
        return CONFLICTS[0]
    return next((one for one in CONFLICTS if verdict[one]), None)


class _ConflictReply(BaseModel):
    """The reply to `meme_filler_conflict`."""

    contradiction: StrictBool
    alternative: StrictBool
    confusion: StrictBool


def read_verdict(text: str) -> dict[str, bool] | None:
    """The verdict of a reply on all three conflicts, None without one."""
    reply, _ = read_json(text, _ConflictReply, strict=True, prompt=CONFLICT)
    return {one: getattr(reply, one) for one in CONFLICTS} if reply else None


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


_Turn = tuple[Line, ...]
"""A question with its answer and what follows from it: the smallest part that can stand alone."""


def offline_conversations(domain: Domain, seed: int) -> Iterator[tuple[str, list[_Turn]]]:
    """The offline author's conversations for a domain, by name: each a list of turns.

    Without those in which its user gives a name, the introduction first of all: it says where they live and work too.
    """
    parameters = usual_parameters("100K", generation_seed=seed)
    for number in range(1, STORIES + 1):
        story = _story(parameters, domain, number)
        script = OfflineAuthor(story).script(0)
        named = re.compile("|".join(rf"\b{re.escape(part)}\b" for part in story.profile.name.split()))
        turns: list[_Turn] = []
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


def cut(name: str, turns: Sequence[_Turn], rng: random.Random) -> list[Filler]:
    """A conversation in sessions of `LEAST` to `MOST` tokens, between turns; what is shorter or longer is dropped."""
    parts = [part for part in _parts(turns, rng) if LEAST <= _tokens(part) <= MOST]
    return [Filler(f"{name}, session {number}", part) for number, part in enumerate(parts, start=1)]


def _parts(turns: Sequence[_Turn], rng: random.Random) -> Iterator[tuple[Line, ...]]:
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


GAP_TOKENS: Mapping[Variant, int] = {"nofiller": 0, "filler32k": 7_000, "filler128k": 25_000}
"""The most tokens that the fillers of a gap have together."""

_START = datetime(2023, 3, 1, 9)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # strftime would ask the locale
_STEP, _WAIT = (2, 48), (2, 24)
"""Hours from a session to the next, and from the last one to the questions after the change: the least and the most."""


def haystack(
    drawn: Drawn, told: Sequence[ToldSession], pool: Sequence[Filler], variant: Variant, rng: random.Random
) -> LoadedEpisode:
    """The episode with its gold: `told` are its sessions in order, the one with the change last.

    No filler stands twice in an episode, and none that `drawing.blocked` says anything against. A pool with too few is
    a `UserError`.
    """
    gaps = _gaps(drawn, pool, variant, len(told) + 1, rng)
    order: list[ToldSession | Filler] = []
    for one, gap in zip(told[:-1], gaps[: len(told) - 1], strict=True):
        order += [*gap, one]
    order += gaps[-2]
    before = len(order)
    order += [told[-1], *gaps[-1]]
    gold = gold_of(
        drawn,
        {
            index: (place, line)
            for place, one in enumerate(order)
            if isinstance(one, ToldSession)
            for index, line in one.places.items()
        },
    )
    return LoadedEpisode(_episode(drawn, gold, [one.lines for one in order], before, rng), gold, variant)


def _episode(
    drawn: Drawn, gold: EpisodeGold, talks: Sequence[tuple[Line, ...]], before: int, rng: random.Random
) -> Episode:
    times = [_START]
    for _ in talks[1:]:
        times.append(times[-1] + _hours(*_STEP, rng))
    sessions = tuple(
        Session(f"{drawn.id}-s{number:03d}", stamp(time), lines)
        for number, (time, lines) in enumerate(zip(times, talks, strict=True))
    )
    after = times[-1] + _hours(*_WAIT, rng)
    first = Round(before, sessions[before - 1].timestamp, _questions(gold, "before"))
    return Episode(drawn.id, drawn.domain, sessions, first, Round(len(talks), stamp(after), _questions(gold, "after")))


def _questions(gold: EpisodeGold, phase: Phase) -> tuple[Question, ...]:
    return tuple(Question(name, one.question) for name, one in gold.questions.items() if one.phase == phase)


def stamp(time: datetime) -> str:
    """A date as released: `2023/03/01 (Wed) 09:00`."""
    return f"{time:%Y/%m/%d} ({_DAYS[time.weekday()]}) {time:%H:%M}"


def _hours(least: int, most: int, rng: random.Random) -> timedelta:
    return timedelta(minutes=rng.randint(60 * least, 60 * most))


def _gaps(drawn: Drawn, pool: Sequence[Filler], variant: Variant, count: int, rng: random.Random) -> list[list[Filler]]:
    """Fillers for each gap: as many as fit, in an order drawn; the first that does not fit begins the next gap."""
    room = GAP_TOKENS[variant]
    against = _blocking(blocked(drawn))
    free = [one for one in pool if one.tokens <= room and not against.search(one.said)] if room else []
    rng.shuffle(free)
    waiting = deque(free)
    found: list[list[Filler]] = []
    for _ in range(count):
        gap: list[Filler] = []
        while waiting and sum(one.tokens for one in gap) + waiting[0].tokens <= room:
            gap.append(waiting.popleft())
        found.append(gap)
    if room and not waiting:
        raise UserError(
            f"{variant}: of {len(pool):,} fillers only {len(free):,} fit and agree with episode {drawn.id}, too few "
            f"for {count} gaps of {room:,} tokens; give more of them."
        )
    return found


def _blocking(phrases: Sequence[str]) -> re.Pattern[str]:
    """Finds any of `phrases` as words, in any case and spacing; of none, finds nothing."""
    written = [r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases]
    return re.compile(rf"(?<!\w)(?:{'|'.join(written) or '(?!)'})(?!\w)", re.IGNORECASE)
