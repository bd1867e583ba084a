"""`ReplyDeadline`: gives up a response that is silent for too long, or that takes too long in all."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from eagerstream_wire import InputFragment, WireEvent

from ..errors import LimitError, StreamInterrupted
from ..limits import Limits

_GRACE_S: Final = 0.25
"""Seconds for which a body may continue after the message, before the connection is given up instead of used again."""


class ReplyDeadline:
    """Cancels `scope` if no byte comes for too long, no event but pings, or if the response takes too long in all.

    Each of these may take longer by a twentieth of the shortest. A time-out around each `receive` would cost more than
    taking its chunk in, so there is one deadline, and it is moved only when a twentieth of its time has passed.
    """

    __slots__ = (
        "_byte_at",
        "_idle_s",
        "_moved_at",
        "_opening_s",
        "_progress_at",
        "_progress_s",
        "_reply_s",
        "_reply_until",
        "_slack_s",
        "scope",
    )

    # Three bounds, because each alone misses a peer: one that pings is not silent, one that drips events makes
    # progress, and `max_reply_s` has to allow hours. Each chunk asks for the time, which costs 60 ns with
    # `time.monotonic` and 480 with `anyio.current_time`. Only the deadline needs the latter: trio has a clock of its
    # own.

    def __init__(self, limits: Limits, scope: anyio.CancelScope | None, *, opening_s: float) -> None:
        self._idle_s = limits.idle_timeout_s
        self._progress_s = limits.progress_timeout_s
        self._reply_s = limits.max_reply_s
        self._slack_s = min(self._idle_s, self._progress_s, self._reply_s) / 20
        self.scope: anyio.CancelScope = scope or anyio.CancelScope()
        self._byte_at = self._progress_at = self._moved_at = time.monotonic()
        self._reply_until = math.inf
        self._opening_s: float | None = opening_s  # None once the response has begun

    @property
    def is_opening(self) -> bool:
        """True if the response has not started."""
        return self._opening_s is not None

    @property
    def idle_s(self) -> float:
        """Seconds since the last byte, or since the request was sent. 0 while nothing is read: see `allowed`."""
        return max(0.0, time.monotonic() - self._byte_at)

    @property
    def reason(self) -> str:
        """The reason why the scope was cancelled."""
        # Found out afterwards from the times: the one deadline stands for all bounds, and fires outside our code.
        if self._opening_s is not None:
            # Not "no byte came": the client may have received errors in that time, and waited as they asked.
            return f"no response started within {self._opening_s:g} s"
        now = time.monotonic()
        if now - self._byte_at >= self._idle_s:
            return f"no byte came for {self._idle_s:g} s"
        if now - self._progress_at >= self._progress_s:
            return f"nothing but pings came for {self._progress_s:g} s"
        return "the event loop stood still for longer than a time-out"

    def raise_if_too_long(self) -> None:
        """Raise an error if the response took too long in all, and was not only silent.

        Raises:
            LimitError: The response took longer than `Limits.max_reply_s`.
        """
        # A silence is an interruption, which a run resumes from. A peer that drips for hours would do so again.
        if time.monotonic() >= self._reply_until:
            raise LimitError("max_reply_s", self._reply_s, "the time of the response")

    def begin_opening(self) -> None:
        """Start the time of a request until its response starts. There may be several in a row, each with its own."""
        # A time of its own: a client may wait for a `retry-after` (test_a_client_s_own_pause_is_no_silence).
        assert self._opening_s is not None
        self._byte_at = time.monotonic()
        self.scope.deadline = anyio.current_time() + self._opening_s

    def begin(self) -> None:
        """Start the times of the response. The opening may have been allowed to take longer, the response may not."""
        # Moved at once, not with the first chunk. Otherwise the deadline of the opening stays, and a response that
        # opens and sends nothing gets the time of all tries together: eight minutes instead of two.
        self._opening_s = None
        self._reply_until = time.monotonic() + self._reply_s
        self._resume()

    def _resume(self) -> None:
        self._byte_at = self._progress_at = time.monotonic()
        self._move()

    def end(self, batch: Iterable[WireEvent | InputFragment]) -> None:
        """Note that bytes came, and these events with them."""
        now = self._byte_at = time.monotonic()
        # The first event is usually enough. An empty batch is half an event: bytes, but no progress.
        for event in batch:
            if isinstance(event, tuple) or event["type"] != "ping":
                self._progress_at = now
                break
        if now - self._moved_at > self._slack_s:
            self._move()

    def end_soon(self) -> None:
        """Allow only a moment more for the end of the body, or for another message in it: the message is complete."""
        # Some peers forget to close the body (test_a_body_held_open_after_the_message). We do not close it at once,
        # because the connection of a body that is read to its end can be used again. `-inf` makes the next event move
        # the deadline, in case another message follows.
        self._moved_at = -math.inf
        self.scope.deadline = anyio.current_time() + min(_GRACE_S, self._idle_s)

    def _move(self) -> None:
        now = self._moved_at = time.monotonic()
        left_s = min(self._idle_s, self._progress_at + self._progress_s - now, self._reply_until - now)
        self.scope.deadline = anyio.current_time() + left_s + self._slack_s

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Stop the times inside the block: time spent there is not the peer's."""
        # While we wait for our own consumer, nothing is read, so nothing could come
        # (test_a_slow_consumer_is_not_the_peer_s_silence).
        self.scope.deadline = self._byte_at = math.inf
        begun_at = time.monotonic()
        try:
            yield
        finally:
            self._reply_until += time.monotonic() - begun_at
            self._resume()

    @contextmanager
    def for_one_wait(self, *, opening_s: float | None = None) -> Iterator[None]:
        """Give up the wait inside the block when the time is over, instead of the whole response.

        Args:
            opening_s: The time of another request until its response starts; None if a response is read.

        Raises:
            StreamInterrupted: The peer was silent for too long.
            LimitError: The response took longer than `Limits.max_reply_s`.
        """
        whole, wait = self.scope, anyio.CancelScope(deadline=self.scope.deadline)
        whole.deadline = math.inf
        self.scope = wait
        if opening_s is not None:
            self._opening_s = opening_s
            self.begin_opening()
        is_over = True
        try:
            with wait:
                yield
            # Not only `cancelled_caught`: something may come at the last moment, with no time left for more.
            is_over = wait.cancel_called or anyio.current_time() >= wait.deadline
            if is_over:
                if opening_s is None:
                    self.raise_if_too_long()
                raise StreamInterrupted(self.reason) from None
        finally:
            self.scope = whole
            if opening_s is not None:
                self.begin()
            elif is_over:
                self._resume()
            else:
                whole.deadline = wait.deadline

    def excuse(self, since_s: float) -> None:
        """Leave out the time since then, in which others had their turn, if it was long: it is not the peer's."""
        took_s = time.monotonic() - since_s
        if took_s > self._slack_s:
            self._reply_until += took_s
            self._resume()
