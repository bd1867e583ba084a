"""`Unpacker`: what a peer has compressed, within a bound."""

from __future__ import annotations

import gzip
import random
import tracemalloc

import pytest
from hypothesis import given, strategies as st

from eagerstream._support.unpacking import TooManyBytesError, Unpacker, UnpackingError, unpack
from tests.tables import rows

_BOMB = gzip.compress(bytes(8 * 1024 * 1024))


@given(st.lists(st.binary(max_size=200), max_size=5), st.randoms(use_true_random=False), st.integers(1, 40))
def test_any_body_in_any_pieces(members: list[bytes], chance: random.Random, piece_bytes: int) -> None:
    """A body of several members, cut anywhere, comes out whole, in pieces that are neither empty nor too large."""
    body = b"".join(map(gzip.compress, members))
    unpacker = Unpacker("gzip", max_bytes=10_000, piece_bytes=piece_bytes)
    pieces: list[bytes] = []
    while body:
        size = chance.randint(1, 50)
        pieces += unpacker.feed(body[:size])
        body = body[size:]
    assert b"".join(pieces) == b"".join(members)
    assert all(0 < len(piece) <= piece_bytes for piece in pieces)


@rows("coding", ["", "identity", " Identity "])
def test_a_body_that_is_not_compressed(coding: str) -> None:
    """It comes out as it is, in pieces too."""
    assert unpack(b"abc", coding, max_bytes=3) == b"abc"
    assert list(Unpacker(coding, max_bytes=10, piece_bytes=2).feed(b"abcde")) == [b"ab", b"cd", b"e"]
    assert list(Unpacker(coding, max_bytes=10).feed(b"")) == []


@rows("coding", ["gzip, gzip", "gzip,gzip", "br", "zstd", "deflate", "gzip, identity", "x" * 1000])
def test_other_codings(coding: str) -> None:
    """One coding was asked for; another, or more than one, is refused before a byte is read."""
    with pytest.raises(UnpackingError, match="was not asked for") as caught:
        Unpacker(coding, max_bytes=1)
    assert len(str(caught.value)) < 200


def test_a_bomb() -> None:
    """8 kB stand for 8 MB: no more than the bound, and a piece, is ever there."""
    unpacker = Unpacker("gzip", max_bytes=1_000_000, piece_bytes=50_000)
    tracemalloc.start()
    try:
        unpacked = 0
        with pytest.raises(TooManyBytesError):
            for piece in unpacker.feed(_BOMB):
                unpacked += len(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert unpacked == 1_000_000
    assert peak < 500_000


def test_nothing_is_unpacked_before_it_is_asked_for() -> None:
    """So a caller may let others have their turn between two pieces."""
    unpacker = Unpacker("gzip", max_bytes=1_000)
    pieces = unpacker.feed(_BOMB)
    del pieces  # which is no error, although the bound is exceeded


@rows(
    "body",
    [
        b"not gzip",
        gzip.compress(b"abc") + b"\x1frubbish",  # it begins as a member does
        gzip.compress(b"abc")[:-8] + bytes(8),  # another checksum
    ],
)
def test_damaged_bodies(body: bytes) -> None:
    """They are told as such."""
    with pytest.raises(UnpackingError, match="damaged"):
        unpack(body, "gzip", max_bytes=100)


@rows("tail", [bytes(8), b"\r\n"])
def test_what_stands_behind_the_end(tail: bytes) -> None:
    """Servers that fill up blocks are read all the same."""
    assert unpack(gzip.compress(b"abc") + tail, "gzip", max_bytes=100) == b"abc"


def test_too_long_as_it_comes() -> None:
    """Compressed bytes count, too: members without content would go on forever."""
    unpacker = Unpacker("gzip", max_bytes=1_000)
    with pytest.raises(TooManyBytesError):
        for _ in range(100):
            assert list(unpacker.feed(gzip.compress(b""))) == []
