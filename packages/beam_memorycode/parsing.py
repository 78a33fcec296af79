"""From a model's answer to a syntax tree. The answer is parsed and never run.

What an answer may cost is bounded: code beyond `MOST_CHARACTERS` is not parsed, and neither is code nested beyond
`MOST_LEVELS` looked into. Both count as code that does not parse, and so does everything else that Python refuses
(null bytes, lone surrogates, numbers of thousands of digits). The longest published answer has 11,719 characters.
"""

from __future__ import annotations

import ast
import re
import warnings

MOST_CHARACTERS = 100_000
MOST_LEVELS = 2_000
"""Levels of a syntax tree; a sum of so many terms has as many. Python gives up not far beyond, at a depth that depends
on its version and on the caller's stack, and verdicts must depend on neither."""

TOO_LONG = f"longer than {MOST_CHARACTERS:,} characters"
TOO_DEEP = "nested too deeply"

_DOTTED = re.compile(r"(?:\.[\s\\]*+\w++[\s\\]*+)++")
"""A run of `.name`. Python's parser joins the parts of a module's name one by one, so that `import a.a.a.a` of 100,000
characters takes it seconds and gigabytes."""

_FENCE = "```"
_PYTHON = "```python\n"


class Unparsable(Exception):
    """The code is not Python, or not within bounds; the message says which, in a few words."""


def extract_code(answer: str) -> str:
    """The code of an answer, by the released rule: the first block, and only that.

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
    """The texts of all closed fences that open with "```python" and a line feed."""
    blocks = []
    start = answer.find(_PYTHON)
    while start >= 0 and (end := answer.find(_FENCE, start + len(_PYTHON))) >= 0:
        blocks.append(answer[start + len(_PYTHON) : end])
        start = answer.find(_PYTHON, end + len(_FENCE))
    return blocks


def parse(code: str) -> ast.Module:
    """The syntax tree of `code`, or `Unparsable`."""
    if len(code) > MOST_CHARACTERS:
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
