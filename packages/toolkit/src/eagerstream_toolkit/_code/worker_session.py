"""`WorkerSession`: a worker process that runs the statements of one run, as the program sees it."""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import selectors
import signal
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any, Final

import anyio
import anyio.abc

from eagerstream import JSON

from .._session_process import SessionProcess
from .sandbox import CodeCallError, CodeFunction, CodeHost, CodeValue, StatementEnd, StatementResult
from .statements import Statement

START: Final = (
    "-c",
    "import os;messages=open(os.dup(0),'rb');[exec(part,globals())for part in eval(messages.readline())]",
)
"""Arguments of the interpreter. The program is too long to be an argument itself."""
_PARTS: Final = ("worker_channel.py", "worker_errors.py", "worker.py")
_CHUNK_BYTES: Final = 64 * 1024
_MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a message, as in the worker. Its values take at most 25 times as much memory."""
_MAX_UNSENT_BYTES: Final = 1024 * 1024
"""Maximum number of bytes that wait for the worker to read them. If there are more, its messages wait, too."""
_MAX_CALLS: Final = 2_000
"""Maximum number of calls at the same time. Then the messages of the worker wait. The worker itself lets all but 1,000
calls wait, and cancelled ones may take some time to end."""
_MAX_DRAINED_BYTES: Final = 1024 * 1024
"""Bytes of the worker's stderr to read before the end of a statement: as many as a pipe can hold."""
_LAST_CHUNKS: Final = 1 + _MAX_DRAINED_BYTES // _CHUNK_BYTES
_MAX_TEXT_CHARS: Final = 200_000
_MAX_TOLD_CHARS: Final = 1_000
_SIGNALLED: Final = 128
_KILLED: Final = "it did not react to its cancellation, and was killed"
_GONE_S: Final = 2.0
"""Seconds that a killed worker may take to end."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class WorkerSession:
    """See `CodeSession`. The process is an interpreter that was started with `START`."""

    def __init__(self, process: SessionProcess, *, grace_s: float) -> None:
        self._process = process
        self._grace_s = grace_s
        self._selector = selectors.DefaultSelector()
        for readable in (process.stdout, process.stderr, process.ended):
            self._selector.register(readable, selectors.EVENT_READ)
        self._errors = codecs.getincrementaldecoder("utf-8")("replace")
        self._line: list[bytes] = []
        """The incomplete last line, in pieces."""
        self._line_bytes = 0
        self._unsent = bytearray()
        self._is_silent = False
        """True after the end of the worker's output."""
        self._number = 0
        self._part = 0
        self._ending: dict[str, Any] | None = None
        """Of the statement that runs."""
        self._change = anyio.Event()
        """Set when the statement or the worker has ended."""
        self._lost: str | None = None
        self._host: CodeHost | None = None
        self._calls: dict[int, anyio.CancelScope] = {}
        self._may_run = False
        """True if code may be running: after a statement, until its tasks are cancelled."""
        self._is_over = False
        """True after the end of the process. Its last messages may still come."""
        self._was_killed = False
        self._is_free = False
        weakref.finalize(self, _close, process, os.getpid())

    # --- start and end ------------------------------------------------------------------------------------------------

    async def start(self, functions: Sequence[CodeFunction], limits: Mapping[str, int]) -> None:
        """Start the worker, and wait until it can run statements. If this fails or is cancelled, `close` the session.

        Raises:
            ValueError: The process does not answer as the worker does. The text is its own about the reason.
        """
        folder = resources.files(__package__)
        program = [folder.joinpath(part).read_text(encoding="utf-8") for part in _PARTS]
        self._send_bytes(repr(program).encode() + b"\n")
        self._send({"functions": [[each.name, each.parameters] for each in functions], "limits": dict(limits)})
        told: list[str] = []
        is_ready = False

        def take(message: dict[str, Any]) -> None:
            nonlocal is_ready
            is_ready = isinstance(message.get("ready"), str)
            if not is_ready:
                raise _NoMessageError

        while not is_ready and self._lost is None:
            await anyio.wait_readable(self._selector.fileno())
            self._exchange(take, told.append)
        if self._lost is not None:
            raise ValueError("".join(told).strip()[-_MAX_TOLD_CHARS:] or self._lost)

    @property
    def has_ended(self) -> bool:
        """See `CodeSession`."""
        return self._lost is not None or self._process.has_ended

    def close(self) -> None:
        """See `CodeSession`."""
        self._process.kill()
        self._lose("it was closed")
        if self._host is None and not self._is_free:
            self._is_free = True
            self._selector.close()
            self._process.close()

    # --- one call of `run_code` ---------------------------------------------------------------------------------------

    @asynccontextmanager
    async def serve(self, host: CodeHost) -> AsyncIterator[None]:
        """See `CodeSession`."""
        self._host = host
        self._part += 1
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as tasks:
                reading = anyio.CancelScope(shield=True)
                tasks.start_soon(self._read, host, tasks, reading)
                try:
                    yield
                except Exception as error:  # raised below, outside of the group
                    failure = error
                finally:
                    with anyio.CancelScope(shield=True):
                        if self._may_run and self._lost is None:
                            await self._end(self._next({}))
                    reading.cancel()
                    tasks.cancel_scope.cancel()
        finally:
            self._host = None
            if self._lost is not None:
                self.close()
        if failure is not None:
            raise failure

    async def run(self, statement: Statement) -> StatementResult:
        """See `CodeSession`."""
        ending = await self._ask({"part": self._part, "line": statement.line, "source": statement.source})
        match ending:
            case {"kind": "done"}:
                return StatementResult(StatementEnd.DONE)
            case {"kind": "invalid" | "raised" as kind} if ending is not None:
                return StatementResult(StatementEnd(kind), _text_of(ending))
            case _:
                if self._lost is None:
                    self._lose("it sent a message out of its order")
                return StatementResult(StatementEnd.LOST, f"The interpreter is lost, with all variables: {self._lost}.")

    async def finish(self) -> CodeValue:
        """See `CodeSession`."""
        ending = await self._ask({})
        self._may_run = False
        if ending is None or ending.get("kind") != "value":
            return CodeValue()
        tasks = ending.get("tasks")
        return CodeValue(_text_of(ending), ending.get("data"), tasks if isinstance(tasks, int) else 0)

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Send a request, and return the message about its end. Return None if the worker has ended.

        If this is cancelled, the request is, and the worker is killed if that takes too long.
        """
        assert self._host is not None, "code runs only inside of `serve`"
        self._may_run = True
        self._send(self._next(request))
        try:
            await self._over()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._end({"stop": self._number})
            raise
        return self._ending

    def _next(self, request: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._ending = None
        return {"number": self._number, **request}

    async def _over(self) -> None:
        while self._ending is None and self._lost is None:
            self._change = anyio.Event()
            await self._change.wait()

    async def _end(self, request: dict[str, Any]) -> None:
        """Ask for the end of what runs. If its `finally` blocks take too long, kill the worker."""
        with anyio.move_on_after(self._grace_s):
            self._send(request)
            await self._over()
            return
        self._was_killed = True
        self._process.kill()
        with anyio.move_on_after(_GONE_S):  # its last output is still in the pipe
            await self._over()
        self._lose(_KILLED)

    # --- messages -----------------------------------------------------------------------------------------------------

    async def _read(self, host: CodeHost, tasks: anyio.abc.TaskGroup, reading: anyio.CancelScope) -> None:
        """Take the worker's messages until its end."""

        def take(message: dict[str, Any]) -> None:
            self._take(message, host, tasks)

        with reading:
            while self._lost is None:
                await anyio.wait_readable(self._selector.fileno())
                self._exchange(take, host.print)
            for scope in self._calls.values():
                scope.cancel()

    def _exchange(self, take: Callable[[dict[str, Any]], object], print_: Callable[[str], object]) -> None:
        """Read and write without waiting."""
        ready = {key.fd for key, _ in self._selector.select(0)}
        if self._process.stdin in ready:
            self._flush()
        if self._process.stderr in ready:
            self._drain(print_)
        self._is_over = has_ended = self._process.ended in ready
        try:
            for _ in range(_LAST_CHUNKS if has_ended else self._process.stdout in ready):
                for line in self._received():
                    take(_message_of(line))
        except _NoMessageError:
            self._lose("it sent what is no message")
            self._process.kill()
        if has_ended:
            self._drain(print_)
            self._lose(_KILLED if self._was_killed else _reason(self._process.exit_status))

    def _take(self, message: dict[str, Any], host: CodeHost, tasks: anyio.abc.TaskGroup) -> None:
        match message:
            case {"print": str() as text}:
                host.print(text)
            case {"call": int() as id, "name": str() as name, "arguments": dict() as arguments}:
                if id in self._calls:
                    raise _NoMessageError
                if not self._is_over:  # otherwise nobody is there for its result
                    scope = self._calls[id] = anyio.CancelScope()
                    tasks.start_soon(self._call, host, id, name, arguments, scope)
                    self._watch_output()
            case {"drop": int() as id}:
                if id in self._calls:
                    self._calls[id].cancel()
            case {"end": self._number, "kind": str()} if self._ending is None:
                self._drain(host.print)
                self._ending = message
                self._change.set()
            case _:
                raise _NoMessageError

    async def _call(
        self, host: CodeHost, id: int, name: str, arguments: dict[str, JSON], scope: anyio.CancelScope
    ) -> None:
        try:
            with scope:
                try:
                    answer = {"value": await host.call(name, arguments)}
                except CodeCallError as error:
                    answer = {"error": str(error)}
                self._send({"result": id, **answer})
        finally:
            del self._calls[id]
            self._watch_output()

    def _send(self, message: dict[str, Any]) -> None:
        self._send_bytes(json.dumps(message).encode() + b"\n")

    def _send_bytes(self, data: bytes) -> None:
        """Send what the pipe takes, and the rest when the worker has read. Nothing can leave a message incomplete."""
        if self._lost is None:
            self._unsent += data
            self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._process.stdin, self._unsent[:_CHUNK_BYTES])]
        except BlockingIOError:
            pass
        except OSError:  # the worker is ending, and no longer reads
            self._unsent.clear()
        self._watch(self._process.stdin, selectors.EVENT_WRITE, wanted=bool(self._unsent))
        self._watch_output()

    def _watch_output(self) -> None:
        """Read the worker's messages only if there is room for their consequences."""
        has_room = len(self._unsent) <= _MAX_UNSENT_BYTES and len(self._calls) < _MAX_CALLS
        self._watch(self._process.stdout, selectors.EVENT_READ, wanted=has_room and not self._is_silent)

    def _watch(self, pipe: int, event: int, *, wanted: bool) -> None:
        is_watched = pipe in self._selector.get_map()
        if wanted and not is_watched:
            self._selector.register(pipe, event)
        elif is_watched and not wanted:
            self._selector.unregister(pipe)

    def _received(self) -> list[bytes]:
        """Read the worker's stdout once, and return the lines that are complete."""
        try:
            data = os.read(self._process.stdout, _CHUNK_BYTES)
        except BlockingIOError:
            return []
        if not data:  # it has ended, or its code has closed the pipe
            self._is_silent = True
            self._watch_output()
            self._process.kill()
            return []
        lines = data.split(b"\n")
        self._line_bytes += len(lines[0])
        if self._line_bytes > _MAX_MESSAGE_BYTES:
            raise _NoMessageError
        self._line.append(lines[0])
        if len(lines) > 1:
            lines[0] = b"".join(self._line)
            self._line = [lines.pop()]
            self._line_bytes = len(self._line[0])
            return lines
        return []

    def _drain(self, print_: Callable[[str], object]) -> None:
        """Read what is in the worker's stderr: the output of other programs, and of the interpreter itself."""
        try:
            for _ in range(_MAX_DRAINED_BYTES // _CHUNK_BYTES):
                data = os.read(self._process.stderr, _CHUNK_BYTES)
                if not data:
                    self._watch(self._process.stderr, selectors.EVENT_READ, wanted=False)
                    return
                if text := self._errors.decode(data):
                    print_(text)
        except BlockingIOError:
            pass

    def _lose(self, reason: str) -> None:
        self._lost = self._lost or reason
        self._change.set()


def _close(process: SessionProcess, owner: int) -> None:
    """Kill the worker of a session that nobody has closed, unless this process was forked from its owner."""
    if os.getpid() == owner:
        process.close()


class _NoMessageError(Exception):
    """The worker has sent something that is no message, or is out of its order."""


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


_DECODER: Final = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)


def _message_of(line: bytes) -> dict[str, Any]:
    """Return a message. Its texts have no half of a surrogate pair, and its numbers are finite.

    Raises:
        _NoMessageError: It is none.
    """
    try:
        message = _DECODER.decode(line.decode())
        if _SURROGATE.search(line):
            json.dumps(message, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise _NoMessageError from error
    if not isinstance(message, dict):
        raise _NoMessageError
    return message


def _text_of(ending: Mapping[str, Any]) -> str:
    return str(ending.get("text", ""))[:_MAX_TEXT_CHARS]


def _reason(exit_status: int) -> str:
    if exit_status <= _SIGNALLED:
        return f"it exited with status {exit_status}"
    try:
        name = signal.Signals(exit_status - _SIGNALLED).name
    except ValueError:
        return f"it exited with status {exit_status}"
    if name == "SIGKILL":
        return "it was ended by SIGKILL, perhaps because memory ran out"
    return f"it was ended by {name}"
