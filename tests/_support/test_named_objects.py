"""Objects of the user's program by name: found, or refused in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eagerstream import UsageError
from eagerstream._support.named_objects import load_named
from tests.tables import rows


def test_a_module_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program need not be installed. An attribute of an attribute has a name, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "made_program.py").write_text("class Tools:\n    all = [1, 2]\n")
    assert load_named("made_program:Tools.all") == [1, 2]
    (tmp_path / "made_wrong.py").write_text("raise SystemExit('key sk-ant-api03-abcdefghijklmnop is \\x1b[2Jwrong')")
    with pytest.raises(UsageError) as found:
        load_named("made_wrong:tools")
    assert str(found.value).startswith("made_wrong:tools cannot be loaded: SystemExit: key ")
    assert "sk-ant-api03" not in str(found.value)
    assert "\x1b" not in str(found.value)


@rows("place, words", [("json", "module:name"), (":x", "module:name"), ("json:", "module:name"), ("json:no", "no")])
def test_a_wrong_name(place: str, words: str) -> None:
    """It says what is wrong."""
    with pytest.raises(UsageError, match=words):
        load_named(place)
