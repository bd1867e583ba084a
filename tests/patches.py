"""`Patches`: what a parser reports of the fragments of one text."""

from __future__ import annotations

from eagerstream_wire import ParsingLimits, PartialJSON, Patch
from eagerstream_wire._limits import DEFAULT_LIMITS


class Patches:
    """A parser that reports, and the names of the fields that the last fragment finished."""

    def __init__(self, limits: ParsingLimits = DEFAULT_LIMITS) -> None:
        self.parser = PartialJSON(limits=limits, reports=True)

    def feed(self, fragment: str) -> Patch:
        """The changes that a fragment makes."""
        self.parser.feed(fragment)
        return self.parser.patch

    @property
    def finished(self) -> list[str]:
        """Fields of the object that the last fragment finished."""
        return [path[0] for path, _ in self.parser.finished if len(path) == 1 and isinstance(path[0], str)]
