"""`CallIds`: the ids of the calls of a history, each of which the API accepts once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eagerstream_wire._echo import stand_in_id

from ..inputs._growing_input import GrowingInput
from ..tools._call import ToolCall


class CallIds:
    """The ids that are taken.

    Args:
        messages: The history. Its calls have their ids already.
    """

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self._ids: dict[str, None] = {}  # a set that the garbage collector need not visit
        for message in messages:
            content = message.get("content")
            for block in content if isinstance(content, list | tuple) else ():
                if isinstance(block, Mapping) and block.get("type") == "tool_use":
                    self._ids[str(block.get("id"))] = None

    def take(self, input: GrowingInput, turn: int) -> None:
        """Take the id of a call. If it is taken (some gateways count from 0 in each response), the echo gets another.

        Args:
            input: That of the call. Its `echo_id` may change.
            turn: The number of the turn of the call.
        """
        # Only the echo changes: `call.id` stays the peer's, for logs and tools. The seed contains the turn and the
        # index, because several turns may need a stand-in for the same id. A loop, because a stand-in may itself be
        # taken.
        while input.echo_id in self._ids:
            input.echo_id = stand_in_id(f"{input.echo_id} {turn} {input.index}", input.kind)
        self._ids[input.echo_id] = None

    def free(self, calls: Sequence[ToolCall]) -> None:
        """Forget the ids of calls that the history does not have: the next attempt may use them again."""
        for call in calls:
            self._ids.pop(call.input.echo_id, None)
