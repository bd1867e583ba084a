"""Cancelled at any of its steps, by whatever means: nothing leaks, nothing runs twice, and the history can be sent."""

from __future__ import annotations

import asyncio

import pytest

from tests.loop.cancelling import WAYS, cancelled_after

_MOST_STEPS = 5_000  # of no use but to end: the event loop goes on stepping while the threads of tools take their time


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("way", "stride"),
    [(WAYS[0], 3), *(pytest.param(way, 1, marks=pytest.mark.slow) for way in WAYS)],
)
async def test_at_every_step(way: str, stride: int, anyio_backend_name: str) -> None:
    """From the first step to the last, or to every third, one conversation for each."""
    before = asyncio.all_tasks() if anyio_backend_name == "asyncio" else set()
    steps = 0
    while await cancelled_after(steps, way):
        steps += stride
        assert steps < _MOST_STEPS
    assert steps > 20  # the conversation is long enough to mean something
    if anyio_backend_name == "asyncio":
        assert asyncio.all_tasks() == before
