"""`execution_mode="automatic"`: calls run, faults go back to the model, and the last word comes out."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from packages.compat.tests.anthropic_tools.support import (
    ANSWER,
    DONE,
    HELLO,
    MISSING_B,
    AdditionTool,
    AsyncTool,
    FailingTool,
    add,
    fails,
    turn,
)
from tests.loop.serial import Serial
from tests.support import check_history

from eagerstream.errors import APIError, StreamInterrupted, UsageError
from eagerstream.recordings import Chunk, Recording
from eagerstream_compat.anthropic_tools import BaseTool, ToolUser, _tool_user
from eagerstream_testing import http_error, text, thinking, tool_use

pytestmark = pytest.mark.anyio

NO_ROUTE = "ConnectionError: no route"


def answers(serial: Serial, request: int = -1) -> list[tuple[Any, bool]]:
    """What the last calls of a request were answered: content, and whether it is an error."""
    check_history(serial.bodies[request]["messages"])
    blocks = serial.bodies[request]["messages"][-1]["content"]
    return [(block.get("content"), block.get("is_error", False)) for block in blocks]


async def converse(
    serial: Serial, *replies: Any, tools: list[BaseTool] | None = None, **options: Any
) -> dict[str, Any]:
    async with serial.conversing(*replies) as client:
        user = ToolUser(tools if tools is not None else [AdditionTool()], client=client, **options)
        with anyio.fail_after(20):
            return await user.ause_tools(HELLO, execution_mode="automatic")


async def test_to_the_end(serial: Serial) -> None:
    """Three turns; the conversation that was given stays as it is."""
    tool = AdditionTool()
    replies = [turn(1, text("First."), add(8, 6)), turn(2, add(1, 2), add(3, 4)), DONE]
    assert await converse(serial, *replies, tools=[tool]) == ANSWER
    assert sorted(tool.used) == [(1, 2), (3, 4), (8, 6)]
    assert answers(serial) == [("3", False), ("7", False)]
    assert answers(serial, 1) == [("14", False)]
    assert HELLO == [{"role": "user", "content": "How much fruit has Sally?"}]


@pytest.mark.slow
async def test_many_turns(serial: Serial) -> None:
    """Only faults are bounded, as in anthropic-tools."""
    assert await converse(serial, *(turn(number, add(1, 2)) for number in range(51)), DONE) == ANSWER


async def test_the_request(serial: Serial) -> None:
    """Inputs are streamed, and nothing is sent that nobody asked for."""
    async with serial.conversing(DONE) as client:
        await ToolUser([AdditionTool()], 0.5, model="claude-made-1", client=client).ause_tools(
            HELLO, execution_mode="automatic"
        )
    (body,) = serial.bodies
    definition = AdditionTool().to_anthropic()
    assert body == {
        "model": "claude-made-1",
        "max_tokens": 2000,
        "messages": HELLO,
        "stream": True,
        "tools": [{**definition, "eager_input_streaming": True}],
    }


@pytest.mark.parametrize("mode", ["manual", "automatic"])
async def test_what_the_caller_asks_for(serial: Serial, mode: Any) -> None:
    """Tokens and temperature, 0 included."""
    async with serial.conversing(DONE) as client:
        user = ToolUser([], client=client)
        await user.ause_tools(HELLO, execution_mode=mode, max_tokens_to_sample=7, temperature=0)
    assert serial.bodies[0]["max_tokens"] == 7
    assert serial.bodies[0]["temperature"] == 0
    assert "tools" not in serial.bodies[0]


# --- faulty calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faulty", "told", "place"),
    [
        (tool_use("perform_addition", {"a": 9}), MISSING_B, 0),
        (tool_use("nope", {}), "No tool named <tool_name>nope</tool_name> available.", 1),
        (
            tool_use("perform_addition", {"a": 9, "b": 1, "c": 2}),
            "Invalid parameters {'c'} for <tool_name>perform_addition</tool_name>.",
            2,
        ),
        (
            tool_use("perform_addition", '{"a": nine}'),
            "The arguments of tool perform_addition are not a JSON object",
            2,
        ),
    ],
)
async def test_all_or_nothing(serial: Serial, faulty: Any, told: str, place: int) -> None:
    """One call that cannot run keeps all others of its turn from running, also those before it."""
    tool = AdditionTool()
    blocks = [add(1, 2), add(3, 4)]
    blocks.insert(place, faulty)
    assert await converse(serial, turn(1, *blocks), DONE, tools=[tool]) == ANSWER
    assert tool.used == []
    [(said, is_error)] = {*answers(serial)}
    assert (len(answers(serial)), said.startswith(told), is_error) == (3, True, True)


async def test_the_first_of_several_faults(serial: Serial) -> None:
    """In the order of the calls, although one that is not JSON is known before the others are looked at."""
    await converse(serial, turn(1, add(1, 2), tool_use("perform_addition", {"a": 9}), tool_use("nope", {})), DONE)
    assert answers(serial) == [(MISSING_B, True)] * 3


async def test_texts_are_converted(serial: Serial) -> None:
    """A tool gets what its parameters say."""
    tool = AdditionTool()
    await converse(serial, turn(1, add("1.5", 2)), DONE, tools=[tool])
    assert tool.used == [(1.5, 2)]


async def test_the_hook_forbids_a_call(serial: Serial) -> None:
    """What it says is what the model is told."""
    tool = AdditionTool()
    await converse(serial, turn(1, add(1, 2)), DONE, tools=[tool], validate=lambda name, arguments: f"No {name}.")
    assert tool.used == []
    assert answers(serial) == [("No perform_addition.", True)]


@pytest.mark.parametrize(("options", "requests"), [({}, 4), ({"max_retries": 0}, 1)])
@pytest.mark.parametrize("raises", [False, True])
async def test_no_end_of_faults(serial: Serial, options: dict[str, Any], requests: int, raises: bool) -> None:
    """Three retries are four requests, and none is none. A tool that raises counts as a fault."""
    replies = [turn(number, tool_use("fail", {})) if raises else fails(number) for number in range(9)]
    with pytest.raises(ValueError) as caught:
        await converse(serial, *replies, tools=[AdditionTool(), FailingTool()], **options)
    assert str(caught.value) == "Hit maximum number of retries attempting to use tools."
    assert len(serial.bodies) == requests


async def test_a_success_between_faults(serial: Serial) -> None:
    """Only faults in a row count."""
    replies = [fails(1), fails(2), fails(3), turn(4, add(1, 2)), fails(5), fails(6), fails(7), DONE]
    assert await converse(serial, *replies) == ANSWER


CALLS = {
    "valid": add(1, 2),
    "text": add("1", "2"),
    "missing": tool_use("perform_addition", {"a": 9}),
    "unknown": tool_use("nope", {}),
    "no JSON": tool_use("perform_addition", '{"a": nine}'),
    "raises": tool_use("fail", {}),
}


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=4), max_size=3))
def test_any_turns(serial: Serial, turns: list[list[str]]) -> None:
    """Each turn runs whole or not at all, every call has its own result, and the history can be sent."""
    tool = AdditionTool()
    replies = [turn(number, *(CALLS[kind] for kind in kinds)) for number, kinds in enumerate(turns)]
    run = partial(converse, serial, *replies, DONE, tools=[tool, FailingTool()])
    assert anyio.run(run) == ANSWER
    expected = 0
    for number, kinds in enumerate(turns):
        results = answers(serial, number + 1)
        if {"missing", "unknown", "no JSON"} & set(kinds):
            assert len(set(results)) == 1
            assert len(results) == len(kinds)
            assert results[0][1]
        else:
            assert results == [(NO_ROUTE, True) if kind == "raises" else ("3", False) for kind in kinds]
            expected += len(kinds) - kinds.count("raises")
    assert tool.used == [(1, 2)] * expected


# --- tools that raise -------------------------------------------------------------------------------------------------


async def test_what_a_tool_raises(serial: Serial) -> None:
    """The model is told, and the others keep their results."""
    replies = [turn(1, add(1, 2), tool_use("fail", {}), add(3, 4)), DONE]
    assert await converse(serial, *replies, tools=[AdditionTool(), FailingTool()]) == ANSWER
    assert answers(serial) == [("3", False), (NO_ROUTE, True), ("7", False)]


async def test_the_exception_itself(serial: Serial) -> None:
    """On request it ends the conversation, as it did."""
    with pytest.raises(ConnectionError, match="no route"):
        await converse(serial, turn(1, tool_use("fail", {})), DONE, tools=[FailingTool()], raise_tool_exceptions=True)
    assert len(serial.bodies) == 1


async def test_plain_tools_run_beside_one_another(serial: Serial) -> None:
    """In threads: each of these waits for the other. An async one runs on the caller's loop."""
    both = threading.Barrier(2, timeout=10)

    class Wait(BaseTool):
        def use_tool(self) -> str:
            both.wait()
            return "met"

    calls = [tool_use("wait", {}), tool_use("shout", {"word": "hey"}), tool_use("wait", {})]
    await converse(serial, turn(1, *calls), DONE, tools=[Wait("wait", "Wait.", []), AsyncTool()])
    assert answers(serial) == [("met", False), ("HEY", False), ("met", False)]


# --- other endings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "content", "reason"),
    [
        (turn(1, text("She has"), stop_reason="max_tokens"), "She has", "max_tokens"),
        (turn(1, text("No"), add(1, 2), stop_reason="refusal"), "", "refusal"),
    ],
)
async def test_a_reply_that_was_stopped(serial: Serial, answer: Recording, content: str, reason: str) -> None:
    """A text that was cut comes out as far as it came, and nothing of a refused reply. No tool runs."""
    tool = AdditionTool()
    message = await converse(serial, answer, tools=[tool])
    assert message == {"role": "assistant", "content": content, "stop_reason": reason}
    assert tool.used == []


async def test_a_call_that_was_cut(serial: Serial) -> None:
    """The model is told, and nothing of the turn runs."""
    tool = AdditionTool()
    cut = turn(1, add(1, 2), tool_use("perform_addition", '{"a": 3, ', closed=False), stop_reason="max_tokens")
    assert await converse(serial, cut, DONE, tools=[tool]) == ANSWER
    assert tool.used == []
    (first, is_error), (second, _) = answers(serial)
    assert first == "The arguments of tool perform_addition were cut off before they were complete."
    assert is_error
    assert "cut off" in second


def broken(whole: Recording) -> Recording:
    """A reply whose connection is lost behind its calls."""
    (chunk,) = whole.chunks
    return replace(whole, chunks=(Chunk(0.0, chunk.data[: chunk.data.index(b"event: message_delta")]),))


async def test_a_reply_that_breaks_off(serial: Serial, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent for again, twice in a row, and nothing has run twice, or too early. Then the error comes out."""
    monkeypatch.setattr(_tool_user, "_PAUSE_S", 0.0)
    tool = AdditionTool()
    first, second = turn(1, add(1, 2)), turn(2, add(3, 4))
    replies = [broken(first), broken(first), first, broken(second), broken(second), second, DONE]
    assert await converse(serial, *replies, tools=[tool]) == ANSWER
    assert tool.used == [(1, 2), (3, 4)]
    assert len(serial.bodies) == 7
    tool = AdditionTool()
    with pytest.raises(StreamInterrupted):
        await converse(serial, *[broken(turn(1, add(1, 2)))] * 3, DONE, tools=[tool])
    assert (tool.used, len(serial.bodies)) == ([], 3)


async def test_a_request_that_is_refused(serial: Serial) -> None:
    """The API's own error comes out."""
    with pytest.raises(APIError, match="no such model"):
        await converse(serial, http_error(404, "not_found_error", "no such model"))


async def test_thinking_goes_back(serial: Serial) -> None:
    """Within a conversation the history is the API's own."""
    await converse(serial, turn(1, thinking("Hm."), add(1, 2)), DONE)
    assert serial.bodies[1]["messages"][1]["content"][0]["type"] == "thinking"


# --- observed ---------------------------------------------------------------------------------------------------------


async def test_messages_are_shown(serial: Serial) -> None:
    """All of them, in the old format: they continue the conversation."""
    seen: list[dict[str, Any]] = []
    await converse(serial, turn(1, text("First."), add(8, 6)), fails(2), DONE, on_message=seen.append)
    assert [message["role"] for message in seen] == [
        "tool_inputs",
        "tool_outputs",
        "tool_inputs",
        "tool_outputs",
        "assistant",
    ]
    assert seen[0]["content"] == "First."
    assert seen[0]["tool_inputs"] == [{"tool_name": "perform_addition", "tool_arguments": {"a": 8, "b": 6}}]
    assert seen[1]["tool_outputs"] == [{"tool_name": "perform_addition", "tool_result": "14"}]
    assert seen[3]["tool_error"] == MISSING_B
    assert seen[4] == ANSWER
    async with serial.conversing(DONE) as client:
        await ToolUser([], client=client).ause_tools([*HELLO, *seen, *HELLO])


async def test_what_is_changed_by_who_is_asked(serial: Serial) -> None:
    """The hook, the tool and the observer may do with their arguments what they like: the API gets its own back."""
    words: dict[str, Any] = {"name": "words", "type": "list", "description": "x"}
    used: list[Any] = []

    class Append(BaseTool):
        def use_tool(self, words: list[Any], more: list[Any]) -> list[Any]:
            used.append(([*words], [*more]))
            words.append("tool")
            more.append("tool")
            return [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    def validate(name: str, arguments: dict[str, Any]) -> None:
        arguments["words"].append("hook")
        arguments["more"].append("hook")

    def observe(message: dict[str, Any]) -> None:
        for each in message.get("tool_inputs", ()):
            each["tool_arguments"]["words"].append("observer")
        for each in message.get("tool_outputs") or ():
            each["tool_result"].clear()

    given = {"words": [["x"]]}
    replies = [turn(number, tool_use("append", given)) for number in (1, 2)]
    async with serial.conversing(*replies, DONE) as client:
        user = ToolUser(
            [Append("append", "x", [words, {**words, "name": "more", "default": []}])],
            client=client,
            validate=validate,
            on_message=observe,
        )
        await user.ause_tools(HELLO, execution_mode="automatic")
    assert used == [([["x"]], [])] * 2
    _, *turns = serial.bodies[-1]["messages"]
    assert [message["content"][0]["input"] for message in turns[::2]] == [given] * 2
    assert [len(message["content"][0]["content"]) for message in turns[1::2]] == [2, 2]
    assert user.tools[0].to_anthropic()["input_schema"]["properties"]["more"]["default"] == []


async def test_what_an_observer_raises(serial: Serial) -> None:
    """It comes out, and the conversation ends."""

    def refuse(message: dict[str, Any]) -> None:
        raise KeyError(message["role"])

    with pytest.raises(KeyError, match="tool_inputs"):
        await converse(serial, turn(1, add(8, 6)), DONE, on_message=refuse)


@pytest.mark.parametrize("mode", ["manual", "automatic"])
@pytest.mark.parametrize(("verbose", "levels"), [(0, set()), (0.5, {"INFO"}), (1, {"INFO", "DEBUG"})])
async def test_verbose(
    serial: Serial, mode: Any, verbose: float, levels: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Arguments are in the log only where that was asked for."""
    caplog.set_level("DEBUG", "eagerstream.compat.anthropic_tools")
    async with serial.conversing(turn(1, add(8, 6)), DONE) as client:
        await ToolUser([AdditionTool()], client=client).ause_tools(HELLO, verbose, mode)
    assert {record.levelname for record in caplog.records if record.name.startswith("eagerstream.compat")} == levels
    assert ("perform_addition" in caplog.text) == bool(levels)


# --- what is refused --------------------------------------------------------------------------------------------------


async def test_what_cannot_be_asked() -> None:
    """A mode that is none, in the old words, messages that are none, a wrong client, and a name of a tool that only the
    old prompts took: told before anything is sent."""
    asked: Any = ToolUser([]).ause_tools
    with pytest.raises(ValueError) as caught:
        await asked(HELLO, execution_mode="auto")
    assert str(caught.value) == "Error: execution_mode must be either 'manual' or 'automatic'. Provided Value: auto"
    with pytest.raises(ValueError, match="Messages must be a list"):
        await asked("Hello")
    with pytest.raises(UsageError, match="the client must be"):
        await ToolUser([], client=7).ause_tools(HELLO)
    tool = AdditionTool()
    tool.name = "perform addition"
    with pytest.raises(UsageError, match="a tool's name must match"):
        await ToolUser([tool], client=7).ause_tools(HELLO)


async def test_a_connection_that_is_lost_for_good(serial: Serial) -> None:
    """Told as such."""
    with pytest.raises(StreamInterrupted):
        async with serial.conversing(broken(turn(1, add(1, 2)))) as client:
            await ToolUser([AdditionTool()], client=client).ause_tools(HELLO)


async def test_cancelled_while_a_tool_runs(serial: Serial) -> None:
    """The tool is cancelled, and nothing is left."""
    ended: list[str] = []

    class Forever(BaseTool):
        async def use_tool(self) -> None:
            started.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.append("yes")

    started = anyio.Event()
    async with serial.conversing(turn(1, tool_use("forever", {})), DONE) as client, anyio.create_task_group() as tasks:
        user = ToolUser([Forever("forever", "Forever.", [])], client=client)

        async def use() -> None:
            await user.ause_tools(HELLO, execution_mode="automatic")

        tasks.start_soon(use)
        await started.wait()
        tasks.cancel_scope.cancel()
    assert ended == ["yes"]
