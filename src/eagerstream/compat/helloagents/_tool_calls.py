"""Calls of a run in HelloAgents' form: each has one start, with the complete input, and one end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from ...loop import RunEvent, ToolStart, ToolStop
from ...streaming import GrowingInput
from ...tools import ToolCall, ToolResponse
from ...wire import InputStop, text_of

Told: TypeAlias = tuple[Literal["call", "result"], ToolCall]


class CallPairs:
    """Reader of a run's events that gives one `"call"` and one `"result"` for each call.

    A tool may start before its input is complete. Its `"call"` then comes at the end of the input. If a call never ran,
    its `"call"` comes with its result.
    """

    def __init__(self) -> None:
        self._begun: dict[GrowingInput, ToolCall] = {}  # to be reported when their input is complete
        self._told: set[ToolCall] = set()  # reported as calls, without a result yet

    def take(self, event: RunEvent) -> Iterator[Told]:
        """Yield the calls and results that follow from an event."""
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
    """Return `{"tool_name", "tool_call_id", "args"}`. The args of an invalid input are `{"INVALID_JSON": raw}`."""
    args = {} if call.input.outcome is None else call.input.wrapped
    return {"tool_name": call.name, "tool_call_id": call.id, "args": args}


def response_of_call(call: ToolCall) -> ToolResponse:
    """Return the response of a call. If it was answered without one, return the result's text as a response."""
    if call.response is not None:
        return call.response
    said = text_of((call.result or {}).get("content", ""))
    return ToolResponse.error("UNKNOWN", said) if call.is_error else ToolResponse.success(said)


def question_of(messages: Any) -> Any:
    """Return the content of the last message if it is the user's. Otherwise return an empty text."""
    last = messages[-1] if messages else {}
    return last.get("content", "") if last.get("role") == "user" else ""
