"""The bounds on everything that a peer or a model controls."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from .errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of each thing is taken in. Every bound is on by default; raise one knowingly.

    Attributes:
        max_event_bytes: One server-sent event, in bytes. Over it: `LimitError`, and the stream is given up.
        max_input_chars: One tool input, in characters. Over it: the input is `INVALID`, what comes later is not kept.
        max_depth: Containers inside containers in one input. Over it: the input is `INVALID`.
        max_integer_digits: Digits of one integer (CPython's own default). Over it: the input is `INVALID`.
        max_blocks: Content blocks of one message. Over it: `LimitError`, and the stream is given up.
        max_reply_bytes: The body of one reply, in bytes. Over it: `LimitError`, and the stream is given up.
        max_waiting_events: Events that wait for a consumer who does not keep up, deltas merged. Over it: `LimitError`,
            and the stream is given up.
        idle_timeout_s: Seconds without a single byte from the peer, pings included. Over it: `StreamInterrupted`.
        progress_timeout_s: Seconds in which nothing but pings comes, or no event becomes whole. Over it:
            `StreamInterrupted`.
        max_reply_s: Seconds that one reply may take from its first byte to its end, however it comes; time in which it
            waits for a slow consumer does not count. Over it: `LimitError`, and the stream is given up.
        max_retry_after_s: Seconds that a peer may ask a run to wait before it sends a request again. Over it: the
            error is raised instead of waited out.
        tool_timeout_s: Seconds that one tool call may run. Over it: the call is cancelled and answered with an error.
        max_result_chars: Text of one tool result, in characters. Over it: the middle is left out, with a notice.

    Raises:
        UsageError: A bound is not a positive number.
    """

    max_event_bytes: int = 32 * 1024 * 1024
    max_input_chars: int = 16 * 1024 * 1024
    max_depth: int = 512
    max_integer_digits: int = 4_300
    max_blocks: int = 4_096
    max_reply_bytes: int = 256 * 1024 * 1024
    max_waiting_events: int = 65_536
    idle_timeout_s: float = 120.0
    progress_timeout_s: float = 600.0
    max_reply_s: float = 7_200.0
    max_retry_after_s: float = 60.0
    tool_timeout_s: float = 600.0
    max_result_chars: int = 1024 * 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            bound = getattr(self, field.name)
            if isinstance(bound, bool) or not isinstance(bound, int | float) or not bound > 0:
                raise UsageError(f"Limits.{field.name} must be a positive number, not {bound!r}")


DEFAULT_LIMITS: Final = Limits()
