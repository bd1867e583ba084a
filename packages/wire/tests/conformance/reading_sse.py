"""A second reading of event streams, for the expectations of the vectors. It shares no code with the library.

It follows https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.6, sentence by sentence. It reads
the complete body so far, anew for each chunk.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Event(NamedTuple):
    """A dispatched event. `retry` is the reconnection time that its own lines set."""

    event: str
    data: str
    id: str
    retry: int | None


def read(body: bytes) -> tuple[list[Event], int | None]:
    """Return the events that a body has dispatched by its last byte, and the reconnection time."""
    # "Streams must be decoded using the UTF-8 decode algorithm", which strips one leading byte order mark.
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    events: list[Event] = []
    data = event_type = last_event_id = ""
    retry = reconnection_time = None
    # A line that has no end yet is not processed: at the end of the stream, incomplete data is discarded.
    for line in re.split("\r\n|\r|\n", text)[:-1]:
        if not line:
            if data:
                # "If the data buffer's last character is LF, then remove the last character."
                events.append(Event(event_type or "message", data[:-1], last_event_id, retry))
            data = event_type = ""
            retry = None
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                event_type = value
            elif name == "data":
                data += value + "\n"
            elif name == "id" and "\0" not in value:
                last_event_id = value
            # Python converts no more digits, and nobody waits for so long.
            elif name == "retry" and re.fullmatch("[0-9]{1,4300}", value):
                retry = reconnection_time = int(value)
    return events, reconnection_time
