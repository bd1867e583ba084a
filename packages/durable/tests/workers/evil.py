"""Tools that try to run something in the program that called them."""

from __future__ import annotations

import os
import pickle
import struct
from typing import Any

from packages.durable.tests.workers.tools import note

from eagerstream import RunningCall, ToolResponse, tool


class Evil:
    """Notes the process in which it is unpickled."""

    def __init__(self, log: str) -> None:
        self.log = log

    def __reduce__(self) -> tuple[Any, ...]:
        return _note_process, (self.log,)


class EvilError(Exception):
    """The same as an exception."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _note_process, self.args


def _note_process(log: str) -> None:
    note(log, f"{os.getpid()}")


@tool
async def evil_data(log: str, call: RunningCall) -> ToolResponse:
    """Give what runs when it is unpickled."""
    await call.progress({"evil": Evil(log)})
    return ToolResponse.success("done", {"evil": Evil(log)}, {"evil": Evil(log)}, {"evil": Evil(log)})


@tool
async def evil_error(log: str) -> str:
    """Raise what runs when it is unpickled."""
    raise EvilError(log)


@tool
async def evil_frame(log: str) -> str:
    """Write a well-formed frame with a pickle into the pipe of the worker."""
    pickled = pickle.dumps(Evil(log))
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, struct.pack(">IQ", 1, len(pickled)) + pickled)
        except OSError:
            pass
    return "never read"
