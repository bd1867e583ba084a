"""`AgentInputs`: the tool inputs in the partial messages of an agent and its sub-agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from claude_agent_sdk import ResultMessage, StreamEvent

from eagerstream import InputAccumulator, InputEvent, ToolInput
from eagerstream.limits import DEFAULT_LIMITS, Limits

_MAX_AGENTS: Final = 1024
"""Maximum number of open responses to follow. Beyond it, the one with the oldest last message is closed."""


@dataclass(frozen=True, slots=True)
class AgentInput:
    """Event of a tool's input, with the session and the agent of the call.

    Attributes:
        event: `InputStart`, `InputDelta` or `InputStop`.
        session_id: Id of the session.
        parent_tool_use_id: Id of the call that the sub-agent answers, or `None` for the main agent.
    """

    event: InputEvent[ToolInput]
    session_id: str
    parent_tool_use_id: str | None


class AgentInputs:
    """Reader of the messages of `query` or of a `ClaudeSDKClient`. Sub-agents may write concurrently.

        inputs = AgentInputs()
        async for message in client.receive_response():
            for change in inputs.feed(message):
                show(change.event.input.name, change.event.input.partial)

    Args:
        limits: As for `InputAccumulator`, for each response.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._accumulators: dict[tuple[str, str | None], InputAccumulator[ToolInput]] = {}

    def feed(self, message: object) -> list[AgentInput]:
        """Feed a message, and return the events of the inputs. Only partial messages and results give events.

        An input that broke off is settled when its agent starts another response, or when its session gets its result.

        Raises:
            LimitError: As for `InputAccumulator.feed`.
        """
        match message:
            case StreamEvent(session_id=session, parent_tool_use_id=parent, event=event):
                key = session, parent
                accumulator = self._accumulators.pop(key, None) or InputAccumulator(limits=self._limits)
                self._accumulators[key] = accumulator  # the newest is last
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
