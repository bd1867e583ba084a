"""`RunResult`: the result of a run, however it ended. It can be saved, and a later run can continue from it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast

from pydantic import BaseModel

from eagerstream_wire import Outcome
from eagerstream_wire._assistant_message import (
    AssistantMessage,
    Usage,
    add_usage,
    is_lower_bound,
    text_of,
    total_tokens,
)
from eagerstream_wire._events import Message
from eagerstream_wire._repair import HistoryRepair
from eagerstream_wire._stop_reasons import standard_stop_reason
from eagerstream_wire._values import encodable

from .._support.json_values import to_json
from ..calls._policy import RunStatus
from ..errors import EagerStreamError, UsageError
from ..inputs._typed_partial import adapter_of
from ..streaming._typed_message import typed_message
from ..streaming._types import OutputT
from ..tools._call import ToolCall

if TYPE_CHECKING:
    from anthropic.types import Message as AnthropicMessage

T = TypeVar("T")

# The key identifies the kind of file, and its value the version. Another version may mean something else by the same
# names, so it is refused as a whole (test_a_saved_run_of_another_version).
_VERSION_KEY: Final = "eagerstream_run"
_VERSION: Final = 1
_RESULT: Final = "_eagerstream_result"
"""Attribute of an exception that has ended a run. Those of other packages have it, too."""

_WELL: Final = (RunStatus.COMPLETED, RunStatus.STOP_SEQUENCE)

_WHY: Final = {
    RunStatus.RUNNING: "it has not ended",
    RunStatus.TRUNCATED: "the last response was cut: raise max_tokens, or see on_truncated",
    RunStatus.REFUSED: "the model refused: result.message['stop_details'] says why",
    RunStatus.PAUSED: "the last response was paused more often than max_continuations allows",
    RunStatus.LIMIT: "a bound was reached (result.limit): continue with messages=result",
    RunStatus.UNKNOWN: "the last response had a stop reason that is not known",
    RunStatus.CANCELLED: "it was cancelled",
    RunStatus.WAITING: "it waits in its journal: resume it after the decision",
    RunStatus.ERROR: "an error ended it",
}


class RunEndedError(EagerStreamError):
    """A run ended otherwise than asked for. Only `RunResult.raise_for_status` raises it.

    Attributes:
        result: The result of the run.
    """

    def __init__(self, result: RunResult[Any]) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        error = f" ({self.result.error['type']}: {self.result.error['text']})" if self.result.error else ""
        turns = f"{self.result.turns} turn{'' if self.result.turns == 1 else 's'}"
        return f"the run ended with the status {self.result.status} after {turns}: {_WHY[self.result.status]}{error}"


def give_result(error: BaseException, result: RunResult[Any]) -> None:
    """Let an exception that ends a run carry its result (`RunResult.of`), and the result name the exception."""
    # The iteration may be far from the code that catches the exception, and a saved result from both. The result has
    # plain data, because an exception keeps the frames that raised it, and cannot be saved.
    setattr(error, _RESULT, result)
    if isinstance(error, EagerStreamError):
        result.error = error.to_dict()
    else:
        result.error = {"type": type(error).__name__, "text": str(error)}


@dataclass(slots=True)
class RunResult(Generic[OutputT]):
    """The result of a run, however it ended.

    Attributes:
        status: The way in which the run ended.
        message: The last assistant message with its `stop_reason` and `stop_details`; None if no response came.
        messages: The history to continue from. Send it as it is, or with another user message. If the API has yet to
            run a call of its own, as after a pause, send it as it is.
        turns: Number of complete responses.
        usage: The counts of all responses, summed, nested ones too. For a value that is no count (the service tier, for
            example), the last one. It includes `sub_usage`. It is what the API bills, unless `usage_is_lower_bound`.
        sub_usage: The part of `usage` that is of the runs that tools started, however those ended; empty if there were
            none. Of a run that its call left open, it has the responses that were complete when the call ended.
        calls: Every call of every turn, including turns that the history does not keep (see `call.in_history`).
        container: The container in which code of the last response ran, for the next request.
        error: The error that ended the run, as plain data: `type`, `text`, and the fields of
            `EagerStreamError.to_dict`; None if nothing was raised.
        cost: The cost of `usage`, as the option `price` counts it; 0 without one.
        limit: The option whose bound has ended the run, if the status is `LIMIT`: `"max_turns"`, `"max_total_tokens"`,
            `"max_cost"` or `"max_consecutive_tool_errors"`; else None.
        output: The value of the last message's text, validated strictly, if the run has an `output`; None unless its
            outcome is `VALID`. A saved result has plain JSON here; `output_as` makes the type of it.
        output_outcome: The outcome; None if the run has no `output`, or no response came. `INVALID`: the text is not
            JSON, or does not fit. `INCOMPLETE`: it was cut, or is not the answer, because the model refused, paused or
            called a tool.
        output_error: The reason why there is no value; None if there is one. It may quote the text.
        output_text: The JSON text, without a fence around it.
        undelivered: The messages of `Run.say` that are in no request, in the order in which they were said.
        repairs: The changes to the messages that the run began with, if it has `repair=True`. They are not saved.
    """

    # A failed run has a result, too: without it, the work of its tools would have to be done again. So everything that
    # a later run needs is plain data, and nothing here refers to the run, its client or its tasks.

    status: RunStatus
    message: AssistantMessage | None = field(repr=False)  # what models and tools say does not belong in a log
    messages: list[Any] = field(repr=False)
    turns: int = 0
    usage: Usage = field(default_factory=lambda: cast("Usage", {}))
    calls: list[ToolCall] = field(default_factory=list)
    container: Any = None
    error: dict[str, Any] | None = None
    output: OutputT | None = field(default=None, repr=False)
    output_outcome: Outcome | None = None
    output_error: str | None = field(default=None, repr=False)
    output_text: str = field(default="", repr=False)
    sub_usage: Usage = field(default_factory=lambda: cast("Usage", {}))
    undelivered: list[Mapping[str, Any]] = field(default_factory=list, repr=False)
    repairs: Sequence[HistoryRepair] = ()
    cost: float = 0.0
    limit: str | None = None

    def output_as(self, model: type[T]) -> T:
        """Return the output as a value of a type, also from a result that was saved.

        Raises:
            UsageError: There is no valid output, or the type is unknown.
            InputError: The output does not fit the type. It is an exception of `eagerstream.tools`.
        """
        if self.output_outcome is not Outcome.VALID:
            raise UsageError(f"there is no valid output: {self.output_error or 'none was asked for'}")
        return adapter_of(model).validate(encodable(json.loads(self.output_text)))

    @classmethod
    def of(cls, error: BaseException) -> RunResult[Any] | None:
        """Return the result of the run that an exception has ended; None if it has ended none.

        It has the history to continue from, the partial response, and every call with its input and its result. Within
        the block of the run, `run.result` is the same.
        """
        return error.result if isinstance(error, RunEndedError) else getattr(error, _RESULT, None)

    def raise_for_status(self) -> Self:
        """Return this result if the run ended well: `COMPLETED` or `STOP_SEQUENCE`.

        Raises:
            RunEndedError: It ended in another way, or has not ended.
        """
        if self.status not in _WELL:
            raise RunEndedError(self)
        return self

    @property
    def stop_reason(self) -> str | None:
        """The reason why the model stopped last; None if no response came, or if it had none."""
        return self.message.get("stop_reason") if self.message else None

    @property
    def text(self) -> str:
        """The text of the last assistant message: its text blocks joined. Empty if it has none."""
        return text_of(self.message and self.message["content"])

    @property
    def usage_is_lower_bound(self) -> bool:
        """True if a response was cut before its final counts: by an interruption, `cancel`, a guard or a message.

        Then `usage` has only the placeholder of its start, and in `"uncounted_output_tokens"` an estimate of the rest,
        from the characters that came.
        """
        return is_lower_bound(self.usage)

    @property
    def total_tokens(self) -> int:
        """All tokens of all responses: input, input from or for the cache, and output."""
        return total_tokens(self.usage)

    def typed_message(self) -> AnthropicMessage | None:
        """Return `message` as an object of the anthropic package; None if no response came."""
        return None if self.message is None else typed_message(self.message)

    @property
    def is_empty(self) -> bool:
        """True if the model ended without content.

        The API's advice: do not send the same again. As a last resort, add a user message that asks to continue.
        """
        return self.message is not None and not self.message["content"]

    @property
    def continuation(self) -> Message | None:
        """A user message that asks to continue a text that broke off, or that `max_tokens` cut; None if there is none.

        Use it to keep a half-written answer after a run that ended with an error, was cancelled or `TRUNCATED`:
        `messages=[*result.messages, result.continuation]`. A history cannot end in the text itself: models from 4.6 on
        accept no such prefix of a response.
        """
        # Text only. The API's guide: calls and thinking that were cut cannot be recovered, so the model has to write
        # them again. Never added by itself: the user decides if half an answer is better than a new one.
        reason = self.stop_reason
        if self.message is None or (reason is not None and standard_stop_reason(str(reason)) != "max_tokens"):
            return None
        if not (text := self.text).strip():
            return None
        if reason is not None:
            is_last = bool(self.messages) and self.messages[-1].get("role") == "assistant"
            asked = "Your previous response reached its maximum length. Continue from where you left off."
            return {"role": "user", "content": asked} if is_last else None
        asked = f"Your previous response was interrupted and ended with:\n\n{text}\n\nContinue from where you left off."
        return {"role": "user", "content": asked}

    def _repr_html_(self) -> str:
        from .._support.markup import figures, plain

        # Without texts, inputs and results: notebooks are saved and shared with their outputs.
        names = Counter(plain(call.name, 40) for call in self.calls)
        calls = ", ".join(f"{name} ({count:,})" for name, count in islice(names.items(), 5))
        rows = [("status", self.status.value), ("turns", f"{self.turns:,}"), ("tokens", f"{self.total_tokens:,}")]
        return figures("RunResult", [*rows, ("calls", f"{len(self.calls):,}: {calls}" if calls else "0")])

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data for `from_dict`. It contains the conversation: protect it like that.

        If the run has not ended, `messages` is the history up to its last settled turn: save it at a `TurnStop`.

        Raises:
            UsageError: A message that was given has no JSON form.
        """
        # Dumped and parsed, which makes a copy that the run does not change. Given messages without a JSON form are an
        # error, because half a history is worse than none. The data of tools never raises: a run can be saved whatever
        # its tools returned (test_data_that_has_no_json_form).
        try:
            said = json.dumps([self.messages, self.undelivered], allow_nan=False, default=_as_plain)
            facts = self.facts()
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"the messages have no JSON form: {error}") from error
        messages, undelivered = json.loads(said)
        calls = [call.to_dict() for call in self.calls]
        return {_VERSION_KEY: _VERSION, **facts, "messages": messages, "undelivered": undelivered, "calls": calls}

    def facts(self) -> dict[str, Any]:
        """Return everything but the messages and the calls, as plain data.

        Raises:
            TypeError, ValueError: The last message has no JSON form.
        """
        message, container = to_json([self.message, self.container])
        return {
            "status": self.status.value,
            "message": message,
            "turns": self.turns,
            "usage": self.usage,
            "sub_usage": self.sub_usage,
            "container": container,
            "error": self.error,
            "cost": self.cost,
            "limit": self.limit,
            "output_outcome": self.output_outcome and self.output_outcome.value,
            "output_error": self.output_error,
            "output_text": self.output_text,
        }

    def take(self, facts: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> None:
        """Become the result with these `facts` and calls. The messages stay.

        Raises:
            UsageError: They are not those of a result.
        """
        saved = self.from_dict({_VERSION_KEY: _VERSION, **facts, "messages": [], "calls": calls})
        for name in self.__slots__:
            if name not in ("messages", "undelivered", "repairs"):
                setattr(self, name, getattr(saved, name))

    def to_json(self) -> str:
        """Return `to_dict` as JSON text.

        Raises:
            UsageError: As `to_dict`.
        """
        try:
            return json.dumps(self.to_dict())
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the result has no JSON form: {error}") from error

    @classmethod
    def from_dict(cls, plain: object) -> Self:
        """Return the result from `to_dict`'s data, to continue from: `run(client, messages=result, ...)`.

        Raises:
            UsageError: The data is no saved run, or has an unknown version.
        """
        if not isinstance(plain, Mapping) or plain.get(_VERSION_KEY) != _VERSION:
            raise UsageError(f"not a saved run: expected an object with {_VERSION_KEY!r}: {_VERSION}")
        # The three fields of the output are missing in results of runs without one, saved before there were any.
        # All of these exceptions mean that the file was changed, or cut (test_a_saved_run_that_was_changed).
        try:
            text, outcome = plain.get("output_text", ""), plain.get("output_outcome")
            value = json.loads(text) if outcome == Outcome.VALID else None
            return cls(
                RunStatus(plain["status"]),
                plain["message"],
                [dict(message) for message in plain["messages"]],
                plain["turns"],
                cast("Usage", dict(plain["usage"])),
                [ToolCall.from_dict(call) for call in plain["calls"]],
                plain["container"],
                plain["error"],
                encodable(value),
                outcome and Outcome(outcome),
                plain.get("output_error"),
                text,
                # Missing in results that were saved before there were sub-runs and messages to runs.
                cast("Usage", dict(plain.get("sub_usage") or {})),
                [dict(message) for message in plain.get("undelivered") or ()],
                cost=plain.get("cost", 0.0),
                limit=plain.get("limit"),
            )
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"not a saved run: {type(error).__name__}: {error}") from error

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the result from `to_json`'s text.

        Raises:
            UsageError: As `from_dict`.
        """
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"not a saved run: {error}") from error
        return cls.from_dict(plain)


def _as_plain(value: object) -> object:
    """Return the plain form of a value that `json` does not write by itself, and that messages may contain."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, BaseModel):  # content of the anthropic package's messages
        return value.model_dump(mode="json", exclude_unset=True)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def take_account(result: RunResult[Any], message: AssistantMessage) -> None:
    """Add the usage of a response to a result, and note the container of its code, however the response ended."""
    # A response that is discarded was paid for, too, and its container has the files of the code that ran
    # (test_what_failed_was_paid_for_too).
    add_usage(result.usage, message.get("usage") or {})
    container = message.get("container")
    if isinstance(container, str | Mapping) and container:
        result.container = encodable(container)
