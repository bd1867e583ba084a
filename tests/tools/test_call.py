"""`ToolCall`: from what a tool returned or raised to the one result that the API gets."""

from __future__ import annotations

import itertools
import json
import logging
import re
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, strategies as st

from eagerstream.errors import ToolError
from eagerstream.limits import Limits
from eagerstream.tools import InProcessExecutor, ToolResponse, document_text, image_bytes, tool
from eagerstream_wire._block_rules import tool_result
from tests.tables import rows
from tests.tools.calls import WEATHER_ID, a_call, answer_to, answered, contents
from tests.tools.contents import DOCUMENT_BLOCK, HALF, JPEG, JPEG_BLOCK

pytestmark = pytest.mark.anyio

# --- the source document's examples, one by one -----------------------------------------------------------------------


def test_golden_results() -> None:
    """The document's four successful examples: text, text with an image, nothing, text with a document."""
    head = {"type": "tool_result", "tool_use_id": WEATHER_ID}
    assert answered("15 degrees") == {**head, "content": "15 degrees"}
    text = {"type": "text", "text": "15 degrees"}
    assert answered([text]) == {**head, "content": [text]}
    assert answered([text, image_bytes(JPEG, "image/jpeg")]) == {**head, "content": [text, JPEG_BLOCK]}
    assert answered(["15 degrees", JPEG]) == {**head, "content": [text, JPEG_BLOCK]}
    for nothing in (None, "", [], (), b"", [{"type": "text", "text": ""}], ToolResponse.success("")):
        assert answered(nothing) == head
    assert answered([text, document_text("15 degrees")]) == {**head, "content": [text, DOCUMENT_BLOCK]}


def test_golden_errors() -> None:
    """The document's failures: an exception, advice for the model, and an input that is not JSON."""
    head = {"type": "tool_result", "tool_use_id": WEATHER_ID, "is_error": True}
    text = "the weather service API is not available (HTTP 500)"
    assert answered(raised=ConnectionError(text)) == {**head, "content": f"ConnectionError: {text}"}
    advice = ToolError.rate_limited(60)
    assert answered(raised=advice) == {**head, "content": "Rate limit exceeded. Retry after 60 seconds."}
    call = a_call("tool", '{"keywords": Dave, "r": 1}', id=WEATHER_ID)
    call.refuse()
    assert call.result == {**head, "content": '{"INVALID_JSON": "{\\"keywords\\": Dave, \\"r\\": 1}"}'}


@given(id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_the_id_of_a_result_is_legal_and_tells_calls_apart(id: str) -> None:
    """A legal id stays; any other has a stand-in, the same each time, which the API takes."""
    answer_id = answered("x", id=id)["tool_use_id"]
    if re.fullmatch("[a-zA-Z0-9_-]+", id):
        assert answer_id == id
    else:
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", answer_id)
        assert answer_id == answered("y", id=id)["tool_use_id"] != answered("y", id=f"{id} ")["tool_use_id"]


# --- what a call takes ------------------------------------------------------------------------------------------------

_CALLER = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}


def answer_in(returned: Any, **fields: Any) -> dict[str, Any]:
    """The result of a call whose block has `fields`."""
    call = a_call(**fields)
    call.answer(returned)
    assert call.result is not None
    return call.result


def test_calls_from_code_take_text_only() -> None:
    """A string or text blocks go as they are; of images and documents it says that they cannot be taken."""
    text = {"type": "text", "text": "a"}
    assert answer_in("a", caller=_CALLER)["content"] == "a"
    assert answer_in([text], caller=_CALLER)["content"] == [text]
    result = answer_in(["a", JPEG, document_text("b")], caller=_CALLER)
    assert result["is_error"] is True
    assert [block["type"] for block in result["content"]] == ["text", "text"]
    assert "document, image" in result["content"][0]["text"]
    assert result["content"][1] == {"type": "text", "text": "a"}
    assert answer_in([JPEG], caller=_CALLER)["is_error"] is True
    assert answer_in([JPEG], caller={"type": "direct"})["content"] == [JPEG_BLOCK]


def test_members_of_a_toolset() -> None:
    """Each result names the toolset, refusals and invalid inputs included; text and images are what they take."""
    result = answer_in(["a", JPEG], toolset_name="computer")
    assert result == {
        "type": "tool_result",
        "tool_use_id": "toolu_0",
        "content": [{"type": "text", "text": "a"}, JPEG_BLOCK],
        "toolset_name": "computer",
    }
    result = answer_in([document_text("x"), JPEG], toolset_name="computer")
    assert result["is_error"] is True
    assert {block["type"] for block in result["content"]} == {"text"}, "an error takes text only"
    assert "image and text only" in result["content"][0]["text"]
    state = {"type": "browser_state", "url": "http://local"}
    assert answer_in([state], toolset_name="browser")["content"] == [state]
    assert answer_in([state], toolset_name="computer")["is_error"] is True
    invalid = a_call("tool", "[1]", toolset_name="computer")
    invalid.refuse()
    refused = a_call(toolset_name="computer")
    refused.refuse("no")
    for call in (invalid, refused):
        assert call.result is not None
        assert call.result["toolset_name"] == "computer"
    assert "toolset_name" not in answer_in("a")


# --- how much ---------------------------------------------------------------------------------------------------------


def test_a_long_text_is_cut_in_the_middle() -> None:
    """10 MB of text: beginning and end stay, a notice says how much there was, and the call is no error."""
    text = "<" + "x" * 10_000_000 + ">"
    result = answer_in(text)
    assert "is_error" not in result
    content = result["content"]
    assert content.startswith("[PARTIAL] The result has 10000002 characters; its middle was left out.\n<x")
    assert content.endswith("x>")
    assert 1024 * 1024 <= len(content) < 1024 * 1024 + 300
    assert f"({len(text) - 1024 * 1024} characters left out)" in content


@rows("max_chars", [1, 2, 7, 100])
@rows("length", [0, 1, 2, 7, 8, 100, 101])
def test_exactly_at_the_limit(max_chars: int, length: int) -> None:
    """What fits is not touched; what does not says so, at any size."""
    call = a_call(limits=Limits(max_result_chars=max_chars))
    call.answer("x" * length)
    assert call.result is not None
    content = call.result.get("content", "")
    assert (content == "x" * length) == (length <= max_chars)
    assert content.startswith("[PARTIAL]") == (length > max_chars)


def test_the_limit_is_for_all_blocks_together() -> None:
    """Many texts are no way around it, errors neither; images keep their place."""
    call = a_call(limits=Limits(max_result_chars=10))
    call.answer(["a" * 6, JPEG, "b" * 6, "c" * 6])
    assert call.result is not None
    texts = [block.get("text", "image") for block in call.result["content"]]
    assert texts[:2] == ["a" * 6, "image"]
    assert texts[2].startswith("[PARTIAL] The result has 6 characters")
    assert texts[2].endswith("bb")
    assert len(texts) == 3
    failed = a_call(limits=Limits(max_result_chars=10))
    failed.fail(ValueError("x" * 1000))
    assert failed.result is not None
    assert failed.result["is_error"] is True
    assert failed.result["content"].startswith("[PARTIAL]")


def test_huge_images() -> None:
    """More than a request takes is left out, with a word in its place; what still fits stays."""
    huge = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x" * 15_000_000}}
    result = answer_in([huge, huge, JPEG_BLOCK])
    first, second, third = result["content"]
    assert first == huge
    assert second["type"] == "text"
    assert second["text"].startswith("[PARTIAL]")
    assert third == JPEG_BLOCK


@rows(
    "block",
    [
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x" * 40_000_000}]},
        {
            "type": "document",
            "source": {"type": "content", "content": [{"type": "text", "text": "x" * 40_000_000}]},
        },
    ],
)
def test_texts_inside_blocks_count(block: dict[str, Any]) -> None:
    """40 MB are over the API's 32 MB, wherever they stand."""
    assert len(json.dumps(answer_in([block]))) < 32_000_000


def test_halves_of_pairs_everywhere() -> None:
    """Whatever a tool says and however it fails, its result can be written as UTF-8."""
    half = f"a{HALF}b"
    for result in (
        answer_in(half),
        answer_in([half, JPEG]),
        answer_in(ToolResponse.partial(half, {half: half}, reason=half)),
        answer_in(ToolResponse.error(half, half, content=[document_text(half)])),
        answer_in([half, JPEG], caller=_CALLER),
        answered(raised=ValueError(half)),
        answered(raised=ToolError(half, hint=half)),
    ):
        assert "a\ufffdb" in json.dumps(result, ensure_ascii=False).encode().decode()


def test_two_halves_that_make_one() -> None:
    """A pair that came in two pieces is one character again."""
    assert tool_result("toolu_1", "\ud83d\ude00")["content"] == "😀"


# --- content of kinds that are not known here -------------------------------------------------------------------------


def test_content_of_an_unknown_kind_passes() -> None:
    """A kind that the API takes tomorrow must not turn a finished call into an error."""
    audio = {"type": "audio", "source": {"type": "url", "url": "u"}}
    result = answered(ToolResponse.success("42 rows written", content=[audio]))
    assert result["content"] == [{"type": "text", "text": "42 rows written"}, audio]
    assert "is_error" not in result


@rows(
    "block, kind",
    [
        ({"type": "tool_use", "id": "x", "name": "y", "input": {}}, "tool_use"),
        ({"type": "thinking", "thinking": "Hm.", "signature": ""}, "thinking"),
        ({"type": "image"}, "image"),
        ({"type": "audio", "data": object()}, "audio"),
        ({"type": ["audio"]}, "['audio']"),
        ({"text": "x"}, "None"),
        ("text", "str"),
        (None, "NoneType"),
    ],
)
def test_content_that_a_result_cannot_have_is_left_out(block: Any, kind: str) -> None:
    """The call has done its work: its text is kept, it is no error, and the model is told what is missing."""
    response = ToolResponse.success("42 rows written")
    response.content = [block]
    result = answered(response)
    assert result["content"] == [
        {"type": "text", "text": "42 rows written"},
        {"type": "text", "text": f"(Left out, since it is no block that a result can have: {kind}.)"},
    ]
    assert "is_error" not in result


@rows("content", [["x"], {"type": "text", "text": "y"}])
def test_content_that_is_no_list_of_blocks(content: Any) -> None:
    """One block alone is taken as such, and what is no block is left out: the text stays."""
    blocks = answered(ToolResponse.success("42 rows written", content=content))["content"]
    assert [block["text"] for block in blocks] in (
        ["42 rows written", "y"],
        ["42 rows written", "(Left out, since it is no block that a result can have: str.)"],
    )


def test_an_unknown_code_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A precise code lets programs act on an error; a raised exception has one already."""
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            call = a_call("vague")
            call.answer(ToolResponse.error("UNKNOWN", "It broke."))
        answered(raised=ValueError("x"))
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "the tool 'vague' answered with the code UNKNOWN: one of the others of ToolErrorCode says more"
    ]


def test_the_first_answer_counts() -> None:
    """A call has one result: a later one is dropped."""
    call = a_call("double", '{"n": 1}')
    call.answer("first")
    call.answer("second")
    call.fail(ValueError("third"))
    call.refuse("fourth")
    assert call.result is not None
    assert call.result["content"] == "first"


@rows("returned, text", [("15 degrees", "15 degrees"), (None, ""), ([], "")])
def test_the_text_of_a_result(returned: object, text: str) -> None:
    """The result of a tool that returns nothing has no content, and an empty text."""
    call = a_call("tool", "{}")
    assert call.text == ""
    call.answer(returned)
    assert call.text == text


async def test_an_answer_while_the_tool_runs() -> None:
    """The first answer counts, the tool's own comes too late."""
    started, release = anyio.Event(), anyio.Event()

    @tool
    async def slow() -> str:
        """Slow."""
        started.set()
        await release.wait()
        return "late"

    call = a_call("slow", "{}")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(InProcessExecutor([slow]).execute, call)
        await started.wait()
        call.answer("first")
        release.set()
    assert contents([call]) == ["first"]
    assert call.response is not None
    assert call.response.text == "first"


async def test_stats(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a call took; a tool's own figure stays, and ours stands beside it. What did not run took no time."""
    import eagerstream.tools._call as call_module

    ticks = itertools.count(step=0.25)
    monkeypatch.setattr(call_module, "monotonic", lambda: next(ticks))

    @tool
    async def f(own: bool = False) -> Any:
        """F."""
        return ToolResponse.success("x", stats={"time_ms": 1, "count": 3}) if own else "x"

    calls = [a_call("f", raw, index=n) for n, raw in enumerate(["{}", '{"own": true}', "[", '{"own": 1}'])]
    for call in calls:
        await InProcessExecutor([f]).execute(call)
    assert [call.response.stats for call in calls if call.response] == [
        {"time_ms": 250},
        {"time_ms": 1, "count": 3, "wall_ms": 250},
        None,
        None,
    ]


async def test_include_data() -> None:
    """The tool's option reaches its answers."""

    @tool(include_data=True)
    async def f() -> ToolResponse:
        """F."""
        return ToolResponse.success("2 rows", {"rows": [1, 2]})

    assert await answer_to(f, "{}") == ('2 rows\n{"rows": [1, 2]}', False)
