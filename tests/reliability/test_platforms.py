"""The fault matrix on the client of every platform, in its own dialect: the same faults, on other bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import anthropic
import pytest

from eagerstream.transports import HTTPTransport
from eagerstream.transports._http_clients import LIBRARIES, Library
from eagerstream_testing import Platform, ReplayServer
from eagerstream_testing._framing import in_aws_frames
from tests.platforms import CLIENTS, PlatformClient, each_platform
from tests.reliability.conversations import ERRORS, Ended, converse_all
from tests.reliability.schedules import BYTES, FIRST, Schedule, at_bytes, at_events, at_some
from tests.sampling import PARTS

_BODY_BYTES = {Platform.BEDROCK: len(in_aws_frames(FIRST).body)}


BACKENDS = ["asyncio", "trio"]
PAGE = Path(__file__).parents[2].joinpath("docs/guides/platforms.md").read_text(encoding="utf-8")


def _schedules(platform: Platform, *, events_step: int = 4, bytes_step: int = 113) -> Iterator[Schedule]:
    """By default at as many places as the quick form of the matrix has."""
    body_bytes = _BODY_BYTES.get(platform, BYTES)
    return chain(at_events(step=events_step), at_bytes(step=bytes_step, body_bytes=body_bytes))


def _places(platform: Platform) -> Iterable[Schedule]:
    """Half as many in a part of the nightly tests: each commit draws others."""
    if PARTS == 1:
        return _schedules(platform)
    return at_some(20, body_bytes=_BODY_BYTES.get(platform, BYTES))


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
    reports = converse_all(_places(platform_client.platform), backend, platform_client.client)
    assert {report.ended for report in reports} == set(Ended)
    assert {report.error for report in reports} == {*ERRORS, None}


# httpx leaves generators of its own to the garbage collector; trio complains, and nobody can reach them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("library", "backend"),
    [*product(LIBRARIES[1:], BACKENDS), (LIBRARIES[0], "asyncio")],
)
def test_gateways(library: Library, backend: str) -> None:
    """The same over the plain transport, with each library."""

    def connect(server: ReplayServer) -> HTTPTransport:
        return HTTPTransport(base_url=server.base_url, library=library)

    reports = converse_all(_places(Platform.ANTHROPIC), backend, connect)
    assert {report.ended for report in reports} == set(Ended)
    assert {report.error for report in reports} == {*ERRORS, None}


def _on_aiohttp(platform_client: PlatformClient, server: ReplayServer) -> Any:
    """A platform's client, with the HTTP client of the anthropic package that sends with aiohttp."""
    http_client = getattr(anthropic, "DefaultAioHttpClient", None)
    if http_client is None:
        pytest.skip(f"anthropic {anthropic.__version__} has no DefaultAioHttpClient")
    return platform_client.client(server, http_client=http_client(verify=False))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "uvloop"])
@pytest.mark.parametrize("is_plain", [True, False])
def test_few_places_on_aiohttp(is_plain: bool, backend: str) -> None:
    """Every kind of fault, at few places, over the cheapest HTTP library, on both event loops that it runs on."""

    def connect(server: ReplayServer) -> Any:
        if is_plain:
            return HTTPTransport(base_url=server.base_url, library="aiohttp")
        return _on_aiohttp(CLIENTS[0], server)

    schedules = _schedules(Platform.ANTHROPIC, events_step=13, bytes_step=997)
    assert {report.ended for report in converse_all(schedules, backend, connect)} == set(Ended)


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("backend", ["asyncio", "uvloop"])
@each_platform
def test_platforms_on_aiohttp(platform_client: PlatformClient, backend: str) -> None:
    """The same with the HTTP client of the anthropic package that sends with aiohttp."""
    connect = partial(_on_aiohttp, platform_client)
    reports = converse_all(_places(platform_client.platform), backend, connect)
    assert {report.ended for report in reports} == set(Ended)
    assert {report.error for report in reports} == {*ERRORS, None}


def test_the_table_is_of_these() -> None:
    """The page tells of as many conversations, on both backends, as there are."""
    rows = re.findall(r"`(?:eagerstream\.)?(\w+)\(.*\| (\d+) \|$", PAGE, re.MULTILINE)
    platforms = {client.name: client.platform for client in CLIENTS} | {"HTTPTransport": Platform.ANTHROPIC}
    assert {name: int(count) for name, count in rows} == {
        name: len(BACKENDS) * sum(1 for _ in _schedules(platform)) for name, platform in platforms.items()
    }
