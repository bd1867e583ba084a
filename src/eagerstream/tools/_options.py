"""The options of a tool, and their check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from eagerstream_wire import JSONObject, ParseFault

from ._call import ToolCall

OnInvalid: TypeAlias = Literal["report", "buffer_next"]


@dataclass(frozen=True, slots=True)
class Group:
    """Tools that run one at a time, in call order.

    Attributes:
        name: The group's name. Tools with the same group name belong together.
        stop_on_error: If a call of the group fails, the later ones of the same turn are not run.
        skipped: The answer to these later calls. `{name}` is replaced by the name of the failed tool.
    """

    name: str
    stop_on_error: bool = False
    skipped: str = "Not executed: the preceding {name} call failed."


@dataclass(frozen=True, slots=True)
class Reject:
    """The verdict of a guard that a call must not run.

    Attributes:
        reason: The answer to the model.
        cut: True to end the response here, because the rest costs tokens and will not be used.
    """

    reason: str = field(repr=False)  # may quote the input
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The answer of a tool's `recover` function: the call was done.

    Attributes:
        result: The result, as the tool would have returned it.
    """

    result: Any = field(repr=False)


class ToolOptions(TypedDict, total=False):
    """The options of a tool. A field of the definition is omitted if its option is None.

    Attributes:
        name: Replaces the function's name.
        description: Replaces the docstring's text.
        definition: The verbatim definition in the API's form. The function then takes the input as one `dict`. Inputs
            are checked against its `input_schema`, except for `format`, which the function must check.
        eager: `eager_input_streaming`. True by default; False for a buffered input, None to omit it.
        strict: True makes the API enforce the schema while the model writes.
        cache_control: A cache breakpoint after this definition.
        defer_loading: True lets the model find the tool only by tool search.
        allowed_callers: The permitted callers: `"direct"`, or code that the API runs.
        input_examples: Examples of inputs for the model.
        group: A group, or its name. Tools of the same group run one at a time, in call order. By default, a tool whose
            schema the API brings is a group of its own, and any other tool is in none.
        timeout_s: Seconds that a call may run, instead of `Limits.tool_timeout_s`. If a call started before the end of
            its input, they count from that end. A plain `def` cannot be stopped: it continues in its thread, and its
            group waits.
        accepts_invalid_input: If an input is not JSON, the tool is called with `{"INVALID_JSON": raw}` instead of an
            automatic error answer. Its function takes that key as a parameter, which the model never sees, and has
            defaults for all others. Or it is a tool with a `definition`.
        repair: A plain function, called with the text of an input that is not a JSON object, and with its fault. It
            returns an object, with which the tool then runs if it fits the schema, or None. None (default): such a call
            is answered with its `INVALID_JSON`. The call (`call.repaired`), its record and the answer to the model say
            that the input was repaired. The history keeps what the model wrote. A guard and `approve` are asked about
            the object. An input that was cut off, or lost a part, is not repaired, nor one whose tool runs already.
        on_invalid: The run's reaction to an input that is not JSON, see `LoopOptions`. None (default): that of the run.
        include_data: True also sends the `data` of its responses, as JSON after the text.
        start: The earliest start of a call. `"input"` (default): the end of its own input. `"message"`: the end of a
            response that asks for it, for tools that must not run before a refusal or a cut is ruled out. A tool with
            streaming parameters starts even earlier, while its input is being written.
        approve: Called with the call and its complete input before it runs; a function or an async one. True lets it
            run. False, a text with the reason, or an exception answers it as refused. A tool with streaming parameters
            then starts at the end of its input.
        approve_timeout_s: Seconds that `approve` may take, 600 by default. After them, the call is refused.
        guard: Called with the partial input while it grows, and once more when it is complete. A plain function. Keys
            may be missing at first: use `partial.get("path", "")`. None lets the call continue. A text rejects it: the
            call is answered with the text and does not run. `Reject(text, cut=True)` ends the response, too.
        edits: A plain function that says which text file a call edits, so that people see a diff while it is written.
            It runs in a thread, with the finished parameters so far, until it returns a `TextEdit` instead of None.
        on_cancel: The effect on a running call if its run is cancelled or left. `"cancel"` (default) cancels it. With
            `"finish"`, the run waits for it, within its time limit, and its result is kept.
        idempotent: True if running a call twice does no harm. If a response was cut, it can then be requested again
            (`on_truncated="retry"`) although a call has started, and the call may run again. A tool with
            `read_only=True` is idempotent by default.
        read_only: True if a call changes nothing that a later call of any tool could see. `CodeTool(early_calls=True)`
            may then make a call before the code reaches it, and make it again or drop its result.
        recover: Called with a call that had begun when its program ended, if the run is resumed from a journal; a
            function or an async one. `call.idempotency_key` is the same as then. Return `Done(result)` if it was done,
            `"not done"` to run it now, None if that is not known. Without this option, the model learns that nobody
            knows. Idempotent tools run again instead.
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
    timeout_s: Annotated[float, Field(gt=0)] | None
    accepts_invalid_input: bool
    repair: Callable[[str, ParseFault], Mapping[str, Any] | None] | None
    on_invalid: OnInvalid | None
    include_data: bool
    start: Literal["input", "message"]
    approve: Callable[[ToolCall], Any] | None
    approve_timeout_s: Annotated[float, Field(gt=0)]
    guard: Callable[[JSONObject], str | Reject | None] | None
    edits: Callable[[JSONObject], Any] | None
    on_cancel: Literal["cancel", "finish"]
    idempotent: bool
    read_only: bool
    recover: Callable[[ToolCall], Any] | None


def option_faults(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the faults of options, by the name of the option."""
    try:
        _adapter().validate_python(dict(options), strict=True)
    except ValidationError as error:
        faults: dict[str, list[str]] = {}
        for fault in error.errors(include_url=False):
            name = str(fault["loc"][0])
            said = faults.setdefault(name, [])
            if fault["type"] == "extra_forbidden":
                said.append(f"a tool has no option {name!r}")
            else:
                said.append(f"{fault['msg']}, not {fault['input']!r:.80}" if said else f"{name}: {fault['msg']}")
        return {name: " or ".join(said) for name, said in faults.items()}
    return {}


@cache
def _adapter() -> TypeAdapter[Any]:
    @with_config(ConfigDict(extra="forbid", arbitrary_types_allowed=True))
    class Strict(ToolOptions, total=False): ...

    return TypeAdapter(Strict)
