"""`@tool_action`: an expandable tool gives its marked methods as tools."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from tests.tables import rows

from eagerstream import UsageError
from eagerstream_compat.helloagents import (
    Tool,
    ToolErrorCode,
    ToolParameter,
    ToolRegistry,
    ToolResponse,
    tool_action,
)


class Memory(Tool):
    """A tool with sub-tools."""

    def __init__(self, expandable: bool = True) -> None:
        super().__init__("memory", "记忆", expandable=expandable)
        self.notes: list[str] = []

    @tool_action("memory_add", "添加新记忆")
    def _add(self, content: str, importance: float = 0.5, tags: list[str] | None = None) -> str:
        """Add.

        Args:
            content: 记忆内容
            importance (float): 重要性分数
        """
        self.notes.append(content)
        return f"{content} {importance} {tags}"

    @tool_action()
    async def _count_all(self, kind: Literal["long", "short"] = "long") -> ToolResponse:
        """
        Count the notes.

        Returns:
            How many.
        """
        return ToolResponse.success(f"{len(self.notes)} {kind}", {"count": len(self.notes)})

    @tool_action()
    def forget(self, number: int) -> str:
        raise FileNotFoundError(number) if number else RuntimeError("none")

    @property
    def broken(self) -> str:
        raise RuntimeError("looking for methods must not read properties")

    def run(self, parameters: dict[str, Any]) -> ToolResponse:
        return ToolResponse.success(f"whole: {parameters}")

    def get_parameters(self) -> list[ToolParameter]:
        return []


def expanded() -> dict[str, Tool]:
    """The sub-tools by name."""
    return {tool.name: tool for tool in Memory().get_expanded_tools() or ()}


def test_names_and_descriptions() -> None:
    """As given, or from the method and its docstring."""
    assert {name: tool.description for name, tool in expanded().items()} == {
        "memory_add": "添加新记忆",
        "memory_count_all": "Count the notes.",
        "memory_forget": "执行 forget",
    }


def test_descriptions_skip_section_headers() -> None:
    """`Args:` and `Returns:` describe nothing: the first other line counts, and the method's name if there is none."""

    class Notes(Memory):
        @tool_action()
        def first(self) -> str:
            """Args:
            Returns: a text.
            Read the notes.
            """
            return ""

        @tool_action()
        def second(self) -> str:
            """Returns: a text."""
            return ""

    made = {tool.name: tool.description for tool in Notes().get_expanded_tools() or ()}
    assert (made["memory_first"], made["memory_second"]) == ("Read the notes.", "执行 second")


def test_what_is_not_expandable() -> None:
    """It has no sub-tools, and neither has one without marks."""
    assert Memory(expandable=False).get_expanded_tools() is None

    class Bare(Memory):
        _add = _count_all = forget = None  # type: ignore[assignment]

    assert Bare().get_expanded_tools() is None


def test_parameters() -> None:
    """From the signature, with the docstring's words; the whole schema for the model."""
    tools = expanded()
    assert [each.to_dict() for each in tools["memory_add"].get_parameters()] == [
        {"name": "content", "type": "string", "description": "记忆内容", "required": True, "default": None},
        {"name": "importance", "type": "number", "description": "重要性分数", "required": False, "default": 0.5},
        {"name": "tags", "type": "array", "description": "参数 tags", "required": False, "default": None},
    ]
    assert tools["memory_count_all"].to_anthropic()["input_schema"]["properties"] == {
        "kind": {"type": "string", "enum": ["long", "short"], "default": "long"}
    }


def test_calls() -> None:
    """They run on the tool's own state; a text is a success, and no older protocol."""
    registry = ToolRegistry()
    registry.register_tool(Memory())
    assert registry.list_tools() == ["memory_add", "memory_count_all", "memory_forget"]
    response = registry.execute_tool("memory_add", {"content": "a", "importance": "0.9"})
    assert (response.text, response.data) == ("a 0.9 None", {"output": "a 0.9 None"})
    assert response.context == {
        "tool_name": "memory_add",
        "params_input": {"content": "a", "importance": "0.9"},
    }
    assert registry.execute_tool("memory_count_all", "{}").data == {"count": 1}


@rows("number, code, said", [(0, "EXECUTION_ERROR", "none"), (7, "NOT_FOUND", "7")])
def test_failures(number: int, code: str, said: str) -> None:
    """A sub-tool's own `run` answers them."""
    response = expanded()["memory_forget"].run({"number": number})
    assert isinstance(response, ToolResponse)
    assert (response.code, response.text) == (code, f"方法执行失败: {said}")


def test_a_registry_need_not_expand() -> None:
    """Then the tool is one."""
    registry = ToolRegistry()
    registry.register_tool(Memory(), auto_expand=False)
    assert registry.list_tools() == ["memory"]
    assert registry.execute_tool("memory", "x").text == "whole: {'input': 'x'}"
    assert registry.execute_tool("memory_add", "x").code == ToolErrorCode.NOT_FOUND


def test_the_mark_has_parentheses() -> None:
    """Without them, the method would be lost without a word."""
    mark: Any = tool_action
    with pytest.raises(UsageError, match="parentheses"):
        mark(lambda self: None)
