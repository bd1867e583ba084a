"""What a command prints, in whatever pieces it comes; and how a command is written into a frame."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, strategies as st

from eagerstream_toolkit._bash.frame import Frame
from eagerstream_toolkit._bash.output import MAX_REST_BYTES, MarkFinder, Output


def fed(pieces: list[bytes], max_chars: int) -> Output:
    """All of it, to the end."""
    output = Output(max_chars)
    for piece in pieces:
        output.feed(piece)
    output.close()
    return output


@pytest.mark.slow
@given(st.lists(st.binary()), st.integers(1, 40))
def test_pieces_do_not_matter(pieces: list[bytes], max_chars: int) -> None:
    """The text, the count and the cut are those of the whole."""
    whole = b"".join(pieces)
    cut, uncut = fed(pieces, max_chars), fed([whole], max_chars)
    assert (cut.text(), cut.lines, cut.is_truncated) == (uncut.text(), uncut.lines, uncut.is_truncated)
    text = whole.decode(errors="replace")
    assert cut.lines == len(text.split("\n")) - (text.endswith("\n") or not text)
    assert cut.is_truncated == (len(text) > max_chars)
    assert cut.is_truncated or cut.text() == text.removesuffix("\n")
    assert cut.end(5) == text[-min(5, max_chars) :]
    assert cut.size_bytes == len(whole)


@given(
    st.lists(st.sampled_from([b"a", b"b", b"ab", b"aab", b"\n", b"aabaa"])), st.sampled_from([b"aab", b"abab", b"aa\n"])
)
def test_a_mark_in_pieces(pieces: list[bytes], mark: bytes) -> None:
    """What is before it and behind it are those of the whole; nothing waits that cannot be its beginning."""
    finder = MarkFinder(mark)
    before = b""
    for number, piece in enumerate(pieces):
        before += finder.feed(piece)
        whole = b"".join(pieces[: number + 1])
        if not finder.is_found:
            waiting = whole[len(before) :]
            assert mark.startswith(waiting)
            assert whole.startswith(before)
    whole = b"".join(pieces)
    assert finder.is_found == (mark in whole)
    expected, _, rest = whole.partition(mark)
    assert before + finder.close() == expected
    assert finder.rest == rest


def test_what_comes_behind_a_mark_is_bounded() -> None:
    """A background job that prints without end, while the shell's report is late, fills no memory."""
    finder = MarkFinder(b"mark")
    assert finder.feed(b"before" + b"mark" + b"x") == b"before"
    for _ in range(100):
        assert finder.feed(b"y" * 65_536) == b""
    assert finder.rest == b"x" + b"y" * (MAX_REST_BYTES - 1)
    finder = MarkFinder(b"mark")
    finder.feed(b"mark" + b"y" * 1_000_000)
    assert len(finder.rest) == MAX_REST_BYTES


@pytest.mark.slow
def test_memory_is_bounded() -> None:
    """However much comes, in pieces of any size."""
    output = Output(1_000)
    for size in (1, 10, 1_000, 100_000):
        for _ in range(2_000_000 // size if size > 1 else 20_000):
            output.feed(b"x" * size)
        assert len(output.end(10**9)) <= 3_500 + size
    assert output.is_truncated


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("".join(map(chr, range(1, 128))), id="all of ASCII"),
        pytest.param("\\n\\'$'\\\\'\n\"'\"\r\n`x` $x !! {} %s %(x)s {word}", id="what is special to shells and to us"),
        pytest.param("é 日本 😀 \ud800", id="no ASCII, half a surrogate pair"),
    ],
)
def test_a_command_arrives_as_it_is(command: str) -> None:
    """`eval` gets the text of the command, to the byte."""
    eval_is_cat = 'eval() { printf %s "$1"; }\n'
    script = eval_is_cat.encode() + Frame(command).script
    done = subprocess.run(["bash", "--norc"], input=script, capture_output=True, check=True)
    assert done.stdout.startswith(command.encode(errors="replace"))


def test_words_are_new_for_each_command() -> None:
    """What was seen of one is worth nothing for the next."""
    first, second = Frame("a"), Frame("a")
    assert first.mark != second.mark
    assert first.script != second.script
    assert first.mark.strip() not in first.script
