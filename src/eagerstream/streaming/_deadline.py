"""`ReplyDeadline`: gives up a reply that is silent for too long, or that takes too long in all."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from ..errors import LimitError
from ..limits import Limits
from ..wire import InputFragment, WireEvent

_GRACE_S: Final = 0.25
"""How long a body may still go on after the message, before the connection is given up instead of used again."""


class ReplyDeadline:
    """Cancels `scope` when no byte has come for so long, or no event but pings, or the reply takes too long in all.

    Each of these may take longer by a twentieth of the shortest. A time-out around each `receive` would cost more than
    taking its chunk in, so there is one deadline, and it is moved only when a twentieth of its time has passed.
    """

    def __init__(self, limits: Limits, scope: anyio.CancelScope | None, *, opening_s: float) -> None:
        self._idle_s = limits.idle_timeout_s
        self._progress_s = limits.progress_timeout_s
        self._reply_s = limits.max_reply_s
        self._slack_s = min(self._idle_s, self._progress_s, self._reply_s) / 20
        self.scope = scope or anyio.CancelScope()
        self._byte_at = self._progress_at = self._moved_at = time.monotonic()
        self._reply_until = math.inf
        self.scope.deadline = anyio.current_time() + opening_s + self._slack_s

    @property
    def reason(self) -> str:
        """Why the scope was cancelled."""
        now = time.monotonic()
        if now - self._byte_at >= self._idle_s:
            return f"no byte came for {self._idle_s:g} s"
        if now - self._progress_at >= self._progress_s:
            return f"nothing but pings came for {self._progress_s:g} s"
        return "the event loop stood still for longer than a time-out"

    def raise_if_too_long(self) -> None:
        """Tell a reply that took too long in all from one that was silent.

        Raises:
            LimitError: It took longer than `Limits.max_reply_s`.
        """
        if time.monotonic() >= self._reply_until:
            raise LimitError("max_reply_s", self._reply_s, "the time of the reply")

    def begin(self) -> None:
        """The reply has begun; it may be silent for as long as any, however long its opening was allowed to take."""
        self._reply_until = time.monotonic() + self._reply_s
        self._resume()

    def _resume(self) -> None:
        self._byte_at = self._progress_at = time.monotonic()
        self._move()

    def end(self, batch: Iterable[WireEvent | InputFragment]) -> None:
        """Bytes came, and these events with them."""
        now = self._byte_at = time.monotonic()
        for event in batch:
            if isinstance(event, tuple) or event["type"] != "ping":
                self._progress_at = now
                break
        if now - self._moved_at > self._slack_s:
            self._move()

    def end_soon(self) -> None:
        """The message is whole: only a moment is waited for the end of the body, or for another message in it."""
        self._moved_at = -math.inf
        self.scope.deadline = anyio.current_time() + min(_GRACE_S, self._idle_s)

    def _move(self) -> None:
        now = self._moved_at = time.monotonic()
        left_s = min(self._idle_s, self._progress_at + self._progress_s - now, self._reply_until - now)
        self.scope.deadline = anyio.current_time() + left_s + self._slack_s

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Time spent in here is not the peer's."""
        self.scope.deadline = math.inf
        begun_at = time.monotonic()
        try:
            yield
        finally:
            self._reply_until += time.monotonic() - begun_at
            self._resume()
