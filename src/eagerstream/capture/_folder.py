"""`RecordingFolder`: where recordings go, and how they get there without delaying what they are of."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from .._support.files import open_private, sync, sync_folder
from .._support.unpacking import TooManyBytesError, Unpacker, UnpackingError
from ..errors import UsageError
from ..recordings import Chunk, Recording
from ..wire import check_count
from ._tape import Tape, TapedReply, too_large

ResultT = TypeVar("ResultT")


class RequestFacts(NamedTuple):
    """What is known of a request.

    Attributes:
        model: Its name; empty where the request has none.
        input_keys: The keys that the schemas of its tools declare, at any depth, where they were asked for.
    """

    model: str = ""
    input_keys: frozenset[str] = frozenset()


_log = logging.getLogger(__name__)

MAX_REPLY_BYTES: Final = 64 * 1024 * 1024
MAX_HELD_BYTES: Final = 256 * 1024 * 1024
# Parsing is one step of the interpreter, in which other threads stand still. For a note it must not take long.
_MAX_PARSED_BYTES: Final = 1024 * 1024
_TELLING: Final = (UsageError, UnpackingError)
"""Errors whose texts have nothing of a reply in them."""
_NAME: Final = re.compile(r"([0-9]{4,9})\.jsonl(?:\.part)?")


@dataclass(frozen=True)
class SavedReply:
    """A recording that was written.

    Attributes:
        path: Its file.
        status: HTTP status of the reply.
        duration_s: From the request to the last chunk.
        chunks: How many.
        body_bytes: Of all chunks.
        cut: Why the reply is not whole; empty where it is.
    """

    path: Path
    status: int
    duration_s: float
    chunks: int
    body_bytes: int
    cut: str


class RecordingFolder:
    """A folder with a file for each reply: `0001.jsonl`, `0002.jsonl`, ... in the order in which the requests came.

    So `eagerstream serve 0001.jsonl 0002.jsonl` plays a conversation. Numbers go on after those that are there, and no
    file is written over; a request that had no reply leaves its number out. Files can be read by their owner only, and
    have their name when they are whole.

    Secrets are masked, and files written, in a thread of its own: nobody waits for it, but the end of the program, and
    `flush`. What cannot be written is lost, with one warning.

    Args:
        path: The folder, which is made where it is missing.
        keep_secrets: Write keys, tokens, cookies and the like as they came.
        redact_contents: Mask what was said, too; see `Recording.redacted`. The keys that the request's tools declare
            stay.
        max_reply_bytes: A larger reply is not recorded, with a warning. Each chunk counts 200 bytes besides its own. A
            compressed reply is unpacked when it is written, within the same bound.
        max_held_bytes: The same for all replies together that are under way, or not written yet.
        on_saved: Told of each file, in the thread that writes them.

    Raises:
        UsageError: The folder cannot be made, contents are to be masked while secrets are kept, or a bound is not
            positive.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keep_secrets: bool = False,
        redact_contents: bool = False,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        max_held_bytes: int = MAX_HELD_BYTES,
        on_saved: Callable[[SavedReply], object] | None = None,
    ) -> None:
        if keep_secrets and redact_contents:
            raise UsageError("secrets are among the contents: they cannot be kept where contents are masked")
        check_count("max_reply_bytes", max_reply_bytes)
        check_count("max_held_bytes", max_held_bytes)
        self.path = Path(path)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be made a folder: {error.strerror or error}") from error
        self.max_reply_bytes = max_reply_bytes
        self.takes_frames = keep_secrets  # nothing in them can be masked
        self.lost = 0
        """Replies that could not be written."""
        self._keep_secrets = keep_secrets
        self._redact_contents = redact_contents
        self._max_held_bytes = max_held_bytes
        self._held_bytes = 0
        self._on_saved = on_saved
        self._begun = 0
        self._before: int | None = None  # the highest number that was there already; known to the writer
        self._told: set[str] = set()
        self._lock = threading.Lock()
        # One thread: what was handed in first is written first. Python waits for it at the end of the program.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="eagerstream recordings")

    def __repr__(self) -> str:
        return f"<RecordingFolder {str(self.path)!r}>"

    def begin(self, request: Mapping[str, Any] | bytes, *, host: str = "") -> Tape:
        """What takes down the reply to a request that is sent now.

        Args:
            request: Its parameters, looked at here; or its body, which is parsed by the writer, where it is needed or
                short: the note of a longer one does without the model.
            host: Where it goes, for the note of the recording.
        """
        with self._lock:
            self._begun += 1
            number = self._begun
        facts = partial(facts_of, request, keys=self._redact_contents)
        known: Callable[[], RequestFacts] = RequestFacts
        if not isinstance(request, bytes):
            known = partial(RequestFacts, *facts())
        elif len(request) <= _MAX_PARSED_BYTES:
            known = facts  # when it is needed: waking the writer now would delay the request
        elif self._redact_contents and (parsed := self._later(facts)) is not None:
            known = parsed.result  # now, so that the body need not be kept
        return Tape(self, number, lambda reply: self._later(self._save, reply, known, host))

    def flush(self) -> None:
        """Wait until every reply that has ended is written; blocks, so not for an event loop."""
        self._writer.submit(int).result()

    # --- for tapes ----------------------------------------------------------------------------------------------------

    def hold(self, size_bytes: int) -> bool:
        """Count what is kept in memory (less of it: negative); False if that would be too much altogether."""
        with self._lock:
            if size_bytes > 0 and self._held_bytes + size_bytes > self._max_held_bytes:
                return False
            self._held_bytes += size_bytes
            return True

    def tell_once(self, what: str) -> None:
        """Warn, unless the same was said before."""
        if what not in self._told:
            self._told.add(what)
            _log.warning("%s", what)

    # --- the writer ---------------------------------------------------------------------------------------------------

    def _later(self, function: Callable[..., ResultT], *arguments: object) -> Future[ResultT] | None:
        """Have the writer do it; None where the program is at its end."""
        try:
            return self._writer.submit(function, *arguments)
        except RuntimeError:
            self.tell_once(f"{self.path}: the program ended before a recording was written")
            return None

    def _save(self, reply: TapedReply, known: Callable[[], RequestFacts], host: str) -> None:
        try:
            recording = self._recording(reply, known(), host)
            path = self._write(reply.number, recording.encoded())
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
                self.tell_once(f"what is told of recordings fails: {type(error).__name__}")

    def _recording(self, reply: TapedReply, facts: RequestFacts, host: str) -> Recording:
        origin = ", ".join(part for part in (host, facts.model, f"HTTP {reply.status}") if part)
        note = f"recorded from {origin}" + (f"; {reply.cut}" if reply.cut else "")
        chunks = _unpacked(reply.chunks, reply.content_encoding, max_bytes=self.max_reply_bytes)
        recording = Recording(chunks, reply.status, reply.headers, note)
        if self._keep_secrets:
            return recording
        return recording.redacted(contents=self._redact_contents, input_keys=facts.input_keys)

    def _write(self, number: int, content: bytes) -> Path:
        """Write a file that was not there.

        Raises:
            OSError: It cannot be written.
        """
        if self._before is None:
            self._before = max(self._numbers_there(), default=0)
        while True:
            path = self.path / f"{self._before + number:04}.jsonl"
            part = path.with_name(f"{path.name}.part")
            try:
                self._write_new(part, path, content)
                return path
            except FileExistsError:
                self._before += 1  # another program records into the same folder

    def _numbers_there(self) -> list[int]:
        found = (_NAME.fullmatch(path.name) for path in self.path.iterdir())
        return [int(name[1]) for name in found if name is not None]

    @staticmethod
    def _write_new(part: Path, path: Path, content: bytes) -> None:
        """Write `path` by way of `part`.

        Whoever has made `part` may make `path`: two programs that want the same name do not meet. Nothing is written
        through a link, since `part` must be new.

        Raises:
            FileExistsError: One of them is there.
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


def _unpacked(chunks: list[Chunk], content_encoding: str, *, max_bytes: int) -> tuple[Chunk, ...]:
    """Return the chunks as a client has them, with the times at which they came."""
    unpacker = Unpacker(content_encoding, max_bytes=max_bytes)
    unpacked = (Chunk(chunk.at_s, b"".join(unpacker.feed(chunk.data))) for chunk in chunks)
    return tuple(chunk for chunk in unpacked if chunk.data)


_MAX_MODEL_CHARS: Final = 100


# --- the request ------------------------------------------------------------------------------------------------------


def facts_of(request: Mapping[str, Any] | bytes, *, keys: bool = True) -> RequestFacts:
    """The facts of a request, the keys of inputs among them on request; linear in its size.

    Args:
        request: Its parameters, or its body, which may be anything.
        keys: Look for them.
    """
    if isinstance(request, bytes):
        try:
            request = json.loads(request)
        except (ValueError, RecursionError):
            return RequestFacts()
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
            seen.add(id(schema))  # one that was made in code may contain itself
            for name, inner in schema.items():
                if name == "properties" and isinstance(inner, Mapping):  # of which one may have that name itself
                    keys.update(key for key in inner if isinstance(key, str))
                    pending += inner.values()
                else:
                    pending.append(inner)
        elif isinstance(schema, list | tuple):
            seen.add(id(schema))
            pending += schema
    return frozenset(keys)
