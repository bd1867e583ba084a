"""Unpack a peer's compressed data within a bound: a few kilobytes of it may stand for gigabytes.

HTTP clients unpack each chunk completely before anybody can count. Code that reads a peer's body therefore takes its
raw bytes, and unpacks them here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

ACCEPT_ENCODING: Final = "gzip"
"""The value of the request header `accept-encoding`: the only content coding that is unpacked here."""

_TAKEN_BYTES: Final = 16_384
"""Maximum number of compressed bytes to pass to zlib at once. It copies the rest for each member of a gzip file."""


_BEGINNING: Final = b"\x1f"  # the first byte of a member of a gzip file


class UnpackingError(ValueError):
    """A body that has another content coding, or is damaged."""


class TooManyBytesError(ValueError):
    """A body that is longer than the bound."""


class Unpacker:
    """Unpacks one body as it arrives.

    Args:
        content_encoding: The value of the response header `content-encoding`; empty if missing.
        max_bytes: Maximum number of bytes of the body, packed and unpacked. Over it: `TooManyBytesError`.
        piece_bytes: Maximum size of a piece. A caller may pause between two pieces.

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
        """Yield the unpacked bytes of the chunk, in pieces that are never empty. It is unpacked on demand.

        Raises:
            UnpackingError: The body is damaged.
            TooManyBytesError: The body is over `max_bytes`. All earlier pieces are within the bound.
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
                # A file of gzip may have several members. Other data after one is ignored, as HTTP clients do.
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
    """Return the unpacked bytes of a complete body. Raises the exceptions of `Unpacker`."""
    return b"".join(Unpacker(content_encoding, max_bytes=max_bytes).feed(body))


def _member() -> zlib._Decompress:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
