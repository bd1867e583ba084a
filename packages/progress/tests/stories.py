"""Records of runs that never were: written by hand, and drawn at random."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from tests.streams import cuts_of

from eagerstream_progress.vercel._values import MAX_DEPTH


class Story:
    """Records of one run, written short. Blocks are numbered by the story, as in a run."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.blocks = 0
        self.turns = 0
        self.add("run_start", run="run1", started_at="2026-01-01T00:00:00Z", name=None, model="claude-made-1")

    def add(self, type: str, **fields: Any) -> Story:
        seq = len(self.records) + 1
        self.records.append({"v": 1, "seq": seq, "at_s": seq / 10, "type": type, **fields})
        return self

    def turn(self) -> Story:
        self.turns += 1
        return self.add("turn_start", turn=self.turns).message()

    def message(self, *, restarted: bool = False) -> Story:
        return self.add("message_start", id=f"msg_{self.turns}", model="claude-made-1", restarted=restarted)

    def block(self) -> int:
        self.blocks += 1
        return self.blocks

    def text(self, *pieces: str, ends: bool = True, **content: Any) -> Story:
        block = self.block()
        self.add("block_start", block=block, index=0, kind="text")
        for piece in pieces:
            self.add("text_delta", block=block, text=piece)
        return self.add("block_stop", block=block, content={"type": "text", **content}) if ends else self

    def input(self, name: str = "book", id: str = "", kind: str = "tool_use", input: Any = None) -> int:
        block = self.block()
        self.add("input_start", block=block, index=0, id=id or f"toolu_{block}", name=name, kind=kind, input=input)
        return block

    def fragments(self, block: int, *fragments: str) -> Story:
        for fragment in fragments:
            self.add("input_delta", block=block, fragment=fragment, patch=[], finished=[])
        return self

    def stop(self, block: int, outcome: str = "valid", error: str | None = None) -> Story:
        return self.add("input_stop", block=block, outcome=outcome, error=error)

    def call(self, raw: str = '{"a":1}', name: str = "book", **fields: Any) -> int:
        block = self.input(name, **fields)
        self.fragments(block, raw).stop(block)
        return block

    def search(self) -> int:
        """A call that the API runs."""
        return self.call("{}", "web_search", id="srvtoolu_1", kind="server_tool_use")

    def found(self, *content: Any, id: str = "srvtoolu_1", **fields: Any) -> Story:
        """The result of such a call."""
        block = {"type": "web_search_tool_result", "tool_use_id": id, "content": [*content], **fields}
        return self.add("block_stop", block=self.block(), content=block)

    def result(self, block: int, content: Any = "done", *, is_error: bool = False, ran: bool = True) -> Story:
        return self.add("tool_stop", block=block, ran=ran, is_error=is_error, content=content)

    def turn_stop(self, error: Any = None) -> Story:
        return self.add("turn_stop", turn=self.turns, error=error)

    def restart(self) -> Story:
        return self.add("restarted", turn=self.turns, reason="interrupted", delay_s=0.1, error=None)

    def end(self, status: str = "completed", error: Any = None) -> Story:
        return self.add("run_stop", status=status, turns=self.turns, usage={"output_tokens": 9}, error=error)


HOSTILE: list[Any] = [
    {"__proto__": {"x": 1}},
    {"a": [{"constructor": {"prototype": 1}}]},
    json.loads('{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH),
    {"a": json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)},
    {"\ud800": "\udfff", '"__proto__":': '"__proto__":'},
]
"""Values that a JSON reader of a page may stumble over."""

_OBJECTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2).map(json.dumps)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Runs in which anything may be cut anywhere, tools end when they like, and turns begin anew."""
    story = Story()
    for _ in range(draw(st.integers(0, 3))):
        story.turn()
        waiting: list[int] = []
        for _ in range(draw(st.integers(0, 6))):
            kind = draw(
                st.sampled_from(["text", "call", "open", "server", "result", "progress", "ask", "restart", "bad"])
            )
            if kind == "text":
                story.text(draw(st.text(max_size=3)), ends=draw(st.booleans()))
            elif kind in ("call", "open", "bad"):
                block = story.input(id=draw(st.sampled_from(["", "toolu_same"])))
                story.fragments(block, *draw(_OBJECTS.flatmap(cuts_of)))
                if kind != "open":
                    story.stop(block, *(("valid",) if kind == "call" else ("invalid", "bad")))
                waiting.append(block)
            elif kind == "server":
                story.call("{}", "web_search", id=f"srvtoolu_{story.blocks}", kind="server_tool_use")
                if draw(st.booleans()):
                    story.found(id=f"srvtoolu_{story.blocks - 1}")
            elif kind == "restart":
                story.restart().message(restarted=True)
                waiting.clear()
            elif waiting:
                block = draw(st.sampled_from(waiting))
                if kind == "result":
                    story.result(block, draw(st.text(max_size=3)), is_error=draw(st.booleans()))
                    waiting.remove(block)
                elif kind == "progress":
                    story.add("tool_progress", block=block, value=draw(st.text(max_size=2)))
                else:
                    story.add("approval_start", block=block)
                    approved = draw(st.sampled_from([True, False, None]))
                    if approved is not None:
                        story.add("approval_stop", block=block, approved=approved, reason=None)
        if draw(st.booleans()):
            story.turn_stop(draw(st.sampled_from([None, {"type": "APIError", "text": "x"}])))
    statuses = ["completed", "error", "cancelled", None]
    if (status := draw(st.sampled_from(statuses))) is not None:
        story.end(status)
    return story
