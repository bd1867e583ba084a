"""Time saved by early start in a framework: one paced scenario, alternately with the framework alone and with us.

The first response has three short calls, and a call with a long array. It is written at 50 tokens per second, in padded
events. There is no text before the calls, which would add the same seconds to both sides. The second response ends the
run.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final

import anyio
from rich.console import Console

from eagerstream_testing import Scenario, Timing, reply, text, tool_use

from ..streams import padded

MODULES: Final = ("langgraph", "pydantic_ai", "openai", "mcp", "claude_agent_sdk")
_PATIENCE_S: Final = 300.0
TOOL_S = 0.4
TOKENS_PER_SECOND = 50
PACE = f"at the pace of a model, {TOKENS_PER_SECOND} tokens per second"
LINES = [f"line {number} of a text that is written while it is read" for number in range(12)]
CITIES = ["Oslo", "Lima", "Vienna"]


@dataclass
class Course:
    """Events of one run, in order, with their times in seconds from its request."""

    started_s: float = field(default_factory=perf_counter)
    events: list[tuple[str, float]] = field(default_factory=list)

    def note(self, what: str) -> None:
        self.events.append((what, perf_counter() - self.started_s))

    def at(self, what: str) -> float:
        """Return the time of the first event of this name."""
        return next(at_s for name, at_s in self.events if name == what)

    def place(self, what: str) -> int:
        """Return the index of the first event of this name."""
        return [name for name, _ in self.events].index(what)


Side = Callable[[Course], Awaitable[None]]
"""One run. It notes `effect` at the first effect of a tool, `last byte` of the response with the calls, `results` when
all results are complete, and `end`."""


def scenario(tokens_per_second: float = TOKENS_PER_SECOND, lines: int = len(LINES)) -> Scenario:
    """Return a scenario with three calls and a tool over a long array in one response, then the answer."""
    calls = [tool_use("get_weather", {"city": city}) for city in CITIES]
    long = tool_use("write", {"lines": LINES[:lines]})
    replies = padded(reply(*calls, long)), padded(reply(text("Done.")))
    return Scenario(*replies, timing=Timing(tokens_per_second=tokens_per_second))


async def compare(alone: Side, early: Side, *, repeats: int) -> tuple[list[Course], list[Course]]:
    """Run both sides alternately, and return their courses."""
    courses: tuple[list[Course], list[Course]] = ([], [])
    for number in range(2 * repeats):
        course = Course()
        await (alone, early)[number % 2](course)
        courses[number % 2].append(course)
    return courses


def row(name: str, courses: tuple[list[Course], list[Course]]) -> str:
    """Return a row of a Markdown table: for each mark, the median seconds alone and with us, and their ratio."""
    cells = [name]
    for mark in ("effect", "results", "end"):
        alone, early = (statistics.median(course.at(mark) for course in side) for side in courses)
        cells.append(f"{alone:.2f} s / {early:.2f} s ({alone / early:.1f} times)")
    return f"| {' | '.join(cells)} |"


HEAD = """\
| framework, alone / with eagerstream | to a tool's first effect | to all results | to the end |
| --- | --- | --- | --- |"""


def measure(name: str, alone: Side, early: Side, *, repeats: int) -> None:
    """Measure one framework, and print its table."""

    async def both() -> tuple[list[Course], list[Course]]:
        return await compare(alone, early, repeats=repeats)

    print(f"{HEAD}\n{row(name, anyio.run(both))}")


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure each framework in a new process: `python -m benchmarks.frameworks.NAME`.

    Raises:
        RuntimeError: A process failed.
    """
    modules = MODULES[:1] if quick else MODULES
    rows = []
    for module in modules:
        command = [sys.executable, "-m", f"{__name__}.{module}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{module}: {done.stderr[-2_000:]}")
        rows += [line for line in done.stdout.splitlines() if line.startswith("| ") and line not in HEAD]
    console.print("\n".join((HEAD, *rows)), highlight=False, soft_wrap=True)
    return {"pace": PACE, "table": rows}
