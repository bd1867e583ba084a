"""Traces and metrics of runs that go well: what nests in what, what the spans say, which metrics there are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import anyio
import pytest
from opentelemetry import propagate, trace
from packages.adapters.tests.collected import (
    AGENT,
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
    id_of,
    needs_client_spans,
    now,
    parents,
    trace_of,
)
from tests.loop.durable import client_of
from tests.loop.journals import MemoryJournal
from tests.streams import REQUEST, message_start
from tests.support import Gate, LocalAPI, all_tasks_blocked, whole_call

import eagerstream
from eagerstream import ItemStream, RunStatus, tool
from eagerstream.loop import resume
from eagerstream.tools import ToolCall, ask_elsewhere
from eagerstream_testing import (
    ReplayServer,
    Scenario,
    reply,
    text,
    tool_use,
)


@pytest.mark.anyio
async def test_one_trace(collected: Collected) -> None:
    """Tools that run at the same time, one in a thread, one that fails, one that streams: all nests where it belongs."""
    all_began = anyio.Event()
    in_thread = threading.Event()
    began: list[str] = []

    async def meet(name: str) -> None:
        began.append(name)
        if len(began) == 3:
            all_began.set()
            in_thread.set()
        await all_began.wait()

    @tool
    async def waits(city: str) -> str:
        """Wait for the others."""
        with collected.tracer.start_as_current_span(f"in waits {city}"):
            await meet(city)
        return city

    @tool
    def blocks(city: str) -> str:
        """The same in a thread."""
        with collected.tracer.start_as_current_span("in blocks"):
            anyio.from_thread.run(meet_in_loop, city)
            assert in_thread.wait(SLOWLY_S)
        return city

    async def meet_in_loop(city: str) -> None:
        began.append(city)
        if len(began) == 3:
            all_began.set()
            in_thread.set()

    @tool
    async def reads(lines: ItemStream[str]) -> int:
        """Read lines while they are written."""
        count = 0
        async for _ in lines:
            with collected.tracer.start_as_current_span("in reads"):
                count += 1
        await meet("reads")
        return count

    calls = reply(
        tool_use("waits", {"city": "Oslo"}),
        tool_use("blocks", {"city": "Lima"}),
        tool_use("reads", {"lines": ["a", "b"]}),
        tool_use("fail", {}),
        tool_use("waits", {"city": 5}),
        tool_use("nope", {}),
        tool_use("now", "[]"),
        usage={"cache_read_input_tokens": 7, "cache_creation_input_tokens": 3},
    )
    with collected.tracing():
        async with collected.serving(calls, DONE) as (client, _):
            with collected.tracer.start_as_current_span("program"):
                run = await finished(
                    client, waits, blocks, reads, fail, now, temperature=0.5, top_k=3, stop_sequences=["#"]
                )
    assert run.result.status is RunStatus.COMPLETED
    spans = collected.spans()
    assert len({trace_of(span) for span in spans}) == 1
    agent = collected.span(AGENT)
    assert parents(agent, spans) == ["program"]
    assert agent.kind.name == "INTERNAL"
    assert failed(agent) is None
    assert attributes(agent)["eagerstream.run.status"] == "completed"
    assert attributes(agent)["eagerstream.run.turns"] == 2
    assert attributes(agent)["gen_ai.usage.input_tokens"] == 210

    first, second = collected.spans(CHAT)
    for chat in (first, second):
        assert parents(chat, spans) == [AGENT, "program"]
        assert chat.kind.name == "CLIENT"
        assert failed(chat) is None
        assert_within(chat, agent)
    said = dict(attributes(first))
    assert 0 < said.pop("gen_ai.response.time_to_first_chunk") < SLOWLY_S
    assert said.pop("gen_ai.usage.output_tokens") > 0
    assert isinstance(said.pop("gen_ai.response.id"), str)
    assert isinstance(said.pop("server.port"), int)
    assert said == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": REQUEST["model"],
        "gen_ai.request.max_tokens": 1024,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_k": 3.0,
        "gen_ai.request.stop_sequences": ("#",),
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "claude-sonnet-4-5",
        "gen_ai.response.finish_reasons": ("tool_use",),
        "gen_ai.usage.input_tokens": 110,  # those of the cache are among them
        "gen_ai.usage.cache_read.input_tokens": 7,
        "gen_ai.usage.cache_creation.input_tokens": 3,
        "server.address": "127.0.0.1",
    }
    assert attributes(second)["gen_ai.response.id"] == "msg_done"

    tools = {attributes(span)["gen_ai.tool.call.id"]: span for span in collected.spans("execute_tool")}
    assert len(tools) == 7
    for span in tools.values():
        assert parents(span, spans) == [AGENT, "program"]
        assert span.kind.name == "INTERNAL"
        assert attributes(span)["gen_ai.tool.type"] == "function"
        assert_within(span, agent)
    outcomes = [(span.name, failed(span)) for span in (tools[call.id] for call in run.result.calls)]
    assert outcomes == [
        ("execute_tool waits", None),
        ("execute_tool blocks", None),
        ("execute_tool reads", None),
        ("execute_tool fail", "ZeroDivisionError"),
        ("execute_tool waits", "INVALID_PARAM"),
        ("execute_tool _other", "NOT_FOUND"),
        ("execute_tool now", "INVALID_FORMAT"),
    ]
    for call in run.result.calls:
        span = tools[call.id]
        assert attributes(span).get("eagerstream.tool.ran", True) is call.ran
        assert call.ran or span.start_time == span.end_time
    for name, inside in (("waits", "in waits Oslo"), ("blocks", "in blocks"), ("reads", "in reads")):
        for span in collected.spans(inside):
            assert parents(span, spans) == [f"execute_tool {name}", AGENT, "program"]
    assert len(collected.spans("in reads")) == 2


@pytest.mark.anyio
@needs_client_spans
@pytest.mark.parametrize("betas", [[], ["fine-grained-tool-streaming-2025-05-14"]])
async def test_the_client_and_the_wire(collected: Collected, betas: list[str]) -> None:
    """A request has one span of a chat, also with a client that makes its own. The server gets the id of that span."""
    with collected.tracing():
        async with collected.serving(reply(tool_use("now", {})), DONE) as (client, server):
            await finished(client, now, betas=betas)
            sent = [request.headers["traceparent"] for request in server.requests]
    chats = [span for span in collected.spans() if attributes(span).get("gen_ai.operation.name") == "chat"]
    assert [span.name for span in chats] == [CHAT] * 2
    assert collected.spans(CLIENT) == []
    assert [header.split("-")[1:3] for header in sent] == [
        [f"{trace_of(span):032x}", f"{id_of(span):016x}"] for span in chats
    ]


@pytest.mark.anyio
@needs_client_spans
async def test_spans_of_the_client_that_go_elsewhere(collected: Collected) -> None:
    """A client with another provider keeps its spans, and one without propagation sends no headers."""
    other = Collected()
    with collected.tracing():
        async with other.serving(reply(tool_use("now", {})), DONE) as (client, _):
            await finished(client, now)
        async with collected.serving(DONE) as (client, server):
            silent = client.with_options(open_telemetry={**client.open_telemetry, "propagation": False})
            await finished(silent, now)
            assert ["traceparent" in request.headers for request in server.requests] == [False]
    assert len(other.spans(CLIENT)) == 2
    assert collected.spans(CLIENT) == []


@pytest.mark.anyio
@needs_client_spans
async def test_requests_of_a_tool_keep_their_spans(collected: Collected) -> None:
    """A tool that uses the client itself is reported by the client, within the span of the tool."""
    async with collected.serving(reply(tool_use("ask", {})), reply(text("Hi.")), DONE) as (client, server):

        @tool
        async def ask() -> str:
            """Ask by oneself."""
            await client.messages.create(**REQUEST)
            return "done"

        with collected.tracing():
            await finished(client, ask)
        assert len({request.headers["traceparent"] for request in server.requests}) == 3
    (own,) = collected.spans(CLIENT)
    assert parents(own, collected.spans()) == ["execute_tool ask", AGENT]


@pytest.mark.anyio
async def test_after_the_reply_it_is_the_agent_again(collected: Collected) -> None:
    """What a run begins while it reads is in the run, and not in the request that is just being read."""
    asked: list[str] = []

    async def asked_by(call: ToolCall) -> bool:
        with collected.tracer.start_as_current_span("asking"):
            asked.append(call.name)
        return True

    @tool(approve=asked_by)
    async def careful() -> str:
        """Ask first."""
        return "done"

    with collected.tracing():
        async with collected.serving(reply(tool_use("careful", {})), DONE) as (client, _):
            await finished(client, careful)
    assert asked == ["careful"]
    assert parents(collected.span("asking"), collected.spans()) == [AGENT]


@pytest.mark.slow
@pytest.mark.anyio
async def test_metrics(collected: Collected) -> None:
    """Of requests by the conventions, of tool inputs our own; names of tools are those that the request has."""
    calls = reply(tool_use("now", {}, id="a"), tool_use("nope", {"x": "123456789"}, id="b"))
    with collected.tracing():
        async with collected.serving(calls, DONE) as (client, _):
            run = await finished(client, now)
    metrics = collected.metrics()
    latency = {call.name: call for call in run.latency.calls}
    lead_s = latency["now"].lead_s
    assert lead_s is not None
    kind = "lead" if lead_s > 0 else "lag"
    assert {name: metric["unit"] for name, metric in metrics.items()} == {
        "gen_ai.client.operation.duration": "s",
        "gen_ai.client.operation.time_to_first_chunk": "s",
        "gen_ai.client.token.usage": "{token}",
        "eagerstream.tool_input.time_to_first_fragment": "s",
        "eagerstream.tool_input.duration": "s",
        "eagerstream.tool_input.fragments": "{fragment}",
        "eagerstream.tool_input.size": "{char}",
        f"eagerstream.tool.{kind}_time": "s",
    }
    (duration,) = collected.points("gen_ai.client.operation.duration")
    assert duration["count"] == 2
    assert duration["explicit_bounds"][:2] == [0.01, 0.02]
    assert duration["attributes"]["gen_ai.request.model"] == REQUEST["model"]
    assert "error.type" not in duration["attributes"]
    used = {point["attributes"]["gen_ai.token.type"]: point for point in collected.points("gen_ai.client.token.usage")}
    assert used["input"]["sum"] == run.result.usage["input_tokens"]
    assert used["output"]["sum"] == run.result.usage["output_tokens"]
    figures: dict[str, dict[str, Any]] = {
        "fragments": {name: call.block.fragments for name, call in latency.items()},
        "size": {name: call.block.chars for name, call in latency.items()},
        "time_to_first_fragment": {name: call.first_fragment_s for name, call in latency.items()},
    }
    for name, expected in figures.items():
        points = {
            point["attributes"]["gen_ai.tool.name"]: point
            for point in collected.points(f"eagerstream.tool_input.{name}")
        }
        assert set(points) == {"now", "_other"}
        assert points["now"]["sum"] == pytest.approx(expected["now"])
        assert points["_other"]["sum"] == pytest.approx(expected["nope"])
    (lead,) = collected.points(f"eagerstream.tool.{kind}_time")
    assert lead["attributes"] == {"gen_ai.tool.name": "now"}
    assert lead["sum"] == pytest.approx(abs(lead_s))


@pytest.mark.anyio
async def test_lead_time(collected: Collected) -> None:
    """A tool that begins while the reply goes on has won that time, by the clock of the run."""
    gate = Gate()
    time_s = 0.0

    @tool
    async def early() -> str:
        """Begin before the end of the reply, which ends 4 s later."""
        nonlocal time_s
        time_s += 4
        gate.opened.set()
        return "done"

    api = LocalAPI([message_start(), *whole_call(0, "early"), gate, *END], [DONE])
    with collected.tracing():
        await finished(api.transport(), early, clock=lambda: time_s)
    (lead,) = collected.points("eagerstream.tool.lead_time")
    assert (lead["count"], lead["sum"]) == (1, 4.0)
    assert collected.points("eagerstream.tool.lag_time") == []


@pytest.mark.anyio
async def test_lag_time(collected: Collected) -> None:
    """A tool that starts after the response has lost that time. It is not counted as a lead of 0."""
    time_s = 0.0

    async def approve(_: ToolCall) -> bool:
        nonlocal time_s
        await all_tasks_blocked()  # the response has ended
        time_s += 3
        return True

    @tool(approve=approve)
    async def late() -> str:
        """Wait for approval."""
        return "done"

    api = LocalAPI([message_start(), *whole_call(0, "late"), *END], [DONE])
    with collected.tracing():
        run = await finished(api.transport(), late, clock=lambda: time_s)
    assert [call.lead_s for call in run.latency.calls] == [-3.0]
    (lag,) = collected.points("eagerstream.tool.lag_time")
    assert (lag["count"], lag["sum"]) == (1, 3.0)
    assert collected.points("eagerstream.tool.lead_time") == []


@pytest.mark.anyio
async def test_the_newer_names(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for by the variable, read once; other values in it are other conventions'."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http/dup, gen_ai_latest_experimental")
    calls = reply(tool_use("now", {}), tool_use("fail", {}), usage={"cache_creation_input_tokens": 3})
    with collected.tracing():
        monkeypatch.delenv("OTEL_SEMCONV_STABILITY_OPT_IN")
        async with collected.serving(calls, DONE) as (client, _):
            await finished(client, now, fail, output_config={"effort": "low"})
    said = attributes(collected.spans(CHAT)[0])
    assert said["gen_ai.usage.cache_write.input_tokens"] == 3
    assert "gen_ai.usage.cache_creation.input_tokens" not in said
    assert said["gen_ai.request.reasoning.level"] == "low"
    assert said["gen_ai.provider.name"] == "anthropic"
    (agent,) = collected.points("gen_ai.invoke_agent.duration")
    assert agent["count"] == 1
    tools = {
        point["attributes"]["gen_ai.tool.name"]: point for point in collected.points("gen_ai.execute_tool.duration")
    }
    assert tools["now"]["count"] == tools["fail"]["count"] == 1
    assert "error.type" not in tools["now"]["attributes"]
    assert tools["fail"]["attributes"]["error.type"] == "ZeroDivisionError"


@pytest.mark.anyio
async def test_a_single_stream(collected: Collected) -> None:
    """It has no agent: its request is in what the program has begun. One that is left early is no error."""
    with collected.tracing():
        async with collected.serving(reply(tool_use("now", {"a": 1}))) as (client, _):
            with collected.tracer.start_as_current_span("program"):
                async with eagerstream.stream(client, **REQUEST, tools=[now]) as stream:
                    await stream.finish()
                async with eagerstream.stream(client, **REQUEST) as stream:
                    async for _ in stream:
                        break
    assert collected.spans(AGENT) == []
    whole, left = collected.spans(CHAT)
    assert parents(whole, collected.spans()) == parents(left, collected.spans()) == ["program"]
    assert failed(whole) is failed(left) is None
    names = {point["attributes"]["gen_ai.tool.name"] for point in collected.points("eagerstream.tool_input.size")}
    assert "now" in names
    assert collected.points("eagerstream.tool.lead_time") == []


@pytest.mark.anyio
async def test_a_second_message_in_a_body(collected: Collected) -> None:
    """The request is over with the first one; what comes behind it changes nothing."""
    second = [message_start(id="msg_second", model="another"), *END]
    first = [message_start(id="msg_first", model=5), *whole_call(0, "now"), *END]
    with collected.tracing():
        async with eagerstream.stream(LocalAPI([*first, *second]).transport(), **REQUEST) as stream:
            try:
                await stream.finish()
            except eagerstream.ProtocolError:
                pass
    said = attributes(collected.span(CHAT))
    assert said["gen_ai.response.id"] == "msg_first"
    assert "gen_ai.response.model" not in said
    (duration,) = collected.points("gen_ai.client.operation.duration")
    assert duration["count"] == 1


@pytest.mark.slow
@pytest.mark.anyio
async def test_runs_do_not_mix(collected: Collected) -> None:
    """Two at once, and one inside a tool of another: each in its own place."""
    both = 0
    at_once = anyio.Event()

    @tool
    async def outer(name: str) -> str:
        """Run another, once both are here."""
        nonlocal both
        both += 1
        if both == 2:
            at_once.set()
        await at_once.wait()
        inner = await finished(client, now, model=f"inner-{name}")
        return inner.result.status.value

    def answer(request: Any) -> Any:
        if request["model"].startswith("inner"):
            return reply(tool_use("now", {}))
        return reply(tool_use("outer", {"name": request["model"][-1]}))

    with collected.tracing(), anyio.fail_after(SLOWLY_S):
        async with (
            ReplayServer(Scenario(answer, DONE), speed=float("inf")) as server,
            collected.client(server.base_url) as client,
            anyio.create_task_group() as tasks,
        ):
            for name in ("a", "b"):
                tasks.start_soon(partial(finished, client, outer, model=f"outer-{name}"))
    spans = collected.spans()
    agents = {attributes(span)["gen_ai.request.model"]: span for span in collected.spans(AGENT)}
    assert set(agents) == {"outer-a", "outer-b", "inner-a", "inner-b"}
    for name in ("a", "b"):
        mine = [span for span in spans if trace_of(span) == trace_of(agents[f"outer-{name}"])]
        models = {attributes(span).get("gen_ai.request.model") for span in mine} - {None}
        assert models == {f"outer-{name}", f"inner-{name}"}
        assert parents(agents[f"inner-{name}"], spans) == ["execute_tool outer", AGENT]
    assert trace_of(agents["outer-a"]) != trace_of(agents["outer-b"])


class Elsewhere:
    """An executor whose calls are begun by a task that serves many runs, and that belongs to none."""

    def __init__(self, current: Callable[[], object]) -> None:
        self.send, self._receive = anyio.create_memory_object_stream[ToolCall](10)
        self.seen: list[object] = []
        self._current = current

    def admit(self, call: ToolCall) -> None:
        pass

    async def execute(self, call: ToolCall) -> None:
        await self.send.send(call)
        await call.answered.wait()

    async def serve(self) -> None:
        async with self._receive:
            async for call in self._receive:
                call.start()
                self.seen.append(self._current())
                call.answer("done")


@pytest.mark.anyio
async def test_tasks_of_others_are_left_alone(collected: Collected) -> None:
    """A tool that is begun by a task outside of the run gets its span; the task keeps its own context."""
    elsewhere = Elsewhere(trace.get_current_span)
    with collected.tracing(), anyio.fail_after(SLOWLY_S):
        async with (
            anyio.create_task_group() as tasks,
            collected.serving(reply(tool_use("now", {})), DONE) as (client, _),
        ):
            tasks.start_soon(elsewhere.serve)
            await finished(client, now, executor=elsewhere)
            elsewhere.send.close()
    assert elsewhere.seen == [trace.INVALID_SPAN]
    assert parents(collected.span("execute_tool now"), collected.spans()) == [AGENT]


class Remote:
    """An executor that hands the trace on, as one does that asks another machine."""

    def __init__(self) -> None:
        self.traces: dict[str, list[str]] = {}

    def admit(self, call: ToolCall) -> None:
        pass

    async def execute(self, call: ToolCall) -> None:
        call.start()
        await all_tasks_blocked()
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        self.traces[call.id] = carrier["traceparent"].split("-")[1:3]
        call.answer("done")


@pytest.mark.anyio
async def test_remote_work(collected: Collected) -> None:
    """Two calls at once: the work that each asks for is in its own span."""
    remote = Remote()
    calls = reply(tool_use("now", {}, id="a"), tool_use("now", {}, id="b"))
    with collected.tracing():
        async with collected.serving(calls, DONE) as (client, _):
            await finished(client, now, executor=remote)
    spans = {attributes(span)["gen_ai.tool.call.id"]: span for span in collected.spans("execute_tool now")}
    assert spans.keys() == {"a", "b"}
    trace_id = f"{trace_of(collected.span(AGENT)):032x}"
    assert remote.traces == {id: [trace_id, f"{id_of(span):016x}"] for id, span in spans.items()}


@pytest.mark.anyio
async def test_a_run_of_a_tool(collected: Collected) -> None:
    """Its spans nest in the span of the call, also from a task of the tool and from a loop in a thread."""

    async def ask() -> None:
        async with eagerstream.run(LocalAPI(DONE).transport(), **REQUEST) as run:
            await run.finish()

    @tool
    async def in_a_task() -> None:
        """Ask in a task."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)

    @tool
    def in_a_thread() -> None:
        """Ask in a thread."""
        anyio.run(ask)

    calls = reply(tool_use("in_a_task", {}), tool_use("in_a_thread", {}))
    with collected.tracing():
        run = await finished(LocalAPI(calls, DONE).transport(), in_a_task, in_a_thread)
    spans = collected.spans()
    assert len({trace_of(span) for span in spans}) == 1
    (parent,) = [span for span in collected.spans(AGENT) if not parents(span, spans)]
    children = [span for span in collected.spans(AGENT) if span is not parent]
    assert sorted(parents(span, spans)[0] for span in children) == [
        "execute_tool in_a_task",
        "execute_tool in_a_thread",
    ]
    assert {tuple(parents(span, spans)[1:]) for span in children} == {(AGENT,)}
    tokens = [attributes(span)["gen_ai.usage.output_tokens"] for span in (parent, *children)]
    assert tokens[0] == run.result.usage["output_tokens"]
    assert tokens[0] > tokens[1] + tokens[2]


@pytest.mark.anyio
@pytest.mark.parametrize("within", [False, True])
async def test_a_resumed_run(collected: Collected, within: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process continues the trace of the first one. If it has a trace of its own, its span links to it."""
    monkeypatch.setattr("eagerstream.loop._durability._LOOK_S", 0.01)

    @tool(approve=ask_elsewhere)
    async def launch() -> str:
        """Launch."""
        return "launched"

    journal = MemoryJournal()
    with collected.tracing():
        async with client_of(Scenario(reply(tool_use("launch", {})), DONE)) as client:
            async with eagerstream.run(client, **REQUEST, tools=[launch], journal=journal, run_id="r") as run:
                await run.finish()
            [asked] = journal.statuses["r"][1]["approvals"]
            journal.left["r"] = [{"kind": "decision", "call": asked["call"], "decision": True}]
            own = collected.tracer.start_as_current_span("own") if within else nullcontext()
            with own:
                async with resume(client, journal, "r", tools=[launch]) as run:
                    await run.finish()
    spans = collected.spans(AGENT)
    if within:
        [link] = spans[1].links
        assert (link.context.trace_id, link.context.span_id) == (trace_of(spans[0]), id_of(spans[0]))
        assert trace_of(spans[1]) == trace_of(*collected.spans("own"))
    else:
        assert parents(spans[1], collected.spans()) == [AGENT]
        assert not spans[1].links
    assert len({trace_of(span) for span in collected.spans()}) == 1 + within
    first, second = map(attributes, spans)
    assert {each["eagerstream.run.id"] for each in (first, second)} == {"r"}
    assert (first["eagerstream.run.status"], second["eagerstream.run.status"]) == ("waiting", "completed")
    assert "eagerstream.run.resumed_after" not in first
    assert second["eagerstream.run.resumed_after"] == 0
