"""The JSON body of an untrusted client's request. Limits are checked first, and the work runs in a thread."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from eagerstream._support.plain_json import load_json
from eagerstream._support.serving.access import Refused

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")

MAX_BODY_BYTES: Final = 2 * 1024 * 1024
"""Default maximum size of a body. Parsing and converting 2 MiB takes about 0.2 s on one core."""

BODY_S: Final = 30.0
"""Seconds in which a body must arrive."""

MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
MAX_ARRIVING: Final = 1_000
MAX_DEPTH: Final = 512
_BYTES_PER_VALUE: Final = 40
_MIN_VALUES: Final = 1_000

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
"""A string or a mark. An unfinished string is a token too, since a repeated search for its end would be quadratic."""


class RequestBodies:
    """Reads the bodies of an application's requests, and parses them in a thread.

    The memory is bounded, for any number of clients. A slow or silent client cannot keep others out: if there is no
    room, the oldest arriving body is dropped.

    Args:
        max_bytes: Maximum size of one body.
        max_buffered_bytes: Maximum size of all bodies that are not parsed yet. At least one body fits.
        max_arriving: Maximum number of bodies that are arriving.
        timeout_s: Seconds in which a body must arrive.
    """

    def __init__(
        self,
        max_bytes: int = MAX_BODY_BYTES,
        *,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
        max_arriving: int = MAX_ARRIVING,
        timeout_s: float = BODY_S,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_buffered_bytes = max(max_bytes, max_buffered_bytes)
        self._max_arriving = max_arriving
        self._timeout_s = timeout_s
        self._arriving: dict[_Arriving, None] = {}  # the oldest first
        self._buffered_bytes = 0
        self._parser = anyio.CapacityLimiter(1)  # two threads would share the GIL and need twice the memory

    async def read_json(self, request: Request, convert: Callable[[Any], T]) -> T:
        """Read the JSON value in a request, and return the result of `convert`.

        The content type must be JSON: a page of another origin cannot send that without a preflight request. If this is
        cancelled, the body is dropped after the thread's work.

        Args:
            request: At most `max_bytes` of its body are read.
            convert: Called in a thread, since a large value takes time. It may raise `Refused`, too.

        Raises:
            Refused: The content type is not JSON (415); the body is too large (413), too slow (408) or not JSON (400);
                the client left (400); or the server is busy (503).
        """
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "the body must be application/json")
        length = request.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and (len(length) > 15 or int(length) > self._max_bytes):
            raise self._too_large()
        arriving = _Arriving()
        self._arriving[arriving] = None
        try:
            await self._read(request, arriving)
            self._arriving.pop(arriving, None)  # it can no longer be dropped
            return await anyio.to_thread.run_sync(
                lambda: convert(parse_body(arriving.body, self._max_bytes)), limiter=self._parser
            )
        finally:
            self._arriving.pop(arriving, None)
            self._buffered_bytes -= len(arriving.body)

    async def _read(self, request: Request, arriving: _Arriving) -> None:
        from starlette.requests import ClientDisconnect

        is_whole = False
        try:
            with anyio.move_on_after(self._timeout_s), arriving.scope:
                self._make_room(arriving)
                async with aclosing(request.stream()) as stream:
                    async for part in stream:
                        if len(arriving.body) + len(part) > self._max_bytes:
                            raise self._too_large()
                        arriving.body += part
                        self._buffered_bytes += len(part)
                        self._make_room(arriving)
                        await anyio.lowlevel.checkpoint_if_cancelled()
                is_whole = True
        except ClientDisconnect as error:
            raise Refused(400, "the body is not complete") from error
        if arriving.is_given_up:
            raise _busy()
        if not is_whole:
            raise Refused(408, "the body did not arrive in time")

    def _make_room(self, newest: _Arriving) -> None:
        """Drop the oldest bodies while there are too many bytes or bodies.

        Raises:
            Refused: The bodies that wait for the parser leave no room (503).
        """
        for other in list(self._arriving) if self._is_full else ():
            if other is not newest:
                self._buffered_bytes -= len(other.body)
                del self._arriving[other]
                other.give_up()
            if not self._is_full:
                return
        if self._is_full:
            raise _busy()

    @property
    def _is_full(self) -> bool:
        return self._buffered_bytes > self._max_buffered_bytes or len(self._arriving) > self._max_arriving

    def _too_large(self) -> Refused:
        return Refused(413, f"the body is over {self._max_bytes:,} bytes")


def _busy() -> Refused:
    return Refused(503, "the server is busy")


class _Arriving:
    """A body that is being read."""

    def __init__(self) -> None:
        self.body = bytearray()  # a list of parts could need much more memory: a part may be a single byte
        self.scope = anyio.CancelScope()
        self.is_given_up = False

    def give_up(self) -> None:
        """Free the memory now. The task that reads the body notices later."""
        self.is_given_up = True
        self.body.clear()
        self.scope.cancel()


def parse_body(body: bytes | bytearray, max_bytes: int = MAX_BODY_BYTES) -> Any:
    """Return the JSON value of a body.

    The values are counted before they are made, since each takes up to 100 bytes of memory and time in every later
    step.

    Args:
        body: Any bytes.
        max_bytes: Maximum size of a body. One value is allowed for each 40 of these bytes, and at least 1,000.

    Raises:
        Refused: The body is not JSON in UTF-8 or is nested too deep (400), or has too many values (413).
    """
    _check_values(body, max(_MIN_VALUES, max_bytes // _BYTES_PER_VALUE))
    try:
        # `json` would accept bytes in UTF-16 or UTF-32 too, whose values were not counted.
        return load_json(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Refused(400, "the body is not JSON") from error


def json_object(value: Any) -> dict[str, Any]:
    """Return a value that must be a JSON object.

    Raises:
        Refused: The value is not an object (400).
    """
    if not isinstance(value, dict):
        raise Refused(400, "the body is not a JSON object")
    return value


def _check_values(body: bytes | bytearray, max_values: int) -> None:
    """Count the values and the depth of JSON text by its commas and brackets outside strings, without parsing it.

    Raises:
        Refused: There are too many values (413), or the text is nested too deep (400).
    """
    values = depth = 0
    for token in _TOKEN.finditer(body):
        match body[token.start()]:
            case 0x2C:  # a comma
                values += 1
            case 0x5B | 0x7B:
                values += 1
                depth += 1
            case 0x5D | 0x7D:
                depth -= 1
            case _:
                continue
        if values > max_values:
            raise Refused(413, f"the body has more than {max_values:,} values")
        if depth > MAX_DEPTH:
            raise Refused(400, "the body is nested too deep")
