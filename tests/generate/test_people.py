"""Who and what a conversation is about: everything follows from the seed, and no age contradicts its rule."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_generate.dialogue import limits_of
from beam_generate.people import (
    TYPES,
    People,
    draw_people,
    render_profile,
    render_relationships,
    render_traits,
)
from beam_generate.seeds import (
    MIXTURE,
    PRINTED_SIZE,
    domains,
    general_domains,
    layouts_of,
    make_story,
    parse_domain,
    render_topic,
    style_of,
    targets,
    titles,
)
from beam_generate.shapes import Layout, Person, Profile, Repairs, Story, Style
from beam_generate.titles import new_topics
from beam_offline.author.word_bank import bank, banks
from beamlib.data.conversations import SIZES, Size
from beamlib.data.published import table
from beamlib.errors import UserError
from beamlib.llm.model import ModelError
from beamlib.params import usual_parameters
from scripted_probes import Scripted

SEEDS = st.integers(min_value=-(2**31), max_value=2**31)
USUAL = {size: usual_parameters(size) for size in SIZES}
NUMBERS = st.integers(min_value=1, max_value=200)


def drawn(number: int = 1, **changes: object) -> Story:
    return make_story(usual_parameters("100K", **{"generation_seed": 3, **changes}), number)


def everybody(people: People) -> list[Person]:
    return [*people.core, *(person for group in people.newcomers for person in group)]


def of(people: People, relation: str) -> list[Person]:
    return [person for person in everybody(people) if person.relation == relation]


# People


@settings(max_examples=150)
@given(st.sampled_from(SIZES), NUMBERS, SEEDS)
def test_no_age_contradicts_its_rule(size: Size, number: int, seed: int) -> None:
    people = draw_people(size, number, seed)
    user = people.profile
    assert 20 <= user.age <= 70
    parents, partners, children = (of(people, relation) for relation in ("parent", "partner", "child"))
    assert [one.gender for one in parents] in ([], ["female"], ["female", "male"])
    assert all(user.age + 18 <= one.age <= min(user.age + 40, 100) for one in parents)
    assert len(partners) <= 1
    assert all(one.gender != user.gender and one.age >= 18 and abs(one.age - user.age) <= 10 for one in partners)
    assert len(children) <= 3
    assert not children or user.age > 25
    assert all(1 <= one.age <= max(5, user.age - 30) and user.age - one.age >= 16 for one in children)
    least, most = (10, 30) if size == "10M" else (1, 5)
    for relation in ("friend", "acquaintance"):
        others = of(people, relation)
        assert least <= len(others) <= most
        assert all(10 <= one.age <= 84 and (relation != "friend" or abs(one.age - user.age) <= 10) for one in others)


@settings(max_examples=100)
@given(st.sampled_from(SIZES), NUMBERS, SEEDS)
def test_names_are_unique_and_groups_are_as_the_size_needs(size: Size, number: int, seed: int) -> None:
    people = draw_people(size, number, seed)
    names = [person.name for person in everybody(people)] + [people.profile.name.split()[0]]
    assert len(set(names)) == len(names)
    assert (len(TYPES), len(set(people.profile.traits))) == (16, 6)
    assert size != "10M" or {one.relation for one in people.core} <= {"parent", "partner", "child"}
    groups = [{one.relation for one in group} for group in people.newcomers]
    assert groups == [{"friend", "acquaintance"}] * (10 if size == "10M" else 0)
    assert draw_people(size, number, seed) == people


def test_relations_are_as_frequent_as_released() -> None:
    everyone = [draw_people("100K", number, 5) for number in range(1, 2001)]
    for relation, low, high, share, off in (
        ("parent", 20, 70, 0.85, 0.03), ("partner", 20, 29, 0.6, 0.08), ("partner", 45, 70, 0.8, 0.05),
        ("child", 45, 70, 0.8, 0.05), ("child", 33, 37, 0.4, 0.12),
    ):  # fmt: skip
        of_age = [people for people in everyone if low <= people.profile.age <= high]
        assert sum(bool(of(people, relation)) for people in of_age) / len(of_age) == pytest.approx(share, abs=off)


def test_the_same_seed_gives_the_same_people_on_every_machine() -> None:
    people = draw_people("100K", 1, 7)
    assert (people.profile.name, people.profile.place) == ("Diego Aguilar", "Tunis, Tunisia")
    assert [(one.name, one.age) for one in of(people, "child")] == [("Liam", 12), ("Oleg", 10)]
    assert people not in (draw_people("100K", 2, 7), draw_people("500K", 1, 7))


PROFILE = Profile("Ada Lund", 41, "female", "Riga, Latvia", "Welder", ("ISTP", "INTJ", "ESFJ", "ENFP", "ISFP", "ENTP"))


def test_profile_and_relations_have_the_released_layout() -> None:
    whole = render_profile(replace(PROFILE, biography="She mends\nwhat breaks."))
    assert whole == (
        "USER PROFILE:\n    • Name: Ada Lund\n    • Age: 41 years old\n    • Gender: Female\n"
        "    • Location: Riga, Latvia\n    • Profession: Welder\n\n"
        "    PERSONALITY OVERVIEW:\n    She mends what breaks."
    )
    assert render_profile(PROFILE) == whole.split("\n\n")[0]
    people = [Person("Bo", "male", 40, "friend"), Person("Ulla", "female", 70, "parent")]
    assert render_relationships(people) == (
        "PARENTS & GUARDIANS:\n• Ulla (female, age 70)\n\nCLOSE FRIENDS:\n• Bo (male, age 40)"
    )
    assert render_traits(PROFILE).count("\n- ") == 5
    assert "ISTP" not in render_traits(PROFILE)


# Domains, topics, days


def test_every_domain_is_found_in_either_spelling() -> None:
    assert (len(domains()), len(general_domains())) == (19, 17)
    assert [name for names in titles().values() for name in names] == table("table5").title.tolist()
    assert parse_domain("philosophical & ethical discussion") == "Philosophical or Ethical Discussion"
    assert parse_domain("Career and  professional DEVELOPMENT") == "Career and Professional Development"
    assert parse_domain("home and real estate") == "Home & Real Estate"
    assert [parse_domain(name) for name in domains()] == list(domains())
    with pytest.raises(UserError, match=r"domain 'Knitting' does not exist; choose one of: Coding, Math, "):
        parse_domain("Knitting")


@pytest.mark.parametrize("size", SIZES)
def test_a_tier_has_the_released_mixture(size: Size) -> None:
    general, coding, math = MIXTURE[size]
    stories = [
        make_story(USUAL[size].model_copy(update={"generation_seed": 3, "authors": "models.yaml"}), number)
        for number in range(1, general + coding + math + 1)
    ]
    assert Counter(story.style for story in stories) == Counter(general=general, coding=coding, math=math)
    assert len({(story.topic.category, story.topic.title) for story in stories}) == len(stories)
    assert all(story.topic.title in titles()[story.topic.category] for story in stories)
    assert all(story.style == style_of(story.topic.category) for story in stories)


@settings(max_examples=60)
@given(SEEDS)
def test_the_first_conversations_are_general_and_of_four_domains(seed: int) -> None:
    stories = [make_story(USUAL[size].model_copy(update={"generation_seed": seed}), 1) for size in SIZES]
    assert {story.style for story in stories} == {"general"}
    assert len({story.topic.category for story in stories}) == 4
    days = [(story.timeline.end - story.timeline.start).days for story in stories]
    assert days[0] <= 120 < days[1] <= 300 < days[3]
    assert all(story.timeline.start.year == 2024 for story in stories)


def test_a_topic_can_be_chosen() -> None:
    story = drawn(title="planning a cultural immersion trip to japan")
    assert (story.topic.category, story.topic.title) == ("Trip Planning", "Planning a Cultural Immersion Trip to Japan")
    assert drawn(domain="math").style == "math"
    own = drawn(domain="Event Planning", title="Pickling Together")
    assert (own.topic.category, own.topic.title, own.topic.theme) == ("Event Planning", "Pickling Together", "")
    assert own.profile == story.profile
    assert render_topic(own.topic) == "Domain: Event Planning\nTitle: Pickling Together"


def test_every_title_of_table_5_has_a_theme_and_subtopics() -> None:
    for domain, names in titles().items():
        for title in names:
            topic = drawn(domain=domain, title=title, authors="models.yaml").topic
            assert topic.theme and len(topic.subtopics) >= 4, title
    title = titles()["Trip Planning"][0]
    topic = drawn(title=title).topic
    known = bank("Trip Planning").titled(title)
    assert (topic.theme, topic.subtopics) == (known.theme, tuple(known.subtopics))
    assert render_topic(topic).endswith(f"Theme: {known.theme}\nSubtopics: {', '.join(known.subtopics)}")


def test_the_offline_author_draws_and_takes_domains_that_it_has() -> None:
    assert {drawn(number).topic.category for number in range(1, 31)} <= set(banks())
    with pytest.raises(UserError, match=r"'Cooking': the offline author does not write it, language models do"):
        drawn(domain="Cooking")
    assert drawn(domain="Cooking", authors="models.yaml").topic.category == "Cooking"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"title": "Pickling Everything"}, "give its domain"),
        ({"domain": "Knitting"}, "'Knitting' does not exist"),
        ({"strategy": "random"}, "parameter 'strategy' is 'random'.*hierarchical.*sequential"),
        (
            {"domain": "Trip Planning", "batches_per_subplan": [21, 1, 1]},
            "batches_per_subplan is 21 .*give at most 20 batches",
        ),
        (
            {"domain": "Trip Planning", "subplans": [200, 1, 1]},
            r"subplans is 200 .*100K-1 lasts \d+ days.*give at most \d+",
        ),
        ({"subplans": [5, 3]}, "parameter 'subplans' .*three positive integers"),
    ],
)
def test_a_wrong_choice_is_one_sentence(changed: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        drawn(**changed)


def entry(title: str) -> dict[str, object]:
    return {"id": 1, "title": title, "theme": "A theme", "subtopics": ["One", "Two"]}


def test_new_topics_are_read_checked_and_asked_for_again() -> None:
    first = f"Sure!\n```json\n{json.dumps([entry('Pickling'), entry('OLD'), {'title': 'Bare'}])[:-1]},]\n```\nEnjoy."
    model, repairs = Scripted({"titles": [first, json.dumps({"topics": [entry("Smoking Fish")]})]}), Repairs()
    found = asyncio.run(new_topics(model, "cooking", 2, ["Old"], repairs))
    assert [seed.title for seed in found] == ["Pickling", "Smoking Fish"]
    assert found[0].subtopics == ("One", "Two")
    assert [prompt.attempt for prompt in model.asked] == [0, 1]
    assert len(repairs.entries) == 2
    with pytest.raises(ModelError, match="no usable topic for Cooking"):
        asyncio.run(new_topics(Scripted({"titles": ["No.", "Still no."]}), "cooking", 2, [], Repairs()))


# Sizes


def test_the_parameter_files_hold_table_6() -> None:
    rows = table("table6").set_index(["chat_size", "category"])
    for size in SIZES:
        for style in get_args(Style):
            row, found = rows.loc[(PRINTED_SIZE[size], style.title())], layouts_of(USUAL[size])[style]
            counts = (row.num_subplans, row.batches_per_subplan_k, row.questions_per_batch_i)
            assert (found.subplans, found.groups, found.questions) == counts
            assert found.bullets == (30 if size != "100K" else {"general": 20, "coding": 23, "math": 25}[style])


@pytest.mark.parametrize("size", SIZES)
def test_a_turn_has_at_most_two_replies_and_two_followups(size: Size) -> None:
    limits = limits_of(USUAL[size])
    assert (limits.replies, limits.followups) == (2, 2)


def test_other_numbers_are_taken_and_too_many_recent_messages_are_a_sentence() -> None:
    changes = {"subplans": [2, 4, 6], "bullets_per_subplan": [9, 8, 7], "batches_per_subplan": [3, 4, 5]}
    assert drawn(domain="Coding", questions_per_batch=[1, 7, 1], **changes).layout == Layout(4, 8, 4, 7)
    limits = limits_of(usual_parameters("1M", recent_messages=190, reply_limit=0))
    assert (limits.recent, limits.replies, limits.followups) == (190, 0, 2)
    with pytest.raises(UserError, match=r"recent_messages is 191: .* give at most 190"):
        limits_of(usual_parameters("1M", recent_messages=191))


def test_targets_are_means_of_table_3() -> None:
    assert targets("100K").followups == pytest.approx(10.8)
    assert (targets("10M").turns, targets("10M").tokens) == (7757, 10_000_000)
