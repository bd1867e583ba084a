"""`HTTPTransport`: the Messages API over a plain client."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from eagerstream.errors import APIError, ProtocolError, StreamInterrupted, UsageError
from eagerstream.transports import HTTPTransport
from eagerstream_testing import reply, text
from tests.streaming.streams import error_of, finished
from tests.streams import message_start
from tests.support import Broken, LocalAPI
from tests.tables import rows

pytestmark = pytest.mark.anyio

HELLO = reply(text("Hello."))


async def headers_sent(library: Any, **options: Any) -> dict[str, str]:
    """The headers of the only request that a transport with these options sends."""
    api = LocalAPI([HELLO])
    await finished(HTTPTransport(base_url="http://local", http_client=api.client(library), **options))
    (exchange,) = api.exchanges
    return exchange.headers


async def test_headers(library: Any) -> None:
    """The caller's headers win over the default ones, and without a key none is sent."""
    headers = {"authorization": "Bearer t", "anthropic-version": "2099-01-01", "anthropic-beta": "mine"}
    received = await headers_sent(library, headers=headers)
    assert received["authorization"] == "Bearer t"
    assert received["anthropic-version"] == "2099-01-01"
    assert received["anthropic-beta"] == "mine"
    assert "x-api-key" not in received


async def test_headers_in_another_case(library: Any) -> None:
    """Names of headers have no case: one that is given replaces the default, it does not come twice."""
    headers = {"Anthropic-Version": "2099-01-01", "X-API-Key": "other"}
    received = await headers_sent(library, api_key="k", headers=headers)
    assert received["anthropic-version"] == "2099-01-01"
    assert received["x-api-key"] == "other"


async def test_betas_beside_a_header_of_one_s_own(library: Any) -> None:
    """The betas of a request do not silently replace those that every request has."""
    api = LocalAPI([HELLO])
    transport = HTTPTransport(
        base_url="http://local", headers={"anthropic-beta": "always"}, http_client=api.client(library)
    )
    await finished(transport, betas=["once"])
    betas = api.exchanges[0].headers["anthropic-beta"].replace(" ", "").split(",")
    assert set(betas) == {"always", "once"}


_BASE_URLS = [
    ("http://local/", "http://local/v1/messages"),
    ("http://local/gateway", "http://local/gateway/v1/messages"),
    ("http://local:8080", "http://local:8080/v1/messages"),
    ("https://local", "https://local/v1/messages"),
    ("http://local/gateway//", "http://local/gateway/v1/messages"),
    ("http://local:11434/v1", "http://local:11434/v1/messages"),
    ("https://local/anthropic/v1/", "https://local/anthropic/v1/messages"),
    ("https://local/anthropic/v1/messages", "https://local/anthropic/v1/messages"),
    ("http://local/v1/anthropic", "http://local/v1/anthropic/v1/messages"),
    ("http://local/v11", "http://local/v11/v1/messages"),
    ("http://v1", "http://v1/v1/messages"),
    ("http://[::1]:8080/v1", "http://[::1]:8080/v1/messages"),
    ("HTTPS://Local", "https://local/v1/messages"),
]


async def test_base_urls(library: Any) -> None:
    """Slashes at the end, and a path in front, are as expected; a version that is there already is not doubled."""
    api = LocalAPI([HELLO])
    http_client = api.client(library)
    for base_url, url in _BASE_URLS:
        await finished(HTTPTransport(base_url=base_url, http_client=http_client))
        assert api.exchanges[-1].url == url


_BAD_BASE_URLS = ["", "local", "ftp://local", "/v1", "http://", "http://[", "http://local:port", "http://local:99999"]
_BAD_BASE_URLS += [
    "http://local\n",
    " http://local",
    "http://lo cal",
    "http://\0local",
    "http://local/?a=1",
    "http://local#a",
]


@rows("base_url", _BAD_BASE_URLS)
def test_bad_base_urls(base_url: str) -> None:
    """Said when it is written down, without the password that may be in it."""
    with pytest.raises(UsageError, match="base_url") as caught:
        HTTPTransport(base_url=base_url.replace("://", "://me:hunter2@"))
    assert "hunter2" not in str(caught.value)


@rows("base_url", [None, b"http://local", 5])
def test_base_urls_that_are_no_text(base_url: Any) -> None:
    """A variable that is not set is the commonest."""
    with pytest.raises(UsageError, match="base_url must be a text, not"):
        HTTPTransport(base_url=base_url)


@rows("name", ["x-é", "x-note\n", " x", 5, b"x-note"])
def test_names_that_no_header_can_have(name: Any) -> None:
    """As their values: told when they are written down, and not as an error of an encoding."""
    with pytest.raises(UsageError, match="the header"):
        HTTPTransport(base_url="http://local", headers={name: "a"})


@rows("name", ["a b", "", "a:b", "Content-Length", "transfer-encoding"])
def test_headers_that_would_break_the_request(name: str) -> None:
    """A server could read a part of the request as another one."""
    with pytest.raises(UsageError, match="header"):
        HTTPTransport(base_url="http://local", headers={name: "5"})


@rows("value", ["hunter2\n", " hunter2", "hunter2é", "hunter2\r\nx-injected: 1", "hunter2\0", 7])
def test_values_that_no_header_can_have(value: Any) -> None:
    """A key from a file, with the end of its line, is told from a connection that fails; and it is not shown."""
    for options in ({"api_key": value}, {"headers": {"Authorization": value}}):
        with pytest.raises(UsageError, match=r"header '(x-api-key|Authorization)'") as caught:
            HTTPTransport(base_url="http://local", **options)
        assert "hunter2" not in str(caught.value)


async def test_extra_headers_of_a_request(library: Any) -> None:
    """They win over those of every request, and are checked as those are."""
    api = LocalAPI([HELLO])
    await finished(api.transport(library), extra_headers={"X-Api-Key": "other", "x-note": "a"})
    assert api.exchanges[0].headers["x-api-key"] == "other"
    assert api.exchanges[0].headers["x-note"] == "a"
    with pytest.raises(UsageError, match="x-note"):
        await finished(api.transport(library), extra_headers={"x-note": "a\n"})
    assert len(api.exchanges) == 1


async def test_other_statuses(library: Any) -> None:
    """Whatever is not 200 is an error with its status."""
    for status in (204, 302, 418, 503):
        api = LocalAPI([b""], status=status, headers={"location": "http://elsewhere/"})
        error = await error_of(api.transport(library))
        assert str(status) in str(error)
        assert (error.status_code, error.retryable) == (status, status == 503)


_UNKNOWN_SHAPES = {
    b'{"detail": [{"loc": ["tools", 0, "made_up"], "msg": "extra fields not permitted"}]}': "extra fields",
    b'{"errors": [{"message": "for a reason"}]}': "for a reason",
    b"for a reason\n": "the server answered with HTTP 400: for a reason",
    b'{"error": {"mess': '{"error": {"mess',
    b"": "the server answered with HTTP 400",
}


async def test_errors_in_a_shape_that_is_not_known(library: Any) -> None:
    """The server's words are told as they are."""
    for body, words in _UNKNOWN_SHAPES.items():
        error = await error_of(
            LocalAPI([body], status=400, headers={"content-type": "application/json"}).transport(library)
        )
        assert words in error.reason


async def test_the_page_of_a_proxy_is_not_told(library: Any) -> None:
    """Nobody wants to read that."""
    api = LocalAPI([b"<html>a page</html>"], status=502, headers={"content-type": "text/html; charset=utf-8"})
    error = await error_of(api.transport(library))
    assert error.reason == "the server answered with HTTP 502"


@pytest.mark.parametrize("rest", [[], [Broken()]], ids=["ended", "broken"])
async def test_an_error_page_that_is_cut(library: Any, rest: list[Any]) -> None:
    """The status is known, and has to do."""
    error = await error_of(LocalAPI([b'{"error": {"mess', *rest], status=500).transport(library))
    assert error.status_code == 500


async def test_numbers_that_json_does_not_have(library: Any) -> None:
    """NaN in a request would be refused far away, in other words: it is refused here."""
    api = LocalAPI([HELLO])
    with pytest.raises(UsageError, match="no JSON form"):
        await finished(api.transport(library), temperature=float("nan"))
    assert api.exchanges == []


_LOSSES = ["ReadTimeout", "ReadError", "WriteError", "CloseError", "RemoteProtocolError"]


async def test_what_a_client_raises_while_sending(library: Any) -> None:
    """The API could not be reached, whatever it was, and may be later; the client's own exception is the cause."""
    raised: Exception

    def fail(_: Any) -> Any:
        raise raised

    http_client = library.AsyncClient(transport=library.MockTransport(fail))
    for name in (*_LOSSES, "ConnectError", "ConnectTimeout", "WriteTimeout", "PoolTimeout", "ProxyError"):
        raised = getattr(library, name)("no way there")
        with pytest.raises(APIError, match="could not be reached: no way there") as caught:
            await finished(HTTPTransport(base_url="http://local", http_client=http_client))
        assert caught.value.retryable, name
        assert caught.value.__cause__ is raised, name


async def test_what_a_client_raises_while_reading(library: Any) -> None:
    """An interruption, whatever it was."""
    for name in _LOSSES:
        raised = getattr(library, name)("gone")
        api = LocalAPI([message_start(), Broken(raised)])
        with pytest.raises(StreamInterrupted, match="gone") as caught:
            await finished(api.transport(library))
        assert caught.value.__cause__ is raised, name
        assert caught.value.request_id == "req_local"
        assert caught.value.message is not None
        assert api.exchanges[0].closed, name


# httpx leaves generators of its own to the garbage collector there; trio complains, and nobody can reach them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_body_that_cannot_be_decompressed(library: Any) -> None:
    """A proxy that names a coding which the body does not have."""
    api = LocalAPI([b"data: {}"], headers={"content-encoding": "gzip"})
    with pytest.raises(ProtocolError, match="decompressed"):
        await finished(api.transport(library))
    assert api.exchanges[0].closed


async def test_a_mistake_in_the_client(library: Any) -> None:
    """What is no exception of an HTTP client comes out as it is."""

    def fail(_: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        http_client = library.AsyncClient(transport=library.MockTransport(fail))
        await finished(HTTPTransport(base_url="http://local", http_client=http_client))


def test_shown() -> None:
    """A transport tells where it goes, and nothing of what it takes there to be let in."""
    transport = HTTPTransport(base_url="https://me:hunter2@host/", api_key="hunter2", headers={"cookie": "hunter2"})
    assert repr(transport) == "<HTTPTransport https://host/v1/messages>"


async def test_a_password_in_the_address(library: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It is sent as a header: HTTP clients log each address. A header of the caller's own counts for more."""
    caplog.set_level(logging.DEBUG)
    api = LocalAPI(HELLO)
    for base_url, headers, sent_as in (
        ("http://me:hunter2@local:81/api", {}, "Basic bWU6aHVudGVyMg=="),
        ("http://m%40e:h%3Aunter2@local:81/api", {}, "Basic bUBlOmg6dW50ZXIy"),
        ("http://me@local:81/api", {}, "Basic bWU6"),
        ("http://me:hunter2@local:81/api", {"Authorization": "Bearer abc"}, "Bearer abc"),
    ):
        await finished(HTTPTransport(base_url=base_url, headers=headers, http_client=api.client(library)))
        assert api.exchanges[-1].url == "http://local:81/api/v1/messages"
        assert api.exchanges[-1].headers["authorization"] == sent_as
    assert "local:81" in caplog.text
    assert "hunter2" not in caplog.text


async def test_redirects(library: Any) -> None:
    """The peer cannot send the key and the prompt elsewhere, even if the client follows redirects."""
    asked = []

    def answer(request: Any) -> Any:
        asked.append(str(request.url))
        return library.Response(307, headers={"location": "http://thief/v1/messages"})

    http_client = library.AsyncClient(transport=library.MockTransport(answer), follow_redirects=True)
    with pytest.raises(APIError, match="307") as caught:
        await finished(HTTPTransport(base_url="http://local", api_key="k", http_client=http_client))
    assert asked == ["http://local/v1/messages"]
    assert not caught.value.retryable
