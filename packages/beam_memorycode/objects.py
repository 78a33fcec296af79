"""The objects of a piece of code that rules look at, kind by kind.

Each kind yields *groups*: one per class, per plain function outside any class, per plain function inside one (called a
method; nested ones too, but none whose name begins with two underscores), per `__init__`, per assigned name. A group
holds what the kind is about: names, decorators, statements. No group at all means that the object is absent; an empty
group means that it is there and has nothing of the kind. Coroutines are no objects, though what stands in them is seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from tokenize import COMMENT, generate_tokens

from beam_memorycode.rule_gold import KINDS, Kind

Group = tuple[str, ...]
Groups = Mapping[Kind, tuple[Group, ...]]

_BLOCKS = ("finalbody", "orelse", "handlers", "cases", "body")
_COMPOUND = (
    ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With,
    ast.AsyncWith, ast.Try, ast.TryStar, ast.ExceptHandler, ast.Match, ast.match_case,
)  # fmt: skip
"""What statements can stand in."""

_FUNCTION_KINDS: tuple[Kind, ...] = (
    "function docstring", "function try", "function assert", "function annotation", "function decorator",
)  # fmt: skip
_METHOD_KINDS: tuple[Kind, ...] = (
    "method docstring", "method try", "method assert", "method annotation", "method decorator",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Looking:
    """What counts as an object, where that differs from the released rules, which do none of this.

    `loose_attributes` also takes attributes that are assigned deeper in `__init__`, or with an annotation.
    `import_from` also takes the modules of `from x import y`. `real_comments` takes what Python's tokenizer calls a
    comment; the released rule takes any `#`, also one in a string.
    """

    loose_attributes: bool = False
    import_from: bool = False
    real_comments: bool = False


AS_RELEASED = Looking()


def objects(tree: ast.Module, code: str, looking: Looking = AS_RELEASED) -> Groups:
    """The groups of every kind in `code`, whose syntax tree is `tree`."""
    found: dict[Kind, list[Group]] = {kind: [] for kind in KINDS}
    modules: list[str] = []
    for node, in_class in _statements(tree):
        if isinstance(node, ast.ClassDef):
            found["class"].append((node.name,))
            found["class decorator"].append(_decorators(node))
        elif isinstance(node, ast.FunctionDef):
            _add_function(found, node, in_class, looking.loose_attributes)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found["variable"] += [(name,) for name in _assigned(node)]
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and looking.import_from and node.module and not node.level:
            modules.append(node.module)
    found["import"] = [tuple(modules)]
    commented = _has_comment(code) if looking.real_comments else "#" in code
    found["comment"] = [("#",) if commented else ()]
    return {kind: tuple(groups) for kind, groups in found.items()}


def _has_comment(code: str) -> bool:
    """Whether the tokenizer finds a comment in code that parses."""
    return "#" in code and any(token.type == COMMENT for token in generate_tokens(StringIO(code).readline))


def _statements(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Every statement in its order, and whether it stands in a class (or in a function of one); without recursion.

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
    found: dict[Kind, list[Group]], node: ast.FunctionDef, in_class: bool, loose_attributes: bool
) -> None:
    if in_class and node.name == "__init__":
        found["attribute"].append(tuple(_attributes(node, loose_attributes)))
    if in_class and node.name.startswith("__"):
        return
    found["method" if in_class else "function"].append((node.name,))
    if not in_class:
        found["function argument"].append(tuple(argument.arg for argument in node.args.args))
    groups = (
        ("docstring",) if _documented(node) else (),
        ("try",) * sum(isinstance(one, ast.Try) for one in node.body),
        ("assert",) * sum(isinstance(one, ast.Assert) for one in node.body),
        ("annotation",) * (sum(bool(one.annotation) for one in node.args.args) + bool(node.returns)),
        _decorators(node),
    )
    for kind, group in zip(_METHOD_KINDS if in_class else _FUNCTION_KINDS, groups, strict=True):
        found[kind].append(group)


def _documented(node: ast.FunctionDef) -> bool:
    """Whether a function has a docstring that is not empty: a line of white space is, as `ast.get_docstring` cleans it.

    What it takes for white space, and it alone, differs between Python versions; verdicts must not.
    """
    first, *more = (ast.get_docstring(node, clean=False) or "").split("\n")
    return bool(first.strip()) or any(more)


def _decorators(node: ast.FunctionDef | ast.ClassDef) -> Group:
    """The last part of each decorator's name, without the call: `@a.b(c)` gives `b`; what has no name is left out."""
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
    """Names that an `__init__` assigns on `self`: by plain assignments right in its body, unless `loose`."""
    statements: list[ast.AST] = list(node.body)
    if loose:
        statements = [one for one in ast.walk(node) if isinstance(one, ast.Assign | ast.AnnAssign)]
        statements.sort(key=lambda one: (getattr(one, "lineno", 0), getattr(one, "col_offset", 0)))
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
    """Plain names that an assignment binds, also as elements of a tuple on its left; none of a list."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        elements = target.elts if isinstance(target, ast.Tuple) else [target]
        for element in elements:
            if isinstance(element, ast.Name):
                yield element.id
