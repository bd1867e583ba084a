"""The common behaviour of all body decoders: chunks in, events out, and an error only after the events before it."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from ._checks import check_positive
from ._errors import EagerStreamError, UsageError
from ._limits import DEFAULT_LIMITS
from ._mypyc import mypyc_attr

T = TypeVar("T")


@mypyc_attr(allow_interpreted_subclasses=True)
class Decoder(Generic[T]):
    """Turns the chunks of a body, cut anywhere, into events.

    Args:
        max_event_bytes: Maximum size of one event.

    Raises:
        UsageError: `max_event_bytes` is not a positive number.
    """

    # No abstract base class: compiled classes would share one cache of `isinstance`, and give wrong answers.
    # Slots here and in the subclasses: a chunk then reads one piece of memory instead of the object, a dict and values.
    __slots__ = (
        "_closed",
        "_failure",
        "_max_event_bytes",
    )

    media_type: ClassVar[str]
    """The content type of the bodies that the class decodes."""

    def __init__(self, *, max_event_bytes: int = DEFAULT_LIMITS.max_event_bytes) -> None:
        check_positive("max_event_bytes", max_event_bytes)
        self._max_event_bytes = max_event_bytes
        self._failure: EagerStreamError | None = None
        self._closed = False

    def _take(self, chunk: bytes, events: list[T]) -> None:
        """Add the events that this chunk completes. An `EagerStreamError` ends the decoding."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop the kept part of the body, after an error has ended the decoding."""
        raise NotImplementedError

    def feed(self, chunk: bytes) -> list[T]:
        """Return the events that this chunk completes, in order; often none.

        Raises:
            LimitError: An event exceeds `max_event_bytes`. If the same chunk completed events before it, these are
                returned first and the next call raises. Every later call raises too.
            ProtocolError: The body breaks its format. Raised in the same way.
            UsageError: The decoder was closed.
        """
        if self._failure is not None or self._closed:
            self._refuse()
        # A list, not a generator: a generator that is abandoned half-way would leave the rest of the chunk unread.
        events: list[T] = []
        try:
            self._take(chunk, events)
        except EagerStreamError as failure:
            # Events before the fault are returned, and the next call raises. Raising at once would lose them, and how
            # many there are depends on how the network cut the body. The decoder stays failed, because the start of the
            # next event after a fault is unknown.
            self._failure = failure
            self._forget()
            if not events:
                raise
        return events

    def close(self) -> list[T]:
        """End the body. An unfinished event is discarded, so the list is always empty.

        The standard requires that, and a cut event must not pass for a complete one. `MessageAssembler` detects whether
        the message was cut.

        Raises:
            LimitError, ProtocolError: As `feed`.
        """
        if self._failure is not None:
            self._refuse()
        self._closed = True
        return []

    def _refuse(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)  # else each raise would lengthen the traceback of the same object
        raise UsageError(f"{type(self).__name__}.feed() after close()")
