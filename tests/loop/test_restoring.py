"""The way back from a journal: calls that had begun when the program ended."""

from __future__ import annotations

from typing import Any

import pytest

import eagerstream
from eagerstream import ToolCall
from eagerstream.loop._restoring import OpenTurn
from eagerstream.tools import Done
from tests.loop.durable import World, answers, continued, left_at

pytestmark = pytest.mark.anyio


async def test_nobody_knows() -> None:
    """The model is told so, with the last progress, if a call had begun and left no result."""
    world = World()
    journal = await left_at("progress", world, [world.pay])
    [told] = answers(await continued(journal, [world.pay]))
    assert told.startswith("Nobody knows whether this call was done")
    assert told.endswith('Its last progress: "paying 1"')
    assert world.effects == ["pay 1"]


@pytest.mark.parametrize(
    ("said", "told"), [(Done("paid, says the bank"), "paid, says the bank"), ("not done", "paid 1")]
)
async def test_the_tool_may_know(said: object, told: str) -> None:
    """`recover` is asked, with the same key as before. A call that was not done runs now."""
    world = World()
    journal = await left_at("start", world, [world.pay])
    keys: list[str] = []

    def recover(call: ToolCall) -> object:
        keys.append(call.idempotency_key)
        return said

    @eagerstream.tool(recover=recover)
    async def pay(amount: int, call: ToolCall) -> str:
        """Pay."""
        keys.append(call.idempotency_key)
        return f"paid {amount}"

    assert answers(await continued(journal, [pay])) == [told]
    assert set(keys) == set(world.keys)


async def test_nothing_before_a_restart_counts() -> None:
    """The new beginning of a response may use the ids of the first one again, for other calls."""
    turn = OpenTurn(1)
    call: dict[str, Any] = {"id": "toolu_1", "call": {"ran": True}}
    for entry in (
        {"kind": "response", "blocks": [{"block": {}}], "message": {"id": "msg_1"}, "is_whole": True},
        {"kind": "asked", "id": "toolu_1"},
        {"kind": "approval", "id": "toolu_1", "decision": True},
        {"kind": "start", **call},
        {"kind": "progress", "id": "toolu_1", "value": 1},
        {"kind": "result", **call},
    ):
        turn.add(entry)
    assert turn.has_begun
    turn.add({"kind": "restart"})
    assert turn == OpenTurn(1)
