"""`stream`: one streaming request. Await bytes, feed the wire core, hand out events."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, Unpack

from ..errors import UsageError
from ..limits import DEFAULT_LIMITS, Limits
from ..transports import Reply, RequestBody, as_transport
from ..transports._base import betas_of, check_legacy_beta
from ..transports._eager_fallback import EagerFallback, EagerForm
from ..wire import MessageAssembler, MessageEvent, MessageState
from ..wire._accumulator import check_invalid_key
from ..wire._events import Message
from ..wire._tool_kind import EAGER_FIELD, USER_DEFINED, tool_kind
from ._event_buffer import EventBuffer
from ._event_feed import EventFeed
from ._growing_input import GrowingInput
from ._marks import Clock, ReplyMarks
from ._observers import FeedEnd
from ._options import FEED_DEFAULTS, INPUT_DEFAULTS, InputOptions, StreamOptions, buffer_for, check_names, taken
from ._reading import read_reply

_log = logging.getLogger(__name__)

StreamEvent: TypeAlias = MessageEvent[GrowingInput]


class Definition(Protocol):
    """A tool that knows its definition: one of ours, or of the anthropic package's helpers."""

    def to_dict(self) -> Mapping[str, Any]:
        """The definition as the API takes it."""
        ...


def stream(
    client: Any,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Definition | Mapping[str, Any]] = (),
    **options: Unpack[StreamOptions],
) -> MessageStream:
    """One streaming request to the Messages API, its events while they come, and the message at the end.

        async with eagerstream.stream(client, model=..., max_tokens=..., tools=[...], messages=[...]) as stream:
            async for event in stream:
                ...
        message = stream.message

    Nothing is sent before the block is entered. Leaving it early, or being cancelled in it, closes the connection.
    A slow consumer slows only itself: reading goes on.

    Args:
        client: An async client of the anthropic package, an `HTTPTransport`, a `Recording` to play back; or the body of
            a response that is there already: an async iterator of bytes or of events, or a response of httpx.
        model, max_tokens, messages: As in the API.
        tools: Functions decorated with `@tool`, tools of other libraries with `to_dict()`, or definitions as the API
            takes them. Betas that they need are added to the request.
        options: See `StreamOptions`: those of inputs and events (`InputOptions`, `FeedOptions`), and everything else
            that the API takes (`system`, `tool_choice`, `thinking`, `betas`, ...: `RequestParameters`).

    Raises:
        UsageError: The client is of the wrong kind, a setting is out of range, or the definition of a tool that is not
            user-defined carries `eager_input_streaming`. At once, before anything is sent.
    """
    rest: dict[str, Any] = dict(options)
    inputs, feed = taken(rest, INPUT_DEFAULTS), taken(rest, FEED_DEFAULTS)
    check_invalid_key(inputs["invalid_key"])
    limits: Limits = rest.pop("limits", DEFAULT_LIMITS)
    eager: bool = rest.pop("eager", True)
    check_names(rest, StreamOptions)
    request = request_parameters(model, max_tokens, tools, rest, eager=eager)
    request = {"messages": checked_messages(messages), **request}
    transport = EagerFallback(as_transport(client), client, feed["eager_fallback"])
    return MessageStream(transport, request, inputs, buffer_for(feed, limits), limits=limits, clock=feed["clock"])


def checked_messages(messages: object) -> list[Mapping[str, Any]]:
    """The messages, in a list of their own.

    Raises:
        UsageError: They are no list of mappings.
    """
    if not isinstance(messages, Iterable) or isinstance(messages, str | bytes | Mapping):
        raise UsageError(f"messages must be a list of messages, not {type(messages).__name__}")
    listed = list(messages)
    for message in listed:
        if not isinstance(message, Mapping):
            raise UsageError(f"a message must be a mapping, not {type(message).__name__}")
    return listed


class SentDefinition(dict[str, Any]):
    """The definition of a tool as a request has it: nothing is added to it any more."""


def request_parameters(
    model: str,
    max_tokens: int,
    tools: Sequence[Definition | Mapping[str, Any]],
    parameters: Mapping[str, Any],
    *,
    eager: bool,
) -> dict[str, Any]:
    """The body of a request, without its messages.

    Raises:
        UsageError: `stream` is among the parameters, a tool has no definition, two share a name, one that is not
            user-defined carries `eager_input_streaming`, or that is no boolean; `betas` are one text, or have the one
            for fine-grained tool streaming beside a tool that the API refuses with it.
    """
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
        request["betas"] = list(betas)  # they are looked at more than once
    check_legacy_beta(definitions, betas_of(request, ()))
    return {**request, "tools": definitions} if definitions else request


def _sent_definition(tool: Definition | Mapping[str, Any], *, eager: bool) -> SentDefinition:
    """The definition of a tool, with the field that asks for eager inputs where it belongs."""
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


class MessageStream(EventFeed[StreamEvent]):
    """What `stream` gives: an async context manager, and an async iterator over `StreamEvent`s.

    The iteration (or `finish`) raises, after the events before it:
        APIError: The API refused the request, or sent an `error` event.
        StreamInterrupted: The reply broke off; `error.message` has what had come.
        ProtocolError, LimitError: The body is not what the API sends, or more than `limits` allow.
    """

    def __init__(
        self,
        transport: EagerFallback,
        request: RequestBody,
        inputs: InputOptions,
        events: EventBuffer[StreamEvent],
        *,
        limits: Limits,
        clock: Clock,
    ) -> None:
        super().__init__(events)
        self.request_id: str | None = None
        """The API's id of the request, once the reply has begun."""
        self._transport = transport
        self._request = request
        self._limits = limits
        self._assembler = MessageAssembler(
            limits=limits, input_type=GrowingInput, messages=request["messages"], **inputs
        )
        self.marks = ReplyMarks(clock)
        """What of the reply came when."""
        self.observe(self.marks)

    @property
    def client(self) -> object:
        """What the requests are sent with, as it was given."""
        return self._transport.client

    @property
    def model(self) -> str:
        """The model that is asked."""
        return str(self._request["model"])

    @property
    def eager(self) -> EagerForm | None:
        """How the accepted request asked for inputs as they are written: `"field"` (of its tools) or `"header"`.

        None before it was accepted, where no tool asks, and where all that asks was refused; see `eager_fallback`.
        """
        return self._transport.eager

    @property
    def message(self) -> Message:
        """The assistant message as far as it has come, as it must be echoed in a history.

        A call stands in it under its `ToolInput.echo_id`, and so must its result.
        """
        return self._assembler.message

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped; None until it has."""
        return self._assembler.stop_reason

    @property
    def is_whole(self) -> bool:
        """The message has come to its end."""
        return self._assembler.state is MessageState.STOPPED

    @property
    def inputs(self) -> Mapping[int, GrowingInput]:
        """Block index to tool input. An index that the peer uses again counts as the next free one."""
        return self._assembler.inputs

    @property
    def lost_fragments(self) -> int:
        """The number of fragments whose call never began: a part of the message was lost on the way."""
        return self._assembler.lost_fragments

    @property
    def violations(self) -> Sequence[str]:
        """The violations of the protocol by the peer so far, in words that quote no model; the first 100."""
        return self._assembler.violations

    async def _read(self) -> None:
        await read_reply(self._transport, self._request, self._assembler, self, limits=self._limits)

    def _how_it_ended(self) -> FeedEnd:
        usage = self.message.get("usage") or {}
        violations = self._assembler.violation_count
        if self._failure is not None:
            error = {"type": type(self._failure).__name__, "text": str(self._failure)}
            return FeedEnd("error", 0, usage, error, violations)
        return FeedEnd("completed" if self.is_whole else "cancelled", int(self.is_whole), usage, None, violations)

    def sending(self, request: RequestBody) -> None:
        """See `Sink.sending`."""
        self.show_sending(request)

    def opened(self, reply: Reply) -> None:
        """See `Sink.opened`."""
        self.marks.opened()
        self.request_id = reply.request_id

    def take(self, events: list[StreamEvent]) -> bool:
        """See `Sink.take`."""
        return self.put_all(events)

    def ended(self) -> None:
        """See `Sink.ended`."""
        self.marks.ended()
