"""The bounds on everything that a peer or a model controls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eagerstream_wire._limits import ParsingLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(ParsingLimits):
    """Upper bounds of everything the library accepts: the `ParsingLimits`, and those of responses and tools.

    All are on by default; raise one only deliberately.

    Attributes:
        max_reply_bytes: Bytes of the body of one response. Beyond it: `LimitError`, and the stream is abandoned.
        max_waiting_events: Events buffered for a slow consumer, after deltas are merged. Beyond it: `LimitError`, and
            the stream is abandoned.
        idle_timeout_s: Seconds without a byte from the peer, pings included. Beyond it: `StreamInterrupted`.
        progress_timeout_s: Seconds in which only pings come, or no event is completed. Beyond it: `StreamInterrupted`.
        max_reply_s: Seconds from the first byte of one response to its end, however fast it comes. Time spent waiting
            for a slow consumer does not count. Beyond it: `LimitError`, and the stream is abandoned.
        max_retry_after_s: Seconds that a peer may ask a run to wait before a retry. Beyond it: the run raises the
            error instead of waiting.
        tool_timeout_s: Seconds that one tool call may run. Beyond it: the call is cancelled and answered with an error.
        max_result_chars: Characters of text in one tool result. Beyond it: the middle is replaced by a notice.

    Raises:
        UsageError: A bound is not a positive number.
    """

    max_reply_bytes: int = 256 * 1024 * 1024
    max_waiting_events: int = 65_536
    idle_timeout_s: float = 120.0
    progress_timeout_s: float = 600.0
    max_reply_s: float = 7_200.0
    max_retry_after_s: float = 60.0
    tool_timeout_s: float = 600.0
    max_result_chars: int = 1024 * 1024


DEFAULT_LIMITS: Final = Limits()
