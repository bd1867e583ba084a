"""Tools that keep something, under any framework."""

from __future__ import annotations

import anyio

import eagerstream
from eagerstream import RunningCall


class Notes:
    """A tool for the code, whose effects the model waits for."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.noted = anyio.Event()

        @eagerstream.tool
        async def note(text: str) -> int:
            """Note a text, and return the number of notes."""
            self.notes.append(text)
            self.noted.set()
            return len(self.notes)

        self.tool = note


class Keeper:
    """A tool that keeps state, with the ids under which it was called, and those whose state has ended."""

    def __init__(self) -> None:
        self.ids: list[str | None] = []
        self.ended: list[str | None] = []

        @eagerstream.tool
        async def keep(call: RunningCall) -> str:
            """Keep state."""
            id = call.run_id
            assert id not in self.ended
            if id not in self.ids:
                call.when_over(lambda: self.ended.append(id))
            self.ids.append(id)
            return "kept"

        self.tool = keep
