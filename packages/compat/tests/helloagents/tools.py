"""Tools that several tests use: the document's own, and some that are asynchronous, old or broken."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio.lowlevel

from eagerstream_compat.helloagents import (
    Tool,
    ToolErrorCode,
    ToolParameter,
    ToolRegistry,
    ToolResponse,
    TraceLogger,
)


class MyTool(Tool):
    """As the document has it."""

    def __init__(self) -> None:
        super().__init__(name="MyTool", description="我的自定义工具")

    def run(self, parameters: dict[str, Any]) -> ToolResponse:
        try:
            if not parameters.get("input"):
                return ToolResponse.error(code=ToolErrorCode.INVALID_PARAM, message="参数 'input' 不能为空")
            result = self._do_work(parameters["input"])
            return ToolResponse.success(text=f"处理完成: {result}", data={"result": result})
        except FileNotFoundError:
            return ToolResponse.error(code=ToolErrorCode.NOT_FOUND, message="文件不存在")
        except Exception as e:
            return ToolResponse.error(code=ToolErrorCode.EXECUTION_ERROR, message=f"执行失败: {e!s}")

    def _do_work(self, given: Any) -> Any:
        if isinstance(given, str):
            return given.upper()
        raise TypeError("no text")

    def get_parameters(self) -> list[ToolParameter]:
        return [ToolParameter(name="input", type="string", description="输入内容", required=True)]


class Plain(Tool):
    """A tool whose `run` is any function of its parameters."""

    def __init__(
        self, run: Callable[[dict[str, Any]], Any], *parameters: ToolParameter, name: str = "plain", **more: Any
    ) -> None:
        super().__init__(name, "Does what it was given.", **more)
        self.called = 0
        self._does = run
        self._takes = list(parameters)

    def run(self, parameters: dict[str, Any]) -> ToolResponse | str | Awaitable[ToolResponse | str]:
        self.called += 1
        answer: ToolResponse | str | Awaitable[ToolResponse | str] = self._does(parameters)
        return answer

    def get_parameters(self) -> list[ToolParameter]:
        return self._takes


class Async(Plain):
    """A tool whose `run` is asynchronous, and really waits."""

    async def run(self, parameters: dict[str, Any]) -> ToolResponse:
        self.called += 1
        await anyio.lowlevel.checkpoint()
        response: ToolResponse = self._does(parameters)
        return response


def a_registry(*tools: Tool, **settings: Any) -> ToolRegistry:
    """A registry with these."""
    registry = ToolRegistry(**settings)
    for tool in tools:
        registry.register_tool(tool)
    return registry


def records(trace: TraceLogger) -> list[dict[str, Any]]:
    """The lines of a trace."""
    return [json.loads(line) for line in trace.jsonl_path.read_text("utf-8").splitlines()]


def failing(error: BaseException) -> Callable[[dict[str, Any]], ToolResponse]:
    """A `run` that raises."""

    def run(_: dict[str, Any]) -> ToolResponse:
        raise error

    return run
