"""What a trace says of a payload: anything has a form, within bounds, and secrets are not in it."""

from __future__ import annotations

import json
import re
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import rows

from eagerstream_compat.helloagents import _trace
from eagerstream_compat.helloagents._trace import dump, plain, without_homes


def sanitized(value: Any) -> Any:
    """What a trace has of it."""
    return plain(value, masks=True)


class Colour(Enum):
    RED = 1


class Word(StrEnum):
    YES = "yes"


class Number(IntEnum):
    TWO = 2


class Rude:
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class RudeText(str):
    """A text that fails wherever it is asked."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")


class RudeMapping(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no")


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
DEEP: Any = []
for _ in range(200_000):
    DEEP = [DEEP]


FORMS: list[tuple[Any, Any]] = [
    ({"a": [1, 2.5, None, True, "ü"]}, {"a": [1, 2.5, None, True, "ü"]}),
    (Word.YES, "yes"),
    (Number.TWO, 2),
    (Colour.RED, "Colour.RED"),
    (float("nan"), "NaN"),
    ([float("inf"), -float("inf")], ["Infinity", "-Infinity"]),
    (10**5000, "<int>"),
    (CYCLE, "<list>"),
    (DEEP, "<list>"),
    (MappingProxyType({"a": 1}), {"a": 1}),
    (b"ab", "b'ab'"),
    (Rude(), "<Rude>"),
    ({Rude(): 1, 2: "a"}, {"2": "a"}),
    ({"half": "\ud83d"}, {"half": "\ud83d"}),
    (RudeText("text"), "text"),
    ({"of": RudeMapping(a=1)}, "<dict>"),
    ("x" * 65_539, "x" * 65_536 + "... (3 characters left out)"),
    ({3}, [3]),
    (ValueError("why"), "why"),
]


@rows("value, shown", FORMS)
def test_forms(value: Any, shown: Any) -> None:
    """What each thing becomes."""
    assert plain(value, masks=False) == shown


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.builds(Rude),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()) | st.integers(), inner) | st.tuples(inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(ANYTHING)
def test_anything_is_a_line_of_json(value: Any) -> None:
    """Whatever it is: UTF-8 has it, a strict parser reads it, and no reader of lines takes it for more than one."""
    for masks in (False, True):
        line = dump(plain(value, masks=masks))
        line.encode()
        assert len(line.splitlines()) == 1
        json.loads(line, parse_constant=pytest.fail)


@pytest.mark.slow
@given(
    st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("ab é"), st.lists, max_leaves=20)
)
def test_plain_json_stays(value: Any) -> None:
    """What is JSON already, and within bounds, stays what it is."""
    assert plain(value, masks=False) == value


# --- secrets ----------------------------------------------------------------------------------------------------------

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4fw"


@rows(
    "text, secret",
    [
        ("key sk-ant-api03-AbC_dEf-123 end", "AbC_dEf-123"),
        (f"Authorization: Bearer {JWT}", "SflKxwRJSMeKKF2QT4fw"),
        ("Bearer a.b.c9", "a.b.c9"),
        ("Bearer \n secret", "secret"),
        ("key sk-1234567890abcdef", "1234567890abcdef"),
        ("sk-short", "short"),
        (JWT, "eyJzdWIiOiIxMjM0In0"),
        ("x-api-key: abcdef12345", "abcdef12345"),
        ('{"x-api-key": "abcdef12345"}', "abcdef12345"),
        ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
        ("open /home/bob/notes.txt", "bob"),
        ("open /Users/bob/notes.txt", "bob"),
        (r"open C:\Users\Bob Ross\notes.txt", "Bob"),
        (r"open C:\Users\Bob Ross\notes.txt", "Ross"),
        (r'{"path": "c:\\users\\bob\\notes.txt"}', "bob"),
        ("/home/bob", "bob"),
    ],
)
def test_secrets_are_masked(text: str, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their form, in any place of a payload: the whole of them, keys of mappings too; and a second time alike."""
    monkeypatch.setattr(_trace, "MAX_TEXT_CHARS", 500)
    shown = sanitized({"text": text, "list": [{"deep": (text,)}], text: 1})
    assert secret not in dump(shown)
    assert secret not in dump(sanitized(text + " " + "x" * 10**4))
    assert secret in dump(plain(text, masks=False))  # what is masked is the secret, and not all
    assert sanitized(shown) == json.loads(dump(shown))


@rows("name", ["x-api-key", "API_KEY", "password", "Authorization", "client_secret", "set-cookie"])
def test_secrets_by_the_name_of_their_field(name: str) -> None:
    """Whatever they look like; beside them nothing is masked."""
    shown = sanitized({"args": {name: "hunter2", "city": "Oslo"}, "headers": [(name, "hunter2")]})
    assert "hunter2" not in dump(shown)
    assert "Oslo" in dump(shown)


@given(st.text(st.sampled_from('sk-Bear /homeUsrsC:\\x1."\n'), max_size=60))
def test_no_less_is_masked_than_before(text: str) -> None:
    """What HelloAgents' patterns find at the beginning of a word is gone; masked once more it is the same."""
    shown = str(sanitized(text))
    assert not re.search(r"(?<![A-Za-z0-9])(?:sk-[a-zA-Z0-9]|Bearer\s+[a-zA-Z0-9_-])", shown)
    assert not re.search(r"(/Users/|/home/)(?!\*\*\*)[^/\\\s:\"]", shown)
    assert sanitized(shown) == shown


def test_what_is_no_secret_stays() -> None:
    """What a trace is read for."""
    told = {"usage": {"total_tokens": 7, "input_tokens": 5, "cost": 0.1}, "tool_name": "get_token", "path": "/usr/bin"}
    assert sanitized(told) == told


@rows(
    "before, secret",
    [
        ("Bearer ", JWT),
        ("", JWT),
        ("", "AKIAIOSFODNN7EXAMPLE"),
        ("", "sk-proj-abcdefghij0123456789"),
        ("password=", "hunter2" * 500),
    ],
)
def test_a_secret_at_the_cut(before: str, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is cut in the middle of a key: what stays of the key is masked, too."""
    monkeypatch.setattr(_trace, "MAX_TEXT_CHARS", 4_000)
    for inside in (4, len(secret) - 1):
        text = " " * (_trace.MAX_TEXT_CHARS - inside - len(before)) + before + secret + " " * 10**4
        assert len(text) > _trace.MAX_TEXT_CHARS
        shown = str(sanitized(text)).strip()
        assert not any(secret[at : at + 4] in shown for at in range(len(secret) - 3))


@rows(
    "text",
    [
        "/home/" * 30_000,
        "C:\\" + "\\" * 150_000,
        "C:\\Users\\" * 15_000,
        "c:\\users\\" + "a b" * 50_000,
        "/Users/" + "a" * 150_000,
    ],
)
def test_homes_in_hostile_texts(text: str) -> None:
    """A name of a user that is found is masked once, and a second time finds the same: no text is read over and over."""
    masked = without_homes(text)
    assert without_homes(masked) == masked
    assert len(masked) <= len(text) * 2
