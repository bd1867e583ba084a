"""`MessageInputs`: turns wire events into one growing `ToolInput` per content block.

The contract is the API's own: a `content_block_start` opens an empty text (its `input: {}` is a placeholder), each
`input_json_delta` appends a fragment, `content_block_stop` ends it. The result of the text is its `Outcome`.

No mistake of a peer raises here, except too many blocks. An exception would lose the entire response for one bad event.
The anthropic client raises IndexError at a gap in the block indexes, and ValueError at a control character in an input.
Mistakes are not repaired either: an input that may lack a part never reaches a tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic

from ._echo import stand_in_id
from ._errors import UsageError
from ._events import (
    InputDelta,
    InputEvent,
    InputFragment,
    InputStart,
    InputStop,
    ServerToolUse,
    TextDelta,
    TextFragment,
    WireEvent,
)
from ._limits import ParsingLimits
from ._mypyc import mypyc_attr
from ._open_block import OpenBlock
from ._parser import ParserFactory
from ._places import Places, check_block_count, named
from ._server_tools import SERVER_CALLS
from ._stop_reasons import CUTS, ENDED_BY_THE_MODEL, standard_stop_reason
from ._tool_input import Outcome
from ._type_variables import InputT
from ._values import MISSING, encodable, mapping_in

TOOL_BLOCKS: Final = ("tool_use", *SERVER_CALLS)  # not a set: a peer may send a type without a hash
"""The block types whose input arrives as `input_json_delta`s. Only `tool_use` is for the client to run."""

_LOST: Final = "a fragment of the input was lost"
EVENTS_AT_ONCE: Final = 256
"""Events that are handed on at once: more than there are in 16 KB. To start a call takes 0.1 ms."""
_MAX_VIOLATIONS: Final = 100  # the first ones identify the fault of a peer; a hostile peer could cause millions


def check_invalid_key(key: object) -> None:
    """Refuse a key that cannot be sent.

    Raises:
        UsageError: The key is empty, no string, or has a lone surrogate.
    """
    if not isinstance(key, str) or not key or encodable(key) != key:
        raise UsageError(f"invalid_key must be a key of JSON, not {key!r:.80}")


def content_of_start(message: Mapping[str, Any]) -> list[Any]:
    """Return the blocks inside the start of a message. Calls made from code that the API runs come this way."""
    content = message.get("content")
    return content if isinstance(content, list) else []


def _is_ended_by_the_model(reason: str | None) -> bool:
    return reason is not None and standard_stop_reason(reason) in ENDED_BY_THE_MODEL


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageInputs(Generic[InputT]):
    """The inputs of the message under way: `InputAccumulator` and `MessageAssembler` are made of it.

    Args:
        parser, limits, input_type, invalid_key, reports: As for `InputAccumulator`.

    Attributes:
        inputs, violations, violation_count, lost_fragments, stop_reason: As for `InputAccumulator`.
        places: The indexes of the blocks of the current message.
        open_blocks: The blocks that are open, by the index of the peer, for those who put the message together.
        has_placeholder: True if the stop reason came with the start of the message and a block followed.

    Raises:
        UsageError: `invalid_key` cannot be sent.
    """

    __slots__ = (
        "_count",
        "_early",
        "_empty",
        "_id",
        "_ids",
        "_input_type",
        "_invalid_key",
        "_lack_all",
        "_limits",
        "_lost",
        "_none_is_empty",
        "_open",
        "_parser",
        "_reason_is_early",
        "_repeated_start",
        "_reports",
        "has_placeholder",
        "inputs",
        "lost_fragments",
        "open_blocks",
        "places",
        "stop_reason",
        "violation_count",
        "violations",
    )

    def __init__(
        self,
        *,
        parser: ParserFactory,
        limits: ParsingLimits,
        input_type: type[InputT],
        invalid_key: str,
        reports: bool,
    ) -> None:
        check_invalid_key(invalid_key)
        self.inputs: dict[int, InputT] = {}
        self.violations: list[str] = []
        self.violation_count: int = 0
        self.lost_fragments: int = 0
        self.stop_reason: str | None = None
        self.places: Places = Places()
        self.open_blocks: dict[int, OpenBlock] = {}
        self._parser = parser
        self._limits = limits
        self._input_type = input_type
        self._invalid_key = invalid_key
        self._reports = reports
        self._open: dict[int, InputT] = {}  # by the index of the peer
        # Closed without any text; the next event settles it. A text is complete when its object is complete, and only
        # the last character completes it. Without a text, `content_block_stop` proves nothing: it may come at
        # max_tokens too.
        self._empty: dict[int, InputT] = {}
        self._count = 0
        # A lost fragment affects all open inputs. That is done once, not for each event of a hostile peer.
        self._lack_all = False  # each of them is known to lack a fragment
        self._none_is_empty = False  # each of them has a text, or lacks a fragment
        self._ids: dict[str, None] = {}  # a set that the garbage collector need not visit
        # The stop reason came with the start of the message, which continued after that. Some gateways write it there:
        # it does not tell how the message ends.
        self.has_placeholder: bool = False
        self._reason_is_early = False
        self._id: object = None  # of the message under way
        # A repeated start, and the number of fragments that each open input had before it.
        self._repeated_start: tuple[Mapping[str, Any], dict[int, int]] | None = None
        self._early: dict[int, int] = {}  # as `_lost`, of a message that starts again
        self._lost: dict[int, int] = {}  # by the peer's index: how many fragments wait for their block's start

    def feed_event(self, data: Mapping[str, Any]) -> list[InputEvent[InputT]]:
        """See `InputAccumulator.feed`.

        Raises:
            LimitError: The message has more than `Limits.max_blocks` blocks.
        """
        kind = data.get("type")
        if kind == "content_block_delta":
            delta = mapping_in(data, "delta")
            kind = delta.get("type")
            if kind == "input_json_delta":
                return self.feed_fragment(data.get("index"), delta.get("partial_json"))
            if not isinstance(kind, str):
                index: Any = data.get("index")
                self.note(f"content_block_delta for {named(index)} without a delta")
                # It may have been a fragment, but not one of a closed block.
                is_closed = type(index) is int and index in self.places.newest and index not in self._open
                if not is_closed:
                    self._lose_fragment(index)
            return []
        match kind:
            case "content_block_start":
                return self._feed_start(data)
            case "content_block_stop":
                return self._feed_stop(data)
            case "message_delta":
                reason = mapping_in(data, "delta").get("stop_reason")
                return self._take_reason(data.get("stop_reason") if reason is None else reason)
            case "message_stop":
                return self.end_message()
            case "message_start":
                return self._feed_message_start(data)
            case _:
                return []

    def close(self, stop_reason: str | None = None, *, cut: bool = False) -> list[InputEvent[InputT]]:
        """Settle all open inputs at the end of the events. If the model itself stopped, complete ones are valid.

        Args:
            stop_reason: The reason why the message stopped, if its events did not name it.
            cut: True if the message was cut before its end, so an open block is no violation of the peer.
        """
        # If a message was cut, only a reason from its `message_delta` counts.
        reason = None if cut and self.has_placeholder else stop_reason or self.stop_reason
        return self._settle(reason, whole=_is_ended_by_the_model(reason) and not cut, cut=cut)

    def end_message(self, stop_reason: str | None = None) -> list[InputEvent[InputT]]:
        """Settle all open inputs at a `message_stop`, as `close` does. It proves the end, unless the reason is a cut.

        Some gateways never send `content_block_stop`. An object whose last brace has come is complete, since no proper
        prefix of an object is an object.
        """
        reason = stop_reason or self.stop_reason
        return self._settle(reason, whole=reason is None or standard_stop_reason(reason) not in CUTS)

    def _settle(self, reason: str | None, *, whole: bool, cut: bool = False) -> list[InputEvent[InputT]]:
        """Settle closed empty inputs by the stop reason, and the open ones: `whole` if the message was not cut."""
        is_ended = _is_ended_by_the_model(reason)
        events = self._finish_empty(whole=is_ended)
        for input in self._open.values():
            if not cut:
                self.note(f"{named(input.index)} was never closed")
            events.append(self._finish(input, whole=whole and (is_ended or not input._is_empty)))
        self._open.clear()
        self._id = self._repeated_start = None
        return events

    @property
    def has_ended(self) -> bool:
        """True if the model itself has ended the message, by its stop reason, and no input with a text is open."""
        is_open = any(not input._is_empty for input in self._open.values())
        return _is_ended_by_the_model(self.stop_reason) and not is_open

    def is_repeated(self, start: Mapping[str, Any]) -> bool:
        """Return True for a `message_start` with the id of the message under way, which goes on then.

        Some gateways send one with each piece of theirs. Others give all messages one id, and start again: then the
        next block has an index that was there, see `start_repeated_before`.
        """
        message = mapping_in(start, "message")
        id = message.get("id")
        if not id or id != self._id or content_of_start(message):
            return False
        self.note("message_start came again with the same id")
        self._repeated_start = start, {place: input.fragments for place, input in self._open.items()}
        return True

    def start_repeated_before(self, index: object) -> Mapping[str, Any] | None:
        """Return the repeated `message_start` before a block at `index` if that shows that the message starts again."""
        repeated, self._repeated_start = self._repeated_start, None
        if repeated is None or type(index) is not int or index not in self.places.newest:
            return None
        self._id = None  # now it is no repetition
        start, before = repeated
        self._early = dict(self._lost)
        for place, input in self._open.items():
            if (count := input.fragments - before.get(place, 0)) > 0:  # they came before their block
                self._early[place] = self._early.get(place, 0) + count
        return start

    def _feed_message_start(self, data: Mapping[str, Any]) -> list[InputEvent[InputT]]:
        if self.is_repeated(data):
            return []
        message = mapping_in(data, "message")
        content = content_of_start(message)
        check_block_count(len(content), self._limits)
        # A second start in the middle of a message means that a gateway retries. Open inputs end as they are, so that
        # their waiters learn of the end.
        events = self._settle(self.stop_reason, whole=False)
        self._id = message.get("id")
        self.inputs.clear()  # the same dict, because others hold it
        self.places = Places()
        self.stop_reason = None
        self._ids.clear()
        self._lost, self._early = self._early, {}
        self.lost_fragments = sum(self._lost.values())
        self._lack_all = self._none_is_empty = False
        self._reason_is_early = self.has_placeholder = False
        self._count = 0
        for index, block in enumerate(content):
            if not isinstance(block, Mapping):
                continue
            events += self._finish_empty(whole=True)  # the block after it proves that it was complete
            self._count += 1
            place = self.places.take(index)
            if block.get("type") in TOOL_BLOCKS:
                events += self._start(index, place, block)
                events += self._feed_stop({"index": index})
        reason = message.get("stop_reason")
        events += self._take_reason(reason)
        self._reason_is_early = isinstance(reason, str)  # not from the attribute, which mypyc takes for None here
        return events

    def _take_reason(self, reason: object) -> list[InputEvent[InputT]]:
        """Handle the stop reason of the message; None has no effect."""
        if reason is None:
            return []
        if not isinstance(reason, str):
            self.note("a stop reason that is no text")
            return self._finish_empty(whole=False)
        self.stop_reason = reason
        if standard_stop_reason(reason) != reason:
            self.note("the stop reason is one of another API")
        self._reason_is_early = self.has_placeholder = False
        is_ended = _is_ended_by_the_model(self.stop_reason)
        events = self._finish_empty(whole=is_ended)
        if is_ended and self._open:
            for index, input in list(self._open.items()):
                if input._is_complete:
                    self.note(f"{named(input.index)} was not closed before the stop reason")
                    events.append(self._finish(self._open.pop(index), whole=True))
        return events

    def _feed_start(self, data: Mapping[str, Any]) -> list[InputEvent[InputT]]:
        index = data.get("index")
        block = data.get("content_block")
        if type(index) is not int or not isinstance(block, Mapping):
            self.note("content_block_start without an index and a block")
            return self._finish_empty(whole=True)  # the response continues, which is sufficient proof
        again = self.start_repeated_before(index)
        events = [] if again is None else self._feed_message_start(again)
        check_block_count(self._count + 1, self._limits)  # before any work: each block costs memory
        self.has_placeholder = self._reason_is_early
        events += self._finish_empty(whole=True)
        if index in self._open:
            self.note(f"{named(index)} started again before it was closed")
            events.append(self._finish(self._open.pop(index), whole=True))
        elif index in self.places.newest:
            self.note(f"the index of {named(index)} was used again")
        self._count += 1
        place = self.places.take(index)
        if block.get("type") in TOOL_BLOCKS:
            events += self._start(index, place, block)
        return events

    def _start(self, index: int, place: int, block: Mapping[str, Any]) -> list[InputEvent[InputT]]:
        input = self._input_type(
            place,
            block,
            parser=self._parser,
            limits=self._limits,
            invalid_key=self._invalid_key,
        )
        if not input.echo_id:
            self.note(f"the tool call of {named(place)} has no id")
        elif input.echo_id in self._ids:
            self.note(f"the tool call of {named(place)} has the id of an earlier one")
            input.repeats_id = True
        # The API refuses a history with two calls of one id. The input gets a stand-in here, before it is returned:
        # its call and its result are then echoed under the same id. In a loop, because a peer may guess a stand-in.
        while not input.echo_id or input.echo_id in self._ids:
            input.echo_id = stand_in_id(f"{input.echo_id} {place}", input.kind)
        self._ids[input.echo_id] = None
        # `_open` uses the peer's index, like its next events. `inputs` uses the place, which never changes.
        self._open[index] = self.inputs[place] = input
        if self._reports:
            input._report_all(reports=True)
        self._lack_all = self._none_is_empty = False
        # A fragment came before its start: either the start is late, or the index of the fragment was wrong. Fragments
        # are not kept for a later block. The peer broke the order, so nothing proves that these were all of them.
        lost = self._lost.pop(index, None)
        if lost is not None:
            self.lost_fragments -= lost
            input._lose("a fragment came before the block that it belongs to")
        return [InputStart(input)]

    def feed_fragment(self, index: Any, fragment: Any) -> list[InputEvent[InputT]]:
        """Do the work of `feed` for an `input_json_delta`. Nearly every event of a stream is one."""
        input = self._open.get(index) if type(index) is int else None
        if type(fragment) is not str:
            self.note(f"input_json_delta for {named(index)} whose partial_json is not a string")
            self._lose_fragment(index)
        elif input is None:
            if fragment:  # losing an empty one loses nothing
                self.note(f"input_json_delta for {named(index)}, which is not an open tool call")
                self._lose_fragment(index)
        elif fragment:
            # Not parsed here: `_append` keeps the fragment until somebody looks at the input, or it ends.
            input._append(fragment)
            delta = InputDelta(input, fragment)
            if self._reports:
                delta.patch, delta.finished = input._take_changes()
            return [*self._finish_empty(whole=True), delta] if self._empty else [delta]
        return []

    @property
    def reports(self) -> bool:
        """See `InputAccumulator.reports`."""
        return self._reports

    @reports.setter
    def reports(self, reports: bool) -> None:
        if reports is not self._reports:
            for input in self._open.values():
                input._report_all(reports=reports)
        self._reports = reports

    def _lose_fragment(self, index: Any) -> None:
        """Mark every input that an unusable fragment may belong to: it lacks this fragment.

        The dangerous case is an input that is JSON without a lost fragment: `{"path": "/tmp/x"}` may lack `/cache` in
        its middle. In doubt, the input is therefore `INVALID`, and the model is asked again.
        """
        if type(index) is not int:
            if not self._lack_all:
                self._lack_all = bool(self._open or self._empty)
                for input in (*self._open.values(), *self._empty.values()):
                    input._lose(_LOST)
            self.lost_fragments += not self._lack_all
            return
        if index in self._open:
            self._open[index]._lose(_LOST)
            return
        is_known = index in self.places.newest
        if is_known and index in self._empty:
            self._empty[index]._lose(_LOST)
            return
        if not is_known and not self._none_is_empty:
            # The index may be wrong: an input without a text may lack all of it.
            self._none_is_empty = True
            for input in (*self._open.values(), *self._empty.values()):
                if input._is_empty:
                    input._lose(_LOST)
        self.lost_fragments += not is_known  # if the block has started, no start is missing
        if index in self._lost or len(self._lost) < self._limits.max_blocks:
            self._lost[index] = self._lost.get(index, 0) + (not is_known)

    def feed_deltas(
        self, batch: Iterator[WireEvent | InputFragment | object], events: list[Any], *, input_deltas: bool = True
    ) -> Any:
        """Feed consecutive fragments of a batch, up to an event of another kind. Nearly all events are fragments.

        The effect is that of `feed` for each, without its checks and its call. One thing differs: if changes are
        reported, the parser reads consecutive fragments of an input together. Their last `InputDelta` has the changes
        of all of them, and the others have none. This holds for each part of `EVENTS_AT_ONCE` events.

        Args:
            batch: The events, as for `InputAccumulator.feed`.
            events: Receives the `InputDelta`s and the `TextDelta`s.
            input_deltas: False to drop the `InputDelta`s.

        Returns:
            The first event of another kind, which has not been fed; None at the end of the batch.
        """
        if self._empty:
            return next(batch, None)  # any event settles it; `feed_event` does that
        inputs = self._open
        text_index: Any = MISSING  # of the text that grows, with its place and its pieces
        place = 0
        pieces: list[str] = []
        reports = self._reports
        newest: InputDelta[InputT] | None = None  # the delta that gets the changes of those before it
        event: Any
        for event in batch:
            # Assume the usual form, and leave the rest to `feed_event`. The lookups fail if a part is missing, and a
            # try without an exception costs nothing. A bool or a float equals an int as a key, so the types are exact.
            try:
                if type(event) is tuple:
                    index, fragment = event
                elif type(event) is TextFragment:
                    index, fragment = event
                    if index != text_index:
                        block = self.open_blocks[index]
                        if block.input is not None:
                            break
                        text_index, place, pieces = index, block.index, block.pieces("text")
                    if fragment:
                        pieces.append(fragment)
                        events.append(TextDelta(place, fragment))
                    continue
                else:
                    delta = event["delta"]
                    if delta["type"] != "input_json_delta" or event["type"] != "content_block_delta":
                        break
                    index, fragment = event["index"], delta["partial_json"]
                    if type(fragment) is not str or type(index) is not int:
                        break
                input = inputs[index]
            except (KeyError, TypeError):
                break
            if not fragment:
                if type(fragment) is not str:
                    break
            else:
                if newest is not None and (
                    newest.input is not input or newest is not events[-1] or not len(events) % EVENTS_AT_ONCE
                ):
                    newest.patch, newest.finished = newest.input._take_changes()
                # Does the work of `_append`; the call would cost 1/15 of all work for an event.
                input._tail.append(fragment)
                input.fragments += 1
                input.chars += len(fragment)
                if input.chars >= input._due_chars:
                    input._attend()
                if input_deltas and not reports:
                    events.append(InputDelta(input, fragment))
                elif input_deltas:
                    newest = InputDelta(input, fragment, [])
                    events.append(newest)
        else:
            event = None
        if newest is not None:
            newest.patch, newest.finished = newest.input._take_changes()
        return event

    def _feed_stop(self, data: Mapping[str, Any]) -> list[InputEvent[InputT]]:
        index: Any = data.get("index")
        input = self._open.pop(index, None) if type(index) is int else None
        if input is None:
            return []  # not an open tool input; the assembler knows which blocks are open
        if input.chars or not input._is_empty:
            return [self._finish(input, whole=True)]
        self._empty[index] = input
        return []

    def _finish_empty(self, *, whole: bool) -> list[InputEvent[InputT]]:
        empty, self._empty = self._empty, {}
        return [self._finish(input, whole=whole) for input in empty.values()]

    def _finish(self, input: InputT, *, whole: bool) -> InputEvent[InputT]:
        input._finish(whole=whole)
        # Has its own event class, because no code here runs the call. A cut one has none: the API has not run it.
        is_made = input.kind in SERVER_CALLS and input.outcome is not Outcome.INCOMPLETE
        return ServerToolUse(input) if is_made else InputStop(input)

    def note(self, violation: str) -> None:
        """Record a violation of the protocol by the peer, in words that never quote the model."""
        self.violation_count += 1
        if len(self.violations) < _MAX_VIOLATIONS:
            self.violations.append(violation)
