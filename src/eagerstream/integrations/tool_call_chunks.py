"""`ToolCallChunks`: calls that come in pieces as OpenAI's protocol has them, told as wire events.

A piece has an index, and what is new of its call: an id and a name, usually in the first one, and some more of the
arguments. Nothing says where a call ends but the end of the reply, so a call ends when its arguments are a whole object
and the next one begins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic
from uuid import uuid4

from ..wire.events import InputEvent, InputStart
from ..wire.type_variables import InputT

_STOP_REASONS: Final = {
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
}
"""OpenAI's words for it, and Anthropic's. Some servers say `stop` where there are calls."""

_CUT: Final = ("max_tokens", "model_context_window_exceeded", "refusal")


@dataclass(slots=True)
class _Call(Generic[InputT]):
    id: str = ""
    name: str = ""
    waiting: list[str] = field(default_factory=list)  # arguments that came before the name
    number: int | None = None  # of its block, once that is open
    input: InputT | None = None

    @property
    def is_whole(self) -> bool:
        return self.input is not None and self.input.is_finished()


class ToolCallChunks(Generic[InputT]):
    """Reads the pieces of one reply.

    A piece without an index belongs to the newest call, unless it names one itself. An index that comes with another id
    and a name again is another call: some servers number all of them 0. A call whose server gives no id gets one.

    Args:
        feed: `feed` of an `InputAccumulator`, or of `EarlyCalls`.
    """

    def __init__(self, feed: Callable[[Mapping[str, Any]], list[InputEvent[InputT]]]) -> None:
        self._feed = feed
        self._calls: dict[int, _Call[InputT]] = {}  # by the peer's index; those that have not ended
        self._newest = 0
        self._count = 0
        self._has_begun = False
        self._has_ended = False

    def piece(
        self,
        *,
        index: int | None = None,
        id: str | None = None,
        name: str | None = None,
        arguments: str | Mapping[str, Any] | None = None,
    ) -> list[InputEvent[InputT]]:
        """What a piece means for the inputs.

        Args:
            index: Which call of the reply it belongs to.
            id, name: Of the call, where the piece has them.
            arguments: More of its JSON; all of it as an object, from some servers.

        Raises:
            LimitError, ProtocolError: As the `feed` that was given.
        """
        if self._has_ended:
            return []
        events = self._begin()
        if index is None:
            index = self._newest + 1 if id and name and self._calls else self._newest
        call = self._calls.get(index)
        if call is not None and id and name and call.id and call.id != id:
            events += self._close(index)
            call = None
        if call is None:
            events += self._close_whole()
            call = self._calls[index] = _Call()
        self._newest = index
        call.id = call.id or id or ""
        call.name = call.name or name or ""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments is not None else ""
        if text:
            call.waiting.append(text)
        if call.number is None and call.name:
            events += self._open(call)
        if call.number is not None:
            for text in call.waiting:
                events += self._tell("content_block_delta", call.number, delta=_delta(text))
            call.waiting.clear()
        return events

    def stop(self, index: int) -> list[InputEvent[InputT]]:
        """The arguments of a call have ended: some peers say so."""
        return [] if self._has_ended or index not in self._calls else self._close(index)

    def end(self, reason: str | None) -> list[InputEvent[InputT]]:
        """The reply has ended: `finish_reason`, or `stop_reason`; None where it broke off, and nothing is told."""
        if self._has_ended:
            return []
        self._has_ended = True
        if reason is None:
            return []
        events = self._begin()
        stop_reason = _STOP_REASONS.get(reason, reason)
        if stop_reason == "end_turn" and self._count:
            stop_reason = "tool_use"
        for index, call in list(self._calls.items()):
            if call.is_whole or stop_reason not in _CUT:
                events += self._close(index)
        events += self._feed({"type": "message_delta", "delta": {"stop_reason": stop_reason}})
        return events + self._feed({"type": "message_stop"})

    def _begin(self) -> list[InputEvent[InputT]]:
        if self._has_begun:
            return []
        self._has_begun = True
        return self._feed({"type": "message_start", "message": {"role": "assistant", "content": []}})

    def _open(self, call: _Call[InputT]) -> list[InputEvent[InputT]]:
        call.number = self._count
        self._count += 1
        block = {"type": "tool_use", "id": call.id or f"call_{uuid4().hex}", "name": call.name, "input": {}}
        events = self._tell("content_block_start", call.number, content_block=block)
        call.input = next(_started(events), None)
        return events

    def _close_whole(self) -> list[InputEvent[InputT]]:
        """Another call begins: those that are whole have ended. One that is not may be gone on with."""
        whole = [index for index, call in self._calls.items() if call.is_whole]
        return [event for index in whole for event in self._close(index)]

    def _close(self, index: int) -> list[InputEvent[InputT]]:
        call = self._calls.pop(index)
        return [] if call.number is None else self._tell("content_block_stop", call.number)

    def _tell(self, kind: str, number: int, **more: Any) -> list[InputEvent[InputT]]:
        return self._feed({"type": kind, "index": number, **more})


def _delta(text: str) -> dict[str, str]:
    return {"type": "input_json_delta", "partial_json": text}


def _started(events: list[InputEvent[InputT]]) -> Iterator[InputT]:
    return (event.input for event in events if isinstance(event, InputStart))
