"""The bodies of error responses: endless ones, compressed ones, and those of requests that are not ours."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

from eagerstream.errors import APIError
from eagerstream.transports._error_bodies import bounded_error_bodies, read_error
from eagerstream.transports._error_responses import MAX_ERROR_BYTES
from tests.streaming.streams import error_of
from tests.support import LocalAPI, Piece

pytestmark = pytest.mark.anyio

_REFUSED = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": "Because."}}).encode()


async def _refused(api: LocalAPI, kind: str) -> APIError:
    error: APIError = await error_of(api.anthropic() if kind == "anthropic" else api.transport())
    assert api.exchanges[0].closed
    return error


class _Endless(list[Piece]):
    """A body that goes on for as long as somebody reads it."""

    read = 0

    def __iter__(self) -> Any:
        while True:
            self.read += 1
            yield b"x" * 16_384


@pytest.mark.parametrize("kind", ["anthropic", "transport"])
async def test_a_body_without_an_end(kind: str) -> None:
    """No more of it is read than anybody would read."""
    body = _Endless()
    error = await _refused(LocalAPI(body, status=400), kind)
    assert error.status_code == 400
    assert body.read <= MAX_ERROR_BYTES / 16_384 + 2


@pytest.mark.parametrize("kind", ["anthropic", "transport"])
async def test_a_compressed_body(kind: str) -> None:
    """One coding is undone, within the bound; of another, nothing is read, and the status says enough."""
    packed = gzip.compress(_REFUSED)
    for coding in ("gzip", "gzip, gzip", "br"):
        api = LocalAPI([packed[:9], packed[9:]], status=400, headers={"content-encoding": coding})
        error = await _refused(api, kind)
        assert (error.status_code, error.error_type) == (400, "invalid_request_error" if coding == "gzip" else None)
        if coding == "gzip":
            assert error.reason == "Because."


@pytest.mark.parametrize("kind", ["anthropic", "transport"])
async def test_a_bomb(kind: str) -> None:
    """3 MB in 3 kB."""
    bomb = gzip.compress(b"x" * 3_000_000, 6)
    api = LocalAPI([bomb], status=400, headers={"content-encoding": "gzip"})
    error = await _refused(api, kind)
    assert error.reason.startswith("x" * 100) or error.status_code == 400
    assert len(str(error)) < 3_000


def _plain_client(body: bytes) -> httpx.AsyncClient:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 16_384):
            yield body[start : start + 16_384]

    return httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(400, content=pieces())))


async def test_other_requests_of_the_same_client() -> None:
    """A client that was used here once reads its own error responses as it always did."""
    body = b"x" * (2 * MAX_ERROR_BYTES)
    client = _plain_client(body)
    for _ in range(3):
        with bounded_error_bodies(client):
            assert len((await client.get("http://local")).content) <= MAX_ERROR_BYTES
        assert (await client.get("http://local")).content == body
    assert len(client.event_hooks["response"]) == 1


async def test_a_body_that_a_hook_has_read() -> None:
    """It is there, and stays as it is."""

    async def read(response: Any) -> None:
        await response.aread()

    body = b"x" * (2 * MAX_ERROR_BYTES)
    client = _plain_client(body)
    client.event_hooks = {"response": [read]}
    with bounded_error_bodies(client):
        assert (await client.get("http://local")).content == body


def test_a_client_without_hooks() -> None:
    """Whatever else sends requests is used as it is."""
    with bounded_error_bodies(object()), bounded_error_bodies(None):
        pass


async def test_mistakes_are_not_hidden() -> None:
    """An exception that is not of an HTTP client comes out."""

    async def broken() -> Any:
        yield b"a"
        await anyio.lowlevel.checkpoint()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await read_error(broken(), "")
