"""The vectors of runs: the request after each response, and what a run does under a schedule of faults."""

from __future__ import annotations

import pytest
from packages.wire.conformance.adapters import eagerstream as adapter
from packages.wire.tests.conformance.test_vectors import cases_of, check

from tests.sampling import drawn
from tests.tables import rows

_RUN = ("histories", "faults")


@rows("kind", _RUN)
def test_runs_are_right_strictly(kind: str) -> None:
    """The reference has to agree with itself. The slow test runs all cases."""
    for case in drawn(cases_of(kind), 20):
        check(adapter, kind, case)


@pytest.mark.slow
@pytest.mark.parametrize("kind", _RUN)
def test_runs_are_right_strictly_in_all_cases(kind: str) -> None:
    """All cases take seconds."""
    for case in cases_of(kind):
        check(adapter, kind, case)
