"""Feed fragments to `PartialJSON`, and look at everything that shows of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.streams import written

from eagerstream_wire import ParseFault, PartialJSON, Path

MODES = (False, True)
"""Whether the parser reports its changes: then it takes no short cut."""


class Look(NamedTuple):
    """All that shows of a parser at one moment."""

    value: str
    started: bool
    complete: bool
    error: ParseFault | None
    open_path: Path | None
    overflow_chars: int | None


def look(parser: PartialJSON) -> Look:
    return Look(
        written(parser.value), parser.started, parser.complete, parser.error, parser.open_path, parser.overflow_chars
    )


def fed(pieces: Iterable[str], *, reports: bool = False, close: bool = False) -> PartialJSON:
    parser = PartialJSON(reports=reports)
    for piece in pieces:
        parser.feed(piece)
    if close:
        parser.close()
    return parser


def taken(parser: PartialJSON) -> list[tuple[Path, str]]:
    return [(path, written(value)) for path, value in parser.finished]
