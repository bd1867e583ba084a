"""How many objects of a waiting run the garbage collector visits.

A server has thousands of runs that wait for their models. Each full collection visits all of their objects, and was a
third of the CPU of 1,000 runs at once. The number may fall; a change that raises it needs a reason.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

import eagerstream
from eagerstream import InputDelta, tool
from eagerstream.limits import Limits
from eagerstream.transports import Reply, RequestBody, Transport
from eagerstream_wire import WireEvent
from tests.streams import REQUEST, input_delta, message_start, tool_start

_RUNS = 20
_MOST = 190 if sys.version_info < (3, 14) else 224  # from 3.14 on, it visits dicts of plain values, too


class Waiting(Transport):
    """Answers with the start of a call, and then with nothing more."""

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:
        yield _Start()


class _Start:
    request_id: str | None = None

    def __init__(self) -> None:
        self._is_over = False

    async def receive(self) -> Sequence[WireEvent]:
        if self._is_over:
            await anyio.sleep_forever()
        self._is_over = True
        return [message_start(), tool_start(0, "write"), input_delta(0, '{"lines": ["a')]


@tool
async def write(lines: list[str]) -> str:
    """Write lines."""
    return str(len(lines))


async def _begin(transport: Transport, runs: AsyncExitStack) -> None:
    run = await runs.enter_async_context(eagerstream.run(transport, tools=[write], **REQUEST))
    async for event in run:
        if isinstance(event, InputDelta):
            break


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_objects_of_a_waiting_run() -> None:
    """It has one call, whose task is prepared."""
    async with AsyncExitStack() as runs:
        await _begin(Waiting(), runs)  # what is made once
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(_RUNS):
            await _begin(Waiting(), runs)
        gc.collect()
        assert (len(gc.get_objects()) - before) / _RUNS < _MOST
