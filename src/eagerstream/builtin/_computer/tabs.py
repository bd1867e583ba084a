"""The tabs of a Chromium: which of them is in front, and that each stays where the browser may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ToolError
from ...tools import ToolErrorCode
from .origins import NowhereElse, named

if TYPE_CHECKING:
    from selenium.webdriver.remote.webdriver import WebDriver


def devtools(driver: WebDriver, method: str, **parameters: Any) -> dict[str, Any]:
    """Send a command of the DevTools protocol to the tab in front."""
    value: dict[str, Any] = driver.execute("executeCdpCommand", {"cmd": method, "params": parameters})["value"]
    return value


@dataclass(frozen=True, slots=True)
class _Entry:
    """A page in the history of a tab."""

    id: int
    url: str


class Tabs:
    """The tabs of one browser; every method blocks, and raises what Selenium raises.

    Args:
        driver: Its driver.
        network: What it reaches.
        url: The page that it starts with.
        size: Width and height of every page, in pixels.
    """

    def __init__(self, driver: WebDriver, *, network: NowhereElse, url: str, size: tuple[int, int]) -> None:
        self._driver = driver
        self._network = network
        self._url = url
        self._size = size
        self._tabs: dict[str, _Entry | None] = {}  # the oldest first, each with the last page where it may be

    def open(self) -> None:
        """Open the page to start with; there is nothing before it to go back to."""
        self.follow()
        self._driver.get(self._url)
        self._command("Page.resetNavigationHistory")

    def follow(self) -> None:
        """Go to the newest tab: what a link opened is in front, and once it is closed, what was before.

        Raises:
            ToolError: There is none left.
        """
        handles = self._driver.window_handles
        opened = [handle for handle in handles if handle not in self._tabs]
        if not opened and len(handles) == len(self._tabs):
            return
        kept = {handle: entry for handle, entry in self._tabs.items() if handle in handles}
        self._tabs = {**kept, **dict.fromkeys(opened)}
        if not self._tabs:
            raise ToolError("Error: the page was closed.", code=ToolErrorCode.SERVICE_UNAVAILABLE)
        self._driver.switch_to.window(self._front)
        self._command("Page.bringToFront")  # a hidden tab shows no frames, and answers to no mouse
        if opened:
            width, height = self._size
            self._command(
                "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
            )
            self._command("Page.setInterceptFileChooserDialog", enabled=True)  # no file of this machine is offered

    def stay(self) -> list[str]:
        """Follow, and take back what left the origins that are reached: a page goes back, a new tab is closed.

        Nothing was sent there; but what the browser shows instead is a page of its own, with no way back for the model.

        Returns:
            What the model is to know of it; nothing, where all is as it should be.
        """
        notes: list[str] = []
        while True:
            self.follow()
            entries, current = self._history()
            entry = entries[current]
            if self._network.reaches(entry.url):
                self._tabs[self._front] = entry
                return notes
            where = f"tried to go to {named(entry.url)}, which is not allowed here"
            last = self._tabs[self._front]
            if last is not None or len(self._tabs) == 1:
                self._take_back(last, entries[:current])
                return [*notes, f"The page {where}; it is back where it was."]
            notes.append(f"A new tab {where}; it was closed.")
            self._driver.close()

    def travel(self, way: Literal[-1, 1]) -> bool:
        """Go back (-1) or forward (1) to the next page in the history of the tab; False where there is none."""
        entries, current = self._history()
        ahead = entries[current + 1 :] if way == 1 else entries[:current][::-1]
        entry = next((entry for entry in ahead if self._network.reaches(entry.url)), None)
        if entry is not None:
            self._command("Page.navigateToHistoryEntry", entryId=entry.id)
        return entry is not None

    def _take_back(self, last: _Entry | None, before: Sequence[_Entry]) -> None:
        """To the page that left; by its address where it has no entry any more: a script can replace it."""
        if last is not None and last.id in {entry.id for entry in before}:
            # Since it was looked at last, the tab may have been at other pages where it may be.
            entry = next(entry for entry in reversed(before) if self._network.reaches(entry.url))
            self._command("Page.navigateToHistoryEntry", entryId=entry.id)
        else:
            self._command("Page.navigate", url=self._url if last is None else last.url)

    def _history(self) -> tuple[list[_Entry], int]:
        history = self._command("Page.getNavigationHistory")
        return [_Entry(entry["id"], entry["url"]) for entry in history["entries"]], history["currentIndex"]

    @property
    def _front(self) -> str:
        return next(reversed(self._tabs))

    def _command(self, method: str, **parameters: Any) -> dict[str, Any]:
        return devtools(self._driver, method, **parameters)
