"""The exceptions of the wire core, and the root of all others."""

from __future__ import annotations

from typing import Any


class EagerStreamError(Exception):
    """The root of every exception that eagerstream raises on purpose.

    `RunResult.of(error)` is the result of the run that it has ended.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data: the class as `type`, the message as `text`, and the facts of subclasses."""
        return {"type": type(self).__name__, "text": str(self)}


class ProtocolError(EagerStreamError):
    """A violation of the stream format by the peer. Continuing would require guesses.

    Attributes:
        message: The text of the error.
        excerpt: The first 80 characters of the faulty data. They may be text of the model and do not belong in a log,
            so the error's text omits them.
    """

    def __init__(self, message: str, *, excerpt: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.excerpt: str = excerpt[:80]


class LimitError(EagerStreamError):
    """A bound was reached, mostly one of `Limits`. Nothing beyond it was accepted.

    Attributes:
        limit: The field of `Limits`, for example `"max_event_bytes"`. With `on_truncated="raise"`: `"max_tokens"`.
        bound: The value of the limit, in the unit at the end of its name.
        what: The thing that exceeds the limit, in words.
    """

    def __init__(self, limit: str, bound: float, what: str) -> None:
        super().__init__(limit, bound, what)
        self.limit = limit
        self.bound = bound
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is over the limit {self.limit}={self.bound}"


class UsageError(EagerStreamError):
    """A call of eagerstream with unusable arguments, or at the wrong time."""
