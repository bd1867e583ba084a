"""The check of an input against a given JSON schema, one that is not derived from a signature."""

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
"""Steps for any input, about 0.5 s. In a union, each type that an item does not match takes some tens of steps."""
_STEPS_PER_CHAR: Final = 20
"""Per character of the input, as `check_size` counts. Common schemas take up to 5; an array with four item types 15."""


class RawSchema:
    """A JSON schema that was given, not derived, and the check of inputs against it. Inputs are not converted.

    The schema may come from a peer. Therefore the time for a check is bounded by the size of the input for every
    schema, and nothing is fetched. Not checked are `format`, `unevaluatedItems`, `unevaluatedProperties`,
    `$dynamicRef`, `$recursiveRef` and patterns that Python might match slowly (see `linear_pattern`): the tool itself
    must check them. If such a pattern is a name in `patternProperties`, neither that keyword nor
    `additionalProperties` is checked anywhere in the schema.

    Args:
        schema: Draft 2020-12, unless its `$schema` names another. It has at most 100,000 characters, and 64 levels of
            nested containers.

        any_type: The value may be of any type; by default, it must be an object.

    Attributes:
        schema: A copy of the given schema.
        faults: The faults of the schema itself.
    """

    def __init__(self, schema: Mapping[str, Any], *, any_type: bool = False) -> None:
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
        if not (self.faults or any_type) and self.schema.get("type") != "object":
            self.faults.append('input_schema must be of the type "object"')

    def _prepare(self) -> None:
        # Imported here: a program without tools of this kind does not need it.
        from jsonschema import Draft202012Validator
        from jsonschema.validators import validator_for

        kind: Any = validator_for(self.schema, default=Draft202012Validator)
        checked = _without_dialects(self.schema)
        self._form = SchemaForm(checked, kind.ID_OF(kind.META_SCHEMA))
        self._validator = bounded_validator(kind, checked)
        self.faults += self._form.faults

    def check(self, input: Any) -> Any:
        """Return a copy of the input, with U+FFFD for lone surrogates, if it fits the schema.

        Raises:
            InputError: The input has faults (one message for the model lists them), or it cannot be checked.
        """
        faults = InputFaults()
        size = check_size(input, max_chars=sys.maxsize, max_depth=sys.maxsize)
        try:
            with counting(Steps(_STEPS + _STEPS_PER_CHAR * size, self._form)):
                # Each fault may cost as much as its value is large, so their number is bounded.
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
        except Exception as error:  # jsonschema does not support every schema
            said = head(f"{type(error).__name__}: {error}", _MAX_SAID_CHARS)
            raise InputError(f"Error: the input cannot be checked against the tool's schema: {said}") from error
        if faults:
            raise InputError(str(faults))
        return copy_json(encodable(input))


def _collect(error: Any, faults: InputFaults) -> None:
    """Add an error of jsonschema to the faults, in words for the model."""
    if error.validator == "required" and isinstance(error.instance, dict):
        # There is one error for each missing name, and only its text contains the name.
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
    """Return a copy without `$schema` anywhere: jsonschema would check such a subschema with its own functions.

    It is also removed from values, for example in `enum`: none of them is known to have one.
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
    """Return jsonschema's message without the value at its start: the value is shown after it, and shortened."""
    said: str = error.message
    value = repr(error.instance)
    return f"the value{said[len(value) :]}" if said.startswith(value) else said
