"""`Limits`: every bound is a positive number, and is on by default."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from eagerstream.errors import UsageError
from eagerstream.limits import DEFAULT_LIMITS, Limits
from tests.tables import rows

each_limit = rows("name", [field.name for field in fields(Limits)])


@each_limit
@rows("bound", [0, -1, float("nan"), None, "3", True])
def test_a_bound_that_cannot_be(name: str, bound: Any) -> None:
    """`Limits(max_depth=None)` does not switch a bound off: that is refused by name."""
    with pytest.raises(UsageError, match=rf"Limits\.{name} must be a positive number"):
        Limits(**{name: bound})


@each_limit
def test_a_bound_can_be_raised(name: str) -> None:
    """As far as anybody wants, and the others stay."""
    bound: Any = float("inf")
    raised = Limits(**{name: bound})
    others = {field.name for field in fields(Limits)} - {name}
    assert getattr(raised, name) == bound
    assert all(getattr(raised, other) == getattr(DEFAULT_LIMITS, other) for other in others)
