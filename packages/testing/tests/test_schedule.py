"""`Faults`: which request meets which fault."""

from __future__ import annotations

import threading
from collections import Counter
from copy import deepcopy
from typing import Any

import pytest
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream_testing import Fault, FaultKind, Faults, reply, text, tool_use
from eagerstream_testing._schedule import DRAWN_KINDS

_REPLY = reply(text("Hello."), tool_use("t", {"a": [1, 2, 3]}))
_END = Fault(FaultKind.END, after_events=3)
_RESET = Fault(FaultKind.RESET, after_bytes=10)
_USER: dict[str, Any] = {"role": "user", "content": "Hi"}


def _request(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages) or [_USER], **fields}


def test_by_turn_and_attempt() -> None:
    """Each turn has its own list, each attempt the next fault of it, and then all goes well."""
    faults = Faults({0: [_END, None, _RESET], 1: [_RESET]})
    later = _request(_USER, {"role": "assistant", "content": "Hello."}, _USER)
    assert [faults.draw(_request(), _REPLY) for _ in range(5)] == [_END, None, _RESET, None, None]
    assert [faults.draw(later, _REPLY) for _ in range(2)] == [_RESET, None]
    assert faults.injected == Counter({FaultKind.END: 1, FaultKind.RESET: 2})


def test_other_conversations_have_their_own_attempts() -> None:
    """What one run met, another with the same turn meets too."""
    faults = Faults({0: [_END]})
    others = [_request({"role": "user", "content": f"{number}"}) for number in range(3)]
    assert [faults.draw(request, _REPLY) for request in (*others, *others)] == [_END] * 3 + [None] * 3


@rows(
    "content",
    [
        "Hi",
        [{"type": "text", "text": "Hi"}],
        [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}],
    ],
)
def test_attempts_that_differ_in_marks_only(content: Any) -> None:
    """A mark for the cache, which makes a block of a text, does not make another request; nor does max_tokens."""
    faults = Faults({0: [_END]})
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Hi"}
    assert faults.draw(_request(_USER, {"role": "user", "content": [result]}, max_tokens=1), _REPLY) is _END
    again = {**deepcopy(result), "content": content, "cache_control": {"type": "ephemeral"}}
    request = _request({"role": "user", "content": content}, {"role": "user", "content": [again]}, max_tokens=2)
    assert faults.draw(request, _REPLY) is None


@rows(
    "content",
    [
        "Hello",
        [{"type": "text", "text": "Hi"}, {"type": "text", "text": "Hi"}],
        [{"type": "tool_use", "id": "x", "name": "t", "input": {"cache_control": 1}}],
        [{"type": "tool_use", "id": "x", "name": "t", "input": {}}],
        ["odd", None],
        None,
    ],
)
def test_other_messages_are_other_requests(content: Any) -> None:
    """What the messages say counts, whatever it is made of."""
    faults = Faults({0: [_END]})
    faults.draw(_request(), _REPLY)
    assert faults.draw(_request({"role": "user", "content": content}), _REPLY) is _END


def test_an_input_keeps_its_own_keys() -> None:
    """A tool's argument that is called like the mark is not one."""
    faults = Faults({0: [_END]})
    for value in (1, 2):
        call = {"type": "tool_use", "id": "x", "name": "t", "input": {"cache_control": value}}
        assert faults.draw(_request({"role": "user", "content": [call]}), _REPLY) is _END


@rows("request_body", [{}, {"messages": "no list"}, {"messages": [1, "x"]}])
def test_odd_requests(request_body: dict[str, Any]) -> None:
    """They are counted like others."""
    faults = Faults({0: [_END]})
    assert [faults.draw(request_body, _REPLY) for _ in range(2)] == [_END, None]


def test_memory_is_bounded() -> None:
    """Only so many histories are counted; the one asked for longest ago starts anew."""
    faults = Faults({0: [_END]}, max_histories=2)
    one, two, three = (_request({"role": "user", "content": name}) for name in ("1", "2", "3"))
    drawn = [faults.draw(request, _REPLY) for request in (one, two, one, three, one, two)]
    assert drawn == [_END, _END, None, _END, None, _END]
    for number in range(100):
        faults.draw(_request({"role": "user", "content": f"{number}"}), _REPLY)
    assert len(faults._attempts) == 2


def test_several_threads() -> None:
    """No attempt is counted twice, and none is lost."""
    faults = Faults({0: [_END] * 500})
    threads = [threading.Thread(target=lambda: [faults.draw(_request(), _REPLY) for _ in range(100)]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert faults.injected == Counter({FaultKind.END: 500})


def test_what_was_counted_is_a_copy() -> None:
    """A counter that was handed out does not change under its reader."""
    faults = Faults({0: [_END]})
    before = faults.injected
    faults.draw(_request(), _REPLY)
    assert before == Counter()


def _drawn(faults: Faults, numbers: range, attempts: int = 3) -> dict[tuple[int, int], Fault | None]:
    return {
        (number, attempt): faults.draw(_request({"role": "user", "content": f"{number}"}), _REPLY)
        for number in numbers
        for attempt in range(attempts)
    }


def test_seeds_repeat() -> None:
    """The same seed gives the same faults, in whatever order conversations come; another seed gives others."""
    forwards = _drawn(Faults.random(7, 0.5), range(50))
    backwards = _drawn(Faults.random(7, 0.5), range(49, -1, -1))
    assert forwards == backwards
    assert forwards != _drawn(Faults.random(8, 0.5), range(50))
    assert len({repr(fault) for fault in forwards.values()}) > 20


def test_a_seed_of_today() -> None:
    """What a seed means must not change: a failure that somebody noted is to be repeated years later."""
    assert Faults.random("note", 1).draw(_request(), _REPLY) == Fault(FaultKind.DUPLICATE, after_events=12)


@rows("rate, least, most", [(0, 0, 0), (0.05, 10, 100), (1, 1000, 1000)])
def test_rates(rate: float, least: int, most: int) -> None:
    """About as many fail as was asked for."""
    faults = Faults.random(1, rate)
    _drawn(faults, range(1000), attempts=1)
    assert least <= faults.injected.total() <= most


def test_every_kind_is_drawn() -> None:
    """All but those that last until the client gives up; these only on request."""
    faults = Faults.random(1, 1)
    drawn = _drawn(faults, range(500), attempts=1)
    assert set(faults.injected) == set(DRAWN_KINDS) == set(FaultKind) - {FaultKind.STALL, FaultKind.ENDLESS}
    assert {fault.retry_after_s for fault in drawn.values() if fault and fault.status == 429} == {None, 1}
    assert {fault.before_headers for fault in drawn.values() if fault and fault.kind == FaultKind.RESET} == {
        True,
        False,
    }
    every = Faults.random(1, 1, set(FaultKind))
    _drawn(every, range(500), attempts=1)
    assert set(every.injected) == set(FaultKind)


@rows("turns", [{-1: [_END]}, {True: [_END]}, {0: ["reset"]}])
def test_bad_schedules(turns: Any) -> None:
    """A turn that cannot be is refused before any server starts, and what is no fault."""
    with pytest.raises(UsageError):
        Faults(turns)


@rows("options", [{"rate": -0.1}, {"rate": 1.1}, {"rate": float("nan")}, {"kinds": ()}])
def test_bad_lotteries(options: Any) -> None:
    """So is a rate that is none."""
    with pytest.raises(UsageError):
        Faults.random(1, **options)


def test_no_room_to_count() -> None:
    """At least one history is counted."""
    with pytest.raises(UsageError):
        Faults(max_histories=0)
