"""Conversion between the two libraries: pydantic-ai tools for eagerstream, and results of calls for pydantic-ai."""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic_ai import BinaryContent, DocumentUrl, ImageUrl, ModelRetry, RunContext, Tool as PydanticAITool, ToolReturn
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ToolReturnPart

from eagerstream import Block, Outcome
from eagerstream._support.json_values import dump_json
from eagerstream._support.terms import text_block
from eagerstream.errors import ToolError, UsageError
from eagerstream.tools import (
    ForeignDefinition,
    RunningCall,
    Tool,
    ToolCall,
    ToolErrorCode,
    ToolResponse,
    block_of_bytes,
)


def as_eager_tool(
    tool: PydanticAITool[Any], *, context: RunContext[Any] | None = None, approve: Any = None, eager: bool | None = True
) -> Tool:
    """Return a pydantic-ai tool as an eagerstream tool, for `eagerstream.run` and everything else that accepts tools.

    The tool's own types and its own validator check the arguments. Its `timeout` and `sequential` are kept. A
    `ModelRetry` becomes an error result for the model, and retries are not counted. `prepare` is not called.

    Args:
        tool: Made by `pydantic_ai.Tool(function)`.
        context: The `RunContext` for a tool that takes one. The tool gets a copy with the call's name and id.
        approve: As for `eagerstream.tool`.
        eager: The tool's `eager_input_streaming`.

    Raises:
        UsageError: The tool or its validator takes a `RunContext` and `context` is missing, or the tool requires
            approval and `approve` is missing.
    """
    if context is None and (tool.takes_ctx or tool.args_validator is not None):
        raise UsageError(f"{tool.name} takes a RunContext: pass context=... to as_eager_tool")
    if tool.requires_approval and approve is None:
        raise UsageError(f"{tool.name} requires approval: pass approve=... to as_eager_tool")

    async def run(input: dict[str, Any], call: RunningCall) -> ToolResponse:
        # Only a tool that takes a context reads it.
        called: Any = context and replace(context, tool_name=call.name, tool_call_id=call.id)
        arguments = tool.function_schema.validator.validate_json(json.dumps(input))
        try:
            if tool.args_validator is not None:
                checked: Any = tool.args_validator(called, **arguments)
                if inspect.isawaitable(checked):
                    await checked
            return response_of(await tool.function_schema.call(arguments, called))
        except (ModelRetry, ToolFailed) as error:
            raise ToolError(error.message) from error

    definition: Mapping[str, Any] = {
        "name": tool.name,
        "description": tool.description or "",
        "input_schema": tool.function_schema.json_schema,
        **({"strict": True} if tool.strict else {}),
    }
    options: dict[str, Any] = {"timeout_s": tool.timeout} if tool.timeout is not None else {}
    if tool.sequential:
        options["group"] = "sequential"
    return Tool(run, definition=ForeignDefinition(definition), approve=approve, eager=eager, **options)


_MISTAKES: Final = (ToolErrorCode.INVALID_FORMAT, ToolErrorCode.INVALID_PARAM)


def returned_by(call: ToolCall) -> Any:
    """Return the value of an answered call, as if a pydantic-ai tool had returned it.

    The value is a text, or a list with images and documents. The response's data is the `metadata` of a `ToolReturn`.

    Raises:
        ModelRetry: The input was not an object, was cut off, or did not fit. pydantic-ai counts this mistake of the
            model.
        ToolFailed: The call failed in any other way.
    """
    result = call.result or {}
    content: str | list[Block] = result.get("content", "")
    if result.get("is_error"):
        code = call.response.code if call.response else None
        is_mistake = call.input.outcome is not Outcome.VALID or (not call.ran and code in _MISTAKES)
        text = content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)
        raise ModelRetry(text) if is_mistake else ToolFailed(text)
    value = content if isinstance(content, str) else [_item_of(block) for block in content]
    if call.response is None or call.response.data.keys() <= {"output"}:  # for a plain return, it repeats the text
        return value
    return ToolReturn(return_value=value, metadata=call.to_dict()["response"]["data"])


def _item_of(block: Mapping[str, Any]) -> Any:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "document", "source": {"type": "base64", "data": data, "media_type": media_type}}:
            return BinaryContent(data=base64.b64decode(data), media_type=media_type)
        case {"type": "document", "source": {"type": "text", "data": str(data)}}:
            return BinaryContent(data=data.encode(), media_type="text/plain")
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return ImageUrl(url)
        case {"type": "document", "source": {"type": "url", "url": str(url)}}:
            return DocumentUrl(url)
        case _:  # a block type that only the Messages API knows
            return dump_json(block)


def response_of(returned: Any) -> ToolResponse:
    """Return the value of a pydantic-ai tool as a response."""
    extra: Sequence[Any] = ()
    metadata = None
    if isinstance(returned, ToolReturn):
        content, metadata = returned.content, returned.metadata
        extra = [content] if isinstance(content, str) else content or ()
        returned = returned.return_value
    part = ToolReturnPart(tool_name="", content=returned, tool_call_id="")
    blocks = [_block_of(item) for item in (*part.content_items(mode="str"), *extra)]
    data = metadata if isinstance(metadata, Mapping) else {} if metadata is None else {"metadata": metadata}
    if all(block["type"] == "text" for block in blocks):
        return ToolResponse.success("\n".join(block["text"] for block in blocks), data)
    return ToolResponse.success("", data, content=blocks)


def _block_of(item: Any) -> Block:
    match item:
        case str():
            return text_block(item)
        case BinaryContent(data=data) if (block := block_of_bytes(data)) is not None:
            return block
        case ImageUrl(url=url):
            return {"type": "image", "source": {"type": "url", "url": url}}
        case DocumentUrl(url=url):
            return {"type": "document", "source": {"type": "url", "url": url}}
        case _:
            return text_block(f"({type(item).__name__}: the model cannot be shown this)")
