"""Conversion of tools: eagerstream's for LangChain, and LangChain's for eagerstream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, Unpack

from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, InjectedToolCallId, ToolException
from langchain_core.utils.function_calling import convert_to_openai_function
from pydantic import BaseModel, Field, PrivateAttr
from pydantic.fields import FieldInfo

from eagerstream._support.terms import EAGER_FIELD, IN_DEFINITION
from eagerstream.calls import EarlyCalls
from eagerstream.errors import ToolError, UsageError
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.tools import ForeignDefinition, ForeignTool, RunningCall, Tool, ToolOptions, ToolResponse, as_tool

from .._calls import run_call
from ._conversations import Conversations
from ._messages import artifact_of, content_of, response_of_message
from ._telling import Telling

VERBATIM: Final = "provider_tool_definition"
"""Extra with a definition that ChatAnthropic sends unchanged. Other chat models use the tool's name and schema."""

_READ_ONLY: Final = ("readOnlyHint", "read_only_hint")
"""MCP's hint, in the spellings of versions 1 and 2 of the package mcp."""


class EagerTool(BaseTool):
    """LangChain tool that runs an eagerstream tool; see `as_langchain_tool`.

    Attributes:
        tool: The eagerstream tool.
        limits: Bounds of its calls.
    """

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: bool | str | Callable[[ToolException], str | Sequence[str | dict[str, Any]]] | None = True
    tool: Tool = Field(exclude=True, repr=False)
    limits: Limits = Field(default=DEFAULT_LIMITS, exclude=True, repr=False)
    _conversations: Conversations = PrivateAttr(default_factory=Conversations)

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if isinstance(tool_input, str):  # LangChain refuses it with its own error
            return super()._to_args_and_kwargs(tool_input, tool_call_id)
        return (), {"arguments": tool_input, "tool_call_id": tool_call_id}

    async def _arun(self, *, arguments: dict[str, Any], tool_call_id: str | None) -> tuple[Any, dict[str, Any] | None]:
        told = Telling()
        run = self._conversations.of(ensure_config())
        calls = EarlyCalls([self.tool], limits=self.limits, on_progress=told.progress, **run)
        call = await run_call(calls, tool_call_id, self.tool.name, arguments)
        if call.is_error:
            raise ToolException(content_of(call)) from call.error
        return content_of(call), artifact_of(call)

    def _run(self, *, arguments: dict[str, Any], tool_call_id: str | None) -> tuple[Any, dict[str, Any] | None]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._arun(arguments=arguments, tool_call_id=tool_call_id))
        raise UsageError(f"{self.name}: invoke() would block the running event loop: use ainvoke()")


def as_langchain_tool(tool: ForeignTool, *, limits: Limits = DEFAULT_LIMITS, **options: Any) -> EagerTool:
    """Return an eagerstream tool as a LangChain tool, for `bind_tools`, `ToolNode` and agents.

    ChatAnthropic sends the definition unchanged, with `eager_input_streaming`. Other chat models get the name,
    description and schema. A call runs as in `eagerstream.run`: the input is checked, and `approve`, `guard`, groups
    and time limits apply. A parameter of the type `RunningCall` gets the call, with LangChain's id. Progress goes to
    LangGraph's `stream_mode="custom"`. The message's `artifact` is the data of the response. State that the tool keeps
    lasts as long as for `EarlyToolsNode`.

    `invoke` runs the tool on a new event loop. In a thread with a running event loop, it raises `UsageError`.
    Cancelling `ainvoke` cancels the tool.

    Args:
        tool: The tool, or a tool of another library that `eagerstream.run` accepts.
        limits: Bounds of its calls.
        options: Fields of `BaseTool`. By default, `handle_tool_error=True`: an error result becomes a message with
            `status="error"`. With `False`, it raises `ToolException`.

    Raises:
        UsageError: The tool cannot be run, or it is a toolset. LangChain cannot mark calls of a toolset's members.
    """
    ours = as_tool(tool)
    if ours is None or ours.toolset is not None:
        raise UsageError(f"{getattr(tool, 'name', 'this')} cannot be a LangChain tool: it is not a single function")
    schema = {"type": "object", "properties": {}, **ours.input_schema}
    extras = {VERBATIM: ours.to_dict(), **(options.pop("extras", None) or {})}
    fields: dict[str, Any] = {"description": ours.description} | options
    return EagerTool(tool=ours, limits=limits, name=ours.name, args_schema=schema, extras=extras, **fields)


def from_langchain_tool(tool: BaseTool, **options: Unpack[ToolOptions]) -> Tool:
    """Return a LangChain tool as an eagerstream tool, for `eagerstream.run`, `EarlyCalls` and `Conversation`.

    It runs with `ainvoke` and the id of the call, so LangChain's callbacks see it. The artifact of its message becomes
    the data of its response. The text of a `ToolException` becomes the error result. If `read_only` is missing, it is
    taken from the hints of an MCP server, which langchain-mcp-adapters keeps in the tool's metadata.

    Args:
        tool: The tool. Only `EarlyToolsNode` and LangGraph's `ToolNode` can inject values of a graph.
        options: As for `eagerstream.tool`, without the options of the definition. The tool and its `extras` provide the
            definition.

    Raises:
        UsageError: The tool requires an argument that neither the model nor the id of the call provides, or its schema
            cannot be used.
    """
    if isinstance(tool, EagerTool):
        return tool.tool
    full, asked = _fields(tool.get_input_schema()), _fields(tool.tool_call_schema)
    wanted = {  # required, and neither the model nor the id of a call provides it
        name
        for name, field in full.items()
        if name not in asked
        and field.is_required()
        and not any(mark is InjectedToolCallId or isinstance(mark, InjectedToolCallId) for mark in field.metadata)
    }
    wanted |= getattr(tool, "_injected_args_keys", frozenset()) - full.keys()
    if wanted:
        raise UsageError(f"{tool.name} needs {', '.join(sorted(wanted))} from a graph: pass the tool to EarlyToolsNode")

    async def run(arguments: dict[str, Any], call: RunningCall) -> ToolResponse:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("LangChain runs its tools only on asyncio") from None
        try:
            returned = await tool.ainvoke(wanted_call(call, arguments))
        except ToolException as error:
            raise ToolError(str(error)) from error
        if not isinstance(returned, ToolMessage):
            told = f"{tool.name} returned {type(returned).__name__}, which only a graph can apply"
            raise UsageError(f"{told}: pass the tool to EarlyToolsNode")
        response = response_of_message(returned)
        if returned.status == "error":
            raise ToolError(response.text, content=response.content)
        return response

    if any((tool.metadata or {}).get(name) is True for name in _READ_ONLY):
        options.setdefault("read_only", True)
    return converted(tool, run, **options)


def converted(
    tool: BaseTool,
    run: Callable[[dict[str, Any], RunningCall], Awaitable[ToolResponse]],
    **options: Any,
) -> Tool:
    """Return a tool with the definition of a LangChain tool.

    Raises:
        UsageError: The schema cannot be used.
    """
    extras = tool.extras or {}
    if VERBATIM in extras:
        return Tool(run, definition=ForeignDefinition(extras[VERBATIM]), **options)
    function = convert_to_openai_function(tool)
    definition = {"name": tool.name, "description": tool.description, "input_schema": function["parameters"]}
    definition |= {name: extras[name] for name in (EAGER_FIELD, *IN_DEFINITION) if name in extras}
    if EAGER_FIELD in extras:
        options.setdefault("eager", extras[EAGER_FIELD])
    return Tool(run, definition=ForeignDefinition(definition), **options)


def wanted_call(call: RunningCall, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a call in LangChain's form."""
    return {"type": "tool_call", "id": call.id, "name": call.name, "args": arguments}


def _fields(schema: Any) -> dict[str, FieldInfo]:
    return schema.model_fields if isinstance(schema, type) and issubclass(schema, BaseModel) else {}
