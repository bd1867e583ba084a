"""The entries of a run that somebody damaged: a field of any entry is removed, or has another value."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

import eagerstream
from tests import sampling
from tests.loop.durable import Played, World, scenario
from tests.loop.journals import MemoryJournal, plain
from tests.streams import REQUEST

_WRONG: Final[list[Any]] = [
    *(..., None, True, -1, 0, 10**400, 1.5, "", "\ud800x", [], [[]], [None], {}, {"": 0}),
    "[" * 10,
]


def damaged_entries(written: list[list[Any]], count: int) -> Iterator[tuple[object, list[Any]]]:
    """Yield so many damages of what `entries_written` returned, each as its place and the entries."""
    places = [(n, path, value) for n, entries in enumerate(written) for path in _paths(entries) for value in _WRONG]
    for n, path, value in sampling.drawn(places, count):
        yield (n, path, value), _damaged(written[n], path, value)


async def entries_written() -> list[list[Any]]:
    """The entries of a run after each kind of write."""
    journal, last = MemoryJournal(), dict[str, list[Any]]()

    def written() -> None:
        last[journal.runs["r"][-1]["kind"]] = plain(journal.runs["r"])

    journal.on_write = written
    client = Played(scenario()).transport()
    async with eagerstream.run(client, **REQUEST, tools=World().tools(), journal=journal, run_id="r") as run:
        run.say("Hurry.", "next_turn")
        await run.finish()
    assert last.keys() == {"said", "request", "response", "start", "progress", "result", "turn", "end"}
    return [*last.values()]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if len(path) > 1:
        yield path
    if len(path) < 6 and isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _paths(value[key], (*path, key))


def _damaged(entries: list[Any], path: tuple[Any, ...], value: Any) -> list[Any]:
    damaged = copy.deepcopy(entries)
    inside: Any = damaged
    for step in path[:-1]:
        inside = inside[step]
    if value is ...:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return damaged
