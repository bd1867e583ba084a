"""`Steering`: messages and changes of tools that are meant for a conversation under way, until they can be sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from eagerstream_wire._checks import check_choice
from eagerstream_wire._history import validate_history
from eagerstream_wire._stop_reasons import PAUSES

from ..calls._policy import RunStatus
from ..errors import UsageError
from ._result import RunResult

When: TypeAlias = Literal["next_turn", "when_idle", "now"]
"""The time at which a message is sent.

`"next_turn"`: with the next request, behind the results. It does not prolong the run. `"when_idle"`: once the run would
have ended by itself, which then continues. `"now"`: at once. The response that is being written is cut.
"""

IDLE: Final = (RunStatus.COMPLETED, RunStatus.STOP_SEQUENCE)
"""The statuses of a run that has ended by itself, and goes on if the user says something."""


class Steering:
    """Messages and changes of tools that wait to be put into the history, in their order.

    Args:
        result: Has the history. Its `undelivered` has the messages that wait, so that it is right however the run ends.
    """

    def __init__(self, result: RunResult) -> None:
        self._result = result
        self._waiting: Sequence[tuple[Mapping[str, Any], When]] = ()
        self._tool_changes: Sequence[Mapping[str, Any]] = ()
        self._last_change: Mapping[str, Any] | None = None  # the message with the last changes in the history

    def add(self, message: str | Mapping[str, Any], when: When) -> None:
        """Add a message.

        Raises:
            UsageError: The message is not one of the user, the API would refuse it, or `when` is unknown.
        """
        check_choice("when", when, get_args(When))
        said: Any = {"role": "user", "content": message} if isinstance(message, str) else message
        if not isinstance(said, Mapping) or said.get("role") != "user":
            raise UsageError("a message to a run is a text, or a message with the role 'user'")
        if faults := validate_history([said], first_party=True):
            raise UsageError(f"the API would refuse this message: {faults[0]}")
        self._change([*self._waiting, (said, when)])

    def change_tools(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Add blocks that change the tools."""
        self._tool_changes = [*self._tool_changes, *blocks]

    def forget_tool_changes(self) -> None:
        """Drop the blocks that wait: the tools are changed in another way."""
        self._tool_changes = ()

    def _change(self, waiting: list[tuple[Mapping[str, Any], When]]) -> None:
        self._waiting = waiting
        self._result.undelivered = [message for message, _ in waiting]

    def saved(self) -> list[list[Any]]:
        """Return the messages that wait, each with its time, as plain data."""
        return [[dict(message), when] for message, when in self._waiting]

    def restore(self, saved: Sequence[Sequence[Any]]) -> None:
        """Take the messages that `saved` returned."""
        self._change([(message, when) for message, when in saved])

    @property
    def prolongs(self) -> bool:
        """True if a message waits that keeps an idle run going, and that may follow the history."""
        if self.is_paused or all(when == "next_turn" for _, when in self._waiting):
            return False
        # A call that the API never ran, for example, lets nothing follow: the run would ask for ever.
        return self._accepts(self._result.messages, [message for message, _ in self._waiting])

    def deliver(self, *, is_idle: bool) -> Sequence[Mapping[str, Any]]:
        """Put what is due behind the history, and return the messages of the user among it.

        Args:
            is_idle: The run would have ended: messages for that time are due, too.
        """
        if self.is_paused:
            return ()
        history = self._result.messages
        # A request that is sent again has the last changes at its end. Nothing of the user may follow them, so they are
        # put behind the messages that have come since (test_said_between_two_attempts).
        if self._last_change is not None and history and history[-1] is self._last_change:
            self._tool_changes = [*self._last_change["content"], *self._tool_changes]
            history = history[:-1]
        messages: Sequence[Mapping[str, Any]]
        messages = [message for message, when in self._waiting if is_idle or when != "when_idle"]
        if messages and self._accepts(history, messages):
            self._change([] if is_idle else [entry for entry in self._waiting if entry[1] == "when_idle"])
            history = [*history, *messages]
        else:
            messages = ()
        change = {"role": "system", "content": self._tool_changes}
        if self._tool_changes and self._accepts(history, [change]):
            self._tool_changes, self._last_change = (), change
            history = [*history, change]
        self._result.messages = history
        return messages

    @property
    def is_paused(self) -> bool:
        """True if nothing may follow the history, because the API continues the last response."""
        history = self._result.messages
        return bool(history) and history[-1].get("role") == "assistant" and self._result.stop_reason in PAUSES

    @staticmethod
    def _accepts(history: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> bool:
        """Return True if the messages may follow the history."""
        # Only results may follow calls that code made. Such messages wait for the next turn
        # (test_messages_wait_for_code_that_waits_for_results).
        return not validate_history([*history, *messages]) or bool(validate_history(history))
