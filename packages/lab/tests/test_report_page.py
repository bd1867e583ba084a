"""The report in a real browser: on a screen, on a telephone, in the dark, for those who do not see it, and on paper.

Needs Chromium and its driver; in CI they have to be there. Pictures go to `build/screenshots/`; with
`EAGERSTREAM_SCREENSHOTS=examples` the one that the README shows is written there.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from packages.lab.tests.made_results import METRICS, hostile_results, poem_results
from selenium import webdriver
from tests.browser import chromium
from tests.node import installed_file
from tests.source_tree import ROOT

from eagerstream_lab._report import write_report

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PICTURES = ROOT / "build" / "screenshots"
_PAPERS = {"A4": (8.27, 11.69), "Letter": (8.5, 11)}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome


@pytest.fixture(scope="module")
def poem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten runs of each case, as fast as the report says."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(anyio.run(partial(poem_results, repetitions=10, speed=4)), path)
    assert path.stat().st_size < 3_000_000
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(hostile_results(), path)
    return path


Open = Callable[..., None]


@pytest.fixture
def open_page(driver: webdriver.Chrome) -> Iterator[Open]:
    """Opens a file; whatever a test does, the browser has nothing to complain of: no error, no breach of the policy."""
    driver.get_log("browser")  # type: ignore[no-untyped-call]

    def open_(path: Path, *, width: int = 1280, scheme: str = "light") -> None:
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        driver.get(path.as_uri())

    yield open_
    complaints = driver.get_log("browser")  # type: ignore[no-untyped-call]
    driver.get("about:blank")
    assert [entry["message"] for entry in complaints] == []


def keep(name: str, png: str, *, readme: bool = False) -> None:
    folders = [PICTURES]
    if readme and (kept := os.environ.get("EAGERSTREAM_SCREENSHOTS")):
        folders.append(ROOT / kept)
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(base64.b64decode(png))


def picture(driver: webdriver.Chrome, name: str, *, top: float = 0, height: float | None = None) -> None:
    """The page as a whole, or a part of it, as PNG."""
    width, whole = driver.execute_script("return [innerWidth, document.documentElement.scrollHeight]")
    clip = {"x": 0, "y": top, "width": width, "height": height or min(whole, 12_000), "scale": 1}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    assert len(taken["data"]) > 20_000
    keep(name, taken["data"], readme=name in ("bench-report.png", "load-report.png"))


OVERFLOWING = """
    const [width] = arguments;  // not that of the window, which a telephone widens for a page that is too wide
    const wide = document.documentElement.scrollWidth > width ? ["the page"] : [];
    for (const box of document.querySelectorAll("svg, h1, h2, h3, p, li, dt, dd, figure")) {
      if (box.closest(".scroll") || !box.checkVisibility()) continue;
      const {left, right} = box.getBoundingClientRect();
      if (left < 0 || right > width + 0.5) wide.push(box.outerHTML.slice(0, 200));
    }
    return wide;"""

TEXTS_OUTSIDE = """
    const outside = [];
    for (const svg of document.querySelectorAll("svg")) {
      if (!svg.checkVisibility()) continue;
      const box = svg.getBoundingClientRect();
      for (const text of svg.querySelectorAll("text")) {
        const {left, right, top, bottom} = text.getBoundingClientRect();
        if (left < box.left - 2 || right > box.right + 2 || top < box.top - 2 || bottom > box.bottom + 2)
          outside.push(text.textContent);
      }
    }
    return outside;"""


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_charts_are_seen(driver: webdriver.Chrome, open_page: Open, poem: Path, width: int, scheme: str) -> None:
    """Each chart has a size, its texts are inside, and nothing is wider than the screen; on each kind of screen."""
    open_page(poem, width=width, scheme=scheme)
    script = "return [...document.querySelectorAll('svg')].filter((svg) => svg.checkVisibility()).map((svg) => [svg.clientWidth, svg.clientHeight])"
    sizes = driver.execute_script(script)
    assert len(sizes) == len(METRICS) + 1 + 1 + 2, "the runs in the middle are open"
    assert all(wide > 250 and high > 60 for wide, high in sizes)
    assert driver.execute_script(OVERFLOWING, width) == []
    assert driver.execute_script(TEXTS_OUTSIDE) == []
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", ground)[:3])) < 40) == (scheme == "dark")
    picture(driver, f"bench-report-{width}-{scheme}.png")
    driver.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    assert len(driver.execute_script(script)) == len(METRICS) + 1 + 1 + 20
    assert driver.execute_script(TEXTS_OUTSIDE) == []
    assert driver.execute_script(OVERFLOWING, width) == []


@pytest.mark.nightly
def test_the_picture_of_the_readme(driver: webdriver.Chrome, open_page: Open, tmp_path: Path) -> None:
    """Eager beside buffered, as it is seen: the heart of the report, as the command writes it."""
    command = [sys.executable, "-c", "from eagerstream._command import main; main()"]
    options = ["bench", "--warmup", "0", "--out", str(tmp_path)]
    subprocess.run([*command, *options], check=True, capture_output=True, timeout=120)
    open_page(tmp_path / "report.html", width=1060)
    script = """
        const section = [...document.querySelectorAll("section")].find((one) => one.textContent.startsWith("Eager compared"));
        const {top, bottom} = section.getBoundingClientRect();
        return [top + scrollY - 10, bottom - top + 24]"""
    top, height = driver.execute_script(script)
    picture(driver, "bench-report.png", top=top, height=height)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("light", 360), ("dark", 1280)])
def test_nothing_for_axe_to_complain_of(
    driver: webdriver.Chrome, open_page: Open, poem: Path, hostile: Path, width: int, scheme: str
) -> None:
    """Names, roles, headings, tables and contrast, as axe-core checks them."""
    axe = installed_file("axe-core/axe.min.js").read_text()
    script = (
        "const done = arguments[0]; axe.run().then((found) => done(found.violations), (error) => done(String(error)))"
    )
    for path in (poem, hostile):
        open_page(path, width=width, scheme=scheme)
        driver.execute_script(axe)
        found = driver.execute_async_script(script)
        assert isinstance(found, list), found
        assert [(rule["id"], [node["html"][:300] for node in rule["nodes"]]) for rule in found] == []


@pytest.mark.parametrize("width", [1280, 360])
def test_hostile_texts_stay_texts(driver: webdriver.Chrome, open_page: Open, hostile: Path, width: int) -> None:
    """Nothing of what a model wrote becomes a part of the page, or pushes it apart."""
    open_page(hostile, width=width)
    assert driver.title != "pwned"
    assert driver.execute_script("return document.querySelectorAll('script, img, a').length") == 0
    assert driver.execute_script(OVERFLOWING, width) == []
    picture(driver, f"bench-report-hostile-{width}.png")


@pytest.mark.parametrize("paper", _PAPERS)
def test_it_can_be_printed(driver: webdriver.Chrome, open_page: Open, poem: Path, hostile: Path, paper: str) -> None:
    """A few pages of A4 and Letter, in the light whatever the screen is; no chart is taller than a page."""
    wide, high = _PAPERS[paper]
    for path in (hostile, poem):
        open_page(path, scheme="dark")
        size = {"paperWidth": wide, "paperHeight": high, "printBackground": True}
        printed = driver.execute_cdp_cmd("Page.printToPDF", size)["data"]
        pages = len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed)))
        assert 4 <= pages <= 10
        keep(f"bench-report-{paper}.pdf", printed)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        try:
            width, height = (round((side - 1.1) * 96) for side in (wide, high))  # within margins of 14 mm, in pixels
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            script = "return [...document.querySelectorAll('svg')].map((one) => one.getBoundingClientRect().height)"
            assert max(driver.execute_script(script)) < height - 60, "with its title, or what stands beneath it"
            assert driver.execute_script(OVERFLOWING, width) == []
            script = "return getComputedStyle(document.body).backgroundColor"
            assert driver.execute_script(script) == "rgb(255, 255, 255)"
        finally:
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
