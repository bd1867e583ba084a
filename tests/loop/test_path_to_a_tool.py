"""The path from the end of an input to the first line of its tool: passes of the event loop, and functions on the way.

In each pass of the event loop, other tasks may run before the tool. Nearly all of the time on the path is that of code
which was not in the caches, so each function counts. The counts may fall; a change that raises one needs a reason.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest

import eagerstream
from eagerstream import EarlyCalls, HTTPTransport, Tool, tool
from eagerstream_testing import encode_event
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start

_SOURCE = str(Path(eagerstream.__file__).parent)
_ROOMS = tuple(f"{_SOURCE}/{room}/" for room in ("loop", "calls", "tools"))
_START = tool_start(0, "edit")
_END = [input_delta(0, '"old": "a"}'), block_stop(0)]
_CUTS: dict[str, list[list[Any]]] = {
    "the end alone": [[_START], [input_delta(0, '{"path": "x.py", ')], _END],
    "the call in one chunk": [[_START, input_delta(0, '{"path": "x.py", '), *_END]],
}


@dataclass
class Passes:
    """Counts the passes of the event loop.

    Attributes:
        count: Passes so far.
        ended: The count at the end of the input.
        began: The count at the first line of the tool.
    """

    count: int = 0
    ended: int | None = None
    began: int | None = None
    on_end: Callable[[], object] = field(default=lambda: None)

    def watch(self) -> None:
        """Count each pass from now on."""
        self.count += 1
        asyncio.get_running_loop().call_soon(self.watch)

    def end(self) -> None:
        """Note that the next bytes end the input."""
        self.ended = self.count
        self.on_end()


class Body(httpx.AsyncByteStream):
    """A response that comes chunk by chunk; everybody has a turn in between."""

    def __init__(self, chunks: Sequence[Sequence[Any]], passes: Passes) -> None:
        self._chunks = chunks
        self._passes = passes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in [[message_start()], *self._chunks, [message_delta("end_turn"), MESSAGE_STOP]]:
            encoded = b"".join(map(encode_event, chunk))
            if block_stop(0) in chunk:
                self._passes.end()
            yield encoded
            for _ in range(8):
                await asyncio.sleep(0)


def editor(passes: Passes, on_begin: Callable[[], object] = lambda: None) -> Tool:
    @tool
    async def edit(path: str, old: str) -> str:
        """Edit a file."""
        on_begin()
        passes.began = passes.count
        return path + old

    return edit


async def ran(chunks: Sequence[Sequence[Any]], passes: Passes, tool: Tool, *, iterates: bool = True) -> None:
    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(chunks, passes))

    transport = HTTPTransport(
        base_url="http://gateway", http_client=httpx.AsyncClient(transport=httpx.MockTransport(respond))
    )
    passes.watch()
    async with eagerstream.run(transport, tools=[tool], max_turns=1, **REQUEST) as run:
        if iterates:
            async for _ in run:
                pass
        await run.finish()


@pytest.mark.parametrize("iterates", [True, False])
@pytest.mark.parametrize("cut", _CUTS)
def test_one_pass_from_an_input_to_its_tool(cut: str, *, iterates: bool) -> None:
    """The tool's task is the next that runs after the consumer, in the first pass after the bytes came."""
    passes = Passes()
    asyncio.run(ran(_CUTS[cut], passes, editor(passes), iterates=iterates))
    assert passes.ended is not None
    assert passes.began == passes.ended + 1


def test_one_pass_under_the_loop_of_somebody_else() -> None:
    """`EarlyCalls.feed` starts a task, or wakes the one that waits for the input."""
    passes = Passes()

    async def main() -> None:
        passes.watch()
        async with EarlyCalls([editor(passes)]) as calls:
            for event in [message_start(), *_CUTS["the end alone"][0], *_CUTS["the end alone"][1]]:
                calls.feed(event)
                await asyncio.sleep(0)
            passes.end()
            for event in _END:
                calls.feed(event)
            await calls.finish()

    asyncio.run(main())
    assert passes.ended is not None
    assert passes.began == passes.ended + 1


def test_functions_on_the_path_to_a_tool() -> None:
    """Each call of a function of the rooms `loop`, `calls` and `tools` between the bytes and the tool."""
    passed: list[str] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_ROOMS):
            passed.append(f"{code.co_filename.removeprefix(_SOURCE)} {code.co_qualname}")

    before = sys.getprofile()
    passes = Passes(on_end=lambda: sys.setprofile(look))
    try:
        asyncio.run(ran(_CUTS["the end alone"], passes, editor(passes, lambda: sys.setprofile(before))))
    finally:
        sys.setprofile(before)
    assert 30 < len(passed) <= 46, "\n".join(passed)
