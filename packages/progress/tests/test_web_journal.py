"""The page of a journal: who gets in, what is shown, what is decided, and the page in a browser."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from tests.loop.durable import client_of
from tests.streams import REQUEST

import eagerstream
from eagerstream._support.serving.access import new_token
from eagerstream._support.serving.asgi_server import ThreadedServer
from eagerstream.tools import ask_elsewhere
from eagerstream_durable.journal import Journal
from eagerstream_progress import Hub
from eagerstream_progress.web import serve, web_app
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use

TOKEN = new_token()
HOST = "127.0.0.1:8765"
MARKUP = "<img src=x onerror=alert(1)>"
GIVEN = {"to": MARKUP, "password": "hunter2-hunter2"}


@eagerstream.tool(approve=ask_elsewhere)
async def launch(to: Any, password: str) -> str:
    """Launch."""
    return "launched"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagerstream.loop._durability._LOOK_S", 0.01)


async def _begin(journal: Journal, run_id: str, given: Any = GIVEN) -> None:
    asks = reply(tool_use("launch", given))
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
    monkeypatch.setattr("eagerstream_progress.web._journal_pages._MAX_RUNS", 2)
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
        monkeypatch.setattr("eagerstream_progress.web._journal_pages._MAX_PAGE_CHARS", 120)
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


@pytest.mark.anyio
async def test_what_is_not_shown_is_marked(tmp_path: Path) -> None:
    """The page has no button that approves such a call: its end, or its depth, may have something else."""
    deep: Any = "rm -rf /"
    for _ in range(150):
        deep = [deep]
    inputs = {"long": "x" * 60_000 + "rm -rf /", "deep": deep, "short": "x" * 40_000}
    async with page_of(tmp_path / "runs.db") as (journal, browser):
        for run_id, to in inputs.items():
            await _begin(journal, run_id, {"to": to, "password": "x"})
        shown = {run["run_id"]: run["asked"][0] for run in (await browser.get("/journal/runs")).json()}
    assert {run_id: call["is_cut"] for run_id, call in shown.items()} == {
        "r/1": False,
        "long": True,
        "deep": True,
        "short": False,
    }
    assert inputs["short"] in shown["short"]["input"]
    assert "rm -rf" not in shown["long"]["input"] + shown["deep"]["input"]


@pytest.mark.anyio
async def test_two_people_decide_at_the_same_time(tmp_path: Path) -> None:
    """One decision counts, and only its sender is told that it was taken."""
    async with page_of(tmp_path / "runs.db") as (journal, browser):
        call = (await journal.view("r/1")).approvals[0].id
        answers: list[tuple[int, Any]] = []

        async def decide(number: int) -> None:
            decision = {"run": "r/1", "call": call, "approved": False, "reason": f"{number}"}
            answers.append(((await browser.post("/journal/decide", json=decision)).status_code, f"{number}"))

        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(decide, number)
        [(_, left)] = await journal.messages("r/1")
        assert sorted(status for status, _ in answers) == [204] + [409] * 5
        assert (204, left["decision"]) in answers


@pytest.mark.anyio
async def test_ids_that_no_run_can_have(tmp_path: Path) -> None:
    """They open nothing, and are no error of the journal. Neither is the call of another run."""
    async with page_of(tmp_path / "runs.db") as (journal, browser):
        await _begin(journal, "other", {"to": "elsewhere", "password": "x"})
        call = (await journal.view("other")).approvals[0].id
        for run_id in ("\ud800", "a\0b", "", "x" * 9_000, "../r/1", "r%2f1", "\u202e"):
            body = json.dumps({"run": run_id, "call": call, "approved": True})
            kind = {"content-type": "application/json"}
            assert (await browser.post("/journal/decide", content=body, headers=kind)).status_code == 404, ascii(run_id)
            assert (await browser.post("/journal/cancel", content=body, headers=kind)).status_code in (404, 409)
        for query in ("id=%ed%a0%80", "id=%00", "id=..%2fr%2f1", "id=other%00", ""):
            answer = await browser.get(f"/journal/run?{query}")
            assert (answer.status_code, answer.text) == (404, "There is no such run.\n")
        decision = {"run": "r/1", "call": call, "approved": True}
        assert (await browser.post("/journal/decide", json=decision)).status_code == 409
        assert await journal.messages("r/1") == await journal.messages("other") == []


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


@pytest.mark.slow
def test_hostile_texts_in_a_browser(tmp_path: Path, driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hide nothing and turn nothing. A denial is about the call beside it, whatever the ids look like together."""
    from selenium.webdriver.support.wait import WebDriverWait

    from eagerstream_progress.web import _journal_pages

    shown = _journal_pages._shown_call
    name = f"{MARKUP}\u202e\u200b"  # of no tool of the library, whose names have letters, digits, _ and -
    monkeypatch.setattr(_journal_pages, "_shown_call", lambda call: {**shown(call), "name": name})
    where = tmp_path / "runs.db"
    inputs = {
        MARKUP: {"to": "safe\u202etxt.exe\u200b\u2066\u3164\u00ad", "password": "x"},
        "long": {"to": "x" * 60_000, "password": "x"},
        "../a?b#c": {"to": {"__proto__": "\ud800", "n": 12345678901234567890123}, "password": "x"},
    }

    async def begin() -> None:
        async with Journal(where) as journal:
            for run_id, given in inputs.items():
                await _begin(journal, run_id, given)

    async def left() -> dict[str, int]:
        async with Journal(where) as journal:
            return {run_id: len(await journal.messages(run_id)) for run_id in inputs}

    anyio.run(begin)
    wait = WebDriverWait(driver, 20)
    with serve(Hub(), journal=Journal(where)) as server:
        driver.get(server.url)
        wait.until(lambda _: driver.find_elements("id", "journal-link"))[0].click()
        wait.until(lambda _: len(driver.find_elements("css selector", ".journal-call")) == 3)
        runs = {
            each.find_element("css selector", "h2").text: each
            for each in driver.find_elements("css selector", ".journal-run")
        }
        assert set(runs) == set(inputs)
        texts = {run_id: each.find_element("css selector", "pre").text for run_id, each in runs.items()}
        mark = "\ufffd"
        assert f"safe{mark}txt.exe{mark * 4}" in texts[MARKUP]
        assert f'"__proto__": "{mark}"' in texts["../a?b#c"]
        assert "12345678901234567890123" in texts["../a?b#c"]
        assert {each.text for each in driver.find_elements("css selector", "h3")} == {f"{MARKUP}{mark * 2}"}
        buttons = {run_id: each.find_elements("css selector", "[data-does=approve]") for run_id, each in runs.items()}
        assert {run_id: len(found) for run_id, found in buttons.items()} == {MARKUP: 1, "long": 0, "../a?b#c": 1}
        assert "cannot be approved here" in runs["long"].text
        assert driver.find_elements("css selector", "img:not([src^='static/']), iframe, script:not([src])") == []
        driver.execute_script("arguments[0].click()", buttons["../a?b#c"][0])
        wait.until(lambda _: len(driver.find_elements("css selector", ".journal-call")) == 2)
        driver.execute_script("arguments[0].click()", runs[MARKUP].find_element("css selector", "a"))
        wait.until(lambda _: "/journal/run?id=" in driver.current_url)
        assert driver.find_element("css selector", "body").text.startswith(f"{MARKUP}: waiting")
        told = [entry["message"] for entry in driver.get_log("browser")]
        assert [message for message in told if "/favicon.ico" not in message] == []  # a text names no icon
    assert anyio.run(left) == {MARKUP: 0, "long": 0, "../a?b#c": 1}


_ATTACKS = """
const told = [];
const tell = (what, promise) => Promise.race([promise, new Promise((done) => setTimeout(done, 4000, "silent"))])
  .then((got) => told.push(`${what}: ${got}`), () => told.push(`${what}: refused`));
const [url, body, done] = arguments;
const read = (options) => fetch(url + "/journal/runs", options).then((got) => got.text());
const send = (options) => fetch(url + "/journal/decide", { method: "POST", body, ...options }).then((got) => got.type);
const element = (tag, values) => new Promise((done, fail) => {
  const made = Object.assign(document.createElement(tag), values, { onload: () => done("loaded"), onerror: fail });
  document.body.append(made);
});
const form = (enctype) => {
  const target = Object.assign(document.createElement("iframe"), { name: "f" });
  const made = Object.assign(document.createElement("form"),
    { action: url + "/journal/decide", method: "POST", enctype, target: "f" });
  made.append(Object.assign(document.createElement("input"), { name: body, value: "" }));
  document.body.append(target, made);
  return new Promise((done) => { target.onload = () => done("sent"); made.submit(); });
};
Promise.all([
  tell("read", read({ credentials: "include" })),
  tell("read opaque", read({ credentials: "include", mode: "no-cors" })),
  tell("post", send({ credentials: "include", headers: { "Content-Type": "application/json" } })),
  tell("post text", send({ credentials: "include", mode: "no-cors" })),
  tell("post token", send({ headers: { "Content-Type": "application/json", Authorization: "Bearer guess" } })),
  tell("form", form("text/plain")),
  tell("script", element("script", { src: url + "/journal/runs" })),
  tell("module", element("script", { src: url + "/static/records.js", type: "module" })),
  tell("style", element("link", { href: url + "/static/page.css", rel: "stylesheet" })),
  tell("image", element("img", { src: url + "/static/icon.svg" })),
]).then(() => done(told.sort()));
"""


@pytest.mark.slow
def test_a_page_from_elsewhere_in_a_browser(tmp_path: Path) -> None:
    """It reads nothing and decides nothing, under its own name or under one that it gave our address.

    Its browser is signed in at the page. A frame with the page stays empty.
    """
    from selenium.webdriver.support.wait import WebDriverWait
    from tests.browser import chromium

    where = tmp_path / "runs.db"

    async def begin() -> str:
        async with Journal(where) as journal:
            await _begin(journal, "r1")
            return (await journal.view("r1")).approvals[0].id

    async def left() -> Any:
        async with Journal(where) as journal:
            return await journal.messages("r1")

    async def evil_page(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": b"<!doctype html><body>"})

    call = anyio.run(begin)
    body = json.dumps({"run": "r1", "call": call, "approved": True})
    elsewhere = ThreadedServer(lambda: evil_page, name="page of somebody else", host="127.0.0.1", port=0)
    rules = "--host-resolver-rules=MAP *.example 127.0.0.1"
    with (
        serve(Hub(), journal=Journal(where)) as server,
        ReplayServer(reply(text("private"))) as double,
        elsewhere,
        chromium(tmp_path / "profile", rules) as driver,
    ):
        driver.set_script_timeout(30)
        driver.get(server.url)
        wait = WebDriverWait(driver, 20)
        wait.until(lambda _: driver.find_elements("id", "journal-link"))
        # From another site, and from another program on this machine, to which the browser does send the cookie.
        for origin in (f"http://evil.example:{elsewhere.port}", elsewhere.base_url):
            driver.get(origin)
            told = driver.execute_async_script(_ATTACKS, server.base_url, body)
            opened = {line for line in told if not line.endswith((": refused", ": silent"))}
            assert opened <= {"form: sent", "post text: opaque", "read opaque: "}, opened  # sent, and refused there
            driver.execute_script(
                "document.body.append(Object.assign(document.createElement('iframe'), {id: 'x', src: arguments[0]}))",
                f"{server.base_url}/journal",
            )
            driver.switch_to.frame("x")
            assert driver.find_elements("css selector", "#journal, .top") == []
            driver.switch_to.default_content()
        for port, path in ((server.port, "/journal/runs"), (double.port, "/")):
            driver.get(f"http://rebound.example:{port}{path}")
            assert "not known as rebound.example" in driver.find_element("css selector", "body").text
        driver.get(f"{elsewhere.base_url}/")
        driver.execute_script("location = arguments[0]", f"{server.base_url}/journal")  # a link does open it
        wait.until(lambda _: driver.find_elements("css selector", ".journal-call"))
    assert anyio.run(left) == []
