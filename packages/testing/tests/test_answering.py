"""`Scenario.scripted`: any request is answered, its tools are called, and the conversation ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from pydantic import Field
from tests.streams import REQUEST, wire_events
from tests.tables import rows

import eagerstream
from eagerstream import HTTPTransport, ItemStream, Recording, RunStatus, tool
from eagerstream_testing import ReplayServer, Scenario, Timing
from eagerstream_testing._one_piece import final_message

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LINES = {"type": "object", "properties": {"lines": {"type": "array", "items": {"type": "string"}}}}
WEATHER = {"name": "get_weather", "input_schema": CITY}
WRITE = {"name": "write", "input_schema": LINES}


def message_of(recording: Recording) -> Any:
    return final_message(wire_events(recording.body))


def conversation(**request: Any) -> list[Any]:
    """The responses to a request and to those that follow, until one has no calls."""
    scenario = Scenario.scripted()
    messages: list[Any] = [{"role": "user", "content": "Hello."}]
    said = []
    while True:
        message = message_of(scenario.answer({**request, "messages": messages}))
        said.append(message["content"])
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        if not calls:
            return said
        results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "fine"} for call in calls]
        messages += [{"role": "assistant", "content": message["content"]}, {"role": "user", "content": results}]


def calls(content: Any) -> list[tuple[str, Any]]:
    return [(block["name"], block["input"]) for block in content if block["type"] == "tool_use"]


def texts(content: Any) -> list[str]:
    return [block["text"] for block in content if block["type"] == "text"]


def test_one_tool_with_a_short_input() -> None:
    """It is called for several values at once. The last text has the results."""
    first, last = conversation(tools=[WEATHER])
    assert texts(first) == ["I will call get_weather."]
    assert calls(first) == [("get_weather", {"city": city}) for city in ("Oslo", "Vienna", "Lima")]
    assert texts(last) == ["Done." + " get_weather returned: fine." * 3]


def test_several_tools() -> None:
    """Each is called once, in one response, or one in each if calls may not be parallel."""
    assert [[name for name, _ in calls(said)] for said in conversation(tools=[WEATHER, WRITE])] == [
        ["get_weather", "write"],
        [],
    ]
    one_at_a_time = {"type": "auto", "disable_parallel_tool_use": True}
    said = conversation(tools=[WEATHER, WRITE], tool_choice=one_at_a_time)
    assert [[name for name, _ in calls(content)] for content in said] == [["get_weather"], ["write"], []]


def test_a_long_input() -> None:
    """A tool with a long input is called once."""
    first, _ = conversation(tools=[WRITE])
    ((_, input),) = calls(first)
    assert len(input["lines"]) > 10


def test_required_calls() -> None:
    """A required call comes without a text. After ten responses the conversation ends anyway."""
    said = conversation(tools=[WEATHER, WRITE], tool_choice={"type": "tool", "name": "write"})
    assert [[name for name, _ in calls(content)] for content in said] == [["write"]] * 10 + [[]]
    assert [texts(content) for content in said[:10]] == [[]] * 10
    assert calls(conversation(tools=[WEATHER], tool_choice={"type": "any"})[0])


@rows("request_body", [{}, {"tools": [WEATHER], "tool_choice": {"type": "none"}}])
def test_no_calls(request_body: Mapping[str, Any]) -> None:
    """Without tools, or if calls are forbidden, there is a text."""
    ((said,),) = conversation(**request_body)
    assert said["type"] == "text"
    assert said["text"].count("\n") > 5


def test_structured_output() -> None:
    """The text is JSON of the schema, after the calls of the tools."""
    form = {"format": {"type": "json_schema", "schema": CITY}}
    assert [json.loads(texts(said)[0]) for said in conversation(output_config=form)] == [{"city": "Oslo"}]
    *_, last = conversation(output_config=form, tools=[WEATHER])
    assert json.loads(texts(last)[0]) == {"city": "Oslo"}


def test_tools_that_cannot_be_called() -> None:
    """No invalid input is sent: without a valid one, the tool is not called."""
    never = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 5, "maximum": 4}}, "required": ["x"]}
    tools = [
        {"name": "a", "input_schema": never},
        {"name": "b", "input_schema": {"type": 3}},
        {"type": "web_search_1"},
    ]
    ((said,),) = conversation(tools=tools)
    assert said["type"] == "text"


def test_the_tools_of_the_api() -> None:
    """Tools without a schema of their own get calls that only read."""
    tools = [{"type": "bash_20250124", "name": "bash"}, {"type": "memory_20250818", "name": "memory"}]
    first, _ = conversation(tools=tools)
    assert calls(first) == [("bash", {"command": "echo Hello"}), ("memory", {"command": "view", "path": "/memories"})]


def test_examples_of_the_tool() -> None:
    """An example of the tool's own is better than a generated input."""
    first, _ = conversation(tools=[{**WEATHER, "input_examples": [{"city": "Rome"}]}])
    assert calls(first) == [("get_weather", {"city": "Rome"})]


def test_many_tools() -> None:
    """A request with a hundred tools gets a few calls."""
    first, _ = conversation(tools=[{**WEATHER, "name": f"f{number}"} for number in range(100)])
    assert len(calls(first)) == 8


def test_a_second_question() -> None:
    """After a question of the user the tools are called again, and no id is repeated."""
    scenario = Scenario.scripted()
    question = {"role": "user", "content": "Hello."}
    first = scenario.answer({"tools": [WRITE], "messages": [question]})
    history = [question, {"role": "assistant", "content": "Done."}, question]
    second = scenario.answer({"tools": [WRITE], "messages": history})
    assert calls(message_of(first)["content"]) == calls(message_of(second)["content"])
    assert first != second


def test_a_note_of_the_program() -> None:
    """It is no question: a command that reports its end so would be started again without end."""
    question = {"role": "user", "content": "Hello."}
    note = {"role": "user", "content": [{"type": "text", "text": "<system-reminder>It ended.</system-reminder>"}]}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "write", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "fine"}]}
    history = [question, call, result, {"role": "assistant", "content": "Done."}, note]
    said = message_of(Scenario.scripted().answer({"tools": [WRITE], "messages": history}))["content"]
    assert texts(said) == ["Done. write returned: fine."]
    assert calls(message_of(Scenario.scripted().answer({"tools": [WRITE], "messages": [note]}))["content"])
    mixed = {"role": "user", "content": [*note["content"], {"type": "text", "text": "Again!"}]}
    again = Scenario.scripted().answer({"tools": [WRITE], "messages": [*history[:-1], mixed]})
    assert calls(message_of(again)["content"])


def test_deferred_tools() -> None:
    """They cannot be called before a search has found them."""
    first, _ = conversation(tools=[WEATHER, {**WRITE, "defer_loading": True}])
    assert {name for name, _ in calls(first)} == {"get_weather"}


def test_seeds() -> None:
    """The same seed gives the same response, another one another."""
    request = {"tools": [WEATHER], "messages": [{"role": "user", "content": "Hello."}]}
    one, same, other = (Scenario.scripted(seed=seed).answer(request) for seed in (0, 0, 1))
    assert one == same != other
    timed = Scenario.scripted(timing=Timing(tokens_per_second=10)).answer(request)
    assert timed.body == one.body
    assert timed.duration_s > 0


@tool
async def save(name: str, lines: ItemStream[str], count: Annotated[int, Field(ge=5)]) -> list[str]:
    """Save lines."""
    return [line async for line in lines]


@pytest.mark.anyio
async def test_a_run() -> None:
    """A real run over the server: the strict double accepts every request, and the calls succeed."""
    async with (
        ReplayServer(Scenario.scripted()) as server,
        HTTPTransport(base_url=server.base_url) as api,
        eagerstream.run(api, tools=[save], **REQUEST) as run,
    ):
        await run.finish()
    assert run.result.status is RunStatus.COMPLETED
    assert run.result.calls
    assert all(call.response is not None and call.response.status == "success" for call in run.result.calls)


def test_a_tool_that_cannot_be_called() -> None:
    """If no input fits, the text says so: a developer would search long for the reason why no tool was called."""
    number = {"type": "integer", "minimum": 5, "maximum": 4}
    schema = {"type": "object", "properties": {"n": number}, "required": ["n"]}
    (only,) = conversation(tools=[{"name": "count", "input_schema": schema}])
    assert texts(only) == ["I cannot call count: no input could be made up that the schema allows."]


def test_a_schema_that_is_larger_than_the_bounds_of_this_library() -> None:
    """The API takes it, and a program's own loop does: it is called with short texts."""
    names = [f"p{number}" for number in range(500)]
    properties = {name: {"type": "string", "description": "x" * 300} for name in names}
    schema = {"type": "object", "properties": properties, "required": names}
    first, _ = conversation(tools=[{"name": "fill", "input_schema": schema}])
    ((_, input),) = calls(first)
    assert list(input) == names
