"""Rules for secrets by their place in JSON and in values of Python.

- A field with the name of a secret, and everything inside it: `{"credentials": {"user": ..., "pw": ...}}`.
- A value next to such a name: `{"name": "API_KEY", "value": ...}`.
- The second item of a pair in a list of pairs: `[["x-api-key", ...]]`.
- The argument after an option of a command: `["--password", ...]`.
"""

from __future__ import annotations

from typing import Final

from .names import is_secret_name

_NAMING: Final = frozenset({"name", "key", "header", "variable"})
_VALUES: Final = frozenset({"value", "val"})
_MAX_OPTION_CHARS: Final = 1_000


def is_secret_key(key: object) -> bool:
    """Tell whether the value of a field, or the second item of a pair, is a secret."""
    if isinstance(key, bytes):
        key = key.decode("latin-1")
    return isinstance(key, str) and is_secret_name(key)


def names_a_secret(key: object, value: object) -> bool:
    """Tell whether a field says that the value next to it is a secret."""
    return isinstance(key, str) and key.lower() in _NAMING and is_secret_key(value)


def is_value_key(key: object) -> bool:
    """Tell whether a field has the value next to a name."""
    return isinstance(key, str) and key.lower() in _VALUES


def is_secret_option(item: object) -> bool:
    """Tell whether a text in a list of arguments says that the next argument is a secret."""
    return isinstance(item, str) and item.startswith("--") and len(item) < _MAX_OPTION_CHARS and is_secret_name(item)


def is_option(item: object) -> bool:
    """Tell whether a text in a list of arguments is an option, and not the argument of the one before it."""
    return isinstance(item, str) and item.startswith("-")
