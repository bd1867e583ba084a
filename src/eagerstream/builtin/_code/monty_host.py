"""`InterpreterHost`: the functions that code in Monty needs from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from pydantic_monty import ExternalSettledResult

Outcome: TypeAlias = "ExternalSettledResult"
"""The end of a call, in the form that Monty takes."""
CANCELLED: Final[Outcome] = {"exc_type": "KeyboardInterrupt", "message": "cancelled"}


class InterruptedCodeError(Exception):
    """The code is cancelled, and must not start anything more. It gets `KeyboardInterrupt`."""


class InterpreterHost(Protocol):
    """The other side of the code that runs, called in the thread of the interpreter."""

    def print(self, text: str) -> None:
        """Take output."""
        ...

    def start(self, name: str, values: Sequence[Any], named: Mapping[str, Any]) -> int:
        """Start a call, and return its id.

        Raises:
            TypeError: The arguments do not fit, or have no JSON form, or there are too many calls.
            InterruptedCodeError: The code is cancelled.
        """
        ...

    def sleep(self, delay_s: float) -> int:
        """Start a pause, and return its id.

        Raises:
            TypeError: There are too many calls.
            InterruptedCodeError: The code is cancelled.
        """
        ...

    def reset(self) -> None:
        """Ask for a new session."""
        ...

    def wait(self, ids: Sequence[int]) -> dict[int, Outcome]:
        """Wait until at least one of the calls has ended, and return the outcomes of those that have."""
        ...
