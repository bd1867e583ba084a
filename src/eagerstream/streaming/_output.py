"""`GrowingOutput`: JSON in the text of a response, while it is written, and its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, Generic

from eagerstream_wire import BlockStart, InputStart, MessageStart, MessageStop, Outcome, PartialJSON, TextDelta
from eagerstream_wire._stop_reasons import standard_stop_reason
from eagerstream_wire._values import encodable, has_colliding_keys

from ..errors import UsageError
from ..inputs._faults import InputError
from ..limits import DEFAULT_LIMITS, Limits
from ._fenced_json import FencedJSON
from ._output_format import OutputFormat
from ._types import OutputT

_ANSWERED: Final = ("end_turn", "stop_sequence")
"""Stop reasons of a response whose text is the complete answer."""

_NO_ANSWER: Final = ("tool_use", "pause_turn", "compaction", "refusal")
"""Stop reasons of a response whose text is no answer, so nobody judges it."""

_WITHDRAWN: Final = "the response continued with another block, so its text before that is not the answer"
_RESTARTED: Final = "the response was restarted"
_BROKEN: Final = "the response broke off"
_CALLED: Final = "the response called a tool, so its text is not the answer"
_CUT: Final = "the text stops before the end of its JSON"
_OVERFLOW: Final = "a number is too large"
_COLLISION: Final = "two keys are the same once lone surrogates are replaced by U+FFFD"


class GrowingOutput(Generic[OutputT]):
    """The JSON in the text of a response, during and after its writing.

    The text is parsed as it arrives: a fragment costs O(length of the fragment).

    Attributes:
        outcome: The outcome; None until the response has ended. `INVALID`: the text is not JSON, does not fit the type
            or schema, or has no fenced block or several. `INCOMPLETE`: the text was cut, or is not the answer, because
            the model refused, paused or called a tool.
        value: The validated value; None unless `outcome` is `VALID`.
    """

    def __init__(self, format: OutputFormat, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.outcome: Outcome | None = None
        self.value: OutputT | None = None
        self._format = format
        self._parser = PartialJSON(limits=limits)
        self._partial = format.partial(self._parser)
        self._fenced = None if format.is_native else FencedJSON()
        self._pieces: list[str] = []
        self._chars = 0
        self._error: str | None = None

    @property
    def text(self) -> str:
        """The JSON text so far, joined when read; O(length). In a fenced block, the text between the fences.

        Text beyond `Limits.max_input_chars` is not kept.
        """
        return "".join(self._pieces)

    @property
    def partial(self) -> OutputT:
        """The best-effort value so far, typed if `output` is a type. It is live: it grows.

        Fields that have not come are missing, and strings are unfinished. A plain value is None before the first token.
        """
        value: OutputT = self._partial.value
        return value

    @property
    def error(self) -> str | None:
        """The fault of the text or of the response, known as early as possible; None if there is none."""
        if self._error is not None or self.outcome is not None:
            return self._error
        # A fault of a finished part, which a typed value reports before the end.
        early = self._fault or getattr(self._partial, "fault", None)
        return None if early is None else said(early)

    @property
    def _fault(self) -> str | None:
        """The first fault of the text as JSON."""
        if self._fenced is not None and self._fenced.fault is not None:
            return self._fenced.fault
        return None if self._parser.error is None else str(self._parser.error)

    def __repr__(self) -> str:
        # Without the text: what a model writes does not belong in a log.
        return f"<GrowingOutput {self.outcome.value if self.outcome else 'open'}, {self._chars} chars>"


class WrittenOutput(GrowingOutput[Any]):
    """A `GrowingOutput` as its reader sees it, who feeds it and ends it."""

    def __init__(self, format: OutputFormat, *, limits: Limits) -> None:
        super().__init__(format, limits=limits)
        self._max_chars = limits.max_input_chars
        self._prose: list[str] = []

    @property
    def source(self) -> str:
        """The text of the response that was fed."""
        return self.text if self._fenced is None else "".join(self._prose)

    @property
    def is_wrong(self) -> bool:
        """True if the text cannot become JSON any more."""
        return self._fault is not None

    def feed(self, piece: str) -> str:
        """Read more of the response's text; return the part of it that is JSON."""
        fragment = piece
        if self._fenced is not None:
            self._prose.append(piece)
            fragment = self._fenced.feed(piece)
        if fragment:
            if self._chars <= self._max_chars:  # beyond it, the parser has an error
                self._pieces.append(fragment)
            self._chars += len(fragment)
            self._parser.feed(fragment)
        return fragment

    def withdraw(self, reason: str) -> None:
        """End the text without judging it, because it is not the answer."""
        if self.outcome is None:
            self.outcome, self._error = Outcome.INCOMPLETE, reason

    def end(self, cut: str | None, *, proves: bool = True) -> None:
        """Decide the outcome.

        Args:
            cut: The reason if the response was cut; None if it ended.
            proves: The end of the response proves that no digit of a number is missing.
        """
        if self.outcome is not None:
            return
        is_closed = self._parser.complete
        self._parser.close()
        is_closed = self._parser.complete if proves else is_closed
        open_fence = self._fenced.close() if self._fenced is not None and cut is None else None
        # In the order of `ToolInput`: a text that was wrong before it was cut could not have become right.
        wrong = self._fault
        if wrong is None and self._parser.overflow_chars is not None:
            wrong = _OVERFLOW
        if wrong is None and has_colliding_keys(self._parser.value):
            wrong = _COLLISION
        if wrong is not None:
            self.outcome, self._error = Outcome.INVALID, wrong
        elif cut is not None or open_fence is not None or not is_closed:
            self.outcome, self._error = Outcome.INCOMPLETE, cut or open_fence or _CUT
        else:
            try:
                self.value = self._format.check(encodable(self._parser.value))
                self.outcome = Outcome.VALID
            except InputError as error:
                self.outcome, self._error = Outcome.INVALID, said(error)


def said(fault: object) -> str:
    """Return the text of a fault of a value."""
    return str(fault).removeprefix("Error: ")


@dataclass(slots=True)
class OutputDelta:
    """A new fragment of the JSON in a response's text, if `output` asks for JSON. It follows its `TextDelta`.

    None comes for text that cannot be the JSON: prose around a fenced block, or text after a fault.

    Attributes:
        index: Block index of the text.
        output: The output with everything written so far. `output.partial` is its best-effort value.
        fragment: The new JSON text, never empty.
    """

    index: int
    output: GrowingOutput[Any]
    fragment: str = field(repr=False)

    def __repr__(self) -> str:
        return f"OutputDelta(index={self.index}, {self.output!r}, {len(self.fragment)} chars)"


class OutputReader:
    """Follows the events of one response after another, and keeps the output of the newest.

    The answer of a response is its text after the last block of another kind: thinking, a call, a result of the API's
    own tools. Consecutive text blocks are one text, as the API cuts a text with citations into several blocks.

    Args:
        format: The type or schema.
        limits: Bounds on the text, as for a tool input.

    Attributes:
        ended: The output of the newest response, if that has ended.
    """

    def __init__(self, format: OutputFormat, *, limits: Limits) -> None:
        self.format = format
        self.ended: GrowingOutput[Any] | None = None
        self._limits = limits
        self._growing: WrittenOutput | None = None

    def begin(self) -> None:
        """Start with another response. If the one before has not ended, it is void."""
        self._pass_over(_RESTARTED)
        self.ended = None

    def take(self, events: Iterable[Any]) -> list[Any]:
        """Return the events of a chunk, with the `OutputDelta`s among them."""
        taken: list[Any] = []
        for event in events:
            taken.append(event)
            match event:
                case TextDelta(index=index, text=text):
                    if self._growing is None:
                        self._growing = WrittenOutput(self.format, limits=self._limits)
                    fragment = self._growing.feed(text)
                    if fragment and not self._growing.is_wrong:
                        taken.append(OutputDelta(index, self._growing, fragment))
                case BlockStart(block={"type": "text"}):
                    pass
                case BlockStart() | InputStart():
                    self._pass_over(_WITHDRAWN)
                case MessageStart():
                    self.begin()
                case MessageStop(message=message):
                    self.end(message)
                case _:
                    pass
        return taken

    def end(self, message: Mapping[str, Any], *, broken: bool = False) -> GrowingOutput[Any]:
        """Return the output of a response that has ended, with its outcome.

        Args:
            message: The message, as far as it has come.
            broken: The response broke off, whatever its stop reason says.
        """
        if self.ended is not None and not broken:
            return self.ended
        content = message.get("content") or ()
        # The text after the last block that is not text.
        last = takewhile(lambda block: block.get("type") == "text", reversed(content))
        texts = [block.get("text") for block in last]
        text = "".join(reversed([each for each in texts if isinstance(each, str)]))
        output = self._growing
        # The message counts. It differs from the events only if a peer mixed its blocks up, or sent blocks with the
        # start of the message.
        if output is None or output.source != text:
            self._pass_over(_WITHDRAWN)
            output = WrittenOutput(self.format, limits=self._limits)
            output.feed(text)
        self._growing = None
        self.ended = output
        reason: Any = message.get("stop_reason")
        reason = standard_stop_reason(reason) if isinstance(reason, str) else None
        if broken:
            output.end(_BROKEN)
        elif any(block.get("type") == "tool_use" for block in content):
            output.withdraw(_CALLED)
        elif reason in _NO_ANSWER:
            output.withdraw(_stopped(reason))
        else:
            output.end(None if reason in _ANSWERED else _stopped(reason), proves=reason == "end_turn")
        return output

    def _pass_over(self, reason: str) -> None:
        if self._growing is not None:
            self._growing.withdraw(reason)
        self._growing = None


def _stopped(reason: object) -> str:
    return f"the response ended with the stop reason {reason!r:.80}"


def output_reader(output: Any, options: dict[str, Any], limits: Limits) -> OutputReader | None:
    """Remove the options of the output from `options`, and return the reader of the output; None if none is wanted.

    Raises:
        UsageError: See `OutputFormat`; or there is an option, and no output.
    """
    mode = options.pop("output_mode", None)
    if output is None:
        if mode is not None:
            raise UsageError("output_mode is given, but no output")
        return None
    return OutputReader(OutputFormat(output, "native" if mode is None else mode), limits=limits)
