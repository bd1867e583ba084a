"""Tools that the API runs: told as they come, paired over replies, and never run or answered here."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream.calls import RunStatus
from eagerstream.recordings import Recording
from eagerstream_testing import block, error_event, reply, server_tool_use, text, tool_use
from eagerstream_wire import InputStop, ServerToolResult, ServerToolUse
from tests.loop.serial import DONE, SLOWLY_S, Listed, Serial, now
from tests.loop.server_tools import SEARCH, told
from tests.streams import REQUEST, USER

pytestmark = pytest.mark.anyio


def search(id: str) -> Any:
    return server_tool_use("web_search", {"query": f"of {id}"}, id=id)


def found(id: str, **fields: Any) -> Any:
    return block({"type": "web_search_tool_result", "tool_use_id": id, "content": [], **fields})


def mcp(id: str) -> Any:
    """A call of an MCP server, which brings its input along."""
    return block({"type": "mcp_tool_use", "id": id, "name": "read_page", "server_name": "pages", "input": {"page": 1}})


def read(id: str) -> Any:
    content = [{"type": "text", "text": "no such page"}]
    return block({"type": "mcp_tool_result", "tool_use_id": id, "is_error": True, "content": content})


REPLIES: dict[str, tuple[list[Recording], list[str]]] = {
    "in one reply": (
        [
            reply(
                search("srvtoolu_1"),
                found("srvtoolu_1"),
                mcp("m1"),
                read("m1"),
                search("srvtoolu_2"),
                found("srvtoolu_2"),
                text("So."),
            )
        ],
        [
            "use srvtoolu_1 web_search",
            "result srvtoolu_1 web_search",
            "use m1 read_page",
            "result m1 read_page",
            "use srvtoolu_2 web_search",
            "result srvtoolu_2 web_search",
            "turn 1",
        ],
    ),
    "two at once": (
        [reply(search("srvtoolu_1"), search("srvtoolu_2"), found("srvtoolu_2"), found("srvtoolu_1"))],
        [
            "use srvtoolu_1 web_search",
            "use srvtoolu_2 web_search",
            "result srvtoolu_2 web_search",
            "result srvtoolu_1 web_search",
            "turn 1",
        ],
    ),
    "over a mixed turn": (
        [
            reply(search("srvtoolu_1"), mcp("m1"), tool_use("now", {}, id="a")),
            reply(found("srvtoolu_1"), read("m1"), text("So.")),
        ],
        [
            "use srvtoolu_1 web_search",
            "use m1 read_page",
            "start a now",
            "turn 1",
            "result srvtoolu_1 web_search",
            "result m1 read_page",
            "turn 2",
        ],
    ),
    "over two mixed turns": (
        [
            reply(search("srvtoolu_1"), tool_use("now", {}, id="a")),
            reply(tool_use("now", {}, id="b")),
            reply(found("srvtoolu_1"), text("So.")),
        ],
        [
            "use srvtoolu_1 web_search",
            "start a now",
            "turn 1",
            "start b now",
            "turn 2",
            "result srvtoolu_1 web_search",
            "turn 3",
        ],
    ),
    "over a pause": (
        [reply(text("So."), search("srvtoolu_1"), stop_reason="pause_turn"), reply(found("srvtoolu_1"), text("Done."))],
        ["use srvtoolu_1 web_search", "turn 1", "result srvtoolu_1 web_search", "turn 2"],
    ),
    "over two pauses": (
        [
            reply(search("srvtoolu_1"), stop_reason="pause_turn"),
            reply(search("srvtoolu_2"), stop_reason="pause_turn"),
            reply(found("srvtoolu_2"), found("srvtoolu_1"), text("Done.")),
        ],
        [
            "use srvtoolu_1 web_search",
            "turn 1",
            "use srvtoolu_2 web_search",
            "turn 2",
            "result srvtoolu_2 web_search",
            "result srvtoolu_1 web_search",
            "turn 3",
        ],
    ),
    "a result of nothing": ([reply(found("srvtoolu_9"), text("So."))], ["result srvtoolu_9 of nothing", "turn 1"]),
}


@pytest.mark.parametrize(("replies", "expected"), REPLIES.values(), ids=REPLIES)
async def test_pairs(replies: list[Recording], expected: list[str]) -> None:
    """Each call and each result is told once, the result with its call, in whichever reply that was."""
    api = Listed(*replies)
    lines, run = await told(api.transport())
    assert lines == expected
    assert run.result.status is RunStatus.COMPLETED
    ids = {call.id for call in run.result.calls}
    assert ids <= {"a", "b"}, "only the client's calls are calls of the run"
    for request in api.bodies:
        for message in request["messages"][1:]:
            if message["role"] == "user":
                assert {item["tool_use_id"] for item in message["content"]} <= ids
                assert {item["type"] for item in message["content"]} == {"tool_result"}


async def test_a_call_of_an_earlier_run(serial: Serial) -> None:
    """A run goes on from one that was paused: the call is in the history."""
    async with serial.conversing(reply(search("srvtoolu_1"), stop_reason="pause_turn")) as client:
        _, paused = await told(client, max_continuations=0)
    assert paused.result.status is RunStatus.PAUSED
    async with serial.conversing(reply(found("srvtoolu_1"), text("Done."))) as client:
        lines, _ = await told(client, messages=paused.result)
    assert lines == ["result srvtoolu_1 web_search", "turn 1"]


async def test_a_reply_that_was_discarded(serial: Serial) -> None:
    """What came of it is void: a result that names a call of it is of nothing that is known."""
    broken = reply(search("srvtoolu_1"), error_event("overloaded_error", "Overloaded"))
    async with serial.conversing(broken, reply(found("srvtoolu_1"), text("Done."))) as client:
        lines, _ = await told(client, restart_delay_s=0.0)
    assert lines == ["use srvtoolu_1 web_search", "result srvtoolu_1 of nothing", "turn 1"]


async def test_a_single_request(serial: Serial) -> None:
    """`stream` pairs a result with a call in the messages that it was given."""
    earlier = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}}
    messages = [USER, {"role": "assistant", "content": [earlier]}]
    failed = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    async with serial.conversing(
        reply(found("srvtoolu_1", content=failed), search("srvtoolu_2"), found("srvtoolu_2"))
    ) as client:
        options = {**REQUEST, "messages": messages, "tools": [SEARCH]}
        with anyio.fail_after(SLOWLY_S):
            async with eagerstream.stream(client, **options) as stream:
                events = [event async for event in stream]
    first, second = (event for event in events if isinstance(event, ServerToolResult))
    assert (first.call, first.is_error, first.error_code) == (earlier, True, "unavailable")
    (use,) = (event for event in events if isinstance(event, InputStop))
    assert isinstance(use, ServerToolUse)
    assert second.call is not None
    assert second.call["input"] == use.input.value == {"query": "of srvtoolu_2"}
    assert first.block is stream.message["content"][0]


async def test_a_kind_of_tool_that_is_not_known(
    serial: Serial, anyio_backend_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is sent, told of once, and a call of it is answered as not found: nothing is run in its place."""
    hologram = {"type": f"hologram_{anyio_backend_name}", "name": "hologram"}  # it is once for each kind
    for _ in range(2):
        async with serial.conversing(reply(tool_use("hologram", {}, id="a")), DONE) as client:
            _, run = await told(client, tools=[now, hologram])
        (call,) = run.result.calls
        assert (call.ran, call.is_error) == (False, True)
        assert serial.bodies[0]["tools"][1] == hologram
    (warned,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warned.startswith(f"'{hologram['type']}' is an unknown kind of tool")
