"""What the tests of progress share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from packages.progress.tests.page_modules import PageModules, page_modules


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageModules]:
    """The page's own modules in Node."""
    with page_modules(tmp_path_factory.mktemp("page")) as made:
        yield made
