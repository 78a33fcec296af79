"""Episodes on disk in the released layout: one JSON list per variant, an object per episode.

(Section 2.1 of the fact sheet.) What is asked (a question's text), read (who says what, and when) or scored (task,
entity, values) can make an episode unreadable. Everything else is noted where it is odd, and kept or passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from beam_meme.episode_gold import SHORT, TASKS, Edge, EpisodeGold, LoadedEpisode, MemeGold, MemeTask, Told, ToldKind
from beam_meme.episodes import VARIANTS, Domain, Episode, Line, Phase, Question, Round, Session
from beamlib.data.checked_json import is_writable, show
from beamlib.data.conversations import Role
from beamlib.errors import UserError
from beamlib.evaluate.records import checked
from beamlib.files import read_json, to_json, write_text
from beamlib.text import count_tokens

ADVICE = "correct the file or fetch it again."

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""The id of an episode: it becomes part of a path."""

_TASK_OF: Mapping[str, MemeTask] = {
    **{task: task for task in TASKS},
    **{short.lower(): task for task, short in SHORT.items()},
    **{"exact": "exact_recall", "multi_hop": "aggregation", "multiple_update": "tracking"},
    **{"cascade_d": "cascade", "cascade_u": "absence"},
}
"""Tasks by names, tags and older labels (section 3): lower case, underscores, no hint like `(1-hop)` at the end."""

_HINT = re.compile(r"\s*\([^()]{0,40}\)\s*\Z")
_HOP = re.compile(r"\((\d)-hop\)")


def task_of(value: object) -> MemeTask | None:
    """The task that goes by a name, tag or older label; None where none does."""
    named = _HINT.sub("", value[:80]).strip().lower() if isinstance(value, str) else ""
    return _TASK_OF.get(re.sub(r"[\s-]+", "_", named))


def _task(value: object) -> MemeTask:
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
    task_type: Annotated[MemeTask, BeforeValidator(_task)]
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

    episode_id: Annotated[str, Field(pattern=f"^{_NAME.pattern}$")]
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


LARGEST = 1 << 30
"""Bytes of a file of episodes. The longest released one has about 27 million; a thousand of ours with 128K tokens each
have about 600 million."""

_FIXED = "generation.json", "manifest.json"
_ROLES: Mapping[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant"}
_FACT_KINDS = get_args(ToldKind)
_EVIDENCE = "1a", "1b", "1c", "2", "change"
"""What the five sessions of evidence are, in their order (section 2.4 of the fact sheet; the names are ours)."""


def load_episodes(place: Path, variant: str = "") -> list[LoadedEpisode]:
    """The episodes of a file, or of the one file of `variant` in a folder, in file order.

    A folder with several variants needs one named. `UserError` says which file, episode and field is wrong.
    """
    found = _files(place, variant)
    if not found:
        what = f"episodes of the variant {variant!r:.40}" if variant else "a file of episodes"
        raise UserError(f"{place}: holds no {what}; give a file like {VARIANTS[1]}.json or a folder with one.")
    if len(found) > 1:
        names = ", ".join(sorted({name or path.name for path, name in found.items()}))
        raise UserError(f"{place}: holds several files of episodes ({names}); name one as the variant, or give a file.")
    path, name = next(iter(found.items()))
    return _load(path, name or path.stem)


def episode_sets(place: Path) -> dict[str, list[LoadedEpisode]]:
    """The episodes of every file at a place by variant, the shortest first; what names none has its file's name.

    `UserError` as of `load_episodes`.
    """
    found = {name or path.stem: path for path, name in _files(place, "").items()}
    order = sorted(found, key=lambda name: (VARIANTS.index(name) if name in VARIANTS else -1, name))
    return {name: load_episodes(found[name], name) for name in order} or {"": load_episodes(place)}


def _files(place: Path, variant: str) -> dict[Path, str]:
    """The files of episodes at a place with their variants, "" where neither its name nor its folder's tells one."""
    if not place.is_dir():
        return {place: variant or variant_of_path(place)}
    paths = [*sorted(place.glob("*.json")), *sorted(place.glob("*/*.json"))]
    found = {path: variant_of_path(path) for path in paths if path.name not in _FIXED}
    named = {path: name for path, name in found.items() if name and variant in ("", name)}
    return named if named or variant else {path: name for path, name in found.items() if path.parent == place}


def variant_of_path(path: Path) -> str:
    """The variant that the name of a file says, else that of its folder; "" where neither does."""
    names = (re.sub("[_-]", "", name.lower()) for name in (path.stem, path.parent.name))
    return next((variant for name in names for variant in VARIANTS if variant in name), "")


def _load(path: Path, variant: str) -> list[LoadedEpisode]:
    if path.is_file() and path.stat().st_size > LARGEST:
        raise UserError(f"{path}: has {path.stat().st_size:,} bytes, more than any file of episodes; {ADVICE}")
    values = read_json(path)
    values = [values] if isinstance(values, dict) else values  # one episode by itself, as the authors' tools unpack it
    if not isinstance(values, list) or not values:
        raise UserError(f"{path}: must be a list of episodes; {ADVICE}")
    loaded = [_episode(value, f"{path}: episode {number}", variant) for number, value in enumerate(values, start=1)]
    seen: set[str] = set()
    for one in loaded:
        if one.episode.id in seen:
            raise UserError(f"{path}: the episode_id {one.episode.id!r} occurs twice; {ADVICE}")
        seen.add(one.episode.id)
    return loaded


def _episode(value: object, where: str, variant: str) -> LoadedEpisode:
    raw = checked(RawEpisode, value, f"{where}: ", ADVICE)
    where = f"{where} ({raw.episode_id})"
    notes: list[str] = []
    sessions = tuple(_session(one, number, where, notes) for number, one in enumerate(raw.sessions))
    evidence = tuple(number for number, one in enumerate(raw.sessions) if one.type == "evidence" or one.gold_facts)
    before, after = _places(raw, evidence, where, notes)
    made: dict[Phase, Round] = {}
    gold: dict[str, MemeGold] = {}
    asked: dict[Phase, tuple[RawRound, int]] = {
        "before": (raw.before_questions, before),
        "after": (raw.after_questions, after),
    }
    for phase, (one, read) in asked.items():
        own = {
            f"{raw.episode_id}-{phase}-q{number:02d}": _gold(
                raw, question, phase, f"{where}: {phase}_questions {number}"
            )
            for number, question in enumerate(one.questions, start=1)
        }
        if len({question.question for question in own.values()}) < len(own):
            notes.append(f"{phase}_questions: a question is asked twice")
        time = text_of(one.timestamp)
        time = sessions[read - 1].timestamp if time is None else time
        made[phase] = Round(read, time, tuple(Question(name, question.question) for name, question in own.items()))
        gold |= own
    episode = Episode(raw.episode_id, raw.domain, sessions, made["before"], made["after"])
    return LoadedEpisode(episode, _all_gold(raw, gold, evidence, sessions, notes), variant, tuple(notes))


def _all_gold(
    raw: RawEpisode,
    questions: Mapping[str, MemeGold],
    evidence: tuple[int, ...],
    sessions: Sequence[Session],
    notes: list[str],
) -> EpisodeGold:
    """What is kept apart from what memories read."""
    facts = tuple(fact for number, one in enumerate(raw.sessions) for fact in _facts(one, number, sessions, notes))
    states = _states(raw, notes)
    return EpisodeGold(
        root=text_of(raw.root) or "",
        change=_change(raw.root_change, notes),
        edges=tuple(_edges(raw.dependency_edges_used, notes)),
        questions=questions,
        facts=facts,
        evidence=evidence,
        before=states["before"],
        after=states["after"],
    )


def _session(raw: RawSession, number: int, where: str, notes: list[str]) -> Session:
    lines = []
    for place, line in enumerate(raw.conversation):
        role = _ROLES.get(line.role.strip().lower())
        if role is None and line.role != "system":
            raise UserError(f"{where}: session {number}, line {place}: the role {line.role!r} is nobody's; {ADVICE}")
        if role is None:  # it stays, so that lines keep their numbers, and it is nobody's that talks
            notes.append(f"session {number}, line {place}: a system message; left empty")
        lines.append(Line(role or "assistant", line.content if role else ""))
        check_text(line.content, f"{where}: session {number}, line {place}")
    if text_of(raw.timestamp) is None:
        notes.append(f"session {number}: no timestamp")
    return Session(text_of(raw.session_id) or f"s{number:03d}", text_of(raw.timestamp) or "", tuple(lines))


def _places(raw: RawEpisode, evidence: Sequence[int], where: str, notes: list[str]) -> tuple[int, int]:
    """How many sessions are read before each round.

    `position_after_session` is the number of a session counted from 0 (in the one published episode: 13 and 16 of 17).
    Where that would let the change be read before the first round, it is taken as a count.
    """
    before, after = (one.position_after_session for one in (raw.before_questions, raw.after_questions))
    count = len(raw.sessions)
    change = evidence[-1] if evidence else count
    if before + 1 > change >= before and before > max(evidence[:-1], default=-1):
        notes.append("position_after_session counts sessions")
        before, after = before - 1, after - 1
    if not 0 <= before < count or after < before:
        field = "before_questions" if not 0 <= before < count else "after_questions"
        raise UserError(f"{where}: field '{field}.position_after_session': no such session in {count}; {ADVICE}")
    if after + 1 != count:
        notes.append(f"after_questions: asked after session {after} of {count}; all are read")
    return before + 1, count


def _gold(raw: RawEpisode, asked: RawAsked, phase: Phase, where: str) -> MemeGold:
    if not asked.values:
        raise UserError(f"{where}: field 'entity_values': no text to score by; {ADVICE}")
    if not asked.name:
        raise UserError(f"{where}: field 'entity': no name to join both rounds by; {ADVICE}")
    for text in (asked.question, asked.name, *asked.values):
        check_text(text, where)
    hop, source = _position(raw, asked)
    answers = (asked.gold_answer, asked.expected_answer)  # the first belongs to the questions after the change
    said = next((one for one in (answers if phase == "after" else answers[::-1]) if one is not None), None)
    expected = to_json(said) if said is not None and not isinstance(said, str) and is_writable(said) else text_of(said)
    return MemeGold(asked.question, phase, asked.task_type, asked.name, asked.values, expected or "", hop, source)


def _position(raw: RawEpisode, asked: RawAsked) -> tuple[int | None, str]:
    """The hop of a question on a dependant, and what it depends on; None and "" of the others."""
    if asked.task_type not in ("cascade", "absence"):
        return None, ""
    tasks = [one for one in raw.tasks if isinstance(one, dict)] if isinstance(raw.tasks, list) else []
    own = [one for one in tasks if asked.name in _named(one.get("target_entities"))]
    task = next((one for one in own if task_of(one.get("type")) == asked.task_type), {})
    held = raw.entities.get(asked.name) if isinstance(raw.entities, dict) else None
    edge = next((edge for edge in _edges(raw.dependency_edges_used, []) if edge.target == asked.name), None)
    hops = (asked.told_hop, task.get("hop"), edge and edge.hop)
    sources = (text_of(_fields(one, "cascade_source")[0]) for one in (held, task))
    source = next((one for one in sources if one), edge.source if edge else "")
    return next((hop for hop in hops if type(hop) is int), None), source


def _named(value: object) -> list[str]:
    names = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    return [*names, "+".join(names)]


def _facts(raw: RawSession, number: int, sessions: Sequence[Session], notes: list[str]) -> Iterator[Told]:
    lines = sessions[number].lines
    for place, fact in enumerate(raw.gold_facts if isinstance(raw.gold_facts, list) else ()):
        entity, told, kind, turn, conveyed = _fields(fact, "entity", "value", "kind", "turn", "conveyed_in_turn")
        values = told if isinstance(told, list) else [told]
        if text_of(entity) is None or None in map(text_of, values):
            notes.append(f"session {number}: gold fact {place} has no entity or value; left out")
            continue
        for value in values:
            line = _line(turn if conveyed is None else conveyed, value, lines)
            if line is None:
                notes.append(f"session {number}: gold fact {place} stands in no line; left out")
                continue
            yield Told(entity, value, kind if kind in _FACT_KINDS else None, number, line)


def _fields(value: object, *names: str) -> list[Any]:
    """These fields of what should be an object, None for what is not there."""
    return [value.get(name) if isinstance(value, dict) else None for name in names]


def _line(turn: object, value: str, lines: Sequence[Line]) -> int | None:
    """The line that tells a fact: the one named where the value stands in it, else the first of the user's that has it,
    else the one named."""
    named = turn if type(turn) is int and 0 <= turn < len(lines) else None
    wanted = value.casefold()
    if named is not None and wanted in lines[named].content.casefold():
        return named
    held = (at for at, line in enumerate(lines) if line.role == "user" and wanted in line.content.casefold())
    return next(held, named)


def _edges(value: object, notes: list[str]) -> Iterator[Edge]:
    for one in value if isinstance(value, list) else ():
        source, target, hop, pattern = _fields(one, "source", "target", "hop", "pattern")
        if text_of(source) is not None and text_of(target) is not None:
            yield Edge(source, target, hop if type(hop) is int else 1, text_of(pattern) or "")
        else:
            notes.append("dependency_edges_used: an edge without source or target; left out")


def _change(value: object, notes: list[str]) -> tuple[str, str]:
    before, after = map(text_of, _fields(value, "before", "after"))
    if before is not None and after is not None:
        return before, after
    notes.append("root_change: not two texts")
    return "", ""


def _states(raw: RawEpisode, notes: list[str]) -> dict[Phase, dict[str, str | None]]:
    """Every entity's value before and after; None where it is deleted or uncertain.

    Released files give no value after the change to what depends on the root without a rule, nor to what never changes.
    """
    value = raw.entities
    found: dict[Phase, dict[str, str | None]] = {"before": {}, "after": {}}
    if not isinstance(value, dict):
        notes.append("entities: not there")
        return found
    chain = raw.chain_entities if isinstance(raw.chain_entities, list) else []
    asked = [one for one in raw.after_questions.questions if one.task_type in ("deletion", "absence")]
    moved = {edge.target for edge in _edges(raw.dependency_edges_used, [])} | {one.name for one in asked}
    kept = value.keys() - moved - {one for one in chain if isinstance(one, str)}
    for name, one in value.items():
        if text_of(name) is not None:
            before, after = map(text_of, _fields(one, "before", "after"))
            found["before"][name] = before
            found["after"][name] = None if after == "deleted" else before if after is None and name in kept else after
    return found


def write_episodes(path: Path, loaded: Sequence[LoadedEpisode]) -> Path:
    """Write episodes in the released layout, atomically: what was written loads to equal ones."""
    return write_text(path, to_json([_plain(one) for one in loaded], indent=1) + "\n")


def _plain(loaded: LoadedEpisode) -> dict[str, Any]:
    episode, gold = loaded.episode, loaded.gold
    tokens = [sum(count_tokens(line.content) for line in session.lines) for session in episode.sessions]
    evidence = sum(tokens[number] for number in gold.evidence)
    dependants = {edge.target: edge for edge in gold.edges}
    asked = [one for one in gold.questions.values() if one.phase == "after"]
    needed = {name for one in asked for name in one.entity.split("+")}
    chain = [gold.root, *dependants]
    return {
        "episode_id": episode.id,
        "domain": episode.domain,
        "root": gold.root,
        "root_change": {"before": gold.change[0], "after": gold.change[1]},
        "chain_entities": chain,
        "filler_entities": [name for name in sorted(gold.before) if name not in needed and name not in chain],
        "entities": {
            name: {
                "before": value,
                "after": gold.after.get(name),
                "hop": dependants[name].hop if name in dependants else None,
                "cascade_source": dependants[name].source if name in dependants else None,
                "history": [fact.value for fact in gold.facts if fact.entity == name],
            }
            for name, value in gold.before.items()
        },
        "has_2hop": any(edge.hop == 2 for edge in gold.edges),
        "dependency_edges_used": [
            {"source": one.source, "target": one.target, "hop": one.hop, "pattern": one.pattern} for one in gold.edges
        ],
        "tasks": [
            {
                "type": one.task,
                "target_entities": one.entity.split("+"),
                "entity_values": _written(one),
                "question_template": one.question,
                "gold_answer": one.expected,
                "hop": one.hop,
            }
            for one in asked
        ],
        "sessions": [_plain_session(loaded, number, one) for number, one in enumerate(episode.sessions)],
        "before_questions": _plain_round(loaded, "before"),
        "after_questions": _plain_round(loaded, "after"),
        "total_sessions": len(episode.sessions),
        "evidence_sessions": len(gold.evidence),
        "filler_sessions": len(episode.sessions) - len(gold.evidence),
        "evidence_session_indices": list(gold.evidence),
        "total_tokens": sum(tokens),
        "evidence_tokens": evidence,
        "filler_tokens": sum(tokens) - evidence,
    }


def _plain_session(loaded: LoadedEpisode, number: int, session: Session) -> dict[str, Any]:
    gold = loaded.gold
    told = [fact for fact in gold.facts if fact.session == number]
    parts = dict(zip(gold.evidence, _EVIDENCE, strict=True)) if len(gold.evidence) == len(_EVIDENCE) else {}
    return {
        "session_id": session.id,
        "type": "evidence" if number in gold.evidence else "filler",
        "evidence_type": parts.get(number),
        "timestamp": session.timestamp,
        "conversation": [{"role": line.role, "content": line.content} for line in session.lines],
        "gold_facts": [
            {
                "entity": fact.entity,
                "value": fact.value,
                "fact_text": session.lines[fact.line].content,
                "conveyed_in_turn": fact.line,
                "kind": fact.kind,
            }
            for fact in told
        ],
    }


def _plain_round(loaded: LoadedEpisode, phase: Phase) -> dict[str, Any]:
    one = loaded.episode.rounds[phase]
    answer = "gold_answer" if phase == "after" else "expected_answer"
    return {
        "timestamp": one.timestamp,
        "position_after_session": one.sessions - 1,
        "questions": [
            {
                "task_type": gold.task,
                "entity": gold.entity.split("+"),
                "entity_values": _written(gold),
                "question": question.text,
                answer: gold.expected,
                "hop": gold.hop,
            }
            for question in one.questions
            for gold in [loaded.gold.questions[question.id]]
        ],
    }


def _written(gold: MemeGold) -> list[str] | dict[str, str] | dict[str, list[str]]:
    """The values as released, by name: a text, for tracking a list. A list where the names are not as many."""
    names = gold.entity.split("+")
    if gold.task == "tracking" and len(names) == 1:
        return {gold.entity: list(gold.values)}
    return dict(zip(names, gold.values, strict=True)) if len(names) == len(gold.values) else list(gold.values)
