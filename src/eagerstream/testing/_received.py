"""What the server remembers of the requests that it received."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .._support.redaction import redact_headers, redact_text
from ._faults import Fault
from ._platforms import Platform

MAX_REQUESTS: Final = 1_000
"""Requests that are remembered; the oldest go first."""


@dataclass(eq=False)
class ReceivedRequest:
    """A request for a reply, and what became of it. Written by the server's thread, read from any.

    Attributes:
        request_id: The request id that it was answered with, unless the recording brought its own.
        platform: Whose dialect it was in; None for the plain one, at the root of the server.
        path: Where it was sent, decoded.
        headers: Names in lower case; the values of those that carry credentials are `"[redacted]"`.
        query: What followed the `?`, for example `"beta=true"`; without the secrets in it.
        body: The parsed JSON, as it was sent; None where it was none, or too large.
        status: HTTP status of the answer; None until it is decided, and where a fault comes before it.
        fault: What was done to the answer on request; None where nothing was.
        disconnected: The connection was gone before the whole answer was written.
    """

    request_id: str
    headers: dict[str, str] = field(repr=False)
    platform: Platform | None = None
    path: str = ""
    query: str = ""
    body: Any = field(default=None, repr=False)  # may hold what does not belong in a log
    status: int | None = None
    disconnected: bool = False
    fault: Fault | None = None
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def ended(self) -> bool:
        """The answer is written, or given up."""
        return self._ended.is_set()

    def wait_ended(self, timeout_s: float | None = None) -> bool:
        """Block until the answer is written or given up; False where that takes longer than `timeout_s`."""
        return self._ended.wait(timeout_s)

    def end(self) -> None:
        """The answer is written, or given up: wakes those who wait for it."""
        self._ended.set()


class RequestLog:
    """The latest requests, in order of arrival; safe to use from several threads."""

    def __init__(self, maximum: int = MAX_REQUESTS) -> None:
        self._requests: deque[ReceivedRequest] = deque(maxlen=maximum)
        self._lock = threading.Lock()
        self._count = 0

    def add(
        self, headers: Mapping[str, str], query: str, *, platform: Platform | None = None, path: str = ""
    ) -> ReceivedRequest:
        """A new entry, with the next request id."""
        shown = redact_headers({name.lower(): headers[name] for name in headers})
        with self._lock:
            self._count += 1
            request = ReceivedRequest(f"req_{self._count:024}", shown, platform, path, redact_text(query))
            self._requests.append(request)
        return request

    def entries(self) -> list[ReceivedRequest]:
        """The entries so far, in a list of their own."""
        with self._lock:
            return list(self._requests)
