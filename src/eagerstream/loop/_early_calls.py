"""`EarlyCalls`: tools that begin while the reply is still being written, under somebody else's loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from .._support.cancellation import leave
from ..errors import ProtocolError, UsageError
from ..limits import DEFAULT_LIMITS, Limits
from ..streaming._growing_input import GrowingInput
from ..tools._breaker import CircuitBreaker
from ..tools._call import CallListener, ToolCall
from ..tools._executor import Executor
from ..tools._foreign import ForeignTool
from ..wire import INVALID_JSON, InputAccumulator, InputFragment, ParserFactory, PartialJSON
from ..wire._accumulator import check_invalid_key
from ..wire._decoding import to_wire_event
from ..wire._events import InputEvent
from ._callable_tools import callable_tools
from ._policy import BROKEN_OFF, Begins, Ending, ending_of
from ._runner import CallRunner
from ._turn import Turn

_log = logging.getLogger(__name__)


class EarlyCalls(CallListener):
    """Runs the calls of replies that somebody else's loop reads, each as early as `run` would.

        async with EarlyCalls(tools) as calls:
            async for event in events_of_the_reply:
                calls.feed(event)
            for call in await calls.finish():
                send(call.result)

    It is for agent frameworks, which have requests, a history and a loop of their own. One object serves any number of
    replies, one after the other; `message_start` begins the next. A reply that begins anew before it has ended is void:
    its calls are cancelled.

    Leaving the block cancels the tools that still run; their calls are answered as cancelled.

    Args:
        tools: As for `run`.
        executor: What runs the calls; the tools in this process where it is None.
        max_concurrency, circuit_breaker: For the executor in this process.
        limits, parser, invalid_key: As for `stream`.
        on_start: Told each call whose tool is called.
        on_progress: Told a call, and how far its tool is.
        on_stop: Told each call that has been answered.

    Raises:
        UsageError: A tool cannot be run, two share a name, or an executor does not ask for approval.
    """

    def __init__(
        self,
        tools: Sequence[ForeignTool | Mapping[str, Any]] = (),
        *,
        executor: Executor | None = None,
        max_concurrency: int = 16,
        circuit_breaker: CircuitBreaker | None = None,
        limits: Limits = DEFAULT_LIMITS,
        parser: ParserFactory = PartialJSON,
        invalid_key: str = INVALID_JSON,
        on_start: Callable[[ToolCall], object] | None = None,
        on_progress: Callable[[ToolCall, Any], object] | None = None,
        on_stop: Callable[[ToolCall], object] | None = None,
    ) -> None:
        check_invalid_key(invalid_key)
        self.tools, self._executor = callable_tools(
            tools, executor, limits=limits, max_concurrency=max_concurrency, circuit_breaker=circuit_breaker
        )
        self._limits = limits
        self._accumulator = InputAccumulator(
            parser=parser, limits=limits, input_type=GrowingInput, invalid_key=invalid_key
        )
        self._on_start = on_start
        self._on_progress = on_progress
        self._on_stop = on_stop
        self._tasks: TaskGroup | None = None
        self._runner: CallRunner | None = None
        self._by_id: dict[str, ToolCall] = {}
        self._failure: ProtocolError | None = None  # raised once the other calls of the event have started
        self._doubles: set[GrowingInput] = set()  # their id is another's, and the error was raised
        self._told_violations = 0
        self._number = 0
        self._has_begun = False
        self._turn: Turn
        self._begin_turn()

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise UsageError("these calls have been entered before")
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._runner = CallRunner(self._executor, self._tasks, waits_for_input=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._tasks is not None
        try:
            if not self._has_ended:
                self._end_reply(broken=True)
        finally:  # whatever it raises: no tool is left behind
            try:
                swallows = await leave(self._tasks, error)
            finally:
                assert self._runner is not None
                self._runner.close()
        return swallows

    @property
    def calls(self) -> list[ToolCall]:
        """The calls of the reply under way, or of the last one; in the order of their blocks once it has ended."""
        return self._turn.calls

    @property
    def violations(self) -> Sequence[str]:
        """The violations of the protocol by the peer, in words that quote no model; the first 100."""
        return self._accumulator.violations

    def get(self, id: str) -> ToolCall | None:
        """The call of that id; None where there is none. Those of earlier replies are kept while they run.

        A framework that runs tools itself gives them the ids: `await call.answered.wait()`, and `call.response` is what
        the tool said.
        """
        return self._by_id.get(id)

    def cancel(self, id: str) -> None:
        """Nobody wants the call of that id any more: it does not begin, or its tool is cancelled.

        Nothing happens where it has ended, or where there is none.
        """
        call = self._by_id.get(id)
        if call is None:
            return
        if not call.ran:
            call.withdraw()
        if self._runner is not None:
            self._runner.cancel(call)

    def feed(self, event: Mapping[str, Any] | InputFragment | object) -> list[InputEvent[GrowingInput]]:
        """Take in one wire event of a reply, and begin what may begin: the tool runs at the next `await`.

        Args:
            event: As for `InputAccumulator.feed`.

        Returns:
            What it means for the inputs.

        Raises:
            LimitError, UsageError: As `InputAccumulator.feed`.
            ProtocolError: Two calls of a response have the same id.
        """
        if self._tasks is None:
            raise UsageError("enter the calls first: async with EarlyCalls(...) as calls")
        is_first, self._has_begun = not self._has_begun, True
        if not isinstance(event, tuple):
            event = event if type(event) is dict else to_wire_event(event)
            match event:
                case {"type": "message_start"} if not is_first or self._has_ended:
                    return self._begin_reply(event)
                case {"type": "message_stop"}:
                    return self._end_reply()
                case {"type": "content_block_start"} if self._has_ended:
                    self._begin_turn()  # of a peer that tells no beginning
                    self._accumulator.feed({"type": "message_start"})
                case _:
                    pass
        return self._take(self._accumulator.feed(event))

    async def finish(self) -> list[ToolCall]:
        """The calls of the reply, once each has its result; in the order of their blocks.

        A reply that has not come to its end (`message_stop`) is taken as broken off: nothing more of it begins.
        Cancelling it cancels nothing else: it can be called again.

        Raises:
            ProtocolError: As `feed`. Call it again for the calls.
        """
        if not self._has_ended:
            self._end_reply(broken=self._accumulator.stop_reason is None)
        for call in self._turn.calls:
            await call.answered.wait()
        return self._turn.calls

    @property
    def _has_ended(self) -> bool:
        return self._turn.ending is not None

    def _begin_turn(self) -> None:
        self._number += 1
        self._doubles.clear()
        self._by_id = {id: call for id, call in self._by_id.items() if self._runner and call in self._runner}
        self._turn = Turn(self._number, self, executor=self._executor, limits=self._limits, can_be_cut=False)
        self._turn.listener = self

    def _begin_reply(self, event: Mapping[str, Any]) -> list[InputEvent[GrowingInput]]:
        events: list[InputEvent[GrowingInput]] = []
        if not self._has_ended:
            assert self._runner is not None
            self._turn.is_stopped = True
            events = self._take(self._accumulator.close())
            self._turn.withdraw(Begins.NONE)
            for call in self._turn.calls:
                self._by_id.pop(call.id, None)
                if call in self._runner:
                    self._runner.cancel(call)
                else:
                    self._runner.end(call)
        self._begin_turn()
        return events + self._take(self._accumulator.feed(event))

    def _end_reply(self, *, broken: bool = False) -> list[InputEvent[GrowingInput]]:
        events = self._take(self._accumulator.close(cut=broken))
        if self._accumulator.violation_count > self._told_violations:
            self._told_violations = self._accumulator.violation_count
            _log.warning("a response broke the protocol: %s", self._accumulator.violations[-1])
        if not self._has_ended:
            ending = BROKEN_OFF if broken else self.ending_of(self._turn, self._accumulator.stop_reason)
            self._end(ending)
        return events

    def _end(self, ending: Ending) -> None:
        """Nothing more of the reply comes: what was held starts now, or never."""
        assert self._runner is not None
        self._turn.end({"role": "assistant", "content": []}, ending)
        for call in self._turn.release(ending.begins):
            self._runner.start(call)
        for call in self._turn.calls:
            if call.result is not None and call not in self._runner:
                self._runner.end(call)  # it never started

    def _take(self, events: list[InputEvent[GrowingInput]]) -> list[InputEvent[GrowingInput]]:
        assert self._runner is not None
        self._runner.take(self._turn.take(events))
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return events

    # --- `CallMaker` --------------------------------------------------------------------------------------------------

    def make_call(self, turn: Turn, input: GrowingInput) -> ToolCall | None:
        """See `CallMaker`. The history is the framework's: id and name are echoed as they came, so both are needed."""
        if not all(isinstance(input.block.get(name), str) and input.block[name] for name in ("id", "name")):
            _log.warning("a call without an id or a name is left out: it could not be answered")
            return None
        if input in self._doubles:
            return None
        if input.repeats_id:
            self._doubles.add(input)
            what = f"two calls have the id {input.id!r:.80}: their results could not be told apart"
            self._failure = self._failure or ProtocolError(what)
            return None
        input.echo_id = input.id
        call = self._by_id[input.id] = turn.add(input)
        tool = self.tools.find(input.block)
        call.idempotent = tool is not None and tool.idempotent
        return call

    def ending_of(self, _: Turn, stop_reason: str | None) -> Ending:
        """See `CallMaker`."""
        return ending_of(stop_reason, on_truncated="report", forbids_retry=True)

    def void(self, turn: Turn) -> None:
        """See `CallMaker`."""

    def settled(self, turn: Turn) -> None:
        """See `CallMaker`."""

    # --- `CallListener` -----------------------------------------------------------------------------------------------

    def call_started(self, call: ToolCall) -> None:
        """See `CallListener`."""
        if self._on_start is not None:
            self._on_start(call)

    def call_progressed(self, call: ToolCall, value: Any) -> None:
        """See `CallListener`."""
        if self._on_progress is not None:
            self._on_progress(call, value)

    def call_ended(self, call: ToolCall) -> None:
        """See `CallListener`."""
        if self._on_stop is not None:
            self._on_stop(call)
