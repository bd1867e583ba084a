"""`masked_contents`: the body of a recorded response with everything the model wrote masked in place.

Everything becomes filler, unless it is known to reveal nothing: each byte of a string becomes `*`, each number gets
other digits. Types, ids, tool names, stop reasons and usage counts stay, because programs depend on them. Events,
chunks and times stay too, so the recording plays as before.

The text of a tool's input comes in pieces and is joined first. Valid JSON stays JSON of the same structure. An invalid
or truncated input stays invalid or truncated. Keys become other keys of the same length, the same one at each place,
except those that the request's tools declare.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eagerstream_wire import PartialJSON, WireEvent, decode_event

from ..errors import ProtocolError
from ._redacted_body import Piece, Written, is_json, piece_at

_FILLER: Final = b"*"
_BOM: Final = b"\xef\xbb\xbf"
_LINE: Final = re.compile(rb"([^\r\n]*+)(?:\r\n|\r|\n|\Z)")
_FIELD: Final = re.compile(rb"(data|event|retry|id)(?:: ?|\Z)")
_SAYS_NOTHING: Final = re.compile(rb"[A-Za-z0-9_.:@/+-]{1,200}")
"""Pattern of an id, a type, or the name of a tool or model: no prose."""
_DONE: Final = b"[DONE]"  # gateways end a body with it; readers skip it

_TOKEN: Final = re.compile(
    rb'"((?:[^"\\]|\\.)*+)(?:"([ \t\r\n]*+:)?)?|(-?[0-9][0-9.eE+-]*+)|([{\[])|([}\]])', re.DOTALL
)
_TEXT_TOKEN: Final = re.compile(r'"((?:[^"\\]|\\.)*+\\?)(?:(")([ \t\r\n]*+:)?)?|(-?[0-9][0-9.eE+-]*+)', re.DOTALL)
_DIGITS: Final = re.compile(r"([eE][+-]?)?([0-9]+)")
_DIGITS_OF_KEYS: Final = "".join(
    sign for sign in (*string.ascii_lowercase, *string.ascii_uppercase, *string.digits, *string.punctuation)
    if sign not in '"\\*'
)  # fmt: skip


def masked_contents(body: bytes, input_keys: Collection[str] = ()) -> bytes:
    """Return `body` with its contents replaced by filler. The length stays; the time is nearly linear in it.

    Args:
        body: Server-sent events, or an error or a message as JSON. Of anything else, only the line ends stay.
        input_keys: The keys of tool inputs that reveal nothing: those that the request's tools declare.
    """
    masked = bytearray(body)
    keys = _KeyMasks(frozenset(input_keys))
    if is_json(body):
        _mask_document(masked, 0, body, keys)
        return bytes(masked)
    inputs = _Inputs()
    for data in _events(masked, body):
        try:
            event = decode_event(data.joined)
        except ProtocolError:
            if data.joined != _DONE:
                data.fill(masked)
            continue
        inputs.begin(event)
        if data.is_one_line:
            _mask_document(masked, data.start, data.joined, keys, event=event, inputs=inputs)
        else:  # nobody sends events this way; a fragment in one is masked completely
            copy = bytearray(data.joined)
            _mask_document(copy, 0, data.joined, keys)
            data.put(masked, copy)
    for pieces in inputs.all:
        _mask_input(masked, Written(pieces), keys)
    return bytes(masked)


def _fill(masked: bytearray, start: int, end: int, filler: bytes = _FILLER) -> None:
    masked[start:end] = filler * (end - start)


# --- lines and events -------------------------------------------------------------------------------------------------


class _Data:
    """The data of an event, joined from its lines, with the position of each line in the body."""

    __slots__ = ("_lines", "joined", "start")

    def __init__(self, lines: Sequence[tuple[int, bytes]]) -> None:
        self._lines = lines
        self.joined = b"\n".join(line for _, line in lines)
        self.start = lines[0][0]

    @property
    def is_one_line(self) -> bool:
        """True if the joined data is contiguous in the body."""
        return len(self._lines) == 1

    def fill(self, masked: bytearray) -> None:
        """Replace all data by filler."""
        for start, line in self._lines:
            _fill(masked, start, start + len(line))

    def put(self, masked: bytearray, data: bytes | bytearray) -> None:
        """Replace the data by other data of the same length."""
        at = 0
        for start, line in self._lines:
            masked[start : start + len(line)] = data[at : at + len(line)]
            at += len(line) + 1  # the line feed between two lines


def _events(masked: bytearray, body: bytes) -> Iterator[_Data]:
    """Yield the data of each completed event, and mask the rest of the lines."""
    lines: list[tuple[int, bytes]] = []
    for found in _LINE.finditer(body):
        start, line = found.start(), found[1]
        if start == 0 and line.startswith(_BOM):
            start, line = len(_BOM), line.removeprefix(_BOM)
        if not line:
            if lines and found[0]:
                yield _Data(lines)
                lines = []
            continue
        named = _FIELD.match(line)
        if named is None:
            _fill(masked, start + line.startswith(b":"), start + len(line))  # a comment stays a comment
            continue
        value = line[named.end() :]
        if named[1] == b"data":
            lines.append((start + named.end(), value))
        elif not _SAYS_NOTHING.fullmatch(value):
            _fill(masked, start + named.end(), start + len(line))
    if lines:  # the event never ended: no reader sees it
        _Data(lines).fill(masked)


class _Inputs:
    """The pieces of each input."""

    def __init__(self) -> None:
        self.all: list[list[Piece]] = []
        self._open: dict[int, list[Piece]] = {}

    def begin(self, event: WireEvent) -> None:
        """Close the texts that the event ends: all at `message_start`, one at `content_block_start`."""
        if event["type"] == "message_start":
            self._open.clear()
        elif event["type"] == "content_block_start" and type(event.get("index")) is int:
            self._open.pop(event["index"], None)

    def add(self, index: int, piece: Piece) -> None:
        """Add the next piece of the input of a block."""
        if index not in self._open:
            self.all.append([])
            self._open[index] = self.all[-1]
        self._open[index].append(piece)


# --- the parts that stay ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kind:
    """A kind of JSON object: the parts of it that reveal nothing of the conversation, besides its type and ids.

    Attributes:
        stays: Fields whose numbers stay, and whose texts stay if they are single words.
        inside: The kind of the objects in each field; `_CONTENT` if the field is missing.
        is_known: True if all fields stay.
        is_input: True if no field stays, and the keys are the model's.
    """

    stays: frozenset[str] = frozenset()
    inside: Mapping[str, _Kind] = field(default_factory=dict)
    is_known: bool = False
    is_input: bool = False

    def within(self, name: str) -> _Kind:
        """Return the kind of the objects in a field."""
        return self if self.is_input or self.is_known else self.inside.get(name, _CONTENT)

    def keeps(self, name: str) -> bool:
        """Return True if the value of a field stays."""
        if self.is_input:
            return False
        return self.is_known or name in ("type", "id") or name.endswith("_id") or name in self.stays


_INPUT: Final = _Kind(is_input=True)
_USAGE: Final = _Kind(is_known=True)
_CONTENT: Final = _Kind(frozenset({"error_code", "tool_name"}))
_BLOCK: Final = _Kind(frozenset({"name", "server_name"}), {"input": _INPUT})
_DELTA: Final = _Kind(frozenset({"stop_reason"}))
_MESSAGE: Final = _Kind(frozenset({"role", "model", "stop_reason"}), {"content": _BLOCK, "usage": _USAGE})
# For an event, or for a response that is no stream: a message or an error.
_DOCUMENT: Final = _Kind(
    _MESSAGE.stays | {"index"},
    {**_MESSAGE.inside, "message": _MESSAGE, "content_block": _BLOCK, "delta": _DELTA},
)


def _mask_document(
    masked: bytearray,
    start: int,
    data: bytes,
    keys: _KeyMasks,
    *,
    event: WireEvent | None = None,
    inputs: _Inputs | None = None,
) -> None:
    """Mask a JSON document that starts at the byte `start`; leave the fragment of an input to `inputs`."""
    index = None  # of the block whose input the event extends
    if event is not None and event["type"] == "content_block_delta" and type(event.get("index")) is int:
        delta = event.get("delta")
        is_fragment = isinstance(delta, dict) and delta.get("type") == "input_json_delta"
        index = event["index"] if is_fragment else None
    around: list[tuple[_Kind | None, str]] = []
    kind: _Kind | None = None  # None outside the first object
    name = ""  # of the current field, also inside its lists
    for found in _TOKEN.finditer(data):
        text, colon, number, opening, closing = found.groups()
        if opening is not None:
            around.append((kind, name))
            if opening == b"{":
                kind = _DOCUMENT if kind is None else kind.within(name)
                name = ""
        elif closing is not None:
            kind, name = around.pop() if around else (None, "")
        elif number is not None:
            if kind is None or not kind.keeps(name):
                for first, last, digit in _other_digits(number.decode("ascii")):
                    _fill(masked, start + found.start(3) + first, start + found.start(3) + last, digit.encode())
        elif colon is not None:
            written = text.decode("utf-8", "replace")
            name = _unescaped(written)
            other = keys.mask(written, len(text)) if kind is _INPUT else None
            if other is not None:
                masked[start + found.start(1) : start + found.end(1)] = other
        elif inputs is not None and index is not None and kind is _DELTA and name == "partial_json":
            piece = piece_at(start + found.start(1), text)
            if piece is None:
                _fill(masked, start + found.start(1), start + found.end(1))
            else:
                inputs.add(index, piece)
        elif kind is None or not kind.keeps(name) or not _SAYS_NOTHING.fullmatch(text):
            _fill(masked, start + found.start(1), start + found.end(1))


# --- the text of an input ---------------------------------------------------------------------------------------------


def _mask_input(masked: bytearray, written: Written, keys: _KeyMasks) -> None:
    def fill(start: int, end: int, filler: bytes = _FILLER) -> None:
        for place in written.places(start, end):
            _fill(masked, *place, filler)

    # The fault is the place at which the text stops being the start of a usable input.
    parser = PartialJSON()
    parser.feed(written.text)
    parser.close()
    offsets = (parser.error and parser.error.offset_chars, parser.overflow_chars)
    fault = min((offset for offset in offsets if offset is not None), default=None)
    end = len(written.text) if fault is None else fault
    for found in _TEXT_TOKEN.finditer(written.text, 0, end):
        text, quote, colon, number = found.groups()
        if number is not None:
            for first, last, digit in _other_digits(number):
                fill(found.start() + first, found.start() + last, digit.encode())
        elif colon is not None:
            places = list(written.places(*found.span(1)))
            other = keys.mask(text, sum(last - first for first, last in places))
            if other is not None:
                for first, last in places:
                    masked[first:last], other = other[: last - first], other[last - first :]
        elif quote is None and fault is not None:
            end = found.start()  # the fault is in this string: mask from its quote on
        else:
            fill(*found.span(1))
    fill(end, len(written.text))  # filler outside a string makes the text invalid here, as it was


def _other_digits(number: str) -> Iterator[tuple[int, int, str]]:
    """Yield the digit that replaces each run of digits. A float stays finite, or infinite, as it was."""
    try:
        is_beyond = len(number) > 1 and any(sign in number for sign in ".eE") and math.isinf(float(number))
    except ValueError:
        is_beyond = False  # cut off, or not a number
    for found in _DIGITS.finditer(number):
        exponent = found[1]
        small = "1" if exponent is None else "9" if exponent.endswith("-") else "0"
        yield *found.span(2), "9" if is_beyond else small


class _KeyMasks:
    """The replacements of keys: same length, equal for equal keys, different for different keys while enough exist."""

    def __init__(self, stay: frozenset[str]) -> None:
        self._stay = stay
        self._masks: dict[tuple[str, int], bytes] = {}
        self._next: dict[int, int] = {}

    def mask(self, written: str, size_bytes: int) -> bytes | None:
        """Return the replacement of a key; None if the key stays.

        Args:
            written: The key as written between its quotes.
            size_bytes: The bytes that it takes in the body.
        """
        if _unescaped(written) in self._stay or not size_bytes:
            return None
        known = self._masks.get((written, size_bytes))
        if known is None:
            number = self._next.get(size_bytes, 0)
            while (other := _numeral(number, size_bytes)) in self._stay:
                number += 1
            self._next[size_bytes] = number + 1
            known = self._masks[written, size_bytes] = other.encode("ascii")
        return known


def _unescaped(written: str) -> str:
    if "\\" not in written:
        return written
    try:
        return str(json.loads(f'"{written}"'))
    except ValueError:
        return written


def _numeral(number: int, size: int) -> str:
    """Return a number as `size` characters, padded in front. If they are too few, only the last characters stay."""
    signs = ""
    while number or not signs:
        number, digit = divmod(number, len(_DIGITS_OF_KEYS))
        signs = _DIGITS_OF_KEYS[digit] + signs
    return signs.rjust(size, "*")[-size:]
