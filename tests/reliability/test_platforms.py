"""The fault matrix on the client of every platform, in its own dialect: the same faults, on other bytes."""

from __future__ import annotations

from itertools import chain

import pytest

from eagerstream.replay import Platform
from eagerstream.replay.framing import in_aws_frames
from tests.platforms import PlatformClient, each_platform
from tests.reliability.conversations import Ended, Report, converse_all
from tests.reliability.schedules import BYTES, FIRST, at_bytes, at_events

_BODY_BYTES = {Platform.BEDROCK: len(in_aws_frames(FIRST).body)}


def _conversations(client: PlatformClient, backend: str, *, events_step: int, bytes_step: int) -> list[Report]:
    body_bytes = _BODY_BYTES.get(client.platform, BYTES)
    schedules = chain(at_events(step=events_step), at_bytes(step=bytes_step, body_bytes=body_bytes))
    return converse_all(schedules, backend, client.client)


@each_platform
def test_few_places(platform_client: PlatformClient) -> None:
    """Every kind of fault, at few places."""
    reports = _conversations(platform_client, "asyncio", events_step=13, bytes_step=997)
    assert {report.ended for report in reports} == set(Ended)


@pytest.mark.slow
@pytest.mark.timeout(300)
@each_platform
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_some_places(platform_client: PlatformClient, backend: str) -> None:
    """Every kind of fault, at as many places as the quick form for the first-party client has."""
    reports = _conversations(platform_client, backend, events_step=4, bytes_step=113)
    assert {report.ended for report in reports} == set(Ended)
    assert {report.error for report in reports} == {
        "APIError",
        "ProtocolError",
        "LimitError",
        "StreamInterrupted",
        None,
    }
