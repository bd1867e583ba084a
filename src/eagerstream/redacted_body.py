"""`redacted_body`: the body of a recorded reply without its secrets, each byte where it was.

A model writes a key in pieces: it stands in no single event, and the body as a whole does not show it either. So the
texts of a reply are put together first, block by block, and what is found in them is masked where its pieces stand. The
escapes of JSON are masked with what they stand for; what was JSON stays JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

from .errors import ProtocolError
from .redaction import SecretSpan, is_secret_name, secret_spans
from .wire import WireEvent, decode_event
from .wire.events import TEXT_FIELDS

_DATA: Final = re.compile(rb"(?:(?<=[\r\n])|\A)data: ?([^\r\n]*+)")
_LINE: Final = re.compile(rb"[^\r\n]++")
_STRING: Final = rb'"((?:[^"\\]|\\.)*+)"'
# Strings, those that are keys among them, and numbers; nothing else in JSON can hold a secret.
_SCALAR: Final = re.compile(_STRING + rb"([ \t\r\n]*+:)?|(-?[0-9][0-9.eE+-]*+)")
# What one character of a decoded string is written as.
_CHARACTER: Final = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.", re.DOTALL)


def redacted_body(body: bytes) -> bytes:
    """`body` with each byte of a secret masked, and as long as it was; linear in its length."""
    masked = bytearray(body)
    if is_json(body):
        _mask_json(masked, 0, body, known=set())
        return bytes(masked)
    texts = _texts(body)
    for pieces in texts:
        _mask_pieces(masked, pieces)
    known = {piece.start for pieces in texts for piece in pieces}
    for line in _LINE.finditer(body):
        data = line[0].removeprefix(b"data:")
        start = line.end() - len(data)
        if is_json(data):
            _mask_json(masked, start, data, known=known)
        else:
            for span in secret_spans(data.decode("latin-1")):  # a character for each byte
                masked[start + span.start : start + span.end] = b"*" * (span.end - span.start)
    return bytes(masked)


def is_json(data: bytes) -> bool:
    """`data` is a JSON document, as Python reads it."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


class Piece:
    """A JSON string that stands somewhere in the body, from the byte `start` on.

    Raises:
        ValueError: It is no JSON string.
    """

    __slots__ = ("_bounds", "_raw", "start", "text")

    def __init__(self, start: int, raw: bytes) -> None:
        self.start = start
        self._raw = raw.decode(errors="surrogateescape")  # a byte that is not UTF-8 stands for a character
        self.text: str = json.loads(f'"{self._raw}"') if "\\" in self._raw else self._raw
        self._bounds: list[int] = []

    def places(self, start: int, end: int) -> tuple[int, int]:
        """The bytes of the body that the characters from `start` to `end` of the text take."""
        if not self._bounds:
            sizes = (len(written.encode(errors="surrogateescape")) for written in _CHARACTER.findall(self._raw))
            self._bounds = list(accumulate(sizes, initial=self.start))
        return self._bounds[max(start, 0)], self._bounds[min(end, len(self.text))]

    def mask(self, masked: bytearray, start: int, end: int, fill: str = "*") -> None:
        """Mask the characters from `start` to `end` of the text; in the body, all bytes that they take."""
        first, last = self.places(start, end)
        masked[first:last] = fill.encode() * (last - first)


def piece_at(start: int, raw: bytes) -> Piece | None:
    """The string with these bytes between its quotes, of which the first stands at `start`; None where it is none."""
    try:
        return Piece(start, raw)
    except ValueError:
        return None


# --- what a reply writes in pieces ------------------------------------------------------------------------------------


def _texts(body: bytes) -> list[list[Piece]]:
    """The texts of a reply, each in its pieces."""
    texts: dict[tuple[int, int, str], list[Piece]] = {}
    message = 0
    for found in _DATA.finditer(body):
        try:
            event = decode_event(found[1])
        except ProtocolError:
            continue
        message += event["type"] == "message_start"
        index = event.get("index")
        if event["type"] == "content_block_delta" and type(index) is int:
            for name, piece in _written(event, found[1], found.start(1)):
                texts.setdefault((message, index, name), []).append(piece)
    return list(texts.values())


def _written(event: WireEvent, line: bytes, start: int) -> Iterator[tuple[str, Piece]]:
    """What the model wrote in an event, and where it stands in the body."""
    delta = event.get("delta")
    name = TEXT_FIELDS.get(str(delta.get("type"))) if isinstance(delta, dict) else None
    if name is not None:
        for found in re.finditer(rb'"%b"[ \t]*+:[ \t]*+%b' % (name.encode(), _STRING), line):
            piece = piece_at(start + found.start(1), found[1])
            if piece is not None:
                yield name, piece


def _mask_pieces(masked: bytearray, pieces: Sequence[Piece]) -> None:
    spans = iter(secret_spans("".join(piece.text for piece in pieces)))
    span: SecretSpan | None = next(spans, None)
    offset = 0
    for piece in pieces:
        end = offset + len(piece.text)
        while span is not None and span.start < end:
            piece.mask(masked, span.start - offset, span.end - offset, span.fill)
            if span.end > end:
                break  # it goes on in the next piece
            span = next(spans, None)
        offset = end


# --- everything else --------------------------------------------------------------------------------------------------


_SHORT: Final = 40
_short_spans = lru_cache(maxsize=4096)(secret_spans)  # the same few words stand in each event


def _spans(text: str) -> list[SecretSpan]:
    return _short_spans(text) if len(text) <= _SHORT else secret_spans(text)


def _mask_json(masked: bytearray, start: int, data: bytes, *, known: set[int]) -> None:
    """Mask what stands in a JSON document that begins at the byte `start`, except in the pieces that are `known`."""
    key = ""
    for found in _SCALAR.finditer(data):
        string, colon, number = found.groups()
        if number is not None:
            if is_secret_name(key):
                masked[start + found.start(3) : start + found.end(3)] = b"9" * len(number)
            continue
        piece = None if start + found.start(1) in known else piece_at(start + found.start(1), string)
        if piece is None:
            continue
        if not colon and is_secret_name(key):
            piece.mask(masked, 0, len(piece.text))
        else:
            for span in _spans(piece.text):
                piece.mask(masked, *span)
        key = piece.text if colon else key
