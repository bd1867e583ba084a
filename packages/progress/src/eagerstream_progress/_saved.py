"""Runs in files: their records as JSON Lines, to be loaded and replayed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Final, cast

import anyio
import anyio.to_thread
from pydantic import ValidationError

from eagerstream import PartialJSON, apply_patch
from eagerstream._support.checks import check_positive
from eagerstream._support.files import open_instead, replacing, sync
from eagerstream._support.json_values import is_deeper
from eagerstream._support.plain_json import load_json
from eagerstream._support.redaction import FindSecrets, finding_also, redact, redact_text
from eagerstream.errors import UsageError
from eagerstream.limits import DEFAULT_LIMITS

from ._exact import dumps, unmarked
from ._joined import continued, continues
from ._log import RunLog
from ._merge import DELTA_TEXTS
from ._record import VERSION, Record, record_adapter

MAX_BYTES: Final = 512 * 2**20
"""Maximum size of a file to load."""
_MAX_DEPTH: Final = DEFAULT_LIMITS.max_depth + 8  # the value of an input is inside its patch and its record
_MAX_S: Final = 1e9


def save_records(path: Path, records: Iterable[Record], *, redact: bool | FindSecrets = True) -> None:
    """Write records to a file, one per line.

    The records are written to a new file, which replaces `path` after it is complete and on the disk. Only the owner
    may read it.

    Args:
        path: The file. An existing file is replaced. A link is replaced too, not followed.
        records: The records, for example `RunLog.records()`.
        redact: Mask secrets: text that looks like a key, and fields named like one. If false, the file contains the
            complete conversation: protect it accordingly. A function masks more: it gets each text, and returns the
            places of further secrets in it, `[(start, end), ...]`. If it raises, the complete text is masked.

    Raises:
        OSError: The file cannot be written. `FileExistsError` if a folder, a device or a pipe is at `path`.
        ValueError: A record contains NaN or an infinity.
    """
    with replacing(path) as file:
        file.write(saved_lines(records, redact=redact))


async def record_run(log: RunLog, path: Path, *, redact: bool | FindSecrets = True) -> None:
    """Write the unmerged records of a run to a file while the run continues. Return at its end.

    Use it for runs that are longer than a log can keep. Start it in its own task before the run starts. Records wait
    until no block is open, since secrets may be spread over the deltas of a block. If it is cancelled, or the process
    is killed, the records written so far stay in the file. Only the owner may read the file.

    Args:
        log: The log of the run.
        path: The file. An existing file is replaced at once. A link is replaced too, not followed.
        redact: As for `save_records`.

    Raises:
        OSError: The file cannot be written. `FileExistsError` if a folder, a device or a pipe is at `path`.
        ValueError: A record contains NaN or an infinity.
        WatcherDropped: Writing is slower than the run, and the next records are no longer kept.
    """
    waiting: list[Record] = []
    open_blocks: set[int] = set()

    def write(file: IO[bytes]) -> None:
        file.write(saved_lines(waiting, redact=redact))
        file.flush()  # the process may be killed

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
                        open_blocks.clear()  # the open blocks are void or were cut
                    case _:
                        pass
                waiting.append(record)
                if not open_blocks:
                    # Masking a megabyte takes half a second. The run must not wait for that.
                    await anyio.to_thread.run_sync(write, file.wrapped)
                    waiting.clear()
        await anyio.to_thread.run_sync(write, file.wrapped)
        await anyio.to_thread.run_sync(sync, file.wrapped)


def saved_lines(records: Iterable[Record], *, redact: bool | FindSecrets) -> bytes:
    """Return records as JSON Lines, as `save_records` writes them."""
    with finding_also(redact if callable(redact) else None):
        written = redacted(records) if redact else records
    return "".join(dumps({**record, "v": VERSION}) + "\n" for record in written).encode("ascii")


def load_records(path: Path) -> list[Record]:
    """Load and check the records of a file. Views and encoders can read them without errors.

    If the records of a process that resumed the run follow in the file, they are joined, see `join_records`.

    Raises:
        UsageError: A line is not a record, or does not fit the earlier ones. Or the file does not start with a run, or
            is larger than 512 MiB.
        OSError: The file cannot be read.
    """
    if path.stat().st_size > MAX_BYTES:
        raise UsageError(f"{path.name} is larger than {MAX_BYTES:,} bytes")
    adapter = record_adapter()
    earlier: list[Record] = []
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
                if plain["v"] == VERSION and b'number"' in line:  # it may contain marks
                    plain = unmarked(plain)
                record = adapter.validate_python(plain)
            except (ValueError, RecursionError) as error:
                what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "not JSON"
                raise UsageError(f"{path.name}, line {number}: not a record: {what}") from error
            if records and _resumes(record, records[0]):
                earlier = continued(earlier, records) if earlier else records
                records, blocks = [], {}
            if records and record["seq"] <= records[-1]["seq"]:
                raise UsageError(f"{path.name}, line {number}: the numbers of records must rise")
            try:
                _check(record, blocks)
            except ValueError as error:
                raise UsageError(f"{path.name}, line {number}: {error}") from error
            records.append(record)
    if not records or records[0]["type"] != "run_start":
        raise UsageError(f"{path.name} does not start with a run")
    return continued(earlier, records) if earlier else records


def _resumes(record: Record, first: Record) -> bool:
    """Return True if a record starts the records of a process that continues the run of another first record."""
    return (
        record["type"] == "run_start"
        and first["type"] == "run_start"
        and record["run"] == first["run"]
        and continues(record)
    )


class _Block:
    """The state of a block after its records so far."""

    def __init__(self, delta: str | None) -> None:
        self.delta = delta  # the type of its deltas; None if it is not known yet
        self.value: Any = None
        self.is_omitted = False


def _check(record: Record, blocks: dict[int, _Block]) -> None:
    """Check that a record can be shown and that it fits the earlier records of its block.

    Raises:
        ValueError: It does not.
    """
    fields = cast("dict[str, Any]", record)
    if not 0 <= record["at_s"] <= _MAX_S:
        raise ValueError("its time is out of range")
    if any(type(value) is int and name != "value" and not 0 <= value < 2**53 for name, value in fields.items()):
        raise ValueError("a number is out of range")
    if is_deeper(fields, _MAX_DEPTH):
        raise ValueError("it is nested too deep")
    number = fields.get("block")
    if number is None:
        return
    kind = record["type"]
    if kind in ("input_start", "block_start") and number in blocks:
        raise ValueError(f"block {number} starts a second time")
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
            raise ValueError("an input is not an object")


async def replay(records: Sequence[Record], log: RunLog, *, speed: float = 1.0) -> None:
    """Add records to a log at their original times, then close the log. If it is cancelled, the log stays open.

    Args:
        records: The records, as loaded.
        log: A new log.
        speed: The factor of acceleration. `inf` disables waiting.

    Raises:
        UsageError: `speed` is not a positive number.
    """
    check_positive("speed", speed)
    start_s = anyio.current_time()
    for record in records:
        await anyio.sleep_until(start_s + record["at_s"] / speed)
        log.append([record])
    log.close()


def redacted(records: Iterable[Record]) -> list[Record]:
    """Return copies of records with masked secrets. Secrets that are spread over several deltas are masked too."""
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
