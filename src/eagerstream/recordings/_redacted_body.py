"""`redacted_body`: the body of a recorded response with its secrets masked in place.

A model writes a key in pieces, so neither a single event nor the body as it stands shows it. Therefore the texts of a
response are joined first, block by block. A secret found in them is masked at the places of its pieces. JSON escapes of
a secret are masked with it, and JSON stays JSON.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from eagerstream_wire import WireEvent, decode_event
from eagerstream_wire._events import TEXT_FIELDS

from .._support.redaction import until_stable
from .._support.secrets import SecretSpan, secret_spans
from .._support.secrets.finding import Batch, Document
from .._support.secrets.json_text import may_be_json, read_json
from ..errors import ProtocolError

_BATCH_CHARS: Final = 262_144
_LINE: Final = re.compile(rb"[^\r\n]++")
_STRING: Final = rb'"((?:[^"\\]|\\.)*+)"'
# The written form of one character of a decoded string.
_CHARACTER: Final = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.", re.DOTALL)


def redacted_body(body: bytes) -> bytes:
    """Return `body` with each byte of a secret masked. The length stays; the time is linear in it."""
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
        elif line[:100].lstrip()[:1] in (b"{", b"["):
            lines.add(line, start, ())
        else:
            lines.add_other(line, start)
    lines.mask()
    for pieces in texts.all():
        written = Written(pieces)
        for first, last, fill in secret_spans(written.text):
            for start, end in written.places(first, last):
                masked[start:end] = fill.encode() * (end - start)
    return bytes(masked)


def _mask_document(masked: bytearray, body: bytes) -> bool:
    """Mask a body that is one JSON document; return False if it is not."""
    document = Document(_decoded(body))
    if read_json(document.text).end < len(document.text):
        return False
    lines = _Lines(masked)
    lines.add(body, 0, ())
    lines.mask()
    return True


def _decoded(data: bytes) -> str:
    return data.decode(errors="surrogateescape")  # a byte that is not UTF-8 becomes one character


class _Lines:
    """The lines of a body, many of which are searched in one pass."""

    def __init__(self, masked: bytearray) -> None:
        self._masked = masked
        self._batch = Batch()
        self._documents: list[tuple[int, Document]] = []
        self._others: list[bytes] = []
        self._others_start = 0

    def add(self, line: bytes, start: int, known: Sequence[Piece]) -> None:
        """Add a line that starts at the byte `start` and may be JSON, except for its known pieces."""
        self._add_others()
        self._add(line, start, known)

    def add_other(self, line: bytes, start: int) -> None:
        """Add a line of plain text. Consecutive ones are joined, because a private key has several lines."""
        if not self._others:
            self._others_start = start
        else:
            at = self._others_start + sum(map(len, self._others))
            self._others.append(bytes(self._masked[at:start]))
        self._others.append(line)

    def mask(self) -> None:
        """Mask the secrets of all added lines."""
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
    """Convert spans of a text, in order, to spans of its bytes."""
    if text.isascii():
        yield from spans
        return
    at = at_byte = 0
    for start, end, fill in spans:
        first = at_byte + len(text[at:start].encode(errors="surrogateescape"))
        at, at_byte = end, first + len(text[start:end].encode(errors="surrogateescape"))
        yield SecretSpan(first, at_byte, fill)


def is_json(data: bytes) -> bool:
    """Return True if `data` is a JSON document for Python's parser."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


class Piece:
    """A JSON string in the body, from the byte `start` on.

    Raises:
        ValueError: The bytes are no JSON string.
    """

    __slots__ = ("_bounds", "_raw", "_size_bytes", "start", "text")

    def __init__(self, start: int, raw: bytes) -> None:
        self.start = start
        self._raw = _decoded(raw)
        self._size_bytes = len(raw)
        self.text: str = json.loads(f'"{self._raw}"') if "\\" in self._raw else self._raw
        self._bounds: list[int] = []

    def places(self, start: int, end: int) -> tuple[int, int]:
        """Return the byte span in the body of the characters from `start` to `end` of the text."""
        if not self._bounds and len(self.text) == self._size_bytes:
            return self.start + start, self.start + end  # each character is one byte
        if not self._bounds:
            sizes = (len(written.encode(errors="surrogateescape")) for written in _CHARACTER.findall(self._raw))
            self._bounds = list(accumulate(sizes, initial=self.start))
        return self._bounds[start], self._bounds[end]


def piece_at(start: int, raw: bytes) -> Piece | None:
    """Return the piece with the bytes `raw` between its quotes, the first at `start`; None if it is no JSON string."""
    try:
        return Piece(start, raw)
    except ValueError:
        return None


class Written:
    """One text, joined from the pieces in which it was written."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.text = "".join(piece.text for piece in pieces)
        self._pieces = pieces
        self._starts = list(accumulate((len(piece.text) for piece in pieces), initial=0))

    def places(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the byte spans in the body of the characters from `start` to `end`, one per piece."""
        number = bisect_right(self._starts, start) - 1
        while start < end:
            piece, begin = self._pieces[number], self._starts[number]
            last = min(end, self._starts[number + 1])
            if last > start:
                yield piece.places(start - begin, last - begin)
                start = last
            number += 1


# --- texts that a response contains in pieces -------------------------------------------------------------------------


class _Texts:
    """The texts of a response, each as its pieces."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int, str], list[Piece]] = {}
        self._message = 0

    def add_event(self, data: bytes, start: int) -> list[Piece]:
        """Add the pieces of an event whose data starts at the byte `start`, and return them."""
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
    """Yield the model's texts in an event: the name of the field, and the piece."""
    delta = event.get("delta")
    name = TEXT_FIELDS.get(str(delta.get("type"))) if isinstance(delta, dict) else None
    if name is not None:
        for found in re.finditer(rb'"%b"[ \t]*+:[ \t]*+%b' % (name.encode(), _STRING), line):
            piece = piece_at(start + found.start(1), found[1])
            if piece is not None:
                yield name, piece
