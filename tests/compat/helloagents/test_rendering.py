"""Responses in one line, and filters: what is small."""

from __future__ import annotations

from typing import Any

import pytest

from eagerstream import UsageError
from eagerstream.compat.helloagents import (
    CustomFilter,
    FullAccessFilter,
    ReadOnlyFilter,
    ToolFilter,
    ToolResponse,
    ToolStatus,
    as_tool_response,
    render,
)
from tests.tables import rows

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


# --- filters ----------------------------------------------------------------------------------------------------------

NAMES = ["Read", "GrepTool", "Write", "Bash", "ExecuteTool", "MyTool"]


@rows(
    "chosen, names",
    [
        (ReadOnlyFilter(), ["Read", "GrepTool"]),  # read only
        (ReadOnlyFilter(["MyTool"]), ["Read", "GrepTool", "MyTool"]),  # and one more
        (FullAccessFilter(), ["Read", "GrepTool", "Write", "MyTool"]),  # no commands
        (FullAccessFilter(["Write"]), ["Read", "GrepTool", "MyTool"]),  # and one less
        (CustomFilter(["Write", "Nobody"]), ["Write"]),  # some
        (CustomFilter(denied=["Write", "Bash"], mode="blacklist"), ["Read", "GrepTool", "ExecuteTool", "MyTool"]),  # others
        (CustomFilter(), []),  # none
    ],
)  # fmt: skip
def test_filters(chosen: ToolFilter, names: list[str]) -> None:
    """Each says the same of one name as of many, and keeps their order."""
    assert chosen.filter(NAMES) == names
    assert [name for name in NAMES if chosen.is_allowed(name)] == names


def test_both_spellings() -> None:
    """A listed tool with and without the suffix, and nothing else of the name."""
    read_only = ReadOnlyFilter()
    for name in ("Read", "LS", "Glob", "Grep", "Skill"):
        assert read_only.is_allowed(name)
        assert read_only.is_allowed(f"{name}Tool")
        assert not read_only.is_allowed(name.lower())
    for name in ("Bash", "Terminal", "Execute"):
        assert not FullAccessFilter().is_allowed(name)
        assert not FullAccessFilter().is_allowed(f"{name}Tool")


def test_a_mode_that_is_none() -> None:
    """It is told."""
    with pytest.raises(ValueError, match="graylist"):
        CustomFilter(mode="graylist")
