"""The way back from a journal: calls that had begun when the program ended."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import BlockStop, MessageStop, RunningCall, RunStatus, TurnStop, UsageError
from eagerstream.loop import resume
from eagerstream.loop._restoring import OpenTurn
from eagerstream.tools import Done, ToolCall
from eagerstream_testing import Scenario, reply, text
from tests.loop.durable import Played, World, answers, client_of, continued, left_at, scenario, taken_up
from tests.loop.journals import MemoryJournal
from tests.loop.steered import Steered
from tests.streams import REQUEST

pytestmark = pytest.mark.anyio


async def test_nobody_knows() -> None:
    """The model is told so, with the last progress, if a call had begun and left no result."""
    world = World()
    journal = await left_at("progress", world, [world.pay])
    [told] = answers(await continued(journal, [world.pay]))
    assert told.startswith("Nobody knows whether this call was done")
    assert told.endswith('Its last progress: "paying 1"')
    assert world.effects == ["pay 1"]


@pytest.mark.parametrize(
    ("said", "told"), [(Done("paid, says the bank"), "paid, says the bank"), ("not done", "paid 1")]
)
async def test_the_tool_may_know(said: object, told: str) -> None:
    """`recover` is asked, with the same key as before. A call that was not done runs now."""
    world = World()
    journal = await left_at("start", world, [world.pay])
    keys: list[str] = []

    def recover(call: ToolCall) -> object:
        keys.append(call.idempotency_key)
        return said

    @eagerstream.tool(recover=recover)
    async def pay(amount: int, call: RunningCall) -> str:
        """Pay."""
        keys.append(call.idempotency_key)
        return f"paid {amount}"

    assert answers(await continued(journal, [pay])) == [told]
    assert set(keys) == set(world.keys)


@pytest.mark.parametrize("said", ["done", True, Done(object()), KeyError("gone"), anyio.sleep_forever])
async def test_answers_that_say_nothing(said: object, caplog: pytest.LogCaptureFixture) -> None:
    """The model learns that nobody knows, and the log or the model the reason."""
    world = World()
    journal = await left_at("start", world, [world.pay])

    async def recover(call: ToolCall) -> object:
        if isinstance(said, Exception):
            raise said
        return await said() if callable(said) else said

    @eagerstream.tool(name="pay", recover=recover, timeout_s=0.01)
    async def never(amount: int) -> str:
        """Pay."""
        raise AssertionError

    [told] = answers(await continued(journal, [never]))
    assert told.startswith("Nobody knows whether this call was done")
    assert any(word in told for word in ("KeyError", "TypeError")) or "recover of tool 'pay'" in caplog.text


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_recover_awaits_a_task_that_somebody_cancels() -> None:
    """That is an error like any other: nobody knows, and the run continues."""
    world = World()
    journal = await left_at("start", world, [world.pay])

    async def recover(call: ToolCall) -> None:
        task = asyncio.ensure_future(asyncio.sleep(100))
        task.cancel()
        await task

    @eagerstream.tool(name="pay", recover=recover)
    async def never(amount: int) -> str:
        """Pay."""
        raise AssertionError

    [told] = answers(await continued(journal, [never]))
    assert told.startswith("Nobody knows whether this call was done")
    assert "CancelledError" in told


@pytest.mark.parametrize("at", [BlockStop, MessageStop, TurnStop])
async def test_a_run_that_was_cancelled_after_the_last_word(at: type) -> None:
    """There is nothing more to ask for."""
    journal = MemoryJournal()
    client = Played(Scenario(reply(text("Done.")))).transport()
    async with eagerstream.run(client, **REQUEST, journal=journal, run_id="r") as run:
        run.observe(Steered(run, lambda run, event: run.cancel() if isinstance(event, at) else None))
        await run.finish()
    assert run.result.status is RunStatus.CANCELLED
    again = await taken_up(client, journal)
    assert again.result.status is RunStatus.COMPLETED
    assert again.result.messages == run.result.messages


async def test_a_run_that_is_handed_over_while_recover_runs() -> None:
    """Its turn stays open for the next process."""
    world = World()
    journal = await left_at("start", world, [world.pay])
    begun = anyio.Event()

    async def recover(call: ToolCall) -> None:
        begun.set()
        await anyio.sleep_forever()

    @eagerstream.tool(name="pay", recover=recover)
    async def asks(amount: int) -> str:
        """Pay."""
        raise AssertionError

    async with client_of(scenario()) as client, resume(client, journal, "r", tools=[asks]) as run:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.finish)
            await begun.wait()
            run.hand_over(at_once=True)
    assert run.result.status is RunStatus.WAITING
    assert journal.kinds("r")[-1] == ("start", 1)


async def test_a_call_whose_tool_is_missing() -> None:
    """It is not answered as not found: the run waits for a process that has the tool."""
    journal = await left_at("start", World(), [World().pay])
    client = Played(scenario()).transport()
    with pytest.raises(UsageError, match="a call of 'pay' has begun or waits"):
        async with resume(client, journal, "r", tools=[]):
            pass
    assert journal.kinds("r")[-1] == ("start", 1)


async def test_a_call_that_reports_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first reports are in the journal at once, later ones at intervals: only the last one counts."""
    monkeypatch.setattr("eagerstream.loop._durability._PROGRESS_EACH", 5)

    @eagerstream.tool(name="pay")
    async def pay(amount: int, call: RunningCall) -> str:
        """Pay."""
        for number in range(1_000):
            await call.progress(number)
        return "paid"

    journal = await left_at("result", World(), [pay])
    kinds = [kind for kind, _ in journal.kinds("r")]
    assert kinds.count("progress") == 5
    assert kinds[-1] == "result"


async def test_nothing_before_a_restart_counts() -> None:
    """The new beginning of a response may use the ids of the first one again, for other calls."""
    turn = OpenTurn(1)
    call: dict[str, Any] = {"id": "toolu_1", "call": {"ran": True}}
    for entry in (
        {"kind": "response", "blocks": [{"block": {}}], "message": {"id": "msg_1"}, "is_whole": True},
        {"kind": "asked", "id": "toolu_1"},
        {"kind": "approval", "id": "toolu_1", "decision": True},
        {"kind": "start", **call},
        {"kind": "progress", "id": "toolu_1", "value": 1},
        {"kind": "result", **call},
    ):
        turn.add(entry)
    assert turn.has_begun
    turn.add({"kind": "restart"})
    assert turn == OpenTurn(1)
