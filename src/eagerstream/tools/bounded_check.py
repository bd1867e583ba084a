"""jsonschema with a bound on its work: a schema of 1 KB can ask for 2^50 steps, by references or by alternatives.

Each keyword that is looked at costs steps: one, and more for those that look at many members, long texts, or tell of
large values. A keyword that is not in the list below is not checked, the tool itself has to: `unevaluatedItems` and
`unevaluatedProperties`, since jsonschema searches the schema for what they concern without any keyword being looked at.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final, TypeAlias

from .._support.inspecting import check_size

Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[Any] | None]
"""A function of jsonschema: gets the validator, the keyword's value, the input and the schema around the keyword."""

_CHECKED: Final = frozenset({
    "$dynamicRef", "$recursiveRef", "$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const",
    "contains", "dependencies", "dependentRequired", "dependentSchemas", "enum", "exclusiveMaximum", "exclusiveMinimum",
    "if", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties",
    "minimum", "multipleOf", "not", "oneOf", "pattern", "patternProperties", "prefixItems", "properties",
    "propertyNames", "required", "type", "uniqueItems",
})  # fmt: skip
_PER_MEMBER: Final = frozenset({"additionalItems", "contains", "items", "prefixItems", "propertyNames"})
_BY_NAME_PATTERN: Final = frozenset({"additionalProperties", "patternProperties"})
_REFERENCES: Final = frozenset({"$dynamicRef", "$recursiveRef", "$ref"})

_STEPS_OF_A_REFERENCE: Final = 10
_STEPS_OF_A_FAULT: Final = 5
_VALUES_A_STEP: Final = 8  # of a keyword, which are only compared
_FRAMES_A_LEVEL: Final = 4  # those of a keyword, of its function, and two of jsonschema
_FRAMES_LEFT: Final = 100  # for what these call
_CHARS_A_STEP: Final = 8  # of a text that is matched or written


class TooManySteps(Exception):
    """The check was stopped."""


class TooDeep(Exception):
    """The check was stopped, before Python ends it by a `RecursionError`.

    In the middle of a look-up of jsonschema's, which is written in Rust, that becomes a panic that nothing may catch.
    """


class Steps:
    """The work that one check may still do, and what it needs to know of its schema.

    Args:
        left: Number of steps. 1,000 take about 1 ms.
        patterns: The patterns of the schema; None for one that is not matched.
        name_patterns: The names in its `patternProperties`.
    """

    def __init__(
        self, left: int, patterns: Mapping[str, re.Pattern[str] | None], name_patterns: frozenset[str] = frozenset()
    ) -> None:
        self.left = left
        self.levels = (sys.getrecursionlimit() - _frames() - _FRAMES_LEFT) // _FRAMES_A_LEVEL
        """Number of keywords that may still be looked at inside one another."""
        self.patterns = patterns
        self.knows_names = all(patterns[name] is not None for name in name_patterns)
        """Which names `patternProperties` means is known, and so which ones are additional."""

    def spend(self, steps: int) -> None:
        """Count steps.

        Raises:
            TooManySteps: There are none left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooManySteps


_STEPS: Final[ContextVar[Steps]] = ContextVar("_STEPS")


@contextmanager
def counting(steps: Steps) -> Iterator[None]:
    """Count the steps of a bounded validator that is used inside the block."""
    token = _STEPS.set(steps)
    try:
        yield
    finally:
        _STEPS.reset(token)


@lru_cache(maxsize=16)
def bounded(kind: Any) -> Any:
    """Return the bounded class of validators for a class of jsonschema. Use its objects inside `counting` only."""
    from jsonschema import validators

    extend: Any = validators.extend  # has no types
    own: dict[str, Keyword] = {"uniqueItems": _unique_items, "pattern": _pattern}
    keywords: dict[str, Keyword] = {**kind.VALIDATORS, **own}
    counted = {name: _counted(name, check) if name in _CHECKED else _unchecked for name, check in keywords.items()}
    return extend(kind, counted)


def _frames() -> int:
    """Frames of the caller, and of all around it."""
    frame, number = inspect.currentframe(), 0
    while frame is not None:
        frame, number = frame.f_back, number + 1
    return number


def _counted(keyword: str, check: Keyword) -> Keyword:
    """A keyword that costs steps."""

    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        steps = _STEPS.get()
        if keyword in _BY_NAME_PATTERN and not steps.knows_names:
            return
        steps.spend(_steps_of(keyword, value, instance, schema))
        if steps.levels <= 0:
            raise TooDeep
        steps.levels -= 1
        try:
            for error in check(validator, value, instance, schema) or ():
                steps.spend(_STEPS_OF_A_FAULT + len(error.message) // _CHARS_A_STEP)
                yield error
        finally:
            steps.levels += 1

    return run


def _steps_of(keyword: str, value: Any, instance: Any, schema: Any) -> int:
    """The work of a keyword before it tells anything, without that of the schemas in it."""
    if keyword in _REFERENCES:
        return _STEPS_OF_A_REFERENCE + len(value) // _VALUES_A_STEP
    if keyword in ("enum", "const") and isinstance(instance, dict | list):
        return check_size(value, max_chars=sys.maxsize, max_depth=sys.maxsize)
    steps = 1 + (len(value) // _VALUES_A_STEP if isinstance(value, dict | list) else 0)
    if keyword in _PER_MEMBER and isinstance(instance, dict | list):
        steps += len(instance)
    if keyword in _BY_NAME_PATTERN and isinstance(instance, dict):
        patterns = len(schema.get("patternProperties", ()))
        steps += len(instance) * (1 + patterns) + patterns * (1 + sum(map(len, instance)) // _CHARS_A_STEP)
    return steps


def _unchecked(_validator: Any, _value: Any, _instance: Any, _schema: Any) -> None:
    """A keyword that is not checked."""


def _unique_items(_validator: Any, unique: Any, items: Any, _schema: Any) -> Iterator[Any]:
    """`uniqueItems` in linear time: jsonschema compares every item with every other one."""
    from jsonschema import ValidationError

    if unique is not True or not isinstance(items, list):
        return
    steps = _STEPS.get()
    texts = {item for item in items if isinstance(item, str)}  # quicker than the others
    others: set[str] = set()
    steps.spend(len(items))
    for item in items:
        if not isinstance(item, str):
            others.add(text := json.dumps(item, sort_keys=True))
            steps.spend(2 + len(text) // _CHARS_A_STEP)
    if len(texts) + len(others) < len(items):
        yield ValidationError("the items must differ from one another")


def _pattern(_validator: Any, pattern: Any, text: Any, _schema: Any) -> Iterator[Any]:
    """`pattern`, if it is matched in linear time."""
    from jsonschema import ValidationError

    steps = _STEPS.get()
    if not isinstance(text, str) or (known := steps.patterns.get(pattern)) is None:
        return
    steps.spend(len(text) // _CHARS_A_STEP)
    if known.search(text) is None:
        yield ValidationError(f"the value does not match {pattern!r}")
