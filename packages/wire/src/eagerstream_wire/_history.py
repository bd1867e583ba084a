"""`validate_history`: find everything that the API would refuse in a conversation, without a request.

Each fault has the API's own words, if they are known. Blocks, roles and fields of an unknown kind pass, because the API
may accept them tomorrow. The form of ids passes too, unless you ask for the rules of the Claude API: gateways make ids
of any form.

Sources: the API's guides to tool calls, server tools and mid-conversation system messages, the schema of its requests,
and the bodies of its 400 responses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from ._block_faults import REQUIRED, block_faults, mismatch, required
from ._block_rules import API_NAME, MAX_NAME_CHARS, PROPERTY_NAME, THINKING, ends_in_white_space, is_programmatic
from ._models import NO_PREFILL, model_facts
from ._server_tools import SERVER_CALLS, call_kind, is_server_result
from ._tool_kind import EAGER_FIELD, USER_DEFINED, tool_family, tool_kind
from ._values import as_mapping, mapping_in

_ROLES_OF_OTHERS: Final = frozenset({"tool", "function", "tool_inputs", "tool_outputs"})
_DIRECTIVES_ARE_FREE: Final = "; the directive-only form (content: [] with output_config) is accepted at any position"
MAX_BREAKPOINTS: Final = 4
"""Maximum number of `cache_control`s that the API accepts in one request."""
_TRAILING: Final = "messages: final assistant content cannot end with trailing whitespace"
# Calls whose names differ from the tool that brings them.
_OF_OTHER_NAMES: Final = frozenset({"bash_code_execution", "text_editor_code_execution", "mcp"})
_SEARCHES: Final = ("tool_search_tool_bm25", "tool_search_tool_regex")


@dataclass(frozen=True, slots=True)
class HistoryFault:
    """A fault that the API would refuse.

    Attributes:
        index: Index of the message. None if the fault concerns the tools, or all messages.
        message: The API's text, starting with the place.
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
    model: str | None = None,
) -> list[HistoryFault]:
    """Return everything in a conversation that the API would refuse. The list is empty if it can be sent.

    Args:
        messages: The messages of the request.
        tools: The tools of the request, or their definitions. With `None`, nothing that depends on them is checked.
        system_breakpoints: Number of `cache_control`s in the system prompt. They count with the others.
        first_party: Also apply the rules of the Claude API that gateways often do not have:

            - An id must match `^[a-zA-Z0-9_-]+$`, and the id of a server tool's call `^srvtoolu_[a-zA-Z0-9_]+$`.
            - A block has no fields but its own, no empty signature, and no half of a surrogate pair.
            - The name of a call must match `^[a-zA-Z0-9_-]{1,128}$`, the pattern of tool definitions. Earlier versions
              of the API had this rule. The newest schema only refuses empty names and names of more than 200
              characters, which are faults without `first_party` too.
        model: The model that gets the request. No Claude model since 4.6 continues a response that the last message
            begins, unless the API has yet to run a call of that message. A model that is not known accepts everything.
    """
    if isinstance(messages, Mapping):
        return [HistoryFault(None, "messages: Input should be a valid list")]
    reader = HistoryReader(first_party=first_party)
    return faults_behind(reader, 0, messages, messages, tools=tools, system_breakpoints=system_breakpoints, model=model)


def faults_behind(
    reader: HistoryReader,
    start: int,
    messages: Sequence[Mapping[str, Any]],
    notable: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Any] | None,
    system_breakpoints: int,
    model: str | None,
) -> list[HistoryFault]:
    """Return the faults of a conversation whose first messages have none.

    Args:
        reader: Has read the messages before `start`. It reads the others.
        start: Number of the first message to check.
        messages: The messages of the request.
        notable: Those that may have a `cache_control`.
        tools, system_breakpoints, model: See `validate_history`.
    """
    if not messages:
        return [HistoryFault(None, "messages: at least one message is required")]
    faults = reader.read(messages, start)
    reader.end_answers()
    if role_of(messages[0]) == "assistant" and _kind_at(messages[0], 0) != "compaction":
        faults.insert(0, HistoryFault(0, 'messages: first message must use the "user" role'))
    faults += misplaced_systems(messages, start)
    if tools is not None:
        tools = [
            tool.to_dict() if not isinstance(tool, Mapping) and hasattr(tool, "to_dict") else tool for tool in tools
        ]
        faults += [HistoryFault(None, fault) for fault in tool_faults(tools)]
        faults += reader.without_tool(tools)
    facts = None if model is None else model_facts(model)
    if facts is not None and facts.prefill is False and is_prefill(messages):
        faults.append(HistoryFault(len(messages) - 1, NO_PREFILL))
    breakpoints = count_breakpoints(notable) + count_breakpoints(tools or ()) + system_breakpoints
    if breakpoints > MAX_BREAKPOINTS:
        what = f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {breakpoints}."
        faults.append(HistoryFault(None, what))
    return faults


def is_prefill(messages: Sequence[Any]) -> bool:
    """Return True if the last message begins the response, and is none that the API has paused.

    A paused response has a call that the API has yet to run, or ends with the result of one or with the summary of a
    compaction. One that ends with a text is not known from a beginning.
    """
    last: Any = messages[-1] if messages else None
    if role_of(last) != "assistant":
        return False
    content = last.get("content")
    blocks = [as_mapping(block) for block in content] if isinstance(content, list | tuple) else []
    known = [block for block in blocks if isinstance(block, Mapping)]
    answered = [block.get("tool_use_id") for block in known]
    waits = any(block.get("type") in SERVER_CALLS and block.get("id") not in answered for block in known)
    return not (waits or _kind_at(last, -1) == "compaction" or is_server_result(_kind_at(last, -1)))


def role_of(message: object) -> object:
    return message.get("role") if type(message) is dict or isinstance(message, Mapping) else None


def is_directive(message: Mapping[str, Any]) -> bool:
    """Return True if a `system` message has no content and only changes the `output_config` of the next responses."""
    content = message.get("content")
    return not content and not isinstance(content, str) and bool(message.get("output_config"))


def misplaced_systems(messages: Sequence[Mapping[str, Any]], first: int) -> Iterator[HistoryFault]:
    """Find `system` messages in a place that the API refuses, from the message `first` on.

    They follow a `user` message, or an `assistant` message that ends in the result of a server tool. They precede an
    `assistant` message or end the array. Several in a row stand together: the API names the first one if the place
    before them is wrong, else the last one. If one of them is a directive, which may stand anywhere, nothing is known
    about the others, and they pass.
    """
    while first and role_of(messages[first - 1]) == "system":
        first -= 1  # those in a row are judged together
    start = end = first
    for role, run in groupby(map(role_of, messages[first:])):
        start, end = end, end + sum(1 for _ in run)
        if role != "system":
            continue
        at, what = start, None
        if start == 0:
            if not is_directive(messages[0]):
                what = "use the top-level 'system' parameter for the initial system prompt"
        elif any(map(is_directive, messages[start:end])):
            continue
        elif role_of(messages[start - 1]) == "assistant" and not is_server_result(_kind_at(messages[start - 1], -1)):
            what = "role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool result"
        elif end < len(messages) and role_of(messages[end]) == "user":
            at, what = end - 1, "role 'system' must precede an 'assistant' message or end the array"
        if what is not None:
            yield HistoryFault(at, f"messages.{at}: {what}{_DIRECTIVES_ARE_FREE}")


def _kind_at(message: Mapping[str, Any], index: int) -> Any:
    content = message.get("content")
    block = as_mapping(content[index]) if isinstance(content, list | tuple) and content else None
    return block.get("type") if isinstance(block, Mapping) else None


class HistoryReader:
    """Reads the messages in order: each by itself, and its calls with their results.

    Each call must be answered once, right after it, before anything else.

    Args:
        first_party: See `validate_history`.
    """

    __slots__ = (
        "_answered",
        "_awaits_results",
        "_calls",
        "_calls_at",
        "_faults",
        "_first_party",
        "_others_at",
        "_seen",
        "_server_answered",
        "_server_calls",
        "_server_ids",
    )

    def __init__(self, *, first_party: bool) -> None:
        self._first_party = first_party
        self._faults: list[HistoryFault] = []
        self._seen: set[str] = set()
        self._calls: dict[str, Mapping[str, Any]] = {}  # of the last assistant message with calls, by id
        self._calls_at = 0
        self._answered: set[str] = set()
        self._others_at: str | None = None  # place of the first other block before or between the results
        self._awaits_results = False
        self._server_calls: dict[str, tuple[int, str]] = {}  # without a result so far: index and name, by id
        self._server_answered: set[str] = set()
        self._server_ids: set[str] = set()  # of all server calls so far, including unknown kinds

    def copy(self) -> HistoryReader:
        """Return a reader that has read the same."""
        twin = copy(self)
        twin._faults = self._faults.copy()
        twin._seen, twin._answered = self._seen.copy(), self._answered.copy()
        twin._server_calls = self._server_calls.copy()
        twin._server_answered, twin._server_ids = self._server_answered.copy(), self._server_ids.copy()
        return twin

    def read(self, messages: Sequence[Any], start: int = 0, end: int | None = None) -> list[HistoryFault]:
        """Read the messages from `start` to `end`. Return all faults so far.

        What a message may be depends on the role of the next one: it is looked up in `messages`.
        """
        for index in range(start, len(messages) if end is None else end):
            message = messages[index]
            role = role_of(message)
            if not isinstance(message, Mapping):
                self._fault(index, "", "Input should be a valid dictionary")
            elif role is None:
                self._fault(index, ".role", REQUIRED)
            elif not isinstance(role, str) or role in _ROLES_OF_OTHERS:
                what = f'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant".'
                self._faults.append(HistoryFault(index, what))
            else:
                blocks = self._check(
                    index, message, role_of(messages[index + 1]) if index + 1 < len(messages) else None
                )
                if role == "assistant":
                    self._add_reply(index, blocks)
                elif role == "user":
                    self._add_answers(index, blocks)
        return self._faults

    def _fault(self, index: int, place: str, what: str) -> None:
        self._faults.append(HistoryFault(index, f"messages.{index}{place}: {what}"))

    # --- a message by itself ------------------------------------------------------------------------------------------

    def _check(self, index: int, message: Mapping[str, Any], after: object) -> list[Mapping[str, Any]]:
        """Check a message with a role by itself, before a message with the role `after`. Return its blocks."""
        role, content = message["role"], message.get("content")
        if role == "system":
            if is_directive(message):
                return []
            if content is not None and not content:
                self._fault(index, "", "system content must contain at least one block")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}] if content else []
        if not isinstance(content, list | tuple):
            self._fault(index, ".content", required(message, "content", "list"))
            return []
        # The API merges consecutive messages of the same role into one.
        may_be_empty = role == "assistant" and after is None
        if not content and not may_be_empty and role in ("user", "assistant"):
            what = "all messages must have non-empty content except for the optional final assistant message"
            self._fault(index, "", what)
        blocks: list[Mapping[str, Any]] = []
        for number, block in enumerate(map(as_mapping, content)):
            if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
                self._fault(index, f".content.{number}.type", REQUIRED)
                continue
            blocks.append(block)
            for place, what in block_faults(block, first_party=self._first_party):
                if place is None:
                    self._faults.append(HistoryFault(index, f"messages: {what}"))
                else:
                    self._fault(index, f".content.{number}{place}", what)
        kinds = {block["type"] for block in blocks}
        if "tool_use" in kinds and role != "assistant":
            self._fault(index, "", "`tool_use` blocks can only be in `assistant` messages")
        if "tool_result" in kinds and role == "assistant":
            self._fault(index, "", "`tool_result` blocks can only be in `user` messages")
        if role != "assistant" and not kinds.isdisjoint(THINKING):
            self._fault(index, ".content", "thinking blocks may only be in `assistant` messages")
        if role == "assistant" and role != after and blocks and blocks[-1]["type"] in THINKING:
            self._fault(index, "", f"The final block in an assistant message cannot be `{blocks[-1]['type']}`.")
        if role == "assistant" and after is None and blocks and ends_in_white_space(blocks[-1]):
            self._faults.append(HistoryFault(index, _TRAILING))
        return blocks

    # --- calls and their results --------------------------------------------------------------------------------------

    def _add_reply(self, index: int, blocks: Sequence[Mapping[str, Any]]) -> None:
        self.end_answers()
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
                self._server_answered.discard(id)
                if kind in SERVER_CALLS:
                    self._server_calls[id] = (index, "mcp" if kind == "mcp_tool_use" else str(block.get("name")))
            elif is_server_result(kind) and isinstance(id := block.get("tool_use_id"), str):
                # Its call is earlier in this message, or in any message before it.
                self._server_calls.pop(id, None)
                if id in self._server_answered:
                    one = f"each {call_kind(kind)} must have a single result"
                    what = f"{one}. Found multiple `{kind}` blocks with id: {id}"
                    self._fault(index, f".content.{number}", what)
                self._server_answered.add(id)
                if id not in self._server_ids:
                    what = (
                        f"unexpected `tool_use_id` found in `{kind}` blocks: {id}. Each `{kind}` block must have a "
                        f"corresponding `{call_kind(kind)}` block before it."
                    )
                    self._fault(index, f".content.{number}", what)
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
                # It ends the turn of server calls without a result, and they are lost.
                for call_id, (at, name) in self._server_calls.items():
                    what = (
                        f"`{name}` tool use with id `{call_id}` was found without a corresponding "
                        f"`{name}_tool_result` block"
                    )
                    self._fault(at, "", what)
                self._server_calls.clear()
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
                content = block.get("content")
                parts = content if is_programmatic(self._calls[id]) and isinstance(content, list) else []
                for inner, part in enumerate(map(as_mapping, parts)):
                    if isinstance(part, Mapping) and part.get("type") != "text":
                        what = "results of programmatic tool calls may only contain text"
                        self._fault(index, f"{place}.tool_result.content.{inner}", what)

    def end_answers(self) -> None:
        """End the results of the last calls: no more come."""
        missing = [id for id in self._calls if id not in self._answered] if self._awaits_results else []
        if missing:
            what = (
                f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}. "
                "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
            )
            self._fault(self._calls_at, "", what)
        self._awaits_results = False

    def without_tool(self, tools: Sequence[object]) -> Iterator[HistoryFault]:
        """Yield the calls that the API has yet to run without a tool among `tools`."""
        for id in self.ids_without_tool(tools):
            at, name = self._server_calls[id]
            what = f"`{name}` tool use with id `{id}` was found, but no `{name}` tool was provided"
            yield HistoryFault(at, f"messages.{at}: {what}")

    def ids_without_tool(self, tools: Sequence[object]) -> list[str]:
        """Return the ids of these calls."""
        names = [tool.get("name") for tool in tools if isinstance(tool, Mapping)]
        if None in names:  # a toolset, which has many tools
            return []
        return [id for id, (_, name) in self._server_calls.items() if name not in (*names, *_OF_OTHER_NAMES)]


# --- blocks -----------------------------------------------------------------------------------------------------------


def tool_faults(tools: Sequence[object]) -> list[str]:
    """Return the faults of tool definitions that the API would refuse, in its words."""
    faults: list[str] = []
    for number, tool in enumerate(tools):
        if isinstance(tool, Mapping):
            faults += _definition_faults(tool, f"tools.{number}.{tool_kind(tool)}")
        else:
            faults.append(f"tools.{number}: Input should be a valid dictionary")
    definitions = [tool for tool in tools if isinstance(tool, Mapping)]
    names = [name for tool in definitions if isinstance(name := tool.get("name"), str)]
    if len(set(names)) < len(names):
        faults.append("tools: Tool names must be unique.")
    if "computer" in names:
        toolsets = [tool_kind(tool) for tool in definitions if tool_family(tool) == "computer_toolset"]
        faults += [f"tools: {kind} cannot be combined with a tool named 'computer'." for kind in toolsets[:1]]
    if definitions and all(tool.get("defer_loading") is True for tool in definitions):
        faults.append("At least one tool must have defer_loading=false. All tools cannot be deferred.")
    return faults


def _definition_faults(tool: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield the faults of a definition by itself."""
    if tool_kind(tool) != USER_DEFINED:
        if EAGER_FIELD in tool:
            yield f"{place}.{EAGER_FIELD}: Extra inputs are not permitted"
        if tool_family(tool) in _SEARCHES and tool.get("defer_loading") is True:
            yield f"{place}.defer_loading: the tool that finds deferred tools cannot be deferred itself"
        return
    name, schema = tool.get("name"), tool.get("input_schema")
    if not isinstance(name, str):
        yield f"{place}.name: {REQUIRED}"
    elif len(name) > MAX_NAME_CHARS:
        yield f"{place}.name: String should have at most {MAX_NAME_CHARS} characters"
    elif not API_NAME.fullmatch(name):
        yield f"{place}.name: {mismatch(API_NAME)}"
    if not isinstance(schema, Mapping):
        yield f"{place}.input_schema: {REQUIRED if schema is None else 'Input should be an object'}"
    elif schema.get("type") != "object":
        told = "Input should be 'object'" if "type" in schema else REQUIRED
        yield f"{place}.input_schema.type: {told}"
    elif illegal := [str(key) for key in mapping_in(schema, "properties") if not PROPERTY_NAME.fullmatch(str(key))]:
        # With the names: of hundreds of tools, usually of an MCP server, one makes the API refuse the whole request.
        told = f"Property keys should match pattern '^{PROPERTY_NAME.pattern}$'"
        yield f"{place}.input_schema.properties: {told} (the tool {name!r:.80} has {illegal[0]!r:.80})"
    elif any(name in schema for name in ("oneOf", "allOf", "anyOf")):
        yield f"{place}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
    if tool.get("defer_loading") is True and tool.get("cache_control") is not None:
        yield (
            f"Tool '{name}' cannot have both defer_loading=true and cache_control set. "
            "Tools with defer_loading cannot use prompt caching."
        )


def count_breakpoints(holders: object) -> int:
    """Return the number of `cache_control`s in messages, blocks or definitions."""
    count = 0
    pending = [holders]
    while pending:
        found = as_mapping(pending.pop())
        if isinstance(found, list | tuple):
            pending += found
        elif type(found) is dict or isinstance(found, Mapping):
            count += found.get("cache_control") is not None
            content = found.get("content")
            if not isinstance(content, str):  # most contents of a long history are results
                pending.append(content)
    return count
