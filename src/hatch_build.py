"""The compiled wheel: with `EAGERSTREAM_COMPILE=1` in the environment, mypyc compiles the hot modules.

Without it the wheel is pure Python, and its build needs only hatchling. Both wheels contain the same source, for
tracebacks and type checkers. `pyproject.toml` registers this hook with hatchling and lists the modules to compile.

The package hatch-mypyc does the same, but builds inside the source tree. The compiled modules that it leaves there hide
the source from an editable installation. It also moves `pyproject.toml` away during the build.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_COMPILED = os.environ.get("EAGERSTREAM_COMPILE") == "1"
_SHARED = "eagerstream.wire.compiled"  # the modules' shared library: next to them, not in site-packages itself


class CompiledWheel(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel, and gives it the tag of this platform and this Python."""

    def dependencies(self) -> list[str]:
        """Return the packages that the build needs besides hatchling."""
        return ["mypy[mypyc]>=1.18"] if _COMPILED else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is packed. An editable installation runs the source."""
        if not _COMPILED or version == "editable":
            return
        sources = [f"{self.root}/src/{module.replace('.', '/')}.py" for module in self.config["modules"]]
        self._directory = TemporaryDirectory(prefix="eagerstream-")  # until `finalize`: the wheel is packed from there
        libraries = _compile(sources, Path(self._directory.name))
        build_data["force_include"].update(libraries)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, _version: str, build_data: dict[str, Any], _artifact_path: str) -> None:
        """Remove the compiled libraries after the wheel is packed."""
        if not build_data["pure_python"]:
            self._directory.cleanup()


def _compile(sources: list[str], directory: Path) -> dict[str, str]:
    """Return the compiled libraries: the path of each, and its path in the wheel."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    # Without the project's settings: an isolated build lacks the packages that they require.
    options = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={directory / 'mypy'}"]
    extensions = mypycify([*options, *sources], group_name=_SHARED, debug_level="0", target_dir=str(directory / "c"))
    command = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
    command.build_lib = str(directory / "lib")
    command.build_temp = str(directory / "objects")
    command.ensure_finalized()
    command.run()
    return {path: str(Path(path).relative_to(directory / "lib")) for path in command.get_outputs()}
