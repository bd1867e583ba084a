"""Histories that were mangled at random: each repair satisfies the API's rules, and loses no result."""

from __future__ import annotations

import copy
import json
import random
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

from hypothesis import given, strategies as st
from packages.wire.tests.test_history import assistant, user
from packages.wire.tests.test_repair import ASK, answer, call, found, merged, searched, text, thinking
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from tests import api_rules
from tests.tables import rows

from eagerstream_wire import repair_history, validate_history

Messages = list[Any]
_ODD_ROLES = ("user", "assistant", "system", "tool", None, 5)
_ODD = {
    "type": (None, 5),
    "id": (None, "", "a b", "toolu_1", 7),
    "tool_use_id": (None, "", "a b", "toolu_1", 7),
    "name": (None, "", "x" * 300, "a b"),
    "input": (None, "{", '{"a": 1}', [1]),
    "text": (None, "", "  ", 5),
    "thinking": (None, ""),
}


def _to_json(value: object) -> Any:
    """The value as pydantic sees it, as in the results of tools."""
    return to_jsonable_python(value, inf_nan_mode="null")


def legal(choose: random.Random) -> Messages:
    """Return a legal history; each result in it has a mark of its own."""
    numbers = iter(range(1_000))
    messages: Messages = [copy.deepcopy(ASK)]
    for _ in range(choose.randint(1, 4)):
        content = [thinking()] if choose.random() < 0.3 else []
        if choose.random() < 0.3:
            number = next(numbers)
            content += [searched(f"srvtoolu_{number}"), found(f"srvtoolu_{number}", [text(f"mark-{number}.")])]
        ids = [f"toolu_{next(numbers)}" for _ in range(choose.randint(0, 3))]
        content += [text("So."), *(call(id, input={"id": id}) for id in ids)]
        messages.append(assistant(*content))
        results = [answer(id, choose.choice([f"mark-{id}.", [text(f"mark-{id}.")]])) for id in ids]
        messages.append(user(*results, *([text("And?")] if not ids or choose.random() < 0.3 else [])))
    return [*messages, assistant(text("Done."))]


def mangle(messages: Messages, choose: random.Random) -> None:
    """Do one thing to a history that a program might do by mistake."""
    if not messages:
        return
    place = choose.randrange(len(messages))
    message = messages[place]
    blocks = message["content"] if isinstance(message["content"], list) else []
    match choose.randrange(8):
        case 0:
            del messages[place]
        case 1:
            messages.insert(choose.randrange(len(messages) + 1), copy.deepcopy(message))
        case 2:
            messages.insert(choose.randrange(len(messages)), messages.pop(place))
        case 3:
            message["role"] = choose.choice(_ODD_ROLES)
        case _ if not blocks:
            pass
        case 4:
            del blocks[choose.randrange(len(blocks))]
        case 5:
            other = choose.choice(messages)["content"]
            if isinstance(other, list):
                other.insert(choose.randrange(len(other) + 1), copy.deepcopy(choose.choice(blocks)))
        case 6:
            other = choose.choice(messages)["content"]
            if isinstance(other, list):
                other.insert(choose.randrange(len(other) + 1), blocks.pop(choose.randrange(len(blocks))))
        case _:
            block = choose.choice(blocks)
            field = choose.choice([name for name in block if name in _ODD] or ["type"])
            block[field] = choose.choice(_ODD[field])


def check(seed: int) -> None:
    choose = random.Random(seed)
    messages = legal(choose)
    assert repair_history(messages) == (messages, [])
    for _ in range(choose.randint(1, 6)):
        mangle(messages, choose)
    if not messages:
        return
    before = copy.deepcopy(messages)
    kept, repairs = repair_history(messages)
    assert messages == before, "the given history was changed"
    if not kept:
        return
    assert validate_history(kept, first_party=True) == []
    # The API combines messages of one role, so empty ones beside others are legal, and the last one may be empty.
    whole = merged([message for message in kept if message["content"]])
    whole = [{**message, "content": _with_signatures(message["content"])} for message in whole]
    if repairs:  # nothing is changed for the sake of rules that `validate_history` does not know
        assert api_rules.check(whole) == []
    assert repair_history(kept) == (kept, [])
    said = json.dumps(kept)
    lost = {mark for mark in re.findall(r"mark-\w+\.", json.dumps(before)) if mark not in said}
    assert not lost, f"lost {lost}"
    assert bool(repairs) == (kept != messages)


def _with_signatures(blocks: Any) -> Any:
    """Return the blocks with the signature that the API takes back although it is empty."""
    return [{**block, "signature": "c2ln"} if block["type"] == "thinking" else block for block in blocks]


@given(st.integers(0, 2**32))
def test_mangled_histories(seed: int) -> None:
    check(seed)


class _Given(BaseModel):
    city: str


@dataclass
class _Kept:
    city: str
    days: set[int]


class _Unit(Enum):
    CELSIUS = "celsius"


_FORMS: tuple[object, ...] = (
    *(
        _Given(city="Rome"),
        _Kept("Rome", {1}),
        _Unit.CELSIUS,
        date(2026, 5, 1),
        datetime(2026, 5, 1, 10, tzinfo=UTC),
        UUID(int=7),
    ),
    *({1}, (1, 2), b"text", Path("a/b"), Decimal("1.5"), float("nan"), float("inf")),
)


@rows("value", _FORMS)
def test_values_of_python_have_the_form_that_results_give_them(value: object) -> None:
    """In an input that is no object, and in a result whose call is lost: whatever a program has put there."""
    for put in (value, {"value": value}, [value]):
        history = [ASK, assistant(call("a", input=[put])), user(answer("a", "done"))]
        repaired, _ = repair_history(history)
        assert repaired[1]["content"][0]["input"] == {"INVALID_JSON": json.dumps([_to_json(put)])}


@rows("value", (_Given(city="Rome"), _Kept("Rome", {1})))
def test_an_object_as_an_input_stays_one(value: object) -> None:
    """A program may keep the model that it has read the input into."""
    repaired, repairs = repair_history([ASK, assistant(call("a", input=value)), user(answer("a", "done"))])
    assert repaired[1]["content"][0]["input"] == _to_json(value)
    assert repairs
