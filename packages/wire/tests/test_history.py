"""`validate_history`: what the API refuses is found, in its words, and nothing else is."""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, MappingProxyType
from typing import Any, Final

from anthropic.types import Message, TextBlock, ToolUseBlock
from hypothesis import assume, given, strategies as st
from tests.streams import USER
from tests.tables import rows

from eagerstream_wire import (
    HistoryFault,
    validate_history,
)

Block = dict[str, Any]
Messages = list[dict[str, Any]]


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def words(text: str = "Hi") -> Block:
    return {"type": "text", "text": text}


def call(id: str = "toolu_1", **fields: Any) -> Block:
    return {"type": "tool_use", "id": id, "name": "now", "input": {}} | fields


def result(id: str = "toolu_1", **fields: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": id, "content": "noon"} | fields


def server_call(id: str = "srvtoolu_1", name: str = "web_fetch", kind: str = "server_tool_use") -> Block:
    return {"type": kind, "id": id, "name": name, "input": {}}


def server_result(id: str = "srvtoolu_1", kind: str = "web_fetch_tool_result") -> Block:
    return {
        "type": kind,
        "tool_use_id": id,
        "content": {"type": "web_fetch_tool_result_error", "error_code": "unavailable"},
    }


def system(content: Any = "Be brief.", **fields: Any) -> dict[str, Any]:
    return {"role": "system", "content": content} | fields


def thinking(**fields: Any) -> Block:
    return {"type": "thinking", "thinking": "So.", "signature": "c2ln"} | fields


def custom(name: Any = "now", **fields: Any) -> Block:
    return {"name": name, "input_schema": {"type": "object"}} | fields


CODE = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
WEB_FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
CACHED: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
DIRECTIVE: dict[str, Any] = {"role": "system", "content": [], "output_config": {"effort": "low"}}


def without(at: int, ids: str) -> str:
    return (
        f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def unexpected(place: str, id: str) -> str:
    return (
        f"messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. "
        "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
    )


def orphan(place: str, id: str, kind: str = "web_fetch_tool_result", call: str = "server_tool_use") -> str:
    return (
        f"messages.{place}: unexpected `tool_use_id` found in `{kind}` blocks: {id}. "
        f"Each `{kind}` block must have a corresponding `{call}` block before it."
    )


def told(messages: Sequence[Any], tools: Sequence[Mapping[str, Any]] | None = None) -> list[tuple[int | None, str]]:
    return [(fault.index, fault.message) for fault in validate_history(messages, tools)]


# --- histories that the API refuses -----------------------------------------------------------------------------------

_EMPTY = "all messages must have non-empty content except for the optional final assistant message"
_FETCH = "`web_fetch` tool use with id `srvtoolu_1` was found without a corresponding `web_fetch_tool_result` block"
_ANYWHERE = "; the directive-only form (content: [] with output_config) is accepted at any position"
_TOP_LEVEL = "use the top-level 'system' parameter for the initial system prompt"
_MUST_FOLLOW = "role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool result"
_MUST_PRECEDE = "role 'system' must precede an 'assistant' message or end the array"
_NO_BLOCK = "system content must contain at least one block"
_MCP_RESULT = ("mcptoolu_2", "mcp_tool_result")

WRONG: dict[str, tuple[Sequence[Any], int | None, str]] = {
    "nothing": ([], None, "messages: at least one message is required"),
    "assistant first": ([assistant(words()), USER], 0, 'messages: first message must use the "user" role'),
    "no role": ([{"content": "Hi"}], 0, "messages.0.role: Field required"),
    "no content": ([{"role": "user"}], 0, "messages.0.content: Field required"),
    "empty string": ([{"role": "user", "content": ""}], 0, f"messages.0: {_EMPTY}"),
    "empty list": ([USER, assistant(), USER], 1, f"messages.1: {_EMPTY}"),
    "empty text": ([user(words(""))], 0, "messages: text content blocks must be non-empty"),
    "white text": ([user(words(" \n"))], 0, "messages: text content blocks must contain non-whitespace text"),
    "white string": (
        [{"role": "user", "content": "\n"}],
        0,
        "messages: text content blocks must contain non-whitespace text",
    ),
    "no text": ([user({"type": "text"})], 0, "messages.0.content.0.text.text: Field required"),
    "no answer at the end": ([USER, assistant(call())], 1, without(1, "toolu_1")),
    "no answer": ([USER, assistant(call()), USER], 1, without(1, "toolu_1")),
    "no answer to two": ([USER, assistant(call("a"), call("b")), USER], 1, without(1, "a, b")),
    "half an answer": ([USER, assistant(call("a"), call("b")), user(result("a"))], 1, without(1, "b")),
    "text before the results": ([USER, assistant(call()), user(words(), result())], 1, without(1, "toolu_1")),
    "text between the results": (
        [USER, assistant(call("a"), call("b")), user(result("a"), words(), result("b"))],
        1,
        without(1, "b"),
    ),
    "a user message between": ([USER, assistant(call()), user(words()), user(result())], 1, without(1, "toolu_1")),
    "a result of nothing": ([user(result("x"))], 0, unexpected("0.content.0", "x")),
    "a result after an answer": (
        [USER, assistant(call()), user(result()), assistant(words()), user(result())],
        4,
        unexpected("4.content.0", "toolu_1"),
    ),
    "a result of another call": (
        [USER, assistant(call("a")), user(result("a"), result("b"))],
        2,
        unexpected("2.content.1", "b"),
    ),
    "two results": (
        [USER, assistant(call()), user(result(), result())],
        2,
        (
            "messages.2.content.1: each tool_use must have a single result. "
            "Found multiple `tool_result` blocks with id: toolu_1"
        ),
    ),
    "one id twice": (
        [USER, assistant(call(), call()), user(result())],
        1,
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    "one id in two turns": (
        [USER, assistant(call()), user(result()), assistant(call()), user(result())],
        3,
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "a call of the user": ([user(call())], 0, "messages.0: `tool_use` blocks can only be in `assistant` messages"),
    "a result of the assistant": (
        [USER, assistant(words(), result("x"))],
        1,
        "messages.1: `tool_result` blocks can only be in `user` messages",
    ),
    "no input": (
        [USER, assistant({"type": "tool_use", "id": "a", "name": "now"}), user(result("a"))],
        1,
        "messages.1.content.0.tool_use.input: Field required",
    ),
    "an input that is a string": (
        [USER, assistant(call(input="{}")), user(result())],
        1,
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "no id of the call": (
        [USER, assistant(call(), {"type": "tool_use", "name": "now", "input": {}}), user(result())],
        1,
        "messages.1.content.1.tool_use.id: Field required",
    ),
    "no name": (
        [USER, assistant({"type": "tool_use", "id": "a", "input": {}}), user(result("a"))],
        1,
        "messages.1.content.0.tool_use.name: Field required",
    ),
    "no signature": (
        [USER, assistant({"type": "thinking", "thinking": "So."}, words())],
        1,
        "messages.1.content.0.thinking.signature: Field required",
    ),
    "thinking at the end": (
        [USER, assistant(words(), thinking()), USER],
        1,
        "messages.1: The final block in an assistant message cannot be `thinking`.",
    ),
    "redacted thinking at the end": (
        [USER, assistant(words(), {"type": "redacted_thinking", "data": "x"}), USER],
        1,
        "messages.1: The final block in an assistant message cannot be `redacted_thinking`.",
    ),
    "text while a server tool waits": (
        [USER, assistant(server_call(), call()), user(result(), words())],
        1,
        f"messages.1: {_FETCH}",
    ),
    "a server tool that never ran": ([USER, assistant(words(), server_call()), USER], 1, f"messages.1: {_FETCH}"),
    "an empty name of a call": (
        [USER, assistant(call(name="")), user(result())],
        1,
        "messages.1.content.0.tool_use.name: String should have at least 1 character",
    ),
    "a long name of a call": (
        [USER, assistant(words(), call(name="a" * 201)), user(result())],
        1,
        "messages.1.content.1.tool_use.name: String should have at most 200 characters",
    ),
    "an empty name of a server call": (
        [USER, assistant(server_call(name=""), server_result())],
        1,
        "messages.1.content.0.server_tool_use.name: String should have at least 1 character",
    ),
    "a server result without its call": (
        [USER, assistant(words(), server_result())],
        1,
        orphan("1.content.1", "srvtoolu_1"),
    ),
    "a server result before its call": (
        [USER, assistant(server_result(), server_call(), words())],
        1,
        orphan("1.content.0", "srvtoolu_1"),
    ),
    "a server result of another call": (
        [USER, assistant(server_call(), server_result(), server_result("srvtoolu_2"))],
        1,
        orphan("1.content.2", "srvtoolu_2"),
    ),
    "a server result without an id": (
        [USER, assistant({"type": "web_fetch_tool_result", "content": []}, words())],
        1,
        "messages.1.content.0.web_fetch_tool_result.tool_use_id: Field required",
    ),
    "an MCP result without its call": (
        [USER, assistant(server_call("mcptoolu_1", "echo", "mcp_tool_use"), server_result(*_MCP_RESULT), words())],
        1,
        orphan("1.content.1", "mcptoolu_2", "mcp_tool_result", "mcp_tool_use"),
    ),
    "a system message first": ([system(), USER], 0, f"messages.0: {_TOP_LEVEL}{_ANYWHERE}"),
    "two system messages first": ([system(), system(), USER], 0, f"messages.0: {_TOP_LEVEL}{_ANYWHERE}"),
    "a system message after a reply": (
        [USER, assistant(words()), system(), USER],
        2,
        f"messages.2: {_MUST_FOLLOW}{_ANYWHERE}",
    ),
    "two system messages after a reply": (
        [USER, assistant(words()), system(), system(), assistant(words()), USER],
        2,
        f"messages.2: {_MUST_FOLLOW}{_ANYWHERE}",
    ),
    "a system message between a call and its result": (
        [USER, assistant(call()), system(), user(result())],
        2,
        f"messages.2: {_MUST_FOLLOW}{_ANYWHERE}",
    ),
    "a system message between users": ([USER, system(), USER], 1, f"messages.1: {_MUST_PRECEDE}{_ANYWHERE}"),
    "two system messages between users": (
        [USER, system(), system(), USER],
        2,
        f"messages.2: {_MUST_PRECEDE}{_ANYWHERE}",
    ),
    "an empty system message": ([USER, system("")], 1, f"messages.1: {_NO_BLOCK}"),
    "a system message without blocks": ([USER, system([]), assistant(words())], 1, f"messages.1: {_NO_BLOCK}"),
    "a directive of nothing": ([USER, system([], output_config={})], 1, f"messages.1: {_NO_BLOCK}"),
    "text after the results of programmatic calls": (
        [USER, assistant(server_call(name="code_execution"), call(caller=CODE)), user(result(), words())],
        1,
        f"messages.1: {_FETCH.replace('web_fetch', 'code_execution')}",
    ),
    "five breakpoints": (
        [user(*(words() | CACHED for _ in range(5)))],
        None,
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
}


@rows("messages, index, message", WRONG.values())
def test_a_wrong_history(messages: Sequence[Any], index: int | None, message: str) -> None:
    """One mistake is one fault, at its message, in the words of the API."""
    assert told(messages) == [(index, message)]


_ID = "String should match pattern '^[a-zA-Z0-9_-]+$'"
_SERVER_ID = "String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'"
_NAME = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"

FOREIGN: dict[str, tuple[Messages, list[str]]] = {
    "an id": (
        [USER, assistant(call("call:1")), user(result("call:1"))],
        [f"1.content.0.tool_use.id: {_ID}", f"2.content.0.tool_result.tool_use_id: {_ID}"],
    ),
    "an empty id": (
        [USER, assistant(call("")), user(result(""))],
        [f"1.content.0.tool_use.id: {_ID}", f"2.content.0.tool_result.tool_use_id: {_ID}"],
    ),
    "a line break at the end of an id": (
        [USER, assistant(call("toolu_1\n")), user(result("toolu_1\n"))],
        [f"1.content.0.tool_use.id: {_ID}", f"2.content.0.tool_result.tool_use_id: {_ID}"],
    ),
    "the id of a server call": (
        [USER, assistant(server_call("call_1"), server_result("call_1"))],
        [
            f"1.content.0.server_tool_use.id: {_SERVER_ID}",
            f"1.content.1.web_fetch_tool_result.tool_use_id: {_SERVER_ID}",
        ],
    ),
    "a dash in the id of a server call": (
        [USER, assistant(server_call("srvtoolu_a-b"))],
        [f"1.content.0.server_tool_use.id: {_SERVER_ID}"],
    ),
    "the id of an MCP call": (
        [USER, assistant(server_call("mcp.1", "echo", "mcp_tool_use"), server_result("mcp.1", "mcp_tool_result"))],
        [f"1.content.0.mcp_tool_use.id: {_ID}", f"1.content.1.mcp_tool_result.tool_use_id: {_ID}"],
    ),
    "a name": (
        [USER, assistant(call(name="get weather")), user(result())],
        [f"1.content.0.tool_use.name: {_NAME}"],
    ),
    "a name that no definition can have": (
        [USER, assistant(call(name="a" * 129)), user(result())],
        [f"1.content.0.tool_use.name: {_NAME}"],
    ),
}


@rows("messages, expected", FOREIGN.values())
def test_the_rules_of_the_claude_api(messages: Messages, expected: list[str]) -> None:
    """Gateways write other ids and names, and accept them. The Claude API does not."""
    assert told(messages) == []
    faults = validate_history(messages, first_party=True)
    assert [fault.message for fault in faults] == [f"messages.{what}" for what in expected]


def test_the_claude_api_takes_its_own_ids() -> None:
    """Ids and names of every form that the API writes pass."""
    history = [
        USER,
        assistant(
            server_call(),
            server_result(),
            server_call("mcptoolu_01-A", "echo!", "mcp_tool_use"),
            server_result("mcptoolu_01-A", "mcp_tool_result"),
            call("toolu_01A-b", name="a" * 128),
        ),
        user(result("toolu_01A-b")),
    ]
    assert validate_history(history, first_party=True) == []


@rows("role", ["tool", "function", "tool_inputs", "tool_outputs"])
def test_roles_of_others(role: str) -> None:
    """Roles that other APIs have, and that this one never had, are found."""
    (fault,) = validate_history([USER, {"role": role, "content": "noon"}])
    assert fault.index == 1


@rows("kind", ["tool_use", "tool_result", "server_tool_use", "thinking", "redacted_thinking"])
def test_what_never_stands_in_a_result(kind: str) -> None:
    """S1.14: blocks that only a model writes cannot be the content of a result."""
    (fault,) = validate_history([USER, assistant(call()), user(result(content=[{"type": kind}]))])
    assert fault.index == 2
    assert fault.message.startswith(
        f"messages.2.content.0.tool_result.content.0: Input tag '{kind}' found using 'type' does not match any of the "
        "expected tags: 'text', 'image', 'document'"
    )


def test_results_of_programmatic_calls_are_text() -> None:
    """Code that called the tool can read nothing else."""
    history = [USER, assistant(server_call(name="code_execution"), call(caller=CODE)), user(result(content=[IMAGE]))]
    (fault,) = validate_history(history)
    assert fault.index == 2
    assert fault.message.startswith("messages.2.content.0.tool_result.content.0: ")


def test_a_tool_that_was_not_given() -> None:
    """The API cannot run a call that waits where its tool is missing; it can where it is there."""
    history = [USER, assistant(server_call(), call()), user(result())]
    what = "messages.1: `web_fetch` tool use with id `srvtoolu_1` was found, but no `web_fetch` tool was provided"
    assert told(history) == []
    assert told(history, [custom()]) == [(1, what)]
    assert told(history, [custom(), WEB_FETCH]) == []


def test_all_faults_at_once() -> None:
    """Whoever mends a history wants to hear everything that is wrong with it."""
    history = [
        assistant(call("a"), call("b", input=None)),
        {"role": "tool", "content": "x"},
        user(words(), result("c")),
        assistant(thinking()),
    ]
    tools = [custom("not a name"), custom("x"), custom("x")]
    faults = validate_history(history, tools)
    assert [fault.index for fault in faults[:2]] == [0, 0]
    messages = [fault.message for fault in faults]
    for expected in (
        'messages: first message must use the "user" role',
        "messages.0.content.1.tool_use.input: Input should be a valid dictionary",
        without(0, "a, b"),
        unexpected("2.content.1", "c"),
        "messages.3: The final block in an assistant message cannot be `thinking`.",
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        "tools: Tool names must be unique.",
    ):
        assert messages.count(expected) == 1
    assert sum("messages.1.role" in message or "Unexpected role" in message for message in messages) == 1
    assert len(messages) == 8


def test_a_fault_is_told_as_its_message() -> None:
    """What is printed is what the API would say."""
    assert str(HistoryFault(None, "messages: at least one message is required")) == validate_history([])[0].message


# --- histories that it accepts ----------------------------------------------------------------------------------------

_WAITS = [USER, assistant(server_call(), call()), user(result())]

RIGHT: dict[str, Sequence[Any]] = {
    "a string": [USER],
    "a block of the package in a result": [
        USER,
        assistant(call()),
        user(result(content=[TextBlock(type="text", text="noon")])),
    ],
    "blocks": [user(words(), IMAGE)],
    "tuples": ({"role": "user", "content": (words(),)},),
    "results": [USER, assistant(words(), call("a"), call("b")), user(result("a"), result("b"))],
    "results in another order": [USER, assistant(call("a"), call("b")), user(result("b"), result("a"))],
    "text after the results": [USER, assistant(call()), user(result(), words("What next?"))],
    "results over two messages": [USER, assistant(call("a"), call("b")), user(result("a")), user(result("b"))],
    "text after results over two messages": [
        USER,
        assistant(call("a"), call("b")),
        user(result("a")),
        user(result("b"), words()),
    ],
    "a message after the results": [USER, assistant(call()), user(result()), USER],
    "text after the call": [USER, assistant(call(), words()), user(result())],
    "two users": [USER, USER],
    "thinking in a reply of its own": [USER, assistant(thinking()), assistant(call("a")), user(result("a"))],
    "an empty reply at the end": [USER, assistant()],
    "an empty string of a reply at the end": [USER, {"role": "assistant", "content": ""}],
    "the beginning of a reply": [USER, assistant(words("The answer is"))],
    "no content": [USER, assistant(call()), user({"type": "tool_result", "tool_use_id": "toolu_1"})],
    "empty content": [USER, assistant(call()), user(result(content=""))],
    "empty list of content": [USER, assistant(call()), user(result(content=[]))],
    "an error": [USER, assistant(call()), user(result(is_error=True))],
    "kinds of content": [
        USER,
        assistant(call()),
        user(
            result(
                content=[
                    words(),
                    IMAGE,
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
                    {"type": "search_result", "source": "x", "title": "x", "content": [words()]},
                    {"type": "tool_reference", "tool_name": "now"},
                    {"type": "browser_state", "x": 1},
                    {"type": "from_the_future"},
                ]
            )
        ),
    ],
    "thinking": [USER, assistant(thinking(), words())],
    "thinking left out": [USER, assistant(thinking(thinking="", signature=""), call()), user(result())],
    "redacted thinking": [USER, assistant({"type": "redacted_thinking", "data": "x"}, words())],
    "unknown blocks": [user({"type": "from_the_future"}), assistant({"type": "also", "text": ""}, words())],
    "unknown fields": [{**USER, "new": 1}, assistant(words() | {"new": 1}, call(new=1)), user(result(new=1))],
    "a system message": [USER, {"role": "system", "content": "Be brief."}, assistant(words()), USER],
    "a system message at the end": [USER, system([words()])],
    "system messages in a row": [USER, system(), system(), assistant(words()), USER, system()],
    "a system message after results": [USER, assistant(call()), user(result()), system(), assistant(words())],
    "a system message after a server result": [
        USER,
        assistant(server_call(), server_result()),
        system(),
        assistant(words()),
    ],
    "a system message beside an unknown role": [USER, system(), {"role": "oracle", "content": [words()]}],
    "directives anywhere": [DIRECTIVE, USER, DIRECTIVE, USER, assistant(words()), DIRECTIVE, USER],
    "a directive that says nothing of its content": [USER, {"role": "system", "output_config": {"effort": "low"}}],
    "a system message beside a directive": [USER, assistant(words()), DIRECTIVE, system(), DIRECTIVE, USER],
    "a long name of a call": [USER, assistant(call(name="ä b" * 66)), user(result())],
    "a long name of an MCP call": [
        USER,
        assistant(
            server_call("mcptoolu_1", "a" * 201, "mcp_tool_use"),
            server_result("mcptoolu_1", "mcp_tool_result"),
            words(),
        ),
    ],
    "ids that are not the API's": [
        USER,
        assistant(server_call("call:1"), server_result("call:1"), call("call.2|x")),
        user(result("call.2|x")),
    ],
    "the result of a server call from the future": [
        USER,
        assistant(server_call("x", kind="hologram_tool_use"), server_result("x", "hologram_tool_result"), words()),
    ],
    "a server result two messages later": [*_WAITS, assistant(server_result(), words()), USER],
    "an unknown role": [USER, {"role": "oracle", "content": [words()]}],
    "a server tool": [USER, assistant(server_call(), server_result(), words()), USER],
    "a server tool that failed": [USER, assistant(server_call(), server_result(), words())],
    "a paused reply": [USER, assistant(words(), server_call())],
    "a server tool that waits": _WAITS,
    "an MCP tool": [
        USER,
        assistant(
            server_call("mcptoolu_1", "echo", "mcp_tool_use"), server_result("mcptoolu_1", "mcp_tool_result"), words()
        ),
        USER,
    ],
    "a tool search": [
        USER,
        assistant(server_call(name="tool_search_tool_regex"), server_result(kind="tool_search_tool_result"), call("a")),
        user(result("a")),
    ],
    "a shell of the API": [
        USER,
        assistant(
            server_call(name="bash_code_execution"), server_result(kind="bash_code_execution_tool_result"), words()
        ),
        USER,
    ],
    "a programmatic call": [
        USER,
        assistant(server_call(name="code_execution"), call(caller=CODE)),
        user(result(content=[words()])),
        assistant(server_result(kind="code_execution_tool_result"), words()),
        USER,
    ],
    "a direct call with an image": [
        USER,
        assistant(call(caller={"type": "direct"})),
        user(result(content=[IMAGE])),
    ],
    "four breakpoints": [user(*(words() | CACHED for _ in range(4)))],
    "breakpoints that are none": [user(*(words() | {"cache_control": None} for _ in range(9)))],
}


@rows("messages", RIGHT.values())
def test_a_right_history(messages: Sequence[Any]) -> None:
    """To refuse what the API takes would be worse than to find nothing."""
    before = copy.deepcopy(messages)
    assert told(messages) == []
    assert messages == before


def test_blocks_of_the_anthropic_package() -> None:
    """`response.content` is appended as it is, as every guide does it, and is checked all the same."""
    message = Message.construct(  # as the client does, which also takes blocks that its version does not know
        id="msg_1",
        type="message",
        role="assistant",
        model="claude-made-1",
        content=[words(), thinking(), server_call(), server_result(), call()],
        stop_reason="tool_use",
        stop_sequence=None,
        usage={"input_tokens": 1, "output_tokens": 1},
    )
    said = {"role": "assistant", "content": message.content}
    assert told([USER, said, user(result())]) == []
    assert told([USER, said]) == [(1, without(1, "toolu_1"))]
    assert told([USER, {"role": "assistant", "content": [TextBlock(type="text", text="")]}, USER]) == [
        (1, "messages: text content blocks must be non-empty")
    ]
    untyped = ToolUseBlock.model_construct(type="tool_use", id="a", name="now", input=None)
    assert told([USER, {"role": "assistant", "content": [untyped]}, user(result("a"))]) == [
        (1, "messages.1.content.0.tool_use.input: Input should be a valid dictionary")
    ]


def test_messages_of_any_mapping() -> None:
    """A read-only view of a message is checked as the dict is, its role, too."""
    wrong = [assistant(words()), system(), USER]
    assert told([MappingProxyType(message) for message in wrong]) == told(wrong) != []
    assert told([MappingProxyType(message) for message in (USER, assistant(words()), USER)]) == []


# --- definitions ------------------------------------------------------------------------------------------------------

WRONG_TOOLS: dict[str, tuple[list[Any], str]] = {
    "no name": ([{"input_schema": {"type": "object"}}], "tools.0.custom.name: Field required"),
    "a dot": ([custom("a.b")], "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
    "an empty name": ([custom("")], "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
    "a line break": ([custom("a\n")], "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
    "a foreign letter": ([custom("ä")], "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
    "no schema": ([custom(), {"name": "b"}], "tools.1.custom.input_schema: Field required"),
    "no type": ([custom(input_schema={})], "tools.0.custom.input_schema.type: Field required"),
    "another type": (
        [custom(input_schema={"type": "array"})],
        "tools.0.custom.input_schema.type: Input should be 'object'",
    ),
    "one name twice": ([custom(), custom()], "tools: Tool names must be unique."),
    "one name of two kinds": ([custom("web_fetch"), WEB_FETCH], "tools: Tool names must be unique."),
    "a toolset beside a computer": (
        [{"type": "computer_20251124", "name": "computer"}, {"type": "computer_toolset_20260801"}],
        "tools: computer_toolset_20260801 cannot be combined with a tool named 'computer'.",
    ),
    "a toolset beside a tool named computer": (
        [{"type": "computer_toolset_20260801"}, custom("computer")],
        "tools: computer_toolset_20260801 cannot be combined with a tool named 'computer'.",
    ),
    "nothing loaded": (
        [custom(defer_loading=True)],
        "At least one tool must have defer_loading=false. All tools cannot be deferred.",
    ),
    "a deferred search": (
        [custom(), {"type": "tool_search_tool_bm25", "name": "tool_search_tool_bm25", "defer_loading": True}],
        "tools.1.tool_search_tool_bm25.defer_loading: the tool that finds deferred tools cannot be deferred itself",
    ),
    "an eager server tool": (
        [WEB_FETCH | {"eager_input_streaming": True}],
        "tools.0.web_fetch_20250910.eager_input_streaming: Extra inputs are not permitted",
    ),
}


@rows("tools, message", WRONG_TOOLS.values())
def test_a_wrong_definition(tools: list[Any], message: str) -> None:
    """Definitions are checked where they are given, and only there."""
    assert told([USER], tools) == [(None, message)]
    assert told([USER]) == []


RIGHT_TOOLS: dict[str, list[Any]] = {
    "none": [],
    "plain": [custom()],
    "with its type": [custom(type="custom")],
    "without a type": [custom(type=None)],
    "everything": [custom(description="x", strict=True, eager_input_streaming=True, input_examples=[{}], **CACHED)],
    "the longest name": [custom("x" * 128)],
    "a tool named computer": [custom("computer")],
    "a toolset beside another tool": [{"type": "computer_toolset_20260801"}, custom()],
    "another toolset beside a tool named computer": [{"type": "browser_toolset_20260801"}, custom("computer")],
    "unknown fields": [custom(new=1, input_schema={"type": "object", "new": 1})],
    "a server tool": [WEB_FETCH],
    "the client's own kinds": [{"type": "bash_20250124", "name": "bash"}],
    "a kind from the future": [{"type": "from_the_future_20990101"}],
    "an MCP toolset": [
        {"type": "mcp_toolset", "mcp_server_name": "a"},
        {"type": "mcp_toolset", "mcp_server_name": "b"},
    ],
    "one that is loaded": [custom("a", defer_loading=True), custom("b", defer_loading=False)],
    "a search": [
        custom(defer_loading=True),
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
    ],
}


@rows("tools", RIGHT_TOOLS.values())
def test_a_right_definition(tools: list[Any]) -> None:
    """What the API takes passes, whatever is new in it."""
    assert told([USER], tools) == []


def test_breakpoints_of_tools_and_messages_together() -> None:
    """The limit is one for the whole request, contents of results included."""
    messages = [USER, assistant(call()), user(result(content=[words() | CACHED], **CACHED))]
    assert told(messages, [custom("a", **CACHED), custom("b", **CACHED)]) == []
    assert told(messages, [custom(name, **CACHED) for name in "abc"]) == [
        (None, "A maximum of 4 blocks with cache_control may be provided. Found 5.")
    ]


# --- any history ------------------------------------------------------------------------------------------------------


@st.composite
def _histories(draw: st.DrawFn) -> Messages:
    """A conversation that can be sent, in which at least one tool was called."""
    messages: Messages = [USER]
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    assume(any(sizes))
    for turn, size in enumerate(sizes):
        ids = [f"toolu_{turn}_{number}" for number in range(size)]
        spoken = [words()] if not size or draw(st.booleans()) else []
        if draw(st.booleans()):
            spoken.insert(0, thinking())
        messages.append(assistant(*spoken, *map(call, ids)))
        results = list(map(result, draw(st.permutations(ids))))
        cut = draw(st.integers(0, size))
        if 0 < cut < size:
            messages.append(user(*results[:cut]))
            results = results[cut:]
        asked = [words()] if not size or draw(st.booleans()) else []
        messages.append(user(*results, *asked))
    return messages


def _places(messages: Messages, kind: str) -> list[tuple[list[Block], int]]:
    contents = [message["content"] for message in messages if isinstance(message["content"], list)]
    return [(content, at) for content in contents for at, block in enumerate(content) if block["type"] == kind]


def _drop_result(messages: Messages, draw: Callable[[int], int]) -> None:
    places = _places(messages, "tool_result")
    content, at = places[draw(len(places))]
    del content[at]


def _duplicate_result(messages: Messages, draw: Callable[[int], int]) -> None:
    places = _places(messages, "tool_result")
    content, at = places[draw(len(places))]
    content.insert(at, dict(content[at]))


def _text_before_results(messages: Messages, draw: Callable[[int], int]) -> None:
    places = _places(messages, "tool_result")
    content, at = places[draw(len(places))]
    content.insert(at, words())


def _swap_roles(messages: Messages, draw: Callable[[int], int]) -> None:
    other = {"user": "assistant", "assistant": "user"}
    for message in messages:
        message["role"] = other[message["role"]]


def _swap_one_role(messages: Messages, draw: Callable[[int], int]) -> None:
    calling = [message for message in messages if any(block["type"] == "tool_use" for block in _blocks(message))]
    calling[draw(len(calling))]["role"] = "user"


def _drop_call(messages: Messages, draw: Callable[[int], int]) -> None:
    places = _places(messages, "tool_use")
    content, at = places[draw(len(places))]
    del content[at]


def _blocks(message: Mapping[str, Any]) -> list[Block]:
    content = message["content"]
    return content if isinstance(content, list) else []


@given(messages=_histories())
def test_any_history_that_can_be_sent(messages: Messages) -> None:
    """However many turns and calls it has, and however its results are spread."""
    assert told(messages) == []


_MUTATIONS: Final = (_drop_result, _duplicate_result, _text_before_results, _swap_roles, _swap_one_role, _drop_call)


@given(messages=_histories(), data=st.data())
def test_any_mutation_is_found(messages: Messages, data: st.DataObject) -> None:
    """Whatever breaks the pairing of calls and results, and wherever: nothing of it passes."""
    for mutate in _MUTATIONS:
        broken = copy.deepcopy(messages)
        mutate(broken, lambda count: data.draw(st.integers(0, count - 1)))
        assert told(broken), mutate.__name__


# --- what it costs ----------------------------------------------------------------------------------------------------


class _Counted(str):
    """An id whose comparisons show among the calls."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def _calls_made(messages: Messages) -> int:
    count = 0

    def on_event(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    validate_history(messages)  # fills the caches of isinstance
    gc.disable()  # a collection calls back whoever asked for it
    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        faults = validate_history(messages)
    finally:
        sys.setprofile(before)
        gc.enable()
    assert faults == []
    return count


def _long_history(turns: int, *, calls: int = 3, text: str = "x") -> Messages:
    messages: Messages = [USER]
    for turn in range(turns):
        ids = [_Counted(f"toolu_{turn}_{number}") for number in range(calls)]
        waits = [server_call(_Counted(f"srvtoolu_{turn}")), server_result(_Counted(f"srvtoolu_{turn}"))]
        messages.append(assistant(words(text), *waits, *(call(id, input={"text": text}) for id in ids)))
        messages.append(user(*(result(id, content=[words(text)]) for id in ids)))
        messages.append(system())
    return messages


def test_the_cost_is_linear_in_the_turns() -> None:
    """Each further turn costs what the one before it did."""
    ten, twenty, forty = (_calls_made(_long_history(turns)) for turns in (10, 20, 40))
    assert forty - twenty == 2 * (twenty - ten)


def test_the_cost_is_linear_in_the_calls_of_a_turn() -> None:
    """Each further call costs what the one before it did."""
    ten, twenty, forty = (_calls_made(_long_history(1, calls=calls)) for calls in (10, 20, 40))
    assert forty - twenty <= 2 * (twenty - ten) * 1.05


def test_the_length_of_texts_does_not_matter() -> None:
    """A megabyte is looked at no more often than a letter."""
    assert _calls_made(_long_history(3)) == _calls_made(_long_history(3, text="x" * 1_000_000))


# --- cases of their own ------------------------------------------------------------------------------------------------


_DEEP: Block = words()
for _ in range(3000):
    _DEEP = {"type": "from_the_future", "content": [_DEEP]}


@rows(
    "messages",
    [
        # an id that is a list
        [USER, assistant(call()), user(result(tool_use_id=["toolu_1"]))],
        # deep content
        [user(_DEEP)],
    ],
)
def test_whatever_is_given_is_answered(messages: Messages) -> None:
    """A validator tells what is wrong; it does not fail on it."""
    validate_history(messages)


@rows(
    "messages, tools, message",
    [
        # a tool search
        (
            [USER, assistant(words(), server_call(name="tool_search_tool_bm25")), USER],
            None,
            (
                "messages.1: `tool_search_tool_bm25` tool use with id `srvtoolu_1` was found without a corresponding "
                "`tool_search_tool_bm25_tool_result` block"
            ),
        ),
        # a role
        (
            [USER, {"role": "tool", "content": "x"}],
            None,
            'messages: Unexpected role "tool". Allowed roles are "user" or "assistant"',
        ),
        # a block without a type
        ([user({"text": "Hi"})], None, "messages.0.content.0.type: Field required"),
        # content without a type
        (
            [USER, assistant(call()), user(result(content=[{"text": "x"}]))],
            None,
            "messages.2.content.0.tool_result.content.0.type: Field required",
        ),
        # a long name
        ([USER], [custom("x" * 129)], "tools.0.custom.name: String should have at most 128 characters"),
        # an empty error
        (
            [USER, assistant(call()), user(result(content="", is_error=True))],
            None,
            "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
        ),
        # an error with an image
        (
            [USER, assistant(call()), user(result(content=[words(), IMAGE], is_error=True))],
            None,
            "messages.2.content.0.tool_result: all content must be type `text` if `is_error` is true",
        ),
        # thinking in a system message
        (
            [user(words()), {"role": "system", "content": [thinking(), words()]}],
            None,
            "messages.1.content: thinking blocks may only be in `assistant` messages",
        ),
        # thinking of the user
        ([user(thinking(), words())], None, "messages.0.content: thinking blocks may only be in `assistant` messages"),
        # alternatives at the top
        (
            [USER],
            [custom(input_schema={"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})],
            "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        ),
        # a deferred tool in the cache
        (
            [USER],
            [custom("b"), custom(defer_loading=True, **CACHED)],
            (
                "Tool 'now' cannot have both defer_loading=true and cache_control set. "
                "Tools with defer_loading cannot use prompt caching."
            ),
        ),
    ],
)
def test_further_rules(messages: Messages, tools: list[Any] | None, message: str) -> None:
    """One fault each, told as the API tells it."""
    (fault,) = validate_history(messages, tools)
    assert fault.message.startswith(message)
