"""`latency_of`: the figures of a run from its records, also of one that several processes drove."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from eagerstream import InputStart, MessageAssembler, WireEvent
from eagerstream.inputs import GrowingInput
from eagerstream.loop import RequestMarks, RunLatency, RunMarks
from eagerstream.streaming import BlockMarks, ReplyMarks
from eagerstream.tools import ToolCall

from ._merge import DELTA_TEXTS
from ._record import Record


def latency_of(records: Iterable[Record]) -> RunLatency:
    """Return the figures of a run, as `Run.latency` has them. O(length).

    For a run that was resumed, see `join_records`: the requests of all processes count, and a gap in no figure. A
    request that was sent again after a gap counts as discarded. If its response was restored instead, its own times
    count. Records lack the times of headers and the sizes of requests. Use unmerged records: in a merged one, all
    fragments of an input came at once.
    """
    reader = _Reader()
    for record in records:
        reader.feed(record)
    return RunLatency(reader.marks, model=reader.model, eager=None, status=reader.status)


class _Reader:
    """Makes the marks of a run from its records."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self.marks = RunMarks(clock=self._clock)
        self.model = ""
        self.status = "running"
        self._turn = 0
        self._message_ids: list[str] = []  # of the requests
        self._assembler: MessageAssembler[GrowingInput] = MessageAssembler(input_type=GrowingInput)
        self._inputs: dict[int, GrowingInput] = {}  # by block
        self._calls: dict[int, ToolCall] = {}
        self._blocks: dict[int, BlockMarks] = {}  # those that are no calls

    def _clock(self) -> float:
        return self._now_s

    def feed(self, record: Record) -> None:
        """Take the next record."""
        self._now_s = record["at_s"]
        fields = cast("dict[str, Any]", record)
        match record["type"]:
            case "run_start":
                self.model = record["model"] or ""
            case "run_resumed":
                self.marks.resumed_s.append(self._now_s)
                if self.marks.requests and self.marks.requests[-1].settled_s is None:
                    self._reply.ended()
                    self.marks.requests[-1].discarded = True
            case "turn_start":
                self._turn = record["turn"]
                self._send()
            case "message_start":
                self._start_message(record["id"], record["model"])
            case "message_stop":
                self._reply.message_stop_s = self._now_s
                self._reply.ended()
            case "turn_stop":
                self._reply.ended()
                self.marks.settle(runs_held=record["error"] is None)
            case "restarted":
                self._reply.ended()
                self.marks.requests[-1].discarded = True
            case "run_stop":
                self.status = record["status"]
            case _ if "block" in fields:
                self._feed_block(fields)
            case _:
                pass

    # --- requests -----------------------------------------------------------------------------------------------------

    @property
    def _reply(self) -> ReplyMarks:
        if not self.marks.requests:
            self._send()
        return self.marks.requests[-1].reply

    def _send(self) -> None:
        reply = ReplyMarks(self._clock)
        reply.sending({})
        self.marks.requests.append(RequestMarks(self._turn, reply))
        self._message_ids.append("")

    def _start_message(self, id: str, model: str) -> None:
        if self._reply.end_s is not None:
            self._send()  # again, after a restart
        self.model = self.model or model
        self._message_ids[-1] = id
        # A response that was restored after a gap came in the process before: the times of its parts are there.
        if id and self.marks.resumed_s and id in self._message_ids[:-1]:
            self.marks.requests[self._message_ids.index(id)].discarded = False
            self.marks.requests[-1].discarded = True
        self._assembler = MessageAssembler(input_type=GrowingInput)
        message: Any = {"id": id, "type": "message", "role": "assistant", "model": model, "content": [], "usage": {}}
        self._reply.take(self._assembler.feed({"type": "message_start", "message": message}))

    # --- blocks and calls ---------------------------------------------------------------------------------------------

    def _feed_block(self, fields: dict[str, Any]) -> None:
        block, kind = fields["block"], fields["type"]
        if kind == "input_start":
            given = {name: fields[name] for name in ("id", "name")} | {"type": fields["kind"]}
            whole = {"input": fields["input"] or {}}
            self._take({"type": "content_block_start", "index": fields["index"], "content_block": given | whole}, block)
        elif kind == "block_start":
            opened = BlockMarks(fields["index"], {"type": fields["kind"]}, self._now_s)
            self._blocks[block] = self._reply.blocks[fields["index"]] = opened
        elif block in self._blocks:
            marks = self._blocks[block]
            if kind == "block_stop":
                marks.stop_s = self._now_s
            elif (name := DELTA_TEXTS.get(kind)) is not None:
                chars = len(fields[name]) + fields.get("omitted_chars", 0)
                marks.reached(self._now_s, marks.fragments + fields.get("count", 1), marks.chars + chars)
        elif (input := self._inputs.get(block)) is None:
            pass
        elif kind == "input_delta" and not fields.get("omitted_chars"):
            input.fragments += fields.get("count", 1) - 1
            delta = {"type": "input_json_delta", "partial_json": fields["fragment"]}
            self._take({"type": "content_block_delta", "index": input.index, "delta": delta})
        elif kind == "input_stop":
            self._take({"type": "content_block_stop", "index": input.index})
        else:
            call, calls = self._calls[block], self.marks.requests[-1].calls
            if kind in ("approval_start", "tool_start", "tool_stop") and call not in calls:
                self.marks.call_admitted(call)
            if kind == "approval_start":
                calls[call].approved = True
            elif kind == "tool_start":
                self.marks.call_started(call)
            elif kind == "tool_progress" and call in calls:
                self.marks.call_progressed(call, None)
            elif kind == "tool_stop":
                call.in_history = True
                call.result = {"type": "tool_result", "tool_use_id": call.id, "is_error": fields["is_error"]}
                self.marks.call_ended(call)

    def _take(self, event: WireEvent, block: int | None = None) -> None:
        events = self._assembler.feed(event)
        if block is not None:
            for made in events:
                if isinstance(made, InputStart):
                    self._inputs[block] = made.input
                    self._calls[block] = ToolCall(made.input, self._turn)
        self._reply.take(events)
