"""`callable_tools`: the tools that the model may call, and the executor that runs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..errors import UsageError
from ..limits import Limits
from ..tools._breaker import CircuitBreaker
from ..tools._executor import Executor, InProcessExecutor
from ..tools._foreign import GivenTool, as_tool
from ..tools._toolbox import Toolbox


def callable_tools(
    tools: Sequence[GivenTool],
    executor: Executor | None,
    *,
    limits: Limits,
    max_concurrency: int,
    circuit_breaker: CircuitBreaker | None,
    context: object = None,
) -> tuple[Toolbox, Executor]:
    """Return the tools by name, and the given executor or else one in this process.

    Raises:
        UsageError: A tool cannot be run, two share a name, the executor cannot do what an option or a tool asks, or a
            tool needs a context.
    """
    # Such an executor would call broken tools without the user noticing, so the option is refused, not ignored.
    if executor is not None and circuit_breaker is not None:
        raise UsageError("an executor of your own has to ask the circuit_breaker itself")
    toolbox = toolbox_of(tools, executor, context)
    if executor is not None:
        return toolbox, executor
    return toolbox, InProcessExecutor(
        toolbox, limits=limits, max_concurrency=max_concurrency, circuit_breaker=circuit_breaker
    )


def toolbox_of(tools: Sequence[GivenTool], executor: Executor | None, context: object) -> Toolbox:
    """Return the tools by name. A tool that nothing could run is refused whatever executor there is.

    Raises:
        UsageError: As `callable_tools`.
    """
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
        raise UsageError(f"tools must be a list of tools, not {type(tools).__name__}")
    # None stands for a tool that nothing here runs: one of the API's own, or of an unknown kind. A bare definition of a
    # client tool (bash, memory) without an executor is refused: its calls could only be answered as not found.
    found = [as_tool(tool, runs_elsewhere=executor is not None) for tool in tools]
    toolbox = Toolbox(tool for tool in found if tool is not None)
    # An executor has to say that it asks. The default is no: a tool that must not run unseen must not be given to an
    # executor that has never heard of approval (test_an_executor_that_asks_nobody).
    asks = executor is None or getattr(executor, "asks_approval", False)
    if not asks and (asking := toolbox.asking_approval()):
        raise UsageError(f"{', '.join(asking)}: this executor does not ask for approval (asks_approval = True)")
    if context is None:
        if needing := [tool.name for tool in toolbox if tool.needs_context]:
            raise UsageError(f"{', '.join(needing)}: a tool that takes a Context needs context=...")
    elif (fault_of := getattr(executor, "fault_of_context", None)) and (fault := fault_of(context, toolbox)):
        raise UsageError(fault)
    return toolbox
