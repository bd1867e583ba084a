"""`Recording.load`: files of any content."""

from __future__ import annotations

import atexit
import base64
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from eagerstream.errors import UsageError
from eagerstream.recordings import Recording

from .choices import Choices, pieces
from .cost import check_cost, is_sampled
from .wire_text import body

_SUFFIXES: Final = (".jsonl", ".jsonl", ".jsonl", ".sse")
_HEADER: Final = {
    "eagerstream_recording": 1,
    "status": 200,
    "headers": {"content-type": "text/event-stream"},
    "note": "",
}
_GARBAGE: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 2, 1.5, 599, 600, 10**4_200, float("inf"), float("nan"), "", "x\ny", "\ud800", "?", [], {}, [[]],
    {"a": 1}, {"a b": "c"}, {"a": "b\r\nc: d"}, {"é": "x"}, {"a": "é"}, {"a": "\u0100"}, -0.0, 1e308, 1e-320,
)  # fmt: skip


def check(data: bytes) -> None:
    """A file is a recording that can be saved and loaded again, or is refused in one line that names it."""
    choices = Choices(data)
    suffix = choices.pick(_SUFFIXES)
    structured = choices.below(2)
    content = (_recording(choices) if suffix == ".jsonl" else body(choices)) if structured else choices.rest()
    path = _folder() / f"fuzzed{suffix}"
    path.write_bytes(content)
    recording = _load(path)
    if recording is not None:
        _check_recording(recording, suffix, content)
    if is_sampled(data, 500):
        check_cost(
            lambda: _load(path),
            len(content),
            lines_per_unit=12,  # a chunk's line of 22 bytes at least takes some 40 lines
            bytes_per_unit=100,  # a line of one byte takes 130: itself, its number, the pair of them
        )


@cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="eagerstream-fuzz-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _load(path: Path) -> Recording | None:
    try:
        return Recording.load(path)
    except UsageError as error:
        message = str(error)
        assert message.startswith(f"{path}, line ")
        assert len(message.splitlines()) == 1
        return None


def _check_recording(recording: Recording, suffix: str, content: bytes) -> None:
    assert suffix == ".jsonl" or recording.body == content
    assert recording.duration_s >= 0
    copy = _folder() / "saved.jsonl"
    recording.save(copy, redact=False)
    assert Recording.load(copy) == recording
    recording.save(copy)  # what has the form of a secret is masked
    assert Recording.load(copy) == recording.redacted()
    hash(recording)


def _recording(choices: Choices) -> bytes:
    """A file of the format, or nearly."""
    header: dict[str, Any] = dict(_HEADER)
    if choices.below(3) == 0:
        header[choices.pick((*_HEADER, "more"))] = choices.pick(_GARBAGE)
    lines: list[Any] = [header]
    at_s = 0.0
    end = choices.pick(("\n", "\n", "\n", "\r\n", "\n\n", "\r"))
    for piece in pieces(choices, body(choices))[:50]:
        at_s += choices.pick((0, 0, 0.1, 1e-9, 1e9))
        line: dict[str, Any] = {"at_s": at_s}
        if choices.below(2):
            line["base64"] = base64.b64encode(piece).decode()
        else:
            line["data"] = piece.decode("utf-8", "replace")
        if choices.below(16) == 0:
            line[choices.pick(("at_s", "data", "base64", "more"))] = choices.pick(_GARBAGE)
        lines.append(line)
    texts = [json.dumps(line, ensure_ascii=bool(choices.below(2))) for line in lines]
    if choices.below(8) == 0:
        texts.insert(
            choices.below(len(texts) + 1) if len(texts) < 255 else 0, choices.pick(("", "[1]", "{", "null", "[" * 900))
        )
    return "".join(f"{text}{end}" for text in texts).encode("utf-8", "surrogatepass")
