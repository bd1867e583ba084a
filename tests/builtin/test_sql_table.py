"""Rows of any driver as JSON, whatever values it has for them."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import Any

import pytest

from eagerstream.builtin._sql.table import RowBounds, read_table, response_of_table

BOUNDS = RowBounds(max_rows=10, max_cell_chars=50, max_result_chars=1_000)


class Point:
    """A type that only its driver knows."""

    def __str__(self) -> str:
        return "(1, 2)"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        pytest.param(True, True, id="boolean"),
        pytest.param(2**70, 2**70, id="integer"),
        pytest.param(Decimal("1.50"), "1.50", id="decimal"),
        pytest.param(dt.date(2026, 1, 2), "2026-01-02", id="date"),
        pytest.param(uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007", id="UUID"),
        pytest.param([1, None, "a"], [1, None, "a"], id="array"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 1}}, id="document"),
        pytest.param(memoryview(b"\0\1"), "x'0001'", id="memory"),
        pytest.param(float("nan"), "nan", id="not a number"),
        pytest.param("\ud800", "\ufffd", id="half a surrogate"),
        pytest.param(Point(), "(1, 2)", id="unknown type"),
    ],
)
def test_values(value: Any, cell: Any) -> None:
    """Each has a form in JSON, as near to its own as there is."""
    table = read_table(["x"], [(value,)], BOUNDS)
    assert table.rows == [[cell]]
    response = response_of_table(table)
    assert response.status == "success"
    json.dumps(response.data, allow_nan=False).encode()


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(10**5000, id="integer"),
        pytest.param("x" * 51, id="text"),
        pytest.param([1] * 100, id="array"),
        pytest.param(b"x" * 65, id="bytes"),
    ],
)
def test_long_values(value: Any) -> None:
    """What is too long is cut, and the model is told."""
    response = response_of_table(read_table(["x"], [(value,)], BOUNDS))
    ((cell,),) = response.data["rows"]
    assert isinstance(cell, str)
    assert len(cell) <= 53
    assert (response.status, response.reason) == ("partial", "1 long value cut")
