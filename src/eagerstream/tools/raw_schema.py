"""The check of an input against a JSON schema that was given, not derived from a signature."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ..wire import JSONObject, copy_json, encodable
from .faults import MAX_TOLD, InputError, InputFaults, joined


class RawSchema:
    """A JSON schema that was given, not derived: how inputs are checked against it. They stay as they are.

    Args:
        schema: Draft 2020-12, unless its `$schema` says otherwise. References to other documents are not fetched.

    Attributes:
        faults: What is wrong with the schema itself.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        # Imported here: a program without tools of this kind does without it.
        from jsonschema import Draft202012Validator, FormatChecker, validators
        from jsonschema.validators import validator_for
        from referencing import Registry, Resource
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT202012

        self.schema: JSONObject = dict(schema)
        self.faults: list[str] = []
        try:
            kind: Any = validator_for(self.schema, default=Draft202012Validator)
            # Formats are not looked at: a pattern in another dialect of regular expressions is none of our business.
            kind.check_schema(self.schema, format_checker=FormatChecker(()))
            resource = Resource.from_contents(self.schema, default_specification=DRAFT202012)
            resolver = Registry().with_resource("", resource).resolver()
            for reference in _references(self.schema):
                try:
                    resolver.lookup(reference)
                except Unresolvable:
                    self.faults.append(f"input_schema has a $ref to what is not in it: {reference}")
        except Exception as error:
            self.faults.append(f"input_schema is not a JSON schema: {getattr(error, 'message', error)}")
            return
        if self.schema.get("type") != "object":
            self.faults.append('input_schema must be of the type "object"')
        extend: Any = validators.extend  # has no types
        quick = extend(kind, {"uniqueItems": _unique_items, "pattern": _pattern})
        self._validator = quick(self.schema, registry=Registry())

    def check(self, input: JSONObject) -> JSONObject:
        """A copy of the input, which fits the schema.

        Raises:
            InputError: Every fault of the input, in one message for the model.
        """
        faults = InputFaults()
        try:
            # Each fault may cost as much as its value is large, so only so many are looked for.
            errors = self._validator.iter_errors(input)
            for error in islice(errors, MAX_TOLD):
                _collect(error, faults)
            faults.stopped = bool(faults) and next(errors, None) is not None
        except RecursionError:
            raise InputError("Error: the input is nested too deeply to be checked") from None
        if faults:
            raise InputError(str(faults))
        copied = copy_json(encodable(input))
        assert isinstance(copied, dict)
        return copied


def _references(schema: JSONObject) -> Iterator[str]:
    """The `$ref`s of a schema."""
    pending: list[Any] = [schema]
    while pending:
        found = pending.pop()
        if isinstance(found, Mapping):
            if isinstance(found.get("$ref"), str):
                yield found["$ref"]
            pending += found.values()
        elif isinstance(found, list):
            pending += found


def _unique_items(_validator: Any, unique: Any, items: Any, _schema: Any) -> Iterator[Any]:
    """`uniqueItems` in linear time: jsonschema compares every item with every other one."""
    from jsonschema import ValidationError

    if unique is True and isinstance(items, list):
        seen = {json.dumps(item, sort_keys=True) for item in items}
        if len(seen) < len(items):
            yield ValidationError("the items must differ from one another")


def _pattern(_validator: Any, pattern: Any, text: Any, _schema: Any) -> Iterator[Any]:
    """`pattern`, passed over where it is written in a dialect that Python does not read."""
    from jsonschema import ValidationError

    try:
        fits = not isinstance(text, str) or re.search(pattern, text) is not None
    except re.error:
        fits = True
    if not fits:
        yield ValidationError(f"the value does not match {pattern!r}")


def _collect(error: Any, faults: InputFaults) -> None:
    place = joined(error.absolute_path)
    if error.validator == "required" and isinstance(error.instance, dict):
        # There is one error for each name that is missing, and the name stands only in its text.
        named = [name for name in error.validator_value if error.message == f"{name!r} is a required property"]
        places = [joined([*error.absolute_path, name]) for name in named]
        faults.missing += [place for place in places if place not in faults.missing]
    elif error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        patterns = error.schema.get("patternProperties", {})
        for name in error.instance:
            if name not in known and not any(re.search(pattern, name) for pattern in patterns):
                faults.unknown.append(joined([*error.absolute_path, name]))
    else:
        match error.validator:
            case "type":
                kinds = error.validator_value
                what = f"expected {kinds if isinstance(kinds, str) else ' or '.join(kinds)}"
            case "enum" | "const":
                what = f"expected {json.dumps(error.validator_value, ensure_ascii=False, default=str)}"
            case _:
                what = _without_value(error)
        faults.add_wrong(place, what if len(what) <= 300 else f"{what[:300]}...", error.instance)


def _without_value(error: Any) -> str:
    """What jsonschema says, which begins with the value itself: that is shown behind it, and shortened."""
    said: str = error.message
    value = repr(error.instance)
    return f"the value{said[len(value) :]}" if said.startswith(value) else said
