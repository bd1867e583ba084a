"""A run that is looked at: whatever is in its entries, there is a view of it, or a `JournalError`."""

from __future__ import annotations

import pytest
from tests.loop.damage import damaged_entries, entries_written

from eagerstream.errors import JournalError
from eagerstream_durable.journal._summaries import RunSummary
from eagerstream_durable.journal._view import view_of

SUMMARY = RunSummary("r", "running", {}, 1, 1, "none", 0.0, 0.0, 1, 0)


@pytest.mark.anyio
@pytest.mark.parametrize("count", [100, pytest.param(5_000, marks=[pytest.mark.slow, pytest.mark.nightly])])
async def test_damage(count: int) -> None:
    """A field of any entry is removed, or has another value."""
    written = await entries_written()
    for entries in written:
        view_of(SUMMARY, entries, [])
    kinds: set[str] = set()
    for place, entries in damaged_entries(written, count):
        try:
            view_of(SUMMARY, entries, [])
            kinds.add("viewed")
        except JournalError:
            kinds.add("refused")
        except Exception as error:
            error.add_note(str(place))
            raise
    assert kinds == {"viewed", "refused"}
