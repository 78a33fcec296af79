"""Counts over conversations and questions, in the shape of the published format's description (1.2, 1.3, 1.5).

This module reads gold; only checks and reports use it.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable

from pydantic import BaseModel, Field

from beamlib.data.conversations import Conversation
from beamlib.data.gold import ABILITIES, Ability, Gold
from beamlib.data.markers import INDEX, VARIANTS, strip_stray
from beamlib.text import count_tokens

TOKENS_PER_MESSAGE = 4
"""Overhead per message in the published sizes (role and separators)."""
_STEM = re.compile(r"(?:LLM r|R)esponse should(?: not)? ([a-z]+)", re.IGNORECASE)
_ABSTAINS = re.compile(r"based on the provided chat", re.IGNORECASE)


class ChatCounts(BaseModel):
    """One row of the table of 1.2: the chats of one tier and variant. Lengths are messages per turn."""

    conversations: int = 0
    batches: int = 0
    turns: int = 0
    messages: int = 0
    main_question: int = 0
    answer_ai_question: int = 0
    followup_question: int = 0
    turn_lengths: dict[int, int] = Field(default_factory=dict)
    tokens_mean: float = 0.0
    tokens_min: int = 0
    tokens_max: int = 0
    characters_per_pair_median: float = 0.0
    characters_per_token: float = 0.0
    markers: dict[str, int] = Field(default_factory=dict)
    stray_markers: dict[str, int] = Field(default_factory=dict)
    plan_offsets: dict[str, list[int]] = Field(default_factory=dict)


class AbilityCounts(BaseModel):
    """One ability of the tables of 1.5: questions, rubric items and their stems, cited evidence."""

    questions: int = 0
    rubric_items: int = 0
    items_per_question: float = 0.0
    stems: dict[str, int] = Field(default_factory=dict)
    evidence_shapes: dict[str, int] = Field(default_factory=dict)
    cited_user: int = 0
    cited_assistant: int = 0
    cited_missing: int = 0
    difficulties: dict[str, int] = Field(default_factory=dict)


class ChatTally:
    """Adds up `ChatCounts` conversation by conversation; give it conversations with their markers in the text."""

    def __init__(self) -> None:
        self.counts = ChatCounts()
        self._lengths: Counter[int] = Counter()
        self._markers: Counter[str] = Counter()
        self._stray: Counter[str] = Counter()
        self._tokens: list[int] = []
        self._characters: list[int] = []

    def add(self, conversation: Conversation) -> None:
        """Count one conversation."""
        counts = self.counts
        counts.conversations += 1
        counts.batches += len(conversation.batches)
        counts.turns += len(conversation.turns)
        counts.messages += len(conversation.messages)
        self._lengths.update(len(turn.messages) for turn in conversation.turns)
        kinds = Counter(message.kind for message in conversation)
        counts.main_question += kinds["main_question"]
        counts.answer_ai_question += kinds["answer_ai_question"]
        counts.followup_question += kinds["followup_question"]
        for message in conversation:
            if message.marker is not None:
                self._markers[message.marker.variant] += 1
            elif message.kind != "main_question" and strip_stray(message.content)[1]:
                self._stray[message.kind or message.role] += 1
        tokens = sum(count_tokens(message.content) + TOKENS_PER_MESSAGE for message in conversation)
        self._tokens.append(tokens)
        self._characters += [len(pair.user.content) + len(pair.assistant.content) for pair in conversation.pairs]
        if conversation.size == "10M":
            first: dict[int, int] = {}
            for batch in conversation.batches:
                if batch.turns:
                    first.setdefault(batch.plan, batch.turns[0].messages[0].id)
            counts.plan_offsets[conversation.id] = list(first.values())

    def result(self) -> ChatCounts:
        """The counts so far."""
        counts = self.counts.model_copy()
        counts.turn_lengths = dict(sorted(self._lengths.items()))
        counts.markers = {name: self._markers[name] for name in (*VARIANTS, INDEX) if self._markers[name]}
        counts.stray_markers = dict(sorted(self._stray.items()))
        if self._tokens:
            content = sum(self._tokens) - TOKENS_PER_MESSAGE * counts.messages
            counts.tokens_mean = round(statistics.fmean(self._tokens), 1)
            counts.tokens_min, counts.tokens_max = min(self._tokens), max(self._tokens)
            counts.characters_per_pair_median = float(statistics.median(self._characters))
            counts.characters_per_token = round(sum(self._characters) / max(content, 1), 3)
        return counts


class QuestionTally:
    """Adds up `AbilityCounts` conversation by conversation."""

    def __init__(self) -> None:
        self._entries: Counter[Ability] = Counter()
        self._items: Counter[Ability] = Counter()
        self._stems: dict[Ability, Counter[str]] = {ability: Counter() for ability in ABILITIES}
        self._shapes: dict[Ability, Counter[str]] = {ability: Counter() for ability in ABILITIES}
        self._roles: dict[Ability, Counter[str]] = {ability: Counter() for ability in ABILITIES}
        self._difficulties: dict[Ability, Counter[str]] = {ability: Counter() for ability in ABILITIES}

    def add(self, gold: Iterable[Gold], conversation: Conversation | None) -> None:
        """Count one conversation's questions; cited messages are looked up in it, where it is there, for who spoke."""
        roles = {message.id: message.role for message in conversation or ()}
        for entry in gold:
            ability = entry.ability
            self._entries[ability] += 1
            self._items[ability] += len(entry.rubric)
            self._stems[ability].update(stem(item) for item in entry.rubric)
            self._shapes[ability][evidence_shape(entry)] += 1
            self._roles[ability].update(roles[i] for i in entry.evidence if i in roles)
            self._roles[ability]["missing"] += len(entry.evidence_missing)
            self._difficulties[ability][entry.difficulty] += 1

    def result(self) -> dict[str, AbilityCounts]:
        """The counts so far, by ability."""
        return {
            ability: AbilityCounts(
                questions=self._entries[ability],
                rubric_items=self._items[ability],
                items_per_question=round(self._items[ability] / self._entries[ability], 2),
                stems=_sorted(self._stems[ability]),
                evidence_shapes=_sorted(self._shapes[ability]),
                cited_user=self._roles[ability]["user"],
                cited_assistant=self._roles[ability]["assistant"],
                cited_missing=self._roles[ability]["missing"],
                difficulties=_sorted(self._difficulties[ability]),
            )
            for ability in ABILITIES
            if self._entries[ability]
        }


def stem(item: str) -> str:
    """How a rubric item begins: the verb of `LLM response should <verb>`, `no information`, or `no stem`."""
    match = _STEM.match(item)
    if match:
        return match[1].lower()
    return "no information" if _ABSTAINS.match(item) else "no stem"


def evidence_shape(entry: Gold) -> str:
    """How `source_chat_ids` is built: absent, empty, parts, parts with an empty one, flat, nested, mixed or other."""
    value = entry.extras.get("source_chat_ids")
    if value is None:
        return "absent"
    if isinstance(value, dict):
        return "parts" if all(value.values()) else "parts, one empty"
    if not isinstance(value, list):
        return "other"
    nested = sum(isinstance(item, list) for item in value)
    if not value:
        return "empty"
    return "flat" if not nested else "nested" if nested == len(value) else "mixed"


def _sorted(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))
