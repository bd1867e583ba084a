"""`HeldRun`: a run whose stream ends when it waits only for a person. The request that decides continues it.

The protocols of pages have no way to tell a server something while they read a stream. AG-UI ends a run with an
interrupt, and `useChat` a message with a request for approval. The next request has the decision. The run itself waits
meanwhile, in a task of its own: a server that stops waits for its requests, and should not wait for a person.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import anyio

from eagerstream._support.hosted_tasks import HostedTasks
from eagerstream.loop import Run

from ._actions import MAX_REASON_CHARS
from ._endpoint import drive
from ._hub import NOT_DECIDED, Hub
from ._log import RunLog, WatcherDropped
from ._merge import in_parts
from ._record import Record

_SETTLE_S: Final = 0.1
"""Time in which other calls of the turn may still start, before the run counts as one that waits for a person."""

_PART_CHARS: Final = 65_536
"""Maximum size of records to encode at once. A late and slow client holds no more than these make."""


@dataclass(frozen=True, slots=True)
class Approval:
    """The decision of a person about a call, as a client sends it with its next request.

    Attributes:
        run: The id of the run that asked.
        block: The number of the call's block in that run.
        call: The id of the call.
        approved: True if the call may run.
        reason: The reason that was given; None if there is none.
    """

    run: str
    block: int
    call: str
    approved: bool
    reason: str | None = field(default=None, repr=False)


class Encoder(Protocol):
    """Turns the records of a run into what a protocol sends."""

    @property
    def waits_for(self) -> Collection[int]:
        """The blocks of the calls that wait for a person, if the run does nothing meanwhile."""
        ...

    def encode(self, records: Sequence[Record], /) -> list[Any]:
        """Return what is sent for the next records."""
        ...

    def park(self) -> list[Any]:
        """Return the end of a stream whose run waits for a person."""
        ...

    def reopen(self) -> None:
        """Drop what was encoded, which the client has, and continue with the start of another stream."""
        ...


EncoderT = TypeVar("EncoderT", bound=Encoder)


class HeldRun(Generic[EncoderT]):
    """A run that clients read in parts.

    Args:
        run: The run, not entered yet.
        log: Its records.
        hub: Has its questions.
        new_encoder: Makes an encoder, from the start of the run.
        is_kept: The run goes on if nobody reads. Otherwise it is cancelled when its last reader leaves, and when nobody
            has decided in time about a call for which it waits.
    """

    def __init__(
        self, run: Run, log: RunLog, hub: Hub, new_encoder: Callable[..., EncoderT], *, is_kept: bool = False
    ) -> None:
        self.run = run
        self.log = log
        self.new_encoder = new_encoder
        self.is_parked = False
        """True if it waits for a person, and its last reader was told so."""
        self.has_asked = False
        """True if a reader was ever told so."""
        self._hub = hub
        self._is_kept = is_kept
        self._readers = 0
        self.failure: Exception | None = None
        """The error that ended the run; None if there was none."""

    @asynccontextmanager
    async def driving(self, ended: Callable[[Exception | None], object]) -> AsyncIterator[None]:
        """Drive the run, and wait for its end after the block, unless it waits for a person then.

        If the block fails, or this is cancelled, it leaves the run, which closes all of its parts. So does the end of
        the event loop.

        Args:
            ended: Called at the end of the run with the error that ended it, if any.
        """
        tasks = HostedTasks("a held run", lambda: ended(self.failure))
        tasks.begin(self._drive)
        error: BaseException | None = None
        try:
            yield
        except BaseException as caught:
            error = caught
            raise
        finally:
            if error is not None or not self.is_parked:
                await tasks.leave(error, is_idle=error is None)

    async def _drive(self) -> None:
        async with anyio.create_task_group() as tasks:
            if not self._is_kept:
                tasks.start_soon(self._cancel_if_undecided)
            self.failure = await drive(self.run, self.log)
            tasks.cancel_scope.cancel()

    async def _cancel_if_undecided(self) -> None:
        while not self.log.is_closed:
            with suppress(WatcherDropped):  # the next one begins with all that there is
                async with self.log.watch(min_interval_s=0) as watcher:
                    async for batch in watcher:
                        if not self._readers and any(map(_is_late, batch.records)):
                            self.run.cancel()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Count a reader. When the last one leaves, the run is cancelled, unless it waits for a person or is kept."""
        self._readers += 1
        self.is_parked = False
        try:
            yield
        finally:
            self._readers -= 1
            if not (self._readers or self.is_parked or self._is_kept):
                self.run.cancel()  # no effect on an ended run

    def _as_start(self, record: Record) -> Record:
        """Return the record of a process that continues a run as the start of one."""
        fields: Any = record
        if record["type"] != "run_resumed":
            return record
        start: Any = {**fields, "type": "run_start", "run": self.log.id, "name": self.log.name, "model": self.run.model}
        return cast("Record", start)

    def decide(self, approval: Approval) -> None:
        """Decide about a call. Do nothing if it was decided, by another page for example."""
        reason = approval.reason and approval.reason[:MAX_REASON_CHARS]
        with suppress(KeyError):
            self._hub.decide(self.log.id, approval.block, approved=approval.approved, reason=reason)

    async def read(
        self,
        encoder: Encoder,
        write: Callable[[list[Any]], Awaitable[object]],
        *,
        parks: bool,
        min_interval_s: float,
        after: Sequence[Approval] = (),
    ) -> bool:
        """Write the run to its end, or until it waits only for a person. Return True for the latter.

        Args:
            encoder: A new one.
            write: Sends what was encoded.
            parks: False: stay until the end.
            min_interval_s: As for `RunLog.watch`.
            after: The decisions of a client: it has what came until the run waited for them.

        Raises:
            WatcherDropped: The client reads more slowly than the run writes.
        """
        start: Any = self.log.latest_start  # what other processes have recorded before is not of this run
        known = _Known(after, is_resumed=not self.has_asked)
        async with self.log.watch(after=start["seq"] - 1, min_interval_s=min_interval_s) as watcher:
            while True:
                may_park = parks and known.is_complete and encoder.waits_for
                with anyio.move_on_after(_SETTLE_S if may_park else None) as settled:
                    batch = await anext(watcher, None)
                if settled.cancelled_caught:
                    self.is_parked = self.has_asked = True
                    await write(encoder.park())
                    return True
                if batch is None:
                    return False
                records = [self._as_start(record) for record in batch.records if record["seq"] >= start["seq"]]
                records = known.rest(encoder, records)
                for part in in_parts(records, _PART_CHARS):
                    if found := encoder.encode(part):
                        await write(found)
                del batch, records  # the next ones may take long


def _is_late(record: Record) -> bool:
    return record["type"] == "approval_stop" and record["reason"] == NOT_DECIDED


class _Known:
    """Finds the records of a run that a client has: all until the run waited for these decisions.

    Args:
        approvals: The decisions.
        is_resumed: The run was resumed from its journal after them. The client has the response, and the results of the
            calls for which nobody was asked.
    """

    def __init__(self, approvals: Sequence[Approval], *, is_resumed: bool) -> None:
        self._blocks = {each.block for each in approvals}
        self._calls = {each.call: each for each in approvals}
        self._is_resumed = is_resumed
        self.is_complete = not approvals
        """True if all that the client has was found."""
        self._asked: dict[int, Approval] = {}  # by the numbers of their blocks in this process
        self._others: set[int] = set()  # the blocks of the other calls of a resumed response

    def rest(self, encoder: Encoder, records: list[Record]) -> list[Record]:
        """Return the records that a client does not have. The encoder takes the others."""
        if self.is_complete:
            return [record for record in records if not self._is_old(record)] if self._others else records
        for number, record in enumerate(records):
            if self._is_resumed and self._is_new(record):
                self._take_states(encoder, record)
                return self.rest(encoder, records[number:])
            encoder.encode([record])
            if not self._is_resumed and encoder.waits_for and self._blocks <= set(encoder.waits_for):
                self.is_complete = True
                encoder.reopen()
                return records[number + 1 :]
        return []

    def _is_new(self, record: Record) -> bool:
        match record["type"]:
            case "input_start":
                if record["id"] in self._calls:
                    self._asked[record["block"]] = self._calls[record["id"]]
                else:
                    self._others.add(record["block"])
                return False
            case "tool_stop":
                return record["block"] in self._asked
            case kind:
                return kind in ("tool_start", "turn_stop", "run_stop")

    def _is_old(self, record: Record) -> bool:
        return record["type"] == "tool_stop" and record["block"] in self._others

    def _take_states(self, encoder: Encoder, at: Record) -> None:
        """Let the encoder know of the decisions, and that the other calls have their results."""
        self.is_complete = True
        place: Any = {"seq": at["seq"], "at_s": at["at_s"]}
        for block in self._others:
            stop: Any = {**place, "type": "tool_stop", "block": block, "ran": True, "is_error": False, "content": ""}
            encoder.encode([stop])
        for block, each in self._asked.items():
            asked: Any = {**place, "type": "approval_start", "block": block}
            decision: Any = {**asked, "type": "approval_stop", "approved": each.approved, "reason": each.reason}
            encoder.encode([asked, decision])
        encoder.reopen()
