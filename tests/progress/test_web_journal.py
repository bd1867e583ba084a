"""The page of a journal: who gets in, what is shown, what is decided, and the page in a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import eagerstream
from eagerstream.journal import Journal
from eagerstream.progress import Hub
from eagerstream.progress.web import new_token, serve, web_app
from eagerstream.testing import Scenario, reply, text, tool_use
from eagerstream.tools import ask_elsewhere
from tests.loop.durable import client_of
from tests.support import REQUEST

TOKEN = new_token()
HOST = "127.0.0.1:8765"
MARKUP = "<img src=x onerror=alert(1)>"


@eagerstream.tool(approve=ask_elsewhere)
async def launch(to: str, password: str) -> str:
    """Launch."""
    return "launched"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagerstream.loop._durability._LOOK_S", 0.01)


async def _begin(journal: Journal, run_id: str) -> None:
    asks = reply(tool_use("launch", {"to": MARKUP, "password": "hunter2-hunter2"}))
    async with client_of(Scenario(asks, reply(text("Done.")))) as client:
        async with eagerstream.run(client, **REQUEST, tools=[launch], journal=journal, run_id=run_id) as run:
            await run.finish()


@asynccontextmanager
async def page_of(where: Path) -> AsyncIterator[tuple[Journal, httpx.AsyncClient]]:
    """A journal with a run that waits, and a browser that has opened its page."""
    async with Journal(where) as journal:
        await _begin(journal, "r/1")
        application = web_app(Hub(), token=TOKEN, journal=journal)
        headers = {"cookie": f"eagerstream-8765={TOKEN}", "origin": f"http://{HOST}"}
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=headers) as browser:
            yield journal, browser


@pytest.mark.anyio
async def test_a_damaged_run_hides_no_other(tmp_path: Path) -> None:
    """The calls of the other runs are still shown."""
    async with page_of(tmp_path / "runs.db") as (journal, browser):
        log = await journal.create("damaged", {"kind": "begin", "turn": 0})
        await log.release("waiting", {})
        found = (await browser.get("/journal/runs")).json()
        assert {run["run_id"]: len(run["asked"]) for run in found} == {"r/1": 1, "damaged": 0}


@pytest.mark.anyio
async def test_a_run_that_waits_stays_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it has waited for long, and many others were changed since."""
    monkeypatch.setattr("eagerstream.progress.web._journal_pages._MAX_RUNS", 2)
    async with page_of(tmp_path / "runs.db") as (journal, browser):
        for number in range(60):
            log = await journal.create(f"other {number}", {"kind": "begin", "turn": 0})
            await log.release("waiting" if number < 55 else "completed", {})
        found = (await browser.get("/journal/runs")).json()
        assert {run["run_id"]: len(run["asked"]) for run in found}["r/1"] == 1
        assert len(found) == 2 + 56


@pytest.mark.anyio
async def test_runs_are_shown_and_decided(tmp_path: Path) -> None:
    """A waiting call is shown without its secret, and decided once; the journal has the decision."""
    async with page_of(tmp_path / "runs.db") as (journal, browser):
        assert b'href="journal"' in (await browser.get("/")).content
        assert (await browser.get("/journal")).headers["content-security-policy"]
        [run] = (await browser.get("/journal/runs")).json()
        assert (run["run_id"], run["status"], run["turns"]) == ("r/1", "waiting", 1)
        [call] = run["asked"]
        assert call["name"] == "launch"
        assert "hunter2" not in call["input"]
        decision = {"run": "r/1", "call": call["id"], "approved": False, "reason": "Not now."}
        assert (await browser.post("/journal/decide", json=decision)).status_code == 204
        [(_, left)] = await journal.messages("r/1")
        assert left == {"kind": "decision", "call": call["id"], "decision": "Not now."}
        assert (await browser.post("/journal/decide", json=decision)).status_code == 409
        assert (await browser.get("/journal/runs")).json()[0]["asked"] == []
        assert (await browser.post("/journal/cancel", json={"run": "r/1"})).status_code == 204
        assert (await journal.view("r/1")).is_cancelled


@pytest.mark.anyio
async def test_the_history_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is plain text without secrets. Of a long one, the end is shown."""
    async with page_of(tmp_path / "runs.db") as (_, browser):
        page = await browser.get("/journal/run", params={"id": "r/1"})
        assert page.headers["content-type"].startswith("text/plain")
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.text.startswith("r/1: waiting, no owner")
        assert MARKUP in page.text
        assert "hunter2" not in page.text
        monkeypatch.setattr("eagerstream.progress.web._journal_pages._MAX_PAGE_CHARS", 120)
        cut = (await browser.get("/journal/run", params={"id": "r/1"})).text
        assert "left out" in cut
        assert "How is the weather" not in cut
        assert (cut[:10], cut[-10:]) == (page.text[:10], page.text[-10:])
        assert (await browser.get("/journal/run", params={"id": "x"})).status_code == 404
        assert (await browser.get("/journal/run", headers={"cookie": ""})).status_code == 401


@pytest.mark.anyio
async def test_a_call_of_an_active_run_is_shown(tmp_path: Path) -> None:
    """The run has other work, so its status is `running`. A run whose process has died while it asked looks the same."""
    begun, may_end = anyio.Event(), anyio.Event()

    @eagerstream.tool
    async def slow() -> str:
        """Take long."""
        begun.set()
        await may_end.wait()
        return "slept"

    async def use() -> None:
        calls = reply(tool_use("launch", {"to": "x", "password": "y"}), tool_use("slow", {}))
        async with client_of(Scenario(calls, reply(text("Done.")))) as client:
            async with eagerstream.run(client, **REQUEST, tools=[launch, slow], journal=journal, run_id="busy") as run:
                await run.finish()

    async def asked() -> Any:
        return {run["run_id"]: run["asked"] for run in (await browser.get("/journal/runs")).json()}["busy"]

    async with page_of(tmp_path / "runs.db") as (journal, browser), anyio.create_task_group() as tasks:
        tasks.start_soon(use)
        await begun.wait()
        calls: list[Any] = []
        while not calls:
            calls = await asked()
        decision = {"run": "busy", "call": calls[0]["id"], "approved": True}
        assert (await browser.post("/journal/decide", json=decision)).status_code == 204
        assert await asked() == []
        may_end.set()


@pytest.mark.anyio
async def test_requests_that_are_refused(tmp_path: Path) -> None:
    """Those of other pages, of programs without the token, and those without a meaning."""
    async with page_of(tmp_path / "runs.db") as (journal, browser):
        decide: dict[str, Any] = {"run": "r/1", "call": "x", "approved": True}
        for path in ("/journal/decide", "/journal/cancel"):
            strange = {"origin": "https://evil.example"}
            assert (await browser.post(path, json=decide, headers=strange)).status_code == 403
            assert (await browser.post(path, json=decide, headers={"cookie": ""})).status_code == 401
            assert (await browser.post(path, json=decide, headers={"host": "evil.example"})).status_code == 421
            assert (await browser.post(path, json={"run": 1})).status_code == 400
            assert (await browser.post(path, json={**decide, "run": "x"})).status_code == 404
            assert (await browser.get(path)).status_code == 405
        assert (await browser.get("/journal/runs", headers={"cookie": ""})).status_code == 401
        assert (await browser.post("/journal/decide", json={**decide, "approved": 1})).status_code == 400
        assert (await browser.post("/journal/decide", json={**decide, "reason": "x" * 2_001})).status_code == 400
        assert (await browser.post("/journal/decide", json=decide)).status_code == 409
        assert await journal.messages("r/1") == []
        without = httpx.ASGITransport(web_app(Hub(), token=TOKEN))
        async with httpx.AsyncClient(transport=without, base_url=f"http://{HOST}", headers=browser.headers) as other:
            assert (await other.get("/journal")).status_code == 404
            assert b"journal-link" not in (await other.get("/")).content


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Any]:
    from tests.browser import chromium

    with chromium(tmp_path / "profile") as chrome:
        yield chrome


@pytest.mark.slow
def test_a_person_decides_in_a_browser(tmp_path: Path, driver: Any) -> None:
    """The input is text and no markup, the decision is in the journal, and the browser has no complaint."""
    from selenium.webdriver.support.wait import WebDriverWait

    where = tmp_path / "runs.db"

    async def begin() -> None:
        async with Journal(where) as journal:
            for run_id in ("r1", "r2"):
                await _begin(journal, run_id)

    async def left() -> list[Any]:
        async with Journal(where) as journal:
            return [[m for _, m in await journal.messages(run_id)] for run_id in ("r1", "r2")]

    anyio.run(begin)
    wait = WebDriverWait(driver, 20)
    with serve(Hub(), journal=Journal(where)) as server:
        driver.get(server.url)
        wait.until(lambda _: driver.find_elements("id", "journal-link"))[0].click()
        found = wait.until(lambda _: driver.find_elements("css selector", ".journal-call"))
        assert len(found) == 2
        assert MARKUP in found[0].text
        assert driver.find_elements("css selector", ".journal-call img") == []
        runs = {
            each.find_element("css selector", "h2").text: each
            for each in driver.find_elements("css selector", ".journal-run")
        }
        runs["r1"].find_element("css selector", "[data-does=approve]").click()
        wait.until(lambda _: len(driver.find_elements("css selector", ".journal-call")) == 1)
        runs["r2"].find_element("css selector", "input").send_keys("No rockets.")
        runs["r2"].find_element("css selector", "[data-does=deny]").click()
        wait.until(lambda _: not driver.find_elements("css selector", ".journal-call"))
        assert [entry["message"] for entry in driver.get_log("browser")] == []
    assert [[message["decision"] for message in messages] for messages in anyio.run(left)] == [[True], ["No rockets."]]
