"""The `released-code` protocol against an independent port of the released scorer, digit for digit.

The port below was written from the description in the project's notes on the released code, in another style than the
package (plain strings, one dictionary of last positions, tau-b by hand), so that a shared mistake is unlikely.
"""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from beamlib.data.gold import ABILITIES
from beamlib.scoring.event_ordering import order_scores, released_order
from beamlib.scoring.protocols import PROTOCOLS, released_score
from beamlib.scoring.records import Alignment, Judgement, NuggetVerdict
from beamlib.scoring.scores import score_run


def port_event_ordering(rubric, lines, same):
    """Lines are aligned, then compared as strings: (precision, recall, f1, tau, tau_norm, final)."""
    taken = [False] * len(rubric)
    texts = []
    for line in lines:
        texts.append(line)
        for k in range(len(rubric)):
            if not taken[k] and same(rubric[k], line):
                taken[k] = True
                texts[-1] = rubric[k]
                break
    hits = 0
    for text in set(rubric):
        hits += text in texts
    wrong = 0
    for text in texts:
        wrong += text not in rubric
    absent = 0
    for text in rubric:
        absent += text not in texts
    precision = 0 if hits + wrong == 0 else hits / (hits + wrong)
    recall = 0 if hits + absent == 0 else hits / (hits + absent)
    f1 = 0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)
    union = []
    for text in list(rubric) + texts:
        if text not in union:
            union.append(text)
    last = {}
    for position, text in enumerate(texts):
        last[text] = position + 1
    own = {}
    for position, text in enumerate(rubric):
        own[text] = position + 1
    x = [own[u] if u in own else len(union) + 1 for u in union]
    y = [last[u] if u in last else len(union) + 1 for u in union]
    tau = kendalltau(x, y).statistic if len(union) > 1 else math.nan
    norm = (tau + 1) / 2
    return precision, recall, f1, tau, norm, norm * f1


def plain_tau_b(x, y):
    """Tau-b by counting pairs, after Kendall (1945)."""
    concordant = discordant = only_x = only_y = 0
    for i in range(len(x)):
        for j in range(i):
            a, b = (x[i] > x[j]) - (x[i] < x[j]), (y[i] > y[j]) - (y[i] < y[j])
            if a * b > 0:
                concordant += 1
            elif a * b < 0:
                discordant += 1
            elif a:
                only_x += 1
            elif b:
                only_y += 1
    both = concordant + discordant
    scale = math.sqrt((both + only_x) * (both + only_y))
    return (concordant - discordant) / scale if scale else math.nan


def equal(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


# Few letters on purpose: repeated lines, equal nuggets and unmatched lines that equal a nugget all occur.
LETTERS = st.sampled_from("abcdef")


@st.composite
def ordering_cases(draw):
    rubric = draw(st.lists(LETTERS, min_size=1, max_size=7))
    lines = draw(st.lists(st.one_of(LETTERS, st.sampled_from(["", "# heading", "```"])), min_size=1, max_size=9))
    yes = draw(st.sets(st.tuples(LETTERS, st.sampled_from([*"abcdef", "", "# heading", "```"])), max_size=12))
    return rubric, lines, yes


def greedy(rubric, lines, yes):
    used, matches = set(), []
    for line in lines:
        match = next((k for k, nugget in enumerate(rubric) if k not in used and (nugget, line) in yes), None)
        used |= {match} - {None}
        matches.append(match)
    return matches


@settings(max_examples=150, deadline=None)
@given(ordering_cases())
def test_event_ordering_equals_the_port_digit_for_digit(case):
    rubric, lines, yes = case
    matches = greedy(rubric, lines, yes)
    expected = port_event_ordering(rubric, lines, lambda nugget, line: (nugget, line) in yes)
    aligned = [line if match is None else rubric[match] for line, match in zip(lines, matches, strict=True)]
    got = released_order(rubric, aligned)
    assert all(map(equal, (got.precision, got.recall, got.f1, got.tau, got.tau_norm, got.final), expected)), expected

    question = PROTOCOLS["released-code"].score_question(
        Judgement(
            probe_id="p",
            conversation_id="100K-1",
            ability="event_ordering",
            verdicts=tuple(NuggetVerdict(nugget=n, score=1.0, reply='{"score": 1}') for n in rubric),
            alignments=(Alignment(parser="newline", items=tuple(lines), matches=tuple(matches)),),
        )
    )
    assert question.value is None if math.isnan(expected[4]) else question.value == expected[4]


@settings(max_examples=150, deadline=None)
@given(ordering_cases())
def test_structure_and_text_agree_where_no_two_texts_are_equal(case):
    rubric, lines, yes = case
    matches = greedy(rubric, lines, yes)
    nuggets = [f"nugget {k}" for k in range(len(rubric))]
    aligned = [f"line {i}" if m is None else nuggets[m] for i, m in enumerate(matches)]
    structural, textual = order_scores(len(rubric), matches), released_order(nuggets, aligned)
    assert all(equal(getattr(structural, name), getattr(textual, name)) for name in structural.__slots__)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 8), st.lists(st.integers(0, 11), min_size=1, max_size=10, unique=True))
def test_order_scores_use_tau_b_of_the_described_ranks(n, events):
    matches = [event if event < n else None for event in events]
    union = list(range(n)) + [f"extra {i}" for i, match in enumerate(matches) if match is None]
    told = [f"extra {i}" if match is None else match for i, match in enumerate(matches)]
    tie = len(union) + 1
    x = [k + 1 if k < n else tie for k in range(len(union))]
    y = [told.index(event) + 1 if event in told else tie for event in union]
    tau = order_scores(n, matches).tau
    expected = plain_tau_b(x, y)
    assert math.isnan(tau) == math.isnan(expected)
    assert math.isnan(tau) or tau == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("lines", "printed"),
    [
        (["1", "2", "3", "4", "5"], "1.000"),
        (["# heading", "1", "2", "3", "4", "5"], ".667"),
        (["1", "", "2", "", "3", "", "4", "", "5"], ".933"),
        (["5", "4", "3", "2", "1"], "0.000"),
        (["1", "2"], ".918"),
        (["1"], ".816"),
        (["5"], ".184"),
        (["x"], ".211"),
        ([f"x{i}" for i in range(5)], ".143"),
        ([f"x{i}" for i in range(10)], ".169"),
    ],
)
def test_vectors_of_five_nuggets(lines, printed):
    got = released_order(["1", "2", "3", "4", "5"], lines).tau_norm
    assert got == pytest.approx(float(printed), abs=5.01e-4)


@pytest.mark.parametrize("n", [2, 3, 5, 11, 20])
@pytest.mark.parametrize("m", [1, 2, 5, 10, 23])
def test_closed_formula_of_an_answer_that_matches_nothing(n, m):
    formula = -n * m / math.sqrt((n * (n - 1) / 2 + n * m) * (m * (m - 1) / 2 + n * m))
    assert order_scores(n, [None] * m).tau == pytest.approx(formula, abs=1e-12)


NO_MATCH = {"100K": (0.215, 0.143), "500K": (0.246, 0.149), "1M": (0.268, 0.152), "10M": (0.286, 0.154)}
RUBRICS = {"100K": 40, "500K": 70, "1M": 70, "10M": 20}


def test_no_match_means_over_the_real_rubrics(beam_data):
    """Over a whole tier the published means; over a part of it they lie where the formula puts them."""
    seen = 0
    for tier, printed in NO_MATCH.items():
        files = sorted(beam_data.glob(f"{tier}/*/probing_questions/probing_questions.json"))
        sizes = [len(q["rubric"]) for file in files for q in json.loads(file.read_text("utf-8"))["event_ordering"]]
        if not sizes:
            continue
        seen += len(sizes)
        one = [order_scores(n, [None]).tau_norm for n in sizes]
        many = [order_scores(n, [None] * n).tau_norm for n in sizes]
        if len(sizes) == RUBRICS[tier]:
            assert (sum(one) / len(one), sum(many) / len(many)) == pytest.approx(printed, abs=5.01e-4)
        for n, single, full in zip(sizes, one, many, strict=True):
            assert single == pytest.approx((1 - math.sqrt(2 / (n + 1))) / 2)
            assert full == pytest.approx((1 - n / ((n - 1) / 2 + n)) / 2)
    assert seen, f"no event-ordering rubrics under {beam_data}"


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ('{"score": 0.5}', 0),
        ('{"score": 0.99}', 0),
        ('{"score": 1.0}', 1),
        ('{"score": 1}', 1),
        ('{"score": "1"}', 1),
        ('{"score": true}', 1),
        ('{"score": 5}', 5),
        ('{"score": -0.5}', 0),
        ('```json\n{"score": 1.0, "reason": "fine"}\n```', 1),
        ('My verdict: {"score": 1.0, "reason": "fine"} as asked', 1),
        ('My verdict: {"score": 1.0, "reason": "a {brace} inside"}', 1),
        ('{"score": 1.0, "reason": "an "open" quote"}', 1),
        ('{"score": 1.0, "reason": "cut of', 1),
    ],
)
def test_replies_the_released_scorer_reads(reply, score):
    assert released_score(reply) == score


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ('{"score": "0.5"}', ValueError),
        ('{"score": "1.0"}', ValueError),
        ('{"score": "full"}', ValueError),
        ('{"score": NaN}', ValueError),
        ('{"score": Infinity}', OverflowError),
        ('{"score": null}', TypeError),
        ('[{"score": 1}]', TypeError),
        ('On a scale of [0, 1]: {"score": 1}', TypeError),
        ('{"reason": "none"}', KeyError),
        ("1.0", TypeError),
        ("The nugget is satisfied.", (TypeError, ValueError)),  # which of them depends on json-repair's version
        ("", (TypeError, ValueError)),
    ],
)
def test_replies_that_stop_the_released_scorer(reply, error):
    with pytest.raises(error):
        released_score(reply)


def judgement(ability, replies, conversation="100K-1", number=0):
    verdicts = tuple(NuggetVerdict(nugget=f"n{k}", score=1.0, reply=reply) for k, reply in enumerate(replies))
    alignments = ()
    if ability == "event_ordering":
        matches = tuple(range(len(replies)))
        alignments = (Alignment(parser="newline", items=tuple(f"l{k}" for k in matches), matches=matches),)
    return Judgement(
        probe_id=f"{conversation}-q{number:02d}",
        conversation_id=conversation,
        ability=ability,
        verdicts=verdicts,
        alignments=alignments,
    )


GOOD = ['{"score": 1}', '{"score": 0.5}', '{"score": 0}', '{"score": "1"}']
BAD = ['{"score": "0.5"}', "[]", "nothing", '{"verdict": 1}']


def port_conversation(questions):
    """{(ability, place): score} of what the released scorer writes for one conversation before it stops."""
    written = {}
    for ability in sorted({ability for ability, _ in questions}):
        scores = []
        for _, replies in (question for question in questions if question[0] == ability):
            total = 0
            for reply in replies:
                value = json.loads(reply) if reply != "nothing" else ""
                try:
                    # event ordering keeps fractions, and accepts "0.5", because it only stores this number
                    total += (float if ability == "event_ordering" else int)(value["score"])
                except (TypeError, KeyError, ValueError):
                    return written
            scores.append(1.0 if ability == "event_ordering" else total / len(replies))
        written.update({(ability, place): score for place, score in enumerate(scores)})
    return written


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(*[st.sampled_from(GOOD)] * 9, st.sampled_from(BAD)), min_size=2, max_size=4),
        min_size=20,
        max_size=20,
    )
)
def test_conversations_equal_the_port_where_replies_stop_the_scorer(replies):
    questions = [(ABILITIES[k // 2], replies[k]) for k in range(20)]
    judgements = [judgement(ability, texts, number=k) for k, (ability, texts) in enumerate(questions)]
    other = [judgement("temporal_reasoning", ['{"score": 1}'], conversation="100K-2")]
    table = score_run([*judgements, *other], "released-code")
    written = port_conversation(questions)
    for k, row in enumerate(table.itertuples()):
        if k == 20:
            assert row.score == 1.0, "an abort must stay in its own conversation"
        elif (expected := written.get((ABILITIES[k // 2], k % 2))) is None:
            assert math.isnan(row.score) and row.unscored
        else:
            assert row.score == expected and not row.unscored


@pytest.mark.parametrize(
    ("reply", "stops"),
    [('{"score": "0.5"}', False), ('{"score": 0.5}', False), ("[0.5]", True), ('{"score": "half"}', True)],
)
def test_event_ordering_reads_its_unused_verdicts_as_floats(reply, stops):
    score = PROTOCOLS["released-code"].score_question(judgement("event_ordering", ['{"score": 1}', reply]))
    assert score.aborts_conversation is stops
    assert (score.value is None) is stops and ("nugget 2" in (score.unscored or "")) is stops
