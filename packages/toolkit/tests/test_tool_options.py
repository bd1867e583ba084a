"""The options that the builtin tools set by themselves."""

from __future__ import annotations

from pathlib import Path

from eagerstream_toolkit import SQL, BraveSearch, Calculator, Files, Memory, TextEditor, WikipediaSearch


def test_what_only_reads(tmp_path: Path) -> None:
    """Tools that can change something are not marked, even if some of their calls only read."""
    (tmp_path / "empty.db").touch()
    database = tmp_path / "empty.db"
    reading = [Calculator(), WikipediaSearch(), BraveSearch(api_key="key"), Files(tmp_path).read, SQL(database)]
    assert all(tool.read_only for tool in reading)
    files = Files(tmp_path)
    writing = [files.write, files.edit, files.multi_edit, SQL(database, read_only=False)]
    writing += [Memory(tmp_path), TextEditor(tmp_path), Calculator(read_only=False)]
    assert not any(tool.read_only for tool in writing)
