"""Responses in one line, and responses from other values."""

from __future__ import annotations

from typing import Any

import pytest

from eagerstream import UsageError
from eagerstream.compat.helloagents import ToolResponse, ToolStatus, as_tool_response, render

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
