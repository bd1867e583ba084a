"""The Claude Agent SDK: its own query and MCP bridge, told what Claude Code tells them, and Claude Code itself (slow)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    HookMatcher,
    ResultMessage,
    StreamEvent,
    Transport,
    query,
)
from tests.streams import MESSAGE_STOP, block_stop, input_delta, message_delta, message_start

import eagerstream
from eagerstream import InputInterrupted, InputStart, InputStop, ItemStream, Limits, Outcome, UsageError
from eagerstream.tools import ToolCall, image_bytes
from eagerstream_adapters.claude_agent_sdk import AgentInputs, EarlyTools
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario, Timing, reply, retime, text, tool_use

pytestmark = pytest.mark.anyio

WRITE = "mcp__eagerstream__write"
POEM = {"path": "poem.txt", "lines": ["one", "two", "three"]}


class Writer:
    """A streaming tool, and what became of it."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.runs = 0
        self.written: list[str] = []
        self.interrupted = 0

    @eagerstream.tool
    async def write(self, path: str, lines: ItemStream[str]) -> str:
        """Write lines."""
        self.runs += 1
        try:
            async for line in lines:
                self.written.append(line)
                self.begun.set()
        except InputInterrupted:
            self.interrupted += 1
            raise
        return f"wrote {len(self.written)} lines to {path}"


# --- as Claude Code speaks --------------------------------------------------------------------------------------------


class Spoken(Transport):
    """Says to the SDK what Claude Code would, and answers it; an event is waited for."""

    def __init__(self, *said: Any) -> None:
        self._said = said
        self._lines, self._receive = anyio.create_memory_object_stream[dict[str, Any]](1000)
        self._answered: dict[str, anyio.Event] = {}
        self.answers: dict[str, Any] = {}

    async def connect(self) -> None: ...

    async def write(self, data: str) -> None:
        message = json.loads(data)
        match message:
            case {"type": "control_request", "request_id": id}:
                done = {"subtype": "success", "request_id": id, "response": {}}
                self._lines.send_nowait({"type": "control_response", "response": done})
            case {"type": "control_response", "response": {"request_id": id} as answer}:
                self.answers[id] = answer
                self._answered.setdefault(id, anyio.Event()).set()
            case _:
                pass

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        yield await self._receive.receive()  # the SDK's handshake
        for said in self._said:
            if isinstance(said, anyio.Event):
                with anyio.fail_after(50):
                    await said.wait()
                continue
            yield dict(said)
            if said["type"] == "control_request":
                with anyio.fail_after(50):
                    await self._answered.setdefault(said["request_id"], anyio.Event()).wait()

    async def close(self) -> None:
        self._lines.close()
        self._receive.close()

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None: ...


def event(event: Mapping[str, Any], parent: str | None = None) -> dict[str, Any]:
    about = {"type": "stream_event", "uuid": "1", "session_id": "s"}
    return {**about, "event": dict(event), "parent_tool_use_id": parent}


def start(index: int, name: str, id: str) -> dict[str, Any]:
    block = {"type": "tool_use", "id": id, "name": name, "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": block}


def mcp(number: int, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params or {})}
    request = {"subtype": "mcp_message", "server_name": "eagerstream", "message": message}
    return {"type": "control_request", "request_id": f"r{number}", "request": request}


HELLO = mcp(
    0,
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "claude-code", "version": "2"}},
)
RESULT = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "session_id": "s"} | dict.fromkeys(
    ("duration_ms", "duration_api_ms"), 1
)


def called(number: int, arguments: Mapping[str, Any], id: str, name: str = "write") -> dict[str, Any]:
    return mcp(number, "tools/call", {"name": name, "arguments": arguments, "_meta": {"claudecode/toolUseId": id}})


def answer(transport: Spoken, number: int) -> tuple[str, bool]:
    result = transport.answers[f"r{number}"]["response"]["mcp_response"]["result"]
    return "".join(part.get("text", "") for part in result["content"]), result.get("isError", False)


async def prompts() -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": "Go."}, "parent_tool_use_id": None}


def writing(raw: str) -> list[Any]:
    """The beginning of a reply that calls the tool, as far as its input has come."""
    return [event(message_start()), event(start(0, WRITE, "toolu_w")), event(input_delta(0, raw))]


async def told(early: EarlyTools, said: Sequence[Any], options: ClaudeAgentOptions | None = None) -> Spoken:
    """What became of a conversation that Claude Code leads."""
    transport = Spoken(HELLO, *said, RESULT)
    async with early:
        asked = query(prompt=prompts(), options=early.options(options or ClaudeAgentOptions()), transport=transport)
        async for _ in early.follow(asked):
            pass
    return transport


async def test_a_tool_begins_inside_its_input_and_is_joined() -> None:
    """Claude Code's own call finds it written."""
    writer = Writer()
    calls: list[ToolCall] = []
    whole = json.dumps(POEM)
    said = [
        event(message_start()),
        event(start(0, "Bash", "toolu_b")),
        event(input_delta(0, '{"command": "ls"}')),
        event(block_stop(0)),
        event(start(1, WRITE, "toolu_w")),
        event(input_delta(1, whole[:-12])),
        writer.begun,
        event(input_delta(1, whole[-12:])),
        event(block_stop(1)),
        called(1, POEM, "toolu_w"),
        event(message_delta("tool_use")),
        event(MESSAGE_STOP),
    ]
    transport = await told(EarlyTools([writer.write], on_start=calls.append), said)
    assert answer(transport, 1) == ("wrote 3 lines to poem.txt", False)
    assert writer.runs == 1
    assert [call.name for call in calls] == ["write"]


async def test_what_is_not_allowed_outright_does_not_begin_early() -> None:
    """A hook before tools, a tool that is forbidden, one that asks: each is called by Claude Code, or not at all."""

    async def hook(*_: Any) -> Any:
        return {}

    for options in (
        ClaudeAgentOptions(hooks={"PreToolUse": [HookMatcher(hooks=[hook])]}),
        ClaudeAgentOptions(disallowed_tools=[WRITE]),
        ClaudeAgentOptions(disallowed_tools=["mcp__eagerstream"]),
        ClaudeAgentOptions(disallowed_tools=["mcp__eagerstream__*"]),
        ClaudeAgentOptions(permission_mode="plan"),
    ):
        writer = Writer()
        await told(EarlyTools([writer.write]), [*writing(json.dumps(POEM)), event(block_stop(0))], options)
        assert writer.runs == 0
    # Later options do not allow what those of another query forbid.
    writer = Writer()
    early = EarlyTools([writer.write])
    early.options(ClaudeAgentOptions(disallowed_tools=[WRITE]))
    await told(early, writing(json.dumps(POEM)))
    assert writer.runs == 0


async def test_queries_beside_one_another() -> None:
    """The end of one does nothing to what another one has begun."""
    writer = Writer()
    over = anyio.Event()
    whole = json.dumps(POEM)
    first = [
        *writing(whole[:-12]),
        writer.begun,
        over,
        event(input_delta(0, whole[-12:])),
        event(block_stop(0)),
        called(1, POEM, "toolu_w"),
    ]
    transport = Spoken(HELLO, *first, RESULT)

    async def follow(transport: Transport) -> None:
        async for _ in early.follow(query(prompt=prompts(), options=options, transport=transport)):
            pass

    async with EarlyTools([writer.write]) as early, anyio.create_task_group() as tasks:
        options = early.options(ClaudeAgentOptions())
        tasks.start_soon(follow, transport)
        await writer.begun.wait()
        await follow(Spoken(HELLO, event(message_start()), RESULT))
        over.set()
    assert answer(transport, 1) == ("wrote 3 lines to poem.txt", False)
    assert (writer.runs, writer.interrupted) == (1, 0)


@pytest.mark.parametrize("is_rewritten", [True, False])
async def test_what_claude_code_calls_counts(is_rewritten: bool) -> None:
    """A call that was rewritten runs anew. One that is called before its partial messages are read runs once."""
    writer = Writer()
    whole = [*writing(json.dumps(POEM)), event(block_stop(0))]
    other = called(1, {"path": "other.txt", "lines": []}, "toolu_w")
    said = [*whole, writer.begun, other] if is_rewritten else [called(1, POEM, "toolu_w"), *whole]
    transport = await told(EarlyTools([writer.write]), said)
    assert answer(transport, 1) == (f"wrote 3 lines to {'other' if is_rewritten else 'poem'}.txt", False)
    assert writer.runs == 1 + is_rewritten


async def test_an_input_that_breaks_off() -> None:
    """Another reply in its place, a limit that is reached, the end: what was begun learns of it, and is not joined."""
    broken = writing('{"path": "a", "lines": ["one", "tw')
    for after in ([event(message_start())], [event(block_stop(0)), event(message_delta("max_tokens"))], []):
        writer = Writer()
        transport = await told(EarlyTools([writer.write]), [*broken, writer.begun, *after, called(1, POEM, "toolu_x")])
        assert writer.runs == 2
        assert answer(transport, 1)[1] is False
    writer = Writer()
    more = [event(start(1, WRITE, "toolu_2")), called(1, POEM, "toolu_2")]
    transport = await told(EarlyTools([writer.write], limits=Limits(max_blocks=1)), [*broken, writer.begun, *more])
    assert answer(transport, 1)[1] is False


async def test_results_of_all_kinds() -> None:
    """Images as MCP has them, errors as errors, faults of an input told by the executor."""

    @eagerstream.tool
    def draw(size: int) -> eagerstream.ToolResponse:
        """Draw."""
        if size > 1:
            raise LookupError("too large")
        return eagerstream.ToolResponse.success("a dot", content=[image_bytes(b"\x89PNG\r\n\x1a\n", "image/png")])

    said = [called(number, {"size": size}, f"toolu_{number}", "draw") for number, size in ((1, 1), (2, 2), (3, "x"))]
    transport = await told(EarlyTools([draw]), [*said, mcp(4, "tools/list")])
    content = transport.answers["r1"]["response"]["mcp_response"]["result"]["content"]
    assert [part["type"] for part in content] == ["text", "image"]
    assert answer(transport, 2) == ("LookupError: too large", True)
    assert answer(transport, 3)[1] is True
    [listed] = transport.answers["r4"]["response"]["mcp_response"]["result"]["tools"]
    assert (listed["name"], listed["inputSchema"]["required"]) == ("draw", ["size"])
    assert listed["annotations"] == {"readOnlyHint": False, "idempotentHint": False}


async def test_leaving_in_the_middle() -> None:
    """Whoever stops reading leaves nothing running, and errors of the SDK come through."""
    writer = Writer()
    said = [
        *writing('{"path": "a", "lines": ["one", "tw'),
        writer.begun,
        event(start(1, "Bash", "toolu_b")),
        anyio.Event(),
    ]
    async with EarlyTools([writer.write]) as early:
        options = early.options(ClaudeAgentOptions())
        messages = early.follow(query(prompt=prompts(), options=options, transport=Spoken(HELLO, *said)))
        async for message in messages:
            if isinstance(message, StreamEvent) and message.event.get("index") == 1:
                break
        await messages.aclose()  # type: ignore[attr-defined]
    assert writer.runs == 1

    async def fails() -> AsyncIterator[Any]:
        yield "a message"
        raise LookupError("gone")

    seen = []
    with pytest.raises(LookupError, match="gone"):
        async with EarlyTools([writer.write]) as early:
            async for message in early.follow(fails()):
                seen.append(message)
    assert seen == ["a message"]


async def test_what_it_is_asked_for_wrongly() -> None:
    """Not entered, entered twice, options to which nothing can be added."""
    early = EarlyTools([Writer().write])
    with pytest.raises(UsageError, match="enter"):
        async for _ in early.follow(prompts()):
            pass
    with pytest.raises(UsageError, match="file"):
        early.options(ClaudeAgentOptions(mcp_servers="servers.json"))
    async with early:
        with pytest.raises(UsageError, match="before"):
            await early.__aenter__()


async def test_inputs_of_sub_agents_are_told_apart() -> None:
    """They are written beside one another, with the same block indexes."""
    said = [
        event(message_start()),
        event(message_start(), "toolu_task"),
        event(start(0, "Read", "toolu_a")),
        event(start(0, "Grep", "toolu_b"), "toolu_task"),
        event(input_delta(0, '{"path": "a"}')),
        event(input_delta(0, '{"pattern": "b"'), "toolu_task"),
        event(block_stop(0)),
        event(message_delta("tool_use")),
        event(MESSAGE_STOP),
        RESULT,
    ]
    inputs = AgentInputs()
    found = []
    async for message in query(prompt=prompts(), options=ClaudeAgentOptions(), transport=Spoken(*said)):
        found += inputs.feed(message)
    told = [(change.event, change.event.input, change.parent_tool_use_id) for change in found]
    starts = [(input.name, parent) for event, input, parent in told if isinstance(event, InputStart)]
    assert starts == [("Read", None), ("Grep", "toolu_task")]
    stops = [(input.outcome, parent) for event, input, parent in told if isinstance(event, InputStop)]
    assert stops == [(Outcome.VALID, None), (Outcome.INCOMPLETE, "toolu_task")]
    assert {change.session_id for change in found} == {"s"}


# --- Claude Code itself -----------------------------------------------------------------------------------------------


def code_options(server: ReplayServer, folder: Path, **more: Any) -> ClaudeAgentOptions:
    """Claude Code in a folder of its own, with nothing to speak to but the embedded server."""
    env = {
        "ANTHROPIC_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": "sk-ant-simulated",
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(folder / "config"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }
    return ClaudeAgentOptions(
        model="claude-opus-4-7", env=env, cwd=folder, setting_sources=[], tools=[], max_turns=5, **more
    )


def results_in(request: Any) -> list[Any]:
    content = [block for message in request.body["messages"] for block in message["content"] if isinstance(block, dict)]
    return [block for block in content if block.get("type") == "tool_result"]


@pytest.mark.slow
async def test_claude_code_joins_what_has_begun(tmp_path: Path) -> None:
    """The real one: inputs are asked for eagerly, the tool is at work inside its input, and its one result is sent."""
    writer = Writer()
    seen: list[str] = []
    lines = [f"line number {number}" for number in range(40)]
    calls = reply(text("I write."), tool_use(WRITE, {"path": "a", "lines": lines}, id="toolu_w"))
    scenario = Scenario(retime(calls, Timing(tokens_per_second=200)), reply(text("Done.")))
    with ReplayServer(scenario) as server:
        async with EarlyTools([writer.write], on_start=lambda _: seen.append("tool")) as early:
            options = early.options(code_options(server, tmp_path))
            async for message in early.follow(query(prompt="Go.", options=options)):
                match message:
                    case AssistantMessage():
                        seen.append("whole message")
                    case ResultMessage(result=result):
                        seen.append(str(result))
                    case _:
                        pass
        first, second = server.requests
    assert seen == ["whole message", "tool", "whole message", "whole message", "Done."]
    assert writer.runs == 1
    [declared] = [tool for tool in first.body["tools"] if tool["name"] == WRITE]
    assert declared["eager_input_streaming"] is True
    assert "wrote 40 lines to a" in str(results_in(second))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["invalid", "broken"])
async def test_claude_code_and_an_input_that_goes_wrong(how: str, tmp_path: Path) -> None:
    """The tool is told that its input broke off; what Claude Code then does is its own, and the session goes on."""
    writer = Writer()
    raw = '{"path": "a", "lines": ["one", oops]}' if how == "invalid" else json.dumps(POEM)
    scenario = Scenario(
        reply(tool_use(WRITE, raw, id="toolu_w")),
        reply(text("Done.")),
        reply(text("Done.")),
        # So slow that the tool runs when the connection is lost, on a busy machine, too.
        timing=Timing(tokens_per_second=200 if how == "invalid" else 8),
    )
    faults = Faults({0: [Fault(FaultKind.CLOSE, after_events=9)]} if how == "broken" else {})
    with ReplayServer(scenario, faults=faults) as server:
        async with EarlyTools([writer.write]) as early:
            options = early.options(code_options(server, tmp_path))
            with anyio.fail_after(50):
                results = [
                    message
                    async for message in early.follow(query(prompt="Go.", options=options))
                    if isinstance(message, ResultMessage)
                ]
    assert results[-1].result == "Done."
    assert writer.interrupted == 1
