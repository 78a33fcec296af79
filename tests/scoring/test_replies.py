"""Reading judge replies: tolerant in form, strict on the scale."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamlib.scoring.protocols import released_score
from beamlib.scoring.replies import read_matches, read_reason, read_score


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ('{"score": 1.0, "reason": "x"}', 1.0),
        ('{"score": 0.5}', 0.5),
        ('{"score": 0}', 0.0),
        ('{"score": "0.5"}', 0.5),
        ('{"score": " 1.0 "}', 1.0),
        ('{"score": -0.0}', 0.0),
        ('```json\n{"score": 0.5}\n```', 0.5),
        ('```\n{"score": 0.5}', 0.5),
        ('Here you are:\n```json\n{"score": 0.5, "reason": "half of {both}"}\n```', 0.5),
        ('The verdict {"score": 1} stands.', 1.0),
        ('On the scale [0, 0.5, 1] I give {"score": 0.5}.', 0.5),
        ('On the scale {0.0, 0.5, 1.0} this is:\n{"score": 0.5, "reason": "one"}', 0.5),
        ('The answer shows {"city": "Rome"} as asked.\n{"score": 0.5, "reason": "two\nlines"}', 0.5),
        ('{"score": 0.5, "reason": "quoting {"score": 1} as it was"}', 0.5),
        ('{"score": 0.5, "reason": "it says "no" twice"}', 0.5),
        ("{'score': 1, 'reason': 'single quotes'}", 1.0),
        ('{"score": 0.5, "reason": "cut of', 0.5),
        ('{"score": 1, "nested": {"score": 0}}', 1.0),
    ],
)
def test_readable(reply, score):
    assert read_score(reply) == (score, "")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ('{"score": 0.25}', "0.25"),
        ('{"score": 2}', "2"),
        ('{"score": -1}', "-1"),
        ('{"score": true}', "True"),
        ('{"score": false}', "False"),
        ('{"score": NaN}', "NaN"),
        ('{"score": Infinity}', "Infinity"),
        ('{"score": "nan"}', "nan"),
        ('{"score": null}', "None"),
        ('{"score": "half"}', "half"),
        ('{"score": [1]}', r"\[1\]"),
        ('{"score": "1 or 0.5"}', "1 or 0.5"),
        ('{"verdict": 1}', "object without a score"),
        ("[1, 0.5]", "list"),
        ("0.5", "no object"),
        ("score: 1", "no object"),
        ("The nugget is satisfied.", "no object"),
        ("  \n", "empty"),
        ('{"score": ' + "1" * 5000 + "}", "score|object"),
    ],
)
def test_refused_with_a_reason(reply, reason):
    score, said = read_score(reply)
    assert score is None
    assert re.search(reason, said)


@pytest.mark.parametrize(
    "reply",
    [
        '{"score": 1, "score": 0}',
        '{"score": 1, "reason": "x", "score": 1}',
        '```json\n{"score": 0.5, "reason": "x", "score": 1}\n```',
        'I think: {"score": 0, "reason": "x",\n "score": 1} so',
        '{"score": 0, "reason": "not "x"", "score": 1,}',
        "{'score': 0, 'score': 1}",
        '{"score": 0.5,\n"score": 1',
    ],
)
def test_two_scores_in_one_object_are_ambiguous(reply):
    assert read_score(reply) == (None, "the judge's reply has two scores in one object")


@pytest.mark.parametrize(
    "reply",
    [
        'Draft: {"score": 0.5, "reason": "?"}\nOn reflection:\n```json\n{"score": 1.0, "reason": "ok"}\n```',
        '{"score": 1.0, "reason": "first element"}\n{"score": 0.0, "reason": "second element"}',
        '[{"score": 1}, {"score": 0}]',
        '{"score": 1, "reason": "a "b" c"}\n{"score": 0, "reason": "d"}',
    ],
)
def test_two_objects_with_different_scores_are_ambiguous(reply):
    score, reason = read_score(reply)
    assert score is None and "two" in reason
    assert read_score(reply.replace("0.5", "1").replace('"score": 0', '"score": 1'))[0] in (1.0, None)


LEVEL = st.sampled_from([0, 0.5, 1])


@given(LEVEL, LEVEL, st.text(max_size=30), st.sampled_from(["\n", " then "]))
def test_two_objects_give_a_score_only_if_they_agree(first, second, reason, between):
    verdicts = ({"score": score, "reason": f"it says {reason}"} for score in (first, second))  # no placeholder
    reply = between.join(map(json.dumps, verdicts))
    score, _ = read_score(reply)
    assert score is None or score == first == second
    assert "}" in reason or (score is None) == (first != second)


def test_two_objects_with_different_matches_are_ambiguous():
    draft = 'I first thought {"1": 2}. Final:\n'
    assert read_matches(draft + '{"1": [1], "2": [2]}', 3, 3)[0] is None
    assert read_matches(draft + '{"1": [2]}', 3, 3) == ({1: (2,)}, "")


def test_a_repeated_key_that_decides_nothing_is_none():
    assert read_score('{"score": 1, "reason": "a", "reason": "b"}') == (1.0, "")
    assert read_score('{"score": 1, "of": {"score": 0, "score": 1}}') == (1.0, "")


def test_an_item_that_is_matched_twice_is_ambiguous():
    assert read_matches('{"1": [1], "2": [2], "1": [2]}', 2, 2) == (
        None,
        "the aligner's reply has two matches in one object",
    )
    assert read_matches('{"1": [1], "note": 1, "note": 2}', 2, 2) == ({1: (1,)}, "")


@given(st.text(max_size=200))
def test_any_text_gives_a_level_or_a_reason(text):
    for reply in (text, "{" + text, '{"score": ' + text, f"```json\n{text}"):
        score, reason = read_score(reply)
        assert (score in (0.0, 0.5, 1.0) and not reason) or (score is None and reason)


@given(st.sampled_from([0.0, 0.5, 1.0]), st.text(max_size=80), st.booleans())
def test_a_well_formed_reply_is_read_whatever_its_reason_says(score, text, fenced):
    reply = json.dumps({"score": score, "reason": f"it says {text}"})  # no placeholder
    assert read_score(f"```json\n{reply}\n```" if fenced else reply) == (score, "")
    assert released_score(reply) == int(score)


@given(st.text() | st.text(alphabet='{}[]",:score reason0.5\n'))
def test_a_reason_is_one_line_of_any_reply(reply: str) -> None:
    assert "\n" not in read_reason(reply)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ('{"score": 0.5, "reason": "two\nlines"}', "two lines"),
        ('The verdict: {"score": 1.0, "reason": "x"}', "x"),
        ('{"score": 1.0}', ""),
        ('{"reason": "no score"}', ""),
        ('{"score": 1.0, "reason": 7}', ""),
        ("1.0, because it is there", ""),
        ("", ""),
    ],
)
def test_the_reason_of_a_verdict(reply: str, reason: str) -> None:
    assert read_reason(reply) == reason
