"""Tools that the API runs: told as they come, paired over replies, and never run or answered here."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream.errors import HistoryError, UsageError
from eagerstream.loop import RunStatus, ToolStart
from eagerstream.recordings import Recording
from eagerstream.testing import block, error_event, reply, server_tool_use, text, tool_use
from eagerstream.tools import ToolCall
from eagerstream.wire import InputStop, ServerToolResult, ServerToolUse
from tests.loop.serial import SLOWLY_S, Serial, checked, now
from tests.support import REQUEST, USER

SEARCH = {"type": "web_search_20250305", "name": "web_search"}
CODE = {"type": "code_execution_20260120", "name": "code_execution"}
MCP = {"type": "mcp_toolset", "mcp_server_name": "pages"}
DONE = reply(text("Done."), message_id="msg_done")

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


Told = list[tuple[str, ...] | str]


async def told(client: Any, **options: Any) -> tuple[Told, Any]:
    """What a run tells of server tools and of turns, and the run."""
    lines: Told = []
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(client, **{"tools": [now, SEARCH, MCP], **REQUEST, **options}) as run:
            async for event in run:
                match event:
                    case ServerToolUse(input=call):
                        lines.append(("use", call.id, call.name))
                    case ServerToolResult(tool_use_id=id, call=answered):
                        assert answered is None or answered["id"] == id
                        lines.append(("result", id, answered["name"] if answered else "of nothing"))
                    case ToolStart(call=started):
                        lines.append(("start", started.id, started.name))
                    case eagerstream.TurnStop(turn=turn):
                        lines.append(f"turn {turn}")
                    case _:
                        pass
    checked(run.result)
    return lines, run


REPLIES: dict[str, tuple[list[Recording], Told]] = {
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
            ("use", "srvtoolu_1", "web_search"),
            ("result", "srvtoolu_1", "web_search"),
            ("use", "m1", "read_page"),
            ("result", "m1", "read_page"),
            ("use", "srvtoolu_2", "web_search"),
            ("result", "srvtoolu_2", "web_search"),
            "turn 1",
        ],
    ),
    "two at once": (
        [reply(search("srvtoolu_1"), search("srvtoolu_2"), found("srvtoolu_2"), found("srvtoolu_1"))],
        [
            ("use", "srvtoolu_1", "web_search"),
            ("use", "srvtoolu_2", "web_search"),
            ("result", "srvtoolu_2", "web_search"),
            ("result", "srvtoolu_1", "web_search"),
            "turn 1",
        ],
    ),
    "over a mixed turn": (
        [
            reply(search("srvtoolu_1"), mcp("m1"), tool_use("now", {}, id="a")),
            reply(found("srvtoolu_1"), read("m1"), text("So.")),
        ],
        [
            ("use", "srvtoolu_1", "web_search"),
            ("use", "m1", "read_page"),
            ("start", "a", "now"),
            "turn 1",
            ("result", "srvtoolu_1", "web_search"),
            ("result", "m1", "read_page"),
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
            ("use", "srvtoolu_1", "web_search"),
            ("start", "a", "now"),
            "turn 1",
            ("start", "b", "now"),
            "turn 2",
            ("result", "srvtoolu_1", "web_search"),
            "turn 3",
        ],
    ),
    "over a pause": (
        [reply(text("So."), search("srvtoolu_1"), stop_reason="pause_turn"), reply(found("srvtoolu_1"), text("Done."))],
        [("use", "srvtoolu_1", "web_search"), "turn 1", ("result", "srvtoolu_1", "web_search"), "turn 2"],
    ),
    "over two pauses": (
        [
            reply(search("srvtoolu_1"), stop_reason="pause_turn"),
            reply(search("srvtoolu_2"), stop_reason="pause_turn"),
            reply(found("srvtoolu_2"), found("srvtoolu_1"), text("Done.")),
        ],
        [
            ("use", "srvtoolu_1", "web_search"),
            "turn 1",
            ("use", "srvtoolu_2", "web_search"),
            "turn 2",
            ("result", "srvtoolu_2", "web_search"),
            ("result", "srvtoolu_1", "web_search"),
            "turn 3",
        ],
    ),
    "a result of nothing": (
        [reply(found("srvtoolu_9"), text("So."))],
        [("result", "srvtoolu_9", "of nothing"), "turn 1"],
    ),
}


@pytest.mark.parametrize(("replies", "expected"), REPLIES.values(), ids=REPLIES)
async def test_pairs(serial: Serial, replies: list[Recording], expected: Told) -> None:
    """Each call and each result is told once, the result with its call, in whichever reply that was."""
    async with serial.conversing(*replies) as client:
        lines, run = await told(client)
    assert lines == expected
    assert run.result.status is RunStatus.COMPLETED
    ids = {call.id for call in run.result.calls}
    assert ids <= {"a", "b"}, "only the client's calls are calls of the run"
    for request in serial.bodies:
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
    assert lines == [("result", "srvtoolu_1", "web_search"), "turn 1"]


async def test_a_reply_that_was_discarded(serial: Serial) -> None:
    """What came of it is void: a result that names a call of it is of nothing that is known."""
    broken = reply(search("srvtoolu_1"), error_event("overloaded_error", "Overloaded"))
    async with serial.conversing(broken, reply(found("srvtoolu_1"), text("Done."))) as client:
        lines, _ = await told(client, restart_delay_s=0.0)
    assert lines == [("use", "srvtoolu_1", "web_search"), ("result", "srvtoolu_1", "of nothing"), "turn 1"]


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


# --- which definitions nothing here runs ------------------------------------------------------------------------------


class Elsewhere:
    """An executor that knows tools of its own."""

    def admit(self, call: ToolCall) -> None:
        """It has room for all."""

    async def execute(self, call: ToolCall) -> None:
        """Run it."""
        call.answer(f"ran {call.name}")


SCHEMA_ONLY: dict[str, dict[str, Any]] = {
    "bash": {"type": "bash_20250124", "name": "bash"},
    "text editor": {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
    "memory": {"type": "memory_20250818", "name": "memory"},
    "computer": {"type": "computer_20251124", "name": "computer", "display_width_px": 1, "display_height_px": 1},
    "a toolset": {"type": "computer_toolset_20260801"},
    "a version of tomorrow": {"type": "bash_20991231", "name": "bash"},
}


@pytest.mark.parametrize("definition", SCHEMA_ONLY.values(), ids=SCHEMA_ONLY)
async def test_a_definition_that_nothing_runs(definition: dict[str, Any]) -> None:
    """It is a mistake, and said before anything is sent: its calls could only be answered as not found."""
    with pytest.raises(UsageError, match=rf"nothing runs {definition['type']}.* eagerstream.builtin"):
        eagerstream.run(DONE, tools=[definition], **REQUEST)
    with pytest.raises(UsageError, match="nothing runs"):
        eagerstream.Conversation(tools=[definition], **REQUEST)


async def test_an_executor_may_run_it(serial: Serial) -> None:
    """What it runs is its own business."""
    call = reply(tool_use("bash", {"command": "ls"}, id="a"))
    async with serial.conversing(call, DONE) as client:
        _, run = await told(client, tools=[SCHEMA_ONLY["bash"]], executor=Elsewhere())
    assert [(made.id, made.is_error) for made in run.result.calls] == [("a", False)]
    assert serial.bodies[1]["messages"][2]["content"][0]["content"] == "ran bash"


async def test_a_single_request_takes_any_definition(serial: Serial) -> None:
    """`stream` runs nothing: whoever made it does."""
    async with serial.conversing(DONE) as client:
        async with eagerstream.stream(client, **REQUEST, tools=list(SCHEMA_ONLY.values())[:4]) as stream:
            await stream.finish()
    assert serial.bodies[0]["tools"] == list(SCHEMA_ONLY.values())[:4]


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
    assert warned.startswith(f"'{hologram['type']}' is no kind of tool that is known here")


DEFERRED: dict[str, tuple[list[Any], str]] = {
    "the search itself, by regular expressions": (
        [now, {"type": "tool_search_tool_regex", "name": "tool_search_tool_regex", "defer_loading": True}],
        "tools.1.tool_search_tool_regex.defer_loading: the tool that finds deferred tools cannot be deferred itself",
    ),
    "the search itself, by words": (
        [
            now,
            {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25", "defer_loading": True},
        ],
        "tools.1.tool_search_tool_bm25_20251119.defer_loading: the tool that finds",
    ),
    "everything": (
        [eagerstream.tool(lambda: None, name="now", description="The time.", defer_loading=True)],
        "At least one tool must have defer_loading=false",
    ),
}


@pytest.mark.parametrize(("tools", "said"), DEFERRED.values(), ids=DEFERRED)
async def test_what_cannot_be_deferred(tools: list[Any], said: str) -> None:
    """The API refuses it; it is said before anything is sent, as a mistake of the caller's."""
    with pytest.raises(HistoryError, match=said) as refused:
        eagerstream.run(DONE, tools=tools, **REQUEST)
    assert isinstance(refused.value, UsageError)
