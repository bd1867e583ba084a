"""A text that matches a pattern of a JSON Schema."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any, Final

_MAX_CHARS: Final = 10_000
_MAX_DEPTH: Final = 50
_CLASSES: Final = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}
_TRIED: Final = "a1A_-. /:@#?!+=,;é\n"
"""Characters to try where a pattern excludes some."""


def matching(pattern: str) -> str | None:
    """Return a short text in which the pattern is found; `None` if the pattern is not supported.

    Lookarounds and anchors are ignored, so check the text. It is not checked here, because a pattern of somebody else
    may match slowly.
    """
    # Only Python's own parser reads all of the syntax. It is not documented, so nothing depends on its answer.
    from re import _parser  # type: ignore[attr-defined]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a syntax that will change
            return _Matching().text(_parser.parse(pattern))
    except (re.error, OverflowError, RecursionError, _UnsupportedError):
        return None


class _UnsupportedError(Exception):
    """Error for a part of a pattern that no text is made for."""


class _Matching:
    """Generator of a text for a parsed pattern. It remembers the groups, for references to them."""

    def __init__(self) -> None:
        self._groups: dict[int, str] = {}
        self._chars = 0

    def text(self, parsed: Iterable[tuple[Any, Any]], depth: int = 0) -> str:
        """Return a text for the parts of a pattern, one after the other."""
        if depth > _MAX_DEPTH:
            raise _UnsupportedError
        text = "".join(self._part(str(code), value, depth + 1) for code, value in parsed)
        if len(text) > _MAX_CHARS:
            raise _UnsupportedError
        return text

    def _part(self, code: str, value: Any, depth: int) -> str:
        match code:
            case "LITERAL":
                return chr(value)
            case "NOT_LITERAL":
                return "a" if value != ord("a") else "b"
            case "ANY":
                return "a"
            case "IN":
                return _one_in(value)
            case "BRANCH":
                return self.text(value[1][0], depth)
            case "SUBPATTERN":
                text = self.text(value[3], depth)
                if value[0] is not None:
                    self._groups[value[0]] = text
                return text
            case "GROUPREF":
                return str(self._groups.get(value, ""))
            case "ATOMIC_GROUP":
                return self.text(value, depth)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, _, repeated = value
                text = self.text(repeated, depth) * min(int(least), _MAX_CHARS + 1)
                if len(text) > _MAX_CHARS:
                    raise _UnsupportedError
                return text
            case "AT" | "ASSERT" | "ASSERT_NOT":
                return ""
            case _:
                raise _UnsupportedError


def _one_in(parts: list[tuple[Any, Any]]) -> str:
    """Return a character of a set such as `[a-z_]` or `[^/]`."""
    codes = [(str(code), value) for code, value in parts]
    if codes[0][0] != "NEGATE":
        code, value = codes[0]
        if code == "LITERAL":
            return chr(value)
        if code == "RANGE":
            return chr(value[0])
        if str(value) in _CLASSES:
            return _CLASSES[str(value)]
    for char in _TRIED:
        if any(_holds(code, value, char) for code, value in codes if code != "NEGATE") != (codes[0][0] == "NEGATE"):
            return char
    raise _UnsupportedError


def _holds(code: str, value: Any, char: str) -> bool:
    match code:
        case "LITERAL":
            return bool(ord(char) == value)
        case "RANGE":
            return bool(value[0] <= ord(char) <= value[1])
        case "CATEGORY":
            kind = str(value).removeprefix("CATEGORY_")
            letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[kind.removeprefix("NOT_")]
            return re.fullmatch("\\" + (letter.upper() if kind.startswith("NOT_") else letter), char) is not None
        case _:
            raise _UnsupportedError
