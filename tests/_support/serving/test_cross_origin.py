"""`CrossOrigin`: what browsers are told. `tests/test_every_server.py` has it in each server, over sockets."""

from __future__ import annotations

from typing import Any

import anyio.lowlevel
import pytest

from eagerstream._support.serving.access import Access
from eagerstream._support.serving.cross_origin import CrossOrigin

pytestmark = pytest.mark.anyio

HOST = (b"host", b"127.0.0.1")


async def told(scope: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of the application and of what is in front of it."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"vary", b"cookie")]})

    async def send(message: Any) -> None:
        await anyio.lowlevel.checkpoint()
        sent.append(message)

    access = Access(origins=["https://App.example"])
    await CrossOrigin(app, access)({"type": "http", "method": "GET", "path": "/", **scope}, None, send)  # type: ignore[arg-type]
    return sent


@pytest.mark.parametrize(
    ("kind", "method", "origin", "names"),
    [
        (
            "http",
            "GET",
            b"https://app.example",
            ["vary", "access-control-allow-origin", "vary", "access-control-expose-headers"],
        ),
        (
            "http",
            "OPTIONS",
            b"https://app.example",
            ["vary", "access-control-allow-origin", "vary", "access-control-expose-headers"],
        ),
        ("http", "GET", b"https://evil.example", ["vary"]),
        ("http", "GET", b"", ["vary"]),
        ("websocket", "GET", b"https://app.example", ["vary"]),
    ],
)
async def test_responses(kind: str, method: str, origin: bytes, names: list[str]) -> None:
    """Only those to a page of an allowed origin say more. `OPTIONS` alone is no preflight."""
    (message,) = await told({"type": kind, "method": method, "headers": [HOST, (b"origin", origin)]})
    assert [name.decode() for name, _ in message["headers"]] == names


async def test_a_preflight_for_another_name() -> None:
    """A page that gives its own name our address learns nothing."""
    asks = [(b"origin", b"https://app.example"), (b"access-control-request-method", b"POST")]
    start, _ = await told({"method": "OPTIONS", "headers": [(b"host", b"evil.example"), *asks]})
    assert (start["status"], start["headers"]) == (421, [(b"content-length", b"0")])
