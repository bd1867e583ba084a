"""What the tests of protocols are made on: each shared recording, and each fault of the matrix, as the records of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from packages.progress.tests.observed import viewed
from tests.reliability.conversations import AT_ONCE, converse
from tests.reliability.schedules import SCENARIO, BySchedule, Schedule
from tests.streams import REQUEST, made_recordings, random_pieces, real_recordings
from tests.support import LocalAPI, Piece, anthropic_client

import eagerstream
from eagerstream import EagerStreamError, Tool
from eagerstream.tools import RunningCall
from eagerstream_progress import CallView, Hub, Record
from eagerstream_testing import ReplayServer, reply, text

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
_CALL = re.compile(rb'"type":\s*"tool_use"[^{}]*"name":\s*"([a-zA-Z0-9_-]{1,64})"')


@dataclass(frozen=True)
class Told:
    """A run that has ended.

    Attributes:
        name: The recording, or what went wrong.
        records: As a log that missed nothing has them.
        snapshot: As it gives them to those who come when all is over: merged, without what is void.
    """

    name: str
    records: list[Record]
    snapshot: list[Record]

    def calls(self) -> list[CallView]:
        """Those that are not void."""
        return viewed(self.records).calls


def told_recordings(paths: Sequence[Path] | None = None) -> list[Told]:
    """Each shared recording as the first reply of a run that has a tool for each of its calls; or some of them."""
    chosen = [*made_recordings(), *real_recordings()] if paths is None else paths
    return [anyio.run(_play, path.stem, path.read_bytes()) for path in chosen]


async def _play(name: str, body: bytes) -> Told:
    pieces: Sequence[Piece] = random_pieces(body, seed=len(body), largest=400)
    last: Sequence[Piece] = [reply(text("Done."), message_id="msg_last")]
    api = LocalAPI(pieces, last)
    tools: list[Any] = [_tool(name) for name in sorted({name.decode() for name in _CALL.findall(body)})]
    if b'"code_execution"' in body:  # the API has yet to run one, and the next request must bring it
        tools.append({"type": "code_execution_20250825", "name": "code_execution"})
    hub = Hub()
    run = eagerstream.run(api.transport(), **REQUEST, tools=tools, max_turns=3, restart_delay_s=0.001)
    log = hub.observe(run)
    try:
        async with run:
            await run.finish()
    except EagerStreamError:
        pass  # which the last record tells of
    return Told(name, log.records(), log.snapshot().records)


def _tool(name: str) -> Tool:
    async def act(input: dict[str, Any], call: RunningCall) -> Any:
        await call.progress({"characters": call.input.chars})
        if len(call.input.raw) % 4 == 3:  # some have a picture
            return [{"type": "text", "text": f"{name} drew:"}, IMAGE]
        return f"{name}: {json.dumps(input)[:200]}"

    return Tool(act, definition={"name": name, "input_schema": {"type": "object"}})


def told_faults(schedules: Iterable[Schedule]) -> list[Told]:
    """A conversation of the fault matrix under each schedule, over a real socket; many at once."""
    return anyio.run(_converse_all, dict(enumerate(schedules)))


async def _converse_all(numbered: dict[int, Schedule]) -> list[Told]:
    told: dict[int, Told] = {}
    waiting = iter(numbered.items())

    async def work(client: Any) -> None:
        for number, schedule in waiting:
            hub = Hub()
            with hub.observing():
                await converse(client, number, schedule)
            (log,) = hub.logs
            told[number] = Told(str(schedule), log.records(), log.snapshot().records)

    async with ReplayServer(SCENARIO, speed=float("inf"), faults=BySchedule(numbered)) as server:
        async with anthropic_client(server.base_url) as client:
            async with anyio.create_task_group() as tasks:
                for _ in range(min(AT_ONCE, len(numbered))):
                    tasks.start_soon(work, client)
    return [told[number] for number in numbered]
