"""`StreamedParts`: the tool calls in pydantic-ai's events of a response, as wire events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic

from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    ToolCallPart,
    ToolCallPartDelta,
)

from eagerstream import InputEvent
from eagerstream._support.terms import InputT

from ..tool_call_chunks import ToolCallChunks

_FINISH_REASONS: Final = {"tool_call": "tool_calls", "stop": "stop", "length": "length"}
"""pydantic-ai's finish reasons, and those of `ToolCallChunks`."""


def _all(_: ToolCallPart) -> bool:
    return True


class StreamedParts(Generic[InputT]):
    """Reader of the events of one response, from any provider.

        accumulator = InputAccumulator()
        parts = StreamedParts(accumulator.feed)
        async with node.stream(agent_run.ctx) as stream:
            async for event in stream:
                for change in parts.feed(event):
                    show(change.input.name, change.input.partial)

    If a provider sends arguments as an object instead of text, they are fed at the end of their part.

    Args:
        feed: `feed` of an `InputAccumulator` or of `EarlyCalls`.
        takes: Function that decides at the start of each call whether to follow it. By default, all calls are followed.
            A second call with the id of an earlier one is never followed.
    """

    def __init__(
        self,
        feed: Callable[[Mapping[str, Any]], list[InputEvent[InputT]]],
        *,
        takes: Callable[[ToolCallPart], bool] = _all,
    ) -> None:
        self._chunks = ToolCallChunks(feed)
        self._takes = takes
        self._ids: set[str] = set()
        self._open: dict[int, bool] = {}  # by part index: whether the arguments arrive as text

    def feed(self, event: AgentStreamEvent) -> list[InputEvent[InputT]]:
        """Feed an event, and return the events for the inputs. Any other event gives none.

        Raises:
            LimitError, ProtocolError: Raised by `feed`.
        """
        match event:
            case PartStartEvent(index=index, part=part):
                self._open.pop(index, None)  # a part that starts again is a new one
                if isinstance(part, ToolCallPart) and part.tool_call_id not in self._ids and self._takes(part):
                    self._ids.add(part.tool_call_id)
                    is_text = self._open[index] = not isinstance(part.args, dict)
                    text = part.args if is_text else None
                    return self._chunks.piece(index=index, id=part.tool_call_id, name=part.tool_name, arguments=text)
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=str(text))) if self._open.get(index):
                return self._chunks.piece(index=index, arguments=text)
            case PartEndEvent(index=index, part=ToolCallPart() as part) if index in self._open:
                is_told = self._open.pop(index)
                whole = [] if is_told else self._chunks.piece(index=index, arguments=part.args_as_json_str())
                return whole + self._chunks.stop(index)
            case _:
                pass
        return []

    def end(self, response: ModelResponse | None) -> list[InputEvent[InputT]]:
        """End the response, and return the events for the inputs. `None` means that the response broke off.

        Raises:
            LimitError, ProtocolError: Raised by `feed`.
        """
        if response is None or response.state != "complete":
            return self._chunks.end(None)
        reason = response.finish_reason or "tool_call"
        return self._chunks.end(_FINISH_REASONS.get(reason, "content_filter"))
