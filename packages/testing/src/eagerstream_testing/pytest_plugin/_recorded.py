"""The recorded responses of a test: where they are, and which request each belongs to.

    tests/test_agent.py
    tests/claude_recordings/test_agent/test_weather/0001.jsonl
    tests/claude_recordings/test_agent/test_weather/0002.jsonl
    tests/claude_recordings/test_agent/test_weather/requests.json

`requests.json` has for each file a digest of the request's messages and the request's turn. The messages themselves
are not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from eagerstream._support.files import replacing, sync_folder
from eagerstream.errors import UsageError
from eagerstream.recordings import Recording

from .. import Scenario
from ._script import Reply

FOLDER: Final = "claude_recordings"
_INDEX: Final = "requests.json"
_VERSION: Final = 1
_VERSION_KEY: Final = "eagerstream_test_recordings"
_MAX_NAME_CHARS: Final = 100
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.,=\[\]-]")
_FILE: Final = re.compile(r"[0-9]{4,9}\.jsonl")


class Recorded(NamedTuple):
    """A recorded response.

    Attributes:
        file: Name of its file.
        turn: Turn of its request.
        messages: Digest of the request's messages.
    """

    file: str
    turn: int
    messages: str


def folder_of(item: pytest.Item) -> Path:
    """Return the folder with the recordings of a test. It need not exist."""
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return item.path.parent / FOLDER / _safe(item.path.stem) / _safe(".".join([*classes, item.name]))


def label_of(item: pytest.Item) -> str:
    """Return the path of the folder for messages: relative to the root of the tests, if it is there."""
    folder, root = folder_of(item), item.config.rootpath
    return str(folder.relative_to(root) if folder.is_relative_to(root) else folder)


def _safe(name: str) -> str:
    """Return a name for a folder: different for different names, on systems with short and simple names too."""
    safe = _UNSAFE.sub("_", name)[:_MAX_NAME_CHARS]
    if safe == name and name.strip("."):  # dots alone would be another folder
        return safe
    return f"{safe}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"


def load(folder: Path) -> list[Reply]:
    """Return the recorded responses of a test.

    Raises:
        UsageError: There are none, or a file is damaged.
    """
    _recover(folder)
    path = folder / _INDEX
    try:
        index: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        what = f"there are no recordings in {folder}: run this test once with --claude-record and a key"
        raise UsageError(what) from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    if not isinstance(index, dict) or index.get(_VERSION_KEY) != _VERSION:
        raise UsageError(f"{path}: expected an object with {_VERSION_KEY!r}: {_VERSION}; record the test again")
    entries = index.get("requests")
    if not isinstance(entries, list):
        raise UsageError(f"{path}: expected a list of requests; record the test again")
    return [_reply(folder, path, entry) for entry in entries]


def _reply(folder: Path, path: Path, entry: Any) -> Reply:
    match entry:
        case {"file": str(file), "turn": int(turn), "messages": str(messages)} if _FILE.fullmatch(file):
            scenario = Scenario.of(Recording.load(folder / file))
            return Reply(file, scenario, history=messages, turn=turn)
        case _:
            raise UsageError(f"{path}: an entry has a file such as 0001.jsonl, a turn and the digest of the messages")


def stale_notes(label: str, replies: Sequence[Reply]) -> list[str]:
    """Return lines about recordings that no longer fit the requests of their test."""
    changed = ", ".join(reply.name for reply in replies if reply.is_stale)
    unused = ", ".join(reply.name for reply in replies if not reply.is_used)
    notes = [f"{changed} played for messages that have changed"] if changed else []
    notes += [f"{unused} not requested"] if unused else []
    return [f"stale: {label}: {note}; record again with --claude-record" for note in notes]


# --- replace the recordings of a test ---------------------------------------------------------------------------------


def new_folder(folder: Path) -> Path:
    """Return the folder to record into, beside that of the test. What an interrupted run left there is removed."""
    _recover(folder)
    part = folder.with_name(f".{folder.name}.part")
    _remove(part)
    return part


def keep(part: Path, folder: Path, recorded: Sequence[Recorded]) -> None:
    """Put new recordings in the place of the old ones: all of them, or none.

    Raises:
        OSError: The files cannot be written or moved. The old recordings are still there.
    """
    index = {_VERSION_KEY: _VERSION, "requests": [entry._asdict() for entry in recorded]}
    with replacing(part / _INDEX, private=False) as file:
        file.write(json.dumps(index, indent=2).encode() + b"\n")
    old = _old(folder)
    if os.path.lexists(folder):  # a link may lead nowhere
        folder.rename(old)
    try:
        part.rename(folder)
    except BaseException:
        _recover(folder)
        raise
    sync_folder(folder.parent)
    _remove(old)


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _recover(folder: Path) -> None:
    """Bring back the recordings of a run that was killed while it replaced them."""
    old = _old(folder)
    if old.exists() and not folder.exists():
        old.rename(folder)
    _remove(old)


def _remove(folder: Path) -> None:
    """Remove a folder with its files; of a link, the link alone."""
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)
