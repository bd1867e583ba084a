"""`FairQueue`: assigns the free workers of a pool to the calls of many executors."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

import anyio

from eagerstream.errors import ToolError, WorkerLost

W = TypeVar("W")


@dataclass(slots=True, eq=False)
class _Ticket(Generic[W]):
    """Waiting call; `worker` is the worker assigned to it."""

    number: int
    ready: anyio.Event = field(default_factory=anyio.Event)
    worker: W | None = None
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class _Owner(Generic[W]):
    running: int = 0
    waiting: deque[_Ticket[W]] = field(default_factory=deque)


class FairQueue(Generic[W]):
    """Queue that assigns the places of workers to the calls that wait for them.

    A free place goes to the owner with the fewest running calls. If several owners have equally few, it goes to the
    call that has waited longest. The calls of one owner are served in order. The worker with the most free places takes
    the call.

    Args:
        calls_per_worker: Number of places of each worker.
        max_waiting: Maximum number of calls that wait. A further call is refused.
    """

    def __init__(self, *, calls_per_worker: int, max_waiting: int) -> None:
        self._calls_per_worker = calls_per_worker
        self._max_waiting = max_waiting
        self._load: dict[W, int] = {}
        self._given_up: Exception | None = None
        self._owners: dict[object, _Owner[W]] = {}
        self._next: list[tuple[int, int, object]] = []  # a heap; outdated entries are skipped
        self._numbers = count()
        self.waiting = 0
        """Number of calls that wait."""

    @property
    def workers(self) -> int:
        """Number of workers in the queue."""
        return len(self._load)

    @property
    def busy(self) -> int:
        """Number of those workers that have a call."""
        return sum(load > 0 for load in self._load.values())

    def add(self, worker: W) -> None:
        """Add a worker that is ready."""
        self._load[worker] = 0
        self._given_up = None
        self._give()

    def remove(self, worker: W) -> None:
        """Send no more calls to a worker."""
        self._load.pop(worker, None)

    def give_up(self, error: Exception) -> None:
        """Fail the calls that wait, and all further calls, with this error, until a worker is ready."""
        self._given_up = error
        for owner in self._owners.values():
            for ticket in owner.waiting:
                ticket.error = error
                ticket.ready.set()
            owner.waiting.clear()
        self.waiting = 0
        self._next.clear()
        self._owners = {key: owner for key, owner in self._owners.items() if owner.running}

    async def take(self, owner: object) -> W:
        """Wait for a place at a worker, and return the worker. Give the place back after use.

        Cancelling this loses nothing.

        Raises:
            WorkerLost: No worker is available.
            ToolError: Too many calls wait.
        """
        if self._given_up is not None:
            raise WorkerLost(str(self._given_up))
        if self.waiting >= self._max_waiting:
            text = f"Not executed: {self.waiting} calls wait for a worker already."
            raise ToolError(text, hint="Try again later.", code="SERVICE_UNAVAILABLE")
        ticket: _Ticket[W] = _Ticket(next(self._numbers))
        found = self._owners.setdefault(owner, _Owner())
        found.waiting.append(ticket)
        self.waiting += 1
        if len(found.waiting) == 1:
            self._enter(owner, found)
        self._give()
        try:
            await ticket.ready.wait()
        except BaseException:
            if ticket.worker is not None:
                self.give_back(owner, ticket.worker)
            elif ticket.error is None:
                found.waiting.remove(ticket)
                self.waiting -= 1
                self._enter(owner, found)
            raise
        if ticket.error is not None:
            raise WorkerLost(str(ticket.error))
        assert ticket.worker is not None
        return ticket.worker

    def give_back(self, owner: object, worker: W) -> None:
        """Return the place of a finished call."""
        found = self._owners[owner]
        found.running -= 1
        if worker in self._load:
            self._load[worker] -= 1
        self._enter(owner, found)
        self._give()

    def _enter(self, key: object, owner: _Owner[W]) -> None:
        """Update an owner's place in the queue."""
        if owner.waiting:
            heapq.heappush(self._next, (owner.running, owner.waiting[0].number, key))
        elif not owner.running:
            self._owners.pop(key, None)

    def _give(self) -> None:
        """Assign free places while calls wait."""
        while self._next and self._load:
            worker = min(self._load, key=self._load.__getitem__)
            if self._load[worker] >= self._calls_per_worker:
                return
            running, number, key = heapq.heappop(self._next)
            owner = self._owners.get(key)
            if owner is None or owner.running != running or not owner.waiting or owner.waiting[0].number != number:
                continue
            ticket = owner.waiting.popleft()
            self.waiting -= 1
            owner.running += 1
            self._load[worker] += 1
            ticket.worker = worker
            ticket.ready.set()
            self._enter(key, owner)
