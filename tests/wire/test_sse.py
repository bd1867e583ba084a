"""`SSEDecoder` against the letter of the standard, however the body is cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings, strategies as st

from eagerstream.errors import LimitError
from eagerstream.limits import Limits
from eagerstream.wire import ServerSentEvent, SSEDecoder
from tests.sampling import at_length
from tests.streams import cuts_of, one_by_one
from tests.tables import rows


def decoded(chunks: Iterable[bytes]) -> tuple[list[ServerSentEvent], int | None]:
    """The events and the reconnection time of a whole body."""
    decoder = SSEDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    assert decoder.close() == []
    return events, decoder.reconnection_time_ms


def by_the_standard(body: bytes) -> tuple[list[ServerSentEvent], int | None]:
    """The same, read all at once, sentence by sentence as the standard's section 9.2.6 has it."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    *lines, _unfinished = re.split("\r\n|\r|\n", text)
    events: list[ServerSentEvent] = []
    data = event_type = last_event_id = ""
    retry: int | None = None
    reconnection_time: int | None = None
    for line in lines:
        if line == "":
            if data:
                events.append(ServerSentEvent(event_type or "message", data.removesuffix("\n"), last_event_id, retry))
            data = event_type = ""
            retry = None
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                event_type = value
            case "data":
                data += value + "\n"
            case "id":
                last_event_id = last_event_id if "\0" in value else value
            case "retry" if re.fullmatch("[0-9]+", value):
                retry = reconnection_time = int(value)
            case _:
                pass  # a comment, or a field that nobody knows
    return events, reconnection_time


# Bytes that mean something to the format, whole lines of it, and bytes that are no UTF-8, or not yet.
_SPICES = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\n\n",
    b":",
    b" ",
    b"d",
    b"a",
    b"t",
    b"\0",
    b"\xef",
    b"\xbb",
    b"\xbf",
    b"\xef\xbb\xbf",
]
_SPICES += [
    b"\xff",
    b"\xc3",
    b"\xa9",
    b"\xf0\x9f",
    b"\x98\x80",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\x0b",
    b"\x0c",
    b"\x1c",
]
_LINES = [
    b"data",
    b"data:",
    b"data: ",
    b"data: x",
    b"data:  y",
    b"event: e",
    b"event",
    b"id: 7",
    b"id",
    b"id: a\0b",
    b": c",
]
_LINES += [
    b"retry: 3",
    b"retry: +5",
    b"retry: 1_0",
    b"retry:",
    b"retry: \xd9\xa3",
    b"Data: x",
    b" data: x",
    b"datas: x",
]
bodies = st.lists(st.one_of(st.sampled_from(_SPICES), st.sampled_from(_LINES), st.binary(max_size=3)), max_size=30).map(
    b"".join
)


def check_any_cut(data: st.DataObject, body: bytes) -> None:
    expected = by_the_standard(body)
    assert decoded([body]) == expected
    assert decoded(data.draw(cuts_of(body))) == expected


@given(st.data(), bodies)
def test_any_cut_gives_what_the_standard_says(data: st.DataObject, body: bytes) -> None:
    """The network cuts where it likes, also inside a character, a line end, or a byte order mark."""
    check_any_cut(data, body)


@pytest.mark.slow
@pytest.mark.timeout(600)
@at_length(8_000)
@given(st.data(), bodies)
def test_any_cut_gives_what_the_standard_says_at_length(data: st.DataObject, body: bytes) -> None:
    """Rare mixtures of line ends take more examples than a quick run can afford."""
    check_any_cut(data, body)


@given(st.lists(st.binary(max_size=12), max_size=12))
def test_arbitrary_bytes_raise_nothing(chunks: list[bytes]) -> None:
    """A peer that sends noise is a peer that sends no events; it is no crash."""
    assert decoded(chunks) == by_the_standard(b"".join(chunks))


_PARTS = [
    b"event: e\n",
    b"data: x\n",
    b"data: y\n\n",
    b"id: 7\n",
    b": c\n",
    b"\n",
    b"event: e\ndata: z\n\n",
    b"da",
    b"ta: w",
]


@pytest.mark.slow
@settings(max_examples=500)  # a hundred miss what this is for half of the time
@given(st.lists(st.lists(st.sampled_from(_PARTS), max_size=8).map(b"".join), max_size=6))
def test_chunks_of_whole_lines(chunks: list[bytes]) -> None:
    """Chunks that begin and end with an event take a short cut; those that only nearly do must not."""
    assert decoded(chunks) == by_the_standard(b"".join(chunks))


@rows(
    "chunks",
    [
        # More than three lines and no blank one.
        [b"data: a\n\n", b"id: 7\nevent: e\ndata: b\ndata: c\nda", b"ta: d\n\n"],
        # The end of an earlier line is no blank line.
        [b"data: a", b"\n", b"event: e\ndata: b\n\n"],
    ],
)
def test_an_event_is_not_ended_by_the_end_of_a_chunk(chunks: list[bytes]) -> None:
    """The first split an event in two in the middle of a line; the second lost the lines before the second chunk."""
    assert decoded(chunks) == by_the_standard(b"".join(chunks))


E = ServerSentEvent

ODD: list[tuple[str, bytes, list[ServerSentEvent]]] = [
    ("nothing", b"", []),
    ("one event", b"event: ping\ndata: {}\n\n", [E("ping", "{}")]),
    ("no event name", b"data: x\n\n", [E("message", "x")]),
    ("an empty event name", b"event:\ndata: x\n\n", [E("message", "x")]),
    ("the last event name counts", b"event: a\nevent: b\ndata: x\n\n", [E("b", "x")]),
    ("lines of data are joined", b"data: a\ndata: b\n\n", [E("message", "a\nb")]),
    ("one space is removed, not two", b"data:  a\n\n", [E("message", " a")]),
    ("no space to remove", b"data:a\n\n", [E("message", "a")]),
    ("spaces at the end stay", b"data: {}   \n\n", [E("message", "{}   ")]),
    ("data without a colon", b"data\n\n", [E("message", "")]),
    ("data without a colon, twice", b"data\ndata\n\n", [E("message", "\n")]),
    ("empty data", b"data:\n\n", [E("message", "")]),
    ("an empty line of data in the middle", b"data: a\ndata:\ndata: b\n\n", [E("message", "a\n\nb")]),
    ("colons in data", b"data: a: b:c\n\n", [E("message", "a: b:c")]),
    ("no data, no event", b"event: ping\n\ndata: x\n\n", [E("message", "x")]),
    ("blank lines", b"\n\n\ndata: x\n\n\n\n", [E("message", "x")]),
    ("comments", b": hi\n:\ndata: x\n: there\n\n", [E("message", "x")]),
    ("unknown fields", b"color: red\ndata: x\nDATA: y\n\n", [E("message", "x")]),
    ("a field with a space before it", b" data: x\n\n", []),
    ("CR", b"data: a\rdata: b\r\r", [E("message", "a\nb")]),
    ("CRLF", b"data: a\r\ndata: b\r\n\r\n", [E("message", "a\nb")]),
    ("LF CR", b"data: a\n\rdata: b\n\r", [E("message", "a"), E("message", "b")]),
    ("a mix", b"data: a\r\n\ndata: b\r\r\ndata: c\n\r\n", [E("message", "a"), E("message", "b"), E("message", "c")]),
    ("U+2028 ends no line", "data: a\u2028b\u2029c\n\n".encode(), [E("message", "a\u2028b\u2029c")]),
    ("U+0085 ends no line", "data: a\u0085b\n\n".encode(), [E("message", "a\u0085b")]),
    ("VT and FF end no line", b"data: a\x0bb\x0cc\x1cd\n\n", [E("message", "a\x0bb\x0cc\x1cd")]),
    ("a byte order mark", b"\xef\xbb\xbfdata: a\n\n", [E("message", "a")]),
    ("two byte order marks", b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
    ("half a byte order mark", b"\xef\xbbdata: a\n\n", []),
    ("a byte order mark further on", b"data: \xef\xbb\xbfa\n\n", [E("message", "\ufeffa")]),
    ("bytes that are no UTF-8", b"data: \xff\xf0\x9f\x98x\n\n", [E("message", "\ufffd\ufffdx")]),
    ("a character cut off by a line end", b"data: \xe2\x82\ndata: \xac\n\n", [E("message", "\ufffd\n\ufffd")]),
    ("NUL in data", b"data: a\0b\n\n", [E("message", "a\0b")]),
    (
        "an id stays for later events",
        b"id: 7\ndata: a\n\ndata: b\n\n",
        [E("message", "a", "7"), E("message", "b", "7")],
    ),
    ("an empty id resets it", b"id: 7\ndata: a\n\nid\ndata: b\n\n", [E("message", "a", "7"), E("message", "b", "")]),
    ("an id with NUL is ignored", b"id: 7\nid: a\0b\ndata: a\n\n", [E("message", "a", "7")]),
    ("an id without data counts", b"id: 7\n\ndata: a\n\n", [E("message", "a", "7")]),
    ("retry", b"retry: 3000\ndata: a\n\ndata: b\n\n", [E("message", "a", "", 3000), E("message", "b")]),
    ("retry with zeros", b"retry: 007\ndata: a\n\n", [E("message", "a", "", 7)]),
    ("retry with a sign", b"retry: +5\nretry: -5\ndata: a\n\n", [E("message", "a")]),
    ("retry as Python would take it", b"retry: 1_000\nretry: 5.0\nretry: 0x5\ndata: a\n\n", [E("message", "a")]),
    ("retry in other digits", "retry: ٣\nretry: ²\ndata: a\n\n".encode(), [E("message", "a")]),
    ("retry with spaces", b"retry:  5\nretry: 5 \ndata: a\n\n", [E("message", "a")]),
    ("retry without a number", b"retry\nretry:\ndata: a\n\n", [E("message", "a")]),
    ("unfinished: no blank line", b"data: a\n\ndata: b\n", [E("message", "a")]),
    ("unfinished: no line end", b"data: a\n\ndata: b", [E("message", "a")]),
    ("unfinished: a CR is enough", b"data: a\n\r", [E("message", "a")]),
]


@rows("cut", [lambda body: [body], one_by_one])
@rows("body, events", [row[1:] for row in ODD])
def test_odd_cases(body: bytes, events: list[ServerSentEvent], cut: Callable[[bytes], list[bytes]]) -> None:
    """Each is a place where some decoder is known to be wrong."""
    assert decoded(cut(body))[0] == events
    assert by_the_standard(body)[0] == events


def test_a_carriage_return_dispatches_at_once() -> None:
    """Waiting for the line feed that may follow would delay every event of a peer that ends lines with CR."""
    decoder = SSEDecoder()
    assert decoder.feed(b"data: a\r\r") == [E("message", "a")]
    assert decoder.feed(b"\ndata: b\r\n\r") == [E("message", "b")]
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\n") == []
    assert decoder.feed(b"data: c\n\n") == [E("message", "c")]


def test_a_line_feed_is_swallowed_only_right_after_its_carriage_return() -> None:
    """The LF of a cut CRLF is no blank line, the next LF is one."""
    decoder = SSEDecoder()
    assert decoder.feed(b"data: a\r") == []
    assert decoder.feed(b"\n") == []
    assert decoder.feed(b"\n") == [E("message", "a")]


def test_a_byte_order_mark_may_be_cut() -> None:
    """Three decoders in the field lose the first event here."""
    decoder = SSEDecoder()
    for chunk in (b"", b"\xef", b"", b"\xbb"):
        assert decoder.feed(chunk) == []
    assert decoder.feed(b"\xbfdata: a\n\n") == [E("message", "a")]


def test_the_reconnection_time_needs_no_event() -> None:
    """`retry` is a fact about the connection, not about the event that it stands in."""
    decoder = SSEDecoder()
    assert decoder.reconnection_time_ms is None
    assert decoder.feed(b"retry: 250\n\n") == []
    assert decoder.reconnection_time_ms == 250


def test_a_retry_longer_than_python_converts_is_ignored() -> None:
    """int() refuses more than 4,300 digits with a ValueError, which must not come out of `feed`."""
    decoder = SSEDecoder()
    assert decoder.feed(b"retry: " + b"9" * 5_000 + b"\ndata: a\n\n") == [E("message", "a")]
    assert decoder.reconnection_time_ms is None


# --- the limit --------------------------------------------------------------------------------------------------------


def until_limit(chunks: Iterable[bytes], bound: int) -> tuple[list[ServerSentEvent], bool]:
    """The events before the limit struck, and whether it did; from then on it must strike always."""
    decoder = SSEDecoder(max_event_bytes=bound)
    events: list[ServerSentEvent] = []
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
        decoder.close()
    except LimitError as error:
        assert (error.limit, error.bound) == ("max_event_bytes", bound)
        for chunk in (b"", b"data: x\n\n"):
            with pytest.raises(LimitError):
                decoder.feed(chunk)
        with pytest.raises(LimitError):
            decoder.close()
        return events, True
    return events, False


@given(st.data(), bodies, st.integers(1, 40))
def test_the_limit_does_not_depend_on_the_cut(data: st.DataObject, body: bytes, bound: int) -> None:
    """The same body must fail after the same events for every user, whatever their network did."""
    whole = until_limit([body], bound)
    assert until_limit(data.draw(cuts_of(body)), bound) == whole
    assert until_limit(one_by_one(body), bound) == whole
    events = by_the_standard(body)[0]
    assert whole[0] == (events[: len(whole[0])] if whole[1] else events)


@rows("line_end", [b"\n", b"\r", b"\r\n"])
def test_the_limit_is_exact(line_end: bytes) -> None:
    """An event of just so many bytes is let through, one byte more is not; line ends do not count."""
    lines = [b"event: e", b"data: abc", b"data: d"]
    size = sum(map(len, lines))
    body = line_end.join([*lines, b"", b""])
    for chunks in ([body], one_by_one(body)):
        assert until_limit(chunks, size) == ([E("e", "abc\nd")], False)
        assert until_limit(chunks, size - 1) == ([], True)


def test_each_event_has_the_whole_limit() -> None:
    """The bound is on one event, not on the stream."""
    assert until_limit([b"data: a\n\n" * 1_000], 8) == ([E("message", "a")] * 1_000, False)


def test_events_finished_before_the_limit_are_handed_out_first() -> None:
    """What arrived whole is not lost because of what came after it in the same chunk."""
    decoder = SSEDecoder(max_event_bytes=10)
    assert decoder.feed(b"data: a\n\ndata: 0123456789\n\n") == [E("message", "a")]
    with pytest.raises(LimitError):
        decoder.feed(b"")


def test_the_limit_strikes_before_the_line_ends() -> None:
    """A line without an end must not fill the memory."""
    decoder = SSEDecoder(max_event_bytes=10)
    assert decoder.feed(b"data: 0123") == []
    with pytest.raises(LimitError):
        decoder.feed(b"4")


def test_empty_lines_of_data_count() -> None:
    """`data:` lines without a value take memory too: a million of them is an event of five million bytes."""
    assert until_limit([b"data:\n" * 3 + b"\n"], 15) == ([E("message", "\n\n")], False)
    assert until_limit([b"data:\n" * 4 + b"\n"], 15) == ([], True)
    assert until_limit([b"data\n" * 4 + b"\n"], 15) == ([], True)


def test_other_fields_count() -> None:
    """Names that nobody knows are lines of the event like others."""
    assert until_limit([b"x: y\n" * 5], 15) == ([], True)


def test_comments_do_not_count() -> None:
    """A stream may be kept alive with comments for as long as it likes, also inside an event."""
    assert until_limit([b"data: a\n" + b": still here\n" * 1_000 + b"\n"], 20) == ([E("message", "a")], False)


def test_a_comment_beside_an_event_is_only_bounded_by_itself() -> None:
    """Neither the event nor the comment is over the limit, and comments are not counted as the event's."""
    assert until_limit([b"data: abc\n: 12345678\n\n"], 10) == ([E("message", "abc")], False)


def test_one_comment_is_bounded() -> None:
    """A comment without an end must not fill the memory either."""
    assert until_limit([b": 12345678\n"], 10) == ([], False)
    assert until_limit([b": 123456789\n"], 10) == ([], True)
    assert until_limit([b": 123456789"], 10) == ([], True)


def test_the_error_says_which_limit() -> None:
    """Whoever meets a limit must learn its name and its size."""
    decoder = SSEDecoder(max_event_bytes=3)
    with pytest.raises(LimitError, match="max_event_bytes=3"):
        decoder.feed(b"data: x")


def test_the_default_limit() -> None:
    """The decoder's own default is the one of `Limits`."""
    decoder = SSEDecoder()
    assert decoder.feed(b"data:" + b"x" * (Limits().max_event_bytes - 5)) == []
    with pytest.raises(LimitError):
        decoder.feed(b"x")


def test_a_line_in_very_many_chunks_comes_out_whole() -> None:
    """A large event in small chunks is ordinary; a buffer that is copied for each chunk would take minutes here."""
    line = b"data: " + bytes(range(32, 127)) * 20_000
    body = line + b"\n\n"
    chunks = [body[at : at + 19] for at in range(0, len(body), 19)]
    assert len(chunks) > 100_000
    assert decoded(chunks)[0] == [E("message", line[6:].decode())]


@rows(
    "body, events",
    [
        (b"data: 0\n\nevent: x\ndata: a\n\n", [("message", "0"), ("x", "a")]),
        (b"data: 0\n\nevent: x\ndata: a\n\ndata: c\n\n", [("message", "0"), ("x", "a"), ("message", "c")]),
        (b"data: 0\n\nevent: x\ndata: a\ndata: b\n\n", [("message", "0"), ("x", "a\nb")]),
    ],
)
def test_whole_events_in_one_chunk(body: bytes, events: list[tuple[str, str]]) -> None:
    """The short way for an event of two lines, taken from the second event of a chunk on, keeps names and lines apart."""
    assert [(event.event, event.data) for event in SSEDecoder().feed(body)] == events
