"""Files and folders as a model sees them: numbered lines, ranges of a file, listings."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from eagerstream.errors import ToolError
from eagerstream.tools import ToolErrorCode, ToolResponse

from ._jail import Jail
from ._paths import Parts
from ._text_files import Document

MAX_LINES: Final = 999_999
"""Maximum number of lines of a file to show. The number column has 6 digits."""

_NUMBER_WIDTH: Final = len(str(MAX_LINES))
_MAX_LISTED: Final = 1_000
_LISTED_DEPTH: Final = 2
_SNIPPET_LINES: Final = 2
"""Lines to show before and after a changed line."""


def numbered(lines: Iterable[str], *, first: int = 1) -> str:
    """Return lines with numbers in front, as `cat -n` shows them."""
    return "\n".join(f"{number:{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def snippet(lines: Sequence[str], line: int) -> str:
    """Return a line, counted from 0, and its neighbours."""
    begin = max(0, line - _SNIPPET_LINES)
    return numbered(lines[begin : line + _SNIPPET_LINES + 1], first=begin + 1)


def _invalid_range(reason: str) -> ToolError:
    return ToolError(f"Error: Invalid `view_range` parameter. {reason}", code=ToolErrorCode.INVALID_PARAM)


def shortened(text: str, *, first: int, max_characters: int | None) -> ToolResponse:
    """Cut numbered lines to `max_characters`. If lines are missing, the response is `PARTIAL` and reports the range."""
    if max_characters is None or len(text) <= max_characters:
        return ToolResponse.success(text)
    kept = text[:max_characters]
    if "\n" in kept:
        kept = kept[: kept.rindex("\n")]
    last = first + kept.count("\n")
    last_asked = first + text.count("\n")
    return ToolResponse.partial(
        kept,
        reason=f"Cut to {max_characters} characters: these are lines {first} to {last}, and {last_asked} is the last "
        "that was asked for. Use view_range for the others.",
    )


def listing(jail: Jail, parts: Parts) -> ToolResponse:
    """List a folder, two levels deep, with sizes. Hidden entries and `node_modules` are omitted.

    Raises:
        OSError, ToolError: As `Jail.stat` and `Jail.walk`.
    """
    header = (
        f"Here're the files and directories up to {_LISTED_DEPTH} levels deep in {jail.shown(parts)}, "
        "excluding hidden items and node_modules:"
    )
    size = jail.stat(parts).st_size
    entries = list(jail.walk(parts, depth=_LISTED_DEPTH, max_entries=_MAX_LISTED + 1, skip=_is_left_out))
    lines = [header, f"{human_size(size)}\t{jail.shown(parts)}"]
    for entry in entries[:_MAX_LISTED]:
        kind = "/" if entry.is_folder else " (symbolic link)" if entry.is_link else ""
        lines.append(f"{human_size(entry.size)}\t{printable_name(jail.shown(entry.parts))}{kind}")
    if len(entries) > _MAX_LISTED:
        return ToolResponse.partial("\n".join(lines), reason=f"Only the first {_MAX_LISTED} are listed.")
    return ToolResponse.success("\n".join(lines))


def shown_lines(document: Document, view_range: object, *, shown: str) -> tuple[str, int]:
    """Return the numbered lines of a `view_range`, and the number of the first. `None` selects all lines.

    Raises:
        ToolError: The range is invalid or outside the file, or the file has more than 999,999 lines.
    """
    line_count = document.line_count
    if line_count > MAX_LINES:
        raise ToolError(f"File {shown} exceeds maximum line limit of {MAX_LINES:,} lines.")
    first, last = 1, line_count
    if view_range is not None:
        if (
            not isinstance(view_range, list)
            or len(view_range) != 2
            or any(type(each) is not int for each in view_range)
        ):
            raise _invalid_range("It should be a list of two integers.")
        first, last = view_range
        if not 1 <= first <= max(1, line_count):
            raise _invalid_range(
                f"Its first element `{first}` should be within the range of lines of the file: [1, {line_count}]"
            )
        if last == -1:
            last = line_count
        elif last < first:
            raise _invalid_range(f"Its second element `{last}` should be -1, or not smaller than its first `{first}`")
        elif last > line_count:
            raise _invalid_range(
                f"Its second element `{last}` should not be larger than the number of lines in the file: `{line_count}`"
            )
    return numbered(document.lines()[first - 1 : last], first=first), first


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name == "node_modules"


def printable_name(name: str) -> str:
    """Escape line ends and non-text bytes in a name. Otherwise one name could look like several entries."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") else char
        for char in name
    )


def human_size(size: int) -> str:
    """Format a size in the largest fitting unit, with one decimal unless it is even: `512B`, `4K`, `1.5M`."""
    unit = max(0, min((size.bit_length() - 1) // 10, 3))
    amount = size / 1024**unit
    return f"{amount:.0f}{'BKMG'[unit]}" if amount.is_integer() else f"{amount:.1f}{'BKMG'[unit]}"
