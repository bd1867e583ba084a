"""`RunLatency`: figures and JSON from the marks of a run.

Times are seconds since the first request was about to be sent. Durations are seconds. A figure is `None` if it has not
happened, or does not apply.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from statistics import quantiles
from typing import Any, Final, Literal, TypeVar, cast

from eagerstream_wire import Outcome, ToolInput

from ..streaming._marks import MAX_FIELDS, BlockMarks, FinishedField
from ._latency_baseline import waiting_s
from ._latency_data import BlockData, CallData, GapsData, LatencyData, RequestData
from ._marks import CallMarks, RequestMarks, RunMarks

# The version of the JSON, which may be compared with files of another day.
VERSION: Final = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Gaps:
    """The gaps between the fragments of an input, or of several; fragments that came together have gaps of 0.

    Attributes:
        count: Number of gaps.
        p50_s, p90_s, p99_s: The gap in seconds that 50, 90 or 99% of the gaps do not exceed, interpolated.
        max_s: The longest gap in seconds.
    """

    count: int
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float

    @classmethod
    def of(cls, gaps_s: Iterable[float]) -> Gaps | None:
        """Return the figures of all these gaps; None if there are none."""
        listed = sorted(gaps_s)
        if not listed:
            return None
        # `inclusive`: linear interpolation between what was measured, as NumPy's default has it. The other method
        # extrapolates, and gives quantiles beyond the longest gap. `quantiles` refuses a single value.
        cuts = quantiles(listed, n=100, method="inclusive") if len(listed) > 1 else listed * 99
        return cls(len(listed), cuts[49], cuts[89], cuts[98], listed[-1])


class CallLatency:
    """One tool input, and the call that it made.

    Attributes:
        block: The marks of its content block.
        id: The API's id of the call.
        name: The tool, as the model wrote it.
        is_error: The call was answered with an error.
        group: Group of its tool. Calls of one group run one after the other.
        start_s, stop_s: Times at which the block started, and was closed.
        first_fragment_s, last_fragment_s: Times of the first and the last fragment of the input.
        admitted_s: Time of its admission by the executor. From then on it waits for its turn, or for approval.
        tool_start_s: Time at which the tool was called.
        tool_progress_s: Time of the first progress that the tool reported.
        tool_end_s: Time of the result.
        tool_s: Duration of the tool. If it reads its input while that is written, its waiting for the model counts.
        lead_s: Time from the start of the tool to the end of the response. Negative if the tool started later.
        hidden_s: The part of `tool_s` that passed while the response was still coming.
    """

    # All figures are computed here, once, from marks that may still grow: a report would otherwise mix numbers of
    # different moments. The fields of the input are the exception, since to find them the input is parsed again.
    def __init__(self, block: BlockMarks, call: CallMarks | None, reply_end_s: float | None, origin_s: float) -> None:
        since = partial(_since, origin_s)
        self.block = block
        self.id: str = block.id
        self.name: str = block.name
        self.is_error: bool = call is not None and call.call.is_error
        self.group: str | None = call.group if call else None
        self.start_s: float | None = since(block.start_s)
        self.first_fragment_s: float | None = since(block.first_fragment_s)
        self.last_fragment_s: float | None = since(block.last_fragment_s)
        self.stop_s: float | None = since(block.stop_s)
        self.admitted_s: float | None = since(call.admitted_s) if call else None
        self.tool_start_s: float | None = since(call.start_s) if call else None
        self.tool_progress_s: float | None = since(call.progress_s) if call else None
        self.tool_end_s: float | None = since(call.end_s) if call else None
        self.tool_s: float | None = None
        self.lead_s: float | None = None
        self.hidden_s: float | None = None
        if call is not None and call.start_s is not None:
            self.tool_s = _since(call.start_s, call.end_s)
            self.lead_s = _since(call.start_s, reply_end_s)
            if call.end_s is not None and reply_end_s is not None:
                self.hidden_s = max(0.0, min(call.end_s, reply_end_s) - call.start_s)
        self._origin_s = origin_s

    @property
    def first_field_s(self) -> float | None:
        """Time at which its first value was finished. The input is parsed up to there for it."""
        fields = self.fields(1)
        return fields[0].at_s if fields else None

    def fields(self, maximum: int = MAX_FIELDS) -> list[FinishedField]:
        """Return each of its values that was finished, with the time; see `BlockMarks.fields`."""
        return [FinishedField(path, at_s - self._origin_s) for path, at_s in self.block.fields(maximum)]

    @property
    def gaps(self) -> Gaps | None:
        """The gaps between its fragments; None if there are fewer than two fragments."""
        return Gaps.of(self.block.gaps_s())


class RequestLatency:
    """One request and its response.

    Attributes:
        turn: From 1. A request that is sent again has the number of the one before it.
        discarded: It was sent again, and does not count in the figures of the run.
        sent_s: Time at which it was about to be sent.
        headers_s: Time of the headers of the response.
        first_byte_s: Time of the first chunk of the body.
        message_start_s, message_stop_s: Times at which the message started, and was complete.
        end_s: Time from which on nothing more was read.
        settled_s: Time at which every call had its result: the next request could be sent.
        next_request_s: Time at which the next request was about to be sent.
        won_s: Least time by which the next request could be sent earlier than in a run that waits for the end of the
            response. That run is computed from the same marks: each tool whose result was sent starts when the message
            is complete, and takes as long as it did. Calls of one group run one after the other, and no more run at a
            time than here. For a tool that started before its input was complete, only its time after that counts. The
            time for approval does not count if calls may have waited for a slot in it. `None` while calls run, and if
            the response ended in a way in which that run would have run none of them: cut, refused, given up.
        thread: `"create"` or `"continue"`, if the request was a part of a message thread; else None.
        thread_refused: The API's reason why it had to be sent again in full; None if it had not.
        sent_bytes: Size of the body of the accepted request; None if the client does not say.
        calls: The inputs of the response, in their order.
    """

    def __init__(self, marks: RequestMarks, following: RequestMarks | None, run: RunMarks, origin_s: float) -> None:
        since = partial(_since, origin_s)
        reply = marks.reply
        # In one step each, as they may grow in another thread.
        calls = list(marks.calls.values())
        self._blocks = list(reply.blocks.values())
        self._origin_s = origin_s
        self.turn: int = marks.turn
        self.discarded: bool = marks.discarded
        self.thread: Literal["create", "continue"] | None = marks.thread
        self.thread_refused: str | None = marks.thread_refused
        self.sent_bytes: int | None = marks.sent_bytes
        self.sent_s: float | None = since(reply.sent_s)
        self.headers_s: float | None = since(reply.headers_s)
        self.first_byte_s: float | None = since(reply.first_byte_s)
        self.message_start_s: float | None = since(reply.message_start_s)
        self.message_stop_s: float | None = since(reply.message_stop_s)
        self.end_s: float | None = since(reply.end_s)
        self.settled_s: float | None = since(marks.settled_s)
        self.next_request_s: float | None = since(following.reply.sent_s) if following else None
        # The end of the message, not of the body: a run that waits need not wait for a peer that forgets to close. A
        # response that broke off has only the other one.
        stop_s = reply.end_s if reply.message_stop_s is None else reply.message_stop_s
        self.won_s: float | None = None
        if stop_s is not None and marks.settled_s is not None and marks.runs_held:
            slots = run.max_concurrency
            # The results of other calls were not sent. A run that waits need not have run them, so they win nothing.
            sent = [call for call in calls if call.call.in_history]
            self.won_s = stop_s + waiting_s(sent, marks, slots, waits=len(calls) > slots) - marks.settled_s
        # By the input itself: ids may come twice, and indexes too.
        by_input: dict[ToolInput, CallMarks] = {call.call.input: call for call in calls}
        self.calls: list[CallLatency] = [
            CallLatency(block, by_input.get(input), stop_s, origin_s)
            for block in self._blocks
            if (input := block.input) is not None
        ]

    def to_dict(self, *, arrivals: bool = False) -> RequestData:
        """Return the request as plain data, each block with its finished fields."""
        calls = {call.block.index: call for call in self.calls}
        blocks = [self._block(block, calls.get(block.index), arrivals=arrivals) for block in self._blocks]
        return _data(RequestData, self, blocks=blocks)

    def _block(self, block: BlockMarks, call: CallLatency | None, *, arrivals: bool) -> BlockData:
        since = partial(_since, self._origin_s)
        came = block.arrivals() if arrivals else ()
        ran: CallData | None = None
        if call and call.admitted_s is not None:
            times = {"start_s": call.tool_start_s, "progress_s": call.tool_progress_s, "end_s": call.tool_end_s}
            ran = _data(CallData, call, **times)
        return _data(
            BlockData,
            block,
            start_s=since(block.start_s),
            first_fragment_s=since(block.first_fragment_s),
            last_fragment_s=since(block.last_fragment_s),
            stop_s=since(block.stop_s),
            gaps=Gaps.of(block.gaps_s()),
            arrivals=[(round(at_s - self._origin_s, 6), count, chars) for at_s, count, chars in came],
            fields=[{"path": [*path], "at_s": round(at_s, 6)} for path, at_s in call.fields()] if call else [],
            outcome=block.input.outcome if block.input is not None else None,
            call=ran,
        )


class RunLatency:
    """The times and figures of a run, up to the moment at which you asked for them.

    Figures of the complete run leave out requests that were discarded and sent again. Its inputs are parsed when you
    ask for a figure about fields, and stay with this object.

    Attributes:
        model: The model of the requests.
        eager: Form in which the inputs were requested as they are written: `"field"`, `"header"` or None, see
            `Run.eager`.
        status: A value of `RunStatus`.
        requests: The requests in the order in which they were sent.
        calls: The inputs of all requests that were not discarded, in their order.
        resumed_s: Times at which another process continued the run. All times leave out the gap before.
    """

    def __init__(self, marks: RunMarks, *, model: str, eager: str | None, status: str) -> None:
        self.model = model
        self.eager = eager
        self.status = status
        # From the first request, not from the clock's own zero, so that runs can be compared: on Linux the monotonic
        # clock starts with the machine.
        first = marks.requests[0].reply.sent_s if marks.requests else None
        origin_s = first if first is not None else 0.0
        self.resumed_s: list[float] = [at_s - origin_s for at_s in marks.resumed_s]
        self.requests: list[RequestLatency] = [
            RequestLatency(request, following, marks, origin_s)
            for request, following in zip_longest(marks.requests, marks.requests[1:])
        ]
        # With the discarded ones, inputs and tools would count as often as they were attempted.
        self._kept = [request for request in self.requests if not request.discarded]
        self.calls: list[CallLatency] = [call for request in self._kept for call in request.calls]

    @property
    def sent_bytes(self) -> int | None:
        """Size of the bodies of all accepted requests; None if the client does not say."""
        sizes = [request.sent_bytes for request in self.requests if request.sent_bytes is not None]
        return sum(sizes) if sizes else None

    @property
    def duration_s(self) -> float | None:
        """Time from the first request to the end of the last response, or of the last tool if that is later."""
        # All requests count, because the time of a discarded one has passed, too. So do all tools: a run that was left
        # may wait for a tool that has to finish, and its last request is never settled.
        ends = [end_s for request in self.requests for end_s in (request.end_s, request.settled_s)]
        ends += [call.tool_end_s for request in self.requests for call in request.calls]
        return max((end_s for end_s in ends if end_s is not None), default=None)

    @property
    def time_to_first_fragment_s(self) -> float | None:
        """Time from the first request to the first fragment of an input."""
        return _first(call.first_fragment_s for call in self.calls)

    @property
    def time_to_first_field_s(self) -> float | None:
        """Time from the first request to the first finished value of an input."""
        return _first(call.first_field_s for call in self.calls)

    @property
    def time_to_tool_start_s(self) -> float | None:
        """Time from the first request to the first tool that was called."""
        return _first(call.tool_start_s for call in self.calls)

    @property
    def fragments(self) -> int:
        """Number of fragments of all inputs, without empty ones."""
        return sum(call.block.fragments for call in self.calls)

    @property
    def chars(self) -> int:
        """Number of characters of all inputs."""
        return sum(call.block.chars for call in self.calls)

    @property
    def fragments_per_s(self) -> float | None:
        """Fragments after the first of each input, divided by the time that they took; None if they took none."""
        return _rate(sum(max(0, call.block.fragments - 1) for call in self.calls), self._writing_s)

    @property
    def chars_per_s(self) -> float | None:
        """Characters after the first arrival of each input, divided by the time that they took; None without a time."""
        # The time is that between the first and the last arrival. What came with the first one was written before it.
        firsts = (next(call.block.arrivals(), None) for call in self.calls)
        return _rate(self.chars - sum(first.chars for first in firsts if first), self._writing_s)

    @property
    def _writing_s(self) -> float:
        spans = ((call.first_fragment_s, call.last_fragment_s) for call in self.calls)
        return sum(last - first for first, last in spans if first is not None and last is not None)

    @property
    def gaps(self) -> Gaps | None:
        """The gaps between the fragments of each input, all together; None if there are none."""
        return Gaps.of(chain.from_iterable(call.block.gaps_s() for call in self.calls))

    @property
    def tool_s(self) -> float:
        """Sum of the durations of all tools."""
        return sum(call.tool_s or 0.0 for call in self.calls)

    @property
    def hidden_s(self) -> float:
        """The part of `tool_s` that passed while the response was still coming."""
        return sum(call.hidden_s or 0.0 for call in self.calls)

    @property
    def hidden_share(self) -> float | None:
        """The share of the tools' time that is hidden behind the stream, 0 to 1; None if no tool ran."""
        return self.hidden_s / self.tool_s if self.tool_s else None

    @property
    def won_s(self) -> float:
        """Least time won, compared with a run that waits for the end of each response; see `RequestLatency.won_s`."""
        return sum(request.won_s or 0.0 for request in self._kept)

    def to_dict(self, *, arrivals: bool = False) -> LatencyData:
        """Return the figures as plain data. Inputs are parsed for their fields, see `BlockMarks.fields`.

        Args:
            arrivals: Include every arrival of fragments.
        """
        requests = [request.to_dict(arrivals=arrivals) for request in self.requests]
        return _data(
            LatencyData,
            self,
            eagerstream_latency=VERSION,
            resumed_s=[round(at_s, 6) for at_s in self.resumed_s],
            requests=requests,
        )

    def _repr_html_(self) -> str:
        from .._support.markup import figures
        from ._latency_picture import CallTimes, time_line

        names = ("time_to_first_fragment_s", "time_to_first_field_s", "time_to_tool_start_s", "duration_s", "won_s")
        values = ((name, getattr(self, name)) for name in names)
        rows = [(name, "-" if value is None else f"{value:.3f}") for name, value in values]
        calls = [
            CallTimes(call.name, call.start_s, call.stop_s, call.tool_start_s, call.tool_end_s) for call in self.calls
        ]
        return figures("Latency", rows, time_line(calls, self.duration_s or 0.0, self.resumed_s))

    def to_json(self, *, arrivals: bool = False) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(arrivals=arrivals))


def _since(origin_s: float, at_s: float | None) -> float | None:
    return None if at_s is None else at_s - origin_s


def _first(times: Iterable[float | None]) -> float | None:
    return min((at_s for at_s in times if at_s is not None), default=None)


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if seconds > 0 else None


# --- plain data -------------------------------------------------------------------------------------------------------


def _data(shape: type[T], source: object, **others: Any) -> T:
    """Return the TypedDict `shape` with the attributes of `source` of the same names, and with `others`."""
    # The annotations list the members of the JSON once. Before, each figure had a property, too: 457 lines became 332.
    return cast(
        "T", {name: _plain(others[name] if name in others else getattr(source, name)) for name in shape.__annotations__}
    )


def _plain(value: Any) -> Any:
    """Return a value as it is in the JSON: times and durations to the microsecond."""
    # More digits would be noise of the clock.
    match value:
        case float():
            return round(value, 6)
        case Gaps():
            return _data(GapsData, value)
        case Outcome():
            return value.value
        case _:
            return value
