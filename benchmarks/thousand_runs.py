"""1,000 simultaneous runs in one process, compared with `httpx2` alone, which only drains the bytes of the responses.

Every run is the same conversation of three responses: two calls, one call, and the text that ends it. The server is in
another process. It paces its responses, so that all runs are active all the time. It compares each request with the
expected one. Each side works in a fresh process, with as many connections as there are runs. The sides alternate, and
the cheapest repetition counts. CPU is that of the side's process, user and system, from the first request to the last
byte. Memory is the growth of its resident set: from its size after one run to its largest size during the runs.
Fairness is the duration of the slowest run, divided by the median. Ratios are to draining.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import resource
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
from anthropic import AsyncAnthropic
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import HTTPTransport, InputDelta, Restarted, RunStatus, TextDelta
from eagerstream.recordings import Recording
from eagerstream.testing import ReplayServer, Scenario, Timing, reply, retime, text, tool_use

from .targets import Row

RUNS: Final = 1_000
FRAGMENT_CHARS: Final = 16
EVENTS_PER_SECOND: Final = 1_250
"""Rate of all responses together. A process with its own core can process more."""
RUNS_OF_ONE: Final = 100
"""Number of runs that share a client of httpx2. A client scans all its connections at every request."""
TARGET_CPU: Final = 2.5
TARGET_FAIR: Final = 1.25
TARGET_KB: Final = 256
_LINES: Final = 2  # of each input
_TOOL_S: Final = 0.05
_START_S: Final = 60.0
_PATIENCE_S: Final = 300.0
_SPARE_FILES: Final = 200  # in addition to a connection for each run
_HEADERS: Final = {"content-type": "application/json", "anthropic-version": "2023-06-01"}

# --- the conversation -------------------------------------------------------------------------------------------------

_CALLS: Final = (2, 1)
"""Number of calls in each response except the last."""


def _input(run: int, turn: int, call: int) -> dict[str, Any]:
    lines = [
        f"line {number} of run {run}, turn {turn}, call {call}: the water knows the way" for number in range(_LINES)
    ]
    return {"place": f"{run}/{turn}/{call}", "lines": lines}


def _result(input: Mapping[str, Any]) -> str:
    return f"{input['place']}: {sum(map(len, input['lines']))} characters"


def _text(run: int) -> str:
    return f"Run {run} is done. " * 8


def _reply(run: int, turn: int) -> Recording:
    id = f"msg_{run}_{turn}"
    if turn == len(_CALLS):
        return reply(text(_text(run), fragment_chars=FRAGMENT_CHARS), message_id=id)
    inputs = (_input(run, turn, call) for call in range(_CALLS[turn]))
    calls = (tool_use("keep", input, fragment_chars=FRAGMENT_CHARS) for input in inputs)
    return reply(*calls, message_id=id)


@cache
def events_of_a_run() -> int:
    """Return the number of server-sent events in the responses of a run."""
    return sum(_reply(0, turn).body.count(b"\n\n") for turn in range(len(_CALLS) + 1))


def _request(run: int) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": f"{run}"}]}


def _said(run: int, turn: int) -> list[tuple[Any, ...]]:
    """Return the expected history of the request of this turn: the input and the result of each call."""
    said: list[tuple[Any, ...]] = []
    for before in range(turn):
        inputs = [_input(run, before, call) for call in range(_CALLS[before])]
        said += [("tool_use", input) for input in inputs]
        said += [("tool_result", _result(input)) for input in inputs]
    return said


# --- the server -------------------------------------------------------------------------------------------------------


class _Asked:
    """Answers to the requests of each run. It counts the requests, and records their faults."""

    def __init__(self, runs: int) -> None:
        self.counts: Counter[tuple[int, int]] = Counter()
        self.faults: list[str] = []
        # `Timing` counts four characters as a token.
        timing = Timing(tokens_per_second=EVENTS_PER_SECOND / runs * FRAGMENT_CHARS / 4)
        turns = range(len(_CALLS) + 1)
        self._replies = {(run, turn): retime(_reply(run, turn), timing) for run in range(runs + 1) for turn in turns}

    def answer(self, request: Mapping[str, Any]) -> Recording:
        """Return the next response of the conversation."""
        first, *rest = request["messages"]
        run, turn = int(first["content"]), len(rest) // 2
        self.counts[run, turn] += 1
        blocks = [block for message in rest for block in message["content"]]
        said = [(block["type"], block.get("input") or _told(block.get("content"))) for block in blocks]
        if said != _said(run, turn):
            self.faults.append(f"run {run} asked for turn {turn} with a wrong history")
        return self._replies[run, turn]


def _told(content: Any) -> Any:
    return content[0]["text"] if isinstance(content, list) else content


@dataclass(frozen=True)
class Asked:
    """Requests that the server got: their number for each run and turn, and their faults."""

    counts: Counter[tuple[int, int]]
    faults: list[str]

    def missing(self, runs: int, restarts: int) -> list[str]:
        """Return the faults: wrong requests, missing ones, and more repeated ones than lost connections explain."""
        expected = Counter((run, turn) for run in range(runs + 1) for turn in range(len(_CALLS) + 1))
        wrong = [f"run {run}, turn {turn}: not asked for" for run, turn in expected - self.counts]
        more = self.counts - expected
        if more.total() > restarts:
            wrong += [f"run {run}, turn {turn}: asked for {more[run, turn]} times more" for run, turn in more]
        return self.faults + wrong


class Server:
    """Server in its own process."""

    def __init__(self, connection: Connection, url: str) -> None:
        self._connection = connection
        self.url = url

    def asked(self) -> Asked:
        """Return the requests since the last call."""
        self._connection.send("asked")
        asked: Asked = self._connection.recv()
        return asked


@contextmanager
def served(runs: int) -> Iterator[Server]:
    """Run a server that has the responses of so many runs."""
    ours, process = _spawn(_serve, runs)
    try:
        yield Server(ours, _receive(ours, _START_S))
    finally:
        ours.close()  # signals the server to stop
        process.join()


def _serve(connection: Connection, runs: int) -> None:
    _allow_files(runs)
    asked = _Asked(runs)
    with ReplayServer(Scenario.of(asked.answer), buffer_inputs=False) as server:
        connection.send(server.base_url)
        try:
            while connection.recv():
                connection.send(Asked(asked.counts, asked.faults))
                asked.counts, asked.faults = Counter(), []
        except EOFError:
            pass


def _spawn(work: Callable[..., None], *arguments: Any) -> tuple[Connection, Any]:
    context = multiprocessing.get_context("spawn")  # a fork would copy the event loop's state
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _receive(connection: Connection, patience_s: float) -> Any:
    if not connection.poll(patience_s):
        raise RuntimeError("the other process has not answered")
    received = connection.recv()
    if isinstance(received, Exception):
        raise received
    return received


def _allow_files(runs: int) -> None:
    """Raise the limit of open files. Each connection is a file, and systems allow about 1,000 by default.

    Raises:
        RuntimeError: The hard limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = runs + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise RuntimeError(f"{needed} open files are needed, and the system allows {hard} (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


# --- the sides --------------------------------------------------------------------------------------------------------


@dataclass
class Took:
    """Costs of one side for all runs.

    Attributes:
        name: Name of the side.
        cpu_s: CPU seconds of its process.
        durations_s: Duration of each run.
        chunks: Number of chunks on its connections.
        rss_before: Resident bytes before the runs.
        rss_peak: Largest number of resident bytes during the runs.
        restarts: Number of lost connections whose response was requested again.
        faults: Lost, repeated or wrong things.
    """

    name: str
    cpu_s: float
    durations_s: list[float]
    chunks: int
    rss_before: int
    rss_peak: int
    restarts: int
    faults: list[str] = field(default_factory=list)

    @property
    def unfairness(self) -> float:
        """Duration of the slowest run, divided by the median."""
        ordered = sorted(self.durations_s)
        return ordered[-1] / ordered[len(ordered) // 2]

    @property
    def bytes_per_run(self) -> float:
        return (self.rss_peak - self.rss_before) / len(self.durations_s)


class _Counted(httpx2.AsyncByteStream):
    """A body that counts its chunks."""

    def __init__(self, body: Any, transport: _Counting) -> None:
        self._body = body
        self._transport = transport

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            self._transport.chunks += 1
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


class _Counting(httpx2.AsyncHTTPTransport):
    """Connections that count their chunks."""

    def __init__(self, connections: int) -> None:
        super().__init__(limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections))
        self.chunks = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        response.stream = _Counted(response.stream, self)
        return response


class Clients:
    """Clients of httpx2, each for `runs_of_one` runs."""

    def __init__(self, runs_of_one: int) -> None:
        self._runs_of_one = runs_of_one
        self._clients: list[httpx2.AsyncClient] = []
        self._transports: list[_Counting] = []

    def of(self, run: int) -> httpx2.AsyncClient:
        """Return the client of a run."""
        number = run // self._runs_of_one
        while len(self._clients) <= number:
            self._transports.append(_Counting(self._runs_of_one + 1))
            self._clients.append(httpx2.AsyncClient(transport=self._transports[-1], timeout=_PATIENCE_S))
        return self._clients[number]

    @property
    def chunks(self) -> int:
        """Number of chunks on all connections."""
        return sum(transport.chunks for transport in self._transports)

    async def aclose(self) -> None:
        """Close all clients."""
        for client in self._clients:
            await client.aclose()


@dataclass
class Told:
    """Result of one run: its faults, and the number of lost connections whose response was requested again."""

    faults: list[str] = field(default_factory=list)
    restarts: int = 0


Converse = Callable[[int], Awaitable[Told]]
"""Function that performs one run, by its number."""


def _draining(clients: Clients, url: str) -> Converse:
    async def drain(run: int) -> Told:
        client = clients.of(run)
        messages = _request(run)["messages"]
        for turn in range(len(_CALLS) + 1):
            if turn:
                messages += _history(run, turn - 1)
            body = json.dumps({**_request(run), "stream": True, "messages": messages})
            async with client.stream("POST", f"{url}/v1/messages", content=body, headers=_HEADERS) as response:
                assert response.status_code == 200
                async for _ in response.aiter_raw():
                    pass
        return Told()

    return drain


def _history(run: int, turn: int) -> list[dict[str, Any]]:
    inputs = {f"toolu_{run}_{turn}_{call}": _input(run, turn, call) for call in range(_CALLS[turn])}
    calls = [{"type": "tool_use", "id": id, "name": "keep", "input": input} for id, input in inputs.items()]
    results = [{"type": "tool_result", "tool_use_id": id, "content": _result(input)} for id, input in inputs.items()]
    return [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]


_EXPECTED_EVENTS: Final = Counter(
    TurnStart=len(_CALLS) + 1,
    TurnStop=len(_CALLS) + 1,
    MessageStart=len(_CALLS) + 1,
    MessageStop=len(_CALLS) + 1,
    BlockStart=1,
    BlockStop=1,
    **dict.fromkeys(("InputStart", "InputStop", "ToolStart", "ToolStop"), sum(_CALLS)),
)


_kept: dict[int, list[dict[str, Any]]] = defaultdict(list)


@eagerstream.tool(name="keep")
async def _keep(place: str, lines: list[str]) -> str:
    """Keep some lines."""
    input = {"place": place, "lines": lines}
    _kept[int(place.partition("/")[0])].append(input)
    await anyio.sleep(_TOOL_S)
    return _result(input)


def _running(client_of: Callable[[Clients, str, int], Any], clients: Clients, url: str) -> Converse:
    async def converse(run: int) -> Told:
        events: Counter[str] = Counter()
        chars: Counter[str] = Counter()
        restarts = 0
        async with eagerstream.run(client_of(clients, url, run), tools=[_keep], **_request(run)) as running:
            async for event in running:
                match event:
                    case InputDelta(input=input, fragment=fragment):
                        chars[input.id] += len(fragment)
                    case TextDelta(text=piece):
                        chars["text"] += len(piece)
                    case Restarted():  # the connection was lost: the response starts again
                        restarts += 1
                    case _:
                        events[type(event).__name__] += 1
        result = running.result
        inputs = [_input(run, turn, call) for turn, calls in enumerate(_CALLS) for call in range(calls)]
        written = [len(json.dumps(input, ensure_ascii=False)) for input in inputs]
        checks = {
            "status": result.status is RunStatus.COMPLETED,
            "events": restarts > 0 or events == _EXPECTED_EVENTS,
            "deltas": restarts > 0 or sorted(chars.values()) == sorted([*written, len(_text(run))]),
            "tools": sorted(_kept[run], key=str) == sorted(inputs, key=str),
            "results": [call.result["content"] for call in result.calls if call.ran and call.result]
            == [*map(_result, inputs)],
            "text": result.text == _text(run),
        }
        wrong = [f"run {run}: {name} not as they should be" for name, is_right in checks.items() if not is_right]
        return Told(wrong, restarts)

    return converse


def _streaming(clients: Clients, url: str) -> Converse:
    """Return a conversation with the anthropic package's `messages.stream()`. Tools run at the end of a response."""

    async def converse(run: int) -> Told:
        anthropic = _anthropic(clients, url, run)
        request = _request(run)
        while True:
            async with anthropic.messages.stream(**request) as stream:
                async for _ in stream:
                    pass
                message = await stream.get_final_message()
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                return Told()
            await anyio.sleep(_TOOL_S)
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": _result(call.input)} for call in calls
            ]
            said = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input} for call in calls]
            request["messages"] += [{"role": "assistant", "content": said}, {"role": "user", "content": results}]

    return converse


def _transport(clients: Clients, url: str, run: int) -> HTTPTransport:
    return HTTPTransport(base_url=url, http_client=clients.of(run))


@cache
def _own(_: Clients, url: str, __: int = 0) -> HTTPTransport:
    return HTTPTransport(base_url=url)


def _anthropic(clients: Clients, url: str, run: int) -> AsyncAnthropic:
    return _anthropic_of(clients.of(run), url)


@cache
def _anthropic_of(client: httpx2.AsyncClient, url: str) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=url, api_key="k", http_client=client)


@dataclass(frozen=True)
class Side:
    """A way to receive the responses.

    Attributes:
        begin: Gets the clients and the address of the server. Returns the function that performs one run.
        runs_of_one: Number of runs that share a client. None for all.
    """

    begin: Callable[[Clients, str], Converse]
    runs_of_one: int | None = RUNS_OF_ONE


DRAIN: Final = "httpx2 alone"
RUN: Final = "run, HTTPTransport"
SIDES: Final[Mapping[str, Side]] = {
    DRAIN: Side(_draining),
    RUN: Side(partial(_running, _transport)),
    "run, HTTPTransport with a client of its own": Side(partial(_running, lambda clients, url, _: _own(clients, url))),
    "run, AsyncAnthropic": Side(partial(_running, _anthropic)),
    "messages.stream() of anthropic": Side(_streaming),
    "run, HTTPTransport, one client": Side(partial(_running, _transport), None),
}


def take(name: str, url: str, runs: int) -> Took:
    """Perform all runs by one side, in a new process."""
    ours, process = _spawn(_work, name, url, runs)
    took: Took = _receive(ours, _PATIENCE_S)
    process.join()
    return took


def _work(connection: Connection, name: str, url: str, runs: int) -> None:
    try:
        connection.send(anyio.run(_take, name, url, runs))
    except Exception as error:
        connection.send(RuntimeError(f"{name}: {''.join(traceback.format_exception(error))}"))


async def _take(name: str, url: str, runs: int) -> Took:
    _allow_files(runs)
    side = SIDES[name]
    clients = Clients(side.runs_of_one or runs + 1)
    converse = side.begin(clients, url)
    durations_s: list[float] = []
    faults: list[str] = []
    restarts = 0

    async def one(run: int, after_s: float = 0.0) -> None:
        await anyio.sleep(after_s)
        nonlocal restarts
        start = time.monotonic()
        told = await converse(run)
        faults.extend(told.faults)
        restarts += told.restarts
        durations_s.append(time.monotonic() - start)

    try:
        await one(runs)  # a warm-up: it loads modules, but opens no connections of the runs
        spread_s, durations_s[:] = durations_s[0] / 3, []
        chunks = clients.chunks
        gc.collect()
        resident = _Resident()
        start = time.process_time()
        with resident:
            async with anyio.create_task_group() as tasks:
                for run in range(runs):
                    tasks.start_soon(one, run, spread_s * run / runs)
        cpu_s = time.process_time() - start - resident.cpu_s
        chunks = clients.chunks - chunks
    finally:
        await clients.aclose()
    return Took(name, cpu_s, durations_s, chunks, resident.before, resident.peak, restarts, faults)


class _Resident:
    """Resident set of this process. A thread reads it ten times per second."""

    def __init__(self) -> None:
        self.before = self.peak = _resident()
        self.cpu_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.1):
            self.peak = max(self.peak, _resident())
        self.cpu_s = time.thread_time()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


# --- the results ------------------------------------------------------------------------------------------------------


def measure(runs: int, repeats: int, names: Sequence[str]) -> list[Took]:
    """Return the repetition with the least CPU, for each side.

    Raises:
        AssertionError: Something was lost, repeated or wrong.
    """
    best: dict[str, Took] = {}
    with served(runs) as server:
        for _ in range(repeats):
            for name in names:
                took = take(name, server.url, runs)
                faults = [*took.faults, *server.asked().missing(runs, took.restarts)]
                assert not faults, f"{name}: {len(faults)} faults, {faults[:5]}"
                assert len(took.durations_s) == runs
                if name not in best or took.cpu_s < best[name].cpu_s:
                    best[name] = took
    return list(best.values())


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all sides, print a table, and return the figures."""
    runs = RUNS // 10 if quick else RUNS
    names = list(SIDES)[:3] if quick else list(SIDES)
    sides = measure(runs, 1 if quick else 2, names)
    events = runs * events_of_a_run()
    floor = min(side.cpu_s for side in sides if side.name.startswith(DRAIN))
    table = Table(title=f"{runs:,} runs at once, {events:,} events in {3 * runs:,} responses; nothing was lost")
    for name in ("side", "CPU s", "µs per event", "ratio", "KB per run", "median s", "slowest s", "times", "restarts"):
        table.add_column(name, justify="left" if name == "side" else "right")
    figures: list[dict[str, Any]] = []
    for side in sides:
        ordered = sorted(side.durations_s)
        figure = {
            "cpu_s": side.cpu_s,
            "us_per_event": side.cpu_s / events * 1e6,
            "ratio": side.cpu_s / floor,
            "kb_per_run": side.bytes_per_run / 1024,
            "median_s": ordered[len(ordered) // 2],
            "slowest_s": ordered[-1],
            "unfairness": side.unfairness,
        }
        digits = (1, 0, 2, 0, 1, 1, 3)
        cells = (f"{value:.{count}f}" for value, count in zip(figure.values(), digits, strict=True))
        table.add_row(side.name, *cells, str(side.restarts))
        figures.append(
            {"name": side.name, "restarts": side.restarts, "chunks": side.chunks, "rss_peak": side.rss_peak, **figure}
        )
    console.print(table)
    run = next(figure for figure in figures if figure["name"] == RUN)
    work = f"{runs:,} runs at once in one process"
    rows = [
        Row(
            work=work,
            against="draining the same bytes with httpx2 alone",
            target=f"CPU at most {TARGET_CPU} times",
            measured=f"{run['ratio']:.2f} times",
            met=run["ratio"] <= TARGET_CPU,
        ),
        Row(
            work=work,
            against="the median of them",
            target=f"the slowest takes at most {TARGET_FAIR} times as long",
            measured=f"{run['unfairness']:.3f} times",
            met=run["unfairness"] <= TARGET_FAIR,
            asserted=False,
        ),
        Row(
            work=work,
            against="none",
            target=f"at most {TARGET_KB} KB of memory for each, and nothing lost",
            measured=f"{run['kb_per_run']:.0f} KB, nothing lost",
            met=run["kb_per_run"] <= TARGET_KB,
        ),
    ]
    return {"runs": runs, "events": events, "sides": figures, "rows": [asdict(row) for row in rows]}


if __name__ == "__main__":
    main(Console(), quick=True)
