"""Statements of docs/fidelity.md that no other test holds, each checked by running what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import faiss
import pytest

import beamlib
from beam_memories.transformer import HUB_NAMES
from beamlib.data.conversations import ABILITIES, SIZES, Conversation, Probe, Size
from beamlib.data.loading import load
from beamlib.data.sources import find_conversations
from beamlib.evaluate.answering import ask_arm, given_to
from beamlib.evaluate.arms import COMPONENTS, Arm, experiments
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import load_models
from beamlib.llm.model import Completion, ModelRoles, Prompt
from beamlib.llm.prompts import prompt_file, render
from beamlib.memory.episodic import EpisodicIndex
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.protocol import passage
from beamlib.memory.rag import Rag
from beamlib.params import RunParameters, usual_parameters
from beamlib.places import PARAMS
from beamlib.plugins import plugins
from beamlib.retrieval import embedded_encoder
from beamlib.retrieval.dense import DenseIndex
from beamlib.run import Run

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"


@pytest.fixture(scope="module")
def example() -> Conversation:
    """The conversation that comes with the package."""
    return load(find_conversations(EXAMPLE)[0]).conversation


def paper(size: Size = "100K", **changes: Any) -> RunParameters:
    """The parameters under `--preset paper`, with the models file by its full path."""
    models = str(PARAMS / "models.yaml")
    return usual_parameters(size, preset="paper", models=models, authors=models, **changes)


# --- parameters -----------------------------------------------------------------------------------------------------

DEFAULTS: Mapping[str, object] = {
    "k": 5,  # section 4.1, RAG; the base of Tables 8 to 10
    "budgets": [5, 10, 15, 20],  # Table 9
    "scratchpad_threshold": 30_000,  # section 3.2
    "scratchpad_target": 15_000,  # section 3.2
    "reply_limit": 2,  # section 2.2.3
    "followup_limit": 2,  # section 2.2.3
    "question_output_tokens": 6_000,  # section 4.1
    "output_tokens": 0,  # section 4.1: the models' own limits
    "question_in_prompt": True,  # Listing 20
    "alignment": "greedy",  # Listing 21: two snippets, yes or no
    "protocol": "paper",
    "variant": "paper",
    "released": [],
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", DEFAULTS)
def test_a_parameter_is_the_papers_by_default_and_in_the_preset(size: Size, name: str) -> None:
    assert usual_parameters(size)[name] == paper(size)[name] == DEFAULTS[name]


def light_settings(parameters: RunParameters) -> LightSettings:
    models = ModelRoles.of(plugins().model())
    return Light.settings_for(given_to(Arm(memory="light"), Run.of(parameters), models))


@pytest.mark.parametrize("size", SIZES)
def test_light_has_the_numbers_of_section_3(size: Size) -> None:
    settings = light_settings(usual_parameters(size))
    assert (settings.k, settings.scratchpad_threshold, settings.scratchpad_target) == (5, 30_000, 15_000)
    assert settings.use_retrieval and settings.use_working and settings.use_scratchpad and settings.use_filter
    assert not settings.released


def test_there_are_four_sizes_and_ten_abilities() -> None:
    assert [usual_parameters(size).size for size in SIZES] == ["100K", "500K", "1M", "10M"]
    assert len(ABILITIES) == 10


# --- prompts: which model answers, and what it sees -----------------------------------------------------------------

GPT, LLAMA, QWEN = "gpt-4.1", "Llama-3.3-70B", "Qwen2.5-32B-Instruct-AWQ"
WRITERS: Mapping[str, tuple[str, float]] = {
    "titles": (GPT, 0.0),
    "narratives_general": (LLAMA, 0.0),
    "plan_general": ("gpt-4.1-mini", 0.1),
    "plan_hierarchical": ("gpt-4.1-mini", 0.1),
    "special_bullets": (GPT, 0.1),
    "questions_general": (LLAMA, 0.1),
    "assistant_answer": (QWEN, 0.1),
    "user_reply": (QWEN, 0.1),
    "user_followup": (QWEN, 0.1),
    "detect_question": (QWEN, 0.0),
    "detect_followup": (QWEN, 0.0),
    "candidates_knowledge_update": ("gpt-4.1-mini", 0.0),
    "probe_summarization": ("gpt-4.1-mini", 0.0),
    "episodic_keys": (QWEN, 0.0),
    "scratchpad_notes": (QWEN, 0.0),
    "scratchpad_filter": (QWEN, 0.0),
    "scratchpad_compress": ("gpt-4.1-nano", 0.0),
    "judge_nugget": ("gpt-4.1-mini", 0.0),
    "align_events": ("gpt-4.1-mini", 0.0),
    "answer": (QWEN, 0.0),
}
"""Model and temperature of each prompt under `--preset paper` (sections 2, 3 and 4.1); unnamed models as released."""


@pytest.mark.parametrize("prompt_id", WRITERS)
def test_a_prompt_goes_to_the_model_that_the_paper_names(prompt_id: str) -> None:
    parameters, role = paper(), str(prompt_file(prompt_id).role)
    evaluating = Run.of(parameters).endpoints
    found = evaluating.get(role) or load_models(Path(parameters.generation.authors)).authors[role]  # type: ignore[index]
    model, temperature = WRITERS[prompt_id]
    assert (found.model.rpartition("/")[2].removesuffix("-Instruct-Turbo"), found.temperature) == (model, temperature)
    assert EndpointModel(role, found).request(_filled(prompt_id))["temperature"] == temperature


def _filled(prompt_id: str) -> Prompt:
    return Prompt(prompt_id, {name: f"«{name}»" for name in prompt_file(prompt_id).variables})


def test_the_default_asks_no_language_model_and_the_preset_asks_one_in_every_role() -> None:
    assert Run.of(usual_parameters("100K")).endpoints == {} and not usual_parameters("100K").generation.authors
    assert {"reader", "memory", "compressor", "judge", "aligner"} <= set(Run.of(paper()).endpoints)
    preset = usual_parameters("100K", preset="paper")
    assert (preset.models, preset.generation.authors) == ("params/models.yaml", "params/models.yaml")


@pytest.mark.parametrize("backbone", ["qwen2.5-32b-awq", "llama-4-maverick-fp8", "gemini-2.0-flash", "gpt-4.1-nano"])
def test_every_backbone_reads_at_temperature_0(backbone: str) -> None:
    readers = {
        name: one for name, one in Run.of(paper(backbone=backbone)).endpoints.items() if name.startswith("reader")
    }
    assert readers and {one.temperature for one in readers.values()} == {0.0}


@pytest.mark.parametrize(
    ("backbone", "least", "most"),
    [
        ("qwen2.5-32b-awq", 128_000, 131_072),
        ("gemini-2.0-flash", 1_000_000, 1_048_576),
        ("gpt-4.1-nano", 1_000_000, 1_048_576),
    ],
)
def test_the_preset_has_the_windows_of_section_4_1(backbone: str, least: int, most: int) -> None:
    parameters = Run.of(paper(backbone=backbone))
    assert least <= parameters.context.full_context_window <= most
    assert parameters.context.reader_window == 32_768


def test_the_ablations_of_the_preset_are_with_qwen() -> None:
    assert Run.of(paper()).backbone == "qwen2.5-32b-awq"


PLAN = {"topic", "profile", "timeline", "narratives", "subplans", "bullets"}
QUESTIONS = {"topic", "bullets", "earlier_groups", "earlier_batches", "count"}
TALK = {"summary", "history", "answer"}
SEEN: Mapping[str, tuple[int, set[str]]] = {
    "titles": (22, {"domain", "count", "used"}),
    "narratives_general": (23, {"topic"}),
    "plan_general": (24, PLAN | {"relationships"}),
    "plan_coding": (25, PLAN | {"relationships"}),
    "plan_math": (26, PLAN | {"relationships"}),
    "special_bullets": (27, {"plan"}),
    "seeds_sequential": (28, {"topic", "profile", "timeline", "count"}),
    "seeds_hierarchical": (29, {"topic", "profile", "timeline", "count"}),
    "plan_sequential": (30, PLAN | {"core", "newcomers", "previous_plan", "index", "introduce"}),
    "plan_hierarchical": (
        31, PLAN | {"stage", "stages", "core", "newcomers", "previous_plan", "summaries", "index", "introduce"},
    ),
    "questions_general": (32, QUESTIONS),
    "questions_coding": (33, QUESTIONS),
    "questions_math": (34, QUESTIONS),
    "detect_question": (35, TALK),
    "detect_followup": (36, TALK | {"topic"}),
    "probe_abstention": (14, {"plan", "count"}),
    "judge_nugget": (20, {"question", "answer", "nugget"}),
    "align_events": (21, {"event", "nugget"}),
    "episodic_keys": (40, {"history", "pair"}),
    "scratchpad_notes": (41, {"history", "pair"}),
    "scratchpad_compress": (42, {"notes", "target_tokens"}),
    "scratchpad_filter": (43, {"question", "chunk"}),
    "answer": (44, {"context", "question"}),
    **{f"candidates_{ability}": (number, {"plan", "count"}) for number, ability in enumerate((
        "information_extraction", "multi_session_reasoning", "knowledge_update", "temporal_reasoning",
        "preference_following", "event_ordering", "contradiction_resolution", "summarization", "instruction_following",
    ), start=1)},
    **{f"probe_{ability}": (number, {"bullets", "turns", "about"}) for ability, number in {
        "information_extraction": 10, "multi_session_reasoning": 11, "knowledge_update": 12, "temporal_reasoning": 13,
        "preference_following": 15, "event_ordering": 16, "contradiction_resolution": 17, "summarization": 18,
        "instruction_following": 19,
    }.items()},
}  # fmt: skip
"""The listing of a prompt and what it shows: all that the paper says, and nothing else."""


@pytest.mark.parametrize("prompt_id", SEEN)
def test_a_prompt_shows_what_the_paper_says_and_nothing_else(prompt_id: str) -> None:
    number, variables = SEEN[prompt_id]
    found = prompt_file(prompt_id)
    assert set(found.variables) == variables and str(found.listing).split()[0] == str(number)
    text = "\n".join(message["content"] for message in render(prompt_id, _filled(prompt_id).variables))
    assert all(f"«{name}»" in text for name in variables)


# --- methods --------------------------------------------------------------------------------------------------------


def test_a_conversation_is_utterances_of_a_user_and_an_agent_in_turn(example: Conversation) -> None:
    assert [message.role for message in example] == ["user", "assistant"] * len(example.pairs)
    assert [message.id for message in example] == sorted(message.id for message in example)


class Keys:
    """Extracts one key per pair and takes notes that hold a word which the conversation has not."""

    name = "keys"

    def __init__(self, notes: str = "- a zeppelin passed.") -> None:
        self.notes = notes

    async def complete(self, prompt: Prompt) -> Completion:
        replies = {"episodic_keys": prompt.variables.get("pair", "")[:80], "scratchpad_notes": self.notes}
        return Completion(replies.get(prompt.id, "yes"))


def test_each_pair_is_found_by_the_keys_and_the_summary_that_a_model_extracts(example: Conversation) -> None:
    class Extractor(Keys):
        asked: ClassVar[list[Mapping[str, str]]] = []

        async def complete(self, prompt: Prompt) -> Completion:
            if prompt.id != "episodic_keys":
                return await super().complete(prompt)
            self.asked.append(prompt.variables)
            return Completion(f"bird: falcon {len(self.asked)}\nSummary: talk number {len(self.asked)} on birds.")

    light = Light(Extractor(), LightSettings(retriever="dense"))
    light.ingest(example)
    assert [asked["pair"] for asked in Extractor.asked] == [passage(pair).text for pair in example.pairs]
    assert [asked["history"] != "" for asked in Extractor.asked] == [place > 0 for place in range(len(example.pairs))]
    assert light.keys == tuple(
        (f"bird: falcon {place}", f"talk number {place} on birds.") for place in range(1, len(example.pairs) + 1)
    )


def test_the_scratchpad_is_not_searched_but_shown(example: Conversation) -> None:
    found = []
    for notes in ("- a zeppelin passed.", "- a fair was held."):
        light = Light(Keys(notes), LightSettings(k=3))
        light.ingest(example)
        found.append([pair.user.id for pair in light.retrieved("Where is the zeppelin?")])
        assert (notes.removeprefix("- ") in light.recall("Where?").context) and "scratchpad" in light.recall("?").parts
    assert found[0] == found[1]


def test_dense_search_looks_at_keys_alone_and_gives_the_segments(example: Conversation) -> None:
    keys = [[f"number: {place}", f"the colour of chapter {place}"] for place in range(len(example.pairs))]
    keys[7] = ["hobby: falconry", "Summary of a talk about birds of prey"]
    index = EpisodicIndex(example, keys, "dense")
    assert index.search("falconry", 1) == index.search("birds of prey", 1) == [example.pairs[7]]
    assert len({pair.user.id for pair in index.search("falconry", 4)}) == 4  # distinct pairs, whichever key is near
    for question in ("falconry", example.pairs[3].user.content, example.pairs[9].assistant.content[:200]):
        by_keys = DenseIndex(keys, embedded_encoder()).search(question, len(keys))
        assert index.search(question, len(keys)) == [example.pairs[hit.owner] for hit in by_keys]


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_faiss_is_used_by_dense_search_alone(
    example: Conversation, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    built: list[int] = []
    plain = faiss.IndexFlatIP
    monkeypatch.setattr(faiss, "IndexFlatIP", lambda dim: built.append(dim) or plain(dim))
    parameters = paper() if preset == "paper" else usual_parameters("100K")
    rag = Rag(k=5, retriever=parameters.retrieval.retriever)  # by the shipped vectors: the model's need a download
    rag.ingest(example)
    EpisodicIndex(example, [[pair.user.content] for pair in example.pairs], parameters.retrieval.retriever)
    assert len(built) == (2 if preset == "paper" else 0)


def test_the_preset_embeds_by_bge_small() -> None:
    settings = light_settings(paper())
    assert settings.retriever == "dense" and settings.encoders.dense == "BAAI/bge-small-en-v1.5"


def test_another_encoder_changes_the_index_alone(example: Conversation) -> None:
    parameters = usual_parameters("100K", retriever="dense", encoders=["bge-small", "bge-large"])
    arms = experiments(parameters)["encoder"]
    assert [(arm.memory, arm.encoder) for arm in arms] == [
        (memory, encoder) for encoder in ("bge-small", "bge-large") for memory in ("rag", "light")
    ]
    assert {arm.name for arm in arms} == {f"{arm.memory}-dense-k5-{arm.encoder}" for arm in arms}
    plain = light_settings(parameters)
    for arm in arms[1::2]:
        own = Light.settings_for(given_to(arm, Run.of(parameters), ModelRoles.of(plugins().model())))
        assert own.of_reading == plain.of_reading
        assert own.encoders.dense == arm.encoder and plain.encoders.dense == "embedded"
    assert HUB_NAMES["bge-large"] == "BAAI/bge-large-en-v1.5"
    preset = experiments(paper(encoders=["bge-small", "bge-large"]))["encoder"]
    assert [arm.encoder for arm in preset] == [None, None, "bge-large", "bge-large"]  # bge-small is the preset's own


def test_the_indexes_of_table_12_are_those_of_faiss(example: Conversation) -> None:
    parameters = usual_parameters("100K", faiss_indexes=["flat", "hnsw"])
    flat, graph = experiments(parameters)["index"]
    assert (flat.name, graph.name) == ("light-dense-k5", "light-dense-k5-hnsw")
    light = Light(Keys(), light_settings(usual_parameters("100K", retriever="dense")))
    light.ingest(example)
    kinds = {}
    for arm in (flat, graph):
        own = light.share(given_to(arm, Run.of(parameters), ModelRoles.of(plugins().model())))
        kinds[arm.name] = type(own._reading().index._index._index)  # type: ignore[attr-defined]
    assert kinds == {flat.name: faiss.IndexFlatIP, graph.name: faiss.IndexHNSWFlat}
    assert not experiments(usual_parameters("100K"))["index"] and not experiments(paper())["encoder"]


def test_the_arms_of_each_experiment() -> None:
    for parameters in (usual_parameters("100K"), paper()):
        found = experiments(parameters)
        main = {arm.memory: arm for arm in found["main"]}
        assert {"full-context", "rag", "light"} <= set(main)
        assert main["rag"].k == main["light"].k == 5 and main["rag"].retriever == main["light"].retriever
        assert [arm.k for arm in found["budget"]] == [5, 10, 15, 20]
        assert {arm.memory for name in ("budget", "retriever", "ablation") for arm in found[name]} == {"light"}
        assert [arm.without for arm in found["ablation"]] == [None, *COMPONENTS]
    assert main["rag"].retriever == "dense" and [arm.retriever for arm in found["retriever"]] == ["dense", "splade"]


def test_rag_and_light_answer_by_listing_44(example: Conversation) -> None:
    parameters = Run.of(usual_parameters("100K"))
    probes = [Probe("q0", example.id, "Where did I go?")]
    for name, memory in (("rag", Rag(k=5)), ("light", Light(Keys(), LightSettings()))):
        memory.ingest(example)
        (asked,) = ask_arm(Arm.model_validate({"memory": name}), probes, memory, parameters, example)
        assert asked.prompt is not None and asked.prompt.id == "answer" and prompt_file("answer").listing == "44"
        shown = asked.prompt.messages[-1]["content"]
        assert asked.recollection.context in shown and "Where did I go?" in shown
