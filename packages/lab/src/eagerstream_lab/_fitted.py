"""`Fitted`: a profile made from recordings with times."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import exp, log
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from eagerstream import AWSEventStreamDecoder
from eagerstream.errors import EagerStreamError, UsageError
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import buffered, encode_event

from ._metrics import parameters
from ._profiles import Cut, Fragment, Kind, Piece, check_playable, fragments, recut
from ._results import VERSION, load_checked, save_json

MAX_BYTES: Final = 64 * 2**20
"""Maximum size of a profile file."""

LEAST_ARRIVALS: Final = 10
"""Minimum number of moments at which fragments of a recording arrive. With fewer, there is no pace to fit."""

LARGE_CHARS: Final = 256
"""Characters from which on the value of a parameter is large: models may pause before one."""

_SHORTEST_S: Final = 1e-4
"""Shorter gaps count as this long: a socket delivers all waiting data at once."""

_DIGITS: Final = 6
"""Decimals of a time: a microsecond is less than any clock of a client resolves, and keeps the file small."""

_Chars = Annotated[int, Field(ge=1, le=2**30)]
_Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Drawn: TypeAlias = tuple[_Chars, _Seconds]
"""A recorded fragment: its number of characters, and the seconds since the previous fragment of any block."""
Burst: TypeAlias = Annotated[tuple[Drawn, ...], Field(min_length=1)]
"""Fragments in a row. The first follows a pause, the others follow at most the typical gap of the recording."""
Place: TypeAlias = Literal["block", "large", "later"]
"""Start of a burst: the start of a block, the start of a large parameter, or any later fragment."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Recorded bursts of one kind of text, by the place at which they start."""

    block: tuple[Burst, ...] = field(repr=False)
    large: tuple[Burst, ...] = field(repr=False)
    later: tuple[Burst, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Pace of one recording.

    Attributes:
        first_byte_s: Time of its first event, in seconds.
        inputs, texts: Bursts of inputs, and of all other blocks.
    """

    first_byte_s: _Seconds
    inputs: Seen
    texts: Seen

    @classmethod
    def of(cls, recording: Recording, *, name: str) -> Pace:
        """Split a recording into bursts.

        Raises:
            UsageError: The recording is of a failed request, has no times, or has too few fragments.
        """
        received = list(fragments(recording))
        if not received:
            raise UsageError(f"{name}: nothing can be fitted to a recording in which the model writes nothing")
        if not recording.duration_s:
            raise UsageError(f"{name}: nothing can be fitted to a recording without arrival times")
        moments = len({fragment.at_s for fragment in received})
        if moments < LEAST_ARRIVALS:
            told = f"its fragments arrive at {moments} moments, and a fit needs at least {LEAST_ARRIVALS}"
            raise UsageError(f"{name}: {told}: the response is too short, or something has held it back")
        first_byte_s = recording.chunks[0].at_s
        bursts: dict[tuple[Kind, Place], list[list[Drawn]]] = {}
        pause_s = _pause_s(received)
        starts = large_values(received)
        written: dict[int, int] = {}
        previous_s = first_byte_s
        burst: list[Drawn] = []
        for fragment in received:
            start = written.get(fragment.index, 0)
            end = written[fragment.index] = start + len(fragment.text)
            after_s = fragment.at_s - previous_s
            previous_s = fragment.at_s
            is_large = any(start <= value < end for value in starts.get(fragment.index, ()))
            place: Place = "block" if not start else "large" if is_large else "later"
            if place != "later" or after_s > pause_s:
                burst = []
                bursts.setdefault((fragment.kind, place), []).append(burst)
            burst.append((len(fragment.text), round(after_s, _DIGITS)))

        def seen(kind: Kind) -> Seen:
            found = {place: tuple(map(tuple, bursts.get((kind, place), ()))) for place in _PLACES}
            return Seen(**found)

        return cls(first_byte_s=first_byte_s, inputs=seen("input"), texts=seen("text"))


_PLACES: Final[tuple[Place, ...]] = ("later", "large", "block")
"""All places. If one has no bursts, those of the next ones are drawn."""


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Profile whose responses arrive as recorded ones did.

    Each response draws one recording, and then bursts of this recording: the start of a block gets the start of a
    recorded block, the start of a large parameter that of a recorded one, and the rest any other burst. So these are
    preserved: the distribution of the first byte and its relation to the pace, the differences between recordings, the
    pace inside a burst, the lengths of bursts, the gaps between them, rare stalls, and longer pauses before a block or
    a large parameter. The relation between the length of a fragment and the time before it is preserved, too.

    Bursts are drawn independently of each other, and a stall is never longer than the longest recorded one. Two things
    are not fitted: changes of pace within a response, and the places in an input at which it is cut. Distributions are
    the recorded values themselves: a formula needs more values for a heavy tail than a few recordings have.

    A recording is either eager or buffered. This class assumes an eager one, and simulates buffering on top.

    Attributes:
        name: Name in the settings of the results.
        paces: Pace of each recording.
        notes: Warnings about the fit, which a benchmark repeats.
        eagerstream_profile: Version of the file's format, in which a fragment is `[chars, seconds]`.
    """

    eagerstream_profile: Literal[1] = VERSION
    name: Annotated[str, Field(max_length=200)]
    paces: Annotated[tuple[Pace, ...], Field(min_length=1)]
    notes: Annotated[tuple[Annotated[str, Field(max_length=2_000)], ...], Field(max_length=1_000)] = ()

    def play(self, recording: Recording, *, eager: bool, seed: str) -> Recording:
        """See `Profile.play`."""
        first_byte_s, cut = self.draw(large_values(list(fragments(recording))), seed)
        played = recut(recording, cut, first_byte_s=first_byte_s)
        return played if eager else buffered(played)

    def draw(self, large: Mapping[int, Sequence[int]], seed: str) -> tuple[float, Cut]:
        """Return the first byte of one response, and the function that cuts its blocks, to be called in their order.

        Args:
            large: Offsets of the large values in each input, see `large_values`.
            seed: The same seed gives the same times.
        """
        random = Random(f"fitted {seed}")
        pace = random.choice(self.paces)
        pools: dict[tuple[Kind, Place], Sequence[Burst]] = {}
        written: dict[int, int] = {}
        coming = {index: deque(offsets) for index, offsets in large.items()}
        burst: deque[Drawn] = deque()

        def start_burst(kind: Kind, place: Place) -> None:
            if (kind, place) not in pools:
                pools[kind, place] = self._pool(pace, kind, place)
            burst.clear()
            burst.extend(random.choice(pools[kind, place]))

        def cut(kind: Kind, index: int, texts: Sequence[str]) -> list[Piece]:
            text = "".join(texts)
            values = coming.get(index) or deque()
            pieces: list[Piece] = []
            start, before = 0, written.get(index, 0)
            while start < len(text):
                at = before + start
                if not at:
                    start_burst(kind, "block")
                elif not burst:
                    start_burst(kind, "later")
                while values and values[0] < at:
                    values.popleft()
                if at and values and values[0] < at + burst[0][0]:
                    values.popleft()
                    start_burst(kind, "large")
                chars, after_s = burst.popleft()
                pieces.append(Piece(text[start : start + chars], after_s))
                start += chars
            written[index] = before + len(text)
            return pieces

        return pace.first_byte_s, cut

    def _pool(self, pace: Pace, kind: Kind, place: Place) -> Sequence[Burst]:
        """Return the bursts to draw from: those of this pace, else of all, else of another place or kind."""
        for of in (kind, "text" if kind == "input" else "input"):
            for start in (place, *_PLACES):
                for paces in ((pace,), self.paces):
                    seen = (one.inputs if of == "input" else one.texts for one in paces)
                    found = [burst for one in seen for burst in getattr(one, start)]
                    if found:
                        return found
        raise AssertionError("every pace has bursts")

    def save(self, path: Path) -> None:
        """Write the profile to a JSON file, replacing any existing file.

        Raises:
            UsageError: The file cannot be written.
        """
        save_json(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> Fitted:
        """Load a profile from a file.

        Raises:
            UsageError: The file cannot be read, is too large, or is not a profile with bursts.
        """
        profile = load_checked(path, TypeAdapter(cls), what="profile", key="eagerstream_profile", max_bytes=MAX_BYTES)
        for pace in profile.paces:
            if not any(getattr(seen, place) for seen in (pace.inputs, pace.texts) for place in _PLACES):
                raise UsageError(f"{path}: a pace without fragments")
        return profile


def readable(recording: Recording, name: str) -> Recording:
    """Return a recording in the form that can be fitted: frames of Amazon Bedrock become server-sent events.

    Raises:
        UsageError: The recording has another HTTP status than 200, or contains no stream of events.
    """
    if recording.status == 200 and recording.media_type == AWSEventStreamDecoder.media_type:
        decoder = AWSEventStreamDecoder(max_event_bytes=len(recording.body) + 1)
        try:
            chunks = [Chunk(at_s, b"".join(map(encode_event, decoder.feed(data)))) for at_s, data in recording.chunks]
        except EagerStreamError as error:
            raise UsageError(f"{name}: the frames of the recording are damaged") from error
        return Recording(tuple(chunks), note=recording.note)
    check_playable(recording, name)
    return recording


def large_values(received: Sequence[Fragment]) -> dict[int, list[int]]:
    """Return the offsets in characters at which large values of parameters start, by the block's index."""
    raw: dict[int, list[str]] = {}
    for fragment in received:
        if fragment.kind == "input":
            raw.setdefault(fragment.index, []).append(fragment.text)
    return {index: _large("".join(texts)) for index, texts in raw.items()}


def _large(raw: str) -> list[int]:
    try:
        is_object = isinstance(json.loads(raw), dict)
    except (ValueError, RecursionError):
        is_object = False  # cut off or damaged
    return [start for start, end in parameters(raw) if end - start >= LARGE_CHARS] if is_object else []


def _pause_s(received: Sequence[Fragment]) -> float:
    """Return the longest gap inside a burst: the geometric mean of the gaps.

    It lies between the short gaps and the long ones, whatever their units. A few stalls hardly change it.
    """
    gaps = [max(_SHORTEST_S, two.at_s - one.at_s) for one, two in pairwise(received) if one.index == two.index]
    return exp(fmean(map(log, gaps))) if gaps else 0.0
