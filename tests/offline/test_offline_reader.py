"""The stand-in's reader: each behaviour on a context made up for it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_offline.answer_wording import MISSING
from beam_offline.question import QuestionKind, kind_of
from beam_offline.reader import answer


def pair(first: int, user: str, assistant: str = "Understood.") -> str:
    return f"[messages {first}-{first + 1}]\nUSER: {user}\nASSISTANT: {assistant}"


def ask(question: str, *passages: str) -> str:
    return answer({"question": question, "context": "\n\n".join(passages)})


ORCHARD = (
    pair(0, "I'm planting an orchard with 30 pear trees, and I want to finish it by March 29, 2024."),
    pair(8, "The pump for the irrigation of the orchard costs $420 and pushes 55 litres a minute."),
    pair(20, "I moved the date: the first harvest festival is on April 19, can you help me invite people?"),
)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Can you list the order in which I brought up my plans? Mention ONLY three items.", QuestionKind.ORDER),
        ("Can you give me a summary of my orchard work?", QuestionKind.SUMMARY),
        ("Have I ever grafted a tree?", QuestionKind.WHETHER),
        ("How many weeks are there between the planting and the festival?", QuestionKind.DURATION),
        ("Which came first: the pump, or the festival?", QuestionKind.FIRST),
        ("How many different tools did I mention across my sessions?", QuestionKind.COUNT),
        ("How should I prune my trees?", QuestionKind.REQUEST),
        ("When is the festival?", QuestionKind.DATE),
        ("How much does the pump cost?", QuestionKind.NUMBER),
        ("How did you recommend storing the pears?", QuestionKind.LOOKUP),
    ],
)
def test_the_wording_tells_what_is_wanted(question: str, kind: QuestionKind) -> None:
    assert kind_of(question) is kind


def test_a_fact_is_quoted_back_in_the_second_person() -> None:
    assert ask("How much does my irrigation pump cost?", *ORCHARD) == (
        'You said: "The pump for the irrigation of the orchard costs $420 and pushes 55 litres a minute."'
    )
    assert "March 29, 2024" in ask("When do I want to finish planting the orchard?", *ORCHARD)


@pytest.mark.parametrize(
    "question",
    [
        "What colour is my sailing boat?",
        "How much did my flight to Lisbon cost?",
        "What specific criteria did I use to choose the pump?",
        "Have I ever played the cello?",
        "How many days are there between the wedding and the exam?",
        "Can you give me a summary of my violin lessons?",
    ],
)
def test_it_abstains_where_the_context_does_not_say(question: str) -> None:
    assert ask(question, *ORCHARD) == MISSING


@pytest.mark.parametrize("context", ["", " \n\n ", "[messages 3-4]\nUSER: \nASSISTANT: "])
def test_no_context_no_answer(context: str) -> None:
    assert answer({"question": "How much does the pump cost?", "context": context}) == MISSING


def test_the_newest_of_two_values_holds_whatever_their_place_in_the_context() -> None:
    old = pair(4, "My vineyard has 120 vines so far.")
    new = pair(40, "I've now increased my vineyard to 145 vines, how should I water them?")
    for context in ((old, new), (new, old)):
        reply = ask("How many vines does my vineyard have?", *context)
        assert "145" in reply
        assert "120" not in reply


def test_contradictory_statements_are_both_given_and_asked_about() -> None:
    reply = ask(
        "Have I ever repaired a clock?",
        pair(2, "I've repaired a clock with a brass pendulum last week, how do I oil it?"),
        pair(30, "I've never repaired a clock, so where do I begin?"),
    )
    assert "contradictory" in reply
    assert "brass pendulum" in reply
    assert "never repaired" in reply
    assert reply.endswith("Which statement is correct?")


def test_without_a_contradiction_the_one_statement_answers() -> None:
    yes = pair(2, "I've repaired a clock with a brass pendulum.")
    no = pair(2, "I've never repaired a clock.")
    assert ask("Have I repaired a clock before?", yes).startswith("Yes.")
    assert ask("Have I repaired a clock before?", no).startswith("No.")


@pytest.mark.parametrize(
    ("question", "lead"),
    [
        ("How many days are there between finishing the orchard and the harvest festival?", "21 days"),
        ("How many weeks are there between finishing the orchard and the harvest festival?", "3 weeks (21 days)"),
    ],
)
def test_differences_between_dates(question: str, lead: str) -> None:
    reply = ask(question, *ORCHARD)
    assert reply.startswith(f"{lead}, from March 29, 2024 till April 19.")


def test_a_date_named_in_the_question_is_taken_from_it() -> None:
    reply = ask("How many days are there between April 5, 2024 and the harvest festival?", *ORCHARD)
    assert reply.startswith("14 days")


def test_days_across_a_leap_day_and_without_any_year() -> None:
    leap = (pair(0, "The choir sings on February 27, 2024."), pair(2, "The organ is tuned on March 2, 2024."))
    assert ask("How many days passed between when the choir sings and when the organ is tuned?", *leap).startswith(
        "4 days"
    )
    bare = (pair(0, "The choir sings on February 27."), pair(2, "The organ is tuned on March 2."))
    assert ask("How many days passed between when the choir sings and when the organ is tuned?", *bare).startswith(
        "3 days"
    )


def test_lists_are_numbered_in_order_of_mention() -> None:
    topics = ["the kiln glaze recipe", "the kiln shelf spacing", "the kiln firing schedule"]
    passages = [pair(10 * i, f"I'm trying to settle {topic} for my pottery kiln.") for i, topic in enumerate(topics)]
    reply = ask(
        "In what order did I bring up aspects of my pottery kiln? Mention ONLY three items.",
        *reversed(passages),
    )
    lines = reply.split("\n")[1:]
    assert [line[:2] for line in lines] == ["1.", "2.", "3."]
    assert [topic.split()[2] in line for topic, line in zip(topics, lines, strict=True)] == [True, True, True]


def test_no_more_items_than_asked_for() -> None:
    passages = [pair(2 * i, f"My garden diary, entry on {word}: it grew.") for i, word in enumerate("abcdefgh")]
    reply = ask("List the order of my garden diary entries. Mention ONLY and ONLY two items.", *passages)
    assert reply.count("\n") <= 2


def test_summaries_run_in_time_order_and_are_bounded() -> None:
    works = ["lantern glass replaced", "oak stair varnished", "gallery rail welded", "seaward door rehung"]
    more = ["diesel engine overhauled", "fog signal retuned", "freshwater well cleaned", "copper roof soldered"]
    passages = [
        pair(
            20 * i + 2 * j,
            f"For the lighthouse restoration I got the {work} by mason{i} and painter{j} of guild{i * j}.",
        )
        for i in range(8)
        for j, work in enumerate(works + more)
    ]
    reply = ask("Can you summarize the lighthouse restoration?", *passages)
    assert reply.index("lantern") < reply.index("gallery") < reply.index("copper roof")
    assert len(reply.split()) <= 280


def test_standing_instructions_are_kept_to() -> None:
    rule = pair(6, "Always give oven temperatures in Celsius when I ask about baking.")
    advice = pair(
        12, "My rye loaf is dense.", "Let the rye dough rise longer before baking.\n- Bake the rye loaf at 230 C."
    )
    reply = ask("How should I go about baking a rye loaf?", rule, advice, *ORCHARD)
    assert "oven temperatures in Celsius" in reply
    assert "230" in reply
    assert "Celsius" not in ask("How should I prune the pear trees in my orchard?", rule, advice, *ORCHARD)


def test_preferences_are_named() -> None:
    liking = pair(6, "I prefer linen canvas over cotton because it keeps its tension, how do I prime it?")
    assert "linen canvas over cotton" in ask("What canvas would you suggest for my next painting?", liking, *ORCHARD)


def test_code_comes_along_where_an_instruction_asks_for_it() -> None:
    rule = pair(2, "Always include a code snippet when I ask about filtering.")
    code = pair(
        4, "How do I filter rows?", "Filter rows by a key:\n```lua\nkeep(rows, by_key)\n```\nThat filters them."
    )
    assert "```lua\nkeep(rows, by_key)\n```" in ask("How can I handle filtering of rows?", rule, code)


def test_notes_and_pairs_are_read_alike() -> None:
    notes = "- [messages 4-5] I keep 14 hives behind the barn.\n- [messages 8-9] I sold 3 queens in May."
    assert "14 hives" in ask("How many hives do I keep?", notes)


def test_nothing_but_the_context_is_said() -> None:
    """Every figure of an answer that quotes stands in the context."""
    reply = ask("How many pear trees am I planting?", *ORCHARD)
    assert "30" in reply
    assert "31" not in reply


@pytest.mark.parametrize("filler", [" ", "\n", ". ", "- ", "```\n"])
def test_a_degenerate_message_costs_no_minutes(filler: str) -> None:
    context = pair(0, "I keep 14 hives.", filler * 100_000)
    start = time.perf_counter()
    assert "14 hives" in ask("How many hives do I keep?", context)
    assert time.perf_counter() - start < 10


@given(st.text(), st.text())
def test_any_question_and_context_get_an_answer_twice_the_same(question: str, context: str) -> None:
    variables = {"question": question, "context": context}
    assert answer(variables) == answer(variables)
