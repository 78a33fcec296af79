"""Every field of a valid conversation, deleted, nulled, mistyped: an error, an anomaly, or a documented equality."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beamlib.data.loading import Loaded, load
from beamlib.data.sources import QUESTIONS, Source
from beamlib.errors import UserError
from fixtures_release import WORLDS, chat_of, questions_of, turns_of, write_conversation, write_value

DELETE = object()
WRONG: dict[type, list[Any]] = {
    str: [None, 7, True, ["x"], {}],
    int: [None, "7", True, 1.5, []],
    list: [None, "x", {}, 3],
    dict: [None, []],
}
Path_ = tuple[str | int, ...]


def paths(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Every place in a JSON value but the top."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from paths(item, (*at, key))


def changed(value: Any, at: Path_, new: Any) -> Any:
    result = copy.deepcopy(value)
    parent = result
    for key in at[:-1]:
        parent = parent[key]
    if new is DELETE:
        del parent[at[-1]]
    else:
        parent[at[-1]] = new
    return result


def get(value: Any, at: Path_) -> Any:
    for key in at:
        value = value[key]
    return value


def outcome(source: Source) -> Loaded | str:
    """The loaded conversation, or the sentence of the error. Any other exception fails the test."""
    try:
        return load(source)
    except UserError as error:
        message = str(error)
        assert str(source.path) in message
        assert "\n" not in message
        assert message.endswith(".")
        return message


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source("100K-1", "100K", write_conversation(tmp_path / "100K" / "1"), "released")


def used(file: str, at: Path_) -> bool:
    """What is asked, recalled or scored: only these may make a conversation unreadable."""
    if file == "chat.json":
        return at[-1] in ("turns", "role", "id", "content") or isinstance(at[-1], int)
    return file == QUESTIONS and (len(at) < 3 or at[2] in ("question", "rubric"))


def silent(file: str, at: Path_, value: Any) -> bool:
    """Changes that the format allows: a batch's own time anchor is null or not there; lists that nothing scores,
    cited ids and subtopics may be longer or shorter; a rubric may have any number of items; any id may be cited;
    `conversation_sessions` is published as a list, a number or a text."""
    if at[-1] == "time_anchor" and len(at) == 2:
        return True
    if at[-1] == "conversation_sessions":
        return value in ("x", 3)
    return isinstance(at[-1], int) and file != "chat.json" and (value is DELETE or "source_chat_ids" in at)


@pytest.mark.parametrize("file", ["topic.json", "chat.json", QUESTIONS])
def test_every_field(source: Source, file: str) -> None:
    base = load(source)
    original = json.loads((source.path / file).read_text())
    tried = errors = 0
    for at in paths(original):
        if (file == "chat.json" and at[0] == 1) or (file == QUESTIONS and at[1:2] == (1,)):
            continue  # the second batch, and the second question of an ability, repeat what the first tries
        for new in (DELETE, *WRONG[type(get(original, at))]) if get(original, at) is not None else (DELETE,):
            write_value(source.path / file, changed(original, at, new))
            result = outcome(source)
            tried += 1
            if isinstance(result, str):
                errors += 1
                assert used(file, at), result
            elif not result.anomalies:
                assert silent(file, at, new), f"{file} {at} -> {new!r} changed nothing and said nothing"
                if file == "chat.json":
                    assert replace(result, files=base.files) == base
    assert tried > 10
    assert errors > 3 or file == "topic.json"


@pytest.mark.parametrize(
    ("at", "new", "sentence"),
    [
        ((0, "turns", 0, 1, "id"), 0, "batch 1, turn 1, message 2: `id` is 0 where 1 was expected"),
        ((0, "turns", 0, 1, "id"), 9, "batch 1, turn 1, message 3: `id` is 2 where 10 was expected"),
        ((0, "turns", 0, 1, "content"), None, "`content` must be text, not None"),
        ((0, "turns", 0, 1, "role"), "user", "`role` is 'user' where 'assistant' must speak"),
        ((0, "turns", 0, 1, "role"), "system", "`role` is 'system'"),
        ((0, "turns", 0, 3), DELETE, "batch 1, turn 1: message 2 has no answer"),
        ((0, "turns", 1), "x", "batch 1, turn 2: expected a list of messages"),
        (
            (0, "turns", 0, 1, "content"),
            "long " * 800_001,
            "`content` has 4,000,005 characters, more than the 4,000,000",
        ),
        ((0, "turns", 0, 1, "content"), "half \ud800", "`content` holds half a character at position 5"),
    ],
)
def test_broken_chats_say_where(source: Source, at: Path_, new: Any, sentence: str) -> None:
    path = source.path / "chat.json"
    path.write_text(json.dumps(changed(chat_of(WORLDS[0]), at, new)))
    result = outcome(source)
    assert isinstance(result, str)
    assert str(path) in result
    assert sentence in result


@pytest.mark.parametrize(
    ("at", "new", "sentence"),
    [
        (("abstention",), {}, "abstention: expected a list of questions"),
        (("event_ordering", 1, "rubric"), [], "event_ordering 1: `rubric` is empty"),
        (("event_ordering", 1, "rubric", 0), "", "rubric item 0 must be text"),
        (("temporal_reasoning", 0, "question"), "  ", "`question` is empty"),
        (("temporal_reasoning", 0, "question"), "\ud800", "`question` holds half a character"),
    ],
)
def test_broken_questions_say_where(source: Source, at: Path_, new: Any, sentence: str) -> None:
    (source.path / QUESTIONS).write_text(json.dumps(changed(questions_of(WORLDS[0]), at, new)))
    result = outcome(source)
    assert isinstance(result, str)
    assert sentence in result


@pytest.mark.parametrize(
    ("at", "new", "kind"),
    [
        (("event_ordering", 0, "source_chat_ids", 1), "--", "evidence_unreadable"),
        (("event_ordering", 1, "source_chat_ids"), {"a": [1]}, "evidence_shape"),
        (("temporal_reasoning", 0, "source_chat_ids"), [1, 2], "evidence_shape"),
        (("temporal_reasoning", 0, "source_chat_ids", "first_event"), DELETE, "evidence_shape"),
        (("temporal_reasoning", 0, "answer"), 3, "field_type"),
        (("summarization", 1, "difficulty"), "", "field_empty"),
        (("summarization", 1, "difficulty"), DELETE, "field_missing"),
        (("gossip",), [{"question": "Who?"}], "unknown_ability"),
        (("abstention",), DELETE, "question_count"),
        (("abstention",), None, "question_count"),
        (("abstention", 0, "why_unanswerable"), "\ud800", "unwritable"),
        (("event_ordering", 0, "source_chat_ids", 1), -4, "evidence_missing"),
        (("event_ordering", 0, "source_chat_ids", 1), [8, 999], "evidence_missing"),
        (("event_ordering", 0, "source_chat_ids"), [], "evidence_empty"),
        (("knowledge_update", 0, "source_chat_ids", "updated_info"), [], "evidence_empty"),
        (("knowledge_update", 0, "source_chat_ids"), DELETE, "evidence_absent"),
        (("abstention", 1), DELETE, "question_count"),
        (("abstention", 1, "question"), "What is the surname of Marisol?", "duplicate_question"),
        (("multi_session_reasoning", 1, "sessions_required"), True, "field_type"),
        (("multi_session_reasoning", 1, "reasoning_steps"), [], "field_empty"),
        (("multi_session_reasoning", 1, "mood"), "glad", "unknown_field"),
    ],
)
def test_odd_questions_are_noted(source: Source, at: Path_, new: Any, kind: str) -> None:
    (source.path / QUESTIONS).write_text(json.dumps(changed(questions_of(WORLDS[0]), at, new)))
    result = outcome(source)
    assert isinstance(result, Loaded)
    assert {a.kind for a in result.anomalies} == {kind}
    ids = {message.id for message in result.conversation}
    assert all(set(gold.evidence) <= ids and not set(gold.evidence_missing) & ids for gold in result.gold.values())


@pytest.mark.parametrize(
    ("at", "new", "kind"),
    [
        ((0, "turns", 0, 0, "question_type"), "followup_question", "question_type_differs"),
        ((0, "turns", 0, 0, "question_type"), None, "question_type_unknown"),
        ((0, "turns", 0, 2, "question_type"), "main_question", "question_type_differs"),
        ((0, "turns", 0, 2, "question_type"), "chitchat", "question_type_unknown"),
        ((0, "turns", 0, 1, "question_type"), "main_question", "unknown_field"),
        ((0, "turns", 0, 0, "index"), DELETE, "index_differs"),
        ((0, "turns", 0, 0, "time_anchor"), "2024-03-04", "time_anchor_unreadable"),
        ((0, "turns", 0, 0, "time_anchor"), ["March"], "time_anchor_unreadable"),
        ((0, "turns", 0, 1, "content"), " \n", "empty_content"),
        ((0, "turns", 1), [], "empty_turn"),
        ((0, "turns", 0), None, "empty_turn"),
        ((0,), None, "empty_batch"),
        ((1, "batch_number"), 1, "batch_number_differs"),
        ((1, "batch_number"), DELETE, "batch_number_differs"),
        ((0, "turns", 1), DELETE, "id_gap"),
    ],
)
def test_odd_chats_are_noted(source: Source, at: Path_, new: Any, kind: str) -> None:
    write_value(source.path / "chat.json", changed(chat_of(WORLDS[0]), at, new))
    result = outcome(source)
    assert isinstance(result, Loaded)
    assert kind in {a.kind for a in result.anomalies}
    assert len(result.probes) == 20
    ids = {message.id for message in result.conversation}
    assert all(set(gold.evidence) <= ids and not set(gold.evidence_missing) & ids for gold in result.gold.values())
    said = {text for batch in turns_of(WORLDS[0]) for turn in batch for text in turn}
    assert {message.content for message in result.conversation} <= {*said, " \n"}  # whatever its kind, without marker


@pytest.mark.parametrize("file", ["chat.json", QUESTIONS])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the file is empty"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[1, NaN]", "`NaN` is not a JSON value"),
        (b"[" + b"9" * 5000 + b"]", "a number too long"),
        (b'{"a": 1, "a": 2}', "occurs twice in one object"),
        (b'{"a": "\x00"}', "not valid JSON"),
        (b"\xff\xfe[]", "not UTF-8"),
        (b"[] trailing", "not valid JSON"),
        (b"null", "expected"),
    ],
)
def test_broken_files(source: Source, file: str, content: bytes, sentence: str) -> None:
    (source.path / file).write_bytes(content)
    result = outcome(source)
    assert isinstance(result, str)
    assert str(source.path / file) in result
    assert sentence in result
    (source.path / "topic.json").write_bytes(content)  # nothing rests on the seed, so it never stops anything
    (source.path / file).write_text(json.dumps(chat_of(WORLDS[0]) if file == "chat.json" else questions_of(WORLDS[0])))
    odd = outcome(source)
    assert isinstance(odd, Loaded)
    assert odd.conversation.seed.title == ""
    assert {a.file for a in odd.anomalies} == {"100K/1/topic.json"}


@pytest.mark.parametrize("file", ["topic.json", "chat.json", QUESTIONS])
def test_truncation_anywhere(source: Source, file: str) -> None:
    whole = (source.path / file).read_bytes()
    for length in range(0, len(whole) - 1, max(1, len(whole) // 60)):
        (source.path / file).write_bytes(whole[:length])
        assert isinstance(outcome(source), Loaded if file == "topic.json" else str)


def test_a_question_nested_too_deeply_for_a_record_is_still_asked(source: Source) -> None:
    deep = "[" * 900 + "]" * 900
    text = json.dumps(questions_of(WORLDS[0]))
    for old in ('"never said"', '"source_chat_ids": [6]'):
        new = old.partition(":")[0] + ": " + deep if ":" in old else deep
        (source.path / QUESTIONS).write_text(text.replace(old, new))
        assert isinstance(outcome(source), Loaded)


def test_missing_files_and_folders_in_their_place(source: Source) -> None:
    for file in ("chat.json", QUESTIONS):
        path = source.path / file
        content = path.read_text()
        path.unlink()
        assert ("neither" if file == "chat.json" else "does not exist") in str(outcome(source))
        path.mkdir()
        assert "cannot be read" in str(outcome(source))
        path.rmdir()
        path.symlink_to(path)
        assert "cannot be read" in str(outcome(source))
        path.unlink()
        path.write_text(content)
    (source.path / "topic.json").unlink()
    assert isinstance(outcome(source), Loaded)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 30) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_anywhere(source: Source, data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(["topic.json", "chat.json", QUESTIONS]))
    write_conversation(source.path)
    original = json.loads((source.path / file).read_text())
    at = data.draw(st.sampled_from(list(paths(original))))
    (source.path / file).write_text(json.dumps(changed(original, at, data.draw(JSON_VALUES))))
    outcome(source)
