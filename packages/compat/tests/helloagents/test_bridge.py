"""A registry's tools in `eagerstream.run`, through the real client: what the model reads, and what counts."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from packages.compat.tests.helloagents.tools import Async, MyTool, Plain, a_registry, failing
from tests.streams import REQUEST
from tests.support import all_tasks_blocked, anthropic_client

import eagerstream
from eagerstream import Outcome, RunStatus, ToolStart, UsageError, validate_history
from eagerstream.loop import Run, RunResult
from eagerstream.recordings import Recording
from eagerstream_compat.helloagents import (
    CircuitBreaker,
    EditTool,
    ReadTool,
    ToolErrorCode,
    ToolParameter,
    ToolRegistry,
    ToolResponse,
)
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from eagerstream_wire import InputDelta

pytestmark = pytest.mark.anyio

DONE = reply(text("Done."), message_id="msg_done")
_NUMBERS = itertools.count()
INPUT = ToolParameter("input", "string", "What to do.")


def calls(*inputs: tuple[str, Any]) -> Recording:
    """A reply with these calls, in order; the same calls again are other ones."""
    return reply(*(tool_use(name, given) for name, given in inputs), message_id=f"msg_{next(_NUMBERS)}")


@asynccontextmanager
async def running(tools: Sequence[eagerstream.Tool], *turns: Recording, **options: Any) -> AsyncIterator[Run]:
    """A run over loopback, its history one that can be sent."""
    async with ReplayServer(Scenario(*turns, DONE), speed=float("inf")) as server:
        async with anthropic_client(server.base_url) as client:
            with anyio.fail_after(20):
                async with eagerstream.run(client, **{**REQUEST, "tools": tools, **options}) as run:
                    yield run
    assert validate_history(run.result.messages) == []


async def conversation(tools: Sequence[eagerstream.Tool], *turns: Recording, **options: Any) -> RunResult:
    """What came of a run."""
    async with running(tools, *turns, **options) as run:
        await run.finish()
    return run.result


def results(result: RunResult) -> list[Mapping[str, Any]]:
    """What the model was answered, call by call."""
    contents = [message["content"] for message in result.messages[1:] if message["role"] == "user"]
    return [block for content in contents for block in content]


async def test_what_the_model_reads() -> None:
    """A success is its text, a partial one says so, an error has its code; the response itself is the run's to see."""
    answers = {
        "all": ToolResponse.success("处理完成", {"n": 1}),
        "some": ToolResponse.partial("前 100 条", reason="结果过多,已截断"),
        "none": ToolResponse.error(ToolErrorCode.NOT_FOUND, "文件不存在"),
    }
    registry = a_registry(Plain(lambda given: answers[given["input"]], INPUT))
    result = await conversation(registry.to_tools(), calls(*(("plain", {"input": kind}) for kind in answers)))
    assert [(block["content"], block.get("is_error", False)) for block in results(result)] == [
        ("处理完成", False),
        ("[PARTIAL] 结果过多,已截断\n前 100 条", False),
        ("[NOT_FOUND] 文件不存在", True),
    ]
    for call, answer in zip(result.calls, answers.values(), strict=True):
        assert call.response is not None
        assert (call.response.status, call.response.data) == (answer.status, answer.data)
        assert call.response.context == {"params_input": call.input.value, "tool_name": "plain"}
        assert {"time_ms", "wall_ms"} == set(call.response.stats or {})


async def test_inputs_stream_eagerly_and_are_checked() -> None:
    """An input is seen while it is written; one that does not fit never reaches the tool, and does not count."""
    tool = Plain(lambda given: ToolResponse.success(given["input"]), INPUT)
    registry = a_registry(tool, circuit_breaker=CircuitBreaker(1))
    (made,) = registry.to_tools()
    assert made.to_dict() == {**tool.to_anthropic(), "eager_input_streaming": True}
    turn = calls(
        ("plain", {"input": "a long text, in several pieces"}),
        ("plain", {"input": 5}),
        ("plain", {"other": ""}),
        ("plain", '{"input": not JSON}'),
    )
    async with running([made], turn) as run:
        events = [event async for event in run]
    assert any(isinstance(event, InputDelta) for event in events)
    good, wrong, missing, broken = results(run.result)
    assert good["content"] == "a long text, in several pieces"
    assert "Invalid parameter 'input'" in wrong["content"]
    assert "Missing required 'input' parameter" in missing["content"]
    assert json.loads(broken["content"].splitlines()[0]) == {"INVALID_JSON": '{"input": not JSON}'}
    assert run.result.calls[3].input.outcome is not Outcome.VALID
    assert tool.called == 1
    assert registry.circuit_breaker.statuses() == {"plain": {"state": "closed", "failure_count": 0}}


async def test_all_kinds_of_tools() -> None:
    """Old ones, asynchronous ones, functions: each by its own definition."""

    def double(x: int) -> str:
        return f"结果: {x * 2}"

    registry = a_registry(
        MyTool(), Plain(lambda _: "a text", name="old"), Async(lambda _: ToolResponse.success("awaited"), name="async")
    )
    registry.register_function(double)
    with pytest.warns(DeprecationWarning, match="returning str"):
        result = await conversation(
            registry.to_tools(), calls(("MyTool", {"input": "x"}), ("old", {}), ("async", {}), ("double", {"x": 2}))
        )
    assert [block["content"] for block in results(result)] == ["处理完成: X", "a text", "awaited", "结果: 4"]


async def test_plain_tools_run_at_the_same_time() -> None:
    """They run in threads, each beside the others: here each waits for the other one."""
    gates = {"a": anyio.Event(), "b": anyio.Event()}

    def meet(given: dict[str, Any]) -> ToolResponse:
        mine, other = given["input"], {"a": "b", "b": "a"}[given["input"]]
        anyio.from_thread.run_sync(gates[mine].set)
        anyio.from_thread.run(gates[other].wait)
        return ToolResponse.success("met")

    tools = a_registry(Plain(meet, INPUT)).to_tools()
    result = await conversation(tools, calls(("plain", {"input": "a"}), ("plain", {"input": "b"})))
    assert [block["content"] for block in results(result)] == ["met", "met"]


@pytest.mark.parametrize(
    ("options", "at_once"), [({}, 3), ({"max_concurrent_tools": 2}, 2), ({"max_concurrent_tools": None}, 5)]
)
async def test_calls_at_once(options: dict[str, Any], at_once: int) -> None:
    """HelloAgents runs three calls at once unless a program says otherwise."""
    running, peak = set[int](), 0

    async def work(n: int) -> str:
        nonlocal peak
        running.add(n)
        peak = max(peak, len(running))
        await all_tasks_blocked()
        running.discard(n)
        return str(n)

    registry = ToolRegistry()
    registry.register_function(work)
    result = await conversation(registry.to_tools(**options), calls(*(("work", {"n": n}) for n in range(5))))
    assert [block["content"] for block in results(result)] == ["0", "1", "2", "3", "4"]
    assert peak == at_once


async def test_a_run_inside_a_call() -> None:
    """Its calls take no place: here the outer calls hold the only one."""
    registry = ToolRegistry()

    async def ask(depth: int) -> str:
        if not depth:
            return "deep"
        return str(results(await conversation(tools, calls(("ask", {"depth": depth - 1}))))[0]["content"])

    registry.register_function(ask)
    tools = registry.to_tools(max_concurrent_tools=1)
    result = await conversation(tools, calls(("ask", {"depth": 2}), ("ask", {"depth": 1})))
    assert [block["content"] for block in results(result)] == ["deep", "deep"]


@pytest.mark.parametrize("count", [0, -1, True, 1.5])
async def test_numbers_of_places_that_cannot_be(count: Any) -> None:
    """They are refused before a call waits for a place that never comes."""
    with pytest.raises(UsageError, match="max_concurrent_tools"):
        ToolRegistry().to_tools(max_concurrent_tools=count)


async def test_the_breaker_of_the_registry() -> None:
    """It counts what the loop calls; the model reads that the tool is out of order."""
    tool = Plain(failing(RuntimeError("boom")))
    registry = a_registry(tool, circuit_breaker=CircuitBreaker(2))
    turns = [calls(("plain", {})) for _ in range(3)]
    result = await conversation(registry.to_tools(), *turns)
    told = [block["content"] for block in results(result)]
    assert told[:2] == ["[INTERNAL_ERROR] 工具执行时发生未处理的异常: boom"] * 2
    assert told[2].startswith("[CIRCUIT_OPEN] 工具 'plain' 当前被禁用，由于连续失败。")
    assert tool.called == 2


@pytest.mark.slow
async def test_a_breaker_that_is_shared() -> None:
    """Given to the run as well, it counts each call once; and the time-outs, which only the run knows of."""
    breaker = CircuitBreaker(3)
    failing_one = Plain(failing(RuntimeError("boom")))
    registry = a_registry(failing_one, circuit_breaker=breaker)
    registry.register_function(anyio.sleep_forever, name="sleep")
    tools = [registry.to_tools()[0], registry.to_tools(timeout_s=0.01)[1]]
    assert [tool.name for tool in tools] == ["plain", "sleep"]
    turns = [calls((name, {})) for name in ("plain", "plain", "sleep")]
    result = await conversation(tools, *turns, circuit_breaker=breaker)
    assert breaker.get_all_status() == {
        "plain": {"state": "closed", "failure_count": 2},
        "sleep": {"state": "closed", "failure_count": 1},
    }
    assert "TimeoutError" in results(result)[2]["content"]
    turns = [calls(("plain", {})) for _ in range(3)]
    result = await conversation(tools, *turns, circuit_breaker=breaker)
    assert [block["content"][:14] for block in results(result)] == ["[INTERNAL_ERRO"] + ["[CIRCUIT_OPEN]"] * 2
    assert failing_one.called == 3
    assert breaker.get_status("plain")["failure_count"] == 3


async def test_another_breaker_counts_for_itself() -> None:
    """What the registry's own has counted is no matter of another one."""
    registry, other = a_registry(Plain(failing(RuntimeError("boom")))), CircuitBreaker()
    await conversation(registry.to_tools(), calls(("plain", {})), circuit_breaker=other)
    assert other.get_status("plain")["failure_count"] == 1
    assert registry.circuit_breaker.status("plain")["failure_count"] == 1


async def test_options_of_the_loop() -> None:
    """They are those of any tool."""
    registry = a_registry(MyTool())
    (made,) = registry.to_tools(timeout_s=30, approve=lambda call: "not today", eager=False)
    assert made.to_dict()["eager_input_streaming"] is False
    assert made.timeout_s == 30
    result = await conversation([made], calls(("MyTool", {"input": "x"})))
    assert results(result)[0]["content"] == "not today"


async def test_calls_of_a_group(tmp_path: Path) -> None:
    """They run one at a time in call order: an edit sees the edits in front of it, and none is a conflict."""
    (tmp_path / "numbers.txt").write_text("0")
    registry = a_registry(*(kind(tmp_path) for kind in (ReadTool, EditTool)))
    registry.execute_tool("Read", {"path": "numbers.txt"})
    edits = [{"path": "numbers.txt", "old_string": str(n), "new_string": str(n + 1)} for n in range(5)]
    result = await conversation(registry.to_tools(), calls(*(("Edit", edit) for edit in edits)))
    assert [block.get("is_error") for block in results(result)] == [None] * 5
    assert (tmp_path / "numbers.txt").read_text() == "5"


async def test_names_that_the_api_does_not_take() -> None:
    """They are told where the tools are made."""
    with pytest.raises(UsageError, match="计算"):
        a_registry(Plain(lambda _: None, name="计算")).to_tools()


async def test_cancelling_the_run() -> None:
    """An asynchronous tool is cancelled with it; the history is closed, and nothing counts."""
    started = anyio.Event()

    async def wait() -> None:
        started.set()
        await anyio.sleep_forever()

    registry = ToolRegistry()
    registry.register_function(wait)
    async with running(registry.to_tools(), calls(("wait", {}))) as run:
        async for event in run:
            if isinstance(event, ToolStart):
                await started.wait()
                break
    assert run.result.status is RunStatus.CANCELLED
    assert registry.circuit_breaker.statuses() == {}
