"""One shell that runs one command after the other: hands each in, reads what it prints, and knows when it has ended."""

from __future__ import annotations

import os
import selectors
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from .frame import Frame, Report
from .output import MarkFinder, Output
from .process import ShellProcess

_CHUNK_BYTES: Final = 64 * 1024
_MAX_CONTROL_BYTES: Final = 4 * 1024
"""Of what comes on the shell's stderr, which is longer than any report; the rest is bash's own noise."""
_MAX_DRAINED_BYTES: Final = 1024 * 1024
"""As much as a pipe can hold: what an ended shell has printed. What comes behind it is from somebody else."""
START_S: Final = 30.0
"""Seconds that a shell may take to start; one in a container takes longer than a plain one."""
GONE_S: Final = 2.0
"""Seconds that a killed shell may take to be gone."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        exit_status: 0 to 255; of the shell itself where that ended. None where the time was up.
        shell_goes_on: The next command can run in the same shell.
    """

    exit_status: int | None
    shell_goes_on: bool


class BashSession:
    """A shell, its state (folder, variables, functions, background jobs), and the commands that run in it in turn.

    Whoever is cancelled inside `run` has to `close` it: a command may still be running in it.
    """

    def __init__(self, process: ShellProcess) -> None:
        self._process = process
        self._selector = selectors.DefaultSelector()
        for readable in (process.stdout, process.stderr, process.ended):
            self._selector.register(readable, selectors.EVENT_READ)
        self._early = b""
        """What came behind the last mark: of background jobs, and shown with the next command."""
        self._is_gone = False
        self._is_closed = False

    @classmethod
    async def start(cls, argv: Sequence[str], *, cwd: str | None, env: Mapping[str, str]) -> Self:
        """A shell that has answered once.

        Raises:
            OSError, RuntimeError, ValueError: It cannot be started.
            TimeoutError: It does not answer as bash does.
        """
        process = await _Start(partial(ShellProcess, argv, cwd=cwd, env=env)).process()
        try:
            session = cls(process)
        except BaseException:  # there are no descriptors left
            process.close()
            raise
        try:
            ended = await session.run(":", Output(1), timeout_s=START_S)
        except BaseException:
            session.close()
            raise
        if not ended.shell_goes_on:
            session.close()
            raise TimeoutError("the shell did not answer as bash does")
        return session

    @property
    def has_ended(self) -> bool:
        """It ended, or was ended: nothing can run in it any more."""
        return self._is_closed or self._process.has_ended

    async def run(
        self, command: str, output: Output, *, timeout_s: float, on_output: Callable[[], object] = lambda: None
    ) -> Ended:
        """Run a command to its end, or to the shell's, but not for longer than `timeout_s` seconds.

        Args:
            command: Without NUL.
            output: Takes what it prints, and what background jobs of earlier commands have printed since.
            timeout_s: When the time is up, the shell is killed with all that runs in it.
            on_output: Called when there is more output.
        """
        exchange = _Exchange(Frame(command), output)
        exchange.take_output(self._early)
        self._early = b""
        unsent = memoryview(exchange.frame.script)
        self._selector.register(self._process.stdin, selectors.EVENT_WRITE)
        try:
            with anyio.move_on_after(timeout_s):
                while not exchange.is_over and not self._is_gone:
                    await anyio.wait_readable(self._selector.fileno())
                    size_bytes = output.size_bytes
                    unsent = self._exchange(exchange, unsent)
                    if output.size_bytes > size_bytes:
                        on_output()
        finally:
            if unsent:
                self._selector.unregister(self._process.stdin)
        return self._ended(exchange)

    def kill(self) -> None:
        """Kill the shell: a command that runs in it ends with it. Returns at once."""
        self._process.kill()

    def close(self) -> None:
        """`kill`, for when nothing runs in it, or what runs was cancelled; harmless the second time."""
        self._is_closed = True
        self._selector.close()
        self._process.close()

    async def aclose(self) -> None:
        """`close`, and wait until it is gone; cancelling that ends the waiting only."""
        self.close()
        await anyio.to_thread.run_sync(self._process.join, GONE_S, abandon_on_cancel=True)

    def close_and_wait(self) -> None:
        """`aclose` for where there is no event loop any more."""
        self.close()
        self._process.join(GONE_S)

    def _exchange(self, exchange: _Exchange, unsent: memoryview) -> memoryview:
        """Read and write what can be, without waiting; what is still to be written."""
        for key, _ in self._selector.select(0):
            if key.fd == self._process.stdin:
                unsent = self._send(unsent)
            elif key.fd == self._process.stdout:
                exchange.take_output(self._read(key.fd))
            elif key.fd == self._process.stderr:
                exchange.take_control(self._read(key.fd))
            else:
                self._is_gone = True
        return unsent

    def _send(self, unsent: memoryview) -> memoryview:
        try:
            unsent = unsent[os.write(self._process.stdin, unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # nobody reads any more: its end is on its way
            unsent = unsent[:0]
        if not unsent:
            self._selector.unregister(self._process.stdin)
        return unsent

    def _read(self, pipe: int) -> bytes:
        try:
            data = os.read(pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return b""
        if not data:  # all writers have closed it; it would be readable for ever
            self._selector.unregister(pipe)
        return data

    def _ended(self, exchange: _Exchange) -> Ended:
        report = exchange.report
        if report is not None and exchange.is_over:
            self._early = exchange.rest
        else:
            # Gone, or to be killed; what it printed is still in the pipe.
            report = None
            self._process.kill()
            self._drain(exchange)
        exchange.close()
        goes_on = report is not None and report.is_fit
        exit_status = report.exit_status if report else self._process.exit_status if self._is_gone else None
        if not goes_on:
            self.close()
        return Ended(exit_status, goes_on)

    def _drain(self, exchange: _Exchange) -> None:
        with suppress(OSError):
            for _ in range(_MAX_DRAINED_BYTES // _CHUNK_BYTES):
                data = os.read(self._process.stdout, _CHUNK_BYTES)
                if not data:
                    break
                exchange.take_output(data)


class _Start:
    """A process that is started in a thread, and ended where nobody waits for it any more.

    A task that asyncio itself cancels (`asyncio.wait_for`) leaves at once, whatever anyio shields.
    """

    def __init__(self, make: Callable[[], ShellProcess]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._process: ShellProcess | None = None
        self._is_given_up = False

    async def process(self) -> ShellProcess:
        try:
            return await anyio.to_thread.run_sync(self._run)
        except BaseException:
            with self._lock:
                self._is_given_up = True
                if self._process is not None:
                    self._process.close()
            raise

    def _run(self) -> ShellProcess:
        process = self._make()
        with self._lock:
            self._process = process
            if self._is_given_up:
                process.close()
        return process


class _Exchange:
    """What has come for one command on both streams."""

    def __init__(self, frame: Frame, output: Output) -> None:
        self.frame = frame
        self.report: Report | None = None
        self._output = output
        self._finder = MarkFinder(frame.mark)
        self._control = b""

    @property
    def is_over(self) -> bool:
        """The shell has told the end, and all output has come."""
        return self.report is not None and self._finder.is_found

    @property
    def rest(self) -> bytes:
        """What came behind the command's output."""
        return self._finder.rest

    def take_output(self, data: bytes) -> None:
        self._output.feed(self._finder.feed(data))

    def take_control(self, data: bytes) -> None:
        if self.report is None:
            self._control += data
            self.report = self.frame.report_in(self._control)
            self._control = self._control[-_MAX_CONTROL_BYTES:]

    def close(self) -> None:
        self._output.feed(self._finder.close())
        self._output.close()
