"""The stand-in's reading of plain English: facts, changes, what hangs on what, and wishes to forget."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_offline.evolving_rules import EVOLVING_RULES, dependency_notes, file_memory_ingest
from beam_offline.told_facts import Statement, statements_of, told_sentences
from beamlib.llm.prompts import prompt_file

KNOWN = {"employer": "Brix & Co", "web framework": "Vexil", "gate code": "QX-77"}


def told(message: str) -> list[tuple[str, ...]]:
    return [
        (one.kind, one.subject, *(part for part in (one.value, one.source, one.when) if part))
        for one in statements_of(message, KNOWN)
    ]


@pytest.mark.parametrize(
    ("message", "subject", "value"),
    [
        ("My commute method is the blue tram.", "commute method", "the blue tram"),
        ("We use Karnex as our package manager, and it works.", "package manager", "Karnex"),
        ("For our secret store, we use Vaultine.", "secret store", "Vaultine"),
        ("The weekly report goes to Hyun Nam.", "weekly report", "Hyun Nam"),
        ("Mia Chu is our escalation contact.", "escalation contact", "Mia Chu"),
        ("I keep bees as my hobby.", "hobby", "bees"),
        ("We meet in the Heron room, our meeting place.", "meeting place", "the Heron room"),
        ("My appointment is every Friday with Dr. Okoro. Any tips?", "appointment", "every Friday with Dr. Okoro"),
        ("Our test command is `tcs rub --quiet` here.", "test command", "tcs rub --quiet"),
        ("My loan is 9,200 crowns, which is a lot.", "loan", "9,200 crowns"),
        ("The boat I sail is the Gull.", "boat", "the Gull"),
        ("Our cache folder is .spk/teeth.", "cache folder", ".spk/teeth"),
        ("[2023/03/01 (Wed) 09:00]\nMy town is Dunholm.", "town", "Dunholm"),
    ],
)
def test_facts(message: str, subject: str, value: str) -> None:
    assert told(message) == [("fact", subject, value)]


@pytest.mark.parametrize(
    ("message", "subject", "value"),
    [
        ("Our team lead is now Abel Quist.", "team lead", "Abel Quist"),
        ("We switched our package manager from Tarn to Sedge.", "package manager", "Sedge"),
        ("Our team lead has changed to Rina Sol.", "team lead", "Rina Sol"),
        ("As of Monday my employer is Ostrander.", "employer", "Ostrander"),
        ("I've updated my subscription to Plus.", "subscription", "Plus"),
    ],
)
def test_changes(message: str, subject: str, value: str) -> None:
    assert told(message) == [("change", subject, value)]


@pytest.mark.parametrize(
    "clause",
    [
        ", which depends on my employer.", ", and it is tied to my employer.", " because of my employer.",
        " as long as my employer stays the same.", ". That's linked to my employer.", ", since I work at Brix & Co.",
        ". It depends directly on my employer, as these things do.", ". If my employer changes, this would change too.",
        ", based on my employer.", ". It was decided by my employer.", ". If I change my employer, it may change.",
        ". It depends on my employer: if my employer changes, this would change as well.",
        ", arranged for me by my employer.",
        "; a new employer means a new one.",
    ],
)  # fmt: skip
def test_what_a_fact_hangs_on(clause: str) -> None:
    assert told(f"My insurance is Novacare{clause}") == [
        ("fact", "insurance", "Novacare"),
        ("dependency", "insurance", "employer"),
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("If my employer changes, my insurance will be Novacare.", ("insurance", "Novacare", "employer")),
        ("Once my employer changes, my insurance will then be Novacare.", ("insurance", "Novacare", "employer")),
        ("When my employer changes to Ostrander, my desk will be B4.", ("desk", "B4", "employer", "Ostrander")),
        ("My insurance will be Novacare if my employer changes.", ("insurance", "Novacare", "employer")),
        ("If I ever switch my employer, my desk will become B4.", ("desk", "B4", "employer")),
        ("If our web framework changes, we'll use Ketch, our linter.", None),
    ],
)
def test_what_will_be_is_neither_fact_nor_change(message: str, expected: tuple[str, ...] | None) -> None:
    assert told(message) == ([("dependency", *expected)] if expected else [])


@pytest.mark.parametrize(
    ("message", "subject", "value"),
    [
        ("Please delete my gate code, QX-77, from your memory.", "gate code", "QX-77"),
        ("Can you forget my gate code?", "gate code", "QX-77"),
        ("Please forget that my gym is Iron Hall.", "gym", "Iron Hall"),
        ("Remove my shoe size from your notes.", "shoe size", ""),
        ("Don't remember my shoe size, 44.", "shoe size", "44"),
        ("My gym is Iron Hall. Please delete that from your memory.", "gym", "Iron Hall"),
    ],
)
def test_wishes_to_forget(message: str, subject: str, value: str) -> None:
    found = statements_of(message, KNOWN)
    assert found[-1] == Statement("deletion", subject, value)


@pytest.mark.parametrize(
    "message",
    [
        "What is my employer?",
        "Don't forget the milk.",
        "Could you delete the second paragraph?",
        "It depends.",
        "",
        "Thanks!",
    ],
)
def test_what_tells_nothing(message: str) -> None:
    assert told(message) == []


@pytest.mark.parametrize(
    "message",
    [
        'My motto, word for word, is: "Row slowly; count the gulls.\nKeep one lamp lit." Will you?',
        "Please keep my motto verbatim:\n```\nRow slowly; count the gulls.\nKeep one lamp lit.\n```",
        "Keep my motto word for word:\nRow slowly; count the gulls.\nKeep one lamp lit.",
    ],
)
def test_exact_strings_keep_their_lines(message: str) -> None:
    assert told(message) == [("fact", "motto", "Row slowly; count the gulls.\nKeep one lamp lit.")]


def test_no_sentence_ends_with_a_title() -> None:
    assert told_sentences("I see Dr. Okoro. She is kind.") == ["I see Dr. Okoro.", "She is kind."]


@given(st.text(max_size=400))
def test_any_message_can_be_read(message: str) -> None:
    for one in statements_of(message, KNOWN):
        assert one.subject


@pytest.mark.parametrize(
    "unit", ["if the a ", "my a is ", "will if ", "depends on the ", "we use a as ", 'verbatim "“', "```x\n", ". A b "]
)
def test_long_messages_are_read_in_no_time(unit: str) -> None:
    began = time.perf_counter()
    for length in (1_150, 60_000):
        statements_of(unit * (length // len(unit)), {})
    assert time.perf_counter() - began < 3


@pytest.mark.parametrize("name", sorted(EVOLVING_RULES))
def test_any_variables_get_json(name: str) -> None:
    for text in ("", "some text", "[messages 0-1]\nUSER: ?\nASSISTANT: !", "[messages 9-8]", "- a.md: b"):
        reply = EVOLVING_RULES[name](dict.fromkeys(prompt_file(name).variables, text))
        assert isinstance(json.loads(reply), dict)


def test_notes_name_their_messages_and_know_what_was_told_before() -> None:
    session = (
        "[messages 4-5]\nUSER: My desk is B4.\nASSISTANT: My desk is C9.\n\n"
        "[messages 6-7]\nUSER: It depends on my employer. Please forget my gate code.\nASSISTANT: Fine."
    )
    found = json.loads(dependency_notes({"known": "gate code: QX-77", "date": "", "session": session}))
    assert found["facts"] == [{"subject": "desk", "value": "B4", "message": 4}]
    assert found["deletions"] == [{"subject": "gate code", "value": "QX-77", "message": 6}]


def test_the_file_is_read_before_it_is_changed_and_only_once() -> None:
    session = "[messages 4-5]\nUSER: My desk is now C9.\nASSISTANT: Fine."
    asked = {"date": "2 May", "session": session, "done": ""}
    assert json.loads(file_memory_ingest(asked))["calls"][0]["tool"] == "read"
    read = "read {}\n1: - [messages 0-1] 2023/05/01: My desk is B4."
    (call,) = json.loads(file_memory_ingest({**asked, "done": read}))["calls"]
    assert call["tool"] == "replace" and call["arguments"]["old"] == "- [messages 0-1] 2023/05/01: My desk is B4."
    assert call["arguments"]["new"].startswith(
        "- [messages 4-5] 2 May: My desk is now C9. (before: 2023/05/01: My desk"
    )
    assert json.loads(file_memory_ingest({**asked, "done": f"{read}\nreplace {{}}\nReplaced."}))["calls"] == []


@pytest.mark.parametrize(
    "clause",
    [
        "Should my employer ever be another one, my insurance turns into Fennfold.", "A new employer means Fennfold.",
        "With another employer it would be Fennfold.", "It becomes Fennfold the moment I get a new employer.",
        "Without Brix & Co it'd be Fennfold.", "Upon leaving my employer, Fennfold will be my insurance.",
    ],
)  # fmt: skip
def test_a_supposed_change_is_told_by_what_it_mentions(clause: str) -> None:
    assert ("dependency", "insurance", "Fennfold", "employer") in told(
        f"My employer is Brix & Co. My insurance is Novacare. {clause}"
    )


def test_what_mentions_no_other_subject_hangs_on_nothing() -> None:
    for remark in (
        "My tea is Assam, and it tastes best if hot.",
        "If it rains, I will stay in.",
        "My tea will be cold.",
    ):
        assert not any(one[0] == "dependency" for one in told(f"My employer is Brix & Co. {remark}"))
