"""What the tests of progress share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from packages.progress.tests.page_modules import PageModules, page_modules

if TYPE_CHECKING:  # only the tests in a browser load it
    from packages.progress.tests.page import Page
    from selenium import webdriver


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageModules]:
    """The page's own modules in Node."""
    with page_modules(tmp_path_factory.mktemp("page")) as made:
        yield made


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    from tests.browser import chromium

    with chromium(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome


@pytest.fixture
def page(driver: webdriver.Chrome) -> Iterator[Page]:
    """A page; whatever a test does, the browser has nothing to complain of: no error, no breach of the policy."""
    from packages.progress.tests.page import Page

    driver.get_log("browser")  # type: ignore[no-untyped-call]
    page = Page(driver)
    yield page
    complaints = [entry["message"] for entry in driver.get_log("browser")]  # type: ignore[no-untyped-call]
    driver.close()
    driver.switch_to.window(driver.window_handles[0])
    assert [text for text in complaints if not any(known in text for known in page.may_complain_of)] == []


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    """An event loop for runs, in a thread of its own: the test itself waits for the browser."""
    with start_blocking_portal() as portal:
        yield portal
        portal.call(portal.stop, True)  # a run that waits for a person would wait for ever where a test has failed
