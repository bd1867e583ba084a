"""Accuracy of `run.latency` on a response with known gaps, and the cost of its marks.

A server in another process plays a response at irregular, known times. It has a text, a third of its characters, and a
tool's input in 160 fragments. All its events are padded. The run of a client in this process records their arrival. The
benchmark compares the gaps between fragments, and each mark's time since the first byte, with the played ones. The cost
is the CPU time of a run, user and system, compared with the same run whose marks do nothing. The runs alternate, and
the least of the repetitions counts. There are two cases:

- `in chunks of its own`: over loopback, one millisecond for each 16 characters, which are a fragment of the input.
- `at once`: played in this process, all events in one large chunk. The run waits for nothing else, so the share of the
  marks is the largest possible.
"""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import anyio
import httpx2
import numpy as np
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import HTTPTransport, Recording, RunStatus
from eagerstream.loop import RunLatency, RunMarks
from eagerstream.recordings import Chunk
from eagerstream.streaming import ReplyMarks
from eagerstream_testing import Scenario, Timing, text, tool_use

from .served import served
from .streams import make_input, response
from .targets import Row

FRAGMENTS: Final = 160
FRAGMENT_CHARS: Final = 16
TARGET_MS: Final = 2.0
TARGET_RATIO: Final = 1.02
PACE_S: Final = 0.001
PACE: Final = "one event per write, 1 to 40 ms apart"
_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}]}


def _input_text(chars: int) -> str:
    return json.dumps(make_input("lines", chars), ensure_ascii=False)


def _call(chars: int) -> Recording:
    return response(tool_use("make_file", _input_text(chars), fragment_chars=FRAGMENT_CHARS))


def known_reply(fragments: int) -> Recording:
    """Return a response whose chunks arrive at irregular times: 1 to 40 ms apart."""
    gaps = random.Random("gaps")
    at_s = 0.3
    timed = []
    for chunk in _call(fragments * FRAGMENT_CHARS).chunks:
        timed.append(Chunk(at_s, chunk.data))
        at_s += gaps.uniform(0.001, 0.04)
    return Recording(tuple(timed))


def _done() -> Recording:
    return response(text("Done."), message_id="msg_done")


def _known_scenario(fragments: int) -> Scenario:
    return Scenario(known_reply(fragments), _done())


def _paced_scenario(chars: int) -> Scenario:
    return Scenario(_call(chars), _done(), timing=Timing(tokens_per_second=FRAGMENT_CHARS / 4 / PACE_S))


@eagerstream.tool
async def make_file(filename: str, lines_of_text: list[str]) -> str:
    """Write a file."""
    return f"{filename}: {len(lines_of_text)} lines"


async def _run(client: Any) -> RunLatency:
    async with eagerstream.run(client, tools=[make_file], **_REQUEST) as run:
        await run.finish()
    assert run.result.status is RunStatus.COMPLETED
    return run.latency


def _is_fragment(data: bytes) -> bool:
    return b'"partial_json":' in data and b'"partial_json":""' not in data


# --- the figures ------------------------------------------------------------------------------------------------------


def errors_ms(known: Recording, latency: RunLatency) -> tuple[list[float], list[float]]:
    """Return the errors of the gaps between fragments, and of the times since the first byte, in milliseconds."""
    request = latency.to_dict(arrivals=True)["requests"][0]
    _, block = request["blocks"]  # the text, and the call
    arrivals = [at_s for at_s, count, _ in block["arrivals"] for _ in range(count)]
    chunks = [chunk.at_s for chunk in known.chunks]
    played = [chunk.at_s for chunk in known.chunks if _is_fragment(chunk.data)]
    assert len(arrivals) == len(played) == block["fragments"]
    first_s = request["first_byte_s"]
    stop_s, message_stop_s = block["stop_s"], request["message_stop_s"]
    assert first_s is not None
    assert stop_s is not None
    assert message_stop_s is not None
    gaps = np.abs(np.diff(arrivals) - np.diff(played)) * 1e3
    told = np.array([*arrivals, stop_s, message_stop_s]) - first_s
    due = np.array([*played, chunks[-3], chunks[-1]]) - chunks[0]
    return [*map(float, gaps)], [*map(float, np.abs(told - due) * 1e3)]


async def _known(address: str, known: Recording, repeats: int) -> tuple[list[float], list[float]]:
    gaps_ms: list[float] = []
    marks_ms: list[float] = []
    async with httpx2.AsyncClient() as client:
        transport = HTTPTransport(base_url=address, http_client=client)
        for _ in range(repeats):
            gaps, marks = errors_ms(known, await _run(transport))
            gaps_ms += gaps
            marks_ms += marks
    return gaps_ms, marks_ms


# --- the cost ---------------------------------------------------------------------------------------------------------


def _nothing(*_: object, **__: object) -> None: ...


@contextmanager
def without_marks() -> Iterator[None]:
    """Turn off the marks of responses and runs within the block."""
    of_both = ("sending", "opened", "take", "ended", "end")
    of_calls = ("call_admitted", "call_started", "call_progressed", "call_ended")
    with ExitStack() as stack:
        for marks, names in ((RunMarks, (*of_both, "accepted", "settle", *of_calls)), (ReplyMarks, of_both)):
            for name in names:
                stack.enter_context(patch.object(marks, name, _nothing))
        yield


async def _cpu_s(client: Any, *, marks: bool) -> float:
    gc.collect()
    gc.disable()
    try:
        start_s = time.process_time()
        if marks:
            await _run(client)
        else:
            with without_marks():
                await _run(client)
        return time.process_time() - start_s
    finally:
        gc.enable()


async def _ratio(client: Any, repeats: int) -> tuple[float, float, float]:
    """Return the least CPU seconds with marks and without, and their ratio."""
    await _run(client)
    took: dict[bool, list[float]] = {True: [], False: []}
    for number in range(repeats):
        for marks in (True, False) if number % 2 else (False, True):
            took[marks].append(await _cpu_s(client, marks=marks))
    with_s, without_s = min(took[True]), min(took[False])
    return with_s, without_s, with_s / without_s


async def _over_loopback(address: str, repeats: int) -> tuple[float, float, float]:
    async with httpx2.AsyncClient() as client:
        return await _ratio(HTTPTransport(base_url=address, http_client=client), repeats)


class _AtOnce(eagerstream.transports.Transport):
    """Transport that plays a scenario in this process."""

    def __init__(self, make_scenario: Callable[[], Scenario]) -> None:
        self._scenario = make_scenario()

    def open(self, request: Any, limits: Any) -> Any:
        from eagerstream.transports import as_transport

        return as_transport(self._scenario.answer(request)).open(request, limits)


def _instant_scenario(chars: int) -> Scenario:
    return Scenario(*(Recording.from_body(each.body) for each in (_call(chars), _done())))


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure both, print the tables, and return the figures."""
    fragments = FRAGMENTS // 4 if quick else FRAGMENTS
    known = known_reply(fragments)
    with served(partial(_known_scenario, fragments)) as address:
        gaps_ms, marks_ms = anyio.run(_known, address, known, 1 if quick else 3)
    table = Table(title=f"run.latency compared with the played times: {len(gaps_ms)} gaps, |difference| in ms")
    for name in ("item", "p50", "p90", "p99"):
        table.add_column(name, justify="left" if name == "item" else "right")
    figures: dict[str, Any] = {}
    for name, values in (("gap between two fragments", gaps_ms), ("mark since the first byte", marks_ms)):
        quantiles = figures[name] = [float(value) for value in np.percentile(values, (50, 90, 99))]
        table.add_row(name, *(f"{value:.2f}" for value in quantiles))
    console.print(table)

    chars, repeats = (20_000, 6) if quick else (40_000, 12)
    with served(partial(_paced_scenario, chars)) as address:
        paced = anyio.run(_over_loopback, address, repeats)
    at_once = anyio.run(_ratio, _AtOnce(partial(_instant_scenario, 10 * chars)), 4 * repeats)
    table = Table(title="CPU of a run with its marks, and with marks that do nothing")
    for name in ("events", "with, ms", "without, ms", "ratio"):
        table.add_column(name, justify="left" if name == "events" else "right")
    for name, (with_s, without_s, ratio) in (("in chunks of its own", paced), ("at once", at_once)):
        table.add_row(name, f"{with_s * 1e3:.1f}", f"{without_s * 1e3:.1f}", f"{ratio:.3f}")
        figures[name] = {"with_s": with_s, "without_s": without_s, "ratio": ratio}
    console.print(table)
    rows = [_row(name, figures[name][0]) for name in ("gap between two fragments", "mark since the first byte")]
    rows.append(
        Row(
            work="the marks of a run over loopback, each event in a chunk of its own",
            against="the same run, its marks do nothing",
            pace=f"one event per write, {PACE_S * 1e3:g} ms apart",
            target=f"CPU at most {TARGET_RATIO} times",
            measured=f"{_both(paced)}; all events at once {_both(at_once)}",
            met=paced[2] <= TARGET_RATIO,
        )
    )
    return {**figures, "rows": [asdict(row) for row in rows]}


def _both(sides: tuple[float, float, float]) -> str:
    with_s, without_s, ratio = sides
    return f"{ratio:.3f} times, {with_s * 1e3:.0f} and {without_s * 1e3:.0f} ms"


def _row(name: str, p50_ms: float) -> Row:
    return Row(
        work=f"run.latency: {name}",
        against="the times at which a server in another process played it",
        pace=PACE,
        target=f"within {TARGET_MS:g} ms at the median",
        measured=f"{p50_ms:.2f} ms",
        met=p50_ms <= TARGET_MS,
    )


if __name__ == "__main__":
    main(Console(), quick=True)
