"""Simulated buffering: the timing of a response without eager input streaming."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from eagerstream import PartialJSON, WireEvent
from eagerstream._support.bodies import BUFFERED_NOTE, block_index, is_fragment, model_text, noted, tool_name
from eagerstream.recordings import Chunk, Recording

from ._framing import Framing, framing_of

# Events after which no block is open.
_ENDS_OF_ALL: Final = frozenset({"message_start", "message_delta", "message_stop", "error"})


def buffered(recording: Recording, *, eager: Collection[str] = ()) -> Recording:
    """Return the response as it arrives without eager input streaming: one chunk per event, tool inputs held back.

    Without eager input streaming, the API holds each top-level member of an input until it is complete and validated. A
    fragment therefore arrives with the event that ends its member. If the member never ends because the input is
    invalid or cut off, the fragment arrives with the end of its block.

    A fragment that ends one member and starts the next is split in two, because neither part waits for the other. All
    other bytes and the order of the events stay the same. No part of an input arrives earlier than it did. A response
    that was already held back keeps its times.

    Args:
        recording: The response as it is written. If it has no times, all of it arrives at once here, too.
        eager: Names of the tools whose inputs are not held back.
    """
    body = recording.body
    framing = framing_of(recording)
    events = list(framing.events(body))
    sent: list[_Sent] = []
    held: dict[int | None, _HeldInput] = {}
    names: dict[int | None, str] = {}
    start = 0
    for event, arrived_s in zip(events, _arrivals(recording, [event.end for event in events]), strict=True):
        raw = body[start : event.end]
        start = event.end
        index = block_index(event.data)
        if is_fragment(event.data) and names.get(index) not in eager:
            if index not in held:
                held[index] = _HeldInput(framing)
            sent += held[index].feed(event.data, raw, arrived_s)
            continue
        sent.append(_Sent(raw, arrived_s))
        kind = event.data.get("type")
        if kind == "content_block_start":
            names[index] = tool_name(event.data)
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
    """Bytes of the new body, and their arrival time."""

    data: bytes
    at_s: float


class _HeldInput:
    """An input whose fragments wait for the end of their top-level member."""

    def __init__(self, framing: Framing) -> None:
        self._framing = framing
        self._parser = PartialJSON(reports=True)
        self._ended = 0  # top-level members that are complete
        self._open = True  # a member is open, or follows the bracket or comma that was just read
        self._waiting: deque[tuple[_Sent, int]] = deque()  # with the number of members that must have ended

    def feed(self, event: WireEvent, raw: bytes, arrived_s: float) -> list[_Sent]:
        """Return the events to send for one `input_json_delta`. The times of those that wait are set later."""
        fragment = model_text(event)
        parts: list[tuple[str, int]] = []  # by member, each with the number of members that must end before it is sent
        start = at = 0
        while at < len(fragment):
            comma = fragment.find(",", at)
            end = comma + 1 if comma >= 0 else len(fragment)
            self._parser.feed(fragment[at:end])
            # A comma separates two members, so a piece ends at most one.
            ended = any(len(path) == 1 for path, _ in self._parser.finished)
            self._ended += ended
            between = ended or not self._open
            if comma >= 0 and between and comma > start:
                parts.append((fragment[start:comma], self._ended))
                start = comma
            self._open = comma >= 0 or not between
            at = end
        # The first fragment of the API is empty and need not wait.
        parts.append((fragment[start:], self._ended + self._open if fragment else 0))
        sent = [_Sent(raw if len(parts) == 1 else self._encoded(event, part), arrived_s) for part, _ in parts]
        self._waiting.extend((item, needed) for item, (_, needed) in zip(sent, parts, strict=True))
        while self._waiting and (self._parser.complete or self._waiting[0][1] <= self._ended):
            self._waiting.popleft()[0].at_s = arrived_s
        return sent

    def release_all(self, at_s: float) -> None:
        """Release all waiting fragments at the end of the block."""
        for item, _ in self._waiting:
            item.at_s = at_s
        self._waiting.clear()

    def _encoded(self, event: WireEvent, fragment: str) -> bytes:
        return self._framing.encode({**event, "delta": {**event["delta"], "partial_json": fragment}})


def _arrivals(recording: Recording, ends: Sequence[int]) -> list[float]:
    """Return the arrival time of the byte before each of `ends`, which increase."""
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
