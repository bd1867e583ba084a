"""Entries that no run has written: each is a `JournalError`, and never an error of another kind."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from eagerstream.errors import EagerStreamError, JournalError
from eagerstream.loop import check_entries
from tests.loop.damage import damaged_entries, entries_written
from tests.loop.durable import Played, World, scenario, taken_up
from tests.loop.journals import MemoryJournal
from tests.tables import rows

BEGIN: dict[str, Any] = {"kind": "begin", "turn": 0, "model": "m", "max_tokens": 9, "messages": [], "options": {}}


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
    """A field of any entry is removed, or has another value: to continue the run raises no error of another kind."""
    written = await entries_written()
    for entries in written:
        check_entries(entries, "r")
    kinds: set[str] = set()
    for place, entries in damaged_entries(written, count):
        world = World()
        try:
            client = Played(scenario()).transport()
            with anyio.fail_after(20):
                await taken_up(client, MemoryJournal({"r": entries}), world.tools())
            kinds.add("continued")
        except EagerStreamError:
            kinds.add("not continued")
        except Exception as error:
            error.add_note(str(place))
            raise
    assert kinds == {"continued", "not continued"}
