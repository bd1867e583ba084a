"""Tokens, about: the tokenizer that anthropic-tools cut texts with no longer exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

CHARS_PER_TOKEN: Final = 4
"""Of English text; of Chinese, a character is about a token, so that such texts are cut too late."""

_WIDE: Final = "\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_PIECE: Final = re.compile(rf"\s{{0,8}}(?:[{_WIDE}]|[^\W{_WIDE}]{{1,8}}|[^\w\s])|\s{{1,8}}")


def truncate(text: str, n_tokens: int | None) -> str:
    """The beginning of a text, without blanks at its ends: four characters for a token. All of it where it is None."""
    return (text if n_tokens is None else text[: n_tokens * CHARS_PER_TOKEN]).strip()


def pieces(text: str) -> Iterator[str]:
    """The words and marks of a text, each with the blanks before it. Joined, they are the text.

    A piece is at most 16 characters: 8 of blanks, 8 of a word; of Chinese, Japanese and Korean, one character.
    """
    return (found[0] for found in _PIECE.finditer(text))
