"""`@tool`: turns a typed function into a tool that Claude can call."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from copy import copy, deepcopy
from functools import partial
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Protocol,
    Self,
    Unpack,
    cast,
    get_type_hints,
    overload,
)

import docstring_parser
from typing_extensions import ParamSpec, TypeVar  # with defaults, which the ones of Python have from 3.13 on

from eagerstream_wire import INVALID_JSON, JSONObject, Outcome, ParseFault, copy_json
from eagerstream_wire._block_rules import API_NAME
from eagerstream_wire._echo import LEGAL_NAME
from eagerstream_wire._tool_kind import EAGER_FIELD, USER_DEFINED, tool_kind
from eagerstream_wire._values import encodable

from .._support.terms import IN_DEFINITION
from ..errors import InputInterrupted, UsageError
from ..inputs._faults import InputError
from ..inputs._growing_input import GrowingInput
from ._call import ToolCall
from ._context import Context
from ._invoke import Kind, invoke, kind_of
from ._options import Group, OnInvalid, Reject, ToolOptions, option_faults
from ._response import error_text
from ._running_call import RunningCall, record_of
from ._schema import Parameters, annotated, bound_names, is_of, needs_deps
from ._streams import repeated_key
from ._tool_failure import report_failure

if TYPE_CHECKING:
    from ..inputs._raw_schema import RawSchema

_log = logging.getLogger(__name__)

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)
DepsT_contra = TypeVar("DepsT_contra", contravariant=True, default=Any)
_P = ParamSpec("_P")
_R = TypeVar("_R")
_Object = TypeVar("_Object")
_NeededT = TypeVar("_NeededT")

_TOOLSET: Final = re.compile(r"(\w+)_toolset_\d+")


class ForeignDefinition(dict[str, Any]):
    """A definition whose schema another program wrote. What cannot be checked of it is logged, and is no fault."""


class Tool(Generic[P, R, DepsT_contra]):
    """A user-defined tool: its definition, and the function that runs it.

    It still works as the function: calling it calls the function, with the function's own arguments, and type checkers
    know them (`Tool[[str], Coroutine[Any, Any, int]]`). A plain `Tool` is a tool of any function. As an attribute
    of a class it is a method: accessed through an object, it is the tool of that object. The third type is that of the
    dependencies which it takes from a run, in a first parameter of the type `Context`; `object` for a tool without one.

    Args:
        function: An `async def`, or a `def`, which runs in a thread. A generator of either kind yields progress, and
            its last value is the result. A parameter of the type `RunningCall` gets the call, and a first parameter of
            the type `Context` the dependencies of the run. What `functools.partial` has filled in is not the model's.
        options: See `ToolOptions`.

    Raises:
        UsageError: The function or an option has faults. One error lists all of them.

    Attributes:
        name: Unique in a request; letters, digits, `_` and `-`, at most 64.
        description: The text from which the model decides when and how to call the tool.
        input_schema: JSON schema of the input; empty for a tool whose schema the API knows.
        toolset: The toolset whose members it runs (`"computer"`); None for a tool of its own name.
        output_schema: JSON schema of the structured result (`ToolResponse.data`), from an MCP server. None if unknown.
        meta: What an MCP server adds to its tool as `_meta`, for programs. Empty for any other tool.
        options: The options with which it was made.
    """

    def __init__(self, function: Callable[P, R], **options: Unpack[ToolOptions]) -> None:
        wrong = option_faults(options)
        options = cast("ToolOptions", {name: value for name, value in options.items() if name not in wrong})
        self.options: Mapping[str, Any] = MappingProxyType(dict(options))
        self._function: Callable[..., Any] = function
        self._bound_to: object = None
        # A function in the body of a class, before the class exists.
        in_class = inspect.isfunction(function) and "." in function.__qualname__.rpartition("<locals>.")[2]
        self.is_method: bool = in_class and next(iter(inspect.signature(function).parameters), None) == "self"
        group = options.get("group")
        self.group = Group(group) if isinstance(group, str) else group
        self.timeout_s: float | None = options.get("timeout_s")
        self.accepts_invalid_input: bool = options.get("accepts_invalid_input", False)
        self.repair: Callable[[str, ParseFault], Mapping[str, Any] | None] | None = options.get("repair")
        self.on_invalid: OnInvalid | None = options.get("on_invalid")
        self.include_data: bool = options.get("include_data", False)
        self.start = options.get("start", "input")
        self.approve: Callable[[ToolCall], Any] | None = options.get("approve")
        self.approve_timeout_s: float = options.get("approve_timeout_s", 600.0)
        self.guard: Callable[[JSONObject], str | Reject | None] | None = options.get("guard")
        self.edits: Callable[[JSONObject], Any] | None = options.get("edits")
        self.read_only: bool = options.get("read_only", False)
        self.idempotent: bool = options.get("idempotent", self.read_only)
        self.recover: Callable[[ToolCall], Any] | None = options.get("recover")
        self.on_cancel = options.get("on_cancel", "cancel")
        self.output_schema: JSONObject | None = None
        self.meta: JSONObject = {}
        given = options.get("definition")
        unfit: str | None = None
        if inspect.isclass(function):
            unfit = "a class is no function: make an object of it"
        elif isinstance(function, classmethod | staticmethod):
            kind = type(function).__name__
            unfit = f"a {kind} can be called only through its class: write tool(Class.method) after the class"
        elif not callable(function):
            unfit = f"{function!r} cannot be called"
        faults = [*wrong.values(), *([unfit] if unfit else [])]
        plain = {"guard": self.guard, "repair": self.repair, "edits": self.edits}
        faults += [f"{each} must be a plain function" for each in plain if inspect.iscoroutinefunction(plain[each])]
        if self.repair is not None and self.accepts_invalid_input:
            faults.append("repair and accepts_invalid_input are two answers to the same question: choose one")
        if unfit is None:
            self._kind = kind_of(function)
            faults += self._define(function, options) if given is None else self._take(function, given, options)
        if faults:
            name = options.get("name") or (given or {}).get("name") or _name_of(function)
            raise UsageError(f"{name} cannot be a tool: {'; '.join(faults)}")
        self.__doc__ = function.__doc__
        self.__name__: str = _name_of(function)
        self.__wrapped__: Callable[P, R] = function

    def _define(self, function: Callable[..., Any], options: ToolOptions) -> list[str]:
        """Make the definition from the function, and return its faults."""
        documented: Any = function.func if isinstance(function, partial) else function
        if not inspect.isroutine(documented) and documented is function:
            called = type(function).__call__
            documented = called if called.__doc__ else type(function)
        docstring = docstring_parser.parse(inspect.getdoc(documented) or "")
        parameters = Parameters(
            function,
            {parameter.arg_name: parameter.description or "" for parameter in docstring.params},
            injected=RunningCall,
            hidden=frozenset({INVALID_JSON} if self.accepts_invalid_input else ()),
            is_method=self.is_method,
        )
        self._parameters: Parameters | RawSchema | None = parameters
        self._injected, self._context = parameters.injected, parameters.context
        self.toolset: str | None = None
        self.name: str = _first(options.get("name"), _name_of(function))
        self.description: str = _first(options.get("description"), docstring.description or "").strip()
        self.input_schema: JSONObject = parameters.schema
        self.eager = options.get("eager", True)
        self._definition: dict[str, Any] = {"name": self.name}
        if self.description:
            self._definition["description"] = self.description
        self._definition["input_schema"] = self.input_schema
        if self.eager is not None:
            self._definition[EAGER_FIELD] = self.eager
        self._definition |= {name: options[name] for name in IN_DEFINITION if options.get(name) is not None}
        faults = list(parameters.faults)
        known = {} if faults else inspect.signature(annotated(function)).parameters
        if not faults:
            described = [each.arg_name for each in docstring.params if each.args[0] == "param"]
            unknown = [name for name in described if name not in known]
            faults += [f"the docstring describes {name!r}, which is no parameter" for name in unknown]
        if not LEGAL_NAME.fullmatch(self.name):
            faults.append(f"a tool's name must match {LEGAL_NAME.pattern}, not {self.name!r}")
        takes_only_raw = INVALID_JSON in known and not parameters.schema.get("required")
        if self.accepts_invalid_input and not faults and not takes_only_raw:
            faults.append(
                f"with accepts_invalid_input it needs a parameter {INVALID_JSON}, and defaults for all the others"
            )
        if parameters.is_streaming and self._kind is Kind.THREADED:
            faults.append("only an async function can read streaming parameters")
        if parameters.is_streaming and self.start == "message":
            faults.append('a tool with streaming parameters starts before its message ends: start cannot be "message"')
        faults += _definition_faults(self._definition)
        faults += self._example_faults() if not faults else []
        if not faults and not self.description:
            _log.warning("the tool %s has no description: the model will not know when to call it", self.name)
        return faults

    def _take(self, function: Callable[..., Any], given: Mapping[str, Any], options: ToolOptions) -> list[str]:
        """Use a given definition, and return its faults."""
        twice = [name for name in ("name", "description", *IN_DEFINITION) if options.get(name) is not None]
        faults = [f"{name} belongs in the definition itself" for name in twice]
        definition: dict[str, Any] = cast("dict[str, Any]", copy_json(dict(given)))
        kind = tool_kind(definition)
        matched = _TOOLSET.fullmatch(kind)
        self.toolset = matched[1] if matched else None
        self.name = str(definition.get("name") or self.toolset or "")
        self.description = str(definition.get("description") or "")
        schema = definition.get("input_schema")
        if self.toolset is not None and self.group is None:
            # The API's rule for actions of one turn: in order, and none after a failed one.
            what = "computer action" if self.toolset == "computer" else "action"
            skipped = f"Not executed: an earlier {what} in this turn failed."
            self.group = Group(f"{self.toolset} toolset", stop_on_error=True, skipped=skipped)
        elif kind != USER_DEFINED and "group" not in options:
            # A shell, an editor, a screen, a memory: the next call builds on the last one. At the same time, 27 of 30
            # edits of one file by the anthropic package's memory were lost, and none was an error.
            self.group = Group(self.name)
        if kind == USER_DEFINED:
            if "eager" in options or EAGER_FIELD not in definition:
                definition.pop(EAGER_FIELD, None)
                if options.get("eager", True) is not None:
                    definition[EAGER_FIELD] = options.get("eager", True)
            if not isinstance(schema, Mapping):
                faults.append("its definition needs an input_schema")
        elif EAGER_FIELD in definition or options.get("eager") is not None:
            faults.append(f"only user-defined tools take {EAGER_FIELD}, not {kind}")
        if not API_NAME.fullmatch(self.name):
            faults.append(f"a tool's name must match {API_NAME.pattern}, not {self.name!r}")
        self.eager = definition.get(EAGER_FIELD)
        self._parameters = None
        if isinstance(schema, Mapping):
            from ..inputs._raw_schema import RawSchema  # most tools need none of its engines

            self._parameters = RawSchema(schema, is_foreign=isinstance(given, ForeignDefinition))
        self.input_schema = self._parameters.schema if self._parameters else {}
        faults += self._parameters.faults if self._parameters else []
        self._definition = definition
        self._injected, self._context = [], None
        try:
            signature = inspect.signature(function)
            hints = get_type_hints(annotated(function), include_extras=True)
            free = [name for name in signature.parameters if name in hints.keys() - bound_names(function)]
            self._injected = [name for name in free if is_of(hints[name], RunningCall)]
            self._context = next((hints[name] for name in free if is_of(hints[name], Context)), None)
            first = [None] * (self.is_method + (self._context is not None))
            signature.bind(*first, {}, **dict.fromkeys(self._injected))
        except (NameError, TypeError, ValueError, AttributeError) as error:
            faults.append(f"with a definition, its function takes the input as one dict: {error}")
        in_definition: dict[str, Any] = {name: definition[name] for name in IN_DEFINITION if name in definition}
        if wrong := option_faults(in_definition):
            return [*faults, *wrong.values()]
        return faults + _definition_faults(definition) + self._example_faults()

    def _example_faults(self) -> list[str]:
        """Return the faults of examples that do not fit the schema, because the API refuses them."""
        faults: list[str] = []
        examples = self._definition.get("input_examples") or ()
        for number, example in enumerate(examples if self._parameters and not self._parameters.faults else ()):
            try:
                self.check(dict(example))
            except InputError as error:
                faults.append(f"input_examples[{number}]: {str(error).removeprefix('Error: ')}")
        return faults

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: Tool[Concatenate[_Object, _P], _R, _NeededT], instance: _Object, owner: type | None = None
    ) -> Tool[_P, _R, _NeededT]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Tool[Any, Any]:
        """Return the tool of an object if this is a method of its class; the tool itself otherwise."""
        if instance is None or not self.is_method:
            return self
        bound = copy(self)
        bound.__dict__.update(_function=partial(self._function, instance), _bound_to=instance)
        return bound

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the tool itself, as for a function; or the same tool of the copy of its object."""
        if self._bound_to is None:
            return self
        assert isinstance(self._function, partial)
        instance = deepcopy(self._bound_to, memo)
        copied = copy(self)
        copied.__dict__.update(_function=partial(self._function.func, instance), _bound_to=instance)
        return copied

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: no checks, no conversion."""
        result: R = self._function(*args, **kwargs)
        return result

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @property
    def bound_to(self) -> object:
        """The object from which a method's tool was accessed; None otherwise."""
        return self._bound_to

    @property
    def is_unbound(self) -> bool:
        """True for a method that was not accessed through an object, and cannot run."""
        return self.is_method and self._bound_to is None

    @property
    def takes_context(self) -> bool:
        """True if its first parameter is a `Context`."""
        return self._context is not None

    @property
    def needs_context(self) -> bool:
        """True if it takes a `Context` whose object may not be None."""
        return self._context is not None and needs_deps(self._context)

    @property
    def is_streaming(self) -> bool:
        """True if it has streaming parameters: a call starts while its input is being written."""
        return isinstance(self._parameters, Parameters) and self._parameters.is_streaming

    @property
    def input_type(self) -> Any:
        """The TypedDict of its parameters, for `GrowingInput.partial_as`.

        Raises:
            UsageError: The tool has a definition of its own, with a JSON schema in place of types.
        """
        if not isinstance(self._parameters, Parameters):
            raise UsageError(f"the parameters of the tool {self.name} have no types, only a schema")
        return self._parameters.input_type

    async def begin(self, input: GrowingInput) -> JSONObject | None:
        """Wait for the parameters that a streaming tool needs to start, and return its arguments.

        Return None if they never finish or do not fit: then check the complete input. Cancelling has no side effects.
        """
        assert isinstance(self._parameters, Parameters)
        try:
            await input.begun()
            first = {name: await input.field(name) for name in self._parameters.first}
            return self._parameters.begin(input, first)
        except (KeyError, InputInterrupted, InputError):
            return None

    def rejects(self, partial: JSONObject) -> Reject | None:
        """Return the rejection of the tool's guard for an unfinished input; None if it has no objection.

        A guard exists to keep inputs out, so a guard that fails rejects.
        """
        if self.guard is None:
            return None
        try:
            verdict: object = self.guard(partial)
        except Exception as error:
            return Reject(f"Not executed: the guard of this tool failed: {error_text(error)}")
        if verdict is None or isinstance(verdict, Reject):
            return verdict
        if isinstance(verdict, str) and verdict:
            return Reject(verdict)
        return Reject(f"Not executed: the guard of this tool gave {type(verdict).__name__}, neither None nor a reason")

    def repaired(self, input: GrowingInput) -> JSONObject | None:
        """Return the object into which the option `repair` turns an invalid input; None if there is none.

        A function that fails repairs nothing, and the log names it.
        """
        if self.repair is None or input.outcome is not Outcome.INVALID or input.is_damaged or input.error is None:
            return None
        try:
            found: object = self.repair(input.raw, input.error)
            if isinstance(found, Mapping):
                return cast("JSONObject", copy_json(encodable(dict(found))))
            if found is not None:
                what = f"repair must return an object or None, not {type(found).__name__}"
                report_failure(self.name, TypeError(what))
            return None
        except Exception as error:
            report_failure(self.name, error)
            return None

    def fault_of(self, input: GrowingInput) -> str | None:
        """Return the fault of a complete input for a call that has started, in words for the model; None if it fits."""
        if input.value is None:
            return None
        try:
            self.check(input.value)
        except InputError as error:
            return str(error)
        except Exception as error:  # a validator of the tool's own
            return error_text(error)
        if (name := repeated_key(input.raw)) is not None:
            return f"Error: Parameter {name!r} was written twice, and the tool may have started with an earlier value"
        return None

    def with_options(self, *, eager: bool | None) -> Self:
        """Return a copy with eager inputs (`eager=True`), buffered ones (False), or the API's default (None).

        Raises:
            UsageError: It is no user-defined tool: for others the API decides.
        """
        if (kind := tool_kind(self._definition)) != USER_DEFINED:
            raise UsageError(f"only user-defined tools take {EAGER_FIELD}, not {kind}")
        definition = {name: value for name, value in self._definition.items() if name != EAGER_FIELD}
        if eager is not None:
            definition[EAGER_FIELD] = eager
        changed = copy(self)
        changed.__dict__.update(eager=eager, _definition=definition)
        return changed

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of the definition, in the API's form."""
        definition = copy_json(self._definition)
        assert isinstance(definition, dict)
        return definition

    def check(self, input: JSONObject) -> dict[str, Any]:
        """Check a complete input, and return the function's arguments: converted, and copied.

        Raises:
            InputError: The input does not fit the schema; one message lists every fault.
        """
        if self._parameters is not None:
            return self._parameters.check(input)
        copied = copy_json(encodable(input))
        assert isinstance(copied, dict)
        return copied

    @overload
    def call(self: Tool[..., Any, None], input: JSONObject) -> Coroutine[Any, Any, Any]: ...
    @overload
    def call(self, input: JSONObject, *, context: DepsT_contra) -> Coroutine[Any, Any, Any]: ...
    async def call(self, input: JSONObject, *, context: Any = None) -> Any:
        """Check an input and run the function with it. Cancelling it does the same as for `invoke`.

        Args:
            input: The input.
            context: As for `run`.

        Raises:
            InputError: The input does not fit, see `check`. The function was not called.
            Exception: Any exception of the function.
        """
        return await self.invoke(self.check(input), context=context)

    def invoke(
        self, arguments: JSONObject, call: ToolCall | RunningCall | None = None, *, context: object = None
    ) -> Awaitable[Any]:
        """Run the function, when the result is awaited, with the arguments from `check`. Progress goes to `call`.

        Cancelling it cancels an `async def`. A `def` continues in its thread, and its return value is dropped. Without
        a call, `context` is what the function gets as its context.
        """
        record = record_of(call) if isinstance(call, RunningCall) else call
        first: tuple[Any, ...] = ()
        injected: dict[str, Any] = {}
        if self._injected or self._context is not None:
            seen = None if record is None else RunningCall(record)
            injected = dict.fromkeys(self._injected, seen)
            if self._context is not None:
                first = (Context(context if record is None else record.deps, seen),)
        if isinstance(self._parameters, Parameters):
            if self._parameters.field_defaults:
                arguments = self._parameters.with_field_defaults(arguments)
            function = partial(self._function, *first, **arguments, **injected)
        else:
            function = partial(self._function, *first, arguments, **injected)
        return invoke(function, record, kind=self._kind)


class ToolDecorator(Protocol):
    """The result of `tool(...)` with options: it makes a tool from a function."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context[_NeededT], _P], _R], /
    ) -> Tool[Concatenate[Context[_NeededT], _P], _R, _NeededT]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[_Object, Context[_NeededT], _P], _R], /
    ) -> Tool[Concatenate[_Object, Context[_NeededT], _P], _R, _NeededT]: ...
    @overload
    def __call__(self, function: Callable[_P, _R], /) -> Tool[_P, _R, object]: ...
    def __call__(self, function: Callable[..., Any], /) -> Tool:
        """Make the tool.

        Raises:
            UsageError: As for `tool`.
        """
        ...


@overload
def tool(
    function: Callable[Concatenate[Context[_NeededT], _P], _R], /, **options: Unpack[ToolOptions]
) -> Tool[Concatenate[Context[_NeededT], _P], _R, _NeededT]: ...
@overload
def tool(
    function: Callable[Concatenate[_Object, Context[_NeededT], _P], _R], /, **options: Unpack[ToolOptions]
) -> Tool[Concatenate[_Object, Context[_NeededT], _P], _R, _NeededT]: ...
@overload
def tool(function: Callable[_P, _R], /, **options: Unpack[ToolOptions]) -> Tool[_P, _R, object]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> ToolDecorator: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Tool | ToolDecorator:
    """Make a tool from a typed function, with or without options.

        @tool
        async def get_weather(city: str) -> str:
            \"\"\"Current weather in a city.

            Args:
                city: City and country.
            \"\"\"

    The tool can be called like the function, and type checkers check the arguments: `await get_weather("Oslo")`.

    Its name, docstring and annotations provide name, description and schema. The function may be an `async def`, a
    `def` (which runs in a thread), a generator of either kind, a method, or a callable object. A generator yields
    progress, and its last value is the result.

    Raises:
        UsageError: The function or an option has faults. Raised at decoration, with all of them.
    """

    def decorate(function: Callable[..., Any], /) -> Tool:
        return Tool(function, **options)

    return cast("ToolDecorator", decorate) if function is None else decorate(function)


def _first(given: str | None, otherwise: str) -> str:
    return otherwise if given is None else given


def _name_of(function: Callable[..., Any]) -> str:
    named = function.func if isinstance(function, partial) else function
    return getattr(named, "__name__", None) or type(named).__name__


def _definition_faults(definition: Mapping[str, Any]) -> list[str]:
    """Return the contradictions in a definition."""
    callers = definition.get("allowed_callers") or ()
    if definition.get("strict") and any(caller != "direct" for caller in callers):
        # The API refuses it today; a warning will not be in the way if that changes.
        _log.warning("the tool %s: strict cannot be combined with calls from code", definition.get("name"))
    if definition.get("defer_loading") and definition.get("cache_control") is not None:
        return ["a tool with defer_loading cannot carry cache_control"]
    return []
