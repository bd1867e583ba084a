"""Runs that tools start: children of the run that the call belongs to."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus

import eagerstream
from eagerstream import RunResult, ToolStart, ToolStop, tool
from eagerstream.calls import ParentCall, RunStatus
from eagerstream.errors import APIError
from eagerstream.loop import Conversation, Run, SubRunStart, SubRunStop
from eagerstream.streaming import stream
from eagerstream.tools import Tool
from eagerstream_testing import http_error, reply, text, tool_use
from tests.loop.serial import only_new_garbage
from tests.streams import REQUEST, message_start
from tests.support import Gate, LocalAPI, all_tasks_blocked
from tests.virtual_time import Playing, in_virtual_time, timed

pytestmark = pytest.mark.anyio

DONE = reply(text("Done."))


def asks(*tools: Tool) -> LocalAPI:
    """A model that calls each tool once, in one response, and then ends."""
    return LocalAPI(reply(*(tool_use(each.name, {}, id=each.name) for each in tools)), DONE)


async def child_of(api: LocalAPI, *tools: Tool, **options: Any) -> Run[Any]:
    """A run to its end."""
    async with eagerstream.run(api.transport(), tools=tools, **{**REQUEST, **options}) as run:
        await run.finish()
    return run


async def seen(api: LocalAPI, *tools: Tool) -> tuple[Run[Any], list[Any]]:
    """A run, and the events of its calls."""
    async with eagerstream.run(api.transport(), tools=tools, **REQUEST) as run:
        events = [event async for event in run if isinstance(event, ToolStart | ToolStop | SubRunStart | SubRunStop)]
    return run, events


def tokens(result: RunResult[Any]) -> tuple[int, int]:
    """All tokens of a result, and those of its sub-runs."""
    sub = result.sub_usage
    return result.total_tokens, sub.get("input_tokens", 0) + sub.get("output_tokens", 0)


async def test_a_child_among_the_events_of_its_parent() -> None:
    """Its start and its end come between those of the call, with the numbers that a user interface shows."""
    children: list[Run[Any]] = []

    @tool
    async def research() -> str:
        """Research."""
        children.append(await child_of(LocalAPI(DONE), model="claude-made-2"))
        return "found"

    parent, events = await seen(asks(research), research)
    (child,) = children
    (call,) = parent.result.calls
    assert [type(event) for event in events] == [ToolStart, SubRunStart, SubRunStop, ToolStop]
    assert events[1] == SubRunStart(call, child.id, "claude-made-2")
    assert events[2] == SubRunStop(call, child.id, "claude-made-2", RunStatus.COMPLETED, 1, child.result.usage)
    assert child.parent == ParentCall(parent.id, "research", "research")
    assert parent.parent is None


async def test_usage_at_three_levels() -> None:
    """A result has the tokens that the API bills for it: those of a child of a child count once at each level."""
    results: dict[str, RunResult[Any]] = {}

    @tool
    async def read() -> str:
        """Read."""
        results["grandchild"] = (await child_of(LocalAPI(DONE))).result
        return "read"

    @tool
    async def research() -> str:
        """Research."""
        results["child"] = (await child_of(asks(read), read)).result
        return "found"

    results["parent"] = (await child_of(asks(research), research)).result
    alone = results["grandchild"].total_tokens
    calling = results["child"].total_tokens - alone
    assert tokens(results["grandchild"]) == (alone, 0)
    assert tokens(results["child"]) == (calling + alone, alone)
    assert tokens(results["parent"]) == (2 * calling + alone, calling + alone)
    assert calling > alone > 0
    assert RunResult.from_json(results["parent"].to_json()).sub_usage == results["parent"].sub_usage


async def test_children_of_parallel_calls() -> None:
    """Each belongs to its own call, and two may belong to one."""
    children: dict[str, str] = {}
    meet = anyio.Event()

    @tool
    async def one() -> str:
        """One."""
        run = await child_of(LocalAPI(DONE))
        children[run.id] = "one"
        meet.set()
        return "1"

    @tool
    async def two() -> str:
        """Two."""

        async def go() -> None:
            run = await child_of(LocalAPI(DONE))
            children[run.id] = "two"

        await meet.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go)
            tasks.start_soon(go)
        return "2"

    parent, events = await seen(asks(one, two), one, two)
    stops = [event for event in events if isinstance(event, SubRunStop)]
    assert {event.run: event.call.name for event in stops} == children
    assert sorted(children.values()) == ["one", "two", "two"]
    child_tokens = sum(sum(event.usage[name] for name in ("input_tokens", "output_tokens")) for event in stops)
    assert tokens(parent.result)[1] == child_tokens


async def test_a_child_that_fails() -> None:
    """It is reported, and its responses were billed."""

    @tool
    async def research() -> str:
        """Research."""
        again = reply(tool_use("now", {}))
        await child_of(LocalAPI(again, http_error(400, "invalid_request_error", "no")), now)
        return "unreachable"

    @tool
    async def now() -> str:
        """Now."""
        return "noon"

    parent, events = await seen(asks(research), research)
    (stop,) = [event for event in events if isinstance(event, SubRunStop)]
    assert (stop.status, stop.turns) == (RunStatus.ERROR, 1)
    assert isinstance(stop.call.error, APIError)
    assert parent.result.status is RunStatus.COMPLETED
    assert parent.result.sub_usage == stop.usage
    assert parent.result.sub_usage


@pytest.mark.parametrize("where", ["in the tool", "in a task", "in a task of asyncio"])
@pytest.mark.parametrize("how", ["cancel", "leave"])
async def test_cancelling_the_parent_cancels_the_child(how: str, where: str, anyio_backend_name: str) -> None:
    """The child's connection is closed, also where a task runs it that outlives the tool."""
    if where == "in a task of asyncio" and anyio_backend_name != "asyncio":
        pytest.skip("trio has no task without a parent")
    gate = Gate()
    api = LocalAPI([message_start(), gate])
    children: list[Run[Any]] = []
    tasks: list[asyncio.Task[None]] = []

    async def child() -> None:
        async with eagerstream.run(api.transport(), **REQUEST) as run:
            children.append(run)
            await run.finish()

    @tool
    async def research() -> None:
        """Research."""
        if where == "in the tool":
            await child()
        elif where == "in a task":
            async with anyio.create_task_group() as group:
                group.start_soon(child)
        else:
            tasks.append(asyncio.create_task(child()))
            await anyio.sleep_forever()

    stops: list[SubRunStop] = []
    with anyio.fail_after(20):
        async with eagerstream.run(asks(research).transport(), tools=[research], **REQUEST) as run:
            async for event in run:
                if isinstance(event, SubRunStop):
                    stops.append(event)
                if isinstance(event, SubRunStart):
                    await gate.reached.wait()
                    if how == "leave":
                        break
                    run.cancel()
        if tasks:
            await tasks[0]
    assert run.result.status is RunStatus.CANCELLED
    assert [each.result.status for each in children] == [RunStatus.CANCELLED]
    assert api.exchanges[0].closed
    if how == "cancel":
        assert [stop.status for stop in stops] == [RunStatus.CANCELLED]
    if not tasks:
        assert run.result.sub_usage == children[0].result.usage
        assert run.result.sub_usage


def test_the_time_limit_of_a_tool() -> None:
    """It cancels the children of the call, also one in a task that outlives the tool."""
    children: list[Run[Any]] = []

    async def converse() -> RunResult[Any]:
        started_s = anyio.current_time()

        async def child(task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
            never = Playing(timed((3600.0, message_start())))
            async with eagerstream.run(never, **REQUEST) as run:
                children.append(run)
                task_status.started()
                await run.finish()

        @tool(timeout_s=5)
        async def research() -> None:
            """Research."""
            # The context of the call, as a task of the tool has it, in a task group that outlives it.
            await outer.start(child)
            await anyio.sleep_forever()

        async with anyio.create_task_group() as outer:
            turn = reply(tool_use("research", {}))
            async with eagerstream.run(Playing(turn, DONE), tools=[research], **REQUEST) as run:
                await run.finish()
            assert anyio.current_time() - started_s < 3600
        return run.result

    result = in_virtual_time(converse)
    assert result.status is RunStatus.COMPLETED
    assert result.calls[0].text.startswith("TimeoutError")
    assert [child.result.status for child in children] == [RunStatus.CANCELLED]


async def test_a_child_that_is_left_open() -> None:
    """A tool may start work that outlives its call: that goes on, without a parent, and counts as far as it came."""
    gate = Gate()
    api = LocalAPI(reply(tool_use("now", {})), [gate])
    later: list[Run[Any]] = []
    runs: list[Run[Any]] = []

    @tool
    async def now() -> str:
        """Now."""
        return "noon"

    async def outlives() -> None:
        async with eagerstream.run(api.transport(), tools=[now], **REQUEST) as run:
            runs.append(run)
            with anyio.CancelScope() as scopes:
                scope.append(scopes)
                await run.finish()
        later.append(await child_of(LocalAPI(DONE)))

    scope: list[anyio.CancelScope] = []
    async with anyio.create_task_group() as tasks:

        @tool
        async def research() -> str:
            """Research."""
            tasks.start_soon(outlives)
            await gate.reached.wait()
            return "started"

        parent, events = await seen(asks(research), research)
        assert [type(event) for event in events] == [ToolStart, SubRunStart, SubRunStop, ToolStop]
        assert (events[2].status, events[2].turns) == (RunStatus.RUNNING, 1)
        assert parent.result.sub_usage == events[2].usage
        assert parent.result.sub_usage
        assert runs[0].result.status is RunStatus.RUNNING
        scope[0].cancel()
    assert later[0].parent is None


async def test_a_child_in_a_thread() -> None:
    """A plain `def` may run an event loop of its own; the events still come on the loop of the parent."""
    children: list[Run[Any]] = []

    @tool
    def research() -> str:
        """Research."""
        children.append(anyio.run(child_of, LocalAPI(DONE)))
        return "found"

    parent, events = await seen(asks(research), research)
    assert [type(event) for event in events] == [ToolStart, SubRunStart, SubRunStop, ToolStop]
    assert parent.result.sub_usage == children[0].result.usage
    assert parent.result.sub_usage


async def test_step_by_step() -> None:
    """A conversation that is driven by hand counts the runs of its tools; there is no run to be their parent."""
    children: list[Run[Any]] = []

    @tool
    async def research() -> str:
        """Research."""
        children.append(await child_of(LocalAPI(DONE)))
        return "found"

    api = asks(research)
    conversation = Conversation(tools=[research], **REQUEST)
    while not conversation.ended:
        async with stream(api.transport(), **conversation.request()) as response:
            await response.finish()
        await conversation.execute(conversation.take(response))
    assert children[0].parent == ParentCall(None, "research", "research")
    assert conversation.result.sub_usage == children[0].result.usage
    assert conversation.result.sub_usage


async def test_a_child_and_its_parent_keep_nothing_of_each_other() -> None:
    """Both results may be kept for long, without the runs that they came from."""
    kept: list[Any] = []
    gone: list[weakref.ref[Any]] = []

    @tool
    async def research() -> str:
        """Research."""
        run = await child_of(LocalAPI(DONE))
        kept.append(run.result)
        gone.append(weakref.ref(run))
        return "found"

    async def converse() -> None:
        run = await child_of(asks(research), research)
        kept.append(run.result)
        gone.append(weakref.ref(run))

    with only_new_garbage():
        await converse()
        await all_tasks_blocked()
        gc.collect()
        assert [each() for each in gone] == [None, None]
