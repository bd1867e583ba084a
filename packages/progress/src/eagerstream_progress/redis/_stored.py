"""The contents of Redis: the names of keys, sealed texts, and the one script that writes a run.

| key | value |
|---|---|
| `PREFIX:runs` | a sorted set of the ids of runs, by the times of their starts |
| `PREFIX:run:ID` | a hash: `owner`, `generation`, `number` of the last write, and `head`, a sealed `Head` |
| `PREFIX:records:ID` | a stream of `Entry`s, which begins with a snapshot |
| `PREFIX:owner:PROCESS` | exists as long as the process renews it |
| `PREFIX:inbox:PROCESS` | a stream of what other processes ask for, and of their answers |
| `PREFIX:changes` | a stream of the ids of runs whose head has changed |
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Self

from pydantic import TypeAdapter

from .._log import Batch
from .._merge import grouped
from .._record import Record, record_adapter
from .._run_summary import RunSummary

MAX_ID_CHARS: Final = 200
"""Maximum length of a run's id. Others are not relayed."""
MAX_INBOX: Final = 1_000
"""Maximum number of messages in the inbox of a process, roughly."""
_PART_CHARS: Final = 262_144
"""Size of a part of a snapshot, roughly: its JSON is read in one step of a few milliseconds."""
_MAC_BYTES: Final = 32

WRITE_RUN: Final = """
local how, owner, generation, number, ttl_ms, head, started_s, id, min_id = unpack(ARGV, 1, 9)
local run, records, runs, changes = unpack(KEYS)
local function own(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= kind and found ~= 'none' then redis.call('DEL', key) end
end
own(run, 'hash')
own(records, 'stream')
own(runs, 'zset')
own(changes, 'stream')
local held = redis.call('HMGET', run, 'owner', 'generation', 'number')
local is_own = held[1] == owner
if is_own and (tonumber(held[3]) or 0) >= tonumber(number) then return 1 end
if how == 'claim' then
  if held[1] and not is_own then
    if (tonumber(held[2]) or 0) >= tonumber(generation) then return -1 end
  end
  redis.call('DEL', records)
elseif not is_own then
  return held[1] and -1 or 0
elseif #ARGV > 9 and redis.call('EXISTS', records) == 0 then
  return 0
end
local first = 1
for place = 10, #ARGV do
  local entry = redis.pcall('XADD', records, '*', 'e', ARGV[place])
  if type(entry) == 'table' then
    redis.call('DEL', records)
    return 0
  end
  if place == 10 then first = entry end
end
redis.call('HSET', run, 'owner', owner, 'generation', generation, 'number', number)
if min_id ~= '' then redis.call('XTRIM', records, 'MINID', min_id) end
if head ~= '' then
  redis.call('HSET', run, 'head', head)
  redis.call('ZADD', runs, started_s, id)
  redis.call('ZREMRANGEBYRANK', runs, 0, -1001)
  if type(redis.pcall('XADD', changes, 'MAXLEN', '~', 1000, '*', 'run', id)) == 'table' then
    redis.call('DEL', changes)
    redis.call('XADD', changes, '*', 'run', id)
  end
  redis.call('EXPIRE', runs, 86400)
  redis.call('EXPIRE', changes, 86400)
end
redis.call('PEXPIRE', run, ttl_ms)
redis.call('PEXPIRE', records, ttl_ms)
return first
"""
"""Writes entries and the head of a run in one step, for its owner only.

It returns the id of the first entry, or 1; 0 if Redis has lost the run, so that its owner must claim it again; -1 if
another process has claimed it. The writes of a process are numbered: one that comes twice, or after a later one, does
nothing. Keys that somebody has made unusable (another type, the largest id) are removed.
"""


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of the keys."""

    prefix: str

    def run(self, run_id: str) -> str:
        return f"{self.prefix}:run:{run_id}"

    def records(self, run_id: str) -> str:
        return f"{self.prefix}:records:{run_id}"

    def owner(self, process: str) -> str:
        return f"{self.prefix}:owner:{process}"

    def inbox(self, process: str) -> str:
        return f"{self.prefix}:inbox:{process}"

    @property
    def runs(self) -> str:
        return f"{self.prefix}:runs"

    @property
    def changes(self) -> str:
        return f"{self.prefix}:changes"


class Seal:
    """Marks texts so that nobody can make or change them without the secret (HMAC-SHA256).

    Args:
        secret: The secret; None if texts are not marked.
        prefix: Texts of another prefix are refused.
    """

    def __init__(self, secret: str | None, prefix: str) -> None:
        named = f"eagerstream relay {prefix}".encode()
        self._key = None if secret is None else hmac.digest(secret.encode(), named, "sha256")

    def close(self, place: str, text: bytes) -> bytes:
        """Return a marked text, which is only good for this place."""
        return text if self._key is None else self._mark(place, text) + text

    def open(self, place: str, sealed: bytes) -> bytes:
        """Return the text.

        Raises:
            ValueError: It was not marked with this secret, or for another place.
        """
        if self._key is None:
            return sealed
        mark, text = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        if not hmac.compare_digest(mark, self._mark(place, text)):
            raise ValueError("not written by a process with the secret")
        return text

    def _mark(self, place: str, text: bytes) -> bytes:
        assert self._key is not None
        made = hmac.new(self._key, hashlib.sha256(place.encode()).digest(), "sha256")
        made.update(text)
        return made.digest()


@dataclass(frozen=True, slots=True)
class Head:
    """The facts about a run.

    Attributes:
        owner: The process that has it.
        generation: The time of the first record of its log, in milliseconds since 1970. It is another one if another
            log of this id follows, and a later one, so that nobody takes its records for those of the earlier log.
        number: The number of the write with it, which rises in a process.
        summary: The facts for the list of runs.
    """

    owner: str
    generation: int
    number: int
    summary: RunSummary

    def encode(self) -> bytes:
        """Return the head as JSON."""
        fields = [self.owner, self.generation, self.number, self.summary]
        return json.dumps(fields, separators=(",", ":")).encode("ascii")

    @classmethod
    def decode(cls, text: bytes) -> Self:
        """Return the head of a JSON text.

        Raises:
            ValueError: It is none.
            RecursionError: It is nested too deeply.
        """
        match json.loads(text):
            case [str(owner), int(generation), int(number), summary]:
                return cls(owner, generation, number, _summary_adapter().validate_python(summary, strict=True))
            case _:
                raise ValueError("not a head")


@cache
def _summary_adapter() -> TypeAdapter[RunSummary]:
    return TypeAdapter(RunSummary)


@dataclass(frozen=True, slots=True)
class Entry:
    """Records of a run in its stream.

    Attributes:
        generation: As that of the `Head`.
        after: A mirror that has the records up to this number can go on with the next entries.
        seq: The number of the last record in it; that of the whole snapshot if it is a part of one.
        part: The number of this part of a snapshot, from 0; None if it is none.
        parts: Number of parts of the snapshot.
        ends: True at the end of the log.
        records: The records.
    """

    generation: int
    after: int
    seq: int
    part: int | None = None
    parts: int = 0
    ends: bool = False
    records: Sequence[Record] = ()

    def encode(self) -> bytes:
        """Return the entry as JSON. Unlike that of pages, all numbers are exact in it."""
        fields = [self.generation, self.after, self.seq, self.part, self.parts, self.ends, list(self.records)]
        return json.dumps(fields, separators=(",", ":")).encode("ascii")

    @classmethod
    def decode(cls, text: bytes) -> Self:
        """Return the entry of a JSON text.

        Raises:
            ValueError: It is none.
            RecursionError: It is nested too deeply.
        """
        match json.loads(text):
            case [int(generation), int(after), int(seq), int() | None as part, int(parts), bool(ends), list(plain)]:
                records = [record_adapter().validate_python(record) for record in plain]
                return cls(generation, after, seq, part, parts, ends, records)
            case _:
                raise ValueError("not an entry")


def entries_of(batch: Batch, generation: int, after: int) -> Iterator[Entry]:
    """Yield the entries of a batch that nobody merged. A snapshot has a part or more."""
    if not batch.is_snapshot:
        yield Entry(generation, after, batch.seq, records=batch.records)
        return
    parts = list(grouped(batch.records, _PART_CHARS))  # whole records: a mirror merges them again
    for place, part in enumerate(parts):
        yield Entry(generation, after, batch.seq, part=place, parts=len(parts), records=part)
