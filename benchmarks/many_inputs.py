"""1,000 simultaneous inputs in one event loop, compared with the same inputs one after another: CPU per wire event.

Each input has its own stream, from a recording in memory. It has 10 KB in fragments of 16 characters, after a text of 5
KB. Events of both are counted. Each is padded, and a separate chunk. The event loop changes to another stream after
each chunk. So no data of a stream is in the caches of the processor when it gets its next chunk.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import anyio
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import Recording
from eagerstream_testing import tool_use

from .streams import make_input, response
from .targets import Row

PACE: Final = "all bytes at hand, one event per chunk"
INPUTS: Final = 1_000
INPUT_CHARS: Final = 10_000
TARGET: Final = 1.2
_DIFFERENT: Final = 20
"""Number of recordings. Several streams play the same one, because the chunks of a network are not measured."""
_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}]}


class Streams:
    """The streams, with the expected value of each input."""

    def __init__(self, fragment_chars: int) -> None:
        self._inputs = [{**make_input("lines", INPUT_CHARS), "number": number} for number in range(_DIFFERENT)]
        texts = [json.dumps(value, ensure_ascii=False) for value in self._inputs]
        calls = [tool_use("make_file", text, fragment_chars=fragment_chars) for text in texts]
        self._recordings: list[Recording] = [response(call) for call in calls]
        self.events = sum(len(self._recordings[number % _DIFFERENT].chunks) for number in range(INPUTS))

    async def _one(self, number: int) -> None:
        async with eagerstream.stream(self._recordings[number % _DIFFERENT], **_REQUEST) as stream:
            await stream.finish()
        assert stream.inputs[1].value == self._inputs[number % _DIFFERENT]

    async def one_after_another(self) -> None:
        """Run each stream when the one before it has ended."""
        for number in range(INPUTS):
            await self._one(number)

    async def at_once(self) -> None:
        """Start all streams together. They take turns."""
        async with anyio.create_task_group() as tasks:
            for number in range(INPUTS):
                tasks.start_soon(self._one, number)


def measure(streams: Streams, repeats: int) -> tuple[float, float]:
    """Return the CPU seconds one after another, and at once: the least of alternating repetitions."""
    best = [float("inf"), float("inf")]
    for _ in range(repeats):
        for place, run in enumerate((streams.one_after_another, streams.at_once)):
            gc.collect()
            best[place] = min(best[place], anyio.run(partial(_cpu_s, run)))
    return best[0], best[1]


async def _cpu_s(run: Any) -> float:
    start = time.process_time()
    await run()
    return time.process_time() - start


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure both ways, print a table, and return the figures."""
    streams = Streams(64 if quick else 16)
    times_s: Sequence[float] = measure(streams, 2 if quick else 3)
    table = Table(title=f"{INPUTS:,} inputs of {INPUT_CHARS // 1000} KB: µs of CPU per wire event")
    for name in ("streams", "events", "µs per event"):
        table.add_column(name, justify="left" if name == "streams" else "right")
    per_event_us = [cpu_s / streams.events * 1e6 for cpu_s in times_s]
    for what, cost_us in zip(("one after another", "at once"), per_event_us, strict=True):
        table.add_row(what, f"{streams.events:,}", f"{cost_us:.2f}")
    console.print(table)
    ratio = per_event_us[1] / per_event_us[0]
    row = Row(
        work=f"{INPUTS:,} tool inputs of {INPUT_CHARS // 1000} KB at once in one event loop",
        against="the same inputs one after another",
        pace=PACE,
        target=f"CPU per wire event at most {TARGET} times",
        measured=f"{ratio:.2f} times: {per_event_us[1]:.1f} and {per_event_us[0]:.1f} µs",
        met=ratio <= TARGET,
        asserted=False,  # other programs use the same caches
    )
    return {"one_after_another_us": per_event_us[0], "at_once_us": per_event_us[1], "rows": [asdict(row)]}


if __name__ == "__main__":
    main(Console(), quick=True)
