"""Files that are complete or not there, private if they hold what was said, and never written through a link."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from eagerstream import Recording
from eagerstream._support.files import open_instead, replacing
from eagerstream.errors import UsageError
from eagerstream_lab._results import save_json
from eagerstream_progress import RunLog, record_run, save_records
from eagerstream_testing.capture import RecordingFolder

RECORDING = Recording.from_body(b"data: {}\n\n")
Writer = Callable[[Path], object]


def save_run(path: Path) -> None:
    save_records(path, [])


def grow_run(path: Path) -> None:
    log = RunLog("r")
    log.close()
    anyio.run(record_run, log, path)


def save_recording(path: Path) -> None:
    RECORDING.save(path)


def save_measurements(path: Path) -> None:
    save_json(path, {})


PRIVATE: list[Writer] = [save_run, grow_run, save_recording]
ALL: list[Writer] = [*PRIVATE, save_measurements]

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions and links are other things there")


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("write", PRIVATE)
@pytest.mark.parametrize("was_there", [False, True])
def test_what_was_said_is_for_its_owner(write: Writer, was_there: bool, tmp_path: Path) -> None:
    """Also if the file that it replaces was open to everybody."""
    path = tmp_path / "a.jsonl"
    if was_there:
        path.write_text("earlier")
        path.chmod(0o644)
    write(path)
    assert mode(path) == 0o600
    assert "earlier" not in path.read_text()


@posix
@pytest.mark.usefixtures("umask")
def test_measurements_are_for_those_whom_the_umask_lets(tmp_path: Path) -> None:
    """Times and pictures are made to be shown."""
    save_measurements(tmp_path / "a.json")
    assert mode(tmp_path / "a.json") == 0o644


@posix
@pytest.mark.parametrize("write", ALL)
@pytest.mark.parametrize("is_there", [False, True])
def test_a_link_is_not_followed(write: Writer, is_there: bool, tmp_path: Path) -> None:
    """Neither under the name of the file, nor under one that a temporary file could have."""
    folder, victim = tmp_path / "folder", tmp_path / "victim"
    folder.mkdir()
    path = folder / "a.jsonl"
    for name in ("a.jsonl", "a.jsonl.part", ".a.jsonl.part", "a.jsonl.tmp"):
        (folder / name).symlink_to(victim)
    if is_there:
        victim.write_text("precious")
    write(path)
    assert not path.is_symlink()
    assert "precious" not in path.read_text()
    if is_there:
        assert victim.read_text() == "precious"
    else:
        assert not victim.exists()


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


@posix
@pytest.mark.parametrize("through_a_link", [False, True])
@pytest.mark.parametrize("write", ALL)
def test_a_pipe_is_not_replaced(write: Writer, through_a_link: bool, tmp_path: Path) -> None:
    """Nor a device, which stands for the same: as root, a careless path would replace `/dev/null` for everybody."""
    pipe, path = tmp_path / "pipe", tmp_path / "a.jsonl"
    os.mkfifo(pipe if through_a_link else path)
    if through_a_link:
        path.symlink_to(pipe)
    with pytest.raises((OSError, UsageError), match="not an ordinary file"):
        write(path)
    assert path.is_fifo()
    assert len(list(tmp_path.iterdir())) == 1 + through_a_link


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
