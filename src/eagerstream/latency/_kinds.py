"""The words of the axes that have a fixed set of values; importing this is cheap."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias

Streaming: TypeAlias = Literal["eager", "buffered"]

MEANINGS: Final = {
    "start of the largest parameter": "when the first characters came of the longest value in the largest input",
    "first fragment of an input": "when the first piece of any tool input came",
    "first finished field": "when the first value in an input was whole",
    "first tool start": "when the first tool was called",
    "whole run": "from the first request to the last result",
    "longest gap of an input": "the longest wait between two fragments of one input",
    "99th percentile of gaps": "of a hundred waits between fragments, 99 are at most so long",
    "fragments in a second": "pieces of inputs, while inputs came",
    "characters in a second": "of inputs, while inputs came",
    "tool time behind the stream": "the share of the tools' time that passed while the reply was still coming",
    "won by starting tools early": "beside the same run with its tools begun at the end of each reply",
}
"""What the figures say, by their labels; see `metrics.METRICS`."""


class TransportName(StrEnum):
    """What sends the requests."""

    ANTHROPIC = "anthropic"
    """`AsyncAnthropic`."""
    HTTPX = "httpx"
    """An `HTTPTransport` on httpx."""
    HTTPX2 = "httpx2"
    """An `HTTPTransport` on httpx2."""
