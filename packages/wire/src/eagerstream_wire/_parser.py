"""The interface of the parser of a `ToolInput`: `PartialJSON`, or another that the user provides.

A protocol, not a base class: a user's parser need not derive from ours. It has `tracks` and `finished_in` because an
input must neither read a parser's internals nor parse the text a second time to find the waiters to wake.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ._json_scalars import ParseFault
from ._limits import ParsingLimits
from ._values import JSON, Path

if TYPE_CHECKING:
    from ._patch_types import Patch


class Parser(Protocol):
    """A parser of the fragments of one input; `PartialJSON` unless the accumulator gets another."""

    @property
    def value(self) -> JSON:
        """The best-effort value so far."""
        ...

    @property
    def complete(self) -> bool:
        """True if the text is one complete JSON document, by strict rules."""
        ...

    @property
    def error(self) -> ParseFault | None:
        """The fault of the text; None if there is none."""
        ...

    @property
    def overflow_chars(self) -> int | None:
        """Offset of the first number that becomes infinity; None if there is none."""
        ...

    reports: bool
    """Switch: `feed` records its changes, for `finished_fields` and `patch`."""
    tracks: bool
    """Switch: `feed` records the values it finishes, for `finished_in`."""

    @property
    def ended(self) -> Sequence[object] | None:
        """The values that the last `feed` finished, in the parser's own form; empty or None if there are none."""
        ...

    @property
    def finished_fields(self) -> list[str]:
        """The keys of the root object whose values the last `feed` finished."""
        ...

    def finished_in(self, max_depth: int) -> list[tuple[Path, str | int | None]]:
        """Return the container's path and the key of each value that the last `feed` finished, down to `max_depth`."""
        ...

    @property
    def patch(self) -> Patch:
        """The changes that the last `feed` made to the value."""
        ...

    def feed(self, fragment: str) -> None:
        """Read the next fragment."""
        ...

    def close(self) -> None:
        """End the text."""
        ...

    def is_finished(self, path: Path) -> bool:
        """Return True if the value at `path` shows and can no longer change."""
        ...

    @property
    def open_path(self) -> Path | None:
        """The path of the value that is being written; None if there is none."""
        ...


class ParserFactory(Protocol):
    """Makes a parser for each input: `PartialJSON` itself, or a `functools.partial` of a parser with its options."""

    def __call__(self, *, limits: ParsingLimits) -> Parser:
        """Return a parser that has read nothing."""
        ...
