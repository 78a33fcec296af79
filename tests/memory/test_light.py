import re
from typing import Any

import pytest

from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.llm.model import ModelError
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.protocol import RetrievedContext, passage

QUESTIONS = ["What is the sourdough starter called?", "Who delivers the flour, and when?", "What colour is the sign?"]
SETTINGS = LightSettings(k=3, working_pairs=2)


@pytest.fixture
def light(bakery: Conversation, make_model: Any) -> Light:
    memory = Light(make_model(), SETTINGS)
    memory.ingest(bakery)
    return memory


def test_recalls_three_parts_in_order(light: Light, bakery: Conversation) -> None:
    recollection = light.recall(QUESTIONS[0])
    assert list(recollection.parts) == ["episodic", "working", "scratchpad"]
    assert recollection.parts["episodic"][:2] == (0, 1)
    assert [p.message_ids for p in light.retrieved(QUESTIONS[0])] == [
        recollection.parts["episodic"][i : i + 2] for i in (0, 2, 4)
    ]
    assert recollection.parts["working"] == (28, 29, 30, 31)
    assert set(recollection.parts["scratchpad"]) == set(range(32))
    before, heading, notes = recollection.context.partition("SCRATCHPAD\n")
    assert heading and notes.count("- [messages") >= len(bakery.pairs)
    assert before.startswith(passage(bakery.pairs[0]).text)


def test_without_the_filter_every_chunk_is_kept_and_no_call_made(bakery: Conversation, make_model: Any) -> None:
    model = make_model(scratchpad_filter=lambda v: "yes" if "Gerda" in v["chunk"] else "no")
    light = Light(model, SETTINGS)
    light.ingest(bakery)
    kept = light.recall(QUESTIONS[0])
    assert 0 in kept.parts["scratchpad"] and len(kept.parts["scratchpad"]) < 32
    calls = len(model.asked)
    everything = light.variant(SETTINGS.model_copy(update={"use_filter": False})).recall(QUESTIONS[0])
    assert len(model.asked) == calls
    assert set(everything.parts["scratchpad"]) == set(range(32))
    assert everything.parts["episodic"] == kept.parts["episodic"]
    model.replies["scratchpad_filter"] = lambda v: "no"
    assert "scratchpad" not in light.recall(QUESTIONS[0]).parts


def test_the_newest_pair_is_always_in_working_memory(light: Light, bakery: Conversation) -> None:
    """Also where it was retrieved: each part reads the same whatever the other holds (Table 8)."""
    newest = bakery.pairs[-1]
    for question in [*QUESTIONS, "Where does the second shop open?"]:
        recollection = light.recall(question)
        assert recollection.parts["working"][-2:] == newest.message_ids
        retrieved = newest.message_ids[0] in recollection.parts["episodic"]
        assert recollection.context.count(passage(newest).text) == 1 + retrieved


def test_recall_changes_nothing_and_earlier_questions_do_not_leak(light: Light) -> None:
    first = [light.recall(question) for question in QUESTIONS]
    light.recall("zebra zebra zebra")
    again = [light.recall(question) for question in reversed(QUESTIONS)][::-1]
    assert again == first
    assert all("zebra" not in recollection.context for recollection in again)


def test_recall_depends_on_conversation_and_question_alone(bakery: Conversation, make_model: Any) -> None:
    """Another instance, after another conversation and other questions, recalls the same."""
    used = Light(make_model(), SETTINGS)
    used.ingest(Conversation("100K-9", "100K", bakery.seed, bakery.batches[:2]))
    used.recall("anything")
    used.ingest(bakery)
    fresh = Light(make_model(), SETTINGS)
    fresh.ingest(bakery)
    assert [used.recall(q) for q in QUESTIONS] == [fresh.recall(q) for q in QUESTIONS]


def test_prompts_hold_only_the_conversation_and_the_question(bakery: Conversation, make_model: Any) -> None:
    model = make_model()
    light = Light(model, SETTINGS)
    light.ingest(bakery)
    words = {word for pair in bakery.pairs for word in passage(pair).text.split()}
    asked = len(model.asked)
    for prompt in model.asked:
        for name, value in prompt.variables.items():
            assert name in ("history", "pair") and set(value.split()) <= words
    light.recall("the canary question")
    for prompt in model.asked[asked:]:
        assert prompt.id == "scratchpad_filter" and prompt.variables["question"] == "the canary question"


def test_variants_share_one_reading(bakery: Conversation, make_model: Any) -> None:
    model = make_model()
    light = Light(model, SETTINGS)
    light.ingest(bakery)
    asked = len(model.asked)
    assert asked == 2 * len(bakery.pairs)
    one = light.variant(SETTINGS.model_copy(update={"k": 1}))
    sparse = light.variant(SETTINGS.model_copy(update={"retriever": "bm25"}))
    assert len(model.asked) == asked
    assert len(one.recall(QUESTIONS[0]).parts["episodic"]) == 2
    assert sparse.settings.name == "light-bm25-k3-working-pairs-2"
    alone = Light(make_model(), SETTINGS.model_copy(update={"retriever": "bm25"}))
    alone.ingest(bakery)
    assert [sparse.recall(q) for q in QUESTIONS] == [alone.recall(q) for q in QUESTIONS]
    with pytest.raises(ValueError, match="scratchpad_target=15000 where scratchpad_target is 9000"):
        light.variant(SETTINGS.model_copy(update={"scratchpad_target": 9_000}))
    with pytest.raises(RuntimeError, match="call ingest first"):
        Light(make_model()).variant(SETTINGS)


def test_a_failed_call_names_its_pair_and_leaves_nothing_half_read(
    bakery: Conversation, make_model: Any, light: Light
) -> None:
    for prompt_id in ("episodic_keys", "scratchpad_notes"):
        model = make_model(**{prompt_id: lambda v: "DOWN: timed out" if "rye" in v["pair"] else "- fine"})
        broken = Light(model, SETTINGS)
        broken.ingest(Conversation("100K-9", "100K", bakery.seed, bakery.batches[:2]))
        with pytest.raises(ModelError, match=rf"^{prompt_id} for messages 14-15: DOWN: timed out"):
            broken.ingest(bakery)
        with pytest.raises(RuntimeError, match="call ingest first"):
            broken.recall(QUESTIONS[0])


def test_a_pair_refused_for_good_is_a_gap_that_is_counted(bakery: Conversation, make_model: Any, light: Light) -> None:
    """One content filter among many pairs does not cost the conversation: the pair is found by its user's words."""
    for prompt_id in ("episodic_keys", "scratchpad_notes"):
        refused = Light(
            make_model(**{prompt_id: lambda v: "FAIL: filtered" if "rye" in v["pair"] else "- fine"}), SETTINGS
        )
        refused.ingest(bakery)
        assert refused.recall(QUESTIONS[0]).gaps == 1
    assert light.recall(QUESTIONS[0]).gaps == 0


def test_a_pair_without_keys_is_found_by_its_users_words(bakery: Conversation, make_model: Any) -> None:
    light = Light(make_model(episodic_keys=lambda v: "" if "rye" in v["pair"] else "summary: a talk"), SETTINGS)
    light.ingest(bakery)
    assert light.retrieved("How long does rye bread need?")[0].user.content in light.keys[7][0]


def test_an_empty_conversation_is_recalled_as_nothing(make_conversation: Any, make_model: Any) -> None:
    light = Light(make_model(), SETTINGS)
    light.ingest(make_conversation([]))
    assert light.recall("anything") == RetrievedContext("")


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (LightSettings(), "light-hybrid-k5"),
        (LightSettings(use_scratchpad=False), "light-hybrid-k5-without-scratchpad"),
        (LightSettings(use_working=False), "light-hybrid-k5-without-working-memory"),
        (LightSettings(use_filter=False, k=10), "light-hybrid-k10-without-noise-filter"),
        (LightSettings(retriever="bm25", use_retrieval=False), "light-bm25-k5-without-retrieval"),
        (LightSettings(working_pairs=8), "light-hybrid-k5-working-pairs-8"),
    ],
)
def test_the_name_tells_the_settings(make_model: Any, settings: LightSettings, name: str) -> None:
    assert Light(make_model(), settings).settings.name == name


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"k": 0}, "k is 0"),
        ({"working_pairs": -1}, "working_pairs is -1"),
        ({"reader_window": 3_100}, "reader_window is 3100"),
        ({"episodic_share": 1.0}, "episodic_share is 1.0"),
        ({"working_share": 0.6}, "working_share is 0.6"),
        ({"scratchpad_target": 30_000}, "scratchpad_threshold is 30000"),
        ({"scratchpad_target": 5}, "scratchpad_target is 5"),
        ({"chunk_percentile": 101}, "chunk_percentile is 101"),
        ({"chunk_buffer": -1}, "chunk_buffer is -1"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError, match=f"LIGHT settings: {field}; it has to be"):
        LightSettings(**changes)


@pytest.mark.parametrize("window", [3_500, 4_096, 8_192, 12_345])
@pytest.mark.parametrize("k", [5, 20, 30])
def test_a_window_that_is_too_small_names_the_window_and_the_budget_that_fit(window: int, k: int) -> None:
    try:
        LightSettings(k=k, reader_window=window)
    except UserError as error:
        least = re.search(r"at least (\d+) for", str(error))
        most = re.search(r"--set k=(\d+) --set budgets=\[\1\]", str(error))
        assert least
        LightSettings(k=k, reader_window=int(least[1]))
        with pytest.raises(UserError):
            LightSettings(k=k, reader_window=int(least[1]) - 1)
        if most:
            LightSettings(k=int(most[1]), reader_window=window)
        with pytest.raises(UserError):
            LightSettings(k=(int(most[1]) if most else 0) + 1, reader_window=window)
    else:
        assert window >= 8_192
