"""The programs of the document of the ToolResponse protocol, as they stand there: only the import lines are others.

Those of the built-in tools are elsewhere, and so is the document's `MyTool`, which many tests use.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from packages.compat.tests.helloagents.tools import MyTool
from tests.tables import rows

from eagerstream_compat.helloagents import Tool, ToolErrorCode, ToolParameter, ToolRegistry, ToolResponse, ToolStatus


def run_program(program: str, **names: Any) -> dict[str, Any]:
    """Run a program; the names that it has in the end."""
    exec(dedent(program), names)
    return names


REGISTERED = """
from eagerstream_compat.helloagents import ToolRegistry

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


Working = type("MyTool", (MyTool,), {"_do_work": work})
"""The document's class, with its work done."""


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
    names = run_program(REGISTERED, MyTool=Working)
    run_program(HANDLED, registry=names["registry"], parameters=parameters, ToolStatus=ToolStatus)
    assert capsys.readouterr().out == printed


def test_a_partial_response_is_handled(capsys: pytest.CaptureFixture[str]) -> None:
    """The third way."""

    class Partial(MyTool):
        def run(self, parameters: dict[str, Any]) -> ToolResponse:
            return ToolResponse.partial("前 100 条", reason="截断")

    names = run_program(REGISTERED, MyTool=Partial)
    run_program(HANDLED, registry=names["registry"], parameters={}, ToolStatus=ToolStatus)
    assert capsys.readouterr().out == "⚠️ 前 100 条\n"


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
