"""A conversation that is cancelled after some steps of the event loop, by whatever means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio
import anyio.lowlevel

import eagerstream
from eagerstream import InputInterrupted, ItemStream, RunStatus
from eagerstream.loop import Run, RunResult
from eagerstream.tools import tool
from tests.loop.serial import DONE, SLOWLY_S, checked
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Broken, LocalAPI, Piece

WAYS: Final = ["scope", "cancel()", "leave", "time-out"]


class Workshop:
    """Tools that tell when they begin and when their cleanup has run."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.open: Counter[str] = Counter()
        self.said: dict[str, str] = {}
        """What each call answered that came to its end."""

    def tools(self) -> list[Any]:
        """One that waits a few steps, one that finishes whatever happens, one that streams, and a plain one."""

        @tool(description="Wait.")
        async def wait(call: eagerstream.RunningCall) -> str:
            return await self._work(call.id, steps=4)

        @tool(on_cancel="finish", description="Finish.")
        async def finish(call: eagerstream.RunningCall) -> str:
            return await self._work(call.id, steps=2)

        @tool(description="Read.")
        async def read(call: eagerstream.RunningCall, items: ItemStream[int]) -> str:
            self.begun.append(call.id)
            self.open[call.id] += 1
            try:
                async for _ in items:
                    await anyio.lowlevel.checkpoint()
            except InputInterrupted:
                self.said[call.id] = "some"
                return "some"
            finally:
                self.open[call.id] -= 1
            self.said[call.id] = "all"
            return "all"

        @tool(description="Run in a thread.")
        def plain(call: eagerstream.RunningCall) -> str:
            self.begun.append(call.id)
            return "plain"

        return [wait, finish, read, plain]

    async def _work(self, id: str, *, steps: int) -> str:
        self.begun.append(id)
        self.open[id] += 1
        try:
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            self.open[id] -= 1
        self.said[id] = "done"
        return "done"


def _bodies() -> list[list[Piece]]:
    first: list[Piece] = [message_start(), tool_start(0, "wait", id="a"), input_delta(0, "{"), Broken()]
    second: list[Piece] = [
        message_start(),
        *[tool_start(0, "wait", id="b"), input_delta(0, "{}"), block_stop(0)],
        *[tool_start(1, "finish", id="c"), input_delta(1, "{}"), block_stop(1)],
        *[tool_start(2, "read", id="d"), input_delta(2, '{"items": [1, '), input_delta(2, "2]"), input_delta(2, "}")],
        *[block_stop(2), tool_start(3, "plain", id="e"), input_delta(3, "{}"), block_stop(3)],
        *[tool_start(4, "plain", id="f"), input_delta(4, "[")],
    ]
    return [first, [*second, Broken()], [*_renamed(second), block_stop(4), message_delta("tool_use"), MESSAGE_STOP]]


def _renamed(pieces: list[Piece]) -> list[Piece]:
    """The same calls under other ids, as from another request."""
    renamed: list[Piece] = []
    for piece in pieces:
        block = piece.get("content_block") if isinstance(piece, dict) else None
        if isinstance(piece, dict) and block is not None:
            piece = {**piece, "content_block": {**block, "id": f"{block['id']}2"}}
        renamed.append(piece)
    return renamed


async def _consume(run: Run, way: str, steps: int) -> None:
    async with run:
        seen = 0
        async for _ in run:
            seen += 1
            if way == "leave" and seen > steps:
                return


async def cancelled_after(steps: int, way: str, watch: Callable[[Run], object] | None = None) -> RunResult | None:
    """Cancel a conversation after so many steps of the event loop; None if it had ended before."""
    workshop = Workshop()
    api = LocalAPI(*_bodies(), [DONE])
    run = eagerstream.run(api.transport(), **REQUEST, tools=workshop.tools(), restart_delay_s=0, max_concurrency=3)
    if watch is not None:
        watch(run)
    ended = False

    async def after(act: Callable[[], object]) -> None:
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        act()

    with anyio.fail_after(SLOWLY_S), suppress(TimeoutError if way == "time-out" else ZeroDivisionError):
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                match way:
                    case "scope":
                        tasks.start_soon(after, scope.cancel)
                    case "cancel()":
                        tasks.start_soon(after, run.cancel)
                    case "time-out":
                        tasks.start_soon(after, lambda: setattr(scope, "deadline", anyio.current_time()))
                    case _:
                        pass
                await _consume(run, way, steps)
                ended = run.result.status is RunStatus.COMPLETED
            tasks.cancel_scope.cancel()
    result = checked(run.result)
    assert result.status in (RunStatus.COMPLETED, RunStatus.CANCELLED)
    assert not +workshop.open, "a tool's cleanup has not run"
    counted = Counter(workshop.begun)
    assert not counted or max(counted.values()) == 1
    assert all(call.result is not None for call in result.calls)
    assert {call.id for call in result.calls if call.ran} >= set(counted) - {"e", "e2"}  # a thread may be given up
    for call in result.calls:
        if call.ran and call.name == "finish":
            assert call.result is not None
            assert call.result["content"] == "done"
    answers = {call.id: str(call.result and call.result["content"]) for call in result.calls}
    assert all(said in answers[id] for id, said in workshop.said.items()), "finished work is lost"
    eagerstream.RunResult.from_json(result.to_json())
    return None if ended else result
