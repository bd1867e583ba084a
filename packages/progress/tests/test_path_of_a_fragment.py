"""The number of functions that a fragment passes on its way from the socket to the consumer.

Each function is read by whoever follows the path, and costs every fragment of every response. The counts may fall; a
change that raises one needs a reason.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start

import eagerstream
import eagerstream_progress
import eagerstream_wire
from eagerstream import HTTPTransport, InputDelta, ItemStream, Tool, tool
from eagerstream_progress import Hub
from eagerstream_testing import encode_event

_SOURCES = tuple(
    str(Path(package.__file__ or "").parent) for package in (eagerstream, eagerstream_wire, eagerstream_progress)
)
_FRAGMENT_CHARS = 7  # the median of real streams
_FIRST, _LAST = 200, 380  # the fragments that are followed, so many that some become a block


@tool
async def whole(lines: list[str]) -> str:
    """Write lines."""
    return str(len(lines))


@tool
async def streaming(lines: ItemStream[str]) -> str:
    """Write lines while they come."""
    return str(len([line async for line in lines]))


class Body(httpx.AsyncByteStream):
    """A response that comes event by event; everybody has a turn in between."""

    def __init__(self, name: str) -> None:
        text = json.dumps({"lines": [f"a line of text, number {number}" for number in range(100)]})
        fragments = [text[at : at + _FRAGMENT_CHARS] for at in range(0, len(text), _FRAGMENT_CHARS)]
        self._events = [
            message_start(),
            tool_start(0, name),
            *(input_delta(0, fragment) for fragment in fragments),
            block_stop(0),
            message_delta("end_turn"),
            MESSAGE_STOP,
        ]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield encode_event(event)
            for _ in range(8):
                await asyncio.sleep(0)


async def passed(tool: Tool, *, is_watched: bool) -> set[str]:
    """The functions of the library that run while some fragments in the middle of an input are on their way."""

    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(tool.name))

    found: set[str] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_SOURCES):
            found.add(f"{code.co_filename} {code.co_qualname.partition('.<locals>')[0]}")  # no comprehensions

    client = HTTPTransport(
        base_url="http://gateway", http_client=httpx.AsyncClient(transport=httpx.MockTransport(respond))
    )
    async with eagerstream.run(client, tools=[tool], max_turns=1, **REQUEST) as run:
        if is_watched:
            Hub().observe(run)
        number = 0
        async for event in run:
            if isinstance(event, InputDelta):
                number += 1
                if is_watched:
                    assert isinstance(event.input.partial, dict)
                if number == _FIRST:
                    sys.setprofile(look)
                elif number == _LAST:
                    sys.setprofile(None)
    assert number > _LAST
    return found


@pytest.mark.parametrize(("tool", "is_watched", "at_most"), [(whole, False, 21), (streaming, True, 76)])
def test_functions_on_the_path(tool: Tool, *, is_watched: bool, at_most: int) -> None:
    """In a plain run; and with a streaming tool, a hub, and a consumer that looks at each fragment."""
    before = sys.getprofile()
    try:
        found = asyncio.run(passed(tool, is_watched=is_watched))
    finally:
        sys.setprofile(before)
    assert 10 < len(found) <= at_most, "\n".join(sorted(found))
    assert is_watched or not any("PartialJSON" in function for function in found)
