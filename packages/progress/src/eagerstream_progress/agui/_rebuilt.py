"""The client's copy of a run: its messages with their calls and results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from .._fold import CallFold
from ._content import with_metadata

MAX_SNAPSHOT_CHARS: Final = 8 * 1024 * 1024
"""Maximum size of a snapshot as JSON in ASCII. A client refuses events over 10 MB."""


@dataclass(slots=True)
class Message:
    """A message that the client has of this run: of the assistant or, with `is_reasoning`, its reasoning."""

    id: str
    is_reasoning: bool = False
    text: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: list[Answer] = field(default_factory=list)  # in their order of arrival
    encrypted_value: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    is_closed: bool = False

    def rendered(self, void_turn: int) -> list[dict[str, Any]]:
        """Return the message as in a snapshot, followed by the results of its calls, without those of a void turn."""
        message: dict[str, Any] = {"id": self.id, "role": "reasoning" if self.is_reasoning else "assistant"}
        if self.text or self.is_reasoning or not self.calls:
            message["content"] = "".join(self.text)
        if self.calls:
            message["toolCalls"] = [call.rendered() for call in self.calls]
        if self.encrypted_value is not None:
            message["encryptedValue"] = self.encrypted_value
        message |= with_metadata(self.metadata)
        return [message, *(answer.message for answer in self.results if answer.turn != void_turn)]


@dataclass(slots=True, eq=False, kw_only=True)
class Call(CallFold):
    """A call of such a message.

    Attributes:
        client_id: The client's id. No other call of the conversation has it.
        is_answered: True if the client has its result.
        is_pending: True if the application answers it.
    """

    client_id: str
    message: Message
    metadata: dict[str, Any]
    arguments: list[str] = field(default_factory=list)
    is_answered: bool = False
    is_pending: bool = False

    @property
    def may_be_asked(self) -> bool:
        """True if it has a valid input and waits, as a call does that a journal keeps for a decision."""
        waits = self.outcome == "valid" and self.result is None and self.tool_start_s is None
        return waits and not (self.is_server_side or self.is_pending)

    def as_state(self) -> dict[str, Any]:
        """Return the call for the state of a client that has lost it. Its messages have the input."""
        phase = "approval" if self.is_asked else self.phase.value
        return {"name": self.name, "kind": self.kind, "phase": phase, "outcome": self.outcome, "input": None}

    def rendered(self) -> dict[str, Any]:
        """Return the call as in a message."""
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.client_id, "type": "function", "function": function, **with_metadata(self.metadata)}


class Answer(NamedTuple):
    """A result as a message, and the turn in which it came."""

    turn: int
    call: Call
    message: dict[str, Any]


class Void(NamedTuple):
    """The removed calls, and all messages without void parts.

    `snapshot` is None if it would be too long for the client. Then all calls and messages stay.
    """

    calls: list[Call]
    snapshot: list[dict[str, Any]] | None


class Conversation:
    """The messages that the client has: those that it sent, and those of this run.

    Attributes:
        messages: The messages of this run.
        blanks: Reasoning that the client would keep. It stays, empty, for the next attempt to fill.
    """

    def __init__(self, given: Sequence[Mapping[str, Any]]) -> None:
        self.messages: list[Message] = []
        self.blanks: list[Message] = []
        # Clients keep activities.
        self._given = [dict(message) for message in given if message.get("role") != "activity"]
        self._turn = 0
        self._turn_start = 0  # number of messages at its start

    @property
    def calls(self) -> list[Call]:
        """All calls of this run."""
        return [call for message in self.messages for call in message.calls]

    @property
    def turn_calls(self) -> list[Call]:
        """The calls of this turn."""
        return [call for message in self.messages[self._turn_start :] for call in message.calls]

    @property
    def given_call_ids(self) -> set[str]:
        """The ids of the calls that the client sent."""
        return {call["id"] for message in self._given for call in message.get("toolCalls") or ()}

    def begin_turn(self, turn: int) -> None:
        """Start a turn. Earlier messages stay even if this turn becomes void."""
        self._turn = turn
        self._turn_start = len(self.messages)
        self.blanks = []

    def answer(self, call: Call, result: dict[str, Any]) -> None:
        """Add the result of a call, as a message."""
        call.is_answered = True
        call.message.results.append(Answer(self._turn, call, result))

    def void(self) -> Void | None:
        """Remove the messages and results of this turn. Return None if there are none."""
        void = self.messages[self._turn_start :]
        kept = self.messages[: self._turn_start]
        answers = [answer for message in kept for answer in message.results if answer.turn == self._turn]
        if not void and not answers:
            return None
        # A client keeps all its reasoning if a snapshot has none. The void one is emptied then, and stays.
        has_reasoning = any(message.is_reasoning for message in kept) or any(
            message.get("role") == "reasoning" for message in self._given
        )
        blanks = [] if has_reasoning else [Message(each.id, is_reasoning=True) for each in void if each.is_reasoning]
        snapshot = [*self._given, *(part for message in [*kept, *blanks] for part in message.rendered(self._turn))]
        calls = self.turn_calls
        if len(json.dumps(snapshot)) > MAX_SNAPSHOT_CHARS:
            return Void(calls, None)
        for answer in answers:
            answer.call.message.results.remove(answer)
            answer.call.is_answered = False
        self.messages, self.blanks = [*kept, *blanks], blanks
        return Void(calls, snapshot)
