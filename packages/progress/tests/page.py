"""The web page in a real browser, and what somebody does there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from tests.source_tree import ROOT

PICTURES = ROOT / "build" / "screenshots"
HOSTILE = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>&lt;b&gt;"


class Page:
    """A browser with the page in it, and what somebody does there."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.may_complain_of = ["ERR_CONNECTION", "ERR_INCOMPLETE"]  # what the browser says of lost connections

    def open(self, url: str, *, width: int = 1280, height: int = 1000, **media: str) -> None:
        """Open it in a new tab of this size; `media` as in `color_scheme="dark"`."""
        self.driver.switch_to.new_window("tab")
        self.look(width=width, height=height, **media)
        self.driver.get(url)

    def look(self, *, width: int = 1280, height: int = 1000, **media: str) -> None:
        """Another screen."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in media.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """All text of the first such element, also what is scrolled away; empty where there is none."""
        return str(self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector))

    def items(self, selector: str) -> int:
        """How many items it tells of. It grows: any one number may be there for less time than it takes to look."""
        return max(map(int, re.findall(r"(\d+) items", self.text(selector))), default=0)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, what: Callable[[], Any], timeout_s: float = 30) -> Any:
        """Until it is true; the page may draw anew while it is looked at."""
        redrawn = [StaleElementReferenceException]
        wait = WebDriverWait(self.driver, timeout_s, poll_frequency=0.05, ignored_exceptions=redrawn)
        return wait.until(lambda _: what())

    def call(self, name: str) -> str:
        """The selector of the last card of a tool."""
        return f"#{self.wait(lambda: self._cards(name))[-1]}"

    def _cards(self, name: str) -> list[str]:
        script = """return [...document.querySelectorAll('.call')]
            .filter((card) => card.querySelector('h3').textContent === arguments[0]).map((card) => card.id)"""
        return list(self.run(script, name))

    def phase(self, card: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).dataset.phase", card))

    def wait_for_phase(self, card: str, phase: str) -> None:
        self.wait(lambda: self.phase(card) == phase)

    def wait_for_status(self, status: str) -> None:
        self.wait(lambda: self.text("#status") == status)

    def press(self, *keys: str) -> None:
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def elapsed_s(self) -> float:
        """What the head of the run says."""
        script = "return [...document.querySelectorAll('dt')].find((dt) => dt.textContent === 'Elapsed').nextSibling.textContent"
        return float(str(self.run(script)).removesuffix(" s"))

    def focused(self) -> str:
        """What has the focus: its accessible name."""
        return str(self.driver.switch_to.active_element.accessible_name)

    def tab_to(self, name: str) -> None:
        """Tab until something with this name has the focus."""
        for _ in range(60):
            if self.focused() == name:
                return
            self.press(Keys.TAB)
        raise AssertionError(f"Tab does not reach {name}; it is at {self.focused()}")

    def click(self, selector: str) -> None:
        """Scroll there, as somebody would who sees that the head of the page is over it, and click.

        Again where the click went past it: on a page that grows, a thing can move between being aimed at and pressed.
        """
        hear = "window.wasHit = false; arguments[0].addEventListener('click', () => { window.wasHit = true }, {once: true})"

        def hits() -> bool:
            element = self.one(selector)
            self.run(hear, element)
            self.run("arguments[0].scrollIntoView({block: 'center'})", element)
            element.click()
            return bool(self.run("return window.wasHit"))

        self.wait(hits)

    def cut_off(self, selector: str) -> list[str]:
        """The text of such elements that have no room for all of it."""
        script = """return [...document.querySelectorAll(arguments[0])]
            .filter((element) => element.scrollWidth > element.clientWidth).map((element) => element.textContent)"""
        return list(self.run(script, selector))

    def is_too_wide(self) -> bool:
        return bool(self.run("return document.documentElement.scrollWidth > innerWidth"))

    def picture(self, name: str) -> None:
        """What is seen, into a file; those of the README are no larger than it should load."""
        folders = [PICTURES]
        if (kept := os.environ.get("EAGERSTREAM_SCREENSHOTS")) and name in (
            "watch.png",
            "watch-code.png",
            "watch-diff.png",
            "watch-phone.png",
        ):
            folders.append(ROOT / kept)
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(folder / name))
            assert 10_000 < (folder / name).stat().st_size < 200_000
