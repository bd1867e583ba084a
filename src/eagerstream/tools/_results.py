"""`tool_result` blocks, the answers to the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from eagerstream_wire import JSONObject, Outcome, ToolInput
from eagerstream_wire._assistant_message import Block
from eagerstream_wire._block_rules import is_empty_text, is_programmatic, text_block, tool_result
from eagerstream_wire._values import encodable

from .._support.inspecting import without_middle
from .._support.json_values import dump_json, to_json
from ._content import may_be_in_result
from ._response import ToolResponse, ToolStatus

_MAX_RAW_CHARS: Final = 64 * 1024
"""Maximum characters of an invalid input in its result. The echoed input is complete."""
_MAX_REPAIRED_CHARS: Final = 1_000
_TEXT: Final = frozenset({"text"})
_MAX_NAMED: Final = 20
_MAX_MEDIA_CHARS: Final = 24 * 1024 * 1024
"""Maximum characters of images and documents in one result. More would exceed the API's 32 MB for a request."""

CUT_OFF: Final = "Not executed: the input of this call was cut off before its JSON was complete."
LOST: Final = "Not executed: a part of the input of this call was lost on its way."
REPEATED: Final = "Not executed: an earlier call of this response has the same id."


def result_for(input: ToolInput, content: str | list[Block], *, is_error: bool, max_chars: int) -> Block:
    """Return the `tool_result` of a call: at most `max_chars` characters of text, and only the kinds that it accepts.

    Calls made from code that the API runs accept only text, members of a toolset accept text and images, and an error
    result accepts only text.

    A block that the API would refuse in a result is dropped, and the result says so. Unknown kinds pass.
    """
    call = input.block
    if not isinstance(content, str):
        blocks: Sequence[object] = content  # a tool may have put anything into the list
        kept: list[Block] = []
        refused: list[str] = []
        for block in blocks:
            copied = _copied(block)  # the tool can no longer change it
            if copied is None:
                kind = block.get("type") if isinstance(block, Mapping) else type(block).__name__
                refused.append(f"{kind!s:.40}")
            elif not is_empty_text(copied):
                kept.append(copied)
        if refused:
            shown = ", ".join(refused[:_MAX_NAMED])
            kept.append(text_block(f"(Left out, since it is no block that a result can have: {shown}.)"))
        content = kept
    kinds = _TEXT if is_programmatic(call) else None
    if kinds is None and (toolset := call.get("toolset_name")) is not None:
        kinds = _TEXT | ({"image", "browser_state"} if toolset == "browser" else {"image"})
    content, left_out = _of_kinds(content, kinds)
    if left_out:
        taken = " and ".join(sorted(kinds or ()))
        said = f"Error: the tool returned {', '.join(left_out)}, and this kind of call takes {taken} only."
        content = [text_block(said), *content]
        is_error = True
    if is_error:
        content, left_out = _of_kinds(content, _TEXT)
        if left_out:
            content = [*content, text_block(f"(Left out, since an error takes text only: {', '.join(left_out)}.)")]
        content = content or "Error"  # the API refuses an error without text
    return tool_result(
        input.echo_id, _fitted(content, max_chars), is_error=is_error, toolset_name=call.get("toolset_name")
    )


def with_repair(content: str | list[Block], repaired: JSONObject) -> str | list[Block]:
    """Return the content of a result with a note that the input was repaired, and to what."""
    text = json.dumps(repaired, ensure_ascii=False)
    shown = text if len(text) <= _MAX_REPAIRED_CHARS else f"{text[:_MAX_REPAIRED_CHARS]}..."
    note = f"(The input of this call was not a JSON object. It was repaired, and the tool got: {shown})"
    return f"{note}\n{content}" if isinstance(content, str) else [text_block(note), *content]


def _copied(block: Any) -> Block | None:
    """Return a copy of a block; None if a result cannot contain it."""
    try:
        return to_json(block) if may_be_in_result(block) else None
    except TypeError:  # it has no JSON form
        return None


def invalid_result(input: ToolInput) -> Block:
    """Return the answer to a call whose input is unusable: the model's own text, wrapped, to show its mistake.

    After the wrapped text, and never inside it, the answer says if its middle is left out, and if the input was cut
    off or lost on its way.
    """
    raw = encodable(input.raw)
    notes: list[str] = []
    if len(raw) > _MAX_RAW_CHARS:
        half = _MAX_RAW_CHARS // 2
        notes.append(f"(Left out of this text: characters {half} to {len(raw) - half} of {len(raw)}.)")
        raw = raw[:half] + raw[-half:]
    if input.is_damaged:
        notes.append(LOST)
    elif input.outcome is not Outcome.INVALID:
        notes.append(CUT_OFF)
    text = "\n".join([json.dumps({input.invalid_key: raw}, ensure_ascii=False), *notes])
    return tool_result(input.echo_id, text, is_error=True, toolset_name=input.block.get("toolset_name"))


def begun_result(input: ToolInput, said: str | list[Block], *, why: str | None, max_chars: int) -> Block:
    """Return the answer to a call whose tool had started on an input that turned out to be unusable.

    Args:
        input: The input, settled.
        said: The answer or the exception of the tool.
        why: The fault, if the input's own text does not show it.
        max_chars: As for `result_for`.
    """
    text = str(invalid_result(input)["content"]) if why is None else why
    for note, told in ((CUT_OFF, "The input of this call was cut off."), (LOST, "A part of its input was lost.")):
        if why is None and text.endswith(note):
            text = text.removesuffix(note) + told
    text += "\nThe tool had started with the part that had arrived"
    text += ", and says:" if said else "."
    content = [text_block(text), *said] if isinstance(said, list) else f"{text}\n{said}".rstrip()
    return result_for(input, content, is_error=True, max_chars=max_chars)


# --- from a response to content ---------------------------------------------------------------------------------------


def rendered(response: ToolResponse, *, raised: bool = False, include_data: bool = False) -> str | list[Block]:
    """Return a response as the content of a result.

    Args:
        response: The tool's response.
        raised: True if it represents an exception, with a complete text. Otherwise an error shows as `[CODE] message`.
        include_data: True to append its `data` as JSON.

    Raises:
        TypeError: `include_data` is True, and the data has no JSON form.
    """
    text = response.text
    if response.status is ToolStatus.ERROR and not raised:
        text = f"[{response.code}] {text}".rstrip()
    elif response.status is ToolStatus.PARTIAL:
        text = f"[PARTIAL] {response.reason}\n{text}" if response.reason else f"[PARTIAL] {text}"
        text = text.rstrip()
    if include_data and response.data:
        text = f"{text}\n{dump_json(response.data)}" if text else dump_json(response.data)
    if not response.content:
        return text
    if raised and text == " ".join(str(block.get("text") or f"[{block.get('type')}]") for block in response.content):
        text = ""  # the text of the anthropic package's error repeats its blocks
    return [*([text_block(text)] if text else []), *response.content]


# --- the kinds of content that a call accepts, and their size ---------------------------------------------------------


def _of_kinds(content: str | list[Block], kinds: frozenset[str] | None) -> tuple[str | list[Block], list[str]]:
    if kinds is None or isinstance(content, str):
        return content, []
    left_out = sorted({str(block.get("type")) for block in content} - kinds)
    return [block for block in content if block.get("type") in kinds], left_out


def _fitted(content: str | list[Block], max_chars: int) -> str | list[Block]:
    """Return the content with at most `max_chars` characters of text, and a notice if there was more."""
    if isinstance(content, str):
        return content if len(content) <= max_chars else _cut(content, max_chars)
    room = max_chars
    media_room = _MAX_MEDIA_CHARS
    blocks: list[Block] = []
    for block in content:
        text = block.get("text")
        if isinstance(text, str):
            if room <= 0:
                continue  # the block that was cut contains the notice
            if len(text) > room:
                block = {**block, "text": _cut(text, room)}
            room -= len(text)
        else:
            size = _size(block)
            if size > media_room:
                block = text_block(f"[PARTIAL] A block of type {block.get('type')!r} was left out: {size} characters.")
            else:
                media_room -= size
        blocks.append(block)
    return blocks


def _size(block: Block) -> int:
    """Return the number of characters of all strings in a block."""
    size = 0
    pending: list[Any] = [block]
    while pending:
        found = pending.pop()
        if isinstance(found, str):
            size += len(found)
        elif isinstance(found, Mapping):
            pending += found.values()
        elif isinstance(found, list | tuple):
            pending += found
    return size


def _cut(text: str, max_chars: int) -> str:
    notice = f"[PARTIAL] The result has {len(text)} characters; its middle was left out.\n"
    return notice + without_middle(text, max_chars)
