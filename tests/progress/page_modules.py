"""The page's own modules in Node: what does not need a browser to be tried."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from eagerstream.progress import web

_STATIC = Path(web.__file__).parent / "static"


def run_page_module(folder: Path, script: str, given: str) -> Any:
    """Run a script that imports the modules, as `./dom.js` say, and has `given` as a text; what it gives to `tell`.

    Skips the test if Node is not installed.
    """
    node = shutil.which("node")
    if node is None:
        pytest.skip("not installed: node")
    for file in _STATIC.glob("*.js"):
        shutil.copy(file, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "given.txt").write_text(given, encoding="utf-8")
    head = 'import { readFileSync } from "node:fs"; const given = readFileSync("given.txt", "utf8");\n'
    head += "const tell = (value) => console.log(JSON.stringify(value));\n"
    (folder / "script.js").write_text(head + script, encoding="utf-8")
    done = subprocess.run([node, "script.js"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
