"""`Durability`: each step of a run is in its journal before it matters."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import Run, ToolStart, ToolStop, TurnStop
from eagerstream.calls import RunStatus
from eagerstream.errors import OwnershipLostError
from eagerstream.loop import _durability, resume
from eagerstream.tools import Tool, ToolCall, ask_elsewhere
from eagerstream_testing import Scenario, reply, text, tool_use
from tests.loop.durable import Played, World, answers, check, kept, left_at, scenario, taken_up
from tests.loop.journals import MemoryJournal, MemoryLog, plain
from tests.loop.serial import running
from tests.streams import REQUEST

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits finds a decision at once."""
    monkeypatch.setattr("eagerstream.loop._durability._LOOK_S", 0.01)


async def test_killed_at_each_write() -> None:
    """After each write, the program could be gone. Another one continues, and is killed, too."""
    client = Played(scenario()).transport()
    whole = MemoryJournal()
    states: list[tuple[Any, list[str]]] = []
    world = World()
    whole.on_write = lambda: states.append((plain(whole.runs), list(world.effects)))
    async with eagerstream.run(client, **REQUEST, tools=world.tools(), journal=whole, run_id="r") as run:
        await run.finish()
    check(run.result, world)
    expected = answers(run.result)
    assert expected == ["paid 1", "saw a", "wrote 40", "paid 2", "paid 3"]
    assert whole.kinds("r") == [("begin", 0), ("turn", 1), ("turn", 2), ("turn", 3), ("end", 3)]
    unknown = 0
    for runs, effects in states:
        world = World()
        world.effects = effects
        journal = MemoryJournal(runs)
        resumed = await taken_up(client, journal, world.tools())
        check(resumed.result, world)
        assert resumed.result.status is RunStatus.COMPLETED
        assert resumed.result.text == "Done."
        told = answers(resumed.result)
        known = [each for each in told if not each.startswith("Nobody knows")]
        unknown += len(told) - len(known)
        # A call that was still being written is lost with its response; a model would write it again.
        assert known == [each for each in expected if each in known]
        assert {f"paid {effect[4:]}" for effect in effects if effect.startswith("pay")} - {*known} == set() or (
            len(known) < len(told)
        )
    assert unknown > 3


async def test_a_run_that_waits_for_a_decision_leaves() -> None:
    """It ends with status `WAITING`, and continues after the decision. Other calls of the turn are not repeated."""
    world = World()

    @eagerstream.tool(approve=ask_elsewhere)
    async def launch() -> str:
        """Launch."""
        world.effects.append("launch")
        return "launched"

    tools: list[Tool] = [launch, world.pay]
    one = Scenario(reply(tool_use("launch", {}), tool_use("pay", {"amount": 1})), reply(text("Done.")))
    journal = MemoryJournal()
    client = Played(one).transport()
    run = await kept(client, journal, tools)
    assert run.result.status is RunStatus.WAITING
    status, summary = journal.statuses["r"]
    assert (status, world.effects) == ("waiting", ["pay 1"])
    [asked] = summary["approvals"]
    assert asked["name"] == "launch"
    run = await taken_up(client, journal, tools)
    assert run.result.status is RunStatus.WAITING  # nobody has decided
    journal.left["r"] = [{"kind": "decision", "call": asked["call"], "decision": True}]
    run = await taken_up(client, journal, tools)
    assert run.result.status is RunStatus.COMPLETED
    assert answers(run.result) == ["launched", "paid 1"]
    assert world.effects == ["pay 1", "launch"]


async def test_a_call_that_waits_has_no_end_here() -> None:
    """The process that continues reports it, and the end of the turn. The others have their ends in both."""
    world = World()

    @eagerstream.tool(approve=ask_elsewhere)
    async def launch() -> str:
        """Launch."""
        return "launched"

    tools: list[Tool] = [launch, world.pay]
    one = Scenario(reply(tool_use("launch", {}), tool_use("pay", {"amount": 1})), reply(text("Done.")))
    client, journal = Played(one).transport(), MemoryJournal()

    async def ends(run: Run) -> list[str]:
        found = [event async for event in run if isinstance(event, ToolStop | TurnStop)]
        return [event.call.name if isinstance(event, ToolStop) else f"turn {event.turn}" for event in found]

    async with eagerstream.run(client, **REQUEST, tools=tools, journal=journal, run_id="r") as run:
        assert await ends(run) == ["pay"]
    [asked] = journal.statuses["r"][1]["approvals"]
    journal.left["r"] = [{"kind": "decision", "call": asked["call"], "decision": True}]
    opened = await resume(client, journal, "r", tools=tools).open()
    async with opened as run:
        assert sorted(await ends(run)) == ["launch", "pay", "turn 1", "turn 2"]


async def test_a_message_that_was_said_before_a_crash() -> None:
    """It is sent with the next request of the process that continues."""
    world = World()
    journal = MemoryJournal()
    states: list[Any] = []
    client = Played(scenario()).transport()
    async with eagerstream.run(client, **REQUEST, tools=world.tools(), journal=journal, run_id="r") as run:
        async for event in run:
            if isinstance(event, ToolStart) and not states:
                run.say("Hurry.")
                states.append(plain(journal.runs))
    resumed = await taken_up(client, MemoryJournal(states[0]), world.tools())
    for result in (run.result, resumed.result):
        said = [message for message in result.messages if message["content"] == "Hurry."]
        assert len(said) == 1
        assert result.undelivered == []


async def test_a_run_that_was_taken_over_starts_nothing() -> None:
    """Its next step fails, and the tools that run are cancelled."""
    world, journal = World(), MemoryJournal()

    @eagerstream.tool
    async def lose() -> str:
        """Let another process take the run."""
        await journal.open("r")
        return "lost"

    tools: list[Tool] = [*world.tools(), lose]
    one = Scenario(reply(tool_use("lose", {})), reply(tool_use("pay", {"amount": 1})))
    client = Played(one).transport()
    async with eagerstream.run(client, **REQUEST, tools=tools, journal=journal, run_id="r") as run:
        with pytest.raises(OwnershipLostError):
            await run.finish()
    assert run.result.status is RunStatus.ERROR
    assert world.effects == []
    assert "r" not in journal.statuses


async def test_a_decision_is_not_lost_by_a_crash() -> None:
    """It leaves the inbox with its entry, before the run continues, and the next process knows it."""
    world = World()

    @eagerstream.tool(approve=ask_elsewhere)
    async def launch() -> str:
        """Launch."""
        world.effects.append("launch")
        return "launched"

    journal = MemoryJournal()
    states: list[Any] = []
    client = Played(Scenario(reply(tool_use("launch", {})), reply(text("Done.")))).transport()
    run = await kept(client, journal, [launch])
    [asked] = journal.statuses["r"][1]["approvals"]
    journal.left["r"] = [{"kind": "decision", "call": asked["call"], "decision": True}]
    journal.on_write = lambda: states.append(plain(journal.runs))
    run = await taken_up(client, journal, [launch])
    assert states[0]["r"][-1]["kind"] == "approval"
    run = await taken_up(client, MemoryJournal(states[0]), [launch])
    assert run.result.status is RunStatus.COMPLETED
    assert answers(run.result) == ["launched"]


async def test_a_run_that_is_left_before_an_open_turn_is_salvaged() -> None:
    """Calls that had begun stay known, if the next process is cancelled or leaves while it asks what became of them."""
    world = World()
    one = Scenario(reply(tool_use("pay", {"amount": 1})), reply(text("Done.")))
    journal = await left_at("start", world, [world.pay])

    asked = anyio.Event()

    async def ask(_call: ToolCall) -> None:
        asked.set()
        await anyio.sleep_forever()

    @eagerstream.tool(name="pay", recover=ask)
    async def asks_forever(amount: int) -> str:
        """Pay."""
        raise AssertionError

    client = Played(one).transport()
    async with resume(client, journal, "r", tools=[asks_forever]) as run:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.finish)
            await asked.wait()
            tasks.cancel_scope.cancel()
    assert run.result.status is RunStatus.CANCELLED
    assert journal.kinds("r")[-1] == ("start", 1)
    run = await taken_up(client, journal, [world.pay])
    assert [answer[:12] for answer in answers(run.result)] == ["Nobody knows"]
    assert run.result.status is RunStatus.COMPLETED
    assert world.effects.count("pay 1") == 1, world.effects


async def test_a_run_that_waits_for_a_decision_waits_for_its_other_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not leave while another call runs: that would cancel it, and nobody would know what it did."""
    monkeypatch.setattr(_durability, "_LOOK_S", 0.001)
    looks, enough = 0, anyio.Event()
    inbox = MemoryLog.inbox

    async def counted(log: MemoryLog, after: int) -> Any:
        nonlocal looks
        looks += 1
        if looks == 20:  # most of them after the end of the response
            enough.set()
        return await inbox(log, after)

    monkeypatch.setattr(MemoryLog, "inbox", counted)

    @eagerstream.tool(approve=ask_elsewhere)
    async def launch() -> str:
        """Launch."""
        return "launched"

    @eagerstream.tool
    async def build() -> str:
        """Build."""
        await enough.wait()
        return "built"

    one = Scenario(reply(tool_use("launch", {}), tool_use("build", {})))
    journal = MemoryJournal()
    client = Played(one).transport()
    async with running(client, tools=[launch, build], journal=journal, run_id="r") as run:
        await run.finish()
    assert run.result.status is RunStatus.WAITING
    assert [call.text for call in run.result.calls if call.name == "build"] == ["built"]


async def test_a_decision_in_this_process_is_written_once() -> None:
    """Before the tool starts: otherwise somebody would be asked again after a crash."""
    journal = MemoryJournal()
    states: list[Any] = []
    journal.on_write = lambda: states.append(plain(journal.runs)["r"])

    @eagerstream.tool(approve=lambda _: True)
    async def launch() -> str:
        """Launch."""
        return "launched"

    client = Played(Scenario(reply(tool_use("launch", {})), reply(text("Done.")))).transport()
    await kept(client, journal, [launch])
    written = [[entry["kind"] for entry in state] for state in states]
    assert max(kinds.count("approval") for kinds in written) == 1
    assert all(kinds.index("approval") < kinds.index("start") for kinds in written if "start" in kinds)
    assert any("start" in kinds for kinds in written)
