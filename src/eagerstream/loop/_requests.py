"""`Requests`: the bodies of the requests of a conversation, and the hook that may change each of them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eagerstream_wire._checks import check_count
from eagerstream_wire._history import MAX_BREAKPOINTS, count_breakpoints, is_prefill
from eagerstream_wire._models import model_facts
from eagerstream_wire._settled_messages import KnownMessages, SettledMessages
from eagerstream_wire._stop_reasons import PAUSES
from eagerstream_wire._tool_kind import EAGER_FIELD

from .._support.warn_once import warn_once
from ..calls._callable_tools import toolbox_of
from ..errors import HistoryError, UsageError
from ..streaming._message_stream import checked_messages, request_parameters
from ..streaming._options import FEED_DEFAULTS, INPUT_DEFAULTS
from ..tools._executor import Executor
from ..tools._foreign import GivenTool
from ..tools._toolbox import Toolbox
from ._cache_breakpoints import with_breakpoints
from ._compaction import check_compaction
from ._options import LoopOptions
from ._output import RunOutput
from ._result import RunResult
from ._tool_changes import addition, has_tool_changes, removal, tool_key, without_inline_tools, without_tool_changes

_log = logging.getLogger(__name__)

OPTIONS_OF_READING: Final = frozenset(INPUT_DEFAULTS) | frozenset(FEED_DEFAULTS)
"""The options of `run` and `stream` that are about reading a response, and not about the request."""

NOT_FOR_RUNS: Final = {
    "thread": "use the option threads= instead, which keeps the complete conversation here",
    "compaction": "every request would be for a summary: call compact() instead",
}
"""Parameters of a request that cannot be those of a conversation, and the reasons."""


_PREFILL: Final = "the last message of a request is one of the assistant, which many models refuse, perhaps also %.80r"
"""Logged once for each model that is not known to take it."""


def check_parameters(given: Mapping[str, Any]) -> None:
    """Check that no option or parameter is given to a conversation that cannot have it.

    Raises:
        UsageError: It names the option.
    """
    # All that is left over goes into the request. The API would answer an option of `stream` with a 400.
    if misplaced := ", ".join(sorted(given.keys() & OPTIONS_OF_READING)):
        raise UsageError(f"{misplaced}: these are options of stream, not of a conversation")
    if wrong := sorted(given.keys() & NOT_FOR_RUNS):
        raise UsageError(f"{wrong[0]}: {NOT_FOR_RUNS[wrong[0]]}")


@dataclass(slots=True)
class GivenTools:
    """The tools of a run as they were given, and what runs them.

    Attributes:
        given: Tools and definitions. It changes with `Requests.add_tools` and `remove_tools`.
        toolbox: The tools that run the calls of the current request.
        executor: The user's executor; None if the tools run in this process.
        context: As for `run`.
    """

    given: Sequence[GivenTool]
    toolbox: Toolbox
    executor: Executor | None
    context: object = None

    def find(self, tools: Sequence[GivenTool]) -> Toolbox:
        """Return other tools by name, for the same executor and context.

        Raises:
            UsageError: As `toolbox_of`.
        """
        return toolbox_of(tools, self.executor, self.context)


_NEXT: Final = {"role": "user", "content": "."}  # any message of the user


class Requests:
    """The bodies of the requests of a conversation.

    Args:
        parameters: Those of the run, as they are sent.
        result: Has the history and the container.
        output: Adds the format of the output.
        tools: The tools of the run.
        options: The hook, and if cache breakpoints are placed.
        eager: Definitions of tools ask for eager input streaming.

    Attributes:
        buffered: Names of the tools for which the next request asks without eager inputs.
        has_inline_tools: Changes of the tools become blocks of the history, and `tools` stays. False: `tools` changes.
    """

    def __init__(
        self,
        parameters: dict[str, Any],
        result: RunResult,
        output: RunOutput,
        tools: GivenTools,
        options: LoopOptions,
        *,
        eager: bool,
    ) -> None:
        self._parameters = parameters
        self._result = result
        self._output = output
        self._tools = tools
        self._options = options
        self._eager = eager
        self._tool_choice = parameters.get("tool_choice")
        self._definitions: Sequence[Mapping[str, Any]] = parameters.get("tools", ())  # of the tools as they are now
        self._request = output.request(parameters)  # of the turn under way
        self._lists_all_tools = False  # that request, in `tools`: its messages must not change them
        self._prepared = 0  # the number of that turn
        self._checked: KnownMessages | None = None  # the history as `prepare` has checked it, until `body` takes it
        self._settled = SettledMessages()
        self.buffered: Collection[str] = ()
        self.has_inline_tools: bool = options["inline_tools"] is not None

    @property
    def model(self) -> str:
        """The model of the run."""
        return str(self._parameters["model"])

    @property
    def max_tokens(self) -> Any:
        """The `max_tokens` of the turn under way."""
        return self._request["max_tokens"]

    def history(self) -> KnownMessages:
        """Return the history as it is now, in a list of its own."""
        return self._settled.follow(self._result.messages)

    def continue_after(self, turns: int) -> None:
        """Note that another process has sent the requests of this many turns."""
        self._prepared = turns

    def check(self, *, may_grow: bool = False) -> KnownMessages:
        """Check the history and the tools of the request of the turn under way. Return the history as it is now.

        Args:
            may_grow: A message of the user may still follow the history, before it is sent. One is added to what is
                returned, if the history needs it.

        Raises:
            HistoryError: The API would refuse the request.
        """
        system = count_breakpoints(self._request.get("system"))
        history, request = self.history(), self._request
        if has_tool_changes(history):
            request = without_inline_tools({**request, "messages": history})
        model = request.get("model")
        # A paused response is continued, which looks like a prefill.
        is_paused = self._result.stop_reason in PAUSES
        if not is_paused and is_prefill(history):
            if may_grow:
                history.append(_NEXT)
            elif model_facts(model) is None:
                warn_once(_log, _PREFILL, str(model))
        faults = history.settled.faults(
            history, tools=request.get("tools"), system_breakpoints=system, model=None if is_paused else model
        )
        if faults:
            raise HistoryError(faults)
        return history

    def prepare(self, turn: int) -> bool:
        """Find the parameters of the request of a turn; a request that is sent again keeps them.

        Returns:
            True if the hook replaced the history.

        Raises:
            UsageError: The hook asks for changes that cannot be made.
            HistoryError: The API would refuse the request.
        """
        # The hook may count its calls, or choose at random, and a request that is sent again has to be the same one
        # (test_next_request_is_asked_once_for_a_request_that_is_sent_again).
        earlier = self._result.messages
        if turn != self._prepared:
            request = self._parameters
            choice = request.get("tool_choice")
            if self._prepared and isinstance(choice, Mapping) and choice.get("type") in ("any", "tool"):
                # A model that must call a tool in each response can never end its turn. `auto`, not no `tool_choice`,
                # because `disable_parallel_tool_use` stays. A hook that wants a forced call again says so for each
                # request.
                rest = {name: value for name, value in choice.items() if name != "name"}
                request = {**request, "tool_choice": rest | {"type": "auto"}}
            self._lists_all_tools = False
            hook = self._options["next_request"]
            if hook is not None:
                asked = hook({**request, "messages": list(self._result.messages)}, turn)
                request = self._changed(request, {} if asked is None else asked)
            # Both after the hook, which may change `tools` and `output_config`.
            self._request = self._output.request(self._with_buffered(request))
            self._prepared = turn
        # Before each request, not only the first: the hook may have changed everything. The error names every fault at
        # once; the API's 400 would name one, after the upload.
        self._checked = self.check()
        return self._result.messages is not earlier

    def _with_buffered(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a request, without eager inputs of the tools that must be checked."""
        if not self.buffered:
            return request
        _log.debug("the next request asks for %d tools without eager inputs", len(self.buffered))
        definitions = [
            {**tool, EAGER_FIELD: False} if tool.get("name") in self.buffered and tool.get(EAGER_FIELD) else tool
            for tool in request.get("tools", ())
        ]
        return {**request, "tools": definitions}

    def _changed(self, request: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a request with the changes of its hook, and make its tools callable."""
        if not isinstance(changes, Mapping):
            raise UsageError(f"next_request must return the parameters to change, not {type(changes).__name__}")
        if wrong := sorted({"stream", "eager", *NOT_FOR_RUNS, *OPTIONS_OF_READING} & set(changes)):
            raise UsageError(f"next_request cannot change {', '.join(wrong)}")
        # Each request starts from the run's own tools: without this, tools of one request would be there in the next.
        # In place, because the executor and the turn have this toolbox.
        tools = changes.get("tools", self._tools.given)
        self._tools.toolbox.replace(self._tools.find(self._runnable(tools)))
        self._lists_all_tools = "tools" in changes
        if "tools" not in changes:
            # Those of the request, which may be fewer: messages bring the others, unless they are replaced as well.
            tools = self._definitions if "messages" in changes else request.get("tools", ())
        merged = {**request, **changes}
        check_count("max_tokens", merged["max_tokens"], least=0)
        # The API refuses a `tool_choice` without tools, and the hook may have taken the last one away.
        left_out = _OWN | ({"tool_choice"} if not tools else set())
        others = {name: value for name, value in merged.items() if name not in left_out}
        parameters = request_parameters(merged["model"], merged["max_tokens"], tools, others, eager=self._eager)
        # Last: a hook that is refused has changed nothing of the history.
        if "messages" in changes:
            self.replace_history(checked_messages(changes["messages"]))
        return parameters

    def _runnable(self, tools: Any) -> Any:
        """Return the tools that a hook asks for; a tool of the run stands in for a definition of the same name."""
        # The hook sees definitions in its request, and gives back some of them, maybe changed. A definition alone could
        # not be run, and would be refused.
        if not isinstance(tools, Sequence):
            return tools  # refused by `toolbox_of`, with a reason
        own = {_key(each): tool for each, tool in zip(self._definitions, self._tools.given, strict=True)}
        return [own.get(_key(tool), tool) if isinstance(tool, Mapping) else tool for tool in tools]

    def add_tools(self, tools: Sequence[GivenTool]) -> list[dict[str, Any]]:
        """Add tools, each in place of a tool with its name.

        Returns:
            The blocks for the history that say so to the model; none if `tools` of the next request does.

        Raises:
            UsageError: A tool cannot be run, or two share a name. Nothing has changed.
        """
        definitions = self._defined(tools)
        added = {tool_key(definition) for definition in definitions}
        self._use([*self._without(added), *tools])
        return [addition(definition) for definition in definitions] if self.has_inline_tools else []

    def remove_tools(self, tools: Sequence[GivenTool | str]) -> list[dict[str, Any]]:
        """Remove tools, or those with these names. Returns the same as `add_tools`.

        Raises:
            UsageError: There is no such tool. Nothing has changed.
        """
        names = {tool if isinstance(tool, str) else tool_key(self._defined([tool])[0]): None for tool in tools}
        own = {tool_key(definition): definition for definition in self._definitions}
        if unknown := [name for name in names if name not in own]:
            raise UsageError(f"there is no tool named {', '.join(map(repr, unknown))}: there are {sorted(own)}")
        blocks = [removal(own[name]) for name in names]
        self._use(self._without(set(names)))
        return blocks if self.has_inline_tools else []

    def _without(self, names: Collection[str]) -> list[GivenTool]:
        tools = zip(self._definitions, self._tools.given, strict=True)
        return [tool for definition, tool in tools if tool_key(definition) not in names]

    def _defined(self, tools: Sequence[GivenTool]) -> list[Mapping[str, Any]]:
        others = {name: value for name, value in self._parameters.items() if name not in _OWN}
        request = request_parameters(self.model, self._parameters["max_tokens"], tools, others, eager=self._eager)
        return list(request.get("tools", ()))

    def _use(self, tools: Sequence[GivenTool]) -> None:
        """Use these tools from now on: for calls at once, and in the next request."""
        definitions, toolbox = self._defined(tools), self._tools.find(tools)
        # A list of the user's must not change with ours. The executor and the turn have this toolbox.
        self._tools.given, self._definitions = list(tools), definitions
        self._tools.toolbox.replace(toolbox)
        if not self.has_inline_tools:
            self._parameters = self._with_all_tools(self._parameters)

    def _with_all_tools(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with the tools as they are now, whatever the history says of them."""
        others = {name: value for name, value in parameters.items() if name not in ("tools", "tool_choice")}
        if not self._definitions:
            return others  # the API refuses a `tool_choice` without tools
        choice = {} if self._tool_choice is None else {"tool_choice": self._tool_choice}
        return {**others, **choice, "tools": list(self._definitions)}

    def replace_history(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Replace the history. Changes of tools had places in it that may be gone, so `tools` has them from now on."""
        self._result.messages = without_tool_changes(messages)
        self._parameters = self._with_all_tools(self._parameters)

    def leave_inline_tools(self) -> None:
        """Change `tools` from now on: the API has refused changes in messages."""
        self.has_inline_tools, earlier = False, self._result.messages
        self.replace_history(earlier)
        if not self._lists_all_tools:  # the request under way may have to be sent again
            self._request = without_inline_tools({**self._request, "messages": earlier})
            del self._request["messages"]

    def check_compaction(self, instructions: str | None) -> None:
        """Raise an error if the history cannot be compacted; see `check_compaction`."""
        check_compaction(self._parameters, instructions)

    def body(self, max_tokens: int | None = None, *, most_breakpoints: int = MAX_BREAKPOINTS) -> dict[str, Any]:
        """Return the body of the request of the turn under way.

        Args:
            max_tokens: Replaces that of the turn, if its response was cut.
            most_breakpoints: Maximum number of cache breakpoints.
        """
        # Nearly always nothing has run since `prepare`. To compare a long history once more would cost as much as that.
        history, self._checked = self._checked or self.history(), None
        messages = without_tool_changes(history) if self._lists_all_tools else history
        request = {**self._request, "messages": messages}
        if max_tokens is not None:
            request["max_tokens"] = max_tokens
        if (container := self._result.container) is not None:
            # That of the last response, with the skills that the user asked for.
            id = container.get("id") if isinstance(container, Mapping) else container
            given = request.get("container")
            request["container"] = {**given, "id": id} if isinstance(given, Mapping) else id
        # Last, and in the copy only: marks in the history would add up with each turn, and the API accepts four.
        return with_breakpoints(request, most=most_breakpoints) if self._options["cache"] == "auto" else request


_OWN: Final = frozenset({"model", "max_tokens", "tools", "messages"})
"""The parameters that have arguments of their own."""


def _key(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key of a tool: its name; a toolset has none, and is known by its kind and its server."""
    return tuple(str(definition.get(field)) for field in ("name", "type", "mcp_server_name"))
