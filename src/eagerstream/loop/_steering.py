"""`Steering`: messages that are said to a conversation while it runs, until they can be sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from ..errors import UsageError
from ..tools._history import validate_history
from ..wire import check_choice
from ._result import RunResult, RunStatus

When: TypeAlias = Literal["next_turn", "when_idle", "now"]
"""The time at which a message is sent.

`"next_turn"`: with the next request, behind the results. It does not prolong the run. `"when_idle"`: once the run would
have ended by itself, which then continues. `"now"`: at once. The response that is being written is cut.
"""

_IDLE: Final = (RunStatus.COMPLETED, RunStatus.STOP_SEQUENCE)


class Steering:
    """The messages that wait, in the order in which they were said.

    Args:
        result: Its `undelivered` has the messages that wait, so that it is right however the run ends.
    """

    def __init__(self, result: RunResult) -> None:
        self._result = result
        self._waiting: list[tuple[Mapping[str, Any], When]] = []

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

    def _change(self, waiting: list[tuple[Mapping[str, Any], When]]) -> None:
        self._waiting = waiting
        self._result.undelivered = [message for message, _ in waiting]

    @property
    def prolongs(self) -> bool:
        """True if the run would have ended by itself, and a message waits that keeps it going."""
        return self._result.status in _IDLE and any(when != "next_turn" for _, when in self._waiting)

    def take(self, *, is_idle: bool) -> list[Mapping[str, Any]]:
        """Return the messages for the next request, which come behind the history as it is now.

        Args:
            is_idle: The run would have ended: messages for that time are due, too.
        """
        due = [entry for entry in self._waiting if is_idle or entry[1] != "when_idle"]
        messages = [message for message, _ in due]
        if not messages or not self._accepts(messages):
            return []
        self._change([entry for entry in self._waiting if entry not in due])
        return messages

    def _accepts(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Return True if messages of the user may follow the history."""
        # Only results may follow calls that code made, and nothing may follow a response in which the API has yet to
        # run a call. Such messages wait for the next turn (test_messages_wait_for_code_that_waits_for_results).
        history = self._result.messages
        if (
            history
            and history[-1].get("role") == "assistant"
            and self._result.stop_reason in ("pause_turn", "compaction")
        ):
            return False
        return not validate_history([*history, *messages]) or bool(validate_history(history))
