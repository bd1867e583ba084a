"""Which definitions become tools that run here, which an executor runs, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

import eagerstream
from eagerstream import tool
from eagerstream.errors import HistoryError, UsageError
from eagerstream.tools import ToolCall
from eagerstream_testing import reply, tool_use
from tests.loop.serial import DONE, Serial, now
from tests.loop.server_tools import told
from tests.streams import REQUEST
from tests.tables import rows


def test_an_executor_that_asks_nobody() -> None:
    """A tool that must not run unseen is not given to an executor that would run it unseen."""

    class Remote:
        def admit(self, call: ToolCall) -> None: ...

        async def execute(self, call: ToolCall) -> None: ...

    @tool(approve=lambda _: True)
    async def pay() -> None:
        """Pay."""

    with pytest.raises(eagerstream.UsageError, match="does not ask for approval"):
        eagerstream.Conversation(**REQUEST, tools=[pay], executor=Remote())


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


@rows("definition", SCHEMA_ONLY.values())
def test_a_definition_that_nothing_runs(definition: dict[str, Any]) -> None:
    """It is a mistake, and said before anything is sent: its calls could only be answered as not found."""
    with pytest.raises(UsageError, match=rf"nothing runs {definition['type']}.* eagerstream_toolkit"):
        eagerstream.run(DONE, tools=[definition], **REQUEST)
    with pytest.raises(UsageError, match="nothing runs"):
        eagerstream.Conversation(tools=[definition], **REQUEST)


@pytest.mark.anyio
async def test_an_executor_may_run_it(serial: Serial) -> None:
    """What it runs is its own business."""
    call = reply(tool_use("bash", {"command": "ls"}, id="a"))
    async with serial.conversing(call, DONE) as client:
        _, run = await told(client, tools=[SCHEMA_ONLY["bash"]], executor=Elsewhere())
    assert [(made.id, made.is_error) for made in run.result.calls] == [("a", False)]
    assert serial.bodies[1]["messages"][2]["content"][0]["content"] == "ran bash"


@pytest.mark.anyio
async def test_a_single_request_takes_any_definition(serial: Serial) -> None:
    """`stream` runs nothing: whoever made it does."""
    async with serial.conversing(DONE) as client:
        async with eagerstream.stream(client, **REQUEST, tools=list(SCHEMA_ONLY.values())[:4]) as stream:
            await stream.finish()
    assert serial.bodies[0]["tools"] == list(SCHEMA_ONLY.values())[:4]


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


@rows("tools, said", DEFERRED.values())
def test_what_cannot_be_deferred(tools: list[Any], said: str) -> None:
    """The API refuses it; it is said before anything is sent, as a mistake of the caller's."""
    with pytest.raises(HistoryError, match=said) as refused:
        eagerstream.run(DONE, tools=tools, **REQUEST)
    assert isinstance(refused.value, UsageError)
