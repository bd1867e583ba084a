"""`TolerantJSON`: tolerant to look at, strict in judgement."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import given, strategies as st
from packages.wire.tests.json_texts import documents, texts
from partial_json_parser import Allow
from tests.streams import cuts_of, strict_loads, written
from tests.tables import rows

from eagerstream_wire import InputAccumulator, Outcome, ParsingLimits, PartialJSON, TolerantJSON


def tolerant(text: str, **options: Any) -> TolerantJSON:
    parser = TolerantJSON(**options)
    parser.feed(text)
    return parser


@rows(
    "text, value",
    [
        ("", None),
        ("{", {}),
        ('{"a":1', {"a": 1}),
        ('{"a":tru', {"a": True}),
        ('{"a":"x\\u12', {"a": "x"}),
        ('{"a":[1,2', {"a": [1, 2]}),
        ('{"a":1}', {"a": 1}),
        ('{"a":1} ', {"a": 1}),
    ],
)
def test_it_shows_what_the_package_shows(text: str, value: object) -> None:
    """Whoever chooses it wants numbers and literals before they end."""
    parser = tolerant(text)
    assert parser.value == value
    assert parser.value == value  # looking twice changes nothing


def test_allow_chooses_what_may_be_unfinished() -> None:
    """The package's own switches work."""
    assert tolerant('{"a":"x","b":"y', allow=Allow.OBJ).value == {"a": "x"}
    assert tolerant('{"a":"x","b":"y', allow=Allow.ALL).value == {"a": "x", "b": "y"}


def test_the_last_good_value_stays() -> None:
    """Where the package refuses the text, the value does not vanish."""
    parser = tolerant('{"a":"x')
    assert parser.value == {"a": "x"}
    parser.feed('"}}')
    assert parser.value == {"a": "x"}
    assert parser.error is not None
    assert not parser.complete


def test_what_lies_beyond_the_limit_is_not_read() -> None:
    """The text is kept to be read again, so it must not grow without a bound."""
    parser = TolerantJSON(limits=ParsingLimits(max_input_chars=8))
    parser.feed('{"a":"xy')
    parser.feed("z")
    assert parser.value == {"a": "xy"}
    assert parser.error is not None
    assert parser.error.offset_chars == 8


@given(documents)
def test_a_whole_document_is_what_json_loads_gives(document: str) -> None:
    """Tolerance ends where the document is whole: a tool gets the exact value."""
    parser = tolerant(document)
    parser.close()
    assert parser.complete
    assert written(parser.value) == written(strict_loads(document))


@given(st.data(), texts)
def test_the_judgement_is_strict_and_nothing_raises(data: st.DataObject, text: str) -> None:
    """Looking at any text after any fragment must not raise, and whether it is JSON is our parser's word."""
    strict, parser = PartialJSON(), TolerantJSON()
    for piece in data.draw(cuts_of(text)):
        strict.feed(piece)
        parser.feed(piece)
        written(parser.value)
        assert (parser.complete, parser.error, parser.started) == (strict.complete, strict.error, strict.started)


def test_it_can_be_the_accumulators_parser() -> None:
    """Both ways of choosing it work, and an invalid input stays invalid."""
    choices: list[Any] = [TolerantJSON, partial(TolerantJSON, allow=Allow.STR | Allow.OBJ)]
    for choice in choices:
        accumulator = InputAccumulator(parser=choice)
        block = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
        accumulator.feed({"type": "content_block_start", "index": 0, "content_block": block})
        delta = {"type": "input_json_delta", "partial_json": '{"a":"x'}
        accumulator.feed({"type": "content_block_delta", "index": 0, "delta": delta})
        assert accumulator.inputs[0].partial == {"a": "x"}
        delta = {"type": "input_json_delta", "partial_json": '"}}'}
        accumulator.feed({"type": "content_block_delta", "index": 0, "delta": delta})
        accumulator.feed({"type": "content_block_stop", "index": 0})
        assert accumulator.inputs[0].outcome is Outcome.INVALID
