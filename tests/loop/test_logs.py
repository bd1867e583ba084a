"""What costs money or time is logged, with the id of the request, and never a text, an argument or a key."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import eagerstream
from eagerstream.errors import APIError
from eagerstream_testing import http_error, reply, text, tool_use
from tests.loop.serial import get_weather
from tests.streams import REQUEST, message_start
from tests.support import Broken, LocalAPI

pytestmark = pytest.mark.anyio


async def _run(
    caplog: pytest.LogCaptureFixture, *bodies: Any, level: int = logging.WARNING, **options: Any
) -> list[str]:
    """Run against these bodies, and return what was logged, with the id of the run as RUN."""
    caplog.set_level(level, "eagerstream")
    api = LocalAPI(*bodies)
    async with eagerstream.run(
        api.transport(), **{**REQUEST, "tools": [get_weather], "restart_delay_s": 0, **options}
    ) as run:
        try:
            await run.finish()
        except APIError:
            pass
    assert "hunter2" not in caplog.text
    ours = [record for record in caplog.records if record.name.startswith("eagerstream")]
    return [f"{record.levelname} {record.getMessage().replace(run.id, 'RUN')}" for record in ours]


async def test_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    """Also its second one, as each is paid for."""
    broken = [message_start(), Broken()]
    assert (
        await _run(caplog, broken, broken, reply(text("hunter2")), max_restarts=2)
        == ["WARNING turn 1 of the run RUN is sent again in 0.0 s: StreamInterrupted (request req_local)"] * 2
    )


@pytest.mark.parametrize(
    ("bodies", "options", "status"),
    [
        ([[reply(tool_use("get_weather", {"city": "hunter2"}))]], {"max_turns": 1}, "limit, max_turns after 1 turns"),
        ([[reply(text("hunter2"), stop_reason="max_tokens")]], {}, "truncated after 1 turns"),
        ([[reply(text("hunter2"), stop_reason="hunter3")]], {}, "unknown after 1 turns"),
        ([http_error(400, "invalid_request_error", "hunter2")], {}, "error, APIError after 0 turns"),
    ],
)
async def test_an_end_that_is_no_success(
    bodies: list[Any], options: dict[str, Any], status: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With the id of the last request."""
    (line,) = await _run(caplog, *bodies, **options)
    how, _, request = line.partition(" (last request ")
    assert how == f"WARNING the run RUN ended with the status {status}"
    assert request.startswith("req_")


async def test_no_word_about_success(caplog: pytest.LogCaptureFixture) -> None:
    """Nor about a run that is cancelled."""
    assert await _run(caplog, reply(tool_use("get_weather", {"city": "hunter2"})), reply(text("hunter2"))) == []


async def test_each_step(caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG: each request, its response, and each call, which on trio may start after the response has ended."""
    calls = [reply(tool_use("get_weather", {"city": "hunter2"}, id="toolu_1"))]
    lines = await _run(caplog, calls, [reply(text("hunter2"))], level=logging.DEBUG, system="hunter2")
    assert sorted(lines) == sorted(
        [
            "DEBUG a request is sent: model 'claude-made-1', 1 messages, 1 tools",
            "DEBUG the response to request req_local begins",
            "DEBUG the call 'toolu_1' of the tool 'get_weather' starts",
            "DEBUG the call 'toolu_1' of the tool 'get_weather' has ended with a result",
            "DEBUG the response to request req_local has ended: stop reason 'tool_use'",
            "DEBUG a request is sent: model 'claude-made-1', 3 messages, 1 tools",
            "DEBUG the response to request req_local begins",
            "DEBUG the response to request req_local has ended: stop reason 'end_turn'",
        ]
    )
