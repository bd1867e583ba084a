"""The parser that a `ToolInput` needs: `PartialJSON`, or another that the user gives.

A protocol and no base class: a user's parser need not derive from ours. It has `tracks` and `finished_in` because an
input must not look into a parser, nor read the text a second time, to find out whose wait has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..limits import Limits
from ._json_scalars import ParseFault
from ._patch import Patch
from ._values import JSON, Path


class Parser(Protocol):
    """What reads the fragments of one input; `PartialJSON` unless the accumulator is given another."""

    @property
    def value(self) -> JSON:
        """The best-effort value so far."""
        ...

    @property
    def complete(self) -> bool:
        """The text is one whole JSON document, by a strict reading."""
        ...

    @property
    def error(self) -> ParseFault | None:
        """What is wrong with the text, where something is."""
        ...

    @property
    def overflow_chars(self) -> int | None:
        """Offset of the first number that reads as infinity."""
        ...

    reports: bool
    """Set to have `feed` record what it changes, for `finished_fields` and `patch`."""
    tracks: bool
    """Set to have `feed` record what it finishes, for `finished_in`."""

    @property
    def ended(self) -> Sequence[object] | None:
        """The values that the last `feed` finished, in a form of the parser's own; empty or None if there are none."""
        ...

    @property
    def finished_fields(self) -> list[str]:
        """The keys of the object at the root whose values the last `feed` finished."""
        ...

    def finished_in(self, max_depth: int) -> list[tuple[Path, str | int | None]]:
        """The path of the container, and the key, of what the last `feed` finished in an object, to some depth."""
        ...

    @property
    def patch(self) -> Patch:
        """The changes that the last `feed` made in the value."""
        ...

    def feed(self, fragment: str) -> None:
        """Take in the next fragment."""
        ...

    def close(self) -> None:
        """The text ends here."""
        ...

    def is_finished(self, path: Path) -> bool:
        """The value at `path` shows and can no longer change."""
        ...

    @property
    def open_path(self) -> Path | None:
        """The path of the value that is being written; None if no value is."""
        ...


class ParserFactory(Protocol):
    """Makes a parser for each input: `PartialJSON` itself, or a `functools.partial` of a parser with its options."""

    def __call__(self, *, limits: Limits) -> Parser:
        """A parser that has read nothing."""
        ...
