"""The JSON schema of a function's parameters, and the check of an input against it. Both use pydantic."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from eagerstream_wire import JSON, JSONObject

from ..inputs._faults import InputError
from ..inputs._growing_input import GrowingInput
from ..inputs._typed_dicts import readable, typed_dict_of
from ..inputs._validation import Validator, checked
from ._call import ToolCall
from ._context import Context
from ._streams import ItemStream, Later, TextStream, hides_a_stream, stream_kind, value_type


class Parameters:
    """The parameters of a tool function: their JSON schema, and the conversion of an input to arguments.

    Args:
        function: The function. Its parameters must be annotated, and it must accept them by name.
        descriptions: Parameter name to description. One in the annotation (`Annotated[T, Field(description=...)]`)
            takes precedence.
        injected: A type whose parameters the model does not fill in: they stay out of the schema.
        hidden: Names of further such parameters.
        is_method: True if the first parameter is the object of a method.

    Attributes:
        schema: The JSON schema of the input.
        input_type: The TypedDict of the input.
        injected: Names of the parameters of the type `injected`.
        context: The annotation of the parameter that gets the context of the run; None if there is none.
        field_defaults: The defaults that the signature gives as pydantic's fields.
        faults: The faults of the signature. If there are any, do not use the rest.
        first: Only for a tool that streams: the parameters that it needs to start.
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
        self.context: Any = None
        self.faults: list[str] = []
        self._streams: dict[str, _Stream] = {}
        self.field_defaults: dict[str, FieldInfo] = {}
        fields: dict[str, Any] = {}
        for number, (parameter, hint) in enumerate(_annotated_parameters(function, self.faults, is_method=is_method)):
            if is_of(hint, Context):
                self.context = hint
                if number or parameter.kind is parameter.KEYWORD_ONLY:
                    self.faults.append(f"parameter {parameter.name!r}: a context is the first parameter")
            elif injected is not None and is_of(hint, injected):
                self.injected.append(parameter.name)
            elif is_of(hint, ToolCall):
                self.faults.append(f"parameter {parameter.name!r}: a tool gets its call as a RunningCall")
            elif parameter.name not in hidden:
                if hides_a_stream(hint):
                    self.faults.append(f"parameter {parameter.name!r} cannot stream inside another type: {hint}")
                elif (kind := stream_kind(hint)) is not None:
                    self._streams[parameter.name] = _Stream(kind, parameter, hint)
                if isinstance(parameter.default, FieldInfo) and not parameter.default.is_required():
                    self.field_defaults[parameter.name] = parameter.default
                fields[parameter.name] = _field(parameter, hint, descriptions.get(parameter.name))
        if any(stream.kind is not Later for stream in self._streams.values()):
            for name, stream in self._streams.items():
                if not stream.default_is_fit:
                    self.faults.append(f"the default of parameter {name!r} must be {stream.kind.__name__}.of(...)")
            for name, field in fields.items():
                if name not in self._streams and get_origin(field) is NotRequired:
                    self.faults.append(
                        f"parameter {name!r} is optional in a tool with a streaming one: it must be Later[...]"
                    )
        else:
            for name in self._streams:
                self.faults.append(f"parameter {name!r} is Later, but the tool has no streaming parameter")
        if self.faults:
            return
        self.first: list[str] = [name for name in fields if name not in self._streams]
        try:
            self.input_type: Any = _input_type(fields, extra="forbid")
            adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(self.input_type)
            # Without the adapter's own method, which is one more frame on the way from an input to its tool.
            self._validator: Validator = adapter.validator
            self.schema |= _without_titles(adapter.json_schema())
            if self._streams:
                first = _input_type({name: fields[name] for name in self.first}, extra="ignore")
                self._first_adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(first)
                for stream in self._streams.values():
                    stream.build()
        except Exception as error:
            self.faults.append(str(getattr(error, "message", error)))  # pydantic's own text adds a link to its pages

    @property
    def is_streaming(self) -> bool:
        """True if a parameter is read while the model is still writing it."""
        return bool(self._streams)

    def check(self, input: JSONObject) -> dict[str, Any]:
        """Return the arguments for an input: checked without coercing JSON types, then converted; a fresh copy.

        Raises:
            InputError: The input does not fit. One message for the model lists every fault.
        """
        arguments: dict[str, Any] = checked(self._validator, input)
        if not self._streams:
            return arguments
        return {
            name: self._streams[name].of(value) if name in self._streams else value for name, value in arguments.items()
        }

    def with_field_defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with `field_defaults`."""
        defaults = {
            name: field.get_default(call_default_factory=True, validated_data={})
            for name, field in self.field_defaults.items()
            if name not in arguments
        }
        return arguments | defaults

    def begin(self, input: GrowingInput, first: JSONObject) -> dict[str, Any]:
        """Return the arguments with which a tool starts while its input is still being written.

        Args:
            input: The input, for the streaming parameters.
            first: The finished values of the other parameters.

        Raises:
            InputError: A value in `first` does not fit.
        """
        arguments: dict[str, Any] = checked(self._first_adapter, first)
        return arguments | {name: stream.over(input) for name, stream in self._streams.items()}


class _Stream:
    """A streaming parameter: the conversion of received values to the values that the tool reads."""

    def __init__(self, kind: Any, parameter: inspect.Parameter, hint: Any) -> None:
        self.kind = kind
        self.name = parameter.name
        default = parameter.default
        is_required = default is parameter.empty or (isinstance(default, FieldInfo) and default.is_required())
        self.has_default = not is_required
        self._default = parameter.default
        self._hint = hint

    @property
    def default_is_fit(self) -> bool:
        """True if it has no default, or one that can be awaited."""
        return not self.has_default or isinstance(self._default, self.kind)

    def build(self) -> None:
        """Make the adapter that checks the values."""
        self._adapter: TypeAdapter[Any] = TypeAdapter(value_type(self._hint))

    def convert(self, value: JSON) -> Any:
        """Check and convert a finished value (for an `ItemStream`, an item).

        Raises:
            ValueError: The value does not fit.
        """
        try:
            return checked(self._adapter, value)
        except InputError as error:
            raise ValueError(str(error).removeprefix("Error: ")) from None

    def over(self, input: GrowingInput) -> Any:
        """Return the object that the tool reads, for an input that is still being written."""
        return self.kind(input, self.name, self.convert, self._default if self.has_default else None)

    def of(self, value: Any) -> Any:
        """Return the object that the tool reads, for a complete input."""
        return self.kind.of(value)


def _input_type(fields: dict[str, Any], *, extra: Literal["forbid", "ignore"]) -> Any:
    # A TypedDict, not a model: any parameter name is allowed, and a missing optional one stays missing, so that the
    # function's own default applies.
    config = with_config(ConfigDict(extra=extra, allow_inf_nan=False))
    return config(typed_dict_of("Input", fields))


def annotated(function: Any) -> Any:
    """Return the object with the annotations: a partial's function, or the `__call__` of a callable object."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def bound_names(function: Any) -> set[str]:
    """Return the names of the parameters that a partial, or one inside it, has filled in by name."""
    names: set[str] = set()
    while isinstance(function, partial):
        names |= function.keywords.keys()
        function = function.func
    return names


def is_of(hint: Any, kind: type) -> bool:
    """Return True if an annotation names `kind`, alone, annotated, or as one of several types."""
    if get_origin(hint) is Annotated:
        return is_of(hint.__origin__, kind)
    if get_origin(hint) in (Union, UnionType):
        return any(is_of(part, kind) for part in get_args(hint))
    named = get_origin(hint) or hint
    return isinstance(named, type) and issubclass(named, kind)


def needs_deps(context: Any) -> bool:
    """Return True if a `Context` with this annotation must have an object, because None is not of the type it names."""
    (named,) = get_args(context) or (Any,)
    parts = get_args(named) if get_origin(named) in (Union, UnionType) else (named,)
    return not any(part in (Any, object, None, NoneType) for part in parts)


def _annotated_parameters(
    function: Callable[..., Any], faults: list[str], *, is_method: bool
) -> Iterator[tuple[inspect.Parameter, Any]]:
    """Yield the parameters of a function with their types, and add their faults to `faults`."""
    try:
        hints = get_type_hints(annotated(function), include_extras=True)
        hints = {name: readable(hint) for name, hint in hints.items()}
        parameters = list(inspect.signature(function).parameters.values())
    except NameError as error:
        faults.append(f"{error}: annotations written as text are looked up in its module, not in a function around it")
        return
    except (TypeError, ValueError, AttributeError) as error:
        faults.append(str(error))
        return
    if [parameter.kind.name for parameter in parameters] == ["VAR_POSITIONAL", "VAR_KEYWORD"]:
        faults.append("it takes any arguments: a decorator around it needs functools.wraps, to show the function's own")
        return
    bound = bound_names(function)
    for parameter in parameters[1:] if is_method else parameters:
        if parameter.name in bound:
            continue  # its value is not the model's: the schema omits it, and an input with it is refused
        by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if not (by_name or is_of(hints.get(parameter.name), Context)):
            faults.append(f"parameter {parameter.name!r} cannot be given by name")
        elif parameter.name not in hints:
            hint = ": for a classmethod, write tool(Class.method) after the class" if parameter.name == "cls" else ""
            faults.append(f"parameter {parameter.name!r} has no type annotation{hint}")
        else:
            yield parameter, hints[parameter.name]


def _field(parameter: inspect.Parameter, hint: Any, description: str | None) -> Any:
    default = parameter.default
    if isinstance(default, TextStream | ItemStream | Later):
        default = default.given
    if isinstance(default, FieldInfo):
        # As in a model: `x: int = Field(3, description=...)`. A missing field stays missing, and is filled in later.
        bare = copy(default)
        bare.default = PydanticUndefined
        bare.default_factory = None
        annotated_hint: Any = Annotated[hint, bare]
        given = default.get_default(call_default_factory=True, validated_data={})
        default = parameter.empty if default.is_required() else given
    else:
        annotated_hint = hint
    extra: dict[str, Any] = {}
    if default is not parameter.empty:
        try:
            shown = to_jsonable_python(default)
            json.dumps(shown, allow_nan=False)
            extra["default"] = shown
        except (ValueError, TypeError):
            pass  # the schema omits a default that JSON cannot express
    options: dict[str, Any] = {"json_schema_extra": extra} if extra else {}
    metadata = getattr(annotated_hint, "__metadata__", ())
    if not any(getattr(meta, "description", None) for meta in metadata):
        # `Annotated[int, "how many"]`, or a `Doc("how many")`.
        texts = [meta if isinstance(meta, str) else getattr(meta, "documentation", None) for meta in metadata]
        if said := description or next((text for text in texts if isinstance(text, str)), None):
            options["description"] = said
    complete: Any = Annotated[annotated_hint, Field(**options)]
    return Required[complete] if default is parameter.empty else NotRequired[complete]


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without the titles that pydantic adds: they repeat the names, and cost the model tokens."""
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
