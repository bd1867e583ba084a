"""Approvals in a page of the AI SDK, in Chromium: the newest `useChat`, as it is documented, against our endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from packages.progress.tests.clients.test_records_package import PACKAGE, command
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from tests.browser import chromium
from tests.node import need_packages, serving
from tests.source_tree import ROOT
from tests.support import LocalAPI

import eagerstream
from eagerstream import Run, RunStatus, tool
from eagerstream_progress import Hub
from eagerstream_progress.vercel import ChatRequest, vercel_app
from eagerstream_testing import reply, text, tool_use

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def program() -> str:
    """The page's program, with React and the SDK in it."""
    need_packages()
    need_packages(PACKAGE)
    page = ROOT / "packages/progress/tests/clients/chat_page.mjs"
    return command(PACKAGE / "node_modules/.bin/esbuild", str(page), "--bundle", "--format=esm", "--log-level=error")


class Till:
    """A chat with a tool that asks."""

    def __init__(self, program: str, timeout_s: float, *, edits: bool) -> None:
        self.hub = Hub()
        self.paid: list[int] = []
        self.runs: list[Run] = []
        self.pay = tool(self._pay, name="pay", approve=self.hub.approve, approve_timeout_s=timeout_s)
        first, second = (reply(tool_use("pay", {"amount": number}, id=f"toolu_{number}")) for number in range(2))
        done = reply(text("Done."))
        self.api = LocalAPI(first, second, done) if edits else LocalAPI(first, done, second, done)

        async def page(_: Any) -> HTMLResponse:
            return HTMLResponse('<!doctype html><div id="root"></div><script type="module" src="/app.js"></script>')

        async def app(_: Any) -> Response:
            return Response(program, media_type="text/javascript")

        routes = [Route("/", page), Route("/app.js", app), Mount("/", vercel_app(self._start, hub=self.hub))]
        self.app = Starlette(routes=routes)

    async def _pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return f"paid {amount}"

    def _start(self, chat: ChatRequest) -> Run:
        options: Any = {"model": "m", "max_tokens": 100, "messages": chat.messages, "tools": [self.pay]}
        self.runs.append(eagerstream.run(self.api.transport(), **options))
        return self.runs[-1]


class Page:
    """A page in one tab, and what its user does."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser
        self.tab = browser.current_window_handle

    def click(self, selector: str) -> None:
        self.browser.switch_to.window(self.tab)
        self.wait(
            lambda: self.run(
                "const it = document.querySelector(arguments[0]); it?.click(); return it !== null", selector
            )
        )

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def wait(self, what: Any) -> None:
        WebDriverWait(self.browser, 20, poll_frequency=0.05).until(lambda _: what())

    def states(self) -> list[str]:
        self.browser.switch_to.window(self.tab)
        return list(self.run("return [...document.querySelectorAll('section')].map((part) => part.dataset.state)"))

    def until(self, *states: str, status: str = "ready") -> None:
        """Wait until the calls are in these states, and the chat in its own."""
        self.wait(lambda: self.states() == [*states])
        self.wait(lambda: self.run("return document.getElementById('status').textContent") == status)
        assert self.run("return errors") == []

    def text(self) -> str:
        return str(self.run("return document.querySelector('ol').textContent"))

    def roles(self) -> list[str]:
        return list(self.run("return [...document.querySelectorAll('li')].map((item) => item.dataset.role)"))


@contextmanager
def opened(program: str, folder: Path, *, timeout_s: float = 600.0, edits: bool = False) -> Iterator[tuple[Till, Page]]:
    till = Till(program, timeout_s, edits=edits)
    with serving(till.app) as url, chromium(folder) as browser:
        browser.get(url)
        page = Page(browser)
        page.click("#send")
        page.until("approval-requested")
        yield till, page


def test_a_person_approves_after_a_reload(program: str, tmp_path: Path) -> None:
    """The message goes on where it had ended, in the same message."""
    with opened(program, tmp_path) as (till, page):
        page.browser.refresh()
        page.until("approval-requested")
        page.click(".approve")
        page.until("output-available")
        assert (page.roles(), till.paid) == (["user", "assistant"], [0])
        assert "paid 0" in page.text()
        assert "Done." in page.text()
        page.click("#send")  # another message follows
        page.until("output-available", "approval-requested")
        page.click(".deny")
        page.until("output-available", "output-denied")
        assert (page.roles(), till.paid) == (["user", "assistant"] * 2, [0])
        assert "Too much." in str(till.api.exchanges[-1].body["messages"])


def test_two_tabs(program: str, tmp_path: Path) -> None:
    """Both ask. The first answer counts, and both pages get the rest."""
    with opened(program, tmp_path) as (till, page):
        url = page.browser.current_url
        page.browser.switch_to.new_window("tab")
        page.browser.get(url)
        other = Page(page.browser)
        other.until("approval-requested")
        page.click(".approve")
        page.until("output-available")
        other.click(".deny")
        other.until("output-available")
        assert "Done." in other.text()
        assert (till.paid, len(till.runs)) == ([0], 1)


def test_an_edited_message(program: str, tmp_path: Path) -> None:
    """The user asks for something else instead: the run that waits is cancelled."""
    with opened(program, tmp_path, edits=True) as (till, page):
        page.click("#edit")
        page.wait(lambda: len(till.runs) == 2)
        page.until("approval-requested")
        assert till.runs[0].result.status is RunStatus.CANCELLED
        page.click(".approve")
        page.until("output-available")
        assert (page.roles(), len(till.paid)) == (["user", "assistant"], 1)
        assert "Pay less." in page.text()


def test_an_answer_that_comes_too_late(program: str, tmp_path: Path) -> None:
    """The call was not run, and the page goes on with what the model makes of that."""
    with opened(program, tmp_path, timeout_s=0.5) as (till, page):
        page.wait(lambda: till.runs[0].result.status is RunStatus.CANCELLED)
        page.click(".approve")
        page.wait(lambda: len(till.runs) == 2)
        page.wait(lambda: page.run("return document.getElementById('status').textContent") == "ready")
        assert till.paid == []
        assert page.run("return errors") == []
