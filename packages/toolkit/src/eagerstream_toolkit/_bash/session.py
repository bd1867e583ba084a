"""One shell that runs commands one at a time: it sends each, reads its output, and detects its end."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from .._session_process import SessionProcess, start_process
from .frame import Frame, Report
from .output import MarkFinder, Output

_CHUNK_BYTES: Final = 64 * 1024
_MAX_CONTROL_BYTES: Final = 4 * 1024
"""Bytes of the shell's stderr to keep. Any report is shorter. The rest is bash's own noise."""
_MAX_DRAINED_BYTES: Final = 1024 * 1024
"""Bytes of an ended shell's output to read: as many as a pipe can hold. Later output is from another process."""
START_S: Final = 30.0
"""Seconds that a shell may take to start. One in a container takes longer than a plain one."""
GONE_S: Final = 2.0
"""Seconds that a killed shell may take to end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command.

    Attributes:
        exit_status: 0 to 255. If the shell ended, its status. `None` after a timeout.
        shell_goes_on: True if the next command can run in the same shell.
    """

    exit_status: int | None
    shell_goes_on: bool


class BashSession:
    """A shell with its state (folder, variables, functions, background jobs), which runs commands in turn.

    If `run` is cancelled, the caller must `close` the session: the command may still be running.
    """

    def __init__(self, process: SessionProcess) -> None:
        self._process = process
        self._selector = selectors.DefaultSelector()
        for readable in (process.stdout, process.stderr, process.ended):
            self._selector.register(readable, selectors.EVENT_READ)
        self._early = b""
        """Output behind the last mark, from background jobs. The next command's output starts with it."""
        self._is_gone = False
        self._is_closed = False

    @classmethod
    async def start(cls, argv: Sequence[str], *, cwd: str | None, env: Mapping[str, str]) -> Self:
        """Start a shell, and wait until it has run an empty command. Cancelling this kills the shell.

        Raises:
            OSError, RuntimeError, ValueError: The process cannot start.
            TimeoutError: The process does not respond as bash does.
        """
        process = await start_process(partial(SessionProcess, argv, cwd=cwd, env=env))
        try:
            session = cls(process)
        except BaseException:  # no descriptors left
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
        """True if the shell ended or was closed. It can run no more commands."""
        return self._is_closed or self._process.has_ended

    async def run(
        self, command: str, output: Output, *, timeout_s: float, on_output: Callable[[], object] = lambda: None
    ) -> Ended:
        """Run a command without NUL until it, the shell, or the time limit ends. If cancelled, `close` the session.

        After the time limit, the shell is killed with all its processes. The output of earlier background jobs comes
        first. `on_output` is called when there is more.
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
        """Kill the shell and its running command. This returns at once."""
        self._process.kill()

    def close(self) -> None:
        """Kill the shell and free its resources. No `run` may be active. A second call does nothing."""
        self._is_closed = True
        self._selector.close()
        self._process.close()

    async def aclose(self) -> None:
        """Close the session, and wait for the shell's end, at most 2 seconds. Cancelling this ends only the wait."""
        self.close()
        await anyio.to_thread.run_sync(self._process.join, GONE_S, abandon_on_cancel=True)

    def close_and_wait(self) -> None:
        """Do the same as `aclose`, without an event loop."""
        self.close()
        self._process.join(GONE_S)

    def _exchange(self, exchange: _Exchange, unsent: memoryview) -> memoryview:
        """Read and write without waiting. Return the unsent bytes."""
        for key, _ in self._selector.select(0):
            if key.fd == self._process.stdin:
                try:
                    unsent = unsent[os.write(key.fd, unsent) :]
                except BlockingIOError:
                    pass
                except OSError:  # the shell is ending, and no longer reads
                    unsent = unsent[:0]
                if not unsent:
                    self._selector.unregister(key.fd)
            elif key.fd == self._process.stdout:
                exchange.take_output(self._read(key.fd))
            elif key.fd == self._process.stderr:
                exchange.take_control(self._read(key.fd))
            else:
                self._is_gone = True
        return unsent

    def _read(self, pipe: int) -> bytes:
        try:
            data = os.read(pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return b""
        if not data:  # all writers have closed it: it would stay readable
            self._selector.unregister(pipe)
        return data

    def _ended(self, exchange: _Exchange) -> Ended:
        report = exchange.report
        if report is not None and exchange.is_over:
            self._early = exchange.rest
        else:
            # The shell ended, or must be killed. Its last output is still in the pipe.
            report = None
            self._process.kill()
            with suppress(OSError):
                for _ in range(_MAX_DRAINED_BYTES // _CHUNK_BYTES):
                    data = os.read(self._process.stdout, _CHUNK_BYTES)
                    if not data:
                        break
                    exchange.take_output(data)
        exchange.close()
        goes_on = report is not None and report.is_fit
        exit_status = report.exit_status if report else self._process.exit_status if self._is_gone else None
        if not goes_on:
            self.close()
        return Ended(exit_status, goes_on)


class _Exchange:
    """The output and the report of one command."""

    def __init__(self, frame: Frame, output: Output) -> None:
        self.frame = frame
        self.report: Report | None = None
        self._output = output
        self._finder = MarkFinder(frame.mark)
        self._control = b""

    @property
    def is_over(self) -> bool:
        """True after the report and all output have arrived."""
        return self.report is not None and self._finder.is_found

    @property
    def rest(self) -> bytes:
        """Bytes behind the command's output."""
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
