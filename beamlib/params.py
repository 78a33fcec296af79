"""One validated object per run, read from `params/<size>.yaml`.

The same flat names are the parameters of notebooks 05 to 09; `beamlib.report.notebooks.preflight` compares the two.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from beamlib.benchmark.model import Size
from beamlib.benchmark.sources import parse_size
from beamlib.benchmark.treatment import Treatment
from beamlib.errors import UserError
from beamlib.files import parse_yaml, read_text

ProtocolName = Literal["paper", "released-code", "f1-weighted", "nugget-mean", "binary"]


class RunParameters(BaseModel):
    """Everything a run depends on besides the data. Token counts are by `beamlib.text.TOKEN_COUNTER`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    size: Size = Field(description="tier of the benchmark")
    data: str = Field(description="folder of BEAM conversations; empty for the published tables alone")
    run: str = Field(description="folder that everything is written to")
    conversations: int = Field(ge=0, description="how many conversations of the tier, in order; 0 for all")
    chat_variant: Literal["full", "truncated"]
    strip_markers: bool
    errata: Literal["none", "flag", "drop"]
    reader_window: int = Field(ge=2_000, description="tokens a reader with RAG or LIGHT accepts")
    full_context_window: int = Field(ge=2_000, description="tokens a long-context reader accepts")
    retriever: Literal["embedded", "dense", "bm25"]
    k: int = Field(ge=1, description="retrieval budget: pairs recalled")
    budgets: list[int] = Field(min_length=1, description="retrieval budgets compared in notebook 07")
    working_pairs: int = Field(ge=0, description="z of the paper: newest pairs in working memory")
    scratchpad_threshold: int = Field(ge=100, description="tokens above which the scratchpad is compressed")
    scratchpad_target: int = Field(ge=50, description="tokens it is compressed to")
    own_memory: str = Field(description="a memory of one's own, as file.py:Class, beside the main table's; or empty")
    protocol: ProtocolName = Field(description="scoring protocol of the headline tables")
    resamples: int = Field(ge=100, description="bootstrap resamples over conversations")
    seed: int = Field(ge=0, description="seed of every resampling")
    workers: int = Field(ge=1, description="processes; one conversation each")

    @field_validator("size", mode="before")
    @classmethod
    def _any_spelling(cls, value: Any) -> Any:
        return parse_size(value) if isinstance(value, str) else value

    @field_validator("budgets")
    @classmethod
    def _positive(cls, value: list[int]) -> list[int]:
        if any(k < 1 for k in value) or len(set(value)) != len(value):
            raise ValueError("budgets must be different positive integers")
        return value

    @property
    def treatment(self) -> Treatment:
        """The data treatment, as the loader takes it."""
        return Treatment(self.chat_variant, self.strip_markers, self.errata)


def parse_parameters(values: Mapping[str, Any], origin: str) -> RunParameters:
    """Validate `values`; the `UserError` names `origin`, the parameter, its value and what is allowed."""
    try:
        return RunParameters.model_validate(dict(values))
    except UserError as error:
        raise UserError(f"{origin}: parameter 'size': {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "parameters"
        if first["type"] == "missing":
            raise UserError(f"{origin}: the parameter '{name}' is missing; add it.") from None
        if first["type"] == "extra_forbidden":
            known = ", ".join(RunParameters.model_fields)
            raise UserError(f"{origin}: unknown parameter '{name}'; the known ones are {known}.") from None
        raise UserError(f"{origin}: parameter '{name}' is {reprlib.repr(first['input'])}: {first['msg']}.") from None


def load_parameters(path: Path, **overrides: Any) -> RunParameters:
    """Read a YAML file of parameters; keyword arguments replace single values."""
    values = parse_yaml(read_text(path), path)
    if not isinstance(values, dict):
        raise UserError(f"{path}: a parameter file is a list of 'name: value' lines; this one holds something else.")
    found = parse_parameters(values, str(path))
    return parse_parameters({**found.model_dump(), **overrides}, "the options given") if overrides else found
