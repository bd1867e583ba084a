"""`MessageAssembler`: turns wire events into our events, and into the assistant message as it must be echoed.

An `InputAccumulator` judges the inputs, and this module never does: two judges of the same events could disagree.
This module handles the message around them.

A block is kept as the received dict, and never as an object of a known type. A type loses the fields that it does not
know, and the API refuses a history whose thinking, signatures or server results differ from those it sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Generic, cast

from ._assistant_message import AssistantMessage, blocks_of, counted, uncounted_tokens
from ._decoding import to_wire_event
from ._errors import LimitError
from ._events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    InputFragment,
    Message,
    MessageEvent,
    MessageStart,
    MessageStop,
    ServerToolResult,
    TextDelta,
    ThinkingDelta,
    UnknownEvent,
)
from ._limits import DEFAULT_LIMITS, ParsingLimits
from ._message_inputs import TOOL_BLOCKS, MessageInputs, content_of_start
from ._mypyc import mypyc_attr
from ._open_block import OpenBlock
from ._parser import ParserFactory
from ._partial_json import PartialJSON
from ._places import check_block_count, named
from ._server_tools import SERVER_CALLS, is_server_result, server_calls
from ._tool_input import INVALID_JSON, Outcome, ToolInput
from ._type_variables import InputT
from ._values import mapping_in, values_in


class MessageState(Enum):
    """The life of one message. `message_start` opens one in any state: in the middle of another it restarts it."""

    WAITING = "waiting"
    """Nothing of the message has come."""
    OPEN = "open"
    """Between `message_start` and `message_stop`."""
    STOPPED = "stopped"
    """Complete: `message_stop` came, or the body ended cleanly after a stop reason."""
    INTERRUPTED = "interrupted"
    """The body ended before the message did."""


# Deltas whose text is appended to a field of the block.
_APPENDED: Final = {"text_delta": "text", "thinking_delta": "thinking"}
# Deltas that replace fields of the block: a signature comes in one piece, and two joined would be refused.
_ASSIGNED: Final = {"signature_delta": ("signature",), "compaction_delta": ("content", "encrypted_content")}


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageAssembler(Generic[InputT]):
    """Assembles consecutive messages.

    Every block is kept as received (thinking with its signature, server results, unknown kinds), in the order of the
    indexes; gaps do not matter. The exceptions are parts that the API would refuse in a history:

    - The `input` of a tool call becomes its value once it is valid, and `{"INVALID_JSON": raw}` if it is not.
    - Names and ids with illegal characters get stand-ins (`ToolInput.echo_id`, `echo_name`).
    - A field without a JSON form is dropped.

    Args:
        parser, limits, input_type, invalid_key, reports: As for `InputAccumulator`.
        messages: The messages of the request. They may contain calls for the API to run whose results come in this
            response, see `ServerToolResult.call`.

    Attributes:
        state: The stage of the message's life.
        feed_deltas: See `InputAccumulator.feed_deltas`.

    Raises:
        UsageError: `invalid_key` cannot be sent.
    """

    __slots__ = (
        "_blocks",
        "_earlier_calls",
        "_fields",
        "_has_counted",
        "_inputs",
        "_limits",
        "_messages",
        "_open",
        "_server_calls",
        "_usage",
        "_values",
        "_voided",
        "_voided_blocks",
        "feed_deltas",
        "inputs",
        "state",
    )

    def __init__(
        self,
        *,
        parser: ParserFactory = PartialJSON,
        limits: ParsingLimits = DEFAULT_LIMITS,
        input_type: type[InputT] = ToolInput,  # type: ignore[assignment]  # the default of InputT
        invalid_key: str = INVALID_JSON,
        reports: bool = False,
        messages: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.state: MessageState = MessageState.WAITING
        self._inputs: MessageInputs[InputT] = MessageInputs(
            parser=parser, limits=limits, input_type=input_type, invalid_key=invalid_key, reports=reports
        )
        self.inputs: dict[int, InputT] = self._inputs.inputs
        """Block index to tool input, of the current message."""
        # The bound method of another object, not a method of our own: it would cost one more call for each batch.
        self.feed_deltas: Callable[..., Any] = self._inputs.feed_deltas
        self._open: dict[int, OpenBlock] = self._inputs.open_blocks
        self._limits = limits
        self._fields: Message = {}
        self._usage: dict[str, Any] = {}
        self._has_counted = False  # a `message_delta` has brought the count of the output
        self._blocks: list[OpenBlock] = []
        self._voided: AssistantMessage | None = None
        self._voided_blocks: Sequence[OpenBlock] = ()
        self._values = 0  # of the fields and the blocks of the current message, at most
        self._server_calls: dict[str, OpenBlock] = {}  # of the current message, by id
        self._messages = messages
        # The calls in `messages`, once one was needed. A result seldom answers a call of an earlier response, and a
        # long history takes long to search.
        self._earlier_calls: dict[str, Mapping[str, Any]] | None = None

    @property
    def reports(self) -> bool:
        """See `InputAccumulator.reports`."""
        return self._inputs.reports

    @reports.setter
    def reports(self, reports: bool) -> None:
        self._inputs.reports = reports

    @property
    def is_intact(self) -> bool:
        """True if the message is complete and as the API sent it: each input is valid, and nothing was mended.

        A refused message, or one that another model has continued, does not count as intact.
        """
        if self.state is not MessageState.STOPPED or self.stop_reason in (None, "refusal"):
            return False
        if self.violation_count or any(block.get("type") == "fallback" for block in blocks_of(self.message)):
            return False
        return all(
            input.outcome is Outcome.VALID and input.echo_id == input.id and input.echo_name == input.name
            for input in self.inputs.values()
        )

    @property
    def violations(self) -> list[str]:
        """The violations of the protocol by the peer, in words; the first 100."""
        return self._inputs.violations

    @property
    def violation_count(self) -> int:
        """The number of all violations."""
        return self._inputs.violation_count

    @property
    def lost_fragments(self) -> int:
        """See `InputAccumulator.lost_fragments`."""
        return self._inputs.lost_fragments

    @property
    def stop_reason(self) -> str | None:
        """The stop reason of the current message; None until known. It may come with the start of the message."""
        reason = self._fields.get("stop_reason")
        return reason if isinstance(reason, str) else None

    @property
    def message(self) -> AssistantMessage:
        """The assistant message so far, made anew at each read. An input that is not settled shows as it started.

        It never contains a partial input: a cut one would look like a complete one.
        """
        return self._message(is_over=self.state in (MessageState.STOPPED, MessageState.INTERRUPTED))

    def _message(self, *, is_over: bool) -> AssistantMessage:
        # Sorted, because a peer may open blocks in any order, and the API requires them back in the order of the
        # indexes.
        content = [block.assembled() for block in sorted(self._blocks, key=lambda block: block.index)]
        message: Message = {"type": "message", "role": "assistant", **self._fields, "content": content}
        is_final = self._has_counted and (self.stop_reason is not None or self.state is MessageState.STOPPED)
        # What `message_start` counts is a placeholder: a few tokens, whatever comes.
        is_lower_bound = is_over and not is_final and bool(self._fields or content)
        if self._usage or is_lower_bound:
            message["usage"] = usage = dict(self._usage)
            if is_lower_bound:
                usage["uncounted_output_tokens"] = uncounted_tokens(content, usage.get("output_tokens"))
        return cast("AssistantMessage", message)

    @property
    def voided(self) -> AssistantMessage | None:
        """The message that the last `message_start` voided, with the current ids of its calls; None if none."""
        for block in self._voided_blocks:
            block.assembled()
        return self._voided

    def feed(self, event: Mapping[str, Any] | InputFragment | object) -> list[MessageEvent[InputT]]:
        """Return the events for one wire event: usually one, or several if it also settles an earlier input.

        Args:
            event: As for `InputAccumulator.feed`.

        Raises:
            LimitError: The message has more than `Limits.max_blocks` blocks or `Limits.max_values` values.
            UsageError: `event` is neither a mapping, an `InputFragment` nor an event object.
        """
        data = event if type(event) is dict else to_wire_event(event)
        kind = data.get("type")
        if kind == "content_block_delta":  # nearly every event: before the comparisons of the `match`
            return self._feed_delta(data)
        match kind:
            case "content_block_start":
                return self._feed_block_start(data)
            case "content_block_stop":
                return self._feed_block_stop(data)
            case "message_start":
                return self._feed_message_start(data)
            case "message_delta":
                return self._feed_message_delta(data)
            case "message_stop":
                return self._stop() if self.state is MessageState.OPEN else []
            case "ping" | "error":  # an error ends the response: the reader raises it, and closes the assembler
                return []
            case _:
                # The API adds event types without a new API version: clients are told to expect that.
                return [UnknownEvent(data)]

    def close(self, *, cleanly: bool = True) -> list[MessageEvent[InputT]]:
        """End the body. Afterwards `state` is `STOPPED` for a complete message, `INTERRUPTED` for a cut one.

        A clean end after a stop reason, with every block closed, ends the message: some gateways omit `message_stop`.
        If the model itself ended it, by the stop reason, an open text and a complete input count as closed: some omit
        `content_block_stop`, too. Otherwise, the message may have been cut anywhere. The anthropic client treats every
        end of a body as the end of the message.

        Args:
            cleanly: True if the peer ended the body. False if the connection was lost, or the reading was abandoned.
        """
        is_closed = not self._open or self._inputs.has_ended
        has_ended = self.stop_reason is not None and not self._inputs.has_placeholder and is_closed
        if cleanly and self.state is MessageState.OPEN and has_ended:
            return self._stop()
        inputs = self._inputs.close(self.stop_reason, cut=True)
        events: list[MessageEvent[InputT]] = [*inputs, *self._close_blocks(cut=True)]
        # A complete message stays complete, even if the connection then fails.
        if self.state is not MessageState.STOPPED:
            self.state = MessageState.INTERRUPTED
        return events

    def _feed_message_start(self, data: Mapping[str, Any]) -> list[MessageEvent[InputT]]:
        message = mapping_in(data, "message")
        content = content_of_start(message)
        check_block_count(len(content), self._limits)
        if self._inputs.is_repeated(data):
            return []
        self._values = 0
        self._count(message)
        events: list[MessageEvent[InputT]] = [*self._inputs.close(), *self._close_blocks()]
        # In the middle of a message: a gateway retries. Displays of the first attempt must learn that it is void. After
        # `message_stop` it is another message, and the first one stands.
        voided = self._message(is_over=True) if self.state is MessageState.OPEN else None
        self._fields = {name: value for name, value in message.items() if name not in ("usage", "content")}
        self._usage = counted({}, mapping_in(message, "usage"))
        self._has_counted = False
        self._voided, self._voided_blocks = voided, () if voided is None else self._blocks
        self._blocks = []
        self._server_calls = {}
        events.append(MessageStart(self.message, voided))
        self.state = MessageState.OPEN
        # Calls made from code that the API runs may come complete, inside the start itself.
        events += self._inputs.feed_event(data)
        for index, block in enumerate(content):
            if isinstance(block, Mapping):
                whole = self._open_block(index, block)
                del self._open[index]
                self._look_for_successor(whole)
                said = self._said_at_start(whole)
                if said is not None:
                    events += [BlockStart(whole.index, dict(whole.block)), said]
                if said is not None or is_server_result(block.get("type")):
                    events.append(self._stopped(whole))
        return events

    def _begin_unannounced(self) -> list[MessageEvent[InputT]]:
        """Start a message for content without a `message_start`.

        Some peers send none. The model's content has arrived, and dropping it would help nobody.
        """
        if self.state is MessageState.OPEN:
            return []
        events = self._feed_message_start({"type": "message_start"})
        self._inputs.note("no message_start was fed before the content")
        return events

    def _feed_block_start(self, data: Mapping[str, Any]) -> list[MessageEvent[InputT]]:
        index: Any = data.get("index")
        block = data.get("content_block")
        start = self._inputs.start_repeated_before(index)
        events = [] if start is None else self._feed_message_start(start)
        check_block_count(len(self._blocks) + 1 if self.state is MessageState.OPEN else 1, self._limits)
        events += self._begin_unannounced()
        if type(index) is not int or not isinstance(block, Mapping):
            return events + list(self._inputs.feed_event(data))
        self._count(block)
        # The index may be open already. Its block ends as it is: the texts of two blocks must not be joined.
        replaced = self._open.pop(index, None)
        if replaced is not None and replaced.input is None:
            events.append(self._stopped(replaced))
        events += self._inputs.feed_event(data)
        opened = self._open_block(index, block)
        if opened.input is None:
            # A copy, because the event shows the start of the block, and the block grows.
            events.append(BlockStart(opened.index, dict(opened.block)))
            said = self._said_at_start(opened)
            if said is not None:
                events.append(said)
        self._look_for_successor(opened)
        return events

    def _count(self, added: Mapping[str, Any]) -> None:
        """Count the values of a new part of the message, before any other work for them.

        The response is settled in one step, and the next request is written in one step.

        Raises:
            LimitError: The message has more than `Limits.max_values`, without its texts and inputs that are streamed.
        """
        self._values += values_in(added, self._limits.max_values)
        if self._values > self._limits.max_values:
            raise LimitError("max_values", self._limits.max_values, "the number of values in a message")

    def _said_at_start(self, opened: OpenBlock) -> TextDelta | ThinkingDelta | None:
        """Return the delta of a text that came with the start of its block, as some gateways send it; None if none."""
        kind = opened.block.get("type")
        piece = opened.block.get(kind) if kind in ("text", "thinking") else None
        if not isinstance(piece, str) or not piece:
            return None
        return TextDelta(opened.index, piece) if kind == "text" else ThinkingDelta(opened.index, piece, None)

    def _look_for_successor(self, opened: OpenBlock) -> None:
        """Take the model from a `fallback` block: it writes the rest of the message."""
        if opened.block.get("type") == "fallback":
            model = mapping_in(opened.block, "to").get("model")
            if isinstance(model, str):
                self._fields["model"] = model

    def _open_block(self, index: int, block: Mapping[str, Any]) -> OpenBlock:
        # The accumulator assigned the place, so that inputs and blocks always have the same one.
        opened = OpenBlock(self._inputs.places.newest[index], block)
        if block.get("type") in TOOL_BLOCKS:
            opened.input = self.inputs[opened.index]
            if block["type"] in SERVER_CALLS:
                self._server_calls[opened.input.echo_id] = opened
        self._open[index] = opened
        self._blocks.append(opened)
        return opened

    def _feed_delta(self, data: Mapping[str, Any]) -> list[MessageEvent[InputT]]:
        delta = data.get("delta")
        if type(delta) is not dict:  # checked here, which saves a call for nearly every event
            delta = mapping_in(data, "delta")
        kind = delta.get("type")
        if kind == "input_json_delta":
            events: list[Any] = self._inputs.feed_fragment(data.get("index"), delta.get("partial_json"))
            return events
        index: Any = data.get("index")
        opened = self._open.get(index) if type(index) is int else None
        if not isinstance(kind, str):
            self._inputs.feed_event(data)
            return [UnknownEvent(data)]
        if opened is None:
            self._inputs.note(f"a delta for {named(index)}, which is not open")
            return [UnknownEvent(data)]
        if opened.input is not None:
            self._inputs.note(f"a delta for {named(index)} that is none of a tool call")
            return [UnknownEvent(data)]
        if kind in _APPENDED:
            piece = delta.get(_APPENDED[kind])
            if not isinstance(piece, str):
                return [UnknownEvent(data)]
            opened.pieces(_APPENDED[kind]).append(piece)
            if kind == "text_delta":
                return [TextDelta(opened.index, piece)] if piece else []
            tokens: Any = delta.get("estimated_tokens")
            tokens = tokens if type(tokens) is int else None
            return [ThinkingDelta(opened.index, piece, tokens)] if piece or tokens is not None else []
        if kind in _ASSIGNED:  # no event: nobody displays a signature, and the message contains it
            opened.block.update({name: delta[name] for name in _ASSIGNED[kind] if name in delta})
            return []
        if kind == "citations_delta":
            citation = delta.get("citation")
            if not isinstance(citation, Mapping):
                return [UnknownEvent(data)]
            self._count(citation)
            opened.cite(citation)
            return [CitationDelta(opened.index, citation)]
        return [UnknownEvent(data)]

    def _feed_block_stop(self, data: Mapping[str, Any]) -> list[MessageEvent[InputT]]:
        events: list[MessageEvent[InputT]] = list(self._inputs.feed_event(data))
        index: Any = data.get("index")
        stopped = self._open.pop(index, None) if type(index) is int else None
        if stopped is None:
            self._inputs.note(f"content_block_stop for {named(index)}, which is not open")
        elif stopped.input is None:
            events.append(self._stopped(stopped))
        return events

    def _feed_message_delta(self, data: Mapping[str, Any]) -> list[MessageEvent[InputT]]:
        if self.state is MessageState.STOPPED:
            return [UnknownEvent(data)]  # too late to change a message that was returned as complete
        # Gateways and newer versions of the API put fields of the message next to the delta, for example
        # `context_management`. A null keeps the known value: it means "nothing new", as in usage counts.
        events = self._begin_unannounced()
        self._count(data)
        known = {name: value for name, value in data.items() if name not in {"type", "delta", "usage"}}
        known.update(mapping_in(data, "delta"))
        known.pop("usage", None)
        if not isinstance(known.get("stop_reason"), str) and self.stop_reason is not None:
            known.pop("stop_reason", None)  # what is no word replaces none
        self._fields.update({name: value for name, value in known.items() if value is not None})
        # Cumulative: a count replaces the earlier one; a missing or null count keeps it.
        # Some gateways have them inside the delta.
        counts = mapping_in(data, "usage") or mapping_in(mapping_in(data, "delta"), "usage")
        for name, count in counts.items():
            if count is not None:
                self._usage[name] = counted(self._usage.get(name), count)
        self._has_counted = self._has_counted or type(counted(None, counts.get("output_tokens"))) is int
        return events + list(self._inputs.feed_event(data))

    def _stop(self) -> list[MessageEvent[InputT]]:
        events: list[MessageEvent[InputT]] = [*self._inputs.end_message(self.stop_reason), *self._close_blocks()]
        if self.stop_reason == "end_turn":
            # The client is to run calls if the last of these is one: those before a `fallback` block are void.
            kinds = [block.block.get("type") for block in sorted(self._blocks, key=lambda block: block.index)]
            if [kind for kind in kinds if kind in ("tool_use", "fallback")][-1:] == ["tool_use"]:
                self._inputs.note("the stop reason is end_turn although the message has tool calls")
        self.state = MessageState.STOPPED
        return [*events, MessageStop(self.message, self.stop_reason)]

    def _close_blocks(self, *, cut: bool = False) -> list[MessageEvent[InputT]]:
        """Stop the blocks whose `content_block_stop` never came, for their observers."""
        left = [block for block in self._open.values() if block.input is None]
        for block in left if not cut else ():  # if the body was cut, the peer did nothing wrong
            self._inputs.note(f"{named(block.index)} was never closed")
        self._open.clear()
        return [self._stopped(block) for block in left]

    def _stopped(self, block: OpenBlock) -> BlockStop:
        whole = block.assembled()
        if not is_server_result(whole.get("type")):
            return BlockStop(block.index, whole)
        id = whole.get("tool_use_id")
        call: Mapping[str, Any] | None = None  # that the API was to run, in its echoed form
        if isinstance(id, str):
            opened = self._server_calls.get(id)
            if opened is not None:
                call = opened.assembled()
            else:
                if self._earlier_calls is None:
                    self._earlier_calls = server_calls(self._messages)
                call = self._earlier_calls.get(id)
        return ServerToolResult(block.index, whole, call)
