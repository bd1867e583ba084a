"""`AdaptedTool`: a tool of `eagerstream.builtin` that is called as one of HelloAgents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyio.from_thread import start_blocking_portal

from ....errors import ToolError
from ....tools import InputError, Tool as CoreTool, ToolErrorCode, ToolResponse, error_response
from .._tool import Tool, ToolParameter


class AdaptedTool(Tool):
    """A tool whose work another one does.

    Args:
        tool: The other one. Its name, description and parameters are this one's, too.
    """

    def __init__(self, tool: CoreTool) -> None:
        super().__init__(tool.name, tool.description)
        self._tool = tool

    def run(self, parameters: dict[str, Any]) -> ToolResponse:
        """As `arun`, in an event loop of its own in another thread: it may be called anywhere, and blocks."""
        # Not the loop of all synchronous calls: a tool that runs there may call this, and would wait for itself.
        with start_blocking_portal() as portal:
            response: ToolResponse = portal.call(self.arun, parameters)
        return response

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """What the tool answers; every failure is an `ERROR`.

        Parameters that the tool does not have, and those that are None, count as not given.
        """
        schema: Mapping[str, Any] = self._tool.input_schema
        given = {name: parameters[name] for name in schema["properties"] if parameters.get(name) is not None}
        missing = next((name for name in schema["required"] if name not in given), None)
        if missing is not None:
            return ToolResponse.error(ToolErrorCode.INVALID_PARAM, f"参数 '{missing}' 不能为空")
        try:
            response: ToolResponse = await self._tool.call(given)
        except (ToolError, InputError) as error:
            return error_response(error)
        return response

    def get_parameters(self) -> list[ToolParameter]:
        """What it takes."""
        schema: Mapping[str, Any] = self._tool.input_schema
        return [
            ToolParameter(
                name=name,
                type=_type_of(described),
                description=described["description"],
                required=name in schema["required"],
                default=described.get("default"),
            )
            for name, described in schema["properties"].items()
        ]


def _type_of(schema: Mapping[str, Any]) -> str:
    """The one type besides null."""
    return str(schema["type"] if "type" in schema else schema["anyOf"][0]["type"])
