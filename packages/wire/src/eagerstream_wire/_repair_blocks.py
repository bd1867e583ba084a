"""The repair of messages and blocks by themselves, for `repair_history`: roles, fields, ids and names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from typing import Any, Final, TypeAlias

from ._block_rules import (
    API_NAME,
    DELTAS,
    NEVER_IN_RESULTS,
    extra_fields,
    has_surrogates,
    image_faults,
    mended_image,
    text_block,
)
from ._echo import legal_id, legal_name, stand_in_id
from ._server_tools import call_kind, is_server_result
from ._tool_input import INVALID_JSON
from ._values import as_mapping, encodable

Block: TypeAlias = dict[str, Any]


class RepairKind(StrEnum):
    """The kinds of repairs of `repair_history`. Each member equals its value: `kind == "added_result"`."""

    ADDED_RESULT = "added_result"
    """A call had no result: it is answered as not executed."""
    MOVED_RESULT = "moved_result"
    """A result stood in the wrong place: it is with its call now."""
    RESULT_AS_TEXT = "result_as_text"
    """A result has no call that it could answer: its content stays, as text."""
    OMITTED_RESULT = "omitted_result"
    """A result repeated another one, or was empty, and answered nothing."""
    OMITTED_CALL = "omitted_call"
    """A call was there twice, or was for the API to run and has no result."""
    RENAMED_CALL = "renamed_call"
    """The id of a call was illegal, missing, or taken: the call and its result have another one."""
    RENAMED_TOOL = "renamed_tool"
    """A call named its tool in a way that the API refuses."""
    CHANGED_BLOCK = "changed_block"
    """A field of a block, or a message's content, had a form that the API refuses."""
    OMITTED_BLOCK = "omitted_block"
    """A block said nothing, stood where the API refuses it, or was no block."""
    MOVED_BLOCK = "moved_block"
    """A call, or a result of the API's own tools, stood in a message of another role."""
    CHANGED_ROLE = "changed_role"
    """A message had a role that the API refuses there."""
    MOVED_MESSAGE = "moved_message"
    """A `system` message stood in a place where the API refuses it."""
    ADDED_MESSAGE = "added_message"
    """The history began with the assistant: a user message was put first."""
    OMITTED_MESSAGE = "omitted_message"
    """A message had no content, or was no message."""
    OMITTED_BREAKPOINT = "omitted_breakpoint"
    """There were more `cache_control`s than the API accepts."""


Report: TypeAlias = Callable[[RepairKind, str], None]


@dataclass(slots=True, eq=False)
class Draft:
    """A message under repair.

    Attributes:
        index: Its index in the given list, or that of the message for whose sake it was added.
        role: Its role now.
        blocks: Its blocks now. Each is a dict of its own, so that equal blocks can be told apart.
        given: The message as it was given; None if it was added, or could not be read as it is.
        read: The blocks of `given`.
    """

    index: int
    role: str
    blocks: list[Block]
    given: Mapping[str, Any] | None = None
    read: Sequence[Block] = ()

    @property
    def is_unchanged(self) -> bool:
        """True if the message is as it was given."""
        return self.given is not None and self.given.get("role") == self.role and self.blocks == self.read

    def message(self) -> Mapping[str, Any]:
        """Return the message: the given object if nothing was changed."""
        if self.is_unchanged and self.given is not None:
            return self.given
        return {**(self.given or {}), "role": self.role, "content": self.blocks}


_ROLES_OF_RESULTS: Final = ("tool", "function")
_IN_USER_MESSAGES: Final = ("text", "image", "document", "search_result")
_ORPHAN: Final = "Result of a tool call that is no longer in this conversation:"
_FAILED: Final = "The tool reported an error."
_NO_IMAGE: Final = "[Here was an image that cannot be sent.]"
_NO_WORDS: Final = "The tool failed, and gave no reason."


def belongs_to_assistant(kind: object) -> bool:
    """Return True for blocks that only assistant messages may contain: calls, and results of the API's own tools."""
    return isinstance(kind, str) and (kind == "tool_use" or kind.endswith("_tool_use") or is_server_result(kind))


def read_message(index: int, given: object, report: Report) -> Draft | None:
    """Return a message with a role and blocks that the API accepts one by one; None if it is no message."""
    message = as_mapping(given)
    if not isinstance(message, Mapping):
        report(RepairKind.OMITTED_MESSAGE, "it is not an object")
        return None
    role, content = message.get("role"), message.get("content")
    items = _items(content)
    legal = role if isinstance(role, str) and role not in (*_ROLES_OF_RESULTS, "tool_inputs", "tool_outputs") else None
    if items is None:
        if content is not None:
            report(RepairKind.CHANGED_BLOCK, "its content is neither text nor a list of blocks")
        items = [] if content is None else [_as_block(content)]
        read: Sequence[Block] | None = None
    else:
        read = [dict(item) if isinstance(item, Mapping) else item for item in items]
    if legal is None:
        report(RepairKind.CHANGED_ROLE, "it has no role that the API knows")
        kinds = [_kind(item) for item in items]
        if role in _ROLES_OF_RESULTS and "tool_result" not in kinds and not any(map(belongs_to_assistant, kinds)):
            # The form of other APIs: one message for each result.
            items = [{"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": content}]
        legal = "assistant" if any(map(belongs_to_assistant, map(_kind, items))) else "user"
    blocks = [block for number, item in enumerate(items) for block in _mended(index, number, item, report)]
    whole = message if read is not None and isinstance(content, str | list | tuple) else None
    return Draft(index, legal, blocks, whole, read or ())


def _items(content: object) -> list[Any] | None:
    if isinstance(content, str):
        return [text_block(content)] if content else []
    return [as_mapping(item) for item in content] if isinstance(content, list | tuple) else None


def _kind(item: object) -> object:
    return item.get("type") if isinstance(item, Mapping) else None


def _as_block(value: object) -> Block:
    """Return a value that is no list of blocks as a block: itself if it is one, otherwise its JSON as text."""
    return dict(value) if isinstance(value, Mapping) and isinstance(value.get("type"), str) else _in_words(value)


def _in_words(value: object) -> Block:
    return text_block(value if isinstance(value, str) else _json_text(value))


def _mended(index: int, number: int, item: object, report: Report) -> Iterator[Block]:
    """Yield the block in a form that the API accepts; nothing if there is none."""
    block = _with_type(item, report)
    if block is None:
        return
    kind: str = block["type"]
    if kind in DELTAS:
        report(RepairKind.OMITTED_BLOCK, "a piece of a response that is no block")
        return
    if extra_fields(block):
        block = _without_extras(block)
        report(RepairKind.CHANGED_BLOCK, "the API knows no such field in a block")
    if has_surrogates(block):
        block = dict(encodable(block))
        report(RepairKind.CHANGED_BLOCK, "half of a surrogate pair, which cannot be sent")
    if any(image_faults(block)):
        block = _mended_image(block, report)
    match kind:
        case "text":
            text = block.get("text")
            if text is None or (isinstance(text, str) and not text.strip()):
                report(RepairKind.OMITTED_BLOCK, "a text block without a word")
                return
            if not isinstance(text, str):
                report(RepairKind.CHANGED_BLOCK, "the text of a block is not a string")
                block = {**block, **_in_words(text)}
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            _mend_call(f"{index} {number}", block, report)
            if not block["name"]:  # the API would look for a tool of its own with that name
                report(RepairKind.OMITTED_CALL, "a call of a tool of the API that has no name")
                return
        case "tool_result":
            _mend_id(block, "tool_use_id", "tool_use", report)
            mend_result(block, report)
        case "thinking":
            if not isinstance(block.get("thinking"), str):
                report(RepairKind.OMITTED_BLOCK, "thinking without its text")
                return
            if not isinstance(block.get("signature"), str) or not block["signature"]:
                report(RepairKind.OMITTED_BLOCK, "thinking without a signature")
                return
        case _ if is_server_result(kind):
            _mend_id(block, "tool_use_id", call_kind(kind), report)
        case _:
            pass
    yield block


def _mended_image(block: Block, report: Report) -> Block:
    mended = mended_image(block)
    if mended is None:
        report(RepairKind.CHANGED_BLOCK, "an image of a type that the API does not take: a text is in its place")
        return text_block(_NO_IMAGE)
    report(RepairKind.CHANGED_BLOCK, "an image with another media type than its own, or with a URL around its data")
    return mended


def _with_type(item: object, report: Report) -> Block | None:
    if isinstance(item, Mapping) and isinstance(item.get("type"), str):
        return dict(item)
    if isinstance(item, str):
        report(RepairKind.CHANGED_BLOCK, "a text that is not in a block")
        return text_block(item)
    if isinstance(item, Mapping) and "tool_use_id" in item:
        report(RepairKind.CHANGED_BLOCK, "a result without a type")
        return {**item, "type": "tool_result"}
    if isinstance(item, Mapping) and isinstance(item.get("text"), str):
        report(RepairKind.CHANGED_BLOCK, "a text without a type")
        return {**item, "type": "text"}
    report(RepairKind.OMITTED_BLOCK, "it is not a block")
    return None


def _mend_call(seed: str, block: Block, report: Report) -> None:
    kind, name, given = block["type"], block.get("name"), block.get("input")
    _mend_id(block, "id", kind, report)
    # Results without an id are given to calls by their places, so this one need not be known to its result.
    block["id"] = block["id"] or stand_in_id(f"call {seed}", kind)
    if not isinstance(name, str) or not (kind == "mcp_tool_use" or API_NAME.fullmatch(name)):
        block["name"] = legal_name(name, kind)
        report(RepairKind.RENAMED_TOOL, "the API accepts no such name in a call")
    caller = block.get("caller")
    if isinstance(caller, Mapping) and isinstance(caller.get("tool_id"), str):
        block["caller"] = {**caller, "tool_id": legal_id(caller["tool_id"], "server_tool_use")}
    if not isinstance(given, Mapping):
        block["input"] = _object_in(given)
        report(RepairKind.CHANGED_BLOCK, "the input of a call is not an object")


def _object_in(given: object) -> Mapping[str, Any]:
    """Return the object that an input was meant to be, or its text under the key for inputs that cannot be used."""
    if given is None:
        return {}
    text = given if isinstance(given, str) else _json_text(given)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {INVALID_JSON: text}


def _json_text(value: object) -> str:
    """Return a value as JSON. NaN and infinities become null.

    Raises:
        TypeError: A key is no string, a container contains itself, or there are too many levels.
    """
    try:
        plain = json.loads(json.dumps(value, default=_json_form), parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise TypeError(f"{type(value).__name__} has no JSON form") from error
    return json.dumps(plain)


def _json_form(item: Any) -> object:
    """Return an object as pydantic writes it, for the kinds that a history may have, and any other as its text."""
    found = as_mapping(item)
    if found is not item or isinstance(item, Mapping):
        return dict(found) if isinstance(found, Mapping) else found
    if is_dataclass(item) and not isinstance(item, type):
        return {field.name: getattr(item, field.name) for field in fields(item)}
    if isinstance(item, set | frozenset):
        return [*item]
    if isinstance(item, Enum):
        return item.value
    if isinstance(item, bytes | bytearray):
        return item.decode("utf-8", "replace")
    return item.isoformat().replace("+00:00", "Z") if hasattr(item, "isoformat") else str(item)


def _mend_id(block: Block, field: str, kind: str, report: Report) -> None:
    id = legal_id(block.get(field), kind)
    if block.get(field) != id or not id:
        block[field] = id
        report(RepairKind.RENAMED_CALL, "the API accepts no such id")


def mend_result(result: Block, report: Report, *, text_only: bool = False) -> None:
    """Give the content of a result a form that the API accepts. Nothing of it is lost."""
    content = result.get("content")
    if content is not None and not isinstance(content, str | list | tuple):
        result["content"] = content = [_as_block(content)]
        report(RepairKind.CHANGED_BLOCK, "the content of a result is neither text nor a list")
    if isinstance(content, list | tuple):
        mended: list[Block] = []
        for item in content:
            block = _as_block(as_mapping(item))
            if block["type"] in NEVER_IN_RESULTS or (text_only and block["type"] != "text"):
                block = _in_words(block)
            if any(image_faults(block)):
                block = _mended_image(block, report)
            text = block.get("text")
            if block["type"] != "text" or (isinstance(text, str) and text.strip()):
                mended.append(block)
        if mended != [as_mapping(item) for item in content]:
            result["content"] = content = mended
            report(RepairKind.CHANGED_BLOCK, "a result contains what the API refuses there")
    if result.get("is_error") is not True:
        return
    if not content:
        result["content"] = _NO_WORDS
        report(RepairKind.CHANGED_BLOCK, "an error without a text")
    elif not isinstance(content, str) and any(_kind(as_mapping(item)) != "text" for item in content):
        del result["is_error"]
        result["content"] = [text_block(_FAILED), *content]
        report(RepairKind.CHANGED_BLOCK, "the API accepts only text in an error: it is one in words now")


def as_text(result: Mapping[str, Any]) -> list[Block]:
    """Return the content of a result without a call as blocks that any message of the user may contain."""
    content = result.get("content")
    if not content:
        return []
    items = [as_mapping(item) for item in content] if isinstance(content, list | tuple) else [content]
    blocks = [_without_extras(_as_block(item)) for item in items]
    kept = [block if block["type"] in _IN_USER_MESSAGES else _in_words(block) for block in blocks]
    return [
        text_block(_ORPHAN),
        *(block for block in kept if block["type"] != "text" or str(block.get("text")).strip()),
    ]


def _without_extras(block: Block) -> Block:
    extra = extra_fields(block)
    return {name: value for name, value in block.items() if name not in extra}


def for_user(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks of a `system` message that a message of the user may contain."""
    return [block for block in blocks if block["type"] in (*_IN_USER_MESSAGES, "tool_result")]


def server_result_as_text(result: Mapping[str, Any]) -> Block:
    """Return the result of a tool of the API, whose call is lost, as text of the assistant."""
    return text_block(f"{_ORPHAN} {_json_text(result.get('content'))}")
