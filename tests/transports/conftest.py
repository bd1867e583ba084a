"""What the tests of this folder share."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from eagerstream.transports._http_clients import LIBRARIES, Library


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    """Each of the libraries whose clients may be answered without a socket."""
    return importlib.import_module(request.param)


@pytest.fixture(params=LIBRARIES)
def http_library(request: pytest.FixtureRequest, anyio_backend: str) -> Library:
    """Each of the libraries that an `HTTPTransport` may send with, and that runs on this event loop."""
    if request.param == "aiohttp" and anyio_backend != "asyncio":
        pytest.skip("aiohttp runs only on asyncio")
    name: Library = request.param
    return name
