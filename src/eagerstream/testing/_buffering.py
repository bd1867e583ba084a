"""Simulated buffering: how a reply looks without eager input streaming."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..recordings import Chunk, Recording
from ..wire import PartialJSON, WireEvent
from ._body import body_events, is_fragment, model_text, noted
from ._scripted import encode_event

BUFFERED_NOTE: Final = "simulated buffering"
"""In the note of a recording whose inputs are held back."""

# Events after which no block is open.
_ENDS_OF_ALL: Final = frozenset({"message_start", "message_delta", "message_stop", "error"})


def buffered(recording: Recording) -> Recording:
    """The same reply as it arrives without eager input streaming: one chunk per event, tool inputs held back.

    Without it the API keeps each top-level member of an input until the member is whole and validated. So a fragment
    arrives with the event that ends its member; where the member never ends (the input is invalid or cut off) it
    arrives with the end of its block. A fragment that ends one member and begins the next becomes two, since neither
    may wait for the other; apart from that the bytes stay the same. Nothing overtakes anything, and no part of an input
    arrives earlier than it did.
    """
    body = recording.body
    events = list(body_events(body))
    sent: list[_Sent] = []
    held: dict[Any, _HeldInput] = {}
    start = 0
    for event, arrived_s in zip(events, _arrivals(recording, [event.end for event in events]), strict=True):
        raw = body[start : event.end]
        start = event.end
        index = event.data.get("index")
        if is_fragment(event.data):
            input_ = held.setdefault(index, _HeldInput())
            sent += input_.feed(event.data, raw, arrived_s)
            continue
        sent.append(_Sent(raw, arrived_s))
        kind = event.data.get("type")
        ended = [index] if kind == "content_block_stop" else list(held) if kind in _ENDS_OF_ALL else []
        for index in ended:
            if index in held:
                held.pop(index).release_all(arrived_s)
    for input_ in held.values():
        input_.release_all(recording.duration_s)
    if start < len(body):
        sent.append(_Sent(body[start:], recording.duration_s))
    chunks: list[Chunk] = []
    at_s = 0.0
    for item in sent:
        at_s = max(at_s, item.at_s)
        chunks.append(Chunk(at_s, item.data))
    return replace(recording, chunks=tuple(chunks), note=noted(recording.note, BUFFERED_NOTE))


@dataclass(eq=False)
class _Sent:
    """Bytes of the new body, and when they arrive."""

    data: bytes
    at_s: float


class _HeldInput:
    """One input, and its fragments that wait for the end of their top-level member."""

    def __init__(self) -> None:
        self._parser = PartialJSON(reports=True)
        self._ended = 0  # top-level members that are whole
        self._open = True  # one is under way, or is to come after the bracket or comma that was just read
        self._waiting: deque[tuple[_Sent, int]] = deque()  # with the number of members that must have ended

    def feed(self, event: WireEvent, raw: bytes, arrived_s: float) -> list[_Sent]:
        """What is sent for one `input_json_delta`; the times of what must wait are set later."""
        parts = self._split(model_text(event))
        sent = [_Sent(raw if len(parts) == 1 else _with_fragment(event, part), arrived_s) for part, _ in parts]
        self._waiting.extend((item, needed) for item, (_, needed) in zip(sent, parts, strict=True))
        while self._waiting and (self._parser.complete or self._waiting[0][1] <= self._ended):
            self._waiting.popleft()[0].at_s = arrived_s
        return sent

    def release_all(self, at_s: float) -> None:
        """The block has ended: nothing is held any longer."""
        for item, _ in self._waiting:
            item.at_s = at_s
        self._waiting.clear()

    def _split(self, fragment: str) -> list[tuple[str, int]]:
        """The parts of a fragment that belong to different members, each with the members that must have ended."""
        parts: list[tuple[str, int]] = []
        start = 0
        at = 0
        while at < len(fragment):
            comma = fragment.find(",", at)
            end = comma + 1 if comma >= 0 else len(fragment)
            self._parser.feed(fragment[at:end])
            # Between two members there is a comma, so that a piece ends at most one.
            ended = any(len(path) == 1 for path, _ in self._parser.finished)
            self._ended += ended
            between = ended or not self._open
            if comma >= 0 and between and comma > start:
                parts.append((fragment[start:comma], self._ended))
                start = comma
            self._open = comma >= 0 or not between
            at = end
        # The empty fragment that the API begins with has nothing that could wait.
        parts.append((fragment[start:], self._ended + self._open if fragment else 0))
        return parts


def _with_fragment(event: WireEvent, fragment: str) -> bytes:
    return encode_event({**event, "delta": {**event["delta"], "partial_json": fragment}})


def _arrivals(recording: Recording, ends: Sequence[int]) -> list[float]:
    """When the byte before each of `ends` arrived; `ends` increase."""
    times: list[float] = []
    chunks = iter(recording.chunks)
    received = 0
    at_s = 0.0
    for end in ends:
        while received < end:
            at_s, data = next(chunks)
            received += len(data)
        times.append(at_s)
    return times
