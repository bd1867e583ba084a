"""Each target holds on its seeds and on some hundred inputs more: the long runs are `make fuzz`, and CI's."""

from __future__ import annotations

import math

import pytest

from .targets import SHARES, check_of
from .with_hypothesis import drive


@pytest.mark.slow
@pytest.mark.parametrize("target", SHARES)
def test_the_promises_hold(target: str) -> None:
    """A target that is broken, by a change of the code or of its own, is seen before anybody fuzzes for minutes."""
    assert drive(target, check_of(target), runs=600, seconds=math.inf, seed=0) == 600


def test_what_fails_comes_out() -> None:
    """A driver that swallowed failures would let every promise hold."""

    def check(data: bytes) -> None:
        assert len(data) < 20

    with pytest.raises(AssertionError):
        drive("partial_json", check, runs=600, seconds=math.inf, seed=0)
