"""`ResponseEvents`: the events of the Responses API, which say where each call begins and ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic

from ...wire import InputEvent, InputT
from ._fields import field_of

_CUT: Final = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


class ResponseEvents(Generic[InputT]):
    """Reads the events of replies of the Responses API, one reply after the other.

    Args:
        feed: `feed` of an `InputAccumulator`, or of `EarlyCalls`.
    """

    def __init__(self, feed: Callable[[Mapping[str, Any]], list[InputEvent[InputT]]]) -> None:
        self._feed = feed
        self._chars: dict[int, int] = {}  # of the arguments so far, by the index of the item, while it is written
        self._has_calls = False

    def feed(self, event: object) -> list[InputEvent[InputT]]:
        """What an event means for the inputs. A reply that fails is not told the end of.

        Args:
            event: An object of OpenAI's client, or a mapping: `{"type": "response.output_item.added", ...}`.

        Raises:
            LimitError, ProtocolError: As the `feed` that was given.
        """
        index = field_of(event, "output_index")
        item = field_of(event, "item")
        match field_of(event, "type"):
            case "response.created":
                self._chars.clear()
                self._has_calls = False
                return self._feed({"type": "message_start", "message": {"role": "assistant", "content": []}})
            case "response.output_item.added" if field_of(item, "type") == "function_call":
                return self._begin(index, item)
            case "response.function_call_arguments.delta" if index in self._chars:
                return self._write(index, field_of(event, "delta"))
            case "response.output_item.done" if field_of(item, "type") == "function_call":
                return self._end_item(index, item)
            case "response.completed" | "response.incomplete":
                return self._end(field_of(field_of(event, "response"), "incomplete_details"))
            case _:
                return []

    def _begin(self, index: int, item: object) -> list[InputEvent[InputT]]:
        self._chars[index] = 0
        self._has_calls = True
        block = {"type": "tool_use", "id": field_of(item, "call_id"), "name": field_of(item, "name"), "input": {}}
        events = self._feed({"type": "content_block_start", "index": index, "content_block": block})
        return events + self._write(index, field_of(item, "arguments"))

    def _write(self, index: int, text: str | None) -> list[InputEvent[InputT]]:
        if not text:
            return []
        self._chars[index] += len(text)
        delta = {"type": "input_json_delta", "partial_json": text}
        return self._feed({"type": "content_block_delta", "index": index, "delta": delta})

    def _end_item(self, index: int, item: object) -> list[InputEvent[InputT]]:
        """The arguments come whole once more; from some servers, here only. One that was cut is left open."""
        events = self._begin(index, item) if index not in self._chars else []
        rest = (field_of(item, "arguments") or "")[self._chars[index] :]
        events += self._write(index, rest)
        del self._chars[index]
        if field_of(item, "status") == "incomplete":
            return events
        return events + self._feed({"type": "content_block_stop", "index": index})

    def _end(self, details: object) -> list[InputEvent[InputT]]:
        reason = _CUT.get(str(field_of(details, "reason")), "tool_use" if self._has_calls else "end_turn")
        events = self._feed({"type": "message_delta", "delta": {"stop_reason": reason}})
        return events + self._feed({"type": "message_stop"})
