"""Fuzz bytes read as a list of choices: what a grammar needs to make an input, the same for the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .cost import is_sampled

T = TypeVar("T")
StreamT = TypeVar("StreamT", str, bytes)

_MANY = 100  # pieces: one by one only up to here, because a piece costs more than a character


class Choices:
    """Reads bytes from the front; behind the last one every choice is the first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        # Told by a checksum, not by a choice: coverage rewards large inputs, and small ones find nearly everything.
        self.room = 5_000 if is_sampled(data, 300) else 200
        """Characters that a grammar should make at most; one input in 300 may be long."""

    @property
    def are_left(self) -> bool:
        """There are bytes that nobody has read."""
        return self._at < len(self._data)

    def below(self, bound: int) -> int:
        """A number from 0 on; `bound` is at most 256."""
        at = self._at
        self._at = at + 1
        return self._data[at] % bound if at < len(self._data) else 0

    def pick(self, options: Sequence[T]) -> T:
        """One of at most 256 options."""
        return options[self.below(len(options))]

    def take(self, length: int) -> bytes:
        """The next bytes as they are; fewer at the end."""
        taken = self._data[self._at : self._at + length]
        self._at += length
        return taken

    def rest(self) -> bytes:
        """All bytes that are left, as they are."""
        return self.take(len(self._data))


def pieces(choices: Choices, stream: StreamT) -> list[StreamT]:
    """`stream`, cut in one of many ways: whole, into equal pieces, or at chosen places, with empty pieces among them."""
    match choices.below(4):
        case 0:
            return [stream]
        case 1:
            size = choices.pick((1, 1, 1, 2, 3, 5, 16, 64)) + len(stream) // _MANY
            return [stream[at : at + size] for at in range(0, len(stream), size)]
        case _:
            scale = 1 + len(stream) // (10 * _MANY)
            sizes = [choices.below(40) * scale for _ in range(choices.below(8) + 1)]
    cut = []
    at = turn = 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        # A period of nothing but empty pieces would never end.
        size = size or (turn % 3 == 0)
        cut.append(stream[at : at + size])
        at += size
        turn += 1
    return cut
