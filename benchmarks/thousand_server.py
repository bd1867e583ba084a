"""The conversations of `thousand_runs`, and the server that has its side of them, in a process of its own."""

from __future__ import annotations

import multiprocessing
import resource
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from typing import Any, Final

from eagerstream.recordings import Recording
from eagerstream_testing import Scripted, text, tool_use

from .paced_server import listen
from .streams import TEXT_FRAGMENT_CHARS, response, text_before

FRAGMENT_CHARS: Final = 16
EVENTS_PER_SECOND: Final = 2_000
"""Rate of all responses together. A process with its own core can process more."""
_LINES: Final = 2  # of each input
_START_S: Final = 60.0
_FILES_OF_A_RUN: Final = 2  # for the server: a connection, and the counter of its unread bytes
_SPARE_FILES: Final = 200

CALLS: Final = (2, 1)
"""Number of calls in each response except the last."""


def input_of(run: int, turn: int, call: int) -> dict[str, Any]:
    lines = [
        f"line {number} of run {run}, turn {turn}, call {call}: the water knows the way" for number in range(_LINES)
    ]
    return {"place": f"{run}/{turn}/{call}", "lines": lines}


def result_of(input: Mapping[str, Any]) -> str:
    return f"{input['place']}: {sum(map(len, input['lines']))} characters"


def text_of(run: int, turn: int) -> str:
    """Return the text of a response: the one before its calls, or the one that ends the run."""
    return text_before(*_calls(run, turn)) if turn < len(CALLS) else f"Run {run} is done. " * 8


def _calls(run: int, turn: int) -> list[Scripted]:
    inputs = (input_of(run, turn, call) for call in range(CALLS[turn]))
    return [tool_use("keep", input, fragment_chars=FRAGMENT_CHARS) for input in inputs]


def _response(run: int, turn: int) -> Recording:
    id = f"msg_{run}_{turn}"
    if turn == len(CALLS):
        return response(text(text_of(run, turn), fragment_chars=TEXT_FRAGMENT_CHARS), message_id=id)
    return response(*_calls(run, turn), message_id=id)


@cache
def events_of_a_run() -> int:
    """Return the number of server-sent events in the responses of a run."""
    return sum(len(_response(0, turn).chunks) for turn in range(len(CALLS) + 1))


def request_of(run: int) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": f"{run}"}]}


def _said(run: int, turn: int) -> list[tuple[Any, ...]]:
    """Return the expected history of the request of this turn: each text, and the input and the result of each call."""
    said: list[tuple[Any, ...]] = []
    for before in range(turn):
        inputs = [input_of(run, before, call) for call in range(CALLS[before])]
        said += [("text", text_of(run, before)), *(("tool_use", input) for input in inputs)]
        said += [("tool_result", result_of(input)) for input in inputs]
    return said


class _Asked:
    """Answers to the requests of each run. It counts the requests, and records their faults."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[int, int]] = Counter()
        self.faults: list[str] = []

    def answer(self, request: Mapping[str, Any]) -> list[bytes]:
        """Return the events of the next response of the conversation."""
        first, *rest = request["messages"]
        run, turn = int(first["content"]), len(rest) // 2
        self.counts[run, turn] += 1
        blocks = [block for message in rest for block in message["content"]]
        said = [(block["type"], _told(block)) for block in blocks]
        if said != _said(run, turn):
            self.faults.append(f"run {run} asked for turn {turn} with a wrong history")
        return [chunk.data for chunk in _response(run, turn).chunks]


def _told(block: Mapping[str, Any]) -> Any:
    """Return the text, the input, or the text of the result in a block."""
    if block["type"] != "tool_result":
        return block["text" if block["type"] == "text" else "input"]
    content = block["content"]
    return content[0]["text"] if isinstance(content, list) else content


@dataclass(frozen=True)
class Asked:
    """Requests that the server got: their number for each run and turn, and their faults."""

    counts: Counter[tuple[int, int]]
    faults: list[str]

    def missing(self, runs: int, restarts: int) -> list[str]:
        """Return the faults: wrong requests, missing ones, and more repeated ones than lost connections explain."""
        expected = Counter((run, turn) for run in range(runs + 1) for turn in range(len(CALLS) + 1))
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
    ours, process = spawn(_serve, runs)
    try:
        yield Server(ours, receive(ours, _START_S))
    finally:
        ours.close()  # signals the server to stop
        process.join()


def _serve(connection: Connection, runs: int) -> None:
    allow_files(runs)
    asked = _Asked()
    port = listen(asked.answer, pace_s=runs / EVENTS_PER_SECOND)
    connection.send(f"http://127.0.0.1:{port}")
    with suppress(EOFError):
        while connection.recv():
            connection.send(Asked(asked.counts, asked.faults))
            asked.counts, asked.faults = Counter(), []


def spawn(work: Callable[..., None], *arguments: Any) -> tuple[Connection, Any]:
    context = multiprocessing.get_context("spawn")  # a fork would copy the event loop's state
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def receive(connection: Connection, patience_s: float) -> Any:
    if not connection.poll(patience_s):
        raise RuntimeError("the other process has not answered")
    received = connection.recv()
    if isinstance(received, Exception):
        raise received
    return received


def allow_files(runs: int) -> None:
    """Raise the limit of open files. Systems allow about 1,000 by default.

    Raises:
        RuntimeError: The hard limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = runs * _FILES_OF_A_RUN + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise RuntimeError(f"{needed} open files are needed, and the system allows {hard} (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
