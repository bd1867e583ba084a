"""The table of `_policy`: every way in which a response can end, as a conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.to_thread
import pytest

import eagerstream
from eagerstream.calls import RunStatus, _policy
from eagerstream.errors import LimitError
from eagerstream.loop import Run
from eagerstream.tools import ToolStatus
from eagerstream_testing import reply, text, tool_use
from tests.loop.cases import CASES, HALF, HALF_CUT, Case, one_call, with_container
from tests.loop.serial import (
    DONE,
    TOOLS,
    Listed,
    Serial,
    body,
    checked,
    finished,
    result,
    running,
)
from tests.streams import MESSAGE_STOP, USER, block_stop, input_delta, message_start, tool_start
from tests.support import Gate, LocalAPI

pytestmark = pytest.mark.anyio


def _check(case: Case, run: Run, bodies: Sequence[Any]) -> None:
    """Each request is whole, and so are the history, the status and what ran. Nothing more is sent."""
    assert bodies == case.bodies
    assert run.result.messages == [USER, *case.added]
    assert run.result.status is case.status
    assert run.result.turns == len(case.bodies)
    for made in run.result.calls:
        assert made.result is not None
        if case.ran:
            assert made.ran == case.ran[made.id], made
    if case.ran:
        assert set(case.ran) == {made.id for made in run.result.calls}


async def test_every_transition() -> None:
    """Every row of the table, event by event."""
    for name, case in CASES.items():
        api = Listed(*case.replies)
        try:
            _check(case, await finished(api.transport(), **case.options), api.bodies)
        except Exception as failure:
            failure.add_note(f"row: {name}")
            raise


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the rows themselves are tried on both
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_transition(serial: Serial, case: Case) -> None:
    """The same through the client of the anthropic package and a socket, cut at random places."""
    async with serial.conversing(*case.replies) as client:
        run = await finished(client, **case.options)
    _check(case, run, serial.bodies)


# --- however the bytes are cut ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reason", [*_policy._TABLE, "tool_calls", "length", "content_filter", "later", None, ["x"], {"a": 1}]
)
async def test_the_cuts_decide_nothing(reason: Any) -> None:
    """The same bytes give the same calls, requests, history and status: in one piece, event by event, in odd pieces."""
    ran: list[int] = []

    @eagerstream.tool
    async def act(n: int) -> str:
        ran.append(n)
        return f"done {n}"

    whole = reply(
        text("So."),
        tool_use("act", {"n": 1}, id="a"),
        tool_use("act", {"n": 2}, id="b"),
        tool_use("act", '{"n": 3', id="c", closed=False),
        stop_reason="put in",
    ).body.replace(b'"put in"', json.dumps(reason).encode())
    events = [event + b"\n\n" for event in whole.split(b"\n\n") if event]
    found = []
    for pieces in ([whole], events, [whole[at : at + 7] for at in range(0, len(whole), 7)]):
        ran.clear()
        api = LocalAPI(pieces, [DONE])
        async with running(api.transport(), tools=[act], max_turns=2) as run:
            await run.finish()
        ran.sort()  # trio starts tasks of the same moment in any order
        found.append((ran[:], [each.body for each in api.exchanges], checked(run.result).messages, run.result.status))
    assert found[0] == found[1] == found[2]
    assert ran == [1, 2]


# --- what a table does not say ----------------------------------------------------------------------------------------


async def test_raise() -> None:
    """`raise`: the iteration raises the limit, the history keeps what ran, the status says that it was cut."""
    api = Listed(HALF_CUT)
    client = api.transport()
    async with running(client, tools=TOOLS, on_truncated="raise") as run:
        with pytest.raises(LimitError) as caught:
            await run.finish()
    assert (caught.value.limit, caught.value.bound) == ("max_tokens", 1024)
    assert api.bodies == [body()]
    assert checked(run.result).status is RunStatus.TRUNCATED
    assert run.result.messages == [USER, *HALF]


async def test_a_refusal_after_a_call_that_ran() -> None:
    """The turn is left out whole, its call is told with its result, and `stop_details` are there."""
    ran = anyio.Event()

    @eagerstream.tool
    async def act() -> str:
        ran.set()
        return "acted"

    gate = Gate()
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    end = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}, "usage": {}}
    api = LocalAPI(
        [message_start(), tool_start(0, "act"), input_delta(0, "{}"), block_stop(0), gate, end, MESSAGE_STOP]
    )
    async with running(api.transport(), tools=[act]) as run:
        await ran.wait()
        gate.opened.set()
        await run.finish()
    assert checked(run.result).status is RunStatus.REFUSED
    assert run.result.messages == [USER]
    (made,) = run.result.calls
    assert (made.ran, made.in_history, made.result) == (True, False, result("toolu_0", "acted"))
    assert run.result.message is not None
    assert run.result.message["stop_details"] == details


async def test_usage_is_summed_over_all_replies(serial: Serial) -> None:
    """Also of a reply that was discarded, also nested; a figure that is no count is the last one."""
    first = reply(
        tool_use("get_weather", '{"c', id="a", closed=False),
        stop_reason="max_tokens",
        usage={
            "input_tokens": 10,
            "output_tokens": 5,
            "server_tool_use": {"web_search_requests": 2},
            "cache_creation": {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": 0},
            "service_tier": "batch",
        },
    )
    second = reply(
        text("Done."),
        usage={
            "input_tokens": 20,
            "output_tokens": 6,
            "server_tool_use": {"web_search_requests": 3, "web_fetch_requests": 1},
            "cache_creation": {"ephemeral_5m_input_tokens": 1},
            "service_tier": "standard",
        },
    )
    async with serial.conversing(first, second) as client:
        usage = (await finished(client, on_truncated="retry")).result.usage
    assert usage == {
        "input_tokens": 30,
        "output_tokens": 11,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "server_tool_use": {"web_search_requests": 5, "web_fetch_requests": 1},
        "cache_creation": {"ephemeral_5m_input_tokens": 8, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }


async def test_the_user_s_container_stays() -> None:
    """Skills that the user asked for are sent along with the id of the container that the reply named."""
    skills = {"skills": [{"type": "anthropic", "skill_id": "pdf"}]}
    api = LocalAPI([with_container(one_call("a"))], [DONE])
    await finished(api.transport(), container=skills)
    assert [exchange.body["container"] for exchange in api.exchanges] == [skills, {**skills, "id": "c1"}]


async def test_the_container_is_remembered() -> None:
    """The container of an earlier reply goes with every later request: its files are there."""
    api = Listed(with_container(one_call("a")), one_call("b"), DONE)
    await finished(api.transport())
    assert [sent.get("container") for sent in api.bodies] == [None, "c1", "c1"]


async def test_max_turns_that_are_not_needed() -> None:
    """A run that ends by itself on its last turn is complete."""
    api = Listed(reply(tool_use("now", {})), DONE)
    assert (await finished(api.transport(), max_turns=2)).result.status is RunStatus.COMPLETED


def test_statuses_are_texts() -> None:
    """They print as their value, and compare with it."""
    for status in (*RunStatus, *ToolStatus):
        assert f"{status}" == str(status) == status == status.value
        assert json.dumps([status]) == f'["{status.value}"]'
