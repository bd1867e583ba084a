"""The exceptions of eagerstream, split by who must act.

    EagerStreamError
    ├── ProtocolError        the peer broke the format of the stream
    ├── LimitError           a bound was reached, mostly one of `Limits`
    ├── APIError             the API answered with an HTTP error, or with an `error` event
    │   └── StreamInterrupted    the response was cut: connection lost, silence, no `message_stop`
    ├── UsageError           the caller made a mistake
    │   ├── HistoryError         messages or tools that the API would refuse
    │   └── MissingExtraError    an optional dependency is not installed
    ├── WorkerLost           a process that ran a tool is gone
    ├── JournalError         a journal of runs cannot be read or written
    │   ├── OwnershipLostError   another process owns the run now, or may own it
    │   ├── RunOwnedError        another process owns the run, and lives
    │   ├── RunExistsError       a new run has the id of an existing one
    │   └── RunNotFoundError     the journal has no such run
    ├── InputInterrupted     a value that a tool waited for can no longer come
    └── ToolError            raised by a tool: the model gets its text as an error result

An invalid or truncated input is an outcome (`Outcome`), never an exception. Cancellation always passes through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from eagerstream_wire._errors import (
    EagerStreamError,
    LimitError,
    ProtocolError,
    UsageError,
)

__all__ = [
    "APIError",
    "EagerStreamError",
    "HistoryError",
    "InputInterrupted",
    "JournalError",
    "LimitError",
    "MissingExtraError",
    "OwnershipLostError",
    "ProtocolError",
    "RunExistsError",
    "RunNotFoundError",
    "RunOwnedError",
    "StreamInterrupted",
    "ToolError",
    "UsageError",
    "WorkerLost",
]

_MAX_REASON_CHARS: Final = 2_000
"""Maximum length of a peer's error text. People read no more."""
_MAX_BODY_CHARS: Final = 8_000


class APIError(EagerStreamError):
    """A refusal of the request by the API, or an `error` event that ended the stream.

    If the client raised an exception of its own, it is the `__cause__`.

    Attributes:
        reason: The peer's description of the error, without secrets, cut after 2,000 characters.
        status_code: HTTP status. None for an `error` event inside a stream and for a lost connection.
        error_type: The API's name of the error, for example `"overloaded_error"`. None if the peer gave none.
        request_id: Id to quote to support. None if the peer gave none.
        retryable: True if the same request may succeed later.
        retried: True if the client already sent the request several times, by its own setting.
        retry_after_s: Seconds that the peer asks to wait. None if it does not ask.
        message: The assistant message so far, if a response had started. None otherwise.
        hint: Advice for the caller. None if there is none.
        details: Facts that the API adds to the error, without secrets, for example
            `{"error_code": "image_dimensions_too_large", ...}`. None if there are none, or more than 8,000 characters.
        body: The text of the error response, without secrets, cut after 8,000 characters; for an unknown form of error.
            Empty if there was none.
        error_code: The cause, from the details. None if the API names none. The API may add codes: treat an unknown
            one as the bare `error_type`.
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
        body: str = "",
    ) -> None:
        # Imported only for an error: compiling the patterns takes as long as loading the parsers.
        from ._support.redaction import redact, redact_excerpt, redact_text

        self.reason: str = redact_excerpt(reason, _MAX_REASON_CHARS)
        super().__init__(self.reason)
        self.hint = hint
        self.status_code = status_code
        self.error_type: str | None = None if error_type is None else redact_text(error_type)
        self.request_id = request_id
        self.retryable = retryable
        self.retried = retried
        self.retry_after_s = retry_after_s
        self.message = message
        self.details: Mapping[str, Any] | None = None if details is None else redact(details)
        self.names_of_eager: frozenset[str] = frozenset()
        """The names of eager input streaming in the body, by which a refusal of it is known."""
        self.body: str = redact_excerpt(body, _MAX_BODY_CHARS)
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
        """Return the error as plain data, without `message`, `reason`, `retried`, `hint` and `body`."""
        names = ("status_code", "error_type", "request_id", "retryable", "retry_after_s", "error_code", "details")
        return {**super().to_dict(), **{name: getattr(self, name) for name in names}}


class StreamInterrupted(APIError):
    """A response cut before its end: a lost connection, silence, or a body without `message_stop`.

    It is always retryable, because nothing suggests that the request was wrong.
    """

    def __init__(self, reason: str, *, request_id: str | None = None, message: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason, request_id=request_id, retryable=True, message=message)


class HistoryError(UsageError):
    """A conversation, or its tools, that the API would refuse. It is found before anything is sent.

    Attributes:
        faults: All faults, in the API's own words. Each one knows the index of its message.
    """

    def __init__(self, faults: Sequence[object]) -> None:
        super().__init__(tuple(faults))
        self.faults: tuple[object, ...] = tuple(faults)

    def __str__(self) -> str:
        return "; ".join(map(str, self.faults))


class MissingExtraError(UsageError):
    """An optional dependency is missing.

    Attributes:
        extra: The extra that installs it.
        module: The missing module.
        package: The package that has the extra.
    """

    def __init__(self, extra: str, module: str, *, package: str = "eagerstream") -> None:
        super().__init__(extra, module)
        self.extra = extra
        self.module = module
        self.package = package

    def __str__(self) -> str:
        return f"{self.module} is not installed; it comes with: pip install '{self.package}[{self.extra}]'"


class WorkerLost(EagerStreamError):
    """The process that ran a tool is gone, or no process is available.

    Attributes:
        reason: The cause of the loss.
        may_have_begun: True if the tool may have been called, although its start was not reported.
    """

    code: Final = "SERVICE_UNAVAILABLE"

    def __init__(self, reason: str, *, may_have_begun: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_have_begun = may_have_begun


class JournalError(EagerStreamError):
    """A journal of runs cannot be read or written, or refused to.

    Attributes:
        reason: The cause, without anything that was said in a run.
        run_id: The run that it concerns. None if it concerns the journal.
    """

    def __init__(self, reason: str, *, run_id: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.run_id = run_id

    def __str__(self) -> str:
        return self.reason if self.run_id is None else f"run {self.run_id!r:.200}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data, with the id of the run."""
        return {**super().to_dict(), "run_id": self.run_id}


class OwnershipLostError(JournalError):
    """Another process owns the run now, or may own it: this one may no longer act for the run."""


class RunOwnedError(JournalError):
    """Another owner has the run, and lives."""


class RunExistsError(JournalError):
    """A new run has the id of a run that the journal already has."""


class RunNotFoundError(JournalError):
    """The journal has no run with this id."""


class InputInterrupted(EagerStreamError):
    """A value of a tool's input that can no longer come: the input was cut off, or is not JSON.

    Attributes:
        path: The place in the input, as in `GrowingInput.field(*path)`.
        reason: The way the input ended.
    """

    def __init__(self, path: Sequence[str | int], reason: str) -> None:
        super().__init__(tuple(path), reason)
        self.path: tuple[str | int, ...] = tuple(path)
        self.reason = reason

    def __str__(self) -> str:
        place = "".join(f"[{step!r}]" for step in self.path) or "the input"
        return f"{place} never finished: {self.reason}"


class ToolError(EagerStreamError):
    """An error that a tool raises to answer the model with `message` (and `hint`) as an error result.

    Attributes:
        message: The description of the error.
        hint: Advice for the model's next attempt.
        code: A `ToolErrorCode`. None means `EXECUTION_ERROR`.
        content: Content blocks that follow the text, for example a screenshot of the failure.
        data: The same as structured data, for programs: `ToolResponse.data`.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        code: str | None = None,
        content: Sequence[Mapping[str, Any]] = (),
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.data = data
        self.content: list[Mapping[str, Any]] = list(content)

    @classmethod
    def rate_limited(cls, retry_after_s: float | None = None) -> Self:
        """Return the error for a tool whose own service asks it to slow down, with the seconds to wait if known."""
        hint = None if retry_after_s is None else f"Retry after {retry_after_s:g} seconds."
        return cls("Rate limit exceeded.", hint=hint, code="RATE_LIMIT")

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message
