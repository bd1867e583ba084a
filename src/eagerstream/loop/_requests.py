"""`Requests`: the bodies of the requests of a conversation, and the hook that may change each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors import HistoryError, UsageError
from ..streaming._message_stream import checked_messages, request_parameters
from ..streaming._options import FEED_DEFAULTS, INPUT_DEFAULTS
from ..tools._executor import Executor
from ..tools._foreign import ForeignTool
from ..tools._history import MAX_BREAKPOINTS, count_breakpoints, validate_history
from ..tools._toolbox import Toolbox
from ..wire import check_count
from ._cache_breakpoints import with_breakpoints
from ._callable_tools import toolbox_of
from ._options import LoopOptions
from ._output import RunOutput
from ._result import RunResult

OPTIONS_OF_READING: Final = frozenset(INPUT_DEFAULTS) | frozenset(FEED_DEFAULTS)
"""The options of `run` and `stream` that are about reading a response, and not about the request."""


@dataclass(frozen=True, slots=True)
class GivenTools:
    """The tools of a run as they were given, and what runs them.

    Attributes:
        given: Tools and definitions.
        toolbox: The tools that run the calls of the current request.
        executor: The user's executor; None if the tools run in this process.
    """

    given: Sequence[ForeignTool | Mapping[str, Any]]
    toolbox: Toolbox
    executor: Executor | None


class Requests:
    """The bodies of the requests of a conversation.

    Args:
        parameters: Those of the run, as they are sent.
        result: Has the history and the container.
        output: Adds the format of the output.
        tools: The tools of the run.
        options: The hook, and if cache breakpoints are placed.
        eager: Definitions of tools ask for eager input streaming.
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
        self._request = output.request(parameters)  # of the turn under way
        self._prepared = 0  # the number of that turn

    @property
    def model(self) -> str:
        """The model of the run."""
        return str(self._parameters["model"])

    @property
    def max_tokens(self) -> Any:
        """The `max_tokens` of the turn under way."""
        return self._request["max_tokens"]

    def check(self) -> None:
        """Check the history and the tools of the request of the turn under way.

        Raises:
            HistoryError: The API would refuse the request.
        """
        system = count_breakpoints(self._request.get("system"))
        faults = validate_history(self._result.messages, self._request.get("tools"), system_breakpoints=system)
        if faults:
            raise HistoryError(faults)

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
            self._prepare(turn)
            self._prepared = turn
        # Before each request, not only the first: the hook may have changed everything. The error names every fault at
        # once; the API's 400 would name one, after the upload.
        self.check()
        return self._result.messages is not earlier

    def _prepare(self, turn: int) -> None:
        request = dict(self._parameters)
        choice = request.get("tool_choice")
        if turn > 1 and isinstance(choice, Mapping) and choice.get("type") in ("any", "tool"):
            # A model that must call a tool in each response can never end its turn. `auto`, not no `tool_choice`,
            # because `disable_parallel_tool_use` stays. A hook that wants a forced call again says so for each request.
            request["tool_choice"] = {name: value for name, value in choice.items() if name != "name"} | {
                "type": "auto"
            }
        hook = self._options["next_request"]
        if hook is not None:
            asked = hook({**request, "messages": list(self._result.messages)}, turn)
            request = self._changed(request, {} if asked is None else asked)
        self._request = self._output.request(request)  # after the hook, which may change `output_config`

    def _changed(self, request: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a request with the changes of its hook, and make its tools callable."""
        if not isinstance(changes, Mapping):
            raise UsageError(f"next_request must return the parameters to change, not {type(changes).__name__}")
        if wrong := sorted({"stream", "eager", *OPTIONS_OF_READING} & set(changes)):
            raise UsageError(f"next_request cannot change {', '.join(wrong)}")
        # Each request starts from the run's own tools: without this, tools of one request would be there in the next.
        # In place, because the executor and the turn have this toolbox.
        tools = changes.get("tools", self._tools.given)
        self._tools.toolbox.replace(toolbox_of(self._runnable(tools), self._tools.executor))
        merged = {**request, **changes}
        check_count("max_tokens", merged["max_tokens"], least=0)
        # The API refuses a `tool_choice` without tools, and the hook may have taken the last one away.
        left_out = {"model", "max_tokens", "tools", "messages"} | ({"tool_choice"} if not tools else set())
        others = {name: value for name, value in merged.items() if name not in left_out}
        parameters = request_parameters(merged["model"], merged["max_tokens"], tools, others, eager=self._eager)
        # Last: a hook that is refused has changed nothing of the history.
        if "messages" in changes:
            self._result.messages = checked_messages(changes["messages"])
        return parameters

    def _runnable(self, tools: Any) -> Any:
        """Return the tools that a hook asks for; a tool of the run stands in for a definition of the same name."""
        # The hook sees definitions in its request, and gives back some of them, maybe changed. A definition alone could
        # not be run, and would be refused.
        if not isinstance(tools, Sequence):
            return tools  # refused by `toolbox_of`, with a reason
        definitions = self._parameters.get("tools", ())
        own = {_key(each): tool for each, tool in zip(definitions, self._tools.given, strict=True)}
        return [own.get(_key(tool), tool) if isinstance(tool, Mapping) else tool for tool in tools]

    def body(self, max_tokens: int | None = None, *, most_breakpoints: int = MAX_BREAKPOINTS) -> dict[str, Any]:
        """Return the body of the request of the turn under way.

        Args:
            max_tokens: Replaces that of the turn, if its response was cut.
            most_breakpoints: Maximum number of cache breakpoints.
        """
        # A copy of the list, because a user who drives the conversation by hand may change the request.
        request = {**self._request, "messages": list(self._result.messages)}
        if max_tokens is not None:
            request["max_tokens"] = max_tokens
        if self._result.container is not None:
            request["container"] = _with_container(request.get("container"), self._result.container)
        # Last, and in the copy only: marks in the history would add up with each turn, and the API accepts four.
        return with_breakpoints(request, most=most_breakpoints) if self._options["cache"] == "auto" else request


def _key(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key of a tool: its name; a toolset has none, and is known by its kind and its server."""
    return tuple(str(definition.get(field)) for field in ("name", "type", "mcp_server_name"))


def _with_container(given: Any, container: Any) -> Any:
    """Return the container of the last response for the next request, with the skills that the user asked for."""
    id = container.get("id") if isinstance(container, Mapping) else container
    return {**given, "id": id} if isinstance(given, Mapping) else id
