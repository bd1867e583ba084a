"""`SearchTool`, `BraveSearch` and `WikipediaSearch`: what is asked, what is shown, and every way in which it fails."""

from __future__ import annotations

import gzip
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import httpx
import pytest
from packages.toolkit.tests.cases import case
from packages.toolkit.tests.files_calls import answer_of
from tests.streams import REQUEST
from tests.support import anthropic_client
from tests.tables import rows

import eagerstream
from eagerstream.errors import ToolError, UsageError
from eagerstream.tools import ToolResponse
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from eagerstream_toolkit import BraveSearch, SearchTool, WikipediaSearch
from eagerstream_toolkit._search import brave
from eagerstream_toolkit._search.http import get_json
from eagerstream_toolkit._search.tool import SearchPage, SearchResult, plain_text

KEY = "BSA-top-secret-key"

BRAVE = {
    "query": {"more_results_available": False},
    "mixed": {
        "main": [
            {"type": "web", "index": 1, "all": False},
            {"type": "news", "all": True},
            {"type": "web", "index": 0, "all": False},
            {"type": "faq", "all": True},
            {"type": "videos", "all": True},
            {"type": "web", "index": 99},
            {"type": "web", "index": "0"},
        ]
    },
    "web": {
        "results": [
            {"title": "Oslo", "url": "https://a.example", "description": "The <strong>capital</strong> &amp; more"},
            {"title": "B", "url": "https://b.example", "description": "b", "extra_snippets": ["c", 7]},
            "nonsense",
        ]
    },
    "news": {
        "results": [
            {"title": "Long", "url": "https://n.example", "description": "long enough"},
            {"title": "Short", "url": "https://s.example", "description": "abc"},
            {"title": "Evil", "url": "javascript:alert(1)", "description": "long enough"},
        ]
    },
    "faq": {"results": [{"title": "Q", "url": "https://f.example", "question": "Why?", "answer": "So."}]},
}

WIKIPEDIA = {
    "continue": {"gsroffset": 2},
    "query": {
        "searchinfo": {"totalhits": 4711},
        "search": [{"pageid": 1, "snippet": "x"}, {"pageid": 2, "snippet": "a <span class='s'>snippet</span>"}],
        "pages": [
            {"pageid": 2, "index": 2, "title": "Second", "fullurl": "https://en.wikipedia.org/wiki/Second"},
            {
                "pageid": 1,
                "index": 1,
                "title": "First",
                "fullurl": "https://en.wikipedia.org/wiki/First",
                "extract": "The first.",
            },
        ],
    },
}


def answering(answer: Any, seen: list[httpx.Request] | None = None) -> httpx.AsyncClient:
    """A client that gets this answer to everything: JSON, a response, or what a function makes of the request."""

    def handle(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        found = answer(request) if callable(answer) else answer
        return found if isinstance(found, httpx.Response) else httpx.Response(200, json=found)

    return httpx.AsyncClient(transport=httpx.MockTransport(handle))


async def ask(tool: SearchTool, **input: Any) -> ToolResponse:
    return await answer_of(tool, **{"query": "oslo", **input})


# --- Brave ------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_brave() -> None:
    """Results of all kinds in Brave's order, as plain text; what is no web address or says nothing is left out."""
    seen: list[httpx.Request] = []
    async with answering(BRAVE, seen) as client:
        response = await ask(BraveSearch(api_key=KEY, client=client), count=7)
    assert seen[0].url == "https://api.search.brave.com/res/v1/web/search?q=oslo&count=7"
    assert seen[0].headers["x-subscription-token"] == KEY
    assert response.status == "success"
    assert response.data == {
        "results": [
            {"source": "https://b.example", "title": "B", "content": "b\nc"},
            {"source": "https://n.example", "title": "Long", "content": "long enough"},
            {"source": "https://a.example", "title": "Oslo", "content": "The capital & more"},
            {"source": "https://f.example", "title": "Q", "content": "Why?\nSo."},
        ],
        "total": 4,
        "truncated": False,
    }
    assert response.content[0] == {
        "type": "search_result",
        "source": "https://b.example",
        "title": "B",
        "content": [{"type": "text", "text": "b\nc"}],
        "citations": {"enabled": True},
    }


@pytest.mark.anyio
async def test_brave_has_more() -> None:
    """Where Brave says that there is more, or gave more than was asked for, the model is told."""
    async with answering({**BRAVE, "query": {"more_results_available": True}}) as client:
        response = await ask(BraveSearch(api_key=KEY, client=client))
    assert (response.status, response.data["total"], response.data["truncated"]) == ("partial", None, True)
    async with answering(BRAVE) as client:
        response = await ask(BraveSearch(api_key=KEY, client=client), count=2)
    assert (response.text, response.reason) == ("Search finished (first 2 results)", "too many results, cut to 2")
    assert len(response.content) == 2


_BRAVE_HAS_NOTHING: list[Any] = [
    {},
    {"web": None},
    {"web": {"results": 3}, "mixed": 7},
    {"mixed": {"main": [{"type": ["x"], "all": True}]}},
]


@pytest.mark.anyio
async def test_brave_has_nothing() -> None:
    """An answer without results, and of another shape than Brave's, is an answer with no results."""
    for answer in _BRAVE_HAS_NOTHING:
        with case(answer):
            async with answering(answer) as client:
                response = await ask(BraveSearch(api_key=KEY, client=client))
            assert response.text == "Search finished (0 results)"
            assert (response.data["results"], response.content) == ([], [])


_BRAVE_IS_BOUNDED: list[Any] = [
    {
        "web": {"results": [{"url": f"https://a.example/{n}", "description": "&lt;" * 9} for n in range(2_000)]},
        "mixed": {"main": [{"type": "web", "all": True}] * 20_000},
    },
    {"web": {"results": [{"url": "https://a.example", "extra_snippets": ["<b>x</b>"] * 50_000}]}},
]


@pytest.mark.anyio
async def test_brave_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However an answer is made, each text in it is looked at once, and no more of them than are worth it."""
    texts: list[object] = []

    def counted(text: object) -> str:
        texts.append(text)
        return plain_text(text)

    monkeypatch.setattr(brave, "plain_text", counted)
    for answer in _BRAVE_IS_BOUNDED:
        with case(answer):
            texts.clear()
            async with answering(answer) as client:
                response = await ask(BraveSearch(api_key=KEY, client=client))
            assert response.data["results"]
            assert len(texts) <= 300


@rows(
    "tool, settings",
    [
        (BraveSearch, {"api_key": KEY, "language": "fr"}),
        (BraveSearch, {"api_key": KEY, "timeout_s": "9"}),
        (WikipediaSearch, {"language": "fr"}),
        (WikipediaSearch, {"edition": 7}),
    ],
)
def test_settings_that_are_none(tool: Any, settings: dict[str, Any]) -> None:
    """They show when the tool is made."""
    with pytest.raises(UsageError):
        tool(**settings)


def test_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment; without one, or with one that HTTP would quote in its error, that is said at once."""
    monkeypatch.setenv("BRAVE_API_KEY", KEY)
    assert KEY not in repr(BraveSearch())
    monkeypatch.delenv("BRAVE_API_KEY")
    with pytest.raises(UsageError, match="needs a key"):
        BraveSearch()
    with pytest.raises(UsageError, match="not allowed in keys") as caught:
        BraveSearch(api_key=f"{KEY}\n")
    assert KEY not in str(caught.value)


# --- Wikipedia --------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_wikipedia() -> None:
    """Articles in the order of the search, with their introduction, or the snippet where there is none."""
    seen: list[httpx.Request] = []
    async with answering(WIKIPEDIA, seen) as client:
        response = await ask(WikipediaSearch(edition="de", client=client), count=2)
    assert str(seen[0].url).startswith("https://de.wikipedia.org/w/api.php?action=query&")
    assert (seen[0].url.params["gsrsearch"], seen[0].url.params["gsrlimit"]) == ("oslo", "2")
    assert "eagerstream" in seen[0].headers["user-agent"]
    assert (response.status, response.data["total"]) == ("partial", 4711)
    assert [(result["title"], result["content"]) for result in response.data["results"]] == [
        ("First", "The first."),
        ("Second", "a snippet"),
    ]


@pytest.mark.anyio
async def test_wikipedia_has_nothing() -> None:
    """Without hits, MediaWiki leaves out the whole answer."""
    async with answering({"batchcomplete": True}) as client:
        response = await ask(WikipediaSearch(client=client))
    assert (response.status, response.data) == ("success", {"results": [], "total": 0, "truncated": False})


@pytest.mark.anyio
async def test_own_user_agent() -> None:
    """A client that says who it is goes on saying it."""
    seen: list[httpx.Request] = []
    async with answering({}, seen) as client:
        client.headers["user-agent"] = "ann@example.org"
        await ask(WikipediaSearch(client=client))
    assert seen[0].headers["user-agent"] == "ann@example.org"


@rows("edition", ["", "EN", "evil.example/", "en.evil", "en@evil", "a"])
def test_editions(edition: str) -> None:
    """An edition never leads to another host."""
    with pytest.raises(UsageError, match="edition"):
        WikipediaSearch(edition=edition)


# --- a search of one's own ----------------------------------------------------------------------------------------------


class Manual(SearchTool):
    async def search(self, query: str, count: int) -> list[SearchResult]:
        return [SearchResult(f"manual#{number}", f"Page {number}", query if number else "") for number in range(8)]


@pytest.mark.anyio
async def test_in_a_run() -> None:
    """The model gets blocks that it can cite; a call from code, which takes text only, gets text."""
    tool = Manual(name="manual", description="Search the manual.")
    code = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    written = tool_use("manual", {"query": "<oil>", "count": 2})
    scenario = Scenario(
        reply(tool_use("manual", {"query": "<oil>", "count": 8}), tool_use("manual", {"query": "oil", "count": 99})),
        reply(replace(written, block={**written.block, "caller": code})),
        reply(text("Done.")),
    )
    with ReplayServer(scenario, speed=float("inf")) as server:
        async with anthropic_client(server.base_url) as client:
            async with eagerstream.run(client, tools=[tool], **REQUEST) as run:
                await run.finish()
    direct, wrong, from_code = (call.result for call in run.result.calls)
    assert direct is not None
    assert [block["type"] for block in direct["content"]] == ["text"] + ["search_result"] * 8
    assert direct["content"][1]["content"] == [{"type": "text", "text": "Page 0"}]
    assert wrong is not None
    assert "count" in wrong["content"]
    assert wrong["is_error"]
    assert from_code is not None
    assert "is_error" not in from_code
    assert '<item index="2">\n<source>manual#1</source>\n<page_content>\n&lt;oil&gt;\n' in from_code["content"]


@pytest.mark.anyio
async def test_bounds_of_results() -> None:
    """What a service says is cut where it is endless, and is never without a word: the API takes no empty text."""

    class Odd(SearchTool):
        async def search(self, query: str, count: int) -> SearchPage:
            return SearchPage([SearchResult("s" * 9_000, "", "c" * 90_000), SearchResult("s", "", "")])

    response = await ask(Odd(name="odd"))
    first, second = response.data["results"]
    assert (len(first["source"]), len(first["title"]), len(first["content"])) == (2_000, 300, 5_000)
    assert second == {"source": "s", "title": "s", "content": "s"}


# --- what goes wrong on the way ---------------------------------------------------------------------------------------


class Flaky:
    """Fails so many times, then answers."""

    def __init__(self, times: int, **response: Any) -> None:
        self.times = times
        self.response = response
        self.asked = 0

    def __call__(self, _: httpx.Request) -> httpx.Response:
        self.asked += 1
        return httpx.Response(**self.response) if self.asked <= self.times else httpx.Response(200, json=BRAVE)


@pytest.mark.anyio
async def test_tried_again() -> None:
    """What may pass is tried again, when the service says."""
    for status in [429, 500, 503]:
        with case(status):
            flaky = Flaky(2, status_code=status, headers={"retry-after": "0"})
            async with answering(flaky) as client:
                assert (await ask(BraveSearch(api_key=KEY, client=client))).status == "success"
            assert flaky.asked == 3


def lost(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError(f"{KEY} at 10.0.0.1", request=request)


_FAILURES: list[tuple[Any, str, str]] = [
    (Flaky(9, status_code=429, headers={"retry-after": "0"}), "RATE_LIMIT", "Retry after 0 seconds"),  # 429
    (Flaky(9, status_code=429, headers={"retry-after": "3600"}), "RATE_LIMIT", "3600 seconds"),  # 429 for long
    (
        Flaky(
            9,
            status_code=429,
            headers={"retry-after": "Fri, 01 Jan 2027 00:01:00 GMT", "date": "Fri, 01 Jan 2027 00:00:00 GMT"},
        ),
        "RATE_LIMIT",
        "60 seconds",
    ),  # 429 until a date
    (Flaky(9, status_code=500, headers={"retry-after": "0"}), "SERVICE_UNAVAILABLE", "HTTP 500"),  # 500
    (httpx.Response(401, text=KEY), "PERMISSION_DENIED", "refused its key"),  # 401
    (httpx.Response(422, text=KEY), "API_ERROR", "HTTP 422"),  # 422
    (httpx.Response(302, headers={"location": "http://evil.example/"}), "API_ERROR", "HTTP 302"),  # redirect
    (httpx.Response(200, text="<html>"), "API_ERROR", "cannot be read"),  # no JSON
    (httpx.Response(200, text="[1]"), "API_ERROR", "cannot be read"),  # no object
    (httpx.Response(200, content=b"\xff"), "API_ERROR", "cannot be read"),  # no text
    (httpx.Response(200, content=b"[" * 100_000), "API_ERROR", "cannot be read"),  # deep JSON
    (httpx.Response(200, content=b"x" * 5_000_000), "API_ERROR", "too large"),  # huge body
]


@pytest.mark.anyio
async def test_failures(caplog: pytest.LogCaptureFixture) -> None:
    """Each is told in words of its own, with a code; neither they nor a log have the key or what the service wrote."""
    for answer, code, told in _FAILURES:
        with case(answer, code, told):
            caplog.set_level(logging.INFO, logger="eagerstream")
            seen: list[httpx.Request] = []
            async with answering(answer, seen) as client:
                with pytest.raises(ToolError, match=told) as failed:
                    await ask(BraveSearch(api_key=KEY, client=client))
            assert failed.value.code == code
            assert KEY not in f"{failed.value!r} {failed.value} {caplog.text}"
            assert failed.value.__cause__ is None
            assert {request.url.host for request in seen} == {"api.search.brave.com"}


@pytest.mark.anyio
async def test_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that fails is tried again; of the exception nothing is told."""
    monkeypatch.setattr("eagerstream_toolkit._search.http._FIRST_PAUSE_S", 0.001)
    seen: list[httpx.Request] = []
    async with answering(lost, seen) as client:
        with pytest.raises(ToolError, match=r"^The search service could not be reached\.$") as failed:
            await ask(BraveSearch(api_key=KEY, client=client))
    assert (failed.value.code, len(seen)) == ("NETWORK_ERROR", 3)


# --- over a real socket -----------------------------------------------------------------------------------------------


@contextmanager
def serving(handle: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A server on this machine; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                handle(self)
            except OSError:
                pass  # the client has gone, as it should

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(handler: BaseHTTPRequestHandler, body: bytes, **headers: str) -> None:
    handler.send_response(200)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


async def get(url: str, timeout_s: float = 50.0) -> dict[str, Any]:
    async with httpx.AsyncClient(verify=False, trust_env=False) as client:
        return await get_json(url, params={"q": "a b"}, headers={}, client=client, timeout_s=timeout_s)


@pytest.mark.anyio
async def test_packed() -> None:
    """The query arrives, and a packed answer is unpacked."""

    def handle(handler: BaseHTTPRequestHandler) -> None:
        body = gzip.compress(json.dumps({"path": handler.path}).encode())
        send(handler, body, content_encoding="gzip")

    with serving(handle) as url:
        assert await get(url) == {"path": "/?q=a+b"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "headers", "told"),
    [
        pytest.param(gzip.compress(b"x" * 50_000_000), {"content_encoding": "gzip"}, "too large", id="bomb"),
        pytest.param(b"not gzip", {"content_encoding": "gzip"}, "cannot be read", id="not packed"),
        pytest.param(b"{}", {"content_encoding": "zstd"}, "cannot be read", id="packed otherwise"),
    ],
)
async def test_badly_packed(body: bytes, headers: dict[str, str], told: str) -> None:
    """What unpacks to gigabytes is unpacked to the bound."""
    with serving(lambda handler: send(handler, body, **headers)) as url:
        with pytest.raises(ToolError, match=told):
            await get(url)


@pytest.mark.anyio
async def test_endless() -> None:
    """A body without an end is left as soon as it is too large."""

    def handle(handler: BaseHTTPRequestHandler) -> None:
        send(handler, b"")
        while True:
            handler.wfile.write(b"x" * 65_536)

    with serving(handle) as url:
        with pytest.raises(ToolError, match="too large"):
            await get(url)


@pytest.mark.anyio
@pytest.mark.parametrize("late", [True, False], ids=["too slow", "cancelled"])
async def test_silence(late: bool) -> None:
    """A service that says nothing is not waited for; nor is it after a cancellation."""
    gone = threading.Event()

    def handle(handler: BaseHTTPRequestHandler) -> None:
        send(handler, b"{")
        gone.wait(50)

    with serving(handle) as url:
        try:
            with anyio.move_on_after(50 if late else 0.05) as scope:
                with pytest.raises(ToolError, match="did not answer within") if late else _nothing():
                    await get(url, timeout_s=0.05 if late else 50)
            assert scope.cancelled_caught is not late
        finally:
            gone.set()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@pytest.mark.anyio
async def test_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that ends early is a lost connection, which is tried again."""
    monkeypatch.setattr("eagerstream_toolkit._search.http._FIRST_PAUSE_S", 0.001)
    asked = 0

    def handle(handler: BaseHTTPRequestHandler) -> None:
        nonlocal asked
        asked += 1
        send(handler, b"{}" if asked > 1 else b"{", content_length="2")

    with serving(handle) as url:
        assert await get(url) == {}
    assert asked == 2


@pytest.mark.anyio
async def test_client_of_its_own() -> None:
    """Without a client each request has one, with certificates that are loaded once."""
    with serving(lambda handler: send(handler, b"{}")) as url:
        assert await get_json(url, params={}, headers={}, client=None, timeout_s=10) == {}
