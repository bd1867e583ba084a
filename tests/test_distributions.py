"""The wheels of all packages: what is in them, and what they ask for. `EAGERSTREAM_DIST=dist`, as `.ci/wheels` sets it."""

from __future__ import annotations

import os
import re
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest

from eagerstream import __version__
from tests.source_tree import sources
from tests.tables import rows

_DIST = os.environ.get("EAGERSTREAM_DIST", "")
pytestmark = pytest.mark.skipif(not _DIST, reason="EAGERSTREAM_DIST names no folder with the wheels")

_MAX_KB = {"eagerstream_wire": 160}
"""Of pure wheels: a gateway that only wants the parser gets nothing else."""


def _wheel(package: str) -> Path:
    (wheel,) = Path(_DIST).glob(f"{package}-{__version__}-py3-none-any.whl")
    return wheel


@rows("package", sources())
def test_contents(package: str) -> None:
    """The sources and the metadata, with licences and types; no tests, no vectors, nothing of another package."""
    with ZipFile(_wheel(package)) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {package, f"{package}-{__version__}.dist-info"}
    licences = f"{package}-{__version__}.dist-info/licenses"
    assert {f"{package}/py.typed", f"{package}/__init__.py", f"{licences}/LICENSE", f"{licences}/NOTICE"} <= set(names)
    assert not [name for name in names if re.search(r"(^|/)(tests?|conformance|node_modules)/|\.pyc$", name)]
    assert _wheel(package).stat().st_size < 1000 * _MAX_KB.get(package, 1_500)


@rows("package", sources())
def test_metadata(package: str) -> None:
    """All have one version, and ask for exactly that of each other, in their extras, too."""
    with ZipFile(_wheel(package)) as wheel:
        found = message_from_bytes(wheel.read(f"{package}-{__version__}.dist-info/METADATA"))
    assert (found["Name"], found["Version"]) == (package.replace("_", "-"), __version__)
    assert found["License-Expression"] == "Apache-2.0"
    others = [line for line in found.get_all("Requires-Dist", []) if re.match(r"eagerstream(-\w+)?[ =;<>~!]", line)]
    assert all(re.match(rf"eagerstream(-\w+)?=={re.escape(__version__)}(;|$)", line) for line in others), others


def test_all_wheels_are_pure_but_one() -> None:
    """Only the parsers are compiled: any other change needs no new wheel for each Python and platform."""
    compiled = [wheel.name for wheel in Path(_DIST).glob("*.whl") if not wheel.name.endswith("-none-any.whl")]
    assert all(name.startswith("eagerstream_wire-") for name in compiled)
