"""The choice of tests: every case is reached, and a run can be repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.sampling import drawn, is_in_part

_CASES = [f"tests/test_a.py::test_b[{number}]" for number in range(100)]


@given(st.integers(0, 10**6), st.permutations(range(30)), st.integers(0, 40))
def test_a_seed_draws_the_same_whatever_the_order(seed: int, cases: list[int], count: int) -> None:
    """So many as were asked for, or all; a file that was moved in the order of the collection changes nothing."""
    chosen = drawn(cases, count, seed=str(seed))
    assert chosen == drawn(range(30), count, seed=str(seed))
    assert len(set(chosen)) == min(count, 30)


def test_seeds_reach_every_case() -> None:
    """A week of commits has more seeds than that."""
    assert {case for seed in range(100) for case in drawn(_CASES, 8, seed=str(seed))} == set(_CASES)


def test_each_nightly_test_is_in_one_part() -> None:
    """Five runs of CI, with the five parts, have run all of them."""
    for case in _CASES:
        assert sum(is_in_part(case, f"{part}/5") for part in range(1, 6)) == 1
    assert all(is_in_part(case, "") for case in _CASES)


@pytest.mark.slow
def test_a_package_that_is_missing_is_told_once(tmp_path: Path) -> None:
    """The tests that need it are skipped, those beside them run, and the run passes."""
    root = Path(__file__).parents[1]
    (tmp_path / "test_file.py").write_text("import ray\ndef test_it(): pass\n")
    (tmp_path / "test_tests.py").write_text(
        "def test_it():\n    import matplotlib.pyplot as _\n\ndef test_other(): pass\n"
    )
    program = (
        "import sys, tests.missing, pytest\n"
        "tests.missing._ABSENT = frozenset({'ray', 'matplotlib'})\n"
        "sys.modules['ray'] = sys.modules['matplotlib'] = None\n"
        "import conftest\n"
        "sys.exit(pytest.main(sys.argv[1:], plugins=[conftest]))\n"
    )
    command = [sys.executable, "-c", program, "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(tmp_path)]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("EAGERSTREAM_", "PYTEST_"))
    }
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 2 skipped" in done.stdout
    assert "Not installed, so tests in 2 files were skipped: matplotlib, ray." in done.stdout
