"""Worker process: reads frames from its standard input, runs tools, and writes frames to its standard output.

Output printed by tools goes to standard error. The worker ends with the process that started it. If it notices the end
of that process, it ends by itself. If a tool holds the interpreter's lock, the `watchdog` of that process ends it
(except on Windows).
"""

from __future__ import annotations

import importlib
import multiprocessing.spawn
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, Generic, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

from eagerstream._support.event_loops import soon_of_loop
from eagerstream.errors import UsageError
from eagerstream.tools import ToolErrorCode, ToolResponse, error_text

from ._crossing import error_as_bytes, loads, response_as_bytes
from ._frames import CONTROL, HEADER, Failed, Open, Ready, Setup, ToProcess, answer
from ._host import serve
from ._messages import Ended, FromWorker, Progress, Refused, ToWorker
from ._references import tool_of

T = TypeVar("T")

_find_tool = lru_cache(maxsize=256)(tool_of)
"""Cache of tools. A tool that was evicted is made again at its next call."""
_QUICK_BYTES: Final = 32 * 1024
"""Maximum size of a frame to write at once: less than a pipe holds. A larger frame is written by a thread."""


def main() -> None:
    """Serve the process at the other end of the standard streams, until it closes them or ends."""
    # Ctrl-C reaches every process in the terminal, and the program decides about its calls. A handler, not SIG_IGN,
    # which programs that tools start would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    pipes = _Pipes()
    found = pipes.read()
    setup = None if found is None else found[1]
    if not isinstance(setup, Setup):
        return
    pipes.max_message_bytes = setup.max_message_bytes
    try:
        _prepare(setup)
    except (Exception, SystemExit) as error:
        pipes.write(answer(CONTROL, Failed(f"{error_text(error)}\n{traceback.format_exc()}")))
        return
    anyio.run(_run, pipes, setup.cancel_grace_s, backend=setup.backend)


async def _run(pipes: _Pipes, cancel_grace_s: float) -> None:
    await _Worker(pipes, cancel_grace_s).run()


_preparing: Final = threading.Event()
"""Set while a worker imports the program. The program must not start a pool then."""


def check_not_preparing() -> None:
    """Refuse to start a pool during a worker's import of the program.

    Raises:
        UsageError: The current process is such a worker.
    """
    if _preparing.is_set():
        raise UsageError(
            "a worker imports the program that starts it: put the code that runs the program under "
            "`if __name__ == '__main__':`"
        )


def _prepare(setup: Setup) -> None:
    _preparing.set()
    try:
        multiprocessing.spawn.prepare(setup.main)
        for each in setup.preload:
            if isinstance(each, str):
                importlib.import_module(each)
            else:
                _find_tool(each)
    finally:
        _preparing.clear()


class _Pipes:
    """Standard streams, which no other code in this process can reach any more."""

    def __init__(self) -> None:
        self._input = _taken_over(0, os.open(os.devnull, os.O_RDONLY))
        self._output = _taken_over(1, os.dup(2))
        self._writing = threading.Lock()
        self._line = CONTROL
        self.max_message_bytes = 1 << 30

    def read(self) -> tuple[int, ToProcess] | None:
        """Return the number of a line, and its next message. Return `None` at the end, and for invalid data."""
        try:
            line, length = HEADER.unpack(self._read_exactly(HEADER.size))
            if length > self.max_message_bytes:
                return None
            return line, loads(self._read_exactly(length))
        except Exception:  # the worker ends if the other side does not write messages
            return None

    def _read_exactly(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size:
            piece = os.read(self._input, min(size, 1 << 20))
            if not piece:
                raise EOFError
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def write(self, written: bytes) -> None:
        """Write a complete frame. Write nothing if the reader is gone: the other pipe shows that, too."""
        rest = memoryview(written)
        with self._writing:
            try:
                while rest:
                    rest = rest[os.write(self._output, rest) :]
            except OSError:
                pass


def _taken_over(number: int, replacement: int) -> int:
    """Return a private descriptor of a standard stream, and put `replacement` in its place."""
    own = os.dup(number)
    os.dup2(replacement, number)
    os.close(replacement)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(own, os.O_BINARY)
    return own


class _Inbox(Generic[T]):
    """Queue of received messages, for the one task that takes them."""

    def __init__(self) -> None:
        self._received: deque[T] = deque()
        self._change = anyio.Event()

    def put(self, message: T) -> None:
        self._received.append(message)
        self._change.set()

    async def next(self) -> T:
        while not self._received:
            self._change = anyio.Event()
            await self._change.wait()
        return self._received.popleft()


class _Line:
    """Worker's end of a call's line."""

    def __init__(self, number: int, pipes: _Pipes) -> None:
        self._number = number
        self._pipes = pipes
        self.inbox: _Inbox[ToWorker] = _Inbox()

    async def receive(self) -> ToWorker:
        return await self.inbox.next()

    async def send(self, message: FromWorker) -> None:
        written = answer(self._number, message)
        if len(written) - HEADER.size > self._pipes.max_message_bytes:
            if isinstance(message, Progress):
                return
            text = f"the result of the tool is larger than max_message_bytes={self._pipes.max_message_bytes}"
            response = ToolResponse.error(ToolErrorCode.INTERNAL_ERROR, text)
            written = answer(self._number, Ended(response_as_bytes(response), raised=True))
        if len(written) <= _QUICK_BYTES:
            self._pipes.write(written)
        else:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._pipes.write, written, limiter=anyio.CapacityLimiter(1))


class _Worker:
    def __init__(self, pipes: _Pipes, cancel_grace_s: float) -> None:
        self._pipes = pipes
        self._cancel_grace_s = cancel_grace_s
        self._lines: dict[int, _Line] = {}
        self._arrived: _Inbox[tuple[int, ToProcess] | None] = _Inbox()

    async def run(self) -> None:
        async with anyio.create_task_group() as self._tasks:
            # Read in a thread: it sees the end of the input even while a tool blocks the event loop.
            threading.Thread(target=self._read, args=(soon_of_loop(),), daemon=True).start()
            self._pipes.write(answer(CONTROL, Ready()))
            while (found := await self._arrived.next()) is not None:
                self._take(*found)
            self._tasks.cancel_scope.cancel()

    def _read(self, soon: Callable[[Callable[[], object]], object]) -> None:
        while (found := self._pipes.read()) is not None:
            soon(partial(self._arrived.put, found))
        soon(partial(self._arrived.put, None))
        time.sleep(self._cancel_grace_s)  # by then the process has ended, unless a tool keeps it alive
        os._exit(1)

    def _take(self, number: int, message: ToProcess) -> None:
        match message:
            case Open(reference):
                line = self._lines[number] = _Line(number, self._pipes)
                self._tasks.start_soon(self._serve, number, line, reference)
            case Setup():
                raise AssertionError("a worker is set up once")
            case _:
                line_of_call = self._lines.get(number)
                if line_of_call is not None:  # otherwise the call is over
                    line_of_call.inbox.put(message)

    async def _serve(self, number: int, line: _Line, reference: bytes) -> None:
        try:
            try:
                tool = _find_tool(reference)
            except (Exception, SystemExit) as error:
                text = f"the tool cannot be found in its worker: {error_text(error)}"
                await line.send(Refused(text, ToolErrorCode.INTERNAL_ERROR, error_as_bytes(error)))
                return
            await serve(line, tool)
        finally:
            del self._lines[number]
