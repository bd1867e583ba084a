"""`terminal_progress`: shows active runs in a terminal. If the output is not a terminal, it writes plain lines."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import AsyncContextDecorator, aclosing, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import anyio
import anyio.abc
import anyio.to_thread
import rich
from rich.console import Console
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType

from eagerstream._support.hosted_tasks import HostedTasks
from eagerstream._support.logs import logger_of
from eagerstream.errors import UsageError
from eagerstream.loop import Run
from eagerstream.streaming import MessageStream

from ._frame import Frame, RunState
from ._hub import Hub
from ._log import Batch, RunLog, WatcherDropped
from ._merge import last_seq
from ._plain_lines import PlainLines
from ._record import Record
from ._view import CallView, RunView

_log = logger_of(__name__)

_GAP_S: Final = 0.12
"""Seconds between two redraws: at most nine per second, which leaves one for the last."""
_FIRST_S: Final = 0.5
"""Maximum time to wait for a terminal before the block starts."""
_LAST_S: Final = 2.0
"""Maximum time for the last frame."""
_LOOK_S: Final = 0.25
"""Seconds between two checks for a new second or a new size of the terminal."""

Watchable: TypeAlias = Run | MessageStream | RunLog | Hub
_Teller: TypeAlias = Callable[[Record, RunView, CallView | None], object]


def terminal_progress(
    run: Watchable | None = None,
    *,
    console: Console | None = None,
    clock: Callable[[], float] = time.monotonic,
    contents: bool = True,
) -> TerminalProgress:
    """Show runs in the terminal: each call as a growing panel, its state, the progress of its tool, the usage.

        async with eagerstream.run(client, ...) as run, terminal_progress(run):
            await run.finish()

        @terminal_progress()
        async def main(): ...                    # every run that starts in it is shown

    It only watches, from a thread. A slow or stopped terminal delays nothing. If the terminal is gone, the display ends
    with a log message, and the run continues. The output of the block appears above the display. An exception of the
    block passes through unchanged. After any end or cancellation of the block, the terminal is restored within 2 s. If
    the terminal accepts no output, it is restored later.

    Args:
        run: A run or a stream, entered or not, or the log of one. A hub: all runs that it observes and that have not
            ended, with their questions. None: every run that starts inside the block, in any function or tool, one
            below another.
        console: The output. If None, `rich`'s default, the standard output. If it is not a terminal, a line is printed
            for each change.
        clock: Returns monotonic seconds.
        contents: False: show a line about each call, and nothing that the model or a tool wrote; see `Summaries`.

    Raises:
        UsageError: `contents` is False for a hub or a log, which has its own setting. On entering: it was entered
            before. As a decorator it may be called any number of times.
    """
    return TerminalProgress(run, console or rich.get_console(), clock, contents=contents)


class TerminalProgress(AsyncContextDecorator):
    """The result of `terminal_progress`: an async context manager, and a decorator for async functions.

    Raises:
        UsageError: It is entered a second time. As a decorator it may be called any number of times.
    """

    def __init__(
        self, run: Watchable | None, console: Console, clock: Callable[[], float], *, contents: bool = True
    ) -> None:
        if not contents and isinstance(run, Hub | RunLog):
            raise UsageError("a hub decides for all its watchers: Hub(contents=False)")
        self._contents = contents
        self._run = run
        self._console = console
        self._clock = clock
        self._runs: dict[str, _WatchedRun] = {}
        # FORCE_COLOR asks for colours, so `rich` assumes a terminal. But a pipe has no cursor to move.
        is_screen = console.is_interactive and (console.file.isatty() or not os.environ.get("FORCE_COLOR"))
        self._output: Output = _Screen(console, self._states) if is_screen else _Pipe(console)
        self._works = True
        self._has_begun = False
        self._hub = run if isinstance(run, Hub) else Hub(contents=contents)
        self._earlier = {log.id for log in self._hub.logs if log.is_closed}
        self._observing = self._hub.observing() if run is None else nullcontext()
        self._tasks: HostedTasks | None = None
        self._news = anyio.Event()
        self._thread = anyio.CapacityLimiter(1)
        self._lock = threading.Lock()  # an abandoned thread may still be working

    def _recreate_cm(self) -> Self:
        # `contextlib` calls it at each call of a decorated function: calls may overlap.
        return type(self)(self._run, self._console, self._clock, contents=self._contents)

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise UsageError("terminal_progress can be entered once: call it again")
        if isinstance(self._run, RunLog):
            self._hub.add(self._run)
        elif not isinstance(self._run, Hub | None):
            self._hub.observe(self._run)
        tasks = HostedTasks("terminal_progress")
        try:
            with anyio.move_on_after(_FIRST_S):
                await self._act(self._begin)  # from here on, printed output appears above
            self._tasks = await tasks.__aenter__()
        except BaseException:
            await self._leave(self._give_up)
            raise
        self._observing.__enter__()
        self._tasks.group.start_soon(self._watch_all)
        self._tasks.group.start_soon(self._draw)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        self._observing.__exit__(None, None, None)
        try:
            await self._tasks.leave(exc)
        finally:
            await self._leave(self._end)

    async def _leave(self, action: Callable[[], object]) -> None:
        """Run the last action on the output. If the terminal blocks for 2 s, a thread runs it later."""
        with anyio.move_on_after(_LAST_S, shield=True) as scope:
            await self._act(action)
        if scope.cancelled_caught:
            _log.info("the terminal accepts no output: the progress display ends without its last frame")
            # It waits for the blocked thread, even after the event loop has ended.
            threading.Thread(target=self._in_turn, args=(action,), daemon=True).start()

    def _end(self) -> None:
        self._begin()
        try:
            self._find_runs()
            for run in self._runs.values():
                run.catch_up()
        finally:
            self._output.end()
            self._works = False  # an abandoned thread must not start it again

    def _give_up(self) -> None:
        """End as `_end` does, for an output that may not have started."""
        self._works = False
        self._output.give_up()

    def _states(self) -> list[RunState]:
        return [RunState(run.view, run.elapsed_s) for run in self._runs.values()]

    def _find_runs(self) -> None:
        """Add the new runs, and remove those that the hub has dropped."""
        self._earlier -= {log.id for log in self._hub.logs if not log.is_closed}  # they were resumed
        logs = {log.id: log for log in self._hub.logs if log.id not in self._earlier}
        found = [_WatchedRun(log, self._output, self._clock) for id, log in logs.items() if id not in self._runs]
        kept = {id: run for id, run in self._runs.items() if id in logs}
        self._runs = {**kept, **{run.log.id: run for run in found}}  # a new dict: a thread may be reading the old one

    async def _watch_all(self) -> None:
        assert self._tasks is not None  # entered
        async with aclosing(self._hub.changes()) as changes:
            async for _ in changes:
                self._find_runs()
                for run in self._runs.values():
                    if not run.is_watched and (not run.log.is_closed or run.seq != run.log.seq):
                        run.is_watched = True
                        self._tasks.group.start_soon(self._watch, run)

    async def _watch(self, run: _WatchedRun) -> None:
        while self._works:
            try:
                async with run.log.watch(after=run.seq, min_interval_s=_GAP_S) as watcher:
                    async for batch in watcher:
                        await self._act(partial(run.take, batch))
                        self._news.set()
                if run.log.is_closed:  # otherwise it was resumed
                    break
            except WatcherDropped:
                continue  # with a snapshot
        run.is_watched = False

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._output.begin()

    async def _draw(self) -> None:
        while self._works:
            with anyio.move_on_after(_LOOK_S):
                await self._news.wait()
            self._news = anyio.Event()
            if await self._act(self._redraw):
                await anyio.sleep(_GAP_S)

    def _redraw(self) -> bool:
        self._begin()
        return self._output.draw([(run.log.id, run.seq) for run in self._runs.values()])

    async def _act(self, action: Callable[[], Any]) -> Any:
        """Run an action on the output or its state in a thread, so that the event loop never waits for it.

        A terminal can be slow or stop for any time, for example at Ctrl-S.
        """
        act = partial(self._in_turn, action)
        return await anyio.to_thread.run_sync(act, abandon_on_cancel=True, limiter=self._thread)

    def _in_turn(self, action: Callable[[], Any]) -> Any:
        """Run an action on the output, unless it has failed before. An observer must not affect the run."""
        with self._lock:
            if not self._works:
                return None
            try:
                return action()
            except (Exception, SystemExit) as error:  # `rich` exits if a pipe is closed
                # Its text may quote a model, which does not belong in a log.
                level = logging.INFO if isinstance(error, OSError | SystemExit) else logging.WARNING
                _log.log(level, "the progress display ends: %s", type(error).__name__)
                self._give_up()
                return None


class Output:
    """A place to show runs. This one shows nothing."""

    def begin(self) -> None:
        """Start to show."""

    def teller(self, _log: RunLog, /) -> _Teller | None:
        """Return the function that reports each record of a run, if they are reported one by one."""
        return None

    def draw(self, _version: list[tuple[str, int]], /) -> bool:
        """Show the current state. Return True if anything was drawn.

        Args:
            _version: Differs from the last one if there is something new.
        """
        return False

    def end(self) -> None:
        """Show the last state."""

    def give_up(self) -> None:
        """Restore the place after a failure, as far as possible."""


class _WatchedRun:
    """The state of a watched run."""

    def __init__(self, log: RunLog, output: Output, clock: Callable[[], float]) -> None:
        self.log = log
        self.view = RunView()
        self.seq = 0
        self.is_watched = False
        self._tell = output.teller(log)
        self._clock = clock
        self._start_s = clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start of the run, or its duration if it has ended."""
        return self.view.at_s if self.view.status is not None else self._clock() - self._start_s

    def take(self, batch: Batch) -> None:
        """Add the records of a batch."""
        if batch.is_snapshot:
            self.view = RunView()
        self._feed(batch.records)
        self.seq = batch.seq

    def catch_up(self) -> None:
        """Add all records that were not received yet, at once."""
        if self.seq != self.log.seq:
            self.view = RunView()
            self._feed(self.log.records())
            self.seq = self.log.seq

    def _feed(self, records: list[Record]) -> None:
        for record in records:
            call = self.view.feed(record)
            if record["type"] == "run_resumed":
                self._start_s = self._clock() - record["at_s"]  # the gap does not count
            if self._tell is not None and last_seq(record) > self.seq:  # a snapshot repeats reported records
                self._tell(record, self.view, call)
        # Records come later than their events, never earlier.
        self._start_s = min(self._start_s, self._clock() - self.view.at_s)


class _Pipe(Output):
    """An output that is not a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._runs = 0

    def teller(self, log: RunLog, /) -> _Teller:
        self._runs += 1
        title = log.name or ("" if self._runs == 1 else f"run {self._runs}")
        return PlainLines(self._write, title).feed

    def _write(self, line: str) -> None:
        # Not `console.print`: if the pipe is closed, that disables the standard output and exits.
        file = self._console.file
        encoding = self._console.encoding
        file.write(line.encode(encoding, "replace").decode(encoding) + "\n")
        file.flush()


class _Screen(Output):
    """A terminal. It is redrawn only if its content or its size has changed."""

    def __init__(self, console: Console, states: Callable[[], list[RunState]]) -> None:
        self._console = console
        self._states = states
        self._frame = Frame(states)
        self._live = Live(self._frame, console=console, auto_refresh=False)
        self._drawn: object = None
        self._times_drawn = 0
        self._width, self._height = console.size
        self._pushed_out = 0

    def begin(self) -> None:
        self._live.start()

    def draw(self, version: list[tuple[str, int]], /) -> bool:
        seconds = [int(state.elapsed_s) for state in self._states()]
        now = (version, self._console.size, seconds)
        if now == self._drawn:
            return False
        self._drawn = now
        with self._console:  # all in one write
            self._mend_resized()
            self._live.refresh()
        self._times_drawn = self._frame.times_drawn
        return True

    def _mend_resized(self) -> None:
        """Erase the remains of the last frame after the terminal was resized.

        `rich` moves back by the number of rows that it drew. But a narrower terminal wraps lines, a lower one has
        pushed rows out at its top, and a higher one has got them back.
        """
        width, height = self._console.size
        drawn = len(self._frame.lines)
        rows = self._frame.rows_at(width) if width < self._width else drawn
        more = rows - drawn
        if self._frame.times_drawn != self._times_drawn:
            self._pushed_out = 0  # other output came meanwhile, and that would come back
        back = max(0, min(self._pushed_out, height - self._height))
        self._pushed_out += max(0, rows - height) - back
        if more + back:
            erase = (ControlType.ERASE_IN_LINE, 2)
            up = ((ControlType.CURSOR_UP, 1), erase) * min(more + back, height)
            self._console.control(Control(ControlType.CARRIAGE_RETURN, erase, *up))
        self._width, self._height = width, height

    def end(self) -> None:
        self._frame.is_final = True
        with self._console:
            self._mend_resized()
            self._live.stop()

    def give_up(self) -> None:
        try:
            self._live.stop()
        except (Exception, SystemExit):
            pass  # all that can be restored is; the terminal is gone
