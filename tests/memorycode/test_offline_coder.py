"""The stand-in's code: guidelines found in wordings, the newest first, followed in code that always parses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_offline import REPLIES
from beam_offline.coder import write_code
from beam_offline.guidelines import Form, Guideline, Thing, standing_guidelines

FUNCTION = "function that merges two ranked menus"
CLASS = "Parcel depot class with load and unload parcels methods"


def _tree(reply: str) -> ast.Module:
    opening, _, rest = reply.partition("\n")
    code, _, after = rest.rpartition("\n")
    assert (opening, after) == ("```python", "```") and "```" not in code
    return ast.parse(code)


def _written(query: str, *guidelines: str) -> ast.Module:
    return _tree(REPLIES["memorycode_chain"]({"guidelines": "\n".join(guidelines), "query": query}))


def _callables(tree: ast.Module) -> list[ast.FunctionDef]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [node for node in found if not node.name.startswith("__")]


def _class(tree: ast.Module) -> ast.ClassDef:
    return next(node for node in tree.body if isinstance(node, ast.ClassDef))


def _variables(tree: ast.Module) -> list[str]:
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _attributes(tree: ast.Module) -> list[str]:
    stored = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return [node.attr for node in stored]


@pytest.mark.parametrize(
    ("said", "things", "form", "value"),
    [
        ("Ana: Every one of our method names is to end with '_kk', please.", "method", "end", "_kk"),
        ("Ana: When naming attributes, I'd like you to start them with the prefix 'zu_'.", "attribute", "start", "zu_"),
        ("Ana: Begin variable names with 'ra_' and function argument names with 'su_'.", "variable", "start", "ra_"),
        ("Ana: Begin variable names with 'ra_' and function argument names with 'su_'.", "argument", "start", "su_"),
        ("Bo: I'll use 'ra_' for attribute names and 'su_' for variables.", "variable", "start", "su_"),
        ("Ana: Now, function names. Things changed. Always begin them with 'ra_'.", "function", "start", "ra_"),
        (
            "Ana: Start method names with 'ra_' and include the string 'kwo' in your variables.",
            "variable",
            "include",
            "kwo",
        ),
        ("Ana: Always put a single digit in your class and attribute names.", "class attribute", "digit", ""),
        ("Ana: From now on, I want docstrings in all of your methods.", "method", "docstring", ""),
        ("Ana: Please see to it that function annotations are used, always.", "function", "annotation", ""),
        ("Ana: Always use function annotations in all our classes.", "function", "annotation", ""),
        ("Ana: When naming methods, end the variable name with '_kk'.", "method", "end", "_kk"),
        ("Ana: When you write methods, remember to include try statements.", "method", "try", ""),
        ("Ana: Assert statements must be in every function.", "function", "assert", ""),
        ("Ana: I cannot stress the importance of commenting our code enough.", "code", "comment", ""),
        ("Ana: Add the '@clocked' decorator from the 'ticker' module to all classes.", "class", "decorator", "clocked"),
        ("Ana: For every function, use the @clocked decorator.", "function", "decorator", "clocked"),
        ("Ana: It is about importing the 'colorsys' module, used or not.", "code", "import", "colorsys"),
        ("Ana: Get into the habit of importing one module, 'wave', wherever you are.", "code", "import", "wave"),
        ("Ana: I'd like all class names in snake_case.", "class", "case", "snake"),
        ("Ana: Say 'ra_' as the prefix of function names instead of 'su_'.", "function", "start", "ra_"),
    ],
)
def test_a_guideline_is_found_in_many_wordings(said: str, things: str, form: str, value: str) -> None:
    found = standing_guidelines(said)
    for thing in things.split():
        same = [one for one in found if (one.thing, one.form) == (Thing(thing), Form(form))]
        assert [one.value for one in same] == [value]


@pytest.mark.parametrize(
    "said",
    [
        "Ana: Would 'ra_' as a prefix for function names have been better?",
        "Ana: So a function could be called 'ra_total' or 'total_su'.",
        "Ana: Annotations tell others what a function takes.",
        "Ana: Comments in the code of others can be long.",
        "Ana: Always import the 'class' module, and put '@None' decorators on functions.",
        "Ana: The survey has room for comments, so please use it.",
        "Ana: We had double-digit growth in the class of small firms.",
        "Ana: Give it a try and tell me whether the method worked.",
        "Ana: Always book a room before noon, and never import luggage trolleys.",
    ],
)
def test_talk_that_asks_for_nothing_is_no_guideline(said: str) -> None:
    assert standing_guidelines(said) == ()


def test_the_newest_holds_by_the_numbers_of_the_passages_and_stands_last() -> None:
    old = "[messages 2-3]\nUSER: Ana: End all variable names with '_ra'.\nASSISTANT: Bo: I will."
    new = "- [messages 40-41] USER: Ana: From now on, variable names end with '_su'."
    digit = "[messages 12-13]\nUSER: Ana: Always include a single digit in variable names.\nASSISTANT: Bo: Noted."
    expected = (Guideline(Thing.VARIABLE, Form.DIGIT), Guideline(Thing.VARIABLE, Form.END, "_su"))
    assert standing_guidelines("\n\n".join([new, old, digit])) == expected
    assert standing_guidelines("\n\n".join([old, digit, new])) == expected


def test_code_annotated_with_comments_has_comments_and_no_annotations() -> None:
    found = standing_guidelines("Ana: Always annotate the code of your functions with comments.")
    assert found == (Guideline(Thing.CODE, Form.COMMENT),)


def test_decorators_and_imports_add_up() -> None:
    found = standing_guidelines(
        "Add the '@clocked' decorator from the 'ticker' module to all methods.\nAlways import the 'wave' module.\n"
        "Add the '@logged' decorator from the same module to all methods.\nAlways import the 'colorsys' module."
    )
    assert [one.value for one in found] == ["clocked", "wave", "logged", "colorsys"]
    assert [one.module for one in found] == ["ticker", "", "ticker", ""]


def test_every_name_of_a_kind_follows() -> None:
    tree = _written(
        FUNCTION,
        "always start function names with 'ra_'",
        "always end function argument names with '_su'",
        "always include the string 'kwo' in variable names",
        "always include try statements in functions",
        "always start variable names with 'v_'",
    )
    (function,) = _callables(tree)
    assert function.name == "ra_merge_ranked_menus"
    assert len(function.args.args) == 2 and all(one.arg.endswith("_su") for one in function.args.args)
    names = _variables(tree)
    assert len(set(names)) == 3 and all(name.startswith("v_") and "kwo" in name for name in names)
    assert [
        handler.name[:2] for handler in ast.walk(tree) if isinstance(handler, ast.ExceptHandler) and handler.name
    ] == ["v_"]


def test_a_class_has_the_methods_that_are_asked_for_and_what_they_need() -> None:
    tree = _written(
        CLASS,
        "always add the '@clocked' decorator from the 'ticker' module to all methods",
        "always add the '@known' decorator from the 'ticker' module to all classes",
        "always add the '@other' decorator from the 'ticker' module to all functions",
        "always use docstrings in methods",
        "always include assert statements in methods",
        "always include try statements in methods",
        "always use annotations for methods",
        "always end attribute names with '_qu'",
        "always import the 'wave' module even if it is not used",
    )
    methods = _callables(tree)
    assert [method.name for method in methods] == ["load", "unload_parcels"]
    assert _class(tree).name == "ParcelDepot"
    assert [ast.unparse(one) for one in _class(tree).decorator_list] == ["known"]
    for method in methods:
        assert [ast.unparse(one) for one in method.decorator_list] == ["clocked"]
        assert ast.get_docstring(method) and method.returns is not None
        assert all(one.annotation for one in method.args.args[1:])
        assert {ast.Assert, ast.Try} <= {type(line) for line in method.body}
    assert all(name.endswith("_qu") for name in _attributes(tree))
    start = _class(tree).body[0]
    assert isinstance(start, ast.FunctionDef) and start.name == "__init__" and not start.decorator_list
    assert sum(isinstance(line, ast.Assign) for line in start.body) == 2
    assert ast.unparse(tree).splitlines()[:2] == ["import wave", "from ticker import known, clocked"]


@pytest.mark.parametrize(
    ("query", "methods"),
    [
        ("Ferry class with methods to board and count guests", ["board", "count_guests"]),
        ("Ferry class with a method that finds the cheapest crossing", ["find_cheapest_crossing"]),
        ("Ferry class with a sail and a dock method", ["sail", "dock"]),
        ("Ferry class", ["update", "describe"]),
    ],
)
def test_methods_are_read_from_the_query(query: str, methods: list[str]) -> None:
    assert [method.name for method in _callables(_written(query))] == methods


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("function that, given a paper map, folds both creases", "fold_both_creases"),
        ("function to find the oldest of three ferries", "find_oldest_ferries"),
        ("", "process_values"),
    ],
)
def test_a_function_is_named_by_what_it_does(query: str, name: str) -> None:
    assert [function.name for function in _callables(_written(query))] == [name]


def test_where_two_guidelines_cannot_both_hold_the_newer_does() -> None:
    digit, suffix = "always include a single digit in function names", "always end function names with '_su'"
    (first,), (second,) = (_callables(_written(FUNCTION, *said)) for said in ((digit, suffix), (suffix, digit)))
    assert first.name.endswith("_su") and any(letter.isdigit() for letter in first.name)
    assert second.name[-1].isdigit() and "_su" in second.name


def test_comments_are_written_when_asked_for_and_only_then() -> None:
    asked = REPLIES["memorycode_instruction"]({"guideline": "always add comments in your code", "query": FUNCTION})
    assert "# " in asked
    assert "# " not in REPLIES["memorycode_alone"]({"query": FUNCTION})


def test_without_a_dialogue_the_code_follows_nothing() -> None:
    plain = REPLIES["memorycode_alone"]({"query": CLASS})
    assert plain == write_code(CLASS, ()) == REPLIES["memorycode_history"]({"sessions": "Ana: Hello.", "query": CLASS})
    assert not any(
        isinstance(node, ast.Try | ast.Assert | ast.Import | ast.ImportFrom) for node in ast.walk(_tree(plain))
    )


@pytest.mark.parametrize(
    ("prompt", "variable"),
    [
        ("memorycode_instruction", "guideline"),
        ("memorycode_session", "session"),
        ("memorycode_history", "sessions"),
        ("memorycode_chain", "guidelines"),
        ("memorycode_recalled", "context"),
    ],
)
def test_every_prompt_reads_its_own_variable(prompt: str, variable: str) -> None:
    reply = REPLIES[prompt]({variable: "Ana: End all function names with '_su'.", "query": FUNCTION})
    assert _callables(_tree(reply))[0].name.endswith("_su")


_PIECES = re.findall(
    r"\S+",
    "always start end include names with '_x' 'x_' 'import' '@def' @None decorator from the 'class' module function "
    "method class attribute variable argument names to all . , and import 'os.path' 'a..b' single digit prefix 'im' "
    "suffix 'port' string '9' docstrings try statements assert annotations in comments your code UPPERCASE snake_case "
    "camelCase [messages 3-4] ? instead of ``` '''",
)
_ASKED = re.findall(r"\S+", 'function class import def None true with methods to and given , that """ \\ lists x')
_TEXTS = st.text() | st.lists(st.sampled_from([*_PIECES, "\n"]), max_size=40).map(" ".join)
_QUERIES = st.text(max_size=600) | st.lists(st.sampled_from(_ASKED), max_size=12).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(text=_TEXTS, query=_QUERIES)
@example(text="always use prefix 'im' in function names", query="function to port")
@example(text="always use snake_case for class names", query="true class")
def test_the_code_parses_whatever_is_said_and_asked(text: str, query: str) -> None:
    reply = REPLIES["memorycode_recalled"]({"context": text, "query": query})
    assert len(_tree(reply).body) > 0
    assert reply == REPLIES["memorycode_recalled"]({"context": text, "query": query})


@pytest.mark.parametrize(
    "piece", ["'x_' ", "function ", "for all the ", "import the ", "'a' ", "[messages 1-2]\n", "\n ", "_", "@a"]
)
def test_pasted_rubbish_is_read_all_the_same(piece: str) -> None:
    rubbish = piece * (200_000 // len(piece))
    found = standing_guidelines(f"{rubbish}\nAlways start method names with 'ra_'.")
    assert found[-1] == Guideline(Thing.METHOD, Form.START, "ra_")


def test_most_real_guidelines_are_found(memorycode_data: Path) -> None:
    from beam_memorycode.dialogue_files import load_dialogues

    said = found = 0
    for item in load_dialogues(memorycode_data):
        if not item.dialogue.has_texts or len(item.dialogue.sessions) > 20:
            continue
        for session in item.dialogue.sessions:
            wanted = [standing_guidelines(wording)[0] for wording in session.instructions]
            said += len(wanted)
            found += sum(one in standing_guidelines(session.text or "") for one in wanted)
    assert said > 80 and found / said > 0.9


def test_real_histories_score_near_the_ceiling_and_no_dialogue_near_nothing(memorycode_data: Path) -> None:
    from beam_memorycode.dialogue_files import load_dialogues
    from beam_memorycode.outputs import Outputs
    from beam_memorycode.rule_scoring import dialogue_scores, score_outputs

    items = [item for item in load_dialogues(memorycode_data) if item.dialogue.has_texts and item.dialogue.short]
    means = []
    for prompt in ("memorycode_history", "memorycode_alone"):
        outputs = {}
        for dialogue in (item.dialogue for item in items):
            sessions = "\n\n".join(session.text or "" for session in dialogue.sessions)
            answers = (REPLIES[prompt]({"sessions": sessions, "query": query}) for query in dialogue.queries)
            outputs[dialogue.id] = Outputs(dialogue.id, history=tuple(answers))
        scores = dialogue_scores(score_outputs(items, outputs), "history")
        means.append(sum(scores.values()) / len(scores))
    assert means[0] > 0.9 and means[1] < 0.1
