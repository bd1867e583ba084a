"""`Patches`: what patches rebuild is what the parser shows, after every fragment, whatever the text."""

from __future__ import annotations

import json
from math import inf
from typing import Any, Final

from eagerstream_wire import ParsingLimits, PartialJSON, apply_patch, merge_patches
from eagerstream_wire._limits import DEFAULT_LIMITS
from tests.patches import Patches
from tests.streams import written

from .choices import Choices, pieces
from .json_text import json_text

_SMALL: Final = ParsingLimits(max_input_chars=60, max_depth=4, max_integer_digits=9)
_LIMITS: Final = (DEFAULT_LIMITS, DEFAULT_LIMITS, DEFAULT_LIMITS, _SMALL)


def check(data: bytes) -> None:
    """Each patch applied to the value before it gives the next; all of them in one give the last; and they are JSON."""
    choices = Choices(data)
    limits = choices.pick(_LIMITS)
    structured = choices.below(2)
    seed = Choices(choices.take(6))
    text = json_text(choices) if structured else choices.rest().decode("utf-8", "surrogateescape")
    cut = pieces(seed, text)
    maker, parser = Patches(limits), PartialJSON(limits=limits)
    looks_often = len(text) < 300
    value: Any = None
    patches = []
    for fragment in cut:
        patch = maker.feed(fragment)
        parser.feed(fragment)
        value = apply_patch(value, patch)
        patches.append(patch)
        if looks_often:
            assert written(value) == _shown(parser)
    assert written(value) == _shown(parser)
    json.dumps(patches, allow_nan=False)
    assert written(apply_patch(None, merge_patches(patches))) == written(value)


def _shown(parser: PartialJSON) -> str:
    """The value of a parser as a patch tells it: an object or nothing, and null for what is beyond floats."""
    root: list[Any] = [parser.value if isinstance(parser.value, dict) else None]
    text = written(root[0])
    if parser.overflow_chars is None:
        return text
    root = [json.loads(text)]
    pending: list[Any] = [root]
    while pending:
        container = pending.pop()
        for place, item in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if item in (inf, -inf):
                container[place] = None
            elif isinstance(item, dict | list):
                pending.append(item)
    return written(root[0])
