"""The page's own modules in Node: what does not need a browser to be tried."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eagerstream_progress import web

_STATIC = Path(web.__file__).parent / "static"
_SERVE = """
import { createInterface } from "node:readline";
globalThis.tell = (value) => console.log(JSON.stringify(value));
for await (const line of createInterface({ input: process.stdin })) {
  const { script, given } = JSON.parse(line);
  globalThis.given = given;
  await import(script);
}
"""


class PageModules:
    """One process of Node, which runs one script after the other: each start of it takes a tenth of a second."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self._folder = folder
        self._process = process
        self._count = 0

    def run(self, script: str, given: str) -> Any:
        """Run a script that imports the modules, as `./dom.js` say, and has `given` as a text; what it gives to `tell`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._count += 1
        name = f"script{self._count}.js"
        (self._folder / name).write_text(script, encoding="utf-8")
        self._process.stdin.write(json.dumps({"script": f"./{name}", "given": given}) + "\n")
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        assert told, self._process.stderr.read()
        return json.loads(told)


@contextmanager
def page_modules(folder: Path) -> Iterator[PageModules]:
    """Start Node in a folder with the modules. Skips the test if Node is not installed."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("not installed: node")
    for file in _STATIC.glob("*.js"):
        shutil.copy(file, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "serve.js").write_text(_SERVE, encoding="utf-8")
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([node, "serve.js"], cwd=folder, text=True, encoding="utf-8", **pipes) as process:
        try:
            yield PageModules(folder, process)
        finally:
            process.kill()
