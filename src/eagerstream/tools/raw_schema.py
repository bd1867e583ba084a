"""The check of an input against a JSON schema that was given, not derived from a signature."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..wire import JSONObject, copy_json, encodable
from .faults import InputError, InputFaults, joined


class RawSchema:
    """A JSON schema that was given, not derived: how inputs are checked against it. They stay as they are.

    Args:
        schema: Draft 2020-12, unless its `$schema` says otherwise. References to other documents are not fetched.

    Attributes:
        faults: What is wrong with the schema itself.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        # Imported here: a program without tools of this kind does without it.
        from jsonschema import Draft202012Validator, SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry

        self.schema: JSONObject = dict(schema)
        self.faults: list[str] = []
        kind = validator_for(self.schema, default=Draft202012Validator)
        try:
            kind.check_schema(self.schema)
        except SchemaError as error:
            self.faults.append(f"input_schema is not a JSON schema: {error.message}")
        self._validator = kind(self.schema, registry=Registry())

    def check(self, input: JSONObject) -> JSONObject:
        """A copy of the input, which fits the schema.

        Raises:
            InputError: Every fault of the input, in one message for the model.
        """
        faults = InputFaults()
        try:
            for error in self._validator.iter_errors(input):
                _collect(error, faults)
        except RecursionError:
            raise InputError("Error: the input is nested too deeply to be checked") from None
        if faults:
            raise InputError(str(faults))
        copied = copy_json(encodable(input))
        assert isinstance(copied, dict)
        return copied


def _collect(error: Any, faults: InputFaults) -> None:
    place = joined(error.absolute_path)
    if error.validator == "required" and isinstance(error.instance, dict):
        # There is one error for each name that is missing, and the name stands only in its text.
        named = [name for name in error.validator_value if error.message == f"{name!r} is a required property"]
        faults.missing += [joined([*error.absolute_path, name]) for name in named]
    elif error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        patterns = error.schema.get("patternProperties", {})
        for name in error.instance:
            if name not in known and not any(re.search(pattern, name) for pattern in patterns):
                faults.unknown.append(joined([*error.absolute_path, name]))
    else:
        expected = str(error.validator_value) if error.validator in ("type", "enum", "const") else ""
        what = f"expected {expected}" if expected else error.message.replace(repr(error.instance), "the value", 1)
        faults.add_wrong(place, what if len(what) <= 300 else f"{what[:300]}...", error.instance)
