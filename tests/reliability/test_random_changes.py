"""Runs whose tools change and whose history is compacted, at random, while connections break and the user speaks.

The server checks each request by the rules of the API: the histories, and that no tool is removed that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final

import anyio
import pytest

import eagerstream
from eagerstream import APIError, HTTPTransport, Run, RunStatus, Tool, tool
from eagerstream.recordings import Recording
from eagerstream_testing import (
    FaultKind,
    Faults,
    MessageThreads,
    ReplayServer,
    Scenario,
    block,
    http_error,
    reply,
    text,
    tool_use,
)
from tests import api_rules
from tests.loop.serial import SLOWLY_S
from tests.sampling import drawn
from tests.streams import REQUEST
from tests.support import refused

_NAMES: Final = "abcde"
_KINDS: Final = (FaultKind.CLOSE, FaultKind.RESET, FaultKind.ERROR_EVENT, FaultKind.HTTP_ERROR)


def _tool(name: str) -> Tool[Any, Any]:
    @tool(name=name, description="Do something.")
    async def does(words: str) -> str:
        return words

    return does


_TOOLS: Final = {name: _tool(name) for name in _NAMES}


async def _summarize(messages: Sequence[Mapping[str, Any]]) -> str:
    return f"{len(messages)} messages."


class _Model:
    """Calls tools, pauses, ends and summarizes at random, and refuses what the API refuses.

    Attributes:
        faults: Those of the requests.
    """

    def __init__(self, random: Random) -> None:
        self.faults: list[str] = []
        self._random = random
        self._knows_changes = random.random() < 0.7
        self._count = 0

    def answer(self, request: Mapping[str, Any]) -> Recording:
        """Return the response to a request."""
        self._count += 1
        faults = [*api_rules.check(request["messages"]), *_unknown_tools(request)]
        if faults:
            self.faults += faults
            return refused(faults)
        if not self._knows_changes and any(message["role"] == "system" for message in request["messages"]):
            return http_error(400, "invalid_request_error", "Input tag 'tool_addition' does not match")
        id = f"msg_{self._count}"
        chance = self._random.random()
        if "compaction" in request:
            if chance < 0.2:
                return reply(stop_reason="max_tokens", message_id=id)
            summary = {"type": "compaction", "content": "A summary.", "signature": "EuYB"}
            return reply(block(summary), stop_reason="compaction", message_id=id)
        if self._count > 14 or chance < 0.1:
            return reply(text("Done."), message_id=id)
        if chance < 0.2:
            return reply(text("A moment."), stop_reason="pause_turn", message_id=id)
        call = tool_use(self._random.choice(_NAMES), {"words": "x" * 30}, id=f"toolu_{self._count}")
        return reply(text("I will do that."), call, message_id=id)


def _unknown_tools(request: Mapping[str, Any]) -> list[str]:
    """The faults of changes of the tools, in the order of the messages."""
    names = {definition["name"] for definition in request.get("tools", ())}
    faults: list[str] = []
    for message in request["messages"]:
        for change in message["content"] if message["role"] == "system" else ():
            if change["type"] == "tool_addition":
                names.add(change["tool"]["definition"]["name"])
            elif (name := change["tool"]["name"]) in names:
                names.remove(name)
            else:
                faults.append(f"tool_removal: there is no tool {name}")
    return faults


def _change(run: Run[Any], names: set[str], random: Random) -> None:
    """Do one of the things that can be done to a run under way."""
    match random.randrange(5):
        case 0:
            name = random.choice(_NAMES)
            run.add_tools(_TOOLS[name])
            names.add(name)
        case 1 if names:
            name = random.choice(sorted(names))
            run.remove_tools(name)
            names.remove(name)
        case 2:
            run.compact()
        case 3:
            run.compact(summarize=_summarize)
        case _:
            run.say("And?", random.choice(("now", "next_turn", "when_idle")))


async def _converse(seed: int) -> None:
    random = Random(seed)
    model, names = _Model(random), {"a", "b"}
    faults = Faults.random(seed, random.choice((0.0, 0.25)), _KINDS)
    options: dict[str, Any] = {
        "threads": random.choice(("always", None)),
        "inline_tools": random.choice(("always", "always", None)),
        "restart_delay_s": 0,
        "max_restarts": 5,
    }
    async with (
        ReplayServer(
            Scenario.of(model.answer),
            speed=float("inf"),
            faults=faults,
            threads=MessageThreads(keeps_lost=seed % 2 == 0),
        ) as server,
        HTTPTransport(base_url=server.base_url) as transport,
    ):
        run = eagerstream.run(transport, tools=[_TOOLS["a"], _TOOLS["b"]], **options, **REQUEST)
        try:
            with anyio.fail_after(SLOWLY_S):
                async with run:
                    async for _ in run:
                        if run.result.status is RunStatus.RUNNING and random.random() < 0.08:
                            _change(run, names, random)
        except APIError as error:
            assert error.status_code != 400, f"seed {seed}"
    assert not model.faults, f"seed {seed}: {model.faults}"
    assert api_rules.check(run.result.messages) == [], f"seed {seed}"
    assert eagerstream.validate_history(run.result.messages) == [], f"seed {seed}"


async def _converse_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        await _converse(seed)


def test_some_conversations() -> None:
    """A few of them."""
    anyio.run(_converse_all, range(8))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_many_conversations(backend: str) -> None:
    """The same for longer, with other conversations for each commit."""
    anyio.run(_converse_all, drawn(range(10_000), 75), backend=backend)
