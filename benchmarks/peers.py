"""Python parsers of partial JSON to compare with ours. Each reads the complete text again at every parse."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True)
class Peer:
    """A parser with options that show an unfinished string, as ours does.

    Attributes:
        module: Module of its function.
        function: Name of the function, which gets a prefix and `options` and returns the partial value.
        options: Options of the function.
        prepare: Converts a prefix to the parser's input. It is not measured: a caller would store the text so.
    """

    module: str
    function: str
    options: dict[str, Any]
    prepare: Callable[[str], str | bytes] = str

    @property
    def installed(self) -> bool:
        return find_spec(self.module.partition(".")[0]) is not None

    def load(self) -> Callable[[Any], Any]:
        """Return the parser, as a function of a prepared prefix."""
        function = getattr(importlib.import_module(self.module), self.function)
        options = self.options
        return lambda prefix: function(prefix, **options)


PEERS = {
    "jiter": Peer("jiter", "from_json", {"partial_mode": "trailing-strings"}, str.encode),
    "pydantic_core": Peer("pydantic_core", "from_json", {"allow_partial": "trailing-strings"}, str.encode),
    "partial-json-parser": Peer("partial_json_parser", "loads", {}),
    "langchain-core": Peer("langchain_core.utils.json", "parse_partial_json", {}),
}
