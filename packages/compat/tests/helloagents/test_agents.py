"""Agents: constructors and methods of HelloAgents, on `eagerstream.run`, over loopback."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import Any

import anthropic
import anyio
import pytest
from packages.compat.tests.helloagents.tools import MyTool, a_registry, records
from tests.loop.serial import Serial
from tests.support import all_tasks_blocked

from eagerstream import RunStatus, UsageError
from eagerstream.errors import EagerStreamError
from eagerstream.recordings import Recording
from eagerstream_compat.helloagents import (
    Agent,
    Config,
    HelloAgentsLLM,
    Message,
    ReActAgent,
    SimpleAgent,
    ToolRegistry,
)
from eagerstream_testing import ReplayServer, Scenario, http_error, reply, text, tool_use

QUIET = Config(trace_enabled=False)
ASK = reply(text("Let me see."), tool_use("MyTool", {"input": "x"}), message_id="msg_ask")
ASK_AGAIN = reply(text("Once more."), tool_use("MyTool", {"input": "y"}), message_id="msg_again")
DONE = reply(text("Done."), message_id="msg_done")
REFUSED = http_error(400, "invalid_request_error", "no")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which traces are written to."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@asynccontextmanager
async def a_model(serial: Serial, *replies: Recording, **settings: Any) -> AsyncIterator[HelloAgentsLLM]:
    """A model with these responses, and a time limit for the test."""
    async with serial.conversing(*replies) as client:
        with anyio.fail_after(20):
            yield HelloAgentsLLM("claude-made-1", client=client, **settings)


def suffixes(folder: Path) -> list[str]:
    """Return the endings of all files in a folder and its subfolders."""
    return sorted(path.suffix for path in folder.rglob("*") if path.is_file())


def history(agent: Agent) -> list[tuple[str, str]]:
    """The roles and texts of the messages."""
    return [(message.role, message.content) for message in agent.get_history()]


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_run_with_tools(serial: Serial) -> None:
    """The tools run, the text of the last response is the answer, and the request is what the arguments say."""
    async with a_model(serial, ASK, DONE, temperature=0.5) as llm:
        agent = ReActAgent("assistant", llm, a_registry(MyTool()), "Be brief.", QUIET)
        assert await agent.arun("Question?", top_p=0.9) == "Done."
    assert history(agent) == [("user", "Question?"), ("assistant", "Done.")]
    assert agent.result is not None
    assert [call.name for call in agent.result.calls] == ["MyTool"]
    first, second = serial.bodies
    settings = {name: first[name] for name in ("model", "max_tokens", "temperature", "top_p", "system", "stream")}
    assert settings == {
        "model": "claude-made-1",
        "max_tokens": 4096,
        "temperature": 0.5,
        "top_p": 0.9,
        "system": "Be brief.",
        "stream": True,
    }
    assert first["messages"] == [{"role": "user", "content": "Question?"}]
    assert second["messages"][-1]["content"][0]["content"] == "处理完成: X"


@pytest.mark.anyio
async def test_an_agent_without_anything(serial: Serial, folder: Path) -> None:
    """The request has no instructions, no tools and no temperature if none were given. Without traces, no file."""
    async with a_model(serial, DONE) as llm:
        agent = SimpleAgent("assistant", llm, config=QUIET)
        assert await agent.arun("Hello.") == "Done."
    assert not {"system", "tools", "temperature"} & set(serial.bodies[0])
    assert agent.trace_logger is None
    assert suffixes(folder) == []


@pytest.mark.anyio
async def test_an_agent_of_a_program(serial: Serial) -> None:
    """`Agent` itself has no bound on its steps, and can be derived from."""

    class Polite(Agent):
        async def arun(self, input_text: str, *args: Any, **kwargs: Any) -> str:
            return await super().arun(f"{input_text} Please.", *args, **kwargs)

    async with a_model(serial, ASK, ASK_AGAIN, DONE, DONE) as llm:
        assert await Polite("assistant", llm, config=QUIET, tool_registry=a_registry(MyTool())).arun("Work.") == "Done."
        bare = Polite("assistant", llm, config=QUIET)
        assert await bare.arun("Talk.") == "Done."
    assert history(bare)[0] == ("user", "Talk. Please.")


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "sent"), [(SimpleAgent, 3), (ReActAgent, 1)])
async def test_the_history(serial: Serial, kind: type[SimpleAgent | ReActAgent], sent: int) -> None:
    """A SimpleAgent sends it. A ReActAgent keeps it only, as in HelloAgents."""
    async with a_model(serial, DONE) as llm:
        agent = kind("assistant", llm, config=QUIET)
        agent.add_message(Message("Hello.", "user"))
        agent.add_message(Message("Hello!", "assistant"))
        await agent.arun("Question?")
    assert len(serial.bodies[0]["messages"]) == sent
    assert len(agent.get_history()) == 4
    agent.get_history().clear()
    assert len(agent.get_history()) == 4
    agent.clear_history()
    assert agent.get_history() == []


@pytest.mark.anyio
async def test_the_most_steps(serial: Serial, caplog: pytest.LogCaptureFixture) -> None:
    """An agent that does not come to an end says so, and not the last thing that the model said before a call."""
    async with a_model(serial, ASK, ASK_AGAIN) as llm:
        agent = ReActAgent("assistant", llm, a_registry(MyTool()), config=QUIET, max_steps=2)
        assert await agent.arun("Question?") == "未能在 2 步内得出最终答案。"
    assert agent.result is not None
    assert agent.result.status is RunStatus.LIMIT
    assert "ended with status limit" in caplog.text
    async with a_model(serial, ASK, DONE) as llm:
        simple = SimpleAgent("assistant", llm, None, QUIET, a_registry(MyTool()), max_tool_iterations=1)
        assert await simple.arun("Question?") == "Done."


@pytest.mark.anyio
async def test_an_answer_without_text(serial: Serial) -> None:
    """It is not kept: the API would refuse an empty message in the next request."""
    async with a_model(serial, reply(stop_reason="end_turn"), DONE) as llm:
        agent = SimpleAgent("assistant", llm, config=QUIET)
        assert await agent.arun("One?") == ""
        assert await agent.arun("Two?") == "Done."
    assert [message["content"] for message in serial.bodies[1]["messages"]] == ["One?", "Two?"]


@pytest.mark.anyio
async def test_tools_of_an_agent(serial: Serial) -> None:
    """A SimpleAgent gets tools with its registry or with `add_tool`, and can do without them."""
    async with a_model(serial, DONE, DONE, DONE) as llm:
        agent = SimpleAgent("assistant", llm, config=QUIET)
        assert (agent.has_tools(), agent.list_tools(), agent.remove_tool("MyTool")) == (False, [], False)
        agent.add_tool(MyTool())
        await agent.arun("One?")
        assert (agent.has_tools(), agent.list_tools()) == (True, ["MyTool"])
        assert (agent.remove_tool("MyTool"), agent.list_tools()) == (True, [])
        silent = SimpleAgent("assistant", llm, None, QUIET, a_registry(MyTool()), enable_tool_calling=False)
        await silent.arun("Two?")
        given = ReActAgent("assistant", llm, config=Config(trace_enabled=False, circuit_failure_threshold=7))
        given.add_tool(MyTool())
        await given.arun("Three?")
    assert [len(body.get("tools", [])) for body in serial.bodies] == [1, 0, 1]
    assert given.tool_registry is not None
    assert given.tool_registry.circuit_breaker.failure_threshold == 7


@pytest.mark.anyio
async def test_tools_at_once(serial: Serial) -> None:
    """`Config.max_concurrent_tools` bounds the tools of a run."""
    running, peak = 0, 0

    async def work() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await all_tasks_blocked()
        running -= 1

    registry = ToolRegistry()
    registry.register_function(work)
    async with a_model(serial, reply(*[tool_use("work", {})] * 4, message_id="msg_4"), DONE) as llm:
        config = Config(trace_enabled=False, max_concurrent_tools=2)
        await ReActAgent("assistant", llm, registry, config=config).arun("Work.")
    assert peak == 2


@pytest.mark.anyio
async def test_errors(serial: Serial) -> None:
    """They reach the caller, the trace is complete, and the history stays as it was."""
    async with a_model(serial, REFUSED) as llm:
        agent = SimpleAgent("assistant", llm)
        with pytest.raises(EagerStreamError):
            await agent.arun("Question?")
    assert agent.get_history() == []
    assert agent.trace_logger is not None
    assert records(agent.trace_logger)[-1]["event"] == "session_end"


@pytest.mark.anyio
async def test_cancelling(serial: Serial) -> None:
    """The tool is cancelled, the trace is complete, and the history stays as it was."""
    registry = ToolRegistry()
    with anyio.CancelScope() as scope:

        async def work() -> None:
            scope.cancel()
            await anyio.sleep_forever()

        registry.register_function(work)
        async with a_model(serial, reply(tool_use("work", {}))) as llm:
            agent = ReActAgent("assistant", llm, registry)
            await agent.arun("Work.")
    assert scope.cancelled_caught
    assert agent.get_history() == []
    assert agent.trace_logger is not None
    assert records(agent.trace_logger)[-1]["event"] == "session_end"


@pytest.mark.anyio
async def test_what_cannot_be_asked() -> None:
    """A hook of HelloAgents would never be called, and a synchronous call would block: each error says what to use."""
    agent = SimpleAgent("assistant", HelloAgentsLLM("claude-made-1", client=object()), config=QUIET)
    with pytest.raises(UsageError, match=r"await arun\("):
        agent.run("Question?")
    with pytest.raises(UsageError, match=r"await arun\("):
        next(agent.stream_run("Question?"))
    with pytest.raises(UsageError, match=r"no hooks \(on_step, on_tool_call\): iterate over the events"):
        await agent.arun("Question?", on_tool_call=print, on_step=print)


# --- synchronous calls ------------------------------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ReplayServer]]:
    """Starts a server, to which the variables of HelloAgents lead."""
    with ReplayServer(Scenario(ASK, DONE), speed=float("inf")) as server:
        for name in ("LLM_MODEL_ID", "LLM_API_KEY"):
            monkeypatch.setenv(name, "simulated")
        monkeypatch.setenv("LLM_BASE_URL", server.base_url)
        monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
        yield lambda: server


@pytest.mark.usefixtures("environment")
def test_synchronous_calls() -> None:
    """A program of HelloAgents: everything comes from the environment, and connections stay open between calls."""
    llm = HelloAgentsLLM()
    agent = ReActAgent("assistant", llm, tool_registry=a_registry(MyTool()), config=QUIET)
    assert agent.run("One?") == "Done."
    client = llm._kept.client
    assert copy(llm)._kept.client is None
    assert SimpleAgent("other", llm, config=QUIET, tool_registry=a_registry(MyTool())).run("Two?") == "Done."
    assert llm._kept.client is client
    assert repr(agent) == "ReActAgent(name='assistant', model='simulated')"


@pytest.mark.usefixtures("environment")
def test_pieces() -> None:
    """`stream_run` yields the text as it arrives, of all responses."""
    agent = SimpleAgent("assistant", HelloAgentsLLM(), config=QUIET, tool_registry=a_registry(MyTool()))
    assert "".join(agent.stream_run("Question?")) == "Let me see.Done."
    assert history(agent) == [("user", "Question?"), ("assistant", "Done.")]


@pytest.mark.usefixtures("environment")
def test_pieces_that_nobody_wants_any_more() -> None:
    """Closing the iterator cancels the run, also while a tool works: here one that would never end."""
    registry = ToolRegistry()
    ran: list[str] = []

    async def hang(input: str) -> None:
        ran.append(input)
        await anyio.sleep_forever()

    registry.register_function(hang, "MyTool")
    agent = SimpleAgent("assistant", HelloAgentsLLM(), config=QUIET, tool_registry=registry)
    pieces = agent.stream_run("Question?")
    assert next(pieces)
    while not ran:
        time.sleep(0.001)
    pieces.close()  # type: ignore[attr-defined]
    assert agent.get_history() == []


def test_pieces_of_a_response_that_fails(environment: Callable[[], ReplayServer]) -> None:
    """The error of the run is raised."""
    server = environment()
    client = anthropic.AsyncAnthropic(base_url=server.base_url, api_key="simulated", max_retries=0)
    server.close()
    with pytest.raises(EagerStreamError):
        list(SimpleAgent("assistant", HelloAgentsLLM(client=client), config=QUIET).stream_run("Question?"))


# --- traces -----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_traces(serial: Serial, folder: Path) -> None:
    """Each run has a trace of its own in the folder of HelloAgents."""
    async with a_model(serial, ASK, DONE, DONE) as llm:
        agent = ReActAgent("assistant", llm, a_registry(MyTool()))
        assert suffixes(folder) == []  # an agent that never runs leaves nothing behind
        first = agent.trace_logger
        assert first is not None
        await agent.arun("One?")
        assert agent.trace_logger is first
        await agent.arun("Two?")
    assert suffixes(folder / "memory" / "traces") == [".jsonl", ".jsonl"]
    assert agent.trace_logger is not first
    assert records(agent.trace_logger)[-1]["event"] == "session_end"
    start, *_ = records(first)
    assert (start["payload"]["agent_name"], start["payload"]["agent_type"]) == ("assistant", "ReActAgent")
    assert start["payload"]["config"]["max_concurrent_tools"] == 3
    assert [each["event"] for each in records(first)].count("tool_call") == 1


@pytest.mark.anyio
async def test_runs_that_overlap(serial: Serial) -> None:
    """Each writes to its own trace, and to no other."""
    async with a_model(serial, DONE, DONE) as llm:
        agent = SimpleAgent("assistant", llm)
        first = agent.trace_logger
        async with agent._running("One?", {}) as one:
            await agent.arun("Two?")
            second = agent.trace_logger
            await one.finish()
    assert first is not None
    assert second is not None
    for trace in (first, second):
        kinds = [each["event"] for each in records(trace)]
        assert (kinds.count("session_start"), kinds.count("session_end")) == (1, 1)


# --- settings ---------------------------------------------------------------------------------------------------------


def test_settings(caplog: pytest.LogCaptureFixture) -> None:
    """Settings of HelloAgents without an effect here are accepted; the log names those that were turned on."""
    caplog.set_level(logging.WARNING)
    assert Config().to_dict() == Config.from_env().to_dict()
    make: Any = Config  # type checkers complain of settings without an effect
    make(subagent_enabled=False, skills_enabled=False)
    assert caplog.text == ""
    config = make(hook_timeout_seconds=1, api_key="private", max_concurrent_tools=1)
    assert "settings without effect: api_key, hook_timeout_seconds" in caplog.text
    assert "private" not in caplog.text + json.dumps(config.to_dict())
    assert config.hook_timeout_seconds == 1
    assert config.to_dict()["max_concurrent_tools"] == 1


VARIABLES = ("LLM_MODEL_ID", "LLM_API_KEY", "LLM_BASE_URL", "LLM_TIMEOUT")
ANTHROPIC = {"ANTHROPIC_API_KEY": "of-anthropic", "ANTHROPIC_BASE_URL": "https://anthropic.test"}
OTHER = {"LLM_API_KEY": "of-other", "LLM_BASE_URL": "https://other.test"}


@pytest.mark.parametrize(
    ("variables", "arguments", "key", "url"),
    [
        (ANTHROPIC, {}, "of-anthropic", "https://anthropic.test"),
        (OTHER, {}, "of-other", "https://other.test"),
        ({**ANTHROPIC, **OTHER}, {}, "of-other", "https://other.test"),
        ({**ANTHROPIC, "LLM_BASE_URL": "https://other.test"}, {}, "of-anthropic", "https://anthropic.test"),
        ({**ANTHROPIC, "LLM_API_KEY": ""}, {}, "of-anthropic", "https://anthropic.test"),
        (OTHER, {"api_key": "given", "base_url": "https://given.test"}, "given", "https://given.test"),
        (OTHER, {"api_key": "given"}, "given", "https://other.test"),
    ],
    ids=["anthropic", "helloagents", "both", "a key never goes elsewhere", "empty", "arguments", "an argument"],
)
def test_keys_and_addresses(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], arguments: dict[str, Any], key: str, url: str
) -> None:
    """The variables of HelloAgents come first, as a pair: a key of Anthropic is never sent to another service."""
    for name in (*VARIABLES, *ANTHROPIC):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    client = HelloAgentsLLM(**arguments)._made()
    assert (client.api_key, str(client.base_url).rstrip("/")) == (key, url)


def test_models_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments come first, then the variables of HelloAgents, then those of Anthropic. No key is needed yet."""
    for name in (*VARIABLES, *ANTHROPIC):
        monkeypatch.delenv(name, raising=False)
    assert HelloAgentsLLM().model.startswith("claude-")
    monkeypatch.setenv("ANTHROPIC_MODEL", "of-anthropic")
    assert HelloAgentsLLM().model == "of-anthropic"
    monkeypatch.setenv("LLM_MODEL_ID", "of-helloagents")
    monkeypatch.setenv("LLM_TIMEOUT", "90")
    assert HelloAgentsLLM().request() == {"model": "of-helloagents", "max_tokens": 4096}
    assert HelloAgentsLLM("given", max_tokens=10).request(max_tokens=20) == {"model": "given", "max_tokens": 20}
    assert HelloAgentsLLM(api_key="k")._made().timeout == 90
    assert HelloAgentsLLM(provider="deepseek").kwargs == {"provider": "deepseek"}


# --- messages ---------------------------------------------------------------------------------------------------------


def test_messages() -> None:
    """They are plain data and back, and print as in HelloAgents."""
    message = Message("你好", "user")
    assert Message.from_dict(json.loads(json.dumps(message.to_dict()))) == message
    assert Message.from_dict({"role": "user", "content": "你好"}).to_dict()["timestamp"] is None
    assert str(message) == message.to_text() == "[user] 你好"
    with pytest.raises(UsageError, match="system_prompt"):
        Message("Be brief.", "system")  # type: ignore[arg-type]
