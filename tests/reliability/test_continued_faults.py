"""A call whose input is continued after a fault, at every place, over real sockets: nothing is doubled, nothing is lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import anyio
import pytest

import eagerstream
from eagerstream import EagerStreamError, InputInterrupted, Limits, RunStatus, TextStream, tool, validate_history
from eagerstream._support.bodies import body_events
from eagerstream.recordings import Recording
from eagerstream_testing import FaultKind, ReplayServer, Scenario, Timing, reply, retime, text, tool_use
from tests import api_rules
from tests.continuing import is_asked, rest_of
from tests.reliability.schedules import BySchedule, Schedule, at_bytes, at_events, first_message
from tests.sampling import PARTS, drawn
from tests.support import anthropic_client, refused

_BODY: Final = "".join(f'Line {number}: "\u00e9\U0001f600"\n' for number in range(8))
_INPUT: Final = {"path": "a.txt", "body": _BODY}
_RAW: Final = json.dumps(_INPUT)
_WHOLE: Final = reply(text("Well."), tool_use("write", _INPUT, fragment_chars=9))
_CUT: Final = reply(text("Well."), tool_use("write", _RAW[:150], fragment_chars=9), stop_reason="max_tokens")
_LIMITS: Final = Limits(idle_timeout_s=1.5, progress_timeout_s=3, tool_timeout_s=5, max_reply_bytes=200_000)
_CHANGES_TEXTS: Final = {FaultKind.DUPLICATE, FaultKind.MISSING, FaultKind.REORDERED, FaultKind.ENDLESS}
"""Faults that change the fragments themselves, which no client can notice."""
_EVENTS: Final = sum(1 for _ in body_events(_WHOLE.body))
_AT_ONCE: Final = 16
_PATIENCE_S: Final = 30


def _model(first: Recording, request: Mapping[str, Any]) -> Recording:
    if faults := api_rules.check_request(request):
        return refused(faults)
    messages = request["messages"]
    if asked := is_asked(request):
        rest = rest_of(_INPUT, messages[-2]["content"][-1]["input"], asked)
        return reply(text("Yes."), tool_use("continue_input", rest, fragment_chars=9), message_id="msg_rest")
    if len(messages) == 1:
        return first
    return reply(text("Done."), message_id="msg_done")


class _Desk:
    def __init__(self) -> None:
        self.written: list[str] = []
        self.interrupted: list[str] = []

    @tool
    async def write(self, path: str, body: TextStream) -> str:
        """Write."""
        pieces: list[str] = []
        try:
            async for piece in body:
                pieces.append(piece)
        except InputInterrupted:
            self.interrupted.append("".join(pieces))
            raise
        self.written.append("".join(pieces))
        return f"wrote {len(self.written[-1])}"


async def _converse(client: Any, number: int, schedule: Schedule) -> str:
    """Run one conversation, check it, and return how it ended."""
    desk = _Desk()
    run = eagerstream.run(
        client,
        model="claude-made-1",
        max_tokens=1_000,
        messages=[first_message(number)],
        tools=[desk.write],
        on_truncated="continue_input",
        restart_delay_s=0.0,
        limits=_LIMITS,
    )
    with anyio.fail_after(_PATIENCE_S):
        try:
            async with run:
                await run.finish()
        except EagerStreamError:
            pass
    result = run.result
    assert validate_history(result.messages) == [], schedule
    if _CHANGES_TEXTS.isdisjoint(fault.kind for fault in schedule.faults):
        assert all(_BODY.startswith(body) for body in desk.interrupted), (schedule, desk.interrupted)
        assert all(body == _BODY for body in desk.written), (schedule, desk.written)
    if result.status is not RunStatus.COMPLETED:
        return "error"
    calls = [call for call in result.calls if call.in_history]
    return "whole" if [call.input.value for call in calls] == [_INPUT] else "otherwise"


async def _converse_all(first: Recording, schedules: Iterable[Schedule], *, turn: int) -> Counter[str]:
    numbered = dict(enumerate(schedules))
    scenario = Scenario.of(lambda request: retime(_model(first, request), Timing.instant()))
    ended: Counter[str] = Counter()
    waiting = iter(numbered.items())
    faults = BySchedule(numbered, turn=turn)

    async def work(client: Any) -> None:
        for number, schedule in waiting:
            ended[await _converse(client, number, schedule)] += 1

    with ReplayServer(scenario, speed=float("inf"), faults=faults) as server:
        async with anthropic_client(server.base_url) as client, anyio.create_task_group() as tasks:
            for _ in range(_AT_ONCE):
                tasks.start_soon(work, client)
    return ended


def _everywhere(events: int, body_bytes: int) -> Iterable[Schedule]:
    """All faults of a response; in a run of CI, a part of them that its commit draws."""
    schedules = [*at_events(events=events), *at_bytes(body_bytes=body_bytes)]
    return drawn(schedules, len(schedules) // PARTS)


def test_some_places() -> None:
    """Of the first response, and of the response with the rest of its input."""
    last = _WHOLE.body.index(b"content_block_stop", _WHOLE.body.index(b"tool_use"))
    lost = drawn(at_bytes(body_bytes=last), 8)
    assert anyio.run(partial(_converse_all, _WHOLE, lost, turn=0)).keys() == {"whole"}
    ended = anyio.run(partial(_converse_all, _CUT, drawn(at_bytes(body_bytes=1_600), 8), turn=1))
    assert ended.keys() == {"whole"}


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_every_place_of_the_first_response(backend: str) -> None:
    """Every kind of fault at every event, and a lost connection at every byte."""
    ended = anyio.run(partial(_converse_all, _WHOLE, _everywhere(_EVENTS, len(_WHOLE.body)), turn=0), backend=backend)
    assert ended["whole"] > 9 * (ended["otherwise"] + ended["error"])


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_every_place_of_the_rest(backend: str) -> None:
    """The same for the response that has the rest."""
    ended = anyio.run(partial(_converse_all, _CUT, _everywhere(30, 1_800), turn=1), backend=backend)
    assert ended["whole"] > 9 * (ended["otherwise"] + ended["error"])
