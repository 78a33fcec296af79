"""What stands before a conversation's first plan, drawn from an explicit seed.

Which domain a conversation has: a tier has the released mixture (20, 35, 35 and 10 conversations, of them 3, 5, 5, 3
about coding and 2, 5, 5, 2 about mathematics), in an order drawn from the seed, and begins anew after the last. The
first of each tier is general, and the four first ones of a seed are of four domains. Of the general domains the offline
author has some; models write all of them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from beam_generate.layouts import check_days, layouts_of
from beam_generate.people import draw_people
from beam_generate.reply_json import strings, text_of
from beam_generate.shapes import Story, Style, Timeline
from beamlib.data.conversations import SIZES, Seed, Size
from beamlib.data.published import table
from beamlib.errors import UserError
from beamlib.files import read_json
from beamlib.params import RunParameters

MIXTURE: Mapping[Size, tuple[int, int, int]] = {
    "100K": (15, 3, 2),
    "500K": (25, 5, 5),
    "1M": (25, 5, 5),
    "10M": (5, 3, 2),
}
"""Released conversations of a size: general, coding, mathematics."""

_SPAN: Mapping[Size, tuple[int, int]] = {"100K": (60, 120), "500K": (180, 300), "1M": (240, 365), "10M": (730, 1095)}
"""Days from the first to the last day: the least and the most."""

_TOPICS = Path(__file__).with_name("topics.json")


def make_story(parameters: RunParameters, number: int, topic: Seed | None = None) -> Story:
    """The story of conversation `number` (1-based) of a run: topic, people and days, all from `generation_seed`.

    `domain` (either spelling) and `title` choose the topic; empty, they are drawn. A title of Table 5 brings its domain
    along; any other needs one. Theme and subtopics are ours where the title is one of Table 5's, else empty. `topic` is
    one from elsewhere, whole. The biography is still empty. A `UserError` names what is wrong, the layout included.
    """
    if number < 1:
        raise UserError(f"conversation number {number} is below 1; conversations count from 1.")
    size, seed = parameters.size, parameters.generation_seed
    if topic is None:
        able = tuple(name for name in general_domains() if parameters.authors or name in _written())
        topic = _seed_of(*_topic(size, number, seed, parameters.domain.strip(), parameters.title.strip(), able))
    if not parameters.authors:
        _word_banks().bank(topic.category)  # a domain that the offline author does not have
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
        strategy=parameters.strategy,
    )
    check_days(story)
    return story


def topic_within_reach(topic: Seed) -> Seed:
    """`topic`, or one of Table 5 that the offline author has where it lacks the domain (those are all general)."""
    if topic.category in _written():
        return topic
    nearest = next(name for name in general_domains() if name in _written())
    return _seed_of(nearest, titles()[nearest][0])


def _word_banks() -> Any:
    """What the offline author has words for: `bank(domain)`, and `banks()` by domain."""
    from beam_offline.author import word_bank  # reads all banks

    return word_bank


def _written() -> Mapping[str, str]:
    found: Mapping[str, str] = _word_banks().banks()
    return found


def render_topic(seed: Seed) -> str:
    """A seed as the prompts show it; what is empty is left out."""
    lines = [f"Domain: {seed.category}", f"Title: {seed.title}"]
    if seed.theme:
        lines.append(f"Theme: {seed.theme}")
    if seed.subtopics:
        lines.append(f"Subtopics: {', '.join(seed.subtopics)}")
    return "\n".join(lines)


def read_seed(entry: object, category: str) -> Seed | None:
    """A seed from an object of a model's JSON; None without a title. Subtopics may be one text."""
    if not isinstance(entry, dict):
        return None
    title = text_of(entry.get("title"))
    if not title:
        return None
    return Seed(category, title, text_of(entry.get("theme")), strings(entry.get("subtopics")))


def _topic(size: Size, number: int, seed: int, domain: str, title: str, able: Sequence[str]) -> tuple[str, str]:
    """Domain and title; where none is asked for, one of the general domains `able`, coding or mathematics."""
    known = find_title(title) if title else None
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
    """The domains of conversations 1 to `number` of a size, general ones among `able`."""
    general, coding, math = MIXTURE[size]
    first = random.Random(f"first domains {seed}").sample(list(able), len(SIZES))[SIZES.index(size)]
    rest = [name for name in able if name != first]
    random.Random(f"general domains {seed} {size}").shuffle(rest)
    cycle, used = [first, *rest], 0
    found: list[str] = []
    while len(found) < number:
        styles = ["general"] * (general - 1) + ["Coding"] * coding + ["Math"] * math
        random.Random(f"styles {seed} {size} {len(found)}").shuffle(styles)
        for style in ["general", *styles]:
            if style == "general":
                found.append(cycle[used % len(cycle)])
                used += 1
            else:
                found.append(style)
    return found[:number]


def _title(category: str, size: Size, seed: int, occurrence: int) -> str:
    """The title of a domain's `occurrence`-th (0-based) conversation: none returns before all have been used."""
    names = list(titles()[category])
    random.Random(f"titles {seed} {category}").shuffle(names)
    return names[(occurrence + SIZES.index(size)) % len(names)]


def _seed_of(category: str, title: str) -> Seed:
    if category in _written() and any(one.title == title for one in _word_banks().bank(category).titles):
        known = _word_banks().bank(category).titled(title)
        return Seed(category, title, known.theme, tuple(known.subtopics))
    return _elsewhere().get((category, title), Seed(category, title))


@cache
def _elsewhere() -> Mapping[tuple[str, str], Seed]:
    """The topics of Table 5 that the word banks do not have, by domain and title."""
    seeds = [Seed(one["category"], one["title"], one["theme"], tuple(one["subtopics"])) for one in read_json(_TOPICS)]
    return {(seed.category, seed.title): seed for seed in seeds}


def _timeline(size: Size, number: int, seed: int) -> Timeline:
    rng = random.Random(f"timeline {seed} {size} {number}")
    start = date(2024, 1, 1) + timedelta(rng.randrange(366))
    least, most = _SPAN[size]
    return Timeline(start, start + timedelta(rng.randrange(least, most + 1)))


_RELEASED: Mapping[str, str] = {
    "Career & Professional Development": "Career and Professional Development",
    "Legal & Administrative": "Legal and Administrative",
    "Philosophical & Ethical Discussion": "Philosophical or Ethical Discussion",
    "Therapy & Emotional Support": "Therapy and Emotional Support",
}
"""Where the released `category` differs from Table 5."""

_STYLES: Mapping[str, Style] = {"Coding": "coding", "Math": "math"}


@cache
def titles() -> Mapping[str, tuple[str, ...]]:
    """Domain (released spelling) -> its titles, both in the order of Table 5."""
    found: dict[str, list[str]] = {}
    for row in table("table5").itertuples():
        domain = str(row.domain)
        found.setdefault(_RELEASED.get(domain, domain), []).append(str(row.title))
    return {domain: tuple(names) for domain, names in found.items()}


def domains() -> tuple[str, ...]:
    """All domains in the order of Table 5, as released."""
    return tuple(titles())


def general_domains() -> tuple[str, ...]:
    """The seventeen domains that are neither coding nor mathematics."""
    return tuple(domain for domain in domains() if style_of(domain) == "general")


def style_of(domain: str) -> Style:
    """How a domain's plans and questions are written."""
    return _STYLES.get(domain, "general")


def parse_domain(text: str) -> str:
    """The domain meant by `text`, in either spelling and any case; a `UserError` lists the domains."""
    try:
        return _spellings()[_plain(text)]
    except KeyError:
        raise UserError(f"domain {text!r:.80} does not exist; choose one of: {', '.join(domains())}.") from None


def find_title(text: str) -> tuple[str, str] | None:
    """Domain and title of the Table 5 title that `text` spells in any case; None where there is none."""
    wanted = _plain(text)
    for domain, names in titles().items():
        for name in names:
            if _plain(name) == wanted:
                return domain, name
    return None


@cache
def _spellings() -> Mapping[str, str]:
    found = {_plain(domain): domain for domain in domains()}
    return found | {_plain(printed): released for printed, released in _RELEASED.items()}


def _plain(text: str) -> str:
    # "Career & Professional" and "Career and Professional" are one domain, however it is typed.
    return " ".join(text.casefold().replace("&", " and ").split())
