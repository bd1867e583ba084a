"""Tests over recordings: one quick test asks all that a quick run takes, and one slow test all others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.sampling import drawn
from tests.streams import made_recordings, real_recordings
from tests.tables import rows

_SAMPLED = 8
"""Number of the recordings of real responses that a quick run takes. It takes all of the project's own."""


def for_recordings(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test of one `recording` for each of them, as the rows of one quick and one slow test."""
    real = real_recordings()
    quick = drawn(real, _SAMPLED)
    parts = {
        "quick": rows("recording", [*made_recordings(), *quick])(test),
        "others": rows("recording", [path for path in real if path not in quick])(test),
    }

    slow = [pytest.param("others", marks=pytest.mark.slow)] if real else []

    @pytest.mark.parametrize("part", ["quick", *slow])
    def run(part: str) -> None:
        parts[part]()

    run.__name__ = run.__qualname__ = test.__name__
    run.__module__ = test.__module__
    run.__doc__ = test.__doc__
    return run
