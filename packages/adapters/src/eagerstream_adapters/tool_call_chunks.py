"""`ToolCallChunks`: converts tool calls that arrive in pieces, as in OpenAI's protocol, to wire events.

A piece has an index and the new parts of its call. The first piece usually has the id and the name. Each piece may have
more of the arguments. The protocol marks only the end of the response, not the end of a call. So a call ends when its
arguments are a complete object and the next call starts.

Servers differ. `ToolCallChunks` accepts all of these forms:

- All calls have index 0 (Ollama) or no index (Gemini). The id separates them, or a name after a complete object.
- Pieces that continue a call repeat its id (SGLang), its id and name (vLLM), or have an empty id.
- A server sends no ids. Each call gets a generated id.
- The name arrives in parts, or after the first arguments.
- The arguments arrive in one piece, as text or as an object. A tool without parameters gets none.
- The pieces of several calls alternate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic
from uuid import uuid4

from eagerstream import InputEvent, InputStart
from eagerstream._support.checks import check_block_count
from eagerstream._support.terms import InputT, standard_stop_reason
from eagerstream.errors import LimitError
from eagerstream.limits import DEFAULT_LIMITS, Limits

_CUT: Final = ("max_tokens", "model_context_window_exceeded", "refusal")


@dataclass(slots=True, eq=False)
class _Call(Generic[InputT]):
    id: str = ""
    name: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)  # arguments that arrived before the name
    waiting_chars: int = 0
    number: int | None = None  # block index, once the block is open
    input: InputT | None = None
    is_closed: bool = False

    @property
    def is_whole(self) -> bool:
        return self.is_closed or (self.input is not None and self.input.is_finished())

    def is_followed_by(self, id: str, name: str, text: str) -> bool:
        """Return whether a piece at the same index is the first one of another call."""
        if not name:
            return False
        if id and self.id:
            return id != self.id
        # Without two ids to compare: a name that is repeated after the last arguments does not start another call.
        return self.is_whole and (bool(text.strip()) or name != self.name)

    def add_name(self, name: str) -> None:
        """Append a part of the name, or ignore a repetition. Ignore the piece once the block is open."""
        if self.number is None:
            self.name = name if name.startswith(self.name) else self.name + name


class ToolCallChunks(Generic[InputT]):
    """Reader of the pieces of one response.

    A piece without an index belongs to the call with its id, or else to the newest call.

    Args:
        feed: `feed` of an `InputAccumulator` or of `EarlyCalls`.
        whole_names: Whether each name arrives in one piece. If true, a call starts at its name. If false, it starts at
            its first arguments, or when the next call starts.
        limits: `max_blocks` bounds the calls, and `max_input_chars` bounds the arguments of a call without a name.
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
        self._calls: dict[int, _Call[InputT]] = {}  # newest call of each index
        self._open: list[_Call[InputT]] = []  # calls that have not ended, in order
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
        """Feed one piece, and return the events for the inputs. After the end of the response, return an empty list.

        Args:
            index: Index of the call in the response.
            id: Id of the call, if the piece has one.
            name: Name of the tool, or a part of it, if the piece has one.
            arguments: More of the JSON text. Some servers send all arguments as one object.
            extra: Fields for the `tool_use` block. They count only until the block is open.

        Raises:
            LimitError: The calls exceed `max_blocks`, or the arguments of a call without a name exceed
                `max_input_chars`. Also raised by `feed`.
            ProtocolError: Raised by `feed`.
        """
        if self._has_ended:
            return []
        events = self._begin()
        id, name = id or "", name or ""
        text = (arguments or "") if arguments is None or isinstance(arguments, str) else json.dumps(arguments)
        index = self._place(id, name) if index is None else index
        call = self._calls.get(index)
        if call is not None and call.is_followed_by(id, name, text):
            if call in self._open:
                events += self._close(call)
            call = None
        if call is None:
            self._count += 1
            check_block_count(self._count, self._limits)
            events += self._open_named() + self.close_whole()  # an incomplete call may still continue
            call = self._calls[index] = _Call()
            self._open.append(call)
        self._newest = index
        call.id = call.id or id
        call.add_name(name)
        if call.number is None:
            call.extra.update(extra or {})
        if text:
            call.waiting.append(text)
            call.waiting_chars += len(text)
            limit = self._limits.max_input_chars
            if not call.name and call.waiting_chars > limit:
                raise LimitError("max_input_chars", limit, "the arguments of a call without a name")
        if text or (call.number is None and self._whole_names):
            events += self._write(call)
        return events

    def stop(self, index: int) -> list[InputEvent[InputT]]:
        """End a call, for providers that mark the end of its arguments. Return the events for the inputs.

        Raises:
            LimitError, ProtocolError: Raised by `feed`.
        """
        call = self._calls.get(index)
        return [] if self._has_ended or call not in self._open else self._close(call)

    def close_whole(self) -> list[InputEvent[InputT]]:
        """End all calls with complete arguments, so that they can start. Return the events for the inputs.

        Raises:
            LimitError, ProtocolError: Raised by `feed`.
        """
        return [event for call in list(self._open) if call.is_whole for event in self._close(call)]

    def end(self, reason: str | None) -> list[InputEvent[InputT]]:
        """End the response, and return the events for the inputs. A second call returns an empty list.

        Args:
            reason: The `finish_reason` or `stop_reason`. `None` means that the response broke off. Then the calls with
                complete arguments end, and no `message_stop` is fed.

        Raises:
            LimitError, ProtocolError: Raised by `feed`.
        """
        if self._has_ended:
            return []
        self._has_ended = True
        if reason is None:
            return self._open_named() + self.close_whole()
        stop_reason = standard_stop_reason(reason)
        if stop_reason == "end_turn" and self._count:  # some servers send `stop` after calls
            stop_reason = "tool_use"
        events = self._begin() + self._open_named()
        # What a filter stopped does not count, although its arguments may be complete.
        for call in list(self._open) if stop_reason != "refusal" else ():
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
        """Return the index for a piece without one."""
        for index, call in self._calls.items():
            if id and call.id == id:
                return index
        return max(self._calls) + 1 if id and name and self._calls else self._newest

    def _open_named(self) -> list[InputEvent[InputT]]:
        """Open the calls that have a name and no arguments yet, in order, before the next event."""
        return [event for call in self._open if call.number is None and call.name for event in self._write(call)]

    def _write(self, call: _Call[InputT]) -> list[InputEvent[InputT]]:
        """Feed the known parts of a call, once it has a name."""
        if not call.name:
            return []
        events: list[InputEvent[InputT]] = []
        if call.number is None:
            call.number, self._blocks = self._blocks, self._blocks + 1
            id = call.id or f"call_{uuid4().hex}"  # a later piece may still have another id
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
