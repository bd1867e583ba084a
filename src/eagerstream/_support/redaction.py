"""Make texts safe to show: mask secrets, and remove everything that acts on a terminal.

One place for logs, reprs, errors, traces and saved recordings. `_support/secrets` finds the secrets:

- by their own form: a bearer token, a private key, the password in an address, and each token of 20 characters or more
  that consists of more than words and numbers
- by the name in front of them: `x-api-key: ...`, `password = ...`, `--token ...`
- by their place in JSON, and in values of Python: `{"credentials": {...}}`, `{"name": "API_KEY", "value": ...}`

If too much is masked, a log lacks a word. If too little is masked, it reveals a key. In doubt, the text is masked.

Texts may be hostile. All functions take time linear in the length of the text: about 0.5 s for each megabyte of prose,
and 4 s at worst. Other threads run meanwhile. On an event loop, cut a text of unknown length first, with
`redact_excerpt`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from .inspecting import head
from .secrets import REDACTED, FindSecrets, SecretSpan, finding_also, is_secret_name, secret_spans
from .secrets.structure import (
    is_option,
    is_secret_key,
    is_secret_option,
    is_value_key,
    names_a_secret,
)
from .secrets.tokens import keeps_tokens

__all__ = [
    "REDACTED",
    "FindSecrets",
    "SecretSpan",
    "finding_also",
    "is_secret_name",
    "printable",
    "redact",
    "redact_excerpt",
    "redact_headers",
    "redact_text",
    "secret_spans",
    "until_stable",
]

T = TypeVar("T")

_MAX_DEPTH: Final = 100
_MAX_PASSES: Final = 8
_OVERLAP_CHARS: Final = 512
_IDENTIFYING_HEADERS: Final = frozenset({"anthropic-organization-id", "anthropic-workspace-id", "openai-organization"})

# --- texts ------------------------------------------------------------------------------------------------------------


def redact_text(text: str, *, keep_length: bool = False, key: str = "") -> str:
    """Return `text` with `[redacted]` in the place of each secret. Masking it again changes nothing.

    Args:
        text: Any text. It may be cut off anywhere.
        keep_length: Each character of a secret becomes a `*` instead, so offsets stay the same.
        key: Name of the field that the text is the value of.
    """
    return until_stable(lambda text: _masked(text, secret_spans(text, key), keep_length=keep_length), text)


def until_stable(mask: Callable[[T], T], text: T) -> T:
    """Mask a text until nothing changes, because a secret may be hidden in another. The first pass finds all others."""
    for _ in range(_MAX_PASSES):
        masked = mask(text)
        if masked == text:
            break
        text = masked
    return text


def _masked(text: str, spans: Iterable[SecretSpan], *, keep_length: bool) -> str:
    parts: list[str] = []
    at = 0
    for start, end, fill in spans:
        parts += (text[at:start], fill * (end - start) if keep_length else REDACTED)
        at = end
    return "".join((*parts, text[at:]))


def redact_excerpt(text: str, max_chars: int) -> str:
    """Return the start of `text` without secrets, for logs and errors. Inspect only that part and 512 characters more.

    Args:
        text: Text of a peer, of any length.
        max_chars: Maximum number of characters of the text. A note with the number of omitted characters is added.
    """
    if len(text) <= max_chars:
        return redact_text(text)
    # With some characters more, the rules see as much of a secret at the cut as they need to know it.
    kept = redact_text(head(text, max_chars + _OVERLAP_CHARS))[:max_chars]
    return f"{kept}... ({len(text) - max_chars:,} characters left out)"


# --- values -----------------------------------------------------------------------------------------------------------


def redact(value: Any) -> Any:
    """Return a copy of nested mappings and lists without secrets: in fields with a secret's name, and in texts.

    Everything inside such a field is masked, except `None`, booleans and empty texts. Tuples and sets become lists.
    Containers more than 100 deep become `"[too deep]"`. Objects of other kinds stay unchanged.
    """
    root: list[Any] = [None]
    copies: dict[tuple[int, bool], Any] = {}  # by container, and whether all in it is masked: it may contain itself
    pending: list[tuple[Any, Any, Any, bool, int]] = [(root, 0, value, False, 0)]
    while pending:
        target, place, item, is_secret, depth = pending.pop()
        if isinstance(item, Mapping | list | tuple | set | frozenset):
            known = (id(item), is_secret)
            if known not in copies and depth < _MAX_DEPTH:
                twin: Any = {} if isinstance(item, Mapping) else [None] * len(item)
                copies[known] = twin
                fields = _fields(item, is_secret=is_secret, in_list=isinstance(target, list) and depth > 0)
                repeated: Counter[Any] = Counter()
                for number, (key, inner, secret) in enumerate(fields):
                    key = _unused(key, twin, repeated) if isinstance(twin, dict) else number
                    twin[key] = None  # keeps the order
                    pending.append((twin, key, inner, secret, depth + 1))
            target[place] = copies.get(known, "[too deep]")
        elif is_secret:
            target[place] = item if item is None or isinstance(item, bool) or item in ("", b"") else REDACTED
        elif isinstance(item, str):
            target[place] = redact_text(item, key=place if isinstance(place, str) and keeps_tokens(place) else "")
        elif isinstance(item, bytes | bytearray):
            target[place] = redact_text(item.decode("latin-1")).encode("latin-1")
        else:
            target[place] = item
    return root[0]


def _fields(container: Any, *, is_secret: bool, in_list: bool) -> list[tuple[Any, Any, bool]]:
    """Return the places of a container: the key, the value, and True if the place makes the value a secret."""
    if isinstance(container, Mapping):
        is_named = any(names_a_secret(key, item) for key, item in container.items())
        return [
            (
                redact_text(key) if isinstance(key, str) else key,
                item,
                is_secret or is_secret_key(key) or (is_named and is_value_key(key)),
            )
            for key, item in container.items()
        ]
    items = list(container)
    may_be_pair = len(items) == 2 and (isinstance(container, tuple) or (in_list and isinstance(items[1], str | bytes)))
    is_pair = may_be_pair and is_secret_key(items[0])
    behind_option = [False, *map(is_secret_option, items)]
    return [
        (None, item, is_secret or (is_pair and number == 1) or (behind_option[number] and not is_option(item)))
        for number, item in enumerate(items)
    ]


def _unused(key: Any, twin: dict[Any, Any], repeated: Counter[Any]) -> Any:
    """Number a key that is taken. Different keys with secrets become equal once they are masked.

    Args:
        key: The masked key.
        twin: The mapping with the keys that are taken.
        repeated: Number of times that each key came so far. Trying thousands of numbers one by one would be slow.
    """
    free = key
    while free in twin:
        repeated[key] += 1
        free = f"{key} {repeated[key] + 1}"
    return free


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of HTTP headers with credentials and organization ids as `[redacted]`. Names stay unchanged."""
    return {
        name: REDACTED
        if value and (is_secret_name(name) or name.lower() in _IDENTIFYING_HEADERS)
        else redact_text(value)
        for name, value in headers.items()
    }


# --- terminals --------------------------------------------------------------------------------------------------------

_ACTING: Final = re.compile(
    r"""
    # Strings of commands (the title of the window, the clipboard) with what they say, where they end: xterm's control
    # sequences, "OSC", "DCS" and their like.
      (?: \x1b[\]PX^_] | [\x90\x98\x9d-\x9f] ) [^\x00-\x1f\x7f-\x9f]*+ (?: \x07 | \x1b\\ | \x9c )
    | (?: \x1b\[ | \x9b ) [0-?]*+ [ -/]*+ [@-~]?  # CSI: ECMA-48, section 5.4
    | \x1b [ -/]{0,3}+ [0-~]?
    | [\x00-\x08\x0b-\x1f\x7f-\x9f]
    | [\u202a-\u202e\u2066-\u2069]  # turn the order of characters round
    | [\u180e\u200b\u2028\u2029\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]  # cannot be seen
    """,
    re.VERBOSE,
)


def printable(text: str) -> str:
    """Return `text` without anything that a terminal would act on, or would hide.

    Escape sequences are removed completely. So are control characters other than line feeds and tabs, characters that
    turn the writing direction, and invisible characters. Joiners of letters and emoji stay. Lone surrogates become
    U+FFFD.
    """
    if text.isprintable():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _ACTING.sub("", text)
