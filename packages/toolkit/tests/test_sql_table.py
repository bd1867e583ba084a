"""Rows of any driver as JSON, whatever values it has for them."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import Any

from tests.tables import rows

from eagerstream_toolkit._sql.table import RowBounds, read_table, response_of_table

BOUNDS = RowBounds(max_rows=10, max_cell_chars=50, max_result_chars=1_000)


class Point:
    """A type that only its driver knows."""

    def __str__(self) -> str:
        return "(1, 2)"


@rows(
    "value, cell",
    [
        (True, True),  # boolean
        (2**70, 2**70),  # integer
        (Decimal("1.50"), "1.50"),  # decimal
        (dt.date(2026, 1, 2), "2026-01-02"),  # date
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),  # UUID
        ([1, None, "a"], [1, None, "a"]),  # array
        ({"a": {"b": 1}}, {"a": {"b": 1}}),  # document
        (memoryview(b"\0\1"), "x'0001'"),  # memory
        (float("nan"), "nan"),  # not a number
        ("\ud800", "\ufffd"),  # half a surrogate
        (Point(), "(1, 2)"),  # unknown type
    ],
)
def test_values(value: Any, cell: Any) -> None:
    """Each has a form in JSON, as near to its own as there is."""
    table = read_table(["x"], [(value,)], BOUNDS)
    assert table.rows == [[cell]]
    response = response_of_table(table)
    assert response.status == "success"
    json.dumps(response.data, allow_nan=False).encode()


@rows(
    "value",
    [
        10**5000,  # integer
        "x" * 51,  # text
        [1] * 100,  # array
        b"x" * 65,  # bytes
    ],
)
def test_long_values(value: Any) -> None:
    """What is too long is cut, and the model is told."""
    response = response_of_table(read_table(["x"], [(value,)], BOUNDS))
    ((cell,),) = response.data["rows"]
    assert isinstance(cell, str)
    assert len(cell) <= 53
    assert (response.status, response.reason) == ("partial", "1 long value cut")
