"""`work`: runs that are due are continued by any process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, get_args

import anthropic
import anyio
import pytest
from tests.loop.durable import client_of
from tests.streams import REQUEST
from tests.support import until

import eagerstream
from eagerstream.calls import RunStatus
from eagerstream.errors import JournalError, LimitError, RunNotFoundError, UsageError
from eagerstream.loop import TurnStop, When, resume
from eagerstream.tools import Tool, ask_elsewhere
from eagerstream_durable.journal import Journal, _worker, work
from eagerstream_testing import Scenario, reply, text, tool_use

pytestmark = pytest.mark.anyio

BEGIN: dict[str, Any] = {"kind": "begin", "turn": 0, "model": "m", "max_tokens": 9, "messages": [], "options": {}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagerstream.loop._durability._LOOK_S", 0.01)
    monkeypatch.setattr("eagerstream_durable.journal._journal._LOOKS", 1000)  # at an owner, in its lease of 30 s


class World:
    """Tools with effects, and an application that gives them to a worker."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.effects: list[str] = []
        self.given: list[Mapping[str, Any]] = []
        self.begun = anyio.Event()
        self.may_end = anyio.Event()

    @eagerstream.tool(approve=ask_elsewhere)
    async def launch(self) -> str:
        """Launch."""
        self.effects.append("launch")
        return "launched"

    @eagerstream.tool
    async def slow(self) -> str:
        """Take long."""
        self.effects.append("slow")
        self.begun.set()
        await self.may_end.wait()
        return "slept"

    @property
    def tools(self) -> list[Tool]:
        """Both tools."""
        return [self.launch, self.slow]

    def app(self, begin: Mapping[str, Any]) -> dict[str, Any]:
        """See `RunApp`."""
        self.given.append(begin)
        return {"client": self.client, "tools": self.tools}


@asynccontextmanager
async def world_of(journal: Journal, *answers: Any, run_id: str = "r") -> AsyncIterator[World]:
    """A world whose run waits, or has ended."""
    async with client_of(Scenario(*answers)) as client:
        world = World(client)
        async with eagerstream.run(client, **REQUEST, tools=world.tools, journal=journal, run_id=run_id) as run:
            await run.finish()
        yield world


LAUNCH = (reply(tool_use("launch", {})), reply(text("Done.")), reply(text("Again.")))


async def test_a_decision_wakes_a_run(where: str) -> None:
    """It waits without a process; the worker finds it after the decision, and only then."""
    async with Journal(where) as journal, world_of(journal, *LAUNCH) as world:
        assert await journal.due() == []
        summary = await journal.summary("r")
        assert (summary.status, summary.is_due) == ("waiting", False)
        [asked] = summary.approvals
        [call] = (await journal.view("r")).approvals
        assert (asked["call"], asked["name"], call.id, call.input) == (call.id, "launch", call.id, {})
        await journal.decide("r", call.id, decision=True)
        await journal.decide("r", call.id, decision="too late")
        assert [each.run_id for each in await journal.due()] == ["r"]
        assert [each.state for each in (await journal.view("r")).calls] == ["decided"]
        left: list[tuple[str, str]] = []
        await work(journal, world.app, once=True, poll_s=0.01, on_run=lambda *each: left.append(each))
        assert (left, world.effects) == ([("r", "completed")], ["launch"])
        assert world.given[0]["run_id"] == "r"
        assert world.given[0]["model"] == REQUEST["model"]
        assert await journal.messages("r") == []
        assert await journal.due() == []


async def test_only_a_call_that_may_wait_is_decided(tmp_path: Path) -> None:
    """A decision comes before the call has asked if an owner has the run. Otherwise the journal has all calls."""
    async with Journal(tmp_path / "runs.db") as journal, world_of(journal, *LAUNCH[1:]) as world:
        log = await journal.create("owned", BEGIN)
        await journal.decide("owned", "soon", decision=True)
        await log.release("running", {})
        for run_id in ("owned", "r"):
            with pytest.raises(UsageError, match="does not wait"):
                await journal.decide(run_id, "never", decision=True)
        assert [each.run_id for each in await journal.due()] == ["owned"]
        log = await journal.open("owned")
        call = {"block": {"type": "tool_use", "id": "written", "name": "launch", "input": {}}}
        log.append({"kind": "request", "turn": 1, "history": [], "waiting": [], "carrier": {}})
        log.append({"kind": "response", "turn": 1, "blocks": [call], "message": {}})
        await log.release("running", {})
        await journal.decide("owned", "written", decision=True)
        assert len(await journal.messages("owned")) == 2
        assert world.effects == []


@pytest.mark.parametrize("moved", ["before", "after"])
async def test_a_view_while_the_run_takes_a_message(tmp_path: Path, moved: str) -> None:
    """The message counts once, whether the run takes it right before or right after the inbox is read."""

    class Busy(Journal):
        async def messages(self, run_id: str, after: int = 0) -> list[tuple[int, Any]]:
            found = [] if moved == "before" else await super().messages(run_id, after)
            await log.append({"kind": "said", "turn": 0, "inbox": number, "message": {"role": "user"}, "when": "now"})
            return found or await super().messages(run_id, after)

    async with Busy(tmp_path / "runs.db") as journal:
        log = await journal.create("r", {"kind": "begin", "turn": 0, "options": {}, **REQUEST})
        number = await journal.say("r", "Hi")
        assert len((await journal.view("r")).said) == 1
        await log.release("running", {})


async def test_the_view_of_a_damaged_run(tmp_path: Path) -> None:
    """The error says which entry it is, without its contents."""
    async with Journal(tmp_path / "runs.db") as journal:
        log = await journal.create("r", BEGIN)
        await log.append({"kind": "said", "turn": 0, "text": "secret"})
        with pytest.raises(JournalError, match=r"entry 2 of 2 is of another form \(missing in 'message'\)") as caught:
            await journal.view("r")
        assert "secret" not in str(caught.value)


async def test_a_message_wakes_a_run_that_has_ended(tmp_path: Path) -> None:
    """The run continues with it, as with `run.say` before its end."""
    async with Journal(tmp_path / "runs.db") as journal, world_of(journal, *LAUNCH[1:]) as world:
        assert (await journal.summary("r")).status == "completed"
        for when in get_args(When):
            await journal.say("r", f"More, {when}.", when)
        assert len((await journal.view("r")).said) == 3
        await work(journal, world.app, once=True, poll_s=0.01)
        view = await journal.view("r")
        assert [message["role"] for message in view.messages] == [
            "user",
            "assistant",
            "user",
            "user",
            "user",
            "assistant",
        ]
        assert (view.said, view.summary.status, view.summary.messages) == ([], "completed", 0)


async def test_a_cancelled_run_does_nothing_more(tmp_path: Path) -> None:
    """Its open calls get results, and no request is sent. A run that has ended keeps its status."""
    async with Journal(tmp_path / "runs.db") as journal, world_of(journal, *LAUNCH) as world:
        await journal.decide("r", (await journal.view("r")).approvals[0].id, decision=True)
        await journal.cancel("r")
        assert (await journal.view("r")).is_cancelled
        await work(journal, world.app, once=True, poll_s=0.01)
        view = await journal.view("r")
        assert (view.summary.status, world.effects, view.is_cancelled) == ("cancelled", [], False)
        assert eagerstream.validate_history(view.messages) == []
        assert [block["type"] for block in view.messages[-1]["content"]] == ["tool_result"]
        await journal.say("r", "Continue.")
        await work(journal, world.app, once=True, poll_s=0.01)
        assert (await journal.summary("r")).status == "completed"
        await journal.cancel("r")
        await work(journal, world.app, once=True, poll_s=0.01)
        summary = await journal.summary("r")
        assert (summary.status, summary.messages) == ("completed", 0)


async def test_a_message_behind_a_cancellation(tmp_path: Path) -> None:
    """Their order counts: the run is cancelled, and continues with the message."""
    async with Journal(tmp_path / "runs.db") as journal, world_of(journal, *LAUNCH) as world:
        await journal.cancel("r")
        await journal.say("r", "Do something else.")
        await work(journal, world.app, once=True, poll_s=0.01)
        view = await journal.view("r")
        assert (view.summary.status, view.summary.messages, world.effects) == ("completed", 0, [])
        assert {"role": "user", "content": "Do something else."} in view.messages


async def test_an_active_run_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks for messages while its tools run."""
    monkeypatch.setattr("eagerstream.loop._durability._WATCH_S", 0.01)
    async with Journal(tmp_path / "runs.db") as journal, client_of(Scenario(reply(tool_use("slow", {})))) as client:
        world = World(client)
        async with eagerstream.run(client, **REQUEST, tools=world.tools, journal=journal, run_id="r") as run:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.finish)
                await world.begun.wait()
                await journal.cancel("r")
        assert run.result.status is RunStatus.CANCELLED
        assert (await journal.summary("r")).status == "cancelled"


async def test_a_call_of_an_active_run_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another process; the run continues, and the model reads the reason. A call that is not there changes nothing."""
    monkeypatch.setattr("eagerstream.loop._durability._WATCH_S", 0.01)
    replies = reply(tool_use("slow", {}, id="toolu_slow")), reply(text("Done."))
    async with Journal(tmp_path / "runs.db") as journal, client_of(Scenario(*replies)) as client:
        world = World(client)
        async with eagerstream.run(client, **REQUEST, tools=world.tools, journal=journal, run_id="r") as run:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.finish)
                await world.begun.wait()
                await journal.cancel_call("r", "toolu_other")
                await journal.cancel_call("r", "toolu_slow", "It takes too long.")
        assert run.result.status is RunStatus.COMPLETED
        assert [call.text for call in run.result.calls] == ["Cancelled: It takes too long."]
        summary = await journal.summary("r")
        assert (summary.status, summary.messages) == ("completed", 0)
        await journal.cancel_call("r", "toolu_slow")
        await work(journal, world.app, once=True, poll_s=0.01)
        summary = await journal.summary("r")
        assert (summary.status, summary.messages) == ("completed", 0)


async def test_a_message_to_a_run_that_waits_for_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its last word, the run hears what another process says, and continues."""
    monkeypatch.setattr("eagerstream.loop._durability._WATCH_S", 0.01)
    replies = reply(text("Done.")), reply(text("Once more."))
    async with Journal(tmp_path / "runs.db") as journal, client_of(Scenario(*replies)) as client:
        async with eagerstream.run(client, **REQUEST, journal=journal, run_id="r") as run:
            async for event in run:
                if isinstance(event, TurnStop) and event.turn == 1:
                    await journal.say("r", "Again.")
                    await until(lambda: run.turn == 2)  # without being asked for the next event
        assert (run.result.text, run.result.undelivered) == ("Once more.", [])
        assert (await journal.summary("r")).messages == 0


@pytest.mark.parametrize("grace_s", [0.0, 60.0])
async def test_a_worker_that_stops_loses_nothing(tmp_path: Path, grace_s: float) -> None:
    """With time, the turn is settled. Without, the call is cut, and the model learns that nobody knows."""
    answers = (reply(tool_use("launch", {})), reply(tool_use("slow", {})), reply(text("Done.")))
    async with Journal(tmp_path / "runs.db") as journal, world_of(journal, *answers) as world:
        await journal.decide("r", (await journal.view("r")).approvals[0].id, decision=True)
        stop = anyio.Event()
        left: list[tuple[str, str]] = []
        async with anyio.create_task_group() as tasks:

            async def stopped() -> None:
                note = left.append
                await work(journal, world.app, stop=stop, poll_s=0.01, grace_s=grace_s, on_run=lambda *each: note(each))

            tasks.start_soon(stopped)
            await world.begun.wait()
            stop.set()
            if grace_s:
                world.may_end.set()
        assert left in ([("r", "running")], [])
        summary = await journal.summary("r")
        assert (summary.status, summary.owner, summary.is_due) == ("running", "none", True)
        world.may_end.set()
        await work(journal, world.app, once=True, poll_s=0.01)
        assert world.effects == ["launch", "slow"]
        view = await journal.view("r")
        assert view.summary.status == "completed"
        [result] = view.messages[-2]["content"]
        assert ("slept" if grace_s else "Nobody knows") in str(result["content"])


async def test_several_workers_share_the_runs(tmp_path: Path) -> None:
    """Each run is continued once, whoever finds it first."""
    async with Journal(tmp_path / "runs.db") as journal, Journal(tmp_path / "runs.db") as other:
        async with client_of(Scenario(*LAUNCH)) as client:
            world = World(client)
            ids = [f"r{n}" for n in range(4)]
            for run_id in ids:
                async with eagerstream.run(client, **REQUEST, tools=world.tools, journal=journal, run_id=run_id) as run:
                    await run.finish()
                await journal.decide(run_id, (await journal.view(run_id)).approvals[0].id, decision=True)
            async with anyio.create_task_group() as tasks:
                for each in (journal, other):
                    tasks.start_soon(partial(work, each, world.app, once=True, poll_s=0.01, concurrency=2))
        assert world.effects == ["launch"] * 4
        assert {each.status for each in await journal.runs()} == {"completed"}


async def test_an_application_that_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The run stays due, other runs are not held up, and the log has no text of the application."""
    async with Journal(tmp_path / "runs.db") as journal, world_of(journal, *LAUNCH) as world:
        await journal.say("r", "Hello?")

        def app(_begin: Mapping[str, Any]) -> dict[str, Any]:
            raise RuntimeError("secret of mine")

        await work(journal, app, once=True, poll_s=0.01)
        await work(journal, lambda _: {"tools": world.tools}, once=True, poll_s=0.01)
        assert "RuntimeError" in caplog.text
        assert "must return" in caplog.text
        assert "secret of mine" not in caplog.text
        assert (await journal.summary("r")).is_due


async def test_a_run_that_cannot_be_resumed_stays_as_it_was(tmp_path: Path) -> None:
    """A wrong argument does not make it due, and its approvals stay in the list."""
    one = Scenario(reply(tool_use("launch", {})), reply(text("Done.")))
    async with Journal(tmp_path / "runs.db") as journal, client_of(one) as client:
        world = World(client)
        async with eagerstream.run(client, **REQUEST, tools=world.tools, journal=journal, run_id="r") as run:
            await run.finish()
        before = await journal.summary("r")
        assert before.status == "waiting"
        with pytest.raises(UsageError):
            async with resume(client, journal, "r", tools=world.tools, max_turns=-1):
                pass
        after = await journal.summary("r")
        assert (after.status, after.facts, after.owner, after.is_due) == ("waiting", before.facts, "none", False)


async def test_a_result_that_is_too_large_ends_a_run(tmp_path: Path) -> None:
    """It gives the run up at once, although the program keeps the run, and no worker repeats the call forever."""

    @eagerstream.tool(idempotent=True)
    async def read() -> str:
        """Read."""
        return "x" * 100_000

    one = Scenario(reply(tool_use("read", {})), reply(text("Done.")))
    async with Journal(tmp_path / "runs.db", max_entry_bytes=50_000) as journal, client_of(one) as client:
        with pytest.raises(LimitError):
            async with eagerstream.run(client, **REQUEST, tools=[read], journal=journal, run_id="r") as run:
                await run.finish()
        left = await journal.summary("r")
        assert (left.status, left.owner, left.is_due) == ("error", "none", False)
        async with Journal(tmp_path / "runs.db") as larger, resume(client, larger, "r", tools=[read]) as resumed:
            await resumed.finish()
        assert (run.result.status, resumed.result.status) == (RunStatus.ERROR, RunStatus.COMPLETED)


async def test_a_run_that_cannot_be_read_has_no_owner(tmp_path: Path) -> None:
    """`run` gives it up as `resume` does."""
    async with Journal(tmp_path / "runs.db") as journal, client_of(Scenario(reply(text("-")))) as client:
        log = await journal.create("r", {"kind": "begin", "turn": 0})
        await log.append({"kind": "turn", "turn": 1})
        await log.release("completed", {})
        damaged = eagerstream.run(client, **REQUEST, journal=journal, run_id="r")
        with pytest.raises(JournalError, match=r"entry 1 of 2 is of another form \(missing in 'model'\)"):
            async with damaged:
                pass
        left = await journal.summary("r")
        assert (left.status, left.owner) == ("completed", "none")


async def test_unusable_messages(tmp_path: Path) -> None:
    """They are refused before they are in the journal."""
    async with Journal(tmp_path / "runs.db", max_inbox_messages=1) as journal, world_of(journal, *LAUNCH):
        for wrong in (
            journal.say("r", {"role": "assistant", "content": "x"}),
            journal.say("r", ""),
            journal.say("r", 5),  # type: ignore[arg-type]
            journal.say("r", "x", "soon"),  # type: ignore[arg-type]
            journal.decide("r", "id", decision=None),  # type: ignore[arg-type]
            journal.decide("r", "", decision=True),
            journal.decide("r", "no-such-call", decision=True),
            journal.runs("nonsense"),
            journal.runs(5),  # type: ignore[arg-type]
            journal.decide(5, "id", decision=True),  # type: ignore[arg-type]
            journal.cancel_call("r", ""),
            journal.cancel_call("r", "id", None),  # type: ignore[arg-type]
        ):
            with pytest.raises(UsageError):
                await wrong
        for missing in (journal.say("x", "Hi"), journal.decide("x", "id", decision=True), journal.cancel("x")):
            with pytest.raises(RunNotFoundError):
                await missing
        await journal.cancel("r")
        with pytest.raises(LimitError):
            await journal.cancel("r")


async def test_unusable_arguments_of_a_worker(tmp_path: Path) -> None:
    """Each has its error."""
    async with Journal(tmp_path / "runs.db") as journal:
        for options in ({"concurrency": 0}, {"poll_s": 0}, {"grace_s": -1}, {"app": None}, {"journal": "runs.db"}):
            arguments: dict[str, Any] = {"journal": journal, "app": dict, **options}
            with pytest.raises(UsageError):
                await work(**arguments)


async def test_runs_of_tools_are_left_to_their_calls(where: str) -> None:
    """A worker would give them the tools of another run, and their calls would find them taken."""
    async with Journal(where) as journal, world_of_a_child(journal, "running") as (world, statuses):
        with anyio.fail_after(30):
            await work(journal, world.app, once=True)
        assert [given["run_id"] for given in world.given] == ["parent"]
        assert await statuses() == {"parent": "completed", "child": "running"}


@pytest.mark.parametrize("status", ["completed", "running"])
async def test_runs_of_tools_whose_run_has_ended(status: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for them, and their call may have been made again. The same if it ends later."""
    monkeypatch.setattr(_worker, "_LONGEST_PAUSE_S", 0.0)
    async with Journal(where) as journal, world_of_a_child(journal, status) as (world, statuses):
        with anyio.fail_after(30):
            await work(journal, world.app, once=True)
        assert await statuses() == {"parent": "completed", "child": "cancelled"}
        assert await journal.due() == []


@asynccontextmanager
async def world_of_a_child(
    journal: Journal, status: str
) -> AsyncIterator[tuple[World, Callable[[], Awaitable[dict[str, str]]]]]:
    """A run that a tool of another one has started, and left; and the statuses of both."""
    begin: dict[str, Any] = {"kind": "begin", "turn": 0, "options": {}, **REQUEST}
    for run_id, parent, left_as in (("parent", "gone", status), ("child", "parent", "running")):
        log = await journal.create(run_id, {**begin, "parent": {"run": parent, "call": "toolu_1"}})
        await log.release(left_as, {})

    async def statuses() -> dict[str, str]:
        return {run.run_id: run.status for run in await journal.runs()}

    async with client_of(Scenario(reply(text("Done.")))) as client:
        yield World(client), statuses


async def test_an_outage_ends_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It stays due, with its decision, and so does a run whose tool is missing."""
    async with Journal(tmp_path / "runs.db") as journal, world_of(journal, *LAUNCH) as world:
        await journal.decide("r", (await journal.view("r")).approvals[0].id, decision=True)
        async with anthropic.AsyncAnthropic(base_url="http://127.0.0.1:1", api_key="k", max_retries=0) as down:
            down_app = {"client": down, "tools": world.tools, "max_restarts": 0}
            for app in (lambda _: {"client": world.client}, lambda _: down_app):
                await work(journal, app, once=True, poll_s=0.01)
                summary = await journal.summary("r")
                assert (summary.owner, summary.is_due) == ("none", True)
        said = [
            record.getMessage() for record in caplog.records if record.name == "eagerstream.durable.journal._worker"
        ]
        assert ["give a tool of that name" in message for message in said] == [True, False]
        await work(journal, world.app, once=True, poll_s=0.01)
        assert (await journal.summary("r")).status == "completed"
        assert world.effects == ["launch"]
