"""The JSON schema of a function's parameters, and the check of an input against it; both through pydantic."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, NotRequired, Required, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from ..wire import JSONObject, copy_json, encodable
from .faults import InputError, InputFaults


class Parameters:
    """The parameters of a tool function: their JSON schema, and how an input becomes arguments.

    Args:
        function: Its parameters must be annotated and can be given by name.
        descriptions: Parameter name to description; one in the annotation (`Annotated[T, Field(description=...)]`)
            counts more.
        injected: Parameters of this type are not the model's to fill in: they stay out of the schema.
        hidden: Names of further such parameters.
        is_method: The first parameter is the object that the function is a method of.

    Attributes:
        schema: The JSON schema of the input.
        injected: Names of the parameters of the type `injected`.
        faults: What is wrong with the signature; with one, the rest is not to be used.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        descriptions: Mapping[str, str],
        *,
        injected: type | None = None,
        hidden: frozenset[str] = frozenset(),
        is_method: bool = False,
    ) -> None:
        self.schema: JSONObject = {"type": "object", "properties": {}}
        self.injected: list[str] = []
        self.faults: list[str] = []
        self.names: list[str] = []
        fields: dict[str, Any] = {}
        for parameter, hint in _annotated_parameters(function, self.faults, is_method=is_method):
            if injected is not None and isinstance(hint, type) and issubclass(hint, injected):
                self.injected.append(parameter.name)
            elif parameter.name not in hidden:
                fields[parameter.name] = _field(parameter, hint, descriptions.get(parameter.name))
        self.names = list(fields)
        if not self.faults:
            self._build(fields)

    def _build(self, fields: dict[str, Any]) -> None:
        # A TypedDict, not a model: any parameter name is allowed, and a missing optional one stays missing, so that
        # the function's own default counts.
        config = with_config(ConfigDict(extra="forbid", allow_inf_nan=False))
        shape = config(TypedDict("Input", fields))  # type: ignore[operator]  # mypy reads only TypedDicts written out
        try:
            self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
            self.schema |= _without_titles(self._adapter.json_schema())
        except Exception as error:
            self.faults.append(str(error))

    def check(self, input: JSONObject) -> dict[str, Any]:
        """The arguments that an input stands for: checked without coercing JSON types, then converted; a fresh copy.

        Raises:
            InputError: Every fault of the input, in one message for the model.
        """
        try:
            try:
                return self._adapter.validate_json(json.dumps(encodable(input)), strict=True)
            except ValidationError as error:
                if error.errors(include_url=False)[0]["type"] != "json_invalid":
                    raise
            # Deeper than pydantic's JSON parser goes. By way of Python values it accepts no strings for dates or enums.
            return self._adapter.validate_python(copy_json(encodable(input)), strict=True)
        except ValidationError as error:
            raise InputError(_describe(error, input)) from None


def _annotated_parameters(
    function: Callable[..., Any], faults: list[str], *, is_method: bool
) -> Iterator[tuple[inspect.Parameter, Any]]:
    """The parameters of a function with their types; what is wrong with them goes to `faults`."""
    try:
        # An object that can be called has its annotations on its class.
        annotated = (
            function if inspect.isroutine(function) or isinstance(function, partial) else type(function).__call__
        )
        hints = get_type_hints(annotated.func if isinstance(annotated, partial) else annotated, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())
    except (NameError, TypeError, ValueError, AttributeError) as error:
        faults.append(str(error))
        return
    for parameter in parameters[1:] if is_method else parameters:
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD and parameter.kind is not parameter.KEYWORD_ONLY:
            faults.append(f"parameter {parameter.name!r} cannot be given by name")
        elif parameter.name not in hints:
            faults.append(f"parameter {parameter.name!r} has no type annotation")
        else:
            yield parameter, hints[parameter.name]


def _field(parameter: inspect.Parameter, hint: Any, description: str | None) -> Any:
    extra: dict[str, Any] = {}
    if parameter.default is not parameter.empty:
        try:
            default = to_jsonable_python(parameter.default)
            json.dumps(default, allow_nan=False)
            extra["default"] = default
        except (ValueError, TypeError):
            pass  # a default that JSON cannot show is the function's own secret
    options: dict[str, Any] = {"json_schema_extra": extra} if extra else {}
    if description and not _has_description(hint):
        options["description"] = description
    annotated: Any = Annotated[hint, Field(**options)]
    return Required[annotated] if parameter.default is parameter.empty else NotRequired[annotated]


def _has_description(hint: Any) -> bool:
    return any(getattr(meta, "description", None) for meta in getattr(hint, "__metadata__", ()))


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic adds: they repeat the names, and cost the model tokens."""
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            kept[key] = {name: _without_titles(inner) for name, inner in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            kept[key] = value
        elif isinstance(value, dict):
            kept[key] = _without_titles(value)
        elif isinstance(value, list):
            kept[key] = [_without_titles(item) if isinstance(item, dict) else item for item in value]
        elif key != "title":
            kept[key] = value
    return kept


def _describe(error: ValidationError, input: JSONObject) -> str:
    faults = InputFaults()
    for fault in error.errors(include_url=False):
        place = _place(fault["loc"], input, absent=fault["type"] == "missing")
        if fault["type"] == "missing":
            faults.missing.append(place)
        elif fault["type"] == "extra_forbidden":
            faults.unknown.append(place)
        else:
            faults.add_wrong(place, fault["msg"], fault["input"])
    return str(faults)


def _place(location: tuple[int | str, ...], input: Any, *, absent: bool) -> str:
    """Where in the input a fault is; pydantic also names the branches of a union, which are no places in it."""
    steps: list[str] = []
    for number, step in enumerate(location):
        is_last = number == len(location) - 1
        if isinstance(input, dict) and step in input:
            input = input[step]
            steps.append(f".{step}")
        elif isinstance(input, list) and isinstance(step, int) and step < len(input):
            input = input[step]
            steps.append(f"[{step}]")
        elif absent and is_last:
            steps.append(f".{step}")
    return "".join(steps).removeprefix(".")
