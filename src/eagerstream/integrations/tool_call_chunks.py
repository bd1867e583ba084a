"""`ToolCallChunks`: calls that come in pieces as OpenAI's protocol has them, told as wire events.

A piece has an index, and what is new of its call: an id and a name, usually in the first one, and some more of the
arguments. Nothing says where a call ends but the end of the reply, so a call ends when its arguments are a whole object
and the next one begins.

Servers differ in all of this. What is known of them, and taken here:

- Every call has the index 0 (Ollama), or none (Gemini); the id tells them apart, or else a name behind a whole object.
- Pieces that go on with a call repeat its id (SGLang), its id and name (vLLM), or have an id that is empty.
- A server gives no ids at all; a call gets one here.
- The name comes in parts, or after the first arguments.
- Arguments come whole, in one piece, as text or as an object; or none come, where there are no parameters.
- Calls are written by turns, a piece of this one and a piece of that one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic
from uuid import uuid4

from ..errors import LimitError
from ..limits import DEFAULT_LIMITS, Limits
from ..wire import InputEvent, InputStart, InputT, check_block_count

_STOP_REASONS: Final = {
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "stop": "end_turn",
    "eos": "end_turn",
    "eos_token": "end_turn",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refusal",
}
"""OpenAI's words for it and those of servers like it, and Anthropic's. Some say `stop` where there are calls."""

_CUT: Final = ("max_tokens", "model_context_window_exceeded", "refusal")


@dataclass(slots=True, eq=False)
class _Call(Generic[InputT]):
    id: str = ""
    name: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)  # arguments that came before the name
    waiting_chars: int = 0
    number: int | None = None  # of its block, once that is open
    input: InputT | None = None
    is_closed: bool = False

    @property
    def is_whole(self) -> bool:
        return self.is_closed or (self.input is not None and self.input.is_finished())

    def is_followed_by(self, id: str, name: str, text: str) -> bool:
        """A piece in the same place is the first one of another call."""
        if not name:
            return False
        if id and self.id:
            return id != self.id
        # No id tells. A name that is repeated behind the last arguments is no other call.
        return self.is_whole and (bool(text.strip()) or name != self.name)

    def add_name(self, name: str) -> None:
        """More of the name, or the same once more; once there are arguments, it is whole."""
        if self.number is None:
            self.name = name if name.startswith(self.name) else self.name + name


class ToolCallChunks(Generic[InputT]):
    """Reads the pieces of one reply.

    A piece without an index belongs to the call of its id, or else to the newest one.

    Args:
        feed: `feed` of an `InputAccumulator`, or of `EarlyCalls`.
        whole_names: A name comes in one piece, and a call begins with it. Where it may come in parts, a call begins
            with its first arguments, or when the next one begins.
        limits: `max_blocks` bounds the calls, `max_input_chars` the arguments of a call that has no name yet.
    """

    def __init__(
        self,
        feed: Callable[[Mapping[str, Any]], list[InputEvent[InputT]]],
        *,
        whole_names: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._feed = feed
        self._whole_names = whole_names
        self._limits = limits
        self._calls: dict[int, _Call[InputT]] = {}  # the newest of each index
        self._open: list[_Call[InputT]] = []  # those that have not ended, in order
        self._newest = 0
        self._count = 0
        self._blocks = 0
        self._has_begun = False
        self._has_ended = False

    def piece(
        self,
        *,
        index: int | None = None,
        id: str | None = None,
        name: str | None = None,
        arguments: object = None,
        extra: Mapping[str, Any] | None = None,
    ) -> list[InputEvent[InputT]]:
        """What a piece means for the inputs; nothing after the end of the reply.

        Args:
            index: Which call of the reply it belongs to.
            id, name: Of the call, where the piece has them.
            arguments: More of its JSON; all of it as an object, from some servers.
            extra: Fields for the `tool_use` block, where they come before the arguments.

        Raises:
            LimitError, ProtocolError: As the `feed` that was given; also for calls that never get a name.
        """
        if self._has_ended:
            return []
        events = self._begin()
        id, name, text = id or "", name or "", _text_of(arguments)
        index = self._place(id, name) if index is None else index
        call = self._calls.get(index)
        if call is not None and call.is_followed_by(id, name, text):
            if call in self._open:
                events += self._close(call)
            call = None
        if call is None:
            events += self._make_room()
            call = self._calls[index] = _Call()
            self._open.append(call)
        self._newest = index
        call.id = call.id or id
        call.add_name(name)
        if call.number is None:
            call.extra.update(extra or {})
        if text:
            self._keep(call, text)
        if text or (call.number is None and self._whole_names):
            events += self._write(call)
        return events

    def stop(self, index: int) -> list[InputEvent[InputT]]:
        """The arguments of a call have ended: some peers say so."""
        call = self._calls.get(index)
        return [] if self._has_ended or call not in self._open else self._close(call)

    def close_whole(self) -> list[InputEvent[InputT]]:
        """No more of them will come, it seems: the calls that are whole may begin."""
        return [event for call in list(self._open) if call.is_whole for event in self._close(call)]

    def end(self, reason: str | None) -> list[InputEvent[InputT]]:
        """The reply has ended.

        Args:
            reason: `finish_reason`, or `stop_reason`; None where it broke off. Then the calls that are whole count,
                and no end is told.
        """
        if self._has_ended:
            return []
        self._has_ended = True
        if reason is None:
            return self._open_named() + self.close_whole()
        stop_reason = _STOP_REASONS.get(reason, reason)
        if stop_reason == "end_turn" and self._count:
            stop_reason = "tool_use"
        events = self._begin() + self._open_named()
        for call in list(self._open):
            if call.is_whole or stop_reason not in _CUT:
                events += self._close(call)
        events += self._feed({"type": "message_delta", "delta": {"stop_reason": stop_reason}})
        return events + self._feed({"type": "message_stop"})

    def _begin(self) -> list[InputEvent[InputT]]:
        if self._has_begun:
            return []
        self._has_begun = True
        return self._feed({"type": "message_start", "message": {"role": "assistant", "content": []}})

    def _place(self, id: str, name: str) -> int:
        """The index of a piece that has none."""
        for index, call in self._calls.items():
            if id and call.id == id:
                return index
        return max(self._calls) + 1 if id and name and self._calls else self._newest

    def _make_room(self) -> list[InputEvent[InputT]]:
        """Another call begins: those that are whole have ended. One that is not may be gone on with."""
        self._count += 1
        check_block_count(self._count, self._limits)
        return self._open_named() + self.close_whole()

    def _open_named(self) -> list[InputEvent[InputT]]:
        """Calls without arguments so far, in their order before what comes next."""
        return [event for call in self._open if call.number is None and call.name for event in self._write(call)]

    def _keep(self, call: _Call[InputT], text: str) -> None:
        call.waiting.append(text)
        call.waiting_chars += len(text)
        if not call.name and call.waiting_chars > self._limits.max_input_chars:
            raise LimitError("max_input_chars", self._limits.max_input_chars, "the arguments of a call without a name")

    def _write(self, call: _Call[InputT]) -> list[InputEvent[InputT]]:
        """Tell what there is of a call, as soon as it has a name."""
        if not call.name:
            return []
        events: list[InputEvent[InputT]] = []
        if call.number is None:
            call.number, self._blocks = self._blocks, self._blocks + 1
            id = call.id or f"call_{uuid4().hex}"  # a later piece may still bring another one
            block = {**call.extra, "type": "tool_use", "id": id, "name": call.name, "input": {}}
            events += self._tell("content_block_start", call.number, content_block=block)
            call.input = next((event.input for event in events if isinstance(event, InputStart)), None)
        waiting, call.waiting = call.waiting, []
        for text in waiting:
            delta = {"type": "input_json_delta", "partial_json": text}
            events += self._tell("content_block_delta", call.number, delta=delta)
        return events

    def _close(self, call: _Call[InputT]) -> list[InputEvent[InputT]]:
        self._open.remove(call)
        call.is_closed = True
        events = self._write(call)
        return events if call.number is None else events + self._tell("content_block_stop", call.number)

    def _tell(self, kind: str, number: int, **more: Any) -> list[InputEvent[InputT]]:
        return self._feed({"type": kind, "index": number, **more})


def _text_of(arguments: object) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments)
