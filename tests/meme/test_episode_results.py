"""What is kept of an episode: names that can be files, texts once, bounds; and that data of another run are refused."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from beam_meme.episode_results import MOST_FILES, EpisodeContexts, contexts_record, writable_answer
from beam_meme.task import check_id, choose_episodes, unit_of
from beamlib.errors import UserError
from beamlib.evaluate.records import Answer
from small_episodes import LOADED

QUESTION = "sw_001-after-q01"


def record(*snapshots: dict[str, str], context: str = "seen") -> EpisodeContexts:
    return contexts_record("sw_001", {QUESTION: context}, snapshots, {})


@pytest.mark.parametrize("name", ["../../etc/x", "", ".", "a/b", "sw_001\n", "ä", "-x", "a" * 65, "x.json"])
def test_an_id_that_cannot_name_a_file_is_refused(name: str) -> None:
    hostile = replace(LOADED[0], episode=replace(LOADED[0].episode, id=name))
    with pytest.raises(UserError, match="cannot name a file; use at most 64 letters") as raised:
        unit_of(hostile)
    assert "\n" not in str(raised.value)


@examples(st.text(max_size=80))
def test_an_id_is_a_plain_name_or_refused(name: str) -> None:
    try:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", check_id(name))
    except UserError as error:
        assert "\n" not in str(error)


def test_a_text_is_kept_once_and_snapshots_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_meme.episode_results.MOST_KEPT", 1_000)
    big, small = "x" * 900, "y" * 90
    found = record({"a.md": big}, {"a.md": big, "b.md": small}, {"c.md": "z" * 900})
    assert sorted(found.texts.values()) == ["seen", big, small]
    assert [(sorted(one.files), one.left_out) for one in found.snapshots] == [
        (["a.md"], 0),
        (["a.md", "b.md"], 0),
        ([], 1),
    ]
    many = record({f"{n}.md": "" for n in range(MOST_FILES + 3)})
    assert (len(many.snapshots[0].files), many.snapshots[0].left_out) == (MOST_FILES, 3)


def test_halves_of_characters_do_no_harm() -> None:
    assert record({"../../x": "a\ud800b", "\udfff": "c"}).kept == [{"../../x": "a\ufffdb", "\ufffd": "c"}]
    answer = Answer(probe_id=QUESTION, conversation_id="sw_001", text="half \ud83d")
    assert writable_answer(answer).text == "half \ufffd"


@examples(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=4), max_size=4), st.text())
def test_whatever_a_memory_keeps_reads_back(snapshots: list[dict[str, str]], context: str) -> None:
    found = record(*snapshots, context=context)
    assert EpisodeContexts.model_validate_json(found.model_dump_json()) == found
    assert found.kept == snapshots
    assert found.context(QUESTION) == context


@pytest.mark.parametrize("change", [{"texts": {}}, {"more": 1}, {"spent": {"ingest": {"calls": -1}}}])
def test_a_record_that_is_not_ours_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        EpisodeContexts.model_validate({**record().model_dump(mode="json"), **change})


def test_at_most_so_many_of_each_domain() -> None:
    assert choose_episodes(LOADED, 1) == LOADED[:1]
    assert choose_episodes(LOADED, 0) == LOADED
