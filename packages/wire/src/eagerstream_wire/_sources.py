"""Run the sources of modules that mypyc has compiled. A wheel with compiled modules contains their sources, too."""

from __future__ import annotations

import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader


def import_sources(package: str) -> None:
    """Import all modules of a package from their sources. Call it before the first compiled one is imported.

    Python looks for compiled modules first. Here it gets a finder that knows only sources.

    Args:
        package: The directory of the package.
    """
    sys.path_importer_cache[package] = FileFinder(package, (SourceFileLoader, SOURCE_SUFFIXES))
