"""`RunOutput`: the output of a conversation, from the parameter `output` to the fields of its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..limits import Limits
from ..streaming._output import OutputReader, output_reader
from ._result import RunResult


class RunOutput:
    """The output of a conversation: that of its last response. Without `output`, nothing happens here.

    Args:
        output: The type or schema; None for none.
        options: The options of the conversation. Those of the output are removed.
        limits: Bounds on the text.
        result: Gets the output at the end of each response.

    Raises:
        UsageError: As for `stream`.

    Attributes:
        reader: Follows the events of the responses; None without `output`.
    """

    def __init__(self, output: Any, options: dict[str, Any], limits: Limits, result: RunResult[Any]) -> None:
        self.reader: OutputReader | None = output_reader(output, options, limits)
        self._result = result

    def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a request, with the schema if it is sent.

        Raises:
            UsageError: `output_config` of the request has another format.
        """
        return request if self.reader is None else self.reader.format.request(request)

    def begin(self) -> None:
        """Start with another response."""
        if self.reader is not None:
            self.reader.begin()

    def end(self, message: Mapping[str, Any], *, broken: bool = False) -> None:
        """Set the fields of the result at the end of a response; see `OutputReader.end`."""
        if self.reader is not None:
            output = self.reader.end(message, broken=broken)
            self._result.output, self._result.output_outcome = output.value, output.outcome
            self._result.output_error, self._result.output_text = output.error, output.text
