"""`RunLatency`: what the marks of a run say. Figures, and JSON.

Everything is computed when it is asked for. Times are seconds since the first request was about to be sent, durations
are seconds; None where something has not happened, or does not apply.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from statistics import quantiles
from typing import Final

from ..streaming._marks import MAX_FIELDS, BlockMarks, FinishedField
from ..wire import ToolInput
from ._latency_baseline import waiting_s
from ._latency_data import BlockData, CallData, GapsData, LatencyData, RequestData
from ._marks import CallMarks, RequestMarks, RunMarks

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Gaps:
    """The gaps between the fragments of an input, or of several; fragments that came together have gaps of 0."""

    count: int
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float

    @classmethod
    def of(cls, gaps_s: Iterable[float]) -> Gaps | None:
        """Of all these; None where there are none."""
        listed = sorted(gaps_s)
        if not listed:
            return None
        cuts = quantiles(listed, n=100, method="inclusive") if len(listed) > 1 else listed * 99
        return cls(len(listed), cuts[49], cuts[89], cuts[98], listed[-1])


class CallLatency:
    """One tool input, and the call that it made.

    Attributes:
        block: The marks of its content block.
    """

    def __init__(self, block: BlockMarks, call: CallMarks | None, request: RequestMarks, origin_s: float) -> None:
        self.block = block
        self._call = call
        self._request = request
        self._origin_s = origin_s

    @property
    def id(self) -> str:
        """The API's id of the call."""
        return self.block.id

    @property
    def name(self) -> str:
        """The tool, as the model wrote it."""
        return self.block.name

    @property
    def is_error(self) -> bool:
        """The call was answered with an error."""
        return self._call is not None and self._call.call.is_error

    @property
    def group(self) -> str | None:
        """Of its tool; calls of one run one after the other."""
        return self._call.group if self._call else None

    @property
    def start_s(self) -> float | None:
        """The block began."""
        return self._since(self.block.start_s)

    @property
    def first_fragment_s(self) -> float | None:
        """The first fragment came."""
        return self._since(self.block.first_fragment_s)

    @property
    def last_fragment_s(self) -> float | None:
        """The last fragment came."""
        return self._since(self.block.last_fragment_s)

    @property
    def stop_s(self) -> float | None:
        """The block was closed."""
        return self._since(self.block.stop_s)

    @property
    def first_field_s(self) -> float | None:
        """The first of its values was finished; the input is parsed up to there."""
        fields = self.block.fields(1)
        return self._since(fields[0].at_s) if fields else None

    def fields(self, maximum: int = MAX_FIELDS) -> list[FinishedField]:
        """When each of its values was finished; see `BlockMarks.fields`."""
        return [FinishedField(path, at_s - self._origin_s) for path, at_s in self.block.fields(maximum)]

    @property
    def gaps(self) -> Gaps | None:
        """Between its fragments; None where there are less than two."""
        return Gaps.of(self.block.gaps_s())

    @property
    def admitted_s(self) -> float | None:
        """The call was given to the executor; from then on it waits for its turn, or for approval."""
        return self._since(self._call.admitted_s) if self._call else None

    @property
    def tool_start_s(self) -> float | None:
        """The tool was called."""
        return self._since(self._call.start_s) if self._call else None

    @property
    def tool_progress_s(self) -> float | None:
        """The tool said for the first time how far it is."""
        return self._since(self._call.progress_s) if self._call else None

    @property
    def tool_end_s(self) -> float | None:
        """The call had its result."""
        return self._since(self._call.end_s) if self._call else None

    @property
    def tool_s(self) -> float | None:
        """How long the tool ran; of one that reads its input while it is written, with its waiting for that."""
        call = self._call
        return None if call is None or call.start_s is None or call.end_s is None else call.end_s - call.start_s

    @property
    def lead_s(self) -> float | None:
        """How long before the end of the reply the tool began; negative where it began after it."""
        end_s = _reply_end_s(self._request)
        call = self._call
        return None if call is None or call.start_s is None or end_s is None else end_s - call.start_s

    @property
    def hidden_s(self) -> float | None:
        """How much of the tool's time passed while the reply was still coming."""
        end_s = _reply_end_s(self._request)
        call = self._call
        if call is None or call.start_s is None or call.end_s is None or end_s is None:
            return None
        return max(0.0, min(call.end_s, end_s) - call.start_s)

    def _since(self, at_s: float | None) -> float | None:
        return None if at_s is None else at_s - self._origin_s


class RequestLatency:
    """One request and its reply.

    Attributes:
        turn: From 1; a request that is sent again has the number of the one before it.
        discarded: It was sent again, and does not count in the figures of the run.
        calls: The inputs of its reply, in their order.
        next_request_s: The next request was about to be sent.
    """

    def __init__(self, marks: RequestMarks, following: RequestMarks | None, run: RunMarks, origin_s: float) -> None:
        self.turn = marks.turn
        self.discarded = marks.discarded
        self._marks = marks
        self._max_concurrency = run.max_concurrency
        self._origin_s = origin_s
        # In one step each, as they may grow in another thread.
        by_input: dict[ToolInput, CallMarks] = {call.call.input: call for call in list(marks.calls.values())}
        blocks = ((block, block.input) for block in list(marks.reply.blocks.values()))
        self.calls = [
            CallLatency(block, by_input.get(input), marks, origin_s) for block, input in blocks if input is not None
        ]
        self.next_request_s = self._since(following.reply.sent_s) if following else None

    @property
    def sent_s(self) -> float | None:
        """It was about to be sent."""
        return self._since(self._marks.reply.sent_s)

    @property
    def headers_s(self) -> float | None:
        """The headers of the reply were there."""
        return self._since(self._marks.reply.headers_s)

    @property
    def first_byte_s(self) -> float | None:
        """The first chunk of the body came."""
        return self._since(self._marks.reply.first_byte_s)

    @property
    def message_start_s(self) -> float | None:
        """The message began."""
        return self._since(self._marks.reply.message_start_s)

    @property
    def message_stop_s(self) -> float | None:
        """The message was whole."""
        return self._since(self._marks.reply.message_stop_s)

    @property
    def end_s(self) -> float | None:
        """Nothing more was read."""
        return self._since(self._marks.reply.end_s)

    @property
    def settled_s(self) -> float | None:
        """Every call had its result: the next request could be sent."""
        return self._since(self._marks.settled_s)

    @property
    def won_s(self) -> float | None:
        """How much earlier the next request could be sent than in a run that waits for the end of the reply, at least.

        That run is computed from the same marks: each tool whose result was sent begins when the message is whole, and
        takes as long as it did; calls of one group run one after the other, and no more run at a time than here. Of a
        tool that began before its input was whole only what it did after that counts; of the time for approval,
        nothing where calls may have waited for a slot in it. None while calls run, and where the reply ended in a way
        in which that run would have run none of them: cut, refused, given up.
        """
        stop_s = _reply_end_s(self._marks)
        if stop_s is None or self._marks.settled_s is None or not self._marks.runs_held:
            return None
        calls = [call for call in self._marks.calls.values() if call.call.in_history]
        waits = len(self._marks.calls) > self._max_concurrency
        return stop_s + waiting_s(calls, self._marks, self._max_concurrency, waits=waits) - self._marks.settled_s

    def _since(self, at_s: float | None) -> float | None:
        return None if at_s is None else at_s - self._origin_s

    def to_dict(self, *, arrivals: bool = False) -> RequestData:
        """As plain data, each block with its finished fields."""
        calls = {call.block.index: call for call in self.calls}
        marks = list(self._marks.reply.blocks.values())
        return {
            "turn": self.turn,
            "discarded": self.discarded,
            "sent_s": _rounded(self.sent_s),
            "headers_s": _rounded(self.headers_s),
            "first_byte_s": _rounded(self.first_byte_s),
            "message_start_s": _rounded(self.message_start_s),
            "message_stop_s": _rounded(self.message_stop_s),
            "end_s": _rounded(self.end_s),
            "settled_s": _rounded(self.settled_s),
            "next_request_s": _rounded(self.next_request_s),
            "won_s": _rounded(self.won_s),
            "blocks": [self._block(block, calls.get(block.index), arrivals=arrivals) for block in marks],
        }

    def _block(self, block: BlockMarks, call: CallLatency | None, *, arrivals: bool) -> BlockData:
        gaps = Gaps.of(block.gaps_s())
        came = block.arrivals() if arrivals else ()
        outcome = block.input.outcome if block.input is not None else None
        return {
            "index": block.index,
            "kind": block.kind,
            "id": block.id,
            "name": block.name,
            "start_s": _rounded(self._since(block.start_s)),
            "first_fragment_s": _rounded(self._since(block.first_fragment_s)),
            "last_fragment_s": _rounded(self._since(block.last_fragment_s)),
            "stop_s": _rounded(self._since(block.stop_s)),
            "fragments": block.fragments,
            "chars": block.chars,
            "gaps": _gaps_data(gaps),
            "arrivals": [(round(at_s - self._origin_s, 6), count, chars) for at_s, count, chars in came],
            "fields": [{"path": [*path], "at_s": round(at_s, 6)} for path, at_s in call.fields()] if call else [],
            "outcome": outcome.value if outcome else None,
            "call": _call_data(call) if call and call.admitted_s is not None else None,
        }


class RunLatency:
    """When what happened in a run, as of now.

    Figures of the whole run leave out requests that were discarded and sent again. Its inputs are looked at when a
    figure about fields is asked for, and stay with this object.

    Attributes:
        model: That was asked.
        eager: How inputs were asked for as they are written: `"field"`, `"header"` or None, see `Run.eager`.
        status: A value of `RunStatus`.
        requests: In the order in which they were sent.
    """

    def __init__(self, marks: RunMarks, *, model: str, eager: str | None, status: str) -> None:
        self.model = model
        self.eager = eager
        self.status = status
        first = marks.requests[0].reply.sent_s if marks.requests else None
        origin_s = first if first is not None else 0.0
        self.requests = [
            RequestLatency(request, following, marks, origin_s)
            for request, following in zip_longest(marks.requests, marks.requests[1:])
        ]

    @property
    def calls(self) -> list[CallLatency]:
        """The inputs of all requests that were not discarded, in their order."""
        return [call for request in self._kept for call in request.calls]

    @property
    def _kept(self) -> Sequence[RequestLatency]:
        return [request for request in self.requests if not request.discarded]

    @property
    def duration_s(self) -> float | None:
        """From the first request to the end of the last reply, or of the last tool where that is later."""
        ends = [end_s for request in self.requests for end_s in (request.end_s, request.settled_s)]
        ends += [call.tool_end_s for request in self.requests for call in request.calls]  # also where it was left
        return max((end_s for end_s in ends if end_s is not None), default=None)

    @property
    def time_to_first_fragment_s(self) -> float | None:
        """From the first request to the first fragment of an input."""
        return _first(call.first_fragment_s for call in self.calls)

    @property
    def time_to_first_field_s(self) -> float | None:
        """From the first request to the first finished value of an input."""
        return _first(call.first_field_s for call in self.calls)

    @property
    def time_to_tool_start_s(self) -> float | None:
        """From the first request to the first tool that was called."""
        return _first(call.tool_start_s for call in self.calls)

    @property
    def fragments(self) -> int:
        """Fragments of all inputs, the empty ones not counted."""
        return sum(call.block.fragments for call in self.calls)

    @property
    def chars(self) -> int:
        """Characters of all inputs."""
        return sum(call.block.chars for call in self.calls)

    @property
    def fragments_per_s(self) -> float | None:
        """Fragments after the first of each input, by the time that they took; None where that is none."""
        return _rate(sum(max(0, call.block.fragments - 1) for call in self.calls), self._writing_s)

    @property
    def chars_per_s(self) -> float | None:
        """Characters after the first arrival of each input, by the time that they took; None where that is none."""
        firsts = (next(call.block.arrivals(), None) for call in self.calls)
        return _rate(self.chars - sum(first.chars for first in firsts if first), self._writing_s)

    @property
    def _writing_s(self) -> float:
        spans = ((call.first_fragment_s, call.last_fragment_s) for call in self.calls)
        return sum(last - first for first, last in spans if first is not None and last is not None)

    @property
    def gaps(self) -> Gaps | None:
        """Between the fragments of each input, all together; None where there are none."""
        return Gaps.of(chain.from_iterable(call.block.gaps_s() for call in self.calls))

    @property
    def tool_s(self) -> float:
        """How long tools ran, all together."""
        return sum(call.tool_s or 0.0 for call in self.calls)

    @property
    def hidden_s(self) -> float:
        """How much of `tool_s` passed while the reply was still coming."""
        return sum(call.hidden_s or 0.0 for call in self.calls)

    @property
    def hidden_share(self) -> float | None:
        """The share of the tools' time that is hidden behind the stream, 0 to 1; None where no tool ran."""
        return self.hidden_s / self.tool_s if self.tool_s else None

    @property
    def won_s(self) -> float:
        """What was won, at least, against a run that waits for the end of each reply; see `RequestLatency.won_s`."""
        return sum(request.won_s or 0.0 for request in self._kept)

    def to_dict(self, *, arrivals: bool = False) -> LatencyData:
        """As plain data; inputs are parsed for their fields, see `BlockMarks.fields`.

        Args:
            arrivals: With every arrival of fragments.
        """
        return {
            "eagerstream_latency": VERSION,
            "model": self.model,
            "eager": self.eager,
            "status": self.status,
            "duration_s": _rounded(self.duration_s),
            "time_to_first_fragment_s": _rounded(self.time_to_first_fragment_s),
            "time_to_first_field_s": _rounded(self.time_to_first_field_s),
            "time_to_tool_start_s": _rounded(self.time_to_tool_start_s),
            "fragments": self.fragments,
            "chars": self.chars,
            "fragments_per_s": _rounded(self.fragments_per_s),
            "chars_per_s": _rounded(self.chars_per_s),
            "gaps": _gaps_data(self.gaps),
            "tool_s": round(self.tool_s, 6),
            "hidden_s": round(self.hidden_s, 6),
            "hidden_share": _rounded(self.hidden_share),
            "won_s": round(self.won_s, 6),
            "requests": [request.to_dict(arrivals=arrivals) for request in self.requests],
        }

    def to_json(self, *, arrivals: bool = False) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict(arrivals=arrivals))


def _reply_end_s(request: RequestMarks) -> float | None:
    """When the reply was whole, or broke off."""
    return request.reply.end_s if request.reply.message_stop_s is None else request.reply.message_stop_s


def _first(times: Iterable[float | None]) -> float | None:
    return min((at_s for at_s in times if at_s is not None), default=None)


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if seconds > 0 else None


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _gaps_data(gaps: Gaps | None) -> GapsData | None:
    if gaps is None:
        return None
    return {
        "count": gaps.count,
        "p50_s": round(gaps.p50_s, 6),
        "p90_s": round(gaps.p90_s, 6),
        "p99_s": round(gaps.p99_s, 6),
        "max_s": round(gaps.max_s, 6),
    }


def _call_data(call: CallLatency) -> CallData:
    return {
        "admitted_s": _rounded(call.admitted_s),
        "start_s": _rounded(call.tool_start_s),
        "progress_s": _rounded(call.tool_progress_s),
        "end_s": _rounded(call.tool_end_s),
        "is_error": call.is_error,
        "group": call.group,
        "lead_s": _rounded(call.lead_s),
        "hidden_s": _rounded(call.hidden_s),
    }
