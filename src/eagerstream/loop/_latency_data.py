"""The shapes of the plain data of `RunLatency.to_dict`.

Times are seconds since the first request was about to be sent. `None`: has not happened.
"""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict


class GapsData(TypedDict):
    """The gaps between fragments: their number, quantiles, and the longest, in seconds."""

    count: int
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float


class FieldData(TypedDict):
    """A finished field: its path, and the time of the fragment that finished it."""

    path: list[str | int]
    at_s: float


class CallData(TypedDict):
    """A call that was given to the executor; see `CallLatency`."""

    admitted_s: float | None
    start_s: float | None
    progress_s: float | None
    end_s: float | None
    is_error: bool
    group: str | None
    lead_s: float | None
    hidden_s: float | None


class BlockData(TypedDict):
    """A content block. `arrivals` are `[at_s, fragments, chars]`; `outcome` and `call` are of inputs only."""

    index: int
    kind: str
    id: str
    name: str
    start_s: float | None
    first_fragment_s: float | None
    last_fragment_s: float | None
    stop_s: float | None
    fragments: int
    chars: int
    gaps: GapsData | None
    arrivals: list[tuple[float, int, int]]
    fields: list[FieldData]
    outcome: str | None
    call: CallData | None


class RequestData(TypedDict):
    """A request and its response; see `RequestLatency`."""

    turn: int
    discarded: bool
    thread: Literal["create", "continue"] | None
    thread_refused: str | None
    sent_bytes: int | None
    sent_s: float | None
    headers_s: float | None
    first_byte_s: float | None
    message_start_s: float | None
    message_stop_s: float | None
    end_s: float | None
    settled_s: float | None
    next_request_s: float | None
    won_s: float | None
    blocks: list[BlockData]


# The names are those of the attributes of `RunLatency` and its parts: `to_dict` takes the members of these classes from
# there. So a figure is declared once, and mypy checks who reads the JSON.
class LatencyData(TypedDict):
    """A complete run; see `RunLatency`.

    `RunLatency.to_dict` always gives `tool_s`, `hidden_s` and `won_s`. They are `None` in results of benchmarks if the
    tools ran in another program.
    """

    eagerstream_latency: Literal[1]
    model: str
    eager: str | None
    status: str
    duration_s: float | None
    time_to_first_fragment_s: float | None
    time_to_first_field_s: float | None
    time_to_tool_start_s: float | None
    fragments: int
    chars: int
    fragments_per_s: float | None
    chars_per_s: float | None
    gaps: GapsData | None
    tool_s: float | None
    hidden_s: float | None
    hidden_share: float | None
    won_s: float | None
    resumed_s: NotRequired[list[float]]
    requests: list[RequestData]
