"""`Patches`: what a parser reports of the fragments of one text."""

from __future__ import annotations

from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.wire import PartialJSON, Patch


class Patches:
    """A parser that reports, and the names of the fields that the last fragment finished."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.parser = PartialJSON(limits=limits, reports=True)

    def feed(self, fragment: str) -> Patch:
        """The changes that a fragment makes."""
        self.parser.feed(fragment)
        return self.parser.patch

    @property
    def finished(self) -> list[str]:
        """Fields of the object that the last fragment finished."""
        return [path[0] for path, _ in self.parser.finished if len(path) == 1 and isinstance(path[0], str)]
