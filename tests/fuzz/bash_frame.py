"""`Frame` and what reads a shell's answer: nothing that a command prints passes for its end."""

from __future__ import annotations

import re
from typing import Final

from eagerstream_toolkit._bash.frame import Frame
from eagerstream_toolkit._bash.output import MAX_REST_BYTES, Output
from eagerstream_toolkit._bash.session import _Exchange

from .choices import Choices, pieces
from .cost import check_cost, check_kept, is_sampled

_MAX_CHARS: Final = (1, 2, 7, 100, 3_000)
_NOTICE_CHARS: Final = 60
_NO_WORD: Final = "0" * 32
_PRINTED: Final = (
    b"\n", b"'", b"trap -- '", b"' EXIT\n", b"EXIT", b"unfit", b"0 braceexpand", b"\xf0\x9f", b"\xff", b"\0", b"a", b" 7 x",
)  # fmt: skip
_UNESCAPED: Final = {"n": "\n", "r": "\r", "\\": "\\", "'": "'"}


def check(data: bytes) -> None:
    """What the shell says ends a command, at its own place, and nothing else does; any cut gives the same."""
    choices = Choices(data)
    max_chars, has_report, has_mark = choices.pick(_MAX_CHARS), choices.below(2), choices.below(2)
    seed = Choices(choices.take(8))
    frame, old = Frame(choices.take(choices.below(40)).decode("utf-8", "surrogateescape").replace("\0", "")), Frame(":")
    _check_script(frame)
    mark = frame.mark if has_mark else b""
    report = _report(frame, b"7 braceexpand:hashall") if has_report else b""
    before, behind = _printed(choices, frame, old), _printed(choices, frame, old)
    noise, more_noise = _printed(choices, frame, old), _printed(choices, frame, old)
    stdout, stderr = pieces(seed, before + mark + behind), pieces(seed, noise + report + more_noise)

    exchange, output = _read(frame, max_chars, stdout, stderr)
    assert exchange.is_over == bool(has_report and has_mark)
    assert (exchange.report is not None) == bool(has_report)
    if exchange.report is not None:
        assert exchange.report == (7, True)
    text = (before if has_mark else before + behind).decode("utf-8", "replace")
    assert output.size_bytes == len(before if has_mark else before + behind)
    assert output.is_truncated == (len(text) > max_chars)
    assert output.is_truncated or output.text() == text.removesuffix("\n")
    assert len(output.text()) <= max_chars + _NOTICE_CHARS
    assert exchange.rest == (behind[:MAX_REST_BYTES] if has_mark else b"")
    if is_sampled(data, 200):
        size = len(before) + len(behind) + len(noise) + len(more_noise) + 40 * (len(stdout) + len(stderr))
        check_cost(
            lambda: _read(frame, max_chars, stdout, stderr),
            size,
            lines_per_unit=4,  # up to 48 lines look for the beginning of a mark at the end of a piece
            bytes_per_unit=32,
        )
        flood = [mark, *[b"x" * 4096] * 60]
        check_kept(lambda: _read(frame, max_chars, flood, flood), 16 * max_chars + MAX_REST_BYTES)


def _check_script(frame: Frame) -> None:
    """It is one line, from which bash reads the command as it was."""
    script = frame.script.decode()
    assert script.count("\n") == 1
    quoted = re.match(r"\\eval \$'((?:[^'\\]|\\.)*)' </dev/null ", script)
    assert quoted is not None
    command = re.sub(r"\\(.)", lambda escape: _UNESCAPED[escape[1]], quoted[1])
    assert "\n" not in quoted[1]
    assert Frame(command).script.decode().startswith(quoted[0])


def _read(frame: Frame, max_chars: int, stdout: list[bytes], stderr: list[bytes]) -> tuple[_Exchange, Output]:
    output = Output(max_chars)
    exchange = _Exchange(frame, output)
    for number in range(max(len(stdout), len(stderr))):
        if number < len(stdout):
            exchange.take_output(stdout[number])
        if number < len(stderr):
            exchange.take_control(stderr[number])
    exchange.close()
    return exchange, output


def _report(frame: Frame, said: bytes) -> bytes:
    word = re.search(r'\\trap "([0-9a-f]{32}) \$POSIXLY', frame.script.decode())
    assert word is not None
    return b"trap -- '" + word[1].encode() + b" " + said + b"' EXIT\n"


def _printed(choices: Choices, frame: Frame, old: Frame) -> bytes:
    """Bytes as they are, and what resembles marks and reports: of earlier frames, cut off, with words that are guessed."""
    printed = b""
    for _ in range(choices.below(12)):
        match choices.below(8):
            case 0:
                printed += choices.take(choices.below(20))
            case 1:
                printed += old.mark
            case 2:
                printed += _report(old, b"0 braceexpand")
            case 3:
                printed += frame.mark[: choices.below(len(frame.mark) - 1)] + b"\n"
            case 4:
                printed += _report(frame, b"7 x")[: choices.below(43)] + b"\n"
            case 5:
                printed += f"trap -- '{_NO_WORD} 0 braceexpand' EXIT\n".encode()
            case _:
                printed += choices.pick(_PRINTED) * choices.pick((1, 1, 3, choices.room // 2))
    return printed
