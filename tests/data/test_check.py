"""The check of a folder: counts as the format's description has them, every anomaly, and it goes on after an error."""

from __future__ import annotations

import json
from pathlib import Path

from beam_claims.data_check import CheckReport, check_folder
from fixtures_release import WORLDS, chat_of, write_value


def odd(report: CheckReport) -> list[tuple[str, str]]:
    """Kinds and files of the anomalies, without what every invented conversation under a released number has."""
    return [(f.kind, f.file) for f in report.anomalies if f.kind != "file_changed"]


def test_a_valid_folder(tiny_release: Path) -> None:
    report = check_folder(tiny_release)
    assert report.errors == []
    assert odd(report) == []
    (tier,) = report.tiers
    assert tier.files == {"changed": 8}
    counts = tier.chats["full"]
    assert (counts.conversations, counts.batches, counts.turns, counts.messages) == (2, 6, 16, 40)
    assert (counts.main_question, counts.answer_ai_question, counts.followup_question) == (16, 2, 2)
    assert counts.turn_lengths == {2: 12, 4: 4}
    assert counts.markers == tier.user_message_markers == {"i,j": 16}
    assert (tier.probes, tier.rubric_items) == (40, 80)
    assert tier.questions["event_ordering"].evidence_shapes == {"mixed": 4}
    assert tier.questions["temporal_reasoning"].stems == {"state": 8}
    assert tier.questions["abstention"].stems == {"no information": 4}
    assert tier.questions["summarization"].cited_assistant == 4
    assert json.loads(report.model_dump_json())["token_counter"] == "regex-words"


def test_it_goes_on_after_a_broken_conversation(tiny_release: Path) -> None:
    (tiny_release / "100K/1/chat.json").write_text("[{")
    (tiny_release / "100K/3").mkdir()
    report = check_folder(tiny_release)
    assert report.tiers[0].conversations == ["100K-2"]
    assert len(report.errors) == 2
    assert "100K/1/chat.json: line 1" in report.errors[0]
    assert "neither chat.json" in report.errors[1]
    assert "Errors: 2" in report.render()


def test_anomalies_name_file_and_place(tiny_release: Path) -> None:
    folder = tiny_release / "100K/1"
    chat = chat_of(WORLDS[0])
    chat[0]["turns"][0][1]["content"] += " ->-> 1,1"
    write_value(folder / "chat.json", chat)
    (folder / "chat.pickle").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    (tiny_release / "100K/2/user_messages.json").unlink()
    report = check_folder(tiny_release)
    assert odd(report) == [
        ("stray_marker", "100K/1/chat.json"),
        ("pickle_present", "100K/1/chat.pickle"),
        ("file_unreadable", "100K/2/user_messages.json"),
    ]
    assert report.tiers[0].chats["full"].stray_markers == {"assistant": 1}
    assert "100K/1/chat.json: batch 1, turn 1, message 2: 1 index marker(s)" in report.render()


def test_broken_user_messages_are_no_error(tiny_release: Path) -> None:
    write_value(tiny_release / "100K/1/user_messages.json", [{"batch": 1, "time_anchor": None, "messages": [{}]}])
    report = check_folder(tiny_release)
    assert report.errors == []
    (note,) = [f for f in report.anomalies if f.kind == "file_unreadable"]
    assert "batch 1, message 1: the field `content` is missing; only this check reads it" in note.detail


def test_both_chats_are_counted(tiny_release: Path) -> None:
    chat = chat_of(WORLDS[0])
    chat[2]["turns"].pop()
    write_value(tiny_release / "100K/1/chat_trunecated.json", chat)
    chats = check_folder(tiny_release).tiers[0].chats
    assert (chats["full"].conversations, chats["full"].messages) == (2, 40)
    assert (chats["truncated"].conversations, chats["truncated"].messages) == (1, 18)


def test_real_data_has_the_published_counts(beam_data: Path) -> None:
    report = check_folder(beam_data)
    assert report.errors == []
    tiers = {tier.size: tier for tier in report.tiers}
    if tiers.get("100K") and set(tiers["100K"].conversations) == {f"100K-{n}" for n in range(1, 21)}:
        full, cut = tiers["100K"].chats["full"], tiers["100K"].chats["truncated"]
        assert (full.batches, full.turns, full.messages) == (90, 2127, 5732)  # section 1.2 of the description
        assert (full.main_question, full.answer_ai_question, full.followup_question) == (2127, 523, 216)
        assert (cut.conversations, cut.turns, cut.messages) == (10, 869, 2654)
        assert full.stray_markers == {"answer_ai_question": 18, "assistant": 44, "followup_question": 10}
        assert full.markers == {"i,j": 2119, "i,N/A": 1, "i,j,k": 1, "i,j)": 6}
        (runaway,) = [f for f in report.anomalies if f.file == "100K/4/chat.json" and f.kind == "degenerate_length"]
        assert runaway.detail == "message 97 has 348853 characters; kept whole"
    if tiers.get("10M") and tiers["10M"].conversations == ["10M-4"]:
        assert tiers["10M"].chats["full"].plan_offsets == {"10M-4": [0, 1600]}
    for tier in report.tiers:
        assert tier.probes == 20 * len(tier.conversations)
        for counts in tier.chats.values():
            assert 2 * counts.turns <= counts.messages
            assert sum(counts.turn_lengths.values()) == counts.turns == counts.main_question
            assert sum(length * n for length, n in counts.turn_lengths.items()) == counts.messages
            users = counts.main_question + counts.answer_ai_question + counts.followup_question
            assert 2 * users == counts.messages
