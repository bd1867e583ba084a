"""`work`: a worker that continues the runs of a journal that are due."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

import anyio
import anyio.abc

from eagerstream import JSONObject
from eagerstream._support.checks import check_count, check_positive, check_seconds
from eagerstream._support.logs import logger_of
from eagerstream.errors import APIError, EagerStreamError, RunNotFoundError, RunOwnedError, UsageError
from eagerstream.loop import Run, check_entries, resume

from ._journal import Journal

_log = logger_of(__name__)

_random: Final = Random()
_CHOICE: Final = 8  # runs to choose from, for each that is taken
_FIRST_PAUSE_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 300.0
_MAX_FAILURES: Final = 10_000  # runs that are remembered

_Given: TypeAlias = Mapping[str, Any] | AbstractAsyncContextManager[Mapping[str, Any]]

RunApp: TypeAlias = Callable[[JSONObject], _Given | Awaitable[_Given]]
"""Gives a run everything that a journal does not keep.

It is called with `{"run_id": str, "model": str, "max_tokens": int, "messages": [...], "options": {...}}`, the start of
the run. It returns the arguments of `resume`: `{"client": ..., "tools": [...]}` and further options. It may be async,
and it may return an async context manager that yields them, and is left after the run.
"""


@dataclass(slots=True)
class _Failure:
    """Failures of a run that could not be resumed, or was left to the tool that had started it."""

    pause_s: float
    until_s: float


async def work(
    journal: Journal,
    app: RunApp,
    *,
    concurrency: int = 4,
    poll_s: float = 1.0,
    grace_s: float = 30.0,
    stop: anyio.Event | None = None,
    once: bool = False,
    on_run: Callable[[str, str], object] | None = None,
) -> None:
    """Continue the runs that are due, until it is cancelled or stopped.

    A run is due if its owner died or gave it up, if a decision or a message has arrived for a run that waits, or a
    message for one that has ended. Any number of workers share a journal: each run has one owner. If a run cannot be
    resumed, for example because a tool is missing, the worker logs the type of the error, and tries again after a pause
    that doubles from 2 seconds to 5 minutes. It does the same if the API cannot be reached, or has another fault that
    passes. After any other error, a run has the status `ERROR`, and is not due any more.

    A run that a tool of another run of the journal started is left to that tool, which continues it. If the other run
    has ended without it, nobody waits for it: the worker cancels it. `resume` could still continue it.

    Cancellation: active runs are given up at once, as with `Run.hand_over(at_once=True)`. They stay due.

    Args:
        journal: The journal.
        app: Gives a run its client and tools, see `RunApp`.
        concurrency: Maximum number of runs at a time.
        poll_s: Seconds between two looks for runs that are due.
        grace_s: Seconds that active runs have to settle their turns after `stop`. Then they are given up at once.
        stop: When it is set, no further run is taken, and active runs are handed over at the end of their turns.
        once: Return when no run is due.
        on_run: Called with the id of a run and its status, each time that the run has left this worker: its
            `RunStatus`, or `"running"` if it is still due.

    Raises:
        JournalError: The journal cannot be read.
        UsageError: An argument is unusable.
    """
    if not isinstance(journal, Journal):
        raise UsageError(f"journal must be a Journal, not {type(journal).__name__}")
    check_count("concurrency", concurrency)
    check_positive("poll_s", poll_s)
    check_seconds("grace_s", grace_s)
    if not callable(app):
        raise UsageError("app: must be a function that returns the client and the tools of a run")
    worker = _Worker(journal, app, concurrency, on_run or (lambda _id, _status: None))
    async with anyio.create_task_group() as tasks:
        if stop is not None:
            tasks.start_soon(worker.stop_at, stop, grace_s)
        await worker.take_runs(tasks, poll_s, once=once)
        await worker.idle()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def arguments_of(
    app: RunApp, entries: Sequence[JSONObject], run_id: str
) -> AsyncIterator[tuple[Any, dict[str, Any]]]:
    """Yield the client, and the other arguments of `resume`, that an application gives to a run.

    Raises:
        UsageError: The application returned no client.
        JournalError: No run has written the entries.
    """
    check_entries(entries, run_id)
    given: Any = app({**entries[0], "run_id": run_id})
    async with AsyncExitStack() as stack:
        if inspect.isawaitable(given):
            given = await given
        if hasattr(given, "__aenter__"):
            given = await stack.enter_async_context(given)
        if not isinstance(given, Mapping) or "client" not in given:
            raise UsageError('the application of the runs must return {"client": ..., "tools": [...]}')
        options = {**given}
        yield options.pop("client"), options


class _Worker:
    def __init__(self, journal: Journal, app: RunApp, concurrency: int, on_run: Callable[[str, str], object]) -> None:
        self._journal = journal
        self._app = app
        self._concurrency = concurrency
        self._on_run = on_run
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._active: dict[str, Run[Any]] = {}
        self._failures: dict[str, _Failure] = {}
        self._changed = anyio.Event()
        self._is_stopped = False

    async def take_runs(self, tasks: anyio.abc.TaskGroup, poll_s: float, *, once: bool) -> None:
        while not self._is_stopped:
            self._changed = anyio.Event()
            free: list[str] = []
            if len(self._scopes) < self._concurrency:
                now_s = anyio.current_time()
                # The longest unchanged ones come first. Those that are active or have failed here may be among them.
                limit = _CHOICE * self._concurrency + len(self._scopes) + len(self._failures)
                due = [summary.run_id for summary in await self._journal.due(limit=limit)]
                self._failures = {run_id: each for run_id, each in self._failures.items() if run_id in due}
                waiting = {run_id for run_id, each in self._failures.items() if each.until_s > now_s}
                free = [run_id for run_id in due if run_id not in waiting and run_id not in self._scopes]
                # Each worker takes different ones: a second owner finds out only after a part of the lease that there
                # is a first one.
                _random.shuffle(free)
            if self._is_stopped:
                return  # meanwhile: a run that was just given up may be due
            for run_id in free[: self._concurrency - len(self._scopes)]:
                scope = self._scopes[run_id] = anyio.CancelScope()
                tasks.start_soon(self._serve, run_id, scope)
            if once and not free and not self._scopes:
                return
            with anyio.move_on_after(poll_s):
                await self._changed.wait()

    async def stop_at(self, stop: anyio.Event, grace_s: float) -> None:
        await stop.wait()
        self._is_stopped = True
        self._changed.set()
        for run in [*self._active.values()]:
            run.hand_over()
        with anyio.move_on_after(grace_s):
            await self.idle()
        for scope in self._scopes.values():
            scope.cancel()

    async def idle(self) -> None:
        """Wait until no run is active here."""
        while self._scopes:
            self._changed = anyio.Event()
            await self._changed.wait()

    async def _serve(self, run_id: str, scope: anyio.CancelScope) -> None:
        status = "running"
        try:
            with scope:
                status = await self._continue(run_id)
            self._on_run(run_id, status)
        finally:
            del self._scopes[run_id]
            self._changed.set()

    async def _continue(self, run_id: str) -> str:
        may_retry, is_left = True, False
        try:
            if not (await self._journal.summary(run_id)).is_due:
                return "running"  # another worker was faster
            entries = await self._journal.read(run_id)
            match entries[0]:
                case {"parent": {"run": str(parent_id)}}:  # the run whose tool has started this one
                    parent = await self._status(parent_id)
                case _:
                    parent = None
            if parent in ("running", "waiting"):
                self._failures[run_id] = _Failure(_LONGEST_PAUSE_S, anyio.current_time() + _LONGEST_PAUSE_S)
                return "running"
            if parent is not None and not (await self._journal.view(run_id)).is_cancelled:
                await self._journal.cancel(run_id)
            async with (
                arguments_of(self._app, entries, run_id) as (client, options),
                resume(client, self._journal, run_id, **options) as run,
            ):
                may_retry = False
                self._active[run_id] = run
                if self._is_stopped:
                    run.hand_over()
                try:
                    await run.finish()
                except anyio.get_cancelled_exc_class():
                    is_left = True
                    run.hand_over(at_once=True)
                    raise
                except APIError as error:
                    if error.retryable:  # an outage, which must not end a run: it stays due
                        may_retry = True
                        run.hand_over(at_once=True)
                    raise
            self._failures.pop(run_id, None)
        except (RunOwnedError, RunNotFoundError):
            return "running"  # another worker was faster, or it was deleted
        except Exception as error:
            if may_retry:
                return self._failed(run_id, error)
            self._failures.pop(run_id, None)
            _log.warning("run %r has failed: %s", run_id, type(error).__name__)
        finally:
            self._active.pop(run_id, None)
        return "running" if is_left else await self._status(run_id) or "running"

    async def _status(self, run_id: str) -> str | None:
        """Return the status of a run; None if there is no such run."""
        try:
            return (await self._journal.summary(run_id)).status
        except RunNotFoundError:
            return None

    def _failed(self, run_id: str, error: Exception) -> str:
        before = self._failures.get(run_id)
        pause_s = _FIRST_PAUSE_S if before is None else min(before.pause_s * 2, _LONGEST_PAUSE_S)
        if len(self._failures) < _MAX_FAILURES or before is not None:
            self._failures[run_id] = _Failure(pause_s, anyio.current_time() + pause_s)
        # Texts of the library quote no contents; those of the application may.
        text = f": {error}" if isinstance(error, EagerStreamError) else ""
        _log.warning("run %r cannot continue now: %s%s", run_id, type(error).__name__, text)
        return "running"
