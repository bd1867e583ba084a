"""Let Claude use a page in Chromium: a `ComputerHandler` that drives a headless browser by Selenium.

`ChromiumPage` is a start for a handler of your own. Its browser has a new profile, and reaches only the origins of the
first page and of `origins`. Other addresses show an error page: `alt+Left` leads back. Downloads are refused. A dialog
is dismissed, and its text fails the action. Claude does not see the actions that are left out: those that hold a key or
a button, `middle_click` and `cursor_position`. A page of `file:` can open other files, Chromium has no sandbox as root,
and Selenium logs typed text at DEBUG. For pages that you do not trust, run the program in a container.

Needs: `eagerstream[testing,toolkit]`, Selenium, Chromium, its driver (`apt install chromium chromium-driver`).

Usage:
    ANTHROPIC_API_KEY=... python computer_in_chromium.py --live
    python computer_in_chromium.py
"""

import base64
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import eagerstream
from eagerstream import ToolStop, printable
from eagerstream.errors import ToolError
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from eagerstream_toolkit import Computer, ComputerHandler, Point, Region

import anyio
import anyio.to_thread
from anthropic import AsyncAnthropic
from selenium import webdriver
from selenium.common.exceptions import NoSuchWindowException, UnexpectedAlertPresentException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.keys import Keys

T = TypeVar("T")
KEYS = {name.lower().replace("_", ""): key for name, key in vars(Keys).items() if name.isupper()}
ALSO = {"ctrl": "control", "super": "meta", "cmd": "meta", "esc": "escape", "del": "delete", "plus": "+", "minus": "-"}


def keys_named(combination: str) -> list[str]:
    """Selenium's characters for keys in the style of xdotool: `a`, `Page_Down`, `ctrl+shift+t`, `ctrl++`."""
    names = [ALSO.get(name.lower(), name) for name in re.split(r"(?<=.)\+(?=.)", combination)]
    keys = [name if len(name) == 1 else KEYS.get(name.lower().replace("_", ""), "") for name in names]
    if not all(keys):
        raise ToolError(f"Error: no key is named {combination!r}. Names are as in xdotool: ctrl+a, Return, Page_Down.")
    return [key.lower() for key in keys] if len(keys) > 1 else keys  # ctrl+S means ctrl+s, but S alone is the letter


def confined(urls: Sequence[str]) -> list[str]:
    """Options with which Chromium reaches these origins only. Other requests go to a proxy on a port of nobody."""
    sites = [site for site in map(urlsplit, urls) if site.hostname]
    reached = ["<-loopback>", *(f"{at.hostname}:{at.port or {'http': 80, 'https': 443}[at.scheme]}" for at in sites)]
    names = ["MAP * ~NOTFOUND", *(f"EXCLUDE {at.hostname}" for at in sites)]  # looking one up would already send data
    proxy = ["--proxy-server=http://127.0.0.1:9", f"--proxy-bypass-list={';'.join(reached)}"]
    return [*proxy, f"--host-resolver-rules={', '.join(names)}", "--disable-quic", "--disable-features=HttpsUpgrades"]


@asynccontextmanager
async def chromium_page(url: str, *, origins: Sequence[str] = ()) -> AsyncIterator["ChromiumPage"]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    options.page_load_strategy = "eager"  # an action waits for a page that loads, but not for its images
    display = {"width": 1024, "height": 768, "pixelRatio": 1.0, "touch": False, "mobile": False}
    options.add_experimental_option("mobileEmulation", {"deviceMetrics": display})  # the size of every tab
    webrtc = {"webrtc.ip_handling_policy": "disable_non_proxied_udp"}
    options.add_experimental_option("prefs", {"download_restrictions": 3, **webrtc})  # 3 refuses all
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    for argument in ("--headless=new", "--disable-smooth-scrolling", *root, *confined([url, *origins])):
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver"), popen_kw={"process_group": 0})  # without our Ctrl-C
    driver = await anyio.to_thread.run_sync(webdriver.Chrome, options, service)
    try:
        driver.set_page_load_timeout(20)
        await anyio.to_thread.run_sync(driver.get, url)
        yield ChromiumPage(driver)
    finally:
        with anyio.move_on_after(5, shield=True) as leaving:
            await anyio.to_thread.run_sync(driver.quit, abandon_on_cancel=True)
        if leaving.cancelled_caught:  # a page hangs
            os.kill(driver.capabilities["goog:processID"], 9)  # SIGKILL


class ChromiumPage(ComputerHandler):
    """The newest tab of a browser. An action runs in a thread, which completes it even if it is cancelled."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        super().__init__(width=1024, height=768)
        self.driver, self.at = driver, (0, 0)

    async def screenshot(self) -> bytes:
        return await self.do(self.driver.get_screenshot_as_png)

    async def zoom(self, region: Region) -> bytes:
        left, top, right, bottom = region
        x, y = await self.do(lambda: self.driver.execute_script("return [scrollX, scrollY]"))
        clip = {"x": x + left, "y": y + top, "width": right - left, "height": bottom - top}
        clip["scale"] = min(self.width / clip["width"], self.height / clip["height"])
        seen = await self.do(lambda: self.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip}))
        return base64.b64decode(seen["data"])

    async def mouse_move(self, at: Point) -> None:
        await self.act(lambda hands: hands, at)

    async def left_click(self, at: Point | None = None, *, holding: str | None = None) -> None:
        await self.act(ActionChains.click, at, holding)

    async def right_click(self, at: Point | None = None, *, holding: str | None = None) -> None:
        await self.act(ActionChains.context_click, at, holding)

    async def double_click(self, at: Point | None = None, *, holding: str | None = None) -> None:
        await self.act(ActionChains.double_click, at, holding)

    async def triple_click(self, at: Point | None = None, *, holding: str | None = None) -> None:
        await self.act(lambda hands: hands.double_click().click(), at, holding)

    async def left_click_drag(self, start: Point, end: Point, *, holding: str | None = None) -> None:
        await self.act(lambda hands: self.move(hands.click_and_hold(), end).release(), start, holding)

    async def scroll(self, direction: str, clicks: int, at: Point | None = None, *, holding: str | None = None) -> None:
        x, y = {"up": (0, -100), "down": (0, 100), "left": (-100, 0), "right": (100, 0)}[direction]
        wheel = ScrollOrigin.from_viewport(*(at or self.at))
        await self.act(lambda hands: hands.scroll_from_origin(wheel, x * clicks, y * clicks), at, holding)

    async def type(self, text: str) -> None:
        await self.act(lambda hands: hands.send_keys(text.replace("\n", Keys.ENTER).replace("\t", Keys.TAB)))

    async def key(self, keys: str, *, repeat: int = 1) -> None:
        ways = {"alt+left": self.driver.back, "alt+right": self.driver.forward}  # a headless browser has no such keys
        for _ in range(repeat):
            await self.act(lambda hands: hands, holding=keys)
            if keys.lower() in ways:
                await self.do(ways[keys.lower()])

    def move(self, hands: ActionChains, at: Point) -> ActionChains:
        self.at = at
        hands.w3c_actions.pointer_action.move_to_location(*at)  # type: ignore[no-untyped-call]
        hands.w3c_actions.key_action.pause()
        return hands

    async def act(self, act: Callable[..., Any], at: Point | None = None, holding: str | None = None) -> None:
        """Press keys, move the mouse, act, and release the keys."""
        hands = ActionChains(self.driver, duration=0)
        keys = keys_named(holding) if holding else []
        for key in keys:
            hands.key_down(key)
        act(self.move(hands, at) if at else hands)
        for key in reversed(keys):
            hands.key_up(key)
        await self.do(hands.perform)

    async def do(self, step: Callable[[], T]) -> T:
        def run() -> T:  # on the newest tab
            try:
                self.driver.switch_to.window(self.driver.window_handles[-1])
                done = step()
                with suppress(NoSuchWindowException):  # it has closed the tab
                    self.driver.execute_script("")  # raises if a dialog is open, and waits for a page that loads
            except UnexpectedAlertPresentException as error:
                ActionChains(self.driver).w3c_actions.clear_actions()  # releases keys and buttons
                raise ToolError(f"Error: the page opened a dialog, now dismissed: {error.alert_text}") from error
            except Exception as error:  # its text has addresses of this machine
                raise ToolError(f"Error: the browser failed ({type(error).__name__}).") from error
            return done

        with anyio.fail_after(100):  # a page may hang
            return await anyio.to_thread.run_sync(run, abandon_on_cancel=True)


ORDER: list[dict[str, Any]] = [
    {"action": "left_click", "coordinate": [300, 225]},  # the field
    {"action": "type", "text": "Ada"},
    {"action": "scroll", "coordinate": [500, 500], "scroll_direction": "down", "scroll_amount": 20},
    {"action": "left_click", "coordinate": [200, 305]},  # the button
    {"action": "screenshot"},
]
SCRIPT = Scenario(reply(*(tool_use("computer", action) for action in ORDER)), reply(text("Tea for Ada is on its way.")))
QUESTION = "Order a cup of tea for Ada on the page that you see, and tell me what it says."
REQUEST: Any = {"model": "claude-opus-4-7", "max_tokens": 4096, "messages": [{"role": "user", "content": QUESTION}]}


async def main() -> None:
    async with chromium_page(Path(__file__).with_suffix(".html").as_uri()) as page, ReplayServer(SCRIPT) as server:
        client = AsyncAnthropic() if "--live" in sys.argv else AsyncAnthropic(base_url=server.base_url, api_key="none")
        computer = Computer(page, version="computer_20251124")
        async with client, eagerstream.run(client, tools=[computer], **REQUEST) as run:
            async for event in run:
                if isinstance(event, ToolStop):
                    print(printable(event.call.text) or "(an image)")
        print(run.result.status, printable(run.result.messages[-1]["content"][-1].get("text", "")))


if __name__ == "__main__":
    anyio.run(main)
