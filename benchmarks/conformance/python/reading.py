"""Ways in which the adapters read a peer step by step."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

NOTHING = {"$nothing": True}


class WrongTextError(Exception):
    """A peer does not read a text."""


def by_prefix(fragments: Sequence[str], read: Callable[[str], Any]) -> list[dict[str, Any]]:
    """Read a text with a function of a prefix, which most libraries of partial JSON are.

    If `read` raises WrongTextError, the last value stays, as in a program that goes on showing it. The next prefix is
    tried again: some libraries cannot read each prefix of a text that is right.

    Returns:
        A step for each fragment and one for the end, each with `value` and `state`; the state is never "complete".
    """
    text = ""
    value: Any = NOTHING
    steps = []
    for fragment in [*fragments, ""]:
        text += fragment
        failed = False
        if text.strip(" \t\r\n"):
            try:
                value = copy.deepcopy(read(text))
            except WrongTextError:
                failed = True
        steps.append({"value": value, "state": "invalid" if failed else "partial"})
    return steps


class Counted:
    """Chunks that count how many of them have been asked for, so that a result belongs to a chunk."""

    def __init__(self, chunks: Sequence[Any]) -> None:
        self.chunks = chunks
        self.asked = 0

    def __iter__(self) -> Iterator[Any]:
        for chunk in self.chunks:
            self.asked += 1
            yield chunk
        self.asked += 1


def server_sent_events(chunks: Sequence[bytes], decode: Callable[[Iterable[bytes]], Iterable[Any]]) -> dict[str, Any]:
    """Read an event stream with the decoder of the SDKs that Stainless generates."""
    source = Counted(chunks)
    steps: list[dict[str, Any]] = [{"events": [], "ids": [], "retries": []} for _ in [*chunks, None]]
    for event in decode(source):
        step = steps[source.asked - 1]
        step["events"].append({"event": event.event or "message", "data": event.data})
        step["ids"].append(event.id or "")
        step["retries"].append(event.retry)
    return {"steps": steps}
