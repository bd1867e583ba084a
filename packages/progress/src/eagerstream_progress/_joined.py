"""`join_records`: the records of a run that several processes drove, as those of one run.

The number of each record, block and second continues from one process to the next. The time between two processes is
in `run_resumed` only, so that no duration has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from eagerstream.errors import UsageError

from ._merge import last_seq
from ._record import Record, RunStartRecord


@dataclass(frozen=True, slots=True)
class RecordsEnd:
    """The end of the records of a run so far, where those of another process continue.

    Attributes:
        seq: The number of the last record.
        block: The largest number of a block.
        at_s: The time of the last record, in seconds since the start of the run.
        ended_at: The wall-clock time of the last record; None if it is not known.
    """

    seq: int = 0
    block: int = 0
    at_s: float = 0.0
    ended_at: datetime | None = None

    @classmethod
    def of(cls, records: Sequence[Record]) -> RecordsEnd:
        """Return the end of records; O(their number)."""
        seq = block = 0
        at_s = start_s = 0.0
        started_at: datetime | None = None
        for record in records:
            fields = cast("dict[str, Any]", record)
            seq = max(seq, last_seq(record))
            block = max(block, fields.get("block", 0))
            at_s = max(at_s, fields.get("to_s", record["at_s"]))
            if record["type"] in ("run_start", "run_resumed"):
                started_at, start_s = time_of(fields["started_at"]), record["at_s"]
        # Blocks of void responses may be missing, but each block has a record: so the numbers of blocks are not larger.
        ended_at = started_at + timedelta(seconds=at_s - start_s) if started_at is not None else None
        return cls(seq, max(seq, block), at_s, ended_at)

    def gap_s(self, started_at: str) -> float | None:
        """Return the seconds from here to the start of the next process; None if the clocks do not tell."""
        start = time_of(started_at)
        if start is None or self.ended_at is None or start < self.ended_at:
            return None
        return round((start - self.ended_at).total_seconds(), 3)


def continues(start: RunStartRecord) -> bool:
    """Return True if the records after this one may continue those of an earlier process."""
    return start.get("resumed_after") is not None


def join_records(*parts: Sequence[Record]) -> list[Record]:
    """Join the records of a run that several processes drove, each as `load_records` returns them.

    The parts may be given in any order: they are joined by the number of turns that were settled before each of them,
    then by their times. A `run_resumed` record is in place of the start of each part but the first, with the length of
    the gap. `at_s` leaves the gaps out. The end of a part that another one continues is left out, too.

    Raises:
        UsageError: There is no part, a part does not start with a run, or they are not parts of one run.
    """
    starts = [_start_of(part) for part in parts]
    if len({start["run"] for start in starts}) != 1:
        raise UsageError("join_records needs the records of one run")
    order = sorted(
        range(len(parts)), key=lambda place: (starts[place].get("resumed_after", -1), starts[place]["started_at"])
    )
    if not all(continues(starts[place]) for place in order[1:]):
        raise UsageError("only one of the parts may be the start of the run: the others have resumed_after")
    joined: list[Record] = []
    for place in order:
        joined = continued(joined, parts[place]) if joined else list(parts[place])
    return joined


def joined_runs(saved: Sequence[Sequence[Record]]) -> list[list[Record]]:
    """Join the records of each run that several processes drove.

    The same records twice, or an edited copy of them, stay for themselves.
    """
    parts: dict[str, dict[tuple[int, str], Sequence[Record]]] = {}
    copies: list[list[Record]] = []
    for records in saved:
        start = _start_of(records)
        place = (start.get("resumed_after", -1), start["started_at"] if continues(start) else "")
        known = parts.setdefault(start["run"], {})
        if place in known:
            copies.append(list(records))
        else:
            known[place] = records
    return [join_records(*run.values()) for run in parts.values()] + copies


def continued(records: Sequence[Record], more: Sequence[Record]) -> list[Record]:
    """Return records with those of the next process after them."""
    start = _start_of(more)
    end = RecordsEnd.of(records)
    resumed: Any = {**start, "type": "run_resumed", "gap_s": end.gap_s(start["started_at"])}
    for name in ("run", "name", "model"):
        del resumed[name]
    joined: list[Record] = [record for record in records if record["type"] != "run_stop"]
    by = {"seq": end.seq, "to_seq": end.seq, "block": end.block, "at_s": end.at_s, "to_s": end.at_s}
    for record in (resumed, *more[1:]):
        fields = cast("dict[str, Any]", record)
        # To the microsecond, as they are recorded.
        moved = {name: round(fields[name] + offset, 6) for name, offset in by.items() if name in fields}
        joined.append(cast("Record", {**fields, **moved}))
    return joined


def _start_of(part: Sequence[Record]) -> RunStartRecord:
    if not part or part[0]["type"] != "run_start":
        raise UsageError("each part must start with a run")
    return part[0]


def time_of(text: str) -> datetime | None:
    """Return the time of an ISO 8601 text; None if it is none, or has no time zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
