"""`cache="auto"`: breakpoints that move along with the history, never more than the API takes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eagerstream.loop._cache_breakpoints import with_breakpoints
from eagerstream_testing import reply, server_tool_use, text, thinking, tool_use
from tests.loop.serial import DONE, Listed, by_hand, finished, now
from tests.streams import REQUEST, USER
from tests.support import LocalAPI

pytestmark = pytest.mark.anyio

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def marks(value: Any, path: str = "") -> dict[str, Any]:
    """Where in a body there are breakpoints, and which."""
    found: dict[str, Any] = {}
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "cache_control":
                found[path] = inner
            else:
                found |= marks(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found |= marks(inner, f"{path}.{index}")
    return found


SCRIPT = [reply(thinking("Hm."), tool_use("now", {}, id=f"c{n}"), message_id=f"m{n}") for n in range(4)]


async def bodies_of(*script: Any, **options: Any) -> list[dict[str, Any]]:
    """What is sent with `cache="auto"`; the history that is left has no breakpoint but the user's own."""
    api = Listed(*script)
    run = await finished(api.transport(), **{"tools": [now], "cache": "auto", **options})
    assert marks(run.result.messages) == marks(list(options.get("messages", [USER])))
    assert all(len(marks(sent)) <= 4 for sent in api.bodies)
    return api.bodies


async def test_they_move_along() -> None:
    """On the last two user messages of each request, and on the tools where there is no system prompt."""
    bodies = await bodies_of(*SCRIPT, DONE)
    assert [sorted(marks(sent)) for sent in bodies] == [
        ["messages.0.content.0", "tools.0"],
        ["messages.0.content.0", "messages.2.content.0", "tools.0"],
        ["messages.2.content.0", "messages.4.content.0", "tools.0"],
        ["messages.4.content.0", "messages.6.content.0", "tools.0"],
        ["messages.6.content.0", "messages.8.content.0", "tools.0"],
    ]


async def test_nothing_else_changes() -> None:
    """Without its marks a body is what is sent without a cache, but for strings that became a block."""
    bodies = await bodies_of(*SCRIPT, DONE, system="Be brief.")

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items() if key != "cache_control"}
        if isinstance(value, list):
            cleaned = [plain(inner) for inner in value]
            return (
                cleaned[0]["text"]
                if [*map(type, cleaned)] == [dict] and cleaned[0].keys() == {"type", "text"}
                else cleaned
            )
        return value

    marked = [plain(sent) for sent in bodies]
    api = Listed(*SCRIPT, DONE)
    await finished(api.transport(), tools=[now], system="Be brief.")
    assert marked == [plain(sent) for sent in api.bodies]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"system": "Be brief."}, {"system.0": MARK}),
        ({"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, {"system.1": MARK}),
        ({"system": [{"type": "text", "text": "a", "cache_control": HOUR}]}, {"system.0": HOUR}),
        (
            {"system": [{"type": "text", "text": "a", "cache_control": HOUR}, {"type": "text", "text": "b"}]},
            {"system.0": HOUR, "system.1": MARK},
        ),
        ({"system": ""}, {"tools.0": MARK}),
        ({"tools": []}, {}),
        ({"tools": [now, {"type": "web_search_20250305", "name": "web_search"}]}, {"tools.1": MARK}),
        (
            {"tools": [now, {"name": "later", "type": "x", "defer_loading": True}]},
            {"tools.0": MARK},
        ),
    ],
    ids=str,
)
async def test_system_and_tools(options: dict[str, Any], expected: dict[str, Any]) -> None:
    """The system prompt, a string or a list; the tools where there is none; the user's own marks stay as they are."""
    api = LocalAPI([DONE])
    await finished(api.transport(), **{"tools": [now], "cache": "auto", **options})
    assert marks(api.exchanges[0].body) == {"messages.0.content.0": MARK, **expected}


@pytest.mark.parametrize("own", range(5))
async def test_the_user_s_own_count(own: int) -> None:
    """Those that the user set stay where they are, and leave room for as many fewer."""
    content = [{"type": "text", "text": str(n), "cache_control": HOUR} for n in range(own)]
    first = {"role": "user", "content": [*content, {"type": "text", "text": "Go."}]}
    bodies = await bodies_of(*SCRIPT[:2], DONE, messages=[first], system="Be brief.")
    for sent in bodies:
        found = marks(sent)
        assert {f"messages.0.content.{n}": HOUR for n in range(own)}.items() <= found.items()
    assert len(marks(bodies[-1])) == min(4, own + 3)


async def test_on_the_last_result() -> None:
    """Of several results in a message, the last one carries it."""
    first = reply(tool_use("now", {}, id="a"), tool_use("now", {}, id="b"))
    bodies = await bodies_of(first, DONE)
    assert sorted(marks(bodies[1])) == ["messages.0.content.0", "messages.2.content.1", "tools.0"]


async def test_after_a_pause() -> None:
    """A paused reply goes back as it came: no mark in it."""
    paused = reply(server_tool_use("s", {"q": 1}, id="srvtoolu_1"), stop_reason="pause_turn")
    bodies = await bodies_of(paused, DONE, tools=[{"type": "s_1", "name": "s"}])
    assert sorted(marks(bodies[1])) == ["messages.0.content.0", "tools.0"]


async def test_the_definitions_stay_as_they_are() -> None:
    """A run does not leave its marks in what the caller gave it."""
    definition = {"type": "s_1", "name": "s"}
    system = [{"type": "text", "text": "a"}]
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "Go."}]}]
    before = deepcopy((definition, system, messages))
    client = Listed(SCRIPT[0], DONE).transport()
    await by_hand(client, tools=[now, definition], system=system, messages=messages, cache="auto")
    assert (definition, system, messages) == before


def test_thinking_is_skipped() -> None:
    """A thinking block takes none: the block before it carries it, and where there is none, no block does."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
    hidden = {"type": "redacted_thinking", "data": "x"}
    blocks = [{"type": "text", "text": "a"}, thought, hidden]
    marked = with_breakpoints({**REQUEST, "messages": [{"role": "user", "content": blocks}]})
    assert marks(marked) == {"messages.0.content.0": MARK}
    assert marks(with_breakpoints({**REQUEST, "messages": [{"role": "user", "content": [thought]}]})) == {}


_CONTROL = st.sampled_from([None, MARK, HOUR])


def _blocks(control: Any) -> Any:
    made = st.builds(
        lambda kind, mark: {"type": kind, "text": "a", **({"cache_control": mark} if mark else {})},
        st.sampled_from(["text", "thinking", "tool_result"]),
        control,
    )
    return st.one_of(st.text(min_size=1, max_size=3), st.lists(made, max_size=3))


@given(
    messages=st.lists(
        st.builds(
            lambda role, content: {"role": role, "content": content},
            st.sampled_from(["user", "assistant"]),
            _blocks(_CONTROL),
        ),
        min_size=1,
        max_size=6,
    ),
    system=st.none() | _blocks(_CONTROL),
    tools=st.none()
    | st.lists(st.builds(lambda mark: {"name": "a", **({"cache_control": mark} if mark else {})}, _CONTROL)),
)
def test_never_more_than_four(messages: list[Any], system: Any, tools: Any) -> None:
    """Whatever a request has: none of the user's is lost or changed, at most four are there, and nothing is touched."""
    request = {**REQUEST, "messages": messages, "system": system, "tools": tools}
    before = deepcopy(request)
    own = marks(request)
    marked = marks(with_breakpoints(request))
    assert request == before
    assert own.items() <= marked.items()
    assert len(marked) <= max(4, len(own))


async def test_automatic_caching_counts() -> None:
    """A `cache_control` of the whole request takes one of the four."""
    first = {
        "role": "user",
        "content": [{"type": "text", "text": "a", "cache_control": MARK}, {"type": "text", "text": "b"}],
    }
    options: dict[str, Any] = {"messages": [first], "system": "Be brief.", "cache_control": MARK}
    api = LocalAPI(*([step] for step in SCRIPT[:2]), [DONE])
    await finished(api.transport(), tools=[now], cache="auto", **options)
    assert all(len(marks(exchange.body)) <= 4 for exchange in api.exchanges)


def test_those_of_typed_blocks_count() -> None:
    """A block of the package's own types is looked into when marks are set, and must be when they are counted."""
    from anthropic.types import TextBlock

    typed = [TextBlock.model_validate({"type": "text", "text": str(n), "cache_control": MARK}) for n in range(4)]
    messages = [{"role": "user", "content": [*typed, {"type": "text", "text": "b"}]}]
    marked = with_breakpoints({**REQUEST, "messages": messages, "system": "Be brief."})
    assert marks({key: value for key, value in marked.items() if key != "messages"}) == {}


async def test_without_it_nothing_is_marked() -> None:
    """The default leaves requests alone."""
    api = Listed(SCRIPT[0], reply(text("So.")))
    await finished(api.transport(), tools=[now], system="Be brief.")
    assert marks(api.bodies) == {}


def test_the_last_free_one_is_for_the_last_user_message() -> None:
    """The next request repeats all up to there, which is more than the system prompt."""
    own = [{"type": "text", "text": str(n), "cache_control": HOUR} for n in range(3)]
    messages = [{"role": "user", "content": own}, {"role": "assistant", "content": "Yes?"}, USER]
    marked = marks(with_breakpoints({**REQUEST, "messages": messages, "system": "Be brief."}))
    assert [place for place, mark in marked.items() if mark == MARK] == ["messages.2.content.0"]
