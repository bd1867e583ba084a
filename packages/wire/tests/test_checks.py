"""Checks of arguments: which values pass, and that a wrong one is reported by its name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, nan
from typing import Any

import pytest
from tests.tables import rows

from eagerstream_wire import UsageError
from eagerstream_wire._checks import check_choice, check_count, check_fraction, check_positive, check_seconds

Check = Callable[[str, Any], None]

CASES: list[tuple[Check, list[Any], list[Any], str]] = [
    # the check, values that pass, values that do not, and the expectation in the message
    (check_count, [1, 10**30], [0, -1, True, 1.0, "1", None], "a whole number, at least 1, not "),
    (partial(check_count, least=0), [0], [-1, False], "a whole number, at least 0, not "),
    (check_positive, [1, 0.5, inf], [0, -1, nan, True, "1", None], "a positive number, not "),
    (partial(check_positive, is_finite=True), [1], [inf, 0], "a positive number, not "),
    (check_seconds, [0, 1.5], [-1, inf, nan, True, "1", None], "a number of seconds, not "),
    (check_fraction, [0, 0.5, 1], [-0.1, 1.1, nan, True, "0"], "from 0 to 1, not "),
    (partial(check_choice, choices=("a", "b")), ["a", "b"], ["c", "", None, ["a"]], "one of a, b, not "),
]


@rows("check, passing, wrong, said", CASES)
def test_checks(check: Check, passing: list[Any], wrong: list[Any], said: str) -> None:
    """Many arguments rely on these."""
    for value in passing:
        check("retries", value)
    for value in wrong:
        with pytest.raises(UsageError) as caught:
            check("retries", value)
        assert str(caught.value) == f"retries must be {said}{value!r}"


def test_long_values() -> None:
    """A message shows the beginning of a wrong value."""
    with pytest.raises(UsageError) as caught:
        check_count("retries", "x" * 1000)
    assert len(str(caught.value)) < 200
