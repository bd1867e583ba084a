"""`ChromiumPage`: Claude's mouse and keyboard in a real browser, and a real page that sees them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream.builtin import ChromiumPage, Computer
from eagerstream.errors import ToolError
from eagerstream.testing import ReplayServer, Scenario, Scripted, reply, text, tool_use
from tests.builtin.browsers import chromium_page, evaluate, open_page, until
from tests.builtin.sites import Site, site
from tests.support import REQUEST, anthropic_client

PAGE = """<!doctype html><meta charset=utf-8><title>Form</title>
<style>
  body { margin: 0; height: 3000px; background: white; }
  body > * { position: absolute; }
  button, input, textarea { left: 100px; width: 200px; height: 40px; box-sizing: border-box; }
</style>
<button style="top: 50px" onclick="document.body.style.background = 'rgb(0, 128, 0)'">Green</button>
<input id=name style="top: 150px">
<div style="left: 100px; top: 900px; width: 200px; height: 200px; background: rgb(0, 0, 255)"></div>
"""

EVENTS = """<!doctype html><meta charset=utf-8><title>Events</title>
<style>
  body { margin: 0; width: 3000px; height: 3000px; }
  body > * { position: absolute; left: 100px; width: 200px; height: 40px; box-sizing: border-box; margin: 0; }
</style>
<p id=words style="top: 0; font: 20px monospace">alpha beta</p>
<textarea id=area style="top: 100px; height: 100px"></textarea>
<select id=choice style="top: 250px"><option>one<option>two<option>three</select>
<div id=from draggable=true style="top: 300px; background: red"></div>
<div id=to style="top: 400px; background: blue"></div>
<input id=slider type=range min=0 max=100 value=0 style="top: 500px">
<button id=alert style="top: 550px" onclick="alert('Sure?\\nReally?')">alert</button>
<button id=early style="top: 600px" onmousedown="alert('down')">alert</button>
<div id=asks style="left: 400px; top: 50px; background: green"></div>
<a id=tab style="top: 650px" href="/tab" target=_blank>tab</a>
<a id=slow style="top: 700px" href="/next">next</a>
<script>
  const seen = [];
  for (const type of ['mousedown', 'mouseup', 'mousemove', 'click', 'dblclick', 'auxclick', 'contextmenu', 'keydown', 'keyup', 'drop', 'wheel'])
    addEventListener(type, (event) => {
      const held = ['ctrlKey', 'shiftKey', 'altKey', 'metaKey'].filter((name) => event[name]).join();
      seen.push([type, event.key ?? [event.clientX, event.clientY].join(), event.button ?? event.repeat, held].join(' '));
    }, {capture: true});
  to.addEventListener('dragover', (event) => event.preventDefault());
  asks.addEventListener('mousemove', (event) => event.buttons && alert('dragging'));
  addEventListener('contextmenu', (event) => event.preventDefault());
</script>
"""
TAB = "<title>Tab</title><body style='margin: 0'><button style='width: 300px; height: 300px' onclick='window.close()'>close</button>"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: the browser runs in a thread. `test_computer_confined` has both, and cancels and ends browsers."""
    return "asyncio"


@pytest.fixture(scope="module")
def our_site() -> Iterator[Site]:
    with site({"/": PAGE, "/events": EVENTS, "/tab": TAB, "/next": "<title>Next</title>next"}) as served:
        yield served


@pytest.fixture(scope="module")
async def page(our_site: Site, anyio_backend: Any) -> AsyncIterator[ChromiumPage]:
    """One browser for the module: starting one takes a second."""
    async with chromium_page(f"{our_site.origin}/") as opened:
        yield opened


@pytest.fixture
async def events(page: ChromiumPage, our_site: Site) -> ChromiumPage:
    """The page that remembers what happens, anew."""
    await open_page(page, f"{our_site.origin}/events")
    return page


def pixels(png: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(png)).convert("RGB")


async def seen(page: ChromiumPage, *types: str) -> list[str]:
    """The events of these types that the page has seen since it was asked last."""
    events = json.loads(await evaluate(page, "JSON.stringify(seen.splice(0))"))
    return [event for event in events if event.partition(" ")[0] in types]


def action(name: str, input: dict[str, Any]) -> Scripted:
    """A call of the toolset's."""
    call = tool_use(name, input, fragment_chars=10_000)
    return replace(call, block={**call.block, "toolset_name": "computer"})


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_session(page: ChromiumPage, our_site: Site) -> None:
    """Look, click, type, scroll, look: the page was changed, and the model sees it in the next screenshot."""
    await open_page(page, f"{our_site.origin}/")
    scenario = Scenario(
        reply(action("screenshot", {})),
        reply(
            action("left_click", {"coordinate": [200, 70]}),
            action("left_click", {"coordinate": [200, 170]}),
            action("type", {"text": "Zoë 你好\n"}),
            action("scroll", {"coordinate": [500, 500], "scroll_direction": "down", "scroll_amount": 5}),
            action("screenshot", {}),
            action("zoom", {"region": [100, 400, 300, 550]}),
            action("cursor_position", {}),
        ),
        reply(text("Done.")),
    )
    async with ReplayServer(scenario) as server, anthropic_client(server.base_url) as client:
        async with eagerstream.run(client, tools=[Computer(page)], **REQUEST) as run:
            await run.finish()
        requests = server.requests
    assert not any(call.is_error for call in run.result.calls)
    assert await evaluate(page, "document.getElementById('name').value") == "Zoë 你好"
    assert await evaluate(page, "scrollY") == 500
    images = [
        pixels(base64.b64decode(block["source"]["data"]))
        for message in requests[2].body["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
        for result in message["content"]
        for block in (result["content"] if isinstance(result["content"], list) else [])
    ]
    before, after, zoomed = images
    assert before.size == after.size == (1024, 768)
    assert (before.getpixel((800, 300)), after.getpixel((800, 300))) == ((255, 255, 255), (0, 128, 0))
    assert before.getpixel((200, 500)) == (255, 255, 255)
    assert after.getpixel((200, 500)) == (0, 0, 255)  # what was below
    assert zoomed.size == (1024, 768)
    assert zoomed.getpixel((5, 5)) == zoomed.getpixel((1000, 700)) == (0, 0, 255)
    assert run.result.calls[-1].result == {
        "type": "tool_result",
        "tool_use_id": run.result.calls[-1].id,
        "content": "X=500,Y=500",
        "toolset_name": "computer",
    }


# --- the mouse --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.anyio
async def test_clicks(events: ChromiumPage) -> None:
    """Buttons and modifiers arrive as they are; without a point it is where the mouse is."""
    await events.left_click((500, 100), holding="ctrl+shift")
    assert await seen(events, "mousedown", "click", "keydown", "keyup") == [
        "keydown Control false ctrlKey",
        "keydown Shift false ctrlKey,shiftKey",
        "mousedown 500,100 0 ctrlKey,shiftKey",
        "click 500,100 0 ctrlKey,shiftKey",
        "keyup Shift false ctrlKey",
        "keyup Control false ",
    ]
    await events.right_click((510, 110))
    assert await seen(events, "mousedown", "contextmenu", "click") == ["mousedown 510,110 2 ", "contextmenu 510,110 2 "]
    await events.middle_click()
    assert await seen(events, "mousedown", "auxclick", "click") == ["mousedown 510,110 1 ", "auxclick 510,110 1 "]
    assert await events.cursor_position() == (510, 110)


@pytest.mark.slow
@pytest.mark.anyio
async def test_double_and_triple_clicks(events: ChromiumPage) -> None:
    """Two select the word, three the line."""
    await events.double_click((120, 10))
    assert await evaluate(events, "getSelection().toString()") == "alpha"
    assert "dblclick 120,10 0 " in await seen(events, "dblclick")
    await events.triple_click((120, 10))
    assert (await evaluate(events, "getSelection().toString()")).strip() == "alpha beta"


@pytest.mark.slow
@pytest.mark.anyio
async def test_dragging(events: ChromiumPage) -> None:
    """An element that can be dragged is dropped; a slider follows, also by single steps."""
    await events.left_click_drag((150, 320), (150, 420))
    assert await seen(events, "drop") == ["drop 150,420 0 "]
    await events.left_click_drag((108, 520), (290, 520))
    assert int(await evaluate(events, "slider.value")) > 90
    await events.mouse_move((292, 520))
    await events.left_mouse_down()
    await events.mouse_move((200, 520))
    await events.left_mouse_up()
    await events.mouse_move((110, 520))
    assert 40 < int(await evaluate(events, "slider.value")) < 60


@pytest.mark.slow
@pytest.mark.anyio
async def test_scrolling(events: ChromiumPage) -> None:
    """By clicks of 100 pixels, in all directions; zoom shows what a scrolled page shows."""
    await events.scroll("down", 4, (600, 400))
    await events.scroll("right", 3)
    await until(events, "scrollX === 300 && scrollY === 400")
    await events.scroll("up", 1)
    await events.scroll("left", 1)
    await until(events, "scrollX === 200 && scrollY === 300")
    await evaluate(events, "document.getElementById('to').style.left = '300px'")  # now at 100,100
    assert pixels(await events.screenshot()).getpixel((110, 120)) == (0, 0, 255)
    assert pixels(await events.zoom((100, 100, 200, 140))).getpixel((10, 10)) == (0, 0, 255)
    await events.scroll("down", 1, holding="shift")
    assert "shiftKey" in (await seen(events, "wheel"))[-1]


# --- the keyboard -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(
    "typed",
    ["Hello, World! 1+1=2", "line\nnext line\n", "Zoë 你好 😀 e\u0301", "<b>&amp;</b>", "x" * 600 + "\n" + "é" * 600],
    ids=["ASCII", "lines", "other letters", "markup", "long"],
)
async def test_typing(events: ChromiumPage, typed: str) -> None:
    """What is typed is what the field holds."""
    await events.left_click((150, 150))
    await events.type(typed)
    assert await evaluate(events, "area.value") == typed


@pytest.mark.slow
@pytest.mark.anyio
async def test_keys(events: ChromiumPage) -> None:
    """Combinations do what they do on a keyboard; Tab goes on to the next field."""
    await events.left_click((150, 150))
    await events.type("one two")
    await events.key("ctrl+a")
    await events.key("BackSpace")
    await events.type("ab\t")
    await seen(events)
    await events.key("Down", repeat=2)
    assert await seen(events, "keydown") == ["keydown ArrowDown false "] * 2
    assert await evaluate(events, "area.value + ' ' + choice.value") == "ab three"
    await events.key("shift+Tab")
    assert await evaluate(events, "document.activeElement.id") == "area"
    with pytest.raises(ToolError, match="there is no key 'hyper'"):
        await events.key("hyper+a")


@pytest.mark.slow
@pytest.mark.anyio
async def test_holding_keys(events: ChromiumPage) -> None:
    """They are let go at the end, also where holding them is cancelled."""
    await events.hold_key("shift+a", 0.01)
    held = ["keydown Shift false shiftKey", "keydown A false shiftKey", "keyup A false shiftKey", "keyup Shift false "]
    assert await seen(events, "keydown", "keyup") == held
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events.hold_key, "shift+a", 300)
        await until(events, "seen.some((event) => event.startsWith('keydown A'))")
        await seen(events)
        tasks.cancel_scope.cancel()
    assert await seen(events, "keyup") == held[2:]


# --- dialogs, tabs, other pages ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(("y", "said"), [(570, "Sure? Really?"), (620, "down")], ids=["at the end", "in the middle"])
async def test_dialogs(events: ChromiumPage, y: int, said: str) -> None:
    """They are dismissed, and the model reads what they said; the page goes on."""
    note = await events.left_click((150, y))
    assert note == f"The page opened a dialog, which was dismissed: {said}"
    assert pixels(await events.screenshot()).size == (1024, 768)
    assert await events.left_click((600, 600)) is None


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_dialog_while_dragging(events: ChromiumPage) -> None:
    """The drag ends there, and the button is let go: what follows drags nothing."""
    note = await events.left_click_drag((410, 60), (590, 80))
    assert note == "The page opened a dialog, which was dismissed: dragging"
    assert await evaluate(events, "addEventListener('mousemove', (event) => window.buttons = event.buttons)") is None
    await events.mouse_move((600, 600))
    assert await evaluate(events, "buttons") == 0


@pytest.mark.slow
@pytest.mark.anyio
async def test_tabs(events: ChromiumPage) -> None:
    """A link that opens a tab leads there, in the same size; closing it leads back."""
    await events.left_click((110, 660))
    await until(events, "document.title === 'Tab'")
    assert pixels(await events.screenshot()).size == (1024, 768)
    await events.left_click((150, 150))
    await until(events, "document.title === 'Events'")


@pytest.mark.slow
@pytest.mark.anyio
async def test_following_a_link(events: ChromiumPage) -> None:
    """The next look waits for the page that a click leads to."""
    await events.left_click((110, 710))
    await events.screenshot()
    assert await evaluate(events, "document.title") == "Next"
