"""An episode put together: its sessions in their order with fillers between them, dates, questions and gold.

("MEME", arXiv 2605.12477, sections 2.4 and 2.5 of the fact sheet.) A gap lies before each of the four sessions that
introduce something, before the questions before the change, and after the session with the change: six in all. The
questions before the change and that session stand side by side. Tokens are counted by `beamlib.text.count_tokens`
everywhere, and never by cl100k: the same seed has to give the same bytes where tiktoken is missing.
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from beam_meme.drawing import Drawn, blocked, gold_of
from beam_meme.episode_gold import EpisodeGold, LoadedEpisode
from beam_meme.episodes import Episode, Line, Phase, Question, Round, Session, Variant
from beam_meme.fillers import Filler
from beam_meme.telling import ToldSession
from beamlib.errors import UserError

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
