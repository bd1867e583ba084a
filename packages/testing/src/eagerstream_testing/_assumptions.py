"""The assumptions of the code about the Messages API, as data: `assumptions.json` has the rows.

Each row has a statement, the modules that rest on it, its source and the date of that, a request that shows it, and
what the answer must be. Nobody has asked the API yet: `eagerstream verify --live` does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from eagerstream import model_facts

_BASE: Final[Mapping[str, Any]] = {"max_tokens": 32, "messages": [{"role": "user", "content": "Say hello."}]}
_CHARS_A_TOKEN: Final = 3
_TOKENS_OF_TOOLS: Final = 700  # the API adds a prompt of its own to a request with tools


@dataclass(frozen=True, slots=True)
class Assumption:
    """A row of the table.

    Attributes:
        id: Its name.
        statement: What the API does.
        code: The modules that rest on it.
        source: Where it is stated.
        date: When it was stated there, or read.
        request: The request that shows it: what differs from a greeting with 32 tokens. None leaves a parameter out.
        answer: What the answer must be, see `faults`.
        model: The model that it is about; None for any.
        needs: Facts that the model must have, by their names in the table of models.
        platforms: The platforms that it is about; empty for all.
        to: The method of the client that sends it.
    """

    id: str
    statement: str
    code: Sequence[str]
    source: str
    date: str
    request: Mapping[str, Any]
    answer: Mapping[str, Any]
    model: str | None = None
    needs: Mapping[str, Any] = field(default_factory=dict)
    platforms: Sequence[str] = ()
    to: Literal["create", "count_tokens"] = "create"

    def body(self, model: str) -> dict[str, Any]:
        """Return the parameters of the request."""
        merged = {**_BASE, **self.request, "model": model}
        return {name: value for name, value in merged.items() if value is not None}

    @property
    def tokens(self) -> tuple[int, int]:
        """About how many tokens of the request are billed, and how many of the answer at most."""
        if self.answer["status"] != 200 or self.to == "count_tokens":
            return 0, 0  # a refusal and a count cost nothing
        body = self.body("")
        tools = _TOKENS_OF_TOOLS if body.get("tools") else 0
        return len(json.dumps(body)) // _CHARS_A_TOKEN + tools, body["max_tokens"]

    def unfit_for(self, model: str, platform: str) -> str | None:
        """Return why a model on a platform cannot show it; None if it can."""
        if self.platforms and platform not in self.platforms:
            return f"only for {', '.join(self.platforms)}"
        facts = model_facts(model)
        if self.model is not None and facts is not model_facts(self.model):
            return f"only for {self.model} and the like"
        for name, needed in self.needs.items():
            known = getattr(facts, name, None)
            if known != needed and (not isinstance(known, tuple) or needed not in known):
                return f"only for models with {name} {needed}"
        return None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API.

    Attributes:
        status: The HTTP status.
        said: The error's type and its words; empty if there was none.
        headers: By lower-case name.
        events: The wire events.
        body: The body of an answer that is not streamed.
    """

    status: int
    said: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()
    body: Mapping[str, Any] = field(default_factory=dict)


@cache
def assumption_table() -> Mapping[str, Any]:
    """Return the file: its date, the model to ask, what models cost, and the rows as `Assumption`s."""
    table = json.loads(files(__package__).joinpath("assumptions.json").read_text(encoding="utf-8"))
    return {**table, "assumptions": tuple(Assumption(**row) for row in table["assumptions"])}


def faults(expected: Mapping[str, Any], answer: Answer) -> Iterator[str]:
    """Yield in which ways an answer is not the expected one.

    `expected` has the `status` and, as far as they matter: `says`, a pattern for the words of an error; `headers` and
    `body`, patterns or values by name; `events`, parts of events that come in this order, with others between them;
    `stop_reason`, the possible ones; `calls`, their number; `inputs`, whether those of the calls are `"objects"` or
    `"cut"`; and `text`, `"json"` for one that is JSON.
    """
    if answer.status != expected["status"]:
        yield f"status {answer.status} instead of {expected['status']}{f': {answer.said}' if answer.said else ''}"
        return
    if "says" in expected and re.search(expected["says"], answer.said) is None:
        yield f"other words: {answer.said}"
    for name, value in expected.get("headers", {}).items():
        if not _fits({"matches": value}, answer.headers.get(name)):
            yield f"the header {name} is {answer.headers.get(name)!r}"
    if not _fits(expected.get("body", {}), answer.body):
        yield f"the body is {json.dumps(answer.body)}"
    left = iter(answer.events)
    for part in expected.get("events", ()):
        if not any(_fits(part, event) for event in left):
            yield f"there is no {json.dumps(part)}, or not in this order"
            break
    events = answer.events
    starts = {event["index"]: event["content_block"] for event in events if event["type"] == "content_block_start"}
    deltas = [(event["index"], event["delta"]) for event in events if event["type"] == "content_block_delta"]
    stops = [event["delta"].get("stop_reason") for event in events if event["type"] == "message_delta"]
    calls = [index for index, block in starts.items() if block["type"] == "tool_use"]
    if "stop_reason" in expected and not set(stops) & set(expected["stop_reason"]):
        yield f"the stop reason is {stops[-1] if stops else None!r}"
    if "calls" in expected and len(calls) != expected["calls"]:
        yield f"there are {len(calls)} calls"
    if "inputs" in expected:
        texts = ["".join(delta.get("partial_json", "") for at, delta in deltas if at == index) for index in calls]
        kinds = {"objects" if isinstance(_json(text), dict) else "cut" for text in texts}
        if kinds != {expected["inputs"]}:
            yield f"the inputs are {', '.join(sorted(kinds)) or 'none'}: {json.dumps(texts):.200}"
    if expected.get("text") == "json":
        text = "".join(delta.get("text", "") for _, delta in deltas)
        if _json(text) is None:
            yield f"the text is no JSON: {text!r:.200}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _fits(part: Any, value: Any) -> bool:
    """Return True if a value has a part: the same value, an object with more members, or a text that matches."""
    if isinstance(part, Mapping):
        if part.keys() == {"matches"}:
            return value is not None and re.fullmatch(part["matches"], str(value)) is not None
        return isinstance(value, Mapping) and all(name in value and _fits(part[name], value[name]) for name in part)
    return bool(part == value)
