"""What the environments of the matrix are made of."""

from __future__ import annotations

from packaging.requirements import Requirement

from .__main__ import ROWS, Outcome, Row, table
from .requirements import group_of_tests, lower_bounds, oldest_constraints, project, tools_for


def test_lower_bounds() -> None:
    """Only `>=` bounds from below; extras and upper bounds do not matter."""
    lines = [
        "anyio>=4.7",
        "httpx>=0.27,<1",
        "a[b]<=2",
        "partial-json-parser>=0.2.1.1.post5",
        "c>=1.0; python_version<'4'",
    ]
    assert lower_bounds(lines) == ["anyio==4.7", "httpx==0.27", "partial-json-parser==0.2.1.1.post5", "c==1.0"]
    assert lower_bounds([]) == []


def test_the_oldest_row_is_the_declared_minimum() -> None:
    """Whoever raises the one has to raise the other."""
    (declared,) = [line for line in project()["dependencies"] if Requirement(line).name == "anthropic"]
    (oldest,) = [row for row in ROWS if row.oldest]
    assert lower_bounds([f"anthropic{oldest.requested.replace('==', '>=').removesuffix('.*')}"]) == lower_bounds(
        [declared]
    )


def test_every_dependency_of_ours_has_a_lower_bound() -> None:
    """One without would be tried in its newest version only."""
    names = {Requirement(line).name for line in project()["dependencies"]} - {"anthropic", "eagerstream-wire"}
    assert names <= {Requirement(line).name for line in oldest_constraints()}


def test_tools() -> None:
    """As the dependency group `test` asks for them; what they are is in one place."""
    for oldest in (True, False):
        assert {"pytest", "httpx2", "trio"} <= {Requirement(line).name for line in tools_for(oldest=oldest)}
        assert set(tools_for(oldest=oldest)) <= set(group_of_tests())


def test_table() -> None:
    """A row that never got to its tests is there too."""
    done = Outcome(Row("<2"), "1.17.0", "httpx2 2.16.2", 1234, 1, 2, 61.4, "one failed")
    assert table([done, Outcome(Row("==0.78.*", oldest=True), failure="no such version")]).splitlines() == [
        "requested  installed  made on        others    passed  failed  skipped  seconds",
        "<2         1.17.0     httpx2 2.16.2  newest     1,234       1        2       61",
        "==0.78.*   -          -              oldest         0       0        0        0",
    ]
