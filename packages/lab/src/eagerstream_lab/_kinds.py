"""Names of the axes with a fixed set of values. Importing this is cheap."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias

Streaming: TypeAlias = Literal["eager", "buffered"]

MEANINGS: Final = {
    "start of the largest parameter": "time of the first characters of the longest value in the largest input",
    "first byte": "time of the first byte of the first response",
    "first fragment of an input": "time of the first fragment of any tool input",
    "first finished field": "time of the first complete value in an input",
    "first complete input": "time of the end of the first tool input",
    "first tool start": "time of the first call of a tool",
    "request with results": "time of the request that brings the results of the first calls",
    "time between turns": "from the end of each response with calls to the next request, all together",
    "complete run": "from the first request to the last result",
    "longest gap of an input": "the longest wait between two fragments of one input",
    "99th percentile of gaps": "99 of 100 waits between fragments are at most this long; from 368 gaps in a run",
    "fragments in a second": "fragments of inputs, while inputs arrived",
    "characters in a second": "characters of inputs, while inputs arrived",
    "tool time behind the stream": "share of the tools' time that passed while the response was still arriving",
    "won by starting tools early": "compared with the same run with its tools started at the end of each response",
}
"""Descriptions of the figures, by label; see `metrics.METRICS`."""


PRIMARY: Final = ("duration_s", "first_field_s")
"""Default figures with verdicts: the end of the run, and the moment at which a program can first use an input."""

EAGER_PRIMARY: Final = ("duration_s", "large_parameter_s")
"""The same if eager cases are compared with buffered ones: the second is the figure that eager streaming is for."""

MIN_RUNS: Final = 10
"""Default number of runs of each case, and the minimum if a benchmark stops by itself."""

MAX_RUNS: Final = 100
"""Default maximum if a benchmark stops by itself."""


PERCENTILE_ERROR: Final = 0.025
"""Probability with which all values may lie below a percentile that is shown."""


def is_shown(share: float, count: int) -> bool:
    """Return True if a percentile of `count` values is shown: 6 values for p50, 36 for p90, 368 for p99.

    The interval of a percentile, with a confidence of 95 %, has an upper end among the values only then. With fewer
    values, the percentile may lie beyond the largest of them, which would be shown in its place.
    """
    return share**count <= PERCENTILE_ERROR


class TransportName(StrEnum):
    """Transport that sends the requests."""

    ANTHROPIC = "anthropic"
    """`AsyncAnthropic`."""
    HTTPX = "httpx"
    """An `HTTPTransport` on httpx."""
    HTTPX2 = "httpx2"
    """An `HTTPTransport` on httpx2."""


class Arrivals(StrEnum):
    """Pattern of the starts in an open loop."""

    POISSON = "poisson"
    """Random and independent, as those of many users: the gaps have an exponential distribution."""
    CONSTANT = "constant"
    """At equal distances."""


MAX_CONCURRENCY: Final = 10_000
"""Maximum number of concurrent runs of a load test."""
