"""Simulated timing: arrival times for the bytes of a response.

This module only computes and never waits. The same arguments give the same times on every machine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Final, Literal

from eagerstream._support.bodies import TIMED_NOTE, TOKEN_CHARS, body_events, model_text, noted
from eagerstream._support.checks import check_choice, check_count, check_fraction, check_positive, check_seconds
from eagerstream.errors import UsageError
from eagerstream.recordings import Chunk, Recording

_LARGEST_RANDOM_CHUNK: Final = 256  # bytes: about two events of an ordinary stream, so cuts fall at any place


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Speed of a response, and cuts of its bytes, for a body without arrival times of its own.

    Attributes:
        tokens_per_second: Tokens of `TOKEN_CHARS` characters. Only the model's text counts (text, thinking, the JSON of
            inputs). Events without such text take no time.
        first_byte_s: Seconds from the request until the model starts to write.
        jitter: Variation of the time of each event, 0 to 1. An event takes up to this share more or less time.
        seed: Decides the jitter and the random cuts. The same seed gives the same recording.
        cut: `"event"` for one chunk per server-sent event, `"random"` for chunks of random sizes, a number for chunks
            of that many bytes, or a sequence of the offsets in bytes at which to cut. A chunk arrives with its last
            byte.
        speed: 2 plays twice as fast, including all waiting. `inf` sets all times to 0.

    Raises:
        UsageError: A value is out of its range, or the offsets of `cut` do not increase from above 0.
    """

    tokens_per_second: float = 80.0
    first_byte_s: float = 0.0
    jitter: float = 0.0
    seed: int = 0
    cut: Literal["event", "random"] | int | Sequence[int] = "event"
    speed: float = 1.0

    def __post_init__(self) -> None:
        check_positive("tokens_per_second", self.tokens_per_second)
        check_positive("speed", self.speed)
        check_seconds("first_byte_s", self.first_byte_s)
        check_fraction("jitter", self.jitter)
        if isinstance(self.cut, str):
            check_choice("cut", self.cut, ("event", "random"))
        elif isinstance(self.cut, int):
            check_count("cut", self.cut)
        else:
            offsets = (0, *self.cut)
            if any(later <= earlier for earlier, later in pairwise(offsets)):
                raise UsageError("the offsets of a cut must be positive and increase")
            object.__setattr__(self, "cut", offsets[1:])

    @classmethod
    def instant(cls) -> Timing:
        """Return a timing with all times at 0 and one chunk per event."""
        return cls(speed=float("inf"))


def retime(recording: Recording, timing: Timing) -> Recording:
    """Return the same body, cut and timed by `timing`. Its earlier times are dropped.

    Raises:
        UsageError: `timing.cut` has an offset at or beyond the end of the body.
    """
    body = recording.body
    events = list(body_events(body))
    times: list[float] = []
    written_s = 0.0
    random = Random(f"jitter {timing.seed}")
    for event in events:
        seconds = len(model_text(event.data)) / TOKEN_CHARS / timing.tokens_per_second
        written_s += seconds * (1 + timing.jitter * random.uniform(-1, 1))
        times.append((timing.first_byte_s + written_s) / timing.speed)
    # Bytes after the last complete event (of a cut response, or a body that is no event stream) arrive with it.
    times.append(times[-1] if times else timing.first_byte_s / timing.speed)
    ends = [event.end for event in events]
    bounds = _bounds(timing, body, ends)
    chunks = tuple(Chunk(times[bisect_left(ends, end)], body[start:end]) for start, end in bounds)
    return replace(recording, chunks=chunks, note=noted(recording.note, TIMED_NOTE))


def at_speed(recording: Recording, speed: float) -> Recording:
    """Return the same chunks, `speed` times as fast. `inf` sets all times to 0.

    Raises:
        UsageError: `speed` is not a positive number.
    """
    check_positive("speed", speed)
    return replace(recording, chunks=tuple(Chunk(at_s / speed, data) for at_s, data in recording.chunks))


def _bounds(timing: Timing, body: bytes, event_ends: Sequence[int]) -> list[tuple[int, int]]:
    """Return start and end of each chunk, in bytes. No chunk is empty."""
    size = len(body)
    cuts: list[int]
    if timing.cut == "event":
        cuts = list(event_ends)
    elif timing.cut == "random":
        random = Random(f"cut {timing.seed}")
        cuts = []
        at = 0
        while (at := at + random.randint(1, _LARGEST_RANDOM_CHUNK)) < size:
            cuts.append(at)
    elif isinstance(timing.cut, int):
        cuts = list(range(timing.cut, size, timing.cut))
    else:
        cuts = [int(offset) for offset in timing.cut]
        if cuts and cuts[-1] >= size:
            raise UsageError(f"a body of {size} bytes cannot be cut at {cuts[-1]}")
    ends = cuts if cuts and cuts[-1] == size else [*cuts, size]
    return [(start, end) for start, end in pairwise([0, *ends]) if start < end]
