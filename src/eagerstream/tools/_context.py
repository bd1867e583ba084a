"""`Context`: what a run brings to its tools, and the call that a tool answers."""

from __future__ import annotations

from typing import Generic

from typing_extensions import TypeVar  # with a default, which the one of Python has from 3.13 on

from ..errors import UsageError
from ._running_call import RunningCall

DepsT_co = TypeVar("DepsT_co", covariant=True)


class Context(Generic[DepsT_co]):
    """The dependencies of a run, and the call: the first parameter of a tool that needs them.

        @tool
        async def find(context: Context[Database], title: str) -> str:
            return await context.deps.find(title)

        run(client, tools=[find], context=database, ...)

    The model sees no such parameter and cannot send it. Type checkers compare `context=` with what the tools need.

    In a test, make one of your own: `await find(Context(database), "Faust")`.

    Args:
        deps: The object that `run(..., context=...)` was given: the same for all calls of a run. A tool in a worker
            has a copy, made by pickle for each call.
        call: The call; None if the tool was called without one.
    """

    __slots__ = ("_call", "_deps")

    def __init__(self, deps: DepsT_co, call: RunningCall | None = None) -> None:
        self._deps = deps
        self._call = call

    def __repr__(self) -> str:
        return f"Context({type(self._deps).__name__}, {self._call!r})"  # the object may have a password

    @property
    def deps(self) -> DepsT_co:
        """The object that the run was given as its `context`."""
        return self._deps

    @property
    def call(self) -> RunningCall:
        """The call that the tool answers.

        Raises:
            UsageError: The tool was called without one, as in a test.
        """
        if self._call is None:
            raise UsageError("this tool was called outside a run: its context has no call")
        return self._call

    @property
    def run_id(self) -> str:
        """Id of the run; empty if there is none."""
        return "" if self._call is None else self._call.run_id

    @property
    def turn(self) -> int:
        """Number of the turn, from 1; 0 if there is no run."""
        return 0 if self._call is None else self._call.turn
