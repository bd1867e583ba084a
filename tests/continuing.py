"""A model that is cut off while it writes the input of a call, and writes the rest of it when it is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eagerstream.loop._cut_input import CutInput
from eagerstream.recordings import Recording
from eagerstream_testing import reply, text
from eagerstream_wire import InputAccumulator
from eagerstream_wire._values import find
from tests import api_rules
from tests.streams import MESSAGE_STOP, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Broken, Exchange, LocalAPI, Piece, refused

_TEXT = re.compile(r"text at (.+?)(?:\. Begin|, from its beginning)")
_LAST = re.compile(r"<last>(.*)</last>", re.DOTALL)
_REST = re.compile(r"^\d+\. (?:an object|a list) .*? of (.+?) that are still missing", re.MULTILINE)
_STEP = re.compile(r'\[(\d+|"(?:[^"\\]|\\.)*")\]|[^.\[]+')


def is_asked(request: Mapping[str, Any]) -> str:
    """The text that asks for the rest of an input; an empty one if a request does not."""
    content = request["messages"][-1]["content"]
    last = content[-1] if isinstance(content, list) else {}
    told = last.get("content") if last.get("type") == "tool_result" else ""
    return told if isinstance(told, str) and "continue_input" in told else ""


def rest_of(whole: Any, seen: Any, asked: str) -> dict[str, Any]:
    """The input of `continue_input` of a model that does as it is asked.

    Args:
        whole: The input that it has in mind.
        seen: The part of it that it gets back.
        asked: The text of the request.
    """
    written = ""
    if (place := _TEXT.search(asked)) is not None:
        written = find(whole, _steps(place[1]))
        if (last := _LAST.search(asked)) is not None:
            written = written[written.index(last[1]) :]
    rest: list[Any] = []
    for name in _REST.findall(asked):
        path = () if name == "the call (its parameters)" else _steps(name)
        all_of_it, has = find(whole, path), find(seen, path)
        if isinstance(all_of_it, dict):
            rest.append({key: value for key, value in all_of_it.items() if key not in has})
        else:
            rest.append(all_of_it[len(has) :])
    return {"text": written, "rest": rest}


def _steps(place: str) -> tuple[str | int, ...]:
    return tuple(json.loads(found[1]) if found[1] else found[0] for found in _STEP.finditer(place))


def cut_input(raw: str) -> CutInput | None:
    """The state of an input of which this has come."""
    accumulator = InputAccumulator()
    accumulator.feed(tool_start(0, "write"))
    accumulator.feed(input_delta(0, raw))
    return CutInput.of(accumulator.inputs[0])


class CutModel(LocalAPI):
    """Calls a tool once, and then says that it is done. Its responses are cut as a test says.

    Args:
        input: The input of the call.
        cuts: For each response that writes a part of the input, the number of characters after which it is cut, and
            True for a lost connection instead of `max_tokens`. Further responses are whole.
        name: The name of the tool.
        before: Blocks before the call, as events.
        misbehaves: Changes the input of `continue_input`.
    """

    def __init__(
        self,
        input: Mapping[str, Any],
        *cuts: tuple[int, bool],
        name: str = "write",
        before: Sequence[Piece] = (),
        misbehaves: Callable[[dict[str, Any]], Any] = lambda input: input,
        dumps: Callable[[Any], str] = json.dumps,
    ) -> None:
        super().__init__()
        self.asked: list[str] = []
        """The requests for the rest."""
        self._input = input
        self._cuts = cuts
        self._name = name
        self._before = before
        self._misbehaves = misbehaves
        self._dumps = dumps
        self._written = 0

    def body_for(self, exchange: Exchange) -> Sequence[Piece] | Recording:
        """The response to a request, if the API accepts it."""
        if faults := api_rules.check_request(exchange.body):
            return refused(faults)
        messages = exchange.body["messages"]
        last = messages[-1]["content"]
        if isinstance(last, str) or last[-1]["type"] != "tool_result":
            return self._cut(self._name, self._dumps(self._input), self._before)
        if asked := is_asked(exchange.body):
            self.asked.append(asked)
            answer = rest_of(self._input, messages[-2]["content"][-1]["input"], asked)
            return self._cut("continue_input", self._dumps(self._misbehaves(answer)), [])
        return reply(text("Done."))

    def _cut(self, name: str, raw: str, before: Sequence[Piece]) -> Sequence[Piece]:
        chars, is_lost = self._cuts[self._written] if self._written < len(self._cuts) else (len(raw), False)
        self._written += 1
        index = sum(type(event) is dict and event["type"] == "content_block_start" for event in before)
        pieces = [input_delta(index, raw[at : min(at + 7, chars)]) for at in range(0, min(chars, len(raw)), 7)]
        usage = {"input_tokens": 100, "output_tokens": 10}
        start = [message_start(usage=usage), *before, tool_start(index, name, id=f"toolu_{self._written}"), *pieces]
        if chars < len(raw) and is_lost:
            return [*start, Broken()]
        reason = "max_tokens" if chars < len(raw) else "tool_use"
        return [*start, block_stop(index), message_delta(reason, output_tokens=chars), MESSAGE_STOP]


def called(name: str, input: Mapping[str, Any], index: int = 0) -> list[Piece]:
    """The events of another call."""
    return [
        tool_start(index, name, id=f"toolu_other_{index}"),
        input_delta(index, json.dumps(input)),
        block_stop(index),
    ]
