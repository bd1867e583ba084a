r"""The format of a recorded stream: the body of a response in chunks, each with its arrival time.

A file is JSON Lines. The first line describes the response. Each other line is a chunk:

    {"eagerstream_recording": 1, "status": 200, "headers": {"content-type": "text/event-stream"}, "note": ""}
    {"at_s": 0.412, "data": "event: message_start\ndata: ..."}
    {"at_s": 0.498, "base64": "4pyT..."}

Text is stored as text, so a recording can be read and compared line by line. A transport may cut a character in the
middle: a chunk that is not valid UTF-8 by itself is stored as base64. A plain body (`.sse`, `.txt`) is a recording too,
with everything at 0 s.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eagerstream_wire import AWSEventStreamDecoder, SSEDecoder, decode_event

from .._support.files import replacing
from .._support.terms import media_type
from ..errors import ProtocolError, UsageError

if TYPE_CHECKING:
    from .._support.redaction import FindSecrets

_VERSION: Final = 1
_VERSION_KEY: Final = "eagerstream_recording"
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token, RFC 9110, section 5.6.2
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # one line that fits in Latin-1


class Chunk(NamedTuple):
    """Bytes that arrived together.

    Attributes:
        at_s: Arrival time, in seconds after the request was sent.
        data: The bytes, after any content encoding (such as gzip) was undone. They may end anywhere.
    """

    at_s: float
    data: bytes

    def __repr__(self) -> str:
        return f"Chunk(at_s={self.at_s!r}, {len(self.data)} bytes)"


@dataclass(frozen=True)
class Recording:
    """A response as it came over the wire.

    It contains the model's text and the response headers unmasked. `redacted` and `save` mask the secrets in both.

    Attributes:
        chunks: The body, in the order of arrival.
        status: HTTP status, 200 to 599.
        headers: Headers of the response.
        note: The origin of the recording, in words.

    Raises:
        UsageError: An arrival time is no number, negative, not finite, or before the one of an earlier chunk. Or HTTP
            does not allow the status or a header. Or `note` is not a text.
    """

    chunks: tuple[Chunk, ...]
    status: int = 200
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"content-type": "text/event-stream; charset=utf-8"}, hash=False
    )
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
        object.__setattr__(self, "headers", dict(self.headers))  # later changes by the caller have no effect

    def __repr__(self) -> str:
        # Without the contents: a model's text and response headers do not belong in a log.
        size = sum(len(chunk.data) for chunk in self.chunks)
        return f"<Recording {self.status}, {size} bytes in {len(self.chunks)} chunks, {self.duration_s:g} s>"

    @property
    def body(self) -> bytes:
        """All chunks, joined."""
        return b"".join(chunk.data for chunk in self.chunks)

    @property
    def media_type(self) -> str:
        """The media type that the headers give, for example `"text/event-stream"`; empty if they give none."""
        return media_type(next((value for name, value in self.headers.items() if name.lower() == "content-type"), ""))

    @property
    def duration_s(self) -> float:
        """Seconds from the request to the last chunk; 0 if there is none."""
        return self.chunks[-1].at_s if self.chunks else 0.0

    @classmethod
    def from_body(cls, body: bytes) -> Recording:
        """Return a recording of a body without arrival times: one chunk, at 0 s."""
        return cls((Chunk(0.0, body),))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Load the recording in a file: `.jsonl` with arrival times, `.sse` or `.txt` for a plain body.

        Raises:
            UsageError: The file cannot be read, has another suffix, or does not parse. A parse error names the line.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in {".jsonl", ".sse", ".txt"} and path.exists():
            raise UsageError(f"{path}: a recording is a .jsonl, .sse or .txt file")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
        if suffix == ".jsonl":
            return _parse(content, path)
        decoder = SSEDecoder(max_event_bytes=len(content) + 1)  # the file is already in memory
        for event in decoder.feed(content):
            try:
                decode_event(event.data)
            except ProtocolError:
                continue
            return cls.from_body(content)  # one event of the Messages API is enough
        numbered = enumerate(content.splitlines(), 1)
        first_data = next((number for number, line in numbered if line.startswith(b"data")), 1)
        raise _fault(path, first_data, "expected server-sent events of the Messages API")

    def redacted(
        self, *, contents: bool = False, input_keys: Collection[str] = (), find: FindSecrets | None = None
    ) -> Recording:
        """Return a copy without secrets: keys and tokens in the body, credentials and the sender's ids in the headers.

        Each byte of a secret in the body becomes a `*`, even if a model wrote the secret in pieces. Events, chunks and
        times keep their places, so the copy still plays. Everything else that was said stays, unless `contents` is set.

        Args:
            contents: Also mask everything that was said: texts, thinking and signatures, citations, tool inputs,
                results of server tools, error texts. Types, ids, tool names, stop reasons, usage and the API's own
                field names stay. Each input stays as valid as it was; JSON keeps its structure.
            input_keys: With `contents`, the keys of inputs to keep: those that the tools of the request declare, which
                are no words of the model. Other keys become different keys of the same length.
            find: Finds further secrets: it gets each text, and returns the places of secrets in it, `[(start, end),
                ...]`. If it raises, the complete text is masked.

        Raises:
            UsageError: The body is not text (an AWS event stream), so it cannot be masked.
        """
        if self.media_type == AWSEventStreamDecoder.media_type:
            raise UsageError("nothing can be masked in binary frames: save(redact=False) keeps them as they are")
        from .._support.redaction import finding_also, redact_headers, redact_text
        from ._redacted_body import redacted_body

        body = self.body
        if contents:
            from ._redacted_contents import masked_contents

            body = masked_contents(body, input_keys)
        with finding_also(find):
            body = redacted_body(body)
            headers, note = redact_headers(self.headers), redact_text(self.note)
        chunks: list[Chunk] = []
        at = 0
        for chunk in self.chunks:
            chunks.append(Chunk(chunk.at_s, body[at : at + len(chunk.data)]))
            at += len(chunk.data)
        return replace(self, chunks=tuple(chunks), headers=headers, note=note)

    def encoded(self) -> bytes:
        """Return the unmasked content of a `.jsonl` file with this recording."""
        header = {_VERSION_KEY: _VERSION, "status": self.status, "headers": dict(self.headers), "note": self.note}
        # The model's text stays readable. The note may contain half a surrogate pair, which only an escape can express.
        lines = [json.dumps(header)]
        for at_s, data in self.chunks:
            try:
                lines.append(json.dumps({"at_s": at_s, "data": data.decode()}, ensure_ascii=False))
            except UnicodeDecodeError:
                lines.append(json.dumps({"at_s": at_s, "base64": base64.b64encode(data).decode("ascii")}))
        return "".join(f"{line}\n" for line in lines).encode()

    def save(self, path: str | os.PathLike[str], *, redact: bool | FindSecrets = True) -> None:
        """Write the recording to a `.jsonl` file.

        Only the owner may read the file. It appears under its name only when it is complete and on the disk.

        Args:
            path: Path of the file. An existing file is replaced; an existing link is replaced too, not followed.
            redact: Write the copy that `redacted` returns. With False, the file contains all secrets of the response,
                and `load` returns an equal recording. A function finds further secrets, as `find` of `redacted`.

        Raises:
            UsageError: The file cannot be written or has another suffix. Or the secrets cannot be masked, see
                `redacted`.
        """
        path = Path(path)
        if path.suffix.lower() != ".jsonl":
            raise UsageError(f"{path}: a recording with its times is saved as a .jsonl file")
        find = redact if callable(redact) else None
        content = (self.redacted(find=find) if redact else self).encoded()
        try:
            with replacing(path) as file:
                file.write(content)
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error


# --- checks -----------------------------------------------------------------------------------------------------------


def _time_fault(at_s: object, earlier: float) -> str | None:
    """Return the fault of an arrival time, given the previous time; None if it is valid."""
    if isinstance(at_s, bool) or not isinstance(at_s, (int, float)):
        return f"at_s must be a number of seconds, not {at_s!r}"
    if not 0 <= at_s <= sys.float_info.max:  # an integer may exceed all floats; NaN is in no range
        return f"at_s must be finite and not negative, not {at_s!r:.40}"
    if at_s < earlier:
        return f"at_s must not decrease: {at_s!r} after {earlier!r}"
    return None


def _response_fault(status: object, headers: object, note: object) -> str | None:
    """Return the fault of the status, the headers or the note; None if they are valid."""
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


# --- lines of a file --------------------------------------------------------------------------------------------------


def _parse(content: bytes, path: Path) -> Recording:
    # Cut at line feeds only: a JSON string may contain U+2028 and similar separators.
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise _fault(path, 1, f"expected an object with {_VERSION_KEY!r}")
    number, line = lines[0]
    header = _parse_object(line, path, number)
    if _VERSION_KEY not in header:
        raise _fault(path, number, f"expected an object with {_VERSION_KEY!r}")
    if header[_VERSION_KEY] != _VERSION:
        raise _fault(path, number, f"version {header[_VERSION_KEY]!r} of the format is not known, only {_VERSION}")
    chunks: list[Chunk] = []
    earlier = 0.0
    for at, written in lines[1:]:
        fields = _parse_object(written, path, at)
        at_s = fields.get("at_s")
        fault = _time_fault(at_s, earlier)
        if fault:
            raise _fault(path, at, fault)
        assert isinstance(at_s, (int, float))
        chunks.append(Chunk(at_s, _parse_data(fields, path, at)))
        earlier = at_s
    known = {name: header[name] for name in ("status", "headers", "note") if name in header}
    try:
        return Recording(tuple(chunks), **known)
    except UsageError as error:
        raise _fault(path, number, str(error)) from error


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
