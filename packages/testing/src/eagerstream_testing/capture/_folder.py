"""`RecordingFolder`: writes recordings to a folder without delaying the recorded traffic."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from eagerstream._support.checks import check_count
from eagerstream._support.files import open_private, sync, sync_folder
from eagerstream._support.logs import logger_of
from eagerstream._support.redaction import redact, redact_headers
from eagerstream._support.unpacking import TooManyBytesError, Unpacker, UnpackingError
from eagerstream.errors import UsageError
from eagerstream.recordings import Chunk, Recording

from ._tape import Tape, TapedReply, too_large

ResultT = TypeVar("ResultT")


class RequestFacts(NamedTuple):
    """Facts about a request.

    Attributes:
        model: Name of the model; empty if the request has none.
        input_keys: Keys that the schemas of its tools declare, at any depth; empty unless requested.
    """

    model: str = ""
    input_keys: frozenset[str] = frozenset()


class _Sent:
    """A request to write: its headers, and its body, or the size of that if it is large or no JSON."""

    def __init__(self, headers: Mapping[str, str], request: Mapping[str, Any] | bytes) -> None:
        # At once, because the history grows.
        body = request if isinstance(request, bytes) else json.dumps(request, default=str).encode()
        self._headers = dict(headers)
        self._body_bytes = len(body)
        self._body = body if len(body) <= _MAX_PARSED_BYTES else b""

    @cached_property
    def _parsed(self) -> Any:
        return _parsed(self._body)

    def facts(self) -> RequestFacts:
        """Return the facts of the request; none if its body is large or no JSON."""
        return facts_of(self._parsed, keys=False)

    def encoded(self, *, masks: bool) -> bytes:
        """Return the file of the request."""
        headers, body = self._headers, self._parsed
        if masks:
            headers, body = redact_headers(headers), redact(body)
        told = {"body_bytes": self._body_bytes} if body is None else {"body": body}
        return (json.dumps({"headers": headers, **told}, indent=2) + "\n").encode()


_log = logger_of(__name__)

MAX_REPLY_BYTES: Final = 64 * 1024 * 1024
MAX_HELD_BYTES: Final = 256 * 1024 * 1024
# Parsing is one step of the interpreter, which blocks all other threads. A note is not worth a long block.
_MAX_PARSED_BYTES: Final = 1024 * 1024
_TELLING: Final = (UsageError, UnpackingError)
"""Errors whose texts contain nothing of a response."""
_NAME: Final = re.compile(r"([0-9]{4,9})\.jsonl(?:\.part)?")


@dataclass(frozen=True)
class SavedReply:
    """Recording that was written.

    Attributes:
        path: Path of its file.
        status: HTTP status of the response.
        duration_s: Seconds from the request to the last chunk.
        chunks: Number of chunks.
        body_bytes: Total size of the chunks.
        cut: Reason why the response is incomplete; empty if it is complete.
    """

    path: Path
    status: int
    duration_s: float
    chunks: int
    body_bytes: int
    cut: str


class RecordingFolder:
    """Folder with a file for each response: `0001.jsonl`, `0002.jsonl`, ... in the order of the requests.

    So `eagerstream serve 0001.jsonl 0002.jsonl` plays a conversation. Numbers continue after the existing files, and no
    file is overwritten. The number of a request without a response is skipped. Files can be read only by their owner,
    and get their name when they are complete.

    With `keep_requests`, each response has its request beside it, in `0001.request.json`: the headers, and the body if
    it is JSON of at most 1 MiB, otherwise its size. It is written with the response, and secrets in it are masked.

    A separate thread masks secrets and writes files. Only `flush` and the end of the program wait for it. If a
    recording cannot be written, it is lost, and the same warning is logged only once.

    Args:
        path: The folder. It is created if it is missing.
        keep_secrets: Write keys, tokens, cookies and similar values as they came.
        redact_contents: Mask the contents, too; see `Recording.redacted`. The keys that the request's tools declare
            stay.
        keep_requests: Write the requests, too. Not with `redact_contents`.
        max_reply_bytes: Maximum size of a recorded response; a larger one is skipped with a warning. Each chunk counts
            200 bytes more than its data. A compressed response is unpacked when it is written, within the same limit.
        max_held_bytes: Maximum size of all responses together that are in progress or not written yet. Beyond it, a
            response is skipped with a warning.
        on_saved: Called for each file, in the thread that writes the files.

    Raises:
        UsageError: The folder cannot be created, `redact_contents` is set together with `keep_secrets` or
            `keep_requests`, or a limit is not positive.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keep_secrets: bool = False,
        redact_contents: bool = False,
        keep_requests: bool = False,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        max_held_bytes: int = MAX_HELD_BYTES,
        on_saved: Callable[[SavedReply], object] | None = None,
    ) -> None:
        if keep_secrets and redact_contents:
            raise UsageError("secrets are among the contents: they cannot be kept if contents are masked")
        if keep_requests and redact_contents:
            raise UsageError("requests are contents: they cannot be kept if contents are masked")
        check_count("max_reply_bytes", max_reply_bytes)
        check_count("max_held_bytes", max_held_bytes)
        self.path: Path = Path(path)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be made a folder: {error.strerror or error}") from error
        self.max_reply_bytes = max_reply_bytes
        self.takes_frames = keep_secrets  # their content cannot be masked
        self.lost: int = 0
        """Number of responses that could not be written."""
        self._keep_secrets = keep_secrets
        self._redact_contents = redact_contents
        self._keep_requests = keep_requests
        self._max_held_bytes = max_held_bytes
        self._held_bytes = 0
        self._on_saved = on_saved
        self._begun = 0
        self._before: int | None = None  # the highest number that was there already; known to the writer
        self._told: set[str] = set()
        self._lock = threading.Lock()
        # One thread writes in the order of submission. Python waits for it at the end of the program.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="eagerstream recordings")

    def __repr__(self) -> str:
        return f"<RecordingFolder {str(self.path)!r}>"

    def begin(
        self, request: Mapping[str, Any] | bytes, *, host: str = "", headers: Mapping[str, str] | None = None
    ) -> Tape:
        """Return a tape that records the response to a request that is sent now.

        Args:
            request: Its parameters, which are read here. Or its body, which the writer parses if its keys are needed or
                it has at most 1 MiB. For other bodies, the note lacks the model.
            host: Host of the request, for the note of the recording.
            headers: Its headers, for its file.
        """
        with self._lock:
            self._begun += 1
            number = self._begun
        facts = partial(facts_of, request, keys=self._redact_contents)
        known: Callable[[], RequestFacts] = RequestFacts
        sent = _Sent(headers or {}, request) if self._keep_requests else None
        if not isinstance(request, bytes):
            known = partial(RequestFacts, *facts())
        elif sent is not None:
            known = sent.facts
        elif len(request) <= _MAX_PARSED_BYTES:
            known = facts  # parse it later: waking the writer now would delay the request
        elif self._redact_contents and (parsed := self._later(facts)) is not None:
            known = parsed.result  # parse it now, to drop the body early
        return Tape(self, number, lambda reply: self._later(self._save, reply, known, host, sent))

    def flush(self) -> None:
        """Wait until every finished response is written. This blocks, so do not call it in an event loop."""
        self._writer.submit(int).result()

    # --- for tapes ----------------------------------------------------------------------------------------------------

    def hold(self, size_bytes: int) -> bool:
        """Add to the bytes in memory (a negative size subtracts). Return False if the total would exceed the limit."""
        with self._lock:
            if size_bytes > 0 and self._held_bytes + size_bytes > self._max_held_bytes:
                return False
            self._held_bytes += size_bytes
            return True

    def tell_once(self, what: str) -> None:
        """Log a warning, unless the same text was logged before."""
        if what not in self._told:
            self._told.add(what)
            _log.warning("%s", what)

    # --- the writer ---------------------------------------------------------------------------------------------------

    def _later(self, function: Callable[..., ResultT], *arguments: object) -> Future[ResultT] | None:
        """Submit a function to the writer; return `None` if the program is ending."""
        try:
            return self._writer.submit(function, *arguments)
        except RuntimeError:
            self.tell_once(f"{self.path}: the program ended before a recording was written")
            return None

    def _save(self, reply: TapedReply, known: Callable[[], RequestFacts], host: str, sent: _Sent | None) -> None:
        try:
            recording = self._recording(reply, known(), host)
            path = self._write(reply.number, recording.encoded())
            if sent is not None:
                beside = path.with_suffix(".request.json")
                content = sent.encoded(masks=not self._keep_secrets)
                self._write_new(beside.with_name(f"{beside.name}.part"), beside, content)
        except TooManyBytesError:
            self.tell_once(too_large(self.max_reply_bytes))
            return
        except Exception as error:
            self.lost += 1
            why = error.strerror if isinstance(error, OSError) else error if isinstance(error, _TELLING) else None
            self.tell_once(f"{self.path}: a recording cannot be written: {why or type(error).__name__}")
            return
        finally:
            self.hold(-reply.held_bytes)
        if self._on_saved is not None:
            size_bytes = sum(len(chunk.data) for chunk in recording.chunks)
            times = (recording.duration_s, len(recording.chunks), size_bytes)
            try:
                self._on_saved(SavedReply(path, recording.status, *times, reply.cut))
            except Exception as error:
                self.tell_once(f"on_saved failed: {type(error).__name__}")

    def _recording(self, reply: TapedReply, facts: RequestFacts, host: str) -> Recording:
        origin = ", ".join(part for part in (host, facts.model, f"HTTP {reply.status}") if part)
        note = f"recorded from {origin}" + (f"; {reply.cut}" if reply.cut else "")
        # Unpacked, as a client gets them, with their arrival times.
        unpacker = Unpacker(reply.content_encoding, max_bytes=self.max_reply_bytes)
        unpacked = (Chunk(chunk.at_s, b"".join(unpacker.feed(chunk.data))) for chunk in reply.chunks)
        chunks = tuple(chunk for chunk in unpacked if chunk.data)
        recording = Recording(chunks, reply.status, reply.headers, note)
        if self._keep_secrets:
            return recording
        return recording.redacted(contents=self._redact_contents, input_keys=facts.input_keys)

    def _write(self, number: int, content: bytes) -> Path:
        """Write a new file, and return its path.

        Raises:
            OSError: The file cannot be written.
        """
        if self._before is None:
            found = (_NAME.fullmatch(path.name) for path in self.path.iterdir())
            self._before = max((int(name[1]) for name in found if name is not None), default=0)
        while True:
            path = self.path / f"{self._before + number:04}.jsonl"
            part = path.with_name(f"{path.name}.part")
            try:
                self._write_new(part, path, content)
                return path
            except FileExistsError:
                self._before += 1  # another program records into the same folder

    @staticmethod
    def _write_new(part: Path, path: Path, content: bytes) -> None:
        """Write `path` by way of `part`.

        Only the program that created `part` may create `path`, so two programs cannot write the same name. Since `part`
        must be new, nothing is written through a link.

        Raises:
            FileExistsError: One of the two files exists.
            OSError: The file cannot be written.
        """
        descriptor = open_private(str(part), os.O_WRONLY | getattr(os, "O_BINARY", 0))
        try:
            with os.fdopen(descriptor, "wb") as file:
                if os.path.lexists(path):
                    raise FileExistsError(path)
                file.write(content)
                sync(file)
            part.rename(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


_MAX_MODEL_CHARS: Final = 100


# --- the request ------------------------------------------------------------------------------------------------------


def _parsed(body: bytes) -> Any:
    """Return a body, which may be any bytes, as JSON; None if it is not."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def facts_of(request: object, *, keys: bool = True) -> RequestFacts:
    """Return the facts of a request, in time linear in its size.

    Args:
        request: Its parameters, or its body, which may be any bytes; anything else has no facts.
        keys: Collect the keys of tool inputs, too.
    """
    if isinstance(request, bytes):
        request = _parsed(request)
    if not isinstance(request, Mapping):
        return RequestFacts()
    model = request.get("model")
    tools = request.get("tools")
    listed = tools if keys and isinstance(tools, list | tuple) else ()
    declared = _declared_keys([tool.get("input_schema") for tool in listed if isinstance(tool, Mapping)])
    return RequestFacts(model[:_MAX_MODEL_CHARS] if isinstance(model, str) else "", declared)


def _declared_keys(schemas: list[Any]) -> frozenset[str]:
    keys: set[str] = set()
    seen: set[int] = set()
    pending: list[Any] = schemas
    while pending:
        schema = pending.pop()
        if id(schema) in seen:
            continue
        if isinstance(schema, Mapping):
            seen.add(id(schema))  # a schema made in code may contain itself
            for name, inner in schema.items():
                if name == "properties" and isinstance(inner, Mapping):  # a property may have that name itself
                    keys.update(key for key in inner if isinstance(key, str))
                    pending += inner.values()
                else:
                    pending.append(inner)
        elif isinstance(schema, list | tuple):
            seen.add(id(schema))
            pending += schema
    return frozenset(keys)
