"""Runs in virtual time: every wait ends at once, and takes exactly as long as it says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio
import trio.testing

from eagerstream import Limits, Recording
from eagerstream.recordings import Chunk
from eagerstream.transports import Reply, RequestBody, Transport
from eagerstream.transports._playback import PlaybackTransport
from eagerstream_testing import Scenario, encode_event
from eagerstream_wire import WireEvent

T = TypeVar("T")


def in_virtual_time(program: Callable[[], Awaitable[T]]) -> T:
    """What a program gives that waits for nothing outside itself. Its clock is `anyio.current_time`."""
    result: T = trio.run(program, clock=trio.testing.MockClock(autojump_threshold=0))
    return result


def timed(*events: tuple[float, WireEvent]) -> Recording:
    """A reply whose events arrive at these times, each in a chunk of its own."""
    return Recording(tuple(Chunk(at_s, encode_event(event)) for at_s, event in events))


class Playing(Transport):
    """Answers requests from a scenario, at its times."""

    def __init__(self, *turns: Recording | Callable[..., Recording]) -> None:
        self._scenario = Scenario(*turns)

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:
        answer: Any = self._scenario.answer(request)
        async with PlaybackTransport(answer).open(request, limits) as reply:
            yield reply
