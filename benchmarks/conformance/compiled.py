"""Programs in Go and Rust: the adapters of peers, and the runners of the vectors, which a test compares.

They are compiled into `build/conformance` without a network. Rust needs the crates of Debian's librust-serde-json-dev.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_HERE: Final = Path(__file__).parent
_BUILT: Final = _ROOT / "build/conformance"
_VECTORS: Final = _ROOT / "packages/wire/conformance"
_RUNNERS: Final = _ROOT / "tests/conformance"
_CRATES: Final = Path("/usr/share/cargo/registry")
"""Folder into which Debian's packages put their crates."""
CARGO: Final = (
    *("--offline", "--target-dir", str(_BUILT / "rust/target")),
    *("--config", 'source.crates-io.replace-with="debian"', "--config", f'source.debian.directory="{_CRATES}"'),
)
"""Options with which cargo takes all crates from Debian, and compiles each once."""
GO: Final = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
"""Environment in which go needs no network."""
_GO_FILES: Final = {
    "conformance/run.go": _VECTORS / "run.go",
    "runner/main.go": _RUNNERS / "go/runner.go",
    "encoding_json/main.go": _HERE / "go/encoding_json.go",
}
_LIMIT_S: Final = 300


class NoCompilerError(Exception):
    """A program cannot be compiled here. The message names the packages of Debian that are missing."""


@cache
def go_programs() -> Path:
    """Return the folder with `runner` and `encoding_json`.

    Raises:
        NoCompilerError: There is no Go.
    """
    if shutil.which("go") is None:
        raise NoCompilerError("needs golang-go")
    source = _BUILT / "go"
    for name, file in _GO_FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, source / name)
    (source / "go.mod").write_text("module vectors\n\ngo 1.19\n")
    _run(["go", "build", "-o", "bin/", "./..."], source)
    return source / "bin"


@cache
def rust_programs() -> Path:
    """Return the folder with `runner` and `serde_json_lines`.

    Raises:
        NoCompilerError: There is no Rust, or its crates are not there.
    """
    if shutil.which("cargo") is None or not _CRATES.is_dir():
        raise NoCompilerError("needs cargo and librust-serde-json-dev")
    source = _BUILT / "rust"
    source.mkdir(parents=True, exist_ok=True)
    manifest = (_HERE / "rust/Cargo.toml").read_text().replace("../../../", f"{_ROOT}/")
    (source / "Cargo.toml").write_text(manifest)  # beside its lock, which names the versions of Debian
    shutil.copyfile(_HERE / "rust/serde_json_lines.rs", source / "serde_json_lines.rs")
    _run(["cargo", "build", *CARGO], source)
    return source / "target/debug"


def go_version() -> str:
    """Return the version of Go, as `go1.19.8`.

    Raises:
        NoCompilerError: There is no Go.
    """
    go_programs()
    found = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def crate_version(name: str) -> str:
    """Return the version of a crate that the programs in Rust were compiled with.

    Raises:
        NoCompilerError: There is no Rust, or its crates are not there.
    """
    rust_programs()
    locked = tomllib.loads((_BUILT / "rust/Cargo.lock").read_text())["package"]
    return str(next(package["version"] for package in locked if package["name"] == name))


def _run(command: Sequence[str], folder: Path) -> None:
    """Run a compiler.

    Raises:
        RuntimeError: It failed.
    """
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **GO}, capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stderr[-4000:]}")
