"""The fault matrix: a conversation of three tools, and everything that may go wrong with its first reply."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from anthropic.types import MessageParam

from eagerstream._support.bodies import body_events
from eagerstream.recordings import Recording
from eagerstream_testing import (
    Fault,
    FaultKind,
    Faults,
    MessageThreads,
    Scenario,
    Timing,
    reply,
    retime,
    text,
    tool_use,
)
from eagerstream_testing._faults import ERROR_STATUS, UNANSWERED
from tests.sampling import drawn

FIRST: Final = retime(
    reply(
        text("Let me see to it.", fragment_chars=9),
        tool_use("book", {"flight": "OS 381"}, fragment_chars=12),
        tool_use("pay", {"amount": 120, "currency": "EUR"}, fragment_chars=12),
        tool_use("write", {"path": "trip.txt", "lines": ["Oslo", "Vienna"]}, fragment_chars=12),
    ),
    Timing.instant(),
)
"""The reply that meets the faults, each event in a chunk of its own."""

LAST: Final = reply(text("Done."), message_id="msg_last")
EVENTS: Final = sum(1 for _ in body_events(FIRST.body))
BYTES: Final = len(FIRST.body)

_FOR_GOOD: Final = (400, 401, 403, 404, 413)
_FOR_NOW: Final = (500, 529)
_AT_EVENTS: Final = (
    FaultKind.END,
    FaultKind.CLOSE,
    FaultKind.RESET,
    FaultKind.STALL,
    FaultKind.BROKEN_CHUNKING,
    FaultKind.GARBAGE,
    FaultKind.SPLICE,
    FaultKind.DUPLICATE,
    FaultKind.MISSING,
    FaultKind.REORDERED,
    FaultKind.ENDLESS,
)
_ALWAYS: Final = 9
"""More often than any client tries."""


@dataclass(frozen=True)
class Schedule:
    """What the first turn of a conversation meets, attempt by attempt.

    Attributes:
        row: What kind of thing goes wrong: a row of the table.
        faults: One for each attempt; further ones are answered whole.
    """

    row: str
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        return f"{self.row}: {', '.join(map(str, self.faults[:3]))}{'...' if len(self.faults) > 3 else ''}"


def at_events(*, step: int = 1, events: int = EVENTS) -> Iterator[Schedule]:
    """Every kind of fault, at every boundary of events where it has a place; or at every `step`th."""
    for status in _FOR_GOOD:
        yield _once("HTTP error for good: 400, 401, 403, 404, 413", Fault(FaultKind.HTTP_ERROR, status=status))
    for_now = "HTTP error for now: 429, 500, 529"
    for wait_s in (None, 0.01):
        yield _once(for_now, Fault(FaultKind.HTTP_ERROR, status=429, retry_after_s=wait_s))
    for status in _FOR_NOW:
        yield _once(for_now, Fault(FaultKind.HTTP_ERROR, status=status))
    yield Schedule(for_now, (Fault(FaultKind.HTTP_ERROR, status=529),) * _ALWAYS)
    for status in (200, 502):
        yield _once("HTML page of a proxy", Fault(FaultKind.HTML_PAGE, status=status))
    yield _once("wrong content type", Fault(FaultKind.CONTENT_TYPE))
    for kind in FaultKind:
        if kind in UNANSWERED:
            yield _once("nothing comes: close, reset, silence", Fault(kind, before_headers=True))
    for place in range(0, events + 1, step):
        for error_type in ERROR_STATUS:
            yield _once(
                "`error` event, of each type", Fault(FaultKind.ERROR_EVENT, after_events=place, error_type=error_type)
            )
        for kind in _AT_EVENTS:
            yield _once(_ROWS[kind], Fault(kind, after_events=place))
        for kind in (FaultKind.CLOSE, FaultKind.SPLICE):
            yield Schedule("the same again and again: close, spliced", (Fault(kind, after_events=place),) * _ALWAYS)


def at_bytes(*, step: int = 1, body_bytes: int = BYTES) -> Iterator[Schedule]:
    """The connection is lost after every byte of a body, or every `step`th: closed, and reset."""
    for place in range(0, body_bytes + 1, step):
        yield _once("closed, after every byte", Fault(FaultKind.CLOSE, after_bytes=place))
        yield _once("reset, after every byte", Fault(FaultKind.RESET, after_bytes=place))


def at_some(count: int, *, events: int = EVENTS, body_bytes: int = BYTES) -> list[Schedule]:
    """Every kind of fault, at a few fixed places, and `count` more of all that there are: each commit draws others.

    The fixed places are enough for every way in which a run can go on.
    """
    fixed = chain(at_events(step=13, events=events), at_bytes(step=997, body_bytes=body_bytes))
    return [*fixed, *drawn(chain(at_events(events=events), at_bytes(body_bytes=body_bytes)), count)]


_ROWS: Final = {
    FaultKind.END: "the body ends",
    FaultKind.CLOSE: "the connection is closed",
    FaultKind.RESET: "the connection is reset",
    FaultKind.STALL: "silence",
    FaultKind.BROKEN_CHUNKING: "broken chunking",
    FaultKind.GARBAGE: "garbage bytes",
    FaultKind.SPLICE: "a second `message_start`",
    FaultKind.DUPLICATE: "an event comes twice",
    FaultKind.MISSING: "an event is missing",
    FaultKind.REORDERED: "two events change places",
    FaultKind.ENDLESS: "the input never ends",
}


def _once(row: str, fault: Fault) -> Schedule:
    return Schedule(row, (fault,))


# --- for the server ---------------------------------------------------------------------------------------------------


def first_message(number: int) -> MessageParam:
    """What the user says in a conversation of this number."""
    return {"role": "user", "content": f"{number}: book the flight, pay for it, and write it down."}


class BySchedule(Faults):
    """The faults of many conversations at once: each is told by the number in its first message.

    Args:
        schedules: What the conversations meet.
        turn: The turn that meets it, from 0.
    """

    def __init__(self, schedules: Mapping[int, Schedule], *, turn: int = 0) -> None:
        super().__init__()
        self._schedules = {number: Faults({turn: schedule.faults}) for number, schedule in schedules.items()}

    def draw(self, request: Mapping[str, Any], recording: Recording) -> Fault | None:
        """See `Faults.draw`."""
        return self._schedules[_number_of(request)].draw(request, recording)


def _number_of(request: Mapping[str, Any]) -> int:
    said = request["messages"][0]["content"]
    words = said if isinstance(said, str) else said[0]["text"]
    return int(words.partition(":")[0])


SCENARIO: Final = Scenario(FIRST, LAST)


class Threaded:
    """The same conversation behind a turn that asks for the weather, so that the faults meet a continued request.

    Each response has an id of its own, since the server keeps conversations by these.

    Args:
        threads: Forgets all conversations now and then.
    """

    def __init__(self, threads: MessageThreads) -> None:
        self._threads = threads
        self._count = 0
        self.scenario = Scenario(*map(self._turn, (_OPENING, FIRST, *[LAST] * 6)))

    def _turn(self, recording: Recording) -> Callable[[Mapping[str, Any]], Recording]:
        id = next(
            event["message"]["id"] for event in map(json.loads, _DATA.findall(recording.body)) if "message" in event
        )

        def answer(request: Mapping[str, Any]) -> Recording:
            self._count += 1
            if self._count % 101 == 0:
                self._threads.forget()
            mine = f"{self._count:0{len(id)}}"  # as long as the other: the places of faults are offsets
            chunks = [each._replace(data=each.data.replace(id.encode(), mine.encode())) for each in recording.chunks]
            return replace(recording, chunks=tuple(chunks))

        return answer


_OPENING: Final = reply(tool_use("look", {"city": "Oslo"}), message_id="msg_opening")
_DATA: Final = re.compile(rb"^data: (.+)$", re.MULTILINE)
