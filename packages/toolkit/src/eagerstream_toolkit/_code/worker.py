"""The program that runs the statements. It needs only Python 3.9 or later, and nothing of this package.

It is sent as source to an interpreter, which may be in a container: `START` runs it there, after `worker_channel` and
`worker_errors`, with the same global names. Each message is a line of JSON. From the program:

    {"functions": [[name, [parameter, ...]], ...], "limits": {...}}    the first one
    {"number": n, "part": n, "line": n, "source": text}                run a statement; a part is a call of `run_code`
    {"number": n}                                                      cancel the tasks, and give the value
    {"stop": n}                                                        cancel what has this number
    {"result": id, "value": JSON} or {"result": id, "error": text}     the end of a call of a tool

From the worker:

    {"ready": version}
    {"print": text}
    {"call": id, "name": text, "arguments": {...}}, {"drop": id}       a call of a tool; the code no longer waits for it
    {"end": n, "kind": "done" or "invalid" or "raised", "text": text}  a statement has ended
    {"end": n, "kind": "value", "text": text, "data": JSON, "tasks": n}

The code has stdin and stdout of its own: `/dev/null`, and the worker's stderr.
"""

from __future__ import annotations
import __future__

import ast
import asyncio
import builtins
import contextvars
import json
import os
import signal
import sys
import threading
import types
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, BinaryIO

    from .worker_channel import Channel, encoded, printing
    from .worker_errors import MAX_ERROR_CHARS, Sources, message_of, text_of

    Ending = dict[str, object]

MAX_MESSAGE_BYTES = 4 * 1024 * 1024 - 64
MAX_VALUE_CHARS = 100_000
MAX_DATA_CHARS = 1_000_000
MAX_CALLS_AT_ONCE = 1_000
PATIENCE_S = 0.05
"""Seconds that code may take to return to the event loop after its cancellation, before a signal interrupts it."""
FUTURE_FLAGS = 0
for _name in __future__.all_feature_names:
    FUTURE_FLAGS |= getattr(__future__, _name).compiler_flag
CO_COROUTINE = 0x80


class ToolError(Exception):
    """A call of a tool failed."""


ToolError.__module__ = "__main__"


class Worker:
    """The interpreter of one session. It reads lines of messages, and writes its own to the channel."""

    def __init__(self, messages: Iterable[bytes], channel: Channel, functions: list[tuple[str, list[str]]]) -> None:
        self._messages = messages
        self._channel = channel
        self._sources = Sources()
        self._flags = 0
        self._value: object = None
        self._number = 0
        self._task: asyncio.Task[Ending] | None = None
        """The statement that runs, or the end of a call."""
        self._answers: dict[int, asyncio.Future[object]] = {}
        self._last_call = 0
        self._resets: set[asyncio.Future[object]] = set()
        """Calls of `reset_session`, which end before their statement does."""
        self._is_stopping = False
        """True from the program's wish to stop until the event loop takes it."""
        self._stop_taken = threading.Event()
        self._was_interrupted: asyncio.Task[object] | None = None
        """The task that a signal has interrupted."""
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._slots = asyncio.Semaphore(MAX_CALLS_AT_ONCE)
        self._context = contextvars.copy_context()
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        builtins.__dict__.update(exit=sys.exit, quit=sys.exit)  # otherwise `site` would make them
        self._variables = main.__dict__
        self._variables.update(asyncio=asyncio, ToolError=ToolError, reset_session=self._reset)
        for name, parameters in functions:
            self._variables[name] = self._tool(name, parameters)
        self._streams = printing(channel, 1), printing(channel, 2)
        sys.stdout, sys.stderr = self._streams
        vars(sys).update(__stdout__=sys.stdout, __stderr__=sys.stderr)  # code puts these back after a redirection

    def serve(self) -> None:
        """Run statements until the program closes the pipe."""
        self._loop.set_exception_handler(self._unhandled)
        signal.signal(signal.SIGINT, self._interrupt)
        os.register_at_fork(after_in_child=self._channel.close_copy)
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        while True:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                pass  # of a task or callback: asyncio lets them through

    # --- messages of the program, in a thread: code may keep the loop busy ---

    def _read(self) -> None:
        try:
            for line in self._messages:
                message = json.loads(line)
                if "stop" in message:
                    self._stop(message["stop"])
                else:
                    self._loop.call_soon_threadsafe(self._take, message)
        except BaseException as error:  # no memory is left, or the code has closed the pipe or the loop
            os.write(2, f"{message_of(error)}\n".encode("utf-8", "replace"))
        finally:
            os._exit(0)

    def _take(self, message: dict[str, Any]) -> None:
        if "result" in message:
            answer = self._answers.get(message["result"])
            if answer is not None and not answer.done():
                if "error" in message:
                    answer.set_exception(ToolError(message["error"]))
                else:
                    answer.set_result(message["value"])
            return
        number = self._number = message["number"]
        work = self._statement(message) if "source" in message else self._finish()
        # What a statement sets in its context stays for the next one, from Python 3.11 on.
        options: dict[str, Any] = {"context": self._context} if sys.hexversion >= 0x30B0000 else {}
        self._task = self._loop.create_task(work, **options)
        self._task.add_done_callback(lambda task: self._end(number, task))

    def _stop(self, number: int) -> None:
        self._stop_taken.clear()
        self._was_interrupted = None
        self._is_stopping = True
        self._loop.call_soon_threadsafe(self._cancel, number)
        if not self._stop_taken.wait(PATIENCE_S):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _cancel(self, number: int) -> None:
        self._is_stopping = False
        self._stop_taken.set()
        if self._task is not None and number == self._number and self._task is not self._was_interrupted:
            self._task.cancel()

    def _interrupt(self, *_: object) -> None:
        """Interrupt the code that keeps the loop busy: raise in its task, so that its `finally` blocks run."""
        if not self._is_stopping:
            raise KeyboardInterrupt  # the code has sent the signal itself
        task = asyncio.current_task(self._loop)
        if task is None or self._was_interrupted is not None:
            return
        self._was_interrupted = task
        if self._channel.is_writing:
            self._channel.is_interrupted = True
        else:
            raise asyncio.CancelledError

    def _unhandled(self, _: object, context: dict[str, Any]) -> None:
        error = context.get("exception")
        text = str(context.get("message")) if error is None else self._sources.error(error)
        where = "task that nothing awaited" if "future" in context or "task" in context else "callback"
        sys.stderr.write(f"In a {where}: {text[:MAX_ERROR_CHARS]}\n")

    # --- statements ---

    async def _statement(self, message: dict[str, Any]) -> Ending:
        source, line = message["source"], message["line"]
        try:
            self._sources.add(message["part"], line, source)
            codes = self._compiled(source, line)
        except Exception as error:  # SyntaxError, ValueError, MemoryError, RecursionError and more
            return {"kind": "invalid", "text": self._sources.invalid(error, line)}
        if codes:  # there may be none: a backslash in a line of its own is a statement for nobody
            self._value = None
        try:
            for code in codes:
                value = eval(code, self._variables)
                self._value = (await value) if code.co_flags & CO_COROUTINE else value
            if self._resets:
                await asyncio.wait(self._resets)
        except BaseException as error:  # also SystemExit: it ends the code, not the worker
            return {"kind": "raised", "text": self._sources.error(error)}
        return {"kind": "done"}

    def _compiled(self, source: str, line: int) -> list[types.CodeType]:
        """Return the statement as code. If it ends in an expression, that is the last one."""
        file, flags = self._sources.file, self._flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(source, file, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        codes = []
        if tree.body:
            codes.append(compile(tree, file, "exec", flags, dont_inherit=True))
            flags |= codes[0].co_flags & FUTURE_FLAGS
        if isinstance(last, ast.Expr):
            codes.append(compile(ast.Expression(last.value), file, "eval", flags, dont_inherit=True))
        self._flags = flags
        return [moved(code, line - 1) for code in codes] if line > 1 else codes

    async def _finish(self) -> Ending:
        count = 0
        while others := asyncio.all_tasks() - {self._task}:
            count = count or len(others)
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        value, self._value = self._value, None
        if value is None:
            return {"kind": "value", "tasks": count}
        text = text_of(value, str if isinstance(value, str) else repr, MAX_VALUE_CHARS)
        return {"kind": "value", "tasks": count, "text": text, "data": data_of(value)}

    def _end(self, number: int, task: asyncio.Task[Ending]) -> None:
        """Report the end of a statement. This is a callback: an interruption cannot hit it."""
        if not self._channel.is_open:
            os.write(2, b"A forked process ends with the statement that forked it.\n")
            os._exit(0)
        self._task = None
        for stream in self._streams:
            stream.flush()
        try:
            ending = task.result()
        except BaseException as error:
            ending = {"kind": "raised", "text": self._sources.error(error)}
        self._channel.send({"end": number, **ending})

    # --- tools ---

    def _tool(self, name: str, parameters: list[str]) -> object:
        async def tool(*values: object, **named: object) -> object:
            if len(values) > len(parameters):
                raise TypeError(f"{name}() takes {len(parameters)} arguments but {len(values)} were given")
            arguments = dict(zip(parameters, values))
            for parameter in named:
                if parameter in arguments:
                    raise TypeError(f"{name}() got multiple values for argument {parameter!r}")
            arguments.update(named)
            async with self._slots:
                return await self._call(name, arguments)

        tool.__name__ = tool.__qualname__ = name
        tool.__module__ = "__main__"
        return tool

    def _reset(self) -> asyncio.Future[object]:
        """Ask for a new session after this statement. It may be awaited, and need not be."""
        task = asyncio.ensure_future(self._call("reset_session", {}))
        self._resets.add(task)
        task.add_done_callback(self._resets.discard)
        return task

    async def _call(self, name: str, arguments: dict[str, object]) -> object:
        if not self._channel.is_open:
            raise ToolError("a forked process cannot call tools")
        self._last_call += 1
        id = self._last_call
        try:
            data = encoded({"call": id, "name": name, "arguments": arguments})
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"the arguments of {name}() must have a JSON form: {message_of(error)}") from None
        if len(data) > MAX_MESSAGE_BYTES:
            raise ValueError(f"the arguments of {name}() are longer than {MAX_MESSAGE_BYTES} bytes of JSON")
        for stream in self._streams:
            stream.flush()
        answer = self._answers[id] = self._loop.create_future()
        try:
            self._channel.write(data)
            return await answer
        finally:
            del self._answers[id]
            if not answer.done() or answer.cancelled():
                self._channel.send({"drop": id})


def moved(code: types.CodeType, lines: int) -> types.CodeType:
    """Return code with other line numbers. It costs less than moving the lines of its syntax tree."""
    constants = tuple(moved(each, lines) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    return code.replace(co_firstlineno=code.co_firstlineno + lines, co_consts=constants)


def data_of(value: object) -> object:
    """Return a value if it has a JSON form within the bound, otherwise None."""
    try:
        text = json.dumps(value, allow_nan=False)
        return json.loads(text) if len(text) <= MAX_DATA_CHARS else None
    except asyncio.CancelledError:
        raise
    except BaseException:
        return None


def limit(limits: dict[str, int]) -> None:
    """Set the resource limits that the platform has.

    If the machine runs out of memory, the system kills this process before all others.
    """
    import resource  # only Unix has it, and every module of the package can be imported everywhere

    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
    for name, most in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            continue
        if name == "NPROC":
            most += processes_now()
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):
            pass  # macOS has RLIMIT_AS, but does not let it be set


def processes_now() -> int:
    """Return the number of processes and threads of this user: they count for the limit, too."""
    count = 0
    try:
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    if os.stat(f"/proc/{entry}").st_uid == os.getuid():
                        count += len(os.listdir(f"/proc/{entry}/task"))
                except OSError:
                    pass  # it has ended
    except OSError:
        return 1_000  # no /proc
    return count


def _warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> str:
    """Return the text of a warning, without the place: that is mostly in a file of this machine."""
    return f"{category.__name__}: {message}\n"


def main(messages: BinaryIO) -> None:
    """Take over stdin and stdout, and serve. `messages` is a copy of stdin, from which this source was read."""
    channel = Channel(os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    warnings.simplefilter("ignore", SyntaxWarning)  # its line would be wrong
    warnings.formatwarning = _warning
    first = json.loads(messages.readline() or "null")
    if first is not None:
        worker = Worker(messages, channel, first["functions"])
        limit(first["limits"])
        channel.send({"ready": sys.version.split()[0]})
        worker.serve()


if __name__ == "__main__":
    main(globals()["messages"])
