"""`ChromiumPage`: a page in a headless Chromium as the computer for Claude."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Literal, Self, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from ...errors import ToolError, UsageError
from ...tools import ToolErrorCode
from .chromium import Chromium
from .devices import Button, Mouse, held, is_keyed, parts_of, press_keys, release_keys, type_text
from .handler import DISPLAY_HEIGHT, DISPLAY_WIDTH, ComputerHandler, Point, Region, ScrollDirection
from .keys import keys_named
from .origins import Origin

T = TypeVar("T")

_MAX_SIDE_PX: Final = 2000
"""The API's maximum side length in requests with many images."""
_MAX_PNG_BYTES: Final = 3_500_000
_CLEANUP_S: Final = 5.0
_MAX_LOOKS: Final = 2
_WAYS: Final[Mapping[tuple[str, ...], Literal[-1, 1]]] = {("Alt", "ArrowLeft"): -1, ("Alt", "ArrowRight"): 1}
"""Keys that a headless browser passes only to the page."""


class ChromiumPage(ComputerHandler):
    """A page in a dedicated headless Chromium. The page is the display.

        async with ChromiumPage("https://shop.example/") as page:
            computer = Computer(page)

    Mouse and keyboard act like real ones, through the DevTools protocol. If a link opens a tab, that tab becomes the
    display. Dialogs (`alert`, `confirm`) are dismissed, and the model gets their text. `alt+Left` and `alt+Right` go
    back and forward. It needs Selenium, Chromium and chromedriver: `pip install 'eagerstream[computer]'`, `apt install
    chromium chromium-driver`.

    The browser starts with an empty profile. The profile and all other files of the browser are removed at the end. It
    can reach only the origin of `url` and `allowed_origins`. It reaches no other port of this machine and no other
    host: not by a redirect, a WebSocket, a new window, a name lookup or WebRTC. If a page tries to leave, it is taken
    back. If a new tab tries to, it is closed. The model gets the name of the origin with the action, or, after a
    screenshot, with the next action that returns text. Downloads and file uploads are blocked.

    This does not protect against an allowed origin that forwards data, and against flaws of Chromium. If `url` is a
    `file:`, links can open any other file that the user can read. As root, Chromium runs without its sandbox.

    Screenshots do not show the mouse and the lists of `<select>` elements. Keys open these lists and choose from them.
    A held key does not repeat.

    Each action raises `ToolError`, with a text for the model, if the browser has ended or does not respond, or if a key
    is unknown. A screenshot also raises it if the page does not keep still.

    Cancellation: an action returns at once. Clicks and keys that have started are completed in the background,
    and the next action waits for them.

    Args:
        url: The first page: `http`, `https` or `file`.
        width: Width of the page in pixels, at most 2,000.
        height: Height of the page in pixels, at most 2,000.
        allowed_origins: Origins to allow besides that of `url`, for example `https://cdn.example`.
        chromium: The browser, as a name on the `PATH` or a path.
        chromedriver: Its driver of the same version, as a name or a path.
        timeout_s: Time limit in seconds for loading a page, or for one click or key. At least 1.

    Raises:
        UsageError: A setting or a URL is invalid. On entering: the page is already open, or the browser or the page
            cannot be opened.
        MissingExtraError: On entering: Selenium is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        width: int = DISPLAY_WIDTH,
        height: int = DISPLAY_HEIGHT,
        allowed_origins: Sequence[str] = (),
        chromium: str = "chromium",
        chromedriver: str = "chromedriver",
        timeout_s: float = 20.0,
    ) -> None:
        if not (1 <= width <= _MAX_SIDE_PX and 1 <= height <= _MAX_SIDE_PX):
            raise UsageError(f"width and height must be 1 to {_MAX_SIDE_PX}, not {width!r} and {height!r}")
        if not (math.isfinite(timeout_s) and timeout_s >= 1):
            raise UsageError(f"timeout_s must be at least 1, not {timeout_s!r}")
        super().__init__(width=width, height=height)
        origins = list(dict.fromkeys(map(Origin.of, (url, *allowed_origins))))
        self._url = url
        self._new = partial(
            Chromium, program=chromium, driver=chromedriver, size=(width, height), origins=origins, timeout_s=timeout_s
        )
        self._browser: Chromium | None = None
        self._turn = anyio.Lock()
        self._mouse = Mouse()
        self._untold: str | None = None

    async def __aenter__(self) -> Self:
        if self._browser is not None:
            raise UsageError("this page is already open")
        self._browser = self._new()
        try:
            # Not abandoned on cancellation: otherwise no code would end the browser.
            await anyio.to_thread.run_sync(self._browser.start, self._url, limiter=anyio.CapacityLimiter(1))
            await anyio.lowlevel.checkpoint()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def _end(self) -> None:
        browser, self._browser = self._browser, None
        self._mouse = Mouse()
        self._untold = None
        if browser is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(browser.stop, limiter=anyio.CapacityLimiter(1))

    # --- looking ------------------------------------------------------------------------------------------------------

    async def screenshot(self) -> bytes:
        """Return a PNG, as `ComputerHandler.screenshot` documents. If it is too large for the API, return a JPEG."""
        return await self._look(_picture)

    async def zoom(self, region: Region) -> bytes:
        """Render a part of the page as large as the display, as `ComputerHandler.zoom` documents."""
        left, top, right, bottom = region
        scale = min(self.width / (right - left), self.height / (bottom - top))

        def look(browser: Chromium) -> bytes:
            # The clip is relative to the document, which may be scrolled.
            page = browser.command("Page.getLayoutMetrics")["cssVisualViewport"]
            at = {"x": page["pageX"] + left, "y": page["pageY"] + top}
            return _picture(browser, {**at, "width": right - left, "height": bottom - top, "scale": scale})

        return await self._look(look)

    async def cursor_position(self) -> Point:
        """Return the last position of the mouse. It starts in the top left corner."""
        return self._mouse.at

    # --- the mouse ----------------------------------------------------------------------------------------------------

    async def mouse_move(self, at: Point) -> str | None:
        """Move the mouse, as `ComputerHandler.mouse_move` documents."""
        return await self._act(lambda browser: self._mouse.move(browser, at))

    async def left_mouse_down(self) -> str | None:
        """Press the left button, as `ComputerHandler.left_mouse_down` documents."""
        return await self._act(self._mouse.press)

    async def left_mouse_up(self) -> str | None:
        """Release the left button, as `ComputerHandler.left_mouse_up` documents."""
        return await self._act(self._mouse.release)

    async def left_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click, as `ComputerHandler.left_click` documents."""
        return await self._click("left", 1, at, holding)

    async def right_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click with the right button, as `ComputerHandler.right_click` documents."""
        return await self._click("right", 1, at, holding)

    async def middle_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click with the middle button, as `ComputerHandler.middle_click` documents."""
        return await self._click("middle", 1, at, holding)

    async def double_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click twice, as `ComputerHandler.double_click` documents."""
        return await self._click("left", 2, at, holding)

    async def triple_click(self, at: Point | None = None, *, holding: str | None = None) -> str | None:
        """Click three times, as `ComputerHandler.triple_click` documents."""
        return await self._click("left", 3, at, holding)

    async def left_click_drag(self, start: Point, end: Point, *, holding: str | None = None) -> str | None:
        """Drag, as `ComputerHandler.left_click_drag` documents."""
        return await self._act_holding(
            holding, lambda browser, modifiers: self._mouse.drag(browser, start, end, modifiers)
        )

    async def scroll(
        self, direction: ScrollDirection, clicks: int, at: Point | None = None, *, holding: str | None = None
    ) -> str | None:
        """Turn the wheel, as `ComputerHandler.scroll` documents. A click is 100 pixels."""
        x, y = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}[direction]

        def turn(browser: Chromium, modifiers: int) -> None:
            self._mouse.move(browser, at or self._mouse.at, modifiers)
            self._mouse.turn_wheel(browser, x, y, clicks, modifiers)

        return await self._act_holding(holding, turn)

    async def _click(self, button: Button, count: int, at: Point | None, holding: str | None) -> str | None:
        def click(browser: Chromium, modifiers: int) -> None:
            self._mouse.move(browser, at or self._mouse.at, modifiers)
            self._mouse.click(browser, button, count, modifiers)

        return await self._act_holding(holding, click)

    # --- the keyboard -------------------------------------------------------------------------------------------------

    async def type(self, text: str) -> str | None:
        """Type, as `ComputerHandler.type` documents. Characters without a US key are inserted as by an input method."""
        keyed = is_keyed(text)
        notes = [await self._act(partial(type_text, text=part, keyed=keyed)) for part in parts_of(text, keyed=keyed)]
        return next(filter(None, notes), None)

    async def key(self, keys: str, *, repeat: int = 1) -> str | None:
        """Press keys, as `ComputerHandler.key` documents. `alt+Left` and `alt+Right` also go back and forward."""
        pressed = keys_named(keys)
        way = _WAYS.get(tuple(key.key for key in pressed))

        def press(browser: Chromium) -> None:
            for _ in range(repeat):
                with held(browser, pressed):
                    pass
                if way is not None:
                    browser.travel(way)

        return await self._act(press)

    async def hold_key(self, keys: str, seconds: float) -> str | None:
        """Hold keys, as `ComputerHandler.hold_key` documents. If this is cancelled, it releases them."""
        pressed = keys_named(keys)
        try:
            note = await self._act(lambda browser: press_keys(browser, pressed))
            await anyio.sleep(seconds)
        except BaseException:
            with anyio.move_on_after(_CLEANUP_S, shield=True), suppress(ToolError):
                await self._act(lambda browser: release_keys(browser, pressed))
            raise
        return await self._act(lambda browser: release_keys(browser, pressed)) or note

    # --- one action at a time -----------------------------------------------------------------------------------------

    async def _act_holding(self, holding: str | None, step: Callable[[Chromium, int], None]) -> str | None:
        """Run an action while keys are held."""
        keys = keys_named(holding) if holding else []

        def act(browser: Chromium) -> None:
            with held(browser, keys) as modifiers:
                step(browser, modifiers)

        return await self._act(act)

    async def _act(self, step: Callable[[Chromium], object]) -> str | None:
        _, note = await self._run(step)
        untold, self._untold = self._untold, None
        return "\n".join(filter(None, (untold, note))) or None

    async def _look(self, look: Callable[[Chromium], bytes]) -> bytes:
        """Take a picture. A picture has no room for a note, so the next action returns the last note."""
        for _ in range(_MAX_LOOKS):
            seen, note = await self._run(look)
            self._untold = note or self._untold
            if seen is not None:
                return seen
        untold, self._untold = self._untold, None
        raise ToolError(f"Error: the page does not keep still. {untold}", code=ToolErrorCode.EXECUTION_ERROR)

    async def _run(self, step: Callable[[Chromium], T]) -> tuple[T | None, str | None]:
        """Run a step in a thread. If the caller is cancelled, the thread still finishes the step."""
        async with self._turn:
            if self._browser is None:
                raise ToolError("Error: the browser is not running.", code=ToolErrorCode.SERVICE_UNAVAILABLE)
            return await anyio.to_thread.run_sync(
                self._browser.run, step, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
            )


def _picture(browser: Chromium, clip: dict[str, float] | None = None) -> bytes:
    more = {} if clip is None else {"clip": clip}
    browser.command("Page.bringToFront")  # a newly opened tab hides this one, which then renders no frame
    png = base64.b64decode(browser.command("Page.captureScreenshot", format="png", **more)["data"])
    if len(png) <= _MAX_PNG_BYTES:
        return png
    return base64.b64decode(browser.command("Page.captureScreenshot", format="jpeg", quality=80, **more)["data"])
