"""Cutting answers into events."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamlib.scoring.items import parse_items

ABC = ["sowing beans", "building a fence", "first harvest"]


@pytest.mark.parametrize(
    "answer",
    [
        "1. sowing beans\n2. building a fence\n3. first harvest",
        "1) sowing beans\n\n2) building a fence\n\n3) first harvest\n",
        "(1) sowing beans\n(2) building a fence\n(3) first harvest",
        "a) sowing beans\nb) building a fence\nc) first harvest",
        "Step 1: sowing beans\nStep 2: building a fence\nStep 3: first harvest",
        "- sowing beans\n- building a fence\n- first harvest",
        "* **sowing beans**\n* **building a fence**\n* **first harvest**",
        "**1. sowing beans**\n**2. building a fence**\n**3. first harvest**",
        "- 1. sowing beans\n- 2. building a fence\n- 3. first harvest",
        "### 1. sowing beans\n### 2. building a fence\n### 3. first harvest",
        "# Your garden\n\nHere is the order:\n\n1. sowing beans\n2. building a fence\n3. first harvest\n\nLet me know!",
        "1. sowing beans\n2. building a fence\n3. first harvest\nLet me know if you need more.",
        "```\n1. sowing beans\n2. building a fence\n3. first harvest\n```",
        "Spring:\n- sowing beans\n- building a fence\n\nAutumn:\n- first harvest",
        "sowing beans\nbuilding a fence\nfirst harvest",
        "The order was:\nsowing beans\nbuilding a fence\nfirst harvest",
        "1) sowing beans, 2) building a fence, and 3) first harvest",
        "You did this: (1) sowing beans; (2) building a fence; (3) first harvest.",
        "1. sowing beans 2. building a fence 3. first harvest",
        "The order was: sowing beans, building a fence, and first harvest.",
        "In order: sowing beans; building a fence; first harvest",
        "sowing beans -> building a fence -> first harvest",
        "Order: sowing beans → building a fence → first harvest",
        "First sowing beans, then building a fence, and finally first harvest.",
        "First sowing beans, second building a fence, third first harvest.",
        "In this order: first sowing beans, then building a fence, finally first harvest.",
        "You first sowing beans; next building a fence; later first harvest",
        "First, sowing beans. Next, building a fence. Finally, first harvest.",
        "Here is what happened. First: sowing beans. Second: building a fence. Third: first harvest.",
        "| # | event |\n|---|---|\n| 1 | sowing beans |\n| 2 | building a fence |\n| 3 | first harvest |\n\nDone.",
        "1. sowing beans\r\n2. building a fence\r\n3. first harvest\r\n",
    ],
)
def test_the_same_three_events_in_many_forms(answer):
    assert parse_items(answer) == ABC


def test_details_stay_with_their_event():
    answer = "1. Sowing\n   - beans\n   - peas\n2. Fence\nwith a gate\n\nA closing paragraph."
    assert parse_items(answer) == ["Sowing beans peas", "Fence with a gate"]


def test_bullets_under_numbers_are_details_even_without_indentation():
    assert parse_items("1. Sowing\n- beans\n2. Fence\n- oak") == ["Sowing beans", "Fence oak"]


def test_prose_without_sequence_words_is_its_sentences():
    assert parse_items("You sowed beans. You built a fence.") == ["You sowed beans", "You built a fence"]


def test_numbers_inside_an_event_do_not_split_it():
    assert parse_items("Release 2.1 came with 3.5 GB of maps.") == ["Release 2.1 came with 3.5 GB of maps"]


def test_an_abstention_is_one_item_and_nothing_is_none():
    assert parse_items("I do not have that information.") == ["I do not have that information"]
    assert parse_items("") == parse_items("\n\n# Heading\n---\n") == []


@given(st.lists(st.from_regex(r"[a-z]{3,9}( [a-z]{3,9}){0,3}", fullmatch=True), min_size=2, max_size=9))
def test_numbered_lists_come_back_whole(events):
    for template in ("{n}. {event}", "{n}) {event}", "({n}) {event}", "- {event}", "**{n}.** {event}"):
        answer = "\n".join(template.format(n=n, event=event) for n, event in enumerate(events, start=1))
        assert parse_items(answer) == events


@given(st.text(alphabet=st.sampled_from("ab1.)(-*#|:,; \n\t`→>"), max_size=80))
def test_any_text_gives_stripped_items_made_of_it(text):
    letters = [char for char in text if char in "ab"]
    items = parse_items(text)
    assert all(item and item == item.strip() and "\n" not in item for item in items)
    kept = [char for item in items for char in item if char in "ab"]
    remaining = iter(letters)
    assert all(char in remaining for char in kept), "items keep the answer's characters in their order"


@pytest.mark.parametrize("text", ["." * 200_000 + "x", " " * 200_000 + "x", "| " + "-" * 200_000 + "x", "1. " * 60_000])
def test_degenerate_answers_take_no_time(text):
    start = time.process_time()
    parse_items(text)
    assert time.process_time() - start < 5
