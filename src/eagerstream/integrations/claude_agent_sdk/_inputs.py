"""`AgentInputs`: the tool inputs in the partial messages of an agent and its sub-agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from claude_agent_sdk import ResultMessage, StreamEvent

from ...limits import DEFAULT_LIMITS, Limits
from ...wire import InputAccumulator, InputEvent, ToolInput

_MAX_AGENTS: Final = 1024
"""Replies that are followed at once; of more, the one that was heard of the longest ago is forgotten."""


@dataclass(frozen=True, slots=True)
class AgentInput:
    """What happened to a tool's input, and whose call it is.

    Attributes:
        event: `InputStart`, `InputDelta` or `InputStop`.
        session_id: Of the session.
        parent_tool_use_id: The call that the sub-agent answers; None of the agent itself.
    """

    event: InputEvent[ToolInput]
    session_id: str
    parent_tool_use_id: str | None


class AgentInputs:
    """Reads the messages of `query`, or of a `ClaudeSDKClient`; sub-agents write beside one another.

        inputs = AgentInputs()
        async for message in client.receive_response():
            for change in inputs.feed(message):
                show(change.event.input.name, change.event.input.partial)

    Args:
        limits: As for `InputAccumulator`; of each reply.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._accumulators: dict[tuple[str, str | None], InputAccumulator[ToolInput]] = {}

    def feed(self, message: object) -> list[AgentInput]:
        """What a message means for the inputs; nothing for one that is no partial message.

        An input that broke off is settled when its agent begins another reply, or its session has its result.

        Raises:
            LimitError: As `InputAccumulator.feed`.
        """
        match message:
            case StreamEvent(session_id=session, parent_tool_use_id=parent, event=event):
                key = session, parent
                accumulator = self._accumulators.pop(key, None) or InputAccumulator(limits=self._limits)
                self._accumulators[key] = accumulator  # the newest is the last
                found = [AgentInput(change, *key) for change in accumulator.feed(event)]
                if event.get("type") == "message_stop":
                    return found + self._close(key)
                while len(self._accumulators) > _MAX_AGENTS:
                    found += self._close(next(iter(self._accumulators)))
                return found
            case ResultMessage(session_id=session):
                keys = [key for key in self._accumulators if key[0] == session]
                return [change for key in keys for change in self._close(key)]
            case _:
                return []

    def _close(self, key: tuple[str, str | None]) -> list[AgentInput]:
        return [AgentInput(change, *key) for change in self._accumulators.pop(key).close()]
