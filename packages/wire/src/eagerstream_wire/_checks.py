"""Checks of arguments: a wrong value is reported by its name, before it is used."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from ._errors import UsageError


def check_count(name: str, value: object, *, least: int = 1) -> None:
    """Refuse any value except a whole number of at least `least`. Booleans are not numbers here.

    Raises:
        UsageError: The value is something else.
    """
    if type(value) is not int or value < least:
        raise UsageError(f"{name} must be a whole number, at least {least}, not {value!r:.80}")


def check_positive(name: str, value: object, *, is_finite: bool = False) -> None:
    """Refuse any value except a number above 0. Infinity is allowed, unless `is_finite` is set.

    Raises:
        UsageError: The value is something else.
    """
    if not _is_number(value, 0) or value == 0 or (is_finite and value == inf):
        raise UsageError(f"{name} must be a positive number, not {value!r:.80}")


def check_seconds(name: str, value: object) -> None:
    """Refuse any value except a finite number of at least 0.

    Raises:
        UsageError: The value is something else.
    """
    if not _is_number(value, 0) or value == inf:
        raise UsageError(f"{name} must be a number of seconds, not {value!r:.80}")


def check_fraction(name: str, value: object) -> None:
    """Refuse any value except a number from 0 to 1.

    Raises:
        UsageError: The value is something else.
    """
    if not _is_number(value, 0, 1):
        raise UsageError(f"{name} must be from 0 to 1, not {value!r:.80}")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse any value except one of the choices.

    Raises:
        UsageError: The value is something else.
    """
    known = tuple(choices)
    if value not in known:
        raise UsageError(f"{name} must be one of {', '.join(known)}, not {value!r:.80}")


def _is_number(value: object, least: float, most: float = inf) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
