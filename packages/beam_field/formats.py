"""The formats that are read, and how a file's format is recognised by its content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from beam_field.line_readers import neutral, past
from beam_field.readers import amb, cognee, honcho, mem0, truememory
from beam_field.results import FORMAT, Read, Source
from beamlib.errors import UserError

Reader = Callable[[Sequence[Source]], list[Read]]
READERS: Mapping[str, Reader] = {
    "mem0": mem0,
    "cognee": cognee,
    "truememory": truememory,
    "amb": amb,
    "past": past,
    "honcho": honcho,
    "beam-results": neutral,
}

_MARKS: Iterable[tuple[str, frozenset[str]]] = (
    ("mem0", frozenset(("evaluations",))),
    ("truememory", frozenset(("details",))),
    ("honcho", frozenset(("detailed_results",))),
    ("amb", frozenset(("results", "memory_provider"))),
    ("beam-results", frozenset(("format",))),
    ("cognee", frozenset(("question", "metrics"))),
    ("honcho", frozenset(("question_results",))),
    ("past", frozenset(("questionId",))),
    ("past", frozenset(("id", "method"))),
    ("past", frozenset(("id", "question", "answer"))),
)


def recognised(source: Source) -> str:
    """The format of a file by the fields of its value, or of its first value; a `UserError` for none that is known."""
    first = source.value[0] if isinstance(source.value, list) and source.value else source.value
    if isinstance(first, dict):
        for name, fields in _MARKS:
            if fields <= first.keys() and (name != "beam-results" or first["format"] == FORMAT):
                return name
    raise UserError(
        f"{source.name}: it is none of the formats that are known ({', '.join(READERS)}); name one with --format, or "
        "write the results in beam-results/1 (docs/publishing-results.md)."
    )
