"""Pages in Chromium for tests, and what tests ask them past the public methods."""

from __future__ import annotations

import os
import shutil
from typing import Any

import anyio
import pytest

from eagerstream.builtin import ChromiumPage


def chromium_page(url: str, **options: Any) -> ChromiumPage:
    """A page to enter; skips the test where there is no browser, which in CI has to be there."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        if os.environ.get("CI"):
            pytest.fail("needs chromium and chromedriver")
        pytest.skip("needs chromium and chromedriver")
    return ChromiumPage(url, **options)


async def evaluate(page: ChromiumPage, script: str) -> Any:
    """The value of a JavaScript expression in the page in front."""
    answer, _ = await page._run(
        lambda browser: browser.command("Runtime.evaluate", expression=script, returnByValue=True)
    )
    assert answer is not None
    assert "exceptionDetails" not in answer, answer
    return answer["result"].get("value")


async def until(page: ChromiumPage, condition: str) -> None:
    """Wait for a JavaScript expression to be true, at most 20 seconds."""
    with anyio.fail_after(50):
        is_so = await evaluate(page, condition)
        while not is_so:
            is_so = await evaluate(page, condition)


async def open_page(page: ChromiumPage, url: str) -> None:
    """Lead it elsewhere."""
    await page._run(lambda browser: browser._running().get(url))
