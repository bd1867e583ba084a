"""What makes a test with the fixture `claude` fail, and the picture of its conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from packages.testing.tests.pytest_plugin.support import run_tests
from tests.tables import rows

from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import (
    Fault,
    FaultKind,
    ReceivedRequest,
    Scenario,
    error_event,
    http_error,
    reply,
    text,
    thinking,
    tool_use,
)
from eagerstream_testing.pytest_plugin._conversation import unknown_calls
from eagerstream_testing.pytest_plugin._picture import picture
from eagerstream_testing.pytest_plugin._script import Exchange, Script

pytest_plugins = "pytester"


def test_a_bug_in_a_tool(pytester: pytest.Pytester) -> None:
    """The model answers something all the same. The test fails, and the report says where it was."""
    result = run_tests(
        pytester,
        """
import asyncio, eagerstream

@eagerstream.tool
async def look(key: str) -> str:
    "Look."
    if key == "words":
        raise eagerstream.ToolError("there is none")
    return {}[key]

def run(claude, key):
    claude.replies(tool_use("look", {"key": key}), tool_use("look", {"key": key}))
    claude.replies(text("Done."))

    async def main():
        async with anthropic.AsyncAnthropic() as client, eagerstream.run(
            client, model="m", max_tokens=10, tools=[look], messages=[user("a")]
        ) as run:
            await run.finish()

    asyncio.run(main())

def test_bug(claude):
    run(claude, "secret")

def test_answer_for_the_model(claude):
    run(claude, "words")

@pytest.mark.claude(tool_errors="allowed")
def test_on_purpose(claude):
    run(claude, "secret")

@pytest.mark.claude(tool_errors="allowed")
def test_something_else(claude):
    run(claude, "secret")
    assert False

@pytest.mark.claude(tool_errors=True)
def test_setting(claude):
    pass
""",
    )
    result.assert_outcomes(passed=2, failed=2, errors=1)
    output = result.stdout.str()
    assert output.count("- errors in tools -") == 2
    result.stdout.fnmatch_lines(["the tool 'look' raised KeyError", "  *test_it.py:* in look"])
    assert "Failed: the tool 'look' raised KeyError" in output
    result.stdout.fnmatch_lines(["claude: tool_errors is 'forbidden' or 'allowed', not True"])


def test_conversations_that_fail_a_test(pytester: pytest.Pytester) -> None:
    """The agent may have swallowed the error of the API: the test fails all the same, with the reason."""
    result = run_tests(
        pytester,
        """
def swallow(*questions):
    try:
        for question in questions:
            agent(question)
    except anthropic.APIStatusError:
        pass

def illegal():
    message = ask([user("Weather?")])
    try:
        ask([user("Weather?"), {"role": "assistant", "content": message.content}, user("Go on.")])
    except anthropic.BadRequestError:
        pass

def test_illegal(claude):
    claude.replies(tool_use("get_weather", {"city": "Paris"}))
    illegal()

def test_no_reply(claude):
    swallow("a")

def test_no_reply_left(claude):
    claude.replies(text("a"))
    swallow("a", "b")

def test_unused(claude):
    claude.replies(text("a"))
    claude.replies(text("b"))
    swallow("a")

def test_no_request(claude):
    claude.replies(text("a"))

def test_function(claude):
    def check(request):
        assert request["model"] == "other"
    claude.replies(check)
    swallow("a")

def test_own_failure(claude):
    claude.replies(text("a"))
    assert False, "its own"

@pytest.fixture
def late(claude):
    yield
    claude.replies(tool_use("get_weather", {"city": "Paris"}))
    illegal()

def test_late(late):
    pass

@pytest.mark.xfail(strict=True)
def test_expected(claude):
    claude.replies(text("a"))

@pytest.mark.claude(check_histories=False, check_replies=False)
def test_unchecked(claude):
    claude.replies(tool_use("get_weather", {"city": "Paris"}))
    claude.replies(text("unused"))
    claude.replies(text("unused"))
    illegal()
    ask([user("other")])
    ask([user("other")])
    swallow("other")
""",
        "--tb=native",  # to quote the statements of each frame takes a third of the time
    )
    result.assert_outcomes(failed=7, passed=2, errors=1, xfailed=1)
    ids = "messages.1: `tool_use` ids were found without `tool_result` blocks"
    output = result.stdout.str()
    for line in (
        f"\nrequest 2 sent a history that the API refuses: {ids}",
        "\nthe test has no reply: call claude.replies(...) before its first request\n",
        "\nno reply is left for request 2: call claude.replies(...) once per request\n",
        "\nno request got reply 2\n",
        ": does the agent use ANTHROPIC_BASE_URL?\n",
        "\nreply 1: its function raised AssertionError: assert 'claude-opus-4-7' == 'other'\n",
        "AssertionError: its own\n",
        "ERROR at teardown of test_late",
    ):
        assert line in output, line


def test_a_call_of_a_tool_that_is_not_there(pytester: pytest.Pytester) -> None:
    """It fails the test, with the names that the request had, unless the marker allows it."""
    result = run_tests(
        pytester,
        """
def test_misspelt(claude):
    claude.replies(tool_use("get_wether", {"city": "Paris"}))
    claude.replies(text("Warm."))
    agent("Weather?")

@pytest.mark.claude(check_calls=False)
def test_on_purpose(claude):
    claude.replies(tool_use("get_wether", {"city": "Paris"}))
    claude.replies(text("Warm."))
    agent("Weather?")
""",
    )
    result.assert_outcomes(failed=1, passed=1)
    said = "reply 1 calls 'get_wether', which request 1 does not have: it has get_weather"
    assert said in result.stdout.str()


@rows(
    "body, called",
    [
        ({"tools": []}, ["a", "b"]),
        ({"tools": None, "messages": None}, ["a", "b"]),
        ({"tools": [{"name": "a"}, 5, {"type": "b_20250101", "name": "b"}]}, []),
        (
            {
                "messages": [
                    {"role": "system", "content": [{"type": "tool_addition", "tool": {"definition": {"name": "a"}}}]}
                ]
            },
            ["b"],
        ),
        (
            {"messages": [{"role": "system", "content": [{"type": "tool_addition", "tool": {"name": "b"}}, 5]}, 5]},
            ["a"],
        ),
        (5, []),
    ],
)
def test_the_tools_of_a_request(body: Any, called: list[str]) -> None:
    """Those of its list, and those that its messages add."""
    request = ReceivedRequest("req_1", {}, body=body, complete=body)
    exchange = Exchange(request, 0.0, "reply 1", reply(tool_use("a", {}), tool_use("b", {})))
    assert [name for name, _ in unknown_calls(exchange)] == called


def _exchange(messages: Sequence[object], response: Recording | None, **fields: object) -> Exchange:
    body = {"model": "m", "stream": True, "messages": messages, "tools": [{"name": "get_weather"}]}
    request = ReceivedRequest(
        "req_1", {}, body=body, complete=body, status=200 if response is None else response.status
    )
    request.end()
    for name, value in fields.items():
        setattr(request, name, value)
    return Exchange(request, 0.5, "reply 1", response)


def _none(_: ReceivedRequest) -> list[str]:
    return []


def test_a_picture() -> None:
    """Each request shows the messages that are new, and what came back."""
    first = [{"role": "user", "content": "Weather?"}]
    answer = reply(thinking("Hm."), text("Let me look."), tool_use("get_weather", {"city": "Paris"}))
    call = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Łódź"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "is_error": True,
        "content": [{"type": "text", "text": "No"}],
    }
    second = [*first, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    exchanges = [
        _exchange(first, answer),
        _exchange(second, reply(text("No"), error_event("overloaded_error", "Overloaded"))),
        _exchange(second, reply(text("Mild.")), fault=Fault(FaultKind.RESET, after_bytes=7), disconnected=True),
        _exchange(second, reply(text("Mild.")), fault=Fault(FaultKind.HTML_PAGE), status=502),
        _exchange(second, http_error(529, "overloaded_error", "Overloaded")),
        _exchange([], Recording((Chunk(2.0, b"{"),), headers={"content-type": "application/json"}), disconnected=True),
        _exchange([], Recording((Chunk(0.0, b"data: {]\n\n"),))),
        _exchange([{"role": "user", "content": [{"type": "image", "source": {"data": "x" * 9_999}}]}], None),
    ]
    shown = picture(
        exchanges, ["no request got reply 9"], lambda request: ["a fault"] if not request.body["messages"] else []
    )
    lines = [line for line in shown.splitlines() if not line.startswith("request")]
    assert lines == [
        "  -> user         Weather?",
        "  <- HTTP 200, reply 1",
        "  <- thinking     Hm.",
        "  <- text         Let me look.",
        '  <- tool_use     get_weather {"city": "Paris"}',
        "  <- end          tool_use",
        '  -> tool_use     get_weather {"city": "Łódź"}',
        "  -> tool_result  get_weather (is_error): No",
        "  <- HTTP 200, reply 1",
        "  <- text         No",
        "  <- error        overloaded_error: Overloaded",
        "  -> the same messages again",
        "  <- HTTP 200, reply 1, fault: Fault(FaultKind.RESET, after_bytes=7)",
        "  <- the fault is in this response:",
        "  <- text         Mild.",
        "  <- end          end_turn",
        "  -> the same messages again",
        "  <- HTTP 502, reply 1, fault: Fault(FaultKind.HTML_PAGE, status=502)",
        "  -> the same messages again",
        "  <- HTTP 529, reply 1",
        "  <- error        overloaded_error: Overloaded",
        "  <- HTTP 200, reply 1, 2.00 s, the client left before its end",
        "  <- end          None",
        "  !! a fault",
        "  <- HTTP 200, reply 1",
        "  <- end          None",
        "  !! a fault",
        lines[27],
        "  <- HTTP 200, reply 1",
        "!! no request got reply 9",
    ]
    assert lines[27].startswith('  -> image        {"type": "image", "source": {"data": "xxxx')
    assert lines[27].endswith("xxxx... (9,740 characters left out)")
    assert shown.startswith("request 1 at 0.50 s: m, streamed, tools get_weather\n")


def test_a_picture_is_bounded_and_harmless() -> None:
    """A test may send a million characters, a thousand requests, escapes of a terminal, and keys."""
    key = "sk-ant-api03-" + "k" * 60
    parts = [{"type": "text", "text": f"\x1b[31m{key}\n" + "x" * 100_000} for _ in range(100)]
    call = tool_use("get_weather", {"password": "hunter2hunter2", "key": key})
    exchanges = [_exchange([{"role": "user", "content": parts}], reply(call)) for _ in range(100)]
    shown = picture(exchanges, [f"{key} \x07"] * 100, _none)
    assert len(shown) < 100_000
    assert shown.replace("\n", "").isprintable()
    assert "hunter2" not in shown
    assert "kkkk" not in shown
    assert "... 75 requests left out ..." in shown
    assert picture([], [], _none) == "no request"


def test_a_reply_is_given_again_if_it_did_not_arrive() -> None:
    """The client sends the same messages again after a fault, or after it has left; then the next reply is next."""
    script = Script()
    for number in range(3):
        script.add(Scenario.of(reply(text(str(number)))))
    body = {"messages": [{"role": "user", "content": "a"}]}

    def sent(body: Mapping[str, object], **fields: object) -> str:
        response = script.answer(body)
        script.note(_exchange([], response, **fields).request)
        return response.body.decode().split('"text":"')[2][0]

    assert sent(body, fault=Fault(FaultKind.END)) == "0"
    assert sent({"messages": []}) == "1"
    assert sent(body, disconnected=True) == "0"
    assert sent(body) == "0"
    assert sent(body) == "2"
    assert script.unused() == []
