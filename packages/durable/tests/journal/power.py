"""Power losses: the file operations of a program as strace reports them, and the files that they may leave."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CALLS: Final = "openat,pwrite64,write,ftruncate,fsync,fdatasync,unlink"
_LINE: Final = re.compile(
    r'^\d+ +(?P<call>\w+)\((?:(?P<fd>\d+)<(?P<path>[^>]*)>|AT_FDCWD[^,]*, "(?P<opened>[^"]*)"|"(?P<gone>[^"]*)")'
    r'(?:, (?:"(?P<data>[^"]*)", \d+(?:, (?P<offset>\d+))?|(?P<rest>[^)]*)))?.*\) += (?P<result>\d+)'
)
_SECTOR_BYTES: Final = 512


@dataclass(frozen=True)
class Op:
    """An operation: `create`, `write`, `cut` (to `offset` bytes), `sync`, `unlink`, or `print` of `data`."""

    kind: str
    path: str = ""
    offset: int = 0
    data: bytes = b""


def traced(folder: Path, program: str, *arguments: str) -> list[Op]:
    """Run a program and return what it did with the files of a folder, and what it printed, in order."""
    log = folder.parent / "strace.log"
    command = [
        "strace",
        "-f",
        "-y",
        "-xx",
        "-s",
        "1000000",
        "-e",
        f"trace={_CALLS}",
        "-e",
        "signal=none",
        "-o",
        str(log),
    ]
    subprocess.run([*command, sys.executable, "-c", program, *arguments], check=True, capture_output=True, timeout=100)
    return list(_operations(folder, _whole_lines(log)))


def _whole_lines(log: Path) -> Iterator[str]:
    """Join the calls during which another thread made one."""
    begun: dict[str, str] = {}
    for line in log.read_text().splitlines():
        thread = line.split(" ", 1)[0]
        if line.endswith(" <unfinished ...>"):
            begun[thread] = line.removesuffix(" <unfinished ...>")
        elif " resumed>" in line:
            yield begun.pop(thread) + line.split(" resumed>", 1)[1]
        else:
            yield line


def _operations(folder: Path, lines: Iterator[str]) -> Iterator[Op]:
    known: set[str] = set()
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        call, data = found["call"], _bytes(found["data"] or "")
        name = _bytes(found["path"] or found["opened"] or found["gone"] or "").decode(errors="replace")
        if call == "write" and found["fd"] == "1":
            yield Op("print", data=data)
            continue
        if name == str(folder):
            if call in ("fsync", "fdatasync"):
                yield Op("sync", ".")
            continue
        if Path(name).parent != folder or name.endswith("-shm"):
            continue  # the index of the WAL is made anew from it
        name = Path(name).name
        match call:
            case "openat" if "O_CREAT" in line and name not in known:
                known.add(name)
                yield Op("create", name)
            case "pwrite64":
                yield Op("write", name, int(found["offset"]), data[: int(found["result"])])
            case "ftruncate":
                yield Op("cut", name, int(found["rest"]))
            case "fsync" | "fdatasync":
                yield Op("sync", name)
            case "unlink":
                known.discard(name)
                yield Op("unlink", name)
            case _:
                assert call != "write", "SQLite writes at offsets only"


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", "")) if text.startswith("\\x") else text.encode()


class Disk:
    """The files on the disk, and the changes that are not there yet."""

    def __init__(self) -> None:
        self._names: dict[str, bytearray] = {}  # as the program sees them
        self._kept: dict[str, bytearray | None] = {}  # for a name that is on the disk: its synced bytes
        self._pending: dict[str, list[Op]] = {}
        self._renamed: list[Op] = []  # creations and removals that are not on the disk

    def do(self, op: Op) -> None:
        """Do an operation."""
        match op.kind:
            case "create":
                self._renamed.append(op)
                self._names[op.path] = bytearray()
                self._pending[op.path] = []
            case "unlink":
                self._renamed.append(op)
            case "write" | "cut":
                self._pending.setdefault(op.path, []).append(op)
            case "sync" if op.path == ".":
                for change in self._renamed:
                    self._rename(self._kept, change)
                self._renamed = []
            case "sync":
                for change in self._pending.pop(op.path, []):
                    _apply(self._names[op.path], change)
            case _:
                pass

    def _rename(self, names: dict[str, bytearray | None], change: Op) -> None:
        if change.kind == "create":
            names[change.path] = None
        else:
            names.pop(change.path, None)

    def left(self, chance: random.Random, how: str) -> dict[str, bytes]:
        """Return the files after a power loss: without the changes that were not synced, with all, or with some."""
        names = dict(self._kept)
        for change in self._renamed:
            if how == "all" or (how == "some" and chance.random() < 0.5):
                self._rename(names, change)
        files = {name: bytearray(self._names[name]) for name in names}
        for name, data in files.items():
            for op in self._pending.get(name, []):
                if how == "all":
                    _apply(data, op)
                elif how == "some":
                    for part in _torn(op):
                        if chance.random() < 0.5:
                            _apply(data, part)
        return {name: bytes(data) for name, data in files.items()}


def _torn(op: Op) -> Sequence[Op]:
    if op.kind == "cut":
        return [op]
    size = _SECTOR_BYTES
    return [Op("write", op.path, op.offset + at, op.data[at : at + size]) for at in range(0, len(op.data), size)]


def _apply(data: bytearray, op: Op) -> None:
    if op.kind == "cut":
        data[op.offset :] = bytes(max(0, op.offset - len(data)))
        return
    data.extend(bytes(max(0, op.offset - len(data))))
    data[op.offset : op.offset + len(op.data)] = op.data
