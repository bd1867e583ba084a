"""The check of an input against a JSON schema that was given, not derived from a signature."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from .._support.inspecting import MAX_SCHEMA_CHARS, MAX_SCHEMA_DEPTH, TooMuchError, check_size, head
from ..wire import JSONObject, copy_json, encodable
from ._bounded_check import Steps, TooDeep, TooManySteps, additional_names, bounded_validator, counting
from ._faults import MAX_TOLD, InputError, InputFaults, joined
from ._schema_form import SchemaForm

_MAX_SAID_CHARS: Final = 300
_STEPS: Final = 500_000
"""They take about 0.5 s. A union of many types takes some tens for each type that an item is not."""
_STEPS_PER_CHAR: Final = 20
"""Of the input, as `check_size` counts. Common schemas take up to 5, and an array with four types of items 15."""


class RawSchema:
    """A JSON schema that was given, not derived: how inputs are checked against it. They stay as they are.

    The schema may come from a peer. So the time for a check is bounded by the size of the input, whatever the schema
    is, and nothing is fetched. Not checked are `format`, `unevaluatedItems`, `unevaluatedProperties`, `$dynamicRef`,
    `$recursiveRef` and patterns that Python might match slowly (see `linear_pattern`): the tool itself has to check
    them. If such a pattern is a name in
    `patternProperties`, neither that keyword nor `additionalProperties` is checked anywhere in the schema.

    Args:
        schema: Draft 2020-12, unless its `$schema` says otherwise. It has at most 100,000 characters, and 64 containers
            inside one another.

    Attributes:
        faults: What is wrong with the schema itself.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema: JSONObject = dict(schema)
        self.faults: list[str] = []
        try:
            check_size(self.schema, max_chars=MAX_SCHEMA_CHARS, max_depth=MAX_SCHEMA_DEPTH)
            self._prepare()
        except TooMuchError as error:
            self.faults.append(f"input_schema is too large: {error}")
            return
        except Exception as error:
            self.faults.append(f"input_schema is not a JSON schema: {head(str(error), _MAX_SAID_CHARS)}")
        if not self.faults and self.schema.get("type") != "object":
            self.faults.append('input_schema must be of the type "object"')

    def _prepare(self) -> None:
        # Imported here: a program without tools of this kind does without it.
        from jsonschema import Draft202012Validator
        from jsonschema.validators import validator_for

        kind: Any = validator_for(self.schema, default=Draft202012Validator)
        checked = _without_dialects(self.schema)
        self._form = SchemaForm(checked, kind.ID_OF(kind.META_SCHEMA))
        self._validator = bounded_validator(kind, checked)
        self.faults += self._form.faults

    def check(self, input: JSONObject) -> JSONObject:
        """A copy of the input, which fits the schema.

        Raises:
            InputError: Every fault of the input, in one message for the model; or it cannot be checked.
        """
        faults = InputFaults()
        size = check_size(input, max_chars=sys.maxsize, max_depth=sys.maxsize)
        try:
            with counting(Steps(_STEPS + _STEPS_PER_CHAR * size, self._form)):
                # Each fault may cost as much as its value is large, so only so many are looked for.
                errors = self._validator.iter_errors(input)
                for error in islice(errors, MAX_TOLD):
                    _collect(error, faults)
                faults.stopped = bool(faults) and next(errors, None) is not None
        except TooManySteps:
            if not faults:
                raise InputError("Error: the input takes too long to be checked against the tool's schema") from None
            faults.stopped = True
        except (TooDeep, RecursionError):
            raise InputError("Error: the input is nested too deeply to be checked") from None
        except Exception as error:  # jsonschema was not written for every schema
            said = head(f"{type(error).__name__}: {error}", _MAX_SAID_CHARS)
            raise InputError(f"Error: the input cannot be checked against the tool's schema: {said}") from error
        if faults:
            raise InputError(str(faults))
        copied = copy_json(encodable(input))
        assert isinstance(copied, dict)
        return copied


def _collect(error: Any, faults: InputFaults) -> None:
    """Add what jsonschema says to the faults, in words for the model."""
    if error.validator == "required" and isinstance(error.instance, dict):
        # There is one error for each name that is missing, and the name stands only in its text.
        named = [name for name in error.validator_value if error.message == f"{name!r} is a required property"]
        places = [joined([*error.absolute_path, name]) for name in named]
        faults.missing += [place for place in places if place not in faults.missing]
    elif error.validator == "additionalProperties" and error.validator_value is False:
        names = additional_names(error.instance, error.schema)
        faults.unknown += [joined([*error.absolute_path, name]) for name in names]
    else:
        match error.validator:
            case "type":
                kinds = error.validator_value
                what = f"expected {kinds if isinstance(kinds, str) else ' or '.join(kinds)}"
            case "enum" | "const":
                what = f"expected {json.dumps(error.validator_value, ensure_ascii=False, default=str)}"
            case _:
                what = _without_value(error)
        what = what if len(what) <= _MAX_SAID_CHARS else f"{what[:_MAX_SAID_CHARS]}..."
        faults.add_wrong(joined(error.absolute_path), what, error.instance)


def _without_dialects(schema: JSONObject) -> JSONObject:
    """A copy without `$schema` anywhere: jsonschema would check what is inside such a schema with its own functions.

    It is taken out of values, too, in `enum` for example: none of them is known to have one.
    """
    copied = copy_json(schema)
    pending: list[Any] = [copied]
    while pending:
        found = pending.pop()
        if isinstance(found, dict):
            if isinstance(found.get("$schema"), str):
                del found["$schema"]
            pending += found.values()
        elif isinstance(found, list):
            pending += found
    assert isinstance(copied, dict)
    return copied


def _without_value(error: Any) -> str:
    """What jsonschema says, which begins with the value itself: that is shown behind it, and shortened."""
    said: str = error.message
    value = repr(error.instance)
    return f"the value{said[len(value) :]}" if said.startswith(value) else said
