"""Programs for the compiler of TypeScript, with the package for records as a project installs it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.node import need_packages
from tests.source_tree import ROOT

PACKAGE = ROOT / "packages/progress/clients/eagerstream-records"
OPTIONS = [
    *("--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUnusedLocals", "--pretty", "false"),
    *("--target", "es2022", "--lib", "es2023,dom,dom.asynciterable"),
    *("--module", "esnext", "--moduleResolution", "bundler", "--jsx", "react-jsx"),
]


@cache
def build() -> None:
    """Build the package once. Skips the test as `need_packages` does."""
    need_packages(PACKAGE)
    subprocess.run(["node", "scripts/build.mjs", "--package"], cwd=PACKAGE, check=True, timeout=120)


def faults_of(folder: Path, files: Mapping[str, str]) -> list[str]:
    """What the compiler has against a project of these files."""
    build()
    installed = folder / "node_modules"
    installed.mkdir(exist_ok=True)
    for name, target in {
        "eagerstream-records": PACKAGE,
        **{name: PACKAGE / "node_modules" / name for name in ("react", "@types", "csstype")},
    }.items():
        if not (installed / name).exists():
            (installed / name).symlink_to(target)
    (folder / "package.json").write_text('{"type": "module"}')
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    tsc = PACKAGE / "node_modules/typescript/bin/tsc"
    command = ["node", str(tsc), *OPTIONS, *files]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=240)
    faults = [line for line in done.stdout.splitlines() if ": error " in line]
    assert bool(faults) is bool(done.returncode), done.stdout + done.stderr
    return faults


def compiled(folder: Path, files: Mapping[str, str]) -> None:
    """Compile a project without a fault."""
    faults = faults_of(folder, files)
    assert not faults, "\n".join(faults[:20])
