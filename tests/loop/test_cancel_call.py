"""`run.cancel_call`: one call ends, with a reason for the model; the others and the run continue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

import eagerstream
from eagerstream import ItemStream, RunningCall, UsageError, tool
from eagerstream.calls import RunStatus
from eagerstream.loop import Run
from eagerstream.tools import CallState, ToolCall
from tests.loop.serial import DONE, SLOWLY_S, checked
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Gate, LocalAPI, Piece

pytestmark = pytest.mark.anyio


class Tools:
    """Tools that wait until they are let go."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.may_end = anyio.Event()
        self.cleaned: list[str] = []

    def all(self) -> list[Any]:
        """One that can be cancelled, one that finishes, one that streams, one that waits for the message, and a quick one."""

        async def never(call: ToolCall) -> bool:
            await anyio.sleep_forever()
            return True

        async def wait(call: RunningCall) -> str:
            self.begun.set()
            try:
                await self.may_end.wait()
            finally:
                call.done_so_far = "half of it"
                self.cleaned.append(call.name)
            return "done"

        @tool
        async def read(call: RunningCall, items: ItemStream[int]) -> str:
            """Read."""
            self.begun.set()
            try:
                return str([item async for item in items])
            finally:
                self.cleaned.append(call.name)

        @tool
        async def quick() -> str:
            """Answer at once."""
            return "quick"

        return [
            tool(wait, description="Wait."),
            tool(wait, name="finish", description="Finish.", on_cancel="finish"),
            tool(wait, name="later", description="Wait for the message.", start="message"),
            tool(wait, name="asked", description="Ask.", approve=never),
            *(read, quick),
        ]


def one(index: int, name: str, *fragments: str) -> list[Piece]:
    return [tool_start(index, name, id=f"id_{name}"), *(input_delta(index, text) for text in fragments or ("{}",))]


END: list[Piece] = [message_delta("tool_use"), MESSAGE_STOP]


@asynccontextmanager
async def running(tools: Tools, *pieces: Piece) -> AsyncIterator[Run]:
    """A run whose first response consists of these pieces."""
    api = LocalAPI([message_start(), *pieces], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=tools.all()) as run:
            yield run


def told(run: Run) -> dict[str, str]:
    return {call.name: call.text for call in checked(run.result).calls}


@pytest.mark.parametrize("reason", ["", "the user closed the file"])
async def test_a_tool_that_runs(reason: str) -> None:
    """It is cancelled, and its cleanup runs. The model learns the reason, and what was done."""
    tools = Tools()
    async with running(tools, *one(0, "wait"), block_stop(0), *one(1, "quick"), block_stop(1), *END) as run:
        await tools.begun.wait()
        run.cancel_call("id_wait", reason)
        await run.finish()
    said = f"Cancelled: {reason}" if reason else "Cancelled by the user."
    assert told(run) == {"wait": f"{said}\nhalf of it", "quick": "quick"}
    assert (tools.cleaned, run.result.status) == (["wait"], RunStatus.COMPLETED)
    assert run.result.calls[0].is_error


async def test_from_another_thread() -> None:
    """As the other ways to speak to a run."""
    tools = Tools()
    async with running(tools, *one(0, "wait"), block_stop(0), *END) as run:
        await tools.begun.wait()
        await anyio.to_thread.run_sync(run.cancel_call, "id_wait", "enough")
        await run.finish()
    assert told(run) == {"wait": "Cancelled: enough\nhalf of it"}


async def test_a_tool_that_finishes() -> None:
    """It has asked for that. Its result is kept."""
    tools = Tools()
    async with running(tools, *one(0, "finish"), block_stop(0), *END) as run:
        await tools.begun.wait()
        run.cancel_call("id_finish", "enough")
        tools.may_end.set()
        await run.finish()
    assert told(run) == {"finish": "done"}


@pytest.mark.parametrize("name", ["later", "asked"])
async def test_a_call_that_waits(name: str) -> None:
    """For the end of the message, or for approval: it does not start."""
    tools, gate = Tools(), Gate()
    async with running(tools, *one(0, name), block_stop(0), gate, *END) as run:
        await gate.reached.wait()
        run.cancel_call(f"id_{name}", "enough")
        gate.opened.set()
        await run.finish()
    [call] = checked(run.result).calls
    assert (call.text, call.state, tools.cleaned) == ("Cancelled: enough", CallState.WITHDRAWN, [])


@pytest.mark.parametrize("name", ["wait", "later", "asked", "read", "unknown"])
async def test_an_input_that_is_being_written(name: str) -> None:
    """Its tool does not start, or is cancelled if it reads the input already. The rest is read, and echoed."""
    tools, gate = Tools(), Gate()
    pieces = one(0, name, '{"items": [1') if name == "read" else one(0, name, "{")
    rest = input_delta(0, ", 2]}" if name == "read" else "}")
    async with running(tools, *pieces, gate, rest, block_stop(0), *one(1, "quick"), block_stop(1), *END) as run:
        await gate.reached.wait()
        if name == "read":
            await tools.begun.wait()
        run.cancel_call(f"id_{name}", "enough")
        gate.opened.set()
        await run.finish()
    first, second = checked(run.result).calls
    assert (first.id, first.text.splitlines()[-1]) == (f"id_{name}", "Cancelled: enough")
    assert (second.text, tools.cleaned) == ("quick", ["read"] if name == "read" else [])
    assert run.result.messages[1]["content"][0]["input"] == ({"items": [1, 2]} if name == "read" else {})


async def test_too_late() -> None:
    """A call that has its result keeps it. Another id is an error, and so is a call of a run that has ended."""
    tools, gate = Tools(), Gate()
    async with running(tools, *one(0, "quick"), block_stop(0), gate, *END) as run:
        await gate.reached.wait()
        await run.result.calls[0].answered.wait()
        run.cancel_call("id_quick", "enough")
        with pytest.raises(UsageError, match="the turn under way has no call 'other'"):
            run.cancel_call("other")
        gate.opened.set()
        await run.finish()
    assert told(run) == {"quick": "quick"}
    with pytest.raises(UsageError, match="the turn under way has no call 'id_quick'"):
        run.cancel_call("id_quick")
    with pytest.raises(UsageError, match="the run is not under way"):
        eagerstream.run(LocalAPI([DONE]).transport(), **REQUEST).cancel_call("id_quick")
