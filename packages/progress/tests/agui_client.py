"""A client of AG-UI in Python, by the rules of `@ag-ui/client`: it refuses what that refuses, and rebuilds the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import jsonpatch
from ag_ui.core import Event
from pydantic import TypeAdapter

_EVENT: TypeAdapter[Any] = TypeAdapter(Event)
_OPENING = {
    "TEXT_MESSAGE_START": "text",
    "REASONING_START": "span",
    "REASONING_MESSAGE_START": "reasoning",
    "TOOL_CALL_START": "call",
    "STEP_STARTED": "step",
}
_GOING_ON = {"TEXT_MESSAGE_CONTENT": "text", "REASONING_MESSAGE_CONTENT": "reasoning", "TOOL_CALL_ARGS": "call"}
_CLOSING = {
    "TEXT_MESSAGE_END": "text",
    "REASONING_END": "span",
    "REASONING_MESSAGE_END": "reasoning",
    "TOOL_CALL_END": "call",
    "STEP_FINISHED": "step",
}


class Client:
    """What has been told so far.

    Attributes:
        messages: The conversation.
        state: As the patches have made it.
        customs: The values of custom events, by name.
        last: The event that ended the run; None before.
    """

    def __init__(self, messages: Sequence[Mapping[str, Any]] = ()) -> None:
        self.messages: list[dict[str, Any]] = [dict(message) for message in messages]
        self.state: Any = None
        self.customs: dict[str, list[Any]] = {}
        self.raw: list[Any] = []
        self.last: dict[str, Any] | None = None
        self.types: list[str] = []
        self._open: set[tuple[str, str]] = set()

    def take(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Take in events; what the protocol forbids is an AssertionError."""
        for event in events:
            _EVENT.validate_python(event)
            self._verify(event)
            self._apply(deepcopy(dict(event)))
            self.types.append(event["type"])

    @property
    def end(self) -> dict[str, Any]:
        """The event that ended the run, which has come."""
        assert self.last is not None
        return self.last

    @property
    def calls(self) -> dict[str, dict[str, Any]]:
        """All calls of all messages, by id."""
        return {call["id"]: call for message in self.messages for call in message.get("toolCalls") or ()}

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """The messages that answer calls, by the id of the call."""
        return {message["toolCallId"]: message for message in self.messages if message["role"] == "tool"}

    def _verify(self, event: Mapping[str, Any]) -> None:
        type = event["type"]
        assert self.last is None, f"{type} after the end"
        assert (type in ("RUN_STARTED", "RUN_ERROR")) or self.types, "the first event is RUN_STARTED"
        assert type != "RUN_STARTED" or not self.types, "two runs in one"
        id = str(event.get("messageId") or event.get("toolCallId") or event.get("stepName"))
        if type in _OPENING:
            assert (_OPENING[type], id) not in self._open, f"{type}: {id} is open"
            self._open.add((_OPENING[type], id))
        elif type in _GOING_ON:
            assert (_GOING_ON[type], id) in self._open, f"{type}: {id} is not open"
        elif type in _CLOSING:
            assert (_CLOSING[type], id) in self._open, f"{type}: {id} is not open"
            self._open.remove((_CLOSING[type], id))
        elif type == "RUN_FINISHED":
            assert not self._open, f"still open: {self._open}"

    def _apply(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "TEXT_MESSAGE_START":
                self._message(event["messageId"], event["role"], event)
            case "REASONING_MESSAGE_START":
                self._message(event["messageId"], "reasoning", event)
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                message = self._find(event["messageId"])
                message["content"] = message.get("content", "") + event["delta"]
            case "TEXT_MESSAGE_END":
                _merge(self._find(event["messageId"]), event)
            case "REASONING_ENCRYPTED_VALUE":
                self._find(event["entityId"])["encryptedValue"] = event["encryptedValue"]
            case "TOOL_CALL_START":
                assert event["toolCallId"] not in self.calls, "the arguments of two calls would be mixed"
                if all(message["id"] != event["parentMessageId"] for message in self.messages):
                    self.messages.append({"id": event["parentMessageId"], "role": "assistant"})
                function = {"name": event["toolCallName"], "arguments": ""}
                call = _merge({"id": event["toolCallId"], "type": "function", "function": function}, event)
                self._find(event["parentMessageId"]).setdefault("toolCalls", []).append(call)
            case "TOOL_CALL_ARGS":
                self.calls[event["toolCallId"]]["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_END":
                _merge(self.calls[event["toolCallId"]], event)
            case "TOOL_CALL_RESULT":
                self._answer(event)
            case "MESSAGES_SNAPSHOT":
                self._replace(event["messages"])
            case "STATE_SNAPSHOT":
                self.state = event["snapshot"]
            case "STATE_DELTA":
                self.state = jsonpatch.apply_patch(self.state, event["delta"])
            case "CUSTOM":
                self.customs.setdefault(event["name"], []).append(event["value"])
            case "RAW":
                self.raw.append(event["event"])
            case "RUN_FINISHED" | "RUN_ERROR":
                self.last = event
            case _:
                pass  # runs, steps, spans of reasoning: nothing stays of them

    def _find(self, id: str) -> dict[str, Any]:
        return next(message for message in self.messages if message["id"] == id)

    def _message(self, id: str, role: str, event: Mapping[str, Any]) -> None:
        if all(message["id"] != id for message in self.messages):
            self.messages.append({"id": id, "role": role, "content": ""})
        _merge(self._find(id), event)

    def _answer(self, event: Mapping[str, Any]) -> None:
        assert all(message["id"] != event["messageId"] for message in self.messages)
        assert event["toolCallId"] not in self.results, "two results"
        assert ("call", event["toolCallId"]) not in self._open, "a result before the end of the call"
        answer = {"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"]}
        place = next(at for at, each in enumerate(self.messages) if event["toolCallId"] in _ids(each)) + 1
        while place < len(self.messages) and self.messages[place]["role"] == "tool":
            place += 1
        self.messages.insert(place, _merge({**answer, "content": event["content"]}, event))

    def _replace(self, messages: list[dict[str, Any]]) -> None:
        new = {message["id"]: message for message in messages}
        keeps_reasoning = all(message["role"] != "reasoning" for message in messages)
        kept = [
            new.pop(message["id"], message)
            for message in self.messages
            if message["id"] in new or (keeps_reasoning and message["role"] == "reasoning")
        ]
        assert not new, "a snapshot of messages that were never told of"
        self.messages = kept


def _ids(message: Mapping[str, Any]) -> list[str]:
    return [call["id"] for call in message.get("toolCalls") or ()]


def _merge(target: dict[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    if "metadata" in event:
        target["metadata"] = {**target.get("metadata", {}), **event["metadata"]}
    return target
