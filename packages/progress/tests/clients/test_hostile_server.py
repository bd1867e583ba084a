"""The React hook in Chromium, at a server that is hostile: its texts stay texts, and its tricks cost a bound."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.progress.tests.clients.test_records_package import PACKAGE, command
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.browser import chromium
from tests.node import need_packages, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

MARKUP = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>\u202egnp.exe'
Answer = Callable[[Request], Response]


@pytest.fixture(scope="module")
def program() -> str:
    """The program of the package's tests, with React in it."""
    need_packages(PACKAGE)
    command("node", "scripts/build.mjs", "--package")
    esbuild = PACKAGE / "node_modules" / ".bin" / "esbuild"
    return command(esbuild, "test/app.mjs", "--bundle", "--format=esm", "--log-level=error")


class Hostile:
    """A server whose answers a test decides. It keeps when each request came, and how many are open."""

    def __init__(self, program: str) -> None:
        self.answer: Answer = lambda _: Response(status_code=404)
        self.requests: list[tuple[float, Request]] = []
        self.open = 0

        async def page(_: Request) -> Response:
            return HTMLResponse('<!doctype html><div id="root"></div><script type="module" src="/app.js"></script>')

        async def app(_: Request) -> Response:
            return Response(program, media_type="text/javascript")

        async def stream(request: Request) -> Response:
            self.requests.append((time.monotonic(), request))
            return self.answer(request)

        methods = ["GET", "POST"]
        self.app = Starlette(
            routes=[
                Route("/", page),
                Route("/app.js", app),
                Route("/runs", stream, methods=methods),
                Route("/watch/events", stream, methods=methods),
            ]
        )

    def stream(self, *texts: str, then: str = "end") -> Answer:
        """Answer with these texts, and then end or stay."""

        async def body() -> AsyncIterator[str]:
            self.open += 1
            try:
                yield ": open\n\n"
                for text in texts:
                    yield text
                while then == "stay":
                    await anyio.sleep(0.05)
                    yield ":\n"
            finally:
                self.open -= 1

        return lambda _: StreamingResponse(body(), media_type="text/event-stream")


@contextmanager
def watched(hostile: Hostile, folder: Path, run: str = "r") -> Iterator[webdriver.Chrome]:
    with serving(hostile.app) as url, chromium(folder) as browser:
        browser.get(f"{url}/#{run}")
        yield browser
        assert browser.execute_script("return errors") == []


def records(*added: dict[str, Any]) -> str:
    """A message with the start of a run, a call, and these records."""
    start: list[dict[str, Any]] = [
        {"type": "run_start", "run": "r", "started_at": None, "name": MARKUP, "model": MARKUP},
        {"type": "turn_start", "turn": 1},
        {"type": "input_start", "block": 1, "id": "t", "name": MARKUP, "kind": "tool_use", "input": None},
    ]
    all_of_them = [{"seq": seq, "at_s": 0, **record} for seq, record in enumerate([*start, *added], 1)]
    data = json.dumps({"snapshot": True, "records": all_of_them})
    return f"event: records\nid: {len(all_of_them)}\ndata: {data}\n\n"


def written(value: Any) -> dict[str, Any]:
    patch = [{"op": "add", "path": "", "value": value}]
    return {"type": "input_delta", "block": 1, "fragment": "x", "patch": patch, "finished": []}


def until(browser: webdriver.Chrome, script: str, expected: Any) -> None:
    WebDriverWait(browser, 20, poll_frequency=0.05).until(lambda _: browser.execute_script(script) == expected)


CONNECTION = "return document.querySelector('#watched')?.dataset.connection ?? null"


def test_texts_are_texts(program: str, tmp_path: Path) -> None:
    """Markup, names of JavaScript's own, and half characters of a model: React shows them, and nothing runs."""
    hostile = Hostile(program)
    value = {
        "title": MARKUP,
        "paragraphs": [
            {"text": MARKUP},
            {"text": "\ud83d"},
            {"text": "ok", "dangerouslySetInnerHTML": {"__html": MARKUP}},
        ],
        "__proto__": {"polluted": 1, "toJSON": 1},
        "constructor": {"prototype": {"polluted": 1}},
        "number": {"$number": str(2**53 + 1)},
    }
    hostile.answer = hostile.stream(records(written(value)), "event: end\ndata: {}\n\n")
    with watched(hostile, tmp_path) as browser:
        until(browser, CONNECTION, "ended")
        shown = (
            "return [...document.querySelectorAll('#watched h1, #watched p')].map((p) => p.textContent.toWellFormed())"
        )
        assert browser.execute_script(shown) == [MARKUP, MARKUP, "\ufffd", "ok"]
        count = "return document.querySelectorAll('#root img, #root script').length"
        assert browser.execute_script(count) == 0
        assert browser.execute_script("return [window.pwned, ({}).polluted, [].polluted]") == [None, None, None]


def test_what_is_no_record(program: str, tmp_path: Path) -> None:
    """The hook says that it failed. It does not ask again, and nothing is left unhandled."""
    hostile = Hostile(program)
    for text in (
        "event: records\nid: 1\ndata: null\n\n",
        "event: records\nid: 1\ndata: {\n\n",
        records({"type": "input_delta", "block": 1}),
        records({"type": "block_stop", "block": 1, "content": None}),
    ):
        hostile.requests.clear()
        hostile.answer = hostile.stream(text, then="stay")
        with watched(hostile, tmp_path) as browser:
            until(browser, CONNECTION, "failed")
            WebDriverWait(browser, 20, poll_frequency=0.05).until(lambda _: hostile.open == 0)
            assert len(hostile.requests) == 1


def test_a_server_that_always_ends(program: str, tmp_path: Path) -> None:
    """The package does not obey a server that wants to be asked at once."""
    hostile = Hostile(program)
    hostile.answer = hostile.stream("retry: 0\n\n", "event: clock\ndata: {}\n\n")
    with watched(hostile, tmp_path) as browser:
        WebDriverWait(browser, 20, poll_frequency=0.02).until(lambda _: len(hostile.requests) >= 5)
        times = [at for at, _ in hostile.requests[:5]]
        assert min(late - early for early, late in pairwise(times)) > 0.07
        hostile.answer = hostile.stream("event: end\ndata: {}\n\n")
        until(browser, CONNECTION, "ended")


def test_a_redirect_gets_no_question(program: str, tmp_path: Path) -> None:
    """Another origin would get it whole, with HTTP 307."""
    thief, hostile = Hostile(program), Hostile(program)
    with serving(thief.app) as elsewhere:
        hostile.answer = lambda _: RedirectResponse(f"{elsewhere}/runs", 307)
        with watched(hostile, tmp_path, run="") as browser:
            browser.find_element("id", "start").click()
            until(browser, "return document.querySelector('#started')?.dataset.connection", "failed")
            error = browser.execute_script("return document.querySelector('#started').dataset.error")
            assert "redirects" in error
        assert [request.method for _, request in hostile.requests] == ["POST"]
        assert thief.requests == []


def test_leaving_while_the_server_is_silent(program: str, tmp_path: Path) -> None:
    """A component that is removed closes its connection, also if no header has come yet."""
    hostile = Hostile(program)
    waiting = 0

    class Silent(Response):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # nothing is sent
            nonlocal waiting
            waiting += 1
            try:
                while (await receive())["type"] != "http.disconnect":
                    pass
            finally:
                waiting -= 1

    hostile.answer = lambda _: Silent()
    with watched(hostile, tmp_path, run="") as browser:
        browser.find_element("id", "start").click()
        WebDriverWait(browser, 20, poll_frequency=0.05).until(lambda _: waiting == 1)
        browser.find_element("id", "leave").click()
        WebDriverWait(browser, 20, poll_frequency=0.05).until(lambda _: waiting == 0)
        assert len(hostile.requests) == 1, "strict mode asks once"
