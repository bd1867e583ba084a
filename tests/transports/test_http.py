"""`HTTPTransport`: the Messages API over a plain client."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest

import eagerstream
from eagerstream.errors import APIError, UsageError
from eagerstream.limits import Limits
from eagerstream.replay import ReplayServer, reply, text
from eagerstream.transports import HTTPTransport
from tests.support import REQUEST, Broken, LocalAPI

HELLO = reply(text("Hello."))


async def sent(transport: HTTPTransport, **options: Any) -> None:
    async with eagerstream.stream(transport, **REQUEST, **options) as stream:
        await stream.finish()


@pytest.mark.anyio
@pytest.mark.parametrize("library", ["httpx", "httpx2"])
async def test_the_request(library: str) -> None:
    """Golden: address, headers and body, over either library."""
    api = LocalAPI([HELLO])
    transport = api.transport(pytest.importorskip(library))
    await sent(transport, system="Köln")
    (exchange,) = api.exchanges
    assert exchange.url == "http://local/v1/messages"
    headers = {name: exchange.headers[name] for name in ("accept", "anthropic-version", "content-type", "x-api-key")}
    assert headers == {
        "accept": "text/event-stream",
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
        "x-api-key": "k",
    }
    assert exchange.body == {**REQUEST, "system": "Köln", "stream": True}
    assert exchange.closed


@pytest.mark.anyio
async def test_headers() -> None:
    """The caller's headers win over the default ones, and without a key none is sent."""
    api = LocalAPI([HELLO])
    headers = {"authorization": "Bearer t", "anthropic-version": "2099-01-01", "anthropic-beta": "mine"}
    await sent(HTTPTransport(base_url="http://local", headers=headers, http_client=api.client(httpx)))
    (exchange,) = api.exchanges
    assert exchange.headers["authorization"] == "Bearer t"
    assert exchange.headers["anthropic-version"] == "2099-01-01"
    assert exchange.headers["anthropic-beta"] == "mine"
    assert "x-api-key" not in exchange.headers


@pytest.mark.anyio
async def test_headers_in_another_case() -> None:
    """Names of headers have no case: one that is given replaces the default, it does not come twice."""
    api = LocalAPI([HELLO])
    headers = {"Anthropic-Version": "2099-01-01", "X-API-Key": "other"}
    await sent(HTTPTransport(base_url="http://local", api_key="k", headers=headers, http_client=api.client(httpx)))
    (exchange,) = api.exchanges
    assert exchange.headers["anthropic-version"] == "2099-01-01"
    assert exchange.headers["x-api-key"] == "other"


@pytest.mark.anyio
async def test_betas_beside_a_header_of_one_s_own() -> None:
    """The betas of a request do not silently replace those that every request has."""
    api = LocalAPI([HELLO])
    transport = HTTPTransport(
        base_url="http://local", headers={"anthropic-beta": "always"}, http_client=api.client(httpx)
    )
    await sent(transport, betas=["once"])
    betas = api.exchanges[0].headers["anthropic-beta"].replace(" ", "").split(",")
    assert set(betas) == {"always", "once"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://local/", "http://local/v1/messages"),
        ("http://local/gateway", "http://local/gateway/v1/messages"),
        ("http://local:8080", "http://local:8080/v1/messages"),
        ("https://local", "https://local/v1/messages"),
    ],
)
async def test_base_urls(base_url: str, url: str) -> None:
    """A slash at the end, and a path in front, are as expected."""
    api = LocalAPI([HELLO])
    await sent(HTTPTransport(base_url=base_url, http_client=api.client(httpx)))
    assert api.exchanges[0].url == url


@pytest.mark.parametrize("base_url", ["", "local", "ftp://local", "/v1"])
def test_bad_base_urls(base_url: str) -> None:
    """Said when it is written down."""
    with pytest.raises(UsageError, match="base_url"):
        HTTPTransport(base_url=base_url)


def test_a_synchronous_http_client() -> None:
    """It would block every stream: refused."""
    with httpx.Client() as http_client, pytest.raises(UsageError, match="async"):
        HTTPTransport(base_url="http://local", http_client=http_client)


@pytest.mark.anyio
async def test_who_closes_the_client() -> None:
    """A client that was given stays open; the transport's own is closed with it."""
    api = LocalAPI([HELLO])
    given = api.client(httpx)
    async with HTTPTransport(base_url="http://local", http_client=given) as transport:
        await sent(transport)
    assert not given.is_closed
    await given.aclose()
    async with ReplayServer(HELLO) as server:
        async with HTTPTransport(base_url=server.base_url) as transport:
            await sent(transport)
            own = transport._client
            assert not own.is_closed
        assert own.is_closed
        await transport.aclose()


@pytest.mark.anyio
async def test_connections_are_used_again() -> None:
    """Requests after one another share a connection, since each reply is read to its end."""
    async with ReplayServer(HELLO) as server, httpx.AsyncClient(verify=False) as http_client:
        connections = set()

        async def note(response: httpx.Response) -> None:
            connections.add(response.extensions["network_stream"].get_extra_info("client_addr"))

        http_client.event_hooks["response"].append(note)
        transport = HTTPTransport(base_url=server.base_url, http_client=http_client)
        for _ in range(3):
            await sent(transport)
            async with eagerstream.run(transport, **REQUEST) as run:
                await run.finish()
    assert len(connections) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("status", [204, 302, 418, 503])
async def test_other_statuses(status: int) -> None:
    """Whatever is not 200 is an error with its status."""
    api = LocalAPI([b""], status=status, headers={"location": "http://elsewhere/"})
    with pytest.raises(APIError) as caught:
        await sent(api.transport())
    assert str(status) in str(caught.value)
    assert caught.value.status_code == status
    assert caught.value.retryable is (status == 503)


@pytest.mark.anyio
@pytest.mark.parametrize("rest", [[], [Broken()]], ids=["ended", "broken"])
async def test_an_error_page_that_is_cut(rest: list[Any]) -> None:
    """The status is known, and has to do."""
    with pytest.raises(APIError) as caught:
        await sent(LocalAPI([b'{"error": {"mess', *rest], status=500).transport())
    assert caught.value.status_code == 500


@pytest.mark.anyio
async def test_an_error_page_of_megabytes() -> None:
    """Nobody reads that: a part of it is enough to give up."""
    api = LocalAPI([b"x" * 50_000] * 1000, status=500)
    with pytest.raises(APIError):
        await sent(api.transport())
    assert api.exchanges[0].closed


@pytest.mark.anyio
async def test_a_closed_client() -> None:
    """Using a client after it was closed is a mistake of the caller's, and is said so."""
    http_client = LocalAPI([HELLO]).client(httpx)
    await http_client.aclose()
    with pytest.raises((UsageError, RuntimeError), match="closed"):
        await sent(HTTPTransport(base_url="http://local", http_client=http_client))


@pytest.mark.anyio
async def test_numbers_that_json_does_not_have() -> None:
    """NaN in a request would be refused far away, in other words: it is refused here."""
    api = LocalAPI([HELLO])
    with pytest.raises((UsageError, ValueError)):
        await sent(api.transport(), temperature=float("nan"))
    assert api.exchanges == []


@pytest.mark.anyio
async def test_silence_before_the_reply() -> None:
    """A server that takes the request and says nothing is given up like any other silence."""

    async def never(_: Any) -> Any:
        await anyio.sleep_forever()

    http_client = httpx.AsyncClient(transport=httpx.MockTransport(never))
    with anyio.fail_after(5), pytest.raises(APIError) as caught:
        async with eagerstream.stream(
            HTTPTransport(base_url="http://local", http_client=http_client),
            **REQUEST,
            limits=Limits(idle_timeout_s=0.05),
        ) as stream:
            await stream.finish()
    assert caught.value.retryable


def test_shown() -> None:
    """A transport tells where it goes, and nothing of what it takes there to be let in."""
    transport = HTTPTransport(base_url="https://me:hunter2@host/", api_key="hunter2", headers={"cookie": "hunter2"})
    assert repr(transport) == "<HTTPTransport https://me:[redacted]@host/v1/messages>"
