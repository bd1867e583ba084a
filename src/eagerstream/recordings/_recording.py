r"""The format of a recorded stream: the body of a reply in chunks, each with the time at which it arrived.

A file is JSON Lines. The first line describes the reply, each other line is a chunk:

    {"eagerstream_recording": 1, "status": 200, "headers": {"content-type": "text/event-stream"}, "note": ""}
    {"at_s": 0.412, "data": "event: message_start\ndata: ..."}
    {"at_s": 0.498, "base64": "4pyT..."}

Text is kept as text, so that a recording can be read and compared line by line; a chunk that is not UTF-8 by itself
(the transport may cut in the middle of a character) is kept as base64. A plain body (`.sse`, `.txt`) is a recording
too, with everything at 0.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from .._support.files import replacing
from ..errors import ProtocolError, UsageError
from ..wire import AWSEventStreamDecoder, SSEDecoder, decode_event

_VERSION: Final = 1
_VERSION_KEY: Final = "eagerstream_recording"
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token, RFC 9110, section 5.6.2
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # one line that fits in Latin-1


def media_type(content_type: str) -> str:
    """A content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


class Chunk(NamedTuple):
    """Bytes that arrived together.

    Attributes:
        at_s: When they arrived: seconds after the request was sent.
        data: The bytes, after any content encoding (gzip, say) was undone; they may end anywhere.
    """

    at_s: float
    data: bytes

    def __repr__(self) -> str:
        return f"Chunk(at_s={self.at_s!r}, {len(self.data)} bytes)"


def _event_stream_headers() -> dict[str, str]:
    return {"content-type": "text/event-stream; charset=utf-8"}


@dataclass(frozen=True)
class Recording:
    """A reply as it came over the wire.

    Nothing in it is redacted, neither what the model wrote nor the headers of the response; `redacted` and `save` mask
    the secrets in both.

    Attributes:
        chunks: The body, in the order of arrival.
        status: HTTP status, 200 to 599.
        headers: Headers of the response.
        note: Where it comes from, in words.

    Raises:
        UsageError: An arrival time is negative, not finite, or before the one of an earlier chunk; a status or header
            that HTTP does not have.
    """

    chunks: tuple[Chunk, ...]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=_event_stream_headers, hash=False)
    note: str = ""

    def __post_init__(self) -> None:
        chunks = tuple(Chunk(*chunk) for chunk in self.chunks)
        earlier = 0.0
        for number, chunk in enumerate(chunks):
            fault = _time_fault(chunk.at_s, earlier)
            if fault:
                raise UsageError(f"chunk {number} of the recording: {fault}")
            earlier = chunk.at_s
        fault = _response_fault(self.status, self.headers, self.note)
        if fault:
            raise UsageError(fault)
        object.__setattr__(self, "chunks", chunks)
        object.__setattr__(self, "headers", dict(self.headers))  # what the caller changes later stays out

    def __repr__(self) -> str:
        # Never what is in it: what a model wrote, and the headers of a response, do not belong in a log.
        size = sum(len(chunk.data) for chunk in self.chunks)
        return f"<Recording {self.status}, {size} bytes in {len(self.chunks)} chunks, {self.duration_s:g} s>"

    @property
    def body(self) -> bytes:
        """All chunks, joined."""
        return b"".join(chunk.data for chunk in self.chunks)

    @property
    def media_type(self) -> str:
        """What the body is by its headers, for example `"text/event-stream"`; empty where they do not say."""
        return media_type(next((value for name, value in self.headers.items() if name.lower() == "content-type"), ""))

    @property
    def duration_s(self) -> float:
        """Seconds from the request to the last chunk; 0 where there is none."""
        return self.chunks[-1].at_s if self.chunks else 0.0

    @classmethod
    def from_body(cls, body: bytes) -> Recording:
        """A body without arrival times: one chunk, at 0."""
        return cls((Chunk(0.0, body),))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """The recording in a file: `.jsonl` with arrival times, `.sse` or `.txt` a plain body.

        Raises:
            UsageError: The file cannot be read, has another suffix, or does not parse; names the file and the line.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in {".jsonl", ".sse", ".txt"}:
            raise UsageError(f"{path}: a recording is a .jsonl, .sse or .txt file")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
        if suffix == ".jsonl":
            return _parse(content, path)
        if not _holds_wire_event(content):
            raise _fault(path, _first_data_line(content), "expected server-sent events of the Messages API")
        return cls.from_body(content)

    def redacted(self, *, contents: bool = False, input_keys: Collection[str] = ()) -> Recording:
        """The same without secrets: keys, tokens and the like in the body, credentials and the sender's ids in headers.

        In the body each byte of a secret becomes a `*`, also where a model wrote it in pieces, so that events, chunks
        and their times stay where they were and it still plays. Apart from secrets, what was said is kept, unless
        `contents` go, too.

        Args:
            contents: Mask all that was said as well: texts, thinking and signatures, citations, inputs of tools,
                results of server tools, the words of errors. Types, ids, names of tools, stop reasons, usage, and the
                API's own names of fields stay; each input is as valid as it was, and of the same structure where it is
                JSON.
            input_keys: With `contents`, the keys of inputs that stay as they are: those that the tools of the request
                declare, which are no words of the model. Others become other keys of the same length.

        Raises:
            UsageError: The body is not text (an AWS event stream): nothing in it can be masked.
        """
        if self.media_type == AWSEventStreamDecoder.media_type:
            raise UsageError("nothing can be masked in binary frames: save(redact=False) keeps them as they are")
        from .._support.redaction import redact_headers, redact_text
        from ._redacted_body import redacted_body

        body = self.body
        if contents:
            from ._redacted_contents import masked_contents

            body = masked_contents(body, input_keys)
        body = redacted_body(body)
        chunks: list[Chunk] = []
        at = 0
        for chunk in self.chunks:
            chunks.append(Chunk(chunk.at_s, body[at : at + len(chunk.data)]))
            at += len(chunk.data)
        return replace(self, chunks=tuple(chunks), headers=redact_headers(self.headers), note=redact_text(self.note))

    def encoded(self) -> bytes:
        """The content of a `.jsonl` file with it, as it is."""
        header = {_VERSION_KEY: _VERSION, "status": self.status, "headers": dict(self.headers), "note": self.note}
        # The model's text stays readable; the note may hold half a surrogate pair, which only an escape can say.
        lines = [json.dumps(header), *(json.dumps(_chunk_line(chunk), ensure_ascii=False) for chunk in self.chunks)]
        return "".join(f"{line}\n" for line in lines).encode()

    def save(self, path: str | os.PathLike[str], *, redact: bool = True) -> None:
        """Write the recording to a `.jsonl` file.

        Only the owner may read the file. It takes its place when it is complete and on the disk.

        Args:
            path: Of the file. A file that is there is replaced; so is a link, which is not followed.
            redact: Write it as `redacted` gives it. With False, `load` gives back an equal recording, and the file has
                whatever was secret in the reply.

        Raises:
            UsageError: The file cannot be written, or has another suffix; or the secrets cannot be masked, see
                `redacted`.
        """
        path = Path(path)
        if path.suffix.lower() != ".jsonl":
            raise UsageError(f"{path}: a recording with its times is saved as a .jsonl file")
        content = (self.redacted() if redact else self).encoded()
        try:
            with replacing(path) as file:
                file.write(content)
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error


# --- what is allowed --------------------------------------------------------------------------------------------------


def _time_fault(at_s: object, earlier: float) -> str | None:
    """What is wrong with an arrival time, given the one before it; None where nothing is."""
    if isinstance(at_s, bool) or not isinstance(at_s, (int, float)):
        return f"at_s must be a number of seconds, not {at_s!r}"
    if not 0 <= at_s <= sys.float_info.max:  # an integer may be beyond all floats; NaN is not in any range
        return f"at_s must be finite and not negative, not {at_s!r:.40}"
    if at_s < earlier:
        return f"at_s must not decrease: {at_s!r} after {earlier!r}"
    return None


def _response_fault(status: object, headers: object, note: object) -> str | None:
    """What is wrong with what is known of a reply besides its body; None where nothing is."""
    if type(status) is not int or not 200 <= status <= 599:
        return f"status must be an HTTP status from 200 to 599, not {status!r}"
    if not isinstance(note, str):
        return f"note must be a text, not {type(note).__name__}"
    if not isinstance(headers, Mapping):
        return f"headers must be an object, not {type(headers).__name__}"
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            return f"{name!r:.80} is not the name of a header"
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            return f"the header {name} must be one line of Latin-1 text"
    return None


def _holds_wire_event(body: bytes) -> bool:
    """At least one server-sent event of `body` is an event of the Messages API."""
    decoder = SSEDecoder(max_event_bytes=len(body) + 1)  # the file is in memory already
    for event in decoder.feed(body):
        try:
            decode_event(event.data)
        except ProtocolError:
            continue
        return True
    return False


def _first_data_line(body: bytes) -> int:
    """Number of the first line that has data, from 1: where a body that does not parse went wrong."""
    lines = body.splitlines()
    return next((number for number, line in enumerate(lines, 1) if line.startswith(b"data")), 1)


# --- lines of a file --------------------------------------------------------------------------------------------------


def _chunk_line(chunk: Chunk) -> dict[str, Any]:
    try:
        return {"at_s": chunk.at_s, "data": chunk.data.decode()}
    except UnicodeDecodeError:
        return {"at_s": chunk.at_s, "base64": base64.b64encode(chunk.data).decode("ascii")}


def _parse(content: bytes, path: Path) -> Recording:
    # Cut at line feeds only: U+2028 and its like may stand inside a JSON string.
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise _fault(path, 1, f"expected an object with {_VERSION_KEY!r}")
    number, line = lines[0]
    header = _parse_object(line, path, number)
    if _VERSION_KEY not in header:
        raise _fault(path, number, f"expected an object with {_VERSION_KEY!r}")
    if header[_VERSION_KEY] != _VERSION:
        raise _fault(path, number, f"version {header[_VERSION_KEY]!r} of the format is not known, only {_VERSION}")
    chunks = _parse_chunks(lines[1:], path)
    known = {name: header[name] for name in ("status", "headers", "note") if name in header}
    try:
        return Recording(chunks, **known)
    except UsageError as error:
        raise _fault(path, number, str(error)) from error


def _parse_chunks(lines: Iterable[tuple[int, bytes]], path: Path) -> tuple[Chunk, ...]:
    chunks: list[Chunk] = []
    earlier = 0.0
    for number, line in lines:
        fields = _parse_object(line, path, number)
        at_s = fields.get("at_s")
        fault = _time_fault(at_s, earlier)
        if fault:
            raise _fault(path, number, fault)
        assert isinstance(at_s, (int, float))
        chunks.append(Chunk(at_s, _parse_data(fields, path, number)))
        earlier = at_s
    return tuple(chunks)


def _parse_object(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise _fault(path, number, "expected a JSON object") from error
    if not isinstance(value, dict):
        raise _fault(path, number, "expected a JSON object")
    return value


def _parse_data(fields: Mapping[str, Any], path: Path, number: int) -> bytes:
    try:
        match fields.get("data"), fields.get("base64"):
            case str(text), None:
                return text.encode()
            case None, str(encoded):
                return base64.b64decode(encoded, validate=True)
            case _:
                raise _fault(path, number, 'expected either "data" or "base64", a string')
    except ValueError as error:
        raise _fault(path, number, "the data is neither text nor base64") from error


def _fault(path: Path, number: int, what: str) -> UsageError:
    return UsageError(f"{path}, line {number}: {what}")
