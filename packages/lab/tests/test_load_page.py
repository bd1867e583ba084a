"""The report of a load test in a real browser, on a screen and on a telephone, and against hostile texts.

Needs Chromium and its driver. Pictures go to `build/screenshots/`; with `EAGERSTREAM_SCREENSHOTS=examples`, that of the
guide is written there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packages.lab.tests.loads import made_load
from packages.lab.tests.test_report_page import OVERFLOWING, TEXTS_OUTSIDE, picture
from selenium import webdriver
from tests.browser import chromium
from tests.node import installed_file

from eagerstream_lab._load_report import write_load_report
from eagerstream_lab._load_results import LoadResults, load_load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

_HOSTILE = '<script>document.title = "pwned"</script>$body</title>'


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome


def opened(driver: webdriver.Chrome, results: LoadResults, path: Path, *, width: int, scheme: str = "light") -> None:
    """Write the report of these results, and open it."""
    write_load_report(results, path)
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get(path.as_uri())


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_charts_are_seen(driver: webdriver.Chrome, tmp_path: Path, width: int, scheme: str) -> None:
    """Each chart has a size, its texts are inside, and nothing is wider than the screen; nor has axe a complaint."""
    log: Any = driver.get_log
    log("browser")
    opened(driver, made_load(failed=1), tmp_path / "report.html", width=width, scheme=scheme)
    script = "return [...document.querySelectorAll('svg')].map((svg) => [svg.clientWidth, svg.clientHeight])"
    sizes = driver.execute_script(script)
    assert len(sizes) == 1 + 4 + 5, "throughput, four figures, and five levels"
    assert all(wide > 250 and high > 60 for wide, high in sizes)
    assert driver.execute_script(OVERFLOWING, width) == []
    assert driver.execute_script(TEXTS_OUTSIDE) == []
    texts = driver.execute_script("return [...document.querySelectorAll('svg text')].map((one) => one.textContent)")
    assert {"knee", "goodput", "p50", "concurrent runs"} <= set(texts)
    driver.execute_script(installed_file("axe-core/axe.min.js").read_text())
    run = "const done = arguments[0]; axe.run().then((found) => done(found.violations), (error) => done(String(error)))"
    found = driver.execute_async_script(run)
    assert [(rule["id"], [node["html"][:300] for node in rule["nodes"]]) for rule in found] == []
    assert log("browser") == []
    picture(driver, f"load-report-{width}.png")


def test_hostile_texts_stay_texts(driver: webdriver.Chrome, tmp_path: Path) -> None:
    """A name of a program, an error or a machine is no part of the page."""
    results = made_load((1, 4, 16), label=_HOSTILE, failed=1)
    results["machine"]["packages"][_HOSTILE] = _HOSTILE
    results["warnings"] = [_HOSTILE * 9]
    results["settings"]["profile"] = _HOSTILE
    for level in results["cases"][0]["levels"]:
        level["errors"] = {_HOSTILE: 3}
        level["bottlenecks"] = {_HOSTILE: _HOSTILE}
    opened(driver, results, tmp_path / "report.html", width=1280)
    assert driver.title != "pwned"
    assert driver.execute_script("return document.querySelectorAll('script, img, a').length") == 0
    assert driver.execute_script(OVERFLOWING, 1280) == []
    assert _HOSTILE in driver.execute_script("return document.body.textContent")


@pytest.mark.nightly
def test_the_picture_of_the_guide(driver: webdriver.Chrome, tmp_path: Path) -> None:
    """The charts by load, of the results in `EAGERSTREAM_LOAD_RESULTS`, or else of made ones."""
    given = os.environ.get("EAGERSTREAM_LOAD_RESULTS")
    opened(driver, load_load(Path(given)) if given else made_load(), tmp_path / "report.html", width=1060)
    script = """
        const section = [...document.querySelectorAll("section")].find((one) => one.textContent.startsWith("By load"));
        const {top, bottom} = section.getBoundingClientRect();
        return [top + scrollY - 10, bottom - top + 24]"""
    top, height = driver.execute_script(script)
    picture(driver, "load-report.png", top=top, height=height)
