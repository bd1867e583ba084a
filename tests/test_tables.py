"""Tests of the tables that other tests are written as."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import missing
from tests.tables import rows


def test_rows_meet_each_other() -> None:
    """Stacked tables are multiplied, and what is no column is a fixture."""
    met = []

    @rows("first", [1, 2])
    @rows("second, third", [(3, 4), (5, 6)])
    def check(first: int, second: int, third: int, tmp_path: Path) -> None:
        met.append((first, second, third, tmp_path))

    assert list(inspect.signature(check).parameters) == ["tmp_path"]
    here = Path("here")
    check(tmp_path=here)  # type: ignore[call-arg]
    assert met == [(1, 3, 4, here), (1, 5, 6, here), (2, 3, 4, here), (2, 5, 6, here)]


def test_every_failure_is_shown() -> None:
    """A failing row does not hide the next one, and each is named."""

    @rows("number", [1, 2, 3])
    def check(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            _ = 1 / (number - 2)

    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows") as caught:
        check()  # type: ignore[call-arg]
    notes = [note for failure in caught.value.exceptions for note in failure.__notes__ if note.startswith("row")]
    assert notes == ["row 1: {'number': 1}", "row 3: {'number': 3}"]


def test_one_failure_is_raised_as_it_is() -> None:
    """pytest shows the comparison of the assertion."""

    @rows("text, length", [("a", 1), ("b", 2)])
    def check(text: str, length: int) -> None:
        assert len(text) == length

    with pytest.raises(AssertionError, match="assert 1 == 2") as caught:
        check()  # type: ignore[call-arg]
    assert caught.value.__notes__[-1] == "row 2: {'text': 'b', 'length': 2}"


def test_a_row_that_cannot_be_shown() -> None:
    """Its failure is not replaced by another one."""

    @rows("number", [10**5000])
    def check(number: int) -> None:
        assert number == 0

    with pytest.raises(AssertionError) as caught:
        check()  # type: ignore[call-arg]
    assert "cannot be shown (ValueError)" in caught.value.__notes__[-1]


def test_skips_and_unusable_tables() -> None:
    """A skip inside a row is a skip of the test; a table that cannot be right fails."""

    def check(number: int) -> None:
        pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception):
        rows("number", [1])(check)()  # type: ignore[call-arg]
    empty: list[Any] = []
    with pytest.raises(AssertionError, match="no rows"):
        rows("number", empty)(check)()  # type: ignore[call-arg]
    with pytest.raises(AssertionError, match="no parameters named"):
        rows("text", [1])(check)


def test_rows_that_lack_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a table is skipped as a single test is, unless a row fails for another reason."""
    monkeypatch.setattr(missing, "_ABSENT", frozenset({"numpy"}))

    def outcome(*errors: Exception) -> str:
        report = SimpleNamespace(outcome="failed", longrepr="", fspath="tests/test_tables.py")
        missing.skip_if_missing(report, ExceptionGroup("rows", errors))
        return str(report.outcome)

    absent = ModuleNotFoundError("No module named 'numpy'", name="numpy")
    assert outcome(absent, absent) == "skipped"
    assert outcome(absent, ValueError()) == "failed"
