"""What every file must be that a package writes: private if it holds what was said, and never written through a link."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from eagerstream.errors import UsageError

Writer: TypeAlias = Callable[[Path], object]

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions and links are other things there")


def mode(path: Path) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def check_private(write: Writer, folder: Path) -> None:
    """Check that the file is for its owner, also if the file that it replaces was open to everybody."""
    before = os.umask(0o022)
    try:
        for name in ("new.jsonl", "replaced.jsonl"):
            path = folder / name
            if name.startswith("replaced"):
                path.write_text("earlier")
                path.chmod(0o644)
            write(path)
            assert mode(path) == 0o600
            assert "earlier" not in path.read_text()
    finally:
        os.umask(before)


def check_links(write: Writer, folder: Path) -> None:
    """Check that no link is followed: neither under the file's name, nor under one of a temporary file."""
    for is_there in (False, True):
        inside, victim = folder / f"folder-{is_there}", folder / f"victim-{is_there}"
        inside.mkdir()
        path = inside / "a.jsonl"
        for name in ("a.jsonl", "a.jsonl.part", ".a.jsonl.part", "a.jsonl.tmp"):
            (inside / name).symlink_to(victim)
        if is_there:
            victim.write_text("precious")
        write(path)
        assert not path.is_symlink()
        assert "precious" not in path.read_text()
        assert (victim.read_text() == "precious") if is_there else not victim.exists()


def check_pipes(write: Writer, folder: Path) -> None:
    """Check that no pipe is replaced, nor a device: as root, a careless path would replace `/dev/null` for everybody."""
    pipe, link = folder / "pipe.jsonl", folder / "a.jsonl"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises((OSError, UsageError), match="not an ordinary file"):
            write(path)
        assert path.is_fifo()
    assert sorted(folder.iterdir()) == [link, pipe]
