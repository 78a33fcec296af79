"""What each setup shows of a dialogue, and what it does not. The texts of invented dialogues are made up here."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from beam_memorycode.dialogue_files import LoadedDialogue, load_dialogues
from beam_memorycode.dialogues import Dialogue, DialogueSession, Mention, Setting, Topic
from beam_memorycode.running import (
    MEMORY_SETUPS,
    OTHER_UNITS,
    PUBLISHED_SETUPS,
    SETUPS,
    WITHOUT_TEXTS,
    Place,
    Setup,
    answer_places,
    best_units,
    guideline_list,
    possible,
    recalled_prompt,
    retrieval_units,
    setup_prompts,
)
from beam_memorycode.task import MEMORYCODE
from beamlib.errors import UserError
from beamlib.params import usual_parameters

PEOPLE = Setting("Ruth", "Björn", "Halden Works")


def session(*said: tuple[str, int, int, str], text: str | None = "Ruth: Nothing today.") -> DialogueSession:
    topics = (Topic("filler-add", "the canteen"), *(Topic("instruction-add", value) for value, *_ in said))
    mentions = tuple(Mention(instruction, value) for _, instruction, value, _ in said)
    return DialogueSession(topics, mentions, tuple(query for *_, query in said), "short", 4, text)


INVENTED = Dialogue(
    7,
    PEOPLE,
    (
        session(("start variables with 'q_'", 9, 0, "function over graphs"), text="Ruth: Graphs: names with 'q_'."),
        session(),
        session(("start variables with 'k_'", 9, 1, "function over graphs"), ("decorate classes", 40, 0, "Heap class"),
                text="Ruth: Heaps: decorate classes; variables now with 'k_'."),
    ),
    ("Heap class", "function over graphs"),
)  # fmt: skip


def shown(dialogue: Dialogue, setup: Setup, **changes: str) -> list[tuple[Place, str]]:
    return [
        (place, "\n".join(message["content"] for message in prompt.messages))
        for place, prompt in setup_prompts(dialogue, setup, changes.get("retriever", "bm25"))
    ]


@cache
def released(folder: Path) -> list[LoadedDialogue]:
    return [item for item in load_dialogues(folder) if item.dialogue.has_texts and len(item.dialogue.sessions) <= 20]


# Which prompts there are


def test_places_are_the_queries_of_each_session_or_of_the_last() -> None:
    per_session = [Place(0, 0), Place(2, 0), Place(2, 1)]
    for setup in SETUPS:
        expected = per_session if setup in ("instruction", "session") else [Place(2, 0), Place(2, 1)]
        assert answer_places(INVENTED, setup) == expected


def test_every_published_answer_has_its_prompt(memorycode_data: Path) -> None:
    counts = dict.fromkeys(PUBLISHED_SETUPS, 0)
    for item in load_dialogues(memorycode_data):
        for setup in PUBLISHED_SETUPS:
            counts[setup] += len(answer_places(item.dialogue, setup))
    assert counts == {"instruction": 7339, "session": 7339, "history": 4182}


def test_instruction_shows_its_own_value_and_query() -> None:
    (_, first), (_, second), (_, third) = shown(INVENTED, "instruction")
    assert "start variables with 'q_'" in first
    assert "Write a function over graphs." in first
    assert "'k_'" in second
    assert "'q_'" not in second
    assert "decorate classes" in third
    assert "Write a Heap class." in third
    for text in (first, second, third):
        assert not re.search("Ruth|Björn|Halden", text)


def test_session_shows_that_session_alone() -> None:
    for place, text in shown(INVENTED, "session"):
        assert INVENTED.sessions[place.session].text in text  # type: ignore[operator]
        others = [session.text for number, session in enumerate(INVENTED.sessions) if number != place.session]
        assert not [other for other in others if other and other in text]
        assert "You are Björn" in text
        assert "at Halden Works" in text


def test_history_shows_all_sessions_in_order_under_numbers_from_0() -> None:
    for _, text in shown(INVENTED, "history"):
        places = [text.index(f"## Session {n}\n\n{session.text}\n") for n, session in enumerate(INVENTED.sessions)]
        assert places == sorted(places)
        assert "## Session 3" not in text


def test_the_queries_of_a_history_share_everything_before_them() -> None:
    (_, first), (_, other) = shown(INVENTED, "history")
    assert first.partition("Heap class.")[0] == other.partition("function over graphs.")[0]


def test_chain_lists_every_value_in_order_of_mention_and_no_talk() -> None:
    expected = "- start variables with 'q_'\n- start variables with 'k_'\n- decorate classes"
    assert guideline_list(INVENTED) == expected
    for _, text in shown(INVENTED, "chain"):
        assert expected in text
        assert not re.search("Ruth|Björn|Halden|canteen|Graphs:", text)


def test_alone_shows_the_query_and_nothing_of_the_dialogue() -> None:
    (_, text), _ = shown(INVENTED, "alone")
    assert "Write a Heap class." in text
    assert not re.search("Ruth|Björn|Halden|'q_'|'k_'|guideline|mentor", text)


def test_recalled_shows_the_context_in_the_place_of_the_history() -> None:
    prompt = recalled_prompt(INVENTED, "rag", Place(2, 1), "[messages 0-1]\nUSER: Ruth: so it is.")
    text = "\n".join(message["content"] for message in prompt.messages)
    assert "<context>\n[messages 0-1]\nUSER: Ruth: so it is.\n</context>" in text
    assert "Write a function over graphs." in text
    assert "You are Björn" in text


# Retrieval over sessions


def test_retrieval_takes_as_many_sessions_as_have_instructions_in_order_of_time() -> None:
    talk = ["Ruth: lunch and parking", "Ruth: heap heap heap", "Ruth: tax forms", "Ruth: a heap of parking", "Ruth: x"]
    dialogue = Dialogue(3, PEOPLE, tuple(
        session(*([("v", 1, 0, "heap")] if place < 2 else []), text=text) for place, text in enumerate(talk)
    ), ("heap",))  # fmt: skip
    assert best_units(["heap"], dialogue, retrieval_units(dialogue, "retrieval"), "bm25") == [[1, 3]]
    ((_, text),) = shown(dialogue, "retrieval")
    assert f"## Session 0\n\n{talk[1]}\n\n## Session 1\n\n{talk[3]}\n" in text
    assert not [other for other in (talk[0], talk[2]) if other in text]
    swapped = replace(
        dialogue, sessions=tuple(replace(dialogue.sessions[place], text=talk[place]) for place in (0, 3, 2, 1, 4))
    )
    assert best_units(["heap"], swapped, retrieval_units(swapped, "retrieval"), "bm25") == [[1, 3]]  # the best is last


def test_retrieval_follows_the_query_and_the_retriever_named() -> None:
    dialogue = Dialogue(
        3, PEOPLE, (session(("v", 1, 0, "heap"), text="Ruth: heap"), session(text="Ruth: graph")), ("heap", "graph")
    )
    assert best_units(dialogue.queries, dialogue, retrieval_units(dialogue, "retrieval"), "bm25") == [[0], [1]]
    with pytest.raises(UserError, match="retriever is 'psychic'"):
        best_units(["heap"], dialogue, retrieval_units(dialogue, "retrieval"), "psychic")


def test_turns_and_paragraphs_are_retrieved_in_place_of_sessions() -> None:
    talk = [
        "Ruth: lunch\n\nBjörn: heap first\n \nand the heap again\n\nRuth: parking",
        "Ruth: tax\n\n\nBjörn: the last heap",
    ]
    dialogue = Dialogue(3, PEOPLE, tuple(session(("v", 1, 0, "heap"), text=text) for text in talk), ("heap",))
    turns = retrieval_units(dialogue, "retrieval_turns")
    assert [unit.text for unit in turns] == [
        "Ruth: lunch", "Björn: heap first\n\nand the heap again", "Ruth: parking", "Ruth: tax", "Björn: the last heap",
    ]  # fmt: skip
    paragraphs = [unit.text for unit in retrieval_units(dialogue, "retrieval_paragraphs")]
    assert paragraphs[1:3] == ["Björn: heap first", "and the heap again"] and len(paragraphs) == 6
    ((_, text),) = shown(dialogue, "retrieval_turns")
    assert f"## Session 0\n\n{turns[1].text}\n\n## Session 1\n\n{turns[4].text}\n" in text
    assert "lunch" not in text and "tax" not in text
    assert not set(OTHER_UNITS) & set(MEMORYCODE.arms(usual_parameters("100K")))


# What cannot be asked


def test_without_texts_only_the_template_can_be_shown(memorycode_data: Path) -> None:
    bare = next(item.dialogue for item in load_dialogues(memorycode_data) if not item.dialogue.has_texts)
    assert [setup for setup in SETUPS if possible(bare, setup)] == list(WITHOUT_TEXTS)
    for setup in WITHOUT_TEXTS:
        assert len(setup_prompts(bare, setup)) == len(answer_places(bare, setup))
    with pytest.raises(UserError, match=rf"{bare.name}: has no texts, which the setup history shows"):
        setup_prompts(bare, "history")


@pytest.mark.parametrize("setup", ["instruction", "chain"])
def test_a_file_without_topics_is_refused_where_instructions_are_shown(setup: Setup) -> None:
    bare = replace(INVENTED, sessions=tuple(replace(old, topics=()) for old in INVENTED.sessions))
    with pytest.raises(UserError, match=r"dialogue_7: sessions\.0: topic lacks instructions, .* the setup " + setup):
        setup_prompts(bare, setup)
    assert len(setup_prompts(bare, "session")) == 3


def test_retrieval_needs_no_mentions() -> None:
    bare = replace(INVENTED, sessions=tuple(replace(old, mentions=()) for old in INVENTED.sessions))
    assert shown(bare, "retrieval") == shown(INVENTED, "retrieval")


# Canaries: what must not be in a prompt


def patterns(item: LoadedDialogue) -> set[str]:
    """The patterns of a dialogue's rules that no colleague would say: those with signs of a regular expression."""
    rules = [rule for session in item.rules.sessions for rule in session] + list(item.rules.history)
    return {
        rule.condition for rule in rules if isinstance(rule.condition, str) and re.search(r"[\\^$\[]", rule.condition)
    }


def test_no_rule_reaches_a_prompt(memorycode_data: Path) -> None:
    seen = 0
    for item in released(memorycode_data):
        canaries = patterns(item)
        seen += len(canaries)
        for setup in SETUPS:
            if setup not in MEMORY_SETUPS:
                for _, text in shown(item.dialogue, setup):
                    assert not [canary for canary in canaries if canary in text]
    assert seen > 50


def test_prompts_do_not_depend_on_labels_personas_or_fillers(memorycode_data: Path) -> None:
    item = released(memorycode_data)[-1]
    dialogue = item.dialogue
    sessions = tuple(
        DialogueSession(
            tuple(Topic("instruction-add", topic.text) for topic in old.topics if topic.coding),
            old.mentions, old.queries, "short", None, old.text,
        )
        for old in dialogue.sessions
    )  # fmt: skip
    people = Setting(dialogue.context.mentor, dialogue.context.mentee, dialogue.context.company, "CANARY", "CANARY")
    other = Dialogue(dialogue.id, people, sessions, dialogue.queries)
    for setup in SETUPS:
        if setup not in MEMORY_SETUPS:
            assert shown(other, setup) == shown(dialogue, setup)
