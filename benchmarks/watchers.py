"""A run of 100 events per second with 200 watchers, compared with the same run without one: its timing and losses.

The run is one response with a text in 200 deltas and a tool input in 400, all padded, from a server in another process.
Its watchers are clients of the page's server-sent events, over loopback sockets, in a third process. Or they are tasks
in the run's event loop. The runs alternate. The delay of an event at the consumer counts from the time at which the
server should send it. The event with the smallest delay counts as on time. The delay at a watcher counts from the time
of the record. Up to 50 ms of it are the interval in which deltas are joined.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
import numpy as np
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import HTTPTransport, InputDelta, SSEDecoder, TextDelta
from eagerstream_progress import Hub, RunLog
from eagerstream_progress.web import serve
from eagerstream_testing import Scenario, Timing, retime, tool_use

from .served import served
from .streams import TEXT_FRAGMENT_CHARS, make_input, response
from .targets import Row

WATCHERS: Final = 200
EVENTS: Final = 600
PER_SECOND: Final = 100
PACE: Final = f"{PER_SECOND} events per second"
TARGET: Final = 1.05
FRAGMENT_CHARS: Final = TEXT_FRAGMENT_CHARS  # so the deltas of text and input have the same pace
_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}]}
_START_S: Final = 60.0


def make_scenario(events: int) -> Scenario:
    """Return a scenario with one response in so many deltas, 10 ms apart. A third of them is text."""
    chars = events * 2 // 3 * FRAGMENT_CHARS
    text = json.dumps(make_input("lines", chars), ensure_ascii=False)[:chars]
    whole = response(tool_use("make_file", text, fragment_chars=FRAGMENT_CHARS))
    return Scenario(retime(whole, Timing(tokens_per_second=PER_SECOND * FRAGMENT_CHARS / 4)))


@dataclass(slots=True)
class Watched:
    """Records that one watcher got."""

    deltas: int = 0
    chars: int = 0
    ended: bool = False
    late_s: list[float] = field(default_factory=list)

    def take(self, records: Sequence[dict[str, Any]], began_s: float) -> None:
        """Count the records of a batch that has just arrived."""
        now_s = time.monotonic()
        for record in records:
            if record["type"] in ("text_delta", "input_delta"):
                self.deltas += record.get("count", 1)
                self.chars += len(record["text" if record["type"] == "text_delta" else "fragment"])
                self.late_s.append(now_s - began_s - record.get("to_s", record["at_s"]))
            self.ended = self.ended or record["type"] == "run_stop"


@dataclass(slots=True)
class Took:
    """Figures of one run."""

    duration_s: float
    late_s: list[float]  # of each event, at the consumer of the run
    cpu_s: float  # of the process with the run and the server of the page
    deltas: int = 0
    chars: int = 0
    watched: list[Watched] = field(default_factory=list)


async def _run(address: str, watchers: str) -> Took:
    """Perform one run. `watchers` is `nobody`, `its own loop` or `sockets`."""
    hub = Hub()
    watched: list[Watched] = []
    readers: _Readers | None = None
    async with httpx2.AsyncClient() as client, serve(hub) as server, anyio.create_task_group() as tasks:
        transport = HTTPTransport(base_url=address, http_client=client)
        stream = eagerstream.stream(transport, **_REQUEST)
        if watchers != "nobody":
            began_s = time.monotonic()
            log = hub.observe(stream)
            if watchers == "sockets":
                readers = _Readers(f"{server.base_url}/events?run={log.id}", server.token, began_s)
                await anyio.to_thread.run_sync(readers.wait_until_connected)
            else:
                watched = [Watched() for _ in range(WATCHERS)]
                for one in watched:
                    tasks.start_soon(_watch, log, one, began_s)
        cpu_s = time.process_time()
        arrived: list[float] = []
        chars = 0
        async with stream:
            async for event in stream:
                if isinstance(event, TextDelta | InputDelta):
                    arrived.append(time.monotonic())
                    chars += len(event.text if isinstance(event, TextDelta) else event.fragment)
        duration_s = arrived[-1] - arrived[0]
        cpu_s = time.process_time() - cpu_s
        if readers is not None:
            watched = await anyio.to_thread.run_sync(readers.results)
    after_s = [at_s - number / PER_SECOND for number, at_s in enumerate(arrived)]
    late_s = [at_s - min(after_s) for at_s in after_s]
    return Took(duration_s, late_s, cpu_s, len(arrived), chars, watched)


async def _watch(log: RunLog, watched: Watched, began_s: float) -> None:
    async with log.watch() as watcher:
        async for batch in watcher:
            watched.take(json.loads(batch.json)["records"], began_s)


class _Readers:
    """Watchers over sockets, in another process."""

    def __init__(self, url: str, token: str, began_s: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_read_all, args=(url, token, began_s, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def wait_until_connected(self) -> None:
        """Wait until each watcher has the head of its response.

        Raises:
            RuntimeError: They did not connect.
        """
        if not self._ours.poll(_START_S):
            raise RuntimeError("the watchers did not connect")
        self._ours.recv()

    def results(self) -> list[Watched]:
        """Return the records of each watcher, after all have seen the end.

        Raises:
            RuntimeError: They did not end.
        """
        if not self._ours.poll(_START_S):
            raise RuntimeError("the watchers did not come to an end")
        results: list[Watched] = self._ours.recv()
        self._process.join()
        return results


def _read_all(url: str, token: str, began_s: float, connection: Connection) -> None:
    async def read() -> list[Watched]:
        clients = [await _connect(url, token) for _ in range(WATCHERS)]
        connection.send("connected")
        return await asyncio.gather(*(_read(*client, began_s) for client in clients))

    connection.send(asyncio.run(read()))


async def _connect(url: str, token: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect one client to the stream of a run, as a browser does."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    path = f"{address.path}?{address.query}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head.split(b"\r\n", 1)[0], head
    return reader, writer


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, began_s: float) -> Watched:
    watched = Watched()
    decoder = SSEDecoder()
    while not watched.ended:
        size = int((await reader.readline()).strip(), 16)  # chunked transfer coding
        chunk = await reader.readexactly(size + 2)
        for event in decoder.feed(chunk[:-2]):
            if event.event == "records":
                watched.take(json.loads(event.data)["records"], began_s)
    writer.close()
    return watched


def measure(address: str, repeats: int) -> dict[str, list[Took]]:
    """Perform runs of each kind alternately."""
    kinds: dict[str, list[Took]] = {"nobody": [], "its own loop": [], "sockets": []}
    for _ in range(repeats):
        for watchers, runs in kinds.items():
            runs.append(anyio.run(partial(_run, address, watchers)))
    return kinds


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure with watchers and without, print a table, and return the figures."""
    events = EVENTS // 5 if quick else EVENTS
    with served(partial(make_scenario, events)) as address:
        kinds = measure(address, 1 if quick else 5)
    table = Table(title=f"{events} events, {PER_SECOND} per second, {WATCHERS} watchers")
    for name in ("watchers", "s", "times", "late p50 ms", "p99 ms", "CPU s", "lost", "seen after p50 ms", "p99 ms"):
        table.add_column(name, justify="left" if name == "watchers" else "right")
    alone_s = float(np.median([run.duration_s for run in kinds["nobody"]]))
    figures: dict[str, Any] = {}
    for watchers, runs in kinds.items():
        figure = figures[watchers] = _figures(runs, alone_s)
        assert all(one.ended and one.chars == run.chars for run in runs for one in run.watched)
        assert all(len(run.watched) == (0 if watchers == "nobody" else WATCHERS) for run in runs)
        seen = [str(figure["lost"]), f"{figure['seen_p50_ms']:.0f}", f"{figure['seen_p99_ms']:.0f}"]
        table.add_row(
            watchers,
            *(f"{figure[name]:.3f}" for name in ("duration_s", "ratio")),
            *(f"{figure[name]:.2f}" for name in ("late_p50_ms", "late_p99_ms", "cpu_s")),
            *(seen if watchers != "nobody" else ["", "", ""]),
        )
    console.print(table)
    return {
        **figures,
        "rows": [asdict(_row(figures[watchers], watchers, alone_s)) for watchers in ("its own loop", "sockets")],
    }


def _figures(runs: Sequence[Took], alone_s: float) -> dict[str, Any]:
    duration_s = float(np.median([run.duration_s for run in runs]))
    late_ms = np.percentile([late_s * 1e3 for run in runs for late_s in run.late_s], (50, 99))
    seen_ms = [late_s * 1e3 for run in runs for one in run.watched for late_s in one.late_s] or [0.0]
    return {
        "duration_s": duration_s,
        "ratio": duration_s / alone_s,
        "late_p50_ms": float(late_ms[0]),
        "late_p99_ms": float(late_ms[1]),
        "cpu_s": float(np.median([run.cpu_s for run in runs])),
        "lost": sum(abs(run.deltas - one.deltas) for run in runs for one in run.watched),
        "seen_p50_ms": float(np.percentile(seen_ms, 50)),
        "seen_p99_ms": float(np.percentile(seen_ms, 99)),
    }


def _row(figure: dict[str, Any], watchers: str, alone_s: float) -> Row:
    where = "in its own event loop" if watchers == "its own loop" else "over sockets, by server-sent events"
    return Row(
        work=f"a run of {PER_SECOND} events per second that {WATCHERS} watch {where}",
        against="the same run that nobody watches",
        pace=PACE,
        target=f"its duration at most {TARGET} times, and no event lost",
        measured=f"{figure['ratio']:.3f} times: {figure['duration_s']:.3f} and {alone_s:.3f} s; {figure['lost']} lost,"
        f" seen after {figure['seen_p50_ms']:.0f} ms (p50)",
        met=bool(figure["ratio"] <= TARGET and not figure["lost"]),
    )


if __name__ == "__main__":
    main(Console(), quick=True)
