"""`ChunkReader`: the tool calls in a chat model's chunks, as wire events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage

from eagerstream import InputEvent, InputStart
from eagerstream._support.terms import InputT

from ..tool_call_chunks import ToolCallChunks

_REASONS: Final = ("stop_reason", "finish_reason", "stopReason", "done_reason")
"""Fields of `response_metadata` with the stop reason, by provider."""


def stop_reason(metadata: Mapping[str, Any]) -> str | None:
    """Return the provider's stop reason in lower case, or `None` if `response_metadata` has none."""
    found = (metadata.get(name) for name in _REASONS)
    return next((reason.lower() for reason in found if isinstance(reason, str) and reason), None)


class ChunkReader(Generic[InputT]):
    """Reader of the chunks of one response, from `model.astream(...)` or `model.stream(...)` of any provider.

        accumulator = InputAccumulator()
        reader = ChunkReader(accumulator.feed)
        async for chunk in model.astream(messages):
            for event in reader.feed(chunk):
                ...
        events = reader.close() + accumulator.close()

    LangChain does not mark the end of a call. A call ends when its arguments are a complete object and the next call
    starts, or when the response ends.

    Args:
        feed: `feed` of an `InputAccumulator` or of `EarlyCalls`.
    """

    def __init__(self, feed: Callable[[Mapping[str, Any]], list[InputEvent[InputT]]]) -> None:
        self._pieces = ToolCallChunks(feed)
        self._inputs: list[InputT] = []

    def feed(self, chunk: BaseMessage) -> list[InputEvent[InputT]]:
        """Feed a chunk, and return the events for the inputs. A chunk with a stop reason ends them.

        If a model does not stream, `astream` gives the complete message. This is accepted, too.

        Raises:
            LimitError, ProtocolError: Raised by `feed`.
        """
        if not isinstance(chunk, AIMessage):
            return []
        events: list[InputEvent[InputT]] = []
        for piece in _pieces(chunk):
            events += self._pieces.piece(**piece)
        self._inputs += [event.input for event in events if isinstance(event, InputStart)]
        reason = stop_reason(chunk.response_metadata)
        return events if reason is None else events + self._pieces.end(reason)

    def close(self) -> list[InputEvent[InputT]]:
        """End the response, and return the events for the inputs.

        Without a stop reason, the response counts as complete if every input is. If not, it broke off, and no end is
        fed. Then `EarlyCalls.finish` or `InputAccumulator.close` settles the other inputs.

        Raises:
            LimitError, ProtocolError: Raised by `feed`.
        """
        return self._pieces.end("stop" if all(input.is_finished() for input in self._inputs) else None)


def _pieces(message: AIMessage) -> list[dict[str, Any]]:
    if isinstance(message, AIMessageChunk):
        chunks = message.tool_call_chunks
        return [{"index": c.get("index"), "id": c["id"], "name": c["name"], "arguments": c["args"]} for c in chunks]
    whole = [*message.tool_calls, *message.invalid_tool_calls]
    return [
        {"index": index, "id": call["id"], "name": call["name"], "arguments": call["args"]}
        for index, call in enumerate(whole)
    ]
