"""Unpack what a peer has compressed, within a bound: a few kilobytes of it may stand for gigabytes.

HTTP clients unpack each chunk as a whole before anybody can count. Whoever reads a body of a peer therefore takes its
raw bytes, and unpacks them here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

ACCEPT_ENCODING: Final = "gzip"
"""The value of the request header `accept-encoding`: the one content coding that is unpacked here."""

_TAKEN_BYTES: Final = 16_384
"""Compressed bytes that are handed to zlib at once: it copies what it leaves, for each member of a gzip file."""


_BEGINNING: Final = b"\x1f"  # of a member of a gzip file


class UnpackingError(ValueError):
    """The body has another content coding, or is damaged."""


class TooManyBytesError(ValueError):
    """The body is longer than the bound."""


class Unpacker:
    """Unpacks one body as it arrives.

    Args:
        content_encoding: The value of the response header `content-encoding`; empty where there is none.
        max_bytes: Of the body, packed and unpacked. Over it: `TooManyBytesError`.
        piece_bytes: The largest piece that is handed out, so that a caller may pause between two pieces.

    Raises:
        UnpackingError: The coding is neither `gzip` nor `identity`, or there is more than one.
    """

    def __init__(self, content_encoding: str, *, max_bytes: int, piece_bytes: int = 65_536) -> None:
        coding = content_encoding.strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip"):
            raise UnpackingError(f"the content coding {coding[:40]!r} was not asked for: gzip or none can be read")
        self._gzip = _member() if "gzip" in coding else None
        self._max_bytes = max_bytes
        self._piece_bytes = piece_bytes
        self._received = 0
        self._unpacked = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what the chunk stands for, in pieces that are never empty. Nothing is unpacked before it is asked for.

        Raises:
            UnpackingError: The body is damaged.
            TooManyBytesError: See `max_bytes`. What was handed out before is within the bound.
        """
        self._received += len(chunk)
        if self._received > self._max_bytes:
            raise TooManyBytesError
        if self._gzip is None:
            yield from pieces_of(chunk, self._piece_bytes)
            return
        for start in range(0, len(chunk), _TAKEN_BYTES):
            for piece in self._pieces(chunk[start : start + _TAKEN_BYTES]):
                self._unpacked += len(piece)
                if self._unpacked > self._max_bytes:
                    raise TooManyBytesError
                yield piece

    def _pieces(self, packed: bytes) -> Iterator[bytes]:
        assert self._gzip is not None
        while True:
            if self._gzip.eof:
                # A file of gzip may have several members. What else is behind one is ignored, as HTTP clients do.
                if not packed.startswith(_BEGINNING):
                    return
                self._gzip = _member()
            try:
                piece = self._gzip.decompress(packed, self._piece_bytes)
            except zlib.error as error:
                raise UnpackingError(f"the body is damaged: {error}") from None
            if piece:
                yield piece
            packed = self._gzip.unused_data if self._gzip.eof else self._gzip.unconsumed_tail
            # zlib may hold back a full piece without any input left.
            if not packed and not self._gzip.eof and len(piece) < self._piece_bytes:
                return


def pieces_of(data: bytes, piece_bytes: int) -> Iterator[bytes]:
    """Cut data into pieces of at most this size; none of them is empty."""
    for start in range(0, len(data), piece_bytes):
        yield data[start : start + piece_bytes]


def unpack(body: bytes, content_encoding: str, *, max_bytes: int) -> bytes:
    """Return the body that is there as a whole; see `Unpacker` for what is raised."""
    return b"".join(Unpacker(content_encoding, max_bytes=max_bytes).feed(body))


def _member() -> zlib._Decompress:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
