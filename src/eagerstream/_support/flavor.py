"""Run the sources of modules that mypyc has compiled. A wheel with compiled modules contains their sources, too."""

from __future__ import annotations

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from typing import Final

_COMPILED_ROOMS: Final = ("wire",)  # the rooms of the modules that pyproject.toml lists for the compiler


def import_sources(package: str) -> None:
    """Import all modules from their sources. Call it before the first compiled one is imported.

    Python looks for compiled modules first. Here it gets a finder that knows only sources.

    Args:
        package: The directory of the package.
    """
    for room in _COMPILED_ROOMS:
        directory = f"{package}{os.sep}{room}"  # each program would import pathlib for it
        sys.path_importer_cache[directory] = FileFinder(directory, (SourceFileLoader, SOURCE_SUFFIXES))
