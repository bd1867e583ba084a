"""Tests of the budget of the quick tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import budget


def test_folders_beyond_their_budget() -> None:
    """A tenth more is allowed; a folder without a budget and a budget without a folder are reported."""
    measured = {"wire": 5.0, "loop": 11.2, "small": 0.55, "tools": 12.0, "new": 0.1}
    assert budget.excess(measured, {"wire": 5.0, "loop": 10.0, "small": 0.1, "tools": 10.0, "gone": 1.0}) == {
        "gone": "has a budget, but no tests",
        "new": "0.1 s, without a budget",
        "tools": "12.0 s; its budget is 10.0 s",
    }


def test_the_budgets_are_within_the_sum(tmp_path: Path) -> None:
    """A folder gets more only if another one gets less."""
    budget.load()
    exceeded = tmp_path / "budget.toml"
    exceeded.write_text("all = 10\n[seconds]\nwire = 6.0\nloop = 4.5\n")
    with pytest.raises(ValueError, match=r"10\.5 s together"):
        budget.load(exceeded)
