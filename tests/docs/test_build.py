"""`make docs`: it builds without warnings, its links lead somewhere, and its pages are good to look at."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from docs._ext.public_names import members, public_names

from tests.node import installed_file

if TYPE_CHECKING:
    from selenium import webdriver

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PICTURES = ROOT / "build" / "screenshots"
SHOWN = (
    *("index", "start/quickstart", "guides/events", "guides/errors", "inside/life-of-a-call"),
    *("reference/run", "reference/limits", "reference/records", "reference/benchmarks", "reference/cli"),
)
"""Pages of every kind: their parts are those of all pages."""


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build as `make docs` does; skip the test if Sphinx is not installed."""
    for package in ("sphinx", "furo", "myst_parser"):
        importlib.import_module(package)
    found = re.search(r"-m sphinx (.*) -d build/doctrees docs build/docs$", MAKEFILE, re.MULTILINE)
    assert found is not None, "the target `docs` of the Makefile"
    command = [sys.executable, "-m", "sphinx", *found[1].split(), "-d", str(target / "doctrees"), str(source)]
    return subprocess.run(
        [*command, str(target / "pages")], cwd=ROOT, capture_output=True, text=True, timeout=500, check=False
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation."""
    target = tmp_path_factory.mktemp("docs")
    done = build(ROOT / "docs", target)
    assert (done.returncode, done.stderr) == (0, "")
    return target / "pages"


def inventory(file: Path) -> dict[str, str]:
    """The Python names in an `objects.inv` of Sphinx, with their pages; without what is only another spelling."""
    head, _, packed = file.read_bytes().partition(b"zlib.\n")
    assert head.startswith(b"# Sphinx inventory version 2")
    lines = [line.split(" ") for line in zlib.decompress(packed).decode().splitlines()]
    return {name: page for name, role, priority, page, *_ in lines if role.startswith("py:") and priority != "-1"}


def documented(value: object) -> frozenset[str]:
    """The members of a class that have documentation."""
    return members(value) if isinstance(value, type) else frozenset()


def test_the_reference_has_the_public_names(built: Path) -> None:
    """What the pages list is what Sphinx wrote, members included, and nothing of it is private."""
    found = set(inventory(built / "objects.inv"))
    assert set(public_names()) <= found
    inner = {name for name in found - set(public_names()) if name.rpartition(".")[0] in public_names()}
    assert found == set(public_names()) | inner
    assert [name for name in found if "._" in name] == []
    shown = {f"{full}.{member}" for full, name in public_names().items() for member in documented(name.value)}
    assert shown <= found


def test_no_text_of_a_signature_is_private(built: Path) -> None:
    """The path of a private module would be of no use: nobody imports from there."""
    pages = {file.name: file.read_text(encoding="utf-8") for file in (built / "reference").glob("*.html")}
    for name, page in pages.items():
        signatures = re.findall(r'<dt class="sig.*?</dt>', page, re.DOTALL)
        assert [text for text in signatures if re.search(r"\beagerstream\.[\w.]*\._", _seen(text))] == [], name


def _seen(html: str) -> str:
    return re.sub(r"<[^>]*>", "", html)


def test_options_are_shown_where_they_are_taken(built: Path) -> None:
    """The signature of `run` says `**options` only."""
    page = (built / "reference" / "run.html").read_text(encoding="utf-8")
    for option in ("max_turns", "on_truncated", "max_concurrency", "min_interval_s", "parser", "eager"):
        assert re.search(rf'href="[^"]*#eagerstream\.[\w.]+\.{option}"', page), option
    assert "service_tier" in page


def test_for_language_models(built: Path) -> None:
    """`llms.txt` names every page, and `llms-full.txt` has the text of all, the docstrings too."""
    index, full = ((built / name).read_text(encoding="utf-8") for name in ("llms.txt", "llms-full.txt"))
    assert index.startswith("# eagerstream\n\n> ")
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", index, re.MULTILINE)
    assert {*links, "index.html"} == {
        str(file.relative_to(built))
        for file in built.rglob("*.html")
        if file.stem not in ("genindex", "search", "py-modindex")
    }
    assert "### `eagerstream.run(client: " in full
    assert "Options of `run`" in full
    assert not re.findall(r"^```\{\w+\}", full, re.MULTILINE), "all of it is written out"
    assert "[](" not in full


_BROKEN = {
    "[there](nowhere.md)": "target not found: 'nowhere.md'",
    "[there](#no-such-heading)": "target not found: 'no-such-heading'",
    "[there](#eagerstream.NoSuchName)": "target not found: 'eagerstream.NoSuchName'",
    "{py:class}`eagerstream.NoSuchClass`": "target not found: eagerstream.NoSuchClass",
    '<a href="nowhere.html">there</a>': "nowhere.html leads nowhere",
    '<a href="#nowhere">there</a>': "#nowhere leads to no anchor",
    '<img src="https://example.com/picture.png" alt="">': "loads https://example.com/picture.png",
}


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """Each of these is a warning, and a warning fails it."""
    source = tmp_path / "docs"
    source.mkdir()
    settings = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    settings = settings.replace("Path(__file__).parents[1]", f"Path({str(ROOT)!r})")
    (source / "conf.py").write_text(f"{settings}\nhtml_static_path = []\nhtml_css_files = []\n", encoding="utf-8")
    (source / "index.md").write_text("# Right\n\n[here](#right)\n", encoding="utf-8")
    done = build(source, tmp_path / "right")
    assert (done.returncode, done.stderr) == (0, "")
    (source / "index.md").write_text("\n\n".join(["# Wrong", *_BROKEN]), encoding="utf-8")
    done = build(source, tmp_path / "wrong")
    assert done.returncode != 0
    assert [problem for problem in _BROKEN.values() if problem not in done.stderr] == [], done.stderr


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A browser."""
    from tests.browser import chromium

    with chromium(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome


_ALSO = pytest.mark.nightly
"""Each width and each scheme is tried in each run of the slow tests, and each pair at night."""


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1280, "light"),
        (390, "dark"),
        pytest.param(1280, "dark", marks=_ALSO),
        pytest.param(390, "light", marks=_ALSO),
    ],
)
def test_pages_in_a_browser(driver: webdriver.Chrome, built: Path, width: int, scheme: str) -> None:
    """No page is wider than the screen, loads anything from another host, or gives axe-core anything to complain of."""
    axe = installed_file("axe-core/axe.min.js").read_text(encoding="utf-8")
    script = (
        "const done = arguments[0]; axe.run().then((found) => done(found.violations), (error) => done(String(error)))"
    )
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    PICTURES.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    for page in sorted(built.rglob("*.html")):
        name = str(page.relative_to(built).with_suffix(""))
        driver.get(page.as_uri())
        if driver.execute_script("return document.documentElement.scrollWidth > innerWidth"):
            problems.append(f"{name} is too wide: {driver.execute_script(_TOO_WIDE)}")
        loaded = driver.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        if elsewhere := [address for address in loaded if not address.startswith(("file:", "data:"))]:
            problems.append(f"{name} loads {elsewhere}")
        if name in SHOWN:
            driver.save_screenshot(str(PICTURES / f"docs-{name.replace('/', '-')}-{width}-{scheme}.png"))
            driver.execute_script(axe)
            found = driver.execute_async_script(script)
            assert isinstance(found, list), found
            problems += [f"{name}: {rule['id']}: {_parts(rule)}" for rule in found]
    assert "\n".join(problems) == ""


def _parts(rule: dict[str, Any]) -> list[str]:
    return [node["html"][:200] for node in rule["nodes"][:5]]


_TOO_WIDE = """
return [...document.querySelectorAll('body *')].filter((element) => element.getBoundingClientRect().right > innerWidth)
    .slice(0, 3).map((element) => element.outerHTML.slice(0, 200))"""
