"""`MessageAssembler`: wire events in; our events, and the assistant message as it must be echoed, out.

It asks an `InputAccumulator` about the inputs, and judges none itself: two judges of the same events could disagree.
This module knows the message around them.

A block is kept as the dict that came, and never as an object of a known type. A type loses the fields that it does not
know, and the API refuses a history whose thinking, signatures or server results are not what it sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, Generic

from ..limits import DEFAULT_LIMITS, Limits
from ._accumulator import TOOL_BLOCKS, InputAccumulator, check_block_count, content_of_start, named
from ._decoding import to_wire_event
from ._echo import repaired
from ._events import (
    Block,
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
from ._mypyc import mypyc_attr
from ._parser import ParserFactory
from ._partial_json import PartialJSON
from ._server_tools import SERVER_CALLS, is_server_result, server_calls
from ._tool_input import INVALID_JSON, ToolInput
from ._type_variables import InputT
from ._values import mapping_in


class MessageState(Enum):
    """The life of one message. `message_start` opens one in any state: in the middle of another it restarts it."""

    WAITING = "waiting"
    """Nothing of it has come."""
    OPEN = "open"
    """Between `message_start` and `message_stop`."""
    STOPPED = "stopped"
    """Whole: `message_stop` came, or the body ended cleanly after a stop reason."""
    INTERRUPTED = "interrupted"
    """The body ended before the message did."""


# Deltas whose text is appended to a field of the block.
_APPENDED: Final = {"text_delta": "text", "thinking_delta": "thinking"}
# Deltas that replace fields of the block: a signature comes whole, and joining two would be refused.
_ASSIGNED: Final = {"signature_delta": ("signature",), "compaction_delta": ("content", "encrypted_content")}


class _OpenBlock:
    """A block and what has been appended to it.

    Pieces wait in a list until somebody looks at the message. `text += piece` on a field of a dict copies the text each
    time: 1.28 MB in pieces of 8 characters took 33 s, and 11 ms with a list.
    """

    __slots__ = ("_appended", "_citations", "block", "index", "input")

    def __init__(self, index: int, block: Mapping[str, Any]) -> None:
        self.index = index
        # A copy: the event that brought the block may be recorded, or shown to an observer, after this has changed.
        self.block: Block = repaired(block)
        self.input: ToolInput | None = None
        self._appended: dict[str, list[str]] = {}
        self._citations: list[Any] | None = None

    def append(self, name: str, piece: str) -> None:
        pieces = self._appended.get(name)
        if pieces is None:
            start = self.block.get(name)
            pieces = self._appended[name] = [start] if isinstance(start, str) else []
        pieces.append(piece)

    def cite(self, citation: Any) -> None:
        if self._citations is None:  # a list of our own: that of the event is the peer's
            start = self.block.get("citations")
            self._citations = self.block["citations"] = [*start] if isinstance(start, list) else []
        self._citations.append(citation)

    def assembled(self) -> Block:
        """The block as of now; the same dict each time, so that it keeps its identity in events and message."""
        for name, pieces in self._appended.items():
            if len(pieces) > 1:
                pieces[:] = ["".join(pieces)]
            self.block[name] = pieces[0]
        # Under the ids that the API takes back. The block is echoed, and the answer of the call names the same id.
        if self.input is not None:
            self.block["id"] = self.input.echo_id
            self.block["name"] = self.input.echo_name
            if self.input.outcome is not None:
                self.block["input"] = self.input.wrapped
        return self.block


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageAssembler(Generic[InputT]):
    """Puts one message after another together.

    Every block is kept as received (thinking with its signature, server results, kinds not known here), in the order
    of the indexes; gaps do not matter. The exceptions are what the API would refuse in a history: the `input` of a tool
    call is its value once it is valid, and `{"INVALID_JSON": raw}` if it turns out not to be; names and ids with
    illegal characters have stand-ins (`ToolInput.echo_id`, `echo_name`); a field without a JSON form is left out.

    Args:
        parser, limits, input_type, invalid_key, reports: As for `InputAccumulator`.
        messages: What was sent. A call in there that the API was to run may have its result in the reply, see
            `ServerToolResult.call`.

    Attributes:
        state: Where in its life the message is.
        feed_deltas: See `InputAccumulator.feed_deltas`.
    """

    def __init__(
        self,
        *,
        parser: ParserFactory = PartialJSON,
        limits: Limits = DEFAULT_LIMITS,
        input_type: type[InputT] = ToolInput,  # type: ignore[assignment]  # the default of InputT
        invalid_key: str = INVALID_JSON,
        reports: bool = False,
        messages: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.state = MessageState.WAITING
        self._accumulator = InputAccumulator(
            parser=parser, limits=limits, input_type=input_type, invalid_key=invalid_key, reports=reports
        )
        self.inputs: dict[int, InputT] = self._accumulator.inputs
        """Block index to tool input, of the message under way."""
        # The bound method of the accumulator and no method of our own: a fragment changes nothing here, and one more
        # call for each batch would be the only thing to be had for it.
        self.feed_deltas = self._accumulator.feed_deltas
        self._limits = limits
        self._fields: Message = {}
        self._usage: dict[str, Any] = {}
        self._blocks: list[_OpenBlock] = []
        self._voided: Message | None = None
        self._voided_blocks: list[_OpenBlock] = []
        self._open: dict[int, _OpenBlock] = {}
        self._server_calls: dict[str, _OpenBlock] = {}  # of the message under way, by id
        self._messages = messages
        # Of `messages`, once one was looked for. A result seldom answers a call of an earlier response, and a long
        # history takes long to search.
        self._earlier_calls: dict[str, Mapping[str, Any]] | None = None

    @property
    def reports(self) -> bool:
        """See `InputAccumulator.reports`."""
        return self._accumulator.reports

    @reports.setter
    def reports(self, reports: bool) -> None:
        self._accumulator.reports = reports

    @property
    def violations(self) -> list[str]:
        """The violations of the protocol by the peer, in words; the first 100."""
        return self._accumulator.violations

    @property
    def violation_count(self) -> int:
        """The number of all violations."""
        return self._accumulator.violation_count

    @property
    def lost_fragments(self) -> int:
        """See `InputAccumulator.lost_fragments`."""
        return self._accumulator.lost_fragments

    @property
    def stop_reason(self) -> str | None:
        """The reason why the message under way stopped; None until known. It may come with the start of the message."""
        reason = self._fields.get("stop_reason")
        return reason if isinstance(reason, str) else None

    @property
    def message(self) -> Message:
        """The assistant message as of now, made anew at each look; an input not settled yet shows as it started.

        A partial input is never in it: a cut one would look like a complete one.
        """
        # Sorted, because the blocks of a peer may open in any order, and the API wants them back in that of the
        # indexes.
        content = [block.assembled() for block in sorted(self._blocks, key=lambda block: block.index)]
        message: Message = {"type": "message", "role": "assistant", **self._fields, "content": content}
        if self._usage:
            message["usage"] = dict(self._usage)
        return message

    @property
    def voided(self) -> Message | None:
        """The message that the last `message_start` voided, with the ids that its calls have now; None if none."""
        for block in self._voided_blocks:
            block.assembled()
        return self._voided

    def feed(self, event: Mapping[str, Any] | InputFragment | object) -> list[MessageEvent[InputT]]:
        """What one wire event means: usually one event of ours; several where it also settles an earlier input.

        Raises:
            LimitError: More than `Limits.max_blocks` blocks.
            UsageError: `event` is neither a mapping nor an event object.
        """
        data = to_wire_event(event)
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
            case "ping" | "error":  # an error ends the response: the reader raises it, and closes this
                return []
            case _:
                # The API adds types of events without a new version of it: clients are told to expect that.
                return [UnknownEvent(data)]

    def close(self, *, cleanly: bool = True) -> list[MessageEvent[InputT]]:
        """The body has ended. Afterwards `state` is `STOPPED` for a whole message, `INTERRUPTED` for a cut one.

        A clean end after a stop reason, every block closed, is an end: some gateways leave `message_stop` out. Without
        all three the message may have been cut anywhere. The anthropic client takes every end of a body for the end of
        the message.

        Args:
            cleanly: The peer ended the body; False where the connection was lost, or the reading given up.
        """
        has_ended = self.stop_reason is not None and not self._accumulator.has_placeholder and not self._open
        if cleanly and self.state is MessageState.OPEN and has_ended:
            return self._stop()
        inputs = self._accumulator.close(self.stop_reason, cut=True)
        events: list[MessageEvent[InputT]] = [*inputs, *self._close_blocks(cut=True)]
        # A whole message stays whole, whatever becomes of the connection after it.
        if self.state is not MessageState.STOPPED:
            self.state = MessageState.INTERRUPTED
        return events

    def _feed_message_start(self, data: Mapping[str, Any]) -> list[MessageEvent[InputT]]:
        message = mapping_in(data, "message")
        content = content_of_start(message)
        check_block_count(len(content), self._limits)
        events: list[MessageEvent[InputT]] = [*self._accumulator.close(), *self._close_blocks()]
        # In the middle of a message: a gateway tries again. Whoever has shown the first attempt must hear that it is
        # void. After `message_stop` it is another message, and the first one stands.
        voided = self.message if self.state is MessageState.OPEN else None
        self._fields = {name: value for name, value in message.items() if name not in ("usage", "content")}
        self._usage = dict(mapping_in(message, "usage"))
        self._voided, self._voided_blocks = voided, self._blocks
        self._blocks = []
        self._server_calls = {}
        events.append(MessageStart(self.message, voided))
        self.state = MessageState.OPEN
        # Calls made from code that the API runs may come whole, inside the start itself.
        events += self._accumulator.feed_event(data)
        for index, block in enumerate(content):
            if isinstance(block, Mapping):
                whole = self._open_block(index, block)
                del self._open[index]
                self._look_for_successor(whole)
                if is_server_result(block.get("type")):
                    events.append(self._stopped(whole))
        return events

    def _begin_unannounced(self) -> list[MessageEvent[InputT]]:
        """Content without a `message_start` before it is taken as a message all the same.

        Some peers send none. What the model wrote is there, and dropping it would help nobody.
        """
        return [] if self.state is MessageState.OPEN else self._feed_message_start({"type": "message_start"})

    def _feed_block_start(self, data: Mapping[str, Any]) -> list[MessageEvent[InputT]]:
        index: Any = data.get("index")
        block = data.get("content_block")
        check_block_count(len(self._blocks) + 1 if self.state is MessageState.OPEN else 1, self._limits)
        events = self._begin_unannounced()
        if type(index) is not int or not isinstance(block, Mapping):
            return events + list(self._accumulator.feed_event(data))
        # The index may be open already. Its block ends as it is: the texts of two blocks must not become one.
        replaced = self._open.pop(index, None)
        if replaced is not None and replaced.input is None:
            events.append(self._stopped(replaced))
        events += self._accumulator.feed_event(data)
        opened = self._open_block(index, block)
        if opened.input is None:
            # A copy, because the event says how the block began, and the block grows.
            events.append(BlockStart(opened.index, dict(opened.block)))
        self._look_for_successor(opened)
        return events

    def _look_for_successor(self, opened: _OpenBlock) -> None:
        """Another model may take over: the rest of the message is by it."""
        if opened.block.get("type") == "fallback":
            model = mapping_in(opened.block, "to").get("model")
            if isinstance(model, str):
                self._fields["model"] = model

    def _open_block(self, index: int, block: Mapping[str, Any]) -> _OpenBlock:
        # The accumulator has given the block its place, so that inputs and blocks never have different ones.
        opened = _OpenBlock(self._accumulator.places.newest[index], block)
        if block.get("type") in TOOL_BLOCKS:
            opened.input = self.inputs[opened.index]
            if block["type"] in SERVER_CALLS:
                self._server_calls[opened.input.echo_id] = opened
        self._open[index] = opened
        self._blocks.append(opened)
        return opened

    def _feed_delta(self, data: Mapping[str, Any]) -> list[MessageEvent[InputT]]:
        delta = data.get("delta")
        if type(delta) is not dict:  # asked here, which saves nearly every event a call
            delta = mapping_in(data, "delta")
        kind = delta.get("type")
        if kind == "input_json_delta":
            events: list[Any] = self._accumulator.feed_fragment(data.get("index"), delta.get("partial_json"))
            return events
        index: Any = data.get("index")
        opened = self._open.get(index) if type(index) is int else None
        if not isinstance(kind, str):
            self._accumulator.feed_event(data)
            return [UnknownEvent(data)]
        if opened is None:
            self._accumulator.note(f"a delta for {named(index)}, which is not open")
            return [UnknownEvent(data)]
        if opened.input is not None:
            return [UnknownEvent(data)]
        if kind in _APPENDED:
            piece = delta.get(_APPENDED[kind])
            if not isinstance(piece, str):
                return [UnknownEvent(data)]
            opened.append(_APPENDED[kind], piece)
            if kind == "text_delta":
                return [TextDelta(opened.index, piece)] if piece else []
            tokens: Any = delta.get("estimated_tokens")
            tokens = tokens if type(tokens) is int else None
            return [ThinkingDelta(opened.index, piece, tokens)] if piece or tokens is not None else []
        if kind in _ASSIGNED:  # no event: nobody shows a signature, and the message has it
            opened.block.update({name: delta[name] for name in _ASSIGNED[kind] if name in delta})
            return []
        if kind == "citations_delta":
            citation = delta.get("citation")
            if not isinstance(citation, Mapping):
                return [UnknownEvent(data)]
            opened.cite(citation)
            return [CitationDelta(opened.index, citation)]
        return [UnknownEvent(data)]

    def _feed_block_stop(self, data: Mapping[str, Any]) -> list[MessageEvent[InputT]]:
        events: list[MessageEvent[InputT]] = list(self._accumulator.feed_event(data))
        index: Any = data.get("index")
        stopped = self._open.pop(index, None) if type(index) is int else None
        if stopped is None:
            self._accumulator.note(f"content_block_stop for {named(index)}, which is not open")
        elif stopped.input is None:
            events.append(self._stopped(stopped))
        return events

    def _feed_message_delta(self, data: Mapping[str, Any]) -> list[MessageEvent[InputT]]:
        if self.state is MessageState.STOPPED:
            return [UnknownEvent(data)]  # too late to change a message that was handed out as whole
        # Gateways and newer versions of the API put fields of the message beside the delta, `context_management` for
        # one. A null keeps what is known: it says "nothing new", as counts of usage do.
        events = self._begin_unannounced()
        known = {name: value for name, value in data.items() if name not in {"type", "delta", "usage"}}
        known.update(mapping_in(data, "delta"))
        self._fields.update({name: value for name, value in known.items() if value is not None})
        # Cumulative: a count replaces the earlier one; what is left out or null keeps it.
        counts = mapping_in(data, "usage").items()
        self._usage.update({name: count for name, count in counts if count is not None})
        return events + list(self._accumulator.feed_event(data))

    def _stop(self) -> list[MessageEvent[InputT]]:
        events: list[MessageEvent[InputT]] = [*self._accumulator.close(self.stop_reason), *self._close_blocks()]
        self.state = MessageState.STOPPED
        return [*events, MessageStop(self.message, self.stop_reason)]

    def _close_blocks(self, *, cut: bool = False) -> list[MessageEvent[InputT]]:
        """Blocks whose `content_block_stop` never came still stop for those who watch them."""
        left = [block for block in self._open.values() if block.input is None]
        for block in left if not cut else ():  # if the body was cut, the peer did nothing wrong
            self._accumulator.note(f"{named(block.index)} was never closed")
        self._open = {}
        return [self._stopped(block) for block in left]

    def _stopped(self, block: _OpenBlock) -> BlockStop:
        whole = block.assembled()
        if not is_server_result(whole.get("type")):
            return BlockStop(block.index, whole)
        id = whole.get("tool_use_id")
        return ServerToolResult(block.index, whole, self._server_call(id) if isinstance(id, str) else None)

    def _server_call(self, id: str) -> Mapping[str, Any] | None:
        """The call with this id, as it is echoed, that the API was to run; None if there is none."""
        opened = self._server_calls.get(id)
        if opened is not None:
            return opened.assembled()
        if self._earlier_calls is None:
            self._earlier_calls = server_calls(self._messages)
        return self._earlier_calls.get(id)
