"""The machine, the versions and the commit of a measurement."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from eagerstream import is_compiled

from ._results import MachineData

_PACKAGES: Final = ("eagerstream", "eagerstream-wire", "anthropic", "anyio", "httpx", "httpx2", "pydantic")
_GIT_TIMEOUT_S: Final = 10.0
_CPU_INFO: Final = Path("/proc/cpuinfo")


def machine(*, load: float | None) -> MachineData:
    """Return the kind of the machine, but nothing that identifies it, and the commit of the working directory.

    Args:
        load: Load average of one minute, before the first run.
    """
    commit, dirty = _commit()
    return {
        "system": system_name(),
        "cpu": cpu_name(),
        "cores": os.cpu_count() or 1,
        "load": load,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "core": "compiled" if is_compiled() else "pure Python",
        "packages": {name: found for name, found in versions(_PACKAGES).items() if found is not None},
        "commit": commit,
        "dirty": dirty,
    }


def cpu_name() -> str:
    """Return the name of the processor's model, or that of its architecture."""
    try:
        lines = _CPU_INFO.read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def system_name() -> str:
    """Return the name of the operating system, and of its kernel."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.platform()
    return f"{name}, {platform.system()} {platform.release()}"


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Return the versions of packages; `None` for one that is not installed."""
    return {package: _version(package) for package in packages}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> tuple[str | None, bool | None]:
    """Return the commit of the working directory, and whether tracked files differ from it; `None` without Git."""
    commit = _git("rev-parse", "--verify", "HEAD")
    changed = None if commit is None else _git("status", "--porcelain", "--untracked-files=no")
    return commit, None if changed is None else bool(changed)


def _git(*arguments: str) -> str | None:
    # Without optional locks, a commit that somebody makes at the same time does not fail.
    command = ["git", "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip()
