"""The parts of the demo: the request, the tools, and the responses to use without the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import anyio

from eagerstream.recordings import Recording
from eagerstream.tools import ItemStream, Tool

from .. import Scenario, Timing, buffered, reply, retime, text, tool_use

PROMPT: Final = "Can you write a long poem and make a file called poem.txt? Say how the weather at the sea is, too."

SPEED: Final = 5.0
"""Factor by which the demo is faster than the documented example.

That example starts to deliver after 3 s with eager input streaming, and after 15 s without.
"""

_EAGER_S: Final = 3.0 / SPEED
_BUFFERED_S: Final = 15.0 / SPEED
_TOOL_S: Final = 0.4

POEM: Final = """\
The harbour keeps its hours in rope and rust,
A bell that counts the water, not the day,
And every boat that ever learned to trust
The dark has left a lantern on the bay.

We came by rail, with salt already sewn
Into the linings of our Sunday coats,
And found the town as one might find a stone
Still warm from hands that skipped it past the boats.

A woman mending nets said: nothing ends,
It only drifts a little out of reach;
The tide will lend you back what morning lends,
A sentence at a time, along the beach.

So write it slowly. Let the letters come
The way the gulls arrive, by ones and twos;
The sea has never told the shore its sum,
It sends the parts, and lets the listener choose.

A word, a word, a comma, then the swell,
A line that breaks before the thought is through,
And yet from half a phrase the heart can tell
The colour of the next, and colours true.

By evening all the windows hold a flame,
The page is full, the last of it still wet;
We read aloud, and no two read the same,
And no one shuts the book, or says: not yet.

The harbour keeps its hours. So do we.
The bell is slow. The water knows the way.
What reached us piece by piece out of the sea
Was whole before we learned the words to say.""".splitlines()

_TIMING: Final = Timing(
    first_byte_s=_EAGER_S * 0.8,
    tokens_per_second=sum(map(len, POEM)) / 4 / (_BUFFERED_S - _EAGER_S),
    jitter=0.6,
    seed=7,
)


def tools(folder: Path, *, eager: bool) -> list[Tool]:
    """Return the demo's tools.

    Args:
        folder: The folder for the files of `make_file`. A name that leads out of it is refused.
        eager: True streams their inputs eagerly.
    """

    async def make_file(filename: str, lines_of_text: ItemStream[str]) -> str:
        """Write text to a file.

        Args:
            filename: The filename to write text to.
            lines_of_text: The lines of text to write to the file.
        """
        if Path(filename).name != filename:
            raise PermissionError("only a plain file name is allowed")
        lines = size = 0
        async with await anyio.open_file(folder / filename, "w", encoding="utf-8") as file:
            async for line in lines_of_text:  # each as soon as it is finished
                size += await file.write(f"{line}\n")
                lines += 1
        return f"wrote {lines} lines, {size} characters, to {filename}"

    async def get_weather(city: str) -> str:
        """Current weather in a city."""
        await anyio.sleep(_TOOL_S)
        return f"{city}: 17 degrees, wind from the west"

    async def get_tide(harbour: str) -> str:
        """Height of the tide in a harbour."""
        await anyio.sleep(_TOOL_S)
        return f"{harbour}: rising, 2.1 m"

    return [Tool(function, eager=eager) for function in (get_weather, get_tide, make_file)]


def scenario(*, eager: bool) -> Scenario:
    """Return two turns, three calls and a closing text, with simulated timing, eager or buffered."""
    first, second = replies()
    first = retime(first, _TIMING)
    second = retime(second, Timing(first_byte_s=0.2, tokens_per_second=120))
    return Scenario(first if eager else buffered(first), second)


def replies() -> tuple[Recording, Recording]:
    """Return the same two turns without times."""
    return (
        reply(
            text("I'll look at the sea and write it down."),
            tool_use("get_weather", {"city": "Lisbon"}),
            tool_use("get_tide", {"harbour": "Lisbon"}),
            tool_use("make_file", {"filename": "poem.txt", "lines_of_text": POEM}),
        ),
        reply(text("The poem is in poem.txt. It is 17 degrees in Lisbon, and the tide is rising.")),
    )


def request(*, model: str) -> dict[str, Any]:
    """Return the parameters of the request, without its tools."""
    return {"model": model, "max_tokens": 65_536, "messages": [{"role": "user", "content": PROMPT}]}
