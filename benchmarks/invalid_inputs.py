"""`on_invalid="buffer_next"` after an input that is not JSON, against `"report"`, with a simulated model.

The model writes a file of 4 KB, and the first input is not JSON. If the next one is eager, too, the model makes the
mistake again with a given probability. If it is buffered, the API checks it, and it is right. Both sides are runs of
the library against the embedded server, with the same chances for each task. A run ends after ten responses.

Nothing is waited for. The seconds are those of a model that starts to write after one second, and writes 80 tokens per
second. `tools` changes with the buffered request and after it. If the platform counts the field among what its prompt
cache depends on, which is not known, then these requests read nothing from it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any, Final

import anyio
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import HTTPTransport, Recording, RunStatus
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use

from .streams import padded
from .targets import Row

CHARS: Final = 4_000
TOKENS_PER_S: Final = 80.0
FIRST_BYTE_S: Final = 1.0
MAX_TURNS: Final = 10
CHANCES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
SIDES: Final = ("report", "buffer_next")
PACE: Final = f"without pauses; seconds as for {TOKENS_PER_S:g} tokens per second"
_TOKENS: Final = CHARS / 4
_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 8_000, "messages": [{"role": "user", "content": "Go."}]}
_RIGHT: Final = padded(reply(tool_use("write", {"body": "x" * CHARS}, fragment_chars=16)))
_WRONG: Final = padded(reply(tool_use("write", '{"body": "' + "x" * CHARS + '\\q"}', fragment_chars=16)))
_DONE: Final = reply(text("Done."))


@eagerstream.tool
async def write(body: str) -> str:
    """Write a text."""
    return f"{len(body)} characters"


class Model:
    """The simulated model of one task.

    Attributes:
        is_buffered: For each of its inputs, whether it was buffered.
    """

    def __init__(self, seed: int, chance: float) -> None:
        self._random = Random(seed)
        self._chance = chance
        self.is_buffered: list[bool] = []

    def __call__(self, request: Mapping[str, Any]) -> Recording:
        last = request["messages"][-1]["content"]
        if isinstance(last, list) and not last[-1].get("is_error"):
            return _DONE
        mistake = self._random.random()  # on both sides, so that the chances stay the same
        is_buffered = request["tools"][0]["eager_input_streaming"] is False
        self.is_buffered.append(is_buffered)
        is_wrong = len(self.is_buffered) == 1 or (mistake < self._chance and not is_buffered)
        return _WRONG if is_wrong else _RIGHT


@dataclass
class Side:
    """The means over the tasks of one side.

    Attributes:
        inputs: Inputs that the model wrote, the first one among them.
        tokens: Tokens of them.
        done_s: Seconds until the right input was complete; without the tasks that never got one.
        seen_s: Seconds of the response with the right input until its first characters came.
        changes: Requests with other `tools` than the one before.
        failed: Share of the tasks without a right input.
    """

    inputs: float
    tokens: float
    done_s: float
    seen_s: float
    changes: float
    failed: float


async def _task(side: str, model: Model) -> bool:
    """Run one task. Return True if it was done."""
    with ReplayServer(Scenario(*[model] * (MAX_TURNS + 1))) as server:
        async with HTTPTransport(base_url=server.base_url) as client:
            options: Any = {"on_invalid": side, "max_turns": MAX_TURNS}
            async with eagerstream.run(client, tools=[write], **_REQUEST, **options) as run:
                await run.finish()
    return run.result.status is RunStatus.COMPLETED


async def _side(side: str, chance: float, tasks: int) -> Side:
    inputs, changes, done, done_s, seen_s = 0, 0, 0, 0.0, 0.0
    for seed in range(tasks):
        model = Model(seed, chance)
        is_done = await _task(side, model)
        count = len(model.is_buffered)
        inputs += count
        fields = [*model.is_buffered, False]  # the last request asks for eager inputs again
        changes += sum(one is not other for one, other in pairwise(fields))
        if is_done:
            done += 1
            done_s += count * (FIRST_BYTE_S + _TOKENS / TOKENS_PER_S)
            seen_s += FIRST_BYTE_S + (_TOKENS / TOKENS_PER_S if model.is_buffered[-1] else 0)
    failed = 1 - done / tasks
    per_done = done or float("nan")
    return Side(inputs / tasks, inputs * _TOKENS / tasks, done_s / per_done, seen_s / per_done, changes / tasks, failed)


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Run the tasks of both sides, print a table, and return the figures."""
    tasks = 10 if quick else 100
    logging.getLogger("eagerstream").setLevel(logging.ERROR)  # runs that end after ten responses are expected
    table = Table(title=f"after an input that is not JSON: means of {tasks} tasks")
    for name in ("mistake again", "side", "inputs", "tokens", "done", "first seen", "tools change", "failed"):
        table.add_column(name, justify="left" if name == "side" else "right")
    found: dict[str, dict[str, Any]] = {}
    for chance in CHANCES:
        for side in SIDES:
            figures = anyio.run(partial(_side, side, chance, tasks))
            found.setdefault(f"{chance:g}", {})[side] = asdict(figures)
            seconds = ("-", "-") if figures.failed == 1 else (f"{figures.done_s:.1f} s", f"{figures.seen_s:.1f} s")
            counts = (f"{figures.inputs:.2f}", f"{figures.tokens:,.0f}", *seconds, f"{figures.changes:.1f}")
            table.add_row(f"{chance:.0%}", side, *counts, f"{figures.failed:.0%}")
    console.print(table)
    rows = []
    for again in (0.0, 0.5):
        report, buffered = (Side(**found[f"{again:g}"][side]) for side in SIDES)
        row = Row(
            work=f"tokens of the inputs after one that is not JSON, if the mistake comes again with {again:.0%}",
            against='`on_invalid="report"`',
            pace=PACE,
            target="no more",
            measured=f"{buffered.tokens / report.tokens:.2f} times: {buffered.tokens:,.0f} and {report.tokens:,.0f};"
            f" first characters of the right input after {buffered.seen_s:.1f} and {report.seen_s:.1f} s",
            met=buffered.tokens <= report.tokens,
        )
        rows.append(asdict(row))
    return {"tasks": tasks, "found": json.loads(json.dumps(found)), "rows": rows}
