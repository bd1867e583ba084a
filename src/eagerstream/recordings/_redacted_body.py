"""`redacted_body`: the body of a recorded reply without its secrets, each byte where it was.

A model writes a key in pieces: it stands in no single event, and the body as a whole does not show it either. So the
texts of a reply are put together first, block by block, and what is found in them is masked where its pieces stand. The
escapes of JSON are masked with what they stand for; what was JSON stays JSON.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from .._support.redaction import until_stable
from .._support.secrets import SecretSpan, secret_spans
from .._support.secrets.finding import Batch, Document
from .._support.secrets.json_text import may_be_json, read_json
from ..errors import ProtocolError
from ..wire import WireEvent, decode_event
from ..wire._events import TEXT_FIELDS

_BATCH_CHARS: Final = 262_144
_LINE: Final = re.compile(rb"[^\r\n]++")
_STRING: Final = rb'"((?:[^"\\]|\\.)*+)"'
# What one character of a decoded string is written as.
_CHARACTER: Final = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.", re.DOTALL)


def redacted_body(body: bytes) -> bytes:
    """`body` with each byte of a secret masked, and as long as it was; linear in its length."""
    return until_stable(_masked, body)


def _masked(body: bytes) -> bytes:
    masked = bytearray(body)
    if may_be_json(body[:100].decode("latin-1")) and _mask_document(masked, body):
        return bytes(masked)
    texts = _Texts()
    lines = _Lines(masked)
    for found in _LINE.finditer(body):
        line = found[0]
        start = found.start()
        if line.startswith(b"data:"):
            data = line[5:].lstrip(b" ")
            lines.add(data, found.end() - len(data), texts.add_event(data, found.end() - len(data)))
        elif may_be_json(line[:100].decode("latin-1")):
            lines.add(line, start, ())
        else:
            lines.add_other(line, start)
    lines.mask()
    for pieces in texts.all():
        _mask_pieces(masked, pieces)
    return bytes(masked)


def _mask_document(masked: bytearray, body: bytes) -> bool:
    """Mask a body that is JSON as a whole; False if it is none."""
    document = Document(_decoded(body))
    if read_json(document.text).end < len(document.text):
        return False
    lines = _Lines(masked)
    lines.add(body, 0, ())
    lines.mask()
    return True


def _decoded(data: bytes) -> str:
    return data.decode(errors="surrogateescape")  # a byte that is not UTF-8 stands for a character


class _Lines:
    """The lines of a body, many of which are searched at once."""

    def __init__(self, masked: bytearray) -> None:
        self._masked = masked
        self._batch = Batch()
        self._documents: list[tuple[int, Document]] = []
        self._others: list[bytes] = []
        self._others_start = 0

    def add(self, line: bytes, start: int, known: Sequence[Piece]) -> None:
        """Add a line that may be JSON, which begins at the byte `start`; except the pieces in it that are known."""
        self._add_others()
        self._add(line, start, known)

    def add_other(self, line: bytes, start: int) -> None:
        """Add a line of a text: a private key has several."""
        if not self._others:
            self._others_start = start
        else:
            at = self._others_start + sum(map(len, self._others))
            self._others.append(bytes(self._masked[at:start]))
        self._others.append(line)

    def mask(self) -> None:
        """Mask the secrets of all lines that were added."""
        self._add_others()
        self._search()

    def _add_others(self) -> None:
        if self._others:
            self._add(b"".join(self._others), self._others_start, ())
            self._others = []

    def _add(self, line: bytes, start: int, known: Sequence[Piece]) -> None:
        document = Document(_decoded(line))
        left_out = {len(_decoded(line[: piece.start - start])) for piece in known}
        document.add_to(self._batch, left_out=left_out)
        self._documents.append((start, document))
        if self._batch.size_chars > _BATCH_CHARS:
            self._search()

    def _search(self) -> None:
        self._batch.search()
        for start, document in self._documents:
            for first, last, fill in _in_bytes(document.text, document.secrets()):
                written = self._masked[start + first : start + last]
                self._masked[start + first : start + last] = _NO_BREAK.sub(fill.encode(), written)
        self._documents = []


_NO_BREAK: Final = re.compile(rb"[^\r\n]")  # lines stay lines


def _in_bytes(text: str, spans: Iterable[SecretSpan]) -> Iterator[SecretSpan]:
    """The places of spans, in order, in the bytes of a text."""
    if text.isascii():
        yield from spans
        return
    at = at_byte = 0
    for start, end, fill in spans:
        first = at_byte + len(text[at:start].encode(errors="surrogateescape"))
        at, at_byte = end, first + len(text[start:end].encode(errors="surrogateescape"))
        yield SecretSpan(first, at_byte, fill)


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

    __slots__ = ("_bounds", "_raw", "_size_bytes", "start", "text")

    def __init__(self, start: int, raw: bytes) -> None:
        self.start = start
        self._raw = _decoded(raw)
        self._size_bytes = len(raw)
        self.text: str = json.loads(f'"{self._raw}"') if "\\" in self._raw else self._raw
        self._bounds: list[int] = []

    def places(self, start: int, end: int) -> tuple[int, int]:
        """The bytes of the body that the characters from `start` to `end` of the text take."""
        if not self._bounds and len(self.text) == self._size_bytes:
            return self.start + start, self.start + end  # each character is one byte
        if not self._bounds:
            sizes = (len(written.encode(errors="surrogateescape")) for written in _CHARACTER.findall(self._raw))
            self._bounds = list(accumulate(sizes, initial=self.start))
        return self._bounds[start], self._bounds[end]


def piece_at(start: int, raw: bytes) -> Piece | None:
    """The string with these bytes between its quotes, of which the first stands at `start`; None where it is none."""
    try:
        return Piece(start, raw)
    except ValueError:
        return None


class Written:
    """What was written in pieces, as one text."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.text = "".join(piece.text for piece in pieces)
        self._pieces = pieces
        self._starts = list(accumulate((len(piece.text) for piece in pieces), initial=0))

    def places(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The bytes of the body that the characters from `start` to `end` take, piece by piece."""
        number = bisect_right(self._starts, start) - 1
        while start < end:
            piece, begin = self._pieces[number], self._starts[number]
            last = min(end, self._starts[number + 1])
            if last > start:
                yield piece.places(start - begin, last - begin)
                start = last
            number += 1


# --- what a reply writes in pieces ------------------------------------------------------------------------------------


class _Texts:
    """The texts of a reply, each in its pieces."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int, str], list[Piece]] = {}
        self._message = 0

    def add_event(self, data: bytes, start: int) -> list[Piece]:
        """The pieces in an event, which begins at the byte `start`."""
        try:
            event = decode_event(data)
        except ProtocolError:
            return []
        self._message += event["type"] == "message_start"
        index = event.get("index")
        pieces: list[Piece] = []
        if event["type"] == "content_block_delta" and type(index) is int:
            for name, piece in _written(event, data, start):
                self._texts.setdefault((self._message, index, name), []).append(piece)
                pieces.append(piece)
        return pieces

    def all(self) -> list[list[Piece]]:
        """All texts."""
        return list(self._texts.values())


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
    written = Written(pieces)
    for start, end, fill in secret_spans(written.text):
        for first, last in written.places(start, end):
            masked[first:last] = fill.encode() * (last - first)
