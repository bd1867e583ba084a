"""The JSON schema of a function's parameters, and the check of an input against it; both through pydantic."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NotRequired, Required, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from ..errors import UsageError
from ..wire import JSONObject


class _Schema(GenerateJsonSchema):
    """Without titles: they repeat the names, and cost the model tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


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
        hints = get_type_hints(function, include_extras=True)
        faults: list[str] = []
        fields: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
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
        shape = with_config(ConfigDict(extra="forbid"))(TypedDict("Input", fields))  # type: ignore[operator]
        try:
            self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
            schema = self._adapter.json_schema(schema_generator=_Schema)
        except Exception as error:
            raise UsageError(f"{name} cannot be a tool: {error}") from error
        schema.pop("title", None)
        self.schema: JSONObject = {"type": "object", "properties": {}, **schema}

    def check(self, input: JSONObject) -> dict[str, Any]:
        """The arguments that an input stands for: checked without coercing JSON types, then converted; a fresh copy.

        Raises:
            InputError: Every fault of the input, in one message for the model.
        """
        try:
            return self._adapter.validate_json(json.dumps(input), strict=True)
        except ValidationError as error:
            raise InputError(_describe(error)) from None


class InputError(Exception):
    """An input does not fit its schema; the text is for the model."""


def _field(parameter: inspect.Parameter, hint: Any, description: str | None) -> Any:
    extra: dict[str, Any] = {}
    if parameter.default is not parameter.empty:
        try:
            extra["default"] = to_jsonable_python(parameter.default)
        except ValueError:
            pass  # a default that JSON cannot show is the function's own secret
    options: dict[str, Any] = {"json_schema_extra": extra} if extra else {}
    if description and not _has_description(hint):
        options["description"] = description
    annotated: Any = Annotated[hint, Field(**options)]
    return Required[annotated] if parameter.default is parameter.empty else NotRequired[annotated]


def _has_description(hint: Any) -> bool:
    return any(getattr(meta, "description", None) for meta in getattr(hint, "__metadata__", ()))


def _describe(error: ValidationError) -> str:
    faults = error.errors(include_url=False)
    missing = [repr(_place(fault["loc"])) for fault in faults if fault["type"] == "missing"]
    parts = []
    if len(missing) == 1:
        parts.append(f"Missing required {missing[0]} parameter")
    elif missing:
        parts.append(f"Missing required parameters: {', '.join(missing)}")
    for fault in faults:
        if fault["type"] == "extra_forbidden":
            parts.append(f"Unknown parameter {_place(fault['loc'])!r}")
        elif fault["type"] != "missing":
            got = _shown(fault["input"])
            parts.append(f"Invalid parameter {_place(fault['loc'])!r}: {fault['msg']}, got {got}")
    return "Error: " + "; ".join(parts)


def _place(location: tuple[int | str, ...]) -> str:
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in location]
    return "".join(steps).removeprefix(".")


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 100 else f"{text[:80]}... ({len(text)} characters)"
