"""The log of a run that is cancelled at any of its steps: whoever watched knows how it ended, and how each call did."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from tests.loop.cancelling import WAYS, cancelled_after

from eagerstream.loop import RunResult
from eagerstream_progress import Hub, RunLog, RunView


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("way", "stride"), [(WAYS[0], 5), *(pytest.param(way, 1, marks=pytest.mark.slow) for way in WAYS)]
)
async def test_at_every_step(way: str, stride: int) -> None:
    """From the first step to the last, or to every fifth, one conversation for each."""
    hub = Hub()
    logs: list[RunLog] = []
    steps: Iterator[int] = count(0, stride)
    while (result := await cancelled_after(next(steps), way, lambda run: logs.append(hub.observe(run)))) is not None:
        _check(logs[-1], result)
    assert len(logs) * stride > 20


def _check(log: RunLog, result: RunResult) -> None:
    records = log.records()
    assert log.is_closed
    assert [record["type"] for record in records].index("run_stop") == len(records) - 1
    view = RunView()
    for record in records:
        view.feed(record)
    assert view.status == result.status.value
    calls = {call.id: call.input for call in result.calls}
    for seen in view.calls:
        assert seen.phase.is_final
        if seen.id in calls:
            assert (seen.raw, seen.partial) == (calls[seen.id].raw, calls[seen.id].partial)
