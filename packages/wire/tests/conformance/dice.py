"""Choices that every Python makes alike, for the mixed cases."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A sequence of choices, which depends only on its name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def below(self, bound: int) -> int:
        """Return a number from 0 to `bound` - 1."""
        self._count += 1
        return zlib.crc32(f"{self._name} {self._count}".encode()) % bound

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[self.below(len(choices))]

    def cut(self, text: T, pieces: int) -> list[T]:
        """Return a text or bytes in up to so many pieces, none of them empty."""
        length = len(text)  # type: ignore[arg-type]
        places = sorted({0, length, *(self.below(length + 1) for _ in range(pieces - 1))})
        return [text[start:end] for start, end in itertools.pairwise(places)]  # type: ignore[index]
