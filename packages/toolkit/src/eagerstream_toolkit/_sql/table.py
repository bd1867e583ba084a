"""Query results: columns, rows as plain JSON values within bounds, and their text for the model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from eagerstream import JSON
from eagerstream._support.json_values import encodable, to_json
from eagerstream.tools import ToolResponse

_MAX_BITS: Final = 1_000
_SHOWN_BYTES: Final = 64
"""Maximum size of binary data to write out. Keys and hashes are not longer."""


@dataclass(frozen=True, slots=True)
class RowBounds:
    """Bounds of a result, as `SQL` documents them. The characters of all rows are those of their text form."""

    max_rows: int
    max_cell_chars: int
    max_result_chars: int


@dataclass(slots=True)
class Table:
    """The result of one statement.

    Attributes:
        columns: The columns' names. Empty if the statement returns no rows.
        rows: The rows as JSON values.
        lines: The rows as text, one JSON array each.
        has_more: True if the result has more rows.
        cut_cells: Number of values that were cut.
        affected: Number of changed rows. `None` if it is unknown, or the statement only read.
    """

    columns: list[str]
    rows: list[list[JSON]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    has_more: bool = False
    cut_cells: int = 0
    affected: int | None = None


def read_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], bounds: RowBounds) -> Table:
    """Read rows from a cursor one by one, until a bound is reached."""
    table = Table([_cut(str(encodable(name)), bounds.max_cell_chars)[0] for name in columns])
    room = bounds.max_result_chars
    for row in rows:
        if len(table.rows) == bounds.max_rows:
            table.has_more = True
            break
        cells = [_cell(value, bounds.max_cell_chars) for value in row]
        values = [value for value, _ in cells]
        line = json.dumps(values, ensure_ascii=False)
        room -= len(line)
        if room < 0:
            table.has_more = True
            break
        table.rows.append(values)
        table.lines.append(line)
        table.cut_cells += sum(was_cut for _, was_cut in cells)
    return table


def response_of_table(table: Table) -> ToolResponse:
    """Return the tool's response: a line with the columns, a line for each row, and the number of rows."""
    data: dict[str, Any] = {
        "columns": table.columns,
        "rows": table.rows,
        "row_count": len(table.rows),
        "truncated": table.has_more or table.cut_cells > 0,
    }
    if table.affected is not None:
        data["affected_rows"] = table.affected
    lines = [json.dumps(table.columns, ensure_ascii=False), *table.lines] if table.columns else []
    if table.columns:
        lines.append(f"({_count(len(table.rows), 'row')})")
    if table.affected is not None:
        lines.append(f"{_count(table.affected, 'row')} affected.")
    text = "\n".join(lines) or "Done."
    reasons = []
    if table.has_more:
        reasons.append(f"only the first {_count(len(table.rows), 'row')} of more are shown")
    if table.cut_cells:
        reasons.append(f"{_count(table.cut_cells, 'long value')} cut")
    return ToolResponse.partial(text, data, reason="; ".join(reasons)) if reasons else ToolResponse.success(text, data)


def _cell(value: Any, max_chars: int) -> tuple[JSON, bool]:
    """Return a value as JSON, and whether some of it is missing."""
    match value:
        case None | bool():
            return value, False
        case float():
            return (value if isfinite(value) else str(value)), False
        case int():
            # Python converts at most 4,300 digits.
            return (value, False) if value.bit_length() < _MAX_BITS else _cut(hex(value), max_chars)
        case bytes() | bytearray() | memoryview():
            data = bytes(value)
            if len(data) <= _SHOWN_BYTES:
                return f"x'{data.hex()}'", False
            return f"<{len(data)} bytes>", True
        case str():
            return _cut(str(encodable(value)), max_chars)
        case _:  # a driver's own types: dates, decimals, UUIDs, arrays and documents
            try:
                plain: JSON = to_json(value)
                text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
            except (TypeError, ValueError):
                plain = text = str(encodable(str(value)))
            return (plain, False) if len(text) <= max_chars else _cut(text, max_chars)


def _cut(text: str, max_chars: int) -> tuple[str, bool]:
    return (text, False) if len(text) <= max_chars else (f"{text[:max_chars]}...", True)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
