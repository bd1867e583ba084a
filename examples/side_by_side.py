"""Show how long it takes until a program sees the first line of a file, with the anthropic SDK and with eagerstream.

Needs: nothing else.

Usage:
    ANTHROPIC_API_KEY=... python side_by_side.py [MODEL]
    eagerstream serve --script -- python side_by_side.py
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import eagerstream
from eagerstream import InputDelta

from anthropic import AsyncAnthropic

MAKE_FILE: dict[str, Any] = {
    "name": "make_file",
    "description": "Write text to a file.",
    "input_schema": {
        "type": "object",
        "properties": {"filename": {"type": "string"}, "lines_of_text": {"type": "array", "items": {"type": "string"}}},
        "required": ["filename", "lines_of_text"],
    },
}
QUESTION = {"role": "user", "content": "Write a long poem and make a file called poem.txt."}


async def with_anthropic(client: Any, request: Any) -> AsyncIterator[Any]:
    """Yield the input so far."""
    async with client.messages.stream(**request) as stream:
        async for event in stream:
            if event.type == "input_json":
                yield event.snapshot


async def with_eagerstream(client: Any, request: Any) -> AsyncIterator[Any]:
    """Yield the input so far."""
    async with eagerstream.stream(client, **request) as stream:
        async for event in stream:
            if isinstance(event, InputDelta):
                yield event.input.partial


async def main(model: str) -> None:
    request = {"model": model, "max_tokens": 16_000, "tools": [MAKE_FILE], "messages": [QUESTION]}
    async with AsyncAnthropic() as client:
        for name, inputs in (("anthropic", with_anthropic), ("eagerstream", with_eagerstream)):
            started_s = time.monotonic()
            seen: dict[int, float] = {}
            async for value in inputs(client, request):
                seen.setdefault(len(value.get("lines_of_text") or ()), time.monotonic() - started_s)
            seen.pop(0, None)
            (first, first_s), (last, last_s) = min(seen.items()), max(seen.items())
            print(f"{name:<12} line {first} after {first_s:.2f} s, line {last} after {last_s:.2f} s")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7"))
