"""`run`: start a run with a client and its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack, overload
from uuid import uuid4

from eagerstream_wire._echo import has_json_form
from eagerstream_wire._message_inputs import check_invalid_key

from ..streaming._options import FEED_DEFAULTS, INPUT_DEFAULTS, delivery_for, taken
from ..streaming._types import RequestMessage, ValueT
from ..tools._foreign import ContextT, ForeignTool, GivenTool
from ..transports import Client, as_transport
from ..transports._eager_fallback import EagerFallback
from ._continued_inputs import ContinuedInputs
from ._course import Course
from ._journal import check_journal, check_run_id
from ._marks import RunMarks
from ._message_thread import MAX_BREAKPOINTS_OF_THREADS, MessageThread, ThreadTransport, is_official
from ._options import CALL_DEFAULTS, BetaUse, RunOptions, check_beta_use
from ._result import RunResult
from ._run import Run
from ._run_driver import RunDriver
from ._tool_changes import InlineToolsTransport

_NOT_KEPT: Final = ("extra_headers", "extra_query")
"""Options that may hold a secret, and that a journal does not keep."""


@overload
def run(
    client: Client,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[RequestMessage] | RunResult,
    tools: Sequence[ForeignTool | Mapping[str, Any]] = (),
    output: type[ValueT] | None = None,
    **options: Unpack[RunOptions],
) -> Run[ValueT]: ...
@overload
def run(
    client: Client,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[RequestMessage] | RunResult,
    tools: Sequence[ForeignTool | Mapping[str, Any]] = (),
    output: Mapping[str, Any],
    **options: Unpack[RunOptions],
) -> Run[Any]: ...
@overload
def run(
    client: Client,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[RequestMessage] | RunResult,
    tools: Sequence[GivenTool[ContextT]] = (),
    output: type[ValueT] | None = None,
    context: ContextT,
    **options: Unpack[RunOptions],
) -> Run[ValueT]: ...
@overload
def run(
    client: Client,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[RequestMessage] | RunResult,
    tools: Sequence[GivenTool[ContextT]] = (),
    output: Mapping[str, Any],
    context: ContextT,
    **options: Unpack[RunOptions],
) -> Run[Any]: ...
def run(
    client: Client,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[RequestMessage] | RunResult,
    tools: Sequence[GivenTool] = (),
    output: type | Mapping[str, Any] | None = None,
    context: object = None,
    **options: Unpack[RunOptions],
) -> Run[Any]:
    """Run a conversation until the model stops asking for tools.

        async with eagerstream.run(client, tools=[get_weather], model=..., max_tokens=..., messages=[...]) as run:
            async for event in run:
                ...
        print(run.result.status, run.result.messages)

    A call starts at the end of its own content block, concurrently with the others, while the response continues. It
    starts earlier if its tool has streaming parameters, and later if its tool says `start="message"` or wants approval.
    Each call gets exactly one result. A call whose input is not JSON is not run: its result is an `INVALID_JSON` error.

    Args:
        client: As for `stream`.
        model, max_tokens: As in the API.
        messages: As in the API, or the result of an earlier run to continue from: its history and its container.
        tools: Functions decorated with `@tool`, tools of other libraries (anything with `to_dict()` and `call()`: those
            of the anthropic package, its helpers for MCP servers), and definitions of tools that the API runs, as
            dicts: `{"type": "web_search_20260318", "name": "web_search"}`.
        output: As for `stream`. The output is that of the last response; see `RunResult`.
        context: The dependencies of the tools: any object, for those that have a first parameter `Context[T]`. None
            (default): there are none. A journal does not keep it; give it to `resume` again.
        options: See `RunOptions`: those of the loop (`LoopOptions`), of its calls (`CallOptions`), of inputs and events
            (`InputOptions`, `FeedOptions`), and everything else that the API takes (`RequestParameters`). A
            `tool_choice` that forces a call (`any`, `tool`) holds for the first request; after that it is `auto`,
            because a model that must call a tool could never end its turn.

    Raises:
        UsageError: The client is of the wrong kind, a tool cannot be run or takes a `Context` that is not there, two
            share a name, or a setting is out of range.
        HistoryError: The API would refuse the messages or the tools; see `validate_history`.
    """
    rest: dict[str, Any] = dict(options)
    journal, run_id = rest.pop("journal", None), rest.pop("run_id", None)
    if run_id is not None:
        check_run_id(run_id)
    if journal is not None:
        check_journal(journal)
    plain = {name: value for name, value in rest.items() if name not in _NOT_KEPT and has_json_form(value)}
    inputs, feed = taken(rest, INPUT_DEFAULTS), taken(rest, FEED_DEFAULTS)
    check_invalid_key(inputs["invalid_key"])
    # The requests of a run are complete, and its transport sends the rest of a thread: see `ThreadTransport`.
    has_threads = _is_used("threads", rest.pop("threads", "auto"), client)
    rest["inline_tools"] = "always" if _is_used("inline_tools", rest.pop("inline_tools", "auto"), client) else None
    course = Course(
        model=model, max_tokens=max_tokens, messages=messages, tools=tools, output=output, context=context, **rest
    )
    thread = MessageThread()
    transport = as_transport(client)
    if has_threads:
        course.max_breakpoints = MAX_BREAKPOINTS_OF_THREADS
        transport = ThreadTransport(transport, thread, client)
    else:
        thread.is_off = True
    transport = InlineToolsTransport(transport, client, course.leave_inline_tools)
    continued = None
    if course.options["on_truncated"] == "continue_input":
        transport = continued = ContinuedInputs(transport, course.options, course.budget, course.restarts)
    marks = RunMarks(clock=feed["clock"], max_concurrency=rest.get("max_concurrency", CALL_DEFAULTS["max_concurrency"]))
    fallback = EagerFallback(transport, client, feed["eager_fallback"])
    delivery = delivery_for(feed, course.limits)
    driver = RunDriver(
        run_id or uuid4().hex,
        fallback,
        course,
        inputs=inputs,
        delivery=delivery,
        marks=marks,
        thread=thread,
        continued=continued,
    )
    started: Run[Any] = Run(driver, delivery)
    if journal is not None:
        begin = {"kind": "begin", "turn": 0, "model": model, "max_tokens": max_tokens, "options": plain}
        started.keep_in(journal, {**begin, "messages": course.result.messages})
    return started


def _is_used(name: str, value: BetaUse, client: Client) -> bool:
    """Return True if a run with this client uses a beta.

    Raises:
        UsageError: The option `name` has no such value.
    """
    check_beta_use(name, value)
    return value == "always" or (value == "auto" and is_official(client))
