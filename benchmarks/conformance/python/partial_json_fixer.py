"""partial-json-fixer: the crate with which Zed closes the input of a tool at each fragment, in its Python package.

Zed takes an unfinished escape off the text first, and reads the closed text with serde_json. Here `json` reads it, by
the rules of serde_json: there is no `NaN`, and no half of a surrogate pair.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from partial_json_fixer import fix_json_string

from .reading import WrongTextError, by_prefix

lacks = ["infinity", "lone_surrogates"]  # its strings and numbers are those of Rust


def partial_json(fragments: Sequence[str]) -> dict[str, Any]:
    return {"steps": [{"value": step["value"]} for step in by_prefix(fragments, read)]}


def read(text: str) -> Any:
    """Return the value of a prefix.

    Raises:
        WrongTextError: It cannot be closed to JSON.
    """
    is_cut = (len(text) - len(text.rstrip("\\"))) % 2 == 1
    try:
        value = json.loads(fix_json_string(text[:-1] if is_cut else text), parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError as error:
        raise WrongTextError from error
    return value


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)
