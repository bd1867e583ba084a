"""`Reporter`: progress of output that grows, reported at intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import anyio

from eagerstream.tools import RunningCall

SHOWN_CHARS: Final = 2_000
"""Number of characters at the end of an output that a progress report has."""
_EVERY_S: Final = 0.1


class Reporter:
    """A reporter of progress. It reports at once after a pause, and otherwise combines the changes of 0.1 seconds."""

    def __init__(self, call: RunningCall, value: Callable[[], Any]) -> None:
        self._call = call
        self._value = value
        self._is_noted = False
        self._wake = anyio.Event()

    def note(self) -> None:
        """Note a change."""
        self._is_noted = True
        self._wake.set()

    def report(self) -> None:
        """Report now, including the changes that were noted."""
        self._is_noted = False
        self._call.report(self._value())

    async def tell(self) -> None:
        """Report until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            if self._is_noted:
                self.report()
            await anyio.sleep(_EVERY_S)
