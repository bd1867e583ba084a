"""Hundreds of runs at once for minutes, while one reply in twenty fails: nothing lost, nothing doubled, nothing left.

What each run must be is in `soak_conversation.check`, what the process may hold in `Report.check` and `Report.check_memory`.
"""

from __future__ import annotations

import pytest

from tests.reliability.soak import Soak


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_moment(backend: str) -> None:
    """Fifty at once, for a moment, with more faults: the memory of so short a time says nothing."""
    report = Soak(backend, at_once=50, seconds=0.6, rate=0.1, speed=40).run()
    report.check()
    assert report.runs >= 10, str(report)  # most begin, also on a machine that has other work
    assert report.faults, str(report)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("backend", "at_once", "seconds", "speed"), [("asyncio", 500, 120, 1), ("trio", 250, 60, 2)])
def test_two_minutes(backend: str, at_once: int, seconds: float, speed: float) -> None:
    """Five hundred at once, on trio half of them at twice the speed: what they hold stays, however many have ended."""
    report = Soak(backend, at_once=at_once, seconds=seconds, speed=speed).run()
    report.check()
    report.check_memory()
    assert report.runs > 500, str(report)
