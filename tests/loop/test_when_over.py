"""State that tools keep for a run: it has the run's id, and ends with the run, however that ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import EarlyCalls, RunningCall, UsageError, tool
from eagerstream.calls import RunStatus
from eagerstream.loop import Conversation
from eagerstream_testing import reply, tool_use
from tests.loop.serial import DONE, SLOWLY_S, by_hand, ended, opened
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Broken, Gate, LocalAPI, Piece, until

pytestmark = pytest.mark.anyio


class Keeper:
    """A tool that keeps state.

    Attributes:
        ids: The id of the run at each call.
        log: The numbers of the calls: when a call ends, and negative when its state ends.
    """

    def __init__(self) -> None:
        self.ids: list[str | None] = []
        self.log: list[int] = []
        self.waits = anyio.Event()
        self.scope = anyio.CancelScope()

        @tool
        async def keep(call: RunningCall, wait: bool = False) -> str:
            """Keep state."""
            self.ids.append(call.run_id)
            number = len(self.ids)
            call.when_over(lambda: self.log.append(-number))
            try:
                if wait:
                    self.waits.set()
                    await anyio.sleep_forever()
            finally:
                self.log.append(number)
            return "kept"

        self.tool = keep


def keeps(id: str, **input: Any) -> list[Piece]:
    return [reply(tool_use("keep", input, id=id))]


async def _finish(run: eagerstream.Run, _: Keeper) -> None:
    await run.finish()


async def _cancel(run: eagerstream.Run, keeper: Keeper) -> None:
    await keeper.waits.wait()
    run.cancel()
    await run.finish()


async def _leave(_: eagerstream.Run, keeper: Keeper) -> None:
    await keeper.waits.wait()


async def _raise(_: eagerstream.Run, keeper: Keeper) -> None:
    await keeper.waits.wait()
    raise ZeroDivisionError


async def _be_cancelled(_: eagerstream.Run, keeper: Keeper) -> None:
    await keeper.waits.wait()
    keeper.scope.cancel()
    await anyio.sleep_forever()


@pytest.mark.parametrize(
    ("last", "end", "status"),
    [
        ([DONE], _finish, RunStatus.COMPLETED),
        ([Broken()], _finish, RunStatus.ERROR),
        (keeps("toolu_3", wait=True), _cancel, RunStatus.CANCELLED),
        (keeps("toolu_3", wait=True), _leave, RunStatus.CANCELLED),
        (keeps("toolu_3", wait=True), _raise, RunStatus.CANCELLED),
        (keeps("toolu_3", wait=True), _be_cancelled, RunStatus.CANCELLED),
        ([*opened("keep", "{}"), *ended()[:1], Gate()], _leave, RunStatus.CANCELLED),
    ],
    ids=[
        "finished",
        "failed",
        "cancelled",
        "left while a tool runs",
        "left by an exception",
        "cancelled from outside",
        "left in a response",
    ],
)
async def test_the_end_of_a_run(last: list[Piece], end: Callable[..., Any], status: RunStatus) -> None:
    """The state of each call ends once, after all calls have ended, and all calls see the id of the run."""
    keeper = Keeper()
    api = LocalAPI(keeps("toolu_1"), keeps("toolu_2"), last)
    run = eagerstream.run(api.anthropic(), **REQUEST, tools=[keeper.tool], restart_delay_s=0)
    if end is _leave and len(last) > 1:
        keeper.waits.set()
    try:
        with anyio.fail_after(SLOWLY_S), keeper.scope:
            async with run:
                await until(lambda: len(keeper.ids) >= 2)
                assert not any(number < 0 for number in keeper.log)
                await end(run, keeper)
    except (ZeroDivisionError, eagerstream.StreamInterrupted):
        assert end is _raise or status is RunStatus.ERROR
    assert run.result.status is status
    calls = len(keeper.ids)
    assert keeper.ids == [run.id] * calls
    assert sorted(keeper.log[:calls]) == [*range(1, calls + 1)]
    assert keeper.log[calls:] == [-number for number in range(calls, 0, -1)]


async def test_a_conversation_by_hand() -> None:
    """Its id is the same in all turns, and another one than that of any other conversation."""
    keeper = Keeper()
    for _ in range(2):
        api = LocalAPI(keeps("toolu_1"), keeps("toolu_2"), [DONE])
        conversation = await by_hand(api.anthropic(), tools=[keeper.tool])
        assert isinstance(conversation, Conversation)
    first, second, third, fourth = keeper.ids
    assert first == second != third == fourth
    assert None not in keeper.ids


def feed(calls: EarlyCalls, id: str, raw: str = "{}") -> None:
    """Feed a response with one call."""
    start = tool_start(0, "keep")
    start["content_block"]["id"] = id
    for event in (message_start(), start, input_delta(0, raw), block_stop(0), message_delta("tool_use"), MESSAGE_STOP):
        calls.feed(event)


@pytest.mark.parametrize("way", ["finished", "left", "raised"])
async def test_early_calls_of_their_own(way: str) -> None:
    """Without an id, the state lasts for the responses of one object."""
    keeper = Keeper()
    ids = set()
    for round in range(2):
        with pytest.raises(ZeroDivisionError) if way == "raised" else nullcontext():
            async with EarlyCalls([keeper.tool]) as calls:
                feed(calls, "toolu_1")
                await calls.finish()
                feed(calls, "toolu_2", "{}" if way == "finished" else '{"wait": true}')
                await until(lambda: len(keeper.ids) == 2)
                if way == "finished":
                    await calls.finish()
                assert min(keeper.log) > 0
                if way == "raised":
                    raise ZeroDivisionError
        assert keeper.log == [1, 2, -2, -1]
        assert keeper.ids[0] == keeper.ids[1]
        ids.add(keeper.ids[0])
        keeper.ids.clear()
        keeper.log.clear()
        assert len(ids) == round + 1


async def test_early_calls_of_a_frameworks_run() -> None:
    """The state outlasts the object, and ends when the framework says so."""
    keeper = Keeper()
    closers: list[Callable[[], object]] = []
    for id in ("toolu_1", "toolu_2"):
        async with EarlyCalls([keeper.tool], run_id="theirs", when_over=closers.append) as calls:
            feed(calls, id)
            await calls.finish()
    assert (keeper.ids, keeper.log) == (["theirs", "theirs"], [1, 2])
    for closer in closers:
        closer()
    assert keeper.log == [1, 2, -1, -2]


async def test_a_frameworks_run_without_an_end() -> None:
    """A tool is not told of an end that nobody knows."""
    keeper = Keeper()
    async with EarlyCalls([keeper.tool], run_id="theirs") as calls:
        feed(calls, "toolu_1")
        await calls.finish()
    assert (keeper.ids, keeper.log) == (["theirs"], [1])


@pytest.mark.parametrize("options", [{"run_id": ""}, {"when_over": print}, {"run_id": "", "when_over": print}])
def test_no_id_of_a_run(options: dict[str, Any]) -> None:
    """An empty id would be that of all runs."""
    with pytest.raises(UsageError, match="run_id must be the id of a run"):
        EarlyCalls(**options)
