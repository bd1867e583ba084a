"""`Invoked`: what came of calling a tool's function, wherever that was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..wire import JSONObject
from ._call import ToolCall
from ._response import ToolResponse, error_response, response_of

if TYPE_CHECKING:
    from ._definition import Tool


@dataclass(frozen=True, slots=True)
class Invoked:
    """What a tool answered, or raised.

    Attributes:
        response: What it answered; what it raised as an error.
        raised: The response stands for an exception, or for the tool: its text says all.
        error: What was raised, where it is known.
        include_data: The response's data is for the model, too.
    """

    response: ToolResponse = field(repr=False)
    raised: bool = False
    error: BaseException | None = field(default=None, repr=False)
    include_data: bool = False

    def settle(self, call: ToolCall) -> None:
        """Answer a call with it, unless it has an answer."""
        call.error = call.error or self.error
        try:
            call.settle(self.response, raised=self.raised, include_data=self.include_data)
        except Exception as error:  # its content is none that the API takes
            call.fail(error, include_data=self.include_data)


async def invoked(tool: Tool, arguments: JSONObject, call: ToolCall) -> Invoked:
    """Call a tool's function on arguments that were checked; only cancellation comes out of it."""
    try:
        returned = await tool.invoke(arguments, call)
        is_response = isinstance(returned, ToolResponse)  # the data of anything else is its text
        return Invoked(response_of(returned), include_data=tool.include_data and is_response)
    except (Exception, SystemExit) as error:
        return Invoked(error_response(error), raised=True, error=error, include_data=tool.include_data)
