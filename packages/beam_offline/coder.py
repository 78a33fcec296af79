"""The stand-in's code: a small program for what is asked, written by the guidelines that it found in the prompt.

It is rules, not a language model: the program has the shape that the query asks for (a function, a class with its
methods) and does nothing clever. What it is good for is showing which guidelines reached whoever writes the code.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from beam_offline.guidelines import Form, Guideline, Thing, standing_guidelines

_QUERY_LENGTH = 400
_NAME_WORDS = 3
_WORD = re.compile(r"[A-Za-z]+")
_CLASS = re.compile(r"\bclass\b", re.IGNORECASE)
_FUNCTION = re.compile(r"\bfunction\b", re.IGNORECASE)
_WITH_METHODS = re.compile(r"\b(?:with|has|having)\b(.{1,120}?)\bmethods?\b", re.IGNORECASE | re.DOTALL)
_METHODS_THAT = re.compile(
    r"\bmethods?\b\s*(?::|called|named|to|that|which|for)\s(.{1,160})", re.IGNORECASE | re.DOTALL
)
_AND = re.compile(r",|\band\b|\bor\b", re.IGNORECASE)
_GIVEN = re.compile(r"\bgiven\b[^,]{0,120},", re.IGNORECASE)
_SKIPPED = frozenset(
    _WORD.findall(
        "a an and all another are as at by class for from function given has in into is it its method methods not of "
        "on one or returns return that the their then to two three using which whose with"
    )
)
_THIRD_PERSON = re.compile(r"(?<=sh|ch|ss)es$|(?<=[xz])es$|(?<=[a-z]{2}[^su])s$")
_LIBRARY = "decorators"
"""Where a decorator is imported from when nobody said."""


@dataclass(frozen=True, slots=True)
class _Query:
    """What is asked for: the words of the name, and for a class the words of each method's name."""

    name: tuple[str, ...]
    methods: tuple[tuple[str, ...], ...]
    is_class: bool
    summary: str


def _words(text: str, fallback: Sequence[str]) -> tuple[str, ...]:
    """Up to three words that can make a name; the first, a verb perhaps, without its "-s"."""
    found = [word for word in _WORD.findall(text.lower()) if word not in _SKIPPED][:_NAME_WORDS]
    return (_THIRD_PERSON.sub("", found[0]), *found[1:]) if found else tuple(fallback)


def _methods(text: str) -> tuple[tuple[str, ...], ...]:
    listed = _WITH_METHODS.search(text)
    described = _METHODS_THAT.search(text)
    named = listed[1] if listed and _words(listed[1], ()) else described[1] if described else ""
    found = [words for part in _AND.split(named) if (words := _words(part, ()))]
    if not found and (words := _words(text, ())):
        found = [words]
    return tuple(dict.fromkeys(found)) or (("update",), ("describe",))


def _read_query(query: str) -> _Query:
    text = query[:_QUERY_LENGTH]
    summary = " ".join(_WORD.findall(text))[:80].strip()
    found = _CLASS.search(text)
    function = _FUNCTION.search(text)
    if found and not (function and function.start() < found.start()):
        before = [word for word in _WORD.findall(text[: found.start()].lower()) if word not in _SKIPPED]
        after = text[found.end() :]
        return _Query(tuple(before[-4:]) or _words(after, ("model",)), _methods(after), True, summary)
    after = _GIVEN.sub(" ", text[function.end() :] if function else text)
    return _Query(_words(after, ("process", "values")), (), False, summary)


class _Style:
    """The guidelines, asked by what they are about."""

    def __init__(self, guidelines: Iterable[Guideline]) -> None:
        self._guidelines = tuple(guidelines)
        self.comments = any(guideline.form is Form.COMMENT for guideline in self._guidelines)

    def of(self, thing: Thing) -> list[Guideline]:
        return [guideline for guideline in self._guidelines if guideline.thing is thing]

    def wants(self, thing: Thing, form: Form) -> bool:
        return any(guideline.form is form for guideline in self.of(thing))

    def name(self, thing: Thing, words: Sequence[str]) -> str:
        """A name for a `thing` that follows all guidelines on such names as far as they agree.

        What has to be at the end is added in the order in which it was asked for, so the newest is the last.
        """
        asked = self.of(thing)
        cases = [guideline.value for guideline in asked if guideline.form is Form.CASE]
        name = _cased(words, cases[-1] if cases else "camel" if thing is Thing.CLASS else "snake")
        for guideline in asked:
            if guideline.form is Form.INCLUDE and guideline.value not in name:
                name = f"{name}_{guideline.value}" if "_" in name or name.islower() else name + guideline.value
        for guideline in asked:
            if guideline.form is Form.START:
                name = guideline.value + name
            elif guideline.form is Form.END:
                name += guideline.value
            elif guideline.form is Form.DIGIT:
                name += "1"
        return f"{name}_" if keyword.iskeyword(name) else name

    def decorators(self, *things: Thing) -> list[Guideline]:
        return [guideline for thing in things for guideline in self.of(thing) if guideline.form is Form.DECORATOR]

    def imports(self, *decorated: Thing) -> list[str]:
        """The import lines: modules that are asked for, and the decorators of what is written."""
        lines = [f"import {asked.value}" for asked in self._guidelines if asked.form is Form.IMPORT]
        modules: dict[str, dict[str, None]] = {}
        for decorator in self.decorators(*decorated):
            modules.setdefault(decorator.module or _LIBRARY, {})[decorator.value] = None
        return [*lines, *(f"from {module} import {', '.join(names)}" for module, names in modules.items())]


def _cased(words: Sequence[str], case: str) -> str:
    if case in ("camel", "pascal"):
        return "".join(word.capitalize() for word in words)
    joined = "_".join(words)
    return joined.upper() if case == "upper" else joined


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]


def _callable(
    style: _Style, thing: Thing, name: str, parameters: Mapping[str, str], body: Sequence[str], returned: str
) -> list[str]:
    """A function or method around `body`. `parameters` are names with their types; the first line is what it does."""
    summary, *rest = body
    annotated = style.wants(thing, Form.ANNOTATION)
    shown = [f"{parameter}: {kind}" if annotated else parameter for parameter, kind in parameters.items()]
    owner = ["self"] if thing is Thing.METHOD else []
    result = f" -> {returned}" if annotated else ""
    lines = [f'"""{summary}"""'] if style.wants(thing, Form.DOCSTRING) else []
    if style.wants(thing, Form.ASSERT):
        lines += [f"assert {parameter} is not None" for parameter in list(parameters)[:1]]
    if style.comments:
        rest = [f"# {summary}", *rest]
    special = name.startswith("__")  # it only assigns: nothing in it can fail, and the language calls it
    if style.wants(thing, Form.TRY) and not special:
        error = style.name(Thing.VARIABLE, ("error",))
        failed = [f"except TypeError as {error}:", f'    raise ValueError("a value of another kind") from {error}']
        rest = ["try:", *_indented(rest), *failed]
    above = [] if special else [f"@{decorator.value}" for decorator in style.decorators(thing)]
    return [*above, f"def {name}({', '.join([*owner, *shown])}){result}:", *_indented([*lines, *rest])]


def _function(style: _Style, query: _Query) -> list[str]:
    values, limit = (style.name(Thing.ARGUMENT, (word,)) for word in ("values", "limit"))
    result, position, item = (style.name(Thing.VARIABLE, (word,)) for word in ("result", "position", "item"))
    body = [
        f"{query.summary.capitalize() or 'Function'}.",
        f"{result} = []",
        f"{position} = 0",
        f"for {item} in {values}:",
        f"    {position} = {position} + 1",
        f"    if {position} <= {limit}:",
        f"        {result}.append({item})",
        f"return {result}",
    ]
    name = style.name(Thing.FUNCTION, query.name)
    return _callable(style, Thing.FUNCTION, name, {values: "list", limit: "int"}, body, "list")


def _class(style: _Style, query: _Query) -> list[str]:
    items, size = (style.name(Thing.ATTRIBUTE, (word,)) for word in ("items", "size"))
    given, count = (style.name(Thing.ARGUMENT, (word,)) for word in ("given", "count"))
    start = ["Keep what is given.", f"self.{items} = {given}", f"self.{size} = {count}"]
    parts = [_callable(style, Thing.METHOD, "__init__", {given: "list", count: "int"}, start, "None")]
    value, step = (style.name(Thing.ARGUMENT, (word,)) for word in ("value", "step"))
    known, total = (style.name(Thing.VARIABLE, (word,)) for word in ("known", "total"))
    for words in query.methods:
        body = [
            f"{' '.join(words).capitalize()}.",
            f"{known} = list(self.{items})",
            f"{total} = self.{size} + {step}",
            f"{known}.append({value})",
            f"self.{items} = {known}",
            f"self.{size} = {total}",
            f"return {known}",
        ]
        name = style.name(Thing.METHOD, words)
        parts.append(_callable(style, Thing.METHOD, name, {value: "object", step: "int"}, body, "list"))
    above = [f"@{decorator.value}" for decorator in style.decorators(Thing.CLASS)]
    inner = [line for part in parts for line in ["", *part]][1:]
    return [*above, f"class {style.name(Thing.CLASS, query.name)}:", *_indented(inner)]


def write_code(query: str, guidelines: Iterable[Guideline]) -> str:
    """Python for `query`, a noun phrase such as "function that sorts a list", in one fence. It always parses."""
    asked = _read_query(query)
    style = _Style(guidelines)
    imports = style.imports(*((Thing.CLASS, Thing.METHOD) if asked.is_class else (Thing.FUNCTION,)))
    code = _class(style, asked) if asked.is_class else _function(style, asked)
    return "\n".join(["```python", *imports, *([""] * 2 if imports else []), *code, "```"])


def code_by(variable: str) -> Callable[[Mapping[str, str]], str]:
    """The reply to a prompt that asks for code and whose `variable` says how code is to be written."""

    def reply(variables: Mapping[str, str]) -> str:
        return write_code(variables["query"], standing_guidelines(variables[variable]))

    return reply


def plain_code(variables: Mapping[str, str]) -> str:
    """Reply to `memorycode_alone`: code by no guidelines."""
    return write_code(variables["query"], ())
