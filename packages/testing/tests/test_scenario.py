"""`Scenario`: which turn answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream.recordings import Recording
from eagerstream_testing import Scenario, Timing, at_speed, http_error, reply, retime, text

_FIRST = reply(text("first"))
_SECOND = reply(text("second"))


def _request(assistant_messages: int) -> dict[str, Any]:
    user = {"role": "user", "content": "Hi"}
    return {"messages": [user, *([{"role": "assistant", "content": "Hello"}, user] * assistant_messages)]}


def test_history_decides() -> None:
    """The turn is the number of assistant messages in the request, however often and in whatever order it comes."""
    scenario = Scenario(_FIRST, _SECOND)
    assert scenario.answer(_request(1)) == _SECOND
    assert scenario.answer(_request(0)) == _FIRST
    assert scenario.answer(_request(1)) == _SECOND


def test_beyond_the_last_turn() -> None:
    """A conversation that goes on longer than it was written is told so, as the API refuses a request."""
    answer = Scenario(_FIRST).answer(_request(2))
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["type"]) == (400, "invalid_request_error")
    assert "turn 2" in error["message"]


def test_of_always_answers() -> None:
    """`of` takes no notice of the history."""
    assert [Scenario.of(_FIRST).answer(_request(turns)) for turns in (0, 5)] == [_FIRST, _FIRST]


@rows("request_body", [{}, {"messages": "no"}, {"messages": [None, {"content": "x"}, {"role": "user"}]}])
def test_odd_requests(request_body: dict[str, Any]) -> None:
    """A request without a usable history is the first one."""
    assert Scenario(_FIRST, _SECOND).answer(request_body) == _FIRST


def test_functions() -> None:
    """A function answers from the request itself, and only with a recording."""

    def echo(request: Mapping[str, Any]) -> Recording:
        return reply(text(str(request["messages"][-1]["content"])))

    assert Scenario(echo).answer(_request(0)) == reply(text("Hi"))
    with pytest.raises(UsageError, match="gave str"):
        Scenario(lambda _: "no").answer(_request(0))  # type: ignore[arg-type, return-value]
    with pytest.raises(ZeroDivisionError):
        Scenario(lambda _: 1 / 0).answer(_request(0))  # type: ignore[arg-type, return-value]


def test_timing_is_for_what_has_none() -> None:
    """A recording keeps its own times; those without, from functions too, get the scenario's; errors stay immediate."""
    timing = Timing(first_byte_s=2)
    timed = at_speed(retime(_SECOND, timing), 2)
    error = http_error(529, "overloaded_error", "Overloaded")
    scenario = Scenario(_FIRST, timed, lambda _: _FIRST, error, timing=timing)
    assert [scenario.answer(_request(turn)) for turn in range(4)] == [
        retime(_FIRST, timing),
        timed,
        retime(_FIRST, timing),
        error,
    ]
    assert Scenario.of(_FIRST, timing=timing).answer({}) == retime(_FIRST, timing)


def test_no_turns() -> None:
    """A scenario that could answer nothing is a mistake."""
    with pytest.raises(UsageError, match="at least one"):
        Scenario()
