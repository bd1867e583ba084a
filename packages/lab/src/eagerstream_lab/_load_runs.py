"""The runs of one level in one client: when they start, how they are reported, and when the level has been measured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from eagerstream._support.error_groups import members_of
from eagerstream.errors import EagerStreamError

from ._kinds import Arrivals
from ._load_plan import FIGURES, MAX_STARTS, Level, Phases, share_of, starts, user_starts
from ._programs import Program, ProgramFailed, run_program
from ._setup import Selection
from ._wire import MANY, address_of

_PAUSE_S: Final = 0.1
"""Pause of a user after a failed run, so that refusals are no flood."""
_MAX_CAUSES: Final = 10
_ERROR_CHARS: Final = 160

Figures: TypeAlias = tuple[float | None, ...]
"""Values of `FIGURES`, in seconds after the intended start; `None` if a figure does not apply, or is not known."""

UNKNOWN: Final[Figures] = (None,) * len(FIGURES)


class LoadedRun(NamedTuple):
    """One run. Times are seconds after the start of its level.

    Attributes:
        name: Name of the run at the proxy.
        intended_s: Time at which it should have started.
        started_s: Time at which it started.
        ended_s: Time of its end; `None` if it was cancelled at the end of the level.
        error: Class of the exception that ended it; `None` if there was none.
        figures: Its figures; those of a failed run do not count.
        queued: It had to wait, because as many runs as allowed were under way.
    """

    name: str
    intended_s: float
    started_s: float
    ended_s: float | None
    error: str | None
    figures: Figures
    queued: bool


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Settings of a client.

    Attributes:
        number, clients: Number of this client from 0, and of all clients.
        selection: Options that decide the cases of our own.
        url: Address of the server or the proxy; `None` for that of the environment.
        variables: Environment variables that point a program at it.
        proxied: The address is that of a proxy, which measures the runs by their names.
        max_tokens, max_turns, timeout_s: As in `Conditions`.
        max_connections: Number of connections that must be possible.
    """

    number: int
    clients: int
    selection: Selection
    url: str | None
    variables: Mapping[str, str] = field(repr=False)
    proxied: bool
    max_tokens: int
    max_turns: int
    timeout_s: float
    max_connections: int


@dataclass(frozen=True, kw_only=True)
class Order:
    """One level of one case.

    Attributes:
        number: Number of the order, which is part of the names of its runs.
        case: Id of the case.
        program: Program of the case; `None` for our own loop.
        prompt, model: Those of the case.
        level, phases, arrivals, seed: The load.
        max_concurrency: Maximum number of runs of all clients at once, in an open loop.
        origin_s: Start of the level, on the monotonic clock. It is known when all clients are ready.
    """

    number: int
    case: str
    program: Program | None
    prompt: str = field(repr=False)
    model: str
    level: Level
    phases: Phases
    arrivals: Arrivals
    seed: int
    max_concurrency: int
    origin_s: float = 0.0


class Load:
    """The runs of one level in one client.

    Args:
        settings: Settings of the client.
        order: The level.
        run_once: Runs the program or the loop once, and returns its figures. Its arguments are the name of the run and
            the time at which it should have started, on the monotonic clock.
        tell: Called with each run when it has ended.
    """

    def __init__(
        self,
        settings: ClientSettings,
        order: Order,
        run_once: Callable[[str, float], Awaitable[Figures]],
        tell: Callable[[LoadedRun], object],
    ) -> None:
        self._settings = settings
        self._order = order
        self._phases = order.phases
        self._run_once = run_once
        self._tell = tell
        self._started = 0
        self._under_way = 0  # of those that count
        self._starting = 0  # tasks that were made, and have not begun
        self._scheduled_s = 0.0  # all starts before this time have been made

    @property
    def is_done(self) -> bool:
        """True if the window has passed, and each run that counts has ended.

        Only the proxy sees the runs of a program that makes many. Such a level lasts until its grace period is over.
        """
        if self._order.program is not None and self._order.program.runs_many:
            return False
        end_s = self._phases.window[1]
        is_past = self._now() >= end_s and self._scheduled_s >= end_s
        return is_past and not self._starting and not self._under_way

    async def run(self) -> None:
        """Keep the load on until this is cancelled. Runs under way are cancelled then, and reported without an end."""
        number, clients = self._settings.number, self._settings.clients
        level, program = self._order.level, self._order.program
        async with anyio.create_task_group() as tasks:
            if level.concurrency is None:
                await self._arrive(tasks)
                return
            self._scheduled_s = float("inf")
            if program is not None and program.runs_many:
                if own := share_of(level.concurrency, client=number, clients=clients):
                    tasks.start_soon(self._run_many, program, own)
                return
            for at_s in user_starts(level.concurrency, ramp_s=self._phases.ramp_s)[number::clients]:
                tasks.start_soon(self._user, at_s)

    async def _user(self, at_s: float) -> None:
        await self._until(at_s)
        while self._started < MAX_STARTS // self._settings.clients:
            if not await self._once(self._now(), queued=False):
                await anyio.sleep(_PAUSE_S)

    async def _arrive(self, tasks: TaskGroup) -> None:
        order, settings = self._order, self._settings
        most = max(1, share_of(order.max_concurrency, client=settings.number, clients=settings.clients))
        places = anyio.Semaphore(most)
        assert order.level.rate is not None
        times = starts(
            order.level.rate,
            ramp_s=self._phases.ramp_s,
            arrivals=order.arrivals,
            seed=f"{order.seed} {order.level.name}",
        )
        free_at_s = 0.0
        for at_s in islice(times, settings.number, MAX_STARTS, settings.clients):
            self._scheduled_s = at_s
            await self._until(at_s)
            is_full = not places.value
            await places.acquire()
            if is_full:
                free_at_s = self._now()
            self._starting += 1
            tasks.start_soon(partial(self._arrival, at_s, places, queued=at_s < free_at_s))

    async def _arrival(self, at_s: float, places: anyio.Semaphore, *, queued: bool) -> None:
        self._starting -= 1
        try:
            await self._once(at_s, queued=queued)
        finally:
            places.release()

    async def _once(self, intended_s: float, *, queued: bool) -> bool:
        """Run once, and report it. Return False if it failed."""
        order = self._order
        self._started += 1
        name = f"{order.number}-{self._settings.number}-{self._started}"
        counts = self._phases.counts(intended_s)
        self._under_way += counts
        started_s = self._now()
        figures, error, ended_s = UNKNOWN, None, None
        try:
            with anyio.fail_after(self._settings.timeout_s):
                figures = await self._run_once(name, order.origin_s + intended_s)
            ended_s = self._now()
        except Exception as raised:
            ended_s = self._now()
            error = _name_of(members_of(raised)[0])
        finally:
            self._under_way -= counts
            self._tell(LoadedRun(name, intended_s, started_s, ended_s, error, figures, queued))
        return error is None

    async def _run_many(self, program: Program, concurrency: int) -> None:
        """Run a program that makes many runs at once, again and again. The proxy sees its runs; only failures count."""
        order, settings = self._order, self._settings
        name = f"{MANY}-{order.number}-{settings.number}"
        while True:
            started_s = self._now()
            try:
                await run_program(
                    program,
                    prompt=order.prompt,
                    model=order.model,
                    variables=variables_of(settings, name),
                    concurrency=concurrency,
                )
            except EagerStreamError as raised:
                now_s = self._now()
                self._tell(LoadedRun("", now_s, started_s, now_s, _name_of(raised), UNKNOWN, queued=False))
                await anyio.sleep(_PAUSE_S)
            await anyio.lowlevel.checkpoint()

    async def _until(self, at_s: float) -> None:
        delay_s = at_s - self._now()
        await (anyio.sleep(delay_s) if delay_s > 0 else anyio.lowlevel.checkpoint())

    def _now(self) -> float:
        return monotonic() - self._order.origin_s


def variables_of(settings: ClientSettings, name: str) -> dict[str, str]:
    """Return the environment variables that point a program at the proxy, under the name of a run."""
    url = settings.url or ""
    return {key: value.replace(url, address_of(url, name)) for key, value in settings.variables.items()}


def _name_of(error: BaseException) -> str:
    """Return the class of an exception, with the status of a refused request, or the class of its first cause."""
    name = type(error).__name__
    if isinstance(error, ProgramFailed):
        return f"{name}: {error}"[:_ERROR_CHARS]
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return f"{name} {status}"
    cause = error
    for _ in range(_MAX_CAUSES):
        cause = cause.__cause__ or cause
    return name if cause is error else f"{name} ({type(cause).__name__})"
