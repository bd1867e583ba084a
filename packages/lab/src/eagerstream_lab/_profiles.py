"""Profiles: simulated arrival times for a response that has none.

`Documented` follows the documentation of eager input streaming. `Fitted`, in its own module, is fitted to a recording
with times. Both are deterministic: the same arguments give the same times on every machine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from eagerstream import WireEvent
from eagerstream._support.bodies import TIMED_NOTE, TOKEN_CHARS, body_events, is_fragment, model_text, noted
from eagerstream._support.terms import TEXT_FIELDS
from eagerstream.errors import UsageError
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import buffered, encode_event


class Profile(Protocol):
    """Source of times and fragments for a response."""

    @property
    def name(self) -> str:
        """Name in the settings of the results."""
        ...

    def play(self, recording: Recording, *, eager: bool, seed: str) -> Recording:
        """Return the response as it would arrive, eager or buffered; the same for the same seed."""
        ...


@dataclass(frozen=True, kw_only=True)
class Cutting:
    """Rule to cut an input into fragments.

    Attributes:
        chars: Lengths to draw from, all equally likely.
        inside_words: Share of the cuts between two letters or digits that stay there. The other such cuts move to the
            end of the word.
    """

    chars: tuple[int, ...]
    inside_words: float

    def split(self, text: str, random: Random) -> list[str]:
        """Split the text into fragments."""
        found: list[str] = []
        start = 0
        while start < len(text):
            end = start + random.choice(self.chars)
            if _is_inside_word(text, end) and random.random() >= self.inside_words:
                while _is_inside_word(text, end):
                    end += 1
            found.append(text[start:end])
            start = end
        return found


@dataclass(frozen=True, kw_only=True)
class Documented:
    """Profile after the example in Anthropic's documentation of eager input streaming.

    The documentation first called it "fine-grained tool streaming". In the example, a large parameter starts to arrive
    after 3 s with eager input streaming and after 15 s without. It shows both streams. The figures come from them:

    - The first fragment of a response's largest input arrives at `eager_s`, or later if the text before it takes
      longer. Its last fragment arrives `buffered_s - eager_s` after that. The fragments in between are evenly spaced by
      characters. An input that fits into one fragment arrives at once.
    - With eager input streaming, fragments are longer and less often cut inside words. The two that are shown have 37
      and 24 characters, with no cut inside a word. The documentation says fewer word breaks, not none: one cut in ten.
    - Without it, the shown fragments have 2, 11, 6, 11, 5, 2, 6 and 5 characters, and three of seven cuts are inside
      words. Each top-level member of an input is held back until it is complete, then arrives in a burst (see
      `buffered`).
    - The rest is assumed, not documented. Everything else is written at 80 tokens of 4 characters per second, and
      starts after 0.5 s at the earliest. Times between fragments vary by up to the share `jitter`, the first byte by up
      to the share `first_byte_jitter`.

    Attributes:
        eager_s, buffered_s: Times at which the large parameter starts to arrive, in seconds.
        eager, buffered: Rules to cut inputs.
        tokens_per_second: Pace of everything but the largest input.
        least_first_byte_s: Minimum time before the first event of a response, in seconds.
        jitter, first_byte_jitter: Shares, 0 to 1.
    """

    name: str = "documented"
    eager_s: float = 3.0
    buffered_s: float = 15.0
    eager: Cutting = Cutting(chars=(37, 24), inside_words=0.1)
    buffered: Cutting = Cutting(chars=(2, 11, 6, 11, 5, 2, 6, 5), inside_words=3 / 7)
    tokens_per_second: float = 80.0
    least_first_byte_s: float = 0.5
    jitter: float = 0.6
    first_byte_jitter: float = 0.05

    def play(self, recording: Recording, *, eager: bool, seed: str) -> Recording:
        """See `Profile.play`."""
        pace_s = 1 / (self.tokens_per_second * TOKEN_CHARS)
        largest, size, before = _largest_input(recording)
        at_once = sum(self.eager.chars) / len(self.eager.chars)  # characters of the largest input in its first fragment
        first_byte_s = self.least_first_byte_s
        large_pace_s = pace_s
        if largest is not None:
            first_byte_s = max(first_byte_s, self.eager_s - before * pace_s)
            large_pace_s = (self.buffered_s - self.eager_s) / (size - at_once) if size > at_once else 0.0
        cutting = self.eager if eager else self.buffered
        cuts, jitters = Random(f"cuts {seed}"), Random(f"jitter {seed}")
        written: dict[int, int] = {}

        def cut(kind: Kind, index: int, texts: Sequence[str]) -> list[Piece]:
            pieces = []
            for text in cutting.split("".join(texts), cuts) if kind == "input" else texts:
                start = written.get(index, 0)
                end = written[index] = start + len(text)
                if kind == "input" and index == largest:
                    after_s = (max(end, at_once) - max(start, at_once)) * large_pace_s
                else:
                    after_s = len(text) * pace_s
                pieces.append(Piece(text, after_s * (1 + self.jitter * jitters.uniform(-1, 1))))
            return pieces

        first_byte_s *= 1 + self.first_byte_jitter * Random(f"first byte {seed}").uniform(-1, 1)
        played = recut(recording, cut, first_byte_s=first_byte_s)
        return played if eager else buffered(played)


DOCUMENTED: Final = Documented()


def _largest_input(recording: Recording) -> tuple[int | None, int, int]:
    """Return the block index of the largest input, its characters, and the characters written before it."""
    sizes: dict[int, int] = {}
    before: dict[int, int] = {}
    total = 0
    for fragment in fragments(recording):
        if fragment.kind == "input":
            before.setdefault(fragment.index, total)
            sizes[fragment.index] = sizes.get(fragment.index, 0) + len(fragment.text)
        total += len(fragment.text)
    if not sizes:
        return None, 0, 0
    largest = max(sizes, key=lambda index: sizes[index])
    return largest, sizes[largest], before[largest]


def _is_inside_word(text: str, at: int) -> bool:
    return at < len(text) and text[at - 1].isalnum() and text[at].isalnum()


# --- recutting a response: the same text in other fragments, and at other times ---------------------------------------

Kind: TypeAlias = Literal["input", "text"]
"""Kind of a fragment: JSON of an input, or any other text of the model."""

_EVENT_STREAM: Final = "text/event-stream"


class Piece(NamedTuple):
    """Fragment of a block, and the seconds since the previous fragment."""

    text: str
    after_s: float


Cut: TypeAlias = Callable[[Kind, int, Sequence[str]], Sequence[Piece]]
"""Function that cuts the text of a block (its kind, index and recorded fragments) into pieces with the same text."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Recorded fragment of a block; its text is never empty."""

    kind: Kind
    index: int
    text: str
    at_s: float


def check_playable(recording: Recording, name: str) -> None:
    """Check that a recording can be played to a client, and recut.

    Raises:
        UsageError: The recording has another HTTP status than 200, or contains no server-sent events.
    """
    if recording.status != 200:
        raise UsageError(f"{name}: a response with HTTP status {recording.status} has nothing to measure")
    if recording.media_type != _EVENT_STREAM:
        raise UsageError(
            f"{name}: only recordings of server-sent events can be measured, not of {recording.media_type!r}"
        )


def fragments(recording: Recording) -> Iterator[Fragment]:
    """Yield every recorded fragment of the model's output."""
    received = list(accumulate(len(chunk.data) for chunk in recording.chunks))
    for event in body_events(recording.body):
        text = model_text(event.data)
        if text:
            at_s = recording.chunks[bisect_left(received, event.end)].at_s
            yield Fragment(_kind(event.data), _index(event.data), text, at_s)


def recut(recording: Recording, cut: Cut, *, first_byte_s: float) -> Recording:
    """Return the same response, one chunk per event, with fragments cut and timed by `cut`.

    Other events arrive together with the event before them, the first ones at `first_byte_s`.
    """
    body = recording.body
    chunks: list[Chunk] = []
    at_s = first_byte_s
    start = 0
    waiting: list[WireEvent] = []  # deltas of one block and one kind, in a row

    def flush() -> None:
        nonlocal at_s
        if not waiting:
            return
        event = waiting[0]
        delta = event["delta"]
        name = TEXT_FIELDS[delta["type"]]
        for text, after_s in cut(_kind(event), _index(event), [model_text(each) for each in waiting]):
            at_s += after_s
            chunks.append(Chunk(at_s, encode_event({**event, "delta": {**delta, name: text}})))
        waiting.clear()

    for event in body_events(body):
        raw = body[start : event.end]
        start = event.end
        if model_text(event.data):
            if waiting and _goes_on(waiting[0]) != _goes_on(event.data):
                flush()
            waiting.append(event.data)
        else:
            flush()
            chunks.append(Chunk(at_s, raw))
    flush()
    if start < len(body):
        chunks.append(Chunk(at_s, body[start:]))
    return replace(recording, chunks=tuple(chunks), note=noted(recording.note, TIMED_NOTE))


def _kind(event: WireEvent) -> Kind:
    return "input" if is_fragment(event) else "text"


def _index(event: WireEvent) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _goes_on(event: WireEvent) -> tuple[Any, Any]:
    """Return a key that two consecutive deltas share if the second continues the first."""
    return event.get("index"), event["delta"].get("type")
