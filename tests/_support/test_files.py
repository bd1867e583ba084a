"""Files that are complete or not there, private if they hold what was said, and never written through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from eagerstream import Recording
from eagerstream._support.files import open_instead, replacing
from eagerstream_testing.capture import RecordingFolder
from tests.written_files import Writer, check_links, check_pipes, check_private, mode, posix

RECORDING = Recording.from_body(b"data: {}\n\n")


@posix
@pytest.mark.parametrize("check", [check_private, check_links, check_pipes])
def test_a_recording(check: Callable[[Writer, Path], None], tmp_path: Path) -> None:
    """Private, and never written through a link or over a pipe."""
    check(RECORDING.save, tmp_path)


def record_one(recordings: RecordingFolder) -> None:
    tape = recordings.begin(b"{}")
    tape.begin(200, [])
    tape.take(b"data: {}\n\n")
    tape.end()
    recordings.flush()


@posix
def test_a_folder_of_recordings_follows_no_link(tmp_path: Path) -> None:
    """Its names are in order, so anybody knows the next one: what is there, be it a link to nothing, is left alone."""
    folder, victim = tmp_path / "folder", tmp_path / "victim"
    recordings = RecordingFolder(folder)
    assert mode(folder) == 0o700
    record_one(recordings)
    (folder / "0002.jsonl").symlink_to(victim)
    (folder / "0003.jsonl.part").symlink_to(victim)
    record_one(recordings)
    assert not victim.exists()
    made = [path for path in sorted(folder.iterdir()) if not path.is_symlink()]
    assert [(path.name, mode(path)) for path in made] == [("0001.jsonl", 0o600), ("0004.jsonl", 0o600)]


def test_a_block_that_fails_changes_nothing(tmp_path: Path) -> None:
    """The file stays, and nothing is left beside it."""
    path = tmp_path / "a"
    path.write_text("earlier")
    with pytest.raises(RuntimeError), replacing(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("a", "earlier")]


@posix
def test_on_the_disk_before_it_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash in between leaves the earlier file, or none, and never an empty one."""
    path = tmp_path / "a.jsonl"
    seen: list[str] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        seen.append(
            f"folder with {path.read_text()}" if is_folder else path.read_text() if path.exists() else "nothing"
        )
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    for content in ("earlier", "new"):
        with replacing(path) as file:
            file.write(content.encode())
    assert seen == ["nothing", "folder with earlier", "earlier", "folder with new"]
    path = tmp_path / "0001.jsonl"
    seen.clear()
    record_one(RecordingFolder(tmp_path))
    assert (seen[0], len(seen)) == ("nothing", 2)


@posix
def test_a_name_that_somebody_takes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between removing a file and making the new one, a link may be put there: it is not opened."""
    path, victim = tmp_path / "a", tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: path.symlink_to(victim))
    with pytest.raises(FileExistsError):
        open_instead(path)
    assert victim.read_text() == "precious"
