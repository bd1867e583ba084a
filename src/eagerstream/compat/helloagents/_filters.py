"""Filters that select tools of a registry by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

_READ_ONLY = ("Read", "LS", "Glob", "Grep", "Skill")
_DANGEROUS = ("Bash", "Terminal", "Execute")


def _with_suffix(names: Iterable[str]) -> frozenset[str]:
    return frozenset(spelled for name in names for spelled in (name, f"{name}Tool"))


class ToolFilter(ABC):
    """Filter of the allowed tools. Derive a class, and define `is_allowed`."""

    @abstractmethod
    def is_allowed(self, tool_name: str) -> bool:
        """Return whether the tool with this name is allowed."""

    def filter(self, all_tools: Iterable[str]) -> list[str]:
        """Return the names of the allowed tools, in order."""
        return [name for name in all_tools if self.is_allowed(name)]


class ReadOnlyFilter(ToolFilter):
    """Filter that allows a list of tools that change nothing.

    Args:
        additional_allowed: Names of further tools.
    """

    READONLY_TOOLS: ClassVar[frozenset[str]] = _with_suffix(_READ_ONLY)

    def __init__(self, additional_allowed: Iterable[str] | None = None) -> None:
        self.allowed_tools: set[str] = {*self.READONLY_TOOLS, *(additional_allowed or ())}

    def is_allowed(self, tool_name: str) -> bool:
        """Return whether the name is on the list."""
        return tool_name in self.allowed_tools


class FullAccessFilter(ToolFilter):
    """Filter that allows all tools except a list of tools that run commands.

    Args:
        additional_denied: Names of further denied tools.
    """

    DENIED_TOOLS: ClassVar[frozenset[str]] = _with_suffix(_DANGEROUS)

    def __init__(self, additional_denied: Iterable[str] | None = None) -> None:
        self.denied_tools: set[str] = {*self.DENIED_TOOLS, *(additional_denied or ())}

    def is_allowed(self, tool_name: str) -> bool:
        """Return whether the name is not on the list."""
        return tool_name not in self.denied_tools


class CustomFilter(ToolFilter):
    """Filter with your own list.

    Args:
        allowed: Names of the only allowed tools, with `mode="whitelist"`.
        denied: Names of the denied tools, with `mode="blacklist"`.
        mode: The list to use.

    Raises:
        ValueError: The mode is unknown.
    """

    def __init__(
        self, allowed: Iterable[str] | None = None, denied: Iterable[str] | None = None, mode: str = "whitelist"
    ) -> None:
        if mode not in ("whitelist", "blacklist"):
            raise ValueError(f"Invalid mode: {mode!r} is neither 'whitelist' nor 'blacklist'")
        self.allowed: set[str] = set(allowed or ())
        self.denied: set[str] = set(denied or ())
        self.mode = mode

    def is_allowed(self, tool_name: str) -> bool:
        """Return whether the list of this mode allows the name."""
        return tool_name in self.allowed if self.mode == "whitelist" else tool_name not in self.denied
