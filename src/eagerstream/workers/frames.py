"""What goes through the pipes between a pool and a worker process: frames, each with a message for a line.

frame     number of the line (4 bytes), length (8 bytes), the message, pickled
pool      Setup on line 0, then for each call a line of its own: Open, and what `messages` has
worker    Ready or Failed on line 0, then what `messages` has, on the lines of the calls
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from .crossing import dumps
from .messages import FromWorker, ToWorker

HEADER: Final = struct.Struct(">IQ")
CONTROL: Final = 0
"""The line that belongs to no call."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How a worker is to be.

    Attributes:
        main: What `multiprocessing.spawn.prepare` takes: the path, the directory and the main module of the program.
        backend: The event loop: `"asyncio"` or `"trio"`.
        preload: Modules to import, by name, and tools to make, by reference.
        max_message_bytes: No larger message is sent, or taken.
        cancel_grace_s: Seconds that tools have for their cleanup when the pool is gone.
    """

    main: dict[str, Any] = field(repr=False)
    backend: str
    preload: tuple[str | bytes, ...] = field(repr=False)
    max_message_bytes: int
    cancel_grace_s: float


@dataclass(frozen=True, slots=True)
class Open:
    """A call of a tool begins on this line; see `references`."""

    reference: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker can take calls."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The worker could not start, and has ended."""

    text: str


ToProcess: TypeAlias = Setup | Open | ToWorker
FromProcess: TypeAlias = Ready | Failed | FromWorker


def frame(line: int, message: ToProcess | FromProcess) -> bytes:
    """A message as it is written."""
    pickled = dumps(message)
    return HEADER.pack(line, len(pickled)) + pickled
