"""Runs in a trace: with the anthropic package's own client, over a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.compat.tests.helloagents.tools import records
from tests.streams import REQUEST
from tests.support import anthropic_client

import eagerstream
from eagerstream import InputInterrupted, ItemStream, Limits, PartialJSON, ToolResponse, tool
from eagerstream.errors import EagerStreamError
from eagerstream.inputs import GrowingInput
from eagerstream.loop import Run
from eagerstream.tools import ToolCall
from eagerstream_compat.helloagents import TraceLogger
from eagerstream_compat.helloagents._trace_runs import response_of_call
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario, Timing, reply, text, tool_use

DONE = reply(text("Done."), message_id="msg_done")


@tool
async def find(name: str, key: str = "") -> ToolResponse:
    """Find something."""
    if name == "nothing":
        return ToolResponse.error("NOT_FOUND", "nothing there", stats={"api_calls": 2})
    if name == "some":
        return ToolResponse.partial("a part", {"n": 1}, reason="too many")
    return ToolResponse.success(f"found {name}", {"n": 2})


def lost() -> Faults:
    """The connection is lost in the first reply, once."""
    return Faults({0: [Fault(FaultKind.END, after_events=4)]})


@asynccontextmanager
async def watched(
    logger: TraceLogger, scenario: Scenario, *, faults: Faults | None = None, cost: Any = None, **options: Any
) -> AsyncIterator[Run]:
    """A run with these replies, within a time, which the logger watches."""
    with ReplayServer(scenario, faults=faults) as server:
        async with anthropic_client(server.base_url) as client:
            with anyio.fail_after(20):
                run = eagerstream.run(client, **{**REQUEST, "tools": [find], **options})
                async with logger.watch(run, agent_name="finder", cost=cost):
                    yield run


async def traced(folder: Path, scenario: Scenario, *, raises: bool = False, **options: Any) -> list[dict[str, Any]]:
    """The records of a run to its end."""
    with TraceLogger(folder) as logger:
        async with watched(logger, scenario, **options) as run:
            with pytest.raises(EagerStreamError) if raises else nullcontext():
                await run.finish()
    return records(logger)


def payloads(records: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [record["payload"] for record in records if record["event"] == event]


@pytest.mark.anyio
async def test_a_run(tmp_path: Path) -> None:
    """Every event has its keys; every call is there once, with what its tool answered, by status, code and stats."""
    calls = [
        tool_use("find", {"name": name, "key": "sk-ant-api03-AbC_dEf-123" * 8}, id=name, fragment_chars=5)
        for name in ("it", "some", "nothing")
    ]
    scenario = Scenario(reply(text("Let me look."), *calls), DONE)
    found = await traced(tmp_path, scenario, cost=lambda usage: usage["output_tokens"] * 0.5)
    events = [record["event"] for record in found]
    assert events[:2] == ["session_start", "message_written"]
    assert events[-1] == "session_end"
    assert [record["ts"] for record in found] == sorted(record["ts"] for record in found)
    started, written = found[0]["payload"], found[1]["payload"]
    assert started == {"agent_name": "finder", "agent_type": "eagerstream.run", "config": {"model": REQUEST["model"]}}
    assert written == {"role": "user", "content": REQUEST["messages"][0]["content"]}

    first, second = payloads(found, "model_output")
    assert (first["content"], first["tool_calls"], first["stop_reason"]) == ("Let me look.", 3, "tool_use")
    assert (second["content"], second["tool_calls"], second["stop_reason"]) == ("Done.", 0, "end_turn")
    usage = first["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["cost"] == usage["output_tokens"] * 0.5

    assert [call["tool_call_id"] for call in payloads(found, "tool_input_start")] == ["it", "some", "nothing"]
    assert {call["tool_call_id"]: call["args"]["name"] for call in payloads(found, "tool_call")} == {
        "it": "it",
        "some": "some",
        "nothing": "nothing",
    }
    results = {result["tool_call_id"]: result for result in payloads(found, "tool_result")}
    assert len(payloads(found, "tool_call")) == len(payloads(found, "tool_result")) == len(results) == 3
    assert {id: (result["status"], result["result"]) for id, result in results.items()} == {
        "it": ("success", "found it"),
        "some": ("partial", "a part"),
        "nothing": ("error", "nothing there"),
    }
    assert results["nothing"]["error"]["code"] == "NOT_FOUND"
    assert results["nothing"]["stats"]["api_calls"] == 2
    assert ToolResponse.from_dict(results["some"]).reason == "too many"
    assert found[-1]["payload"]["duration"] > 0
    del found[-1]["payload"]["duration"]
    assert found[-1]["payload"] == {"total_steps": 2, "final_answer": "Done.", "status": "success"}
    steps = {record["event"]: record["step"] for record in found}
    assert steps["tool_call"] == steps["tool_result"] == 1
    assert steps["model_output"] == 2
    assert "AbC_dEf" not in json.dumps(found)


@pytest.mark.slow
@pytest.mark.anyio
async def test_long_inputs_are_sampled(tmp_path: Path) -> None:
    """Ten thousand fragments make a dozen found, whose sizes double; the last record has all, and the outcome."""
    long = tool_use("find", {"name": "x" * 100_000}, fragment_chars=10)
    found = await traced(tmp_path, Scenario(reply(long), DONE))
    chars = [delta["chars"] for delta in payloads(found, "tool_input_delta")]
    (stop,) = payloads(found, "tool_input_stop")
    assert 5 < len(chars) < 20
    assert all(2 * one <= other for one, other in pairwise(chars))
    assert (stop["chars"], stop["outcome"]) == (100_012, "valid")


@pytest.mark.slow
@pytest.mark.anyio
async def test_long_results_are_cut(tmp_path: Path) -> None:
    """What they say of themselves is there all the same: status, code and statistics."""

    @tool
    async def dump(name: str) -> ToolResponse:
        """Fail at length."""
        said = {str(number): "y" * 10**5 for number in range(10)}
        return ToolResponse.error("API_ERROR", "x" * 10**6, stats={"api_calls": 2}, data=said)

    found = await traced(tmp_path, Scenario(reply(tool_use("dump", {"name": "it"})), DONE), tools=[dump])
    (result,) = payloads(found, "tool_result")
    assert (result["status"], result["error"]["code"], result["stats"]["api_calls"]) == ("error", "API_ERROR", 2)
    assert "(934,464 characters left out)" in result["result"]
    assert len(json.dumps(result)) < 1_000_000


@pytest.mark.anyio
async def test_inputs_that_are_not_usable(tmp_path: Path) -> None:
    """One that is no JSON, one that is cut off, one of an unknown tool: each call has its result, and tells why."""
    bad, unknown = tool_use("find", '{"name": tru}', id="bad"), tool_use("made_up", {"a": 1}, id="unknown")
    cut = tool_use("find", '{"name": "x', id="cut", closed=False)
    scenario = Scenario(reply(bad, unknown), reply(cut, stop_reason="max_tokens"))
    found = await traced(tmp_path, scenario)
    outcomes = {stop["tool_call_id"]: stop["outcome"] for stop in payloads(found, "tool_input_stop")}
    assert outcomes == {"bad": "invalid", "unknown": "valid", "cut": "incomplete"}
    args = {call["tool_call_id"]: call["args"] for call in payloads(found, "tool_call")}
    assert args["bad"] == {"INVALID_JSON": '{"name": tru}'}
    results = {result["tool_call_id"]: result for result in payloads(found, "tool_result")}
    assert results.keys() == args.keys() >= {"bad", "unknown"}
    assert {result["status"] for result in results.values()} == {"error"}
    assert found[-1]["payload"]["status"] == "truncated"


@pytest.mark.anyio
async def test_turns_that_do_not_suffice(tmp_path: Path) -> None:
    """HelloAgents calls it a time-out."""
    found = await traced(tmp_path, Scenario(reply(tool_use("find", {"name": "it"}))), max_turns=1)
    assert (found[-1]["payload"]["status"], found[-1]["payload"]["total_steps"]) == ("timeout", 1)


@pytest.mark.anyio
async def test_a_reply_that_breaks_off(tmp_path: Path) -> None:
    """The error is there, that the turn begins anew, and one model output for each reply that came."""
    scenario = Scenario(reply(text("Well, " * 50)))
    found = await traced(tmp_path, scenario, faults=lost(), restart_delay_s=0)
    (error,) = payloads(found, "error")
    assert error["error_type"] == "StreamInterrupted"
    assert [told["reason"] for told in payloads(found, "restarted")] == ["interrupted"]
    assert [output["content"] for output in payloads(found, "model_output")] == ["Well, " * 50]
    assert found[-1]["payload"]["status"] == "success"


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_reply_that_breaks_off_behind_a_call(tmp_path: Path) -> None:
    """The run goes on with what was whole: the error is there, the call and its result, and what came of the reply."""
    first = reply(tool_use("find", {"name": "it"}, id="whole"), text("Well, " * 50))
    faults = Faults({0: [Fault(FaultKind.END, after_events=8)]})
    found = await traced(tmp_path, Scenario(first, DONE), faults=faults)
    assert [error["error_type"] for error in payloads(found, "error")] == ["StreamInterrupted"]
    assert payloads(found, "restarted") == []
    assert [output["tool_calls"] for output in payloads(found, "model_output")] == [1, 0]
    assert [result["result"] for result in payloads(found, "tool_result")] == ["found it"]


@pytest.mark.anyio
async def test_a_reply_that_begins_anew(tmp_path: Path) -> None:
    """In its middle, as gateways do: what came before is void."""
    faults = Faults({0: [Fault(FaultKind.SPLICE, after_events=4)]})
    found = await traced(tmp_path, Scenario(reply(text("Well, " * 50))), faults=faults)
    assert [told["reason"] for told in payloads(found, "restarted")] == ["message"]
    assert [output["content"] for output in payloads(found, "model_output")] == ["Well, " * 50]


@pytest.mark.anyio
@pytest.mark.parametrize("whole", [True, False])
async def test_a_tool_that_reads_its_input_while_it_is_written(tmp_path: Path, whole: bool) -> None:
    """It begins before its input is whole; its call is told of once, with all of its input, before its result."""

    @tool
    async def save(name: str, lines: ItemStream[str]) -> str:
        """Save lines."""
        try:
            return f"{len([line async for line in lines])} lines"
        except InputInterrupted:
            return "not all"

    raw = json.dumps({"name": "poem", "lines": ["a line"] * 20})
    call = tool_use("save", raw if whole else raw[:-20], id="s", closed=whole, fragment_chars=10)
    replies = [reply(call), DONE] if whole else [reply(call, stop_reason="max_tokens")]
    scenario = Scenario(*replies, timing=Timing(tokens_per_second=2000))  # so that the tool usually begins early
    found = await traced(tmp_path, scenario, tools=[save])
    events = [record["event"] for record in found]
    assert events.count("tool_call") == events.count("tool_result") == 1
    assert events.index("tool_input_stop") < events.index("tool_call") < events.index("tool_result")
    (called,), (result,) = payloads(found, "tool_call"), payloads(found, "tool_result")
    assert called["args"] == (json.loads(raw) if whole else {"INVALID_JSON": raw[:-20]})
    assert result["is_error"] is not whole  # what the model was told, whatever the tool said
    assert (result["status"], result["result"]) == ("success", "20 lines") or not whole


def test_a_call_without_a_response() -> None:
    """Of a saved run, say: what the model was told stands for it."""
    block = {"type": "tool_use", "id": "t", "name": "find"}
    call = ToolCall(GrowingInput(0, block, parser=PartialJSON, limits=Limits()), 1)
    assert response_of_call(call) == ToolResponse.success("")
    call.result = {
        "type": "tool_result",
        "content": [{"type": "text", "text": "no"}, {"type": "image"}],
        "is_error": True,
    }
    assert response_of_call(call) == ToolResponse.error("UNKNOWN", "no")


@pytest.mark.anyio
async def test_a_run_without_a_turn(tmp_path: Path) -> None:
    """It was left at once: it has no steps."""
    with TraceLogger(tmp_path) as logger:
        async with anthropic_client("http://localhost:9") as client:
            with pytest.warns(RuntimeWarning, match="left before its end"):
                async with logger.watch(eagerstream.run(client, **REQUEST)):
                    pass
    last = records(logger)[-1]
    assert (last["payload"]["total_steps"], last["payload"]["status"]) == (0, "cancelled")


@pytest.mark.anyio
async def test_a_run_that_fails(tmp_path: Path) -> None:
    """The error and the end are in the trace, and the run raises what it would."""
    scenario = Scenario(reply(text("Well, " * 50)))
    found = await traced(tmp_path, scenario, faults=lost(), raises=True, on_interrupt="raise")
    assert [error["error_type"] for error in payloads(found, "error")] == ["StreamInterrupted"]
    assert (found[-1]["event"], found[-1]["payload"]["status"]) == ("session_end", "error")


@pytest.mark.anyio
async def test_two_runs_in_a_session(tmp_path: Path) -> None:
    """One after the other, in one file."""
    with TraceLogger(tmp_path) as logger:
        for _ in range(2):
            async with watched(logger, Scenario(DONE)) as run:
                await run.finish()
    assert len(payloads(records(logger), "session_end")) == 2


@pytest.mark.anyio
async def test_a_disk_that_does_not_answer(tmp_path: Path) -> None:
    """The run goes on to its end meanwhile; the trace is whole once the disk answers."""
    answers = threading.Event()
    logger = TraceLogger(tmp_path)
    logger._writer.submit(answers.wait, 30)
    scenario = Scenario(reply(tool_use("find", {"name": "it"})), DONE)
    try:
        async with watched(logger, scenario) as run:
            await run.finish()
        assert logger.jsonl_path.read_text() == ""
    finally:
        answers.set()
    assert run.result.status.value == "completed"
    logger.finalize()
    assert records(logger)[-1]["event"] == "session_end"


@pytest.mark.anyio
async def test_a_price_that_is_not_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A function of the caller's own that fails costs the trace nothing but the price."""

    def cost(_usage: Any) -> float:
        raise KeyError("private")

    (output,) = payloads(await traced(tmp_path, Scenario(DONE), cost=cost), "model_output")
    assert output["usage"]["cost"] == 0.0
    assert "KeyError" in caplog.text
    assert "private" not in caplog.text


@pytest.mark.anyio
async def test_a_run_that_is_cancelled(tmp_path: Path) -> None:
    """By its own `cancel`: the call that ran has its result, and the end says how it came."""
    begun = anyio.Event()

    @tool
    async def wait(name: str) -> None:
        """Wait."""
        begun.set()
        await anyio.sleep_forever()

    with TraceLogger(tmp_path) as logger:
        async with watched(logger, Scenario(reply(tool_use("wait", {"name": "x"}))), tools=[wait]) as run:
            await begun.wait()
            run.cancel()
            await run.finish()
    found = records(logger)
    assert len(payloads(found, "tool_call")) == len(payloads(found, "tool_result")) == 1
    assert (found[-1]["event"], found[-1]["payload"]["status"]) == ("session_end", "cancelled")
