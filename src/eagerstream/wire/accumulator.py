"""`InputAccumulator`: wire events in, one growing `ToolInput` per content block out.

The contract is the API's own: a `content_block_start` opens an empty text (its `input: {}` is a placeholder), each
`input_json_delta` appends a fragment, `content_block_stop` ends it. What the text turned out to be is its `Outcome`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Generic, Protocol

from ..errors import LimitError, UsageError
from ..limits import DEFAULT_LIMITS, Limits
from .events import InputDelta, InputEvent, InputStart, InputStop, InputT, to_wire_event
from .partial_json import ParseFault, PartialJSON
from .values import JSON, MISSING, JSONObject, Path, find

INVALID_JSON: Final = "INVALID_JSON"
"""The key under which an input that is not usable goes back to the model, verbatim."""

TOOL_BLOCKS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")  # not a set: a peer may send what has no hash
"""The block types whose input arrives as `input_json_delta`s. Only `tool_use` is for the client to run."""

_ENDED_BY_THE_MODEL: Final = ("tool_use", "end_turn", "pause_turn")
"""Stop reasons that prove that the reply was not cut off: an empty input before one of them is really empty."""

_MAX_VIOLATIONS: Final = 100


class Outcome(Enum):
    """How the text of an input ended."""

    VALID = "valid"
    """The block was closed on one whole JSON object, or on no text at all in a reply that went on."""
    INVALID = "invalid"
    """Not JSON, not an object, something after the object, a number beyond floats, or over a limit."""
    INCOMPLETE = "incomplete"
    """The text stops inside the object: cut off by a limit of tokens, a lost connection, a block never closed."""


class Parser(Protocol):
    """What reads the fragments of one input; `PartialJSON` unless the accumulator is given another."""

    @property
    def value(self) -> JSON:
        """The best-effort value so far."""
        ...

    @property
    def complete(self) -> bool:
        """The text is one whole JSON document, by a strict reading."""
        ...

    @property
    def error(self) -> ParseFault | None:
        """What is wrong with the text, where something is."""
        ...

    @property
    def overflow_chars(self) -> int | None:
        """Offset of the first number that reads as infinity."""
        ...

    def feed(self, fragment: str) -> None:
        """Take in the next fragment."""
        ...

    def close(self) -> None:
        """The text ends here."""
        ...

    def is_finished(self, path: Path) -> bool:
        """The value at `path` shows and can no longer change."""
        ...


class ParserFactory(Protocol):
    """Makes a parser for each input: `PartialJSON` itself, or a `functools.partial` of a parser with its options."""

    def __call__(self, *, limits: Limits) -> Parser:
        """A parser that has read nothing."""
        ...


class ToolInput:
    """The input of one tool call, while it is written and after.

    Attributes:
        index: Block index in the message.
        id: The API's id of the call; opaque.
        name: The tool.
        kind: `"tool_use"`, `"server_tool_use"` or `"mcp_tool_use"`.
        block: The block as received at its start.
        outcome: None until the input is settled.
    """

    def __init__(self, index: int, block: Mapping[str, Any], *, parser: Parser, limits: Limits) -> None:
        self.index = index
        self.id = str(block.get("id", ""))
        self.name = str(block.get("name", ""))
        self.kind = str(block.get("type", ""))
        self.block = block
        self.outcome: Outcome | None = None
        self._parser = parser
        self._max_chars = limits.max_input_chars
        self._fragments: list[str] = []
        self._chars = 0
        self._fault: ParseFault | None = None
        self._watchers: list[tuple[Path, Callable[[Any], object]]] = []
        given = block.get("input")
        # A call made from code that the API runs brings its whole input along; fragments, where both come, win.
        self._given: JSONObject | None = given if isinstance(given, dict) and given else None

    @property
    def raw(self) -> str:
        """The JSON text so far: all fragments, joined when asked for; O(length), so not for every delta.

        What lies beyond `Limits.max_input_chars` is counted in `chars` but not kept. An input that came whole at the
        start of its block has no text of its own: it is written as JSON here.
        """
        if self._given is not None and not self._chars:
            return json.dumps(self._given, ensure_ascii=False)
        if len(self._fragments) > 1:
            self._fragments = ["".join(self._fragments)]
        return self._fragments[0] if self._fragments else ""

    @property
    def chars(self) -> int:
        """Characters written so far; O(1)."""
        return self._chars

    @property
    def partial(self) -> JSONObject:
        """The best-effort object as of the last fragment, unfinished strings included; `{}` while nothing shows.

        Live: it grows in place with the next fragments. `copy_json` makes a copy that stays.
        """
        if self._given is not None and not self._chars:
            return self._given
        value = self._parser.value
        return value if isinstance(value, dict) else {}

    @property
    def value(self) -> JSONObject | None:
        """The whole input, by a strict reading; None unless `outcome` is `VALID`."""
        return self.partial if self.outcome is Outcome.VALID else None

    @property
    def wrapped(self) -> JSONObject:
        """The object to hand on and to echo: the value of a valid input, `{"INVALID_JSON": raw}` of any other.

        Raises:
            UsageError: The input is not settled yet.
        """
        if self.outcome is None:
            raise UsageError("the input is still being written: it has no final form yet")
        return self.partial if self.outcome is Outcome.VALID else {INVALID_JSON: self.raw}

    @property
    def error(self) -> ParseFault | None:
        """What is wrong with the text and where, known at the offending character; None while nothing is wrong."""
        return self._fault or self._parser.error

    def is_finished(self, *path: str | int) -> bool:
        """True once the value at `path` is finished: it can no longer change, except under a repeated key."""
        if not self._chars and (self._given is not None or self.outcome is Outcome.VALID):
            return find(self.partial, path) is not MISSING
        # What stands in a list at the root is no part of an input.
        return isinstance(self._parser.value, dict) and self._parser.is_finished(path)

    def watch(self, *path: str | int, callback: Callable[[Any], object]) -> None:
        """Call `callback(value)` once, when the value at `path` is finished; at once where it already is.

        For those without an event loop. The call comes from inside `feed`, and an exception in it comes out there. A
        value that never comes is never told of: `outcome` says when to stop waiting.
        """
        self._watchers.append((path, callback))
        self._tell()

    def __repr__(self) -> str:
        # Never the input itself: what a model wrote does not belong in a log.
        state = self.outcome.value if self.outcome else "open"
        return f"<{type(self).__name__} {self.index} {self.name!r} {state}, {self._chars} chars>"

    # --- for the accumulator ------------------------------------------------------------------------------------------

    def _append(self, fragment: str) -> None:
        self._chars += len(fragment)
        if self._chars <= self._max_chars:
            self._fragments.append(fragment)
        elif (room := self._max_chars - self._chars + len(fragment)) > 0:
            self._fragments.append(fragment[:room])
        self._parser.feed(fragment)
        if self._watchers:
            self._tell()

    @property
    def _is_empty(self) -> bool:
        """No text at all: whether there is none, or whether it was cut off, only what follows can tell."""
        return not self._chars and self._given is None

    def _settle(self, *, whole: bool) -> None:
        """Decide the outcome; `whole` says that what is there was not cut off (the block was closed, and so on)."""
        parser = self._parser
        parser.close()
        self._fault = self._find_fault()
        if self._fault is not None:
            self.outcome = Outcome.INVALID
        elif whole and (parser.complete or not self._chars):
            self.outcome = Outcome.VALID
        else:
            self.outcome = Outcome.INCOMPLETE
            self._fault = ParseFault("the input was cut off", self._chars, "")
        self._tell()
        self._watchers.clear()

    def _find_fault(self) -> ParseFault | None:
        offset = 0
        for fragment in self._fragments:
            text = fragment.lstrip(" \t\n\r")
            if text:
                if text[0] != "{":
                    return ParseFault("a tool's input must be an object", offset + len(fragment) - len(text), text[0])
                break
            offset += len(fragment)
        if self._parser.error is None and self._parser.overflow_chars is not None:
            offset = self._parser.overflow_chars
            return ParseFault("a number too large to be sent back", offset, self.raw[offset : offset + 1])
        return self._parser.error

    def _tell(self) -> None:
        """Call the watchers whose value is finished by now, in the order in which they were added."""
        waiting = self._watchers[::-1]
        self._watchers = []
        try:
            while waiting:
                path, callback = waiting.pop()
                if self.is_finished(*path):
                    callback(find(self.partial, path))
                elif self.outcome is None:
                    self._watchers.append((path, callback))
        finally:  # a callback that raised takes nobody else's call with it
            self._watchers += waiting[::-1]


def check_block_count(count: int, limits: Limits) -> None:
    """Refuse a message of so many blocks, before anything is done about the newest of them.

    Raises:
        LimitError: There are more than `Limits.max_blocks`.
    """
    if count > limits.max_blocks:
        raise LimitError("max_blocks", limits.max_blocks, "the number of content blocks")


class InputAccumulator(Generic[InputT]):
    """Follows every tool input of a message; one accumulator takes one message after another.

    What the peer does wrong never raises and never mixes inputs: it is ignored, and noted in `violations`.

    Args:
        parser: Makes the parser of each input; `PartialJSON` by default.
        limits: Bounds on each input, and on their number.
        input_type: A subclass of `ToolInput` to make instead.

    Attributes:
        inputs: Block index to input, of the message under way.
        violations: What the peer did against the protocol, in words; the first 100.
    """

    def __init__(
        self,
        *,
        parser: ParserFactory = PartialJSON,
        limits: Limits = DEFAULT_LIMITS,
        input_type: type[InputT] = ToolInput,  # type: ignore[assignment]  # the default of InputT
    ) -> None:
        self.inputs: dict[int, InputT] = {}
        self.violations: list[str] = []
        self._parser = parser
        self._limits = limits
        self._input_type = input_type
        self._open: dict[int, InputT] = {}
        self._empty: list[InputT] = []  # closed without any text: settled by what comes next
        self._count = 0

    def feed(self, event: Mapping[str, Any] | object) -> list[InputEvent[InputT]]:
        """What one wire event means for the inputs: usually nothing, or one event.

        An `InputStop` comes when the outcome is settled, so the event after an empty input may bring two.

        Args:
            event: A wire event as a mapping, or an event object of the anthropic package.

        Raises:
            LimitError: More than `Limits.max_blocks` inputs in one message.
            UsageError: `event` is neither a mapping nor an event object.
        """
        data = event if type(event) is dict else to_wire_event(event)
        kind = data.get("type")
        if kind == "content_block_delta":
            delta = data.get("delta")
            if not isinstance(delta, Mapping) or delta.get("type") != "input_json_delta":
                return []
            return self.feed_fragment(data.get("index"), delta.get("partial_json"))
        match kind:
            case "content_block_start":
                return self._feed_start(data)
            case "content_block_stop":
                return self._feed_stop(data)
            case "message_delta":
                delta = data.get("delta")
                reason = delta.get("stop_reason") if isinstance(delta, Mapping) else None
                return self._settle_empty(whole=reason in _ENDED_BY_THE_MODEL) if reason is not None else []
            case "message_stop":
                return self.close()
            case "message_start":
                return self._feed_message_start(data)
            case _:
                return []

    def close(self, stop_reason: str | None = None) -> list[InputEvent[InputT]]:
        """No more events: settles what is still open. A closed empty input is whole if the model itself stopped."""
        events = self._settle_empty(whole=stop_reason in _ENDED_BY_THE_MODEL)
        for input in self._open.values():
            self._note(f"block {input.index} was never closed")
            events.append(self._settle(input, whole=False))
        self._open.clear()
        return events

    def _feed_message_start(self, data: Mapping[str, Any]) -> list[InputEvent[InputT]]:
        message = data.get("message")
        content = message.get("content") if isinstance(message, Mapping) else None
        content = content if isinstance(content, list) else []
        check_block_count(len(content), self._limits)
        events = self.close()
        self.inputs.clear()
        self._count = 0
        for index, block in enumerate(content):
            if isinstance(block, Mapping) and block.get("type") in TOOL_BLOCKS:
                events += self._start(index, block)
                events += self._feed_stop({"index": index})
        return events

    def _feed_start(self, data: Mapping[str, Any]) -> list[InputEvent[InputT]]:
        index = data.get("index")
        block = data.get("content_block")
        if type(index) is not int or not isinstance(block, Mapping):
            self._note("content_block_start without an index and a block")
            return self._settle_empty(whole=True)
        check_block_count(self._count + 1, self._limits)
        events = self._settle_empty(whole=True)
        if index in self._open:
            self._note(f"block {index} started again before it was closed")
            events.append(self._settle(self._open.pop(index), whole=False))
        if block.get("type") in TOOL_BLOCKS:
            events += self._start(index, block)
        return events

    def _start(self, index: int, block: Mapping[str, Any]) -> list[InputEvent[InputT]]:
        self._count += 1
        input = self._input_type(index, block, parser=self._parser(limits=self._limits), limits=self._limits)
        self._open[index] = self.inputs[index] = input
        return [InputStart(input)]

    def feed_fragment(self, index: Any, fragment: Any) -> list[InputEvent[InputT]]:
        """What `feed` does with an `input_json_delta`, which nearly every event of a stream is."""
        input = self._open.get(index) if type(index) is int else None
        if input is None:
            self._note(f"input_json_delta for block {index!r:.40}, which is not an open tool call")
        elif type(fragment) is not str:
            self._note(f"input_json_delta for block {index} whose partial_json is not a string")
        elif fragment:
            input._append(fragment)
            if self._empty:
                return [*self._settle_empty(whole=True), InputDelta(input, fragment)]
            return [InputDelta(input, fragment)]
        return []

    def _feed_stop(self, data: Mapping[str, Any]) -> list[InputEvent[InputT]]:
        index: Any = data.get("index")
        input = self._open.pop(index, None) if type(index) is int else None
        if input is None:
            return []
        if not input._is_empty:
            return [self._settle(input, whole=True)]
        self._empty.append(input)
        return []

    def _settle_empty(self, *, whole: bool) -> list[InputEvent[InputT]]:
        empty, self._empty = self._empty, []
        return [self._settle(input, whole=whole) for input in empty]

    def _settle(self, input: InputT, *, whole: bool) -> InputEvent[InputT]:
        input._settle(whole=whole)
        return InputStop(input)

    def _note(self, violation: str) -> None:
        if len(self.violations) < _MAX_VIOLATIONS:
            self.violations.append(violation)
