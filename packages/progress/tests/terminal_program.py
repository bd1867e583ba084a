"""A program whose run is shown in a terminal, for the tests that look at a real one: `python -m ... [held]`.

Its second call has in its input what terminals act on, and what takes two cells or none. With `held` the reply stops in
the middle of it, until somebody interrupts the program.
"""

from __future__ import annotations

import json
import sys

import anyio
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)
from tests.support import Gate, LocalAPI, Piece, whole_call

import eagerstream
from eagerstream_progress.terminal import terminal_progress

LINES = [
    "東京の港は時を守る",
    "emoji 😀 👩‍👩‍👧 ❤️ 🇯🇵",
    "e\u0301 combined a\u0308",
    "\x1b[2J\x1b]0;stolen\x07\x1b[5;5H[red]x[/red]\r\x9b31m",
]
INPUT = json.dumps({"filename": "詩.txt", "lines_of_text": [*LINES, "never finished"]})


@eagerstream.tool
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"{city}: 17 度"


@eagerstream.tool
async def make_file(filename: str, lines_of_text: list[str]) -> str:
    """Write text to a file."""
    print(f"printed for {filename}")
    return f"wrote {len(lines_of_text)} lines"


def replies(*, held: bool) -> list[list[Piece]]:
    """Two turns; the first has a pause before its end."""
    half = len(INPUT) - 10
    text: list[Piece] = [block_start(0, "text", text=""), text_delta(0, "I'll see. 見てみます。"), block_stop(0)]
    return [
        [
            message_start(),
            *text,
            *whole_call(1, "get_weather", '{"city": "Lisboa"}'),
            tool_start(2, "make_file"),
            *(input_delta(2, INPUT[at : min(at + 7, half)]) for at in range(0, half, 7)),
            Gate() if held else 0.3,
            input_delta(2, INPUT[half:]),
            block_stop(2),
            message_delta("tool_use"),
            MESSAGE_STOP,
        ],
        [message_start(), *text, message_delta("end_turn"), MESSAGE_STOP],
    ]


async def main() -> None:
    api = LocalAPI(*replies(held="held" in sys.argv))
    async with terminal_progress():
        async with eagerstream.run(api.transport(), tools=[get_weather, make_file], **REQUEST) as run:
            await run.finish()


if __name__ == "__main__":
    try:
        anyio.run(main, backend="trio" if "trio" in sys.argv else "asyncio")
    except KeyboardInterrupt:
        print("interrupted")
