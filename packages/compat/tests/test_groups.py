"""Older tools in a group of a run: a plain one that was given up is still at work in its thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.streams import REQUEST
from tests.support import anthropic_client

import eagerstream
from eagerstream import ToolStop
from eagerstream_compat import anthropic_tools, helloagents
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use

TIMEOUT_S = 0.05
Work = Callable[[int], str]


def of_anthropic_tools(work: Work) -> eagerstream.Tool:
    class Old(anthropic_tools.BaseTool):
        def use_tool(self, n: int) -> str:
            return work(n)

    return Old("old", "Old.", [{"name": "n", "type": "int", "description": "Which."}]).to_tool(
        group="all", timeout_s=TIMEOUT_S
    )


def of_a_search(work: Work) -> eagerstream.Tool:
    class Old(anthropic_tools.BaseSearchTool):
        def raw_search(self, query: str, n_search_results_to_use: int) -> Any:
            return [anthropic_tools.BaseSearchResult(work(n_search_results_to_use - 1), "here")]

    parameters: list[dict[str, Any]] = [
        {"name": "query", "type": "str", "description": "What.", "required": False, "default": ""},
        {"name": "n_search_results_to_use", "type": "int", "description": "How many."},
    ]
    return Old("old", "Old.", parameters).to_tool(group="all", timeout_s=TIMEOUT_S)


def of_helloagents(work: Work) -> eagerstream.Tool:
    class Old(helloagents.Tool):
        def run(self, parameters: dict[str, Any]) -> helloagents.ToolResponse:
            return helloagents.ToolResponse.success(work(parameters["n"]))

        def get_parameters(self) -> list[helloagents.ToolParameter]:
            return [helloagents.ToolParameter("n", "integer", "Which.")]

    registry = helloagents.ToolRegistry()
    registry.register_tool(Old("old", "Old."))
    return registry.to_tools(group="all", timeout_s=TIMEOUT_S)[0]


def of_a_function(work: Work) -> eagerstream.Tool:
    def old(n: int) -> str:
        return work(n)

    registry = helloagents.ToolRegistry()
    registry.register_function(old)
    return registry.to_tools(group="all", timeout_s=TIMEOUT_S)[0]


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("made", [of_anthropic_tools, of_a_search, of_helloagents, of_a_function])
async def test_a_thread_that_was_given_up(made: Callable[[Work], eagerstream.Tool]) -> None:
    """The next call of its group waits for it: the two never work at the same time."""
    log: list[str] = []
    release = threading.Event()

    def work(n: int) -> str:
        log.append(f"begin {n}")
        if n == 0:
            release.wait(20)
        log.append(f"end {n}")
        return "done"

    tool = made(work)
    inputs = [{"n": n} if made is not of_a_search else {"query": "", "n_search_results_to_use": n + 1} for n in (0, 1)]
    turn = reply(*(tool_use("old", input) for input in inputs), message_id="msg_1")
    async with ReplayServer(Scenario(turn, reply(text("Done."))), speed=float("inf")) as server:
        async with anthropic_client(server.base_url) as client:
            with anyio.fail_after(20):
                async with eagerstream.run(client, **{**REQUEST, "tools": [tool]}) as run:
                    async for event in run:
                        match event:
                            case ToolStop(call=call) if call.input.value == inputs[0]:
                                await anyio.sleep(0.05)  # for the other to begin where it may
                                release.set()
                            case _:
                                pass
    assert log == ["begin 0", "end 0", "begin 1", "end 1"]
    told = run.result.calls[0].result
    assert told is not None
    assert "TimeoutError" in told["content"]
