"""`Agent`: the options of runs, kept together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, Self, Unpack, overload

from typing_extensions import TypeVar  # with defaults, which the one of Python has from 3.13 on

from ..errors import UsageError
from ..streaming._message_stream import MessageStream, stream
from ..streaming._options import StreamOptions, check_names
from ..streaming._types import OutputT, RequestMessage, ValueT
from ..tools._foreign import NO_CONTEXT, ContextT, GivenTool
from ..transports import Client
from ._options import RunOptions
from ._result import RunResult
from ._run import Run
from ._start_run import run

ContextT_contra = TypeVar("ContextT_contra", contravariant=True, default=Any)

_OF_ONE_RUN: Final = {
    "messages": "give it to run or stream",
    "context": "give it to run",
    "run_id": "give it to run: another run cannot have it",
}


class _Changes(RunOptions, total=False):
    client: Client
    model: str
    max_tokens: int


class Agent(Generic[ContextT_contra, OutputT]):
    """A client, a model, tools and options, for any number of runs. It cannot be changed, and keeps no conversation.

        librarian = Agent(client, model=..., max_tokens=1024, tools=[lend], system="You are a librarian.")
        result = await librarian.run([{"role": "user", "content": "Lend me Faust."}], context=library)
        result = await librarian.run([*result.messages, {"role": "user", "content": "And Emma."}], context=library)

    It may be used by many tasks at once. Its type has the context that the tools need, and the output.

    Args:
        client, model, max_tokens, tools, output: As for `run`.
        options: See `RunOptions`; all but `run_id`.

    Raises:
        UsageError: There is no such option, or it belongs to one run. What `run` checks besides, it checks at each run.

    Attributes:
        client, model, max_tokens, tools, output: As they were given.
        options: The other options, by name.
    """

    client: Client
    model: str
    max_tokens: int
    tools: Sequence[GivenTool]
    output: Any
    options: Mapping[str, Any]

    @overload
    def __init__(
        self: Agent[ContextT, None],
        client: Client,
        *,
        model: str,
        max_tokens: int,
        tools: Sequence[GivenTool[ContextT]] = (),
        output: None = None,
        **options: Unpack[RunOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[ContextT, ValueT],
        client: Client,
        *,
        model: str,
        max_tokens: int,
        tools: Sequence[GivenTool[ContextT]] = (),
        output: type[ValueT],
        **options: Unpack[RunOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[ContextT, Any],
        client: Client,
        *,
        model: str,
        max_tokens: int,
        tools: Sequence[GivenTool[ContextT]] = (),
        output: Mapping[str, Any],
        **options: Unpack[RunOptions],
    ) -> None: ...
    def __init__(
        self,
        client: Client,
        *,
        model: str,
        max_tokens: int,
        tools: Sequence[GivenTool] = (),
        output: Any = None,
        **options: Any,
    ) -> None:
        for name, what in _OF_ONE_RUN.items():
            if name in options:
                raise UsageError(f"{name} belongs to one run, not to an agent: {what}")
        check_names(options, RunOptions)
        vars(self).update(
            client=client,
            model=model,
            max_tokens=max_tokens,
            tools=tuple(tools),
            output=output,
            options=MappingProxyType(options),
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of an agent cannot be changed: use replace")

    def __repr__(self) -> str:
        return f"Agent(model={self.model!r}, tools={len(self.tools)})"  # the system prompt does not belong in a log

    @overload
    def run(
        self: Agent[None, OutputT], messages: Sequence[RequestMessage] | RunResult, **options: Unpack[RunOptions]
    ) -> Run[OutputT]: ...
    @overload
    def run(
        self, messages: Sequence[RequestMessage] | RunResult, *, context: ContextT_contra, **options: Unpack[RunOptions]
    ) -> Run[OutputT]: ...
    def run(
        self, messages: Sequence[RequestMessage] | RunResult, *, context: Any = NO_CONTEXT, **options: Any
    ) -> Run[OutputT]:
        """Run a conversation; see `eagerstream.run`.

        Args:
            messages, context: As for `eagerstream.run`.
            options: Options in place of those of the agent.

        Raises:
            UsageError, HistoryError: As for `eagerstream.run`.
        """
        given = {**self.options, **options}
        return run(self.client, messages=messages, context=context, **self._own(given), **given)

    def stream(self, messages: Sequence[RequestMessage], **options: Unpack[StreamOptions]) -> MessageStream[OutputT]:
        """Send one request with the definitions of the tools, and run none of them; see `eagerstream.stream`.

        The options of the agent that are about turns and calls have no meaning here, and are left out.

        Raises:
            UsageError: As for `eagerstream.stream`.
        """
        kept = {name: value for name, value in self.options.items() if name in StreamOptions.__annotations__}
        given = {**kept, **options}
        return stream(self.client, messages=messages, **self._own(given), **given)

    def _own(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments that the agent has as attributes; those in `given` are taken out of it, and count."""
        own = {name: getattr(self, name) for name in ("model", "max_tokens", "tools", "output")}
        return {name: given.pop(name, value) for name, value in own.items()}

    @overload
    def replace(self, **changes: Unpack[_Changes]) -> Self: ...
    @overload
    def replace(
        self, *, tools: Sequence[GivenTool[ContextT]], **changes: Unpack[_Changes]
    ) -> Agent[ContextT, OutputT]: ...
    @overload
    def replace(self, *, output: type[ValueT], **changes: Unpack[_Changes]) -> Agent[ContextT_contra, ValueT]: ...
    @overload
    def replace(
        self, *, tools: Sequence[GivenTool[ContextT]], output: type[ValueT], **changes: Unpack[_Changes]
    ) -> Agent[ContextT, ValueT]: ...
    def replace(self, **changes: Any) -> Agent[Any, Any]:
        """Return an agent with other options, and the rest of this one.

        Raises:
            UsageError: As for `Agent`.
        """
        own = {"client": self.client, **self._own({})}
        return Agent(**{**own, **self.options, **changes})
