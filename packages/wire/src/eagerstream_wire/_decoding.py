"""Decoding of the data of server-sent events to wire events, as the bytes arrive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import jiter

from ._checks import check_positive
from ._decoder import T
from ._errors import ProtocolError, UsageError
from ._events import TEXT_FIELDS, InputFragment, TextFragment, WireEvent
from ._limits import DEFAULT_LIMITS
from ._mypyc import mypyc_attr
from ._sse import EventStreamDecoder
from ._value_count import check_value_count
from ._values import as_mapping

_from_json: Final = jiter.from_json  # bytes in, dicts out: no text of the event in between
_QUOTE: Final = b'"'
_TAILS: Final = frozenset(b"}" + b" " * spaces + b"}" for spaces in range(32))  # the API pads its events
_END: Final = b"}\n\n"
_NOWHERE: Final = b"\n\n"  # is in no event
_DELTA: Final = b"block_delta"
_NAMES_OF_OBJECTS: Final = (
    "",
    "message",
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
)
"""Names of events whose data must be an object: anything else is damage, and something of the message may be lost."""
_MAX_ODD_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of data that jiter refuses. `json` reads it, or it is a text. Both take ten times as long: 80 ms."""
_EXCERPT_BYTES: Final = 400
_MAX_LESSONS: Final = 8  # consecutive failed attempts, for a peer that writes the fields in another order


def decode_json(data: str | bytes) -> object:
    """Return the value in the data of one event. Invalid UTF-8 becomes U+FFFD.

    Raises:
        ProtocolError: The data is not JSON.
    """
    try:
        value: object = jiter.from_json(data if isinstance(data, bytes) else data.encode())
    except ValueError:
        # jiter refuses invalid UTF-8, lone surrogates and deep nesting. None of these justifies abandoning a stream.
        if len(data) > _MAX_ODD_BYTES:
            head = data[:_EXCERPT_BYTES]
            excerpt = head if isinstance(head, str) else head.decode("utf-8", "replace")
            raise ProtocolError("the data of an event is not JSON, and too long to mend", excerpt=excerpt) from None
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ProtocolError("the data of an event is not JSON", excerpt=text) from error
    return value


def decode_event(data: str | bytes, name: str = "") -> WireEvent:
    """Return the wire event in the data of one event. Invalid UTF-8 becomes U+FFFD.

    Args:
        data: The data.
        name: The name of the event (`event:`), for data that does not say its type. `"message"` is that of an event
            without a name. A heartbeat of a gateway, `event: ping` with a time, is a `ping`. Events of unknown names
            may have any data, which is then in `"data"`, and the data of an `error` may be a text.

    Raises:
        ProtocolError: The data is not a JSON object with a `type`.
    """
    is_free = name not in _NAMES_OF_OBJECTS
    try:
        value = decode_json(data)
    except ProtocolError:
        if not is_free or len(data) > _MAX_ODD_BYTES:
            raise
        value = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if name == "error":
        return _error_event(value)
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return value
    if name == "ping":
        return {"type": "ping"}
    if is_free and not isinstance(value, dict):
        return {"type": name, "data": value}
    return as_wire_event(value, data, name)


def _error_event(value: Any) -> WireEvent:
    """Return the `error` event for any data."""
    if isinstance(value, list) and value:
        value = value[0]  # Google's form
    if not isinstance(value, dict):
        value = {"error": {"type": "api_error", "message": value if isinstance(value, str) else json.dumps(value)}}
    if value.get("type") == "error" or "error" in value:
        return {**value, "type": "error"}
    return {"type": "error", "error": value}


def as_wire_event(value: object, data: str | bytes, name: str = "") -> WireEvent:
    """Return `value`, which was decoded from `data`, as a wire event.

    For an error in the middle of a response, gateways (LiteLLM, Google) send `{"error": {...}}`. It becomes an `error`
    event. Refusing it would hide the peer's own words behind a `ProtocolError`.

    Raises:
        ProtocolError: `value` is not an object with a `type`, and the event has no name.
    """
    if isinstance(value, dict) and not isinstance(value.get("type"), str):
        fault = value.get("error")
        is_named = name not in ("", "message")
        # Under a name of its own, only what is an error for certain: a heartbeat may say that there is none.
        if "type" not in value and (
            isinstance(fault, dict) and "message" in fault if is_named else isinstance(fault, dict | str)
        ):
            return {"type": "error", **value}
        if is_named and name not in _NAMES_OF_OBJECTS:
            return {**value, "type": name}
        if is_named and "type" not in value:
            return {"type": name, **value}
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        excerpt = data if isinstance(data, str) else data.decode("utf-8", "replace")
        raise ProtocolError("the data of an event is not an object with a type", excerpt=excerpt)
    return value


@mypyc_attr(allow_interpreted_subclasses=True)
class _DataDecoder(EventStreamDecoder[T]):
    """Reads the data of each event as JSON. With `_learns`, fragments of inputs and texts may come without their dicts.

    Nearly every event of a stream is a fragment, and all fragments of one block start with the same bytes. The decoder
    learns these from the first one, and from then on decodes only the text. Bytes to deltas then cost 1.2 us per event
    instead of 3.1. `test_both_decoders_say_the_same` compares it with the decoder that learns nothing, over any bytes,
    cuts and limits.
    """

    __slots__ = (
        "_index",
        "_is_text",
        "_lessons",
        "_max_values",
        "_prefix",
        "_short_bytes",
        "_text_start",
    )

    _learns: ClassVar[bool] = False

    def __init__(
        self,
        *,
        max_event_bytes: int = DEFAULT_LIMITS.max_event_bytes,
        max_values: int = DEFAULT_LIMITS.max_values,
    ) -> None:
        super().__init__(max_event_bytes=max_event_bytes)
        check_positive("max_values", max_values)
        self._max_values = max_values
        self._max_uncounted_bytes = min(max_event_bytes, max_values)  # each value takes a byte
        # The bytes before the text of each fragment of the current block, up to its quote; see `_learn`.
        self._prefix = _NOWHERE
        self._is_text = False
        self._text_start = 0  # offset of the quote
        self._short_bytes = 0
        self._index = 0
        self._lessons = _MAX_LESSONS if self._learns else 0

    def _take(self, chunk: bytes, events: list[Any]) -> None:
        # One event in a chunk, the usual case of a live stream: no split, and no call of `_feed_blocks`.
        if (
            len(chunk) <= self._short_bytes  # of one event: a longer chunk may contain several
            and chunk.startswith(self._prefix)
            and chunk.endswith(_END)
            and self._between_events
        ):
            end = chunk.rfind(_QUOTE) + 1
            if chunk[end:-2] in _TAILS:
                try:
                    text = _from_json(chunk[self._text_start : end])
                    events.append(TextFragment((self._index, text)) if self._is_text else (self._index, text))
                    return
                except ValueError:
                    pass
        super()._take(chunk, events)

    def _feed_blocks(self, chunk: bytes, events: list[Any]) -> None:
        blocks = chunk.split(b"\n\n")
        rest = blocks.pop()
        for block in blocks:
            if block.startswith(self._prefix):
                # The last quote ends the text if only braces and padding follow. If another quote ended the text
                # before, jiter refuses the part between the two: then the block is decoded as any other.
                end = block.rfind(_QUOTE) + 1
                if block[end:] in _TAILS:
                    try:
                        text = _from_json(block[self._text_start : end])
                        events.append(TextFragment((self._index, text)) if self._is_text else (self._index, text))
                        continue
                    except ValueError:
                        pass
            before = len(events)
            self._feed_block(block, events)
            if self._lessons and len(events) > before and _DELTA in block:
                self._learn(block, events[before])
        if rest:
            self._feed_lines(rest, events)

    def _learn(self, block: bytes, event: WireEvent) -> None:
        """Learn the bytes before the text of a fragment, which are the same in all fragments of a block.

        The attempt succeeds if these bytes, an empty text and the two braces form exactly the expected event. Then any
        other text makes the same event with that text, and only the text needs decoding.
        """
        delta = event.get("delta")
        kind = delta.get("type") if isinstance(delta, dict) else None
        if kind not in ("input_json_delta", "text_delta"):
            return
        self._lessons -= 1  # a peer with another form costs at most eight attempts
        field = TEXT_FIELDS[kind]
        key = f'"{field}":'.encode()
        start = block.find(_QUOTE, block.find(key) + len(key))
        prefix = block[: start + 1]
        whole = {"type": "content_block_delta", "index": event.get("index"), "delta": {"type": kind, field: ""}}
        name_line, _, data = prefix.partition(b"\ndata: ")
        try:
            understood = _from_json(data + b'"}}')
        except ValueError:
            return
        index = understood["index"] if understood == whole else None
        # `type(...) is int`, because `true` and 1.0 equal 1. The line before the data must be the event's name: any
        # other, an `id` or a `retry`, must not be skipped.
        if type(index) is int and name_line.startswith(b"event: ") and b"\n" not in name_line:
            self._prefix = prefix
            self._text_start = start
            self._short_bytes = min(2 * start, self._max_event_bytes)
            self._index = index
            self._is_text = kind == "text_delta"
            self._lessons = _MAX_LESSONS

    def _check_values(self, values: int) -> None:
        check_value_count(values, self._max_values)

    def _dispatched(self, data: bytes) -> Any:
        # The try costs nothing unless it raises; a check first would cost each event three tests.
        try:
            event = _from_json(data)
            if type(event["type"]) is str and self._event != b"error":
                return event
        except (ValueError, TypeError, KeyError):
            pass
        # Not the usual form: decode_event knows the exceptions to accept, and names the fault of the rest. Gateways
        # that also support other protocols often end a body with "[DONE]".
        if not data or data == b"[DONE]":
            return None
        return decode_event(data, self._event.decode("utf-8", "replace"))


@mypyc_attr(allow_interpreted_subclasses=True)
class WireDecoder(_DataDecoder[WireEvent]):
    """Turns chunks of a response body, cut anywhere, into wire events: server-sent events, decoded as they complete.

    `feed` raises `ProtocolError` if the data of an event is not a wire event, in the same way as `LimitError`.

    Args:
        max_event_bytes: Maximum size of one event.
        max_values: Maximum number of JSON values in one event. Beyond it: `LimitError`, before the event is parsed.

    Raises:
        UsageError: A bound is not a positive number.
    """


@mypyc_attr(allow_interpreted_subclasses=True)
class FragmentDecoder(_DataDecoder[WireEvent | InputFragment]):
    """A `WireDecoder` for `feed_deltas`: returns `InputFragment`s and `TextFragment`s if possible."""

    __slots__ = ()

    _learns: ClassVar[bool] = True


def to_wire_event(event: Mapping[str, Any] | InputFragment | object) -> Mapping[str, Any]:
    """Return an event of any form as a mapping. No other function knows all forms.

    A mapping is returned unchanged, and a fragment gets back the two dicts that it came without. Few fragments
    come here: `feed_deltas` takes them first. It checks their form itself, which saves one call per fragment.

    Raises:
        UsageError: `event` has none of the forms.
    """
    if type(event) is dict:
        return event
    if isinstance(event, tuple) and len(event) == 2:
        index, text = event
        is_text = isinstance(event, TextFragment)
        delta = {"type": "text_delta", "text": text} if is_text else {"type": "input_json_delta", "partial_json": text}
        return {"type": "content_block_delta", "index": index, "delta": delta}
    # An infinity must stay one. As null, the input that contains it would be valid, but different.
    found = as_mapping(event, mode="python")
    if not isinstance(found, Mapping):
        raise UsageError(f"a wire event is a mapping or an anthropic event object, not {type(event).__name__}")
    return found
