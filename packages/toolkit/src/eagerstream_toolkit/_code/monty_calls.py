"""`MontyCalls`: what code in Monty has asked the host for, and the results until the code takes them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
import anyio.abc
import anyio.from_thread

from eagerstream import JSON

from .sandbox import CodeCallError, CodeFunction, CodeHost

if TYPE_CHECKING:
    from pydantic_monty import ExternalSettledResult

Outcome: TypeAlias = "ExternalSettledResult"
"""The end of a call, in the form that Monty takes."""
CANCELLED: Final[Outcome] = {"exc_type": "KeyboardInterrupt", "message": "cancelled"}
_MAX_AT_ONCE: Final = 1_000
"""Maximum number of calls that run, or whose results the code has not taken."""
_MAX_ARGUMENT_CHARS: Final = 10_000_000


class InterruptedCodeError(Exception):
    """The code is cancelled, and must not start anything more. It gets `KeyboardInterrupt`."""


class MontyCalls:
    """The other side of the code of one call of `run_code`: its output, its calls, and its pauses."""

    def __init__(self, host: CodeHost, functions: Sequence[CodeFunction], tasks: anyio.abc.TaskGroup) -> None:
        self._host = host
        self._parameters = {function.name: function.parameters for function in functions}
        self._tasks = tasks
        self._last_id = 0
        self._running: dict[int, anyio.CancelScope] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._changed = anyio.Event()
        self._is_interrupted = False

    # --- for the interpreter, in its thread ---

    def print(self, text: str) -> None:
        """Take output."""
        anyio.from_thread.run_sync(self._host.print, text)

    def start(self, name: str, values: Sequence[Any], named: Mapping[str, Any]) -> int:
        """Start a call, and return its id.

        Raises:
            TypeError: The arguments do not fit, or have no JSON form, or there are too many calls.
            InterruptedCodeError: The code is cancelled.
        """
        arguments = self._bound(name, values, named)

        async def call() -> JSON:
            return await self._host.call(name, arguments)

        return anyio.from_thread.run_sync(self._start, call)

    def sleep(self, delay_s: float) -> int:
        """Start a pause, and return its id. It raises as `start` does."""

        async def pause() -> None:
            await anyio.sleep(delay_s)

        return anyio.from_thread.run_sync(self._start, pause)

    def reset(self) -> None:
        """Ask for a new session."""
        anyio.from_thread.run(self._host.call, "reset_session", {})

    def wait(self, ids: Sequence[int]) -> dict[int, Outcome]:
        """Wait until at least one of the calls has ended, and return the outcomes of those that have."""
        return anyio.from_thread.run(self._wait, ids)

    def _bound(self, name: str, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, JSON]:
        """Return the arguments by their names, as JSON.

        Raises:
            TypeError: They do not fit, or have no JSON form.
        """
        parameters = self._parameters.get(name, ())
        if len(values) > len(parameters):
            raise TypeError(f"{name}() takes {len(parameters)} arguments but {len(values)} were given")
        arguments = dict(zip(parameters, values, strict=False))
        for parameter in named:
            if parameter in arguments:
                raise TypeError(f"{name}() got multiple values for argument {parameter!r}")
        try:
            text = json.dumps(arguments | dict(named), ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"the arguments of {name}() must have a JSON form: {error}") from None
        if len(text) > _MAX_ARGUMENT_CHARS:
            raise TypeError(f"the arguments of {name}() are longer than {_MAX_ARGUMENT_CHARS} characters of JSON")
        found: dict[str, JSON] = json.loads(text)
        return found

    # --- for the session, in the event loop ---

    def interrupt(self) -> None:
        """Let the code be interrupted when it waits next, or now if it waits."""
        self._is_interrupted = True
        self._changed.set()

    def begin(self) -> None:
        """Begin a statement: an interruption that the last one did not take is void."""
        self._is_interrupted = False

    async def cancel(self) -> int:
        """Cancel the calls that still run, and return their number. Results that were not taken are discarded."""
        count = len(self._running)
        for scope in self._running.values():
            scope.cancel()
        while self._running:
            await self._change()
        self._outcomes.clear()
        return count

    def _start(self, make: Callable[[], Awaitable[JSON]]) -> int:
        if self._is_interrupted:
            self._is_interrupted = False
            raise InterruptedCodeError
        if len(self._running) + len(self._outcomes) >= _MAX_AT_ONCE:
            raise TypeError(f"more than {_MAX_AT_ONCE} calls were started without awaiting them")
        self._last_id += 1
        self._running[self._last_id] = anyio.CancelScope()
        self._tasks.start_soon(self._run, self._last_id, make)
        return self._last_id

    async def _run(self, id: int, make: Callable[[], Awaitable[JSON]]) -> None:
        outcome = CANCELLED
        try:
            with self._running[id]:
                outcome = _returned(await make())
        except CodeCallError as error:
            outcome = _failed(str(error).encode(errors="replace").decode())
        finally:
            del self._running[id]
            self._outcomes[id] = outcome
            self._changed.set()

    async def _wait(self, ids: Sequence[int]) -> dict[int, Outcome]:
        while True:
            if self._is_interrupted:
                self._is_interrupted = False
                for id in ids:
                    if id in self._running:
                        self._running[id].cancel()
                    self._outcomes.pop(id, None)
                return dict.fromkeys(ids, CANCELLED)
            ended = [id for id in ids if id not in self._running]
            if ended:
                # The code gets an outcome once.
                cancelled = _failed("the call was cancelled at the end of its code")
                return {id: self._outcomes.pop(id, cancelled) for id in ended}
            await self._change()

    async def _change(self) -> None:
        self._changed = anyio.Event()
        await self._changed.wait()


def _failed(message: str) -> Outcome:
    return {"exc_type": "RuntimeError", "message": message}


def _returned(value: JSON) -> Outcome:
    """Return the outcome for a result. Lone surrogates are replaced: Monty has no such strings."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:
            value = json.loads(text.encode(errors="replace"))
    except (RecursionError, ValueError):  # nested too deeply; a number of more than 4,300 digits
        return _failed("the result of the call cannot be handed to the code")
    return {"return_value": value}
