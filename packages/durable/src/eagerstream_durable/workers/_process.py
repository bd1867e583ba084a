"""`WorkerProcess`: one worker process, from its start to its end, as the pool sees it."""

from __future__ import annotations

import multiprocessing.spawn
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from eagerstream._support.inspecting import head
from eagerstream._support.watchdog import watchdog
from eagerstream.errors import ToolError, WorkerLost

from ._frames import (
    CONTROL,
    HEADER,
    Failed,
    FromProcess,
    NoMessageError,
    Open,
    Ready,
    Setup,
    answer_from,
    frame,
)
from ._messages import Cancelled, FromWorker, Progress, Started, ToWorker

_MAX_WAITING: Final = 16
"""Maximum number of progress values that wait on a line. A further value replaces the newest."""
_MAX_TOLD_CHARS: Final = 10_000
"""Maximum length of a worker's report about a failed start."""
_LAST_WORDS_S: Final = 1.0
"""Seconds to wait for the exit code after the output ended, or for the output after the process ended."""
_FIRST_LOOK_S: Final = 0.01
_LOOK_S: Final = 0.5
"""Maximum interval between checks whether a process with open output has ended. The first intervals are shorter."""
_PROGRAM: Final = (
    "import signal; signal.signal(signal.SIGINT, lambda *_: None); "
    "import sys; sys.path[:] = sys.argv[1:]; from eagerstream_durable.workers._worker import main; main()"
)
"""The worker ignores Ctrl-C from its first moment: see `_worker.main`."""


@dataclass(slots=True)
class _Outgoing:
    written: bytes
    done: anyio.Event = field(default_factory=anyio.Event)


class WorkerProcess:
    """Worker process, and the lines of its calls.

    Attributes:
        lost: Reason why the worker is no longer usable; `None` while it lives.
        was_ready: True once the worker has started.
        was_ended: True if the pool ended or killed the worker.
        may_start_again: See `PoolWorker`.
    """

    may_start_again: Final = False

    def __init__(self, setup: Setup, *, start_timeout_s: float) -> None:
        self.lost: str | None = None
        self.was_ready = False
        self.was_ended = False
        self._setup = setup
        self._start_timeout_s = start_timeout_s
        self._process: anyio.abc.Process | None = None
        self._lines: dict[int, ProcessLine] = {}
        self._last_number = CONTROL
        self._is_left_alone = False
        self._outgoing: deque[_Outgoing] = deque()
        self._work = anyio.Event()

    @property
    def pid(self) -> int | None:
        """Process id, if the process exists."""
        return None if self._process is None else self._process.pid

    @property
    def has_died(self) -> bool:
        """True if the process ended by itself."""
        return not self.was_ended

    async def run(self, on_ready: Callable[[WorkerProcess], object]) -> None:
        """Start the process, and serve its lines until it ends. Cancelling this ends the process.

        On cancellation, tools are cancelled and have `Setup.cancel_grace_s` for their cleanup.
        """
        try:
            with anyio.CancelScope(shield=True):  # otherwise a process might be left over
                self._process = process = await anyio.open_process(
                    # A new interpreter with this one's import path.
                    [os.fsdecode(multiprocessing.spawn.get_executable()), "-P", "-c", _PROGRAM, *sys.path],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=None,
                    start_new_session=True,
                )
        except OSError as error:
            self._lose(f"it could not be started: {error}")
            return
        try:
            watchdog.watch(process.pid, grace_s=self._setup.cancel_grace_s)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, process)
                tasks.start_soon(self._limit_start, process)
                tasks.start_soon(_cancel_after, process, tasks.cancel_scope)
                await self._read(process, on_ready)
                tasks.cancel_scope.cancel()
            with anyio.move_on_after(_LAST_WORDS_S):
                await process.wait()
        finally:
            self._lose(_how_it_ended(process))
            with anyio.CancelScope(shield=True):
                await self._end(process)

    def open(self, reference: bytes) -> ProcessLine:
        """Return a line for a call of a tool."""
        self._last_number += 1
        line = self._lines[self._last_number] = ProcessLine(
            self, self._last_number, reference, max_message_bytes=self._setup.max_message_bytes
        )
        if self.lost is not None:
            line.lose(self.lost)
        return line

    def close(self, line: ProcessLine) -> bool:
        """Remove the line of a finished call. Return False if its tool still runs: the worker can take no more calls.

        Such a worker is killed when it has no other calls.
        """
        del self._lines[line.number]
        self._is_left_alone = self._is_left_alone or line.is_at_work
        if self._is_left_alone and not self._lines:
            self.kill()
        return not self._is_left_alone

    def kill(self) -> None:
        """Kill the process at once."""
        if self._process is not None and self.lost is None:
            self.was_ended = True
            try:
                self._process.kill()
            except ProcessLookupError:
                pass  # it is gone

    async def send(self, written: bytes) -> None:
        """Write frames. Cancelling this only stops the waiting; the frames are still written.

        Raises:
            WorkerLost: The worker no longer reads.
        """
        outgoing = _Outgoing(written)
        if self.lost is None:
            self._outgoing.append(outgoing)
            self._work.set()
            await outgoing.done.wait()
        if self.lost is not None:
            raise WorkerLost(self.lost)

    async def _write(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        try:
            await process.stdin.send(frame(CONTROL, self._setup))
            while True:
                while self._outgoing:
                    await process.stdin.send(self._outgoing[0].written)
                    self._outgoing.popleft().done.set()
                self._work = anyio.Event()
                await self._work.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return  # the process ended: the reader sees it, too

    async def _limit_start(self, process: anyio.abc.Process) -> None:
        await anyio.sleep(self._start_timeout_s)
        if not self.was_ready:
            self._lose(f"it was not ready within {self._start_timeout_s:g} seconds")
            process.kill()

    async def _read(self, process: anyio.abc.Process, on_ready: Callable[[WorkerProcess], object]) -> None:
        assert process.stdout is not None
        stream = BufferedByteReceiveStream(process.stdout)
        while True:
            try:
                number, length = HEADER.unpack(await stream.receive_exactly(HEADER.size))
                if length > self._setup.max_message_bytes:
                    self._lose("it sent a message that is too large")
                    return
                message = answer_from(await stream.receive_exactly(length))
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            except NoMessageError as error:
                self._lose(f"it sent what is no message: {error}")
                return
            if not self._take(number, message, on_ready):
                self._lose("it sent a message out of its order")
                return

    def _take(self, number: int, message: FromProcess, on_ready: Callable[[WorkerProcess], object]) -> bool:
        """Process a message of the worker; return False if the message is out of order."""
        match message:
            case Ready() | Failed() if self.was_ready or number != CONTROL:
                return False
            case Ready():
                self.was_ready = True
                on_ready(self)
            case Failed(text):
                self._lose(f"it could not start: {head(text, _MAX_TOLD_CHARS)}")
            case _:
                line = self._lines.get(number)
                return line is None or line.put(message)  # without a line, nobody waits for the message
        return True

    def _lose(self, reason: str) -> None:
        self.lost = self.lost or reason
        for line in self._lines.values():
            line.lose(self.lost)
        while self._outgoing:
            self._outgoing.popleft().done.set()

    async def _end(self, process: anyio.abc.Process) -> None:
        """End the process gracefully, then by force."""
        if process.returncode is None and self.was_ready and not self._is_left_alone:
            self.was_ended = True
            assert process.stdin is not None
            assert process.stdout is not None
            with anyio.move_on_after(self._setup.cancel_grace_s):
                await process.stdin.aclose()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_read_to_the_end, process.stdout)
                    await _exit_of(process)
                    tasks.cancel_scope.cancel()
        if process.returncode is None:
            process.kill()
        watchdog.end(process.pid)
        await process.aclose()


class ProcessLine:
    """Pool's end of a call's line; see `Line`."""

    def __init__(self, worker: WorkerProcess, number: int, reference: bytes, *, max_message_bytes: int) -> None:
        self.number = number
        self._max_message_bytes = max_message_bytes
        self._worker = worker
        self._opening = frame(number, Open(reference))
        self._received: deque[FromWorker] = deque()
        self._change = anyio.Event()
        self._lost: str | None = None
        self._is_over = False
        self._was_started = False
        self._was_last_word = False

    @property
    def is_at_work(self) -> bool:
        """True if the worker may still run the tool."""
        return not self._opening and not self._is_over

    async def send(self, message: ToWorker) -> None:
        """See `Line.send`."""
        written = frame(self.number, message)
        if len(written) - HEADER.size > self._max_message_bytes:
            raise ToolError(f"Not executed: the input is larger than max_message_bytes={self._max_message_bytes}.")
        opening, self._opening = self._opening, b""
        await self._worker.send(opening + written)

    async def receive(self) -> FromWorker:
        """See `Line.receive`."""
        while not self._received:
            if self._lost is not None:
                # If the worker died by itself, its last messages are read. If the pool ended it, they may be lost.
                raise WorkerLost(self._lost, may_have_begun=self._worker.was_ended and self.is_at_work)
            self._change = anyio.Event()
            await self._change.wait()
        return self._received.popleft()

    def put(self, message: FromWorker) -> bool:
        """Accept a message of the worker. Return False if it is out of order, which bounds the messages that wait."""
        if self._was_last_word or (isinstance(message, Started) and self._was_started):
            return False
        if isinstance(message, Started):
            self._was_started = True
        elif isinstance(message, Progress):
            if len(self._received) >= _MAX_WAITING and isinstance(self._received[-1], Progress):
                self._received.pop()
        else:
            self._was_last_word = True
            self._is_over = not (isinstance(message, Cancelled) and message.at_work)
        self._received.append(message)
        self._change.set()
        return True

    def lose(self, reason: str) -> None:
        """Mark the worker as lost: it sends nothing more."""
        self._lost = reason
        self._change.set()


async def _exit_of(process: anyio.abc.Process) -> None:
    """Wait for the end of a process.

    A process that a tool has forked keeps the pipes open while it lives. In a session of its own, it may live forever.
    The end of the pipes then does not show the end of the worker. Nor does `process.wait`, which on asyncio waits for
    the pipes.
    """
    delay_s = _FIRST_LOOK_S
    while process.returncode is None:
        await anyio.sleep(delay_s)
        delay_s = min(2 * delay_s, _LOOK_S)


async def _cancel_after(process: anyio.abc.Process, scope: anyio.CancelScope) -> None:
    await _exit_of(process)
    await anyio.sleep(_LAST_WORDS_S)
    scope.cancel()


async def _read_to_the_end(output: anyio.abc.ByteReceiveStream) -> None:
    """Read and drop the rest of the output. Otherwise a worker that writes would wait for a reader."""
    try:
        async for _ in output:
            pass
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass


def _how_it_ended(process: anyio.abc.Process) -> str:
    code = process.returncode
    if code is None:
        return "it was told to end"
    if code < 0:
        try:
            return f"it was ended by {signal.Signals(-code).name}"
        except ValueError:
            pass
    return f"it ended with code {code}"
