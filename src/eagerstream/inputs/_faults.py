"""The faults of an input in a form that lets the model fix them: every fault, with its place, in one message."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import Final

_MAX_SHOWN_CHARS: Final = 100
_MAX_LOOKED_AT: Final = 10_000
_MAX_PLACE_CHARS: Final = 500
MAX_TOLD: Final = 100
"""Maximum number of faults of each kind to list. More would not help to fix them."""


class InputError(Exception):
    """An input does not fit its schema. The text is for the model.

    Attributes:
        path: The place of the first fault, for example `("items", 3, "price")`; empty if it is unknown.
    """

    def __init__(self, message: str, *, path: Iterable[str | int] = ()) -> None:
        super().__init__(message)
        self.path: tuple[str | int, ...] = tuple(path)

    @property
    def place(self) -> str:
        """The path in readable form: `items[3].price`."""
        return joined(self.path)


class InputFaults:
    """The faults of one input, and their text for the model."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.unknown: list[str] = []
        self._wrong: dict[str, list[str]] = {}  # by place: the expected values, one for each branch of a union
        self._got: dict[str, object] = {}
        self.not_looked_at = 0
        """Number of faults that are only counted."""
        self.stopped = False
        """True if the search was stopped, so there may be more faults."""

    def add_wrong(self, place: str, expected: str, got: object) -> None:
        """Add the value expected at `place`. The branches of a union come one by one."""
        self._wrong.setdefault(place, []).append(expected)
        self._got[place] = got

    def __bool__(self) -> bool:
        return bool(self.missing or self.unknown or self._wrong)

    def __str__(self) -> str:
        missing = [repr(place) for place in self.missing[:MAX_TOLD]]
        if len(self.missing) > MAX_TOLD:
            missing.append(f"and {len(self.missing) - MAX_TOLD} more")
        parts = [f"Missing required {missing[0]} parameter"] if len(missing) == 1 else []
        parts += [f"Missing required parameters: {', '.join(missing)}"] if len(missing) > 1 else []
        parts += [f"Unknown parameter {place!r}" for place in self.unknown[:MAX_TOLD]]
        parts += [
            f"Invalid {_named(place)}: {' or '.join(said)}, got {_shown(self._got[place])}"
            for place, said in islice(self._wrong.items(), MAX_TOLD)
        ]
        more = max(0, len(self.unknown) - MAX_TOLD) + max(0, len(self._wrong) - MAX_TOLD) + self.not_looked_at
        if more or self.stopped:
            parts.append(f"and {more} more faults" if more else "and more faults")
        return "Error: " + "; ".join(parts)


def _named(place: str) -> str:
    return f"parameter {place!r}" if place else "input"


def joined(path: Iterable[str | int]) -> str:
    """Return a place in an input in readable form: `files[0].name`. It is cut after 500 characters."""
    steps = islice(path, _MAX_PLACE_CHARS)
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step:.{_MAX_PLACE_CHARS}}" for step in steps)
    return text.removeprefix(".")[:_MAX_PLACE_CHARS]


def _shown(value: object) -> str:
    if isinstance(value, str | list | dict) and len(value) > _MAX_LOOKED_AT:
        return f"{type(value).__name__} of length {len(value)}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:80]}... ({len(text)} characters)"
