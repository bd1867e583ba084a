"""`Batch`: some records for a watcher, and their JSON, which is made once for all watchers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ._json_pieces import json_pieces
from ._merge import size
from ._record import Record

_LARGE: Final = 262_144  # characters whose JSON takes some milliseconds


@dataclass(frozen=True)
class Batch:
    """Records for a watcher.

    Attributes:
        records: In order; of each block there is one delta at most.
        seq: The number of the last record among them: what to give as `after` to go on behind it.
        is_snapshot: They do not continue what came before: forget it, they build up the state of the run from nothing.
    """

    records: list[Record]
    seq: int
    is_snapshot: bool
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    _pieces: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def is_large(self) -> bool:
        """Whether `encode` takes so long that it belongs into a thread."""
        chars = 0
        return any((chars := chars + size(record)) > _LARGE for record in self.records)

    def encode(self) -> Sequence[bytes]:
        """Return `{"snapshot": ..., "records": [...]}` on one line, in ASCII, in pieces; the first call makes them.

        Numbers that JavaScript would round are marked, see `record_schema`.
        """
        with self._lock:
            if not self._pieces:
                self._pieces.extend(json_pieces({"snapshot": self.is_snapshot, "records": self.records}))
            return self._pieces

    @property
    def json(self) -> str:
        """All that `encode` gives, as one text."""
        return b"".join(self.encode()).decode("ascii")
