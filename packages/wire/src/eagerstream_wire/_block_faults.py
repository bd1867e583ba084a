"""`block_faults`: everything that the API would refuse in one block, in its own words if they are known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ._block_rules import API_NAME, DELTAS, NEVER_IN_RESULTS, extra_fields, has_surrogates, image_faults
from ._echo import id_pattern
from ._server_tools import call_kind, is_server_result
from ._values import as_mapping

_MAX_CALL_NAME_CHARS: Final = 200
REQUIRED: Final = "Field required"


def required(holder: Mapping[str, Any], name: str, kind: str) -> str:
    """Return the API's words for a field that is missing, or is not of this kind."""
    return f"Input should be a valid {kind}" if name in holder else REQUIRED


def block_faults(block: Mapping[str, Any], *, first_party: bool) -> Iterator[tuple[str | None, str]]:
    """Yield the faults of a block by itself: a place inside it (`None` if the API names none), and the words."""
    if first_party:
        for name in extra_fields(block):
            yield f".{block['type']}.{name:.80}", "Extra inputs are not permitted"
        if has_surrogates(block):
            yield "", "the text is not valid UTF-8: it has half of a surrogate pair"
    yield from image_faults(block)
    match block["type"]:
        case kind if kind in DELTAS:
            yield "", f"Input tag '{kind}' found using 'type' does not match any of the expected tags"
        case "text":
            text = block.get("text")
            if not isinstance(text, str):
                yield ".text.text", "Field required" if text is None else "Input should be a valid string"
            elif not text:
                yield None, "text content blocks must be non-empty"
            elif text.isspace():
                yield None, "text content blocks must contain non-whitespace text"
        case "tool_use" | "server_tool_use" | "mcp_tool_use" as kind:
            yield from _id_faults(block, "id", kind, first_party=first_party)
            called, place = block.get("name"), f".{kind}.name"
            if not isinstance(called, str):
                yield place, REQUIRED
            elif kind == "mcp_tool_use":
                pass  # the schema of the API accepts any string
            elif not called:
                yield place, "String should have at least 1 character"
            elif len(called) > _MAX_CALL_NAME_CHARS:
                yield place, f"String should have at most {_MAX_CALL_NAME_CHARS} characters"
            elif first_party and not API_NAME.fullmatch(called):
                yield place, mismatch(API_NAME)
            if not isinstance(block.get("input"), Mapping):
                yield f".{kind}.input", required(block, "input", "dictionary")
        case "tool_result":
            yield from _id_faults(block, "tool_use_id", "tool_use", first_party=first_party)
            yield from _result_faults(block)
        case "thinking":
            for name in ("thinking", "signature"):
                if not isinstance(block.get(name), str):
                    yield f".thinking.{name}", REQUIRED
            if first_party and block.get("signature") == "":
                yield ".thinking.signature", "Invalid `signature` in `thinking` block"
        case kind if is_server_result(kind):
            yield from _id_faults(block, "tool_use_id", call_kind(kind), first_party=first_party)
        case _:
            pass


def _id_faults(block: Mapping[str, Any], field: str, call: str, *, first_party: bool) -> Iterator[tuple[str, str]]:
    """Check the id of a call of the type `call`, in the call itself or in its result."""
    id, place = block.get(field), f".{block['type']}.{field}"
    if not isinstance(id, str):
        yield place, REQUIRED
    elif first_party and not (pattern := id_pattern(call)).fullmatch(id):
        yield place, mismatch(pattern)


def mismatch(pattern: re.Pattern[str]) -> str:
    return f"String should match pattern '^{pattern.pattern}$'"


def _result_faults(result: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    content = result.get("content")
    is_error = result.get("is_error") is True
    if not content and is_error:
        yield ".tool_result", "content cannot be empty if `is_error` is true"
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list | tuple):
        yield ".tool_result.content", required(result, "content", "list")
        return
    kinds = [block.get("type") if isinstance(block, Mapping) else None for block in map(as_mapping, content)]
    if is_error and any(kind != "text" for kind in kinds):
        yield ".tool_result", "all content must be type `text` if `is_error` is true"
    for number, kind in enumerate(kinds):
        place = f".tool_result.content.{number}"
        if not isinstance(kind, str):
            yield f"{place}.type", REQUIRED
        elif kind in NEVER_IN_RESULTS:
            known = "'text', 'image', 'document'"
            yield place, f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {known}"
        elif kind == "image":
            image = as_mapping(content[number])
            for inner, what in image_faults(image) if isinstance(image, Mapping) else ():
                yield f"{place}{inner}", what


# --- definitions of tools ---------------------------------------------------------------------------------------------
