"""Runs in files: their records as JSON Lines, to be watched again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio
import anyio.to_thread
from pydantic import ValidationError

from .._support.files import open_instead, replacing, sync
from .._support.plain_json import load_json
from .._support.redaction import redact, redact_text
from ..errors import UsageError
from ..limits import DEFAULT_LIMITS
from ..wire import PartialJSON, apply_patch, check_positive, is_deeper
from ._exact import dumps, may_be_marked, unmarked
from ._log import RunLog
from ._merge import DELTA_TEXTS
from ._record import VERSION, Record, record_adapter

MAX_BYTES: Final = 512 * 2**20
"""Of a file that is read."""
_MAX_DEPTH: Final = DEFAULT_LIMITS.max_depth + 8  # around the value of an input stand its patch and its record
_MAX_S: Final = 1e9


def save_records(path: Path, records: Iterable[Record], *, redact: bool = True) -> None:
    """Write records to a file, one a line.

    Only the owner may read the file. It takes its place when it is complete and on the disk.

    Args:
        path: Where to. A file that is there is replaced; so is a link, which is not followed.
        records: `RunLog.records()`, say.
        redact: Mask secrets: what looks like a key, and fields with the name of one. Off, the file holds all that was
            said: keep it as you keep the conversation.

    Raises:
        OSError: It cannot be written.
    """
    with replacing(path) as file:
        file.write(_lines(records, redact=redact))


async def record_run(log: RunLog, path: Path, *, redact: bool = True) -> None:
    """Write the records of a run to a file while it goes on, each as it was; returns at its end.

    If this is cancelled, what was written stays. For a run that is longer than what a log keeps; needs a task of its
    own, before the run is. Only the owner may read the file.

    Args:
        log: Of the run.
        path: Where to. A file that is there is replaced at once; so is a link, which is not followed.
        redact: As for `save_records`. Secrets may be spread over the deltas of a block: they wait for its end.

    Raises:
        OSError: It cannot be written.
        WatcherDropped: The file is slower than the run.
    """
    waiting: list[Record] = []
    open_blocks: set[int] = set()

    async def written(records: list[Record]) -> bytes:
        # To mask a megabyte takes half a second, which the run must not wait for.
        return await anyio.to_thread.run_sync(partial(_lines, records, redact=redact))

    async with (
        anyio.wrap_file(await anyio.to_thread.run_sync(open_instead, path)) as file,
        log.watch(merges=False) as watcher,
    ):
        async for batch in watcher:
            for record in batch.records:
                match record["type"]:
                    case "block_start" | "input_start":
                        open_blocks.add(record["block"])
                    case "block_stop" | "input_stop":
                        open_blocks.discard(record["block"])
                    case "restarted" | "message_start" | "turn_stop" | "run_stop":
                        open_blocks.clear()  # what was open is void, or was cut off
                    case _:
                        pass
                waiting.append(record)
                if not open_blocks:
                    await file.write(await written(waiting))
                    waiting.clear()
        await file.write(await written(waiting))
        await anyio.to_thread.run_sync(sync, file.wrapped)


def _lines(records: Iterable[Record], *, redact: bool) -> bytes:
    written = redacted(records) if redact else records
    return "".join(dumps({**record, "v": VERSION}) + "\n" for record in written).encode("ascii")


def load_records(path: Path) -> list[Record]:
    """The records in a file, checked: whoever is fed with them does not fail on them.

    Raises:
        UsageError: A line is no record, or does not fit those before it, or the file is too large.
        OSError: It cannot be read.
    """
    if path.stat().st_size > MAX_BYTES:
        raise UsageError(f"{path.name} is larger than {MAX_BYTES:,} bytes")
    adapter = record_adapter()
    records: list[Record] = []
    blocks: dict[int, _Block] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.isspace():
                continue
            try:
                plain = load_json(line)
                if not isinstance(plain, dict) or plain.get("v") not in (1, VERSION):
                    raise UsageError(f"{path.name}, line {number}: no record of version 1 or {VERSION}")
                if plain["v"] == VERSION and may_be_marked(line):
                    plain = unmarked(plain)
                record = adapter.validate_python(plain)
            except (ValueError, RecursionError) as error:
                what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "no JSON"
                raise UsageError(f"{path.name}, line {number}: not a record: {what}") from error
            if records and record["seq"] <= records[-1]["seq"]:
                raise UsageError(f"{path.name}, line {number}: the numbers of records must rise")
            try:
                _check(record, blocks)
            except ValueError as error:
                raise UsageError(f"{path.name}, line {number}: {error}") from error
            records.append(record)
    if not records or records[0]["type"] != "run_start":
        raise UsageError(f"{path.name} does not begin with a run")
    return records


class _Block:
    """What the records of a block have said so far."""

    def __init__(self, delta: str | None) -> None:
        self.delta = delta  # the type of its deltas; None while it is not known
        self.value: Any = None
        self.is_omitted = False


def _check(record: Record, blocks: dict[int, _Block]) -> None:
    """A record is one that can be shown, and fits those of its block that were before it.

    Raises:
        ValueError: It does not.
    """
    fields = cast("dict[str, Any]", record)
    if not 0 <= record["at_s"] <= _MAX_S:
        raise ValueError("its time is none")
    if any(type(value) is int and name != "value" and not 0 <= value < 2**53 for name, value in fields.items()):
        raise ValueError("a number is out of range")
    if is_deeper(fields, _MAX_DEPTH):
        raise ValueError("it is nested too deep")
    number = fields.get("block")
    if number is None:
        return
    kind = record["type"]
    if kind in ("input_start", "block_start") and number in blocks:
        raise ValueError(f"block {number} begins a second time")
    is_delta = kind in DELTA_TEXTS
    block = blocks.setdefault(number, _Block("input_delta" if kind == "input_start" else None))
    if not is_delta:
        return
    if block.delta not in (None, kind):
        raise ValueError(f"block {number} has a delta of another kind")
    block.delta = kind
    block.is_omitted |= bool(fields.get("omitted_chars"))
    if kind == "input_delta" and not block.is_omitted:
        if any(is_deeper({"": op["value"]}, _MAX_DEPTH - op["path"].count("/")) for op in fields["patch"]):
            raise ValueError("it is nested too deep")
        block.value = apply_patch(block.value, fields["patch"])
        if not isinstance(block.value, dict | None):
            raise ValueError("an input is no object")


async def replay(records: Sequence[Record], log: RunLog, *, speed: float = 1.0) -> None:
    """Add records to a log at the times at which they were made, then close it; cancelling leaves it open.

    Args:
        records: As loaded.
        log: A new one.
        speed: So many times as fast; `inf` without any waiting.

    Raises:
        UsageError: `speed` is not positive.
    """
    check_positive("speed", speed)
    start_s = anyio.current_time()
    for record in records:
        await anyio.sleep_until(start_s + record["at_s"] / speed)
        log.append([record])
    log.close()


def redacted(records: Iterable[Record]) -> list[Record]:
    """Copies of records with their secrets masked, also those that are spread over several deltas."""
    copies = [cast("dict[str, Any]", record) for record in records]
    texts: dict[int, list[int]] = {}
    for place, record in enumerate(copies):
        if record["type"] in DELTA_TEXTS:
            texts.setdefault(record["block"], []).append(place)
        else:
            copies[place] = redact(record)
    for places in texts.values():
        name = DELTA_TEXTS[copies[places[0]]["type"]]
        masked = redact_text("".join(copies[place][name] for place in places), keep_length=True)
        at = 0
        parser = PartialJSON(reports=True) if name == "fragment" else None
        for place in places:
            text = masked[at : at + len(copies[place][name])]
            at += len(text)
            copies[place] = {**copies[place], name: text}
            if parser is not None:
                parser.feed(text)
                copies[place] |= {"patch": parser.patch, "finished": parser.finished_fields}
    return cast("list[Record]", copies)
