"""The fault matrix on the client of every platform, in its own dialect: the same faults, on other bytes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

from eagerstream.testing import Platform, ReplayServer
from eagerstream.testing._framing import in_aws_frames
from eagerstream.transports import HTTPTransport
from tests.platforms import CLIENTS, PlatformClient, each_platform
from tests.reliability.conversations import ERRORS, Ended, converse_all
from tests.reliability.schedules import BYTES, FIRST, Schedule, at_bytes, at_events

_BODY_BYTES = {Platform.BEDROCK: len(in_aws_frames(FIRST).body)}


BACKENDS = ["asyncio", "trio"]
PAGE = Path(__file__).parents[2].joinpath("docs/guides/platforms.md").read_text(encoding="utf-8")


def _schedules(platform: Platform, *, events_step: int = 4, bytes_step: int = 113) -> Iterator[Schedule]:
    """By default at as many places as the quick form of the matrix has."""
    body_bytes = _BODY_BYTES.get(platform, BYTES)
    return chain(at_events(step=events_step), at_bytes(step=bytes_step, body_bytes=body_bytes))


@pytest.mark.slow
def test_few_places() -> None:
    """Every kind of fault, at few places, in frames instead of server-sent events."""
    client = next(client for client in CLIENTS if client.platform is Platform.BEDROCK)
    schedules = _schedules(client.platform, events_step=13, bytes_step=997)
    reports = converse_all(schedules, "asyncio", client.client)
    assert {report.ended for report in reports} == set(Ended)


@pytest.mark.nightly
@pytest.mark.timeout(300)
@each_platform
@pytest.mark.parametrize("backend", BACKENDS)
def test_some_places(platform_client: PlatformClient, backend: str) -> None:
    """Every kind of fault, at as many places as the quick form for the first-party client has."""
    reports = converse_all(_schedules(platform_client.platform), backend, platform_client.client)
    assert {report.ended for report in reports} == set(Ended)
    assert {report.error for report in reports} == {*ERRORS, None}


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gateways(library: Any, backend: str) -> None:
    """The same over the plain transport, on either library."""

    @asynccontextmanager
    async def connect(server: ReplayServer) -> AsyncIterator[HTTPTransport]:
        async with library.AsyncClient(verify=False) as http_client:
            yield HTTPTransport(base_url=server.base_url, http_client=http_client)

    reports = converse_all(_schedules(Platform.ANTHROPIC), backend, connect)
    assert {report.ended for report in reports} == set(Ended)


def test_the_table_is_of_these() -> None:
    """The page tells of as many conversations, on both backends, as there are."""
    rows = re.findall(r"`(?:eagerstream\.)?(\w+)\(.*\| (\d+) \|$", PAGE, re.MULTILINE)
    platforms = {client.name: client.platform for client in CLIENTS} | {"HTTPTransport": Platform.ANTHROPIC}
    assert {name: int(count) for name, count in rows} == {
        name: len(BACKENDS) * sum(1 for _ in _schedules(platform)) for name, platform in platforms.items()
    }
