"""jsonriver under node: the other parser that returns a growing value and reads no prefix again.

npm installs it into `build/node` at its first use. `jsonriver.mjs` measures it.

Its consumer gets a value after each fragment that changes the value. It never gets one value for several such
fragments, from any source: the parser asks for the next fragment only when the consumer asks for the next value. A
fragment that changes nothing (a part of a key or of a number, a comma) yields no value. Counts check both:
`jsonriver.mjs` checks the first, and the caller of `measure` the second. So `"one at a time"` is equivalent to a `feed`
with a read of `value`.
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
"""Sources of its fragments: one after another, as they arrive; an iterator that has all of them, its best case; or a
ReadableStream, like the body of a response.
"""

_PREFIX = ROOT / "build" / "node"
_MODULE = _PREFIX / "node_modules" / "jsonriver" / "dist" / "index.js"


class NotInstalledError(Exception):
    """jsonriver cannot run here. The message has the reason."""


@dataclass(frozen=True)
class Measured:
    """Figures of one document from one source: its best time, and the number of values that the consumer got."""

    seconds: float
    values: int


def measure(documents: Iterable[Sequence[str]]) -> list[dict[str, Measured]]:
    """Return the figures of each document, by source. A document is a sequence of fragments.

    Raises:
        NotInstalledError: node or npm is missing, or npm did not install the package.
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
