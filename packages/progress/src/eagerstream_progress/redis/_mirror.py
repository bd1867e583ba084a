"""`Mirror`: the log of a run of another process, read from its stream."""

from __future__ import annotations

import asyncio
from typing import Final

from .._log import RunLog
from ._stored import Entry, Seal

START: Final = b"0-0"
"""The position before the first entry of a stream."""


class Mirror:
    """Builds the log of a run from the entries of its stream.

    Entries that come twice do nothing. If some are missing, it waits until it is read again from the start.

    Attributes:
        log: The log.
        position: The id of the last entry that was read.
        is_loaded: Set when it has all that was in the stream.
        used_s: Time of the last use, by the clock of the event loop.
        missing_s: Time since which Redis has no such run; None if it has it.
        has_gap: True if entries are missing before one that came.
        damaged: Number of entries that nobody with the secret has written, or that cannot be read.
    """

    def __init__(self, run_id: str, seal: Seal) -> None:
        self.log: RunLog = RunLog(run_id)
        self.position: bytes = START
        self.is_loaded: asyncio.Event = asyncio.Event()
        self.used_s: float = 0.0
        self.has_gap: bool = False
        self.damaged: int = 0
        self.missing_s: float | None = None
        self._seal = seal
        self._place = f"records:{run_id}"
        self._generation = 0
        self._parts: list[Entry] = []  # of a snapshot that is not complete

    def take(self, position: bytes, sealed: bytes) -> None:
        """Take the next entry of the stream."""
        self.position = position
        try:
            entry = Entry.decode(self._seal.open(self._place, sealed))
            if entry.generation < self._generation:
                return  # of a process that had the run before
            is_known = entry.generation == self._generation and entry.after <= self.log.seq
            if entry.part is not None:
                if not is_known:
                    self._take_part(entry, entry.part)
            elif not is_known:
                self.has_gap = True
            elif entry.ends:
                if entry.seq == self.log.seq:  # else it has gone on
                    self.log.close()
            elif new := [record for record in entry.records if record["seq"] > self.log.seq]:
                self.log.reopen()
                self.log.append(new)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError):
            self.damaged += 1

    def close(self) -> None:
        """End the log, also for those who wait for it."""
        self.log.close()
        self.is_loaded.set()

    def restart(self) -> None:
        """Read the stream from its start again."""
        self.position = START
        self.has_gap = False

    def _take_part(self, entry: Entry, part: int) -> None:
        first = self._parts[0] if part and self._parts else entry
        if part == 0:
            self._parts = []
        of_one = (entry.generation, entry.seq, entry.parts) == (first.generation, first.seq, first.parts)
        if part != len(self._parts) or not of_one:
            self.has_gap = True
            return
        self._parts.append(entry)
        if part == entry.parts - 1:
            records = [record for each in self._parts for record in each.records]
            self._parts = []
            self.log.load(records, entry.seq)
            self._generation = entry.generation
