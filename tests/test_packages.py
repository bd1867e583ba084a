"""The packages of this repository: what each may import, and what they ask of each other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import eagerstream
from tests.source_tree import ROOT, imports, modules, sources
from tests.tables import rows

_GRAPH = {
    "eagerstream_wire": (),
    "eagerstream": ("eagerstream_wire",),
    "eagerstream_testing": ("eagerstream",),
    "eagerstream_progress": ("eagerstream", "eagerstream_testing"),
    "eagerstream_lab": ("eagerstream", "eagerstream_progress", "eagerstream_testing"),
    "eagerstream_toolkit": ("eagerstream",),
    "eagerstream_durable": ("eagerstream",),
    "eagerstream_adapters": ("eagerstream",),
    "eagerstream_compat": ("eagerstream", "eagerstream_toolkit"),
}
"""Each package, and those that it may import, also for type checkers. Versions are exact, so no other is ever there."""


_NPM_PACKAGE = Path("packages/progress/clients/eagerstream-records")


def _metadata(package: str) -> dict[str, Any]:
    folder = ROOT if package == "eagerstream" else sources()[package].parents[1]
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def test_all_packages_are_known() -> None:
    assert sources().keys() == _GRAPH.keys()


@rows("package", _GRAPH)
def test_packages_import_what_they_may(package: str) -> None:
    """Other packages only below them, of the core only what it documents and `_support`; the core all of wire."""
    for module, file in modules(package).items():
        for name, names in imports(module, file):
            top, *inner = name.split(".")
            if not top.startswith("eagerstream") or top == package:
                continue
            assert top in _GRAPH[package], f"{file} imports {name}"
            if package != "eagerstream":
                private = [part for part in (*inner, *names) if part.startswith("_")]
                assert not private or inner[0] == "_support", f"{file} imports {private} from {name}"


@rows("package", _GRAPH)
def test_dependencies_are_exact(package: str) -> None:
    """`make version` writes the numbers. pip could not mix packages of two versions."""
    project = _metadata(package)["project"]
    assert project["version"] == eagerstream.__version__
    asked = [line for line in project["dependencies"] if line.startswith("eagerstream")]
    wanted = [f"{name.replace('_', '-')}=={eagerstream.__version__}" for name in _GRAPH[package]]
    assert sorted(asked) == sorted(wanted)
    for extra in project.get("optional-dependencies", {}).values():
        for line in extra:
            if line.startswith("eagerstream") and not line.startswith(project["name"]):
                assert line.endswith(f"=={eagerstream.__version__}"), line


@rows("package", _GRAPH)
def test_licences_are_copies(package: str) -> None:
    """A link would break the build of a source distribution."""
    folder = ROOT if package == "eagerstream" else sources()[package].parents[1]
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert not (folder / "LICENSE").is_symlink()
    assert (folder / "NOTICE").read_text().startswith(f"{_metadata(package)['project']['name']}\n")
    assert (folder / "README.md").exists()


def _told(root: Path, *words: str) -> list[str]:
    """What `.ci/packages` prints for a checkout."""
    command = [sys.executable, str(root / ".ci/packages"), *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The metadata of all packages, in a folder of its own."""
    return copied(tmp_path)


def copied(folder: Path) -> Path:
    """Copy the metadata of all packages."""
    packages = (file.relative_to(ROOT) for file in ROOT.glob("packages/*/pyproject.toml"))
    npm = (_NPM_PACKAGE / name for name in ("package.json", "package-lock.json"))
    for file in (*map(Path, (".ci/packages", "src/eagerstream/__init__.py", "pyproject.toml")), *packages, *npm):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    return folder


def test_a_version_is_written_everywhere(checkout: Path) -> None:
    """`make version` leaves no old number behind: what asks for it could not be installed."""
    _told(checkout, "version", "9.8.7")
    for file in (checkout / "pyproject.toml", *checkout.glob("packages/*/pyproject.toml")):
        text = file.read_text(encoding="utf-8")
        assert tomllib.loads(text)["project"]["version"] == "9.8.7"
        assert set(re.findall(r'"eagerstream[\w-]*(?:\[[^]]*\])?==([^"]*)"', text)) <= {"9.8.7"}, file
    assert '__version__ = "9.8.7"' in (checkout / "src/eagerstream/__init__.py").read_text(encoding="utf-8")


@rows("version, of_npm", [("9.8.7", "9.8.7"), ("9.8.7rc1", "9.8.7-rc.1"), ("9.8.7a12", "9.8.7-alpha.12")])
def test_the_version_of_the_npm_package(version: str, of_npm: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is that of the others, as npm writes it. Nothing else in its files changes."""
    folder = copied(tmp_path_factory.mktemp("checkout"))
    _told(folder, "version", version)
    for name in ("package.json", "package-lock.json"):
        old, new = (json.loads((root / _NPM_PACKAGE / name).read_text()) for root in (ROOT, folder))
        assert new.pop("version") == of_npm
        old.pop("version")
        if "packages" in new:
            assert new["packages"][""].pop("version") == of_npm
            old["packages"][""].pop("version")
        assert new == old


def test_what_the_tests_of_a_package_install() -> None:
    """Its own package and those below it; for the tests of the core also the double."""
    assert _told(ROOT, "needs", "wire") == ["packages/wire"]
    assert _told(ROOT, "needs", "core") == [".", "packages/testing", "packages/wire"]
    assert _told(ROOT, "needs", "progress") == [".", "packages/progress", "packages/testing", "packages/wire"]


@rows(
    "file, concerned",
    [
        ("docs/index.md", ["core", "wire"]),
        ("packages/compat/src/eagerstream_compat/__init__.py", ["core", "compat", "wire"]),
        ("packages/progress/tests/test_web.py", ["core", "lab", "progress", "wire"]),
        ("packages/toolkit/pyproject.toml", ["core", "compat", "toolkit", "wire"]),
        ("tests/support.py", [name.removeprefix("eagerstream_") for name in _GRAPH]),
        ("packages/wire/src/eagerstream_wire/_sse.py", [name.removeprefix("eagerstream_") for name in _GRAPH]),
    ],
)
def test_which_packages_a_change_concerns(file: str, concerned: list[str]) -> None:
    """CI runs the slow tests of these. Whatever lies below a package may break it."""
    source = (ROOT / ".ci/packages").read_text(encoding="utf-8")
    space: dict[str, Any] = {"__file__": str(ROOT / ".ci/packages"), "__name__": "packages"}
    exec(compile(source, "packages", "exec"), space)
    wanted = {"core" if name == "eagerstream" else name for name in concerned}
    assert space["changed"]([file]) == wanted
