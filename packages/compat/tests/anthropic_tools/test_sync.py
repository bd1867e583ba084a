"""Synchronous calls: from any thread, as often as one likes, with connections that stay open between them."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from packages.compat.tests.anthropic_tools.support import ANSWER, DONE, HELLO, AdditionTool, AsyncTool, Later, add, turn
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream_compat._sync import SyncLoop, run_plain, run_sync
from eagerstream_compat.anthropic_tools import BaseTool, ToolUser, handle_manual_claude_res
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario, text, tool_use

CONVERSATION = Scenario(turn(1, add(8, 6)), DONE)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Answers any number of conversations, at the same time."""
    with ReplayServer(CONVERSATION) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "simulated")
        yield server


def test_many_calls(server: ReplayServer) -> None:
    """A connection that was kept open is used again, and there is one loop."""
    tool = AdditionTool()
    user = ToolUser([tool])
    for _ in range(3):
        assert user.use_tools(HELLO, execution_mode="automatic") == ANSWER
    assert user.use_tools(HELLO)["role"] == "tool_inputs"
    assert tool.used == [(8, 6)] * 3
    assert len(server.requests) == 7


@pytest.mark.slow
def test_many_threads(server: ReplayServer) -> None:
    """At the same time, with one client."""
    user = ToolUser([AdditionTool()])
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: user.use_tools(HELLO, execution_mode="automatic"), range(8)))
    assert answers == [ANSWER] * 8


def test_one_client_for_several(server: ReplayServer) -> None:
    """A client that was given can be given to others."""
    import anthropic

    client = anthropic.AsyncAnthropic()
    for _ in range(2):
        assert ToolUser([AdditionTool()], client=client).use_tools(HELLO, execution_mode="automatic") == ANSWER
    SyncLoop.shared().close_soon(client)
    while not client.is_closed():
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda user: pickle.loads(pickle.dumps(user))])
def test_a_copy_has_connections_of_its_own(server: ReplayServer, copied: Callable[[ToolUser], ToolUser]) -> None:
    """Those of a user are closed when it goes. A copy works on, and can be sent to another process."""
    user = ToolUser([AdditionTool()])
    user.use_tools(HELLO)
    client, other = user._kept.client, copied(user)
    assert not client.is_closed()
    del user
    gc.collect()
    while not client.is_closed():
        time.sleep(0.01)
    assert other.use_tools(HELLO, execution_mode="automatic") == ANSWER


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_that_goes_inside_another_loop(backend: str) -> None:
    """Whoever collects it may be anywhere: how it is closed does not depend on that."""

    class Client:
        closed = threading.Event()

        async def close(self) -> None:
            await anyio.lowlevel.checkpoint()
            self.closed.set()

    client = Client()

    async def collect() -> None:
        SyncLoop.shared().close_soon(client)

    anyio.run(collect, backend=backend)
    assert client.closed.wait(20)


def test_a_call_inside_a_call(server: ReplayServer) -> None:
    """A tool may ask the model itself, through the same object."""

    class Ask(BaseTool):
        def use_tool(self, **_: Any) -> Any:
            return user.use_tools([*HELLO, {"role": "assistant", "content": "x"}, *HELLO, *HELLO])["content"]

    parameters = [{"name": name, "type": "int", "description": "x"} for name in "ab"]
    user = ToolUser([Ask("perform_addition", "Ask.", parameters)])
    assert user.use_tools(HELLO, execution_mode="automatic") == ANSWER
    results = [request.body["messages"][-1] for request in server.requests if len(request.body["messages"]) == 3]
    assert results[0]["content"][0]["content"] == ANSWER["content"]


def test_everything_plain_runs_in_the_thread_of_the_caller(server: ReplayServer) -> None:
    """What belongs to a thread, as a connection to SQLite does, is there; and so are context variables."""
    seen: list[tuple[str, threading.Thread, str]] = []
    variable = ContextVar("variable", default="nothing")

    class Look(AdditionTool):
        def use_tool(self, a: float, b: float) -> float:
            seen.append(("tool", threading.current_thread(), variable.get()))
            return a + b

    def validate(name: str, arguments: dict[str, Any]) -> None:
        seen.append(("validate", threading.current_thread(), variable.get()))

    def on_message(message: dict[str, Any]) -> None:
        seen.append((message["role"], threading.current_thread(), variable.get()))

    variable.set("something")
    ToolUser([Look()], validate=validate, on_message=on_message).use_tools(HELLO, execution_mode="automatic")
    assert [what for what, _, _ in seen] == ["validate", "tool", "tool_inputs", "tool_outputs", "assistant"]
    assert {(thread, value) for _, thread, value in seen} == {(threading.current_thread(), "something")}


@rows(
    "name, given, result, error",
    [
        ("shout", {"word": "hey"}, "HEY", None),
        ("later", {}, {}, None),
        ("later", {"fail": "no"}, None, "ConnectionError: no"),
    ],
)
def test_tools_that_are_awaited(name: str, given: dict[str, Any], result: Any, error: str | None) -> None:
    """An async one has a loop. One that gives an awaitable is awaited, and what it raises is told to the model."""
    messages = [*HELLO]
    call = {"tool_name": name, "tool_arguments": given}
    asked = {"role": "tool_inputs", "content": "", "tool_inputs": [call]}
    handle_manual_claude_res(messages, asked, ToolUser([AsyncTool(), Later("later", "x", [])]))
    outputs = [{"tool_name": name, "tool_result": result}] if error is None else None
    assert messages[-1] == {"role": "tool_outputs", "tool_outputs": outputs, "tool_error": error}


@pytest.mark.parametrize("error", [KeyError("k"), SystemExit(3), StopIteration()])
def test_what_is_raised(error: BaseException) -> None:
    """It comes out as it is, and the loop goes on. No future takes a `StopIteration`, which has to be told otherwise."""

    def plain() -> Any:
        raise error

    is_told_otherwise = isinstance(error, StopIteration)
    for function in (lambda: run_plain(plain), plain) * 2:  # the second raises before there is a coroutine
        with pytest.raises(RuntimeError if is_told_otherwise else type(error)) as caught:
            run_sync("this", "that", function)
        assert (caught.value.__cause__ if is_told_otherwise else caught.value) is error


@pytest.mark.parametrize(
    ("error", "told"), [(asyncio.CancelledError(), "CancelledError"), (SystemExit("enough"), "enough")]
)
def test_a_tool_that_ends_more_than_itself(server: ReplayServer, error: BaseException, told: str) -> None:
    """One that was cancelled in an event loop of its own, or exits, has failed. An observer that exits ends the call."""

    class Fail(AdditionTool):
        def use_tool(self, a: float, b: float) -> float:
            raise error

    shown: list[dict[str, Any]] = []
    assert ToolUser([Fail()], on_message=shown.append).use_tools(HELLO, execution_mode="automatic") == ANSWER
    assert told in shown[1]["tool_error"]
    with pytest.raises(SystemExit, match="over"):
        ToolUser([Fail()], on_message=lambda _: sys.exit("over")).use_tools(HELLO, execution_mode="automatic")
    assert ToolUser([Fail()]).use_tools(HELLO, execution_mode="automatic") == ANSWER


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_inside_an_event_loop(backend: str) -> None:
    """It would stand still."""

    async def call() -> None:
        with pytest.raises(UsageError, match="use await that"):
            run_sync("this", "that", anyio.lowlevel.checkpoint)

    anyio.run(call, backend=backend)


def test_a_task_that_outlives_its_call() -> None:
    """What a tool left behind is not run in a thread that waits for nothing any more."""
    threads: list[threading.Thread] = []
    tasks: list[asyncio.Task[None]] = []
    ended = asyncio.Event()

    async def later() -> None:
        await ended.wait()
        await run_plain(lambda: threads.append(threading.current_thread()))

    async def leave() -> None:
        tasks.append(asyncio.get_running_loop().create_task(later()))

    async def wait() -> None:
        ended.set()
        await tasks[0]

    run_sync("this", "that", leave)
    run_sync("this", "that", wait)
    assert threads[0] is not threading.current_thread()


def test_a_function_that_was_given_up() -> None:
    """What waits behind it is dropped with it."""
    ran: list[str] = []

    async def both() -> None:
        with anyio.move_on_after(0):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run_plain, lambda: ran.append("one"))
        await run_plain(lambda: ran.append("two"))

    run_sync("this", "that", both)
    assert ran[-1] == "two"


def test_a_task_that_exits(server: ReplayServer) -> None:
    """It ends alone: the call that left it behind, others, and the loop go on."""

    async def leave() -> BaseException | None:
        async def later() -> None:
            sys.exit(3)

        task = asyncio.get_running_loop().create_task(later())
        await asyncio.wait([task])
        return task.exception()

    before = SyncLoop.shared()
    assert isinstance(run_sync("this", "that", leave), SystemExit)
    assert ToolUser([AdditionTool()]).use_tools(HELLO, execution_mode="automatic") == ANSWER
    assert SyncLoop.shared() is before


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_another_loop_inside_a_call(server: ReplayServer, backend: str) -> None:
    """A thread of an async tool has the context of the call, and is no part of it: it has connections of its own."""
    inner = ToolUser([AdditionTool()])
    inner.use_tools(HELLO)  # leaves a connection open that belongs to the loop of synchronous calls

    class Ask(AdditionTool):
        async def use_tool(self, a: float, b: float) -> str:  # type: ignore[override]
            return await anyio.to_thread.run_sync(lambda: anyio.run(inner.ause_tools, HELLO, backend=backend)["role"])

    shown: list[dict[str, Any]] = []
    ToolUser([Ask()], on_message=shown.append).use_tools(HELLO, execution_mode="automatic")
    assert shown[1]["tool_outputs"] == [{"tool_name": "perform_addition", "tool_result": "tool_inputs"}]
    assert inner.use_tools(HELLO)["role"] == "tool_inputs"


def test_calls_while_the_loop_ends() -> None:
    """As of a daemon thread at the end of a program: neither a running call nor a late one waits forever."""
    running, closing, release = threading.Event(), threading.Event(), threading.Event()
    loop = SyncLoop()

    async def run_until_cancelled() -> None:
        running.set()
        await anyio.sleep_forever()

    class Slow:
        async def close(self) -> None:
            closing.set()
            await anyio.to_thread.run_sync(release.wait, 20)

    slow = Slow()
    loop.close_at_exit(slow)
    with ThreadPoolExecutor(2) as threads:
        early = threads.submit(loop.call, run_until_cancelled)
        assert running.wait(20)
        end = threads.submit(loop.end)
        assert closing.wait(20)
        for call in (early, threads.submit(loop.call, anyio.sleep_forever)):
            with pytest.raises(RuntimeError, match="has ended"):
                call.result(20)
        release.set()
        end.result(20)
    with pytest.raises(RuntimeError, match="has ended"):
        loop.call(anyio.sleep_forever)


# --- programs of their own --------------------------------------------------------------------------------------------

PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from eagerstream_compat.anthropic_tools import BaseTool, ToolUser

class AdditionTool(BaseTool):
    def use_tool(self, a, b):
        return a + b

parameters = [{"name": name, "type": "float", "description": "A number"} for name in "ab"]
user = ToolUser([AdditionTool("perform_addition", "Add.", parameters)])
messages = [{"role": "user", "content": "How much fruit has Sally?"}]
"""


def start(server: ReplayServer, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "always::ResourceWarning", "-c", PROGRAM + program],
        env={**os.environ, "ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "simulated"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(server: ReplayServer, program: str) -> str:
    """What it printed; it ended by itself, and without a complaint."""
    with start(server, program) as process:
        printed, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    return printed


@pytest.mark.slow
def test_the_end_of_the_program(server: ReplayServer) -> None:
    """With a client that is still open, and one that was given; no thread keeps the program, nothing is left open."""
    program = """
import anthropic
print(user.use_tools(messages, execution_mode="automatic")["content"])
given = anthropic.AsyncAnthropic()
print(ToolUser(user.tools, client=given).use_tools(messages, execution_mode="automatic")["content"])
"""
    assert output(server, program) == "She has 14.\n" * 2


@pytest.mark.slow
def test_an_error_ends_the_program(server: ReplayServer) -> None:
    """It does not hang."""
    with start(server, "user.use_tools(messages); raise KeyError('k')") as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == "KeyError: 'k'"
    assert "ResourceWarning" not in errors


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_after_a_fork(server: ReplayServer) -> None:
    """The child has a loop and connections of its own; those of the parent still work."""
    program = """
import os
warnings.simplefilter("ignore")
print(user.use_tools(messages)["role"], flush=True)
child = os.fork()
if not child:
    print(user.use_tools(messages)["role"], flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(user.use_tools(messages)["role"])
"""
    assert output(server, program) == "tool_inputs\n" * 3


@pytest.mark.slow
def test_a_missing_key(server: ReplayServer) -> None:
    """Nothing but a request needs one."""
    program = """
import os
del os.environ["ANTHROPIC_API_KEY"]
user = ToolUser(user.tools)
for mode in ("manual", "automatic"):
    try:
        user.use_tools(messages, execution_mode=mode)
    except Exception as error:
        print("api_key" in str(error))
"""
    assert output(server, program) == "True\n" * 2


def interrupted(scenario: Scenario, faults: Faults | None, program: str, ready: Callable[[ReplayServer], bool]) -> str:
    """What a program printed that got Ctrl-C once it was ready."""
    with ReplayServer(scenario, faults=faults) as server, start(server, program) as process:
        while not ready(server):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.2)  # for it to be where it waits; the outcome is the same without
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    return printed


@pytest.mark.slow
def test_ctrl_c_while_a_reply_comes() -> None:
    """The call ends at once, and the next one works."""
    program = """
try:
    user.use_tools(messages, execution_mode="automatic")
except KeyboardInterrupt:
    print("interrupted")
print(user.use_tools(messages, execution_mode="automatic")["content"])
"""
    faults = Faults({0: [Fault(FaultKind.STALL, after_events=3)]})
    printed = interrupted(CONVERSATION, faults, program, lambda server: bool(server.requests))
    assert printed == "interrupted\nShe has 14.\n"


@pytest.mark.slow
def test_ctrl_c_while_a_tool_runs(tmp_path: Any) -> None:
    """A plain tool is in the thread that Ctrl-C comes to."""
    begun = tmp_path / "begun"
    program = f"""
import pathlib, time
class Wait(BaseTool):
    def use_tool(self):
        pathlib.Path({str(begun)!r}).touch()
        time.sleep(30)
try:
    ToolUser([Wait("wait", "Wait.", [])]).use_tools(messages, execution_mode="automatic")
except KeyboardInterrupt:
    print("interrupted")
"""
    scenario = Scenario(turn(1, text("I wait."), tool_use("wait", {})), DONE)
    assert interrupted(scenario, None, program, lambda _: begun.exists()) == "interrupted\n"
