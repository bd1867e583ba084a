"""`RunResult`: what is left of a run, however it ended; it can be saved, and gone on from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any, Final, Self

from pydantic import BaseModel

from ..errors import UsageError
from ..tools._call import ToolCall
from ..tools._content import to_json
from ..wire._events import Message

_VERSION_KEY: Final = "eagerstream_run"
_VERSION: Final = 1
_NO_COUNT: Final = 2**53  # of tokens; what a peer says beyond it would only fill up


class RunStatus(StrEnum):
    """The way in which a run ended; ending is not success. Each member equals its value: `status == "completed"`."""

    RUNNING = "running"
    """It has not ended."""
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    STOP_SEQUENCE = "stop_sequence"
    REFUSED = "refused"
    PAUSED = "paused"
    LIMIT = "limit"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(slots=True)
class RunResult:
    """What is left of a run, however it ended.

    Attributes:
        status: How it ended.
        message: The last assistant message, its `stop_reason` and `stop_details` included; None where no reply came.
        messages: The history to go on from: it can be sent as it is, or with a further user message. Only as it is
            where the API has yet to run a call of its own, as after a pause.
        turns: Replies received whole.
        usage: The counts of all replies, summed, nested ones too: what the API bills. Of what is no count (the service
            tier, say) the last.
        calls: Every call of every turn, also of turns that the history does not keep (`call.in_history` tells).
        container: That code of the last reply ran in, for the next request.
        error: What ended it, as plain data: `type`, `text`, and what `EagerStreamError.to_dict` adds; None where
            nothing was raised.
    """

    status: RunStatus
    message: Message | None = field(repr=False)  # what models and tools say does not belong in a log
    messages: list[Mapping[str, Any]] = field(repr=False)
    turns: int = 0
    usage: dict[str, Any] = field(default_factory=dict)
    calls: list[ToolCall] = field(default_factory=list)
    container: Any = None
    error: dict[str, Any] | None = None

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped last; None where no reply came, or it did not say."""
        return self.message.get("stop_reason") if self.message else None

    @property
    def is_empty(self) -> bool:
        """The model ended without a word.

        The API's advice: do not send the same again; as a last resort, add a user message that says to go on.
        """
        return self.message is not None and not self.message["content"]

    @property
    def continuation(self) -> Message | None:
        """A user message that asks to go on with a text that broke off; None where there is none.

        For those who want a half-written answer kept, after a run that ended with an error or was cancelled. A history
        cannot end in the text itself: models from 4.6 on take no such beginning of a reply.
        """
        if self.message is None or self.message.get("stop_reason") is not None:
            return None
        texts = (block.get("text") for block in self.message["content"] if block.get("type") == "text")
        text = "".join(text for text in texts if isinstance(text, str))
        if not text.strip():
            return None
        asked = f"Your previous response was interrupted and ended with:\n\n{text}\n\nContinue from where you left off."
        return {"role": "user", "content": asked}

    def to_dict(self) -> dict[str, Any]:
        """As plain data, which `from_dict` takes. Holds all that was said: keep it as you keep the conversation.

        Of a run that has not ended, `messages` is the history up to its last settled turn: save it at a `TurnStop`.

        Raises:
            UsageError: A message that was given has no JSON form.
        """
        try:
            said = json.dumps(self.messages, allow_nan=False, default=_as_plain)
            message, container = to_json([self.message, self.container])
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"the messages have no JSON form: {error}") from error
        return {
            _VERSION_KEY: _VERSION,
            "status": self.status.value,
            "message": message,
            "messages": json.loads(said),
            "turns": self.turns,
            "usage": self.usage,
            "calls": [call.to_dict() for call in self.calls],
            "container": container,
            "error": self.error,
        }

    def to_json(self) -> str:
        """`to_dict` as JSON text. Raises as that."""
        try:
            return json.dumps(self.to_dict())
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the result has no JSON form: {error}") from error

    @classmethod
    def from_dict(cls, plain: object) -> Self:
        """The result that `to_dict` told of, to go on from: `run(client, messages=result, ...)`.

        Raises:
            UsageError: It is none, or of a version that is not known here.
        """
        if not isinstance(plain, Mapping) or plain.get(_VERSION_KEY) != _VERSION:
            raise UsageError(f"not a saved run: expected an object with {_VERSION_KEY!r}: {_VERSION}")
        try:
            return cls(
                RunStatus(plain["status"]),
                plain["message"],
                [dict(message) for message in plain["messages"]],
                plain["turns"],
                dict(plain["usage"]),
                [ToolCall.from_dict(call) for call in plain["calls"]],
                plain["container"],
                plain["error"],
            )
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"not a saved run: {type(error).__name__}: {error}") from error

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The result that `to_json` told of. Raises as `from_dict`."""
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"not a saved run: {error}") from error
        return cls.from_dict(plain)


def _as_plain(value: object) -> object:
    """What `json` does not write by itself, and may stand in the messages that a program gives."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, BaseModel):  # content of the anthropic package's messages
        return value.model_dump(mode="json", exclude_unset=True)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def add_usage(total: dict[str, Any], usage: Mapping[str, Any]) -> None:
    """Add the counts of one reply to those of a run. Within a reply they are cumulative: its last ones are its own."""
    for name, value in usage.items():
        earlier = total.get(name)
        if type(value) is int:
            if abs(value) < _NO_COUNT:
                total[name] = value + (earlier if type(earlier) is int else 0)
        elif isinstance(value, Mapping):
            total[name] = nested = dict(earlier) if isinstance(earlier, dict) else {}
            add_usage(nested, value)
        elif isinstance(value, str | bool) or (isinstance(value, float) and isfinite(value)):
            total[name] = value
