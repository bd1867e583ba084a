"""`EngineLog`: entries that a workflow engine keeps are committed in order, together, and not after a failure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.tables import rows

from eagerstream.errors import LimitError, OwnershipLostError
from eagerstream_durable._engine_log import Commit, EngineLog, applied, name_of

_CALL = {"input": {"name": "pay\0\x1b[2J\n" + "!" * 1000}}
_SHOWN = "start pay " + "!" * 55


async def _nothing(after: int) -> list[tuple[int, Any]]:
    return []


def _log(commit: Commit | None, max_run_bytes: int = 10_000) -> EngineLog:
    return EngineLog("r", 1, [], commit, _nothing, max_run_bytes=max_run_bytes)


async def _group() -> None:
    records: list[Any] = []
    gate = asyncio.Event()

    async def commit(record: Any) -> None:
        records.append(record)
        await gate.wait()

    log = _log(commit)
    first = log.append({"kind": "request", "turn": 1})
    await asyncio.sleep(0)
    rest = [log.append({"kind": "start", "turn": 1, "call": _CALL}), log.settle({"kind": "turn", "turn": 1})]
    gate.set()
    for write in (*rest, first):
        await write
    assert [name_of(record) for record in records] == ["request", f"{_SHOWN}+turn"]
    entries: list[Any] = []
    for record in records:
        entries = applied(entries, record)
    assert entries == [{"kind": "turn", "turn": 1}]


async def _lost() -> None:
    async def commit(record: Any) -> None:
        raise OwnershipLostError("another has it", run_id="r")

    log = _log(commit)
    log.check()
    writes = [log.append({"kind": "request", "turn": 1}) for _ in range(2)]
    for write in writes:
        with pytest.raises(OwnershipLostError):
            await write
    with pytest.raises(OwnershipLostError):
        log.append({"kind": "start", "turn": 1})
    with pytest.raises(OwnershipLostError):
        log.check()


async def _bounded() -> None:
    async def commit(record: Any) -> None:
        pass

    log = _log(commit, 100)
    with pytest.raises(LimitError):
        log.append({"kind": "said", "turn": 1, "message": "x" * 100})
    await log.append({"kind": "request", "turn": 1})
    repeated = _log(None)
    await repeated.release("completed", {})


@rows("case", [_group, _lost, _bounded])
def test_entries(case: Any) -> None:
    """What is added during a commit is one commit; a lost run and a full one take nothing more."""
    asyncio.run(case())
