"""Loading the released layout, on invented conversations and on real ones where they are present."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import pytest

from beamlib.data.conversations import Treatment
from beamlib.data.gold import ABILITIES
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import Source, find_conversations
from beamlib.errors import UserError
from fixtures_release import WORLDS, chat_of, write_conversation, write_value

FULL = Treatment("full")


def loaded(folder: Path, number: int = 1, treatment: Treatment = Treatment()) -> Loaded:  # noqa: B008
    return load(next(s for s in find_conversations(folder) if s.number == number), treatment)


def test_a_valid_conversation_loads_without_a_word(tiny_release: Path) -> None:
    for number in (1, 2):
        result = loaded(tiny_release, number)
        conversation = result.conversation
        assert result.anomalies == ()
        assert [probe.id for probe in result.probes] == [f"100K-{number}-q{i:02d}" for i in range(20)]
        assert [result.gold[probe.id].ability for probe in result.probes] == [a for a in ABILITIES for _ in range(2)]
        assert [message.id for message in conversation] == list(range(20))
        assert conversation.removed == {"i,j": 8}
        assert all("->->" not in message.content for message in conversation)
        assert conversation.batches[0].time_anchor == "March-04-2024"
        assert result.gold[f"100K-{number}-q04"].evidence == (0, 8, 14)
        assert result.flagged == ()


def test_markers_stay_when_asked_and_are_data_either_way(tiny_release: Path) -> None:
    without, with_markers = loaded(tiny_release), loaded(tiny_release, treatment=Treatment(strip_markers=False))
    assert with_markers.conversation.removed == {}
    assert with_markers.conversation.messages[0].content.endswith("->-> 1,1")
    assert [m.marker for m in with_markers.conversation] == [m.marker for m in without.conversation]
    assert with_markers.conversation.sha256 != without.conversation.sha256


def test_the_hash_says_what_was_read(tiny_release: Path) -> None:
    before = loaded(tiny_release).conversation.sha256
    assert before == loaded(tiny_release).conversation.sha256
    chat = chat_of(WORLDS[0])
    chat[0]["turns"][0][1]["content"] += "!"
    write_value(tiny_release / "100K/1/chat.json", chat)
    assert loaded(tiny_release).conversation.sha256 != before


def test_the_cut_chat_is_read_where_there_is_one(tiny_release: Path) -> None:
    folder = tiny_release / "100K/1"
    chat = chat_of(WORLDS[0])
    chat[2]["turns"].pop()
    write_value(folder / "chat_trunecated.json", chat)
    cut, full = loaded(tiny_release), loaded(tiny_release, treatment=FULL)
    assert (cut.conversation.variant, len(cut.conversation.messages)) == ("truncated", 18)
    assert (full.conversation.variant, len(full.conversation.messages)) == ("full", 20)
    assert cut.gold["100K-1-q18"].evidence_missing == (18,)
    assert [a.kind for a in cut.anomalies] == ["evidence_missing"] * 2
    (folder / "chat.json").unlink()
    with pytest.raises(UserError, match="use chat_variant truncated"):
        loaded(tiny_release, treatment=FULL)
    (folder / "chat_trunecated.json").unlink()
    with pytest.raises(UserError, match="neither"):
        loaded(tiny_release)


def test_a_lost_cut_chat_is_noticed(tiny_release: Path) -> None:
    (tiny_release / "100K/1/plan_new_trunecated.txt").write_text("BATCH 1 PLAN")
    assert [a.kind for a in loaded(tiny_release).anomalies] == ["truncated_chat_missing"]
    assert loaded(tiny_release, treatment=FULL).anomalies == ()


def test_stray_repeated_and_odd_markers(tiny_release: Path) -> None:
    chat = chat_of(WORLDS[0])
    first, second = chat[0]["turns"][0], chat[0]["turns"][1]
    first[1]["content"] += " ->-> 1,1"
    first[0]["content"] = "Twice? ->-> 1,1 ->-> 1,1"
    second[0]["content"] = "Draw A ->> B please ->-> 2,2"
    write_value(tiny_release / "100K/1/chat.json", chat)
    result = loaded(tiny_release)
    assert [a.kind for a in result.anomalies] == [
        "marker_repeated",
        "stray_marker",
        "marker_batch_differs",
        "index_differs",
    ]
    assert result.conversation.removed == {"i,j": 8, "stray": 2}
    assert [m.content for m in result.conversation.messages[:5:4]] == ["Twice?", "Draw A ->> B please"]
    assert not result.conversation.messages[1].content.endswith("1,1")


def ten_million(folder: Path, plans: int) -> Path:
    """A 10M conversation as folders of per-plan files: each plan is the invented chat, ids from 0."""
    write_conversation(folder, WORLDS[0])
    (folder / "chat.json").unlink()
    (folder / "user_messages.json").unlink()
    for plan in range(plans):
        write_value(folder / f"plan-{plan}" / "chat.json", chat_of(WORLDS[plan % 2]))
    return folder


def combine(folder: Path, plans: int, name: str = "chat.json") -> None:
    """The combined file of the same plans: keys from 1, ids global."""
    combined = []
    for plan in range(plans):
        chat = copy.deepcopy(chat_of(WORLDS[plan % 2]))
        for message in (m for batch in chat for turn in batch["turns"] for m in turn):
            message["id"] += 20 * plan
        combined.append({f"plan-{plan + 1}": chat})
    write_value(folder / name, combined)


def test_ten_million_folders_and_combined_file_agree(tmp_path: Path) -> None:
    folder = ten_million(tmp_path / "10M/3", 10)
    from_folders = loaded(tmp_path, 3)
    combine(folder, 10)
    combined = loaded(tmp_path, 3)
    assert combined.conversation == from_folders.conversation
    assert [m.id for m in combined.conversation] == list(range(200))
    assert [b.plan for b in combined.conversation.batches] == [plan for plan in range(10) for _ in range(3)]
    assert combined.conversation.batches[3].number == 1


def test_plan_cutoff_stands_in_for_the_cut_file(tmp_path: Path) -> None:
    folder = ten_million(tmp_path / "10M/3", 10)
    (folder / "plan_cutoff.txt").write_text("8\n")
    by_folders = loaded(tmp_path, 3)
    combine(folder, 10)
    by_file = loaded(tmp_path, 3)
    for result in (by_folders, by_file):
        assert result.conversation.variant == "truncated"
        assert len(result.conversation.messages) == 160
        assert "cut_by_plan" in {a.kind for a in result.anomalies}
    assert by_folders.conversation == by_file.conversation
    assert len(loaded(tmp_path, 3, FULL).conversation.messages) == 200
    combine(folder, 7, "chat_trunecated.json")
    assert len(loaded(tmp_path, 3).conversation.messages) == 140
    (folder / "chat_trunecated.json").unlink()
    (folder / "plan_cutoff.txt").write_text("many")
    with pytest.raises(UserError, match="from 1 to 10, not 'many'"):
        loaded(tmp_path, 3)


def test_leading_plans_are_usable_and_later_ones_are_not(tmp_path: Path) -> None:
    folder = ten_million(tmp_path / "10M/3", 5)
    shutil.rmtree(folder / "plan-2")
    result = loaded(tmp_path, 3)
    assert len(result.conversation.messages) == 40
    (note,) = [a for a in result.anomalies if a.kind == "plans_missing"]
    assert "plan-2" in note.detail
    assert "3, 4 left out" in note.detail
    shutil.rmtree(folder / "plan-0")
    with pytest.raises(UserError, match=r"plan-0/chat\.json"):
        loaded(tmp_path, 3)


def test_a_huge_message_is_kept_whole(tiny_release: Path) -> None:
    chat = chat_of(WORLDS[0])
    chat[0]["turns"][0][1]["content"] = "la " * 117_000
    write_value(tiny_release / "100K/1/chat.json", chat)
    result = loaded(tiny_release)
    assert [a.kind for a in result.anomalies] == ["degenerate_length"]
    assert len(result.conversation.messages[1].content) == 351_000


def test_byte_order_mark_and_null_characters_are_noted(tiny_release: Path) -> None:
    path = tiny_release / "100K/1/chat.json"
    path.write_text("\ufeff" + path.read_text().replace("flea market", "flea\\u0000market", 1))
    result = loaded(tiny_release)
    assert sorted(a.kind for a in result.anomalies) == ["byte_order_mark", "null_character"]


EXPECTED = {  # conversation: messages in the evaluated chat, and which chat that is
    "100K-5": (232, "truncated"),
    "100K-7": (254, "truncated"),
    "100K-4": (212, "full"),
    "500K-1": (796, "full"),
    "1M-3": (1556, "full"),
    "10M-4": (3214, "full"),
}


def test_real_conversations(beam_data: Path) -> None:
    for source in find_conversations(beam_data):
        result = load(source)
        conversation = result.conversation
        assert len(result.probes) == len(result.gold) == 20
        assert not any("->->" in message.content for message in conversation)
        if source.id in EXPECTED:
            assert (len(conversation.messages), conversation.variant) == EXPECTED[source.id]
        if source.size != "10M":
            assert not any(gold.evidence_missing for gold in result.gold.values())


def test_real_plans_follow_each_other(beam_data: Path) -> None:
    folder = beam_data / "10M" / "4"
    if not folder.is_dir():
        pytest.skip("conversation 10M/4 is not there")
    result = load(Source("10M-4", "10M", folder, "released"))
    sizes = [
        sum(len(b.turns) and sum(len(t.messages) for t in b.turns) for b in batches)
        for batches in ([b for b in result.conversation.batches if b.plan == plan] for plan in (0, 1))
    ]
    assert sizes == [1600, 1614]
    # A question that names one plan cites ids in that plan's range: the offset rule, confirmed by the data itself.
    ranges = {"Plan 0": range(1600), "Plan 1": range(1600, 3214)}
    checked = 0
    for gold in result.gold.values():
        plan = gold.extras.get("plan_reference")
        if plan in ranges and gold.evidence:
            assert all(i in ranges[plan] for i in gold.evidence)
            checked += 1
    assert checked
