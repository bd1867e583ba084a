"""MCP Apps in Chromium: our page of a host with the official `AppBridge`, and apps in sandboxed frames."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import anyio
import pytest
from packages.progress.tests.clients.test_records_package import PACKAGE, command
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.support.ui import WebDriverWait
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from tests.browser import chromium
from tests.docs.line import line
from tests.node import need_packages, serving
from tests.source_tree import ROOT
from tests.support import anthropic_client

import eagerstream
from eagerstream import EagerStreamError, Tool, ToolResponse, tool
from eagerstream.tools import ToolErrorCode
from eagerstream_progress import Hub
from eagerstream_progress.mcp_apps import mcp_apps_app, ui_resources
from eagerstream_testing import ReplayServer, Scenario, Scripted, Timing, reply, text, tool_use

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

CLIENTS = ROOT / "packages/progress/tests/clients"
EXAMPLES = ROOT / "examples"
SHAPES = ["a circle of red glass", "a square of blue paper", "a line of white chalk", "a star of gold"]
MANY = SHAPES * 8


def bundle(source: str, *options: str) -> str:
    need_packages()
    need_packages(PACKAGE)
    esbuild = PACKAGE / "node_modules/.bin/esbuild"
    return command(esbuild, source, "--bundle", "--log-level=error", *options, folder=CLIENTS)


@pytest.fixture(scope="module")
def bridge() -> str:
    """The package of hosts, as one module: what the head of the example's page says how to make."""
    return bundle("@modelcontextprotocol/ext-apps/app-bridge", "--format=esm")


@pytest.fixture(scope="module")
def app_html() -> str:
    """The HTML of an app, with the package of apps in it."""
    script = bundle("./mcp_app.mjs", "--format=esm", "--minify").replace("</script", "<\\/script")
    return f'<!doctype html><title>Recorder</title><script type="module">{script}</script>'


class Host:
    """A host with two tools that have an app. A request starts the run that the double plays."""

    def __init__(self, bridge: str, app_html: str, scenario: Scenario) -> None:
        self.hub = Hub(data=True)
        self.scenario = scenario
        self.tools: list[Tool] = [tool(self._draw, name="draw"), tool(self._wait, name="wait")]
        for one in self.tools:
            one.meta = {"ui": {"resourceUri": f"ui://shapes/{one.name}.html"}}
        page = FileResponse(EXAMPLES / "serve_mcp_apps.html")
        self.routes = [
            Route("/", page),
            Route("/app-bridge.js", Response(bridge, media_type="text/javascript")),
            Route("/html", PlainTextResponse(app_html)),
            Route("/ask", self._ask, methods=["POST"]),
            Mount("/", mcp_apps_app(self.hub, ui_resources(self.tools))),
        ]
        self.app = Starlette(routes=self.routes, lifespan=self._running)

    async def _draw(self, shapes: list[str]) -> ToolResponse:
        """Draw."""
        if not shapes:
            return ToolResponse.error(ToolErrorCode.INVALID_PARAM, "nothing to draw")
        return ToolResponse.success(f"{len(shapes)} shapes", {"count": len(shapes)})

    async def _wait(self, shapes: list[str]) -> str:
        """Wait."""
        await anyio.sleep_forever()
        return "never"

    @asynccontextmanager
    async def _running(self, _: Starlette) -> AsyncIterator[None]:
        async with ReplayServer(self.scenario) as api, anthropic_client(api.base_url) as client:
            async with anyio.create_task_group() as tasks:
                self._client, self._tasks = client, tasks
                yield
                tasks.cancel_scope.cancel()

    async def _ask(self, request: Request) -> Response:
        message = {"role": "user", "content": (await request.body()).decode()}
        options: Any = {"model": "m", "max_tokens": 1_000, "messages": [message], "tools": self.tools, "max_turns": 2}
        run = eagerstream.run(self._client, **options)
        self.hub.observe(run)
        self._tasks.start_soon(self._drive, run)
        return PlainTextResponse(run.id)

    async def _drive(self, run: Any) -> None:
        with suppress(EagerStreamError):
            await run


class Page:
    """The page, and its apps in the order in which they were opened."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def wait(self, what: Any) -> None:
        WebDriverWait(self.browser, 60, poll_frequency=0.02).until(lambda _: what())

    def ask(self) -> None:
        self.browser.find_element("css selector", "#form button").click()

    def in_app(self, number: int, script: str) -> Any:
        """Return the result of a script in an app; None while there is no such app."""
        self.browser.switch_to.default_content()
        frames = self.browser.find_elements("css selector", "iframe")
        if number >= len(frames):
            return None
        self.browser.switch_to.frame(frames[number])
        try:
            return self.browser.execute_script(script)
        finally:
            self.browser.switch_to.default_content()

    def received(self, number: int = 0) -> list[Any]:
        return list(self.in_app(number, "return window.received ?? []") or [])

    def until_end(self, number: int = 0) -> list[Any]:
        """All that an app has received, up to its end."""
        self.wait(lambda: any(name in ("result", "cancelled") for name, _ in self.received(number)))
        return self.received(number)


@contextmanager
def opened(bridge: str, app_html: str, folder: Path, *turns: Any, speed: float = 60) -> Iterator[tuple[Host, Page]]:
    host = Host(bridge, app_html, Scenario(*turns, timing=Timing(tokens_per_second=speed)))
    with serving(host.app) as url, chromium(folder) as browser:
        browser.get(url)
        page = Page(browser)
        page.ask()
        yield host, page


def drawing(shapes: Any = SHAPES, *, name: str = "draw", id: str = "toolu_1") -> Scripted:
    return tool_use(name, {"shapes": shapes} if isinstance(shapes, list) else shapes, id=id)


def check_life(received: list[Any], *rest: Any) -> list[Any]:
    """Check that partials come first and each extends the one before, then exactly these. Return the partials."""
    partials = [params["arguments"] for name, params in received if name == "partial"]
    assert received == [*(["partial", {"arguments": each}] for each in partials), *rest]
    written = [json.dumps(each).rstrip('"]}') for each in partials]
    assert all(later.startswith(earlier) for earlier, later in pairwise(written))
    return partials


def drawn(shapes: list[str]) -> list[Any]:
    """What an app gets of a call after the partials."""
    content = [{"type": "text", "text": f"{len(shapes)} shapes"}]
    result = {"content": content, "structuredContent": {"count": len(shapes)}, "isError": False}
    return [["input", {"arguments": {"shapes": shapes}}], ["result", result]]


def test_an_app_follows_its_call(bridge: str, app_html: str, tmp_path: Path) -> None:
    """The arguments grow while the model writes, come complete once, and then the result. An app can do no more."""
    with opened(bridge, app_html, tmp_path, reply(drawing()), reply(text("Done."))) as (_, page):
        partials = check_life(page.until_end(), *drawn(SHAPES))
        assert len(partials) > 5
        assert any(0 < len(each.get("shapes", [])) < 4 for each in partials)
        page.in_app(0, "window.attack()")
        page.wait(lambda: page.in_app(0, "return window.isDone"))
        refused = page.in_app(0, "return window.refused")
        asked = ("tools/call", "ui/message", "ui/open-link", "ui/update-model-context")
        assert {name: refused.pop(name) for name in asked} == dict.fromkeys(asked, "-32601")  # method not found
        assert refused == {"page": ANY, "storage": ANY, "network": "Failed to fetch"}
        assert "Blocked a frame with origin" in refused["page"]
        assert "sandboxed" in refused["storage"]


def test_an_app_that_fails(bridge: str, app_html: str, tmp_path: Path) -> None:
    """A tool that fails has a result, as MCP has it. An input that is not JSON never comes complete."""
    turns = reply(drawing([])), reply(drawing('{"shapes": ["a cir]', id="toolu_2")), reply(text("Done."))
    with opened(bridge, app_html, tmp_path, *turns) as (_, page):
        (name, params) = page.until_end()[-1]
        assert (name, params["isError"]) == ("result", True)
        assert "nothing to draw" in params["content"][0]["text"]
        invalid = page.until_end(1)
        check_life(invalid, invalid[-1])
        assert invalid[-1][0] == "cancelled"
        assert invalid[-1][1]["reason"]


def test_two_calls_at_once_and_a_cancelled_one(bridge: str, app_html: str, tmp_path: Path) -> None:
    """Each app gets its own call only. A tool that is cancelled while it runs says why."""
    other = ["a sphere of ice"]
    both = reply(drawing(), drawing(other, name="wait", id="toolu_2"))
    with opened(bridge, app_html, tmp_path, both, reply(text("Done."))) as (host, page):
        page.wait(lambda: any(name == "input" for name, _ in page.received(1)))
        (log,) = host.hub.logs
        (block,) = (
            record["block"] for record in log.records() if record["type"] == "input_start" and record["name"] == "wait"
        )
        host.hub.cancel_call(log.id, block, "The user has seen enough.")
        with pytest.raises(WebDriverException, match="Blocked a frame"):
            page.in_app(0, "return window.parent.frames[1].received")
        check_life(page.until_end(0), *drawn(SHAPES))
        life = page.until_end(1)
        check_life(life, ["input", {"arguments": {"shapes": other}}], life[-1])
        assert life[-1] == ["cancelled", {"reason": "Cancelled: The user has seen enough."}]


def test_a_run_that_is_stopped(bridge: str, app_html: str, tmp_path: Path) -> None:
    """The app of a call that is still being written is told, without complete arguments."""
    with opened(bridge, app_html, tmp_path, reply(drawing(MANY)), speed=20) as (host, page):
        page.wait(lambda: len(page.received()) > 2)
        (log,) = host.hub.logs
        host.hub.cancel(log.id)
        life = page.until_end()
        check_life(life, life[-1])
        assert life[-1][0] == "cancelled"


def test_a_reload(bridge: str, app_html: str, tmp_path: Path) -> None:
    """In mid-input, the new app starts with what is there, and goes on. After the end, it gets all of it once."""
    with opened(bridge, app_html, tmp_path, reply(drawing(MANY)), reply(text("Done.")), speed=20) as (_, page):
        page.wait(lambda: any(len(params["arguments"].get("shapes", [])) > 1 for _, params in page.received()))
        page.browser.refresh()
        page.wait(page.received)
        partials = check_life(page.until_end(), *drawn(MANY))
        assert len(partials[0]["shapes"]) > 1
        assert len(partials) > 1
        page.browser.refresh()
        assert page.until_end() == drawn(MANY)


def test_a_lost_connection(bridge: str, app_html: str, tmp_path: Path) -> None:
    """The app stays, and goes on where it was: it gets nothing twice."""
    host = Host(
        bridge, app_html, Scenario(reply(drawing(MANY)), reply(text("Done.")), timing=Timing(tokens_per_second=20))
    )
    with serving(host.app) as url, line(url) as wire, chromium(tmp_path) as browser:
        browser.get(wire.url)
        page = Page(browser)
        page.ask()
        page.wait(lambda: len(page.received()) > 2)
        page.in_app(0, "window.isTheSame = true")
        wire.cut()
        check_life(page.until_end(), *drawn(MANY))
        assert page.in_app(0, "return window.isTheSame")
        (log,) = host.hub.logs
        page.wait(lambda: log.is_closed)
        assert page.in_app(1, "return 1") is None


CHART = {"title": "Cities <b>", "bars": {"Tokyo": 37, **{f"City number {n}": n for n in range(20)}, "Shanghai": 29}}


def test_the_example(bridge: str, tmp_path: Path) -> None:
    """Its chart grows in the frame, and has the total of the server's structured content at the end."""
    for name in ("serve_mcp_apps.py", "serve_mcp_apps.html", "serve_mcp_apps_chart.html"):
        shutil.copy(EXAMPLES / name, tmp_path)
    (tmp_path / "app-bridge.js").write_text(bridge)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    scenario = Scenario(reply(tool_use("draw_chart", CHART)), reply(text("Done.")), timing=Timing(tokens_per_second=20))
    with ReplayServer(scenario) as server, chromium(tmp_path / "profile") as browser:
        environment = {**os.environ, "ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "simulated"}
        with subprocess.Popen([sys.executable, tmp_path / "serve_mcp_apps.py", str(port)], env=environment) as process:
            try:
                page = Page(browser)

                def shown() -> str:
                    return str(page.in_app(0, "return document.body.innerText"))

                def has_opened() -> bool:
                    with suppress(Exception):
                        browser.get(f"http://127.0.0.1:{port}/")
                    return bool(browser.find_elements("id", "form"))

                page.wait(has_opened)
                page.ask()
                page.wait(lambda: "being written" in shown() and "Tokyo: 37" in shown())
                assert "Shanghai" not in shown()
                page.wait(lambda: "total: 256" in shown())
                assert "Cities <b>" in shown()
                assert "Shanghai: 29" in shown()
            finally:
                process.terminate()
                process.wait(60)
