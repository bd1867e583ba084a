"""`ToolInput`: how an input ended, what it shows, and what a look at it costs."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import example, given, strategies as st
from packages.wire.tests.inputs import ended, fed, heard
from packages.wire.tests.json_texts import texts
from tests.fuzz.cost import peak_bytes
from tests.streams import block_stop, cuts_of, input_delta, is_json, message_start, strict_loads, tool_start, written
from tests.tables import rows

from eagerstream_wire import (
    InputAccumulator,
    MessageAssembler,
    Outcome,
    ParsingLimits,
    PartialJSON,
    ToolInput,
)

_BLOCK_CHARS = 1_024
_UNREAD_CHARS = 256 * 1_024


class Counting(PartialJSON):
    """A parser that keeps what it was fed."""

    def __init__(self, fed: list[str], *, limits: ParsingLimits) -> None:
        super().__init__(limits=limits)
        self.fed = fed

    def feed(self, fragment: str) -> None:
        self.fed.append(fragment)
        super().feed(fragment)


def started(limits: ParsingLimits | None = None) -> tuple[InputAccumulator, ToolInput]:
    accumulator: InputAccumulator = InputAccumulator(limits=limits or ParsingLimits())
    accumulator.feed(tool_start(0))
    return accumulator, accumulator.inputs[0]


def counted() -> tuple[InputAccumulator, ToolInput, list[str]]:
    fed: list[str] = []
    accumulator: InputAccumulator = InputAccumulator(parser=partial(Counting, fed))
    accumulator.feed(tool_start(0))
    return accumulator, accumulator.inputs[0], fed


def grow(accumulator: InputAccumulator, *fragments: str) -> None:
    for fragment in fragments:
        accumulator.feed(input_delta(0, fragment))


def test_a_fragment_that_nobody_looks_at_is_not_parsed() -> None:
    """Not before somebody looks; then all that waited, and at the next look only what is new."""
    accumulator, tool_input, fed = counted()
    grow(accumulator, '{"a"', ": [1,")
    assert tool_input.chars == 9
    assert tool_input.raw == '{"a": [1,'
    assert fed == []
    assert tool_input.partial == {"a": [1]}
    assert fed == ['{"a": [1,']
    assert tool_input.partial == {"a": [1]}
    grow(accumulator, "2,")
    assert tool_input.is_finished("a", 1)
    assert fed == ['{"a": [1,', "2,"]
    grow(accumulator, "]")
    assert tool_input.error is not None
    assert tool_input.error.offset_chars == 11


def test_a_look_finds_little_to_parse() -> None:
    """Once somebody has looked, a block at most; before that, no more than can be parsed at once."""
    accumulator, tool_input, fed = counted()
    grow(accumulator, '{"a": "', "word " * 50)
    assert tool_input.partial == {"a": "word " * 50}
    for _ in range(3_000):
        grow(accumulator, "word ")
        assert tool_input.chars - sum(map(len, fed)) < _BLOCK_CHARS
    assert len(fed) < 100
    accumulator, tool_input, fed = counted()
    grow(accumulator, '{"a": "')
    while tool_input.chars <= _UNREAD_CHARS:
        assert fed == []
        grow(accumulator, "word " * 200)
    grow(accumulator, "word " * 205)
    assert tool_input.chars == sum(map(len, fed))


def test_an_input_that_nobody_looks_at_is_parsed_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """By jiter: our parser reads only what that refuses, and what it would read by other rules."""
    fed: list[str] = []
    monkeypatch.setattr(PartialJSON, "feed", lambda _, fragment: fed.append(fragment))
    order = json.dumps({"lines": [{"item": f"pen {number}", "price": number / 8} for number in range(1_000)]})
    accumulator, tool_input = started()
    grow(accumulator, *(order[at : at + 7] for at in range(0, len(order), 7)))
    accumulator.feed(block_stop(0))
    assert tool_input.value == json.loads(order)
    assert tool_input.is_finished("lines", 999, "price")
    assert tool_input.error is None
    assert fed == []
    for text in ('{"a": "\\ud83d"}', '{"a": 1e400}', '{"a": ' + "1" * 641 + "}", '{"a": }', '{"a": 1'):
        accumulator, _ = started()
        grow(accumulator, text)
        accumulator.feed(block_stop(0))
        assert fed.pop() == text


def test_a_look_after_the_end() -> None:
    """The text of an input that was cut is parsed when somebody looks at it, also if it was taken before."""
    accumulator, tool_input = started()
    grow(accumulator, '{"lines": ["a", "b"]', "}")
    accumulator.close()
    assert tool_input.outcome is Outcome.INCOMPLETE
    assert tool_input.raw == '{"lines": ["a", "b"]}'
    assert tool_input.is_finished("lines", 1)
    assert not tool_input.is_finished("lines", 2)
    assert tool_input.partial == {"lines": ["a", "b"]}


_LIMITS = [
    ParsingLimits(),
    ParsingLimits(max_depth=3),
    ParsingLimits(max_integer_digits=4),
    ParsingLimits(max_input_chars=20),
    ParsingLimits(max_values=3),
]


@given(st.data(), texts, st.sampled_from(_LIMITS))
@example(None, '{"a": "' + "\\n" * 600 + '", "b": [1, 2, 3, 4, 5, 6]}', _LIMITS[4])
@example(None, '{"a":' * 203 + "1" + "}" * 203, _LIMITS[0])
@example(None, '{"a": ' + "1" * 4_301 + "}", ParsingLimits(max_integer_digits=5_000))
def test_a_look_changes_nothing(data: st.DataObject | None, text: str, limits: ParsingLimits) -> None:
    """An input that is watched ends as one that nobody looks at, by whatever reader."""
    fragments = data.draw(cuts_of(text)) if data else [text]
    ends = []
    for is_watched in (True, False):
        accumulator, tool_input = started(limits)
        for fragment in fragments:
            grow(accumulator, fragment)
            _ = tool_input.partial if is_watched else None
        accumulator.feed(block_stop(0))
        accumulator.close("end_turn")
        value = written(tool_input.value)
        ends.append((tool_input.outcome, tool_input.error, value, tool_input.raw, list(tool_input.partial)))
    watched, unread = ends
    assert watched == unread


@rows("text", ["x", "é", "…", "😀", "\ud83d", "\ud83d\ude00"])
@rows("size", [1, 7, 1_024, 5_000])
def test_the_raw_text_is_what_came(text: str, size: int) -> None:
    """Whatever it is written in, in blocks and between them; lone surrogates, too."""
    whole = json.dumps({"a": text * 4_000}, ensure_ascii=False)
    accumulator, tool_input = started()
    for at in range(0, len(whole), size):
        grow(accumulator, whole[at : at + size])
        if at % 1_000 == 0:
            assert tool_input.raw == whole[: at + size]
    assert tool_input.raw == whole
    accumulator.feed(block_stop(0))
    assert tool_input.raw == whole
    assert tool_input.chars == len(whole)
    assert tool_input.value == {"a": text * 4_000}


@rows("bound", [5, 1_000, 1_024, 1_025, 3_000])
def test_the_raw_text_ends_at_the_limit(bound: int) -> None:
    """In the middle of a fragment, of a block, and between them."""
    accumulator, tool_input = started(ParsingLimits(max_input_chars=bound))
    whole = '{"a": "' + "0123456789" * 400
    for at in range(0, len(whole), 7):
        grow(accumulator, whole[at : at + 7])
        assert tool_input.raw == whole[: min(at + 7, bound)]
    accumulator.feed(block_stop(0))
    assert tool_input.raw == whole[:bound]
    assert tool_input.chars == len(whole)
    assert tool_input.outcome is Outcome.INVALID


@rows(
    "before, fault",
    [
        ("", None),  # nothing
        (" \n" * 2_000, None),  # blank
        (" \n" * 2_000 + "[", 4_000),  # blank and an array
        (" " * 1_023 + "é", 1_023),  # blank and a letter
        ("\t" * 1_024, None),  # a block of blanks
    ],
)
def test_an_input_must_be_an_object_however_much_is_blank(before: str, fault: int | None) -> None:
    accumulator, tool_input = started()
    grow(accumulator, *before, "{}")
    accumulator.feed(block_stop(0))
    if fault is None:
        assert tool_input.outcome is Outcome.VALID
    else:
        assert tool_input.error is not None
        assert tool_input.error.offset_chars == fault
        assert tool_input.error.message == "a tool's input must be an object"


@pytest.mark.slow
def test_a_long_input_takes_little_more_room_than_its_text_and_its_value() -> None:
    """A string of eight characters takes sixty bytes: as fragments the text would take eight times its size."""
    text = json.dumps({"text": "The sea sends the parts. " * 40_000})
    fragments = [text[at : at + 8] for at in range(0, len(text), 8)]
    events = [input_delta(0, fragment) for fragment in fragments]

    def run() -> None:
        assembler: MessageAssembler = MessageAssembler()
        assembler.feed(tool_start(0))
        assembler.feed_deltas(iter(events), [], input_deltas=False)
        assembler.feed(block_stop(0))
        assert assembler.inputs[0].outcome is Outcome.VALID

    assert peak_bytes(run) < 3 * len(text)


def test_the_raw_text_of_a_settled_input_is_joined_once() -> None:
    """A message with an invalid input has it, and so have its result and the history."""
    accumulator, tool_input = started()
    grow(accumulator, '{"a": ', "x" * 5_000)
    accumulator.feed(block_stop(0))
    assert tool_input.outcome is Outcome.INVALID
    assert tool_input.raw is tool_input.raw
    assert tool_input.wrapped["INVALID_JSON"] is tool_input.raw
    assert tool_input.raw == '{"a": ' + "x" * 5_000


OUTCOMES: list[tuple[str, Outcome, int | None]] = [
    ("{}", Outcome.VALID, None),
    (' \n{"a": [1, "x", null]}\t ', Outcome.VALID, None),
    ('{"a":1,"a":2}', Outcome.VALID, None),
    ('{"a":"\\ud83d"}', Outcome.VALID, None),
    ('{"a":1e308}', Outcome.VALID, None),
    ('{"a":1', Outcome.INCOMPLETE, None),
    ('{"a":"b', Outcome.INCOMPLETE, None),
    ('{"a":"b\\', Outcome.INCOMPLETE, None),
    ("{", Outcome.INCOMPLETE, None),
    ('{"a":1e400', Outcome.INCOMPLETE, None),
    ("  ", Outcome.INCOMPLETE, None),
    ('{"keywords": Dave', Outcome.INVALID, 13),
    ('{"cmd":"echo "hi" && rm"}', Outcome.INVALID, 14),
    ('{"a":1}}', Outcome.INVALID, 7),
    ('{"a":1} x', Outcome.INVALID, 8),
    ('{"a":1}{"b":2}', Outcome.INVALID, 7),
    ('{"a":NaN}', Outcome.INVALID, 5),
    ('{"a":-Infinity}', Outcome.INVALID, 6),
    ('{"a":1e400}', Outcome.INVALID, 5),
    ('{"a":[-1e400 ,2]', Outcome.INVALID, 6),
    ('{"a":1e400,}', Outcome.INVALID, 11),
    ('{"a":1,}', Outcome.INVALID, 7),
    ('{"a":"x\ny"}', Outcome.INVALID, 7),
    ("[1, 2]", Outcome.INVALID, 0),
    (' "str"', Outcome.INVALID, 1),
    ("null", Outcome.INVALID, 0),
    ("\n12", Outcome.INVALID, 1),
    ("[", Outcome.INVALID, 0),
    ("n", Outcome.INVALID, 0),
    ("\ufeff{}", Outcome.INVALID, 0),
    ('{"a":' + "[" * 512, Outcome.INVALID, 5 + 511),
    ('{"a":' + "1" * 4_301 + "}", Outcome.INVALID, 5 + 4_300),
]


@rows("size", [1, 7, 10**6])
@rows("text, outcome, offset", OUTCOMES)
def test_outcomes(text: str, outcome: Outcome, offset: int | None, size: int) -> None:
    """Only one whole JSON object runs; all else says where it went wrong and goes back as the model wrote it."""
    tool_input = ended(*(text[at : at + size] for at in range(0, len(text), size)))
    assert tool_input.outcome is outcome
    assert tool_input.raw == text
    if outcome is Outcome.VALID:
        assert tool_input.error is None
        assert written(tool_input.value) == written(strict_loads(text))
        assert tool_input.wrapped is tool_input.value
        return
    assert tool_input.value is None
    assert tool_input.wrapped == {"INVALID_JSON": text}
    assert tool_input.error is not None
    assert tool_input.error.offset_chars == (len(text) if offset is None else offset)
    assert tool_input.error.character == text[tool_input.error.offset_chars :][:1]


@given(st.data(), texts)
def test_valid_is_exactly_one_whole_json_object(data: st.DataObject, text: str) -> None:
    """The outcome agrees with the standard library on every text, and raw is what was written."""
    tool_input = ended(*data.draw(cuts_of(text)))
    assert tool_input.raw == text
    if text == "":
        return
    value = strict_loads(text) if is_json(text) else None
    sendable = isinstance(value, dict) and "Infinity" not in written(value)
    if "e" not in text.lower() and "Infinity" not in text:  # numbers beyond floats have their own table
        assert (tool_input.outcome is Outcome.VALID) == sendable
    if tool_input.outcome is Outcome.VALID:
        assert sendable
        assert written(tool_input.value) == written(value)


def test_a_fault_is_known_before_the_block_ends() -> None:
    """Whoever shows an input can tell at the wrong character that it will not run."""
    accumulator = heard(tool_start(0), input_delta(0, '{"keywords": D'))
    error = accumulator.inputs[0].error
    assert error is not None
    assert (error.offset_chars, error.character) == (13, "D")
    assert accumulator.inputs[0].outcome is None


def test_an_input_over_the_limit_is_invalid_and_keeps_what_fits() -> None:
    """A runaway input is counted, not kept."""
    limits = ParsingLimits(max_input_chars=10)
    tool_input = ended('{"a":"', "0123", limits=limits)
    assert (tool_input.outcome, tool_input.raw) == (Outcome.INCOMPLETE, '{"a":"0123')
    tool_input = ended('{"a":"', "01234", "56" * 100, limits=limits)
    assert tool_input.outcome is Outcome.INVALID
    assert tool_input.raw == '{"a":"0123'
    assert tool_input.chars == 6 + 5 + 200
    assert tool_input.error is not None
    assert (tool_input.error.offset_chars, tool_input.error.character) == (10, "4")
    assert ended('{"a":"01"}', limits=limits).outcome is Outcome.VALID
    assert ended('{"a":"012', "34", limits=limits).raw == '{"a":"0123'
    assert ended('{"a":"0123', "4", limits=limits).raw == '{"a":"0123'


def test_the_repr_keeps_the_input_to_itself() -> None:
    """What a model wrote does not belong in a log."""
    tool_input = ended('{"password": "hunter2"}')
    assert repr(tool_input) == "<ToolInput 0 'tool' valid, 23 chars>"


def test_an_open_path_of_an_input() -> None:
    """The value that is being written, for those who show it."""
    assembler, _ = fed(message_start(), tool_start(0))
    paths = []
    for fragment in ('{"filename": "poem.txt", "lines": ["Line one", "Line t', 'wo"]', "}"):
        assembler.feed(input_delta(0, fragment))
        paths.append(assembler.inputs[0].open_path)
    assert paths == [("lines", 1), (), None]
    assembler.feed(block_stop(0))
    assert assembler.inputs[0].open_path is None


def test_outcomes_are_texts() -> None:
    """They print as their value, and compare with it, as every status of the library does."""
    for status in Outcome:
        assert f"{status}" == str(status) == status == status.value
        assert json.dumps([status]) == f'["{status.value}"]'
