"""The calls of a run as HelloAgents tells of them: each begins once, with its whole input, and ends once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from ...loop import RunEvent, ToolStart, ToolStop
from ...streaming import GrowingInput
from ...tools import ToolCall, ToolResponse
from ...wire import InputStop

Told: TypeAlias = tuple[Literal["call", "result"], ToolCall]


class CallPairs:
    """From the events of a run: when to tell of a call, and when of its result.

    A tool that reads its input while it is written has begun before that is whole: it is told of at the end of the
    input. One that never ran is told of with its result.
    """

    def __init__(self) -> None:
        self._begun: dict[GrowingInput, ToolCall] = {}  # to be told of when their input is whole
        self._told: set[ToolCall] = set()  # as calls, whose results have yet to come

    def take(self, event: RunEvent) -> Iterator[Told]:
        """What follows from an event."""
        match event:
            case ToolStart(call=call) if call not in self._told:
                if call.input.outcome is None:
                    self._begun[call.input] = call
                else:
                    yield self._call(call)
            case InputStop(input=input) if input in self._begun:
                yield self._call(self._begun.pop(input))
            case ToolStop(call=call):
                self._begun.pop(call.input, None)
                if call not in self._told:
                    yield self._call(call)
                self._told.discard(call)
                yield "result", call
            case _:
                pass

    def _call(self, call: ToolCall) -> Told:
        self._told.add(call)
        return "call", call


def call_data(call: ToolCall) -> dict[str, Any]:
    """`{"tool_name", "tool_call_id", "args"}`; the args of an invalid input are `{"INVALID_JSON": its text}`."""
    args = {} if call.input.outcome is None else call.input.wrapped
    return {"tool_name": call.name, "tool_call_id": call.id, "args": args}


def response_of_call(call: ToolCall) -> ToolResponse:
    """What a call was answered; of one that was answered without a response, what the model was told."""
    if call.response is not None:
        return call.response
    said = text_of((call.result or {}).get("content", ""))
    return ToolResponse.error("UNKNOWN", said) if call.is_error else ToolResponse.success(said)


def text_of(content: Any) -> str:
    """The text of the content of a message or of a result; empty where it has none."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list | tuple) else ()
    texts = (block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def question_of(messages: Any) -> Any:
    """The content of the last message, where it is the user's; else an empty text."""
    last = messages[-1] if messages else {}
    return last.get("content", "") if last.get("role") == "user" else ""


def total_tokens(usage: Any) -> int:
    """All tokens of an API's `usage`, cached ones among them."""
    counts = (usage.get(name) for name in _TOKENS) if isinstance(usage, dict) else ()
    return sum(count for count in counts if type(count) is int)


_TOKENS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
