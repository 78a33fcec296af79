"""Episodes on disk: what was written loads again, what nothing uses is never refused, what is used is named."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from episodes_made import BOTH, MOTTO, as_text
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_meme.drawing import draw_all
from beam_meme.episode_files import load_episodes, write_episodes
from beam_meme.episode_gold import TASKS, LoadedEpisode
from beam_meme.episodes import Episode, Line, Round, Session, episode_conversation, message_places
from beam_meme.fillers import haystack
from beam_meme.meme_tables import statistics
from beam_meme.telling import tell_sessions
from beamlib.errors import UserError
from beamlib.llm.model import run


@cache
def made() -> tuple[LoadedEpisode, ...]:
    """A personal and a software episode, by the offline author, without filler."""
    drawn = draw_all(2, 5)
    return tuple(haystack(one, run(tell_sessions(one)), [], "nofiller", random.Random(one.id)) for one in drawn)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_episodes(tmp_path / "nofiller.json", made())


def changed(file: Path, change: Callable[[Any], None]) -> list[LoadedEpisode]:
    values = json.loads(file.read_text("utf-8"))
    change(values)
    file.write_text(json.dumps(values), "utf-8")
    return load_episodes(file)


def test_what_was_written_loads_to_equal_episodes_and_bytes(file: Path, tmp_path: Path) -> None:
    loaded = load_episodes(file)
    assert loaded == list(made())
    assert {gold.task for gold in loaded[0].gold.questions.values()} == set(TASKS)
    assert write_episodes(tmp_path / "again.json", loaded).read_bytes() == file.read_bytes()


@pytest.fixture
def released(tmp_path: Path) -> Path:
    path = tmp_path / "meme_filler32k.json"
    path.write_text(as_text(BOTH), "utf-8")
    return path


def test_the_released_layout_is_read(released: Path) -> None:
    personal, software = load_episodes(released)
    assert (personal.notes, software.notes) == ((), ()) and personal.variant == "filler32k"
    assert [(one.episode.before.sessions, one.episode.after.sessions) for one in (personal, software)] == [
        (5, 6),
        (4, 6),
    ]
    after = [one for one in personal.gold.questions.values() if one.phase == "after"]
    assert [(one.task, one.entity, one.values, one.hop, one.source) for one in after] == [
        ("tracking", "subscription", ("Lumo", "Pardix", "Wenlo"), None, ""),
        ("cascade", "work_location", ("Quill Tower",), 1, "employer"),
        ("cascade", "commute_method", ("the ferry Osk",), 2, "work_location"),
        ("absence", "insurance", ("Plan Bramble",), 1, "employer"),
        ("deletion", "pet", ("a newt called Orin",), None, ""),
        ("aggregation", "tea+bread+cheese", ("Velm", "Hask", "Torl"), None, ""),
        ("exact_recall", "life_philosophy", (MOTTO,), None, ""),
    ]
    assert [one.expected for one in after[2:4]] == ["the ferry Osk", "Uncertain: the employer changed"]
    earlier = {one.entity: one for one in personal.gold.questions.values() if one.phase == "before"}
    assert earlier["commute_method"].values == ("the tram",) and earlier["commute_method"].expected == "the tram"
    assert personal.gold.evidence == (0, 2, 3, 4, 5) and personal.gold.change == ("Brasko", "Denvik")


def test_facts_of_the_released_layout_lie_in_their_lines(released: Path) -> None:
    for one in load_episodes(released):
        assert len(one.gold.facts) == sum(len(session.get("gold_facts", ())) for session in raw(one)["sessions"])
        for fact in one.gold.facts:
            line = one.episode.sessions[fact.session].lines[fact.line]
            assert fact.value in line.content and line.role == "user"


def raw(loaded: LoadedEpisode) -> dict[str, Any]:
    return next(one for one in BOTH if one["episode_id"] == loaded.episode.id)


def test_states_of_the_released_layout(released: Path) -> None:
    gold = load_episodes(released)[0].gold
    assert (gold.before["pet"], gold.after["pet"], gold.after["insurance"]) == ("a newt called Orin", None, None)
    assert (gold.after["tea"], gold.after["employer"], gold.after["work_location"]) == ("Velm", "Denvik", "Quill Tower")


def test_older_labels_with_their_hints(released: Path) -> None:
    software = load_episodes(released)[1]
    tasks = ["tracking", "cascade", "absence", "deletion", "aggregation", "exact_recall"]
    questions = software.gold.questions.values()
    assert [one.task for one in questions if one.phase == "after"] == tasks
    assert [one.task for one in questions if one.phase == "before"] == [
        "cascade",
        "absence",
        "deletion",
        "exact_recall",
    ]
    assert {one.hop for one in questions if one.task in ("cascade", "absence")} == {1}


def test_the_released_layout_written_anew_is_the_same(released: Path, tmp_path: Path) -> None:
    loaded = load_episodes(released)
    again = write_episodes(tmp_path / "filler32k.json", loaded)
    assert load_episodes(again) == loaded
    assert write_episodes(tmp_path / "third.json", load_episodes(again)).read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    ("values", "entity", "read"),
    [
        ("Karn", "package_manager", ("Karn",)),
        (["Karn", "Dran"], ["package_manager"], ("Karn", "Dran")),
        ({"b": "2", "a": "1"}, ["a", "b"], ("1", "2")),
        ({"b": "2", "a": "1"}, [], ("2", "1")),
        ({"b": "2", "a": "1"}, None, ("2", "1")),
    ],
)
def test_values_and_names_in_every_form(released: Path, values: Any, entity: Any, read: tuple[str, ...]) -> None:
    def change(episodes: Any) -> None:
        episodes[1]["after_questions"]["questions"][0] |= {"entity_values": values, "entity": entity}

    assert changed(released, change)[1].gold.questions["sw_001-after-q01"].values == read


def test_one_episode_by_itself_is_read(released: Path) -> None:
    whole = load_episodes(released)
    released.write_text(json.dumps(BOTH[0]), "utf-8")
    assert load_episodes(released) == whole[:1]


def test_the_reference_answer_under_the_other_rounds_name_is_read(released: Path) -> None:
    whole = load_episodes(released)

    def swap(episodes: Any) -> None:
        for one in episodes[0]["before_questions"]["questions"]:
            one["gold_answer"] = one.pop("expected_answer")

    assert changed(released, swap) == whole


HALF = "half \ud800"


def test_half_characters_are_refused_where_they_are_used_and_dropped_elsewhere(released: Path) -> None:
    def odd(episodes: Any) -> None:
        one = episodes[0]
        one["root"] = one["sessions"][0]["session_id"] = one["sessions"][1]["timestamp"] = HALF
        one["entities"]["tea"]["before"] = one["entities"][HALF] = HALF
        one["sessions"][0]["gold_facts"][0]["value"] = HALF
        one["after_questions"]["questions"][0]["gold_answer"] = HALF
        one["dependency_edges_used"][0]["source"] = one["root_change"]["before"] = HALF

    loaded = changed(released, odd)
    assert load_episodes(write_episodes(released.with_name("nofiller.json"), loaded))
    assert loaded[0].episode.sha256 and len(loaded[0].notes) >= 4
    for path in (("sessions", 0, "conversation", 0, "content"), (*ROUND, "question"), (*ROUND, "entity_values")):
        with pytest.raises(UserError, match=r"holds half a character|as a unicode string"):
            changed(released, _set(0, *path, to=HALF))
        released.write_text(as_text(BOTH), "utf-8")


def test_a_folder_with_several_variants_wants_one_named(file: Path) -> None:
    write_episodes(file.with_name("filler32k.json"), made())
    (file.parent / "generation.json").write_text("{}")
    with pytest.raises(UserError, match=r"several files of episodes \(filler32k, nofiller\); name one"):
        load_episodes(file.parent)
    assert load_episodes(file.parent, "filler32k")[0].variant == "filler32k"
    with pytest.raises(UserError, match="no episodes of the variant 'filler128k'"):
        load_episodes(file.parent, "filler128k")


def test_the_variant_is_what_is_named_else_told_by_the_file_then_the_folder(released: Path) -> None:
    assert load_episodes(released, "nofiller")[0].variant == "nofiller"
    folder = released.parent / "nofiller and others"
    folder.mkdir()
    inner = released.rename(folder / "filler_128K.json")
    assert load_episodes(inner)[0].variant == "filler128k"
    inner = inner.rename(folder / "mine.json")
    assert load_episodes(folder.parent, "nofiller")[0].variant == load_episodes(inner)[0].variant == "nofiller"
    inner.rename(released.parent / "mine.json")
    assert load_episodes(released.parent)[0].variant == "mine"
    (released.parent / "other.json").write_text("[]")
    with pytest.raises(UserError, match=r"\(mine.json, other.json\); name one as the variant, or give a file"):
        load_episodes(released.parent)


def test_a_number_as_id_becomes_the_released_one(released: Path) -> None:
    loaded = changed(released, lambda values: [one.__setitem__("episode_id", 7) for one in values])
    assert [one.episode.id for one in loaded] == ["pl_007", "sw_007"]


def older_labels(values: Any) -> None:
    older = {
        "exact_recall": "Exact",
        "aggregation": "Multi-hop",
        "tracking": "Multiple-update",
        "deletion": "Del",
        "cascade": "Cascade-D",
        "absence": "Cascade-U",
    }
    for value in values:
        for one in [*value["after_questions"]["questions"], *value["before_questions"]["questions"]]:
            one["task_type"] = older[one["task_type"]]
        for one in value["tasks"]:
            one["type"] = older[one["type"]]


def test_older_labels_of_tasks_are_read(file: Path) -> None:
    assert changed(file, older_labels) == list(made())


def test_a_position_that_counts_sessions_is_told_by_the_evidence(file: Path) -> None:
    def count_them(values: Any) -> None:
        for value in values:
            for name in ("before_questions", "after_questions"):
                value[name]["position_after_session"] += 1

    loaded = changed(file, count_them)
    assert [one.episode for one in loaded] == [one.episode for one in made()]
    assert loaded[0].notes == ("position_after_session counts sessions",)


@pytest.mark.parametrize(
    "field",
    ["root", "root_change", "entities", "tasks", "dependency_edges_used", "chain_entities", "total_sessions"],
)
@pytest.mark.parametrize("value", [None, 7, "x", [1, {}], {"a": 1}])
def test_what_nothing_reads_is_never_refused(file: Path, field: str, value: Any) -> None:
    loaded = changed(file, lambda values: values[0].__setitem__(field, value))
    assert loaded[0].episode == made()[0].episode
    assert [one.values for one in loaded[0].gold.questions.values()] == [
        one.values for one in made()[0].gold.questions.values()
    ]


def _set(*path: Any, to: Any) -> Callable[[Any], None]:
    def change(values: Any) -> None:
        for step in path[:-1]:
            values = values[step]
        values[path[-1]] = to

    return change


ROUND = ("after_questions", "questions", 0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_set(0, "episode_id", to="../x"), r"episode 1: field 'episode_id'"),
        (_set(1, "episode_id", to="pl_001"), r"the episode_id 'pl_001' occurs twice"),
        (_set(0, "domain", to="cooking"), r"field 'domain'"),
        (_set(0, "sessions", to=[]), r"field 'sessions'"),
        (_set(0, "sessions", 1, "conversation", 0, "role", to="oracle"), r"session 1, line 0: the role 'oracle'"),
        (_set(0, "sessions", 1, "conversation", 0, "content", to=None), r"sessions.1.conversation.0.content"),
        (_set(0, *ROUND, "question", to=""), r"after_questions.questions.0.question"),
        (_set(0, *ROUND, "task_type", to="guessing"), r"'guessing' is no task; the tasks are exact_recall"),
        (_set(0, *ROUND, "entity_values", to=None), r"after_questions 1: field 'entity_values'"),
        (_set(0, *ROUND, "entity_values", to=[]), r"after_questions 1: field 'entity_values'"),
        (_set(0, *ROUND, "entity_values", to={"a": "  "}), r"after_questions 1: field 'entity_values'"),
        (_set(0, *ROUND, "entity_values", to={"a": ["x", 7]}), r"after_questions 1: field 'entity_values'"),
        (_set(0, *ROUND, "entity", to=[7]), r"after_questions 1: field 'entity'"),
        (_set(0, "before_questions", "position_after_session", to=99), r"no such session in 5"),
    ],
)
def test_what_is_asked_read_or_scored_is_named_in_one_sentence(
    file: Path, change: Callable[[Any], None], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence) as raised:
        changed(file, change)
    assert str(raised.value).startswith(str(file)) and "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "{}", "[]", "[NaN]", '[{"a": 1, "a": 2}]', "[" * 100_000, "[1", "[1]"])
def test_a_file_that_is_no_list_of_episodes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nofiller.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"nofiller\.json"):
        load_episodes(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["half \ud800", "deleted"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_value_anywhere_loads_or_is_one_sentence(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write_episodes(tmp_path_factory.mktemp("odd") / "nofiller.json", made()[:1])
    values = data.draw(st.sampled_from([json.loads(path.read_text("utf-8")), copy.deepcopy(list(BOTH[:1]))]))
    place: Any = values[0]
    while True:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(keys)))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.integers(0, 3)):
            place = place[key]
            continue
        place[key] = data.draw(VALUES)
        break
    path.write_text(json.dumps(values), "utf-8")
    try:
        loaded = load_episodes(path)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        episode_conversation(loaded[0].episode, len(loaded[0].episode.sessions))
        assert load_episodes(write_episodes(path, loaded))[0].episode == loaded[0].episode


LINES = st.lists(st.builds(Line, st.sampled_from(["user", "assistant"]), st.text(max_size=20)), max_size=6)


@given(st.lists(LINES, min_size=1, max_size=4))
def test_a_conversation_keeps_every_line_in_its_place(talks: list[list[Line]]) -> None:
    sessions = tuple(Session(f"s{n}", "2023/03/01 (Wed) 09:00", tuple(lines)) for n, lines in enumerate(talks))
    asked = Round(len(sessions), "", ())
    episode = Episode("pl_001", "personal_life", sessions, asked, asked)
    conversation, places = episode_conversation(episode, len(sessions)), message_places(episode, len(sessions))
    assert set(places) == {message.id for message in conversation.messages}
    for number, (session, batch) in enumerate(zip(sessions, conversation.batches, strict=True)):
        said = [message for turn in batch.turns for message in turn.messages]
        text = "".join(message.content for message in said)
        for line in session.lines:
            assert line.content in text
        for message in said:
            place, line = places[message.id]
            assert place == number
            if message.role == session.lines[line].role:
                assert session.lines[line].content in message.content
            assert message.role == "assistant" or message.content.startswith("[2023/03/01 (Wed) 09:00]")


def test_facts_are_found_in_the_lines_that_tell_them(file: Path) -> None:
    def move(values: Any) -> None:
        for value in values:
            for session in value["sessions"]:
                for fact in session["gold_facts"]:
                    fact["turn"] = fact.pop("conveyed_in_turn") // 2  # turns of the user alone

    loaded = changed(file, move)
    for one, known in zip(loaded, made(), strict=True):
        told = [fact for fact in one.gold.facts if fact.kind != "deletion"]
        assert told == [fact for fact in known.gold.facts if fact.kind != "deletion"]


def test_statistics_stand_beside_the_published_counts(file: Path) -> None:
    rows = {row["count"]: row for row in statistics(load_episodes(file)).records()}
    assert rows["episodes"]["these"] == 2 and rows["episodes"]["published"] == "100"
    assert rows["questions, tracking"]["these"] == 2
    assert rows["questions, cascade"]["these"] == sum(
        gold.task == "cascade" and gold.phase == "after" for one in made() for gold in one.gold.questions.values()
    )
    assert rows["sessions per episode"]["these"] == 5.0 and rows["questions before the change"]["published"] == "494"


def test_statistics_of_the_released_layout(released: Path) -> None:
    rows = {row["count"]: row for row in statistics(load_episodes(released, "filler128k")).records()}
    assert (rows["sessions per episode"]["these"], rows["evidence sessions per episode"]["these"]) == (6.0, 5.0)
    assert (rows["questions after the change"]["these"], rows["questions after the change"]["published"]) == (13, "277")
    assert rows["questions, tracking"]["published"] == ""
    said = sum(len(line["content"]) for one in BOTH for session in one["sessions"] for line in session["conversation"])
    assert said / 8 / len(BOTH) < rows["tokens per episode"]["these"] < said / len(BOTH)
    assert statistics([]).rows()
