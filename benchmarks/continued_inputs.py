"""An input that `max_tokens` cuts off: to ask for its rest, against doubling `max_tokens` and asking again.

The model writes a file with one call. Its responses are cut after `max_tokens`, at four characters for a token. One
side is a program that doubles `max_tokens` until the input fits. The other one is a run with
`on_truncated="continue_input"`, with and without `max_tokens_cap`. All send real requests to the embedded server.

Nothing is waited for. The seconds are those of a model that starts to write after one second, and writes 80 tokens per
second. A request for the rest has the part that has come among its input, and nothing of that is in a prompt cache. The
cost counts an output token as five of the input, which is the ratio of the prices.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import anyio
from rich.console import Console
from rich.table import Table
from tests.continuing import is_asked, rest_of

import eagerstream
from eagerstream import HTTPTransport, Recording, RunStatus, TextStream
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use

from .targets import Row

SIZES: Final = (4_000, 20_000, 50_000, 100_000, 200_000)
MAX_TOKENS: Final = 4_096
CAP: Final = 64_000
CHARS_PER_TOKEN: Final = 4
TOKENS_PER_S: Final = 80.0
FIRST_BYTE_S: Final = 1.0
OUTPUT_PRICE: Final = 5
PACE: Final = f"without pauses; seconds as for {TOKENS_PER_S:g} tokens per second"
_SYSTEM_TOKENS: Final = 1_000
_REQUEST: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}]}


class Model:
    """Writes one file, and says that it is done.

    Attributes:
        requests: Number of the requests that it has answered for the file.
        written: Characters of its responses.
        read: Characters of the input of the call in their requests.
    """

    def __init__(self, size: int) -> None:
        lines = "".join(f"{number}: a line of the file\n" for number in range(size // 20))
        self.body = lines[:size]
        self._input = {"path": "a.txt", "body": self.body}
        self.requests = 0
        self.written = 0
        self.read = 0

    def __call__(self, request: Mapping[str, Any]) -> Recording:
        messages = request["messages"]
        name, input = "write", self._input
        if asked := is_asked(request):
            seen = messages[-2]["content"][-1]["input"]
            name, input = "continue_input", rest_of(self._input, seen, asked)
            self.read += len(json.dumps(messages[-2])) + len(asked)
        elif len(messages) > 1:
            return reply(text("Done."))
        raw = json.dumps(input)
        part = raw[: request["max_tokens"] * CHARS_PER_TOKEN]
        self.requests += 1
        self.written += len(part)
        is_cut = len(part) < len(raw)
        return reply(tool_use(name, part, fragment_chars=64), stop_reason="max_tokens" if is_cut else "tool_use")


@dataclass
class Side:
    """Requests and tokens that one side has used until the tool had the complete input.

    Attributes:
        requests: Number of requests.
        output_tokens: Tokens that the model has written.
        input_tokens: Tokens that it has read, with 1,000 of everything else in each request.
        done_s: Seconds until the input was complete.
        cost: In tokens of the input.
        calls: Times that the tool was called.
    """

    requests: int
    output_tokens: int
    input_tokens: int
    done_s: float
    cost: int
    calls: int


class Desk:
    """The tool.

    Attributes:
        bodies: What it has got, for each call.
    """

    def __init__(self) -> None:
        self.bodies: list[str] = []

    @eagerstream.tool(idempotent=True)
    async def write(self, path: str, body: TextStream) -> str:
        """Write a file."""
        pieces: list[str] = []
        try:
            pieces.extend([piece async for piece in body])
        finally:
            self.bodies.append("".join(pieces))
        return path


async def _side(side: str, size: int) -> Side:
    model, desk = Model(size), Desk()
    options: dict[str, Any] = {"tools": [desk.write], **_REQUEST}
    with ReplayServer(Scenario.of(model)) as server:
        async with HTTPTransport(base_url=server.base_url) as client:
            if side == "double and ask again":
                max_tokens, status = MAX_TOKENS, RunStatus.TRUNCATED
                while status is RunStatus.TRUNCATED:
                    status = (await eagerstream.run(client, max_tokens=max_tokens, **options)).status
                    max_tokens *= 2
            else:
                options |= {"on_truncated": "continue_input", "max_continuations": 100}
                options |= {"max_tokens_cap": CAP} if side == "continue, with a cap" else {}
                status = (await eagerstream.run(client, max_tokens=MAX_TOKENS, **options)).status
    assert status is RunStatus.COMPLETED
    assert desk.bodies[-1] == model.body
    output, input = (chars // CHARS_PER_TOKEN for chars in (model.written, model.read))
    input += model.requests * _SYSTEM_TOKENS
    seconds = model.requests * FIRST_BYTE_S + output / TOKENS_PER_S
    return Side(model.requests, output, input, seconds, OUTPUT_PRICE * output + input, len(desk.bodies))


SIDES: Final = ("double and ask again", "continue", "continue, with a cap")


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Write each file on each side, print a table, and return the figures."""
    logging.getLogger("eagerstream").setLevel(logging.ERROR)  # cut responses are expected
    table = Table(title=f"a file whose input is cut after each {MAX_TOKENS:,} tokens")
    for name in ("size", "side", "requests", "output tokens", "input tokens", "done", "cost", "calls"):
        table.add_column(name, justify="left" if name == "side" else "right")
    found: dict[str, dict[str, Any]] = {}
    for size in SIZES[:2] if quick else SIZES:
        for side in SIDES:
            figures = anyio.run(partial(_side, side, size))
            found.setdefault(str(size), {})[side] = asdict(figures)
            counts = (figures.requests, figures.output_tokens, figures.input_tokens)
            shown = [f"{count:,}" for count in counts]
            table.add_row(
                f"{size // 1000} KB", side, *shown, f"{figures.done_s:.0f} s", f"{figures.cost:,}", str(figures.calls)
            )
    console.print(table)
    rows = []
    for kept in list(found)[1:]:
        again, best = found[kept][SIDES[0]], found[kept][SIDES[-1]]
        row = Row(
            work=f"seconds until an input of {int(kept) // 1000} KB is complete, cut after {MAX_TOKENS:,} tokens",
            against="doubling `max_tokens` and asking again",
            pace=PACE,
            target="fewer",
            measured=f"{best['done_s'] / again['done_s']:.2f} times: {best['done_s']:.0f} and {again['done_s']:.0f} s;"
            f" {best['output_tokens']:,} and {again['output_tokens']:,} output tokens",
            met=best["done_s"] < again["done_s"],
        )
        rows.append(asdict(row))
    return {"max_tokens": MAX_TOKENS, "cap": CAP, "found": json.loads(json.dumps(found)), "rows": rows}
