"""Arguments of a function from an input, by its signature. Values that nearly fit are converted."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, TypeAlias, get_type_hints

import docstring_parser

from eagerstream.errors import UsageError
from eagerstream.inputs import InputError, InputFaults
from eagerstream.tools import Parameters, annotated

from ._tool import ToolParameter

Converters: TypeAlias = Mapping[str, Callable[[Any], Any]]
"""Converters by JSON schema type. Each raises `ValueError` or `TypeError` instead of guessing."""

_WORDS: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off", ""), False),
}


def _number(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(value)
    return found


def _integer(value: Any) -> int:
    found = int(value)
    if not isinstance(value, str) and found != value:
        raise ValueError(value)
    return found


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        with suppress(KeyError):
            return _WORDS[value.strip().lower()]
    elif isinstance(value, int | float):
        return bool(value)
    raise ValueError(value)


def _text(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(value)


def _json_of(kind: type, value: Any) -> Any:
    found = json.loads(value)
    if isinstance(found, kind):
        return found
    raise ValueError(value)


SCALARS: Final[Converters] = {"number": _number, "integer": _integer, "boolean": _boolean}
ALL: Final[Converters] = {
    **SCALARS,
    "string": _text,
    "array": partial(_json_of, list),
    "object": partial(_json_of, dict),
}

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "number": (float,),
    "integer": (int,),
    "boolean": (bool,),
    "string": (str,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


def kinds_of(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[str]:
    """Return the JSON schema types that a value may have, as far as the schema or its reference names them directly."""
    if isinstance(reference := schema.get("$ref"), str):
        schema = definitions.get(reference.removeprefix("#/$defs/"), {})
    if branches := schema.get("anyOf"):
        return [str(branch["type"]) for branch in branches if "type" in branch]
    return [str(schema["type"])] if "type" in schema else []


def coerced(value: Any, kinds: Iterable[str], converters: Converters = SCALARS) -> Any:
    """Return a value converted to one of some JSON schema types, or unchanged if it has one of them or fits none."""
    kinds = list(kinds)
    if any(type(value) in _KINDS.get(kind, ()) for kind in kinds):
        return value
    for kind in kinds:
        if kind in converters:
            with suppress(ValueError, TypeError, OverflowError, RecursionError):
                return converters[kind](value)
    return value


def convert_parameters(given: Mapping[str, Any], parameters: Iterable[ToolParameter]) -> dict[str, Any]:
    """Return the input of a tool with numbers and booleans converted by its parameters."""
    kinds = {parameter.name: parameter.to_schema().get("type") for parameter in parameters}
    return {name: coerced(value, filter(None, [kinds.get(name)])) for name, value in given.items()}


INPUT: Final = "input"
"""Key of a value that was given without a name."""


class Binding:
    """Conversion of an input to the arguments of a function.

    A dict is bound by name. Any other value is the first argument (also of `*args`). A text may be either of them as
    JSON. Values that nearly fit their annotations are converted (`"2"` to 2, `"[1]"` to a list). Then they are checked,
    as for this library's own tools. If a parameter has no annotation, or one without a JSON schema, its value is passed
    unchanged.

    Args:
        function: Any callable.

    Raises:
        UsageError: The function's parameters cannot be those of a tool.

    Attributes:
        schema: The JSON schema of the input.
        defaults: Defaults of the parameters that have one.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        signature: inspect.Signature | None = None
        with suppress(TypeError, ValueError):  # some functions written in C have none
            signature = inspect.signature(function)
        every = signature.parameters.values() if signature else ()
        named = [each for each in every if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        self._is_variadic = any(each.kind is each.VAR_POSITIONAL for each in list(every)[:1])
        self._takes_any_name = any(each.kind is each.VAR_KEYWORD for each in every)
        self._is_opaque = signature is None or bool(every and not named and not self._takes_any_name)
        self._parameters = {each.name: each for each in named}
        self.defaults = {each.name: each.default for each in named if each.default is not each.empty}
        bearer = function.func if isinstance(function, partial) else function
        docstring = docstring_parser.parse(inspect.getdoc(bearer) or "")
        described = {each.arg_name: " ".join(each.description.split()) for each in docstring.params if each.description}
        hints = _hints(function)
        typed = [  # those that have an annotation with a JSON schema
            each
            for each in named
            if hints.get(each.name, Any) not in (Any, object)
            and not Parameters(_with_signature([each], hints), {}).faults
        ]
        self._check = Parameters(_with_signature(typed, hints), described)
        if self._check.faults:
            raise UsageError(f"a function cannot be a tool: {'; '.join(self._check.faults)}")
        checked: Mapping[str, Any] = self._check.schema
        definitions: Mapping[str, Any] = checked.get("$defs", {})
        self._kinds = {name: kinds_of(schema, definitions) for name, schema in checked["properties"].items()}
        self.schema = self._schema(described)

    def _schema(self, described: Mapping[str, str]) -> dict[str, Any]:
        """Return the schema of the checked parameters. For the other ones, any value fits."""
        is_single = len(self._parameters) == 1 and not self._kinds and not self._takes_any_name
        if self._is_opaque or is_single:
            value = {"type": "string", "description": " ".join(described.values()) or "输入文本"}
            return {
                "type": "object",
                "properties": {INPUT: value},
                "required": [] if self.defaults else [INPUT],
                "additionalProperties": False,
            }
        known = dict(self._check.schema)
        unknown = {name: {"description": text} for name, text in described.items()}
        return known | {
            "properties": {name: known["properties"].get(name, unknown.get(name, {})) for name in self._parameters},
            "required": [name for name in self._parameters if name not in self.defaults],
            "additionalProperties": self._takes_any_name,
        }

    def bound(self, given: object) -> Callable[[], Any]:
        """Return the function with its arguments from an input. An `InputError` has every fault of the input."""
        if self._is_opaque:
            is_named = isinstance(given, dict) and list(given) == [INPUT]
            return partial(self._function, given[INPUT] if is_named and isinstance(given, dict) else given)
        given = self._object_in(given) if isinstance(given, str) else given
        if self._is_variadic and not isinstance(given, Mapping):
            return partial(self._function, given)
        arguments = self._checked(self._by_name(given))
        positional: list[Any] = []
        for name, parameter in self._parameters.items():
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(arguments.pop(name) if name in arguments else self.defaults[name])
        return partial(self._function, *positional, **arguments)

    def _by_name(self, given: object) -> dict[str, Any]:
        """Return the values of an input by parameter name."""
        first = next(iter(self._parameters), None)
        if isinstance(given, Mapping):
            is_single = len(self._parameters) == 1 and not self._takes_any_name
            if not given or not is_single or first in given:
                return dict(given)
            if list(given) == [INPUT]:
                given = given[INPUT]
            elif "object" not in self._kinds.get(first or "", ["object"]):
                return dict(given)
        if first is None and given in ("", None):
            return {}
        return {first or INPUT: given}

    def _object_in(self, text: str) -> object:
        """Return the JSON object in a text if its keys can be parameter names. Otherwise return the text."""
        found: object = None
        with suppress(ValueError, RecursionError):
            found = json.loads(text)
        if not isinstance(found, dict):
            return text
        if len(self._parameters) != 1 or self._takes_any_name:
            return found
        (name,) = self._parameters
        return found if name in found or list(found) == [INPUT] or (not found and self.defaults) else text

    def _checked(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for these values, converted and checked by their annotations."""
        as_they_are = {
            name: value
            for name, value in values.items()
            if name not in self._kinds and (name in self._parameters or self._takes_any_name)
        }
        looked_at = {
            name: coerced(value, self._kinds.get(name, ()), ALL)
            for name, value in values.items()
            if name not in as_they_are
        }
        faults = InputFaults()
        faults.missing = [name for name in self._parameters if name not in {*self._kinds, *as_they_are, *self.defaults}]
        told = [str(faults)] if faults else []
        try:
            checked = self._check.check(looked_at)
        except InputError as error:
            told.append(str(error).removeprefix("Error: ") if told else str(error))
        except (TypeError, ValueError, RecursionError) as error:  # not JSON
            told.append(f"Error: {error}")
        else:
            if not told:
                return self._check.with_field_defaults(checked) | as_they_are
        raise InputError("; ".join(told))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations that can be resolved. Each one is resolved separately."""
    hints: dict[str, Any] = {}
    with suppress(Exception):  # annotations can run any code
        bearer = annotated(inspect.unwrap(function))
        for name, hint in dict(bearer.__annotations__).items():
            with suppress(Exception):
                alone: Any = SimpleNamespace(__annotations__={name: hint})
                hints |= get_type_hints(alone, bearer.__globals__, include_extras=True)
    return hints


def _with_signature(parameters: Iterable[inspect.Parameter], hints: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a function with only these parameters, all keyword-only."""

    def shown() -> None: ...

    parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in parameters]
    vars(shown)["__signature__"] = inspect.Signature(parameters)
    shown.__annotations__ = {each.name: hints[each.name] for each in parameters}
    return shown
