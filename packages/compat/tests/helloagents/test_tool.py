"""`Tool`: what `run` gives and raises becomes a response with its time, and its parameters become schemas."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from packages.compat.tests.helloagents.tools import Async, MyTool, Plain, failing
from tests.tables import rows

from eagerstream import ToolError, UsageError
from eagerstream_compat.helloagents import (
    CircuitBreaker,
    Tool,
    ToolErrorCode,
    ToolParameter,
    ToolRegistry,
    ToolResponse,
    ToolStatus,
    render,
)
from eagerstream_compat.helloagents._tool import as_tool_response

DONE = ToolResponse.success("done")


def test_a_tool_has_both_methods() -> None:
    """A class without one of them cannot be made an object of."""
    for missing in ("run", "get_parameters"):
        kind: Any = type("Half", (MyTool,), {missing: getattr(Tool, missing)})
        with pytest.raises(TypeError, match=missing):
            kind()
    assert repr(MyTool()) == "Tool(name=MyTool)"
    assert MyTool().expandable is False
    assert MyTool().get_expanded_tools() is None


def test_timing() -> None:
    """A response bears its time and its input; what the tool itself says of its time and its context stays."""
    given = {"input": "a"}
    response = MyTool().run_with_timing(given)
    assert (response.status, response.text, response.data) == (ToolStatus.SUCCESS, "处理完成: A", {"result": "A"})
    assert response.context == {"params_input": given, "tool_name": "MyTool"}
    assert response.stats is not None
    assert type(response.stats["time_ms"]) is int
    assert response.stats["time_ms"] >= 0

    own = ToolResponse.success("x", stats={"time_ms": 7, "count": 1}, context={"where": "here", "tool_name": "?"})
    response = Plain(lambda _: own).run_with_timing({})
    assert response.stats == {"time_ms": 7, "count": 1, "wall_ms": response.stats and response.stats["wall_ms"]}
    assert response.context == {"where": "here", "params_input": {}, "tool_name": "plain"}
    assert own.stats == {"time_ms": 7, "count": 1}  # a tool may give the same response twice


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        pytest.param(RuntimeError("boom"), "INTERNAL_ERROR", "boom", id="any"),
        pytest.param(ValueError(), "INTERNAL_ERROR", "ValueError", id="without words"),
        pytest.param(FileNotFoundError("a.txt"), "NOT_FOUND", "a.txt", id="one with a code"),
        pytest.param(PermissionError("no"), "PERMISSION_DENIED", "no", id="another"),
        pytest.param(ConnectionError("gone"), "NETWORK_ERROR", "gone", id="network"),
    ],
)
@pytest.mark.anyio
async def test_exceptions(error: Exception, code: str, said: str) -> None:
    """What `run` raises is an error response, by both ways; its code is the one that the exception stands for."""
    tool = Plain(failing(error))
    for response in (tool.run_with_timing({"a": 1}), await tool.arun_with_timing({"a": 1})):
        assert response.status is ToolStatus.ERROR
        assert response.code == code
        assert response.text == f"工具执行时发生未处理的异常: {said}"
        assert response.error_info == {"code": code, "message": response.text}
        assert response.stats is not None
        assert set(response.stats) == {"time_ms"}
        assert response.context == {"params_input": {"a": 1}, "tool_name": "plain"}


def test_an_error_that_was_made_for_the_model() -> None:
    """It speaks for itself."""
    response = Plain(failing(ToolError("try b.txt", code=ToolErrorCode.NOT_FOUND))).run_with_timing({})
    assert (response.code, response.text) == ("NOT_FOUND", "try b.txt")


def test_no_traceback_is_told() -> None:
    """An exception may quote one, and may have no text at all."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    told = Plain(
        failing(RuntimeError('Traceback (most recent call last):\n  File "/a.py", line 1\nE: x'))
    ).run_with_timing({})
    assert "/a.py" not in told.text
    assert Plain(failing(Mute())).run_with_timing({}).text == "工具执行时发生未处理的异常: Mute"


def test_an_asynchronous_run_is_waited_for() -> None:
    """By a plain call too: on an event loop of its own."""
    tool = Async(lambda given: ToolResponse.success(given["a"]))
    assert tool.run_with_timing({"a": "b"}).text == "b"


def test_an_asynchronous_run_in_a_thread() -> None:
    """Where the thread has no event loop, an asynchronous tool can be called, whatever other threads do."""
    tool = Async(lambda _: DONE)

    async def main() -> ToolResponse:
        return await anyio.to_thread.run_sync(tool.run_with_timing, {})

    for backend in ("asyncio", "trio"):
        assert anyio.run(main, backend=backend).text == "done"


@pytest.mark.anyio
async def test_an_asynchronous_run_cannot_be_waited_for_in_an_event_loop() -> None:
    """A plain call is refused, and says what to await; the tool is not run at all."""
    tool = Async(lambda _: DONE)
    with pytest.raises(UsageError, match="aexecute_tool"):
        tool.run_with_timing({})
    assert tool.called == 0
    assert (await tool.arun_with_timing({})).text == "done"


class Later:
    """What can be awaited, and is no coroutine."""

    def __await__(self) -> Generator[Any, Any, ToolResponse]:
        yield from anyio.lowlevel.checkpoint().__await__()
        return DONE


@pytest.mark.anyio
async def test_whatever_can_be_awaited() -> None:
    """It is waited for as an `async def` is."""
    tool = Plain(lambda _: Later())
    assert (await tool.arun_with_timing({})).text == "done"
    assert (await anyio.to_thread.run_sync(tool.run_with_timing, {})).text == "done"
    with pytest.raises(UsageError, match="aexecute_tool"):
        tool.run_with_timing({})


@pytest.mark.anyio
async def test_a_plain_run_does_not_block_the_event_loop() -> None:
    """It runs in a thread, while others go on."""
    go_on = threading.Event()
    answers = []

    def wait(_: dict[str, Any]) -> ToolResponse:
        return DONE if go_on.wait(10) else ToolResponse.error("TIMEOUT", "the loop was blocked")

    async def call() -> None:
        answers.append(await Plain(wait).arun({}))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await anyio.lowlevel.checkpoint()
        go_on.set()
    assert answers == [DONE]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [Plain, Async])
async def test_cancelling(kind: type[Plain]) -> None:
    """A thread is left to itself, and nobody waits for it; an asynchronous tool is cancelled."""
    release = threading.Event()
    started = anyio.Event()
    ended: list[str] = []

    def wait(_: dict[str, Any]) -> ToolResponse:
        anyio.from_thread.run_sync(started.set)
        release.wait(30)
        return DONE

    class Waits(Async):
        async def run(self, _: dict[str, Any]) -> ToolResponse:
            try:
                started.set()
                await anyio.sleep_forever()
            finally:
                ended.append("cancelled")
            return DONE

    tool = Waits(wait) if kind is Async else Plain(wait)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tool.arun_with_timing, {})
            await started.wait()
            tasks.cancel_scope.cancel()
    finally:
        release.set()
    assert ended == (["cancelled"] if kind is Async else [])


@pytest.mark.anyio
async def test_the_older_protocol() -> None:
    """A text is a success, and told once as deprecated, with the class that gave it."""
    tool = Plain(lambda _: "文件内容: x")
    with pytest.warns(DeprecationWarning, match=r"Plain\.run returning str is deprecated: return a ToolResponse"):
        response = tool.run_with_timing({})
    assert (response.status, response.text, response.data) == ("success", "文件内容: x", {"output": "文件内容: x"})
    assert (await tool.arun_with_timing({})).text == "文件内容: x"  # not told again: warnings are errors here


def test_arun_of_its_own_is_called() -> None:
    """A tool that can be asynchronous overrides it."""

    class Both(MyTool):
        async def arun(self, _: dict[str, Any]) -> ToolResponse:
            return ToolResponse.success("asynchronous")

    assert anyio.run(Both().arun_with_timing, {}).text == "asynchronous"
    assert Both().run_with_timing({}).status == "error"


PARAMETERS = (
    ToolParameter("query", "string", "What to look for."),
    ToolParameter("limit", "integer", "How many.", required=False, default=10),
    ToolParameter("tags", "array", "All of them.", required=False),
    ToolParameter("scale", "float", "", required=False, default=float("nan")),
    ToolParameter("extra", "any", "Anything.", required=False),
)


def test_as_plain_data() -> None:
    """Every field of every parameter."""
    plain = Plain(lambda _: DONE, PARAMETERS[0], PARAMETERS[1]).to_dict()
    assert plain == {
        "name": "plain",
        "description": "Does what it was given.",
        "parameters": [
            {"name": "query", "type": "string", "description": "What to look for.", "required": True, "default": None},
            {"name": "limit", "type": "integer", "description": "How many.", "required": False, "default": 10},
        ],
    }


def test_as_a_definition_for_the_messages_api() -> None:
    """Types of Python are those of JSON schema; what has none, or no JSON form, is left out."""
    assert Plain(lambda _: DONE, *PARAMETERS).to_anthropic() == {
        "name": "plain",
        "description": "Does what it was given.",
        "input_schema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer", "description": "How many.", "default": 10},
                "tags": {"type": "array", "description": "All of them."},
                "scale": {"type": "number"},
                "extra": {"description": "Anything."},
            },
            "required": ["query"],
        },
    }


def test_a_schema_that_a_parameter_brings() -> None:
    """It says what the type cannot; nobody who gets one can change it."""
    schema = {"items": {"type": "object", "required": ["old"]}, "minItems": 1}
    parameter = ToolParameter("edits", "array", "All.", json_schema=schema)
    tool = Plain(lambda _: DONE, parameter)
    told = {"type": "array", "description": "All.", **schema}
    for _ in range(2):
        form = tool.to_anthropic()["input_schema"]
        assert form["properties"] == {"edits": told}
        form["properties"]["edits"]["items"].clear()
    assert tool.to_dict()["parameters"][0]["json_schema"] == schema


def test_required_parameters() -> None:
    """Their names have to be there, whatever is in them."""
    tool = Plain(lambda _: DONE, *PARAMETERS)
    assert tool.validate_parameters({"query": None})
    assert not tool.validate_parameters({"limit": 3})


def test_a_class_that_does_not_call_the_constructor() -> None:
    """HelloAgents takes it: its name and its description are all that a tool needs."""

    class Bare(MyTool):
        name = "bare"
        description = "Has no constructor's settings."

        def __init__(self) -> None: ...

    registry = ToolRegistry()
    registry.register_tool(Bare())
    assert registry.execute_tool("bare", {"input": "a"}).text == "处理完成: A"


@dataclass
class Own(ToolResponse):
    """A response of a program's own."""

    def __init__(self, text: str) -> None:
        super().__init__(ToolStatus.SUCCESS, text)


def set_to(**attributes: Any) -> ToolResponse:
    response = Own("done")
    vars(response).update(attributes)
    return response


@pytest.mark.anyio
async def test_responses_of_a_class_of_its_own() -> None:
    """They stay of it, whatever its constructor takes; what was set afterwards is checked as if it had been given."""
    registry = ToolRegistry(CircuitBreaker(enabled=False))
    registry.register_tool(Plain(lambda given: set_to(**given)))
    for response in (registry.execute_tool("plain", {}), await registry.aexecute_tool("plain", {})):
        assert (type(response), response.text, "time_ms" in (response.stats or {})) == (Own, "done", True)
    response = registry.execute_tool("plain", {"status": "error", "error_info": "no dict"})
    assert response.error_info == {"code": "UNKNOWN", "message": "no dict"}
    for text, said in ((5, "5"), (None, ""), (["a"], "['a']")):
        assert registry.execute_tool("plain", {"text": text}).text == said
    for wrong in ({"status": "well"}, {"stats": 5}, {"context": 5}):
        assert registry.execute_tool("plain", wrong).code == "EXECUTION_ERROR"


async def awaited_steps(_: dict[str, Any]) -> AsyncIterator[ToolResponse | int]:
    yield 1
    await anyio.lowlevel.checkpoint()
    yield DONE


def steps(_: dict[str, Any]) -> Iterator[ToolResponse | int]:
    yield 1
    yield DONE


@rows("run", [awaited_steps, steps])
def test_generators(run: Any) -> None:
    """The last value counts, whichever way it is called."""
    tool = Plain(run)
    for response in (tool.run_with_timing({}), anyio.run(tool.arun_with_timing, {})):
        assert response.text == "done"


def test_a_way_of_its_own_to_take_the_time() -> None:
    """What that gives becomes a response as well, instead of failing beside the registry's answers."""
    tool = Plain(lambda _: DONE)
    vars(tool)["run_with_timing"] = lambda _: "text"
    registry = ToolRegistry()
    registry.register_tool(tool)
    assert registry.execute_tool("plain", {}) == ToolResponse.success("text", {"output": "text"})


# --- responses as text ---------------------------------------------------------------------------------------------------

SUCCESS = ToolResponse.success("找到 3 个文件")
PARTIAL = ToolResponse.partial("前 100 条", reason="截断")
ERROR = ToolResponse.error("NOT_FOUND", "文件不存在")


def test_in_one_line() -> None:
    """As the document shows them, and as agents hand them to their model."""
    assert [render(each) for each in (SUCCESS, PARTIAL, ERROR)] == [
        "✅ 找到 3 个文件",
        "⚠️ 前 100 条",
        "❌ 错误 [NOT_FOUND]: 文件不存在",
    ]
    assert [render(each, style="agent") for each in (SUCCESS, PARTIAL, ERROR)] == [
        "找到 3 个文件",
        "⚠️ 部分成功: 前 100 条",
        "❌ 错误 [NOT_FOUND]: 文件不存在",
    ]
    assert render(ToolResponse(ToolStatus.ERROR, "x")) == "❌ 错误 [UNKNOWN]: x"
    wrong: Any = "plain"
    with pytest.raises(UsageError, match="plain"):
        render(SUCCESS, wrong)


def test_a_response_from_anything() -> None:
    """A response is one already; of anything else it is the text."""
    assert as_tool_response(PARTIAL) is PARTIAL
    made = as_tool_response("计算结果: 5")
    assert (made.status, made.text, made.data) == ("success", "计算结果: 5", {"output": "计算结果: 5"})
    assert as_tool_response({"a": 1}).data == {"output": {"a": 1}}
