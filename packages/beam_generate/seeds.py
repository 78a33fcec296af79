"""Topic, people, days and sizes of a conversation, drawn from an explicit seed.

A tier has the released mixture of domains (20, 35, 35 and 10 conversations, of them 3, 5, 5, 3 about coding and 2, 5,
5, 2 about mathematics), in an order drawn from the seed; after the last it starts again. The first conversation of each
tier is general, and the first ones of the four tiers have four domains. The offline author writes some of the general
domains, language models write all.

The parameter files hold N, K and I of Table 6. M, the number of bullets, is not in the paper; it is the released
code's.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import get_args

from beam_generate.people import draw_people
from beam_generate.shapes import Layout, Story, Style, Timeline
from beamlib.data.conversations import SIZES, Seed, Size
from beamlib.data.published import table
from beamlib.errors import UserError
from beamlib.files import read_json
from beamlib.params import RunParameters
from beamlib.plugins import OfflineAuthors, plugins

MIXTURE: Mapping[Size, tuple[int, int, int]] = {
    "100K": (15, 3, 2),
    "500K": (25, 5, 5),
    "1M": (25, 5, 5),
    "10M": (5, 3, 2),
}
"""Released conversations of a size: general, coding, mathematics."""

_SPAN: Mapping[Size, tuple[int, int]] = {"100K": (60, 120), "500K": (180, 300), "1M": (240, 365), "10M": (730, 1095)}
"""Fewest and most days from the first to the last day."""

PRINTED_SIZE: Mapping[Size, str] = {"100K": "128K", "500K": "500K", "1M": "1M", "10M": "10M"}
"""Size -> its name in Tables 3 and 6."""

_TOKENS: Mapping[Size, int] = {"100K": 128_000, "500K": 500_000, "1M": 1_000_000, "10M": 10_000_000}
_CONVERSATIONS_100K = 20

_TOPICS = Path(__file__).with_name("topics.json")
_RELEASED: Mapping[str, str] = {
    "Career & Professional Development": "Career and Professional Development",
    "Legal & Administrative": "Legal and Administrative",
    "Philosophical & Ethical Discussion": "Philosophical or Ethical Discussion",
    "Therapy & Emotional Support": "Therapy and Emotional Support",
}
"""Domain in Table 5 -> released `category`, where they differ."""

_STYLES: Mapping[str, Style] = {"Coding": "coding", "Math": "math"}


def make_story(parameters: RunParameters, number: int, topic: Seed | None = None) -> Story:
    """Draw the story of conversation `number` (1-based) of a run from `generation_seed`; it has no biography yet.

    Args:
        parameters: Their `domain` (either spelling) and `title` choose the topic; an empty one is drawn. A title of
            Table 5 implies its domain.
        number: Which conversation of the run.
        topic: Use this topic instead.

    Raises:
        UserError: The topic or layout is not possible.
    """
    size, settings = parameters.size, parameters.generation
    seed = settings.generation_seed
    if topic is None:
        able = tuple(name for name in general_domains() if settings.authors or name in _word_bank().banks())
        topic = _seed_of(*_topic(size, number, seed, settings.domain.strip(), settings.title.strip(), able))
    if not settings.authors:
        _word_bank().bank(topic.category)  # raises for a domain that the offline author does not write
    people, style = draw_people(size, number, seed), style_of(topic.category)
    story = Story(
        size=size,
        number=number,
        seed=seed,
        style=style,
        topic=topic,
        profile=people.profile,
        core=people.core,
        newcomers=people.newcomers,
        timeline=_timeline(size, number, seed),
        layout=layouts_of(parameters)[style],
        strategy=parameters.generation.strategy,
    )
    check_days(story)
    return story


def topic_within_reach(topic: Seed) -> Seed:
    """Return the topic, or a general one of Table 5 if the offline author does not write its domain."""
    if topic.category in _word_bank().banks():
        return topic
    nearest = next(name for name in general_domains() if name in _word_bank().banks())
    return _seed_of(nearest, titles()[nearest][0])


def _word_bank() -> OfflineAuthors:
    return plugins().authors()


def render_topic(seed: Seed) -> str:
    """Render a seed for a prompt, without its empty fields."""
    lines = [f"Domain: {seed.category}", f"Title: {seed.title}"]
    if seed.theme:
        lines.append(f"Theme: {seed.theme}")
    if seed.subtopics:
        lines.append(f"Subtopics: {', '.join(seed.subtopics)}")
    return "\n".join(lines)


def _topic(size: Size, number: int, seed: int, domain: str, title: str, able: Sequence[str]) -> tuple[str, str]:
    """Choose domain and title; general domains are drawn from `able`."""
    every = ((domain, name) for domain, names in titles().items() for name in names)
    known = next((entry for entry in every if _plain(entry[1]) == _plain(title)), None)
    if title and not domain:
        if known is None:
            raise UserError(f"title {title!r:.120} is not one of Table 5's; give its domain as well.")
        return known
    if domain:
        category = parse_domain(domain)
        if title:
            return category, known[1] if known and known[0] == category else title
        return category, _title(category, size, seed, number - 1)
    order = _domains(size, seed, number, able)
    return order[-1], _title(order[-1], size, seed, order.count(order[-1]) - 1)


def _domains(size: Size, seed: int, number: int, able: Sequence[str]) -> list[str]:
    """Draw the domains of conversations 1 to `number` of a size, general ones from `able`."""
    general, coding, math = MIXTURE[size]
    first = random.Random(f"first domains {seed}").sample(list(able), len(SIZES))[SIZES.index(size)]
    rest = [name for name in able if name != first]
    random.Random(f"general domains {seed} {size}").shuffle(rest)
    cycle, used = [first, *rest], 0
    order: list[str] = []
    while len(order) < number:
        styles = ["general"] * (general - 1) + ["Coding"] * coding + ["Math"] * math
        random.Random(f"styles {seed} {size} {len(order)}").shuffle(styles)
        for style in ["general", *styles]:
            if style == "general":
                order.append(cycle[used % len(cycle)])
                used += 1
            else:
                order.append(style)
    return order[:number]


def _title(category: str, size: Size, seed: int, occurrence: int) -> str:
    """Draw the title of a domain's `occurrence`-th (0-based) conversation; titles repeat only after all were used."""
    names = list(titles()[category])
    random.Random(f"titles {seed} {category}").shuffle(names)
    return names[(occurrence + SIZES.index(size)) % len(names)]


def _seed_of(category: str, title: str) -> Seed:
    """Add theme and subtopics to a title of Table 5: the offline author's, else those of `topics.json`."""
    if category in _word_bank().banks():
        bank = _word_bank().bank(category)
        if any(entry.title == title for entry in bank.titles):
            known = bank.titled(title)
            return Seed(category, title, known.theme, tuple(known.subtopics))
    return _more_topics().get((category, title), Seed(category, title))


@cache
def _more_topics() -> Mapping[tuple[str, str], Seed]:
    seeds = [Seed(row["category"], row["title"], row["theme"], tuple(row["subtopics"])) for row in read_json(_TOPICS)]
    return {(seed.category, seed.title): seed for seed in seeds}


def _timeline(size: Size, number: int, seed: int) -> Timeline:
    rng = random.Random(f"timeline {seed} {size} {number}")
    start = date(2024, 1, 1) + timedelta(rng.randrange(366))
    least, most = _SPAN[size]
    return Timeline(start, start + timedelta(rng.randrange(least, most + 1)))


@cache
def titles() -> Mapping[str, tuple[str, ...]]:
    """Return the titles of each domain (released spelling) in the order of Table 5."""
    names: dict[str, list[str]] = {}
    for row in table("table5").itertuples():
        domain = str(row.domain)
        names.setdefault(_RELEASED.get(domain, domain), []).append(str(row.title))
    return {domain: tuple(some) for domain, some in names.items()}


def domains() -> tuple[str, ...]:
    """Return all domains in the order of Table 5, spelled as released."""
    return tuple(titles())


def general_domains() -> tuple[str, ...]:
    """Return the seventeen domains other than coding and mathematics."""
    return tuple(domain for domain in domains() if style_of(domain) == "general")


def style_of(domain: str) -> Style:
    """Return the style in which a domain's plans and questions are written."""
    return _STYLES.get(domain, "general")


def parse_domain(text: str) -> str:
    """Return the domain that `text` names in either spelling and any case, else raise `UserError` with a list."""
    spellings = {_plain(name): name for name in domains()}
    spellings |= {_plain(printed): released for printed, released in _RELEASED.items()}
    if (plain := _plain(text)) not in spellings:
        raise UserError(f"domain {text!r:.80} does not exist; choose one of: {', '.join(domains())}.")
    return spellings[plain]


def _plain(text: str) -> str:
    """Normalize a name: "Career & Professional" and "career and professional" are the same domain."""
    return " ".join(text.casefold().replace("&", " and ").split())


@dataclass(frozen=True, slots=True)
class Targets:
    """Target size of a conversation: tokens, and the published means per conversation.

    `turns` counts main questions, `answered` replies to the assistant's questions, `followups` follow-up questions.
    """

    tokens: int
    turns: float
    answered: float
    followups: float


def layouts_of(parameters: RunParameters) -> dict[Style, Layout]:
    """Return N, M, K and I for each style.

    Raises:
        UserError: A sub-plan has more groups than bullets.
    """
    settings = parameters.generation
    numbers = zip(
        settings.subplans, settings.bullets_per_subplan, settings.batches_per_subplan, settings.questions_per_batch,
        strict=True,
    )  # fmt: skip
    layouts: dict[Style, Layout] = {style: Layout(*four) for style, four in zip(get_args(Style), numbers, strict=True)}
    for style, layout in layouts.items():
        if layout.groups > layout.bullets:
            raise UserError(
                f"batches_per_subplan is {layout.groups} and bullets_per_subplan {layout.bullets} for {style} "
                f"conversations of {parameters.size}: a batch needs a bullet; give at most {layout.bullets} batches."
            )
    return layouts


def check_days(story: Story) -> None:
    """Check that a plan has more days than sub-plans: each sub-plan has a day of its own.

    Raises:
        UserError: A plan has too few days.
    """
    days = ((story.timeline.end - story.timeline.start).days + 1) // story.plans
    if story.layout.subplans >= days:
        raise UserError(
            f"subplans is {story.layout.subplans} for {story.style} conversations, but a plan of {story.size}-"
            f"{story.number} lasts {days} days, and each sub-plan needs one of its own; give at most {days - 1}."
        )


@cache
def targets(size: Size) -> Targets:
    """Return the targets of a size. Table 3's 216 follow-ups at 128K are the total of 20 chats: 10.8 each."""
    rows = table("table3")
    row = rows[rows.chat_size == PRINTED_SIZE[size]].iloc[0]
    followups = float(row.followup_questions)
    if size == "100K":
        followups /= _CONVERSATIONS_100K
    return Targets(_TOKENS[size], float(row.turns), float(row.answered_assistant_questions), followups)
