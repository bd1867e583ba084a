"""Cost of traces: a run over loopback with `instrument` and without, with an SDK and without.

The response has a text and calls a tool with an input in fragments of 16 characters. A third of its characters is text,
and its events are padded. It comes from a server in another process, 16 characters in each millisecond. The second
response ends the run. The figures are the CPU time of this process, user and system. All sides alternate on one
connection, and the median of many short runs counts. The least would not be fair: in the cheapest runs several events
came together by chance. The run without `instrument` is measured twice, as two sides. Their difference shows the noise
of the machine. The others are compared with both together. Noise is two standard errors of that difference of medians.
With an SDK, spans and metrics go to its in-memory exporters.

Without an SDK, `instrument` does its work once for each run. That work is also timed alone. A run of the benchmarks
fails on its share of a run, because the difference of two runs is mostly noise of the machine.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final

import anyio
import httpx2
import numpy as np
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import HTTPTransport, RunStatus
from eagerstream_adapters.otel import instrument
from eagerstream_adapters.otel._instrumentation import tracing
from eagerstream_testing import Scenario, Timing, reply, text, tool_use

from .served import served
from .streams import make_input, response
from .targets import Row

FRAGMENT_CHARS: Final = 16
PACE_S: Final = 0.001
PACE: Final = f"one event per write, {PACE_S * 1e3:g} ms apart"
TARGET: Final = 1.01
_BEGINNINGS: Final = 10_000
_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}]}


def _scenario(chars: int) -> Scenario:
    raw = json.dumps(make_input("lines", chars), ensure_ascii=False)
    call = response(tool_use("make_file", raw, fragment_chars=FRAGMENT_CHARS))
    return Scenario(call, response(text("Done.")), timing=Timing(tokens_per_second=FRAGMENT_CHARS / 4 / PACE_S))


@eagerstream.tool
async def make_file(filename: str, lines_of_text: list[str]) -> str:
    """Write a file."""
    return f"{filename}: {len(lines_of_text)} lines"


async def _run(client: Any) -> None:
    async with eagerstream.run(client, tools=[make_file], **_REQUEST) as run:
        await run.finish()
    assert run.result.status is RunStatus.COMPLETED
    assert [call.is_error for call in run.result.calls] == [False]


@contextmanager
def _instrumented() -> Iterator[None]:
    handle = instrument()
    try:
        yield
    finally:
        handle.uninstrument()


class _SDK:
    """An SDK that is not global, so that the other sides have none."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self._tracers = TracerProvider()
        self._tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._meters = MeterProvider([self.reader])

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Trace the runs within the block, and check their spans."""
        self.exporter.clear()
        with tracing(tracer_provider=self._tracers, meter_provider=self._meters):
            yield
        names = sorted(span.name for span in self.exporter.get_finished_spans())
        assert names == ["chat m", "chat m", "execute_tool make_file", "invoke_agent"], names
        assert self.reader.get_metrics_data() is not None


@dataclass
class Side:
    """CPU seconds of one side in each run."""

    name: str
    traced: Callable[[], AbstractContextManager[None]]
    took_s: list[float] = field(default_factory=list)

    @property
    def cpu_s(self) -> float:
        """Median CPU seconds of a run."""
        return float(np.median(self.took_s))

    async def measure(self, client: Any) -> None:
        """Run once more, and record the time."""
        with self.traced():
            gc.collect()
            start = time.process_time()
            await _run(client)
            self.took_s.append(time.process_time() - start)


async def measure(chars: int, repeats: int) -> list[Side]:
    """Measure all sides: without, without once more, with `instrument` alone, with an SDK."""
    sides = [
        Side("without", nullcontext),
        Side("without, once more", nullcontext),
        Side("instrument, no SDK", _instrumented),
        Side("instrument, an SDK in memory", _SDK().tracing),
    ]
    with served(partial(_scenario, chars)) as url:
        async with httpx2.AsyncClient() as http_client:
            client = HTTPTransport(base_url=url, http_client=http_client)
            for side in sides[1:]:
                with side.traced():
                    await _run(client)  # a warm-up: opens the connection, and loads modules
            for number in range(repeats):
                for side in sides[number % len(sides) :] + sides[: number % len(sides)]:  # no side is always first
                    await side.measure(client)
    return sides


def _beginning_s() -> float:
    """Return the seconds of the work of `instrument` for one run without an SDK."""
    run = eagerstream.run(reply(text("Done.")), **_REQUEST)
    handle = instrument()
    least_s = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(_BEGINNINGS):
            handle.begin(run)
        least_s = min(least_s, time.perf_counter() - start)
    handle.uninstrument()
    return least_s / _BEGINNINGS


def _noise(one: Sequence[float], other: Sequence[float]) -> float:
    """Return two standard errors of the difference of the medians, as a share of the first median.

    The standard error of a median is 1.25 times that of a mean.
    """
    error_s = 1.2533 * float(np.sqrt(np.var(one) / len(one) + np.var(other) / len(other)))
    return 2 * error_s / float(np.median(one))


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all sides, print a table, and return the figures."""
    chars = 1_000
    sides = anyio.run(measure, chars, 20 if quick else 100)
    alone = [*sides[0].took_s, *sides[1].took_s]
    alone_s = float(np.median(alone))
    noise = _noise(alone, sides[2].took_s)
    table = Table(title=f"a run over loopback with an input of {chars:,} characters: CPU of the client's process")
    for name in ("side", "ms", "ratio"):
        table.add_column(name, justify="left" if name == "side" else "right")
    for side in sides:
        table.add_row(side.name, f"{side.cpu_s * 1e3:.1f}", f"{side.cpu_s / alone_s:.3f}")
    beginning_s = _beginning_s()
    console.print(table)
    console.print(f"without an SDK, a run that is entered costs {beginning_s * 1e6:.1f} µs more")
    idle, kept = (side.cpu_s / alone_s for side in sides[2:])
    share = 1 + beginning_s / alone_s
    row = Row(
        work="a run with `instrument`, without an SDK",
        against="the same run without it",
        pace=PACE,
        target=f"CPU at most {TARGET} times, or no difference beyond the noise",
        measured=f"{idle:.3f} times: {sides[2].cpu_s * 1e3:.2f} and {alone_s * 1e3:.2f} ms (noise ±{noise:.3f});"
        f" {beginning_s * 1e6:.1f} µs a run; with an SDK {kept:.3f} times: {sides[3].cpu_s * 1e3:.2f} ms",
        met=idle <= max(TARGET, 1 + noise) and share <= TARGET,
        asserted=share > TARGET,
    )
    figures = [{"name": side.name, "cpu_s": side.cpu_s, "ratio": side.cpu_s / alone_s} for side in sides]
    return {"input_chars": chars, "sides": figures, "beginning_s": beginning_s, "rows": [asdict(row)]}


if __name__ == "__main__":
    main(Console(), quick=True)
