"""Traces of what goes wrong, and is given up: the errors have names, and nothing stays open."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
from packages.adapters.tests.collected import (
    AGENT,
    CALL_NOW,
    CHAT,
    CLIENT,
    DONE,
    END,
    SLOWLY_S,
    Collected,
    assert_within,
    attributes,
    fail,
    failed,
    finished,
    now,
    parents,
)
from tests.streams import REQUEST, message_start
from tests.support import Broken, Gate, LocalAPI, all_tasks_blocked, whole_call

import eagerstream
from eagerstream import APIError, RunStatus, ToolStart, tool
from eagerstream.tools import InProcessExecutor, ToolCall
from eagerstream_testing import (
    Fault,
    FaultKind,
    Faults,
    error_event,
    http_error,
    reply,
    text,
    tool_use,
)


@pytest.mark.anyio
async def test_sent_again(collected: Collected) -> None:
    """A request that breaks off before anything ran has a span that says so; the next attempt has one of its own."""
    faults = Faults({0: [Fault(FaultKind.END, after_events=1), Fault(FaultKind.HTTP_ERROR, status=529)]})
    with collected.tracing():
        async with collected.serving(reply(tool_use("now", {})), DONE, faults=faults) as (client, _):
            run = await finished(client, now)
    assert run.result.status is RunStatus.COMPLETED
    chats = collected.spans(CHAT)
    assert [failed(chat) for chat in chats] == [
        "eagerstream.errors.StreamInterrupted",
        "overloaded_error",
        None,
        None,
    ]
    assert all(parents(chat, collected.spans()) == [AGENT] for chat in chats)
    assert attributes(chats[0])["gen_ai.response.id"]  # what had come of it
    assert "gen_ai.usage.output_tokens" not in attributes(chats[0])
    assert "gen_ai.response.id" not in attributes(chats[1])
    assert collected.children(collected.span(AGENT)).count("execute_tool now") == 1
    points = collected.points("gen_ai.client.operation.duration")
    assert sorted(str(point["attributes"].get("error.type")) for point in points) == sorted(
        ["None", "eagerstream.errors.StreamInterrupted", "overloaded_error"]
    )


@pytest.mark.anyio
async def test_interrupted_after_a_tool_ran(collected: Collected) -> None:
    """The request has the API's error, the call that was whole has none, and the run goes on."""
    broken = reply(tool_use("now", {}), error_event("overloaded_error", "Overloaded"))
    with collected.tracing():
        async with collected.serving(broken, DONE) as (client, _):
            run = await finished(client, now)
    assert run.result.status is RunStatus.COMPLETED
    assert [failed(chat) for chat in collected.spans(CHAT)] == ["overloaded_error", None]
    assert failed(collected.span("execute_tool")) is None
    assert failed(collected.span(AGENT)) is None


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_request_ends_with_its_reply(collected: Collected) -> None:
    """Not with the tools that run on when it has broken off, although it is only told of after them."""
    gate = Gate()

    @tool
    async def lasting() -> str:
        """Go on when the reply is lost."""
        gate.opened.set()
        await all_tasks_blocked()
        with collected.tracer.start_as_current_span("after the reply"):
            return "done"

    api = LocalAPI([message_start(), *whole_call(0, "lasting"), gate, Broken()], [DONE])
    with collected.tracing():
        run = await finished(api.transport(), lasting)
    assert run.result.status is RunStatus.COMPLETED
    broken, _ = collected.spans(CHAT)
    assert failed(broken) == "eagerstream.errors.StreamInterrupted"
    after = collected.span("after the reply").start_time
    assert broken.start_time is not None
    assert broken.end_time is not None
    assert after is not None
    assert broken.start_time <= broken.end_time <= after


class StartsTwice(InProcessExecutor):
    """Tells twice that a tool begins, as one may that asks a second worker where the first is gone."""

    async def execute(self, call: ToolCall) -> None:
        call.start()
        await super().execute(call)


@pytest.mark.anyio
async def test_a_call_that_begins_twice(collected: Collected) -> None:
    """It is one call, and has one span."""
    with collected.tracing():
        api = LocalAPI(CALL_NOW, [DONE])
        await finished(api.transport(), now, executor=StartsTwice([now]))
    assert failed(collected.span("execute_tool now")) is None


@pytest.mark.anyio
async def test_a_discarded_call_is_seen(collected: Collected) -> None:
    """A tool that may run twice, and was given up with its turn, does not stay open."""
    gate = Gate()

    @tool(idempotent=True)
    async def endless() -> str:
        """Never end, the first time."""
        gate.opened.set()
        if len(api.exchanges) == 1:
            await anyio.sleep_forever()
        return "done"

    api = LocalAPI(
        [message_start(), *whole_call(0, "endless"), gate, Broken()],
        [message_start(), *whole_call(0, "endless"), *END],
        [DONE],
    )
    with collected.tracing():
        run = await finished(api.transport(), endless)
    assert run.result.status is RunStatus.COMPLETED
    assert [failed(span) for span in collected.spans("execute_tool")] == ["cancelled", None]


@pytest.mark.anyio
async def test_refused(collected: Collected) -> None:
    """The run ends with the API's error, and so do its request and its spans."""
    with collected.tracing():
        async with collected.serving(http_error(400, "invalid_request_error", "Secret words")) as (client, _):
            with pytest.raises(APIError):
                await finished(client, now)
    assert failed(collected.span(AGENT)) == "invalid_request_error"
    assert failed(collected.span(CHAT)) == "invalid_request_error"
    assert attributes(collected.span(AGENT))["eagerstream.run.status"] == "error"
    ours = [span for span in collected.spans() if span.name != CLIENT]
    assert "Secret words" not in "".join(span.to_json() for span in ours)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("way", ["left", "raised", "run.cancel", "cancelled"])
async def test_given_up(way: str, collected: Collected) -> None:
    """However a run is given up while a tool runs and the reply goes on, nothing stays open, and it is no error."""
    began = anyio.Event()

    @tool
    async def endless() -> None:
        """Never end."""
        began.set()
        with collected.tracer.start_as_current_span("inside"):
            await anyio.sleep_forever()

    api = LocalAPI([message_start(), *whole_call(0, "endless"), Gate()])
    with collected.tracing(), anyio.fail_after(SLOWLY_S):
        with anyio.CancelScope() as scope:
            try:
                async with eagerstream.run(api.transport(), **REQUEST, tools=[endless]) as run:
                    async for event in run:
                        if isinstance(event, ToolStart):
                            await began.wait()
                            if way == "left":
                                break
                            if way == "raised":
                                raise ZeroDivisionError
                            if way == "run.cancel":
                                run.cancel()
                            else:
                                scope.cancel()
            except ZeroDivisionError:
                pass
    agent = collected.span(AGENT)
    assert failed(agent) is None
    assert attributes(agent)["eagerstream.run.status"] == "cancelled"
    assert failed(collected.span(CHAT)) is None
    assert failed(collected.span("execute_tool")) == "cancelled"
    assert parents(collected.span("inside"), collected.spans()) == ["execute_tool endless", AGENT]
    assert_within(collected.span("execute_tool"), agent)


_LASTING = (FaultKind.STALL, FaultKind.ENDLESS)  # until the client gives up
_QUICK = (FaultKind.HTTP_ERROR, FaultKind.ERROR_EVENT, FaultKind.CLOSE, FaultKind.GARBAGE)
"""One for each way in which a reply ends: refused, told to be over, broken off, and not understood."""


@pytest.mark.anyio
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind in _QUICK else [pytest.mark.slow])
        for kind in FaultKind
        if kind not in _LASTING
    ],
)
async def test_nothing_stays_open(kind: FaultKind, collected: Collected) -> None:
    """Whatever is wrong with a reply, each request has a span, and all spans end."""
    options: dict[str, Any] = {} if kind in (FaultKind.HTML_PAGE, FaultKind.CONTENT_TYPE) else {"after_events": 6}
    if kind is FaultKind.HTTP_ERROR:
        options = {"status": 500}
    elif kind is FaultKind.ERROR_EVENT:
        options["error_type"] = "api_error"
    faults = Faults({0: [Fault(kind, **options)]})
    calls = reply(tool_use("now", {}), tool_use("now", {}), text("So be it."))
    with collected.tracing():
        async with collected.serving(calls, DONE, faults=faults) as (client, server):
            try:
                await finished(client, now)
            except eagerstream.EagerStreamError:
                pass
            assert len(collected.spans(CHAT)) == len(server.requests)
    assert len(collected.spans(AGENT)) == 1


@pytest.mark.anyio
async def test_error_codes(collected: Collected) -> None:
    """A tool says itself what kind of error it is; a call that is not approved, or is withdrawn, has not run."""

    @tool(approve=lambda _: "no")
    async def forbidden() -> None:
        """Nobody allows it."""

    @tool(start="message")
    async def late() -> None:
        """Wait for the end of the reply."""

    @tool
    async def offline() -> None:
        """Have no network."""
        raise ConnectionError("no route")

    @tool(timeout_s=0.001)
    async def slow() -> None:
        """Take too long."""
        await anyio.sleep_forever()

    calls = reply(
        tool_use("fail", {"code": "RATE_LIMIT"}),
        tool_use("fail", {"code": "what the prompt says: " + "x" * 200}),
        tool_use("offline", {}),
        tool_use("slow", {}),
        tool_use("forbidden", {}),
        message_id="msg_first",
    )
    cut = reply(tool_use("now", {}), tool_use("forbidden", {}), tool_use("late", {}), stop_reason="max_tokens")
    with collected.tracing():
        async with collected.serving(calls, cut) as (client, _):
            run = await finished(client, now, fail, offline, slow, forbidden, late)
    tools = {attributes(span)["gen_ai.tool.call.id"]: failed(span) for span in collected.spans("execute_tool")}
    codes = [tools[call.id] for call in run.result.calls]
    told = [dict(event.attributes or {}) for span in collected.spans("execute_tool") for event in span.events]
    assert [event["exception.type"] for event in told] == ["ConnectionError"]  # the others are answers for the model
    assert re.fullmatch(rf"{re.escape(__file__)}:\d+ in .*offline", str(told[0]["exception.stacktrace"]))
    assert codes[:5] == ["RATE_LIMIT", "_OTHER", "NETWORK_ERROR", "TIMEOUT", "PERMISSION_DENIED"]
    assert codes[5:] == [None, "withdrawn", "withdrawn"]
