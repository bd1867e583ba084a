"""What the tests of this folder share: turns in which no call has failed yet."""

from __future__ import annotations

import pytest

from tests.tools.calls import FAILED_GROUPS


@pytest.fixture(autouse=True)
def _no_turns_before() -> None:
    FAILED_GROUPS.clear()
