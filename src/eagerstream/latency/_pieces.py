"""A reply cut anew: the same text in other fragments, and at other times."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..errors import UsageError
from ..recordings import Chunk, Recording
from ..testing import encode_event
from ..testing._body import body_events, is_fragment, model_text, noted
from ..testing._timing import TIMED_NOTE
from ..wire import TEXT_FIELDS, WireEvent

Kind: TypeAlias = Literal["input", "text"]
"""What a fragment is of: the JSON of an input, or something else that the model writes."""

_EVENT_STREAM: Final = "text/event-stream"


class Piece(NamedTuple):
    """A fragment of a block, and how long after the one before it it comes."""

    text: str
    after_s: float


Cut: TypeAlias = Callable[[Kind, int, Sequence[str]], Sequence[Piece]]
"""Cuts what a block says (its kind, its index, its fragments as they were) into pieces with the same text."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment as it came.

    Attributes:
        kind: What it is of.
        index: Of its block.
        text: What it says; never empty.
        at_s: When it came.
    """

    kind: Kind
    index: int
    text: str
    at_s: float


def check_playable(recording: Recording, name: str) -> None:
    """A recording can be played to a client, and cut anew.

    Raises:
        UsageError: It is an error of HTTP, or no server-sent events.
    """
    if recording.status != 200:
        raise UsageError(f"{name}: a reply with HTTP status {recording.status} has nothing to measure")
    if recording.media_type != _EVENT_STREAM:
        raise UsageError(
            f"{name}: only recordings of server-sent events can be measured, not of {recording.media_type!r}"
        )


def fragments(recording: Recording) -> Iterator[Fragment]:
    """Everything that the model wrote, as it came."""
    received = list(accumulate(len(chunk.data) for chunk in recording.chunks))
    for event in body_events(recording.body):
        text = model_text(event.data)
        if text:
            at_s = recording.chunks[bisect_left(received, event.end)].at_s
            yield Fragment(_kind(event.data), _index(event.data), text, at_s)


def recut(recording: Recording, cut: Cut, *, first_byte_s: float) -> Recording:
    """The same reply, one chunk per event, with its fragments cut and timed by `cut`.

    Events that are no fragments come with what is before them, the first ones at `first_byte_s`.
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
        for text, after_s in cut(_kind(event), _index(event), [model_text(delta) for delta in waiting]):
            at_s += after_s
            chunks.append(Chunk(at_s, encode_event(_with_text(event, text))))
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
    """What two deltas in a row have in common where the second continues the first."""
    return event.get("index"), event["delta"].get("type")


def _with_text(event: WireEvent, text: str) -> WireEvent:
    delta = event["delta"]
    return {**event, "delta": {**delta, TEXT_FIELDS[delta["type"]]: text}}
