"""`Pieces`: deltas of text in pieces that fit into messages and never end within a character."""

from __future__ import annotations


class Pieces:
    """Deltas in pieces of a maximum length. The first half of a surrogate pair waits for the second.

    Args:
        max_chars: Maximum length of a piece.
    """

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._halves: dict[int, str] = {}

    def cut(self, block: int, text: str) -> list[str]:
        """Return the pieces of the next delta of a block."""
        text = self.rest(block) + text
        if text and _is_first_half(text[-1]):
            self._halves[block] = text[-1]
            text = text[:-1]
        pieces: list[str] = []
        start = 0
        while start < len(text):
            end = start + self._max_chars
            if end < len(text) and _is_first_half(text[end - 1]):
                end -= 1
            pieces.append(text[start:end])
            start = end
        return pieces

    def rest(self, block: int) -> str:
        """Return the waiting half of a surrogate pair whose second half never came."""
        return self._halves.pop(block, "")


def _is_first_half(char: str) -> bool:
    return "\ud800" <= char <= "\udbff"
