"""`ToolRegistry`: what is registered, and the one way by which it is called."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from packages.compat.tests.helloagents.tools import Async, MyTool, Plain, a_registry, failing
from tests.streams import REQUEST, blocks_of
from tests.support import anthropic_client

import eagerstream
from eagerstream import UsageError
from eagerstream_compat.helloagents import (
    CircuitBreaker,
    ToolParameter,
    ToolRegistry,
    ToolResponse,
    ToolStatus,
    global_registry,
)
from eagerstream_testing import ReplayServer, Scenario, reply, text

DONE = ToolResponse.success("done")


def echo(given: dict[str, Any]) -> ToolResponse:
    """What a tool was given, as data."""
    return ToolResponse.success("echo", {"given": given})


async def by_both(registry: ToolRegistry, name: str, given: object, **options: Any) -> list[ToolResponse]:
    """The responses of both ways to call a tool."""
    return [
        registry.execute_tool(name, given, **options),
        await registry.aexecute_tool(name, given, **options),
    ]


# --- what there is ----------------------------------------------------------------------------------------------------


def test_names() -> None:
    """Tools, then functions; each kind can be asked for, and forgotten."""

    def note(text: str) -> str:
        """Write a note.

        At once.
        """
        return text

    registry = a_registry(Plain(echo))
    assert isinstance(global_registry, ToolRegistry)
    assert ToolRegistry().get_tools_description() == "暂无可用工具"
    registry.register_function(note)
    registry.register_tool(MyTool())
    registry.register_function(note, name="other", description="说明")
    assert registry.list_tools() == ["plain", "MyTool", "note", "other"]
    assert [tool.name for tool in registry.get_all_tools()] == ["plain", "MyTool"]
    assert registry.get_tools_description() == (
        "- plain: Does what it was given.\n- MyTool: 我的自定义工具\n- note: Write a note.\n- other: 说明"
    )
    assert isinstance(registry.get_tool("MyTool"), MyTool)
    assert registry.get_tool("note") is None
    assert registry.get_function("note") is note
    assert registry.get_function("MyTool") is None
    registry.unregister("plain")
    registry.unregister("note")
    assert registry.list_tools() == ["MyTool", "other"]
    registry.clear()
    assert registry.list_tools() == []


def test_duplicates(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """The newer one counts, and a warning is logged; a tool is found before a function. Nothing is printed."""
    first, second = Plain(lambda _: DONE), Plain(echo)
    with caplog.at_level(logging.WARNING):
        registry = a_registry(first)
        assert not caplog.records
        registry.register_tool(second)
        registry.register_function(lambda: "function", name="plain")
        registry.unregister("nobody")
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    assert "'plain' was registered before" in caplog.text
    assert "'nobody'" in caplog.text
    assert registry.execute_tool("plain", {}).text == "echo"
    assert registry.list_tools() == ["plain"]
    assert [tool.name for tool in registry.to_tools()] == ["plain"]
    registry.unregister("plain")
    assert registry.execute_tool("plain", {}).text == "function"
    assert capsys.readouterr().out == ""


def test_the_older_order_of_a_function() -> None:
    """It works, and is told once as deprecated."""
    registry = ToolRegistry()
    with pytest.warns(DeprecationWarning, match="use register_function"):
        registry.register_function("double", "两倍", lambda x: 2 * x)
    registry.register_function("triple", "三倍", lambda x: 3 * x)
    assert registry.get_tools_description() == "- double: 两倍\n- triple: 三倍"
    assert registry.execute_tool("triple", 3).text == "9"


def test_what_cannot_be_registered() -> None:
    """It is told at once."""
    registry: Any = ToolRegistry()
    for register, wrong in (
        (registry.register_tool, MyTool),
        (registry.register_tool, len),
        (registry.register_function, "name"),
        (registry.register_function, 3),
    ):
        with pytest.raises(UsageError):
            register(wrong)


# --- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "parameters"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ("two words", {"input": "two words"}),
        ("", {"input": ""}),
        ("[1, 2]", {"input": [1, 2]}),
        ("null", {"input": None}),
        ("7", {"input": 7}),
        (7, {"input": "7"}),
        (None, {"input": "None"}),
        ("[" * 100_000, {"input": "[" * 100_000}),
    ],
    ids=lambda value: repr(value)[:20],
)
@pytest.mark.anyio
async def test_inputs(given: object, parameters: dict[str, Any]) -> None:
    """A dict, JSON of one, and anything else as `input`."""
    for response in await by_both(a_registry(Plain(echo)), "plain", given):
        assert response.data == {"given": parameters}
        assert response.context == {"params_input": parameters, "tool_name": "plain"}


@pytest.mark.anyio
async def test_conversion_of_inputs() -> None:
    """Only where it is asked for; what cannot be converted without a guess stays."""
    names = {"n": "number", "f": "float", "i": "integer", "j": "int", "yes": "boolean", "no": "bool", "s": "string"}
    registry = a_registry(Plain(echo, *(ToolParameter(name, kind, "") for name, kind in names.items())))
    given = {"n": "1.5", "f": 2, "i": "3", "j": "x", "yes": "YES", "no": "false", "s": "4", "more": "5"}
    assert registry.execute_tool("plain", given).data == {"given": given}
    for response in await by_both(registry, "plain", given, coerce=True):
        got = response.data["given"]
        assert got == {"n": 1.5, "f": 2.0, "i": 3, "j": "x", "yes": True, "no": False, "s": "4", "more": "5"}
        assert type(got["f"]) is float
    odd = {"i": 3.7, "j": 4.0, "n": "nan", "f": "1e999", "yes": "perhaps", "no": 0}
    assert registry.execute_tool("plain", odd, coerce=True).data["given"] == {**odd, "j": 4, "no": False}


@pytest.mark.anyio
async def test_an_unknown_tool() -> None:
    """It is not found, as often as it is asked for: no circuit opens for it."""
    registry = a_registry()
    for _ in range(4):
        for response in await by_both(registry, "nobody", {}):
            assert (response.code, response.text) == ("NOT_FOUND", "未找到名为 'nobody' 的工具")
            assert response.context == {"tool_name": "nobody"}
    assert registry.circuit_breaker.statuses() == {}


@pytest.mark.anyio
async def test_failures_outside_run() -> None:
    """What is not a tool's own is told as the registry's."""

    class Broken(Plain):
        def get_parameters(self) -> list[ToolParameter]:
            raise RuntimeError("no parameters")

    for response in await by_both(a_registry(Broken(echo)), "plain", {"a": 1}, coerce=True):
        assert (response.code, response.text) == ("EXECUTION_ERROR", "执行工具 'plain' 时发生异常: no parameters")
        assert response.context == {"tool_name": "plain", "input": {"a": 1}}


@pytest.mark.anyio
async def test_the_circuit() -> None:
    """After three errors a tool is not called any more, until it has recovered; neither does its refusal count."""
    now_s = 0.0
    breaker = CircuitBreaker(clock=lambda: now_s)
    tool = Plain(failing(RuntimeError("boom")))
    registry = a_registry(tool, Plain(echo, name="other"), circuit_breaker=breaker)
    codes = [registry.execute_tool("plain", {}).code, (await registry.aexecute_tool("plain", {})).code]
    codes.append(registry.execute_tool("plain", {}).code)
    assert codes == ["INTERNAL_ERROR"] * 3
    now_s = 1.0
    for response in await by_both(registry, "plain", {}):
        assert (response.code, response.text) == (
            "CIRCUIT_OPEN",
            "工具 'plain' 当前被禁用，由于连续失败。299 秒后可用。",
        )
        assert response.context == {"tool_name": "plain", "circuit_status": breaker.get_status("plain")}
    assert tool.called == 3
    assert breaker.get_status("plain")["failure_count"] == 3
    assert registry.execute_tool("other", {}).status is ToolStatus.SUCCESS
    now_s = 300.001
    assert registry.execute_tool("plain", {}).code == "INTERNAL_ERROR"
    assert tool.called == 4


def test_functions_count_too() -> None:
    """Also the mistakes in their inputs; a success begins the count anew."""
    registry = ToolRegistry()
    registry.register_function(lambda x: 1 // int(x), name="divide")
    inputs: list[object] = [0, 0, 1, 0, 0, {}, 1]
    codes = [registry.execute_tool("divide", each).code for each in inputs]
    assert codes == ["EXECUTION_ERROR"] * 2 + [None] + ["EXECUTION_ERROR"] * 2 + ["INVALID_PARAM", "CIRCUIT_OPEN"]


def test_the_library_s_own_breaker() -> None:
    """It is taken as well, and then counts what it counts and says what it says."""
    breaker = eagerstream.CircuitBreaker(1)
    registry = a_registry(Plain(failing(ValueError("x"))), circuit_breaker=breaker)
    registry.execute_tool("plain", {})
    assert registry.execute_tool("plain", {}).text.startswith("The tool plain is out of order")


def test_an_asynchronous_tool_outside_an_event_loop() -> None:
    """A plain call waits for it."""
    registry = a_registry(Async(echo))
    assert registry.execute_tool("plain", {"a": 1}).data == {"given": {"a": 1}}


def test_an_asynchronous_tool_that_keeps_a_connection() -> None:
    """A connection is of the event loop that opened it: the next call finds the same one."""
    with ReplayServer(Scenario(reply(text("15 degrees"))), speed=float("inf")) as server:
        client = anthropic_client(server.base_url)

        async def ask() -> str:
            async with eagerstream.stream(client, **REQUEST) as stream:
                await stream.finish()
            return str(blocks_of(stream.message)[0]["text"])

        registry = ToolRegistry()
        registry.register_function(ask)
        registry.register_function(client.close, "close")
        assert [registry.execute_tool("ask", {}).text for _ in range(3)] == ["15 degrees"] * 3
        assert registry.execute_tool("close", {}).code is None


def test_an_asynchronous_tool_in_a_callback() -> None:
    """There, too, it is inside an event loop, although in no task."""
    registry = a_registry(Async(lambda _: DONE))
    told: list[BaseException] = []

    def call(ended: asyncio.Event) -> None:
        try:
            registry.execute_tool("plain", {})
        except UsageError as error:
            told.append(error)
        ended.set()

    async def main() -> None:
        ended = asyncio.Event()
        asyncio.get_running_loop().call_soon(call, ended)
        await ended.wait()

    asyncio.run(main())
    assert "await registry.aexecute_tool" in str(told[0])


@pytest.mark.anyio
async def test_an_asynchronous_tool_inside_an_event_loop() -> None:
    """A plain call is refused, and counts nothing."""
    tool = Async(echo)
    registry = a_registry(tool)
    registry.register_function(anyio.sleep, name="sleep")
    for name in ("plain", "sleep"):
        with pytest.raises(UsageError, match="aexecute_tool"):
            registry.execute_tool(name, {"delay": 0})
    assert tool.called == 0
    assert registry.circuit_breaker.statuses() == {}
    assert (await registry.aexecute_tool("plain", {})).text == "echo"
    assert (await registry.aexecute_tool("sleep", {"delay": 0})).text == "None"


@pytest.mark.anyio
async def test_a_call_that_is_cancelled() -> None:
    """It is no failure of the tool."""
    started = anyio.Event()

    async def wait() -> None:
        started.set()
        await anyio.sleep_forever()

    registry = a_registry()
    registry.register_function(wait)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(registry.aexecute_tool, "wait", {})
        await started.wait()
        tasks.cancel_scope.cancel()
    assert registry.circuit_breaker.statuses() == {}


@pytest.mark.slow
def test_calls_from_many_threads() -> None:
    """Each gets its own answer, while tools come and go."""
    registry = a_registry(Plain(echo))
    barrier = threading.Barrier(8)

    def call(number: int) -> Any:
        barrier.wait(10)
        name = f"tool{number}"
        for _ in range(20):
            registry.register_function(lambda: number, name=name)
            assert registry.execute_tool(name, {}).data == {"output": number}
            assert name in registry.list_tools()
            registry.unregister(name)
        return registry.execute_tool("plain", {"number": number}).data["given"]["number"]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(call, range(8))) == list(range(8))


def test_the_cache_of_what_was_read() -> None:
    """By path; a copy of what was told."""
    registry = ToolRegistry()
    seen = {"file_mtime_ms": 1, "file_size_bytes": 2}
    registry.cache_read_metadata("a.py", seen)
    registry.cache_read_metadata("b.py", seen)
    seen["file_mtime_ms"] = 9
    assert registry.get_read_metadata("a.py") == {"file_mtime_ms": 1, "file_size_bytes": 2}
    registry.clear_read_cache("a.py")
    assert registry.get_read_metadata("a.py") is None
    assert registry.get_read_metadata("b.py") is not None
    registry.clear_read_cache("a.py")
    registry.clear_read_cache()
    assert registry.read_metadata_cache == {}


def test_registering_while_a_list_is_made() -> None:
    """Another thread may do so at any moment; here it does while a name is looked at, and the list is made all the same."""
    registry = ToolRegistry()
    others: list[str] = []

    class Name(str):
        __slots__ = ()

        def __hash__(self) -> int:
            if others:
                registry.register_function(len, others.pop())
            return super().__hash__()

    registry.register_function(len, Name("first"))
    registry.register_function(len, "second")
    others += ["third"]
    assert registry.list_tools()[:2] == ["first", "second"]
