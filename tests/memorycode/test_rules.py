"""What each rule sees in code, case by case, and that answers of any kind cost bounded time and are never run."""

from __future__ import annotations

import itertools
import re
import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_memorycode import rule_scoring
from beam_memorycode.rule_scoring import Scorer
from beam_memorycode.rules import (
    MOST_CODE,
    MOST_LEVELS,
    RULE_KINDS,
    TOO_DEEP,
    TOO_LONG,
    Rule,
    RuleVerdict,
    ScoringRule,
    Unparsable,
    extract_code,
    matcher,
    objects,
    parse,
    python_blocks,
    rule_verdict,
)
from beamlib.errors import UserError

PASS, FAIL, ABSENT = RuleVerdict.PASS, RuleVerdict.FAIL, RuleVerdict.ABSENT


def judged(code: str, kind: str, condition: object, **variant: bool) -> RuleVerdict:
    return rule_verdict(Rule(kind, condition), objects(parse(code), code), ScoringRule(**variant))  # type: ignore[arg-type]


CLASS = """
class Shop:
    def __init__(self, a):
        self.q_a = a
        self.b = a
    def x_add(self, item): pass
"""

CASES = [
    # names: every group's first element, matched from its beginning
    ("def x_a(): pass\ndef x_b(): pass", "function", "^x_.*", PASS),
    ("def x_a(): pass\ndef b(): pass", "function", "^x_.*", FAIL),
    ("def a(): pass\ndef b_x(): pass", "function", ".*_x$", FAIL),
    ("def achxb(): pass", "function", ".*chx.*", PASS),
    ("def a12(): pass", "function", r".*\d$", PASS),
    ("def a1b(): pass", "function", r".*\d$", FAIL),
    ("def outer():\n    def x_in(): pass", "function", "^x_.*", FAIL),  # nested ones count too
    (CLASS, "function", "^x_.*", ABSENT),
    (CLASS, "method", "^x_.*", PASS),  # __init__ is no method
    ("class A:\n    def x_a(self):\n        def b(): pass", "method", "^x_.*", FAIL),
    ("class A:\n    class B:\n        pass\n    def b(self): pass", "function", "^x_.*", ABSENT),  # still in A
    ("async def b(): pass", "function", "^x_.*", ABSENT),
    ("async def b():\n    def x_c(): pass", "function", "^x_.*", PASS),
    ("def f(x_a, b): pass", "function argument", "^x_.*", PASS),  # the first one alone
    ("def f(a, x_b): pass", "function argument", "^x_.*", FAIL),
    ("def f(): pass\ndef g(x_a): pass", "function argument", "^x_.*", PASS),
    ("def f(): pass", "function argument", "^x_.*", FAIL),  # there, but empty
    ("def f(a, /, x_b, *c, d=1, **e): pass", "function argument", "^x_.*", PASS),  # ordinary ones alone
    ("def f(*x_a): pass", "function argument", "^x_.*", FAIL),
    (CLASS, "function argument", "^x_.*", ABSENT),
    (CLASS, "attribute", "^q_.*", PASS),  # the first one alone
    ("class A:\n    def __init__(self):\n        self.b = self.q_a = 1", "attribute", "^q_.*", FAIL),
    ("class A:\n    def __init__(self):\n        if 1:\n            self.q_a = 1", "attribute", "^q_.*", FAIL),
    ("class A:\n    def __init__(self):\n        self.q_a: int = 1", "attribute", "^q_.*", FAIL),
    ("class A:\n    def __init__(self):\n        self.q_a, self.b = 1, 2", "attribute", "^q_.*", FAIL),
    ("class A:\n    def put(self):\n        self.q_a = 1", "attribute", "^q_.*", ABSENT),
    ("def __init__(self):\n    self.q_a = 1", "attribute", "^q_.*", ABSENT),
    ("x_a = 1", "variable", "^x_.*", PASS),
    ("x_a, b = 1, 2", "variable", "^x_.*", FAIL),
    ("x_a: int", "variable", "^x_.*", PASS),
    ("[b] = [1]", "variable", "^x_.*", ABSENT),
    ("for b in c: pass\nwith d as e: pass\nf += 1\n(g := 1)", "variable", "^x_.*", ABSENT),
    ("x_a[0] = 1\nx_a.b = 1", "variable", "^x_.*", ABSENT),
    ("class A:\n    b = 1", "variable", "^x_.*", FAIL),
    ("class A: pass\nclass B: pass", "class", r".*\d$", FAIL),
    ("def f():\n    class A1: pass", "class", r".*\d$", PASS),
    # presence
    ("def f():\n    'It counts.'", "function docstring", True, PASS),
    ("def f():\n    '  '", "function docstring", True, FAIL),
    ("def f():\n    'one'\ndef g(): pass", "function docstring", True, FAIL),
    ("def f():\n    '\u00a0'", "function docstring", True, FAIL),  # white space, in every version of Python
    ("def f():\n    '''\n    It counts.\n    '''", "function docstring", True, PASS),
    ("def f():\n    f'It is no docstring.'", "function docstring", True, FAIL),
    ("def f():\n    try: pass\n    except E: pass", "function try", True, PASS),
    ("def f():\n    if 1:\n        try: pass\n        finally: pass", "function try", True, FAIL),
    ("def f():\n    assert 1", "function assert", True, PASS),
    (CLASS, "method assert", True, FAIL),
    ("def f(a: int): pass", "function annotation", True, PASS),
    ("def f(a) -> int: pass", "function annotation", True, PASS),
    ("def f(*a: int): pass", "function annotation", True, FAIL),
    ("def f():\n    raise E", "function assert", True, FAIL),
    ("def f(a): pass", "function annotation", True, FAIL),
    ("class A:\n    def f(self) -> int:\n        'It adds.'", "method docstring", True, PASS),
    ("class A:\n    def f(self) -> int:\n        'It adds.'", "method annotation", True, PASS),
    ("class A:\n    def f(self): return 'It adds.'", "method docstring", True, FAIL),
    ("class A:\n    def f(self): pass", "method annotation", True, FAIL),
    ("class A:\n    def f(self):\n        try: pass\n        finally: pass", "method try", True, PASS),
    ("class A:\n    def f(self): pass", "method try", True, FAIL),
    ("class A:\n    def f(self):\n        assert self", "method assert", True, PASS),
    ("class A:\n    def x_f(self): pass\n    @retry\n    def g(self): pass", "method decorator", ("retry", True), FAIL),
    ("def f(): pass", "function docstring", False, PASS),
    ("def f():\n    'one'", "function docstring", False, FAIL),
    ("a = '#'", "comment", True, PASS),  # released: any number sign
    ("a = 1", "comment", True, FAIL),
    # where else objects stand, and what they are
    ("try:\n    pass\nexcept E:\n    x_a = 1\nelse:\n    x_b = 1\nfinally:\n    b = 1", "variable", "^x_.*", FAIL),
    ("for i in j:\n    x_a = 1\nelse:\n    b = 1", "variable", "^x_.*", FAIL),
    ("match a:\n    case 1:\n        b = 1", "variable", "^x_.*", FAIL),
    ("async def f():\n    async with a:\n        b = 1", "variable", "^x_.*", FAIL),
    ("x_a = b = 1", "variable", "^x_.*", FAIL),
    ("class A:\n    class B: pass\ndef b(): pass", "method", "^x_.*", ABSENT),  # out of A again
    ("def f():\n    class A: pass\n    def b(): pass", "method", "^x_.*", ABSENT),
    ("class A:\n    def f(self):\n        def __init__(self):\n            self.q_a = 1", "attribute", "^q_.*", PASS),
    ("class A:\n    async def __init__(self):\n        self.q_a = 1", "attribute", "^q_.*", ABSENT),
    ("class A:\n    def __init__(this):\n        this.q_a = 1", "attribute", "^q_.*", FAIL),
    ("class A:\n    def __hidden(self): pass", "method", "^x_.*", ABSENT),
    ("class A:\n    def _hidden(self): pass", "method", "^x_.*", FAIL),
    ("def a_x_b(): pass", "function", "[xy]_.*", FAIL),  # from the beginning on, also without ^
    ("def x_b(): pass", "function", "[xy]_", PASS),  # and not to the end
    ("def __b(): pass", "function", "^x_.*", FAIL),  # two underscores matter in classes alone
    ("def f(a: int, /, *, b: int): pass", "function annotation", True, FAIL),
    ("def f():\n    try: pass\n    except* E: pass", "function try", True, FAIL),
    ("\uff58_b = 1", "variable", "^x_.*", PASS),  # Python reads names in their NFKC form
    ("@retry(1)(2)\ndef f(): pass", "function decorator", ("retry", True), PASS),
    ("@a(1).retry\ndef f(): pass", "function decorator", ("retry", True), PASS),
    ("@retry\nasync def f(): pass", "function decorator", ("retry", True), ABSENT),
    # names in a group
    ("@pedantic.retry(3)\ndef f(): pass", "function decorator", ("retry", True), PASS),
    ("@other\n@retry\ndef f(): pass\n@other\ndef g(): pass", "function decorator", ("retry", True), FAIL),
    (
        "class A:\n    @retry\n    def f(self): pass\n    def __init__(self): pass",
        "method decorator",
        ("retry", True),
        PASS,
    ),
    ("@trace_class\nclass A: pass", "class decorator", ("trace_class", True), PASS),
    ("class A: pass", "class decorator", ("trace_class", True), FAIL),
    ("@(lambda f: f)\ndef f(): pass", "function decorator", ("retry", True), FAIL),
    ("import gzip as g, os.path", "import", ("gzip", True), PASS),
    ("import os.path", "import", ("os", True), FAIL),
    ("from gzip import open", "import", ("gzip", True), FAIL),
    ("def f():\n    import gzip", "import", ("gzip", True), PASS),
    ("import gzip", "import", ("gzip", False), FAIL),
    ("import bz2", "import", ("gzip", False), PASS),
    ("@timer\ndef f(): pass\ndef g(): pass", "function decorator", ("timer", False), FAIL),
    ("def f(): pass", "function decorator", ("timer", False), PASS),
    ("a = 1", "import", ("gzip", True), FAIL),  # missing is a failure, never absent
]


@pytest.mark.parametrize(("code", "kind", "condition", "expected"), CASES)
def test_a_rule_sees_its_objects(code, kind, condition, expected):
    assert judged(code, kind, condition) is expected


def test_every_kind_is_seen_to_pass_and_to_fail():
    verdicts = {(kind, expected) for _, kind, _, expected in CASES}
    assert {(kind, rule_verdict) for kind in RULE_KINDS for rule_verdict in (PASS, FAIL)} <= verdicts


def test_variants_look_further():
    body = "        try:\n            self.q_a = 1\n        finally: pass\n        self.b: int = 1"
    loose = f"class A:\n    def __init__(self):\n{body}"
    assert objects(parse(loose), loose)["attribute"] == ((),)
    assert objects(parse(loose), loose, ScoringRule(loose_attributes=True))["attribute"] == (("q_a", "b"),)
    imports = "import bz2\nfrom gzip import open\nfrom . import os"
    assert objects(parse(imports), imports)["import"] == (("bz2",),)
    assert objects(parse(imports), imports, ScoringRule(import_from=True))["import"] == (("bz2", "gzip"),)
    hidden = "a = '#'"
    assert objects(parse(hidden), hidden, ScoringRule(real_comments=True))["comment"] == ((),)
    assert objects(parse(hidden + " # b"), hidden + " # b", ScoringRule(real_comments=True))["comment"] == (("#",),)
    assert judged("def f(x_a, b): pass", "function argument", "^x_.*", every_name=True) is FAIL
    assert judged("def f(): pass", "function argument", "^x_.*", empty_is_absent=True) is ABSENT
    assert judged("def f(): pass", "function", "^x_.*", empty_is_absent=True) is FAIL


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("Sure!\n```python\na = 1\n```\n```python\nb = 2\n```", "a = 1\n"),
        ("```java\nint a;\n```\n```python\na = 1\n```", "a = 1\n"),
        ("```java\nint a;\n```", "java\nint a;\n"),
        ("```python \na = 1\n```", "python \na = 1\n"),
        ("```python\r\na = 1\r\n```", "python\r\na = 1\r\n"),
        ("```Python\na = 1\n```", "Python\na = 1\n"),
        ("````python\na = 1\n````", "a = 1\n"),
        ("```python\na\n```python\nb\n```", "a\n"),
        ("``````", ""),
        ("  a = 1", "  a = 1"),
        ("a = 1", "a = 1"),
        ("```python\na = 1", "```python\na = 1"),
        ("``` ``` ```python\na = 1", " "),
    ],
)
def test_the_first_block_is_the_code(answer, code):
    assert extract_code(answer) == code


def test_all_python_blocks():
    assert python_blocks("```python\na\n```\n```\nb\n```\n```python\nc\n``````python\nd") == ["a\n", "c\n"]


# --- patterns -------------------------------------------------------------------------------------------------------

CASE_PATTERNS = [r"\b[A-Z][A-Z0-9_]*\b", r"^[A-Z][a-z0-9]*((\d|[a-z])[A-Z\d]*[a-z0-9]*)*$", r"^[a-z0-9_]*$"]


@pytest.mark.parametrize("pattern", [*CASE_PATTERNS, "^b_.*", ".*_b$", ".*b1b.*", r".*\d$", "^[a-z]+_(x|y)?$"])
def test_patterns_match_what_python_matches(pattern):
    found = matcher(pattern)
    for length in range(8):
        for letters in itertools.product("Ab1_", repeat=length):
            name = "".join(letters)
            assert found(name) == (re.match(pattern, name) is not None), (pattern, name)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", [*CASE_PATTERNS, "^(a+)+$", "(A|AA|a)*b$", ".*a.*a.*a.*a.*b$", "((((A?)*)*)*)*1$"])
def test_no_name_can_make_a_pattern_slow(pattern):
    matches = matcher(pattern)
    for name in ("A" + "a1" * 50_000 + "_", "Aa" * 50_000 + "_", "a" * 100_000 + "!", "A" * 100_000):
        matches(name)


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", "(", "[", "a{1,", "*", "(" * 20_000, "\ud800", "(\n"])
def test_a_pattern_beyond_linear_time_is_refused_in_one_sentence(pattern, capfd):
    try:
        matcher(pattern)("a")
    except UserError as error:
        assert repr(pattern)[:80] in str(error) and "linear time" in str(error) and "\n" not in str(error)
    else:
        assert re.compile(pattern)  # what is taken is an expression of Python's too
    assert capfd.readouterr().err == ""


# --- hostile answers ------------------------------------------------------------------------------------------------

RULES = [
    Rule("function", "^x_.*"),
    Rule("comment", True),
    Rule("import", ("gzip", True)),
    Rule("class", CASE_PATTERNS[1]),
]
DEEP = 3 * MOST_LEVELS

HOSTILE = {
    "a million characters": ("a" * 1_000_000, TOO_LONG),
    "a million statements": ("a=1\n" * 250_000, TOO_LONG),
    "a million fences": ("```" * 333_333, ""),  # the first block is empty code
    "a million in an unclosed fence": ("```python\n" + "a" * 1_000_000, TOO_LONG),
    "brackets": ("x=" + "(" * DEEP + ")" * DEEP, "syntax error"),
    "a sum": ("x=" + "+".join("a" * DEEP), TOO_DEEP),
    "signs": ("x=" + "-" * DEEP + "1", TOO_DEEP),
    "attributes": ("x=a" + ".b" * DEEP, TOO_DEEP),
    "a module's name": ("import a" + ".a" * 49_000, TOO_DEEP),
    "a module's name in pieces": ("from a" + " . \\\na" * 16_000 + " import b", TOO_DEEP),
    "calls": ("x=a" + "()" * DEEP, TOO_DEEP),
    "nots": ("x=" + "not " * DEEP + "1", TOO_DEEP),
    "lambdas": ("x=" + "lambda:" * DEEP + "1", TOO_DEEP),
    "choices": ("x=" + "1 if a else " * DEEP + "1", TOO_DEEP),
    "elifs": ("if a: pass\n" + "elif b: pass\n" * DEEP, TOO_DEEP),
    "blocks": ("".join(" " * level + "if a:\n" for level in range(120)) + " " * 120 + "pass", "syntax error"),
    "a null byte": ("a = 1\0", ""),
    "a lone surrogate": ("a = '\ud800'", ""),
    "a long number": ("a = " + "1" * 50_000, ""),
    "carriage returns": ("\r" * 50_000 + "a = 1", ""),
    "nothing": ("", ""),
    "not Python": ("I cannot write this code.", "syntax error"),
    "a trap for CamelCase": (f"class A{'a1' * 20_000}_: pass", ""),
    "an escape": ("a = '\\d'", ""),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_costs_little_and_has_a_stated_outcome(name):
    answer, outcome = HOSTILE[name]
    tracemalloc.start()
    verdicts, failure = Scorer().verdicts(answer, RULES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * 2**20
    assert failure.startswith(outcome)
    assert len(failure) < 120 and failure.isprintable()
    assert not failure or set(verdicts) == {FAIL}


@pytest.mark.parametrize("levels", [MOST_LEVELS - 10, MOST_LEVELS + 10])
def test_the_bound_on_nesting_does_not_depend_on_who_calls(levels):
    code = "x=" + "+".join("a" * levels)

    def outcome(below: int) -> str:
        if below:
            return outcome(below - 1)
        try:
            parse(code)
        except Unparsable as error:
            return str(error)
        return ""

    deep = sys.getrecursionlimit() // 4
    assert {outcome(0), outcome(deep)} == {TOO_DEEP if levels > MOST_LEVELS else ""}


def test_code_just_within_the_bound_on_length_is_looked_at():
    code = "x_a = 1\n" * (MOST_CODE // 8)
    assert judged(code, "variable", "^x_.*") is PASS


def test_what_is_kept_of_answers_is_bounded_and_changes_no_verdict(monkeypatch):
    monkeypatch.setattr(rule_scoring, "_MOST_KEPT", 100)
    scorer = Scorer()
    answers = [f"x_{number} = 1" for number in range(10, 40)]  # eight characters each
    first = [scorer.verdicts(answer, RULES) for answer in answers]
    assert list(scorer._kept.groups) == answers[-12:]
    assert [scorer.verdicts(answer, RULES) for answer in answers] == first
    scorer.verdicts(answers[-12], RULES)  # the oldest, which is now the last
    scorer.verdicts("a = 12345", RULES)
    assert list(scorer._kept.groups) == [*answers[-10:], answers[-12], "a = 12345"]
    scorer.verdicts("a" * 101, RULES)
    assert not scorer._kept.groups and not scorer._kept.characters


def test_code_is_never_run(tmp_path):
    target = tmp_path / "ran"
    touch = f"open({str(target)!r}, 'w')"
    code = f"{touch}\n@__import__('os').mkdir({str(target)!r})\ndef x_f(a={touch}): pass"
    assert Scorer().verdicts(code, RULES)[0][0] is PASS
    assert not target.exists()


words = st.sampled_from(
    [
        "def f(a):\n",
        "class A:\n",
        "    ",
        "return a\n",
        "x_b = 1\n",
        "@r\n",
        "# c\n",
        "import gzip\n",
        "```",
        "python\n",
        "'''",
        "(",
        ")",
        "\0",
        "é",
    ]
)


@settings(max_examples=150)
@given(st.one_of(st.text(max_size=200), st.lists(words, max_size=25).map("".join)))
def test_any_text_gets_verdicts(answer):
    first = Scorer().verdicts(answer, RULES)
    assert first == Scorer().verdicts(answer, RULES)
    assert len(first[0]) == len(RULES)
    assert not first[1] or set(first[0]) == {FAIL}
