"""Deltas of responses as wire events: `ChatChunks` for chat completions, `ResponseEvents` for the Responses API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic

from eagerstream import InputEvent
from eagerstream._support.terms import InputT
from eagerstream.limits import DEFAULT_LIMITS, Limits

from ..tool_call_chunks import ToolCallChunks


def field_of(holder: object, name: str) -> Any:
    """Return a field of a client's object or of a mapping, or `None` if there is none."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


EXTRA: Final = "extra_content"
"""Field that Gemini sends with a call, and requires back with it."""


class ChatChunks(Generic[InputT]):
    """Reader of the chunks of one chat completion.

    A call with complete arguments starts when the next call starts, or at the `finish_reason`. `close` settles the
    other calls.

    Args:
        feed: `feed` of an `InputAccumulator` or of `EarlyCalls`.
        choice: Index of the choice to read, if the request asks for several (`n`).
        limits: As for `ToolCallChunks`.

    Attributes:
        finish_reason: The server's `finish_reason`, or `None` before it arrives.
    """

    def __init__(
        self,
        feed: Callable[[Mapping[str, Any]], list[InputEvent[InputT]]],
        *,
        choice: int = 0,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.finish_reason: str | None = None
        self._calls = ToolCallChunks(feed, whole_names=False, limits=limits)
        self._choice = choice
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """Text of the response, and of a refusal, without the calls."""
        return "".join(self._texts)

    def feed(self, chunk: object) -> list[InputEvent[InputT]]:
        """Feed a chunk, and return the events for the inputs.

        A chunk without choices, for example with usage, gives none.

        Args:
            chunk: An object with the attributes of OpenAI's `ChatCompletionChunk`, or a mapping with its keys.

        Raises:
            LimitError, ProtocolError: As for `ToolCallChunks.piece`.
        """
        events: list[InputEvent[InputT]] = []
        for choice in field_of(chunk, "choices") or ():
            if (field_of(choice, "index") or 0) != self._choice:
                continue
            events += self._feed_delta(field_of(choice, "delta"))
            reason = field_of(choice, "finish_reason")
            if reason:
                self.finish_reason = str(reason)
                # The response may continue: some servers send calls after it. But calls that a filter stopped must not
                # start.
                events += self._calls.close_whole() if reason != "content_filter" else []
        return events

    def close(self) -> list[InputEvent[InputT]]:
        """End the response, and return the events for the inputs.

        If no `finish_reason` came, the response broke off, and calls with incomplete arguments count as cut.

        Raises:
            LimitError, ProtocolError: As for `ToolCallChunks.end`.
        """
        return self._calls.end(self.finish_reason)

    def _feed_delta(self, delta: object) -> list[InputEvent[InputT]]:
        for name in ("content", "refusal"):
            said = field_of(delta, name)
            if isinstance(said, str):
                self._texts.append(said)
        events: list[InputEvent[InputT]] = []
        for call in field_of(delta, "tool_calls") or ():
            function, index, extra = (field_of(call, name) for name in ("function", "index", EXTRA))
            events += self._calls.piece(
                index=field_of(function, "index") if index is None else index,  # Ollama's protocol has it there
                id=field_of(call, "id"),
                name=field_of(function, "name"),
                arguments=field_of(function, "arguments"),
                extra={EXTRA: extra} if extra else None,
            )
        function = field_of(delta, "function_call")
        if function is not None:  # the old form, at most one call
            name, arguments = field_of(function, "name"), field_of(function, "arguments")
            events += self._calls.piece(index=0, name=name, arguments=arguments)
        return events


_CUT: Final = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


class ResponseEvents(Generic[InputT]):
    """Reader of the events of the Responses API, for one response after another.

    Args:
        feed: `feed` of an `InputAccumulator` or of `EarlyCalls`.
    """

    def __init__(self, feed: Callable[[Mapping[str, Any]], list[InputEvent[InputT]]]) -> None:
        self._feed = feed
        self._chars: dict[int, int] = {}  # characters so far of each open item's arguments, by item index
        self._has_calls = False

    def feed(self, event: object) -> list[InputEvent[InputT]]:
        """Feed an event, and return the events for the inputs. For a response that fails, no end is fed.

        Args:
            event: An object of OpenAI's client, or a mapping: `{"type": "response.output_item.added", ...}`.

        Raises:
            LimitError, ProtocolError: Raised by `feed`.
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
                # It repeats the complete arguments. Some servers send them only here.
                events = self._begin(index, item) if index not in self._chars else []
                events += self._write(index, (field_of(item, "arguments") or "")[self._chars[index] :])
                del self._chars[index]
                if field_of(item, "status") == "incomplete":  # the call stays open
                    return events
                return events + self._feed({"type": "content_block_stop", "index": index})
            case "response.completed" | "response.incomplete":
                details = field_of(field_of(event, "response"), "incomplete_details")
                reason = _CUT.get(str(field_of(details, "reason")), "tool_use" if self._has_calls else "end_turn")
                events = self._feed({"type": "message_delta", "delta": {"stop_reason": reason}})
                return events + self._feed({"type": "message_stop"})
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
