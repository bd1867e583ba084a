"""What the tests of the tools of HelloAgents share: nothing is told yet, and a folder for the file tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagerstream_compat import _deprecation as deprecation


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is deprecated is told once a process: each test is as the first."""
    monkeypatch.setattr(deprecation, "_told", set())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with `config.py` in it."""
    (tmp_path / "config.py").write_text("a = 1\nb = 2\nb = 3\n")
    return tmp_path
