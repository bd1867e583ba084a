"""The programs of the document of the ToolResponse protocol, as they stand there: only the import lines are others.

Those of the built-in tools are elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream.compat.helloagents import Tool, ToolErrorCode, ToolParameter, ToolRegistry, ToolResponse, ToolStatus
from eagerstream.testing import ReplayServer, Scenario, reply, text, tool_use
from tests.support import REQUEST, anthropic_client
from tests.tables import rows


def run_program(program: str, **names: Any) -> dict[str, Any]:
    """Run a program; the names that it has in the end."""
    exec(dedent(program), names)
    return names


MY_TOOL = """
from eagerstream.compat.helloagents import Tool, ToolParameter
from eagerstream.compat.helloagents import ToolResponse
from eagerstream.compat.helloagents import ToolErrorCode
from typing import Dict, Any, List

class MyTool(Tool):
    def __init__(self):
        super().__init__(
            name="MyTool",
            description="我的自定义工具"
        )

    def run(self, parameters: Dict[str, Any]) -> ToolResponse:
        try:
            # 1. 参数验证
            if not parameters.get("input"):
                return ToolResponse.error(
                    code=ToolErrorCode.INVALID_PARAM,
                    message="参数 'input' 不能为空"
                )

            # 2. 执行业务逻辑
            result = self._do_work(parameters["input"])

            # 3. 返回成功响应
            return ToolResponse.success(
                text=f"处理完成: {result}",
                data={"result": result}
            )
        except FileNotFoundError:
            return ToolResponse.error(
                code=ToolErrorCode.NOT_FOUND,
                message="文件不存在"
            )
        except Exception as e:
            return ToolResponse.error(
                code=ToolErrorCode.EXECUTION_ERROR,
                message=f"执行失败: {str(e)}"
            )

    def get_parameters(self) -> List[ToolParameter]:
        return [
            ToolParameter(
                name="input",
                type="string",
                description="输入内容",
                required=True
            )
        ]
"""
"""The document leaves out `_do_work`."""

REGISTERED = """
from eagerstream.compat.helloagents import ToolRegistry

# 注册工具
registry = ToolRegistry()
registry.register_tool(MyTool())
"""

HANDLED = """
# Agent 执行工具
tool_response = registry.execute_tool("MyTool", parameters)

# 根据状态处理
if tool_response.status == ToolStatus.SUCCESS:
    # 成功:继续执行
    print(f"✅ {tool_response.text}")
elif tool_response.status == ToolStatus.PARTIAL:
    # 部分成功:提示 Agent 注意
    print(f"⚠️ {tool_response.text}")
elif tool_response.status == ToolStatus.ERROR:
    # 错误:明确提示错误码和信息
    error_code = tool_response.error_info.get("code")
    print(f"❌ 错误 [{error_code}]: {tool_response.text}")
"""


def work(_: Tool, given: str) -> str:
    """What the document leaves to the reader."""
    if given == "missing":
        raise FileNotFoundError
    if given == "broken":
        raise RuntimeError("坏了")
    return given.upper()


def my_tool() -> type[Tool]:
    """The document's class, with its work done."""
    kind: type[Tool] = run_program(MY_TOOL)["MyTool"]
    return type("MyTool", (kind,), {"_do_work": work})


@rows(
    "parameters, printed",
    [
        ({"input": "abc"}, "✅ 处理完成: ABC\n"),
        ('{"input": "abc"}', "✅ 处理完成: ABC\n"),
        ("abc", "✅ 处理完成: ABC\n"),
        ({}, "❌ 错误 [INVALID_PARAM]: 参数 'input' 不能为空\n"),
        ({"input": "missing"}, "❌ 错误 [NOT_FOUND]: 文件不存在\n"),
        ({"input": "broken"}, "❌ 错误 [EXECUTION_ERROR]: 执行失败: 坏了\n"),
    ],
)
def test_my_tool_and_what_an_agent_does(parameters: object, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The tool, its registration, and the three ways in which a response is handled."""
    names = run_program(REGISTERED, MyTool=my_tool())
    run_program(HANDLED, registry=names["registry"], parameters=parameters, ToolStatus=ToolStatus)
    assert capsys.readouterr().out == printed


def test_a_partial_response_is_handled(capsys: pytest.CaptureFixture[str]) -> None:
    """The third way."""

    class Partial(my_tool()):  # type: ignore[misc]
        def run(self, parameters: dict[str, Any]) -> ToolResponse:
            return ToolResponse.partial("前 100 条", reason="截断")

    names = run_program(REGISTERED, MyTool=Partial)
    run_program(HANDLED, registry=names["registry"], parameters={}, ToolStatus=ToolStatus)
    assert capsys.readouterr().out == "⚠️ 前 100 条\n"


@pytest.mark.anyio
async def test_an_agent() -> None:
    """In place of `agent.run("使用 MyTool 处理数据")`: the library's loop, with the registry's tools."""
    registry: ToolRegistry = run_program(REGISTERED, MyTool=my_tool())["registry"]
    turns = (
        reply(text("我来处理。"), tool_use("MyTool", {"input": ""})),
        reply(tool_use("MyTool", {"input": "data"})),
        reply(text("处理完成: DATA")),
    )
    message = {"role": "user", "content": "使用 MyTool 处理数据"}
    async with ReplayServer(Scenario(*turns), speed=float("inf")) as server:
        async with anthropic_client(server.base_url) as client:
            with anyio.fail_after(20):
                async with eagerstream.run(
                    client, **{**REQUEST, "messages": [message], "tools": registry.to_tools()}
                ) as run:
                    await run.finish()
    result = run.result
    assert result.status is eagerstream.RunStatus.COMPLETED
    assert eagerstream.validate_history(result.messages) == []
    assert [call.response and call.response.status for call in result.calls] == ["error", "success"]
    answers = [message["content"][0] for message in result.messages[1:] if message["role"] == "user"]
    assert [(answer["content"], answer.get("is_error")) for answer in answers] == [
        ("[INVALID_PARAM] 参数 'input' 不能为空", True),
        ("处理完成: DATA", None),
    ]
    assert result.messages[-1]["content"][0]["text"] == "处理完成: DATA"


OLD_TOOL = """
class OldTool(Tool):
    def run(self, parameters: Dict[str, Any]) -> str:
        if not parameters.get("path"):
            return "错误: 参数 'path' 不能为空"
        try:
            content = read_file(parameters["path"])
            return f"文件内容: {content}"
        except FileNotFoundError:
            return "错误: 文件不存在"
"""

NEW_TOOL = """
class NewTool(Tool):
    def run(self, parameters: Dict[str, Any]) -> ToolResponse:
        # 参数验证
        if not parameters.get("path"):
            return ToolResponse.error(
                code=ToolErrorCode.INVALID_PARAM,
                message="参数 'path' 不能为空"
            )

        # 执行逻辑
        try:
            content = read_file(parameters["path"])
            return ToolResponse.success(
                text=f"文件读取成功",
                data={"content": content, "path": parameters["path"]}
            )
        except FileNotFoundError:
            return ToolResponse.error(
                code=ToolErrorCode.NOT_FOUND,
                message=f"文件 '{parameters['path']}' 不存在"
            )
"""

DETECTED = """
response = tool.run(parameters)
if isinstance(response, ToolResponse):
    # 支持新协议
    print(response.status)
else:
    # 旧协议(字符串)
    print(response)
"""


def a_tool(program: str, name: str) -> Tool:
    """An object of the document's class, which leaves its parameters out."""
    needed = {"Tool": Tool, "ToolResponse": ToolResponse, "ToolErrorCode": ToolErrorCode, "Any": Any, "Dict": dict}
    kind: type[Tool] = run_program(program, read_file=lambda path: Path(path).read_text(), **needed)[name]
    path = ToolParameter("path", "string", "文件路径")
    complete: Any = type(name, (kind,), {"get_parameters": lambda _: [path]})
    tool: Tool = complete(name=name, description="读取文件")
    return tool


def test_the_older_tool(tmp_path: Path) -> None:
    """It answers in texts, which say neither success nor failure: both are a success, and that is told once."""
    (tmp_path / "a.txt").write_text("内容")
    registry = ToolRegistry()
    registry.register_tool(a_tool(OLD_TOOL, "OldTool"))
    with pytest.warns(DeprecationWarning, match="OldTool"):
        response = registry.execute_tool("OldTool", {"path": str(tmp_path / "a.txt")})
    assert (response.status, response.text) == (ToolStatus.SUCCESS, "文件内容: 内容")
    assert registry.execute_tool("OldTool", {"path": str(tmp_path / "b.txt")}).text == "错误: 文件不存在"
    assert registry.execute_tool("OldTool", {}).status is ToolStatus.SUCCESS


def test_the_newer_tool(tmp_path: Path) -> None:
    """Its responses say what happened."""
    (tmp_path / "a.txt").write_text("内容")
    registry = ToolRegistry()
    registry.register_tool(a_tool(NEW_TOOL, "NewTool"))
    path = str(tmp_path / "a.txt")
    response = registry.execute_tool("NewTool", {"path": path})
    assert (response.text, response.data) == ("文件读取成功", {"content": "内容", "path": path})
    response = registry.execute_tool("NewTool", {"path": f"{path}x"})
    assert (response.code, response.text) == ("NOT_FOUND", f"文件 '{path}x' 不存在")
    response = registry.execute_tool("NewTool", {})
    assert (response.code, response.text) == ("INVALID_PARAM", "参数 'path' 不能为空")


@rows(
    "program, name, printed",
    [
        (OLD_TOOL, "OldTool", "错误: 参数 'path' 不能为空\n"),
        (NEW_TOOL, "NewTool", f"{ToolStatus.ERROR}\n"),
    ],
)
def test_which_protocol(program: str, name: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What `run` gives shows it."""
    run_program(DETECTED, tool=a_tool(program, name), parameters={}, ToolResponse=ToolResponse)
    assert capsys.readouterr().out == printed


RESPONSES = """
from eagerstream.compat.helloagents import ToolResponse

# 简单成功响应
simple = ToolResponse.success(
    text="文件读取成功",
    data={"content": "Hello World", "size": 11}
)

# 带统计信息
with_stats = ToolResponse.success(
    text="搜索完成,找到 3 条结果",
    data={"results": [...]},
    stats={"time_ms": 245, "count": 3}
)

from eagerstream.compat.helloagents import ToolErrorCode

# 文件不存在
not_found = ToolResponse.error(
    code=ToolErrorCode.NOT_FOUND,
    message="文件 'config.py' 不存在"
)

# 参数无效
invalid = ToolResponse.error(
    code=ToolErrorCode.INVALID_PARAM,
    message="参数 'path' 不能为空"
)

# 结果被截断
results = list(range(500))
partial = ToolResponse.partial(
    text="搜索结果(前 100 条)",
    data={"results": results[:100], "total": 500},
    reason="结果过多,已截断"
)
"""


def test_responses() -> None:
    """Each constructor as the document calls it; an error has its information, the others have none."""
    made = run_program(RESPONSES)
    assert made["simple"] == ToolResponse(ToolStatus.SUCCESS, "文件读取成功", {"content": "Hello World", "size": 11})
    assert made["with_stats"].stats == {"time_ms": 245, "count": 3}
    assert made["not_found"].error_info == {"code": "NOT_FOUND", "message": "文件 'config.py' 不存在"}
    assert made["invalid"].code == "INVALID_PARAM"
    assert made["partial"].reason == "结果过多,已截断"
    assert made["partial"].data == {"results": list(range(100)), "total": 500}
    for name in ("simple", "with_stats", "not_found", "invalid", "partial"):
        assert (made[name].error_info is not None) == (made[name].status == ToolStatus.ERROR)


CODES = """
NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED INVALID_PARAM INVALID_FORMAT EXECUTION_ERROR TIMEOUT CONFLICT CIRCUIT_OPEN
RATE_LIMIT NETWORK_ERROR SERVICE_UNAVAILABLE PARTIAL_SUCCESS DEPRECATED UNKNOWN
"""


def test_codes() -> None:
    """The fifteen of the document, in its order."""
    assert ToolErrorCode.get_all_codes() == CODES.split()
    assert all(getattr(ToolErrorCode, code) == code for code in CODES.split())


MY_FUNCTION = """
def my_function(x: int) -> str:
    return f"结果: {x * 2}"
registry.register_function(my_function)
"""


def test_a_function() -> None:
    """It is wrapped."""
    registry = ToolRegistry()
    run_program(MY_FUNCTION, registry=registry)
    for given in ({"x": 2}, 2, "2", '{"x": 2}'):
        response = registry.execute_tool("my_function", given)
        assert (response.status, response.text, response.data) == ("success", "结果: 4", {"output": "结果: 4"})
