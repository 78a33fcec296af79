"""A biography from a profile, by rule."""

from __future__ import annotations

import random
from collections.abc import Mapping

from beamlib.generate.author.values import trade
from beamlib.generate.shapes import Profile

_SIDES: Mapping[str, str] = {
    "ISTJ": "keeps promises, lists and receipts, and likes a plan that has been checked twice",
    "ISFJ": "remembers birthdays and small favors, and notices early when somebody is tired",
    "INFJ": "looks for the meaning behind a decision and writes long letters to close friends",
    "INTJ": "thinks several steps ahead and would rather redo a system than patch it",
    "ISTP": "takes things apart to understand them and stays calm when something breaks",
    "ISFP": "has a good eye for color and needs quiet hours to make something by hand",
    "INFP": "holds on to ideals, daydreams on walks and sides with the underdog",
    "INTP": "enjoys a neat argument and follows an odd question further than planned",
    "ESTP": "acts first, reads the room well and turns a delay into an adventure",
    "ESFP": "brings people together, laughs easily and hates a dull evening",
    "ENFP": "starts conversations with strangers and has more ideas than weekends",
    "ENTP": "likes to argue the other side and treats rules as opening offers",
    "ESTJ": "organizes whoever is in the room and expects people to be on time",
    "ESFJ": "hosts, feeds and remembers, and takes it to heart when plans fall apart",
    "ENFJ": "encourages others, senses conflict early and speaks for the group",
    "ENTJ": "sets goals in writing, decides fast and asks for results",
}
_OPENINGS = (
    "People who meet {name} for the first time remember how {he} listens.",
    "{name} has lived in {place} long enough to have a favorite table in three cafés.",
    "Ask around in {place} and most will say that {name} is easy to talk to.",
    "There is more than one side to {name}, and friends like to argue about which one is the real one.",
)
_LINKS = (
    "On an ordinary day {he} {side}.",
    "At work {he} {side}.",
    "Among friends {he} {side}.",
    "In a new situation {he} {side}.",
    "When things get busy {he} {side}.",
    "Left alone for a weekend, {he} {side}.",
)
_CLOSINGS = (
    "All in all {name} is somebody who asks before deciding, and who comes back later to say how it went.",
    "What ties this together is a steady curiosity, and a habit of telling the whole story in small pieces.",
    "After years as {job}, {he} trusts experience, yet changes course when a good reason turns up.",
)


def biography(profile: Profile, seed: int) -> str:
    """About 120 words on the six traits of `profile`."""
    rng = random.Random(f"biography {seed} {profile.name} {profile.place}")
    he = "she" if profile.gender == "female" else "he"
    job = trade(profile)
    words = {
        "name": profile.name.split()[0],
        "place": profile.place.split(",")[0],
        "he": he,
        "job": f"{'an' if job[0] in 'aeiou' else 'a'} {job}",
    }
    links = rng.sample(_LINKS, len(_LINKS))
    middle = [link.format(side=_SIDES[trait], **words) for link, trait in zip(links, profile.traits, strict=True)]
    return " ".join([rng.choice(_OPENINGS).format(**words), *middle, rng.choice(_CLOSINGS).format(**words)])
