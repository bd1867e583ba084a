"""The Python parsers of partial JSON that are measured beside ours: each reads the whole text again at every look."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True)
class Peer:
    """A parser, set so that an unfinished string shows, as it does with ours.

    Attributes:
        module: Where its function is.
        function: Called with a prefix and `options`; gives the partial value.
        options: Its options.
        prepare: Makes a prefix what the parser takes; not measured, as its caller would keep the text so.
    """

    module: str
    function: str
    options: dict[str, Any]
    prepare: Callable[[str], str | bytes] = str

    @property
    def installed(self) -> bool:
        return find_spec(self.module.partition(".")[0]) is not None

    def load(self) -> Callable[[Any], Any]:
        """The parser, as a function of a prepared prefix."""
        function = getattr(importlib.import_module(self.module), self.function)
        options = self.options
        return lambda prefix: function(prefix, **options)


PEERS = {
    "jiter": Peer("jiter", "from_json", {"partial_mode": "trailing-strings"}, str.encode),
    "pydantic_core": Peer("pydantic_core", "from_json", {"allow_partial": "trailing-strings"}, str.encode),
    "partial-json-parser": Peer("partial_json_parser", "loads", {}),
    "langchain-core": Peer("langchain_core.utils.json", "parse_partial_json", {}),
}
