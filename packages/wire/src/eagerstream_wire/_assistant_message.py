"""The types of an assistant message and its usage counts, as the API documents them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict, cast

Block: TypeAlias = dict[str, Any]

# No count of tokens is that large. Beyond it, readers of the JSON that use floats lose digits, and integers of
# thousands of digits cannot be written at all (test_usage_that_is_no_count).
_NO_COUNT: Final = 2**53

StopReason: TypeAlias = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "compaction",
    "refusal",
    "model_context_window_exceeded",
]
"""The reasons that the API documents. Newer versions of it may send others."""


class CacheCreation(TypedDict, total=False):
    """Tokens that were written to the prompt cache, by how long they stay there."""

    ephemeral_5m_input_tokens: int
    ephemeral_1h_input_tokens: int


class ServerToolCounts(TypedDict, total=False):
    """Requests of the tools that the API runs."""

    web_search_requests: int
    web_fetch_requests: int


class Usage(TypedDict):
    """The counts of one response, or of all responses of a run. A count that never came is absent.

    `uncounted_output_tokens` is no count of the API. It is there if a response was cut before its final counts, and
    estimates the output tokens that `output_tokens` lacks.
    """

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: NotRequired[int]
    cache_read_input_tokens: NotRequired[int]
    output_tokens_details: NotRequired[dict[str, Any]]
    cache_creation: NotRequired[CacheCreation]
    server_tool_use: NotRequired[ServerToolCounts]
    service_tier: NotRequired[str]
    inference_geo: NotRequired[str]
    speed: NotRequired[str]
    iterations: NotRequired[list[dict[str, Any]]]
    fallback_credit: NotRequired[dict[str, Any]]
    uncounted_output_tokens: NotRequired[int]


class TextBlock(TypedDict):
    """Text, with the sources that it cites."""

    type: Literal["text"]
    text: str
    citations: NotRequired[list[dict[str, Any]] | None]


class ThinkingBlock(TypedDict):
    """Thinking, with the signature that the API checks when the block comes back."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class RedactedThinkingBlock(TypedDict):
    """Encrypted thinking."""

    type: Literal["redacted_thinking"]
    data: str


class ToolUseBlock(TypedDict):
    """A call of a tool that the program runs (`tool_use`), or the API (`server_tool_use`, `mcp_tool_use`)."""

    type: Literal["tool_use", "server_tool_use", "mcp_tool_use"]
    id: str
    name: str
    input: dict[str, Any]
    caller: NotRequired[dict[str, Any]]
    toolset_name: NotRequired[str]
    server_name: NotRequired[str]


class ServerToolResultBlock(TypedDict):
    """The result of a tool that the API ran. The content of each kind has a form of its own."""

    type: Literal[
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "mcp_tool_result",
    ]
    tool_use_id: str
    content: Any
    is_error: NotRequired[bool]


class OtherBlock(TypedDict):
    """A file for the container, a summary of the history, the model that answered instead."""

    type: Literal["container_upload", "compaction", "fallback"]
    file_id: NotRequired[str]
    content: NotRequired[Any]


ContentBlock: TypeAlias = (
    TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ServerToolResultBlock | OtherBlock
)
"""A block of an assistant message, told apart by its `type`. A kind that the API adds later comes as it is."""


class AssistantMessage(TypedDict):
    """A message of the model, in the form for a history.

    The fields that the API always sends are required. `type`, `role` and `content` are always there. If a gateway
    leaves out one of the others, the message does not have it either.
    """

    type: Literal["message"]
    role: Literal["assistant"]
    content: list[ContentBlock]
    id: str
    model: str
    usage: Usage
    stop_reason: NotRequired[StopReason | None]
    stop_sequence: NotRequired[str | None]
    stop_details: NotRequired[dict[str, Any] | None]
    container: NotRequired[dict[str, Any] | None]
    context_management: NotRequired[dict[str, Any] | None]
    diagnostics: NotRequired[dict[str, Any] | None]
    input_transformations: NotRequired[list[dict[str, Any]] | None]


_CHARS_PER_TOKEN: Final = 4
"""Of English text, roughly; of code and other languages, there are fewer."""
_COUNTED: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def blocks_of(message: AssistantMessage) -> list[Block]:
    """Return the content of a message for code that treats blocks of every kind alike, whatever the API adds.

    Compiled code must use this: it checks the types of a block's fields, and a peer may send anything.
    """
    return cast("list[Block]", message["content"])


def empty_message() -> AssistantMessage:
    """Return the message of a response of which nothing came."""
    return cast("AssistantMessage", {"role": "assistant", "content": []})


def text_of(content: object) -> str:
    """Return the text in the content of a message or a result: its text blocks joined, or an empty text."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list | tuple) else ()
    texts = (block.get("text") for block in blocks if isinstance(block, Mapping) and block.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def total_tokens(usage: object) -> int:
    """Return the number of all tokens: input, input from or for the cache, and output."""
    counts = (usage.get(name) for name in _COUNTED) if isinstance(usage, Mapping) else ()
    return sum(count for count in counts if type(count) is int)


def counted(known: object, count: object) -> Any:
    """Return the value of a count after another one has come: what is no count never replaces one.

    A number without a fraction is a count, also as a float: some gateways write `5.0`.
    """
    if isinstance(known, Mapping):
        given = count if isinstance(count, Mapping) else {}
        return {**known, **{name: _counted(known.get(name), value) for name, value in given.items()}}
    return _counted(known, count)


def as_count(value: Any) -> Any:
    """Return a float without a fraction as an integer, and anything else as it is."""
    return int(value) if type(value) is float and value.is_integer() else value


def _counted(known: object, count: object) -> object:
    count = as_count(count)
    is_count = type(count) is int and count >= 0
    return known if type(known) is int and not is_count else count


def uncounted_tokens(content: Sequence[Mapping[str, Any]], output_tokens: object, chars: int = 0) -> int:
    """Estimate the output tokens of a message beyond those that were counted, from its characters, and from more."""
    for block in content:
        texts = (block.get("text"), block.get("thinking"))
        chars += sum(len(text) for text in texts if isinstance(text, str))
        if block.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use") and block.get("input"):
            chars += len(json.dumps(block["input"], ensure_ascii=False, default=str))
    return max(0, chars // _CHARS_PER_TOKEN - (output_tokens if type(output_tokens) is int else 0))


def is_lower_bound(usage: object) -> bool:
    """Return True if the counts lack something: a response was cut before its final ones."""
    return isinstance(usage, Mapping) and "uncounted_output_tokens" in usage


def add_usage(total: Any, usage: Mapping[str, Any]) -> None:
    """Add the counts of one response to those of a run. Within a response they are cumulative: the last ones count."""
    # By type, not by name: the API adds counts from time to time, nested ones too. `type(...) is int`, because a bool
    # is an int, and is no count.
    for name, value in usage.items():
        earlier = total.get(name)
        value = as_count(value)  # some gateways write 5.0
        if type(value) is int:
            if 0 <= value < _NO_COUNT and not isinstance(earlier, dict):
                total[name] = value + (earlier if type(earlier) is int else 0)
        elif type(earlier) is int or (isinstance(earlier, dict) and not isinstance(value, Mapping)):
            pass  # what is no count never replaces one
        elif isinstance(value, Mapping):
            total[name] = nested = dict(earlier) if isinstance(earlier, dict) else {}
            add_usage(nested, value)
        elif isinstance(value, str | bool) or (isinstance(value, float) and isfinite(value)):
            total[name] = value
