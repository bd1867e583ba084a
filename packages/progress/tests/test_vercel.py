"""`UIMessageEncoder` and `to_messages`: what the page rebuilds is what was said, and can be sent back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from packages.progress.tests.stories import HOSTILE, Story, stories
from packages.progress.tests.ui_messages import Reader
from tests.streams import cuts_of
from tests.support import check_history
from tests.tables import rows

from eagerstream import validate_history
from eagerstream_progress.vercel import UIMessageEncoder, UIMessageError, to_messages
from eagerstream_progress.vercel._values import MAX_DEPTH, DepthGauge, from_readable, readable

USER = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}


def read(story: Story, sdk: Any = 6, **options: Any) -> Reader:
    """What a page makes of it; each record by itself gives the same chunks as all at once."""
    encoder = UIMessageEncoder(sdk=sdk, **options)
    chunks = [chunk for record in story.records for chunk in encoder.encode([record])] + encoder.close()
    whole = UIMessageEncoder(sdk=sdk, **options)
    assert [*whole.encode(story.records), *whole.close()] == chunks
    return Reader(sdk).read(chunks).ended()


def sent_back(reader: Reader) -> list[Any]:
    """The conversation as the API gets it with the next message of the user; it can be sent."""
    messages = to_messages([USER, {"id": "a1", "role": "assistant", "parts": reader.parts}, USER])
    assert not validate_history(messages)
    check_history(messages)
    return messages


# --- the encoder ------------------------------------------------------------------------------------------------------


def test_a_whole_run() -> None:
    """Turns are steps; text, thinking, inputs and results come in order, and the end says how it ended."""
    story = Story().turn()
    story.add("block_start", block=story.block(), index=0, kind="thinking").add(
        "thinking_delta", block=1, thinking="Hm."
    )
    story.add("block_stop", block=1, content={"type": "thinking", "signature": "sig"})
    story.text("Let me ", "see.")
    call = story.input()
    story.fragments(call, '{"flight":', '"OS 381"}').stop(call).add("tool_start", block=call)
    story.result(call, "booked").add("message_stop", stop_reason="tool_use", usage={}).turn_stop()
    story.turn().text("Done.").turn_stop().end()
    reader = read(story)
    assert reader.message == {
        "id": "msg_run1",
        "metadata": {
            "run": "run1",
            "model": "claude-made-1",
            "status": "completed",
            "turns": 2,
            "usage": {"output_tokens": 9},
        },
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "Hm.", "providerMetadata": {"anthropic": {"signature": "sig"}}},
            {"type": "text", "text": "Let me see."},
            {
                "type": "dynamic-tool",
                "toolName": "book",
                "toolCallId": "toolu_3",
                "state": "output-available",
                "input": {"flight": "OS 381"},
                "output": "booked",
            },
            {"type": "step-start"},
            {"type": "text", "text": "Done."},
        ],
    }
    assert sent_back(reader)[1:3] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "toolu_3", "name": "book", "input": {"flight": "OS 381"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_3", "content": "booked"}]},
    ]


@rows(
    "status, reason",
    [
        ("completed", "stop"),
        ("stop_sequence", "stop"),
        ("truncated", "length"),
        ("refused", "content-filter"),
        ("limit", "tool-calls"),
        ("paused", "other"),
        ("unknown", "other"),
        ("a status of tomorrow", "other"),
    ],
)
def test_how_it_ended(status: str, reason: str) -> None:
    """Each status of a run is a finish reason that every version knows."""
    chunks = UIMessageEncoder().encode(Story().turn().text("Hi").turn_stop().end(status).records)
    assert chunks[-1]["finishReason"] == reason


def test_an_error_is_told_without_its_text() -> None:
    """A page learns that the run failed, and nothing that the exception says, unless the program tells it."""
    error = {"type": "APIError", "text": "key sk-secret on host 10.0.0.1"}
    story = Story().turn().text("Hi", ends=False).end("error", error)
    reader = read(story)
    assert reader.errors == ["The run failed (APIError)."]
    assert "secret" not in json.dumps([reader.message, reader.data])
    assert reader.types[-3:] == ["message-metadata", "error", "finish"]
    assert read(story, describe_error=lambda error: error["text"].upper()).errors[0].startswith("KEY")


def test_cancelled() -> None:
    """A cancelled run is an abort, as when the SDK's own server is stopped."""
    assert read(Story().turn().text("Hi", ends=False).end("cancelled")).types[-1] == "abort"


def test_records_that_break_off() -> None:
    """A log that was cut still makes a stream that ends, with an error; nothing stays open."""
    story = Story().turn().text("Hi", ends=False)
    story.fragments(story.input(), '{"a":')
    reader = read(story)
    assert reader.errors == ["The run failed (Interrupted)."]
    assert [part["state"] for part in reader.calls] == ["output-error"]


@rows("outcome", ["invalid", "incomplete"])
@rows("static_tools", [(), ("book",)])
def test_an_input_that_is_not_usable(outcome: str, static_tools: tuple[str, ...]) -> None:
    """It is shown as it stands in the history, as an error, and keeps the result of the call."""
    story = Story().turn()
    call = story.input()
    story.fragments(call, '{"a": ').stop(call, outcome, "at offset 6: it ends")
    story.result(call, "Not executed.", is_error=True, ran=False).turn_stop().end()
    reader = read(story, static_tools=static_tools)
    (part,) = reader.calls
    assert part["input" if not static_tools else "rawInput"] == {"INVALID_JSON": '{"a": '}
    assert part["errorText"] == "Not executed."
    assert "tool-input-error" in reader.types
    use = sent_back(reader)[1]["content"][0]
    assert use["input"] == {"INVALID_JSON": '{"a": '}


def test_a_tool_that_takes_an_invalid_input() -> None:
    """A result of an invalid input keeps the input, also where the page's reader has moved it away."""
    story = Story().turn()
    call = story.input()
    story.fragments(call, "{").stop(call, "invalid", "no").result(call, "fine").turn_stop().end()
    for static_tools in ((), ("book",)):
        (part,) = read(story, static_tools=static_tools).calls
        assert (part["state"], part["input"], part["output"]) == ("output-available", {"INVALID_JSON": "{"}, "fine")


def test_progress() -> None:
    """What a tool says is preliminary, until its result; before the input has ended it is shown beside it."""
    story = Story().turn()
    call = story.input()
    story.fragments(call, '{"a":').add("tool_start", block=call).add("tool_progress", block=call, value="early")
    story.fragments(call, "1}").stop(call).add("tool_progress", block=call, value={"done": 2})
    encoder = UIMessageEncoder()
    reader = Reader().read(encoder.encode(story.records))
    assert reader.data[-1] == {
        "type": "data-tool-progress",
        "data": {"toolCallId": "toolu_1", "progress": "early"},
        "transient": True,
    }
    assert reader.types[-2:] == ["tool-output-available"] * 2
    assert reader.calls[0] | {"preliminary": True, "output": {"done": 2}} == reader.calls[0]
    story.result(call, "done").turn_stop().end()
    reader.read(encoder.encode(story.records[-3:])).ended()
    assert reader.calls[0]["output"] == "done"


@rows("ends, input", [(True, {"a": 1}), (False, {"INVALID_JSON": '{"a":'})])
def test_a_result_before_the_end_of_its_input(ends: bool, input: Any) -> None:
    """It waits, since the input's end would take it away. It is not lost if the turn ends first."""
    story = Story().turn()
    call = story.input()
    story.fragments(call, '{"a":').result(call, "early")
    if ends:
        story.fragments(call, "1}").stop(call)
    (part,) = read(story.turn_stop().end()).calls
    assert (part["input"], part["output"]) == (input, "early")


@rows("sdk", [5, 6, 7])
@rows("approved", [True, False])
def test_approval(sdk: int, approved: bool) -> None:
    """A person is asked in the form that the version has, and in a data part that every version has."""
    story = Story().turn()
    call = story.call()
    story.add("approval_start", block=call).add("approval_stop", block=call, approved=approved, reason="too dear")
    story.result(call, "paid" if approved else "too dear", is_error=not approved, ran=approved).turn_stop().end()
    reader = read(story, sdk)
    (approval,) = [part for part in reader.parts if part["type"] == "data-approval"]
    assert approval["data"] == {
        "approvalId": "run1.1",
        "toolCallId": "toolu_1",
        "state": "approved" if approved else "denied",
        "reason": "too dear",
    }
    (part,) = reader.calls
    denied = "output-denied" if sdk >= 6 else "output-error"
    assert part["state"] == ("output-available" if approved else denied)
    assert ("tool-approval-request" in reader.types) is (sdk >= 6)
    assert ("tool-approval-response" in reader.types) is (sdk >= 7)
    assert sent_back(reader)[2]["content"][0].get("is_error", False) is not approved


def test_a_question_before_the_end_of_an_input() -> None:
    """It is put once there is an input to look at; an answer to one that was not put is not told."""
    story = Story().turn()
    call = story.input()
    story.add("approval_start", block=call).fragments(call, "{}").stop(call)
    story.add("approval_stop", block=call, approved=True, reason=None).result(call)
    other = story.input()
    story.add("approval_start", block=other).add("approval_stop", block=other, approved=False, reason=None)
    story.fragments(other, "{}").stop(other).result(other, "no", is_error=True).turn_stop().end()
    reader = read(story, 7)
    assert reader.types.count("tool-approval-request") == reader.types.count("tool-approval-response") == 1
    assert [part["state"] for part in reader.calls] == ["output-available", "output-error"]


@rows("sdk", [5, 6, 7])
@rows("by_message", [False, True])
def test_a_turn_that_begins_anew(sdk: int, by_message: bool) -> None:
    """What came of it is taken back, or marked as void, and is in no history; ids of the next attempt are new."""
    story = Story().turn().text("Half a")
    story.fragments(story.input(id="toolu_x"), '{"a":')
    story.call(id="toolu_y")
    if by_message:
        story.message(restarted=True)
    else:
        story.restart().message(restarted=True)
    story.text("Whole.")
    call = story.call('{"a":2}', id="toolu_y")
    story.result(call).turn_stop().end()
    reader = read(story, sdk)
    if sdk >= 7:
        assert [part["type"] for part in reader.parts] == ["step-start", "text", "dynamic-tool"]
        assert reader.data[0]["transient"]
    else:
        types = [part["type"] for part in reader.parts]
        calls = ["dynamic-tool"] * 2
        assert types == ["step-start", "text", *calls, "data-restarted", "step-start", "text", "dynamic-tool"]
        assert all("restarted" in part["errorText"] for part in reader.calls[:2])
        assert len({part["toolCallId"] for part in reader.calls}) == 3
    content = sent_back(reader)[1]["content"]
    assert [block.get("text", block.get("input")) for block in content] == ["Whole.", {"a": 2}]


def test_a_restart_of_nothing() -> None:
    """An attempt of which nothing came leaves nothing in the message."""
    story = Story()
    story.restart().add("turn_start", turn=1).restart().restart().message().text("Hi").turn_stop().end()
    assert [part["type"] for part in read(story).parts] == ["step-start", "text"]


def test_calls_of_the_server() -> None:
    """They are executed by the provider; the block of their result is their output, and goes back as it was."""
    found = {"type": "web_search_result", "url": "https://example.org/a", "title": "A", "encrypted_content": "x"}
    bad = {"type": "web_search_result", "url": "javascript:alert(1)", "title": "B", "encrypted_content": "y"}
    story = Story().turn()
    call = story.call('{"query":"a"}', "web_search", id="srvtoolu_1", kind="server_tool_use")
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [found, bad]}
    story.add("block_start", block=story.block(), index=1, kind="web_search_tool_result")
    story.add("block_stop", block=call + 1, content=result)
    failed = story.call("{}", "web_fetch", id="srvtoolu_2", kind="server_tool_use")
    error = {"type": "web_fetch_tool_result_error", "error_code": "unavailable"}
    failure = {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_2", "content": error}
    story.add("block_stop", block=failed + 100, content=failure)
    story.text("So.", citations=[{"type": "web_search_result_location", "url": "https://example.org/a"}])
    story.turn_stop().end()
    reader = read(story)
    assert [part["state"] for part in reader.calls] == ["output-available", "output-error"]
    assert all(part["providerExecuted"] for part in reader.calls)
    assert [part["url"] for part in reader.parts if part["type"] == "source-url"] == ["https://example.org/a"]
    content = sent_back(reader)[1]["content"]
    assert content[1] == result
    assert content[3] == failure
    assert content[4]["citations"][0]["url"] == "https://example.org/a"


def test_a_call_of_the_server_without_a_result() -> None:
    """It does not spin for ever, and does not go back."""
    story = Story().turn().text("I search.")
    story.search()
    reader = read(story.turn_stop().end())
    assert reader.calls[0]["errorText"] == "This call has no result."
    assert [block["type"] for block in sent_back(reader)[1]["content"]] == ["text"]


@rows("sdk", [5, 6, 7])
def test_a_restart_after_a_pause(sdk: int) -> None:
    """What is void is this turn's: a call that waits since the last one still gets its result."""
    story = Story().turn()
    story.search()
    story.turn_stop().turn()
    story.fragments(story.input(), "{").restart().message()
    story.found().turn_stop().end()
    assert read(story, sdk).calls[0]["state"] == "output-available"
    story.records[-3]["content"]["tool_use_id"] = "another"
    assert read(story, sdk).calls[0]["errorText"] == "This call has no result."


@rows("sdk", [5, 6, 7])
def test_a_result_of_nothing(sdk: int) -> None:
    """A block that names a call of ours, or one that is void, is no result of it."""
    story = Story().turn()
    void = story.search()
    story.restart().message()
    ours = story.call()
    for block in (void, ours):
        id = story.records[next(at for at, r in enumerate(story.records) if r.get("block") == block)]["id"]
        story.found(id=id, type="x_tool_result")
    parts = read(story.result(ours).turn_stop().end(), sdk).parts
    assert [part["type"] for part in parts].count("data-block") == 2
    assert [part["output"] for part in parts if part.get("state") == "output-available"] == ["done"]


@rows("sdk", [5, 6, 7])
def test_a_source_that_was_void(sdk: int) -> None:
    """It is told again where the next attempt names it, and only there does it count."""
    cited = [{"type": "web_search_result_location", "url": "https://example.org/a"}]
    story = Story().turn().text("So.", citations=cited).restart().message().text("So.", citations=cited)
    parts = read(story.turn_stop().turn().text("Again.", citations=cited).turn_stop().end(), sdk).parts
    types = [part["type"] for part in parts]
    valid = types[types.index("data-restarted") :] if sdk < 7 else types
    assert valid.count("source-url") == 1
    ids = [part["sourceId"] for part in parts if part["type"] == "source-url"]
    assert len(set(ids)) == len(ids)


def test_blocks_and_events_without_a_form() -> None:
    """Hidden thinking goes back; a block of a new kind is a data part, an event of a new kind is told and forgotten."""
    story = Story().turn()
    story.add("block_stop", block=story.block(), content={"type": "redacted_thinking", "data": "secret"})
    story.add("block_stop", block=story.block(), content={"type": "of_tomorrow", "x": 1})
    story.add("unknown", event={"type": "of_tomorrow"}).text("Hi").turn_stop().end()
    reader = read(story)
    assert [part["type"] for part in reader.parts] == ["step-start", "reasoning", "data-block", "text"]
    assert reader.data[1]["transient"]
    assert sent_back(reader)[1]["content"][0] == {"type": "redacted_thinking", "data": "secret"}


def test_a_whole_input_at_its_start() -> None:
    """Calls of the API's own code come with their input."""
    story = Story().turn()
    call = story.input(input={"a": 1})
    story.stop(call).result(call).turn_stop().end()
    assert read(story).calls[0]["input"] == {"a": 1}


def test_a_result_of_blocks() -> None:
    """An image that a tool returned goes back as one."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    story = Story().turn()
    story.result(story.call(), [image]).turn_stop().end()
    assert sent_back(read(story))[2]["content"][0]["content"] == [image]


@rows("value", HOSTILE)
def test_hostile_values(value: Any) -> None:
    """What the page's reader would stumble over goes as text, and comes back as it was."""
    story = Story().turn()
    call = story.input()
    story.fragments(call, json.dumps(value)).stop(call).add("tool_progress", block=call, value=value)
    story.result(call).add("unknown", event=value).turn_stop().end()
    reader = read(story)
    assert from_readable(reader.calls[0]["input"]) == value
    expected = json.loads(json.dumps(value).replace("\\ud800", "\\ufffd").replace("\\udfff", "\\ufffd"))
    assert sent_back(reader)[1]["content"][0]["input"] == expected


@rows("is_over", [False, True])
def test_records_that_come_too_late(is_over: bool) -> None:
    """What is told of a call that has its result already, or of one that nobody knows, changes nothing."""
    story = Story().turn()
    call = story.call()
    story.result(call)
    expected = read(story)
    block = call if is_over else 99
    story.fragments(block, "{").stop(block).result(block, "another").add("tool_progress", block=block, value=1)
    story.add("approval_start", block=block).add("approval_stop", block=block, approved=True, reason=None)
    assert read(story).parts == expected.parts
    over = story.turn_stop().end().records
    assert not UIMessageEncoder().encode([*over, *over])[len(UIMessageEncoder().encode(over)) :]
    tomorrow: Any = {**over[0], "type": "of_tomorrow"}
    assert not UIMessageEncoder().encode([tomorrow])


@rows("status", ["valid", "invalid"])
@rows(
    "content, words",
    [
        ("bad", "bad"),
        ("", "(an error without text)"),
        ([], "(an error without text)"),
        ([{"type": "text", "text": "bad"}, {"type": "text", "text": "luck"}], "bad\nluck"),
    ],
)
def test_the_words_of_an_error(status: str, content: Any, words: str) -> None:
    """An error result is text on the page, also where it came in blocks, or not at all."""
    story = Story().turn()
    call = story.input()
    story.fragments(call, "not JSON").stop(call, status).result(call, content, is_error=True)
    (part,) = read(story.turn_stop().end()).calls
    assert part["input"] == {"INVALID_JSON": "not JSON"}  # also of a saved run in which secrets were masked
    assert part["errorText"] == words


def test_a_server_result_before_the_end_of_its_input() -> None:
    """A record may be missing; the stream stays whole."""
    story = Story().turn()
    story.input("web_search", "srvtoolu_1", "server_tool_use")
    story.found().restart().restart()
    story.text("Whole.").turn_stop().end()
    assert read(story).calls[0]["output"] == {"type": "web_search_tool_result", "content": []}


def test_a_late_joiner_of_a_very_long_run() -> None:
    """What a log no longer keeps is said to be missing; the stream stays whole."""
    story = Story().turn()
    story.add("text_delta", block=story.block(), text="", omitted_chars=5000)
    story.add("block_stop", block=1, content={"type": "text"})
    call = story.input()
    story.add("input_delta", block=call, fragment="", patch=[], finished=[], omitted_chars=7000)
    story.stop(call).result(call).turn_stop().end()
    reader = read(story)
    assert reader.text == "(5,000 characters are no longer kept)"
    assert reader.calls[0]["input"] == {"omitted_chars": 7000}


def test_an_input_too_deep_for_the_reader() -> None:
    """Its fragments stop where the page would fail; its end is told all the same."""
    story = Story().turn()
    call = story.input()
    story.fragments(call, *['{"a":['] * MAX_DEPTH).stop(call, "invalid", "too deep").turn_stop().end()
    reader = read(story)
    assert reader.types.count("tool-input-delta") == MAX_DEPTH // 2
    assert reader.calls[0]["input"] == {"INVALID_JSON": '{"a":[' * MAX_DEPTH}


@rows("id", ["", "__proto__", "a b", "x" * 200, "constructor\n"])
def test_hostile_ids(id: str) -> None:
    """An id that the API would not take back is replaced."""
    story = Story().turn()
    block = story.block()
    story.add("input_start", block=block, index=0, id=id, name="book", kind="tool_use", input=None)
    story.fragments(block, "{}").stop(block).result(block).turn_stop().end()
    assert sent_back(read(story))[1]["content"][0]["id"] == "call_run1_1"


@pytest.mark.slow
@given(
    st.recursive(st.text(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner)), st.data()
)
@settings(max_examples=50)
def test_the_depth_of_any_text(value: Any, data: st.DataObject) -> None:
    """However a text is cut, its brackets are counted, and those in strings are not."""
    text = json.dumps(value)
    gauge = DepthGauge()
    deepest = max((gauge.feed(piece) for piece in data.draw(cuts_of(text))), default=0)
    assert gauge.depth == 0
    assert deepest == _depth(value)


def _depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


# --- any run ----------------------------------------------------------------------------------------------------------


@given(stories(), st.sampled_from([5, 6, 7]), st.sampled_from([(), ("book",)]))
@settings(max_examples=30)
def test_any_run_makes_a_stream(story: Story, sdk: int, static_tools: tuple[str, ...]) -> None:
    """Whatever happens in a run, the reader takes every chunk, nothing stays open, and the history can be sent."""
    sent_back(read(story, sdk, static_tools=static_tools))


# --- to_messages ------------------------------------------------------------------------------------------------------

PNG = "data:image/png;base64,iVBORw0KGgo="


def test_what_a_user_sends() -> None:
    """Text, images, PDFs and text files, in data URLs and on the web."""
    parts = [
        {"type": "text", "text": " "},
        {"type": "file", "mediaType": "image/png", "url": PNG},
        {"type": "file", "mediaType": "application/pdf", "url": "https://example.org/a.pdf"},
        {"type": "file", "mediaType": "text/plain; charset=utf-8", "url": "data:text/plain,a%20b", "filename": "a.txt"},
        {"type": "data-location", "data": 1},
        {"type": "text", "text": "What is this?"},
    ]
    (message,) = to_messages([{"role": "system", "parts": parts[:1]}, {"role": "user", "parts": parts}])
    assert message["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a b"}, "title": "a.txt"},
        {"type": "text", "text": "What is this?"},
    ]


@rows(
    "messages",
    [
        None,
        "text",
        [1],
        [{"role": "user"}],
        [{"role": "user", "parts": [1]}],
        [{"role": "tool", "parts": []}],
        [{"role": "user", "parts": [{"type": "file"}]}],
        [{"role": "user", "parts": [{"type": "file", "mediaType": "video/mp4", "url": "data:video/mp4;base64,AA=="}]}],
        [{"role": "user", "parts": [{"type": "file", "mediaType": "video/mp4", "url": "https://example.org"}]}],
        [{"role": "user", "parts": [{"type": "file", "mediaType": "image/png", "url": "file:///etc/passwd"}]}],
        [{"role": "user", "parts": [{"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,?"}]}],
        [{"role": "user", "parts": [{"type": "file", "mediaType": "text/plain", "url": "data:;base64,/w=="}]}],
        [{"role": "user", "parts": [{"type": "file", "mediaType": "text/plain", "url": "data:,\ud800"}]}],
        [{"role": "user", "parts": [{"type": "file", "mediaType": "text/plain", "url": "data:;base64,\ud800"}]}],
        [{"role": "assistant", "parts": [{"type": "tool-x", "toolCallId": "a b", "state": "output-available"}]}],
    ],
)
def test_what_cannot_be_sent(messages: Any) -> None:
    """A client that sends something else is told so, and nothing else is raised."""
    with pytest.raises(UIMessageError):
        to_messages(messages)


@rows(
    "part, result",
    [
        ({"state": "input-available", "input": {}}, {"is_error": True}),
        ({"state": "approval-requested", "input": {}}, {"is_error": True}),
        ({"state": "output-available", "input": {}, "output": "half", "preliminary": True}, {"is_error": True}),
        ({"state": "output-available", "input": {}, "output": {"a": 1}}, {"content": '{"a": 1}'}),
        ({"state": "output-available", "input": {}, "output": ""}, {}),
        ({"state": "output-available", "input": {}, "output": None}, {}),
        ({"state": "output-error", "input": {}, "errorText": "bad"}, {"content": "bad", "is_error": True}),
        ({"state": "output-denied", "input": {}, "approval": {"reason": "no"}}, {"content": "no", "is_error": True}),
    ],
)
def test_each_state_of_a_call(part: Any, result: Any) -> None:
    """Every call that was written to its end has exactly one result."""
    call = {"type": "tool-my-tool", "toolCallId": "c1", **part}
    messages = to_messages([USER, {"role": "assistant", "parts": [call]}])
    check_history(messages)
    assert messages[1]["content"][0]["name"] == "my-tool"
    assert result.items() <= messages[2]["content"][0].items()
    assert set(messages[2]["content"][0]) >= {"type", "tool_use_id", *result}


def test_what_the_api_would_not_take_back() -> None:
    """Thinking that is not signed, or comes last, results of MCP servers, inputs that still grow, parts that are none."""
    signed = {"anthropic": {"signature": "sig"}}
    mcp = {"type": "mcp_tool_result", "content": []}
    call = {"type": "dynamic-tool", "toolName": "x", "toolCallId": "c", "state": "output-available", "input": {}}
    parts = [
        {"type": "reasoning", "text": "Hm.", "state": "done"},
        {"type": "reasoning", "text": "Hm.", "providerMetadata": {"anthropic": 1}},
        {"type": "text", "text": "So."},
        {"type": "reasoning", "text": "Hm.", "providerMetadata": signed},
        call | {"providerExecuted": True, "output": mcp},
        call | {"providerExecuted": True, "output": "what?"},
        call | {"state": "input-streaming"},
        call | {"toolCallId": None},
        call | {"toolName": ""},
        {"type": "source-url", "url": "https://example.org"},
    ]
    _, message = to_messages([USER, {"role": "assistant", "parts": parts}])
    assert message["content"] == [{"type": "text", "text": "So."}]


def test_a_message_that_is_too_deep() -> None:
    """What cannot be written as JSON again is refused as everything else."""
    output: Any = []
    for _ in range(10_000):
        output = {"a": output}
    for part in ({"output": output}, {"input": output}, {"output": [output]}):
        call = {"type": "tool-x", "toolCallId": "c", "state": "output-available", **part}
        with pytest.raises(UIMessageError):
            to_messages([USER, {"role": "assistant", "parts": [call]}])


@pytest.mark.slow
def test_readable_of_what_cannot_be_written() -> None:
    """A value beyond the JSON writer's own depth does not break the stream."""
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert isinstance(readable(value), str)
    assert from_readable("not JSON") == "not JSON"
