"""Builds the client of a page of the docs, with the packages of this folder in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.node import need_packages
from tests.source_tree import ROOT

_CLIENTS = ROOT / "packages/progress/tests/clients"
_RECORDS = ROOT / "packages/progress/clients/eagerstream-records"
_PAGE = '<!doctype html><meta charset="utf-8"><div id="root"></div><script type="module" src="/app.js"></script>'


def build(code: str, folder: Path) -> None:
    """Write `index.html` and `app.js` with this program in TypeScript into a folder. `ai` is its newest version."""
    need_packages()
    need_packages(_RECORDS)
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(_RECORDS / "node_modules/.bin/esbuild"),
        "--bundle",
        "--format=esm",
        "--loader=tsx",
        "--jsx=automatic",
    ]
    command += ["--alias:ai=ai7", "--log-level=error", f"--outfile={folder / 'app.js'}"]
    subprocess.run(command, check=True, input=code, text=True, cwd=_CLIENTS, timeout=60)
    (folder / "index.html").write_text(_PAGE)
