"""One reader of JSON in replies: all callers agree on the forms that models write, and no value is mended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, StrictBool

from beam_generate.replies import reply_json
from beam_meme.auditing import AuditIssue
from beam_meme.episode_gold import MemeGold
from beam_meme.meme_judge import ToJudgeMeme, judge_round
from beam_memories.evolving.json_replies import json_object
from beamlib.llm.json_replies import Unread, found_json, read_json
from beamlib.llm.model import Completion, Prompt
from beamlib.scoring.replies import read_matches, read_score


class Says:
    """A model with one reply."""

    name = "says"

    def __init__(self, reply: str) -> None:
        self.reply = reply

    async def complete(self, prompt: Prompt) -> Completion:
        return Completion(self.reply)


def meme_judge(reply: str) -> bool | None:
    gold = MemeGold("What?", "after", "cascade", "thing", ("a",), "gold")
    return judge_round([ToJudgeMeme("q", "What?", "an answer", None, gold, "old")], Says(reply))[0].passed


READERS: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "judge": ("score", "1", lambda reply: read_score(reply)[0]),
    "aligner": ("1", "[1]", lambda reply: (read_matches(reply, 1, 1)[0] or {}).get(1)),
    "generation": ("score", "1", lambda reply: (reply_json(reply, dict) or {}).get("score")),
    "memories": ("score", "1", lambda reply: (json_object(reply) or {}).get("score")),
    "MEME": ("pass", "true", meme_judge),
}
"""A field that each reader reads, a value of it as JSON, and what the reader makes of a reply."""

ONE = '{"%s": %s, "reason": "both names are given"}'
FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda o: o,
    "BOM": lambda o: f"\ufeff{o}",
    "zero width": lambda o: f"\u200b{o}",
    "fence": lambda o: f"```json\n{o}\n```",
    "fence without a language": lambda o: f"```\n{o}\n```",
    "fence that stays open": lambda o: f"```json\n{o}",
    "prose, then fence": lambda o: f"Here is my verdict [as asked]:\n```json\n{o}\n```",
    "fence, then prose": lambda o: f"```json\n{o}\n```\nLet me know if you need {{more}}.",
    "prose, then object": lambda o: f"On the scale {{0, 0.5, 1}} or [0, 1] I say: {o}",
    "object, then prose": lambda o: f"{o}\nI hope this helps (see [1]).",
    "thoughts": lambda o: f"<think>The answer {{names}} both.</think>\n{o}",
    "thoughts with another draft": lambda o: (
        f"<think>maybe {o.replace('1', '0').replace('true', 'false')}</think>\n{o}"
    ),
    "thoughts without an opening mark": lambda o: f'Maybe {{"score": 0}}.\n</think>\n\n{o}',
    "harmony": lambda o: (
        f'<|channel|>analysis<|message|>{{"score": 0}}<|end|><|start|>assistant<|channel|>final<|message|>{o}'
    ),
    "list of one": lambda o: f"[{o}]",
    "all of another": lambda o: f'{{"result": {o}}}',
    "twice the same": lambda o: f"{o}\nOnce more:\n```json\n{o}\n```",
    "trailing comma": lambda o: f"{o[:-1]},}}",
    "single quotes": lambda o: o.replace('"', "'"),
    "smart quotes": lambda o: o.replace('{"', "{“").replace('": ', "”: ").replace(', "', ", “").replace('"}', "”}"),
    "full-width signs": lambda o: o.replace(": ", "：").replace(", ", "，"),
    "capital constants": lambda o: o.replace("true", "True"),
    "keys without quotes": lambda o: (
        o.replace('"reason"', "reason").replace('"score"', "score").replace('"pass"', "pass")
    ),
    "no bracket at the end": lambda o: o[:-1],
    "cut in its reason": lambda o: o[:-8],
    "line breaks": lambda o: o.replace(", ", ",\n\n").replace("names are", "names\nare"),
    "no comma between lines": lambda o: o.replace(', "', '\n"'),
    "comment": lambda o: o.replace(', "', ', // met\n  "'),
    "quotes in a text": lambda o: o.replace("names", 'names, "a" and "b", that'),
    "an apostrophe": lambda o: o.replace('"', "'").replace("names are", "names aren't"),
    "an object in a text": lambda o: o.replace("names", 'names, as {"x": 1} has,'),
    "long": lambda o: f"Verdict: {o.replace('both', 'word ' * 5_000)[:-1]},}}",
    "LaTeX": lambda o: f"\\boxed{{{o}}}",
    "reason first": lambda o: '{"reason": "both names are given", ' + o[1:].split(', "reason')[0] + "}",
}
UNCLEAR: dict[str, Callable[[str], str]] = {
    "draft, then another": lambda o: f"{o.replace('1', '0').replace('true', 'false')}\nNo, rather:\n{o}",
    "list of two": lambda o: f"[{o.replace('1', '0').replace('true', 'false')}, {o}]",
    "field twice": lambda o: o.replace("{", "{" + o[1:].split(', "reason')[0].replace("1", "0") + ", ", 1),
    "no object": lambda o: "Both names are given, so it is met.",
    "empty": lambda o: " \n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reader", READERS)
def test_all_readers_agree_on_ordinary_forms(reader: str, form: str) -> None:
    key, value, read = READERS[reader]
    assert read(FORMS[form](ONE % (key, value))) == read(ONE % (key, value)) is not None


@pytest.mark.parametrize("form", UNCLEAR)
@pytest.mark.parametrize("reader", [name for name in READERS if name != "aligner"])
def test_all_readers_refuse_what_is_unclear(reader: str, form: str) -> None:
    key, value, read = READERS[reader]
    assert read(UNCLEAR[form](ONE % (key, value))) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(st.text(min_size=1, max_size=9), JSON, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_valid_json_is_read_as_it_is(value: dict[str, Any], ascii_only: bool, fenced: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    (found,) = found_json(f"```json\n{text}\n```" if fenced else text)
    assert found.value == value and found.text == text and found.complete


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\\\"'“”‘’„`"), max_size=20)


@given(
    st.lists(st.tuples(WORDS, st.sampled_from(['"', "'", "“"]), st.integers(-99, 99)), min_size=1, max_size=5),
    st.sampled_from(["", ","]),
    st.sampled_from(["}", ""]),
)
def test_damaged_json_is_read_as_it_was_meant(members: list[tuple[str, str, int]], comma: str, end: str) -> None:
    """Quotes, commas and brackets are forgiven; the texts and numbers come out as they went in."""
    written = ", ".join(
        f"key_{at}: {quote}{text}{'”' if quote == '“' else quote}, 'n{at}': {number}"
        for at, (text, quote, number) in enumerate(members)
    )
    (found,) = found_json("{" + written + comma + end)
    expected: dict[str, Any] = {}
    for at, (text, _, number) in enumerate(members):
        expected |= {f"key_{at}": text, f"n{at}": number}
    assert found.value == expected and found.complete == bool(end)


@given(st.text(alphabet="{}[]\",:'0.51 or<>|/abscore“”\\\n", max_size=60))
def test_a_score_is_read_only_where_one_literal_stands(text: str) -> None:
    """Whatever stands in the place of a score, it is a level only if it spells one."""
    score, _ = read_score('{"score": %s, "reason": "met"}' % text)  # noqa: UP031
    if score is not None:
        first = text.lstrip().partition(",")[0].partition("\n")[0].partition("}")[0].strip().strip("'\"“”").strip()
        assert float(first) == score, text


@given(st.text(max_size=200) | st.text(alphabet="{}[]\":, \n'a1", max_size=300))
def test_any_text_is_read_by_any_schema(text: str) -> None:
    for schema in (dict[str, Any], list[Any], AuditIssue):
        for strict in (True, False):
            value, reason = read_json(text, schema, strict=strict)  # type: ignore[var-annotated, arg-type]
            assert (value is None) == bool(reason)


class Two(BaseModel):
    """A schema with two required fields."""

    first: StrictBool
    second: StrictBool
    remark: str = ""


@pytest.mark.parametrize(
    ("reply", "strict", "value"),
    [
        ('{"first": true, "second": false}', True, (True, False)),
        ('{"city": "Rome"} and {"first": true, "second": false}', True, (True, False)),
        ('{"first": true} {"first": true, "second": false}', True, None),
        ('{"first": true} {"first": true, "second": false}', False, (True, False)),
        ('{"first": true, "second": maybe}', True, None),
        ('{"first": true, "second": false, "remark": not quoted}', True, None),
        ('{"first": true, "second": false, "remark": not quoted}', False, (True, False)),
        ('{"first": true, "second": false, "second": true}', False, None),
        ('{"answer": {"first": true, "second": false}}', True, (True, False)),
        (
            '{"first": true, "second": false, "remark": "a"} {"first": true, "second": false, "remark": "b"}',
            True,
            (1, 0),
        ),
    ],
)
def test_a_caller_says_what_it_wants_and_how_strictly(
    reply: str, strict: bool, value: tuple[bool, bool] | None
) -> None:
    two, reason = read_json(reply, Two, strict=strict, who="the reply", what="verdict")
    assert (two and (two.first, two.second)) == value and (two is None) == reason.startswith("the reply")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1.0 or 0.5}', [{"a": Unread("1.0 or 0.5")}]),
        ('{"a": 0,5, "b": 1}', [{"a": Unread("0,5"), "b": 1}]),
        (
            '{"a": NaN, "b": -Infinity, "c": 1e999}',
            [{"a": Unread("NaN"), "b": Unread("-Infinity"), "c": Unread("1e999")}],
        ),
        ('{"a": [1, 2 or 3]}', [{"a": [1, Unread("2 or 3")]}]),
        ('{"a": "\\ud83d\\ude00 \\"q\\" it\'s", b: 2}', [{"a": '\U0001f600 "q" it\'s', "b": 2}]),
        ("{'a': 'it\\'s'}", [{"a": "it's"}]),
        ('{"a": {"b": [1, 2', [{"a": {"b": [1, 2]}}]),
        ('{"a" "b"} {"c": 1}', [{}, {"c": 1}]),
        ('{"a": 1.0 // 0.5 // 0.0\n}', [{"a": Unread("1.0 // 0.5 // 0.0")}]),
        ("{as asked}, [see], {x} and [1]", [[1]]),
    ],
)
def test_values_are_literals_or_unread(text: str, values: list[Any]) -> None:
    assert [found.value for found in found_json(text)] == values


def test_a_number_at_the_end_of_a_cut_reply_may_go_on() -> None:
    assert read_score('{"score": 0', cut=True)[1] == "the judge's reply was cut off before the end of the score"
    assert read_score('{"score": "0', cut=True)[0] is None
    assert read_score('{"score": 0.5, "rea', cut=True) == (0.5, "")
    assert read_score('{"score": 0.5, "reason": "it is', cut=True) == (0.5, "")


@pytest.mark.parametrize(
    "atom",
    ['{"a":', "{a:", '{"a": "', "['", '{"a": 1,', "/*", '{"a": x,', "{'a': '", '", "', '{"a": "b" c', "[1 ", "{“"],
)
def test_damage_takes_time_in_proportion(atom: str) -> None:
    began = time.process_time()
    for head in ("", '{"a": ', "[", "{a: '"):
        found_json(head + atom * (200_000 // len(atom)))
    assert time.process_time() - began < 4
