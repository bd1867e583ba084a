"""Content of results: text, JSON, blocks and files; and what UTF-8 or the API cannot take."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import json
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from eagerstream._support.json_values import dump_json
from eagerstream.errors import UsageError
from eagerstream.tools import content_of, document_bytes, document_text, image_bytes
from eagerstream.tools._content import may_be_in_result
from eagerstream_wire._block_rules import tool_result
from tests.tables import rows
from tests.tools.contents import DOCUMENT_BLOCK, HALF, JPEG, JPEG_BLOCK

# --- content ----------------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"


class Name(enum.StrEnum):
    OSLO = "Oslo"


class Model(BaseModel):
    a: int
    when: dt.date


@dataclasses.dataclass
class Data:
    a: int
    inner: Any = None


@rows(
    "returned, expected",
    [
        ("15 degrees", "15 degrees"),
        (Name.OSLO, "Oslo"),
        (15, "15"),
        (1.5, "1.5"),
        (True, "true"),
        (0, "0"),
        (False, "false"),
        ({}, "{}"),
        ({"a": "ä", "b": [1, None]}, '{"a": "ä", "b": [1, null]}'),
        ([1, "b"], '[1, "b"]'),
        ((1, 2), "[1, 2]"),
        (Color.RED, '"red"'),
        (dt.date(2025, 2, 28), '"2025-02-28"'),
        (Model(a=1, when=dt.date(2025, 2, 28)), '{"a": 1, "when": "2025-02-28"}'),
        (Data(1, Data(2, Color.RED)), '{"a": 1, "inner": {"a": 2, "inner": "red"}}'),
        ([Model(a=1, when=dt.date(2025, 2, 28))], '[{"a": 1, "when": "2025-02-28"}]'),
        (b"abc", "abc"),
        ([{"type": "text", "text": "a"}, {"b": 1}], '[{"type": "text", "text": "a"}, {"b": 1}]'),
        ([{"type": "row"}], '[{"type": "row"}]'),
        ([{"type": "tool_use", "id": "x"}], '[{"type": "tool_use", "id": "x"}]'),
        ({"type": "text", "value": "a"}, '{"type": "text", "value": "a"}'),
        ([{"type": "image"}], '[{"type": "image"}]'),
    ],
)
def test_content(returned: Any, expected: str) -> None:
    """Text as it is, everything else as JSON that keeps its letters, never as Python would print it."""
    assert content_of(returned) == expected


@rows(
    "block",
    [
        {"type": "text", "text": "a"},
        {"type": "image", "source": {}},
        {"type": "document", "source": {}},
        {"type": "search_result", "content": []},
        {"type": "tool_reference", "tool_name": "f"},
        {"type": "browser_state"},
    ],
)
def test_kinds_of_blocks(block: dict[str, Any]) -> None:
    """What counts as content, alone and in a list: the kinds that a result may have, with what each must have."""
    assert content_of(block) == content_of([block]) == [block]


@rows(
    "row",
    [
        {"type": "text", "text": "a", "id": 5},
        {"type": "image", "source": {"type": "url", "url": "u"}, "width": 3},
        {"type": "document", "source": {}, "owner": "b"},
        {"type": "search_result", "content": [], "rank": 1},
        {"type": "tool_reference", "tool_name": "t", "count": 1},
    ],
)
def test_a_row_with_other_fields_is_a_value(row: dict[str, Any]) -> None:
    """A table may have the columns of a block. It goes to the model as JSON; put into a response on purpose, it stays."""
    assert json.loads(str(content_of(row))) == row
    assert json.loads(str(content_of([row, row]))) == [row, row]
    fewer = {name: value for name, value in row.items() if name in ("type", "text", "source", "content", "tool_name")}
    assert content_of(fewer) == [fewer]
    assert may_be_in_result(row)


@rows("returned", [object(), Data, Model, lambda: None, {"a": object()}])
def test_no_json_form(returned: Any) -> None:
    """Nothing is sent as its repr: a mistake of the tool is one."""
    with pytest.raises(TypeError, match="no JSON form"):
        content_of(returned)


def test_an_array_of_another_library() -> None:
    """Comparing such an array gives an array: it must not be asked whether it is true."""

    class Array:
        def __eq__(self, other: object) -> Any:
            return self

        def __bool__(self) -> bool:
            raise ValueError("the truth value of an array is ambiguous")

        __hash__ = object.__hash__

    with pytest.raises(TypeError, match="no JSON form"):
        content_of(Array())


@rows("depth", [200, 300, 512])
def test_a_deep_value(depth: int) -> None:
    """As deep as the input of a call may be: a tool may return what it was given."""
    deep: Any = ["x", math.nan]
    expected: Any = ["x", None]
    for _ in range(depth):
        deep, expected = {"x": deep}, {"x": expected}
    assert json.loads(dump_json(deep)) == expected


def test_something_that_holds_itself() -> None:
    """So is a value that never ends."""
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="no JSON form"):
        content_of(endless)


# --- what UTF-8 cannot carry ------------------------------------------------------------------------------------------


@rows(
    "returned",
    [
        f"a{HALF}b",
        {"a": f"a{HALF}b"},
        {f"a{HALF}b": 1},
        [f"a{HALF}b"],
        [{"type": "text", "text": f"a{HALF}b"}],
        [{"type": "document", "source": {"data": [f"a{HALF}b"]}}],
        Data(1, f"a{HALF}b"),
    ],
)
def test_half_a_surrogate_pair(returned: Any) -> None:
    """U+FFFD stands in its place, wherever it is; the rest stays."""
    sent = json.dumps(tool_result("toolu_1", content_of(returned)), ensure_ascii=False)
    sent.encode()
    assert "a\ufffdb" in sent


def test_the_tool_s_own_value_is_not_changed() -> None:
    """Blocks that a tool returns stay as they were, in its hands."""
    blocks = [{"type": "text", "text": HALF}]
    assert tool_result("toolu_1", content_of(blocks))["content"] == [{"type": "text", "text": "\ufffd"}]
    assert blocks == [{"type": "text", "text": HALF}]


@given(text=st.text(st.characters(), max_size=20))
def test_any_text_can_be_sent(text: str) -> None:
    """Text without halves goes through unchanged, any other can be encoded and is as long."""
    content = tool_result("toolu_1", text).get("content", "")
    content.encode()
    if all(not 0xD800 <= ord(character) <= 0xDFFF for character in text):
        assert content == text


# --- files ------------------------------------------------------------------------------------------------------------

_FILES = {
    "image/png": b"\x89PNG\r\n\x1a\n rest",
    "image/jpeg": JPEG,
    "image/gif": b"GIF89a rest",
    "image/webp": b"RIFF\x10\x00\x00\x00WEBPVP8 ",
    "application/pdf": b"%PDF-1.7 rest",
}


@rows("media_type", _FILES)
@rows("kind", [bytes, bytearray, memoryview])
def test_files(media_type: str, kind: Any) -> None:
    """The bytes of an image or a PDF become a block, told by how they begin."""
    blocks = content_of(kind(_FILES[media_type]))
    assert isinstance(blocks, list)
    (block,) = blocks
    assert content_of([kind(_FILES[media_type])]) == blocks, "what is a file alone is one in a list"
    assert block["type"] == ("document" if media_type == "application/pdf" else "image")
    assert block["source"]["media_type"] == media_type
    assert base64.b64decode(block["source"]["data"]) == _FILES[media_type]


@rows("media_type", _FILES)
def test_files_among_texts(media_type: str) -> None:
    """In a list, texts between them become text blocks, empty ones nothing; blocks stay where they are."""
    returned = ["before", _FILES[media_type], "", "after", {"type": "text", "text": "end"}]
    blocks = content_of(returned)
    assert [block if block.get("type") == "text" else "file" for block in blocks if isinstance(block, dict)] == [
        {"type": "text", "text": "before"},
        "file",
        {"type": "text", "text": "after"},
        {"type": "text", "text": "end"},
    ]
    assert content_of(tuple(returned)) == blocks


def test_bytes_that_are_text() -> None:
    """UTF-8 is text; anything else that is no file is a mistake of the tool's."""
    assert content_of("größe".encode()) == "größe"
    assert content_of(b"RIFF1234WAVE") == "RIFF1234WAVE"
    assert content_of([b"abc"]) == '["abc"]'
    assert content_of([b"a photo", JPEG]) == [{"type": "text", "text": "a photo"}, JPEG_BLOCK]
    for data in (b"\xff\xfe", b"\x89PNX\r\n", "größe".encode("latin-1")):
        with pytest.raises(TypeError, match="neither UTF-8 text"):
            content_of(data)


def test_making_blocks() -> None:
    """The helpers refuse what the API would refuse."""
    assert image_bytes(JPEG) == JPEG_BLOCK
    assert document_text("15 degrees") == DOCUMENT_BLOCK
    assert document_text("x", title="T")["title"] == "T"
    assert document_bytes(b"%PDF-1.7", title="T")["title"] == "T"
    with pytest.raises(UsageError, match="unknown kind"):
        image_bytes(b"BM6")
    with pytest.raises(UsageError, match="image/bmp"):
        image_bytes(b"BM6", "image/bmp")
    with pytest.raises(UsageError, match="document_text"):
        document_bytes(b"plain")
