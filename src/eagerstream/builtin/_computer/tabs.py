"""Tabs of a Chromium. One is in front, and each stays on the allowed origins."""

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
    """The tabs of one browser. All methods block, and raise Selenium's exceptions.

    Args:
        driver: The browser's driver.
        network: The allowed origins.
        url: The first page.
        size: Width and height of every page in pixels.
    """

    def __init__(self, driver: WebDriver, *, network: NowhereElse, url: str, size: tuple[int, int]) -> None:
        self._driver = driver
        self._network = network
        self._url = url
        self._size = size
        self._tabs: dict[str, _Entry | None] = {}  # oldest first, each with its last allowed page

    def open(self) -> None:
        """Open the first page. Its history is empty."""
        self.follow()
        self._driver.get(self._url)
        self._command("Page.resetNavigationHistory")

    def follow(self) -> None:
        """Switch to the newest tab. If a tab was closed, the one before it comes to the front.

        Raises:
            ToolError: No tab is left.
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
        self._command("Page.bringToFront")  # a hidden tab renders no frames, and ignores the mouse
        if opened:
            width, height = self._size
            self._command(
                "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
            )
            self._command("Page.setInterceptFileChooserDialog", enabled=True)  # blocks uploads of this machine's files

    def stay(self) -> list[str]:
        """Call `follow`, then take back pages outside the allowed origins: an old tab goes back, a new one is closed.

        No request has left the machine. But the browser's own error page would offer the model no way back.

        Returns:
            Notes for the model. The list is empty if no page left.

        Raises:
            ToolError: No tab is left.
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
        """Go back (-1) or forward (1) to the next allowed page in the tab's history. Return False if there is none."""
        entries, current = self._history()
        ahead = entries[current + 1 :] if way == 1 else entries[:current][::-1]
        entry = next((entry for entry in ahead if self._network.reaches(entry.url)), None)
        if entry is not None:
            self._command("Page.navigateToHistoryEntry", entryId=entry.id)
        return entry is not None

    def _take_back(self, last: _Entry | None, before: Sequence[_Entry]) -> None:
        """Return to the last page: by its history entry, or by its address if a script has replaced the entry."""
        if last is not None and last.id in {entry.id for entry in before}:
            # Since the last check, the tab may have visited other allowed pages.
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
