"""`@tool`: a typed function becomes a tool that Claude can call."""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, Protocol, Self, TypedDict, Unpack, get_type_hints, overload

import docstring_parser

from ..errors import InputInterrupted, UsageError
from ..growing import GrowingInput
from ..wire import INVALID_JSON, JSONObject, copy_json, encodable
from .call import ToolCall
from .faults import InputError
from .invoke import invoke
from .raw_schema import RawSchema
from .schema import Parameters
from .streams import repeated_key

_log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TOOLSET: Final = re.compile(r"(\w+)_toolset_\d+")


@dataclass(frozen=True, slots=True)
class Group:
    """Tools that run one at a time, in call order.

    Attributes:
        name: Tools that name the same group belong together.
        stop_on_error: After a call of the group that failed, the later ones of the same turn are not run.
        skipped: What these are answered with; `{name}` stands for the tool that failed.
    """

    name: str
    stop_on_error: bool = False
    skipped: str = "Not executed: the preceding {name} call failed."


@dataclass(frozen=True, slots=True)
class Reject:
    """What a guard says of a call that must not run.

    Attributes:
        reason: The model's answer.
        cut: End the reply here: what the model is still writing costs, and will not be used.
    """

    reason: str
    cut: bool = False


class ToolOptions(TypedDict, total=False):
    """What can be said about a tool beside its function. What goes into the definition is left out where it is None.

    Attributes:
        name: Instead of the function's name.
        description: Instead of the docstring's text.
        definition: The definition verbatim, as the API takes it; the function then takes the input as one `dict`.
        eager: `eager_input_streaming`; True by default, False for a buffered input, None to leave it out.
        strict: The API holds the model to the schema while it writes.
        cache_control: A cache breakpoint behind this definition.
        defer_loading: The model finds the tool by tool search only.
        allowed_callers: Who may call it: `"direct"`, or code that the API runs.
        input_examples: Inputs to learn from.
        group: Tools that name the same group run one at a time, in call order.
        timeout_s: Seconds that a call may run, instead of `Limits.tool_timeout_s`.
        accepts_invalid_input: The tool is called with `{"INVALID_JSON": raw}` where an input is not JSON, instead of
            an automatic error answer. Its function takes that key as a parameter, which the model never sees, and has
            defaults for all others; or it is a tool with a `definition`.
        include_data: The `data` of its responses is sent too, as JSON behind the text.
        start: When a call may begin: `"input"` (by default) at the end of its own input, `"message"` once the reply has
            ended and asks for it, for what must not run before a refusal or a cut can be ruled out. A tool with
            streaming parameters begins earlier still, while its input is being written.
        approve: Asked with the call before it runs; a function or an async one. True lets it run; False, or a text that
            says why, answers it as refused, and so does an exception.
        approve_timeout_s: Seconds that `approve` may take, 600 by default; over it, the call is refused.
        guard: Asked with the partial input while it grows, and once more when it is whole; a text rejects the call,
            which is answered with it and does not run; `Reject(text, cut=True)` also ends the reply there, to save its
            tokens.
        idempotent: A call may be run a second time where it is not known whether the first came to its end.
    """

    name: str | None
    description: str | None
    definition: Mapping[str, Any] | None
    eager: bool | None
    strict: bool | None
    cache_control: Mapping[str, Any] | None
    defer_loading: bool | None
    allowed_callers: Sequence[str] | None
    input_examples: Sequence[Mapping[str, Any]] | None
    group: str | Group | None
    timeout_s: float | None
    accepts_invalid_input: bool
    include_data: bool
    start: Literal["input", "message"]
    approve: Callable[[ToolCall], Any] | None
    approve_timeout_s: float
    guard: Callable[[JSONObject], str | Reject | None] | None
    idempotent: bool


_IN_DEFINITION: Final = ("strict", "cache_control", "defer_loading", "allowed_callers", "input_examples")


class Tool:
    """A tool of the user's own: its definition, and the function that runs it.

    It still is the function: calling it calls the function, with the function's own arguments. As an attribute of a
    class it is a method: taken from an object, it is the tool of that object.

    Args:
        function: `async def`, or `def`, which runs in a thread; also a generator of either kind, whose values are
            progress and whose last one is the result. A parameter of the type `ToolCall` gets the call.
        options: See `ToolOptions`.

    Raises:
        UsageError: Everything that is wrong with the function and the options, together.

    Attributes:
        name: Unique in a request; letters, digits, `_` and `-`, at most 64.
        description: What the model reads to decide when and how to call it.
        input_schema: JSON schema of the input; empty for a tool whose schema the API knows.
        toolset: The toolset whose members it runs (`"computer"`); None for a tool of its own name.
    """

    def __init__(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        _refuse_unknown(options)
        self._function = function
        self._bound_to: object = None
        self.is_method = _is_method(function)
        self.group = _as_group(options.get("group"))
        self.timeout_s = options.get("timeout_s")
        self.accepts_invalid_input = options.get("accepts_invalid_input", False)
        self.include_data = options.get("include_data", False)
        self.start = options.get("start", "input")
        self.approve = options.get("approve")
        self.approve_timeout_s = options.get("approve_timeout_s", 600.0)
        self.guard = options.get("guard")
        self.idempotent = options.get("idempotent", False)
        given = options.get("definition")
        faults = _function_faults(function)
        for limit in ("timeout_s", "approve_timeout_s"):
            seconds = getattr(self, limit)
            if seconds is not None and not seconds > 0:
                faults.append(f"{limit} must be a positive number, not {seconds!r}")
        if self.start not in ("input", "message"):
            faults.append(f'start must be "input" or "message", not {self.start!r}')
        if not faults:
            faults += self._define(function, options) if given is None else self._take(function, given, options)
        if faults:
            name = options.get("name") or (given or {}).get("name") or _name_of(function)
            raise UsageError(f"{name} cannot be a tool: {'; '.join(faults)}")
        self.__doc__ = function.__doc__
        self.__name__ = _name_of(function)
        self.__wrapped__ = function

    def _define(self, function: Callable[..., Any], options: ToolOptions) -> list[str]:
        """Make the definition from the function."""
        docstring = docstring_parser.parse(inspect.getdoc(_documented(function)) or "")
        hidden = frozenset({INVALID_JSON} if self.accepts_invalid_input else ())
        parameters = Parameters(
            function,
            {parameter.arg_name: parameter.description or "" for parameter in docstring.params},
            injected=ToolCall,
            hidden=hidden,
            is_method=self.is_method,
        )
        self._parameters: Parameters | RawSchema | None = parameters
        self._injected = parameters.injected
        self.toolset: str | None = None
        self.name = _first(options.get("name"), _name_of(function)) or ""
        self.description = _first(options.get("description"), docstring.description) or ""
        self.input_schema: JSONObject = parameters.schema
        self.eager = options.get("eager", True)
        self._definition: dict[str, Any] = {"name": self.name}
        if self.description:
            self._definition["description"] = self.description
        self._definition["input_schema"] = self.input_schema
        if self.eager is not None:
            self._definition["eager_input_streaming"] = self.eager
        self._definition |= {name: options[name] for name in _IN_DEFINITION if options.get(name) is not None}
        faults = list(parameters.faults)
        if not _NAME.fullmatch(self.name):
            faults.append(f"a tool's name must match {_NAME.pattern}, not {self.name!r}")
        if self.accepts_invalid_input and not faults and not _takes_only(function, INVALID_JSON, parameters):
            faults.append(
                f"with accepts_invalid_input it needs a parameter {INVALID_JSON}, and defaults for all the others"
            )
        if parameters.is_streaming and self.start == "message":
            faults.append('a tool with streaming parameters begins before its message ends: start cannot be "message"')
        if parameters.is_streaming and self.eager is False:
            _log.warning("the tool %s streams its parameters, and eager=False holds them back", self.name)
        faults += _option_faults(self._definition)
        if not faults and not self.description:
            _log.warning("the tool %s has no description: the model will not know when to call it", self.name)
        return faults

    def _take(self, function: Callable[..., Any], given: Mapping[str, Any], options: ToolOptions) -> list[str]:
        """Take a definition as it is given."""
        faults = [
            f"{name} belongs into the definition itself"
            for name in ("name", "description", *_IN_DEFINITION)
            if options.get(name) is not None
        ]
        definition = dict(given)
        kind = str(definition.get("type") or "custom")
        matched = _TOOLSET.fullmatch(kind)
        self.toolset = matched[1] if matched else None
        self.name = str(definition.get("name") or self.toolset or "")
        self.description = str(definition.get("description") or "")
        schema = definition.get("input_schema")
        if kind == "custom":
            if "eager" in options or "eager_input_streaming" not in definition:
                definition.pop("eager_input_streaming", None)
                if options.get("eager", True) is not None:
                    definition["eager_input_streaming"] = options.get("eager", True)
            if not isinstance(schema, Mapping):
                faults.append("its definition needs an input_schema")
        elif "eager_input_streaming" in definition or options.get("eager") is not None:
            faults.append(f"only user-defined tools take eager_input_streaming, not {kind}")
        if not _NAME.fullmatch(self.name):
            faults.append(f"a tool's name must match {_NAME.pattern}, not {self.name!r}")
        self.eager = definition.get("eager_input_streaming")
        self._parameters = RawSchema(schema) if isinstance(schema, Mapping) else None
        self.input_schema = self._parameters.schema if self._parameters else {}
        faults += self._parameters.faults if self._parameters else []
        self._definition = definition
        self._injected = _injected(function)
        return faults + _option_faults(definition)

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """The tool of an object, where this is a method of its class."""
        if instance is None or not self.is_method:
            return self
        bound = copy(self)
        bound.__dict__.update(_function=partial(self._function, instance), _bound_to=instance)
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself: no checks, no conversion."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @property
    def is_unbound(self) -> bool:
        """It is a method that was not taken from an object, and cannot be run."""
        return self.is_method and self._bound_to is None

    @property
    def is_streaming(self) -> bool:
        """It has streaming parameters: a call begins while its input is being written."""
        return isinstance(self._parameters, Parameters) and self._parameters.is_streaming

    async def begin(self, input: GrowingInput) -> JSONObject | None:
        """What a streaming tool is called with, as soon as the parameters that it needs to begin are finished.

        None where that never happens, or they do not fit: then the whole input is to be looked at.
        """
        assert isinstance(self._parameters, Parameters)
        try:
            await input.begun()
            for name in self._parameters.first:
                await input.field(name)
            return self._parameters.begin(input)
        except (KeyError, InputInterrupted, InputError):
            return None

    def fault_of(self, input: GrowingInput) -> str | None:
        """What is wrong with a whole input on which a call has begun, in words for the model; None if nothing is."""
        if input.value is None:
            return None
        try:
            self.check(input.value)
        except InputError as error:
            return str(error)
        if (name := repeated_key(input.raw)) is not None:
            return f"Error: Parameter {name!r} was written twice, and the tool had begun with the first"
        return None

    def to_dict(self) -> dict[str, Any]:
        """The definition as the API takes it."""
        return dict(self._definition)

    def check(self, input: JSONObject) -> dict[str, Any]:
        """What the function is called with for a whole input: checked, converted, and a copy of its own.

        Raises:
            InputError: The input does not fit the schema; every fault in one message.
        """
        if self._parameters is not None:
            return self._parameters.check(input)
        copied = copy_json(encodable(input))
        assert isinstance(copied, dict)
        return copied

    async def call(self, input: JSONObject) -> Any:
        """Check an input and run the function on it.

        Raises:
            InputError: As `check`; the function was not called.
            Exception: Whatever the function raises.
        """
        return await self.invoke(self.check(input))

    async def invoke(self, arguments: JSONObject, call: ToolCall | None = None) -> Any:
        """Run the function on what `check` gave; `call` is where its progress goes.

        Cancelling it cancels an `async def`; a `def` runs on in its thread, and what it returns is dropped.
        """
        injected = dict.fromkeys(self._injected, call)
        if isinstance(self._parameters, Parameters):
            function = partial(self._function, **arguments, **injected)
        else:
            function = partial(self._function, arguments, **injected)
        return await invoke(function, call)


class _Decorator(Protocol):
    def __call__(self, function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> _Decorator: ...
@overload
def tool(function: Callable[..., Any], /, **options: Unpack[ToolOptions]) -> Tool: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Tool | _Decorator:
    """Make a tool of a typed function, with or without options.

        @tool
        async def get_weather(city: str) -> str:
            \"\"\"Current weather in a city.

            Args:
                city: City and country.
            \"\"\"

    Its name, docstring and annotations give name, description and schema. It may be an `async def`, a `def` (which
    runs in a thread), a generator of either kind (what it yields is progress, the last value the result), a method, or
    an object that can be called.

    Raises:
        UsageError: What is wrong with the function and the options, all of it, when it is decorated.
    """

    def decorate(function: Callable[..., Any], /) -> Tool:
        return Tool(function, **options)

    return decorate if function is None else decorate(function)


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    if unknown := sorted(set(options) - set(ToolOptions.__annotations__)):
        raise UsageError(f"a tool has no option {', '.join(map(repr, unknown))}")


def _function_faults(function: object) -> list[str]:
    if inspect.isclass(function):
        return ["a class is no function: make an object of it"]
    return [] if callable(function) else [f"{function!r} cannot be called"]


def _first(*values: str | None) -> str | None:
    return next((value for value in values if value is not None), None)


def _name_of(function: Callable[..., Any]) -> str:
    named = function.func if isinstance(function, partial) else function
    return getattr(named, "__name__", None) or type(named).__name__


def _documented(function: Callable[..., Any]) -> Any:
    """What bears the docstring: the function, or of an object that can be called, its `__call__` or its class."""
    if isinstance(function, partial):
        return function.func
    if inspect.isroutine(function):
        return function
    called = type(function).__call__
    return called if called.__doc__ else type(function)


def _is_method(function: Callable[..., Any]) -> bool:
    """It is a function in the body of a class, seen before the class exists."""
    if not inspect.isfunction(function) or "." not in function.__qualname__.rpartition("<locals>.")[2]:
        return False
    return next(iter(inspect.signature(function).parameters), None) == "self"


def _as_group(group: str | Group | None) -> Group | None:
    return Group(group) if isinstance(group, str) else group


def _injected(function: Callable[..., Any]) -> list[str]:
    try:
        hints = get_type_hints(function if inspect.isroutine(function) else type(function).__call__)
    except (NameError, TypeError, AttributeError):
        return []
    return [name for name, hint in hints.items() if hint is ToolCall and name != "return"]


def _takes_only(function: Callable[..., Any], name: str, parameters: Parameters) -> bool:
    signature = inspect.signature(function)
    return name in signature.parameters and not parameters.schema.get("required")


def _option_faults(definition: Mapping[str, Any]) -> list[str]:
    faults: list[str] = []
    callers = definition.get("allowed_callers") or ()
    if isinstance(callers, str):
        faults.append(f"allowed_callers must be a list, not {callers!r}")
    elif definition.get("strict") and any(caller != "direct" for caller in callers):
        # The API refuses it today; a warning does not stand in the way the day it does not.
        warnings.warn("strict cannot be combined with calls from code", UserWarning, stacklevel=4)
    control = definition.get("cache_control")
    if control is not None and not isinstance(control, Mapping):
        faults.append('cache_control must be an object, for example {"type": "ephemeral"}')
    if definition.get("defer_loading") and control is not None:
        faults.append("a tool with defer_loading cannot carry cache_control")
    examples = definition.get("input_examples")
    if examples is not None and not all(isinstance(example, Mapping) for example in examples):
        faults.append("input_examples must be a list of objects")
    return faults
