"""Parsing of the model's paths inside a folder. A path becomes a tuple of names, or is refused."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NoReturn
from urllib.parse import unquote

from eagerstream.errors import ToolError
from eagerstream.tools import ToolErrorCode

MAX_DEPTH: Final = 64
"""Maximum number of names in a path. Deeper folders have no use, and walking them holds one handle for each level."""

_MAX_PATH_CHARS: Final = 4096
_MAX_DECODED: Final = 8
_MAX_TOLD_CHARS: Final = 200
_SEPARATORS: Final = re.compile(r"[/\\]")
_OVERLONG: Final = re.compile(r"%c[01]%[89ab]|%e0%[89]|%f0%8", re.IGNORECASE)
"""Overlong UTF-8. Decoders should refuse it, but some read it as a dot or a slash."""

Parts = tuple[str, ...]
"""A place in a folder: the names on the way to it. It is empty for the folder itself."""


def parts_of(path: object, roots: Sequence[str]) -> Parts:
    """Return the place that a path names, in a folder that has the names `roots`.

    Raises:
        ToolError: The path is not a text, is empty, or is too long or too deep. It leads out: it has a `..` (also
            percent-encoded), a backslash or a control character, or is an absolute path outside of `roots`.
    """
    if not isinstance(path, str) or not path:
        raise ToolError("Error: a path must be a text that is not empty", code=ToolErrorCode.INVALID_PARAM)
    if len(path) > _MAX_PATH_CHARS:
        raise ToolError(
            f"Error: a path has at most {_MAX_PATH_CHARS} characters, not {len(path)}", code=ToolErrorCode.INVALID_PARAM
        )
    if _is_suspicious(path):
        _refuse(path)
    relative = path
    if path.startswith("/"):
        found = next((root for root in roots if f"{path}/".startswith(f"{root.rstrip('/')}/")), None)
        if found is None:
            _refuse(path)
        relative = path[len(found) :]
    parts = tuple(part for part in relative.split("/") if part not in ("", "."))
    if len(parts) > MAX_DEPTH:
        raise ToolError(
            f"Error: a path has at most {MAX_DEPTH} names, not {len(parts)}", code=ToolErrorCode.INVALID_PARAM
        )
    return parts


def _is_suspicious(path: str) -> bool:
    """Return whether a path has a step upwards, or would have one after decoding. No file needs such a name."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return True
    decoded = path
    for _ in range(_MAX_DECODED):
        if _OVERLONG.search(decoded):
            return True
        further = unquote(decoded)
        if further == decoded:
            break
        decoded = further
    else:
        return True
    if decoded.count("/") != path.count("/"):
        return True
    if "\\" in decoded or any(unicodedata.category(char) == "Cc" for char in decoded):  # includes NUL and line ends
        return True
    # Also in compatibility form: some file systems and programs read a fullwidth full stop as a full stop.
    return any(".." in _SEPARATORS.split(form) for form in (decoded, unicodedata.normalize("NFKC", decoded)))


def _refuse(path: str) -> NoReturn:
    raise ToolError(
        f"Error: the path {path[:_MAX_TOLD_CHARS]!r} is not allowed: it leads out", code=ToolErrorCode.PERMISSION_DENIED
    )
