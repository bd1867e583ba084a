"""`CallStarts`: when each call of a reply begins, while the reply is still being written."""

from __future__ import annotations

from collections.abc import Callable

from ..streaming._growing_input import GrowingInput
from ..tools._call import ToolCall
from ..tools._definition import Tool
from ..tools._options import Reject
from ..tools._toolbox import Toolbox
from ..wire import Outcome


def _tell_nobody(_: object) -> None: ...


class CallStarts:
    """Makes a reply's inputs calls, each as early as its tool allows.

    A call begins at the end of its own input; one whose tool streams when its input begins; one that waits for the end
    of the message is held, and left to who reads it. Guards are asked while inputs grow.

    Args:
        tools: Whose calls they are.
        call_of: The call of an input, where there is one.
        add: A new call; None for one that cannot be answered.
        expect: Told each input at whose end a call is likely to begin.

    Attributes:
        held: Calls that wait for the end of the message.
        is_stopped: Nothing more may begin.
    """

    def __init__(
        self,
        tools: Toolbox,
        *,
        call_of: Callable[[GrowingInput], ToolCall | None],
        add: Callable[[GrowingInput], ToolCall | None],
        expect: Callable[[GrowingInput], object] = _tell_nobody,
    ) -> None:
        self.held: list[ToolCall] = []
        self.is_stopped = False
        self.has_guards = tools.has_guards
        self._tools = tools
        self._call_of = call_of
        self._add = add
        self._expect = expect
        self._guarded: dict[GrowingInput, Tool] = {}
        self._admitted: set[ToolCall] = set()
        self._held_groups: set[str] = set()

    @property
    def asks_guards(self) -> bool:
        """A guard wants to see an input that is being written."""
        return bool(self._guarded)

    def void(self) -> None:
        """The reply begins anew: what it called so far does not count."""
        self.held.clear()
        self._held_groups.clear()

    def begin(self, input: GrowingInput) -> ToolCall | None:
        """An input begins: the call that is to begin with it, where its tool streams."""
        if self.is_stopped:
            return None
        tool = self._tools.find(input.block)
        if tool is not None and tool.guard is not None:
            self._guarded[input] = tool
        if tool is None or self._waits(tool) or input.error is not None:
            return None  # an input that is known to be invalid already is only answered, at its end
        if not tool.is_streaming:
            self._expect(input)
            return None
        call = self._add(input)
        if call is None:
            return None
        call.streams = tool.approve is None
        self._admitted.add(call)
        return call

    def ask_guard(self, input: GrowingInput) -> Reject | None:
        """Ask the tool's guard, if it has one, about what has come of an input; a call that it rejects is answered."""
        tool = self._guarded.get(input)
        if tool is None or input.outcome is Outcome.INVALID:
            return None
        reject = tool.rejects(input.partial)
        if reject is None:
            return None
        del self._guarded[input]
        call = self._call_of(input) or self._add(input)
        if call is None:
            return None
        call.reject(reject.reason)
        return reject

    def end(self, input: GrowingInput) -> ToolCall | None:
        """An input is settled: the call that is to begin now. One whose input was cut off is only to be answered."""
        call = self._call_of(input)
        if call is not None and call.rejected is None:
            return None  # it has begun
        call = call or self._add(input)
        if call is None or call in self._admitted or self.is_stopped:
            return None
        tool = self._tools.find(input.block)
        if tool is not None and self._waits(tool) and input.outcome is Outcome.VALID:
            self.held.append(call)
            if tool.group is not None:
                self._held_groups.add(tool.group.name)
            return None
        self._admitted.add(call)
        return call

    def _waits(self, tool: Tool) -> bool:
        """It begins when the message has ended: it says so itself, or an earlier call of its group does."""
        return tool.start == "message" or (tool.group is not None and tool.group.name in self._held_groups)
