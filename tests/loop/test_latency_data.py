"""The latency of a run as JSON."""

from __future__ import annotations

import json

import pytest
from pydantic import TypeAdapter

import eagerstream
from eagerstream import tool
from eagerstream.loop import LatencyData
from eagerstream_testing import reply, text
from tests.loop.timing import CITY, DONE, call_events, calls, latency_of, quick
from tests.streams import MESSAGE_STOP, REQUEST, message_delta, message_start
from tests.support import LocalAPI, whole_call


def test_json() -> None:
    """What comes out is JSON of the documented shape, the same numbers, and no content."""
    first = calls(*call_events(0, "quick", 1, fragments=CITY), stop_s=3)
    latency = latency_of(first, DONE, tools=[quick])
    told = json.loads(latency.to_json(arrivals=True))
    TypeAdapter(LatencyData).validate_python(told, strict=False)
    assert told == json.loads(json.dumps(latency.to_dict(arrivals=True)))
    assert told["eagerstream_latency"] == 1
    assert (told["model"], told["status"], told["eager"]) == (REQUEST["model"], "completed", "field")
    block = told["requests"][0]["blocks"][0]
    assert block["fields"] == [{"path": ["city"], "at_s": 2.0}]
    assert block["call"]["start_s"] == 2.0
    assert block["arrivals"] == [[1.5, 1, 9], [2.0, 1, 8]]
    assert "Paris" not in latency.to_json(arrivals=True)
    assert all(block["arrivals"] == [] for request in latency.to_dict()["requests"] for block in request["blocks"])


@pytest.mark.anyio
async def test_times_count_from_the_request() -> None:
    """And not from where the clock of the machine began."""
    call = [message_start(), *whole_call(0, "now"), message_delta("tool_use"), MESSAGE_STOP]

    @tool
    async def now() -> str:
        """Tell the time."""
        return "noon"

    async with eagerstream.run(LocalAPI(call, [reply(text("Noon."))]).transport(), **REQUEST, tools=[now]) as run:
        await run.finish()
    (of_call,) = run.latency.calls
    times = [of_call.start_s, of_call.stop_s, of_call.admitted_s, of_call.tool_start_s, of_call.tool_end_s]
    assert all(at_s is not None and 0 <= at_s < 60 for at_s in times), times
