"""The messages that tell what a question rests on, for the ceiling: read from gold, handed to running as bare ids."""

from __future__ import annotations

from collections.abc import Mapping

from beam_meme.episode_conversation import places_of
from beam_meme.episode_gold import EpisodeGold, LoadedEpisode, MemeGold


def evidence_of(loaded: LoadedEpisode) -> dict[str, tuple[int, ...]]:
    """By question id, the messages of the sessions read by then that tell a fact the question needs, in order.

    Needed are all facts of its entity (of each member, for an aggregation) and of whatever that depends on, up to the
    root: the rule and the change both (section 2.8 of the fact sheet). A place that no message has tells nothing.
    """
    episode, gold = loaded.episode, loaded.gold
    places = places_of(episode, len(episode.sessions))
    found = {}
    for question, one in gold.questions.items():
        entities = _upstream(one, gold)
        read = episode.rounds[one.phase].sessions
        told = [fact for fact in gold.facts if fact.entity in entities and fact.session < read]
        ids = {_message(places, fact.session, fact.line) for fact in told}
        found[question] = tuple(sorted(i for i in ids if i is not None))
    return found


def _upstream(one: MemeGold, gold: EpisodeGold) -> set[str]:
    """The entities of a question and all that they depend on."""
    found, new = set[str](), {one.entity, *one.entity.split("+")}
    while new:
        found |= new
        new = {edge.source for edge in gold.edges if edge.target in new} - found
    return found


def _message(places: Mapping[int, tuple[int, int]], session: int, line: int) -> int | None:
    """The message that holds a line: lines of one side in a row are one message, which is placed at its first."""
    before = [(at, -message) for message, (where, at) in places.items() if where == session and at <= line]
    return -max(before)[1] if before else None
