"""Which tools of a registry somebody gets: by their names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

_READ_ONLY = ("Read", "LS", "Glob", "Grep", "Skill")
_DANGEROUS = ("Bash", "Terminal", "Execute")


def _with_suffix(names: Iterable[str]) -> frozenset[str]:
    return frozenset(spelled for name in names for spelled in (name, f"{name}Tool"))


class ToolFilter(ABC):
    """Says which tools may be used: derive from it, and define `is_allowed`."""

    @abstractmethod
    def is_allowed(self, tool_name: str) -> bool:
        """The tool of this name may be used."""

    def filter(self, all_tools: Iterable[str]) -> list[str]:
        """Those names of tools that may be used, in their order."""
        return [name for name in all_tools if self.is_allowed(name)]


class ReadOnlyFilter(ToolFilter):
    """Tools that change nothing, by a list of names.

    Args:
        additional_allowed: Names of further ones.
    """

    READONLY_TOOLS: ClassVar[frozenset[str]] = _with_suffix(_READ_ONLY)

    def __init__(self, additional_allowed: Iterable[str] | None = None) -> None:
        self.allowed_tools = {*self.READONLY_TOOLS, *(additional_allowed or ())}

    def is_allowed(self, tool_name: str) -> bool:
        """It is on the list."""
        return tool_name in self.allowed_tools


class FullAccessFilter(ToolFilter):
    """All tools but those that run commands, by a list of names.

    Args:
        additional_denied: Names of further ones that are kept back.
    """

    DENIED_TOOLS: ClassVar[frozenset[str]] = _with_suffix(_DANGEROUS)

    def __init__(self, additional_denied: Iterable[str] | None = None) -> None:
        self.denied_tools = {*self.DENIED_TOOLS, *(additional_denied or ())}

    def is_allowed(self, tool_name: str) -> bool:
        """It is not on the list."""
        return tool_name not in self.denied_tools


class CustomFilter(ToolFilter):
    """Tools by a list of your own.

    Args:
        allowed: With `mode="whitelist"`: these and no others.
        denied: With `mode="blacklist"`: all but these.
        mode: Which of the lists counts.

    Raises:
        ValueError: There is no such mode.
    """

    def __init__(
        self, allowed: Iterable[str] | None = None, denied: Iterable[str] | None = None, mode: str = "whitelist"
    ) -> None:
        if mode not in ("whitelist", "blacklist"):
            raise ValueError(f"Invalid mode: {mode!r} is neither 'whitelist' nor 'blacklist'")
        self.allowed = set(allowed or ())
        self.denied = set(denied or ())
        self.mode = mode

    def is_allowed(self, tool_name: str) -> bool:
        """By the list that counts."""
        return tool_name in self.allowed if self.mode == "whitelist" else tool_name not in self.denied
