"""Compaction: the API replaces the messages of a conversation by a summary.

With the beta `compact-2026-09-04`, a request with the field `compaction` is answered by a message that has a signed
`compaction` block alone. It takes the place of all messages of the request, and is sent first in every later one.

Source: the API's page on compaction on demand. The anthropic package, version 2.12, leaves out the same fields.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from eagerstream_wire._assistant_message import AssistantMessage

from ..errors import UsageError

Summarize: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], Awaitable[str | Sequence[Mapping[str, Any]]]]
"""Writes the summary of a history: a text, or the messages that replace the history."""

_log = logging.getLogger(__name__)

COMPACTION_BETA: Final = "compact-2026-09-04"
_OF_REPLIES: Final = frozenset({"context_management", "stop_sequences", "output_format"})
"""They shape a reply, and the API refuses them where none is written."""


class Compaction:
    """The summary that a conversation asks for.

    Attributes:
        is_under_way: The last request was for a summary.
        instructions: The prompt of the summary; None for that of the API.
    """

    def __init__(self) -> None:
        self.is_under_way: bool = False
        self.instructions: str | None = None
        self._is_due = False

    def ask(self, instructions: str | None) -> None:
        """Let the next request be for a summary."""
        self._is_due, self.instructions = True, instructions

    def begin(self, *, is_paused: bool) -> None:
        """Begin another request. While the API has yet to continue a response, there can be no summary."""
        self.is_under_way = self._is_due and not is_paused

    def request(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request for the summary in place of the request for the next response."""
        request = {name: value for name, value in body.items() if name not in _OF_REPLIES}
        choice = request.get("tool_choice")
        if isinstance(choice, Mapping) and choice.get("type") in ("any", "tool"):
            del request["tool_choice"]
        request = _without_format(request)
        if isinstance(fallbacks := request.get("fallbacks"), list | tuple):
            request["fallbacks"] = [_without_format(each) if isinstance(each, Mapping) else each for each in fallbacks]
        config = {"type": "summarize"} | ({} if self.instructions is None else {"instructions": self.instructions})
        return {**request, "compaction": config}

    def end(self, message: AssistantMessage, *, is_complete: bool) -> dict[str, Any] | None:
        """Return the message that replaces the history; None if the API has written no summary."""
        self.is_under_way = self._is_due = False
        blocks = [block for block in message["content"] if block.get("type") == "compaction" and block.get("content")]
        if is_complete and message.get("stop_reason") == "compaction" and len(blocks) == 1:
            return {"role": "assistant", "content": blocks}
        _log.warning("there is no summary of the conversation (%s): it stays as it is", message.get("stop_reason"))
        return None


def _without_format(holder: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy without the format of the output in its `output_config`."""
    copy = dict(holder)
    if isinstance(config := copy.pop("output_config", None), Mapping):
        kept = {name: value for name, value in config.items() if name != "format"}
        if kept:
            copy["output_config"] = kept
    return copy


def check_compaction(parameters: Mapping[str, Any], instructions: object) -> None:
    """Raise an error if a conversation cannot be compacted in this way.

    Raises:
        UsageError: The API compacts it already, or the instructions are no text.
    """
    if instructions is not None and not isinstance(instructions, str):
        raise UsageError(f"instructions must be a text, not {type(instructions).__name__}")
    # The API would write and bill the summary, and then refuse the next request, in which the two meet.
    management = parameters.get("context_management")
    edits = management.get("edits") if isinstance(management, Mapping) else None
    if any(str(edit.get("type")).startswith("compact_") for edit in edits or () if isinstance(edit, Mapping)):
        raise UsageError("context_management has a compaction of its own: use one of the two")


def as_history(summary: str | Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the messages that replace a history."""
    return [{"role": "user", "content": summary}] if isinstance(summary, str) else summary


def has_summary(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if the messages begin with a signed summary, whose beta every request with it needs."""
    content = messages[0].get("content") if messages else None
    first = content[0] if isinstance(content, list | tuple) and content else None
    return isinstance(first, Mapping) and first.get("type") == "compaction" and first.get("signature") is not None
