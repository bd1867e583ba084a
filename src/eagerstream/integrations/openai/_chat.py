"""`ChatChunks`: the chunks of a chat completion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic

from ...limits import DEFAULT_LIMITS, Limits
from ...wire import InputEvent, InputT
from ..tool_call_chunks import ToolCallChunks
from ._fields import field_of

EXTRA: Final = "extra_content"
"""What Gemini says of a call beside its arguments, and wants to have back with it."""


class ChatChunks(Generic[InputT]):
    """Reads the chunks of one chat completion.

    A call that is whole begins with the next one, or with the `finish_reason`; what is left is settled by `close`.

    Args:
        feed: `feed` of an `InputAccumulator`, or of `EarlyCalls`.
        choice: Which of several choices is read (`n` of the request).
        limits: As for `ToolCallChunks`.

    Attributes:
        finish_reason: Why the model stopped, in the server's word; None until it says so.
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
        """What the model has said beside its calls; a refusal too."""
        return "".join(self._texts)

    def feed(self, chunk: object) -> list[InputEvent[InputT]]:
        """What a chunk means for the inputs. One without choices, of usage for example, means nothing.

        Args:
            chunk: An object with the attributes of OpenAI's `ChatCompletionChunk`, or a mapping with its keys.

        Raises:
            LimitError, ProtocolError: As `ToolCallChunks.piece`.
        """
        events: list[InputEvent[InputT]] = []
        for choice in field_of(chunk, "choices") or ():
            if (field_of(choice, "index") or 0) != self._choice:
                continue
            events += self._feed_delta(field_of(choice, "delta"))
            reason = field_of(choice, "finish_reason")
            if reason:
                self.finish_reason = str(reason)
                # It is not the end: some servers send calls after it. But what a filter stopped must not begin.
                events += self._calls.close_whole() if reason != "content_filter" else []
        return events

    def close(self) -> list[InputEvent[InputT]]:
        """The stream is over. Where no `finish_reason` came it broke off, and calls that are not whole are cut."""
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
                index=field_of(function, "index") if index is None else index,  # Ollama's own protocol has it there
                id=field_of(call, "id"),
                name=field_of(function, "name"),
                arguments=field_of(function, "arguments"),
                extra={EXTRA: extra} if extra else None,
            )
        function = field_of(delta, "function_call")
        if function is not None:  # of old, and one at the most
            name, arguments = field_of(function, "name"), field_of(function, "arguments")
            events += self._calls.piece(index=0, name=name, arguments=arguments)
        return events
