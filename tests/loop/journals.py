"""A journal in memory, whose contents a test can copy at any moment: the state that a crash would leave."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

from eagerstream.errors import OwnershipLostError, RunExistsError, RunNotFoundError
from eagerstream_wire import JSONObject


def plain(value: Any) -> Any:
    """A copy, as a file would have it."""
    return json.loads(json.dumps(value, allow_nan=False))


class Written(Awaitable[None]):
    """What an `append` returns: it is durable already."""

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


class MemoryJournal:
    """See `RunJournal`.

    Attributes:
        runs: The entries of each run.
        left: The inbox of each run.
        statuses: The status with which each run was released.
        on_write: Called after each write.
    """

    def __init__(self, runs: dict[str, list[JSONObject]] | None = None) -> None:
        self.runs: dict[str, list[JSONObject]] = plain(runs or {})
        self.left: dict[str, list[JSONObject]] = {}
        self.statuses: dict[str, tuple[str, JSONObject]] = {}
        self.fences: dict[str, int] = dict.fromkeys(self.runs, 1)
        self.on_write: Callable[[], object] = lambda: None

    async def create(self, run_id: str, entry: JSONObject) -> MemoryLog:
        if run_id in self.runs:
            raise RunExistsError("it exists", run_id=run_id)
        self.runs[run_id], self.fences[run_id] = [plain(entry)], 1
        return MemoryLog(self, run_id, 1)

    async def open(self, run_id: str) -> MemoryLog:
        if run_id not in self.runs:
            raise RunNotFoundError("there is none", run_id=run_id)
        self.fences[run_id] += 1
        return MemoryLog(self, run_id, self.fences[run_id])

    def kinds(self, run_id: str) -> list[tuple[Any, Any]]:
        """The kinds of the entries of a run, with their turns."""
        return [(entry["kind"], entry["turn"]) for entry in self.runs[run_id]]


class MemoryLog:
    """See `RunLog`."""

    def __init__(self, journal: MemoryJournal, run_id: str, fence: int) -> None:
        self._journal = journal
        self.run_id = run_id
        self.fence = fence
        self.entries: Sequence[JSONObject] = plain(journal.runs[run_id])

    def append(self, *entries: JSONObject) -> Written:
        self.check()
        self._journal.runs[self.run_id] += plain(entries)
        self._journal.on_write()
        return Written()

    def settle(self, entry: JSONObject) -> Written:
        self.check()
        run = self._journal.runs[self.run_id]
        while run[-1]["kind"] not in ("begin", "turn", "end"):
            del run[-1]
        run.append(plain(entry))
        self._journal.on_write()
        return Written()

    def check(self) -> None:
        if self._journal.fences[self.run_id] != self.fence:
            raise OwnershipLostError("another process has it", run_id=self.run_id)

    async def inbox(self, after: int) -> list[tuple[int, JSONObject]]:
        left = self._journal.left.get(self.run_id, [])
        return [(number, each) for number, each in enumerate(left, 1) if number > after]

    async def release(self, status: str | None, summary: JSONObject) -> None:
        if status is not None:
            self._journal.statuses[self.run_id] = status, plain(summary)
