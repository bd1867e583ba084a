"""`ValueCount`: the values of a text are counted without parsing it, in any pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from packages.wire.tests.decoding import decoded
from packages.wire.tests.inputs import ended, fed
from packages.wire.tests.json_texts import texts
from tests.aws_frames import chunk_frame, exception_frame
from tests.streams import block_start, cuts_of, input_delta, message_delta, message_start, one_by_one, tool_start
from tests.tables import rows

from eagerstream_wire import (
    AWSEventStreamDecoder,
    FragmentDecoder,
    InputDelta,
    LimitError,
    MessageAssembler,
    Outcome,
    WireDecoder,
    apply_patch,
)
from eagerstream_wire._limits import DEFAULT_LIMITS
from eagerstream_wire._value_count import ValueCount

_BOUND = DEFAULT_LIMITS.max_values
_MANY = {f"k{number}": 1 for number in range(_BOUND)}


def counted(pieces: list[bytes]) -> int:
    count = ValueCount()
    for piece in pieces:
        count.feed(piece)
    return count.values


def values_in(value: Any) -> int:
    """All values, the value itself among them."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values_in, inner))


@given(texts, st.data())
def test_each_value_counts(text: str, data: st.DataObject) -> None:
    """However the text is cut: at least all but one, and no more than there are values and empty containers."""
    raw = text.encode("utf-8", "surrogatepass")
    whole = counted([raw])
    assert counted(data.draw(cuts_of(raw))) == whole == counted(one_by_one(raw))
    try:
        values = values_in(json.loads(text, object_pairs_hook=lambda pairs: [value for _, value in pairs]))
    except (ValueError, RecursionError):
        return
    assert values - 1 <= whole <= 2 * values


@given(st.lists(st.sampled_from([b'"', b"\\", b",", b"[", b"{", b"a"]), max_size=20).map(b"".join), st.data())
def test_only_what_is_outside_strings_counts(text: bytes, data: st.DataObject) -> None:
    """Also in a text that is no JSON, with escapes that are cut in two."""
    expected = 0
    is_inside = is_escaped = False
    for character in text:
        if is_escaped:
            is_escaped = False
        elif is_inside:
            is_escaped = character == ord("\\")
            is_inside = character != ord('"')
        else:
            is_inside = character == ord('"')
            expected += character in b",[{"
    assert counted([text]) == expected
    assert counted(data.draw(cuts_of(text))) == expected


_ALPHABET = [b'"', b"\\", b",", b"[", b"}", b"\n", b"\r", b"data:", b"data: ", b"id: ", b":", b'{"type":"a"}', b"\n\n"]


@given(st.lists(st.sampled_from(_ALPHABET), max_size=30).map(b"".join), st.data())
def test_every_cut_of_a_body_exceeds_the_same_limit(body: bytes, data: st.DataObject) -> None:
    """The values are counted while the event arrives, and the events before it are the same."""
    bounds = {"max_event_bytes": data.draw(st.sampled_from([5, 20, 1_000])), "max_values": data.draw(st.integers(1, 8))}
    for kind in (WireDecoder, FragmentDecoder):
        whole = decoded(kind(**bounds), [body])
        assert decoded(kind(**bounds), data.draw(cuts_of(body))) == whole
        assert decoded(kind(**bounds), one_by_one(body)) == whole


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


@rows("kind", ["ping", "odd", "message_start", "error"])
@rows("value", [{**_MANY, "b": [1] * 20_000}, [[]] * _BOUND, [{"a": {}}] * _BOUND, [1.5] * 60_000, [""] * 70_000])
def test_too_many_values_are_refused_before_they_are_made(kind: str, value: object) -> None:
    """600,000 keys in one event blocked the event loop for a second, and the steps behind the parser for more."""
    body = _event(kind, a=value)
    for chunks in ([body], [body[at : at + 16_384] for at in range(0, len(body) - 16_384, 16_384)]):
        events, failure = decoded(FragmentDecoder(), [_event("ping"), *chunks])
        assert events == [{"type": "ping"}]
        assert failure == f"LimitError: the number of values in an event is over the limit max_values={_BOUND}"


@rows("text", ['[{,"\\' * 100_000, "[" * 1_000_000, '"' * 100_000, "\\" * 99_999, '{"a": [1, 2]}, ' * 50_000])
def test_what_is_only_long_is_taken(text: str) -> None:
    """The marks in a string are no values: a model writes code and JSON in strings."""
    event = {"type": "odd", "text": text}
    body = _event("odd", text=text)
    assert FragmentDecoder().feed(body) == [event]
    decoder = FragmentDecoder()
    assert [each for at in range(0, len(body), 999) for each in decoder.feed(body[at : at + 999])] == [event]
    assert AWSEventStreamDecoder().feed(chunk_frame(event)) == [event]


def test_lines_count_too() -> None:
    """The data of an event may have a million empty lines, each of which is work."""
    body = b"data: [\n" + b"data:\n" * (_BOUND + 1) + b"data: ]\n\n"
    assert "max_values" in decoded(WireDecoder(), [body])[1]


def test_frames() -> None:
    """The event inside a frame counts, and so does what is around it. An exception keeps the name of its headers."""
    events, failure = decoded(AWSEventStreamDecoder(), [chunk_frame({"type": "odd", "a": _MANY})])
    assert (events, "max_values" in failure) == ([], True)
    assert AWSEventStreamDecoder(max_values=10**6).feed(chunk_frame({"type": "odd", "a": _MANY}))[0]["a"] == _MANY
    [event] = AWSEventStreamDecoder().feed(
        exception_frame("throttlingException", json.dumps({"message": "m", "a": _MANY}).encode())
    )
    assert event["error"]["type"] == "throttlingException"


@rows("fragments", [1, 7, 50_000])
def test_an_input_with_too_many_values(fragments: int) -> None:
    """A model that writes 50,000 values has no tokens left. Beyond them an input is invalid, however it is cut."""
    text = json.dumps(_MANY)
    pieces = [text[at : at + len(text) // fragments + 1] for at in range(0, len(text), len(text) // fragments + 1)]
    input = ended(*pieces)
    assert input.outcome is Outcome.VALID
    text = json.dumps({**_MANY, "a": [1, 2]})
    pieces = [text[at : at + len(text) // fragments + 1] for at in range(0, len(text), len(text) // fragments + 1)]
    input = ended(*pieces)
    assert input.outcome is Outcome.INVALID
    assert str(input.error).startswith("more than 50000 values")
    assert input.wrapped == {"INVALID_JSON": text}


def test_changes_of_an_input_with_too_many_values() -> None:
    """Its first values stay. Text that is not read changes nothing, and no earlier change comes again."""
    assembler = MessageAssembler(reports=True)
    shown: Any = {}
    for event in [
        message_start(),
        tool_start(0),
        *(input_delta(0, each) for each in ['{"a": [', *["[1]," * 500] * 200]),
    ]:
        for out in assembler.feed(event):
            if isinstance(out, InputDelta):
                assert out.patch is not None
                shown = apply_patch(shown, out.patch)
    input = assembler.inputs[0]
    assert str(input.error).startswith("more than 50000 values")
    assert shown == input.partial
    assert 25_000 <= len(shown["a"]) <= 26_000


@rows(
    "events",
    [
        [message_start(), *(block_start(index, "odd", a=[[]] * 9_000) for index in range(6))],
        [message_start(content=[{"type": "odd", "a": [[]] * 30_000}, {"type": "odd", "a": [[]] * 30_000}])],
        [message_start(), *(message_delta(None, **{f"k{number}": [0] * 9_000}) for number in range(6))],
        [message_start(), tool_start(0, input=_MANY)],
        [message_start(), tool_start(0, input={"a": [10**4_000] * 20})],
    ],
)
def test_a_message_with_too_many_values(events: list[Any]) -> None:
    """It is settled in one step, and the next request is written in one step: the sum of all events counts."""
    with pytest.raises(LimitError, match="the number of values in a message is over the limit max_values=50000"):
        fed(*events)


def test_each_message_counts_anew() -> None:
    """A body may have several, as after the retry of a gateway."""
    block = block_start(0, "odd", a=[[]] * 30_000)
    fed(message_start(), block, message_start(), block)


def test_long_integers() -> None:
    """To write one of 4,000 digits takes 0.2 ms. A few are taken."""
    assert ended('{"a": [' + "9" * 4_000 + "," + "9" * 4_000 + "]}").outcome is Outcome.VALID
    input = ended('{"a": [' + ("9" * 4_000 + ",") * 30 + "1]}")
    assert input.outcome is Outcome.INVALID
    assert "more long integers than 20 of the longest" in str(input.error)


def test_fragments_of_an_input_are_not_counted() -> None:
    """They are in the input, which has a bound of its own."""
    fed(message_start(), tool_start(0), *(input_delta(0, "[,") for _ in range(_BOUND)))
