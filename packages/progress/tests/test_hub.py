"""Runs that are observed: nothing about them changes, whatever the observers do."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from packages.progress.tests.observed import viewed
from tests.streams import REQUEST, input_delta, message_start, tool_start
from tests.support import Broken, Gate, LocalAPI, until

import eagerstream
from eagerstream import RunningCall
from eagerstream.calls import RunStatus
from eagerstream.errors import APIError, LimitError, UsageError
from eagerstream.loop import Run, RunEvent, ToolStart, ToolStop, TurnStart
from eagerstream.tools import ToolResponse, tool
from eagerstream_progress import Hub, Record, RunLog, RunView
from eagerstream_progress._fold import CallPhase
from eagerstream_progress._merge import MergedRecords
from eagerstream_testing import reply, text, tool_use
from eagerstream_wire import InputDelta, InputStop

pytestmark = pytest.mark.anyio

TWO_CALLS = reply(tool_use("get_weather", {"city": "Oslo"}), tool_use("get_weather", {"city": "Rome"}))
DONE = reply(text("Done."))


@tool
async def get_weather(city: str, call: RunningCall) -> str:
    """Current weather in a city."""
    await call.progress({"asked": city})
    return f"15 degrees in {city}"


def view_of(log: RunLog) -> RunView:
    return viewed(log.records())


def api(*bodies: Any) -> Any:
    return LocalAPI(*(bodies or (TWO_CALLS, DONE))).anthropic()


async def test_a_run_is_observed() -> None:
    """The log has all of it, also where nobody takes the events."""
    hub = Hub()
    async with eagerstream.run(api(), tools=[get_weather], **REQUEST) as run:
        log = hub.observe(run, name="weather")
        await run.finish()
        assert log.is_closed  # at the end of the run, not of the block
    view = view_of(log)
    assert (view.name, view.model, view.status) == ("weather", "claude-sonnet-4-5", "completed")
    assert [(call.name, call.partial, call.phase, call.progress, call.result_text) for call in view.calls] == [
        ("get_weather", {"city": city}, CallPhase.DONE, {"asked": city}, f"15 degrees in {city}")
        for city in ("Oslo", "Rome")
    ]
    assert view.text.strip() == "Done."
    assert view.usage == run.result.usage
    assert hub.logs == [log]
    assert hub.log(log.id) is log


async def test_a_single_request_is_observed() -> None:
    """`stream` has no turns and no tools, and is shown like the first turn of a run."""
    hub = Hub()
    async with eagerstream.stream(api(), tools=[get_weather], **REQUEST) as stream:
        log = hub.observe(stream)
        await stream.finish()
    view = view_of(log)
    assert (view.status, view.turn, [call.phase for call in view.calls]) == ("completed", 1, [CallPhase.WAITING] * 2)


async def test_runs_that_begin_in_a_block_are_observed() -> None:
    """Without a word where they are made: also those of tools, and of other tasks."""
    hub = Hub()

    @tool
    async def ask_another() -> str:
        """Ask another agent."""
        await whole(DONE)
        return "asked"

    async def whole(*bodies: Any) -> None:
        async with eagerstream.run(api(*bodies), tools=[get_weather, ask_another], **REQUEST) as run:
            await run.finish()

    with hub.observing("batch"):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(whole, reply(tool_use("ask_another", {})), DONE)
            tasks.start_soon(whole, DONE)
    await whole(DONE)
    assert [view_of(log).status for log in hub.logs] == ["completed"] * 3
    assert {log.name for log in hub.logs} == {"batch"}


async def test_a_run_of_a_tool_stands_below_its_call() -> None:
    """With the id under which it is observed itself, and how it ended; the parent's tokens include its own."""
    hub = Hub()

    @tool
    async def ask_another() -> str:
        """Ask another agent."""
        async with eagerstream.run(api(DONE), **REQUEST) as run:
            await run.finish()
        return "asked"

    with hub.observing():
        async with eagerstream.run(
            api(reply(tool_use("ask_another", {})), DONE), tools=[ask_another], **REQUEST
        ) as parent:
            await parent.finish()
    views = {log.id: view_of(log) for log in hub.logs}
    (call,) = views.pop(parent.id).calls
    ((child_id, child),) = views.items()
    assert list(call.sub_runs) == [child_id]
    shown = call.sub_runs[child_id]
    assert (shown.model, shown.status, shown.turns) == (REQUEST["model"], child.status, 1)
    assert shown.usage == child.usage == parent.result.sub_usage


class Bad:
    """An observer that fails at some time."""

    def __init__(self, when: int) -> None:
        self.when = when
        self.taken = 0

    def take(self, events: Sequence[RunEvent]) -> None:
        self.taken += 1
        if self.taken == self.when:
            raise RuntimeError(f"what a model wrote: {events!r}")

    def end(self, _: Any) -> None:
        if self.when == -1:
            raise RuntimeError("at the end")


@pytest.mark.parametrize("when", [1, 3, -1])
async def test_an_observer_that_fails_changes_nothing(when: int, caplog: pytest.LogCaptureFixture) -> None:
    """It is dropped and told of by its name; the run and the other observers go on."""
    hub = Hub()
    bad = Bad(when)
    with caplog.at_level(logging.WARNING):
        async with eagerstream.run(api(), tools=[get_weather], **REQUEST) as run:
            run.observe(bad)
            log = hub.observe(run)
            await run.finish()
    assert run.result.status is RunStatus.COMPLETED
    assert view_of(log).status == "completed"
    assert [record.message for record in caplog.records] == ["Bad failed as an observer (RuntimeError): dropped"]
    assert when == -1 or bad.taken == when


async def test_observing_does_not_change_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer gets what it would have got; what begins to observe may fail, too."""

    async def events(*, observed: bool) -> list[str]:
        async with eagerstream.run(api(), tools=[get_weather], **REQUEST) as run:
            if observed:
                Hub().observe(run)
            return [type(event).__name__ for event in [event async for event in run]]

    expected = await events(observed=False)
    assert await events(observed=True) == expected
    monkeypatch.setattr(Hub, "observe", lambda *_, **__: 1 / 0)
    with Hub().observing():
        assert await events(observed=False) == expected


@pytest.mark.parametrize("how", ["leave", "cancel", "fail", "outside"])
async def test_every_ending_is_told(how: str) -> None:
    """Whichever way a run ends, its log ends with its status, and each call with its result."""
    hub = Hub()
    gate = Gate()
    body = [message_start(), tool_start(0, "get_weather"), input_delta(0, '{"ci'), gate, Broken(ValueError("odd"))]
    log = None
    with anyio.move_on_after(10) as scope:
        try:
            async with eagerstream.run(api(body), tools=[get_weather], on_interrupt="raise", **REQUEST) as run:
                log = hub.observe(run)
                async for event in run:
                    if isinstance(event, InputDelta):
                        if how == "leave":
                            break
                        if how == "cancel":
                            run.cancel()
                        if how == "outside":
                            scope.cancel()  # it reaches the reading by way of this task: the body must not break first
                        else:
                            gate.opened.set()
        except (ValueError, eagerstream.EagerStreamError):
            assert how == "fail"
    assert log is not None
    assert log.is_closed
    view = view_of(log)
    assert view.status == ("error" if how == "fail" else "cancelled")
    assert log.records()[-1]["type"] == "run_stop"
    if how == "cancel":
        assert view.calls[0].phase in (CallPhase.FAILED, CallPhase.CUT)
    if how == "fail":
        assert view.error


async def test_an_error_of_the_api_is_told() -> None:
    """With its class and text."""
    hub = Hub()
    client = LocalAPI([b"{}"], status=401).anthropic()
    with pytest.raises(APIError):
        async with eagerstream.run(client, **REQUEST) as run:
            log = hub.observe(run)
            await run.finish()
    last: Any = log.records()[-1]
    assert (last["type"], last["status"], last["error"]["type"]) == ("run_stop", "error", "APIError")


async def test_late_observers_learn_of_the_end() -> None:
    """A run that has ended can still be put on the list."""
    hub = Hub()
    async with eagerstream.run(api(DONE), **REQUEST) as run:
        await run.finish()
        log = hub.observe(run)
        assert log.is_closed
    assert view_of(log).status == "completed"


@pytest.mark.parametrize("joins", [TurnStart, InputDelta, InputStop, ToolStart, ToolStop])
async def test_late_observers_of_a_run_that_goes_on(joins: type[RunEvent]) -> None:
    """They learn where it is; turns count as in the run, and end once."""
    hub = Hub()
    async with eagerstream.run(api(), tools=[get_weather], **REQUEST) as run:
        joined = Joined(hub, run, joins)
        run.observe(joined)
        await run.finish()
    assert joined.log is not None
    records = joined.log.records()
    assert [record["turn"] for record in records if record["type"] == "turn_start"] == [1, 2]
    assert [record["turn"] for record in records if record["type"] == "turn_stop"] == [1, 2]
    stops = [record["block"] for record in records if record["type"] == "input_stop"]
    assert len(stops) == len(set(stops))
    view = view_of(joined.log)
    assert {call.phase for call in view.calls} == {CallPhase.DONE}
    assert {call.outcome for call in view.calls} == {"valid"}


class Joined:
    """An observer that has a run observed by a hub at the first event of a kind."""

    def __init__(self, hub: Hub, run: Run, joins: type[RunEvent]) -> None:
        self.log: RunLog | None = None
        self._hub, self._run, self._joins = hub, run, joins

    def take(self, events: Sequence[RunEvent]) -> None:
        if self.log is None and any(isinstance(event, self._joins) for event in events):
            self.log = self._hub.observe(self._run)

    def end(self, _: Any) -> None:
        pass


@pytest.mark.slow
async def test_a_run_and_its_log_do_not_keep_each_other() -> None:
    """Whoever keeps one of them keeps no more than that."""
    hub = Hub(max_runs=1)
    async with eagerstream.run(api(), tools=[get_weather], **REQUEST) as run:
        log: RunLog | None = hub.observe(run)
        await run.finish()
    kept = weakref.ref(log)
    log = None
    closed = RunLog("another")
    closed.close()
    hub.add(closed)
    assert hub.logs == [closed]
    gc.collect()
    assert kept() is None
    log = hub.observe(run)
    run_kept = weakref.ref(run)
    del run
    gc.collect()
    assert run_kept() is None


async def test_a_run_that_never_began_is_let_go() -> None:
    """Whoever gives it up closes its log, which then makes room as any other."""
    hub = Hub(max_runs=1)
    log = hub.observe(eagerstream.run(api(), **REQUEST))
    log.close()
    hub.add(RunLog("another"))
    assert not hub.is_live(log.id)
    assert not hub._recorders


# --- what a watcher does ----------------------------------------------------------------------------------------------


class Waiting:
    """A tool that waits until it is cancelled."""

    def __init__(self) -> None:
        self.begun = anyio.Event()

    async def wait(self) -> str:
        """Wait."""
        self.begun.set()
        await anyio.sleep_forever()
        return "never"


async def test_watchers_act_on_a_run() -> None:
    """They say something, cancel a call and the run: from another thread, as a web server does."""
    hub, waiting = Hub(), Waiting()
    client = api(reply(tool_use("wait", {})), reply(tool_use("wait", {}, id="toolu_again")))
    run = eagerstream.run(client, tools=[tool(waiting.wait)], **REQUEST)
    log = hub.observe(run)
    with anyio.fail_after(10):
        async with run, anyio.create_task_group() as tasks:
            tasks.start_soon(run.finish)
            await waiting.begun.wait()
            await anyio.to_thread.run_sync(hub.say, log.id, "Hurry up.")
            with pytest.raises(KeyError):
                hub.cancel_call(log.id, 99)
            (call,) = view_of(log).calls
            waiting.begun = anyio.Event()
            await anyio.to_thread.run_sync(hub.cancel_call, log.id, call.block, "It takes too long.")
            await waiting.begun.wait()
            assert view_of(log).calls[0].result_text.startswith("Cancelled: It takes too long.")
            assert {"role": "user", "content": "Hurry up."} in run.result.messages
            with pytest.raises(UsageError, match="no call"):
                hub.cancel_call(log.id, call.block)  # its turn has ended
            await anyio.to_thread.run_sync(hub.cancel, log.id)
    assert run.result.status is RunStatus.CANCELLED
    assert not hub.can_act(log.id)
    with pytest.raises(KeyError):
        hub.cancel(log.id)


@tool(timeout_s=0.01)
async def slow() -> str:
    """Take too long."""
    await anyio.sleep_forever()
    return "never"


@tool
async def broken() -> str:
    """Fail."""
    raise ValueError("broken")


async def test_cancelled_tools_show() -> None:
    """Records tell a tool that was cancelled from one that failed: alone, by its time limit, and with the run."""
    hub, waiting = Hub(), Waiting()
    first = reply(tool_use("broken", {}), tool_use("slow", {}), tool_use("wait", {}))
    run = eagerstream.run(
        api(first, reply(tool_use("wait", {}, id="toolu_again"))), tools=[broken, slow, tool(waiting.wait)], **REQUEST
    )
    log = hub.observe(run)
    with anyio.fail_after(10):
        async with run, anyio.create_task_group() as tasks:
            tasks.start_soon(run.finish)
            await waiting.begun.wait()
            waiting.begun = anyio.Event()
            hub.cancel_call(log.id, view_of(log).calls[2].block)
            await waiting.begun.wait()
            hub.cancel(log.id)
    stops: list[Any] = [record for record in log.records() if record["type"] == "tool_stop"]
    assert all(stop["ran"] and stop["is_error"] for stop in stops)
    assert {stop["block"]: stop.get("cancelled") for stop in stops} == {1: None, 2: True, 3: True, 4: True}


async def test_structured_data() -> None:
    """Only a hub that was told so keeps it. It counts as a part of the log's size, and goes with the old texts."""

    deep: dict[str, Any] = {}
    for _ in range(600):
        deep = {"deep": deep}
    answers = [{"rows": ["x" * 1_000], "at": datetime(2026, 1, 1, tzinfo=UTC)}, deep, {}]

    @tool
    async def count(n: int) -> ToolResponse:
        """Count."""
        return ToolResponse.success("many", answers[n])

    calls = reply(*(tool_use("count", {"n": n}) for n in range(3)))
    logs: list[RunLog] = []
    for hub in (Hub(), Hub(data=True)):
        async with eagerstream.run(api(calls, DONE), tools=[count], **REQUEST) as run:
            logs.append(hub.observe(run))
            await run.finish()
    found = [record["data"] for log in logs for record in log.records() if "data" in record]  # type: ignore[typeddict-item]
    assert found == [{"rows": ["x" * 1_000], "at": "2026-01-01T00:00:00Z"}]
    large, small = MergedRecords(max_chars=100_000), MergedRecords(max_chars=500)
    for record in logs[1].records():
        large.add(record)
        small.add(record)
    assert not any("data" in record for record in small.records() if record["type"] == "tool_stop")
    assert large.chars - small.chars > 1_000
    with pytest.raises(UsageError, match="data"):
        Hub(contents=False, data=True)


async def test_watchers_do_not_act_on_others() -> None:
    """A single request, a run that has ended, and a saved one take nothing."""
    hub = Hub()
    with anyio.fail_after(10):
        async with eagerstream.stream(api(DONE), **REQUEST) as stream:
            log = hub.observe(stream)
            assert (hub.is_live(log.id), hub.can_act(log.id)) == (True, False)
            with pytest.raises(KeyError):
                hub.say(log.id, "Hi")
            await stream.finish()


async def test_messages_of_watchers_are_bounded() -> None:
    """Whoever may watch may not fill the memory."""
    hub, waiting = Hub(), Waiting()
    run = eagerstream.run(api(reply(tool_use("wait", {}))), tools=[tool(waiting.wait)], **REQUEST)
    log = hub.observe(run)
    with anyio.fail_after(10):
        async with run, anyio.create_task_group() as tasks:
            tasks.start_soon(run.finish)
            await waiting.begun.wait()
            for _ in range(100):
                hub.say(log.id, "Hi")
            with pytest.raises(LimitError):
                hub.say(log.id, "Hi")
            hub.cancel(log.id)


# --- approvals --------------------------------------------------------------------------------------------------------


async def deleting(hub: Hub, deleted: list[str], *, is_observed: bool = True, **options: Any) -> Run:
    """A run to its end, in which a person is asked about a call of `delete_file`; the list gets what that deletes."""

    @tool(approve=hub.approve, **options)
    async def delete_file(path: str) -> str:
        """Delete a file."""
        deleted.append(path)
        return "deleted"

    client = api(reply(tool_use("delete_file", {"path": "a.txt"})), DONE)
    with anyio.fail_after(10), hub.observing() if is_observed else nullcontext():
        async with eagerstream.run(client, tools=[delete_file], **REQUEST) as run:
            await run.finish()
    return run


async def _decide(hub: Hub, *, approved: bool, reason: str | None) -> None:
    (call,) = view_of(hub.logs[0]).calls
    assert call.phase is CallPhase.APPROVAL
    assert hub.questions == [(hub.logs[0].id, call.block)]
    # As a web server in another thread does it.
    await anyio.to_thread.run_sync(partial(hub.decide, hub.logs[0].id, call.block, approved=approved, reason=reason))


@pytest.mark.parametrize(("approved", "reason"), [(True, None), (False, None), (False, "Not that one.")])
async def test_a_person_decides(approved: bool, reason: str | None) -> None:
    """The call waits; then it runs, or is refused in the person's words."""
    hub = Hub()
    deleted: list[str] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deleting, hub, deleted)
        await until(lambda: hub.questions)
        await _decide(hub, approved=approved, reason=reason)
    (call,) = view_of(hub.logs[0]).calls
    assert deleted == (["a.txt"] if approved else [])
    assert call.phase is (CallPhase.DONE if approved else CallPhase.FAILED)
    assert reason is None or reason in call.result_text
    (stop,) = (record for record in hub.logs[0].records() if record["type"] == "approval_stop")
    assert (stop["approved"], stop["reason"]) == (approved, reason)


async def test_a_person_decides_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sees the question can answer it, however fast."""
    hub = Hub()
    append = RunLog.append

    def decide(log: RunLog, records: Sequence[Record]) -> None:
        append(log, records)
        for record in records:
            if record["type"] == "approval_start":
                hub.decide(log.id, record["block"], approved=True)
                assert hub.questions == []
                with pytest.raises(KeyError):  # once
                    hub.decide(log.id, record["block"], approved=True)

    monkeypatch.setattr(RunLog, "append", decide)
    await deleting(hub, [])
    assert [call.result_text for call in view_of(hub.logs[0]).calls] == ["deleted"]


async def test_a_question_that_nobody_answers() -> None:
    """After its time the call is refused, and the question is gone; so it is where the run is left."""
    hub = Hub()
    await deleting(hub, [], approve_timeout_s=0.05)
    (log,) = hub.logs
    (call,) = view_of(log).calls
    assert call.phase is CallPhase.FAILED
    with pytest.raises(KeyError):
        hub.decide(log.id, call.block, approved=True)


async def test_a_question_that_nobody_could_see() -> None:
    """A run that is not observed does not wait for a person."""
    run = await deleting(Hub(), [], is_observed=False)
    assert "no person can see the question" in str(run.result.calls[0].result)


# --- the list of runs -------------------------------------------------------------------------------------------------


async def test_the_list_changes() -> None:
    """Whoever follows it is told when a run begins and ends, in any thread."""
    hub = Hub()
    seen: list[list[bool]] = []
    follows = threading.Event()

    async def follow() -> None:
        async for logs in hub.changes():
            seen.append([log.is_closed for log in logs])
            follows.set()
            if logs and all(log.is_closed for log in logs):
                return

    thread = threading.Thread(target=partial(anyio.run, follow))
    thread.start()
    await anyio.to_thread.run_sync(follows.wait, 10)
    async with eagerstream.run(api(DONE), **REQUEST) as run:
        hub.observe(run)
        await anyio.sleep(0.05)
        await run.finish()
    await anyio.to_thread.run_sync(thread.join, 10)
    assert seen[0] == []
    assert seen[-1] == [True]


async def test_ended_runs_make_room() -> None:
    """The oldest that has ended goes; what still runs stays."""
    hub = Hub(max_runs=2)
    open_log = RunLog("open")
    hub.add(open_log)
    for number in range(4):
        log = RunLog(str(number))
        log.close()
        hub.add(log)
    assert [log.id for log in hub.logs] == ["open", "3"]
    with pytest.raises(KeyError):
        hub.log("0")
    with pytest.raises(UsageError, match="max_runs"):
        Hub(max_runs=0)
