"""Sessions as rules and models tell them, and whole generated sets: every gold fact at its line, nothing given away."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_meme.domains import bank_of, gold_sentences
from beam_meme.drawing import Drawn, draw_all, draw_episode, possible_values
from beam_meme.episode_files import load_episodes
from beam_meme.episode_generating import EpisodeOptions, generate_episodes
from beam_meme.episode_gold import LoadedEpisode, ToldKind
from beam_meme.episodes import DOMAINS, Domain
from beam_meme.fillers import Filler, haystack, stamp
from beam_meme.telling import (
    ASSISTANT,
    PARTS,
    USER,
    Demand,
    ToldSession,
    assistant_problem,
    demand_of,
    prompts_of,
    says_phrase,
    talk_bank,
    tell_sessions,
    unspoken,
    user_problem,
)
from beamlib.errors import UserError
from beamlib.files import read_json, write_json, write_text
from beamlib.llm.model import OFFLINE_NAME, Completion, ModelError, Outcome, Prompt, run
from beamlib.llm.prompts import prompt_file
from beamlib.places import RECORD
from scripted_server import Answer, ScriptedServer, body_text
from served_author import models_file


def _drawn(seed: int, domain: Domain, number: int = 1) -> Drawn:
    roots = bank_of(domain).roots
    return draw_episode(domain, roots[(number - 1) % len(roots)], seed, number)


def _text(session: ToldSession) -> str:
    return "\n".join(line.content for line in session.lines)


class Player:
    """A model that plays both sides by `say(prompt)` and keeps what it was asked."""

    name = "player"

    def __init__(self, say: Callable[[Prompt], str]) -> None:
        self.say = say
        self.heard: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.heard.append(prompt)
        return Completion(self.say(prompt))


def _well(prompt: Prompt) -> str:
    """What a good model says: the fact in a sentence of its own framing."""
    if prompt.id == ASSISTANT:
        return "Thank you, that is noted. Small steps usually work best."
    return f"By the way. {prompt.variables['fact']} What do others do about it?"


# --- by rules


@settings(max_examples=40)
@given(seed=st.integers(0, 100_000), domain=st.sampled_from(DOMAINS), number=st.integers(1, 5))
def test_each_fact_is_told_by_the_user_at_its_line_and_by_nobody_else(seed: int, domain: Domain, number: int) -> None:
    drawn = _drawn(seed, domain, number)
    sessions = run(tell_sessions(drawn))
    assert [one.part for one in sessions] == list(PARTS)
    found = {index: (one, line) for one in sessions for index, line in one.places.items()}
    assert sorted(found) == list(range(len(drawn.facts)))
    for index, (session, line) in found.items():
        fact = drawn.facts[index]
        assert session.part == fact.part
        assert session.lines[line].role == "user"
        assert session.lines[line].content.startswith(fact.sentence)
        assert says_phrase(session.lines[line].content, fact.value)
    for session in sessions:
        assert [line.role for line in session.lines] == ["assistant", "user"] * len(session.places) + ["assistant"]
        assert list(session.places.values()) == list(range(1, len(session.lines), 2))
        assert session.replaced == 0


@settings(max_examples=25)
@given(seed=st.integers(0, 100_000), domain=st.sampled_from(DOMAINS))
def test_no_answer_names_a_value_or_a_thing_of_the_domain(seed: int, domain: Domain) -> None:
    values = [value for entity in bank_of(domain).entities for value in possible_values(domain, entity)]
    keywords = [one.keyword for one in bank_of(domain).entities.values()]
    for session in run(tell_sessions(_drawn(seed, domain))):
        for line in session.lines:
            if line.role == "assistant":
                assert len(line.content.split()) < 40
                assert not [one for one in (*values, *keywords) if says_phrase(line.content, one)]


@settings(max_examples=40)
@given(seed=st.integers(0, 100_000), domain=st.sampled_from(DOMAINS), number=st.integers(1, 5))
def test_the_session_with_the_change_names_no_dependant(seed: int, domain: Domain, number: int) -> None:
    drawn = _drawn(seed, domain, number)
    text = _text(run(tell_sessions(drawn))[-1]).casefold()
    bank = bank_of(domain)
    dependants = {edge.target for edge in drawn.edges} | set(bank.dependants(drawn.root))
    for entity in dependants:
        assert bank.entities[entity].keyword.casefold() not in text
        assert not [value for value in bank.entities[entity].pool if says_phrase(text, value)]
    assert not re.search(r"\b(?:depend|would change|affect)", text)
    assert drawn.change[1].casefold() in text


def test_what_must_stand_word_for_word_does() -> None:
    for drawn in draw_all(10, 3):
        exact = [index for index, fact in enumerate(drawn.facts) if fact.verbatim]
        assert exact
        for session in run(tell_sessions(drawn, Player(lambda prompt: "Nonsense."))):
            for index in exact:
                if index in session.places:
                    assert session.lines[session.places[index]].content == drawn.facts[index].sentence
                    assert drawn.facts[index].value in session.lines[session.places[index]].content


def test_the_phrases_around_facts_name_nothing_that_an_episode_can_be_about() -> None:
    bank = talk_bank()
    pools = [*bank.greeting.values(), *vars(bank.question).values(), *vars(bank.noted).values()]
    phrases = [phrase for pool in (*pools, *vars(bank.advice).values()) for phrase in pool]
    assert len(phrases) > 80
    for domain in DOMAINS:
        for one in bank_of(domain).entities.values():
            assert not [
                (word, said) for word in (one.keyword, *one.pool) for said in phrases if says_phrase(said, word)
            ]


def test_neighbouring_phrases_differ() -> None:
    for drawn in draw_all(4, 5):
        for session in run(tell_sessions(drawn)):
            said = [line.content for line in session.lines if line.role == "assistant"]
            assert len(set(said)) == len(said)


# --- by a model


def test_what_a_model_says_well_is_taken_and_counted_as_its_own() -> None:
    drawn = _drawn(1, "personal_life")
    player = Player(_well)
    sessions = run(tell_sessions(drawn, player))
    assert sum(session.replaced for session in sessions) == 0
    asked = [prompt for prompt in player.heard if prompt.id == USER]
    assert len(asked) == sum(not fact.verbatim for fact in drawn.facts)
    assert len(player.heard) == len(asked) + len(drawn.facts)
    for session in sessions:
        for index, line in session.places.items():
            fact = drawn.facts[index]
            assert session.lines[line].content.startswith(fact.sentence if fact.verbatim else "By the way.")
    histories = [prompt.variables["history"] for prompt in player.heard]
    assert not [one for one in histories if drawn.facts[-1].sentence in one and drawn.facts[0].sentence in one]
    assert [prompt.id for prompt in prompts_of(drawn)].count(USER) == len(asked)


def test_what_a_model_leaves_out_is_asked_for_three_times_and_then_the_rules_say_it() -> None:
    drawn = _drawn(1, "software_project")
    lost = drawn.facts[0]
    player = Player(lambda prompt: _well(prompt).replace(lost.value, "something"))
    sessions = run(tell_sessions(drawn, player))
    asked = [prompt for prompt in player.heard if prompt.variables.get("fact") == lost.sentence]
    assert len(asked) == 3
    assert asked[1].complaint.startswith("A first reply") and repr(lost.value) in asked[1].complaint
    assert asked[2].complaint.startswith("A second reply")
    usual = run(tell_sessions(drawn))[0].lines[1].content
    assert usual.startswith(lost.sentence)
    assert sessions[0].lines[1].content.startswith(lost.sentence)
    assert sum(session.replaced for session in sessions) >= 1


def test_an_answer_that_restates_a_value_is_replaced() -> None:
    drawn = _drawn(2, "personal_life")
    value = drawn.facts[0].value
    wrong = Player(lambda prompt: f"So it is {value}." if prompt.id == ASSISTANT else _well(prompt))
    sessions = run(tell_sessions(drawn, wrong))
    assert sum(session.replaced for session in sessions) == len(drawn.facts)
    answers = [line.content for one in sessions for line in one.lines if line.role == "assistant"]
    assert not [one for one in answers if says_phrase(one, value)]


def test_an_answer_that_names_what_depends_on_the_root_is_replaced_where_the_change_is_told() -> None:
    drawn = _drawn(2, "personal_life")
    keyword = bank_of("personal_life").entities[bank_of("personal_life").dependants(drawn.root)[-1]].keyword
    wrong = Player(lambda prompt: f"Think of your {keyword}." if prompt.id == ASSISTANT else _well(prompt))
    sessions = run(tell_sessions(drawn, wrong))
    assert [one.replaced for one in sessions] == [0, 0, 0, 0, len(sessions[-1].places)]
    assert keyword not in _text(sessions[-1])


def test_errors_that_may_pass_end_the_telling_and_others_do_not() -> None:
    drawn = _drawn(2, "personal_life")

    def fail(outcome: Outcome) -> Callable[[Prompt], str]:
        def say(prompt: Prompt) -> str:
            raise ModelError("no", outcome)

        return say

    with pytest.raises(ModelError):
        run(tell_sessions(drawn, Player(fail(Outcome.UNAVAILABLE))))
    refused = run(tell_sessions(drawn, Player(fail(Outcome.REFUSED))))
    assert [one.lines for one in refused] == [one.lines for one in run(tell_sessions(drawn))]
    assert sum(one.replaced for one in refused) == sum(2 - fact.verbatim for fact in drawn.facts)


RULE = Demand("rule", ("commute method", "the Veltrail tram", "employer"), ("Brindlecorp",))


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("rule", "If my employer changes, my commute method will be the Veltrail tram. Any tips?", ""),
        ("rule", "If my employer changes, my commute method'll be the  VELTRAIL\ntram. Any tips?", ""),
        ("rule", "My employer changed, so my commute method is the Veltrail tram.", "conditional"),
        ("rule", "If my employer changes, my commute method is the Veltrail tram.", "conditional"),
        ("rule", "My commute method is the Veltrail tram. What will it be if my employer changes?", "conditional"),
        ("rule", "If it changes, my commute method will be the Veltrail tram.", "'employer'"),
        ("rule", "If my employer changes, I will take the Veltrail tram.", "'commute method'"),
        ("rule", "If my employer changes, my commute method will be the Veltrailtram.", "'the Veltrail tram'"),
        ("rule", "If my employer Brindlecorp changes, my commute method will be the Veltrail tram.", "'Brindlecorp'"),
        ("rule", "", "empty"),
        ("rule", "If my employer changes, my commute method will be the Veltrail tram \ud800", "half a character"),
        ("rule", "User: If my employer changes, my commute method will be the Veltrail tram.", "label"),
        ("rule", "word " * 200, "more than"),
        ("dependency", "My commute method is the Veltrail tram; it depends on my employer.", ""),
        ("dependency", "If my employer changes, the Veltrail tram as my commute method would change.", ""),
        ("dependency", "My commute method is the Veltrail tram since I use what my employer pays.", "plainly"),
        ("dependency", "My commute method, the Veltrail tram, is tied to my employer.", "plainly"),
        ("change", "My employer sent me: the commute method is the Veltrail tram now. What if I get lost?", ""),
        ("change", "My employer says the commute method might be the Veltrail tram.", "without doubt"),
        ("update", "My employer moved the commute method, the Veltrail tram, to the 4th of May.", ""),
        ("update", "My employer plans: I am going to use the Veltrail tram as commute method.", "without doubt"),
        ("value", "My employer told me about the commute method, perhaps the Veltrail tram.", ""),
    ],
)
def test_what_a_model_says_of_a_fact_is_checked(kind: ToldKind, text: str, says: str) -> None:
    problem = user_problem(text, replace(RULE, kind=kind))
    assert (says in problem) if says else problem == ""


@given(st.text(max_size=300))
def test_checks_take_any_text(text: str) -> None:
    assert isinstance(user_problem(text, RULE), str)
    if not assistant_problem(text, ["the Veltrail tram"]):
        assert "the veltrail tram" not in text.casefold()


@settings(max_examples=30)
@given(seed=st.integers(0, 100_000), domain=st.sampled_from(DOMAINS), number=st.integers(1, 5))
def test_the_rules_sentences_pass_the_check_for_models(seed: int, domain: Domain, number: int) -> None:
    drawn = _drawn(seed, domain, number)
    for session in run(tell_sessions(drawn)):
        for index, line in session.places.items():
            fact = drawn.facts[index]
            if not fact.verbatim:
                assert user_problem(session.lines[line].content, demand_of(drawn, fact)) == ""
        phrases = unspoken(drawn, session.part)
        assert not [one for one in session.lines if one.role == "assistant" and assistant_problem(one.content, phrases)]


def test_prompts_show_the_fact_and_no_gold() -> None:
    assert {prompt_file(name).role for name in (USER, ASSISTANT)} == {"speaker"}
    drawn = _drawn(4, "software_project")
    for prompt in prompts_of(drawn):
        text = "\n".join(message["content"] for message in prompt.messages)
        if prompt.id == USER:
            assert prompt.variables["fact"] in text
        assert not [
            task.expected
            for task in drawn.tasks
            if task.expected in text and "\n" not in task.expected and task.task not in ("exact_recall", "tracking")
        ]


# --- put together


def _pool(count: int, tokens: int = 2_500) -> list[Filler]:
    from beam_meme.episodes import Line

    text = " ".join(["word"] * tokens)
    return [Filler(f"{number}", (Line("user", f"{number}"), Line("assistant", text))) for number in range(count)]


def test_dates_and_places_of_questions() -> None:
    drawn = _drawn(7, "personal_life")
    told = run(tell_sessions(drawn))
    loaded = haystack(drawn, told, _pool(30), "filler32k", random.Random(1))
    episode, gold = loaded.episode, loaded.gold
    kinds = ["told" if place in gold.evidence else "filler" for place in range(len(episode.sessions))]
    assert kinds == [*["filler", "filler", "told"] * 4, "filler", "filler", "told", "filler", "filler"]
    assert episode.before.sessions == 14
    assert episode.before.timestamp == episode.sessions[13].timestamp
    assert episode.after.sessions == len(episode.sessions) == 17
    times = [one.timestamp for one in episode.sessions]
    assert times[0] == "2023/03/01 (Wed) 09:00"
    assert times == sorted(times) and times[-1] < episode.after.timestamp
    assert len({one.id for one in episode.sessions}) == 17
    assert {re.sub(r"\d+$", "", one.id) for one in episode.sessions} == {f"{drawn.id}-s"}
    asked = {question.id: question.text for one in episode.rounds.values() for question in one.questions}
    assert asked == {name: one.question for name, one in gold.questions.items()}


def test_without_fillers_the_sessions_stand_alone_and_a_small_pool_is_refused() -> None:
    drawn = _drawn(7, "personal_life")
    told = run(tell_sessions(drawn))
    alone = haystack(drawn, told, [], "nofiller", random.Random(1))
    assert len(alone.episode.sessions) == 5 and alone.gold.evidence == (0, 1, 2, 3, 4)
    assert (alone.episode.before.sessions, alone.episode.after.sessions) == (4, 5)
    with pytest.raises(UserError, match=r"of 12 fillers only 12 fit and agree with episode pl_001"):
        haystack(drawn, told, _pool(12), "filler32k", random.Random(1))
    with pytest.raises(UserError, match=r"of 40 fillers only 0 fit"):
        haystack(drawn, told, _pool(40, 8_000), "filler32k", random.Random(1))


def test_stamps_are_the_released_ones() -> None:
    from datetime import datetime

    assert stamp(datetime(2023, 3, 1, 9)) == "2023/03/01 (Wed) 09:00"
    assert stamp(datetime(2024, 2, 29, 23, 5)) == "2024/02/29 (Thu) 23:05"


# --- whole sets


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[LoadedEpisode]]:
    out = tmp_path_factory.mktemp("meme") / "set"
    generate_episodes(EpisodeOptions(out, count=30, variants=("nofiller", "filler32k")))
    return {name: load_episodes(out / f"{name}.json", name) for name in ("nofiller", "filler32k")}


@pytest.mark.parametrize("variant", ["nofiller", "filler32k"])
def test_every_gold_fact_stands_in_its_session_and_line(sets: dict[str, list[LoadedEpisode]], variant: str) -> None:
    assert len(sets[variant]) == 30
    for one in sets[variant]:
        keywords = {name: entity.keyword for name, entity in bank_of(one.episode.domain).entities.items()}
        for fact in one.gold.facts:
            line = one.episode.sessions[fact.session].lines[fact.line]
            assert line.role == "user" and fact.value.casefold() in line.content.casefold()
            assert fact.kind != "exact" or fact.value in line.content
            assert keywords[fact.entity].casefold() in line.content.casefold()
        assert {fact.session for fact in one.gold.facts} == set(one.gold.evidence)
        told = {fact.value for fact in one.gold.facts}
        for gold in one.gold.questions.values():
            assert set(gold.values) <= told, gold


def test_fillers_differ_within_an_episode_and_fill_most_of_the_gaps(sets: dict[str, list[LoadedEpisode]]) -> None:
    from beamlib.text import count_tokens

    for one in sets["filler32k"]:
        fillers = [s for place, s in enumerate(one.episode.sessions) if place not in one.gold.evidence]
        assert len({session.lines for session in fillers}) == len(fillers)
        tokens = sum(count_tokens(line.content) for session in fillers for line in session.lines)
        assert 24_000 < tokens <= 42_000
        assert 12 <= len(one.episode.sessions) <= 30


def test_all_variants_tell_the_same(sets: dict[str, list[LoadedEpisode]]) -> None:
    for plain, filled in zip(sets["nofiller"], sets["filler32k"], strict=True):
        told = [filled.episode.sessions[place].lines for place in filled.gold.evidence]
        assert told == [session.lines for session in plain.episode.sessions]
        assert plain.gold.questions == filled.gold.questions


def test_the_first_episodes_do_not_depend_on_how_many_there_are(
    sets: dict[str, list[LoadedEpisode]], tmp_path: Path
) -> None:
    generate_episodes(EpisodeOptions(tmp_path / "few", count=4, variants=("nofiller",)))
    few = load_episodes(tmp_path / "few" / "nofiller.json", "nofiller")
    many = {one.episode.id: one.episode for one in sets["nofiller"]}
    assert [one.episode for one in few] == [many[one.episode.id] for one in few]


@pytest.mark.slow
def test_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    made = []
    for seed in ("0", "1"):
        code = (
            "from beam_run.plugins import register_packages; register_packages(); "
            "from pathlib import Path; import beam_meme.fillers; beam_meme.fillers.STORIES = 2; "
            "from beam_meme.episode_generating import *; generate_episodes("
            f"EpisodeOptions(Path({str(tmp_path / seed)!r}), count=2, variants=('nofiller', 'filler32k')))"
        )
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        made.append(subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL))
    assert [one.wait() for one in made] == [0, 0]
    files = [{path.name: path.read_bytes() for path in (tmp_path / seed).iterdir()} for seed in ("0", "1")]
    assert sorted(files[0]) == ["filler32k.json", RECORD, "nofiller.json"]
    assert files[0] == files[1]


def test_what_is_there_is_not_written_again_and_nothing_of_others_is_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order = EpisodeOptions(tmp_path / "set", count=2, variants=("nofiller",))
    assert generate_episodes(order) == tmp_path / "set"
    assert OFFLINE_NAME in capsys.readouterr().out
    written = (tmp_path / "set/nofiller.json").stat().st_mtime_ns
    record = read_json(tmp_path / "set" / RECORD)
    assert record["order"]["author"] == OFFLINE_NAME and record["variants"][0]["episodes"] == 2
    generate_episodes(order)
    assert (tmp_path / "set/nofiller.json").stat().st_mtime_ns == written
    with pytest.raises(UserError, match=r"another order \(count is 2 there and 4 now\)"):
        generate_episodes(replace(order, count=4))
    write_text(tmp_path / "set/nofiller.json", "[]")
    with pytest.raises(UserError, match="changed since it was generated"):
        generate_episodes(order)
    write_text(tmp_path / "theirs/filler32k.json", "[]")
    for place in ("theirs", "theirs/below"):
        with pytest.raises(UserError, match="was not generated here"):
            generate_episodes(replace(order, out=tmp_path / place))
    assert (tmp_path / "theirs/filler32k.json").read_text() == "[]"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"variants": ("filler1k",)}, "'filler1k' does not exist"),
        ({"variants": ()}, "at least one variant"),
        ({"count": 0}, "episodes: 0; ask for"),
        ({"prompts": Path("x")}, "--prompts: the rules ask no model"),
        ({"calls": "replay"}, "--calls: the rules ask no model"),
        ({"filler_judge": "model"}, "--filler-judge: the rules ask no model"),
    ],
)
def test_mistakes_in_the_order_are_one_sentence(changes: dict[str, object], says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says) as raised:
        generate_episodes(replace(EpisodeOptions(tmp_path / "set"), **changes))  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "set").exists()


def _served(request: dict[str, Any]) -> str:
    text = body_text(request)
    if fact := re.search(r"<fact>\n(.*?)\n</fact>", text, re.DOTALL):
        return f"By the way. {fact[1]} Any tips?"
    return "Thanks, I made a note of that."


def test_with_a_model_nothing_is_called_before_yes_and_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedServer(_served) as server:
        models = models_file(tmp_path / "models.json", server.base_url)
        order = EpisodeOptions(tmp_path / "set", count=2, variants=("nofiller",), models=models)
        with pytest.raises(UserError, match="nothing was called: add --yes"):
            generate_episodes(order)
        assert not server.requests and "about $" in capsys.readouterr().out
        generate_episodes(replace(order, yes=True))
        calls = len(server.requests)
        assert calls > 60
        first = (tmp_path / "set/nofiller.json").read_bytes()
        (tmp_path / "set/nofiller.json").unlink()
        generate_episodes(replace(order, yes=True))
        assert len(server.requests) == calls
    assert (tmp_path / "set/nofiller.json").read_bytes() == first
    record = read_json(tmp_path / "set" / RECORD)
    assert record["variants"][0]["messages_by_rules"] == 0
    assert record["order"]["author"]["speaker"]["model"] == "scripted"
    episode = load_episodes(tmp_path / "set/nofiller.json", "nofiller")[0].episode
    assert [line for line in episode.sessions[0].lines if line.content.startswith("By the way. ")]


def test_a_model_judges_the_users_fillers_after_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_meme.fillers.gold_sentences", lambda domain: gold_sentences(domain)[:2])
    for number in range(60):
        said = f"Tell me fact {number} about kites."
        answer = " ".join(["Lift"] * 2_400)
        write_json(
            tmp_path / f"fillers/{number:02d}.json",
            [{"role": "user", "content": said}, {"role": "assistant", "content": answer}],
        )

    judged_facts: list[str] = []  # the first of them is wrong

    def reply(request: dict[str, Any]) -> str:
        text = body_text(request)
        if "<session>" not in text:
            return _served(request)
        judged_facts.extend(re.findall(r"fact \d+ about", text)[:1])
        wrong = "true" if judged_facts[0] in text else "false"
        return f'{{"contradiction": false, "alternative": {wrong}, "confusion": false}}'

    with ScriptedServer(reply) as server:
        models = models_file(tmp_path / "models.json", server.base_url)
        order = EpisodeOptions(
            tmp_path / "set",
            count=2,
            models=models,
            fillers=tmp_path / "fillers",
            filler_judge="model",
            yes=True,
        )
        generate_episodes(order)
    row = read_json(tmp_path / "set" / RECORD)["variants"][0]
    judged = row["fillers"]["personal_life"]
    assert judged["judged"] >= 20 and judged["free"] == 60 - judged["alternative"]
    assert judged["alternative"] == 1
    episodes = {loaded.episode.domain: loaded for loaded in load_episodes(tmp_path / "set/filler32k.json", "filler32k")}
    text = repr(episodes["personal_life"])  # the other domain has its own nearest fillers judged
    assert judged_facts[0] not in text and "about kites" in text
    assert sorted(path.name for path in (tmp_path / "set/calls").glob("*.sqlite")) == [
        "fillers_personal_life.sqlite",
        "fillers_software_project.sqlite",
        "pl_001.sqlite",
        "sw_001.sqlite",
    ]


def test_what_arrived_before_an_end_is_not_asked_again(tmp_path: Path) -> None:
    with ScriptedServer(_served) as server:
        models = models_file(tmp_path / "models.json", server.base_url)
        order = EpisodeOptions(tmp_path / "set", count=2, variants=("nofiller",), models=models, yes=True)
        generate_episodes(replace(order, out=tmp_path / "whole"))
        calls, served = len(server.requests), list[str]()

        def reply(request: dict[str, Any]) -> str | Answer:
            if broken and len(served) > calls / 2:
                return Answer("no such key", status=401)
            served.append(body_text(request))
            return _served(request)

        broken, server.reply = True, reply
        with pytest.raises(UserError):
            generate_episodes(order)
        assert not (tmp_path / "set/nofiller.json").exists()
        assert calls / 2 < len(served) < calls
        broken = False
        generate_episodes(order)
    assert len(served) == len(set(served)) == calls
    assert (tmp_path / "set/nofiller.json").read_bytes() == (tmp_path / "whole/nofiller.json").read_bytes()
