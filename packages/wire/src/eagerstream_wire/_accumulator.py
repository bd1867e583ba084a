"""`InputAccumulator`: the growing tool inputs of one message after the other, for callers who need no messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

from ._decoding import to_wire_event
from ._events import InputEvent, InputFragment
from ._limits import DEFAULT_LIMITS, ParsingLimits
from ._message_inputs import MessageInputs
from ._mypyc import mypyc_attr
from ._parser import ParserFactory
from ._partial_json import PartialJSON
from ._tool_input import INVALID_JSON, ToolInput
from ._type_variables import InputT


@mypyc_attr(allow_interpreted_subclasses=True)
class InputAccumulator(Generic[InputT]):
    """Follows every tool input of a message. One accumulator handles any number of consecutive messages.

    A violation by the peer never raises and never mixes inputs: it is added to `violations`. An input that lacks a
    fragment because of it is `INVALID`.

    Args:
        parser: Makes the parser of each input; `PartialJSON` by default.
        limits: Bounds of each input, and of the number of blocks.
        input_type: A subclass of `ToolInput` to make instead.
        invalid_key: The key under which an unusable input goes back to the model.
        reports: True if each `InputDelta` should carry the changes that its fragment makes.

    Attributes:
        inputs: Block index to input, of the current message. An index that the peer uses again gets the next free one.

    Raises:
        UsageError: `invalid_key` cannot be sent.
    """

    __slots__ = ("_message", "inputs")

    def __init__(
        self,
        *,
        parser: ParserFactory = PartialJSON,
        limits: ParsingLimits = DEFAULT_LIMITS,
        input_type: type[InputT] = ToolInput,  # type: ignore[assignment]  # the default of InputT
        invalid_key: str = INVALID_JSON,
        reports: bool = False,
    ) -> None:
        self._message: MessageInputs[InputT] = MessageInputs(
            parser=parser, limits=limits, input_type=input_type, invalid_key=invalid_key, reports=reports
        )
        self.inputs: dict[int, InputT] = self._message.inputs

    def feed(self, event: Mapping[str, Any] | InputFragment | object) -> list[InputEvent[InputT]]:
        """Return the effects of one wire event on the inputs: usually no event or one.

        An `InputStop` comes when the outcome is settled, so the event after an empty input may return two.

        Args:
            event: A wire event as a mapping, an `InputFragment`, or an event object of the anthropic package.

        Raises:
            LimitError: A message has more than `Limits.max_blocks` blocks.
            UsageError: `event` has none of these forms.
        """
        return self._message.feed_event(to_wire_event(event))

    def close(self, stop_reason: str | None = None) -> list[InputEvent[InputT]]:
        """Settle all open inputs at the end of the events. If the model itself stopped, complete ones are valid.

        Args:
            stop_reason: The reason why the message stopped, if its events did not name it.
        """
        return self._message.close(stop_reason)

    @property
    def reports(self) -> bool:
        """True if each `InputDelta` carries the changes that its fragment makes. It can be set at any time.

        The fragments are then parsed one by one, even if nobody reads the input.
        """
        return self._message.reports

    @reports.setter
    def reports(self, reports: bool) -> None:
        self._message.reports = reports

    @property
    def violations(self) -> list[str]:
        """The peer's violations of the protocol, in words; the first 100."""
        return self._message.violations

    @property
    def violation_count(self) -> int:
        """The number of all violations, including those that are not kept."""
        return self._message.violation_count

    @property
    def lost_fragments(self) -> int:
        """The number of fragments that belong to no input, because the start of a call was lost on the way."""
        return self._message.lost_fragments

    @property
    def stop_reason(self) -> str | None:
        """The stop reason of the current message, from its start or its `message_delta`. None until known."""
        return self._message.stop_reason
