"""What an episode of the released layout must have, and may have: the shapes in which a file is checked.

(Section 2.1 of the fact sheet.) Of a question the names and values are brought into one form: released ones are
`{entity: value}`, for tracking `{entity: [value, ...]}`; a text alone, or a list, is read too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from beam_meme.episode_gold import SHORT, TASKS, Task
from beam_meme.episodes import Domain
from beamlib.data.checked_json import is_writable, show
from beamlib.errors import UserError

ADVICE = "correct the file or fetch it again."

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""The id of an episode: it becomes part of a path."""

_TASK_OF: Mapping[str, Task] = {
    **{task: task for task in TASKS},
    **{short.lower(): task for task, short in SHORT.items()},
    **{"exact": "exact_recall", "multi_hop": "aggregation", "multiple_update": "tracking"},
    **{"cascade_d": "cascade", "cascade_u": "absence"},
}
"""Tasks by names, tags and older labels (section 3): lower case, underscores, no hint like `(1-hop)` at the end."""

_HINT = re.compile(r"\s*\([^()]{0,40}\)\s*\Z")
_HOP = re.compile(r"\((\d)-hop\)")


def task_of(value: object) -> Task | None:
    """The task that goes by a name, tag or older label; None where none does."""
    named = _HINT.sub("", value[:80]).strip().lower() if isinstance(value, str) else ""
    return _TASK_OF.get(re.sub(r"[\s-]+", "_", named))


def _task(value: object) -> Task:
    found = task_of(value)
    if found is None:
        raise ValueError(f"{show(value)} is no task; the tasks are {', '.join(TASKS)}")
    return found


def text_of(value: object) -> str | None:
    """A text that can be written as UTF-8, None for anything else."""
    return value if isinstance(value, str) and is_writable(value) else None


def check_text(text: str, where: str) -> str:
    """`text`, which is asked, read or scored; a `UserError` where it holds half a character."""
    if text_of(text) is None:
        raise UserError(f"{where}: the text {show(text)} holds half a character; {ADVICE}")
    return text


class RawPart(BaseModel):
    """What must be there has a type; what need not be is `Any`, so that nothing is refused for it."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class RawLine(RawPart):
    role: Annotated[str, Field(max_length=20)]
    content: str


class RawSession(RawPart):
    conversation: list[RawLine]
    session_id: Any = None
    type: Any = None
    timestamp: Any = None
    gold_facts: Any = None


class RawAsked(RawPart):
    question: Annotated[str, Field(min_length=1)]
    task_type: Annotated[Task, BeforeValidator(_task)]
    entity: Any = None
    entity_values: Any
    hop: Any = None
    label: Any = Field(None, validation_alias="task_type")
    gold_answer: Any = None
    expected_answer: Any = None

    @property
    def name(self) -> str:
        """The entity asked for; several joined by `+`, in the order in which they are given."""
        given = [self.entity] if isinstance(self.entity, str) else self.entity
        if not given and isinstance(self.entity_values, dict):
            given = list(self.entity_values)
        return "+".join(given) if isinstance(given, list) and all(isinstance(one, str) for one in given) else ""

    @property
    def values(self) -> tuple[str, ...]:
        """The texts to score by, of several entities in the order of their names; empty where one is no text."""
        value = self.entity_values
        if isinstance(value, dict):
            names = self.name.split("+")
            value = [value[name] for name in names] if set(names) == value.keys() else list(value.values())
        parts = value if isinstance(value, list) else [value]
        texts = [text for part in parts for text in (part if isinstance(part, list) else [part])]
        return tuple(texts) if all(isinstance(text, str) and text.strip() for text in texts) else ()

    @property
    def told_hop(self) -> int | None:
        """The hop that the question or its label names."""
        hint = _HOP.search(str(self.label)[:80])
        return self.hop if type(self.hop) is int else int(hint[1]) if hint else None


class RawRound(RawPart):
    position_after_session: int
    questions: list[RawAsked]
    timestamp: Any = None


class RawEpisode(RawPart):
    """An episode; a number as its id, as the authors' tools have it, becomes the released one (`pl_007`)."""

    episode_id: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    domain: Domain
    sessions: Annotated[list[RawSession], Field(min_length=1)]
    before_questions: RawRound
    after_questions: RawRound
    root: Any = None
    root_change: Any = None
    entities: Any = None
    chain_entities: Any = None
    dependency_edges_used: Any = None
    tasks: Any = None

    @model_validator(mode="before")
    @classmethod
    def _numbered(cls, value: Any) -> Any:
        if isinstance(value, dict) and type(value.get("episode_id")) is int:
            domain = "pl" if value.get("domain") == "personal_life" else "sw"
            return {**value, "episode_id": f"{domain}_{value['episode_id']:03d}"}
        return value
