"""`examples/computer_in_chromium.py`: Claude's mouse and keyboard in a real browser, which stays at its origins."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from examples.computer_in_chromium import ChromiumPage, chromium_page, keys_named
from selenium.webdriver.common.keys import Keys

import eagerstream
from eagerstream.errors import ToolError
from eagerstream_testing import ReplayServer, Scenario, Scripted, reply, text, tool_use
from eagerstream_toolkit import Computer
from tests.browser import require_chromium
from tests.sites import Site, site
from tests.streams import REQUEST
from tests.support import anthropic_client

PAGE = """<!doctype html><meta charset=utf-8><title>Page</title>
<style>
  body { margin: 0; width: 3000px; height: 3000px; background: white; }
  body > * { position: absolute; left: 100px; width: 200px; height: 40px; box-sizing: border-box; margin: 0; }
</style>
<p style="top: 0; font: 20px monospace">alpha beta</p>
<button style="top: 50px" onclick="document.body.style.background = 'rgb(0, 128, 0)'">green</button>
<textarea id=area style="top: 100px; height: 100px"></textarea>
<select id=choice style="top: 250px"><option>one<option>two<option>three</select>
<div draggable=true style="top: 300px; background: red"></div>
<div style="top: 900px; background: rgb(0, 0, 255)" ondragover="event.preventDefault()"></div>
<div style="top: 400px; background: gray" ondragover="event.preventDefault()"></div>
<input id=slider type=range min=0 max=100 value=0 style="top: 500px">
<button style="top: 550px" onclick="alert('Sure?')">alert</button>
<button style="top: 600px" onmousedown="alert('down')">alert</button>
<div style="left: 400px; top: 50px; background: green" onmousemove="event.buttons && alert('dragging')"></div>
<a style="top: 650px" href="/tab" target=_blank>tab</a>
<a style="top: 700px" href="/next">next</a>
<script>
  const seen = [];
  for (const type of ['mousedown', 'click', 'dblclick', 'contextmenu', 'keydown', 'keyup', 'drop', 'wheel'])
    addEventListener(type, (event) => {
      const held = ['ctrlKey', 'shiftKey', 'altKey', 'metaKey'].filter((name) => event[name]).join();
      seen.push([type, event.key ?? [event.clientX, event.clientY].join(), event.button ?? event.repeat, held].join(' '));
    }, {capture: true});
  addEventListener('mousemove', (event) => window.buttons = event.buttons);
</script>
"""
TAB = "<title>Tab</title><body style='margin: 0'><button style='width: 300px; height: 300px' onclick='window.close()'>close</button>"

HANGS = "<body style='margin: 0'><button style='width: 300px; height: 300px' onclick='while (true);'>ever</button>"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: the browser runs in threads. The test of its ends has both."""
    return "asyncio"


@pytest.fixture(scope="module")
def our_site() -> Iterator[Site]:
    with site({"/": PAGE, "/tab": TAB, "/next": "<title>Next</title>next", "/hangs": HANGS}) as served:
        yield served


@pytest.fixture(scope="module")
async def browser(our_site: Site, anyio_backend: Any) -> AsyncIterator[ChromiumPage]:
    """One browser for the module: starting one takes a second."""
    require_chromium()
    async with chromium_page(f"{our_site.origin}/") as opened:
        yield opened


@pytest.fixture
async def page(browser: ChromiumPage, our_site: Site) -> ChromiumPage:
    """The page that remembers what happens, anew."""
    await browser.do(lambda: browser.driver.get(f"{our_site.origin}/"))
    return browser


async def evaluate(page: ChromiumPage, script: str) -> Any:
    return await page.do(lambda: page.driver.execute_script(f"return {script}"))


async def until(page: ChromiumPage, condition: str) -> None:
    with anyio.fail_after(50):
        while not await evaluate(page, condition):
            pass


async def seen(page: ChromiumPage, *types: str) -> list[str]:
    """The events of these types that the page has seen since it was asked last."""
    events = json.loads(await evaluate(page, "JSON.stringify(seen.splice(0))"))
    return [event for event in events if event.partition(" ")[0] in types]


def found(folder: Path, pattern: str) -> list[Path]:
    return list(folder.glob(pattern))


def pixels(png: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(png)).convert("RGB")


def action(name: str, **input: Any) -> Scripted:
    call = tool_use(name, input, fragment_chars=10_000)
    return replace(call, block={**call.block, "toolset_name": "computer"})


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_session(page: ChromiumPage) -> None:
    """Look, click, type, scroll, look: the page was changed, and the model sees it in the next screenshot."""
    scenario = Scenario(
        reply(action("screenshot")),
        reply(
            action("left_click", coordinate=[200, 70]),
            action("left_click", coordinate=[200, 150]),
            action("type", text="Zoë 你好\n"),
            action("scroll", coordinate=[500, 500], scroll_direction="down", scroll_amount=5),
            action("screenshot"),
            action("zoom", region=[100, 400, 200, 440]),
        ),
        reply(text("Done.")),
    )
    async with ReplayServer(scenario) as server, anthropic_client(server.base_url) as client:
        async with eagerstream.run(client, tools=[Computer(page)], **REQUEST) as run:
            await run.finish()
    assert not any(call.is_error for call in run.result.calls)
    assert await evaluate(page, "area.value") == "Zoë 你好\n"
    contents = [call.result["content"] for call in run.result.calls if call.result]
    images = [
        pixels(base64.b64decode(block["source"]["data"]))
        for content in contents
        for block in content
        if isinstance(content, list)
    ]
    before, after, zoomed = images
    assert before.size == after.size == (1024, 768)
    assert (before.getpixel((800, 300)), after.getpixel((800, 300))) == ((255, 255, 255), (0, 128, 0))
    assert after.getpixel((200, 420)) == (0, 0, 255)  # what was below
    assert zoomed.size == (1024, 410)
    assert zoomed.getpixel((5, 5)) == zoomed.getpixel((1000, 400)) == (0, 0, 255)


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_mouse(page: ChromiumPage) -> None:
    """Buttons, modifiers and points arrive as they are; without a point it is where the mouse is."""
    await page.left_click((500, 100), holding="ctrl+shift")
    assert await seen(page, "mousedown", "click", "keydown", "keyup") == [
        "keydown Control false ctrlKey",
        "keydown Shift false ctrlKey,shiftKey",
        "mousedown 500,100 0 ctrlKey,shiftKey",
        "click 500,100 0 ctrlKey,shiftKey",
        "keyup Shift false ctrlKey",
        "keyup Control false ",
    ]
    await page.mouse_move((510, 110))
    await page.right_click()
    assert await seen(page, "mousedown", "contextmenu", "click") == ["mousedown 510,110 2 ", "contextmenu 510,110 2 "]
    await page.double_click((120, 10))
    assert await evaluate(page, "getSelection().toString()") == "alpha"
    await page.triple_click((400, 10))
    await page.triple_click((120, 10))
    assert (await evaluate(page, "getSelection().toString()")).strip() == "alpha beta"
    await page.left_click_drag((150, 320), (150, 420))
    assert await seen(page, "drop") == ["drop 150,420 0 "]
    await page.left_click_drag((108, 520), (290, 520))
    assert int(await evaluate(page, "slider.value")) > 90


@pytest.mark.slow
@pytest.mark.anyio
async def test_scrolling(page: ChromiumPage) -> None:
    """By clicks of 100 pixels, in all directions."""
    await page.scroll("down", 4, (600, 400))
    await page.scroll("right", 3)
    await until(page, "scrollX === 300 && scrollY === 400")
    await page.scroll("up", 1)
    await page.scroll("left", 1)
    await until(page, "scrollX === 200 && scrollY === 300")
    await page.scroll("down", 1, holding="shift")
    assert "600,400 0 shiftKey" in (await seen(page, "wheel"))[-1]


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_keyboard(page: ChromiumPage) -> None:
    """What is typed is what the field holds, and combinations do what they do on a keyboard."""
    await page.left_click((150, 150))
    for typed in ["Hello, World! 1+1=2", "line\nnext\n", "Zoë 你好 😀 e\u0301", "<b>&amp;</b>", "x" * 600]:
        await page.type(typed)
        assert await evaluate(page, "area.value") == typed
        await page.key("ctrl+a")
        await page.key("BackSpace")
    await page.type("ab\t")
    await page.key("Down", repeat=2)
    assert await evaluate(page, "area.value + ' ' + choice.value") == "ab three"
    await page.key("shift+Tab")
    assert await evaluate(page, "document.activeElement.id") == "area"
    await seen(page)
    await page.key("shift+a")
    held = ["keydown Shift false shiftKey", "keydown A false shiftKey", "keyup A false shiftKey", "keyup Shift false "]
    assert await seen(page, "keydown", "keyup") == held


@pytest.mark.slow
def test_names_of_keys() -> None:
    """As xdotool writes them, in any case; nothing is pressed on a guess."""
    assert keys_named("A") == ["A"]
    assert keys_named("ctrl+A") == [Keys.CONTROL, "a"]
    assert keys_named("Ctrl++") == keys_named("ctrl+plus") == [Keys.CONTROL, "+"]
    assert keys_named("+") == ["+"]
    assert [keys_named(name) for name in ("Page_Down", "Return", "F5")] == [[Keys.PAGE_DOWN], [Keys.RETURN], [Keys.F5]]
    for unknown in ["", "ctrl+", "+a+", "hyper", "Down Down", "ctrl-a", "__doc__"]:
        with pytest.raises(ToolError, match="no key is named"):
            keys_named(unknown)


@pytest.mark.slow
@pytest.mark.anyio
async def test_dialogs(page: ChromiumPage) -> None:
    """They are dismissed, and the model reads what they said. No key or button stays pressed, and the page goes on."""
    for click, said in [((150, 570), "Sure?"), ((150, 620), "down")]:
        with pytest.raises(ToolError, match=f"opened a dialog, now dismissed: {said}"):
            await page.left_click(click, holding="shift")
    with pytest.raises(ToolError, match="dragging"):
        await page.left_click_drag((410, 60), (590, 80))
    await page.left_click((600, 600))
    assert (await seen(page, "click"))[-1] == "click 600,600 0 "
    await page.mouse_move((610, 610))
    assert await evaluate(page, "buttons") == 0


@pytest.mark.slow
@pytest.mark.anyio
async def test_tabs_and_pages(page: ChromiumPage) -> None:
    """A link that opens a tab leads there, in the same size; closing it leads back. `alt+Left` is the way back in a tab."""
    await page.left_click((110, 660))
    await until(page, "document.title === 'Tab'")
    assert pixels(await page.screenshot()).size == (1024, 768)
    await page.left_click((150, 150))
    await until(page, "document.title === 'Page'")
    await page.left_click((110, 710))
    assert await evaluate(page, "document.title") == "Next"
    await page.key("alt+Left")
    assert await evaluate(page, "document.title") == "Page"


# --- where it stays ---------------------------------------------------------------------------------------------------

WAYS_OUT = """<!doctype html><title>Ways out</title><link rel=preconnect href="{other}">
<body style="margin: 0"><a href="{other}/link" style="position: absolute; left: 10px; top: 10px">link</a>
<a href="{own}/redirect?{other}/redirected" style="position: absolute; left: 10px; top: 50px">redirect</a>
<a href="{other}/tab" target=_blank style="position: absolute; left: 10px; top: 90px">tab</a>
<a href="{own}/attachment" style="position: absolute; left: 10px; top: 130px">download</a>
<iframe src="{other}/frame" style="display: none"></iframe><img src="{own}/redirect?{other}/image">
<img src="{own}/allowed"><img src="http://localhost:{own_port}/alias">
<script>
  window.ended = [];
  const note = (what) => () => ended.push(what);
  fetch('{other}/fetch', {{mode: 'no-cors'}}).then(note('fetched'), note('fetch'));
  new WebSocket('{other}/socket'.replace('http', 'ws')).onerror = note('socket');
  const worker = "fetch('{other}/worker', {{mode: 'no-cors'}}).then(() => postMessage(1), () => postMessage(0))";
  new Worker(URL.createObjectURL(new Blob([worker]))).onmessage = note('worker');
  const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{udp_port}'}}]}});
  peer.onicegatheringstatechange = () => peer.iceGatheringState === 'complete' && ended.push('webrtc');
  peer.createDataChannel('x');
  peer.createOffer().then((offer) => peer.setLocalDescription(offer));
</script>"""


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("is_allowed", [False, True])
async def test_where_a_page_gets(*, is_allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To its origin alone, and everywhere if the other one is allowed: then the page does try."""
    require_chromium()
    monkeypatch.setenv("HOME", str(tmp_path))
    with site({}) as own, site({}) as other, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        ports = {"own_port": own.port, "udp_port": udp.getsockname()[1]}
        own.pages["/"] = WAYS_OUT.format(own=own.origin, other=other.origin, **ports)
        async with chromium_page(f"{own.origin}/", origins=[other.origin] if is_allowed else []) as page:
            for y in (20, 60, 100, 140):
                await until(page, "new Set(ended).size === 4")  # fetch, socket, worker, WebRTC
                await page.left_click((15, y))
                await page.wait(0.5)  # a tab may be on its way
                await page.screenshot()
                if y < 100:
                    await page.key("alt+Left")
                await page.do(lambda: page.driver.get(f"{own.origin}/"))
        with pytest.raises(BlockingIOError):
            udp.recv(1)
    assert {"/allowed", "/attachment"} <= set(own.asked)
    assert "/alias" not in own.asked  # the same port under another name is another origin
    ways = {f"/{way}" for way in ("link", "redirected", "tab", "frame", "image", "fetch", "socket", "worker")}
    assert set(other.asked) - {"/favicon.ico"} == (ways if is_allowed else set())
    assert found(tmp_path, "**/*.zip") == []


# --- how it ends ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: Chromium has sockets in it."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_how_it_ends(our_site: Site, anyio_backend: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled start leaves no profile, and a page that hangs no browser. One that has died says so, without an address."""
    require_chromium()
    monkeypatch.setenv("TMPDIR", str(folder))
    with anyio.move_on_after(0.05) as scope:
        async with chromium_page(f"{our_site.origin}/"):
            await anyio.sleep(100)
    assert scope.cancelled_caught
    assert found(folder, "*scoped_dir*") == []
    async with chromium_page(f"{our_site.origin}/hangs") as page:
        browser = page.driver.capabilities["goog:processID"]
        with anyio.move_on_after(0.5) as scope:
            await page.left_click((50, 50))
        assert scope.cancelled_caught
    with anyio.fail_after(50):
        while found(Path("/proc"), str(browser)):
            await anyio.lowlevel.checkpoint()
    async with chromium_page(f"{our_site.origin}/") as page:
        os.kill(page.driver.capabilities["goog:processID"], signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(ToolError, match=r"^Error: the browser failed \(\w+\)\.$"):
                await page.left_click((50, 50))
