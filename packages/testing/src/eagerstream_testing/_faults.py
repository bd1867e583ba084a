"""Faults of a response, and their places in it: `Fault`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from enum import StrEnum, auto
from math import isfinite
from typing import Final

from eagerstream.errors import UsageError

# The API's error types, with the HTTP status and the message of each. An `error` event has the same types.
_ERRORS: Final = {
    "invalid_request_error": (400, "There was an issue with the format or content of your request."),
    "authentication_error": (401, "invalid x-api-key"),
    "billing_error": (402, "There's an issue with your billing or payment information."),
    "permission_error": (403, "Your API key does not have permission to use the specified resource."),
    "not_found_error": (404, "The requested resource could not be found."),
    "conflict_error": (409, "The request conflicts with the current state of the resource."),
    "request_too_large": (413, "Request exceeds the maximum size"),
    "rate_limit_error": (429, "This request would exceed your organization's rate limit. Please try again later."),
    "api_error": (500, "Internal server error"),
    "timeout_error": (504, "The request timed out while processing."),
    "overloaded_error": (529, "Overloaded"),
}

ERROR_STATUS: Final = {error_type: status for error_type, (status, _) in _ERRORS.items()}
"""The HTTP status of each of the API's error types, `{"overloaded_error": 529, ...}`."""

_ERROR_TYPES: Final = {status: error_type for error_type, status in ERROR_STATUS.items()}
_PAGE_STATUS: Final = 502


class FaultKind(StrEnum):
    """A kind of fault.

    Instead of the response:

    - `HTTP_ERROR`: an error of the API, with its status.
    - `HTML_PAGE`: the page of a proxy that did not reach the API.
    - `CONTENT_TYPE`: the complete response, under a content type that is not an event stream's.

    From a place in the response on:

    - `ERROR_EVENT`: an `error` event, and the end of the body.
    - `END`: the body ends as HTTP requires, but without its `message_stop`.
    - `CLOSE`: the connection is closed (FIN), without the chunk that ends the body.
    - `RESET`: the connection is reset (RST). The peer's system may discard bytes that the peer has not read by then.
    - `STALL`: silence, until the client disconnects.
    - `BROKEN_CHUNKING`: bytes that are not a chunk of HTTP's chunked coding, then the connection is closed.
    - `ENDLESS`: more of the input that is open there, otherwise more text or thinking. It comes as fast as the client
      reads, until it disconnects.

    At a place in the response, which continues afterwards:

    - `GARBAGE`: bytes that are neither UTF-8 nor JSON. Between events, they are the data of an event of their own.
    - `SPLICE`: the response starts again, with a second `message_start` and other ids, as after a gateway's retry.
    - `DUPLICATE`: the next event comes twice.
    - `MISSING`: the next event is left out.
    - `REORDERED`: the next two events come in the wrong order.
    """

    HTTP_ERROR = auto()
    HTML_PAGE = auto()
    CONTENT_TYPE = auto()
    ERROR_EVENT = auto()
    END = auto()
    CLOSE = auto()
    RESET = auto()
    STALL = auto()
    BROKEN_CHUNKING = auto()
    ENDLESS = auto()
    GARBAGE = auto()
    SPLICE = auto()
    DUPLICATE = auto()
    MISSING = auto()
    REORDERED = auto()


INSTEAD: Final = frozenset({FaultKind.HTTP_ERROR, FaultKind.HTML_PAGE, FaultKind.CONTENT_TYPE})
"""Kinds without a place in the response."""

BYTEWISE: Final = frozenset(
    {
        FaultKind.END,
        FaultKind.CLOSE,
        FaultKind.RESET,
        FaultKind.STALL,
        FaultKind.BROKEN_CHUNKING,
        FaultKind.GARBAGE,
    }
)
"""Kinds that may come after any byte."""

UNANSWERED: Final = frozenset({FaultKind.CLOSE, FaultKind.RESET, FaultKind.STALL})
"""Kinds that may come before the headers."""


@dataclass(frozen=True, repr=False)
class Fault:
    """A fault in one response, and its place: `Fault(FaultKind.RESET, after_bytes=1234)`.

    A place beyond the end of the response means its end. For a fault that affects events, it means the last event that
    the fault can affect. A fault comes at the time of the byte that it replaces or precedes.

    Attributes:
        kind: The kind of fault.
        after_events: Number of complete server-sent events that come first.
        after_bytes: Number of bytes of the body that come first, instead of `after_events`. Only for `END`, `CLOSE`,
            `RESET`, `STALL`, `BROKEN_CHUNKING` and `GARBAGE`.
        before_headers: Nothing comes first, not even the status and the headers. Only for `CLOSE`, `RESET` and `STALL`.
        status: HTTP status of an `HTTP_ERROR`, one that the API uses, or of an `HTML_PAGE`, 200 to 599. `None` gives an
            `HTML_PAGE` the status 502.
        error_type: The API's error type of an `ERROR_EVENT`, for example `"overloaded_error"`.
        retry_after_s: Value of the header `retry-after` of an `HTTP_ERROR`, in seconds. `None` sends no header.

    Raises:
        UsageError: The kind does not exist, an attribute does not belong to the kind, or its value is invalid.
    """

    kind: FaultKind
    _: KW_ONLY
    after_events: int = 0
    after_bytes: int | None = None
    before_headers: bool = False
    status: int | None = None
    error_type: str | None = None
    retry_after_s: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", _kind(self.kind))
        if self.kind is FaultKind.HTML_PAGE and self.status is None:
            object.__setattr__(self, "status", _PAGE_STATUS)
        for fault in (self._misplaced(), self._misdescribed()):
            if fault:
                raise UsageError(f"{self!r}: {fault}")

    @property
    def message(self) -> str:
        """The API's message for the error; empty for a kind without one."""
        error_type = self.api_error_type
        return _ERRORS[error_type][1] if error_type else ""

    @property
    def api_error_type(self) -> str | None:
        """The API's error type of an `HTTP_ERROR` or an `ERROR_EVENT`; `None` for other kinds."""
        return _ERROR_TYPES[self.status or 0] if self.kind is FaultKind.HTTP_ERROR else self.error_type

    def __str__(self) -> str:
        match self.kind:
            case FaultKind.HTTP_ERROR:
                wait = "" if self.retry_after_s is None else f", retry after {self.retry_after_s:g} s"
                return f"HTTP {self.status} {self.api_error_type}{wait}"
            case FaultKind.HTML_PAGE:
                return f"HTML page with HTTP {self.status}"
            case FaultKind.CONTENT_TYPE:
                return "wrong content type"
            case _:
                what = f"{self.error_type} event" if self.error_type else self.kind.replace("_", " ")
                return f"{what} {self._place()}"

    def __repr__(self) -> str:
        """Return an expression that makes an equal fault, without default values."""
        given = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)[1:]
            if getattr(self, field.name) != field.default
        ]
        return f"Fault({', '.join([f'FaultKind.{self.kind.name}', *given])})"

    def _place(self) -> str:
        if self.before_headers:
            return "before the headers"
        number, what = (self.after_events, "event") if self.after_bytes is None else (self.after_bytes, "byte")
        return f"after {number} {what}{'' if number == 1 else 's'}"

    def _misplaced(self) -> str | None:
        """Return the error in the place of the fault, or `None`."""
        for name, number in (("after_events", self.after_events), ("after_bytes", self.after_bytes or 0)):
            if type(number) is not int or number < 0:
                return f"{name} must be a whole number that is not negative"
        if self.kind in INSTEAD and (self.after_events or self.after_bytes is not None):
            return "it replaces the complete response: leave out after_events and after_bytes"
        if self.after_bytes is not None and self.kind not in BYTEWISE:
            return "it happens between events: use after_events"
        if self.after_bytes is not None and self.after_events:
            return "after_events or after_bytes, not both"
        if self.before_headers and self.kind not in UNANSWERED:
            return "only a close, a reset or a stall may come before the headers"
        if self.before_headers and (self.after_events or self.after_bytes):
            return "before_headers excludes after_events and after_bytes"
        return None

    def _misdescribed(self) -> str | None:
        """Return the error in the status, the error type or the wait, or `None`."""
        match self.kind:
            case FaultKind.HTTP_ERROR:
                if self.status not in _ERROR_TYPES:
                    return f"status must be one of {', '.join(map(str, _ERROR_TYPES))}"
            case FaultKind.HTML_PAGE:
                if type(self.status) is not int or not 200 <= self.status <= 599:
                    return "status must be from 200 to 599"
            case _:
                if self.status is not None:
                    return "only an HTTP error and an HTML page have a status"
        if self.kind is FaultKind.ERROR_EVENT:
            if self.error_type not in _ERRORS:
                return f"error_type must be one of {', '.join(_ERRORS)}"
        elif self.error_type is not None:
            return "only an error event has an error_type; the status of an HTTP error decides its type"
        wait_s = self.retry_after_s
        if wait_s is not None and self.kind is not FaultKind.HTTP_ERROR:
            return "only an HTTP error has retry_after_s"
        if wait_s is not None and not (isfinite(wait_s) and wait_s >= 0):
            return "retry_after_s must be finite and not negative"
        return None


def _kind(kind: str) -> FaultKind:
    try:
        return FaultKind(kind)
    except ValueError as error:
        raise UsageError(f"{kind!r} is no kind of fault; there are {', '.join(FaultKind)}") from error
