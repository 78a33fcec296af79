"""The settings of a run by what they are about: types, bounds and meaning. Usual values are in params/base.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

RELEASED_FLAGS: Mapping[str, str] = {
    "duplicate_per_message": "M1: RAG and working memory hold every pair once per message of its turn",
    "oldest_working_memory": "M2: working memory is the last 100 such entries, filled oldest first",
    "character_budgets": "M2: contexts are packed by characters // 3.5 under 14,000 (LIGHT) or 29,000 (RAG)",
    "plan_blind_ids": "M3: a retrieved key brings the same-numbered pairs of every plan (10M)",
    "one_vector_per_pair": "M7: all keys of a pair are embedded as one text",
    "questions_accumulate": "M9: earlier questions stay in the long-context prompt",
    "long_context_prompt": "M10: the long-context prompt asks for the answer alone, without a rule for what is absent",
    "keep_markers": "M11: plan coordinates stay in the text",
    "exact_yes": "M14: the noise filter keeps a chunk only for the bare word yes",
}
"""Behaviours of the released code that can be switched on one by one, with their number in the reference (M12, the
history an extraction sees, is the released rule in both variants)."""

RetrieverName = Literal["hybrid", "dense", "bm25", "splade"]
FaissIndex = Literal["flat", "hnsw"]
ProtocolName = Literal["paper", "released-code", "f1-weighted", "nugget-mean", "binary"]

PLAIN_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
"""A name that may name a folder."""

MOST_TOKENS: Final = 2**53
"""The largest window, which a float holds exactly."""


class Section(BaseModel):
    """Settings that belong together. They are read strictly and never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ChatSettings(Section):
    """How conversations are read before anything is done with them."""

    chat_variant: Literal["full", "truncated"] = Field(description="the whole chat, or the one cut for evaluation")
    strip_markers: bool = Field(description="take the plan coordinates (->-> 1,2) out of the text")
    errata: Literal["none", "flag", "drop", "strict", "correct"] = Field(
        description="what is done about questions known to be defective"
    )
    per_ability: int = Field(
        0, ge=0, description="questions of each ability and conversation, chosen by hash; 0 for all"
    )


class ContextSettings(Section):
    """What a reader is shown, and how its tokens are counted."""

    reader_window: int = Field(ge=2_000, le=MOST_TOKENS, description="tokens a reader with RAG or LIGHT accepts")
    full_context_window: int = Field(
        ge=0, le=MOST_TOKENS, description="tokens of a long-context reader; 0 for the backbone's own"
    )
    token_counter: Literal["auto", "regex-words", "cl100k"] = Field(description="counter of every token budget")
    variant: Literal["paper", "released", "released-2025-11", "released-2026"] = Field(
        description="LIGHT and baselines as described, or as released, by commit (docs/released.md)"
    )
    released: list[str] = Field(description="single behaviours of the released code, by name, on top of the variant")

    @field_validator("full_context_window")
    @classmethod
    def _none_or_enough(cls, value: int) -> int:
        if 0 < value < 2_000:
            raise ValueError("must be 0 for the backbone's own window, or at least 2000 tokens")
        return value

    @field_validator("released")
    @classmethod
    def _known_flags(cls, value: list[str]) -> list[str]:
        for name in value:
            if name not in RELEASED_FLAGS:
                known = ", ".join(RELEASED_FLAGS)
                raise ValueError(f"{name!r:.80} is no released behaviour; the known ones are {known}")
        return value

    @property
    def flags(self) -> frozenset[str]:
        """The released behaviours that are on."""
        return frozenset(self.released if self.variant == "paper" else RELEASED_FLAGS)


class RetrievalSettings(Section):
    """What RAG and LIGHT search by."""

    retriever: RetrieverName = Field(description="the index of RAG and LIGHT")
    retrievers: list[RetrieverName] = Field(min_length=1, description="retrievers compared in notebook 08")
    encoder: str = Field(
        description="vectors of dense and hybrid: embedded, minilm, bge-small, bge-large, embedding (a role of the "
        "models file), or a sentence-transformers model"
    )
    encoders: list[str] = Field([], description="encoders compared in notebook 14, for RAG and LIGHT; empty: none")
    splade: str = Field(description="sparse vectors of the retriever splade: a SparseEncoder by name or folder")
    faiss_index: FaissIndex = Field("flat", description="index of the retriever dense: exact, or HNSW graphs")
    faiss_indexes: list[FaissIndex] = Field([], description="indexes of dense compared in notebook 14; empty: none")
    k: int = Field(ge=1, description="retrieval budget: pairs recalled")
    budgets: list[int] = Field(min_length=1, description="retrieval budgets compared in notebook 07")

    @field_validator("budgets")
    @classmethod
    def _positive(cls, value: list[int]) -> list[int]:
        if any(k < 1 for k in value) or len(set(value)) != len(value):
            raise ValueError("budgets must be different positive integers")
        return value

    @field_validator("retrievers", "encoders", "faiss_indexes")
    @classmethod
    def _different(cls, value: list[str], info: ValidationInfo) -> list[str]:
        if len(set(value)) != len(value) or not all(re.fullmatch(PLAIN_NAME, name) for name in value):
            raise ValueError(f"{info.field_name} must be different ones, by plain names such as bge-small")
        return value


class JudgeSettings(Section):
    """How verdicts are asked for and made into scores."""

    question_in_prompt: bool = Field(description="whether the judge sees the question (the released code forgets it)")
    judge_repeats: int = Field(ge=1, le=100, description="how often every verdict is asked for, to see its spread")
    alignment: Literal["greedy", "batched"] = Field(description="event ordering: call by call as released, or one call")
    protocol: ProtocolName = Field(description="scoring protocol of the headline tables")
    seed: int = Field(ge=0, description="seed of the signs that the paired test draws")


class GenerationSettings(Section):
    """What generated conversations rest on, and nothing that is done with conversations (paper, section 2.2)."""

    generation_seed: int = Field(ge=0, description="seed that generated conversations are drawn from")
    domain: str = Field(description="domain of generated conversations; empty: drawn in the released proportions")
    title: str = Field(description="title of generated conversations; empty: drawn")
    strategy: Literal["hierarchical", "sequential"] = Field(description="how 10M derives ten seeds from one")
    reach: Literal["conversation", "batch"] = Field(description="how far back a dialogue remembers; released: batch")
    subplans: list[int] = Field(description="N of Table 6 for general, coding and math")
    bullets_per_subplan: list[int] = Field(description="M of Algorithm 1 for general, coding and math")
    batches_per_subplan: list[int] = Field(description="K of Table 6 for general, coding and math")
    questions_per_batch: list[int] = Field(description="I of Table 6 for general, coding and math")
    recent_messages: int = Field(ge=2, description="M of Algorithm 3: messages that a dialogue keeps word for word")
    reply_limit: int = Field(ge=0, description="delta 1: replies to the assistant's questions per turn")
    followup_limit: int = Field(ge=0, description="delta 2: follow-up questions per turn")
    question_output_tokens: int = Field(ge=0, description="limit of a reply with user questions; 0 for the model's own")
    authors: str = Field(description="models file whose authors write; empty for the offline author")

    @field_validator("subplans", "bullets_per_subplan", "batches_per_subplan", "questions_per_batch")
    @classmethod
    def _three_styles(cls, value: list[int]) -> list[int]:
        if len(value) != 3 or min(value) < 1:
            raise ValueError("must be three positive integers, for general, coding and math conversations")
        return value


SECTIONS: Final[Mapping[str, type[Section]]] = {
    "chat": ChatSettings,
    "context": ContextSettings,
    "retrieval": RetrievalSettings,
    "judging": JudgeSettings,
    "generation": GenerationSettings,
}
"""The sections of `beamlib.params.RunParameters`, beside those of memories (`beamlib.memory.declared`)."""
