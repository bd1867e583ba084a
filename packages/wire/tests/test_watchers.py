"""`Watchers`: callbacks that wait for a part of an input are called once, when it is finished."""

from __future__ import annotations

from typing import Any

import pytest
from packages.wire.tests.inputs import heard, told
from tests.streams import MESSAGE_STOP, block_stop, input_delta, message_delta, tool_start, written
from tests.tables import rows

from eagerstream_wire import InputAccumulator, Outcome


def watched(*paths: tuple[str | int, ...]) -> tuple[InputAccumulator, list[tuple[tuple[str | int, ...], Any]]]:
    accumulator = heard(tool_start(0))
    calls: list[tuple[tuple[str | int, ...], Any]] = []

    def watch(path: tuple[str | int, ...]) -> None:
        accumulator.inputs[0].watch(*path, callback=lambda value: calls.append((path, written(value))))

    for path in paths:
        watch(path)
    return accumulator, calls


def test_watch_calls_when_the_value_is_finished() -> None:
    """Not before, not twice, and in the fragment that finishes it."""
    accumulator, calls = watched(("a",), ("b", 1, "c"), ("b",), ())
    told(accumulator, input_delta(0, '{"a": "x'))
    assert calls == []
    told(accumulator, input_delta(0, '"'))
    assert calls == [(("a",), '"x"')]
    told(accumulator, input_delta(0, ', "b": [0, {"c": 12'))
    assert len(calls) == 1
    told(accumulator, input_delta(0, "}"))
    assert calls[1:] == [(("b", 1, "c"), "12")]
    told(accumulator, input_delta(0, "]"))
    assert calls[2:] == [(("b",), '[0, {"c": 12}]')]
    told(accumulator, input_delta(0, "}"))
    assert calls[3:] == [((), '{"a": "x", "b": [0, {"c": 12}]}')]
    told(accumulator, block_stop(0))
    assert len(calls) == 4


def test_watch_calls_at_once_for_what_is_finished() -> None:
    """Whoever comes late is told right away, also after the end."""
    accumulator, _ = watched()
    told(accumulator, input_delta(0, '{"a": null, "b": "x'))
    tool_input = accumulator.inputs[0]
    calls: list[Any] = []
    tool_input.watch("a", callback=calls.append)
    assert calls == [None]
    told(accumulator, input_delta(0, '"}'), block_stop(0))
    tool_input.watch("b", callback=calls.append)
    assert calls == [None, "x"]


@rows("last", ['"', "x", "", "\n", '","d":tru'])
def test_watch_never_calls_for_what_does_not_come(last: str) -> None:
    """A path that is not there, or a value cut off in its middle, is never told of."""
    accumulator, calls = watched(("nothing",), ("a", 0), ("b",), (0,))
    told(accumulator, input_delta(0, '{"a": "x", "b": {"c": "y'), input_delta(0, last), block_stop(0))
    told(accumulator, message_delta("tool_use"), MESSAGE_STOP)
    accumulator.inputs[0].watch("nothing", callback=lambda _: calls.append(((), "late")))
    assert calls == []


def test_watch_sees_the_finished_parts_of_an_invalid_input() -> None:
    """What was whole before the fault was told, and stays told."""
    accumulator, calls = watched(("a",), ("b",))
    told(accumulator, input_delta(0, '{"a": 1, "b": Dave}'), block_stop(0))
    assert accumulator.inputs[0].outcome is Outcome.INVALID
    assert calls == [(("a",), "1")]


def test_watch_of_an_input_in_the_start() -> None:
    """What came whole is finished from the start."""
    accumulator = heard(tool_start(0, input={"a": [1]}))
    calls: list[Any] = []
    accumulator.inputs[0].watch("a", 0, callback=calls.append)
    assert calls == [1]


def test_watch_of_the_whole_of_an_empty_input() -> None:
    """An input without arguments has a value, and whoever waits for all of it must hear."""
    accumulator, calls = watched(())
    told(accumulator, block_stop(0))
    assert calls == []
    told(accumulator, message_delta("tool_use"))
    assert accumulator.inputs[0].value == {}
    assert calls == [((), "{}")]


def test_watch_from_inside_a_callback() -> None:
    """A callback may ask for more, finished or not."""
    accumulator, calls = watched()
    tool_input = accumulator.inputs[0]

    def then(value: Any) -> None:
        calls.append((("a",), value))
        tool_input.watch("b", callback=lambda value: calls.append((("b",), value)))
        tool_input.watch("a", callback=lambda value: calls.append((("a", "again"), value)))

    tool_input.watch("a", callback=then)
    tool_input.watch("a", callback=lambda value: calls.append((("a", "second"), value)))
    told(accumulator, input_delta(0, '{"a":1,'), input_delta(0, '"b":2}'))
    assert sorted(calls) == [(("a",), 1), (("a", "again"), 1), (("a", "second"), 1), (("b",), 2)]


def test_an_exception_in_a_callback_comes_out_and_the_others_are_still_told() -> None:
    """The exception is the caller's own; those who watch beside it must not lose their call for it."""
    accumulator, calls = watched()
    tool_input = accumulator.inputs[0]

    def fail(_: object) -> None:
        raise ZeroDivisionError

    tool_input.watch("a", callback=fail)
    tool_input.watch("a", callback=lambda value: calls.append((("a",), value)))
    tool_input.watch("b", callback=lambda value: calls.append((("b",), value)))
    with pytest.raises(ZeroDivisionError):
        told(accumulator, input_delta(0, '{"a":1,'))
    told(accumulator, input_delta(0, '"b":2}'))
    assert calls == [(("a",), 1), (("b",), 2)]
    assert told(accumulator, block_stop(0)) == ["stop 0 valid"]
