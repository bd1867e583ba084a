"""Each target holds on its corpus; and on its seeds, and on some hundred inputs more.

The long runs are `make fuzz`, and CI's. An input that a fuzzer finds, because it fails or because it reaches code that no
other one does, is kept in the folder of its target: `corpus/TARGET/any-name`.
"""

from __future__ import annotations

import math

import pytest

from .seeds import CORPUS
from .targets import SHARES, check_of
from .with_hypothesis import drive


@pytest.mark.parametrize("target", [path.name for path in sorted(CORPUS.iterdir())])
def test_what_was_found(target: str) -> None:
    """What failed once, and all that is odd in a way of its own, goes well ever after."""
    check = check_of(target)
    for path in sorted((CORPUS / target).iterdir()):
        try:
            check(path.read_bytes())
        except BaseException as error:
            error.add_note(f"with {path}")
            raise


@pytest.mark.parametrize(
    "target",
    # `flavors` compiles the core for a minute. In CI, a stage of its own fuzzes it with the wheel.
    [pytest.param(target, marks=pytest.mark.nightly if target == "flavors" else pytest.mark.slow) for target in SHARES],
)
def test_the_promises_hold(target: str) -> None:
    """A target that is broken, by a change of the code or of its own, is seen before anybody fuzzes for minutes."""
    assert drive(target, check_of(target), runs=300, seconds=math.inf, seed=0) == 300


def test_what_fails_comes_out() -> None:
    """A driver that swallowed failures would let every promise hold."""

    def check(data: bytes) -> None:
        assert len(data) < 20

    with pytest.raises(AssertionError):
        drive("partial_json", check, runs=600, seconds=math.inf, seed=0)
