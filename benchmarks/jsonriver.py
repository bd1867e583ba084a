"""jsonriver under node: the other parser that gives a growing value without reading any prefix again.

npm installs it into `build/node` when it is first needed. `jsonriver.mjs` measures it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from .flavors import ROOT

VERSION = "1.1.1"
SOURCES = ("at hand", "stream")
"""Where its fragments come from: an iterator that has them all, its best chance; or a ReadableStream."""

_PREFIX = ROOT / "build" / "node"
_MODULE = _PREFIX / "node_modules" / "jsonriver" / "dist" / "index.js"


class NotInstalledError(Exception):
    """jsonriver cannot run here; the message says why."""


def measure(documents: Iterable[Sequence[str]]) -> list[dict[str, float]]:
    """For each document, given as its fragments: the best time of each source, in seconds.

    Raises:
        NotInstalledError: There is no node, or npm did not install the package.
    """
    if shutil.which("node") is None:
        raise NotInstalledError("no node")
    _install()
    child = subprocess.run(
        ["node", str(Path(__file__).with_suffix(".mjs")), str(_MODULE)],
        input="".join(json.dumps(fragments) + "\n" for fragments in documents),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in child.stdout.splitlines()]


def _install() -> None:
    package = _MODULE.parents[1] / "package.json"
    if package.exists() and json.loads(package.read_text())["version"] == VERSION:
        return
    if shutil.which("npm") is None:
        raise NotInstalledError("no npm")
    command = ["npm", "install", "--prefix", str(_PREFIX), f"jsonriver@{VERSION}"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise NotInstalledError("npm did not install jsonriver")
