"""The bounds on what is parsed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from ._errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsingLimits:
    """Upper bounds of what the wire core accepts. All are on by default; raise one only deliberately.

    Attributes:
        max_event_bytes: Bytes of one server-sent event. Beyond it: `LimitError`, and the stream is abandoned.
        max_input_chars: Characters of one tool input. Beyond it: the input is `INVALID`, and the rest is dropped.
        max_depth: Levels of nested containers in one input. Beyond it: the input is `INVALID`.
        max_integer_digits: Digits of one integer (CPython's own default). Beyond it: the input is `INVALID`.
        max_values: JSON values in one event, in the fields and blocks of one message, or in one input. Beyond it, an
            event or a message raises `LimitError`, and the stream is abandoned; an input is `INVALID`.
        max_blocks: Content blocks of one message. Beyond it: `LimitError`, and the stream is abandoned.

    Raises:
        UsageError: A bound is not a positive number.
    """

    max_event_bytes: int = 32 * 1024 * 1024
    max_input_chars: int = 16 * 1024 * 1024
    max_depth: int = 512
    max_integer_digits: int = 4_300
    max_values: int = 50_000
    max_blocks: int = 4_096

    def __post_init__(self) -> None:
        for field in fields(self):
            bound = getattr(self, field.name)
            if isinstance(bound, bool) or not isinstance(bound, int | float) or not bound > 0:
                raise UsageError(f"{type(self).__name__}.{field.name} must be a positive number, not {bound!r}")


DEFAULT_LIMITS: Final = ParsingLimits()
