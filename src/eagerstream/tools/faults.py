"""What is wrong with an input, told so that the model can mend it: every fault, with its place, in one message."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

_MAX_SHOWN_CHARS: Final = 100
_MAX_TOLD: Final = 100
"""Faults that are told one by one: more would not help to mend them."""


class InputError(Exception):
    """An input does not fit its schema; the text is for the model."""


class InputFaults:
    """The faults of one input, and how they are told to the model."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.unknown: list[str] = []
        self._wrong: dict[str, list[str]] = {}  # by place: what was expected there, in each branch of a union
        self._got: dict[str, str] = {}

    def add_wrong(self, place: str, expected: str, got: object) -> None:
        """Something else was expected at `place`; the branches of a union come one by one."""
        self._wrong.setdefault(place, []).append(expected)
        self._got[place] = _shown(got)

    def __bool__(self) -> bool:
        return bool(self.missing or self.unknown or self._wrong)

    def __str__(self) -> str:
        missing = [repr(place) for place in self.missing]
        parts = [f"Missing required {missing[0]} parameter"] if len(missing) == 1 else []
        parts += [f"Missing required parameters: {', '.join(missing)}"] if len(missing) > 1 else []
        parts += [f"Unknown parameter {place!r}" for place in self.unknown]
        parts += [
            f"Invalid {f'parameter {place!r}' if place else 'input'}: {' or '.join(said)}, got {self._got[place]}"
            for place, said in self._wrong.items()
        ]
        if len(parts) > _MAX_TOLD:
            parts[_MAX_TOLD:] = [f"and {len(parts) - _MAX_TOLD} more faults"]
        return "Error: " + "; ".join(parts)


def joined(path: Iterable[str | int]) -> str:
    """A place in an input, for people: `files[0].name`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:80]}... ({len(text)} characters)"
