"""The simulation of verdicts: its cases are equal if nothing is added, and its shares are those of the lab."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.verdicts import FIGURES, NOISES, Share, fixed, runs, simplest, spread, stopped

from tests.tables import rows


@rows("noise", NOISES)
def test_equal_cases(noise: str) -> None:
    """The case that runs later has it harder, but no case is later more often; the two figures depend on each other."""
    values = np.concatenate([runs(noise, 20, 2, np.random.default_rng(seed)) for seed in range(300)])
    difference = values[:, 1, 0] - values[:, 0, 0]
    assert abs(difference.mean()) < 3 * difference.std() / len(difference) ** 0.5
    assert 0.3 < np.corrcoef(values[:, 0, 0], values[:, 0, 1])[0, 1] < 1


def test_shares() -> None:
    """An interval of Wilson, also of a share of 0."""
    assert str(Share(50, 1_000)) == "5.0 % [3.8, 6.5]"
    low, high = Share(0, 100).interval
    assert low == pytest.approx(0, abs=1e-12)
    assert high == pytest.approx(0.037, abs=0.001)


@pytest.mark.slow
def test_the_simulation_tells_good_rules_from_bad() -> None:
    """With few benchmarks: the lab is rarely wrong and finds a shift, and the simplest rule is wrong every other time."""
    assert fixed("real", 10, FIGURES, 0.0, 300).interval[0] <= 0.05
    assert fixed("real", 20, FIGURES, spread("real"), 100).share > 0.9
    found, rounds = stopped("ties", "until", spread("ties"), 50)
    assert found.share > 0.9
    assert 10 <= rounds <= 53
    assert simplest("real", 200).share > 0.3
