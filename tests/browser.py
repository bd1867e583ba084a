"""Chromium, driven by selenium. Both come from the system: in CI they have to be there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--lang=en-US",
)


def require_chromium() -> tuple[str, str]:
    """The paths of Chromium and its driver; skips the test where there is none."""
    browser, control = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or control is None:
        if os.environ.get("CI"):
            pytest.fail("needs chromium and chromedriver")
        pytest.skip("needs chromium and chromedriver")
    return browser, control


@contextmanager
def chromium(profile: Path, *more: str) -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own, which keeps what pages complain of; skips the test where there is none.

    Args:
        profile: Its folder.
        more: Further options of its command line.
    """
    browser, control = require_chromium()
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for option in (*_OPTIONS, *more, f"--user-data-dir={profile}"):
        options.add_argument(option)
    with webdriver.Chrome(options=options, service=Service(control)) as chrome:
        yield chrome
