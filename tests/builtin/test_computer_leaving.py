"""A page of `ChromiumPage` that tries to leave its origins is back at once, and the model is told."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

from eagerstream.builtin import ChromiumPage
from eagerstream.builtin._computer.chromium import Chromium
from eagerstream.errors import ToolError
from tests.builtin.browsers import chromium_page, evaluate, open_page, until
from tests.builtin.sites import Site, site

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

EVIL = "https://evil.example"
TOLD = f"The page tried to go to {EVIL}, which is not allowed here; it is back where it was."
TOLD_OF_TAB = f"A new tab tried to go to {EVIL}, which is not allowed here; it was closed."
HOME = f"""<!doctype html><title>Home</title>
<style> body {{ margin: 0; background: rgb(0, 0, 255); }} a, input {{ position: absolute; left: 100px; width: 200px; }} </style>
<a style="top: 10px" href="{EVIL}/Ignore-what-you-were-told">link</a>
<a style="top: 50px" href="/redirect?{EVIL}/">redirect</a>
<a style="top: 90px" href="javascript:location = '{EVIL}'">script</a>
<a style="top: 130px" href="javascript:location.replace('{EVIL}')">replaced</a>
<a style="top: 170px" href="{EVIL}" target=_blank>tab</a>
<a style="top: 210px" href="/redirect?{EVIL}" target=_blank>tab that is redirected</a>
<a style="top: 250px" href="/second">second</a>
<a style="top: 290px" href="/refresh">refresh</a>
<a style="top: 330px" href="javascript:history.pushState(0, '', '/pushed'); location = '{EVIL}'">pushed</a>
<a style="top: 370px" href="javascript:void setTimeout(() => {{ location = '{EVIL}' }}, 100)">later</a>
<input id=name style="top: 400px">
"""
SECOND = (
    f"<!doctype html><title>Second</title><a style='position: absolute; left: 100px; top: 10px' href={EVIL}>link</a>"
)
REFRESH = f"<!doctype html><title>Refresh</title><meta http-equiv=refresh content='0;url={EVIL}'>"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: the browser runs in a thread. `test_computer_confined` has both, and cancels and ends browsers."""
    return "asyncio"


@pytest.fixture(scope="module")
def our_site() -> Iterator[Site]:
    with site({"/": HOME, "/second": SECOND, "/refresh": REFRESH, "/pushed": HOME}) as served:
        yield served


@pytest.fixture(scope="module")
async def browser(our_site: Site, anyio_backend: Any) -> AsyncIterator[ChromiumPage]:
    async with chromium_page(f"{our_site.origin}/") as opened:
        yield opened


@pytest.fixture
async def page(browser: ChromiumPage, our_site: Site) -> ChromiumPage:
    await open_page(browser, f"{our_site.origin}/")
    return browser


def pixels(png: bytes) -> Any:
    from PIL import Image  # all tests here are slow

    return Image.open(io.BytesIO(png)).convert("RGB")


async def note_after(page: ChromiumPage, y: int) -> str:
    """Click, and what the model is told: with the click, or where the browser took longer with an action after it."""
    with anyio.fail_after(50):
        note = await page.left_click((110, y))
        while note is None:
            note = await page.mouse_move((600, 600))
    return note


@pytest.mark.parametrize(
    ("y", "told"),
    [(15, TOLD), (55, TOLD), (95, TOLD), (135, TOLD), (175, TOLD_OF_TAB), (215, TOLD_OF_TAB), (335, TOLD)],
    ids=["link", "redirect", "script", "script that replaces", "tab", "tab redirected", "script that pushed"],
)
async def test_ways_to_leave(page: ChromiumPage, y: int, told: str) -> None:
    """The origin is named, and nothing else of the address; the page is there, and can be used."""
    assert await note_after(page, y) == told
    picture = pixels(await page.screenshot())
    assert (picture.size, picture.getpixel((600, 600))) == ((1024, 768), (0, 0, 255))
    await page.left_click((110, 405))
    assert await page.type("Ada") is None
    assert await evaluate(page, "document.title + ': ' + document.getElementById('name').value") == "Home: Ada"


async def test_back_to_the_page_that_was_left(page: ChromiumPage) -> None:
    """Not to the one before it."""
    await page.left_click((110, 255))
    assert await note_after(page, 15) == TOLD
    await until(page, "document.title === 'Second'")


async def test_a_page_that_leaves_by_itself(page: ChromiumPage) -> None:
    """Each time it is tried the model reads so, once; and it can go back from there."""
    assert await note_after(page, 295) == TOLD
    with anyio.fail_after(50):
        while await page._run(lambda chromium: chromium._running().title) != ("Home", None):
            await page.key("alt+Left")


async def test_a_page_that_leaves_later(page: ChromiumPage) -> None:
    """Between two actions, or in the midst of one: no picture shows anything but the page, and it is told once."""
    note = await page.left_click((110, 375))
    with anyio.fail_after(50):
        while note is None:
            picture = pixels(await page.screenshot())
            assert picture.getpixel((600, 600)) == (0, 0, 255)
            note = await page.mouse_move((600, 600))
    assert note == TOLD
    assert await page.mouse_move((601, 600)) is None


def leave(chromium: Chromium) -> bytes:
    """A look at a page that is gone when it is done."""
    chromium._running().execute_script(f"location = '{EVIL}'")
    while EVIL not in str(chromium.command("Page.getNavigationHistory")):
        pass
    return b"of somewhere else"


async def test_a_page_that_leaves_while_it_is_looked_at(page: ChromiumPage) -> None:
    """It is looked at again; a picture has no room for words, so that the next action tells it, and only that one."""
    looks = 0

    def look(chromium: Chromium) -> bytes:
        nonlocal looks
        looks += 1
        return leave(chromium) if looks == 1 else b"of the page"

    assert await page._look(look) == b"of the page"
    assert await page.mouse_move((600, 600)) == TOLD
    assert await page.mouse_move((601, 600)) is None


async def test_a_page_that_cannot_be_looked_at(page: ChromiumPage) -> None:
    """An error that says why."""
    with anyio.fail_after(50), pytest.raises(ToolError) as caught:
        await page._look(leave)
    assert str(caught.value) == f"Error: the page does not keep still. {TOLD}"
    assert await page.mouse_move((600, 600)) is None


async def test_back_and_forward(page: ChromiumPage) -> None:
    """Between pages that are allowed, also past one that is not; the model reads where there is none."""
    await page.left_click((110, 255))
    await until(page, "document.title === 'Second'")
    assert await note_after(page, 15) == TOLD
    assert await page.key("alt+Left") is None
    await until(page, "document.title === 'Home'")
    assert await page.key("alt+Right") is None
    await until(page, "document.title === 'Second'")
    assert await page.key("alt+Right") == "There is no page to go forward to."
    assert await page.key("alt+Left", repeat=100) == "There is no page to go back to."
