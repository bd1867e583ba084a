"""`run`: the loop. Request, run the tools beside the stream, send their results, until a stop reason ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from ..errors import ProtocolError, UsageError
from ..growing import GrowingInput
from ..handover import BufferMode, EventBuffer, EventFeed
from ..limits import DEFAULT_LIMITS, Limits
from ..stream import StreamEvent, read_reply, request_parameters
from ..tools.definition import Tool
from ..tools.executor import InProcessExecutor, ToolCall
from ..transports import Reply, Transport, as_transport
from ..wire import InputStop, MessageAssembler, MessageStart, Outcome, ParserFactory, PartialJSON
from ..wire.events import Message
from .turn import settle


class RunStatus(Enum):
    """How a run ended; ending is not success."""

    COMPLETED = "completed"
    TRUNCATED = "truncated"
    STOP_SEQUENCE = "stop_sequence"
    REFUSED = "refused"
    PAUSED = "paused"
    LIMIT = "limit"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    ERROR = "error"


# `tool_use` is not here: it goes on while there are calls, and is a completion where there are none.
_STATUS: Final = {
    "end_turn": RunStatus.COMPLETED,
    "tool_use": RunStatus.COMPLETED,
    "stop_sequence": RunStatus.STOP_SEQUENCE,
    "pause_turn": RunStatus.PAUSED,
    "max_tokens": RunStatus.TRUNCATED,
    "model_context_window_exceeded": RunStatus.TRUNCATED,
    "refusal": RunStatus.REFUSED,
}


@dataclass(slots=True)
class TurnStart:
    """A request is about to be sent; turns count from 1."""

    turn: int


@dataclass(slots=True)
class TurnStop:
    """A turn is settled.

    Attributes:
        turn: Its number.
        message: The assistant message.
        calls: Its calls in the order of their blocks, each with its result.
    """

    turn: int
    message: Message
    calls: Sequence[ToolCall]


@dataclass(slots=True)
class ToolStart:
    """A tool begins to run, usually while the reply goes on."""

    call: ToolCall


@dataclass(slots=True)
class ToolStop:
    """A call has its result: `call.result`."""

    call: ToolCall


RunEvent: TypeAlias = StreamEvent | TurnStart | TurnStop | ToolStart | ToolStop


@dataclass(slots=True)
class RunResult:
    """What is left of a run, however it ended.

    Attributes:
        status: How it ended.
        message: The last assistant message; None where no reply came.
        messages: The history to go on from: it can be sent as it is, or with a further user message.
        turns: Replies received whole.
        usage: The counts of all turns, summed.
        calls: Every call of every turn, also of turns that the history does not keep.
    """

    status: RunStatus
    message: Message | None
    messages: list[Mapping[str, Any]]
    turns: int = 0
    usage: dict[str, int] = field(default_factory=dict)
    calls: list[ToolCall] = field(default_factory=list)


def run(
    client: Any,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Tool | Mapping[str, Any]] = (),
    max_turns: int | None = None,
    max_concurrency: int = 16,
    limits: Limits = DEFAULT_LIMITS,
    parser: ParserFactory = PartialJSON,
    buffer: BufferMode = "merge",
    min_interval_s: float = 0.0,
    min_chars: int = 0,
    **parameters: Any,
) -> Run:
    """Run a conversation until the model stops asking for tools.

        async with eagerstream.run(client, tools=[get_weather], model=..., max_tokens=..., messages=[...]) as run:
            async for event in run:
                ...
        print(run.result.status, run.result.messages)

    A call starts at the end of its own content block, beside the others, while the reply goes on. Each call gets
    exactly one result; calls whose input is not JSON are answered with an `INVALID_JSON` error without being run.

    Args:
        client: As for `stream`.
        model, max_tokens, messages: As in the API.
        tools: Functions decorated with `@tool`, and definitions of tools that the API runs (web search, say).
        max_turns: Requests at most. The calls of the last turn still run and are answered in the history; status
            `LIMIT`. None for no bound.
        max_concurrency: Tools that run at once.
        limits, parser, buffer, min_interval_s, min_chars, parameters: As for `stream`.

    Raises:
        UsageError: The client is of the wrong kind, two tools share a name, or a setting is out of range.
    """
    if max_turns is not None and max_turns < 1:
        raise UsageError(f"max_turns must be at least 1, not {max_turns}")
    if max_concurrency < 1:
        raise UsageError(f"max_concurrency must be at least 1, not {max_concurrency}")
    for tool in tools:
        if not isinstance(tool, Tool | Mapping):
            name = getattr(tool, "__name__", type(tool).__name__)
            raise UsageError(f"{name} cannot be run: decorate an async function with @eagerstream.tool")
        if isinstance(tool, Mapping) and tool.get("type", "custom") == "custom":
            raise UsageError(f"nothing runs the tool {tool.get('name')!r}: decorate a function with @eagerstream.tool")
    by_name = {tool.name: tool for tool in tools if isinstance(tool, Tool)}
    request = request_parameters(model, max_tokens, tools, parameters)
    events: EventBuffer[RunEvent] = EventBuffer(mode=buffer, min_interval_s=min_interval_s, min_chars=min_chars)
    return Run(
        as_transport(client),
        request,
        messages,
        events,
        executor=InProcessExecutor(by_name, limits=limits, max_concurrency=max_concurrency),
        max_turns=max_turns,
        limits=limits,
        parser=parser,
    )


class Run(EventFeed[RunEvent]):
    """What `run` gives: an async context manager, and an async iterator over `RunEvent`s.

    The iteration (or `finish`) raises what `MessageStream` raises; `result` is there all the same. Leaving the block
    early cancels the reply and the tools.
    """

    def __init__(
        self,
        transport: Transport,
        request: Mapping[str, Any],
        messages: Sequence[Mapping[str, Any]],
        events: EventBuffer[RunEvent],
        *,
        executor: InProcessExecutor,
        max_turns: int | None,
        limits: Limits,
        parser: ParserFactory,
    ) -> None:
        super().__init__(events)
        self.result = RunResult(RunStatus.CANCELLED, None, list(messages))
        """As of now; final once the iteration has ended or the block was left."""
        self._transport = transport
        self._request = request
        self._executor = executor
        self._max_turns = max_turns
        self._limits = limits
        self._parser = parser
        self._turn = 0
        self._calls: list[ToolCall] = []

    async def _read(self) -> None:
        try:
            while not await self._take_turn():
                pass
        except Exception:
            # The turn that failed is left out of the history, which ends where it could be sent last.
            self.result.status = RunStatus.ERROR
            raise

    async def _take_turn(self) -> bool:
        """One request and its tools; True where the run has ended."""
        result = self.result
        self._turn += 1
        self._calls = []
        self._buffer.put(TurnStart(self._turn))
        assembler = MessageAssembler(parser=self._parser, limits=self._limits, input_type=GrowingInput)
        request = {**self._request, "messages": result.messages}
        await read_reply(self._transport, request, assembler, self, limits=self._limits, one_message=True)
        calls = sorted(self._calls, key=lambda call: call.input.index)
        for call in calls:
            if call.input.outcome is not Outcome.INCOMPLETE:
                await call.answered.wait()
        message = result.message = assembler.message
        result.turns += 1
        for name, count in message.get("usage", {}).items():
            if type(count) is int:
                result.usage[name] = result.usage.get(name, 0) + count
        kept = settle(message, calls)
        result.messages = [*result.messages, *kept]
        self._buffer.put(TurnStop(self._turn, message, calls))
        reason = assembler.stop_reason
        if reason == "tool_use" and kept and kept[-1]["role"] == "user":
            if self._turn != self._max_turns:
                return False
            result.status = RunStatus.LIMIT
        else:
            result.status = _STATUS.get(reason or "", RunStatus.UNKNOWN)
        return True

    def opened(self, reply: Reply) -> None:
        """See `Sink.opened`."""

    def take(self, events: list[StreamEvent]) -> None:
        """See `Sink.take`; a call whose input is settled starts here."""
        for event in events:
            self.put(event)
            if isinstance(event, InputStop) and event.input.kind == "tool_use":
                self._start(event.input)
            elif isinstance(event, MessageStart) and event.restarted:
                self._calls.clear()  # what they answer is not part of the reply any more

    def _start(self, input: GrowingInput) -> None:
        """A call's input is settled: run it, beside everything else. What was cut off is answered at the end."""
        if any(call.id == input.id for call in self._calls):
            raise ProtocolError(f"two calls have the id {input.id!r:.80}: their results could not be told apart")
        call = ToolCall(input, self._turn)
        self._calls.append(call)
        self.result.calls.append(call)
        if input.outcome is not Outcome.INCOMPLETE:
            self._executor.admit(call)
            assert self._tasks is not None  # entered: this runs in one of its tasks
            self._tasks.start_soon(self._execute, call)

    async def _execute(self, call: ToolCall) -> None:
        await self._executor.execute(call, started=lambda: self._buffer.put(ToolStart(call)))
        self._buffer.put(ToolStop(call))
