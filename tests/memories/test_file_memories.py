"""MD-flat and the wiki: what they ask, keep and recall, by a scripted model and by the stand-in."""

from __future__ import annotations

import re
from typing import Any

import pytest
from scripted_model import Scripted, calls, in_turn
from told_sessions import TALKS, conversation_told, make, session_of, sessions_told

from beam_memories.evolving.evolving_memory import EvolvingMemory, EvolvingSettings, SessionRead
from beam_offline import OfflineModel
from beamlib.data.conversations import Message
from beamlib.errors import UserError
from beamlib.llm.model import Model, ModelError, Outcome, Prompt
from beamlib.memory.declared import memory_kind, named_memories
from beamlib.text import WORDS

EVOLVING_NAMES = [name for name in named_memories(outside=False) if issubclass(memory_kind(name), EvolvingMemory)]

NOTHING = '{"calls": []}'
FILTERED = ModelError("kept back", Outcome.FILTERED)
GONE = ModelError("no answer", Outcome.UNAVAILABLE)
LINES = "- [messages 0-1] 1 May: tea\n- [messages 2-3] 1 May: boats\n- [messages 4-9] 1 May: soup"


def told(name: str, model: Model | None = None, **settings: Any) -> EvolvingMemory:
    memory = make(name, model or OfflineModel(), **settings)
    memory.ingest(conversation_told())
    return memory


def lines_of(memory: EvolvingMemory, file: str) -> str:
    return memory.snapshot()[file]


# All of them


@pytest.mark.parametrize("name", EVOLVING_NAMES)
def test_each_is_a_memory_that_evolves_and_starts_afresh(name: str) -> None:
    memory = told(name)
    assert isinstance(memory, EvolvingMemory) and memory.name == name
    first = dict(memory.snapshot())
    memory.ingest(conversation_told())
    assert memory.snapshot() == first and any(first.values())
    assert told(name).snapshot() == first  # same inputs, same bytes
    memory.reset()
    assert not any(memory.snapshot().values())
    assert memory.recall("Who leads the team?").context == ""


@pytest.mark.parametrize("name", EVOLVING_NAMES)
def test_sessions_one_by_one_give_what_the_whole_conversation_gives(name: str) -> None:
    memory = make(name, OfflineModel())
    for session in sessions_told():
        memory.read_session(session)
    memory.finalise()
    assert memory.snapshot() == told(name).snapshot()
    memory.finalise()
    assert memory.snapshot() == told(name).snapshot()


@pytest.mark.parametrize("name", EVOLVING_NAMES)
def test_recalling_changes_nothing(name: str) -> None:
    memory = told(name)
    before = dict(memory.snapshot())
    answers = [memory.recall("Who is our code reviewer?") for _ in range(2)]
    assert memory.snapshot() == before and answers[0] == answers[1]
    assert "Mio Varga" in answers[0].context and {6, 7} <= set(answers[0].message_ids)


@pytest.mark.parametrize("name", EVOLVING_NAMES)
def test_a_context_keeps_within_the_window(name: str) -> None:
    talks = [(f"day {day}", *(f"My boat number {n} is {'green ' * 80}{day}." for n in range(6))) for day in range(12)]
    memory = make(name, OfflineModel(), 4_400, reserve_tokens=400)
    memory.ingest(conversation_told(talks))
    context = memory.recall("What is my boat number 3?").context
    assert context and WORDS.count(context) <= 4_000


@pytest.mark.parametrize("name", EVOLVING_NAMES)
def test_a_failure_that_may_pass_is_raised_and_one_that_will_not_is_a_gap(name: str) -> None:
    with pytest.raises(ModelError, match="messages 0-5: no answer") as raised:
        told(name, Scripted(lambda _: GONE))
    assert raised.value.transient
    with pytest.raises(ModelError, match="kept back"):  # one may be lost, not all
        told(name, Scripted(lambda _: FILTERED))
    offline = OfflineModel()

    class Once:
        name = "once"
        failed = False

        async def complete(self, prompt: Prompt) -> Any:
            if not self.failed:
                self.failed = True
                raise FILTERED
            return await offline.complete(prompt)

    assert told(name, Once()).recall("Who is our code reviewer?").gaps == 1


@pytest.mark.parametrize("name", EVOLVING_NAMES)
def test_a_session_longer_than_the_models_window_is_read_in_parts(name: str) -> None:
    asked = Scripted(lambda _: NOTHING)
    memory = make(name, asked, model_window=4_500)
    text = "green boats sail past the old harbour wall " * 60
    memory.ingest(conversation_told([("1 May", *(f"{n} {text}" for n in range(8)), f"{text * 9} at the very end")]))
    shown = [prompt.variables.get("session", prompt.variables.get("entries", "")) for prompt in asked.asked]
    assert len(shown) > 3 and all(WORDS.count(one) <= 1_500 for one in shown)
    assert "at the very end" in shown[-1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"reader_window": 5_000}, "reader_window is 5000"),
        ({"model_window": 10}, "model_window is 10"),
        ({"k": 0}, "k is 0"),
        ({"k": 5_000}, "k is 5000"),
        ({"reserve_tokens": -1}, "reserve_tokens is -1"),
        ({"rounds": 0}, "rounds is 0"),
    ],
)
def test_settings_that_cannot_be_are_one_sentence(settings: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        EvolvingSettings(**settings)


# MD-flat


def test_reading_shows_the_session_and_its_date_and_offers_four_tools() -> None:
    model = in_turn(NOTHING)
    make("md-flat", model).read_session(sessions_told()[0])
    prompt = model.asked[0]
    assert prompt.id == "file_memory_ingest" and prompt.about == "messages 0-5"
    assert prompt.variables["date"] == "2023/03/01 (Wed) 09:00"
    assert "[messages 2-3]\nUSER: [2023/03/01 (Wed) 09:00]\nWe use Tarn" in prompt.variables["session"]
    assert [tool.name for tool in prompt.tools] == ["read", "append", "replace", "delete"]


def test_recall_hands_on_the_lines_taken_and_may_only_read() -> None:
    model = in_turn(
        calls(("append", {"text": LINES})), NOTHING, calls(("delete", {"text": "tea"}), ("read", {})),
        calls(("take", {"lines": "3, 1"})), NOTHING,
    )  # fmt: skip
    memory = make("md-flat", model)
    memory.read_session(sessions_told()[0])
    found = memory.recall("Tea?")
    assert found.context == "- [messages 0-1] 1 May: tea\n- [messages 4-9] 1 May: soup"
    assert found.message_ids == (0, 1, 4, 5)  # no others exist
    assert lines_of(memory, "memory.md") == LINES + "\n"
    assert [tool.name for tool in model.asked[-1].tools] == ["read", "take"]
    assert "no tool 'delete'" in model.asked[-1].variables["done"]


def test_reading_a_session_and_recall_have_at_most_five_rounds_and_keep_one_file() -> None:
    model = in_turn(calls(("append", {"text": LINES})))  # never ends by itself
    memory = make("md-flat", model)
    memory.read_session(sessions_told()[0])
    assert len(model.asked) == 5 and list(memory.snapshot()) == ["memory.md"]
    memory.read_session(sessions_told()[1])
    assert len(model.asked) == 10
    memory.recall("Tea?")
    assert len(model.asked) == 15 and {prompt.id for prompt in model.asked[10:]} == {"file_memory_recall"}


def test_where_nothing_is_taken_the_whole_file_is_handed_on() -> None:
    model = in_turn(calls(("append", {"text": LINES})), NOTHING, calls(("take", {"lines": "99"})), NOTHING)
    memory = make("md-flat", model)
    memory.read_session(sessions_told()[0])
    assert memory.recall("Tea?").context == LINES


def test_a_failed_recall_is_raised() -> None:
    memory = make("md-flat", in_turn(calls(("append", {"text": LINES})), NOTHING, FILTERED))
    memory.read_session(sessions_told()[0])
    with pytest.raises(ModelError):
        memory.recall("Tea?")


def test_the_stand_in_appends_what_the_user_says_with_date_and_header() -> None:
    lines = lines_of(told("md-flat"), "memory.md").splitlines()
    assert lines[0] == "- [messages 0-1] 2023/03/01 (Wed) 09:00: Our team lead is Ines Okoro."
    assert any("messages 14-15" in line and "Sedge" in line for line in lines)
    assert not any("soup" in line for line in lines)  # a question tells little


# The wiki


def test_logs_cost_no_call_and_finalising_compiles_what_is_new() -> None:
    model = in_turn(calls(("append", {"file": "tea.md", "text": "# Tea\n- [messages 0-1] black"})), NOTHING)
    memory = make("wiki", model)
    memory.read_session(sessions_told()[0])
    assert not model.asked and "We use Tarn" in lines_of(memory, "log-00000.md")
    assert "Noted" not in lines_of(memory, "log-00000.md")  # the user's words alone
    memory.finalise()
    assert [prompt.id for prompt in model.asked] == ["wiki_compile"] * 2
    assert lines_of(memory, "pages-tea.md") == "# Tea\n- [messages 0-1] black\n"
    assert lines_of(memory, "index.md") == "- tea.md: Tea"
    memory.finalise()
    assert len(model.asked) == 2
    memory.read_session(sessions_told()[1])
    memory.finalise()
    assert "- tea.md: Tea" in model.asked[-1].variables["index"]
    assert "Ines Okoro" not in model.asked[-1].variables["entries"]


def test_a_failure_that_may_pass_leaves_the_entries_to_be_compiled() -> None:
    model = in_turn(GONE, calls(("append", {"file": "tea.md", "text": "# Tea"})), NOTHING)
    memory = make("wiki", model)
    memory.read_session(sessions_told()[0])
    with pytest.raises(ModelError):
        memory.finalise()
    memory.finalise()
    assert "pages-tea.md" in memory.snapshot()


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        ('{"pages": ["tea.md", "boat.md"]}', ["tea.md", "boat.md"]),
        ('["boat.md", "boat.md", "../tea.md", 7, "whale.md"]', ["boat.md"]),
        ("I would open tea.md first.", ["tea.md"]),
        ('{"pages": "boat.md"}', ["boat.md"]),
        ('{"pages": []}', []),
        ('{"pages": {"tea.md": 1}}', []),
        ("none", []),
    ],
)
def test_the_pages_that_are_chosen_are_recalled(reply: str, names: list[str]) -> None:
    written = calls(
        *(("append", {"file": f"{name}.md", "text": f"# {name}\n- [messages 2-3] x"}) for name in ("tea", "boat"))
    )
    memory = make("wiki", in_turn(written, NOTHING, reply))
    memory.read_session(sessions_told()[0])
    memory.finalise()
    found = memory.recall("Tea?")
    assert re.findall(r"^(\S+\.md)$", found.context, re.MULTILINE) == names
    assert found.message_ids == ((2, 3) if names else ())


def test_without_pages_nobody_is_asked() -> None:
    model = in_turn(NOTHING)
    assert make("wiki", model).recall("Tea?").context == "" and not model.asked


def test_the_stand_in_compiles_a_page_of_each_log_named_for_its_words() -> None:
    memory = told("wiki")
    page = lines_of(memory, "pages-switched-package-manager-sedge.md")
    assert page.startswith("# switched package manager sedge\n- [messages 14-15] 2023/03/09")
    assert "Sedge" in memory.recall("Which package managers have we used?").context


def test_an_empty_session_is_read() -> None:
    for name in EVOLVING_NAMES:
        memory = make(name, OfflineModel())
        memory.read_session(SessionRead(0, "", ()))
        memory.read_session(session_of(1, TALKS[0], 0))
        memory.read_session(SessionRead(2, "", (Message(6, "user", ""), Message(7, "assistant", ""))))
        memory.finalise()
        assert "Ines Okoro" in memory.recall("Who is the team lead?").context
