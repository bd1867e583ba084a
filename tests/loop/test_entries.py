"""Entries that no run has written: each is a `JournalError`, for those who continue a run and for those who look."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream.errors import EagerStreamError, JournalError
from eagerstream.loop import check_entries
from eagerstream_durable.journal._summaries import RunSummary
from eagerstream_durable.journal._view import view_of
from tests import sampling
from tests.loop.durable import Played, World, scenario, taken_up
from tests.loop.journals import MemoryJournal, plain
from tests.streams import REQUEST
from tests.tables import rows

BEGIN: dict[str, Any] = {"kind": "begin", "turn": 0, "model": "m", "max_tokens": 9, "messages": [], "options": {}}
SUMMARY = RunSummary("r", "running", {}, 1, 1, "none", 0.0, 0.0, 1, 0)
WRONG: list[Any] = [..., None, True, -1, 0, 10**400, 1.5, "", "\ud800x", [], [[]], [None], {}, {"": 0}, "[" * 10]


@rows(
    "entries, fault",
    [
        ([], "no entries"),
        ([5], "entry 1 of 1 is no entry"),
        ([{**BEGIN, "turn": "0"}], "entry 1 of 1 is of another form .int_type in 'turn'."),
        ([BEGIN, BEGIN], "entry 2 of 2 is another beginning"),
        ([{"kind": "cancel", "turn": 1}], "entry 1 of 1 is no beginning"),
        ([{**BEGIN, "messages": [1]}], "dict_type in 'messages.0'"),
        ([BEGIN, {"kind": "zzz-secret", "turn": 1}], "entry 2 of 2 is of an unknown kind"),
        ([BEGIN, {"kind": ["said"], "turn": 1}], "unknown kind"),
        ([BEGIN, {"kind": "said", "turn": 1, "message": "secret", "when": "now"}], "dict_type in 'message'"),
        ([BEGIN, {"kind": "request", "turn": 1, "waiting": [], "carrier": {}}], "has no history"),
        ([BEGIN, {"kind": "request", "turn": 1, "waiting": [[{}]], "carrier": {}}], "in 'waiting.0.1'"),
        ([BEGIN, {"kind": "cancel", "turn": 1, "inbox": "5"}], "int_type in 'inbox'"),
    ],
)
def test_what_no_run_has_written(entries: list[Any], fault: str) -> None:
    """The error says which entry it is, and nothing of its contents."""
    with pytest.raises(JournalError, match=fault) as caught:
        check_entries(entries, "r")
    assert "secret" not in str(caught.value)


@pytest.mark.anyio
@pytest.mark.parametrize("count", [100, pytest.param(5_000, marks=[pytest.mark.slow, pytest.mark.nightly])])
async def test_damage(count: int) -> None:
    """A field of any entry is removed, or has another value: to continue and to look at the run raise no other error."""
    written = await _written()
    for entries in written:
        check_entries(entries, "r")
    places = [(n, path, value) for n, entries in enumerate(written) for path in _paths(entries) for value in WRONG]
    kinds: set[str] = set()
    for place in sampling.drawn(places, count):
        n, path, value = place
        entries = _damaged(written[n], path, value)
        try:
            view_of(SUMMARY, entries, [])
            kinds.add("viewed")
        except JournalError:
            kinds.add("refused")
        except Exception as error:
            error.add_note(f"view: {place}")
            raise
        world = World()
        try:
            client = Played(scenario()).transport()
            with anyio.fail_after(20):
                await taken_up(client, MemoryJournal({"r": entries}), world.tools())
            kinds.add("continued")
        except EagerStreamError:
            kinds.add("not continued")
        except Exception as error:
            error.add_note(f"resume: {place}")
            raise
    assert kinds == {"viewed", "refused", "continued", "not continued"}


async def _written() -> list[list[Any]]:
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
