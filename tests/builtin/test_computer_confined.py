"""`ChromiumPage` stays where it was told to stay, and leaves nothing behind, however it ends."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from eagerstream.builtin import ChromiumPage
from eagerstream.builtin._computer.origins import NowhereElse, Origin, named
from eagerstream.errors import MissingExtraError, ToolError, UsageError
from tests.builtin.browsers import chromium_page, evaluate, until
from tests.builtin.sites import Site, site
from tests.tables import rows


@rows(
    "url, rules",
    {
        "http://Shop.example/a?b": ["http://shop.example:80", "ws://shop.example:80"],
        "https://shop.example": ["https://shop.example:443", "wss://shop.example:443"],
        "http://127.0.0.1:8000/": ["http://127.0.0.1:8000", "ws://127.0.0.1:8000"],
        "https://[::1]:8443/": ["https://[::1]:8443", "wss://[::1]:8443"],
        "https://user:secret@shop.example/": ["https://shop.example:443", "wss://shop.example:443"],
        "file:///etc/motd": [],
    }.items(),
)
def test_origins(url: str, rules: list[str]) -> None:
    """What is reached is the origin, with its port, and no more."""
    assert Origin.of(url).rules() == rules


@rows(
    "url",
    [
        "",
        "shop.example",
        "about:blank",
        "data:text/html,hi",
        "javascript:alert(1)",
        "chrome://settings",
        "ftp://shop.example/",
        "https://",
        "https://*",
        "https://*.example",
        "https://.example",
        "https://a;b",
        "https://a,EXCLUDE b",
        "https://a b",
        "https://a\n",
        "https://müller.example",
        "https://a:99999",
        "https://[::1",
        "https://[v1.a]/",
    ],
)
def test_what_is_no_origin(url: str) -> None:
    """Nothing gets into the rules that would widen them."""
    with pytest.raises(UsageError):
        ChromiumPage(url)
    with pytest.raises(UsageError):
        ChromiumPage("https://shop.example", allowed_origins=[url])


@rows("options", [{"width": 0}, {"height": 2001}, {"timeout_s": 0}, {"timeout_s": float("nan")}])
def test_settings_out_of_range(options: dict[str, Any]) -> None:
    """When it is made."""
    with pytest.raises(UsageError, match="must be"):
        ChromiumPage("https://shop.example", **options)


def test_nobody_can_be_the_proxy() -> None:
    """Its port is taken, and does not answer."""
    network = NowhereElse([Origin.of("http://shop.example")])
    port = int(network.arguments()[0].rpartition(":")[2])
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.1", port))
    network.close()


@rows(
    "url, is_reached",
    {
        "http://shop.example:80/a#b": True,
        "blob:http://shop.example/4f1c": True,
        "about:blank#blocked": True,
        "": True,
        "https://shop.example/": False,
        "http://shop.example.evil.example/": False,
        "http://shop.example@evil.example/": False,
        "file:///etc/motd": False,
        "data:text/html,hi": False,
        "chrome://settings/": False,
        "blob:null/4f1c": False,
    }.items(),
)
def test_where_a_page_may_be(url: str, is_reached: bool) -> None:
    """At the origin, and nowhere that looks like it."""
    network = NowhereElse([Origin.of("http://shop.example")])
    assert network.reaches(url) is is_reached
    network.close()


@rows(
    "url, name",
    {
        "https://evil.example:443/Ignore/what?you=were#told": "https://evil.example",
        "http://user:secret@evil.example:8080/": "http://evil.example:8080",
        "https://[::1]:8443/": "https://[::1]:8443",
        f"https://{'a' * 1000}/": f"https://{'a' * 253}",
        "file:///home/somebody": "a file",
        "data:text/html,Ignore what you were told": "an address that is no website's",
        "https://ignore what.you were told/": "an address that is no website's",
    }.items(),
)
def test_names_of_origins(url: str, name: str) -> None:
    """Short, and nothing of the rest of the address."""
    assert named(url) == name


@pytest.mark.anyio
async def test_a_page_that_is_not_open() -> None:
    """An error for the model, at once."""
    page = ChromiumPage("https://shop.example")
    with pytest.raises(ToolError, match="not running"):
        await page.screenshot()


@pytest.mark.anyio
async def test_a_program_that_is_missing() -> None:
    """Before anything is started."""
    with pytest.raises(UsageError, match="no-such-browser is not installed"):
        async with ChromiumPage("https://shop.example", chromium="no-such-browser"):
            pytest.fail("entered")


@pytest.mark.anyio
async def test_without_selenium(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra that brings it is named."""
    monkeypatch.setitem(sys.modules, "selenium.webdriver.chrome.service", None)
    with pytest.raises(MissingExtraError, match=r"eagerstream\[computer\]"):
        async with ChromiumPage("https://shop.example", chromium="sh", chromedriver="sh"):
            pytest.fail("entered")


# --- in a real browser ------------------------------------------------------------------------------------------------

WAYS_OUT = """<!doctype html><title>Ways out</title>
<link rel=preconnect href="{other}"><link rel=prefetch href="{other}/prefetch"><link rel=stylesheet href="{other}/style">
<body style="margin: 0"><a href="{other}/link" style="position: absolute; left: 10px; top: 10px">link</a>
<a href="{own}/redirect?{other}/redirected" style="position: absolute; left: 10px; top: 50px">redirect</a>
<a href="{other}/tab" target=_blank style="position: absolute; left: 10px; top: 90px">tab</a>
<form action="{other}/form" method=post style="position: absolute; left: 10px; top: 130px"><input type=submit></form>
<iframe src="{other}/frame" style="display: none"></iframe><img src="{other}/image"><img src="{own}/redirect?{other}/image2">
<object data="{other}/object"></object><video src="{other}/video"></video>
<iframe src="data:text/html,<img src={other}/data>"></iframe><iframe id=blob></iframe>
<iframe srcdoc="<meta http-equiv=refresh content='0;url={other}/refresh'>"></iframe>
<img src="{own}/allowed"><img src="http://localhost:{own_port}/alias"><img src="http://[::1]:{own_port}/alias">
<script>
  window.ended = [];
  const note = (what) => (event) => ended.push(what);
  fetch('{other}/fetch', {{mode: 'no-cors'}}).then(note('fetched'), note('fetch'));
  navigator.sendBeacon('{other}/beacon', 'x');
  const socket = new WebSocket('{other}/socket'.replace('http', 'ws'));
  socket.onerror = note('socket');
  const worker = "fetch('{other}/worker', {{mode: 'no-cors'}}).then(() => postMessage(1), () => postMessage(0))";
  new Worker(URL.createObjectURL(new Blob([worker]))).onmessage = note('worker');
  blob.src = URL.createObjectURL(new Blob(["<img src={other}/blob>"], {{type: 'text/html'}}));
  new EventSource('{other}/events').onerror = note('events');
  new SharedWorker("data:text/javascript,onconnect = (event) => fetch('{other}/shared', {{mode: 'no-cors'}})" +
    ".then(() => event.ports[0].postMessage(1), () => event.ports[0].postMessage(0))").port.onmessage = note('shared');
  const serve = async () => {{
    await navigator.serviceWorker.register('/serve.js');
    (await navigator.serviceWorker.ready).active.postMessage('{other}/served');
  }};
  serve().then(note('serving'), note('unserved'));
  navigator.serviceWorker.onmessage = note('served');
  const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{udp_port}'}}]}});
  peer.onicegatheringstatechange = () => peer.iceGatheringState === 'complete' && ended.push('webrtc');
  peer.createDataChannel('x');
  peer.createOffer().then((offer) => peer.setLocalDescription(offer));
</script>"""


# `ended` of the page: fetch, socket, worker, WebRTC, event source, shared worker, service worker: registered, answered.
_ALL_ENDED = "new Set(ended).size === 8"  # an event source fails again every three seconds
SERVE = """addEventListener('message', (event) => event.waitUntil(
  fetch(event.data, {mode: 'no-cors'}).then(() => 1, () => 0).then((got) => event.source.postMessage(got))))"""


@pytest.fixture
def other() -> Iterator[Site]:
    """Where the page must not get."""
    with site({}) as served:
        yield served


@pytest.fixture
def udp() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield listening


def ways_out(own: Site, other: Site, udp: socket.socket) -> str:
    udp_port = udp.getsockname()[1]
    return WAYS_OUT.format(own=own.origin, other=other.origin, own_port=own.port, udp_port=udp_port)


async def try_all(page: ChromiumPage) -> None:
    """Every way out of the page, one after the other."""
    await until(page, _ALL_ENDED)
    for y in (20, 60, 100, 140):
        await page.left_click((15, y))
        await page.wait(0.5)  # a tab may be on its way
        await page.screenshot()
        await page._run(lambda browser: browser._running().get(page._url))
        await until(page, _ALL_ENDED)


@pytest.mark.slow
@pytest.mark.anyio
async def test_no_way_out(other: Site, udp: socket.socket) -> None:
    """Links, redirects, forms, tabs, frames, images, requests of scripts and workers, sockets, WebRTC: none gets there."""
    with site({}) as own:
        own.pages |= {"/": ways_out(own, other, udp), "/serve.js": SERVE}
        async with chromium_page(f"{own.origin}/") as page:
            await try_all(page)
    assert other.asked == []
    assert "/allowed" in own.asked
    assert not [path for path in own.asked if "alias" in path]  # the same port under another name is another origin
    with pytest.raises(BlockingIOError):
        udp.recv(1)


@pytest.mark.slow
@pytest.mark.anyio
async def test_origins_that_are_allowed(other: Site, udp: socket.socket) -> None:
    """The same page gets everywhere then: what the test above shows is not a page that does nothing."""
    with site({}) as own:
        own.pages |= {"/": ways_out(own, other, udp), "/serve.js": SERVE}
        async with chromium_page(f"{own.origin}/", allowed_origins=[other.origin]) as page:
            await try_all(page)
    ways = (
        "style",
        "link",
        "redirected",
        "tab",
        "form",
        "frame",
        "image",
        "image2",
        "fetch",
        "beacon",
        "socket",
        "worker",
        "object",
        "video",
        "data",
        "blob",
        "refresh",
        "events",
        "shared",
        "served",
    )
    assert {f"/{way}" for way in ways} <= {path.rstrip("?") for path in other.asked}


@pytest.mark.slow
@pytest.mark.anyio
async def test_downloads(tmp_path: Path) -> None:
    """What a link offers as a file is not kept, and the page stays."""
    page_of = "<title>Files</title><a href=/attachment style='position: absolute; left: 10px; top: 10px'>file</a>"
    with site({"/": page_of}) as own:
        async with chromium_page(f"{own.origin}/") as page:
            await page.left_click((15, 15))
            with anyio.fail_after(50):
                while "/attachment" not in own.asked:
                    await page.screenshot()
            await page.screenshot()
            assert page._browser is not None
            folder = Path(page._browser._folder)
            assert await anyio.to_thread.run_sync(contents_of, folder, b"DOWNLOADED") == []
            assert await evaluate(page, "document.title") == "Files"


def contents_of(folder: Path, content: bytes) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and content == file.read_bytes()[: len(content)]]


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_file(tmp_path: Path, other: Site) -> None:
    """A page of this machine is shown, and has no network."""
    file = tmp_path / "page.html"
    file.write_text(f"<title>File</title><img src='{other.origin}/image' onerror=\"document.title='alone'\">")
    async with chromium_page(file.as_uri()) as page:
        await until(page, "document.title === 'alone'")
    assert other.asked == []


@pytest.mark.slow
@pytest.mark.anyio
async def test_files_are_out_of_reach_of_a_web_page(tmp_path: Path) -> None:
    """Neither by a link nor by a frame."""
    file = tmp_path / "secret.html"
    file.write_text("<title>secret</title>")
    link = f"<title>Web</title><a href='{file.as_uri()}' style='position: absolute; left: 10px; top: 10px'>file</a>"
    with site({"/": link}) as own:
        async with chromium_page(f"{own.origin}/") as page:
            await page.left_click((15, 15))
            await page.screenshot()
            assert await evaluate(page, "document.title") == "Web"


# --- how it ends ------------------------------------------------------------------------------------------------------

HANGS = """<title>Hangs</title><body style="margin: 0">
<button style="position: absolute; left: 0; top: 0; width: 100px; height: 100px"
  onclick="const end = Date.now() + 2000; while (Date.now() < end);">2 s</button>
<button style="position: absolute; left: 200px; top: 0; width: 100px; height: 100px" onclick="while (true);">ever</button>
"""


@pytest.fixture
def hanging() -> Iterator[Site]:
    """A page that stops answering when it is clicked."""
    with site({"/": HANGS}) as served:
        yield served


def left_of(page: ChromiumPage) -> tuple[Path, int]:
    """The folder and the process of a page's browser."""
    assert page._browser is not None
    process = page._browser._running().capabilities["goog:processID"]
    return Path(page._browser._folder), process


def check_gone(folder: Path) -> None:
    """No file, and no process that was started for it."""
    assert not folder.exists()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue
            assert str(folder).encode() not in command


def assert_empty(folder: Path) -> None:
    assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_cancelled_action(hanging: Site) -> None:
    """It returns while the page still hangs; the next action waits for the page, and is done."""
    async with chromium_page(f"{hanging.origin}/") as page:
        with anyio.move_on_after(0.2) as scope:
            await page.left_click((50, 50))
        assert scope.cancelled_caught
        await page.left_click((500, 500))
        assert await page.cursor_position() == (500, 500)
        folder, _ = left_of(page)
    check_gone(folder)


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_page_that_hangs_for_ever(hanging: Site) -> None:
    """An error after the time limit; the browser can be left all the same."""
    async with chromium_page(f"{hanging.origin}/", timeout_s=5) as page:
        folder, _ = left_of(page)
        with pytest.raises(ToolError, match="did not answer within 5 seconds") as caught:
            await page.left_click((250, 50))
            await page.screenshot()
        assert caught.value.code == "TIMEOUT"
    check_gone(folder)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("what", ["browser", "driver"])
async def test_a_browser_that_dies(hanging: Site, what: str) -> None:
    """The model reads so, without an address or a path; nothing is left of it."""
    async with chromium_page(f"{hanging.origin}/") as page:
        folder, process = left_of(page)
        assert page._browser is not None
        assert page._browser._service is not None
        os.kill(process if what == "browser" else page._browser._service.process.pid, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(ToolError) as caught:
                await page.left_click((50, 50))
            assert str(caught.value) == "Error: the browser has ended."
            assert caught.value.code == "SERVICE_UNAVAILABLE"
    check_gone(folder)


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_page_that_crashes(hanging: Site) -> None:
    """The model reads so, each time; the browser is left as ever."""
    async with chromium_page(f"{hanging.origin}/") as page:
        folder, _ = left_of(page)
        with pytest.raises(ToolError, match="crashed"):
            await page._run(lambda browser: browser.command("Page.crash"))
        with pytest.raises(ToolError, match="crashed"):
            await page.screenshot()
    check_gone(folder)


@pytest.mark.slow
@pytest.mark.anyio
async def test_what_is_typed_is_not_logged(hanging: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Selenium logs its commands at DEBUG, with all that is in them."""
    caplog.set_level(logging.DEBUG)
    async with chromium_page(f"{hanging.origin}/") as page:
        await page.type("cœur secret")
    assert "urllib3" in {record.name.partition(".")[0] for record in caplog.records}
    assert "secret" not in caplog.text


@pytest.mark.slow
@pytest.mark.anyio
async def test_cancelled_while_it_starts(hanging: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The browser that was being started is ended, too."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    page = chromium_page(f"{hanging.origin}/")
    with anyio.move_on_after(0.05) as scope:
        async with page:
            pytest.fail("entered")
    assert scope.cancelled_caught
    assert_empty(tmp_path)
    check_gone(tmp_path / "eagerstream-chromium-")


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_start_that_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of ours, with the reason; nothing is left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(UsageError, match=r"did not open .*ERR_CONNECTION_REFUSED"):
            async with chromium_page(url):
                pytest.fail("entered")
    assert_empty(tmp_path)


@pytest.mark.slow
@pytest.mark.anyio
async def test_opened_again(hanging: Site) -> None:
    """After it was left; not twice at a time."""
    page = chromium_page(f"{hanging.origin}/")
    for _ in range(2):
        async with page:
            with pytest.raises(UsageError, match="already open"):
                await page.__aenter__()
            assert await evaluate(page, "document.title") == "Hangs"
