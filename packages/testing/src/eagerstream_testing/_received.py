"""Requests that the server received."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from eagerstream._support.redaction import redact_headers, redact_text

from ._faults import Fault
from ._platforms import Platform

MAX_REQUESTS: Final = 1_000
"""Maximum number of requests to keep. The oldest are dropped first."""


@dataclass(eq=False)
class ReceivedRequest:
    """A request for a message or for a count of tokens, and its result.

    The server's thread writes it, and any thread may read it.

    Attributes:
        request_id: The request id of the response, unless the recording has its own.
        platform: The platform of its dialect. `None` for the plain dialect, at the root of the server, and for chat
            completions.
        method: The HTTP method.
        path: The requested path, decoded. That of a count ends with `/count_tokens`, on Vertex with `:rawPredict`.
        headers: Names in lower case. Values with credentials or ids of organizations are `"[redacted]"`.
        query: The text after the `?`, for example `"beta=true"`, with its secrets redacted.
        body: The parsed JSON, as it was sent; `None` if it was invalid or too large.
        complete: The body with the complete conversation; as `body`, unless it continues a thread.
        body_bytes: Size of the body as it was sent.
        status: HTTP status of the response; `None` until it is decided, and if a fault comes before it.
        fault: The fault of the response; `None` without one.
        disconnected: The connection was gone before the complete response was written.
    """

    request_id: str
    headers: dict[str, str] = field(repr=False)
    platform: Platform | None = None
    method: str = "POST"
    path: str = ""
    query: str = ""
    body: Any = field(default=None, repr=False)  # may contain text that does not belong in a log
    complete: Any = field(default=None, repr=False)
    body_bytes: int = 0
    status: int | None = None
    disconnected: bool = False
    fault: Fault | None = None
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def ended(self) -> bool:
        """True once the response is written or given up."""
        return self._ended.is_set()

    def wait_ended(self, timeout_s: float | None = None) -> bool:
        """Block until the response is written or given up. Return False if `timeout_s` passes before that."""
        return self._ended.wait(timeout_s)

    def end(self) -> None:
        """Mark the response as written or given up, and wake those who wait for it."""
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
        """Add an entry with the next request id, and return it."""
        request = self.other("POST", headers, query, path=path)
        request.platform = platform
        with self._lock:
            self._requests.append(request)
        return request

    def other(self, method: str, headers: Mapping[str, str], query: str, *, path: str) -> ReceivedRequest:
        """Return a request with the next request id, which is no entry."""
        shown = redact_headers({name.lower(): headers[name] for name in headers})
        with self._lock:
            self._count += 1
            request_id = f"req_{self._count:024}"
        return ReceivedRequest(request_id, shown, method=method, path=path, query=redact_text(query))

    def entries(self) -> list[ReceivedRequest]:
        """Return the entries so far, in a new list."""
        with self._lock:
            return list(self._requests)
