"""Which wheel pip takes from a folder with both: `EAGERSTREAM_DIST=dist`, as `.ci/wheels` sets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_DIST = os.environ.get("EAGERSTREAM_DIST", "")
pytestmark = pytest.mark.skipif(not _DIST, reason="EAGERSTREAM_DIST names no folder with both wheels")

_NO_INDEX = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--find-links", _DIST)


def _pip(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_compiled_one_for_this_python() -> None:
    """Its tag is the more specific one."""
    report = _pip("install", *_NO_INDEX, "--dry-run", "--ignore-installed", "--report", "-", "eagerstream-wire")
    (chosen,) = json.loads(report)["install"]
    assert f"-cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-" in chosen["download_info"]["url"]


@pytest.mark.parametrize(
    ("python", "platform"),
    [("3.19", "any"), ("3.12", "win_amd64"), ("3.13", "macosx_11_0_arm64"), ("3.11", "linux_riscv64")],
)
def test_the_pure_one_elsewhere(python: str, platform: str, tmp_path: Path) -> None:
    """Another version of Python, or another platform, without a wheel of its own."""
    for_it = ("--only-binary", ":all:", "--python-version", python, "--platform", platform, "--dest", str(tmp_path))
    _pip("download", *_NO_INDEX, *for_it, "eagerstream-wire")
    assert [wheel.name.endswith("-py3-none-any.whl") for wheel in tmp_path.iterdir()] == [True]
