"""Power losses at any moment: what was awaited is there, in order, once."""

from __future__ import annotations

import random
import shutil
import textwrap
from collections import Counter
from pathlib import Path

import anyio
import pytest
from packages.durable.tests.journal.power import Disk, Op, traced
from tests import sampling

from eagerstream_durable.journal import Journal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace reports the file operations"),
]

PROGRAM = textwrap.dedent("""
    import os, sys, anyio
    from eagerstream_durable.journal import Journal, _sqlite

    prepare = _sqlite._prepare
    def prepared(connection, **options):
        prepare(connection, **options)
        connection.execute("PRAGMA wal_autocheckpoint = 12")  # so that there are some checkpoints, too
    _sqlite._prepare = prepared

    async def main():
        async with Journal(sys.argv[1]) as journal:
            os.write(1, b"ready ")
            logs = [await journal.create(f"run-{n}", {"kind": "begin", "turn": 0, "n": 0}) for n in range(2)]
            os.write(1, b"0 0 1 0 ")
            for n in range(1, 31):
                for number, log in enumerate(logs):
                    await log.append({"kind": "result", "turn": n, "n": n, "text": "x" * (137 * n)})
                    os.write(1, f"{number} {n} ".encode())
        os.write(1, b"closed ")
    anyio.run(main)
""")


def acknowledged(ops: list[Op]) -> Counter[str]:
    """The number of the last entry of each run that the program knew to be written."""
    words = b"".join(op.data for op in ops if op.kind == "print").decode().split()
    last: Counter[str] = Counter()
    pairs = [word for word in words if word.isdigit()]
    for run, n in zip(pairs[::2], pairs[1::2], strict=True):
        last[f"run-{run}"] = int(n) + 1
    return last


def write(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)


async def check(folder: Path, awaited: Counter[str]) -> None:
    async with Journal(folder / "runs.db") as journal:
        for run in await journal.runs():
            numbers = [entry["n"] for entry in await journal.read(run.run_id)]
            assert numbers == list(range(len(numbers)))
            assert len(numbers) >= awaited.pop(run.run_id, 0)
        assert not awaited, "a run is lost"


def test_power_losses(tmp_path: Path) -> None:
    """The files are cut back to each sync, and to each operation between; unsynced writes are lost, there, or torn."""
    folder = tmp_path / "traced"
    folder.mkdir()
    ops = traced(folder, PROGRAM, str(folder / "runs.db"))
    kinds = Counter(op.kind for op in ops)
    assert kinds["sync"] > 60, kinds
    assert any(op.kind == "sync" and op.path == "runs.db" for op in ops), "no checkpoint"
    assert ops[-1].data.endswith(b"closed ")
    disk = Disk()
    chance = random.Random(sampling.SEED)
    losses = 0
    for at, op in enumerate(ops):
        disk.do(op)
        if op.kind == "print" or (op.kind != "sync" and chance.random() > 0.2):
            continue
        hows = ("none", "some", "all") if op.kind == "sync" else ("some",)
        for how in hows:
            try:
                write(tmp_path / "left", disk.left(chance, how))
                anyio.run(check, tmp_path / "left", acknowledged(ops[: at + 1]))
            except BaseException as error:
                error.add_note(
                    f"after operation {at} of {len(ops)}, {op.kind} {op.path}, with {how} of the unsynced writes"
                )
                raise
            losses += 1
    assert losses > 300
