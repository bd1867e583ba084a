"""`RequestLog`: the memory of the server."""

from __future__ import annotations

from eagerstream_testing._received import RequestLog


def test_bounded() -> None:
    """Only the latest requests are kept, and their ids go on counting."""
    log = RequestLog(maximum=2)
    added = [log.add({}, "") for _ in range(3)]
    assert log.entries() == added[1:]
    assert [request.request_id[-1] for request in added] == ["1", "2", "3"]


def test_entries_are_a_copy() -> None:
    """A list that was handed out does not change under its reader."""
    log = RequestLog()
    entries = log.entries()
    log.add({}, "")
    assert entries == []


def test_waiting_has_an_end() -> None:
    """Waiting for an answer that is still being written gives up after the time given."""
    request = RequestLog().add({}, "")
    assert not request.wait_ended(0.001)
    request.end()
    assert request.wait_ended()
