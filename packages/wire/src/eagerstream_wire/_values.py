"""JSON values in Python's form, and traversals of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
JSONObject: TypeAlias = dict[str, Any]
"""An object whose reader knows its shape: values typed as `JSON` would need a cast at each step into it."""

Path: TypeAlias = tuple[str | int, ...]
"""The place of a value: object keys and array indexes from the root, `()` for the root itself."""


_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_LONE_SURROGATE: Final = re.compile(r"[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")

_LONG_BITS: Final = 2_048
_MAX_FIELDS: Final = 32  # of a content block

MISSING: Final = object()
"""Not None, which is a JSON value, and not an exception: looking for a value that has not come yet is normal."""


def find(value: JSON, path: Path) -> Any:
    """Return the value at `path` inside `value`, or `MISSING`.

    A missing key, an index out of range (also a negative one) and a step into a scalar give `MISSING`.
    """
    found: Any = value
    for step in path:
        if type(found) is dict and type(step) is str:
            if step not in found:
                return MISSING
        elif type(found) is not list or type(step) is not int or not 0 <= step < len(found):
            return MISSING
        found = found[step]
    return found


def mapping_in(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the mapping under a name; an empty one for anything else, because a peer may send anything."""
    found = holder.get(name)
    # The exact type first: a check of the abstract class costs several times as much.
    return found if type(found) is dict or isinstance(found, Mapping) else {}


def as_mapping(item: object, *, mode: Literal["json", "python"] = "json") -> object:
    """Return an object of the anthropic package's types as the mapping it represents, and any other item unchanged.

    The mapping has only the fields that were set, because the API did not send the defaults of the types. It uses the
    API's names (`from` of a fallback block is `from_` in Python).

    Args:
        item: Anything.
        mode: pydantic's mode. `"json"` turns dates back into text, but infinities into null; `"python"` keeps both.
    """
    if type(item) is dict:  # nearly always, and a check of the abstract class costs several times as much
        return item
    dump = getattr(item, "model_dump", None)
    if isinstance(item, Mapping) or dump is None:
        return item
    return dump(mode=mode, by_alias=True, exclude_unset=True, warnings=False)


def is_deeper(value: JSONObject | list[JSON], bound: int) -> bool:
    """Return True if more than `bound` containers are nested, `value` itself included; O(size).

    It works level by level, because recursion would fail on exactly the values to detect.
    """
    level: list[JSONObject | list[JSON]] = [value]
    for _ in range(bound):
        level = [
            item
            for container in level
            for item in (container.values() if type(container) is dict else container)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return False
    return True


def values_in(value: Any, bound: float) -> int:
    """Return the number of values in a container, without itself; beyond `bound`, any number above it. O(bound).

    A long integer counts once for each three bits, because the time to write it is quadratic.
    """
    count = 0
    pending = [value]
    while pending and count <= bound:
        container = pending.pop()
        count += len(container)
        if count <= bound:
            for item in container.values() if isinstance(container, Mapping) else container:
                if isinstance(item, (dict, list)):
                    pending.append(item)
                elif type(item) is int and item.bit_length() > _LONG_BITS:
                    count += item.bit_length() // 3
    return count


def copy_json(value: JSON) -> JSON:
    """Return a copy that shares no container with `value`; O(size), with an explicit stack.

    `copy.deepcopy` takes several Python frames a level: a document of depth 512, which the parser accepts, is too
    deep for it.
    """
    root: list[JSON] = [value]
    pending: list[list[JSON] | JSONObject] = [root]
    while pending:
        copied = pending.pop()
        # Items are replaced during the iteration, which both containers allow: no key is added or removed.
        places = copied.items() if isinstance(copied, dict) else enumerate(copied)
        for place, item in places:
            if isinstance(item, (dict, list)):
                twin = item.copy()
                copied[place] = twin  # type: ignore[index]  # `place` comes from this very container
                pending.append(twin)
    return root[0]


def encodable(value: Any) -> Any:
    """Return `value` with U+FFFD in place of each lone surrogate, so that UTF-8 can encode it.

    If it has none, return `value` itself.

    Args:
        value: A string, or anything that `json.dumps` accepts.
    """
    # Nearly no value has one, and an attempt to encode it is a few calls of C.
    try:
        for part in long_texts_apart(value):
            if not isinstance(part, str):
                json.dumps(part, ensure_ascii=False).encode()
            elif not part.isascii():
                part.encode()
    except UnicodeEncodeError:
        return _mended(value) if isinstance(value, str) else _mended_copy(value)
    return value


def long_texts_apart(value: Any, levels: int = 2) -> Iterator[Any]:
    """Yield a value in parts that contain all of it, so that the texts of a content block are parts of their own.

    `json.dumps` takes 0.3 s for a text of 30 MB, and the questions to a text itself take no time.
    """
    if levels and type(value) is dict and len(value) <= _MAX_FIELDS:
        for name, inner in value.items():
            yield name
            yield from long_texts_apart(inner, levels - 1)
    else:
        yield value


def has_colliding_keys(value: JSON) -> bool:
    """Return True if `encodable` would merge two keys of an object; O(size)."""
    pending: list[JSON] = [value]
    while pending:
        found = pending.pop()
        if isinstance(found, dict):
            if len({encodable(key) for key in found}) < len(found):
                return True
            pending += found.values()
        elif isinstance(found, list):
            pending += found
    return False


def _mended(text: str) -> str:
    # First those that are alone: the error handlers of the codecs take a microsecond for each.
    text = _LONE_SURROGATE.sub("\ufffd", text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16") if _SURROGATE.search(text) else text


def _mended_copy(value: Any) -> Any:
    root: list[Any] = [value]
    pending: list[Any] = [root]
    while pending:
        copied = pending.pop()
        for place, item in list(copied.items() if isinstance(copied, dict) else enumerate(copied)):
            twin = item
            if isinstance(item, str):
                twin = _mended(item)
            elif isinstance(item, Mapping):
                twin = {_mended(key) if isinstance(key, str) else key: inner for key, inner in item.items()}
            elif isinstance(item, list | tuple):
                twin = list(item)
            copied[place] = twin
            if twin is not item and not isinstance(twin, str):
                pending.append(twin)
    return root[0]
