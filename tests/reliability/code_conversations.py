"""Conversations with code among their calls, and a check of what the model was told about that code."""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from typing import Any, Final

import anyio.lowlevel

import eagerstream
from eagerstream import RunningCall, Tool
from eagerstream._support.bodies import body_events
from eagerstream.tools import ToolCall
from eagerstream_testing import Timing, reply, retime, text, tool_use
from eagerstream_toolkit import CodeTool
from eagerstream_wire import WireEvent

CODE: Final = """\
await mark(1)
print("one")
for n in range(2):
    await mark(10 + n)
x = {
    "two": await mark(2),
}
if x:
    await mark(3)
else:
    await mark(4)
await mark(5); print("five")
# the end
x["two"]
"""
"""Statements of several kinds. Most have an effect or an output, so one that runs twice or in part shows."""

FIRST: Final = retime(
    reply(
        text("Let me see to it.", fragment_chars=9),
        tool_use("pay", {"amount": 120}, fragment_chars=12),
        tool_use("run_code", {"code": CODE}, fragment_chars=12),
        tool_use("pay", {"amount": 80}, fragment_chars=12),
    ),
    Timing.instant(),
)
"""The reply that breaks, each event in a chunk of its own."""

FIRST_EVENTS: Final[list[WireEvent]] = [each.data for each in body_events(FIRST.body)]


SECOND: Final = 7
"""The first mark of the code under a repeated key. The tool gets that code if it starts to read after both came."""


class CodeWorld:
    """The effects of one conversation, outside of the interpreter.

    Args:
        options: Those of the `CodeTool`.

    Attributes:
        marks: The id of the call of `run_code` and the number, for each call of `mark`.
        paid: The amounts.
    """

    def __init__(self, **options: Any) -> None:
        self.marks: list[tuple[str, int]] = []
        self.paid: list[int] = []

        @eagerstream.tool
        async def mark(n: int, call: RunningCall) -> int:
            """Leave a mark."""
            self.marks.append((call.id.rpartition("_")[0], n))
            self.marked()
            await anyio.lowlevel.checkpoint()
            return n

        @eagerstream.tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return "paid"

        self._tools: list[Tool] = [CodeTool([mark], **options), pay]

    def tools(self) -> list[Tool]:
        """The tools of the conversation: one of them runs code, which calls `mark`."""
        return self._tools

    def marked(self) -> None:
        """Do something at a mark."""

    def check(self, calls: Sequence[ToolCall]) -> None:
        """Check what the model was told about the code against what happened.

        The statements that it was told to have run are complete ones of the code that arrived, and their effects are
        there, once. Further effects are those of the one statement that it was told to have begun.
        """
        assert len(self.paid) == len({*self.paid}), "paid twice"
        codes = [call for call in calls if call.name == "run_code"]
        ids = {id for id, _ in self.marks}
        assert ids <= {call.id for call in codes}
        assert len(ids) <= 1, "the code ran for two calls"
        for call in codes:
            try:
                _check(call, [n for id, n in self.marks if id == call.id])
            except AssertionError as error:
                error.add_note(f"{self.marks}\n{call.text}\n{call.input.partial}")
                raise


def _check(call: ToolCall, marks: list[int]) -> None:
    lines = code_of(call, marks).splitlines(keepends=True)
    last = began = 0
    if not call.is_error:
        last = len(lines)
    elif ran := re.search(r"Lines? (?:\d+ to )?(\d+) ran, and the effects stay", call.text):
        last = int(ran[1])
    else:
        assert not call.ran or "No statement ran to its end." in call.text
    if found := re.search(r"Lines? (?:\d+ to )?(\d+) began and did not finish", call.text):
        began = int(found[1])
    wanted, output = effects_of("".join(lines[:last]))
    assert marks[: len(wanted)] == wanted, "something that the model was told to have run did not"
    assert output.rstrip("\n") in call.text  # a result has no line feed at its end
    possible, _ = effects_of("".join(lines[: max(last, began)]))
    assert marks == possible[: len(marks)], "more ran than the model was told"


def code_of(call: ToolCall, marks: list[int]) -> str:
    """Return the code that the tool got. If the key was repeated, it is the first one, unless the second one ran."""
    first, key, _ = call.input.raw.partition('", "code": "')
    if key and marks[:1] != [SECOND]:
        with suppress(ValueError):  # the quotes were within the code, or before it
            return str(json.loads(f'{first}"}}')["code"])
    return str((call.input.partial or {}).get("code", ""))


def effects_of(code: str) -> tuple[list[int], str]:
    """Return the marks and the output of complete statements, up to an exception.

    Raises:
        SyntaxError: They are not complete.
    """
    marks: list[int] = []

    async def mark(n: int) -> int:
        assert isinstance(n, int)  # as the tool demands
        marks.append(n)
        return n

    variables: dict[str, Any] = {"mark": mark}
    compiled = compile(code, "code", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with redirect_stdout(io.StringIO()) as output, suppress(Exception):
        running = eval(compiled, variables)
        if running is not None:
            with suppress(StopIteration):
                running.send(None)
    return marks, output.getvalue()
