"""Both flavors of the package in one run: a measuring function in a subprocess for each.

*Pure* is the checkout's `src/`. *Compiled* is the wheel whose `eagerstream_wire` mypyc has compiled. It is built from
the same checkout and unpacked into `build/compiled/`. A process can import only one of them, so each flavor has a
subprocess. Each subprocess checks its flavor: a build that compiled nothing must not be measured as compiled.

A measuring function is at the top level of its module. Its arguments and its result are JSON.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from enum import StrEnum
from pathlib import Path
from typing import Any


class Flavor(StrEnum):
    """Form of `eagerstream_wire`."""

    PURE = "pure"
    COMPILED = "compiled"


ROOT = Path(__file__).parents[1]
_WIRE = ROOT / "packages" / "wire"
_PATHS = {Flavor.PURE: _WIRE / "src", Flavor.COMPILED: ROOT / "build" / "compiled"}
_DIGEST = _PATHS[Flavor.COMPILED] / "built-from.sha256"  # digest of the sources of the compiled flavor


class NoCompilerError(Exception):
    """The compiled flavor cannot be built here."""

    def __str__(self) -> str:
        return "no C compiler"


class MeasuringError(Exception):
    """A measuring function did not return its figures."""


def available() -> dict[Flavor, str]:
    """Return each flavor with the reason that it cannot be measured here, or "". Build the compiled one if needed."""
    try:
        path_of(Flavor.COMPILED)
    except NoCompilerError as error:
        return {Flavor.PURE: "", Flavor.COMPILED: str(error)}
    return {Flavor.PURE: "", Flavor.COMPILED: ""}


def measure(flavor: Flavor, function: Callable[..., Any], /, **arguments: Any) -> Any:
    """Return the result of `function(**arguments)` in a new process under this flavor. Its prints go to stderr.

    Raises:
        NoCompilerError: The flavor cannot be built here.
        MeasuringError: The function failed, or the process ran another flavor. stderr has the reason.
    """
    child = subprocess.run(
        [sys.executable, "-m", __name__, flavor, f"{function.__module__}:{function.__name__}"],
        input=json.dumps(arguments),
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(path_of(flavor))},  # comes before installed packages
        cwd=ROOT,
        text=True,
        check=False,
    )
    if child.returncode:
        raise MeasuringError(f"{function.__name__}() failed under the {flavor} flavor")
    return json.loads(child.stdout)


@functools.cache
def path_of(flavor: Flavor) -> Path:
    """Return the directory to import the package from.

    Raises:
        NoCompilerError: The flavor must be built, but no C compiler is installed.
    """
    if flavor is Flavor.COMPILED:
        digest = _digest_of_sources()
        if not _DIGEST.exists() or _DIGEST.read_text() != digest:
            _build(_PATHS[flavor])
            _DIGEST.write_text(digest)
    return _PATHS[flavor]


def _digest_of_sources() -> str:
    """Return a digest of the complete package, not only of its compiled part. The rest must not be stale either."""
    sources = [*_PATHS[Flavor.PURE].rglob("*.py"), _WIRE / "pyproject.toml"]
    digest = hashlib.sha256(sys.version.encode())
    for source in sorted(sources):
        digest.update(f"\0{source.relative_to(ROOT)}\0".encode() + source.read_bytes())
    return digest.hexdigest()


def _build(target: Path) -> None:
    """Build the compiled wheel, and unpack it into `target` as pip would install it.

    Raises:
        NoCompilerError: No C compiler is installed.
    """
    if not _has_compiler():
        raise NoCompilerError
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as dist:
        _run("-m", "build", "--wheel", "--outdir", dist, str(_WIRE), env=os.environ | {"EAGERSTREAM_COMPILE": "1"})
        (wheel,) = Path(dist).glob("*.whl")
        _run("-m", "pip", "install", "--no-deps", "--no-compile", "--target", str(target), str(wheel))


def _run(*arguments: str, env: dict[str, str] | None = None) -> None:
    """Run this Python with these arguments. Show its output only if it fails."""
    child = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, check=False)
    if child.returncode:
        sys.stderr.write(child.stdout + child.stderr)
        child.check_returncode()


def _has_compiler() -> bool:
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(shlex.split(command)[0]) is not None


# --- the subprocess ---------------------------------------------------------------------------------------------------


def _verify(flavor: Flavor) -> None:
    """Exit unless this process runs `flavor`."""
    from eagerstream_wire import _partial_json as partial_json

    file = Path(partial_json.__file__)
    runs = Flavor.PURE if file.suffix == ".py" else Flavor.COMPILED
    if runs is not flavor or not file.is_relative_to(_PATHS[flavor]):
        sys.exit(f"asked for the {flavor} flavor, and imported {file}")


def _main(flavor: str, function: str) -> None:
    _verify(Flavor(flavor))
    module, _, name = function.partition(":")
    with redirect_stdout(sys.stderr):  # stdout is for the result
        answer = getattr(importlib.import_module(module), name)(**json.load(sys.stdin))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _main(*sys.argv[1:])
