"""The JSON schema of a function's parameters, and the check of an input against it; both through pydantic."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NotRequired, Required, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from ..errors import UsageError
from ..wire import JSONObject, copy_json, encodable


class Parameters:
    """The parameters of a tool function: their JSON schema, and how an input becomes arguments.

    Args:
        function: Its parameters must be annotated and can be given by name.
        descriptions: Parameter name to description; one in the annotation (`Annotated[T, Field(description=...)]`)
            counts more.

    Raises:
        UsageError: All that is wrong with the signature, together.
    """

    def __init__(self, function: Callable[..., Any], descriptions: Mapping[str, str]) -> None:
        name = getattr(function, "__name__", type(function).__name__)
        try:
            hints = get_type_hints(function, include_extras=True)
            parameters = inspect.signature(function).parameters.values()
        except (NameError, TypeError, ValueError) as error:
            raise UsageError(f"{name} cannot be a tool: {error}") from error
        faults: list[str] = []
        fields: dict[str, Any] = {}
        for parameter in parameters:
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD and parameter.kind is not parameter.KEYWORD_ONLY:
                faults.append(f"parameter {parameter.name!r} cannot be given by name")
            elif parameter.name not in hints:
                faults.append(f"parameter {parameter.name!r} has no type annotation")
            else:
                fields[parameter.name] = _field(parameter, hints[parameter.name], descriptions.get(parameter.name))
        if faults:
            raise UsageError(f"{name} cannot be a tool: {'; '.join(faults)}")
        # A TypedDict, not a model: any parameter name is allowed, and a missing optional one stays missing, so that
        # the function's own default counts.
        config = with_config(ConfigDict(extra="forbid", allow_inf_nan=False))
        shape = config(TypedDict("Input", fields))  # type: ignore[operator]  # mypy reads only TypedDicts written out
        try:
            self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
            schema = self._adapter.json_schema()
        except Exception as error:
            raise UsageError(f"{name} cannot be a tool: {error}") from error
        self.schema: JSONObject = {"type": "object", "properties": {}, **_without_titles(schema)}

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


class InputError(Exception):
    """An input does not fit its schema; the text is for the model."""


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
    missing: list[str] = []
    unknown: list[str] = []
    wrong: dict[str, list[str]] = {}  # by place: what was expected there, in each branch of a union
    got: dict[str, str] = {}
    for fault in error.errors(include_url=False):
        place = _place(fault["loc"], input, absent=fault["type"] == "missing")
        if fault["type"] == "missing":
            missing.append(repr(place))
        elif fault["type"] == "extra_forbidden":
            unknown.append(f"Unknown parameter {place!r}")
        else:
            wrong.setdefault(place, []).append(fault["msg"])
            got[place] = _shown(fault["input"])
    parts = [f"Missing required {missing[0]} parameter"] if len(missing) == 1 else []
    parts += [f"Missing required parameters: {', '.join(missing)}"] if len(missing) > 1 else []
    parts += unknown
    parts += [f"Invalid parameter {place!r}: {' or '.join(said)}, got {got[place]}" for place, said in wrong.items()]
    return "Error: " + "; ".join(parts)


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


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 100 else f"{text[:80]}... ({len(text)} characters)"
