"""The two functions of SciPy that the statistics need, in a few lines: SciPy takes two CPU seconds to import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import comb
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def bootstrap(
    samples: list[list[float]],
    statistic: Callable[..., Any],
    *,
    n_resamples: int,
    vectorized: bool,
    batch: int,
    confidence_level: float,
    method: str,
    rng: Any,
) -> Any:
    """Return what `scipy.stats.bootstrap` returns for these arguments: it draws the same numbers in the same order."""
    import numpy as np

    assert (vectorized, method) == (True, "percentile")
    found = []
    for drawn in range(0, n_resamples, batch):
        sizes = [(min(batch, n_resamples - drawn), len(sample)) for sample in samples]
        resampled = [
            np.asarray(sample)[rng.integers(0, len(sample), size)] for sample, size in zip(samples, sizes, strict=True)
        ]
        found.append(statistic(*resampled, axis=-1))
    outside = (1 - confidence_level) / 2
    low, high = np.percentile(np.concatenate(found), [100 * outside, 100 * (1 - outside)])
    return SimpleNamespace(confidence_interval=SimpleNamespace(low=low, high=high))


def ppf(share: float, n: int, chance: float) -> float:
    """Return what `scipy.stats.binom.ppf` returns for a fair coin."""
    assert chance == 0.5
    below, count = 0, 0
    while (below := below + comb(n, count)) < share * 2**n:
        count += 1
    return float(count)


@contextmanager
def small_scipy() -> Iterator[None]:
    """Put these functions in the place of SciPy's."""
    stats = ModuleType("scipy.stats")
    vars(stats).update(bootstrap=bootstrap, binom=SimpleNamespace(ppf=ppf))
    package = ModuleType("scipy")
    vars(package).update(stats=stats)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "scipy", package)
        patch.setitem(sys.modules, "scipy.stats", stats)
        yield
