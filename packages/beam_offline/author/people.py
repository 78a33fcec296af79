"""Who the user is and how much they talk: a biography by rule, and how often they reply and follow up."""

from __future__ import annotations

import random

from beam_generate.people import TYPES
from beam_generate.shapes import Profile, Story
from beam_offline.author.grammar import Grammar
from beam_offline.author.word_bank import common

_REPLIES = (3, 3, 4, 9, 10, 12, 12, 14, 15, 17, 25, 25, 33, 35, 38, 39, 47, 49, 62, 71)
_FOLLOWUPS = (2, 2, 2, 3, 3, 4, 5, 5, 6, 8, 8, 10, 11, 12, 13, 16, 18, 24, 24, 40)
"""Counts of the twenty released 100K chats, ascending: what a conversation's own count is drawn from, as a share of
their mean. Conversations of a run go through them evenly, so that their mean soon is Table 3's."""
_GOLDEN = 0.6180339887498949


def share_of(story: Story, replies: float, followups: float) -> tuple[float, float]:
    """How many replies and follow-ups a conversation has where the mean is `replies` and `followups`."""
    start = random.Random(f"talkative {story.seed} {story.size}").random()
    found = []
    for mean, released, step in ((replies, _REPLIES, _GOLDEN), (followups, _FOLLOWUPS, 1 - _GOLDEN**3)):
        place = (start + step * story.number) % 1
        found.append(mean * released[int(place * len(released))] * len(released) / sum(released))
    return found[0], found[1]


def biography(profile: Profile, seed: int) -> str:
    """About 120 words on the six traits of `profile`."""
    rng = random.Random(f"biography {seed} {profile.name} {profile.place}")
    he = "she" if profile.gender == "female" else "he"
    words = {"name": profile.name.split()[0], "place": profile.place.split(",")[0], "he": he}
    grammar = Grammar(common().lists)
    sides = [TYPES[trait].rstrip(".") for trait in profile.traits]
    links = [grammar.say("trait", {**words, "side": f"{side[:1].lower()}{side[1:]}"}, rng) for side in sides]
    return " ".join([grammar.say("trait_open", words, rng), *links, grammar.say("trait_close", words, rng)])
