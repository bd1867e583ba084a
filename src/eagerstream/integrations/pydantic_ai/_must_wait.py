"""Which calls must not begin before pydantic-ai gets to them."""

from __future__ import annotations

from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, Instrumentation, WrapperCapability
from pydantic_ai.toolsets import AbstractToolset, ApprovalRequiredToolset, WrapperToolset

_DECIDING: Final = (
    "before_tool_validate",
    "after_tool_validate",
    "wrap_tool_validate",
    "before_tool_execute",
    "wrap_tool_execute",
)
"""Hooks that can change, defer or forbid a call before its tool runs."""


def limits_calls(ctx: RunContext[Any]) -> bool:
    """The run may have only so many calls, or some capability has a say between a call and its tool."""
    if ctx.usage_limits is not None and ctx.usage_limits.tool_calls_limit is not None:
        return True
    return ctx.root_capability is not None and _any_decides(ctx.root_capability)


def must_wait(ctx: RunContext[Any], name: str) -> bool:
    """A call of the tool runs by itself, later, or elsewhere; those that follow it in a reply wait with it."""
    manager = ctx.tool_manager
    if manager is None or manager.get_parallel_execution_mode() == "sequential":
        return True
    definition = manager.get_tool_def(name)
    if definition is None or definition.kind == "output":
        return False  # answered, or the run's result: no tool runs that others wait for
    return definition.kind != "function" or definition.sequential or not ctx.is_tool_available(definition)


def is_offered(ctx: RunContext[Any], name: str) -> bool:
    """The model was given the tool: nothing has hidden it from this step of the run."""
    return ctx.tool_manager is not None and ctx.tool_manager.get_tool_def(name) is not None


def is_guarded(around: AbstractToolset[Any], toolset: AbstractToolset[Any]) -> bool:
    """Something between the two looks at calls before the tools of `toolset` get them: an approval, or a user's own."""
    if isinstance(around, WrapperToolset):
        own = type(around).call_tool is not WrapperToolset.call_tool
        is_foreign = own and not type(around).__module__.startswith(("pydantic_ai.", "eagerstream."))
        looks = is_foreign or isinstance(around, ApprovalRequiredToolset)
        return (looks and _holds(around, toolset)) or is_guarded(around.wrapped, toolset)
    return any(is_guarded(member, toolset) for member in getattr(around, "toolsets", ()))


def _holds(around: AbstractToolset[Any], toolset: AbstractToolset[Any]) -> bool:
    leaves: list[AbstractToolset[Any]] = []
    around.apply(leaves.append)
    return any(leaf is toolset for leaf in leaves)


def _any_decides(root: AbstractCapability[Any]) -> bool:
    members: list[AbstractCapability[Any]] = []
    root.apply(members.append)
    return any(map(_decides, members))


def _decides(capability: AbstractCapability[Any]) -> bool:
    if isinstance(capability, Instrumentation):  # it only traces
        return False
    if isinstance(capability, WrapperCapability) and _any_decides(capability.wrapped):
        return True
    # `Hooks` has all of them, and calls what was registered: the only place that tells is this one.
    registry = getattr(capability, "_registry", None)
    plain = (AbstractCapability, WrapperCapability)
    return any(
        getattr(type(capability), hook) not in [getattr(base, hook) for base in plain]
        and (not isinstance(registry, dict) or bool(registry.get(hook)))
        for hook in _DECIDING
    )
