"""Fillers: neutral by another method than the filter's, as long as they should be; folders of the user's; verdicts."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from beam_meme.cli import meme_app
from beam_meme.domains import bank_of, gold_sentences
from beam_meme.drawing import blocked, draw_all
from beam_meme.episodes import DOMAINS, Domain, Line
from beam_meme.fillers import (
    CONFLICT,
    CONFLICTS,
    LEAST,
    MOST,
    NEAREST,
    Checked,
    Filler,
    Rules,
    by_model,
    by_rules,
    cut,
    nearest,
    pool_of,
    read_fillers,
    read_verdict,
)
from beam_meme.rejections import reject
from beamlib.errors import UserError
from beamlib.files import write_json, write_text
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, run
from beamlib.llm.prompts import prompt_file


def _filler(name: str, *said: str) -> Filler:
    return Filler(name, tuple(Line("assistant" if place % 2 else "user", text) for place, text in enumerate(said)))


@pytest.fixture(scope="module")
def pools() -> dict[Domain, Checked]:
    return {domain: pool_of(domain, 42) for domain in DOMAINS}


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_filler_holds_any_value_of_the_domain(pools: dict[Domain, Checked], domain: Domain) -> None:
    everything = "\n".join(one.text for one in pools[domain].free).casefold()
    values = [value for one in bank_of(domain).entities.values() for value in one.pool]
    assert len(values) >= 8 * 39
    # A plain search: a letter on either side makes another word of it.
    met = [
        value
        for value in values
        for place in _places(everything, value.casefold())
        if not (everything[place - 1 : place].isalnum() or everything[place + len(value) :][:1].isalnum())
    ]
    assert met == []


def _places(text: str, part: str) -> list[int]:
    found, place = [], text.find(part)
    while place >= 0:
        found.append(place)
        place = text.find(part, place + 1)
    return found


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_user_of_a_filler_owns_a_thing_of_the_domain(pools: dict[Domain, Checked], domain: Domain) -> None:
    said = "\n".join(one.said for one in pools[domain].free).casefold()
    for one in bank_of(domain).entities.values():
        for owner in ("my", "our"):
            assert f"{owner} {one.keyword.casefold()} " not in said


@pytest.mark.parametrize("domain", DOMAINS)
def test_sessions_are_as_long_as_they_should_be_and_the_pool_is_large(
    pools: dict[Domain, Checked], domain: Domain
) -> None:
    free = pools[domain].free
    assert all(LEAST <= one.tokens <= MOST for one in free)
    assert all(
        line.role == ("assistant" if place % 2 else "user") for one in free for place, line in enumerate(one.lines)
    )
    assert pools[domain].removed
    assert len({one.name for one in free}) == len({one.lines for one in free}) == len(free)
    assert 2_000 < sum(one.tokens for one in free) / len(free) < 3_200
    # An episode of 128K needs six times 25,000 tokens, after its block list.
    for drawn in (one for one in draw_all(20, 42) if one.domain == domain):
        phrases = [phrase.casefold() for phrase in blocked(drawn)]
        left = [one for one in free if not any(phrase in one.said.casefold() for phrase in phrases)]
        assert sum(one.tokens for one in left) > 200_000, drawn.id


@pytest.mark.parametrize("domain", DOMAINS)
def test_nobody_introduces_themselves_in_a_filler(domain: Domain, pools: dict[Domain, Checked]) -> None:
    said = "\n".join(one.said for one in pools[domain].free)
    assert said and not re.search(r"\bI'm [A-Z]\w+ [A-Z]\w+, \d\d\b", said)
    known = [word.casefold() for word in bank_of(domain).heads]
    assert not re.search(rf"\b(?:{'|'.join(known)})\b", said.casefold())


def test_the_rules_find_the_three_conflicts() -> None:
    rules = Rules("personal_life")
    bank = bank_of("personal_life")
    one = bank.entities["commute_method"]
    found = {
        f"I think {one.keyword} is {one.pool[0]} for her.": "alternative",
        f"These days I wonder about a {one.keyword.upper()}, you know.": "contradiction",
        "Honestly, my usual silly method is to wait.": "confusion",
        "Their method is to wait.": None,
        f"A {one.keyword} is a way to get to work.": None,
        "The insomnia again: what helps at three in the morning?": "confusion",
    }
    assert {text: rules.conflict([Line("user", text)]) for text in found} == found
    assert rules.conflict([Line("assistant", f"My {one.keyword} is a joke.")]) is None
    assert rules.conflict([Line("assistant", f"Try\n{one.pool[1].upper()}, maybe.")]) == "alternative"


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_value_in_either_role_is_found(domain: Domain) -> None:
    rules = Rules(domain)
    for sentence in gold_sentences(domain):
        assert rules.conflict([Line("assistant", f"Well: {sentence.upper()}")]) == "alternative"


def test_what_conflicts_is_removed_and_named() -> None:
    value = bank_of("personal_life").entities["employer"].pool[0]
    good, bad = _filler("good", "How do bees see?", "In ultraviolet too."), _filler("bad", f"Is {value} any good?")
    found = by_rules([bad, good], Rules("personal_life"))
    assert found.free == (good,) and found.removed == (("bad", "alternative"),)


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_rejected_filler_shows_the_words_that_conflict(domain: Domain) -> None:
    bank, rules = bank_of(domain), Rules(domain)
    for one in bank.entities.values():
        own = f"Well then. Yesterday I said {bank.owner} {one.keyword} matters a lot."
        for role, said in (("user", own), ("assistant", f"Some say. It could be {one.pool[0]} for all I know.")):
            lines = (Line("user", "How are you?"), Line(role, said))
            found = reject(Filler("f", lines), rules)
            assert found and found.role == role and found.conflict == rules.conflict(lines)
            assert found.conflict == "alternative" or role == "user"
            assert f"«{found.phrase}»" in found.marked
            # A value that looks like several sentences is shown with the whole message.
            assert found.marked.startswith(("Yesterday ", "It could ", "Some say. It could "))
            words = found.phrase.split()
            assert rules.conflict([Line(role, found.phrase)]) == found.conflict
            for fewer in (words[1:], words[:-1]):
                assert rules.conflict([Line(role, " ".join(fewer))]) != found.conflict
    assert reject(_filler("n", "How do bees see?", "In ultraviolet too."), rules) is None


def test_the_command_shows_examples_of_every_conflict_that_is_there(tmp_path: Path) -> None:
    def rows(*words: str) -> list[dict[str, str]]:
        done = CliRunner().invoke(meme_app, ["rejections", "--json", *words], catch_exceptions=False)
        found: list[dict[str, str]] = json.loads(done.stdout)
        for row in found:
            marked = re.search("«(.+)»", row["sentence"])
            assert marked and Rules(row["domain"]).conflict([Line(row["who"], marked[1])]) == row["conflict"]
        return found

    offline = Counter((row["domain"], row["conflict"]) for row in rows("--each", "2"))
    assert set(offline) >= {(domain, name) for domain in DOMAINS for name in ("contradiction", "confusion")}
    assert max(offline.values()) == 2
    entity = bank_of("personal_life").entities["commute_method"]
    said = (f"My {entity.keyword} is fine.", f"{entity.pool[0]}, says she.", "My usual silly method is to wait.")
    for number, text in enumerate(said):
        write_json(tmp_path / f"{number}.json", [{"role": "user", "content": text}])
    given = [row for row in rows("--fillers", str(tmp_path)) if row["domain"] == "personal_life"]
    assert [row["conflict"] for row in given] == list(CONFLICTS)


class Examiner:
    """A model that says `reply(prompt)` of every pair."""

    name = "examiner"

    def __init__(self, reply: Callable[[Prompt], str]) -> None:
        self.reply = reply
        self.heard: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.heard.append(prompt)
        return Completion(self.reply(prompt))


def _fillers(count: int) -> list[Filler]:
    things = ("bees", "tiles", "soups", "kites", "maps")
    return [_filler(f"f{n}", f"Tell me fact {n} about {things[n % 5]}.", "Gladly.") for n in range(count)]


def _verdict(**flags: bool) -> str:
    return json.dumps({**dict.fromkeys(CONFLICTS, False), **flags})


def test_a_model_judges_the_nearest_of_every_sentence_and_any_flag_removes() -> None:
    fillers = _fillers(30)
    examiner = Examiner(lambda prompt: _verdict(confusion="fact 7 " in prompt.variables["session"]))
    found = run(by_model(fillers, "personal_life", examiner))
    sentences = gold_sentences("personal_life")
    assert {prompt.variables["sentence"] for prompt in examiner.heard} == set(sentences)
    assert len(sentences) * NEAREST <= found.judged == len(examiner.heard) <= 2 * len(sentences) * NEAREST
    judged = {prompt.about for prompt in examiner.heard}
    expected = ["f7"] if "filler f7" in judged else []
    assert [name for name, _ in found.removed] == expected
    assert len(found.free) == 30 - len(expected)


def test_an_unreadable_verdict_removes_and_a_passing_error_is_raised() -> None:
    fillers = _fillers(3)
    silent = run(by_model(fillers, "personal_life", Examiner(lambda prompt: "Looks fine to me.")))
    assert silent.free == () and len(silent.removed) == 3

    def fail(prompt: Prompt) -> str:
        raise ModelError("away", Outcome.UNAVAILABLE)

    with pytest.raises(ModelError, match="away"):
        run(by_model(fillers, "personal_life", Examiner(fail)))
    assert run(by_model([], "personal_life", Examiner(fail))) == Checked((), ())


def test_the_nearest_hold_the_words_of_the_sentence() -> None:
    fillers = [*_fillers(40), _filler("near", "My grandmother repairs clocks in Ystad.", "How lovely.")]
    found = nearest(fillers, ["The grandmother in Ystad repairs clocks."])
    assert "near" in {one.name for _, one in found}
    assert NEAREST <= len(found) <= 2 * NEAREST


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (_verdict(), dict.fromkeys(CONFLICTS, False)),
        (
            f"Sure:\n```json\n{_verdict(alternative=True)}\n```",
            {**dict.fromkeys(CONFLICTS, False), "alternative": True},
        ),
        (f"{_verdict(confusion=True)} or rather {_verdict()}", None),
        ('{"contradiction": false}', None),
        ('{"contradiction": "no", "alternative": false, "confusion": false}', None),
        ('{"contradiction": 0, "alternative": 0, "confusion": 0}', None),
        ("no", None),
        ("{" * 10_000, None),
    ],
)
def test_verdicts_are_read(reply: str, found: dict[str, bool] | None) -> None:
    assert read_verdict(reply) == found


@given(st.text(alphabet='{}":, contradiction aleuvfs0[]', max_size=200))
def test_any_reply_is_a_verdict_or_none(reply: str) -> None:
    found = read_verdict(reply)
    assert found is None or sorted(found) == sorted(CONFLICTS)


def test_the_prompt_is_the_detectors() -> None:
    assert prompt_file(CONFLICT).role == "detector"


# --- cutting


@given(st.lists(st.integers(1, 5_000), max_size=60), st.integers(0, 1_000))
def test_turns_are_kept_whole_in_order_and_never_twice(sizes: list[int], seed: int) -> None:
    turns = [(Line("user", f"q{n}"), Line("assistant", "w " * size)) for n, size in enumerate(sizes)]
    found = cut("talk", turns, random.Random(seed))
    told = [line for one in found for line in one.lines]
    asked = [int(line.content[1:]) for line in told if line.role == "user"]
    assert asked == sorted(set(asked))
    assert told == [line for number in asked for line in turns[number]]
    assert all(LEAST <= one.tokens <= MOST for one in found)
    assert found == cut("talk", turns, random.Random(seed))


# --- a folder of the user's


def _session(*said: str) -> list[dict[str, str]]:
    return [{"role": "assistant" if n % 2 else "user", "content": text} for n, text in enumerate(said)]


def test_a_folder_is_read_by_name_and_by_domain(tmp_path: Path) -> None:
    write_json(tmp_path / "b.json", [{**one, "id": 7} for one in _session("Hello", "Hi")])
    write_json(tmp_path / "a.json", _session("One"))
    write_text(tmp_path / ".hidden.json", "nonsense")
    write_text(tmp_path / "notes.txt", "nonsense")
    for domain in DOMAINS:
        assert [one.name for one in read_fillers(tmp_path, domain)] == ["a.json", "b.json"]
    assert read_fillers(tmp_path, "personal_life")[1].lines == (Line("user", "Hello"), Line("assistant", "Hi"))
    write_json(tmp_path / "software_project" / "c.json", _session("Code"))
    assert [one.name for one in read_fillers(tmp_path, "software_project")] == ["c.json"]
    with pytest.raises(UserError, match=r"no \*\.json file"):
        read_fillers(tmp_path, "personal_life")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1"),
        ("[1", "not valid JSON"),
        ('[{"role": "user", "content": NaN}]', "NaN"),
        ("[" * 100_000, "nested"),
        ("{}", "a list of 1 to"),
        ("[]", "a list of 1 to"),
        ("[1]", "message 1: `role` is None"),
        ('[{"role": "system", "content": "x"}]', "`role` is 'system'; write user or assistant"),
        ('[{"role": ["user"], "content": "x"}]', r"`role` is \['user'\]"),
        ('[{"role": "user", "content": "x"}, {"role": "user"}]', "message 2: `content` is None"),
        ('[{"role": "user", "content": "  "}]', "`content` is '  '"),
        ('[{"role": "user", "content": "a\\ud800"}]', "half a character at position 1"),
        (json.dumps(_session(*["x"] * 1_001)), "a list of 1 to 1,000"),
        (json.dumps(_session("x" * (1 << 20))), "larger than 1,048,576 bytes"),
    ],
)
def test_a_bad_file_of_fillers_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(UserError, match=says) as raised:
        read_fillers(tmp_path, "personal_life")
    assert str(path) in str(raised.value) and "\n" not in str(raised.value) and len(str(raised.value)) < 500


def test_equal_sessions_count_once_and_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_json(tmp_path / f"{name}.json", _session("Hello"))
    assert [one.name for one in read_fillers(tmp_path, "personal_life")] == ["a.json"]
    (tmp_path / "c.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"c\.json: the file does not exist"):
        read_fillers(tmp_path, "personal_life")


def test_a_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / "a.json", _session("Hello"))
    monkeypatch.setattr("beam_meme.fillers._MOST_TOGETHER", 10)
    with pytest.raises(UserError, match=r"more than 20,000 files or 10 bytes"):
        read_fillers(tmp_path, "personal_life")


def test_a_missing_folder_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a folder; name one"):
        read_fillers(tmp_path / "none", "personal_life")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(_session("Hello")).encode())
    assert re.fullmatch("Hello", read_fillers(tmp_path, "personal_life")[0].text)
