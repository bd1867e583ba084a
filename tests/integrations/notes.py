"""A tool for the code of a model, under any framework."""

from __future__ import annotations

import anyio

import eagerstream


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
