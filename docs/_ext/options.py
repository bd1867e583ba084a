"""Tables of keyword options: a function that takes `**options: Unpack[...]` shows only the name of their type."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from .public_names import PublicName, attribute_docs, own_keys, resolve, typed_dict_bases

_LISTED_ONLY = "RequestParameters"
"""The parameters of the API: their names are listed, and the API's own reference explains them."""


def options_table(options: PublicName) -> str:
    """Return a Markdown table of all options of a `TypedDict`, grouped by the type that defines them."""
    parts = []
    for group in _groups(options.value):
        full = resolve(group.__name__, options.module)
        link = f"[`{group.__name__}`](#{full})" if full else f"`{group.__name__}`"
        keys, docs = own_keys(group), attribute_docs(group)
        if group.__name__ == _LISTED_ONLY:
            listed = ", ".join(f"`{key}`" for key in keys)
            parts.append(f"Parameters of the Messages API ({link}), sent as they are: {listed}.")
        elif keys:
            rows = [_row(full, key, _default(group, key), " ".join(docs.get(key, []))) for key in keys]
            head = f"{_first_sentence((group.__doc__ or '').strip())} Group {link}:"
            parts.append("\n".join((head, "", "| option | default | meaning |", "| :-- | :-- | :-- |", *rows)))
    return "\n\n".join(parts)


def _groups(value: Any) -> Iterator[Any]:
    """Return the `TypedDict`s that make up one, the parameters of the API last."""
    found: list[Any] = []

    def visit(group: Any) -> None:
        for base in typed_dict_bases(group):
            visit(base)
        if group not in found:
            found.append(group)

    visit(value)
    return iter(sorted(found, key=lambda group: group.__name__ == _LISTED_ONLY))


def _row(group: str | None, key: str, default: str, text: str) -> str:
    name = f"[`{key}`](#{group}.{key})" if group else f"`{key}`"
    meaning = _first_sentence(text).replace("|", "\\|")
    return f"| {name} | {f'`{default}`' if default else ''} | {meaning} |"


def _default(group: Any, key: str) -> str:
    """Return the default, from the table of defaults beside the type."""
    for name, table in vars(sys.modules[group.__module__]).items():
        if name.endswith("_DEFAULTS") and isinstance(table, Mapping) and key in table:
            value = table[key]
            return getattr(value, "__name__", None) or repr(value)
    return ""


def _first_sentence(text: str) -> str:
    text = " ".join(text.split())
    # The default has a column of its own.
    found = re.match(r"(.+?[.;:])(\s|$)", text)
    sentence = found[1] if found else text
    return sentence[:-1] + "." if sentence.endswith((";", ":")) else sentence
