"""A response in one line for people, as the older programs show it."""

from __future__ import annotations

from typing import Literal, assert_never

from ...tools import ToolResponse, ToolStatus
from ...wire import check_choice


def render(response: ToolResponse, style: Literal["doc", "agent"] = "doc") -> str:
    """A response as text, its status first.

    Args:
        response: What a tool answered.
        style: `"doc"` as in the document of the protocol, `"agent"` as agents of HelloAgents hand it to their model: a
            success is its text alone there, and a partial one says what it is.

    Raises:
        UsageError: There is no such style.
    """
    check_choice("style", style, ("doc", "agent"))
    match response.status:
        case ToolStatus.SUCCESS:
            return response.text if style == "agent" else f"✅ {response.text}"
        case ToolStatus.PARTIAL:
            return f"⚠️ 部分成功: {response.text}" if style == "agent" else f"⚠️ {response.text}"
        case ToolStatus.ERROR:
            return f"❌ 错误 [{response.code}]: {response.text}"
        case _:
            assert_never(response.status)
