"""Tools and messages that these tests share."""

from __future__ import annotations

from typing import Any

from eagerstream.recordings import Recording
from eagerstream_compat.anthropic_tools import BaseTool
from eagerstream_testing import Scripted, reply, text, tool_use

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "How much fruit has Sally?"}]
DONE = reply(text("She has 14."), message_id="msg_done")
ANSWER = {"role": "assistant", "content": "She has 14."}


class AdditionTool(BaseTool):
    """Adds, and remembers that it was asked to."""

    def __init__(self) -> None:
        a = {"name": "a", "type": "float", "description": "The first number to add, such as 5"}
        b = {"name": "b", "type": "float", "description": "The second number to add, such as 4.6"}
        super().__init__("perform_addition", "Add one number to another.", [a, b])
        self.used: list[tuple[float, float]] = []

    def use_tool(self, a: float, b: float) -> float:
        """Add."""
        self.used.append((a, b))
        return a + b


class FailingTool(BaseTool):
    """Raises."""

    def __init__(self) -> None:
        super().__init__("fail", "Fail.", [])

    def use_tool(self) -> None:
        """Fail."""
        raise ConnectionError("no route")


class AsyncTool(BaseTool):
    """An `async def`."""

    def __init__(self) -> None:
        super().__init__("shout", "Shout.", [{"name": "word", "type": "str", "description": "What to shout"}])

    async def use_tool(self, word: str) -> str:
        """Shout."""
        return word.upper()


class Later(BaseTool):
    """A `def` that gives something to be awaited, as decorators make of an `async def`."""

    def use_tool(self, **given: Any) -> Any:
        """Give a coroutine."""

        async def use() -> Any:
            if "fail" in given:
                raise ConnectionError(given["fail"])
            return given

        return use()


def turn(number: int, *blocks: Scripted, stop_reason: str | None = None) -> Recording:
    """A reply whose calls have ids of their own."""
    message_id = f"msg_{number}"
    if stop_reason is None:
        return reply(*blocks, message_id=message_id)
    return reply(*blocks, message_id=message_id, stop_reason=stop_reason)


def add(a: Any, b: Any) -> Scripted:
    """A call of the addition."""
    return tool_use("perform_addition", {"a": a, "b": b})


def fails(number: int) -> Recording:
    """A reply whose call lacks an argument."""
    return turn(number, tool_use("perform_addition", {"a": 9}))


MISSING_B = 'Missing required parameter "b" in tool perform_addition.'
