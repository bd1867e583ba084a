"""jsonriver under node: the other parser that gives a growing value without reading any prefix again.

npm installs it into `build/node` when it is first needed. `jsonriver.mjs` measures it.

Its consumer gets a value after each fragment that changes it, and never one value for several such fragments, however
they are handed over: it asks for the next fragment only when the consumer asks for the next value. A fragment that
changes nothing (a part of a key or of a number, a comma) gives no value. `jsonriver.mjs` checks the one, and whoever
measures it the other, by counts. So handing over `"one at a time"` is the equal of a `feed` with a look at `value`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .flavors import ROOT

VERSION = "1.1.1"
SOURCES = ("one at a time", "at hand", "stream")
"""Where its fragments come from: from outside, as they arrive; an iterator that has them all, its best chance; or a
ReadableStream, which is what a response's body is.
"""

_PREFIX = ROOT / "build" / "node"
_MODULE = _PREFIX / "node_modules" / "jsonriver" / "dist" / "index.js"


class NotInstalledError(Exception):
    """jsonriver cannot run here; the message says why."""


@dataclass(frozen=True)
class Measured:
    """One document from one source: its best time, and how many values the consumer got."""

    seconds: float
    values: int


def measure(documents: Iterable[Sequence[str]]) -> list[dict[str, Measured]]:
    """For each document, given as its fragments, what was measured by source.

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
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    return [{source: Measured(**figures) for source, figures in line.items()} for line in lines]


def _install() -> None:
    package = _MODULE.parents[1] / "package.json"
    if package.exists() and json.loads(package.read_text())["version"] == VERSION:
        return
    if shutil.which("npm") is None:
        raise NotInstalledError("no npm")
    command = ["npm", "install", "--prefix", str(_PREFIX), f"jsonriver@{VERSION}"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise NotInstalledError("npm did not install jsonriver")
