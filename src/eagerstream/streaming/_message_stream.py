"""`stream`: one streaming request. Its loop awaits bytes, feeds the wire core, and hands out events."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, Unpack, overload
from uuid import uuid4

from eagerstream_wire import MessageAssembler, Outcome
from eagerstream_wire._assistant_message import AssistantMessage
from eagerstream_wire._message_inputs import check_invalid_key
from eagerstream_wire._tool_kind import EAGER_FIELD, USER_DEFINED, tool_kind

from .._support.hosted_tasks import HostedTasks
from ..errors import UsageError
from ..inputs._growing_input import GrowingInput
from ..limits import DEFAULT_LIMITS, Limits
from ..transports import Client, RequestBody, as_transport
from ..transports._base import betas_of, check_legacy_beta
from ..transports._client import check_key
from ..transports._eager_fallback import EagerFallback, EagerForm
from ._delivery import Delivery
from ._event_feed import EventFeed
from ._exchange import Exchange, StreamEvent
from ._marks import Clock, ReplyMarks
from ._observers import FeedEnd
from ._options import FEED_DEFAULTS, INPUT_DEFAULTS, InputOptions, StreamOptions, check_names, delivery_for, taken
from ._output import GrowingOutput, OutputReader, output_reader
from ._reading import read_reply
from ._typed_message import typed_message
from ._types import OutputT, RequestMessage, ValueT

if TYPE_CHECKING:
    from anthropic.types import Message as AnthropicMessage

_log = logging.getLogger(__name__)


class DefinedTool(Protocol):
    """A tool that knows its definition: one of ours, or of the anthropic package's helpers."""

    def to_dict(self) -> Mapping[str, Any]:
        """The definition as the API takes it."""
        ...


@overload
def stream(
    client: Client,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[RequestMessage],
    tools: Sequence[DefinedTool | Mapping[str, Any]] = (),
    output: type[ValueT] | None = None,
    **options: Unpack[StreamOptions],
) -> MessageStream[ValueT]: ...
@overload
def stream(
    client: Client,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[RequestMessage],
    tools: Sequence[DefinedTool | Mapping[str, Any]] = (),
    output: Mapping[str, Any],
    **options: Unpack[StreamOptions],
) -> MessageStream[Any]: ...
def stream(
    client: Client,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[RequestMessage],
    tools: Sequence[DefinedTool | Mapping[str, Any]] = (),
    output: type | Mapping[str, Any] | None = None,
    **options: Unpack[StreamOptions],
) -> MessageStream[Any]:
    """Send one streaming request to the Messages API, and get its events as they come and the message at the end.

        async with eagerstream.stream(client, model=..., max_tokens=..., tools=[...], messages=[...]) as stream:
            async for event in stream:
                ...
        message = stream.message

    Nothing is sent before the block is entered. Leaving it early, or being cancelled in it, closes the connection.
    A slow consumer slows only itself: reading continues.

    Args:
        client: An async client of the anthropic package, an `HTTPTransport`, a `Recording` to play back; or the body of
            an existing response: an async iterator of bytes or of events, or a response of httpx.
        model, max_tokens, messages: As in the API.
        tools: Functions decorated with `@tool`, tools of other libraries with `to_dict()`, or definitions as the API
            takes them. Betas that they need are added to the request.
        output: The type, or the JSON schema, that the text of the response must fit: a pydantic model, a dataclass, a
            TypedDict, a `msgspec.Struct`, a list of one, or a mapping. The text comes as `OutputDelta`s, too, and
            `output` of the stream has its validated value. See `OutputOptions` for models without structured outputs.
        options: See `StreamOptions`: those of inputs and events (`InputOptions`, `FeedOptions`), and everything else
            that the API takes (`system`, `tool_choice`, `thinking`, `betas`, ...: `RequestParameters`).

    Raises:
        UsageError: The client is of the wrong kind, a setting is out of range, or the definition of a tool that is not
            user-defined carries `eager_input_streaming`; `output` is no such type, or `output_config` has another
            format. At once, before anything is sent.
    """
    rest: dict[str, Any] = dict(options)
    inputs, feed = taken(rest, INPUT_DEFAULTS), taken(rest, FEED_DEFAULTS)
    check_invalid_key(inputs["invalid_key"])
    limits: Limits = rest.pop("limits", DEFAULT_LIMITS)
    eager: bool = rest.pop("eager", True)
    reader = output_reader(output, rest, limits)
    check_names(rest, StreamOptions)
    request = request_parameters(model, max_tokens, tools, rest, eager=eager)
    if reader is not None:
        request = reader.format.request(request)
    request = {"messages": checked_messages(messages), **request}
    # With the client that the user gave: it is the key under which refusals of the platform are remembered for the next
    # requests, and each stream has a transport of its own.
    transport = EagerFallback(as_transport(client), client, feed["eager_fallback"])
    delivery = delivery_for(feed, limits)
    return MessageStream(transport, request, inputs, delivery, limits=limits, clock=feed["clock"], output=reader)


def checked_messages(messages: object) -> list[Mapping[str, Any]]:
    """Return the messages in a new list.

    Raises:
        UsageError: They are no list of mappings.
    """
    # A string and a single message are iterables, too: without the check, their characters or keys would be messages.
    if not isinstance(messages, Iterable) or isinstance(messages, str | bytes | Mapping):
        raise UsageError(f"messages must be a list of messages, not {type(messages).__name__}")
    listed = list(messages)
    for message in listed:
        if not isinstance(message, Mapping):
            raise UsageError(f"a message must be a mapping, not {type(message).__name__}")
    return listed


class SentDefinition(dict[str, Any]):
    """The definition of a tool as a request has it: nothing is added to it any more."""

    # A plain dict without `eager_input_streaming` is ambiguous: its author did not think of the field, or a
    # conversation with `eager=False` left it out. `stream(**conversation.request())` must not add it in the second
    # case.


def request_parameters(
    model: str,
    max_tokens: int,
    tools: Sequence[DefinedTool | Mapping[str, Any]],
    parameters: Mapping[str, Any],
    *,
    eager: bool,
) -> dict[str, Any]:
    """Return the body of a request, without its messages.

    Raises:
        UsageError: `stream` is among the parameters, `eager` is no boolean, a tool has no definition, two share a name,
            one that is not user-defined carries `eager_input_streaming`, or that field is no boolean; `betas` are one
            text, or contain the one for fine-grained tool streaming together with a tool that the API refuses with it.
    """
    # Each of these would be a 400 of the API. Found here, it costs no request, and `EagerFallback` does not take it for
    # a platform that refuses eager inputs.
    if "stream" in parameters:
        raise UsageError("stream is not a parameter here: every request is streamed")
    if not isinstance(eager, bool):
        raise UsageError(f"eager must be True or False, not {eager!r:.80}")
    definitions = [_sent_definition(tool, eager=eager) for tool in tools]
    names = [definition["name"] for definition in definitions if "name" in definition]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"more than one tool is named {', '.join(map(repr, twice))}")
    request = {"model": model, "max_tokens": max_tokens, **parameters}
    betas = parameters.get("betas")
    if isinstance(betas, str):
        raise UsageError(f"betas must be a list of texts, not {betas!r:.80}")
    if isinstance(betas, Iterable):
        # An iterator would be empty when they are sent, because they are looked at before.
        request["betas"] = list(betas)
    check_legacy_beta(definitions, betas_of(request, ()))
    return {**request, "tools": definitions} if definitions else request


def _sent_definition(tool: DefinedTool | Mapping[str, Any], *, eager: bool) -> SentDefinition:
    """Return the definition of a tool, with the field that asks for eager inputs if the tool may have it."""
    # The field is added to every user-defined tool, whatever library made it: this library exists to show inputs as
    # they are written. An explicit `false` wins, because the API checks such an input before it sends it.
    if isinstance(tool, SentDefinition):
        return tool
    if isinstance(tool, Mapping):
        definition = SentDefinition(tool)
    elif hasattr(tool, "to_dict"):
        definition = SentDefinition(tool.to_dict())
    else:
        name = getattr(tool, "__name__", type(tool).__name__)
        raise UsageError(f"{name} is not a tool: decorate it with @eagerstream.tool, or give a definition")
    kind = tool_kind(definition)
    if EAGER_FIELD not in definition:
        # A tool of ours with `eager=None` says that it leaves the choice to the API.
        if eager and kind == USER_DEFINED and getattr(tool, "eager", True) is not None:
            definition[EAGER_FIELD] = True
    elif kind != USER_DEFINED:
        raise UsageError(f"only user-defined tools take {EAGER_FIELD}, not {kind}")
    elif not isinstance(definition[EAGER_FIELD], bool | None):
        raise UsageError(f"{EAGER_FIELD} must be True or False, not {definition[EAGER_FIELD]!r:.80}")
    return definition


class MessageStream(EventFeed[StreamEvent], Generic[OutputT]):
    """One response: an async context manager, and an async iterator over `StreamEvent`s.

    The iteration (or `finish`) raises, after the events before it:
        APIError: The API refused the request, or sent an `error` event.
        StreamInterrupted: The response broke off; `error.message` is the part that had come.
        ProtocolError: The body is no stream of the API's events.
        LimitError: The body is larger, or takes longer, than `limits` allow.
        UsageError: The client cannot send the request.

    Cancellation: leaving the block early, or being cancelled in it, closes the connection. `message` has the part that
    had come, and every input is settled.
    """

    def __init__(
        self,
        transport: EagerFallback,
        request: RequestBody,
        inputs: InputOptions,
        delivery: Delivery[StreamEvent],
        *,
        limits: Limits,
        clock: Clock,
        output: OutputReader | None = None,
    ) -> None:
        self._transport = transport
        assembler = MessageAssembler(limits=limits, input_type=GrowingInput, messages=request["messages"], **inputs)
        self.marks: ReplyMarks = ReplyMarks(clock)
        """The times of the response."""
        self._exchange = Exchange(delivery, request, assembler, self.marks, output)
        super().__init__(delivery, _Reading(transport, self._exchange, limits))
        self._id = uuid4().hex
        # The first observer, so that others can ask it about the event that they are shown.
        self.observe(self.marks)

    @property
    def id(self) -> str:
        """An id of the stream in this process, by which those who watch tell it from others."""
        return self._id

    @property
    def request_id(self) -> str | None:
        """The API's id of the request, once the response has started."""
        return self._exchange.request_id

    @property
    def client(self) -> object:
        """The client that sends the request, as it was given."""
        return self._transport.client

    @property
    def model(self) -> str:
        """The model of the request."""
        return str(self._exchange.request["model"])

    @property
    def eager(self) -> EagerForm | None:
        """The form in which the accepted request asked for inputs as they are written: `"field"` or `"header"`.

        `"field"` is `eager_input_streaming` of its tools. None before the request was accepted, if no tool asks, and if
        both forms were refused; see `eager_fallback`.
        """
        return self._transport.eager

    @property
    def message(self) -> AssistantMessage:
        """The assistant message so far, in the form for a history.

        It has each call under its `ToolInput.echo_id`, which its result must have, too.
        """
        return self._exchange.assembler.message

    def typed_message(self) -> AnthropicMessage:
        """Return `message` as an object of the anthropic package."""
        return typed_message(self.message)

    async def __aenter__(self) -> Self:
        check_key(self.client, lambda: self._exchange.request)
        return await super().__aenter__()

    async def finish(self) -> None:
        """Read to the end without handing out events, if you want only the message.

        Cancelling this does not stop the reading: leave the block for that. Events are dropped from the call on.

        Raises:
            EagerStreamError: The error that the iteration would have raised.
            UsageError: The block was not entered.
        """
        await self._finish()

    async def get_final_message(self) -> AssistantMessage:
        """Read to the end, and return the assistant message. It is `finish` and `message` in one; see there.

        Raises:
            EagerStreamError: As for `finish`.
        """
        await self._finish()
        return self.message

    @property
    def stop_reason(self) -> str | None:
        """The reason why the model stopped; None until it has."""
        return self._exchange.assembler.stop_reason

    @property
    def is_whole(self) -> bool:
        """True if the message is complete."""
        return self._exchange.is_whole

    @property
    def is_intact(self) -> bool:
        """True if the message is complete and as the API sent it: each input is valid, and nothing was mended."""
        return self._exchange.assembler.is_intact

    @property
    def output(self) -> OutputT | None:
        """The value of the text, validated strictly, if `output` asked for one; None unless it is `VALID`."""
        return None if self._ended_output is None else self._ended_output.value

    @property
    def output_outcome(self) -> Outcome | None:
        """The outcome of `output`; None until the response has ended, and if no output was asked for."""
        return None if self._ended_output is None else self._ended_output.outcome

    @property
    def output_error(self) -> str | None:
        """The reason why there is no `output`; None if there is one. It may quote the text."""
        return None if self._ended_output is None else self._ended_output.error

    @property
    def inputs(self) -> Mapping[int, GrowingInput]:
        """Block index to tool input. An index that the peer uses again counts as the next free one."""
        return self._exchange.assembler.inputs

    @property
    def lost_fragments(self) -> int:
        """The number of fragments whose call never started: a part of the message was lost on the way."""
        return self._exchange.assembler.lost_fragments

    @property
    def violations(self) -> Sequence[str]:
        """The peer's violations of the protocol so far, in words that quote no model; the first 100."""
        return self._exchange.assembler.violations

    @property
    def _ended_output(self) -> GrowingOutput[OutputT] | None:
        return None if self._exchange.output is None else self._exchange.output.ended


class _Reading:
    """The driver of a stream: it reads one response."""

    is_idle = True

    def __init__(self, transport: EagerFallback, exchange: Exchange, limits: Limits) -> None:
        self._transport = transport
        self._exchange = exchange
        self._limits = limits

    @property
    def idle_s(self) -> float | None:
        """See `EventFeed`."""
        return self._exchange.idle_s

    async def read(self, _: HostedTasks) -> None:
        """See `Driver`."""
        exchange = self._exchange
        try:
            await read_reply(self._transport, exchange, limits=self._limits)
        finally:
            if exchange.output is not None:
                exchange.output.end(exchange.assembler.message, broken=not exchange.is_whole)

    def ended(self, failure: BaseException | None, /) -> FeedEnd:
        """See `Driver`."""
        # The status has the words of `RunStatus`, so that an observer need not know which kind of feed it sees. A
        # stream without an error and without a complete message was left early.
        assembler, is_whole = self._exchange.assembler, self._exchange.is_whole
        usage = assembler.message.get("usage") or {}
        violations = assembler.violation_count
        if failure is not None:
            error = {"type": type(failure).__name__, "text": str(failure)}
            return FeedEnd("error", 0, usage, error, violations)
        return FeedEnd("completed" if is_whole else "cancelled", int(is_whole), usage, None, violations)

    def close(self) -> None:
        """See `Driver`."""
