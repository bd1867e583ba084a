"""What every decoder of a body does alike: chunks in, events out, and an error only after the events before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from ..errors import EagerStreamError, UsageError
from ..limits import DEFAULT_LIMITS
from ._checks import check_positive
from ._mypyc import mypyc_attr

T = TypeVar("T")


@mypyc_attr(allow_interpreted_subclasses=True)
class Decoder(ABC, Generic[T]):
    """Turns the chunks of a body, cut anywhere, into events.

    Args:
        max_event_bytes: The most that one event may hold.

    Raises:
        UsageError: `max_event_bytes` is not a positive number.
    """

    media_type: ClassVar[str]
    """The content type of the bodies that it decodes."""

    def __init__(self, *, max_event_bytes: int = DEFAULT_LIMITS.max_event_bytes) -> None:
        check_positive("max_event_bytes", max_event_bytes)
        self._max_event_bytes = max_event_bytes
        self._failure: EagerStreamError | None = None
        self._closed = False

    @abstractmethod
    def _take(self, chunk: bytes, events: list[T]) -> None:
        """Add the events that this chunk completes; an `EagerStreamError` ends the decoding."""

    @abstractmethod
    def _forget(self) -> None:
        """The decoding has ended with an error: what was kept of the body is not needed any more."""

    def feed(self, chunk: bytes) -> list[T]:
        """The events that this chunk completes, in order; often none.

        Raises:
            LimitError: An event is over `max_event_bytes`. Events that the same chunk completed before it are returned
                first, and the next call raises; from then on every call does.
            ProtocolError: The body is not what it should be; raised in the same way.
            UsageError: After `close`.
        """
        if self._failure is not None or self._closed:
            self._refuse()
        # A list and no generator: a generator that is left half-way would keep the rest of the chunk from being seen.
        events: list[T] = []
        try:
            self._take(chunk, events)
        except EagerStreamError as failure:
            # Events before the fault are handed out, and the error comes with the next call. Raising at once would lose
            # them, and how many there are depends on how the network cut the body. The decoder stays failed: behind a
            # fault nobody knows where the next event begins.
            self._failure = failure
            self._forget()
            if not events:
                raise
        return events

    def close(self) -> list[T]:
        """The body has ended: an unfinished event is discarded, so the list is always empty.

        The standard says so, and a cut event must not be taken for a whole one. `MessageAssembler` finds out if the
        message was cut.

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
