"""A journal that fails, or a run that loses it: the user gets the error with the result, and nothing starts after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream.calls import RunStatus
from eagerstream.errors import JournalError, OwnershipLostError
from eagerstream.loop import RunResult
from eagerstream.recordings import Recording
from eagerstream.tools import ToolCall, ask_elsewhere
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from tests.loop.durable import Played, World, answers, taken_up
from tests.loop.journals import MemoryJournal, MemoryLog
from tests.streams import REQUEST
from tests.support import Gate, LocalAPI, anthropic_client

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits finds a decision at once."""
    monkeypatch.setattr("eagerstream.loop._durability._LOOK_S", 0.01)


FULL = JournalError("the disk is full")


class Failing(MemoryJournal):
    """It fails at a step: a kind of entries, `"release"` or `"inbox"`, from the time on at which `fails` is set."""

    def __init__(self, step: str, *, fails: bool = True) -> None:
        super().__init__()
        self.step, self.fails = step, fails

    def check(self, *steps: str) -> None:
        if self.fails and self.step in steps:
            raise FULL

    async def create(self, run_id: str, entry: Any) -> MemoryLog:
        await super().create(run_id, entry)
        return FailingLog(self, run_id, 1)


class FailingLog(MemoryLog):
    """See `Failing`. A failure shows when it is awaited, as that of a real one."""

    _journal: Failing

    async def _written(self, write: Callable[[], Any], *kinds: str) -> None:
        self._journal.check(*kinds)
        await write()

    def append(self, *entries: Any) -> Any:
        return _Once(
            self._written(lambda: super(FailingLog, self).append(*entries), *(each["kind"] for each in entries))
        )

    def settle(self, entry: Any) -> Any:
        return _Once(self._written(lambda: super(FailingLog, self).settle(entry), entry["kind"]))

    async def inbox(self, after: int) -> Any:
        self._journal.check("inbox")
        return await super().inbox(after)

    async def release(self, status: str | None, summary: Any) -> None:
        self._journal.check("release")
        await super().release(status, summary)


class _Once:
    """What is written as soon as it is asked for; it can be awaited or not."""

    def __init__(self, writing: Any) -> None:
        self._error: Exception | None = None
        try:
            writing.send(None)
        except StopIteration:
            pass
        except JournalError as error:
            self._error = error

    def __await__(self) -> Any:
        if self._error is not None:
            raise self._error
        return
        yield


CALL = reply(tool_use("pay", {"amount": 1}))
DONE = reply(text("Done."))


@pytest.mark.parametrize("step", ["end", "release"])
async def test_the_end_cannot_be_written(step: str) -> None:
    """The block raises the error, which has the result. All turns are in the journal, so it continues there."""
    world, journal = World(), Failing(step)
    client = Played(Scenario(CALL, DONE)).transport()
    run = eagerstream.run(client, **REQUEST, tools=world.tools(), journal=journal, run_id="r")
    with pytest.raises(JournalError, match="full") as caught:
        async with run:
            await run.finish()
    assert RunResult.of(caught.value) is run.result
    assert (run.result.status, run.result.text) == (RunStatus.COMPLETED, "Done.")
    resumed = await taken_up(client, MemoryJournal(journal.runs), world.tools())
    assert resumed.result.messages == run.result.messages
    assert world.effects == ["pay 1"]


async def test_an_error_of_the_block_is_not_hidden(caplog: pytest.LogCaptureFixture) -> None:
    """If the end cannot be written after it, the log says so. Cancellation passes as well."""
    world, journal = World(), Failing("release")
    client = Played(Scenario(CALL, DONE)).transport()
    with pytest.raises(ZeroDivisionError):
        async with eagerstream.run(client, **REQUEST, tools=world.tools(), journal=journal, run_id="r"):
            raise ZeroDivisionError
    with anyio.move_on_after(0) as scope:
        async with eagerstream.run(client, **REQUEST, tools=world.tools(), journal=journal, run_id="s"):
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert [each.getMessage() for each in caplog.records if "not in its journal" in each.getMessage()] == [
        f"the end of run {run_id!r} is not in its journal: JournalError" for run_id in "rs"
    ]


async def test_the_last_turn_cannot_be_written() -> None:
    """The iteration raises the error: its end says that the run is in the journal."""
    world, journal = World(), Failing("turn", fails=False)

    def last(_request: Any) -> Recording:
        journal.fails = True
        return DONE

    client = Played(Scenario(CALL, last)).transport()
    async with eagerstream.run(client, **REQUEST, tools=world.tools(), journal=journal, run_id="r") as run:
        with pytest.raises(JournalError, match="full") as caught:
            await run.finish()
    assert RunResult.of(caught.value) is run.result
    assert (run.result.status, run.result.text) == (RunStatus.ERROR, "Done.")
    assert journal.kinds("r")[-1] == ("request", 2)


@pytest.mark.parametrize("kind", ["request", "start"])
async def test_a_run_that_was_lost_during_a_write(kind: str) -> None:
    """The process was stopped after the write, and another one owns the run by now: nothing is sent, or called."""
    world, journal = World(), MemoryJournal()

    def lose() -> None:
        if journal.runs["r"][-1]["kind"] == kind:
            journal.fences["r"] += 1

    journal.on_write = lose
    call = reply(tool_use("look", {"place": "a"}))  # its effect comes before anything else is written
    with ReplayServer(Scenario(call, DONE)) as server:
        async with anthropic_client(server.base_url) as client:
            async with eagerstream.run(client, **REQUEST, tools=world.tools(), journal=journal, run_id="r") as run:
                with pytest.raises(OwnershipLostError):
                    await run.finish()
        assert len(server.requests) == (0 if kind == "request" else 1)
    assert (run.result.status, world.effects) == (RunStatus.ERROR, [])


async def test_a_decision_cannot_be_read() -> None:
    """The call is not refused, as nobody has refused it. The run ends, and can continue."""
    journal = Failing("inbox", fails=False)

    @eagerstream.tool(approve=ask_elsewhere)
    async def launch() -> str:
        """Launch."""
        return "launched"

    def fail_from_then_on() -> None:
        journal.fails |= journal.runs["r"][-1]["kind"] == "asked"

    journal.on_write = fail_from_then_on
    client = Played(Scenario(reply(tool_use("launch", {})), DONE)).transport()
    async with eagerstream.run(client, **REQUEST, tools=[launch], journal=journal, run_id="r") as run:
        with pytest.raises(JournalError, match="full"):
            await run.finish()
    assert not any("result" in (entry["kind"]) for entry in journal.runs["r"])


async def test_a_decision_before_a_restart() -> None:
    """It is about an earlier call, although the new beginning uses its id again."""
    asked: list[str] = []

    def approve(call: ToolCall) -> bool:
        asked.append(str(call.input.value))
        return True

    @eagerstream.tool(approve=approve, idempotent=True)
    async def ship(to: str) -> str:
        """Ship."""
        return f"shipped to {to}"

    first, second = (reply(tool_use("ship", {"to": to}, id="toolu_1"), message_id=f"msg_{to}") for to in "ab")
    begun, gate = first.body[: first.body.rindex(b"event: message_delta")], Gate()
    client = LocalAPI([Recording.from_body(begun), gate, second], [DONE]).transport()
    async with eagerstream.run(client, **REQUEST, tools=[ship], journal=MemoryJournal(), run_id="r") as run:
        await gate.reached.wait()
        await run.result.calls[0].answered.wait()
        gate.opened.set()
        await run.finish()
    assert asked == ["{'to': 'a'}", "{'to': 'b'}"]
    assert answers(run.result) == ["shipped to b"]
