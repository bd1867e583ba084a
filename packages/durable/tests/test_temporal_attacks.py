"""Values that are larger than what Temporal carries, updates of another form, and what its history shows."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.durable.tests.temporal_keeper import Keep

from eagerstream.errors import JournalError, OwnershipLostError, RunExistsError, RunNotFoundError

_SERVER = shutil.which("temporal", path=str(Path(sys.executable).parent))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(_SERVER is None, reason="no server of Temporal"),
]

_MB = 1_000_000
_BEGIN: dict[str, Any] = {"kind": "begin", "turn": 0}


def _with_server(use: Callable[[Any], Awaitable[None]], **options: Any) -> None:
    """Call a function with a client of a server that has a worker. It has to end within a minute."""
    from temporalio.testing import WorkflowEnvironment
    from temporalio.worker import Worker

    async def main() -> None:
        async with await WorkflowEnvironment.start_local(dev_server_existing_path=_SERVER, **options) as environment:
            with anyio.fail_after(60):
                async with Worker(environment.client, task_queue="keep", workflows=[Keep]):
                    await use(environment.client)

    anyio.run(main)


async def _journal(client: Any, id: str) -> Any:
    from eagerstream_durable.temporal import TemporalJournal

    await client.start_workflow(Keep.run, id=id, task_queue="keep")
    return TemporalJournal(client, id)


def test_more_than_temporal_carries() -> None:
    """An entry, entries at once, a run and its messages may each be larger than the 2 MiB that Temporal carries. Without
    pieces, the workflow would be stuck, and the run lost."""

    async def use(client: Any) -> None:
        from temporalio.worker import Replayer

        journal = await _journal(client, "large")
        begin = {**_BEGIN, "text": "b" * 3 * _MB}
        log = await journal.create("large", begin)
        large = {"kind": "result", "turn": 1, "text": "\u20ac\ud83d" * _MB}
        await log.append(large)
        small = [{"kind": "result", "turn": 1, "n": n, "text": "x" * 300_000} for n in range(10)]
        for write in [log.append(entry) for entry in small]:
            await write
        handle = client.get_workflow_handle("large")
        said = [{"kind": "say", "message": str(n) * 900_000} for n in range(4)]
        for message in said:
            await handle.signal("eagerstream_leave", message)
        assert [message for _, message in await log.inbox(0)] == said
        assert [number for number, _ in await log.inbox(2)] == [3, 4]
        reopened = await journal.open("large")
        assert reopened.entries == [begin, large, *small]
        with pytest.raises(OwnershipLostError):
            await log.append(large)
        with pytest.raises(RunExistsError):
            await journal.create("large", begin)
        history = await handle.fetch_history()
        await Replayer(workflows=[Keep]).replay_workflow(history)

    _with_server(use)


def test_updates_of_another_form() -> None:
    """They fail, and the workflow goes on. With any other error than `ApplicationError`, its task would be repeated."""

    async def use(client: Any) -> None:
        from temporalio.client import WorkflowUpdateFailedError

        journal = await _journal(client, "other")
        handle = client.get_workflow_handle("other")
        with pytest.raises(RunNotFoundError):
            await journal.open("other")
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update("eagerstream_open", {"pieces": "unknown"})
        log = await journal.create("other", _BEGIN)
        records: list[Any] = [{}, {"writes": 5}, {"writes": [{}]}, {"writes": [5]}, {"writes": [{"settles": 1}]}]
        records += [
            {"pieces": "unknown"},
            {"pieces": []},
            {"writes": [{"entries": [{"turn": 9}], "release": "completed"}]},
        ]
        for record in records:
            with pytest.raises(WorkflowUpdateFailedError):
                await handle.execute_update("eagerstream_commit", args=[log.fence, record])
        await handle.execute_update("eagerstream_piece", args=["bad", b"{"])
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update("eagerstream_commit", args=[log.fence, {"pieces": "bad"}])
        for message in (5, "x", None, [1], {"kind": 5}, {}):
            await handle.signal("eagerstream_leave", message)
        assert await log.inbox(0) == [(1, {"kind": 5}), (2, {})]
        await log.append({"kind": "result", "turn": 1})
        assert (await journal.open("other")).entries == [_BEGIN, {"kind": "result", "turn": 1}]
        await handle.terminate()
        with pytest.raises(JournalError):
            await journal.open("other")

    _with_server(use)


def test_a_codec_covers_everything() -> None:
    """The history has the conversation as it is: with a codec that encrypts, nothing of it can be read."""
    from temporalio.api.common.v1 import Payload
    from temporalio.converter import DataConverter, PayloadCodec

    class Codec(PayloadCodec):
        async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
            return [
                Payload(metadata={"encoding": b"made"}, data=payload.SerializeToString()[::-1]) for payload in payloads
            ]

        async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
            return [Payload.FromString(payload.data[::-1]) for payload in payloads]

    async def use(client: Any) -> None:
        journal = await _journal(client, "secret")
        log = await journal.create("secret", {**_BEGIN, "text": "PROMPT"})
        await log.append({"kind": "result", "turn": 1, "text": "RESULT" * 300_000})
        handle = client.get_workflow_handle("secret")
        await handle.signal("eagerstream_leave", {"kind": "say", "message": "MESSAGE"})
        assert len((await journal.open("secret")).entries) == 2
        events = (await handle.fetch_history()).events
        history = b"".join(event.SerializeToString() for event in events)
        assert b"TPMORP" in history, "turned by the codec"
        assert not [word for word in (b"PROMPT", b"RESULT", b"MESSAGE") if word in history]

    _with_server(use, data_converter=replace(DataConverter.default, payload_codec=Codec()))
