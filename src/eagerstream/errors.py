"""The exceptions of eagerstream, split by who must act.

    EagerStreamError
    ├── ProtocolError        the peer broke the format of the stream
    ├── LimitError           a bound of `Limits` was reached
    ├── APIError             the API answered with an HTTP error, or with an `error` event
    │   └── StreamInterrupted    the reply broke off: connection lost, silence, no `message_stop`
    ├── UsageError           our caller erred
    │   ├── HistoryError         messages or tools that the API would refuse
    │   └── MissingExtraError    an optional dependency is not installed
    ├── WorkerLost           a process that ran a tool is gone
    ├── InputInterrupted     a value that was waited for can no longer come
    └── ToolError            raised by a tool, to answer the model with an error of its own words

An input that is invalid or cut off is an outcome (`Outcome`), never an exception; cancellation always passes through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

_MAX_REASON_CHARS: Final = 2_000
"""Of what a peer says of its error: no more than people read."""


class EagerStreamError(Exception):
    """The root of every exception that eagerstream raises on purpose.

    Attributes:
        result: The `RunResult` of the run that the error ended: the history to continue from, the partial response,
            and every call with its input and its result. None if it did not end a run.
    """

    result: Any = None  # the loop is above this module, which therefore cannot name its class

    def to_dict(self) -> dict[str, Any]:
        """What went wrong as plain data: its class, its text, and what else is known of it."""
        return {"type": type(self).__name__, "text": str(self)}


class ProtocolError(EagerStreamError):
    """The peer sent what the format does not allow, and going on would be guessing.

    Attributes:
        excerpt: The first characters of what was wrong. They may be a piece of what a model wrote, which has no place
            in a log: the error's text does not have them.
    """

    def __init__(self, message: str, *, excerpt: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.excerpt = excerpt[:80]


class LimitError(EagerStreamError):
    """A bound of `Limits` was reached, and what lies behind it was not taken in.

    Attributes:
        limit: The field of `Limits`, for example `"max_event_bytes"`.
        bound: Its value, in the unit that the field's name ends with.
    """

    def __init__(self, limit: str, bound: float, what: str) -> None:
        super().__init__(limit, bound, what)
        self.limit = limit
        self.bound = bound
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is over the limit {self.limit}={self.bound}"


class APIError(EagerStreamError):
    """The API refused the request, or ended the stream with an `error` event.

    The client's own exception, where there is one, is the `__cause__`.

    Attributes:
        reason: What went wrong; the words of the peer without secrets, and no more than their first 2,000 characters.
        status_code: HTTP status; None for an `error` event inside a stream and for a lost connection.
        error_type: The API's word for it, for example `"overloaded_error"`; None where the peer gave none.
        request_id: What to quote to support; None where the peer gave none.
        retryable: True where the same request may succeed later.
        retried: The client has sent the request several times already, by its own setting.
        retry_after_s: Seconds that the peer asks to wait; None where it asks for nothing.
        message: The assistant message so far, where a reply had begun; None otherwise.
        hint: What to do about it, where there is something to say; None otherwise.
        details: Facts that the API adds to the error, `{"error_code": "image_dimensions_too_large", ...}` for example,
            without secrets. None if there are none, or more than 8,000 characters of them.
        error_code: The cause, from the details; None if the API names none. Codes may be added: treat one that you do
            not know as the bare `error_type`.
    """

    def __init__(
        self,
        reason: str,
        *,
        status_code: int | None = None,
        error_type: str | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        retried: bool = False,
        retry_after_s: float | None = None,
        message: Mapping[str, Any] | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        # Here, where something has gone wrong: compiling its patterns takes as long as loading the parsers.
        from ._support.redaction import redact, redact_excerpt

        self.reason = redact_excerpt(reason, _MAX_REASON_CHARS)
        super().__init__(self.reason)
        self.hint = hint
        self.status_code = status_code
        self.error_type = error_type
        self.request_id = request_id
        self.retryable = retryable
        self.retried = retried
        self.retry_after_s = retry_after_s
        self.message = message
        self.details: Mapping[str, Any] | None = None if details is None else redact(details)
        code = (self.details or {}).get("error_code")
        self.error_code: str | None = code if isinstance(code, str) else None

    def __str__(self) -> str:
        from ._support.redaction import printable

        facts = [
            f"HTTP {self.status_code}" if self.status_code is not None else "",
            f"{self.error_type or '':.80}",
            f"request {self.request_id:.80}" if self.request_id else "",
        ]
        known = ", ".join(fact for fact in facts if fact)
        text = f"{self.reason} ({known})" if known else self.reason
        return printable(f"{text}. {self.hint}" if self.hint else text)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, with every attribute but `message`, `reason`, `retried` and `hint`."""
        names = ("status_code", "error_type", "request_id", "retryable", "retry_after_s", "error_code", "details")
        return {**super().to_dict(), **{name: getattr(self, name) for name in names}}


class StreamInterrupted(APIError):
    """The reply broke off before its end: a lost connection, silence, a body without `message_stop`.

    Always retryable: nothing says that the request was wrong.
    """

    def __init__(self, reason: str, *, request_id: str | None = None, message: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason, request_id=request_id, retryable=True, message=message)


class UsageError(EagerStreamError):
    """eagerstream was called with what it cannot take, or at a time when it cannot."""


class HistoryError(UsageError):
    """A conversation, or its tools, that the API would refuse; found before anything was sent.

    Attributes:
        faults: All of them, in the API's own words; each knows the index of its message.
    """

    def __init__(self, faults: Sequence[object]) -> None:
        super().__init__(tuple(faults))
        self.faults = tuple(faults)

    def __str__(self) -> str:
        return "; ".join(map(str, self.faults))


class MissingExtraError(UsageError):
    """An optional dependency is missing.

    Attributes:
        extra: The extra of eagerstream that brings it.
    """

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(extra, module)
        self.extra = extra
        self.module = module

    def __str__(self) -> str:
        return f"{self.module} is not installed; it comes with: pip install 'eagerstream[{self.extra}]'"


class WorkerLost(EagerStreamError):
    """The process that ran a tool is gone, or none can be had.

    Attributes:
        reason: What became of it.
        may_have_begun: The tool may have been called there, although nobody was told of it.
    """

    code: Final = "SERVICE_UNAVAILABLE"

    def __init__(self, reason: str, *, may_have_begun: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_have_begun = may_have_begun


class InputInterrupted(EagerStreamError):
    """What was waited for in a tool's input can no longer come: the input was cut off, or is not JSON.

    Attributes:
        path: The place in the input, as in `GrowingInput.field(*path)`.
        reason: How the input ended.
    """

    def __init__(self, path: Sequence[str | int], reason: str) -> None:
        super().__init__(tuple(path), reason)
        self.path = tuple(path)
        self.reason = reason

    def __str__(self) -> str:
        place = "".join(f"[{step!r}]" for step in self.path) or "the input"
        return f"{place} never finished: {self.reason}"


class ToolError(EagerStreamError):
    """Raised by a tool: the model is answered with `message` (and `hint`) as an error result.

    Attributes:
        message: What went wrong.
        hint: What to try instead.
        code: A `ToolErrorCode`; `EXECUTION_ERROR` where it is None.
        content: Content blocks (an image of what went wrong, say) that follow the text.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        code: str | None = None,
        content: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.content = list(content)

    @classmethod
    def rate_limited(cls, retry_after_s: float | None = None) -> Self:
        """The error of a tool whose own service asks it to slow down, and when to try again."""
        hint = None if retry_after_s is None else f"Retry after {retry_after_s:g} seconds."
        return cls("Rate limit exceeded.", hint=hint, code="RATE_LIMIT")

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message
