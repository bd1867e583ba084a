"""The TypeScript package for records: its own tests, what npm makes of it, and its connections to real servers."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import MessageParam
from packages.progress.tests.made_log import MadeCall, add, hub_of, made_log
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from tests.browser import chromium
from tests.docs.line import line
from tests.node import need_packages, serving
from tests.source_tree import ROOT

import eagerstream
from eagerstream import HTTPTransport, Run, tool
from eagerstream._support.serving.access import new_token
from eagerstream_progress import Hub, RunLog
from eagerstream_progress.gateway import RunSlots, gateway_app
from eagerstream_progress.web import serve, web_app
from eagerstream_testing import ReplayServer, Scenario, Timing, reply, tool_use

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

FOLDER = ROOT / "packages/progress"
PACKAGE = FOLDER / "clients/eagerstream-records"
SCHEMA = FOLDER / "src/eagerstream_progress/record.schema.json"


def command(*words: str | Path, folder: Path = PACKAGE, fails: bool = False) -> str:
    """What a command prints; if it is to fail, what it complains of, too."""
    done = subprocess.run(
        [*map(str, words)],
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    both = done.stdout + done.stderr
    assert bool(done.returncode) is fails, both[-4000:]
    return both if fails else done.stdout


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    """The package in `dist`, made of its sources. The page's module stays as it is: it is compared with them."""
    need_packages(PACKAGE)
    command("node", "scripts/build.mjs", "--package")


# --- the package ------------------------------------------------------------------------------------------------------


def test_its_own_tests() -> None:
    """Under Node; before them, that the types fit the schema, and the page has the module that is built from here."""
    command("npm", "run", "check")
    told = command("node", "--test", "--test-reporter=tap", *sorted(PACKAGE.glob("test/*.test.mjs")))
    assert "\n# fail 0\n" in told


def test_a_new_type_of_record(tmp_path: Path) -> None:
    """Nobody can add one to the schema and forget the package: the check fails, and then the compiler does."""
    copy = tmp_path / "clients" / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (copy / "node_modules").symlink_to(PACKAGE / "node_modules")
    schema = json.loads(SCHEMA.read_text())
    there = tmp_path / SCHEMA.relative_to(FOLDER)
    there.parent.mkdir(parents=True)
    there.write_text(json.dumps(schema))
    command("node", "scripts/types.mjs", "--check", folder=copy)
    properties = {"type": {"const": "surprise", "type": "string"}}
    schema["$defs"]["SurpriseRecord"] = {"type": "object", "properties": properties, "required": ["type"]}
    schema["oneOf"].append({"$ref": "#/$defs/SurpriseRecord"})
    schema["discriminator"]["mapping"]["surprise"] = "#/$defs/SurpriseRecord"
    there.write_text(json.dumps(schema))
    assert "does not fit the schema" in command("npm", "run", "check", folder=copy, fails=True)
    command("npm", "run", "types", folder=copy)
    assert "surprise" in command("npx", "tsc", "--noEmit", folder=copy, fails=True)
    properties["type"]["pattern"] = "x"
    there.write_text(json.dumps(schema))
    assert "pattern is not known" in command("npm", "run", "types", folder=copy, fails=True)


def test_the_packed_package(tmp_path: Path) -> None:
    """A project installs the archive from its file: it runs, it has types, and nothing else comes with it."""
    (packed,) = json.loads(command("npm", "pack", "--json", "--ignore-scripts", "--pack-destination", tmp_path))
    names = {file["path"] for file in packed["files"]}
    assert {"LICENSE", "README.md", "dist/index.js", "dist/index.d.ts", "dist/react.js", "dist/react.d.ts"} <= names
    assert not [name for name in names if name.startswith(("src", "test", "scripts", "node_modules"))]
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"private": true, "type": "module"}')
    command("npm", "install", "--offline", "--no-audit", tmp_path / packed["filename"], folder=project)
    installed = [path.name for path in (project / "node_modules").iterdir() if not path.name.startswith(".")]
    assert installed == ["eagerstream-records"]
    script = 'import { applyPatch } from "eagerstream-records"; console.log(applyPatch("a", [{op: "append", path: "", value: "b"}]))'
    assert command("node", "--input-type=module", "--eval", script, folder=project) == "ab\n"
    for name in ("react", "@types", "csstype"):
        (project / "node_modules" / name).symlink_to(PACKAGE / "node_modules" / name)
    shutil.copy(PACKAGE / "test" / "consumer.ts", project)
    tsc = PACKAGE / "node_modules" / "typescript" / "bin" / "tsc"
    for resolution in (["--module", "nodenext"], ["--module", "esnext", "--moduleResolution", "bundler"]):
        options = ["--noEmit", "--strict", "--target", "es2022", "--lib", "es2023,dom,dom.asynciterable"]
        command("node", tsc, *options, *resolution, "consumer.ts", folder=project)


# --- connections to real servers --------------------------------------------------------------------------------------

PIECES = 12_000
PARAGRAPHS = [{"text": f"Paragraph {number} 😀"} for number in range(400)]
DOCUMENT = {"title": "Harbours", "paragraphs": PARAGRAPHS}


def long_log() -> RunLog:
    """Some megabytes of text, and a call. A watcher that does not begin with a snapshot gets it in several batches."""
    log = made_log(texts=0, max_recent=2 * PIECES)
    for number in range(PIECES):
        add(log, {"type": "text_delta", "block": 1, "text": f"{number} é{'x' * 500}\n"})
    call = MadeCall(log, 2, "write_document")
    written = json.dumps({**DOCUMENT, "number": 2**53 + 1})
    for at in range(0, len(written), 50):
        call.write(written[at : at + 50])
    call.stop()
    add(log, {"type": "run_stop", "status": "completed", "turns": 1, "usage": {}, "error": None})
    log.close()
    return log


class CuttingLine:
    """A way to a server on which each connection is cut, after a random number of bytes."""

    def __init__(self, url: str, seed: int) -> None:
        self._target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0

    def serve(self) -> None:
        """Forward until the listener is closed."""
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                left = self._random.randrange(50_000, 1_500_000)
                for source, sink, most in ((near, far, None), (far, near, left)):
                    threading.Thread(target=self._forward, args=(source, sink, most), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, most: int | None) -> None:
        with suppress(OSError):
            while (most is None or most > 0) and (data := source.recv(65_536)):
                sink.sendall(data[:most])
                most = None if most is None else most - len(data)
            self.cuts += most is not None and most <= 0
        for side in (source, sink):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def cutting_line(url: str, seed: int = 7) -> Iterator[CuttingLine]:
    made = CuttingLine(url, seed)
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join()


def check_gathered(found: Mapping[str, Any], log: RunLog, *, first: int) -> None:
    """Each record from the first on came once, and nothing is missing in what they say."""
    assert found["last"] == "end"
    assert found["status"] == "completed"
    assert sum(count for _, count in found["taken"]) == log.seq - first + 1
    starts = [seq for seq, _ in found["taken"]]
    assert sorted(set(starts)) == starts
    fields: list[Mapping[str, Any]] = [*log.records()]
    assert found["text"] == "".join(record["text"] for record in fields if record["type"] == "text_delta")
    assert found["partial"] == {**DOCUMENT, "number": {"$number": str(2**53 + 1)}}


def test_nothing_is_lost_or_doubled_in_node() -> None:
    """Whatever byte a connection is cut at, for readers that know the first records and for those that know none."""
    log = long_log()
    with serve(hub_of(log)) as server, cutting_line(server.base_url) as wire:
        options = {"after": 3, "token": server.token, "maxDelayMs": 20}
        url = f"{wire.url}/events?run={log.id}"
        found = json.loads(command("node", "test/gather_in_node.mjs", url, json.dumps(options)))
        check_gathered(found, log, first=4)
        assert found["reconnections"] >= 3
        assert found["reconnections"] <= wire.cuts
        direct = f"{server.base_url}/events?run={log.id}"
        late = json.loads(command("node", "test/gather_in_node.mjs", direct, json.dumps({"token": server.token})))
        check_gathered(late, log, first=1)
        assert late["reconnections"] == 0
        options["token"] = "x" * 20
        assert "HTTP 401" in command("node", "test/gather_in_node.mjs", url, json.dumps(options), fails=True)


def page_of(hub: Hub, files: Mapping[str, str], gateway: Starlette | None = None) -> Starlette:
    """A page that imports the package, with the servers that it reads, below one address."""

    async def page(_: Any) -> HTMLResponse:
        return HTMLResponse('<!doctype html><div id="root"></div><script type="module" src="/app.js"></script>')

    def file(content: str) -> Callable[..., Any]:
        async def send(_: Any) -> Response:
            return Response(content, media_type="text/javascript")

        return send

    routes: list[Any] = [Route("/", page), Mount("/watch", web_app(hub, token=None))]
    routes += [Route(f"/{name}", file(content)) for name, content in files.items()]
    return Starlette(routes=[*routes, *(gateway.routes if gateway else ())])


def test_nothing_is_lost_or_doubled_in_chromium(tmp_path: Path) -> None:
    """With the module that the page has."""
    log = long_log()
    files = {"gather.js": (PACKAGE / "test" / "gather.mjs").read_text(), "app.js": ""}
    script = """const [url, options, done] = arguments;
        Promise.all([import("/watch/static/records.js"), import("/gather.js")])
          .then(([records, { gather }]) => gather(records, url, options))
          .then(done, (error) => done(String(error.stack)));"""
    with serving(page_of(hub_of(log), files)) as url, cutting_line(url) as wire, chromium(tmp_path) as browser:
        browser.set_script_timeout(60)
        browser.get(wire.url)
        options = {"after": 3, "maxDelayMs": 20}
        found = browser.execute_async_script(script, f"/watch/events?run={log.id}", options)
        assert isinstance(found, dict), found
        check_gathered(found, log, first=4)
        assert found["reconnections"] >= 3


def test_another_origin_in_chromium(tmp_path: Path) -> None:
    """A page from elsewhere reads and decides with the token. Without a permission, it gets the reason that it can see."""
    script = """const [url, token, origins, done] = arguments;
        import("/records.js").then(async ({ RunControl, follow }) => {
          const found = [];
          try {
            for await (const message of follow(`${url}/events?run=run`, { token, maxDelayMs: 20 })) {
              if (message.type === "records") break;
            }
            await new RunControl(url, "run", { token }).decide(1, true);
          } catch (error) {
            found.push(error.name, error.status ?? null, error.message);
          }
          done(found);
        }).catch((error) => done(String(error.stack)));"""
    log, token = made_log("run"), new_token()
    module = (ROOT / "packages/progress/src/eagerstream_progress/web/static/records.js").read_text()
    with serving(page_of(Hub(), {"app.js": "", "records.js": module})) as here, chromium(tmp_path) as browser:
        browser.set_script_timeout(20)
        browser.get(here)

        def found(origins: list[str], given: str) -> Any:
            with serve(hub_of(log), token=token, origins=origins) as server:
                return browser.execute_async_script(script, f"http://127.0.0.1:{server.port}", given, origins)

        assert found([here], token) == ["HTTPError", 409, "This call no longer waits for a decision."]
        name, status, reason = found([here], "wrong-token-of-16")
        assert (name, status) == ("HTTPError", 401)
        assert "complete URL" in reason
        name, status, reason = found([], token)
        assert (name, status) == ("ConnectionLost", None)
        expected = f'no response after 5 attempts: if it runs, it may need the option origins=["{here}"]'
        assert reason == expected


# --- the hook ---------------------------------------------------------------------------------------------------------


@tool
async def write_document(title: str, paragraphs: list[dict[str, str]]) -> str:
    """Write a document."""
    return f"{len(paragraphs)} paragraphs"


class Shown:
    """What a part of the program shows."""

    def __init__(self, browser: webdriver.Chrome, id: str) -> None:
        self._browser = browser
        self._id = id

    def paragraphs(self) -> list[str]:
        found: list[str] = self._browser.execute_script(
            "return [...document.querySelectorAll(`#${arguments[0]} p`)].map((p) => p.textContent)", self._id
        )
        return found

    def data(self, name: str) -> str | None:
        found: str | None = self._browser.execute_script(
            "return document.getElementById(arguments[0])?.dataset[arguments[1]] ?? null", self._id, name
        )
        return found


@pytest.fixture(scope="module")
def program() -> str:
    """A program that uses the hook, with React in it."""
    esbuild = PACKAGE / "node_modules" / ".bin" / "esbuild"
    return command(esbuild, "test/app.mjs", "--bundle", "--format=esm", "--log-level=error")


def test_the_hook_starts_a_run(program: str, tmp_path: Path) -> None:
    """In strict mode, at a gateway; others watch the same run. To leave cancels it."""
    hub, slots = Hub(), RunSlots(10)
    texts = [paragraph["text"] for paragraph in PARAGRAPHS]
    scenario = Scenario(reply(tool_use("write_document", DOCUMENT)), timing=Timing(tokens_per_second=400))
    with ReplayServer(scenario) as api:

        def start(asked: Mapping[str, Any]) -> Run:
            question: list[MessageParam] = [{"role": "user", "content": f"Write about {asked['topic']}."}]
            transport = HTTPTransport(base_url=api.base_url, api_key="any", library="httpx")
            settings: dict[str, Any] = {"buffer": "wait", "model": "m", "max_tokens": 100, "max_turns": 1}
            return eagerstream.run(transport, messages=question, tools=[write_document], **settings)

        app = page_of(hub, {"app.js": program}, gateway_app(start, slots=slots, hub=hub))
        with serving(app) as url, chromium(tmp_path) as browser:
            wait = WebDriverWait(browser, 40, poll_frequency=0.05)
            started, watched = Shown(browser, "started"), Shown(browser, "watched")
            browser.get(url)
            assert watched.data("connection") == "idle"
            browser.find_element("id", "start").click()
            wait.until(lambda _: min(len(started.paragraphs()), len(watched.paragraphs())) > 4)
            assert started.paragraphs()[:4] == watched.paragraphs()[:4] == texts[:4]
            assert len(hub.logs) == 1, "strict mode starts no second run"
            drawn = browser.execute_script("return renders[arguments[0]]", texts[0])
            wait.until(lambda _: len(watched.paragraphs()) > 10)
            again = browser.execute_script("return renders[arguments[0]]", texts[0])
            assert again == drawn, "what is complete is not drawn again"
            browser.find_element("id", "leave").click()
            wait.until(lambda _: slots.held == 0)
            wait.until(lambda _: watched.data("connection") == "ended")
            assert watched.data("status") == "cancelled"
            assert browser.execute_script("return errors") == []
            log = browser.get_log("browser")  # type: ignore[no-untyped-call]
            complaints = [entry["message"] for entry in log if entry["level"] != "INFO"]
            assert [message for message in complaints if "favicon" not in message] == []


def test_the_hook_follows_a_run(program: str, tmp_path: Path) -> None:
    """Through lost connections to the end. A run that the server does not keep is told."""
    texts = [paragraph["text"] for paragraph in PARAGRAPHS]
    log = made_log()
    call = MadeCall(log, 2, "write_document")
    written = json.dumps(DOCUMENT)
    app = page_of(hub_of(log), {"app.js": program})
    with serving(app) as url, line(url) as wire, chromium(tmp_path) as browser:
        wait = WebDriverWait(browser, 40, poll_frequency=0.05)
        watched = Shown(browser, "watched")
        browser.get(f"{wire.url}/#{log.id}")
        parts = [written[at : at + 3_000] for at in range(0, len(written), 3_000)]
        for part in parts:
            before, connections = len(watched.paragraphs()), wire.connections
            call.write(part[:1_500])
            wait.until(lambda _: len(watched.paragraphs()) > before)  # noqa: B023  # awaited in the loop
            wire.cut()
            call.write(part[1_500:])
            wait.until(lambda _: wire.connections > connections)  # noqa: B023
        call.stop()
        log.close()
        wait.until(lambda _: watched.data("connection") == "ended")
        assert watched.paragraphs() == texts
        browser.find_element("id", "unknown").click()
        wait.until(lambda _: watched.data("connection") == "gone")
        assert watched.paragraphs() == []
        assert browser.execute_script("return errors") == []
