"""`Jail` and `parts_of`: any text as a path is refused, or names a place inside the folder."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from eagerstream.errors import ToolError
from eagerstream_toolkit import Jail
from eagerstream_toolkit._paths import MAX_DEPTH, Parts

from .choices import Choices

_SECRET: Final = b"the secret outside"
_NAME: Final = "/repo"
_FILES: Final = {"a": b"1", "folder/b": b"2", "folder/inner/c": b"3", ".hidden": b"4", "e\u0301": b"5", "\u00e9": b"6"}
_LINKS: Final = {
    "out": "../outside", "secret": "../outside/secret", "folder/up": "..", "folder/out": "../../outside", "inside": "folder",
    "loop": "loop", "dangling": "nowhere", "absolute": "/etc", "proc": "/proc/self/root", "again": "out",
}  # fmt: skip
_PIECES: Final = (
    *_FILES, *_LINKS, *(f"{name}/" for name in _LINKS), "out/secret", "folder/out/new", "/", "/", "/", "//", ".", "..", "../", "/..", "./", "...", "~", "outside", "secret", "new", "repo", _NAME,
    "%2e%2e", "%2f", "%252e", "%c0%ae", "%00", "\0", "\n", "\\", "..\\", "\uff0e\uff0e", "\u2024\u2024", "\uff0f", "\u2215",
    "\ufe52", "\u202e", "\ud800", "\u0301", "e", "E\u0301", " ", "*", "-", "etc", "passwd", "proc", "self", "root", "fd",
    "C:", "x" * 255, "x" * 256, "y/" * 70, "z" * 5000,
)  # fmt: skip


def check(data: bytes) -> None:
    """What is done at the place stays inside, too, whatever links lie on the way; what is outside stays as it was."""
    choices = Choices(data)
    structured, named, operation = choices.below(4), choices.below(2), choices.below(8)
    if structured:
        path, other = _path(choices), _path(choices)
    else:
        path, other = choices.rest().decode("utf-8", "surrogateescape"), "new"
    jail = Jail(_root(), name=_NAME if named else None)
    if structured == 1 and not named:
        path = f"{_root()}/{path}"
    try:
        parts, further = jail.parts(path), jail.parts(other)
    except ToolError as refused:
        assert len(str(refused)) < 1_000
        return
    _check_place(parts)
    assert jail.parts(jail.shown(parts)) == parts
    try:
        _operate(jail, parts, further, operation)
    except (ToolError, OSError):  # the tool's words, or the system's, which the tools put into their own
        pass
    finally:
        _check_outside()
        if operation >= 4:
            _fill(_root())


def _operate(jail: Jail, parts: Parts, further: Parts, operation: int) -> None:
    match operation:
        case 0 | 1:
            content, _ = jail.read(parts)
            assert content in _FILES.values()
        case 2:
            found = jail.stat(parts)
            assert not stat.S_ISLNK(found.st_mode)
            assert (found.st_dev, found.st_ino) in _inodes()
        case 3:
            for entry in jail.walk(parts, max_entries=50):
                _check_place(entry.parts)
                assert not (entry.is_link and entry.is_folder)
                found = _root().joinpath(*entry.parts).lstat()
                assert (found.st_dev, found.st_ino) in _inodes()
        case 4:
            jail.write(parts, b"written")
        case 5:
            file = jail.create(parts)
            file.write(b"created")
            file.commit()
        case 6:
            jail.remove(parts)
        case _:
            jail.rename(parts, further)


def _check_place(parts: Parts) -> None:
    """Names only, which no system takes for a step upwards."""
    assert len(parts) <= MAX_DEPTH + 1
    assert all(part not in ("", ".", "..") and "/" not in part and "\0" not in part for part in parts)
    place = os.path.normpath(_root().joinpath(*parts))
    assert place == str(_root()) or place.startswith(f"{_root()}/")


def _path(choices: Choices) -> str:
    count = choices.below(9)
    return choices.pick(("", "", "/")).join(choices.pick(_PIECES) for _ in range(count))


# --- a folder, with what must not be reached beside it ----------------------------------------------------------------


@cache
def _base() -> Path:
    base = Path(tempfile.mkdtemp(prefix="fuzz-jail-")).resolve()
    (base / "outside").mkdir()
    (base / "outside" / "secret").write_bytes(_SECRET)
    _fill(base / "root")
    return base


def _root() -> Path:
    return _base() / "root"


def _fill(root: Path) -> None:
    """The folder itself stays: a jail holds on to it."""
    root.mkdir(exist_ok=True)
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name, content in _FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    for name, target in _LINKS.items():
        (root / name).symlink_to(target)


def _inodes() -> set[tuple[int, int]]:
    found = [place.lstat() for place in (_root(), *_root().rglob("*"))]  # which follows no links
    return {(each.st_dev, each.st_ino) for each in found}


def _check_outside() -> None:
    outside = _base() / "outside"
    assert [path.name for path in _base().iterdir() if path.name not in ("root", "outside")] == []
    assert [(path.name, path.read_bytes()) for path in outside.iterdir()] == [("secret", _SECRET)]
