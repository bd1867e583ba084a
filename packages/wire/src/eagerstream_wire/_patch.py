"""Patches: operations that keep a copy of a growing value up to date. `PartialJSON.patch` makes them.

A patch is a list of operations in the manner of RFC 6902, applied in order:

- `add` sets the root (`path` is `""`), a new key of an object, or the next item of an array.
- `replace` sets a value that exists already. Only a repeated key causes one.
- `append` lengthens a string by `value`. RFC 6902 does not have it, but most operations of a stream are of this kind.
  Without it, each piece of a long string would cost the complete string.

Paths are JSON pointers (RFC 6901).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isinf
from typing import TYPE_CHECKING, Any

from ._values import copy_json

if TYPE_CHECKING:
    from ._patch_types import Patch


def pointer(*steps: str | int) -> str:
    """Return keys and indexes, from the root, as a JSON pointer."""
    return "".join(f"/{escaped(step)}" for step in steps)


def escaped(step: str | int) -> str:
    """Return a key or an index as a step of a JSON pointer."""
    return str(step).replace("~", "~0").replace("/", "~1")


def steps_of(path: str) -> list[str]:
    """Return the steps of a JSON pointer. Indexes of arrays stay digits.

    Raises:
        ValueError: The text is not a JSON pointer.
    """
    if path and path[0] != "/":
        raise ValueError("a JSON pointer starts with a slash")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def finite(patch: Patch) -> Patch:
    """Return a patch with `None` for each infinite number. Containers in its values are changed in place."""
    root: list[Any] = [op["value"] for op in patch]
    pending: list[Any] = [root]
    while pending:
        container = pending.pop()
        for place, item in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if isinstance(item, float) and isinf(item):
                container[place] = None
            elif isinstance(item, dict | list):
                pending.append(item)
    return [{**op, "value": value} for op, value in zip(patch, root, strict=True)]


def apply_patch(value: Any, patch: Patch) -> Any:
    """Return `value` after a patch. It is changed in place; the patch is not, and shares nothing with it.

    An `append` costs O(length of its text) if nobody else holds the string.

    Raises:
        ValueError: The patch does not fit the value.
    """
    root: Any = value
    # The container that the last operation changed: nearly always the next one changes it, too.
    parent: Any = None
    parent_path: str | None = None
    try:
        for op in patch:
            item = op["value"]
            if type(item) in (dict, list):
                item = copy_json(item)
            if not op["path"]:
                root = root + item if op["op"] == "append" else item
                parent_path = None
                continue
            path, slash, step = op["path"].rpartition("/")
            if path != parent_path or not slash:
                parent, parent_path = root, path
                for outer in steps_of(path if slash else step):
                    parent = parent[_key_in(parent, outer)]
            key = _key_in(parent, step.replace("~1", "/").replace("~0", "~") if "~" in step else step)
            if op["op"] == "append":
                text = parent[key]
                if not isinstance(text, str):
                    raise ValueError("the patch does not fit the value: only a string can be lengthened")
                parent[key] = None  # nobody else holds the string: it grows in place
                text += item
                parent[key] = text
            elif isinstance(parent, list) and key == len(parent):
                parent.append(item)
            else:
                parent[key] = item
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError("the patch does not fit the value") from error
    return root


def _key_in(parent: Any, step: str) -> Any:
    if not isinstance(parent, list):
        return step
    if not step.isdecimal():
        raise KeyError(step)
    return int(step)


def merge_patches(patches: Iterable[Patch]) -> Patch:
    """Return one patch with the effect of several in a row. Pieces of one string become one piece."""
    merged: Patch = []
    pieces: list[str] = []  # of the last operation

    def join() -> None:
        merged[-1] = {**merged[-1], "value": "".join(pieces)}

    for patch in patches:
        for op in patch:
            if op["op"] == "append" and pieces and merged[-1]["path"] == op["path"]:
                pieces.append(op["value"])
                continue
            if len(pieces) > 1:
                join()
            merged.append(op)
            pieces = [op["value"]] if isinstance(op["value"], str) else []
    if len(pieces) > 1:
        join()
    return merged
