"""The rules of a dialogue, the objects in code that they look at, and whether code follows a rule.

Only scoring and generation may import this module. An answer is parsed and never run. What it may cost is bounded: code
beyond `MOST_CODE` is not parsed, and neither is code nested beyond `MOST_LEVELS` looked into. Both count as code
that does not parse, and so does everything else that Python refuses (null bytes, lone surrogates, numbers of thousands
of digits). The longest published answer has 11,719 characters.

Each kind of object yields *groups*: one per class, per plain function outside any class, per plain function inside one
(called a method; nested ones too, but none whose name begins with two underscores), per `__init__`, per assigned name.
A group holds what the kind is about: names, decorators, statements. No group at all means that the object is absent; an
empty group means that it is there and has nothing of the kind. Coroutines are no objects, but what is in them counts.

A verdict is pass, fail, or absent where the code has no object of the rule's kind. Only the **first** name of a group
is held against a pattern, as released; that matters for function arguments and attributes, where groups have several.
Patterns are matched in time linear in the name: the published forms by Python's `re` in a shape that cannot backtrack,
any other by RE2, which never does.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from io import StringIO
from tokenize import COMMENT, generate_tokens
from typing import Literal, get_args

import re2

from beamlib.errors import UserError

RuleKind = Literal[
    "class",
    "class decorator",
    "function",
    "function argument",
    "function docstring",
    "function try",
    "function assert",
    "function annotation",
    "function decorator",
    "method",
    "method docstring",
    "method try",
    "method assert",
    "method annotation",
    "method decorator",
    "attribute",
    "variable",
    "import",
    "comment",
]
"""What a rule looks at in the code."""

RULE_KINDS: tuple[RuleKind, ...] = get_args(RuleKind)

Condition = str | bool | tuple[str, bool]
"""A pattern that a name has to match; whether there has to be one (`True`) or none (`False`); or a name, and the same
of it. The published rules have no `False`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The machine check of one value of an instruction."""

    kind: RuleKind
    condition: Condition

    @property
    def as_json(self) -> list[object]:
        """`[kind, condition]`, as dialogue files hold it."""
        return [self.kind, list(self.condition) if isinstance(self.condition, tuple) else self.condition]


@dataclass(frozen=True, slots=True)
class DialogueRules:
    """The rules of a dialogue: those of each session's instructions, in order, and those that hold at its end.

    `history` has the newest value of every instruction, by first mention.
    """

    dialogue_id: int
    sessions: tuple[tuple[Rule, ...], ...]
    history: tuple[Rule, ...]


class RuleVerdict(StrEnum):
    """What a rule says of an answer."""

    PASS = "pass"
    FAIL = "fail"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class ScoringRule:
    """How code is read from an answer: by default as released; each field is a departure from that.

    `joined` joins all python fences of an answer. `loose_attributes` also takes attributes that are assigned deeper in
    `__init__`, or with an annotation. `import_from` also takes the modules of `from x import y`. `real_comments` takes
    what Python's tokenizer calls a comment; the released rule takes any `#`, also one in a string. `every_name` holds
    all names of a group against a pattern. `empty_is_absent` takes groups of arguments or attributes that are all empty
    as absent.
    """

    joined: bool = False
    loose_attributes: bool = False
    import_from: bool = False
    real_comments: bool = False
    every_name: bool = False
    empty_is_absent: bool = False


AS_RELEASED = ScoringRule()


_Matches = Callable[[str], bool]

# `^x_.*`, `.*_x$`, `.*chx.*` and `.*\d$`, with any word in the place of theirs.
_PLAIN = re.compile(r"(?:\^\w+\.\*|\.\*\w+\$|\.\*\w+\.\*|\.\*\\d\$)", re.ASCII)

_OTHER = re2.Options()
_OTHER.log_errors = False  # they are reported here

_EQUIVALENT = {
    # CamelCase: the published pattern takes exponential time on a long name with an underscore in it.
    r"^[A-Z][a-z0-9]*((\d|[a-z])[A-Z\d]*[a-z0-9]*)*$": r"[A-Z](?:[a-z\d][A-Za-z\d]*)?$",
    r"\b[A-Z][A-Z0-9_]*\b": r"\b[A-Z][A-Z0-9_]*\b",
    r"^[a-z0-9_]*$": r"^[a-z0-9_]*$",
}
"""The published patterns for the case of class names, and what is matched in their place: the same names."""


MOST_OF_A_PATTERN = 1_000
"""Characters. The published ones have up to 43; RE2 takes half a minute to read 40,000 brackets."""


@lru_cache(maxsize=4096)
def matcher(pattern: str) -> _Matches:
    """Return a function that matches a name with `pattern` from its beginning on (`re.match`), in linear time.

    A pattern that is no regular expression, or needs backtracking (a look-around, a back-reference), is a `UserError`.
    """
    if pattern in _EQUIVALENT or (len(pattern) <= MOST_OF_A_PATTERN and _PLAIN.fullmatch(pattern)):
        compiled = re.compile(_EQUIVALENT.get(pattern, pattern))
        return lambda name: compiled.match(name) is not None
    try:
        if len(pattern) > MOST_OF_A_PATTERN:
            raise re2.error(f"longer than {MOST_OF_A_PATTERN:,} characters")
        other = re2.compile(pattern, _OTHER)
    except (re2.error, UnicodeEncodeError) as error:
        problem = error.args[0] if error.args else "invalid"
        problem = problem.decode("utf-8", "replace") if isinstance(problem, bytes) else str(problem)
        raise UserError(
            f"rule: the pattern {pattern!r:.80} cannot be matched in linear time ({' '.join(problem.split())[:80]}); "
            "write it without look-around and back-references."
        ) from None
    return lambda name: other.match(name) is not None


def rule_verdict(rule: Rule, groups: Groups, reading: ScoringRule = AS_RELEASED) -> RuleVerdict:
    """Check code with these `groups` by `rule`.

    A pattern: every group that is not empty has to match, and one has to be there that is not. `True`: no group is
    empty; `False`: all are. A name: every group holds it, or with `False` none does. An import or a comment that is
    missing is never absent.
    """
    own = groups[rule.kind]
    if reading.empty_is_absent and rule.kind in ("function argument", "attribute") and not any(own):
        own = ()
    if not own:
        return RuleVerdict.ABSENT
    return RuleVerdict.PASS if _holds(rule, own, reading.every_name) else RuleVerdict.FAIL


def _holds(rule: Rule, groups: tuple[_Group, ...], every_name: bool) -> bool:
    condition = rule.condition
    if isinstance(condition, bool):
        return all(bool(group) is condition for group in groups)
    if isinstance(condition, tuple):
        return all((condition[0] in group) is condition[1] for group in groups)
    matches = matcher(condition)
    names = [name for group in groups for name in (group if every_name else group[:1])]
    return bool(names) and all(map(matches, names))


MOST_CODE = 100_000
MOST_LEVELS = 2_000
"""Levels of a syntax tree; a sum of so many terms has as many. Python gives up not far beyond, at a depth that depends
on its version and on the caller's stack, and verdicts must depend on neither."""

TOO_LONG = f"longer than {MOST_CODE:,} characters"
TOO_DEEP = "nested too deeply"

_DOTTED = re.compile(r"(?:\.[\s\\]*+\w++[\s\\]*+)++")
"""A run of `.name`. Python's parser joins the parts of a module's name one by one, so that `import a.a.a.a` of 100,000
characters takes it seconds and gigabytes."""

_FENCE = "```"
_PYTHON = "```python\n"


class Unparsable(Exception):
    """The code is not Python, or not within bounds; the message says which, in a few words."""


def extract_code(answer: str) -> str:
    """Return the code of an answer by the released rule: the first block, and only that.

    That is the first closed fence that opens with "```python" and a line feed, else what stands between the first two
    fences of any kind (a language tag then stays in the code), else the whole answer. An unclosed fence is therefore
    part of the code, which then does not parse.
    """
    for opening in (_PYTHON, _FENCE):
        start = answer.find(opening)
        end = answer.find(_FENCE, start + len(opening)) if start >= 0 else -1
        if end >= 0:
            return answer[start + len(opening) : end]
    return answer


def python_blocks(answer: str) -> list[str]:
    """Return the texts of all closed fences that open with "```python" and a line feed."""
    blocks = []
    start = answer.find(_PYTHON)
    while start >= 0 and (end := answer.find(_FENCE, start + len(_PYTHON))) >= 0:
        blocks.append(answer[start + len(_PYTHON) : end])
        start = answer.find(_PYTHON, end + len(_FENCE))
    return blocks


def parse(code: str) -> ast.Module:
    """Parse `code`; raise `Unparsable` where it is no code within bounds."""
    if len(code) > MOST_CODE:
        raise Unparsable(TOO_LONG)
    if code.count(".") > MOST_LEVELS and any(run[0].count(".") > MOST_LEVELS for run in _DOTTED.finditer(code)):
        raise Unparsable(TOO_DEEP)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of doubtful escapes; with -W error they would become syntax errors
            tree = ast.parse(code)
    except SyntaxError as error:
        raise Unparsable(f"syntax error: {str(error.msg)[:80]}") from None
    except (RecursionError, MemoryError):  # the parser's own bounds on nesting, whatever they are in this Python
        raise Unparsable(TOO_DEEP) from None
    except ValueError as error:
        raise Unparsable(f"not text for a parser: {str(error)[:80]}") from None
    if len(code) > MOST_LEVELS and _too_deep(tree):  # shorter code cannot have so many levels
        raise Unparsable(TOO_DEEP)
    return tree


def _too_deep(tree: ast.AST) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(MOST_LEVELS):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


_Group = tuple[str, ...]
Groups = Mapping[RuleKind, tuple[_Group, ...]]

_BLOCKS = ("finalbody", "orelse", "handlers", "cases", "body")
_COMPOUND = (
    ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With,
    ast.AsyncWith, ast.Try, ast.TryStar, ast.ExceptHandler, ast.Match, ast.match_case,
)  # fmt: skip
"""What statements can stand in."""

_FUNCTION_KINDS: tuple[RuleKind, ...] = (
    "function docstring", "function try", "function assert", "function annotation", "function decorator",
)  # fmt: skip
_METHOD_KINDS: tuple[RuleKind, ...] = (
    "method docstring", "method try", "method assert", "method annotation", "method decorator",
)  # fmt: skip


def objects(tree: ast.Module, code: str, reading: ScoringRule = AS_RELEASED) -> Groups:
    """Return the groups of every kind in `code`, whose syntax tree is `tree`."""
    groups: dict[RuleKind, list[_Group]] = {kind: [] for kind in RULE_KINDS}
    modules: list[str] = []
    for node, in_class in _statements(tree):
        if isinstance(node, ast.ClassDef):
            groups["class"].append((node.name,))
            groups["class decorator"].append(_decorators(node))
        elif isinstance(node, ast.FunctionDef):
            _add_function(groups, node, in_class, reading.loose_attributes)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            groups["variable"] += [(name,) for name in _assigned(node)]
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and reading.import_from and node.module and not node.level:
            modules.append(node.module)
    groups["import"] = [tuple(modules)]
    commented = _has_comment(code) if reading.real_comments else "#" in code
    groups["comment"] = [("#",) if commented else ()]
    return {kind: tuple(own) for kind, own in groups.items()}


def _has_comment(code: str) -> bool:
    """Return whether the tokenizer finds a comment in code that parses."""
    return "#" in code and any(token.type == COMMENT for token in generate_tokens(StringIO(code).readline))


def _statements(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Yield every statement in order, and whether it is in a class (or in a function of a class); without recursion.

    Expressions are not entered: none of the objects can stand in one.
    """
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, in_class = waiting.pop()
        yield node, in_class
        if not isinstance(node, _COMPOUND):
            continue
        inside = in_class or isinstance(node, ast.ClassDef)
        for block in _BLOCKS:  # the last first: what is added last is looked at next
            waiting += [(child, inside) for child in reversed(getattr(node, block, ()))]


def _add_function(
    all_groups: dict[RuleKind, list[_Group]], node: ast.FunctionDef, in_class: bool, loose_attributes: bool
) -> None:
    if in_class and node.name == "__init__":
        all_groups["attribute"].append(tuple(_attributes(node, loose_attributes)))
    if in_class and node.name.startswith("__"):
        return
    all_groups["method" if in_class else "function"].append((node.name,))
    if not in_class:
        all_groups["function argument"].append(tuple(argument.arg for argument in node.args.args))
    groups = (
        ("docstring",) if _documented(node) else (),
        ("try",) * sum(isinstance(part, ast.Try) for part in node.body),
        ("assert",) * sum(isinstance(part, ast.Assert) for part in node.body),
        ("annotation",) * (sum(bool(argument.annotation) for argument in node.args.args) + bool(node.returns)),
        _decorators(node),
    )
    for kind, group in zip(_METHOD_KINDS if in_class else _FUNCTION_KINDS, groups, strict=True):
        all_groups[kind].append(group)


def _documented(node: ast.FunctionDef) -> bool:
    """Return whether a function has a docstring that is not empty: white space is, as `ast.get_docstring` cleans it.

    What it takes for white space, and it alone, differs between Python versions; verdicts must not.
    """
    first, *more = (ast.get_docstring(node, clean=False) or "").split("\n")
    return bool(first.strip()) or any(more)


def _decorators(node: ast.FunctionDef | ast.ClassDef) -> _Group:
    """Return the last part of each decorator's name: `@a.b(c)` gives `b`; a decorator without a name is left out."""
    names = []
    for decorator in node.decorator_list:
        named: ast.expr = decorator
        while isinstance(named, ast.Call):
            named = named.func
        if isinstance(named, ast.Name):
            names.append(named.id)
        elif isinstance(named, ast.Attribute):
            names.append(named.attr)
    return tuple(names)


def _attributes(node: ast.FunctionDef, loose: bool) -> Iterator[str]:
    """Yield the names that an `__init__` assigns on `self`: by plain assignments right in its body, unless `loose`."""
    statements: list[ast.AST] = list(node.body)
    if loose:
        statements = [part for part in ast.walk(node) if isinstance(part, ast.Assign | ast.AnnAssign)]
        statements.sort(key=lambda part: (getattr(part, "lineno", 0), getattr(part, "col_offset", 0)))
    for statement in statements:
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif loose and isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                yield target.attr


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    """Yield the plain names that an assignment binds, also as elements of a tuple on its left; none of a list."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        elements = target.elts if isinstance(target, ast.Tuple) else [target]
        for element in elements:
            if isinstance(element, ast.Name):
                yield element.id
