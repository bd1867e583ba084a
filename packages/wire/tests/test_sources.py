"""`import_sources`: a module that lies beside its compiled form."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from eagerstream_wire._sources import import_sources


def test_a_compiled_module_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would take the library, which here is not even one."""
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "one.py").write_text("VALUE = 1\n")
    (package / f"one{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError):
        importlib.import_module("some_package.one")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
        import_sources(str(package))
        assert importlib.import_module("some_package.one").VALUE == 1
