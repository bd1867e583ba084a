"""jsonschema with bounded work: a schema of 1 KB can require 2^50 steps, by references or by alternatives.

Each check of a keyword costs steps: one, and more for keywords that read many members, long texts, or report large
values. Keywords missing from the list below are not checked here, so the tool itself must check them. For
`unevaluatedItems` and `unevaluatedProperties`, jsonschema searches the schema without checking any keyword. For
`$dynamicRef` and `$recursiveRef`, it reads all schemas on the way to them. A `$ref` was followed before.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final, TypeAlias

from .._support.inspecting import check_size
from ._schema_form import SchemaForm

Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[Any] | None]
"""A function of jsonschema. It gets the validator, the keyword's value, the input and the schema around the keyword."""

_CHECKED: Final = frozenset({
    "$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const",
    "contains", "dependencies", "dependentRequired", "dependentSchemas", "enum", "exclusiveMaximum", "exclusiveMinimum",
    "if", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties",
    "minimum", "multipleOf", "not", "oneOf", "pattern", "patternProperties", "prefixItems", "properties",
    "propertyNames", "required", "type", "uniqueItems",
})  # fmt: skip
_PER_MEMBER: Final = frozenset({"additionalItems", "contains", "items", "prefixItems", "propertyNames"})
_BY_NAME_PATTERN: Final = frozenset({"additionalProperties", "patternProperties"})

_STEPS_OF_A_REFERENCE: Final = 10
_STEPS_OF_A_COMPARISON: Final = 3  # of two values, if they are containers
_STEPS_OF_A_FAULT: Final = 5
_VALUES_A_STEP: Final = 8  # of a keyword, which are only compared
_FRAMES_A_LEVEL: Final = 4  # those of a keyword, of its function, and two of jsonschema
_FRAMES_LEFT: Final = 100  # for the functions that these call
_CHARS_A_STEP: Final = 8  # of a text that is matched or written


class TooManySteps(Exception):
    """Raised to stop a check that has no steps left."""


class TooDeep(Exception):
    """Raised to stop a check before Python ends it with a `RecursionError`.

    Inside a look-up of jsonschema, which is written in Rust, that error becomes a panic. No code may catch a panic.
    """


class Steps:
    """The work that one check may still do.

    Args:
        left: Number of steps. 1,000 take about 1 ms.
        form: The form of the schema.
    """

    def __init__(self, left: int, form: SchemaForm) -> None:
        self.form = form
        self._left = left
        self.levels = (sys.getrecursionlimit() - _frames() - _FRAMES_LEFT) // _FRAMES_A_LEVEL
        """Number of keywords that may still be checked inside one another."""

    def spend(self, steps: int) -> None:
        """Count steps.

        Raises:
            TooManySteps: No steps are left.
        """
        self._left -= steps
        if self._left < 0:
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


class _NoResolver:
    """A replacement of jsonschema's resolver, which joins URIs at each schema with a `$id`."""

    def in_subresource(self, _resource: Any) -> _NoResolver:
        return self


def bounded_validator(kind: Any, schema: Mapping[str, Any]) -> Any:
    """Return the bounded validator of a schema, for a class of jsonschema. Use it only inside `counting`."""
    # Without our resolver, jsonschema would also add the dialects' own schemas, and not count their steps.
    return _bounded(kind)(schema, _resolver=_NoResolver())


@lru_cache(maxsize=16)
def _bounded(kind: Any) -> Any:
    from jsonschema import validators

    create: Any = validators.create  # has no types
    own: dict[str, Keyword] = {
        "$ref": _reference,
        "additionalProperties": _additional_properties,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "uniqueItems": _unique_items,
    }
    keywords: dict[str, Keyword] = {**kind.VALIDATORS, **own}
    counted = {name: _counted(name, check) if name in _CHECKED else _unchecked for name, check in keywords.items()}

    def applicable(schema: Any) -> Any:
        if (steps := _STEPS.get(None)) is not None:  # there are none while the validator is made
            steps.spend(len(schema) // _VALUES_A_STEP)  # a schema may have many unknown keywords
        return kind._APPLICABLE_VALIDATORS(schema)  # noqa: SLF001  # jsonschema's `extend` takes it from there, too

    return create(
        meta_schema=kind.META_SCHEMA,
        validators=counted,
        type_checker=kind.TYPE_CHECKER,
        format_checker=kind.FORMAT_CHECKER,
        id_of=kind.ID_OF,
        applicable_validators=applicable,
    )


def _frames() -> int:
    """Return the number of frames of the caller and of everything around it."""
    frame, number = inspect.currentframe(), 0
    while frame is not None:
        frame, number = frame.f_back, number + 1
    return number


def _counted(keyword: str, check: Keyword) -> Keyword:
    """Return a version of `check` that costs steps."""

    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        steps = _STEPS.get()
        if keyword in _BY_NAME_PATTERN and not steps.form.knows_names:
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
    """Return the steps of a keyword before it reports anything, without those of the schemas in it."""
    if keyword == "$ref":
        return _STEPS_OF_A_REFERENCE
    if keyword in ("enum", "const") and isinstance(instance, dict | list):
        return _STEPS_OF_A_COMPARISON * check_size(value, max_chars=sys.maxsize, max_depth=sys.maxsize)
    if keyword == "enum":
        return 1 + (len(value) // 2 if isinstance(instance, str) else len(value))
    steps = 1 + (len(value) // _VALUES_A_STEP if isinstance(value, dict | list) else 0)
    if keyword in _PER_MEMBER and isinstance(instance, dict | list):
        steps += len(instance)
    if keyword in _BY_NAME_PATTERN and isinstance(instance, dict):
        patterns = len(schema.get("patternProperties", ()))
        steps += len(instance) * (1 + patterns) + patterns * (1 + sum(map(len, instance)) // _CHARS_A_STEP)
    return steps


def _unchecked(_validator: Any, _value: Any, _instance: Any, _schema: Any) -> None:
    """Skip a keyword that is not checked."""


def _reference(validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Check `$ref`, which was followed when the schema was given."""
    targets = _STEPS.get().form.targets
    if id(schema) not in targets:
        raise LookupError(f"there is nothing at {reference!r}")
    yield from validator.descend(instance, targets[id(schema)])


def _pattern_properties(validator: Any, named: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    """Check `patternProperties`, with patterns that are compiled once."""
    for pattern, inner in named.items() if isinstance(instance, dict) else ():
        for name, value in instance.items():
            if _STEPS.get().form.matches(pattern, name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(validator: Any, additional: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Check `additionalProperties`: jsonschema would compile all patterns of the schema as one, each time."""
    from jsonschema import ValidationError

    for name in additional_names(instance, schema) if isinstance(instance, dict) else ():
        if additional is False:
            yield ValidationError("there are properties that are not allowed")
            return
        yield from validator.descend(instance[name], additional, path=name)


def additional_names(instance: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that match neither `properties` nor `patternProperties`. Use it inside `counting`."""
    form = _STEPS.get().form
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in instance:
        if name not in known and not any(form.matches(pattern, name) for pattern in patterns):
            yield name


def _unique_items(_validator: Any, unique: Any, items: Any, _schema: Any) -> Iterator[Any]:
    """Check `uniqueItems` in linear time: jsonschema compares every item with every other one."""
    from jsonschema import ValidationError

    if unique is not True or not isinstance(items, list):
        return
    steps = _STEPS.get()
    texts = {item for item in items if isinstance(item, str)}  # faster than writing them as JSON
    others: set[str] = set()
    steps.spend(len(items))
    for item in items:
        if not isinstance(item, str):
            others.add(text := json.dumps(item, sort_keys=True))
            steps.spend(2 + len(text) // _CHARS_A_STEP)
    if len(texts) + len(others) < len(items):
        yield ValidationError("the items must differ from one another")


def _pattern(_validator: Any, pattern: Any, text: Any, _schema: Any) -> Iterator[Any]:
    """Check `pattern`, if it can be matched in linear time."""
    from jsonschema import ValidationError

    steps = _STEPS.get()
    if not isinstance(text, str) or (known := steps.form.patterns.get(pattern)) is None:
        return
    steps.spend(len(text) // _CHARS_A_STEP)
    if known.search(text) is None:
        yield ValidationError(f"the value does not match {pattern!r}")
