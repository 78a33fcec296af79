"""Tools of a prompt on both routes, against a real server: as OpenAI's tools, and in the words of the prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beamlib.llm.call_store import CallStore
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Prompt, run
from beamlib.llm.stored_model import StoredModel, call_key
from beamlib.llm.tools import ToolDefinition, describe_tools, tool_calls_json
from scripted_server import Answer, ScriptedServer, completion

APPEND = ToolDefinition("append", "Adds a line.", (("text", "the line"),))
LIST = ToolDefinition("list", "Names the files.")
PLAIN = Prompt("answer", {"question": "What?", "context": "Ada likes tea."})
OFFERED = Prompt("answer", PLAIN.variables, tools=(APPEND, LIST))
CALLS = '{"calls": [{"arguments": "{\\"text\\": \\"tea\\"}", "tool": "append"}]}'


def model(address: str, *, tool_calls: bool) -> EndpointModel:
    return EndpointModel("memory", Endpoint(model="m", base_url=address, context_window=9_000, tool_calls=tool_calls))


def message(body: dict[str, Any], content: str | None, *functions: Any) -> Answer:
    reply = completion(body, content, "tool_calls")
    reply["choices"][0]["message"]["tool_calls"] = [
        {"id": "c", "type": "function", "function": function} for function in functions
    ]
    return Answer(reply)


def test_an_endpoint_with_tool_calls_is_sent_tools_and_its_calls_come_back_as_json() -> None:
    function = {"name": "append", "arguments": '{"text": "tea"}'}
    with ScriptedServer(lambda body: message(body, None, function)) as server:
        asked = model(server.base_url, tool_calls=True)
        assert run(asked.complete(OFFERED)).text == CALLS
        sent = server.requests[0].body
    assert sent == asked.request(OFFERED)
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["append", "list"]
    assert sent["tools"][0]["function"]["parameters"] == {
        "type": "object", "properties": {"text": {"type": "string", "description": "the line"}}, "required": ["text"],
    }  # fmt: skip
    assert sent["messages"] == asked.request(PLAIN)["messages"]


def test_one_without_is_told_of_them_in_words_and_its_text_comes_back_as_it_is() -> None:
    with ScriptedServer(lambda _: CALLS) as server:
        asked = model(server.base_url, tool_calls=False)
        assert run(asked.complete(OFFERED)).text == CALLS
        sent = server.requests[0].body
    assert "tools" not in sent
    text = sent["messages"][-1]["content"]
    assert text == asked.request(PLAIN)["messages"][-1]["content"] + "\n\n" + describe_tools(OFFERED.tools)
    assert "- append: Adds a line. Arguments: text: the line." in text and '{"calls": []}' in text


@pytest.mark.parametrize(
    ("content", "functions", "expected"),
    [
        (None, (), '{"calls": []}'),
        ("All is stored.", (), "All is stored."),
        ("Here goes.", ({"name": "append", "arguments": '{"text": "tea"}'},), CALLS),
        ("Here goes.", ({"name": 7}, "append", None), "Here goes."),
        (None, ({"name": "list"},), '{"calls": [{"arguments": "", "tool": "list"}]}'),
    ],
)
def test_what_a_reply_says_where_tools_were_offered(content: Any, functions: Any, expected: str) -> None:
    with ScriptedServer(lambda body: message(body, content, *functions)) as server:
        assert run(model(server.base_url, tool_calls=True).complete(OFFERED)).text == expected


def test_calls_that_nobody_offered_count_for_nothing() -> None:
    function = {"name": "append", "arguments": "{}"}
    with ScriptedServer(lambda body: message(body, "tea", function)) as server:
        assert run(model(server.base_url, tool_calls=True).complete(PLAIN)).text == "tea"


@pytest.mark.parametrize("calls", [None, 3, [], [1], [{"function": {"name": "a", "arguments": float("nan")}}]])
def test_calls_that_cannot_be_written_as_json_are_none(calls: Any) -> None:
    assert tool_calls_json({"tool_calls": calls}) is None


def test_the_request_and_the_settings_of_prompts_without_tools_are_as_before(tmp_path: Path) -> None:
    with_calls, without = (model("http://127.0.0.1:9/v1", tool_calls=on) for on in (True, False))
    assert with_calls.request(PLAIN) == without.request(PLAIN)
    assert "tools" not in with_calls.request(PLAIN)
    assert call_key(without.request(PLAIN), without.endpoint.base_url, 0) == (
        "8dccae4846a8246728ba5611f0171eeb262886788208023b096db3df4eb31335"
    )
    assert "tool_calls" not in without.endpoint.settings
    assert with_calls.endpoint.settings == {**without.endpoint.settings, "tool_calls": True}


@pytest.mark.parametrize("tool_calls", [True, False])
def test_a_call_with_tools_is_stored_and_replayed(tool_calls: bool, tmp_path: Path) -> None:
    function = {"name": "append", "arguments": '{"text": "tea"}'}
    with (
        ScriptedServer(lambda body: message(body, None, function) if "tools" in body else CALLS) as server,
        CallStore(tmp_path / "calls.sqlite") as store,
    ):
        asked = model(server.base_url, tool_calls=tool_calls)
        stored = StoredModel(asked, store, "record", role="memory", conversation="1", command="again")
        texts = [run(stored.complete(OFFERED)).text for _ in range(2)]
        other = run(stored.complete(Prompt("answer", PLAIN.variables, tools=(LIST,)))).text
        assert [json.loads(text) for text in [*texts, other]] == [json.loads(CALLS)] * 3
        assert (stored.made, stored.replayed, len(server.requests)) == (2, 1, 2)
