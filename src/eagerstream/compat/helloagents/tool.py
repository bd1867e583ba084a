"""`Tool`: a tool as a class with a `run`, and its parameters as a list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from ...tools import ToolResponse


@dataclass
class ToolParameter:
    """A parameter of a tool.

    Attributes:
        name: The key of the input.
        type: A type of JSON schema: `string`, `integer`, `number`, `boolean`, `array`, `object`.
        description: What the model reads of it.
        required: The model has to give it.
        default: Of one that need not be given.
    """

    name: str
    type: str
    description: str
    required: bool = True
    default: Any = None


class Tool(ABC):
    """A tool of HelloAgents: derive from it, and define `run` and `get_parameters`.

    Args:
        name: The tool's name.
        description: What the model reads of it.
        expandable: Its methods that are marked with `@tool_action` are tools of their own.
    """

    def __init__(self, name: str, description: str, expandable: bool = False) -> None:
        self.name = name
        self.description = description
        self.expandable = expandable

    @abstractmethod
    def run(self, parameters: dict[str, Any]) -> ToolResponse:
        """Do what the tool is for. A text instead of a response is the older protocol, and is taken too."""

    @abstractmethod
    def get_parameters(self) -> list[ToolParameter]:
        """What it takes."""

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """`run` in a thread; override it where the tool can be asynchronous.

        Cancelling it leaves the thread to itself: it runs on, and what it returns is dropped.
        """
        return await anyio.to_thread.run_sync(self.run, parameters, abandon_on_cancel=True)

    def validate_parameters(self, parameters: Mapping[str, Any]) -> bool:
        """All that are required are there."""
        return all(parameter.name in parameters for parameter in self.get_parameters() if parameter.required)
