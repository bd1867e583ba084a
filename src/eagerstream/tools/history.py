"""`validate_history`: what the API would refuse in a conversation, found without asking it.

Each fault is told in the API's own words, where they are known. Kinds of blocks, roles and fields that are not known
here pass: what the API takes tomorrow must not be refused today.

Sources: the API's guide to handling tool calls, its guide to server tools, and the bodies of its 400 answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_ROLES_OF_OTHERS: Final = frozenset({"tool", "function", "tool_inputs", "tool_outputs"})
_THINKING: Final = ("thinking", "redacted_thinking")
_SERVER_CALLS: Final = ("server_tool_use", "mcp_tool_use")
_NEVER_IN_RESULTS: Final = frozenset({"tool_use", "tool_result", "server_tool_use", "thinking", "redacted_thinking"})
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MAX_BREAKPOINTS: Final = 4


@dataclass(frozen=True, slots=True)
class HistoryFault:
    """Something that the API would refuse.

    Attributes:
        index: Of the message; None where it is about the tools, or about all messages.
        message: What the API would say, the place in front.
    """

    index: int | None
    message: str

    def __str__(self) -> str:
        return self.message


def validate_history(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None
) -> list[HistoryFault]:
    """Everything in a conversation that the API would refuse; empty where it can be sent.

    Args:
        messages: As they would be sent.
        tools: The definitions that would be sent with them; None leaves unchecked what depends on them.
    """
    if not messages:
        return [HistoryFault(None, "messages: at least one message is required")]
    faults: list[HistoryFault] = []
    pairing = _Pairing(faults)
    for index, message in enumerate(messages):
        blocks = _check_message(index, message, faults, is_last=index == len(messages) - 1)
        if blocks is not None:
            pairing.add(index, str(message["role"]), blocks)
    pairing.close()
    if _role(messages[0]) == "assistant":
        faults.insert(0, HistoryFault(0, 'messages: first message must use the "user" role'))
    if tools is not None:
        faults += [HistoryFault(None, fault) for fault in tool_faults(tools)]
        faults += pairing.without_tool(tools)
    if (breakpoints := count_breakpoints(messages) + count_breakpoints(tools or ())) > _MAX_BREAKPOINTS:
        what = f"A maximum of {_MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {breakpoints}."
        faults.append(HistoryFault(None, what))
    return faults


def _role(message: object) -> object:
    return message.get("role") if isinstance(message, Mapping) else None


def _check_message(
    index: int, message: object, faults: list[HistoryFault], *, is_last: bool
) -> list[Mapping[str, Any]] | None:
    """Check a message by itself; its blocks, or None where it has none that could be looked at."""

    def fault(place: str, what: str) -> None:
        faults.append(HistoryFault(index, f"messages{place}: {what}"))

    if not isinstance(message, Mapping):
        fault(f".{index}", "Input should be a valid dictionary")
        return None
    role = message.get("role")
    if not isinstance(role, str) or role in _ROLES_OF_OTHERS:
        fault(f".{index}.role", "Field required" if role is None else "Input should be 'user' or 'assistant'")
        return None
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list | tuple):
        fault(f".{index}.content", "Field required" if content is None else "Input should be a valid list")
        return None
    if not content and not (is_last and role == "assistant"):
        fault(f".{index}", "all messages must have non-empty content except for the optional final assistant message")
    blocks: list[Mapping[str, Any]] = []
    for number, item in enumerate(content):
        block = as_mapping(item)
        if isinstance(block, Mapping) and isinstance(block.get("type"), str):
            blocks.append(block)
            for place, what in _block_faults(block):
                # The API names no place for an empty text.
                fault(f".{index}.content.{number}{place}" if place is not None else "", what)
        else:
            fault(f".{index}.content.{number}", "Input should be a block with a type")
    kinds = {block["type"] for block in blocks}
    if "tool_use" in kinds and role != "assistant":
        fault(f".{index}", "`tool_use` blocks can only be in `assistant` messages")
    if "tool_result" in kinds and role == "assistant":
        fault(f".{index}", "`tool_result` blocks can only be in `user` messages")
    if role == "assistant" and blocks and blocks[-1]["type"] in _THINKING:
        fault(f".{index}", f"The final block in an assistant message cannot be `{blocks[-1]['type']}`.")
    return blocks


def as_mapping(item: object) -> object:
    """A block of the anthropic package's own types as the mapping that it stands for; anything else as it is."""
    dump = getattr(item, "model_dump", None)
    return item if isinstance(item, Mapping) or dump is None else dump(mode="json", exclude_unset=True)


def _block_faults(block: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    """What is wrong with a block by itself: a place inside it (None where the API names none), and the words."""
    match block["type"]:
        case "text":
            yield from _text_faults(block)
        case "tool_use" | "server_tool_use" | "mcp_tool_use" as kind:
            for name in ("id", "name"):
                if not isinstance(block.get(name), str):
                    yield f".{kind}.{name}", "Field required"
            if not isinstance(block.get("input"), Mapping):
                given = "Input should be a valid dictionary" if "input" in block else "Field required"
                yield f".{kind}.input", given
        case "tool_result":
            if not isinstance(block.get("tool_use_id"), str):
                yield ".tool_result.tool_use_id", "Field required"
            yield from _result_faults(block.get("content", ""))
        case "thinking":
            for name in ("thinking", "signature"):
                if not isinstance(block.get(name), str):
                    yield f".thinking.{name}", "Field required"
        case _:
            pass


def _text_faults(block: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    text = block.get("text")
    if not isinstance(text, str):
        yield ".text.text", "Field required" if text is None else "Input should be a valid string"
    elif not text:
        yield None, "text content blocks must be non-empty"
    elif text.isspace():
        yield None, "text content blocks must contain non-whitespace text"


def _result_faults(content: object) -> Iterator[tuple[str | None, str]]:
    if isinstance(content, str):
        return
    if not isinstance(content, list | tuple):
        yield ".tool_result.content", "Input should be a valid list"
        return
    for number, inner in enumerate(content):
        kind = inner.get("type") if isinstance(inner, Mapping) else None
        if not isinstance(kind, str):
            yield f".tool_result.content.{number}", "Input should be a block with a type"
        elif kind in _NEVER_IN_RESULTS:
            what = (
                "Input tag '{}' found using 'type' does not match any of the expected tags: 'text', 'image', 'document'"
            )
            yield f".tool_result.content.{number}", what.format(kind)
        elif kind == "text" and not inner.get("text"):
            yield None, "text content blocks must be non-empty"


class _Pairing:
    """Calls and their results, over the messages: each call answered once, right after it, before anything else."""

    def __init__(self, faults: list[HistoryFault]) -> None:
        self._faults = faults
        self._seen: set[str] = set()
        self._calls: dict[str, Mapping[str, Any]] = {}  # of the last assistant message that has some, by id
        self._calls_at = 0
        self._answered: set[str] = set()
        self._others_at: str | None = None  # where, among the results, something else stood first
        self._awaits_results = False
        self._server_calls: dict[str, tuple[int, str]] = {}  # without their result so far: index and name, by id

    def add(self, index: int, role: str, blocks: Sequence[Mapping[str, Any]]) -> None:
        if role == "assistant":
            self._add_reply(index, blocks)
        elif role == "user":
            self._add_answers(index, blocks)

    def _add_reply(self, index: int, blocks: Sequence[Mapping[str, Any]]) -> None:
        self._end_answers()
        calls: dict[str, Mapping[str, Any]] = {}
        for number, block in enumerate(blocks):
            kind = block["type"]
            id = block.get("id")
            if kind == "tool_use" and isinstance(id, str):
                if id in self._seen:
                    self._fault(index, f".content.{number}", "`tool_use` ids must be unique")
                self._seen.add(id)
                calls[id] = block
            elif kind in _SERVER_CALLS and isinstance(id, str):
                self._server_calls[id] = (index, "mcp" if kind == "mcp_tool_use" else str(block.get("name")))
            elif kind.endswith("_tool_result"):
                self._server_calls.pop(str(block.get("tool_use_id")), None)
        if calls:
            self._calls, self._calls_at, self._answered = calls, index, set()
            self._awaits_results = True
            self._others_at = None

    def _add_answers(self, index: int, blocks: Sequence[Mapping[str, Any]]) -> None:
        for number, block in enumerate(blocks):
            place = f".content.{number}"
            if block["type"] != "tool_result":
                if self._awaits_results:
                    self._others_at = self._others_at or f"messages.{index}{place}"
                self._refuse_unresolved()
                continue
            id = block.get("tool_use_id")
            if not self._awaits_results or id not in self._calls:
                what = (
                    f"unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have "
                    "a corresponding `tool_use` block in the previous message."
                )
                self._fault(index, place, what)
            elif id in self._answered:
                what = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
                self._fault(index, place, what)
            elif self._others_at is None:
                self._answered.add(str(id))
                self._check_caller(index, place, self._calls[str(id)], block)

    def _check_caller(self, index: int, place: str, call: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """A call made from code takes text only."""
        caller = call.get("caller")
        content = result.get("content")
        if isinstance(caller, Mapping) and caller.get("type", "direct") != "direct" and isinstance(content, list):
            for number, inner in enumerate(content):
                if isinstance(inner, Mapping) and inner.get("type") != "text":
                    what = "results of programmatic tool calls may only contain text"
                    self._fault(index, f"{place}.tool_result.content.{number}", what)

    def _refuse_unresolved(self) -> None:
        """Anything but results after a call that the API has yet to run itself ends its turn, and it is lost."""
        for id, (at, name) in self._server_calls.items():
            kind = "tool_search" if name.startswith("tool_search") else name
            what = f"`{name}` tool use with id `{id}` was found without a corresponding `{kind}_tool_result` block"
            self._fault(at, "", what)
        self._server_calls.clear()

    def _end_answers(self) -> None:
        """The results of the last calls end here."""
        if self._awaits_results:
            missing = [id for id in self._calls if id not in self._answered]
            if missing:
                what = (
                    f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}. "
                    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
                )
                self._fault(self._calls_at, "", what)
        self._awaits_results = False

    def close(self) -> None:
        """There are no more messages."""
        self._end_answers()

    def without_tool(self, tools: Sequence[object]) -> list[HistoryFault]:
        """Calls that the API has yet to run, whose tools are not among `tools`."""
        names = [tool.get("name") for tool in tools if isinstance(tool, Mapping)]
        is_open = None in names  # a toolset, which has many
        return [
            HistoryFault(
                at, f"messages.{at}: `{name}` tool use with id `{id}` was found, but no `{name}` tool was provided"
            )
            for id, (at, name) in self._server_calls.items()
            if name not in names and not is_open and name not in _OF_OTHER_NAMES
        ]

    def _fault(self, index: int, place: str, what: str) -> None:
        self._faults.append(HistoryFault(index, f"messages.{index}{place}: {what}"))


# Calls that are not named like the tool that brings them.
_OF_OTHER_NAMES: Final = frozenset({"bash_code_execution", "text_editor_code_execution", "mcp"})


def tool_faults(tools: Sequence[object]) -> list[str]:
    """What the API would refuse in definitions of tools, in its words."""
    faults: list[str] = []
    names: list[str] = []
    definitions: list[Mapping[str, Any]] = []
    for number, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            faults.append(f"tools.{number}: Input should be a valid dictionary")
            continue
        definitions.append(tool)
        kind = tool.get("type") or "custom"
        place = f"tools.{number}.{kind}"
        name = tool.get("name")
        if isinstance(name, str):
            names.append(name)
        if kind != "custom":
            if "eager_input_streaming" in tool:
                faults.append(f"{place}.eager_input_streaming: Extra inputs are not permitted")
            continue
        if not isinstance(name, str):
            faults.append(f"{place}.name: Field required")
        elif not _NAME.fullmatch(name):
            faults.append(f"{place}.name: String should match pattern '^{_NAME.pattern}$'")
        schema = tool.get("input_schema")
        if not isinstance(schema, Mapping):
            faults.append(
                f"{place}.input_schema: {'Field required' if schema is None else 'Input should be an object'}"
            )
        elif schema.get("type") != "object":
            said = "Input should be 'object'" if "type" in schema else "Field required"
            faults.append(f"{place}.input_schema.type: {said}")
    if len(set(names)) < len(names):
        faults.append("tools: Tool names must be unique.")
    deferred = [tool.get("defer_loading") is True for tool in definitions]
    if deferred and all(deferred):
        faults.append("At least one tool must have defer_loading=false. All tools cannot be deferred.")
    return faults


def request_faults(body: Mapping[str, Any]) -> Iterator[str]:
    """What the API would refuse in the body of a request, in its words, the first that it would tell first."""
    for name in ("model", "messages", "max_tokens"):
        if body.get(name) is None:
            yield f"{name}: Field required"
    max_tokens = body.get("max_tokens")
    if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 0):
        yield "max_tokens: Input should be a valid integer, greater than or equal to 0"
    messages = body.get("messages")
    tools = body.get("tools")
    for name, value in (("messages", messages), ("tools", tools)):
        if value is not None and not isinstance(value, list):
            yield f"{name}: Input should be a valid list"
    if isinstance(messages, list) and not isinstance(tools, str | Mapping):
        for fault in validate_history(messages, tools or ()):
            yield fault.message


def count_breakpoints(holders: object) -> int:
    """How many `cache_control`s there are in messages, blocks or definitions."""
    if not isinstance(holders, list | tuple):
        return 0
    count = 0
    for holder in holders:
        if isinstance(holder, Mapping):
            count += holder.get("cache_control") is not None
            count += count_breakpoints(holder.get("content"))
    return count
