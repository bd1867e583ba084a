"""The packages of this repository: what each may import, and what they ask of each other."""

from __future__ import annotations

import tomllib
from typing import Any

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
