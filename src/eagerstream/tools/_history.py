"""`validate_history`: find what the API would refuse in a conversation, without a request.

Each fault has the API's own words, if they are known. Blocks, roles and fields of an unknown kind pass, because the API
may accept them tomorrow. The form of ids passes too, unless you ask for the rules of the Claude API: gateways make ids
of any form.

Sources: the API's guides to tool calls, server tools and mid-conversation system messages, the schema of its requests,
and the bodies of its 400 responses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from ..wire._echo import LEGAL_ID, LEGAL_SERVER_ID
from ..wire._server_tools import SERVER_CALLS, is_server_result
from ..wire._tool_kind import EAGER_FIELD, USER_DEFINED, tool_family, tool_kind
from ._content import NEVER_IN_RESULTS

_ROLES_OF_OTHERS: Final = frozenset({"tool", "function", "tool_inputs", "tool_outputs"})
_THINKING: Final = ("thinking", "redacted_thinking")
_MAX_NAME_CHARS: Final = 128
API_NAME: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{_MAX_NAME_CHARS}}}")
"""What the API takes as the name of a tool; its guide promises half of it."""
_MAX_CALL_NAME_CHARS: Final = 200
_DIRECTIVES_ARE_FREE: Final = "; the directive-only form (content: [] with output_config) is accepted at any position"
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
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Any] | None = None,
    *,
    system_breakpoints: int = 0,
    first_party: bool = False,
) -> list[HistoryFault]:
    """Return everything in a conversation that the API would refuse. The list is empty if it can be sent.

    Args:
        messages: The messages of the request.
        tools: The tools of the request, or their definitions. With `None`, nothing that depends on them is checked.
        system_breakpoints: Number of `cache_control`s in the system prompt. They count with the others.
        first_party: Also apply the rules of the Claude API that gateways often do not have:

            - An id must match `^[a-zA-Z0-9_-]+$`, and the id of a server tool's call `^srvtoolu_[a-zA-Z0-9_]+$`.
            - The name of a call must match `^[a-zA-Z0-9_-]{1,128}$`, the pattern of tool definitions. Earlier versions
              of the API had this rule. The newest schema only refuses empty names and names of more than 200
              characters, which are faults without `first_party` too.
    """
    if isinstance(messages, Mapping):
        return [HistoryFault(None, "messages: Input should be a valid list")]
    if not messages:
        return [HistoryFault(None, "messages: at least one message is required")]
    tools = None if tools is None else [_definition(tool) for tool in tools]
    faults: list[HistoryFault] = []
    pairing = _Pairing(faults)
    for index, message in enumerate(messages):
        if (role := _check_role(index, message, faults)) is None:
            continue
        # The API makes one message of several of the same role in a row.
        before = _role(messages[index - 1]) if index else None
        after = _role(messages[index + 1]) if index + 1 < len(messages) else None
        may_be_empty = role in (before, after) or (role == "assistant" and after is None)
        blocks = _check_message(
            index, message, faults, may_be_empty=may_be_empty, ends=role != after, first_party=first_party
        )
        pairing.add(index, role, blocks)
    pairing.close()
    if _role(messages[0]) == "assistant":
        faults.insert(0, HistoryFault(0, 'messages: first message must use the "user" role'))
    faults += _misplaced_systems(messages)
    if tools is not None:
        faults += [HistoryFault(None, fault) for fault in tool_faults(tools)]
        faults += pairing.without_tool(tools)
    breakpoints = count_breakpoints(messages) + count_breakpoints(tools or ()) + system_breakpoints
    if breakpoints > _MAX_BREAKPOINTS:
        what = f"A maximum of {_MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {breakpoints}."
        faults.append(HistoryFault(None, what))
    return faults


def _definition(tool: Any) -> Any:
    return tool.to_dict() if not isinstance(tool, Mapping) and hasattr(tool, "to_dict") else tool


def _role(message: object) -> object:
    return message.get("role") if isinstance(message, Mapping) else None


def _check_role(index: int, message: object, faults: list[HistoryFault]) -> str | None:
    """The role of a message; None where there is none, and nothing more to be looked at."""
    if not isinstance(message, Mapping):
        faults.append(HistoryFault(index, f"messages.{index}: Input should be a valid dictionary"))
        return None
    role = message.get("role")
    if role is None:
        faults.append(HistoryFault(index, f"messages.{index}.role: Field required"))
    elif not isinstance(role, str) or role in _ROLES_OF_OTHERS:
        what = f'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant".'
        faults.append(HistoryFault(index, what))
    else:
        return role
    return None


def _check_message(
    index: int,
    message: Mapping[str, Any],
    faults: list[HistoryFault],
    *,
    may_be_empty: bool,
    ends: bool,
    first_party: bool,
) -> list[Mapping[str, Any]]:
    """Check a message by itself; its blocks.

    Args:
        index: Of the message.
        message: With a role.
        faults: Where what is wrong goes.
        may_be_empty: It has neighbours to make up for it.
        ends: The next message is not by the same role.
        first_party: See `validate_history`.
    """

    def fault(place: str, what: str) -> None:
        faults.append(HistoryFault(index, f"messages{place}: {what}"))

    role = message["role"]
    content = message.get("content")
    if role == "system":
        if _is_directive(message):
            return []
        if content is not None and not content:
            fault(f".{index}", "system content must contain at least one block")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list | tuple):
        fault(f".{index}.content", "Input should be a valid list" if "content" in message else "Field required")
        return []
    if not content and not may_be_empty and role in ("user", "assistant"):
        fault(f".{index}", "all messages must have non-empty content except for the optional final assistant message")
    blocks: list[Mapping[str, Any]] = []
    for number, item in enumerate(content):
        block = as_mapping(item)
        if isinstance(block, Mapping) and isinstance(block.get("type"), str):
            blocks.append(block)
            for place, what in _block_faults(block, first_party=first_party):
                # The API names no place for an empty text.
                fault(f".{index}.content.{number}{place}" if place is not None else "", what)
        else:
            fault(f".{index}.content.{number}.type", "Field required")
    kinds = {block["type"] for block in blocks}
    if "tool_use" in kinds and role != "assistant":
        fault(f".{index}", "`tool_use` blocks can only be in `assistant` messages")
    if "tool_result" in kinds and role == "assistant":
        fault(f".{index}", "`tool_result` blocks can only be in `user` messages")
    if kinds & set(_THINKING) and role == "user":
        fault(f".{index}.content", "thinking blocks may only be in `assistant` messages")
    if role == "assistant" and ends and blocks and blocks[-1]["type"] in _THINKING:
        fault(f".{index}", f"The final block in an assistant message cannot be `{blocks[-1]['type']}`.")
    return blocks


def as_mapping(item: object) -> object:
    """A block of the anthropic package's own types as the mapping that it stands for; anything else as it is."""
    dump = getattr(item, "model_dump", None)
    return item if isinstance(item, Mapping) or dump is None else dump(mode="json", exclude_unset=True)


def _is_directive(message: Mapping[str, Any]) -> bool:
    """Tell if a `system` message has no content and only changes the `output_config` of the next responses."""
    content = message.get("content")
    return not content and not isinstance(content, str) and bool(message.get("output_config"))


def _misplaced_systems(messages: Sequence[Mapping[str, Any]]) -> Iterator[HistoryFault]:
    """Find `system` messages in a place that the API refuses.

    They follow a `user` message, or an `assistant` message that ends in the result of a server tool. They precede an
    `assistant` message or end the array. Several in a row stand together: the API names the first one if the place
    before them is wrong, else the last one. If one of them is a directive, which may stand anywhere, nothing is known
    about the others, and they pass.
    """
    roles = [_role(message) for message in messages]
    start = end = 0
    for role, run in groupby(roles):
        start, end = end, end + sum(1 for _ in run)
        if role != "system":
            continue
        at, what = start, None
        if start == 0:
            if not _is_directive(messages[0]):
                what = "use the top-level 'system' parameter for the initial system prompt"
        elif any(map(_is_directive, messages[start:end])):
            continue
        elif roles[start - 1] == "assistant" and not _ends_in_server_result(messages[start - 1]):
            what = "role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool result"
        elif end < len(roles) and roles[end] == "user":
            at, what = end - 1, "role 'system' must precede an 'assistant' message or end the array"
        if what is not None:
            yield HistoryFault(at, f"messages.{at}: {what}{_DIRECTIVES_ARE_FREE}")


def _ends_in_server_result(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    last = as_mapping(content[-1]) if isinstance(content, list | tuple) and content else None
    return isinstance(last, Mapping) and is_server_result(last.get("type"))


def _block_faults(block: Mapping[str, Any], *, first_party: bool) -> Iterator[tuple[str | None, str]]:
    """Yield what is wrong with a block by itself: a place inside it (`None` if the API names none), and the words."""
    match block["type"]:
        case "text":
            yield from _text_faults(block)
        case "tool_use" | "server_tool_use" | "mcp_tool_use" as kind:
            yield from _id_faults(block, "id", first_party=first_party)
            yield from _name_faults(block, first_party=first_party)
            if not isinstance(block.get("input"), Mapping):
                given = "Input should be a valid dictionary" if "input" in block else "Field required"
                yield f".{kind}.input", given
        case "tool_result":
            yield from _id_faults(block, "tool_use_id", first_party=first_party)
            yield from _result_faults(block)
        case "thinking":
            for name in ("thinking", "signature"):
                if not isinstance(block.get(name), str):
                    yield f".thinking.{name}", "Field required"
        case kind if is_server_result(kind):
            yield from _id_faults(block, "tool_use_id", first_party=first_party)
        case _:
            pass


def _id_faults(block: Mapping[str, Any], field: str, *, first_party: bool) -> Iterator[tuple[str, str]]:
    id = block.get(field)
    kind = block["type"]
    # Calls of MCP servers have ids of the general form, and so have their results.
    pattern = LEGAL_ID if kind in ("tool_use", "tool_result", "mcp_tool_use", "mcp_tool_result") else LEGAL_SERVER_ID
    if not isinstance(id, str):
        yield f".{kind}.{field}", "Field required"
    elif first_party and not pattern.fullmatch(id):
        yield f".{kind}.{field}", f"String should match pattern '^{pattern.pattern}$'"


def _name_faults(call: Mapping[str, Any], *, first_party: bool) -> Iterator[tuple[str, str]]:
    name = call.get("name")
    place = f".{call['type']}.name"
    if not isinstance(name, str):
        yield place, "Field required"
    elif call["type"] == "mcp_tool_use":
        return  # the schema of the API accepts any string
    elif not name:
        yield place, "String should have at least 1 character"
    elif len(name) > _MAX_CALL_NAME_CHARS:
        yield place, f"String should have at most {_MAX_CALL_NAME_CHARS} characters"
    elif first_party and not API_NAME.fullmatch(name):
        yield place, f"String should match pattern '^{API_NAME.pattern}$'"


def _text_faults(block: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    text = block.get("text")
    if not isinstance(text, str):
        yield ".text.text", "Field required" if text is None else "Input should be a valid string"
    elif not text:
        yield None, "text content blocks must be non-empty"
    elif text.isspace():
        yield None, "text content blocks must contain non-whitespace text"


def _result_faults(result: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    content = result.get("content")
    is_error = result.get("is_error") is True
    if not content and is_error:
        yield ".tool_result", "content cannot be empty if `is_error` is true"
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list | tuple):
        yield ".tool_result.content", "Input should be a valid list"
        return
    kinds = [block.get("type") if isinstance(block, Mapping) else None for block in map(as_mapping, content)]
    if is_error and any(kind != "text" for kind in kinds):
        yield ".tool_result", "all content must be type `text` if `is_error` is true"
    for number, kind in enumerate(kinds):
        if not isinstance(kind, str):
            yield f".tool_result.content.{number}.type", "Field required"
        elif kind in NEVER_IN_RESULTS:
            what = (
                "Input tag '{}' found using 'type' does not match any of the expected tags: 'text', 'image', 'document'"
            )
            yield f".tool_result.content.{number}", what.format(kind)


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
        self._server_ids: set[str] = set()  # of all server calls so far, and of kinds that are not known here

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
            elif kind.endswith("_tool_use") and isinstance(id, str):
                self._server_ids.add(id)
                if kind in SERVER_CALLS:
                    self._server_calls[id] = (index, "mcp" if kind == "mcp_tool_use" else str(block.get("name")))
            elif is_server_result(kind):
                self._add_server_result(index, f".content.{number}", block)
        if calls:
            self._calls, self._calls_at, self._answered = calls, index, set()
            self._awaits_results = True
            self._others_at = None

    def _add_server_result(self, index: int, place: str, result: Mapping[str, Any]) -> None:
        """Pair a result with its call: earlier in this message, or in any message before it."""
        id, kind = result.get("tool_use_id"), result["type"]
        if not isinstance(id, str):
            return
        self._server_calls.pop(id, None)
        if id not in self._server_ids:
            call = "mcp_tool_use" if kind == "mcp_tool_result" else "server_tool_use"
            what = (
                f"unexpected `tool_use_id` found in `{kind}` blocks: {id}. Each `{kind}` block must have a "
                f"corresponding `{call}` block before it."
            )
            self._fault(index, place, what)

    def _add_answers(self, index: int, blocks: Sequence[Mapping[str, Any]]) -> None:
        for number, block in enumerate(blocks):
            place = f".content.{number}"
            if block["type"] != "tool_result":
                if self._awaits_results:
                    self._others_at = self._others_at or f"messages.{index}{place}"
                self._refuse_unresolved()
                continue
            id = block.get("tool_use_id")
            if not self._awaits_results or not isinstance(id, str) or id not in self._calls:
                what = (
                    f"unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have "
                    "a corresponding `tool_use` block in the previous message."
                )
                self._fault(index, place, what)
            elif id in self._answered:
                what = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
                self._fault(index, place, what)
            elif self._others_at is None:
                self._answered.add(id)
                self._check_caller(index, place, self._calls[id], block)

    def _check_caller(self, index: int, place: str, call: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """A call made from code takes text only."""
        caller = call.get("caller")
        content = result.get("content")
        if isinstance(caller, Mapping) and caller.get("type", "direct") != "direct" and isinstance(content, list):
            for number, inner in enumerate(map(as_mapping, content)):
                if isinstance(inner, Mapping) and inner.get("type") != "text":
                    what = "results of programmatic tool calls may only contain text"
                    self._fault(index, f"{place}.tool_result.content.{number}", what)

    def _refuse_unresolved(self) -> None:
        """Anything but results after a call that the API has yet to run itself ends its turn, and it is lost."""
        for id, (at, name) in self._server_calls.items():
            what = f"`{name}` tool use with id `{id}` was found without a corresponding `{name}_tool_result` block"
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

_SEARCHES: Final = ("tool_search_tool_bm25", "tool_search_tool_regex")


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
        kind = tool_kind(tool)
        place = f"tools.{number}.{kind}"
        name = tool.get("name")
        if isinstance(name, str):
            names.append(name)
        if kind != USER_DEFINED:
            if EAGER_FIELD in tool:
                faults.append(f"{place}.{EAGER_FIELD}: Extra inputs are not permitted")
            if tool_family(tool) in _SEARCHES and tool.get("defer_loading") is True:
                faults.append(f"{place}.defer_loading: the tool that finds deferred tools cannot be deferred itself")
            continue
        if not isinstance(name, str):
            faults.append(f"{place}.name: Field required")
        elif len(name) > _MAX_NAME_CHARS:
            faults.append(f"{place}.name: String should have at most {_MAX_NAME_CHARS} characters")
        elif not API_NAME.fullmatch(name):
            faults.append(f"{place}.name: String should match pattern '^{API_NAME.pattern}$'")
        schema = tool.get("input_schema")
        if not isinstance(schema, Mapping):
            faults.append(
                f"{place}.input_schema: {'Field required' if schema is None else 'Input should be an object'}"
            )
        elif schema.get("type") != "object":
            said = "Input should be 'object'" if "type" in schema else "Field required"
            faults.append(f"{place}.input_schema.type: {said}")
        elif any(name in schema for name in ("oneOf", "allOf", "anyOf")):
            what = "input_schema does not support oneOf, allOf, or anyOf at the top level"
            faults.append(f"{place}.input_schema: {what}")
        if tool.get("defer_loading") is True and tool.get("cache_control") is not None:
            faults.append(
                f"Tool '{name}' cannot have both defer_loading=true and cache_control set. "
                "Tools with defer_loading cannot use prompt caching."
            )
    if len(set(names)) < len(names):
        faults.append("tools: Tool names must be unique.")
    if "computer" in names:
        toolsets = [tool_kind(tool) for tool in definitions if tool_family(tool) == "computer_toolset"]
        faults += [f"tools: {kind} cannot be combined with a tool named 'computer'." for kind in toolsets[:1]]
    deferred = [tool.get("defer_loading") is True for tool in definitions]
    if deferred and all(deferred):
        faults.append("At least one tool must have defer_loading=false. All tools cannot be deferred.")
    return faults


def count_breakpoints(holders: object) -> int:
    """How many `cache_control`s there are in messages, blocks or definitions."""
    count = 0
    pending = [holders]
    while pending:
        found = pending.pop()
        if isinstance(found, list | tuple):
            pending += found
        elif isinstance(found := as_mapping(found), Mapping):
            count += found.get("cache_control") is not None
            pending.append(found.get("content"))
    return count
