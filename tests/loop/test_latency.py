"""`run.latency`: the figures of runs whose every moment is known."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import RunStatus
from eagerstream.loop import Gaps
from tests.loop.timing import CITY, DONE, about, call_events, calls, latency_of, quick
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, message_delta, message_start, text_delta
from tests.virtual_time import Playing, in_virtual_time, timed


def test_a_call_that_does_not_run() -> None:
    """An input that is not JSON, a tool that is not there: no tool time, nothing won, and the marks of their blocks."""
    events = [
        *call_events(0, "quick", 1, fragments=['{"city": ', "Paris}"]),
        *call_events(1, "nope", 2, fragments=["{}"]),
    ]
    latency = latency_of(calls(*events, stop_s=4), DONE, tools=[quick])
    invalid, unknown = latency.calls
    assert (invalid.tool_start_s, unknown.tool_start_s, latency.time_to_tool_start_s) == (None, None, None)
    assert (invalid.is_error, unknown.is_error) == (True, True)
    assert (latency.tool_s, latency.hidden_share, latency.won_s) == (0, None, 0)
    outcomes = [block["outcome"] for block in latency.to_dict()["requests"][0]["blocks"]]
    assert outcomes == ["invalid", "valid"]


def test_a_run_without_calls() -> None:
    """It has marks, and no figures about inputs; its text has gaps of its own, which are none of inputs."""
    said = timed(
        (0.5, message_start()),
        (1.0, {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        (1.5, text_delta(0, "Hel")),
        (2.5, text_delta(0, "lo")),
        (2.5, block_stop(0)),
        (3.0, message_delta("end_turn")),
        (3.0, MESSAGE_STOP),
    )
    latency = latency_of(said, tools=[])
    assert latency.calls == []
    figures = (latency.time_to_first_fragment_s, latency.gaps, latency.fragments_per_s, latency.chars_per_s)
    assert figures == (None, None, None, None)
    (request,) = latency.to_dict(arrivals=True)["requests"]
    (block,) = request["blocks"]
    assert (block["kind"], block["fragments"], block["fields"], block["call"]) == ("text", 2, [], None)
    assert block["arrivals"] == [(1.5, 1, 3), (2.5, 1, 2)]
    assert block["gaps"] == {"count": 1, "p50_s": 1.0, "p90_s": 1.0, "p99_s": 1.0, "max_s": 1.0}


def test_latency_while_the_run_goes_on() -> None:
    """It can be looked at from an event, and has what is known by then."""
    seen: list[dict[str, Any]] = []

    async def main() -> None:
        transport = Playing(calls(*call_events(0, "quick", 1, fragments=CITY), stop_s=4), DONE)
        async with eagerstream.run(transport, tools=[quick], clock=anyio.current_time, **REQUEST) as run:
            assert run.latency.requests == []
            assert run.latency.to_dict()["duration_s"] is None
            async for event in run:
                data = run.latency.to_dict()
                seen.append({"event": type(event).__name__, **data})
        assert run.result.status is RunStatus.COMPLETED

    in_virtual_time(main)
    stops = [data for data in seen if data["event"] == "InputStop"]
    assert stops[0]["time_to_first_field_s"] == about(2)
    assert stops[0]["requests"][0]["message_stop_s"] is None
    starts = [data for data in seen if data["event"] == "ToolStart"]
    assert starts[0]["time_to_tool_start_s"] == about(2)
    assert starts[0]["status"] == "running"
    assert starts[0]["requests"][0]["won_s"] is None


@pytest.mark.parametrize(
    ("gaps_s", "expected"),
    [
        ([], None),
        ([0.5], Gaps(1, 0.5, 0.5, 0.5, 0.5)),
        ([0.0, 1.0], Gaps(2, 0.5, 0.9, 0.99, 1.0)),
        ([n / 100 for n in range(101)], Gaps(101, 0.5, 0.9, 0.99, 1.0)),
    ],
)
def test_gaps(gaps_s: list[float], expected: Gaps | None) -> None:
    """Quantiles with linear interpolation, as NumPy's are."""
    gaps = Gaps.of(gaps_s)
    if expected is None:
        assert gaps is None
    else:
        assert gaps is not None
        assert (gaps.count, gaps.max_s) == (expected.count, expected.max_s)
        assert (gaps.p50_s, gaps.p90_s, gaps.p99_s) == pytest.approx((expected.p50_s, expected.p90_s, expected.p99_s))
        assert Gaps.of(reversed(gaps_s)) == gaps
