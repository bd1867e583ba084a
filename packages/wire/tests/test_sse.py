"""`SSEDecoder` against the letter of the standard, however the body is cut."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings, strategies as st
from packages.wire.tests.decoding import decoded as until_failure
from tests.fuzz.sse_decoder import by_the_standard
from tests.fuzz.wire_text import LINES
from tests.sampling import at_length
from tests.streams import cuts_of, one_by_one
from tests.tables import rows

from eagerstream_wire import LimitError, ParsingLimits, ServerSentEvent, SSEDecoder

E = ServerSentEvent


def decoded(chunks: Iterable[bytes]) -> tuple[list[ServerSentEvent], int | None]:
    """The events and the reconnection time of a whole body."""
    decoder = SSEDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    assert decoder.close() == []
    return events, decoder.reconnection_time_ms


# Bytes that mean something to the format, whole lines of it, and bytes that are no UTF-8, or not yet.
_SPICES = [
    *(b"\r", b"\n", b"\r\n", b"\n\n", b":", b" ", b"d", b"a", b"t", b"\0", b"\xef", b"\xbb", b"\xbf", b"\xef\xbb\xbf"),
    *(b"\xff", b"\xc3", b"\xa9", b"\xf0\x9f", b"\x98\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"\x0b", b"\x0c", b"\x1c"),
]
bodies = st.lists(st.one_of(st.sampled_from(_SPICES), st.sampled_from(LINES), st.binary(max_size=3)), max_size=30).map(
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


def test_a_retry_longer_than_python_converts_is_ignored() -> None:
    """int() refuses more than 4,300 digits with a ValueError, which must not come out of `feed`."""
    decoder = SSEDecoder()
    assert decoder.feed(b"retry: " + b"9" * 5_000 + b"\ndata: a\n\n") == [E("message", "a")]
    assert decoder.reconnection_time_ms is None


# --- the limit --------------------------------------------------------------------------------------------------------


def until_limit(chunks: Iterable[bytes], bound: int) -> tuple[list[ServerSentEvent], bool]:
    """The events before the limit struck, and whether it did; from then on it must strike always."""
    events, failure = until_failure(SSEDecoder(max_event_bytes=bound), chunks)
    assert failure == "" or (failure.startswith("LimitError: ") and failure.endswith(f" max_event_bytes={bound}"))
    return events, failure != ""


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


@rows(
    "chunk, bound, datas, is_over",
    [
        # The bound is on one event, not on the stream.
        (b"data: a\n\n" * 1_000, 8, ["a"] * 1_000, False),
        # Events that arrived whole are handed out first.
        (b"data: a\n\ndata: 0123456789\n\n", 10, ["a"], True),
        # A line without an end must not fill the memory.
        (b"data: 0123", 10, [], False),
        (b"data: 01234", 10, [], True),
        # `data:` lines without a value take memory, too: a million of them is an event of five million bytes.
        (b"data:\n" * 3 + b"\n", 15, ["\n\n"], False),
        (b"data:\n" * 4 + b"\n", 15, [], True),
        (b"data\n" * 4 + b"\n", 15, [], True),
        # Fields with names that nobody knows are lines of the event like others.
        (b"x: y\n" * 5, 15, [], True),
        # A stream may be kept alive with comments for as long as it likes, also inside an event.
        (b"data: a\n" + b": still here\n" * 1_000 + b"\n", 20, ["a"], False),
        # Neither the event nor the comment is over the limit.
        (b"data: abc\n: 12345678\n\n", 10, ["abc"], False),
        # A comment without an end must not fill the memory either.
        (b": 12345678\n", 10, [], False),
        (b": 123456789\n", 10, [], True),
        (b": 123456789", 10, [], True),
    ],
)
def test_what_counts(chunk: bytes, bound: int, datas: list[str], is_over: bool) -> None:
    """The lines of an event do, and each comment by itself."""
    assert until_limit([chunk], bound) == ([E("message", data) for data in datas], is_over)


def test_the_default_limit() -> None:
    """The decoder's own default is the one of `Limits`."""
    decoder = SSEDecoder()
    assert decoder.feed(b"data:" + b"x" * (ParsingLimits().max_event_bytes - 5)) == []
    with pytest.raises(LimitError):
        decoder.feed(b"x")


def test_a_line_in_very_many_chunks_comes_out_whole() -> None:
    """A large event in small chunks is ordinary; a buffer that is copied for each chunk would take minutes here."""
    line = b"data: " + bytes(range(32, 127)) * 20_000
    body = line + b"\n\n"
    chunks = [body[at : at + 19] for at in range(0, len(body), 19)]
    assert len(chunks) > 100_000
    assert decoded(chunks)[0] == [E("message", line[6:].decode())]
