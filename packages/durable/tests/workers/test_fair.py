"""`FairQueue`: whose turn it is."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from eagerstream.errors import ToolError, WorkerLost
from eagerstream_durable.workers._fair import FairQueue

pytestmark = pytest.mark.anyio


def _queue(*workers: str, calls_per_worker: int = 1, max_waiting: int = 100) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue(calls_per_worker=calls_per_worker, max_waiting=max_waiting)
    for worker in workers:
        queue.add(worker)
    return queue


class _Takers:
    """Takes places for owners, and notes who got one in which order."""

    def __init__(self, queue: FairQueue[str]) -> None:
        self.queue = queue
        self.got: list[tuple[str, str]] = []

    async def take(self, owner: str) -> None:
        self.got.append((owner, await self.queue.take(owner)))


async def _settle() -> None:
    for _ in range(5):
        await checkpoint()


async def test_fewest_running_is_next() -> None:
    """One who has more running waits, however long; among equals the longest wait counts."""
    takers = _Takers(queue := _queue("w", calls_per_worker=3))
    async with anyio.create_task_group() as tasks:
        for owner in "aaaaabbc":
            tasks.start_soon(takers.take, owner)
            await _settle()
        assert [owner for owner, _ in takers.got] == ["a", "a", "a"]
        assert queue.waiting == 5
        for _ in range(3):
            queue.give_back("a", "w")
            await _settle()
        # When the first place is free, a has two running, b and c have none; then the same again; then all have one.
        assert [owner for owner, _ in takers.got][3:] == ["b", "c", "a"]
        for owner in "bc":
            queue.give_back(owner, "w")
            await _settle()
        assert [owner for owner, _ in takers.got][6:] == ["b", "a"]
        for owner in "aab":
            queue.give_back(owner, "w")
    assert (queue.waiting, queue.busy) == (0, 0)


async def test_the_worker_with_most_room() -> None:
    """Calls are spread over the workers."""
    takers = _Takers(queue := _queue("v", "w", calls_per_worker=2))
    for _ in range(4):
        await takers.take("a")
    assert sorted(worker for _, worker in takers.got) == ["v", "v", "w", "w"]
    assert {worker for _, worker in takers.got[:2]} == {"v", "w"}
    assert queue.busy == 2


async def test_a_worker_that_goes_and_one_that_comes() -> None:
    """A place of a worker that is gone is not given to anybody; a new one serves who waits."""
    takers = _Takers(queue := _queue("v"))
    await takers.take("a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(takers.take, "b")
        await _settle()
        queue.remove("v")
        queue.give_back("a", "v")
        await _settle()
        assert len(takers.got) == 1
        queue.add("w")
    assert takers.got[1:] == [("b", "w")]


async def test_cancelling_loses_no_place() -> None:
    """Neither while it waits nor when the place has just been given."""
    takers = _Takers(queue := _queue("w"))
    await takers.take("a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(takers.take, "b")
        await _settle()
        tasks.cancel_scope.cancel()
    assert queue.waiting == 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(takers.take, "b")
        await _settle()
        queue.give_back("a", "w")
        tasks.cancel_scope.cancel()
    if len(takers.got) > 1:  # it was faster than its cancellation
        queue.give_back("b", "w")
    with anyio.fail_after(30):
        await takers.take("c")
    assert (queue.waiting, queue.busy) == (0, 1)


async def test_giving_up() -> None:
    """Who waits and who comes gets the error, until there is a worker again."""
    queue = _queue()
    async with anyio.create_task_group() as tasks:

        async def wait() -> None:
            with pytest.raises(WorkerLost, match="none left"):
                await queue.take("a")

        tasks.start_soon(wait)
        await _settle()
        queue.give_up(WorkerLost("none left"))
    with pytest.raises(WorkerLost, match="none left"):
        await queue.take("a")
    queue.add("w")
    assert await queue.take("a") == "w"


async def test_too_many_wait() -> None:
    """One more than may wait is refused."""
    queue = _queue(max_waiting=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(queue.take, "a")
        await _settle()
        with pytest.raises(ToolError, match="1 calls wait"):
            await queue.take("b")
        tasks.cancel_scope.cancel()
