"""`ChunkReader`: the tool calls in a chat model's chunks, told as wire events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage

from ...wire import InputEvent, InputStart, InputT
from ..tool_call_chunks import ToolCallChunks

_REASONS: Final = ("stop_reason", "finish_reason", "stopReason", "done_reason")
"""Where providers say in `response_metadata` why the model stopped."""


def stop_reason(metadata: Mapping[str, Any]) -> str | None:
    """Why the model stopped, in its provider's word for it; None where `response_metadata` does not say."""
    found = (metadata.get(name) for name in _REASONS)
    return next((reason.lower() for reason in found if isinstance(reason, str) and reason), None)


class ChunkReader(Generic[InputT]):
    """Reads the chunks of one reply, of `model.astream(...)` or `model.stream(...)`, whatever the provider.

        accumulator = InputAccumulator()
        reader = ChunkReader(accumulator.feed)
        async for chunk in model.astream(messages):
            for event in reader.feed(chunk):
                ...
        events = reader.close() + accumulator.close()

    LangChain does not tell where a call ends: it ends when its arguments are a whole object and the next call begins,
    or when the reply ends.

    Args:
        feed: `feed` of an `InputAccumulator`, or of `EarlyCalls`.
    """

    def __init__(self, feed: Callable[[Mapping[str, Any]], list[InputEvent[InputT]]]) -> None:
        self._pieces = ToolCallChunks(feed)
        self._inputs: list[InputT] = []

    def feed(self, chunk: BaseMessage) -> list[InputEvent[InputT]]:
        """What a chunk means for the inputs; one that says why the model stopped ends them.

        Of a model that does not stream, `astream` gives the whole message: that will do, too.

        Raises:
            LimitError, ProtocolError: As the `feed` that was given.
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
        """No more chunks. Where none said why the model stopped, the reply is whole if every input is.

        If not, it broke off, and nothing is told: `finish` of `EarlyCalls`, `close` of an `InputAccumulator` settles
        the rest.

        Raises:
            LimitError, ProtocolError: As `feed`.
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
