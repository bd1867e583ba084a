"""Frames in the pipes between a pool and a worker process, each with a message for a line.

frame     number of the line (4 bytes), length (8 bytes), the message
pool      Setup on line 0, then for each call its own line: Open, and the messages of `_messages`; pickled
worker    Ready or Failed on line 0, then the messages of `_messages`, on the lines of the calls; only data

A worker's message is one line of JSON, followed by its long fields as raw bytes. The line is an array of the message's
kind and its short fields. Reading a message runs none of its code: see `_crossing`.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ._crossing import dumps
from ._messages import Cancelled, Ended, FromWorker, Progress, Refused, Started, ToWorker

HEADER: Final = struct.Struct(">IQ")
CONTROL: Final = 0
"""Number of the line that belongs to no call."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings of a worker.

    Attributes:
        main: Argument of `multiprocessing.spawn.prepare`: the path, the directory and the main module of the program.
        backend: Event loop: `"asyncio"` or `"trio"`.
        preload: Modules to import, by name, and tools to make, by reference.
        max_message_bytes: Maximum size of a message to send or accept.
        cancel_grace_s: Seconds that tools have for their cleanup after the pool ends.
    """

    main: dict[str, Any] = field(repr=False)
    backend: str
    preload: tuple[str | bytes, ...] = field(repr=False)
    max_message_bytes: int
    cancel_grace_s: float


@dataclass(frozen=True, slots=True)
class Open:
    """Start of a call of a tool on this line; see `_references`."""

    reference: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ready:
    """Message that the worker can take calls."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Message that the worker could not start, and has ended."""

    text: str


class NoMessageError(ValueError):
    """Error for data of a worker that is not a message."""


ToProcess: TypeAlias = Setup | Open | ToWorker
FromProcess: TypeAlias = Ready | Failed | FromWorker


_MAX_HEAD_BYTES: Final = 4096
_MAX_CODE_CHARS: Final = 200


def frame(line: int, message: ToProcess) -> bytes:
    """Return the frame of a message to a worker."""
    pickled = dumps(message)
    return HEADER.pack(line, len(pickled)) + pickled


def answer(line: int, message: FromProcess) -> bytes:
    """Return the frame of a message from a worker."""
    head: list[Any] = [type(message).__name__]
    long = b""
    match message:
        case Failed(text):
            long = _as_bytes(text)
        case Progress(value):
            long = value
        case Refused(text, code, error):
            long = _as_bytes(text)
            head += [code[:_MAX_CODE_CHARS], len(error or b"")]
            long = (error or b"") + long
        case Ended():
            error = message.error or b""
            head += [message.raised, message.include_data, float(message.blocked_s), len(error)]
            long = error + message.response
        case Cancelled(at_work):
            head += [at_work]
        case Ready() | Started():
            pass
    body = json.dumps(head).encode() + b"\n" + long
    return HEADER.pack(line, len(body)) + body


def answer_from(body: bytes) -> FromProcess:
    """Parse a worker's message. Values made by its tools stay bytes.

    Raises:
        NoMessageError: The data is not a message.
    """
    end = body.find(b"\n", 0, _MAX_HEAD_BYTES)
    try:
        head = json.loads(body[: max(end, 0)])
    except (ValueError, RecursionError):
        raise NoMessageError("it has no head") from None
    start, size = end + 1, len(body) - end - 1
    match head:
        case ["Ready"] if not size:
            return Ready()
        case ["Failed"]:
            return Failed(_text(body[start:]))
        case ["Started"] if not size:
            return Started()
        case ["Progress"]:
            return Progress(body[start:])
        case ["Refused", str(code), int(error)] if 0 <= error <= size:
            return Refused(_text(body[start + error :]), code, body[start : start + error] or None)
        case ["Ended", bool(raised), bool(include_data), float(blocked_s), int(error)] if (
            0 <= error <= size and 0 <= blocked_s < math.inf
        ):
            response, cause = body[start + error :], body[start : start + error] or None
            return Ended(response, raised, cause, include_data, blocked_s)
        case ["Cancelled", bool(at_work)] if not size:
            return Cancelled(at_work)
    raise NoMessageError("no message has such a head")


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise NoMessageError("a text is not UTF-8") from None
