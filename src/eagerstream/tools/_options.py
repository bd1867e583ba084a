"""What can be said about a tool beside its function, and the check of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from ..wire import JSONObject
from ._call import ToolCall


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
        reason: What the model is answered with.
        cut: End the reply here: what the model is still writing costs, and will not be used.
    """

    reason: str
    cut: bool = False


class ToolOptions(TypedDict, total=False):
    """What can be said about a tool beside its function. What goes into the definition is left out where it is None.

    Attributes:
        name: Instead of the function's name.
        description: Instead of the docstring's text.
        definition: The definition verbatim, as the API takes it; the function then takes the input as one `dict`. It is
            checked against the `input_schema`, but for `format`, `unevaluatedItems`, `unevaluatedProperties` and
            patterns that Python might match slowly: the function has to check what these say.
        eager: `eager_input_streaming`; True by default, False for a buffered input, None to leave it out.
        strict: The API holds the model to the schema while it writes.
        cache_control: A cache breakpoint behind this definition.
        defer_loading: The model finds the tool by tool search only.
        allowed_callers: Who may call it: `"direct"`, or code that the API runs.
        input_examples: Inputs to learn from.
        group: Tools that name the same group run one at a time, in call order.
        timeout_s: Seconds that a call may run, instead of `Limits.tool_timeout_s`; of a call that began inside its
            input, from the end of that. A plain `def` cannot be stopped: it runs on in its thread, and its group waits.
        accepts_invalid_input: The tool is called with `{"INVALID_JSON": raw}` where an input is not JSON, instead of
            an automatic error answer. Its function takes that key as a parameter, which the model never sees, and has
            defaults for all others; or it is a tool with a `definition`.
        include_data: The `data` of its responses is sent too, as JSON behind the text.
        start: When a call may begin: `"input"` (by default) at the end of its own input, `"message"` once the reply has
            ended and asks for it, for what must not run before a refusal or a cut can be ruled out. A tool with
            streaming parameters begins earlier still, while its input is being written.
        approve: Asked with the call, its whole input included, before it runs; a function or an async one. True lets it
            run; False, or a text that says why, answers it as refused, and so does an exception. A tool with streaming
            parameters then begins at the end of its input.
        approve_timeout_s: Seconds that `approve` may take, 600 by default; over it, the call is refused.
        guard: Asked with the partial input while it grows (keys may not be there yet: `partial.get("path", "")`), and
            once more when it is whole. A plain function; None lets the call go on, a text rejects it: it is answered
            with that and does not run. `Reject(text, cut=True)` also ends the reply there, to save its tokens.
        on_cancel: What happens to a running call when its run is cancelled, or left: `"cancel"` (by default) cancels
            it; with `"finish"` it is waited for, within its time limit, and its result is kept.
        idempotent: Running a call twice does no harm: one that has begun does not keep a reply that was cut from being
            sent for again (`on_truncated="retry"`), and then it may run again.
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
    include_data: bool
    start: Literal["input", "message"]
    approve: Callable[[ToolCall], Any] | None
    approve_timeout_s: Annotated[float, Field(gt=0)]
    guard: Callable[[JSONObject], str | Reject | None] | None
    on_cancel: Literal["cancel", "finish"]
    idempotent: bool


IN_DEFINITION: Final = ("strict", "cache_control", "defer_loading", "allowed_callers", "input_examples")
"""Options that are fields of the definition; of a definition that is given as it is, they belong into that."""


def option_faults(options: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with options, by the name of the option."""
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
