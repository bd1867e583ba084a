"""What goes back to the model: `tool_result` blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic_core import to_jsonable_python

from ..wire import INVALID_JSON, JSON, Outcome, ToolInput, encodable
from ..wire.events import Block

_CONTENT_BLOCKS: Final = frozenset({"text", "image", "document", "search_result", "tool_reference", "browser_state"})
_MAX_RAW_CHARS: Final = 64 * 1024
"""More of an invalid input than this is left out of its result; the echoed input keeps it whole."""

CUT_OFF: Final = "Not executed: the input of this call was cut off before its JSON was complete."
NOT_RUN: Final = "Not executed: the reply ended before this call was run."


def tool_result(tool_use_id: str, content: JSON | list[Block], *, is_error: bool = False) -> Block:
    """A `tool_result` block: `content` only where there is some, `is_error` only where it is true."""
    block: Block = {"type": "tool_result", "tool_use_id": tool_use_id}
    if content:
        block["content"] = encodable(content)
    if is_error:
        block["is_error"] = True
    return block


def invalid_result(input: ToolInput) -> Block:
    """The answer to a call whose input is not usable: the model's own text, wrapped, for it to see its mistake.

    Of an input that was cut off this is said, too.
    """
    raw = input.raw
    if len(raw) > _MAX_RAW_CHARS:
        half = _MAX_RAW_CHARS // 2
        raw = f"{raw[:half]}... ({len(raw) - 2 * half} characters left out) ...{raw[-half:]}"
    wrapped = json.dumps({INVALID_JSON: encodable(raw)}, ensure_ascii=False)
    return tool_result(
        input.id, wrapped if input.outcome is Outcome.INVALID else f"{wrapped}\n{CUT_OFF}", is_error=True
    )


def content_of(returned: Any) -> str | list[Block]:
    """What a tool returned, as content: text and lists of content blocks as they are, anything else as JSON.

    Numbers that JSON does not have (NaN, infinities) become null.

    Raises:
        TypeError: It has no JSON form.
    """
    if isinstance(returned, str):
        return returned
    if returned is None or (isinstance(returned, list) and not returned):
        return ""
    try:
        plain = _to_json(returned)
    except ValueError as error:
        raise TypeError(f"a tool returned {type(returned).__name__}, which has no JSON form") from error
    if isinstance(returned, list) and all(_is_content_block(item) for item in returned):
        return cast("list[Block]", plain)
    return json.dumps(plain, ensure_ascii=False)


def _to_json(value: Any) -> Any:
    try:
        return to_jsonable_python(value, inf_nan_mode="null")
    except UnicodeEncodeError:
        return to_jsonable_python(encodable(value), inf_nan_mode="null")


def _is_content_block(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("type") in _CONTENT_BLOCKS


def error_text(error: BaseException) -> str:
    """`Class: message`, and never a traceback; the class alone where there is no message. Of a group, its members."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(error_text(member) for member in error.exceptions)
    try:
        message = str(error)
    except Exception:
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
