"""Records whose every text is an attack on the page that shows it, built from their schemas: new fields are covered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, TypeVar

import pandas as pd
from IPython.display import Markdown
from pydantic import BaseModel

from beam_claims.engine import ClaimResult, markdown
from beam_commands.cost_table import cost_table
from beam_commands.costs import Estimate, RealisedRow
from beamlib.evaluate.beam_records import Manifest
from beamlib.evaluate.records import Answer, ContextLosses
from beamlib.memory.protocol import Cuts
from beamlib.params import RunParameters
from beamlib.report.footer import footer
from beamlib.report.long_frame import published_long
from beamlib.report.table import Table, markdown_text
from beamlib.report.tables import result_table, side_by_side
from beamlib.scoring.records import Judgement

Record = TypeVar("Record", bound=BaseModel)

RUN = "document.documentElement.dataset.owned=1"
NAME = f"<img src=x onerror={RUN}>\"'><svg onload={RUN}>[a](javascript:{RUN})![b](x)`c`|$d$#e?f%41 [red]g"
"""What a file may be called. Without a slash."""
EVIL = f"{NAME}</title></style></script><script>{RUN}</script><a href=javascript:{RUN}>h</a>\\<b>_i_ **j** [k]: l"


def poisoned(kind: type[Record], **fields: Any) -> Record:
    """A record of this kind: every free text, name of an entry and member of a list is `EVIL`, but for `fields`."""
    schema = kind.model_json_schema()
    return kind.model_validate_json(json.dumps({**_made(schema, schema.get("$defs", {})), **fields}))


def _made(schema: dict[str, Any], known: dict[str, Any]) -> Any:
    if "$ref" in schema:
        return _made(known[schema["$ref"].rpartition("/")[2]], known)
    if "anyOf" in schema:
        return _made(max(schema["anyOf"], key=lambda one: one.get("type") != "null"), known)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    match schema.get("type"):
        case "string":
            return _written(schema.get("pattern", ""))
        case "object" if "properties" in schema:
            return {name: _made(one, known) for name, one in schema["properties"].items()}
        case "object" if "patternProperties" in schema:
            return {_written(one): _made(inner, known) for one, inner in schema["patternProperties"].items()}
        case "object":
            inner = schema.get("additionalProperties")
            return {EVIL: _made(inner, known) if isinstance(inner, dict) else EVIL}
        case "array":
            return [_made(schema.get("items", {}), known)]
        case "integer" | "number":
            return schema.get("minimum", 1) or 1
        case "boolean":
            return False
    return EVIL


def _written(pattern: str) -> str:
    """`EVIL`, or the next worse that `pattern` lets through: what is checked where it is read can do no harm later."""
    worst = (EVIL, f"{EVIL}.py:Mine", "100K-1", "Mine", "")
    return next(text for text in worst if re.search(pattern, text))


def poisoned_parameters(run: str, usual: RunParameters, **files: str) -> RunParameters:
    """Parameters whose every free text is `EVIL`; `run` is where a notebook writes, `files` are read as it begins."""
    properties = RunParameters.model_json_schema()["properties"]
    free = {name: one for name, one in properties.items() if one.get("type") == "string" and "enum" not in one}
    texts = {name: _written(one.get("pattern", "")) for name, one in free.items()}
    texts["own_memory"] = f"{EVIL}.py:Mine"  # a validator checks it, not a pattern
    return usual.model_copy(update={**texts, **files, "run": run, "size": "100K", "calls": "replay"})


def poisoned_manifest(usual: RunParameters) -> Manifest:
    """A manifest of poisoned texts, numbers where footers count."""
    numbers = {name: value for name, value in usual.flat().items() if not isinstance(value, str | list)}
    texts = {name: EVIL for name, value in usual.flat().items() if isinstance(value, str)}
    arm = {"memory": "rag", "retriever": EVIL, "k": 5, "target": EVIL}
    return poisoned(Manifest, settings={**numbers, **texts, "arm": arm, "released": [EVIL], "judge_repeats": 2})


def shown(usual: RunParameters) -> Iterator[Any]:
    """Everything that a notebook displays, of poisoned records."""
    manifest = poisoned_manifest(usual).model_dump(mode="json")
    below = footer(
        [manifest],
        protocol="paper",
        n_questions=1,
        unscored=1,
        interval=EVIL,
        reasons={EVIL: 1},
        losses={EVIL: ContextLosses(1, 1, Cuts(1, 2, 3, 4))},
    )
    frame = published_long("table8").assign(series=lambda rows: rows["series"] + EVIL)
    table = result_table(frame, EVIL, below, [manifest, {**manifest, "judge": "b", "reader": "c"}], allow_mixed=True)
    yield table
    yield Markdown(table.to_markdown())
    yield Markdown(markdown_text(side_by_side(table, table)))
    for other in (poisoned_costs(), poisoned_blocks()):
        yield other
        yield Markdown(other.to_markdown())
    yield Markdown(markdown([poisoned(ClaimResult, cells=None)]))
    records = [poisoned(Answer, unscored=None), poisoned(Judgement, alignments=[]), manifest]
    for record in records:
        values = record if isinstance(record, dict) else record.model_dump(mode="json")
        yield pd.DataFrame([{EVIL: str(value), "field": name} for name, value in values.items()])


def poisoned_costs() -> Table:
    return cost_table(poisoned(Estimate), [poisoned(RealisedRow)])


def poisoned_blocks() -> Table:
    return Table(EVIL, pd.DataFrame([(EVIL, EVIL)], columns=[EVIL, EVIL]), (EVIL,))


class Scripts(HTMLParser):
    """What a page would run or load: elements, attributes and links that none of ours has."""

    _ELEMENTS = ("script", "svg", "iframe", "object", "embed", "form", "base", "link", "math", "template", "noscript")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self._ELEMENTS:
            self.found.append(f"<{tag}> {self.getpos()}")
        for name, value in attrs:
            address = (value or "").strip().casefold()
            own = address.startswith("data:image/png;base64,")
            linked = name in ("href", "src", "action", "formaction", "srcdoc", "xlink:href", "data")
            if name.startswith("on") or (linked and ":" in re.split("[/#]", address)[0] and not own):
                self.found.append(f"<{tag} {name}={(value or '')[:80]}> {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.text.append(data)
