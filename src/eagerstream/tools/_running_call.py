"""`RunningCall`: a call, as its tool sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from ..inputs._growing_input import GrowingInput
from ._call import ToolCall


class RunningCall:
    """A call, as its tool sees it while it runs. A tool receives it through a parameter of this type."""

    # Not the `ToolCall`, which executors answer, and which has much that is of no use to a tool, or that a tool would
    # break by a change.

    __slots__ = ("_call",)

    def __init__(self, call: ToolCall) -> None:
        self._call = call

    def __repr__(self) -> str:
        return f"RunningCall({self.name!r:.80}, id={self.id!r:.80}, turn={self.turn})"

    @property
    def id(self) -> str:
        """The API's id of the call. A gateway may reuse it in another response; see `idempotency_key`."""
        return self._call.id

    @property
    def name(self) -> str:
        """The tool's name, as the model wrote it."""
        return self._call.name

    @property
    def input(self) -> GrowingInput:
        """The input. It is finished, unless the tool has streaming parameters, or a guard rejected it."""
        return self._call.input

    @property
    def turn(self) -> int:
        """Number of the turn that it belongs to, from 1."""
        return self._call.turn

    @property
    def block(self) -> Mapping[str, Any]:
        """The `tool_use` block as received at its start, with the caller (`caller`) and toolset (`toolset_name`)."""
        return self._call.block

    @property
    def is_programmatic(self) -> bool:
        """True if code that the API runs made the call, not the model. The API waits about 270 s for its result."""
        return self._call.is_programmatic

    @property
    def run_id(self) -> str:
        """Id of the run that the call belongs to, under which tools keep state; empty if there is none."""
        return self._call.run_id

    @property
    def idempotency_key(self) -> str:
        """A key for systems that recognize a repeated request, stable if the run is resumed in another process.

        It consists of the ids of the run and of the call. Another call, or the same call in another run, has another.
        """
        return self._call.idempotency_key

    @property
    def done_so_far(self) -> str:
        """The part of its work that the tool has done, in words for the model. A tool may set it.

        Also while it is being cancelled. The result has it if the call is cancelled or takes too long, and after the
        tool's own answer if the tool had started on an input that turned out to be unusable.
        """
        return self._call.done_so_far

    @done_so_far.setter
    def done_so_far(self, words: str) -> None:
        self._call.done_so_far = words

    def progress(self, value: Any) -> Awaitable[None]:
        """Report progress. Consumers of events see it at once; the model never does.

        Await it. In a tool that is a plain `def`, just call it: `call.progress(value)`.

        If the consumers are slow, the newest value of a call replaces the waiting one. If this is cancelled, the value
        was reported before.
        """
        return self._call.progress(value)

    def report(self, value: Any) -> None:
        """Do the same as `progress`, for callers that do not wait."""
        self._call.report(value)

    def is_over(self) -> bool:
        """Return True if nobody waits for the tool any more: a thread may stop."""
        return self._call.is_over()

    def when_over(self, callback: Callable[[], object]) -> None:
        """Call `callback` at the end of the run: no later call has its id. Do nothing if the end is not known."""
        self._call.host.when_over(callback)


record_of: Final[Callable[[RunningCall], ToolCall]] = attrgetter("_call")
"""Return the call that an executor answers, for a tool that hands its own call on."""
