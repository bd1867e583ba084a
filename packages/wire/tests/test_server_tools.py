"""What the API has run itself: calls, results, and which belong together."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import anthropic.types
import anthropic.types.beta
from anthropic.types import ServerToolUseBlock
from pydantic import BaseModel
from tests.streams import (
    MADE_DIR,
    MESSAGE_STOP,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    tool_start,
    wire_events,
)
from tests.tables import rows

from eagerstream_wire import (
    BlockStart,
    BlockStop,
    InputAccumulator,
    InputStop,
    MessageAssembler,
    Outcome,
    ParsingLimits,
    ServerToolResult,
    ServerToolUse,
    ToolInput,
    WireEvent,
)
from eagerstream_wire._server_tools import ServerToolErrorCode, is_server_result

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tides"}}
FOUND: dict[str, Any] = {"tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "https://a"}]}


def assembled(*events: WireEvent, messages: Any = (), ends: bool = True) -> list[Any]:
    """The events that wire events make."""
    assembler = MessageAssembler(messages=messages)
    outs = [out for event in events for out in assembler.feed(event)]
    return outs + (assembler.close() if ends else [])


def results(events: list[Any]) -> list[ServerToolResult]:
    return [event for event in events if isinstance(event, ServerToolResult)]


def uses(events: list[Any]) -> list[ServerToolUse[ToolInput]]:
    return [event for event in events if isinstance(event, ServerToolUse)]


def searching(index: int = 0, **fields: Any) -> list[WireEvent]:
    """A search, written by the model."""
    start = tool_start(index, kind="server_tool_use", **({"id": "srvtoolu_1", "name": "web_search"} | fields))
    return [start, input_delta(index, '{"query": "tides"}'), block_stop(index)]


def found(index: int = 1, **fields: Any) -> list[WireEvent]:
    """Its result."""
    return [block_start(index, "web_search_tool_result", **(FOUND | fields)), block_stop(index)]


def test_pairs_of_one_reply() -> None:
    """A search and a call of an MCP server: each is told once, in order, with its result behind it."""
    events = assembled(*wire_events((MADE_DIR / "server_tool.sse").read_bytes()))
    told = [event for event in events if isinstance(event, ServerToolUse | ServerToolResult)]
    assert [type(event) for event in told] == [ServerToolUse, ServerToolResult] * 2
    search, found, read, page = told
    assert isinstance(search, ServerToolUse)
    assert isinstance(read, ServerToolUse)
    assert (search.input.name, search.input.kind, search.input.value) == (
        "web_search",
        "server_tool_use",
        {"query": "tide Viana"},
    )
    assert (read.input.name, read.input.kind) == ("read_page", "mcp_tool_use")
    for result, use in ((found, search), (page, read)):
        assert isinstance(result, ServerToolResult)
        assert result.call is not None
        assert result.tool_use_id == result.call["id"] == use.input.id
        assert result.call["input"] == use.input.value
        assert (result.is_error, result.error_code) == (False, None)


def test_they_are_the_ends_of_their_blocks() -> None:
    """Nothing is told twice: who knows nothing of server tools sees the blocks and inputs end as all others."""
    events = assembled(message_start(), *searching(), *found())
    assert [type(event).__name__ for event in events if isinstance(event, InputStop | BlockStart | BlockStop)] == [
        "ServerToolUse",
        "BlockStart",
        "ServerToolResult",
    ]


def test_calls_of_the_client() -> None:
    """They are none of these."""
    events = assembled(message_start(), tool_start(0), input_delta(0, "{}"), block_stop(0), MESSAGE_STOP)
    assert uses(events) == []
    assert [type(event) for event in events if isinstance(event, InputStop)] == [InputStop]


@rows("kind", ["server_tool_use", "mcp_tool_use"])
def test_a_call_without_an_input(kind: str) -> None:
    """It is made once the reply goes on, and so before its result."""
    call = tool_start(0, kind=kind, id="srvtoolu_1")
    events = assembled(message_start(), call, block_stop(0), *found())
    (use,) = uses(events)
    assert use.input.value == {}
    (result,) = results(events)
    assert events.index(use) < events.index(result)
    assert result.call is not None
    assert result.call["input"] == {}


def test_a_call_that_was_cut_off() -> None:
    """It was not made: its input ends, and that is all."""
    for events in (
        assembled(message_start(), *searching()[:2]),
        assembled(message_start(), tool_start(0, kind="server_tool_use"), block_stop(0)),
    ):
        assert uses(events) == []
        (stop,) = (event for event in events if isinstance(event, InputStop))
        assert stop.input.outcome is Outcome.INCOMPLETE


def test_a_call_whose_input_is_wrong() -> None:
    """The API has to do with it, not the client: it is told, with what is wrong."""
    bad = [tool_start(0, kind="server_tool_use"), input_delta(0, '{"query": tides}'), block_stop(0)]
    (use,) = uses(assembled(message_start(), *bad))
    assert use.input.outcome is Outcome.INVALID


def test_by_the_accumulator_alone() -> None:
    """It knows nothing of results, but of calls."""
    accumulator = InputAccumulator()
    events = [out for event in searching() for out in accumulator.feed(event)]
    assert [type(event).__name__ for event in events] == ["InputStart", "InputDelta", "ServerToolUse"]


# --- whose result it is -----------------------------------------------------------------------------------------------


def assistant(*content: Any) -> Mapping[str, Any]:
    return {"role": "assistant", "content": content}


CLIENT_CALL = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}
ANSWER = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "noon"}]}
OF_THE_PACKAGE = ServerToolUseBlock.model_validate(SEARCH)

HISTORIES: dict[str, list[Any]] = {
    "a turn that was paused": [assistant(SEARCH)],
    "a mixed turn": [assistant(SEARCH, CLIENT_CALL), ANSWER],
    "several replies ago": [assistant(SEARCH, CLIENT_CALL), ANSWER, assistant({"type": "text", "text": "So."})],
    "as objects of the anthropic package": [assistant(OF_THE_PACKAGE)],
}


@rows("history", HISTORIES.values())
def test_a_result_of_an_earlier_call(history: list[Any]) -> None:
    """The call is in what was sent: a pause, or the results of the client, came between."""
    sent = [{"role": "user", "content": "When is high water?"}, *history]
    (result,) = results(assembled(message_start(), *found(0), messages=sent))
    assert result.call is not None
    assert {name: result.call[name] for name in SEARCH} == SEARCH


def test_the_call_of_this_reply_goes_first() -> None:
    """Where a peer gives an id twice, the nearest call is meant."""
    (result,) = results(assembled(message_start(), *searching(name="near"), *found(), messages=[assistant(SEARCH)]))
    assert result.call is not None
    assert result.call["name"] == "near"


NOBODY: dict[str, tuple[list[WireEvent], list[Any]]] = {
    "no call at all": (found(0), []),
    "the call of another": ([*searching(id="srvtoolu_2"), *found()], []),
    "a call of the client's": ([tool_start(0, id="srvtoolu_1"), block_stop(0), *found()], []),
    "an earlier call of the client's": (found(0, tool_use_id="toolu_1"), [assistant(CLIENT_CALL)]),
    "a result before its call": ([*found(0), *searching(1)], []),
    "an id that is no text": ([*searching(id=7), *found(tool_use_id=7)], [assistant(SEARCH | {"id": 7})]),
    "an id that has no hash": (found(0, tool_use_id=["srvtoolu_1"]), [assistant(SEARCH)]),
    "no id": (
        [block_start(0, "web_search_tool_result", content=[]), block_stop(0)],
        [assistant({name: value for name, value in SEARCH.items() if name != "id"})],
    ),
    "a history of nonsense": (found(0), [{"role": "assistant"}, {"content": 3}, assistant(None, "x", 3, [SEARCH])]),
    "a call that was void": ([*searching(), message_start(), *found(0)], []),
}


@rows("events, history", NOBODY.values())
def test_a_result_of_no_known_call(events: list[WireEvent], history: list[Any]) -> None:
    """It is told all the same: what a peer sends must not raise, and not be lost."""
    (result,) = results(assembled(message_start(), *events, messages=history))
    assert result.call is None
    assert result.block["content"] is not None
    assert isinstance(result.tool_use_id, str)


def test_a_result_that_was_not_closed() -> None:
    """It came whole with its beginning: an end of its block that never comes takes nothing from it."""
    whole = [message_start(), *searching(), found()[0]]
    for events in (
        assembled(*whole),
        assembled(*whole, message_delta("end_turn"), MESSAGE_STOP),
        assembled(*whole, block_start(1, "text", text="")),
    ):
        (result,) = results(events)
        assert result.call is not None
        assert result.block["content"] == FOUND["content"]


def test_a_reply_that_comes_whole_with_its_start() -> None:
    """Calls that code at the API makes may bring along what came before them."""
    content = [SEARCH, {"type": "web_search_tool_result", **FOUND}]
    events = assembled(message_start(content=content))
    (use,) = uses(events)
    (result,) = results(events)
    assert use.input.value == SEARCH["input"]
    assert result.call == SEARCH


def test_an_empty_input_that_comes_whole_with_the_start() -> None:
    """The result behind it proves that the call was whole, even in a reply that is cut later; and comes after it."""
    content = [SEARCH | {"input": {}}, {"type": "web_search_tool_result", **FOUND}]
    events = assembled(message_start(content=content), message_delta("max_tokens"), MESSAGE_STOP)
    ends = [event for event in events if isinstance(event, InputStop | ServerToolResult)]
    assert [type(event) for event in ends] == [ServerToolUse, ServerToolResult]
    (use,) = uses(events)
    assert (use.input.outcome, use.input.value) == (Outcome.VALID, {})


def test_many_results_cost_little() -> None:
    """A peer may send thousands of results, each of no call: the history is gone through once, not for each."""
    looks = 0

    class Counted(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal looks
            looks += key == "content"
            return super().get(key, default)

    history = [Counted(assistant(SEARCH)) for _ in range(10)]
    events = [event for index in range(200) for event in found(index, tool_use_id=f"srvtoolu_x{index}")]
    assert len(results(assembled(message_start(), *events, messages=history))) == 200
    assert looks == len(history)
    assert ParsingLimits().max_blocks > 200


# --- how it ended -----------------------------------------------------------------------------------------------------


ENDED: dict[str, tuple[str, dict[str, Any], bool, str | None]] = {
    "an error of a search": (
        "web_search_tool_result",
        {"content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}},
        True,
        "max_uses_exceeded",
    ),
    "an error of a fetch, in its older spelling": (
        "web_fetch_tool_result",
        {"content": {"type": "web_fetch_tool_result_error", "error_code": "invalid_input"}},
        True,
        "invalid_input",
    ),
    "an error that is not known": (
        "bash_code_execution_tool_result",
        {"content": {"type": "bash_code_execution_tool_result_error", "error_code": "out_of_paper"}},
        True,
        "out_of_paper",
    ),
    "an error of a tool that is not known": (
        "hologram_tool_result",
        {"content": {"type": "hologram_tool_result_error", "error_code": "dark"}},
        True,
        "dark",
    ),
    "an error without a code": (
        "tool_search_tool_result",
        {"content": {"type": "tool_search_tool_result_error"}},
        True,
        None,
    ),
    "a code that is no text": (
        "code_execution_tool_result",
        {"content": {"type": "code_execution_tool_result_error", "error_code": 3}},
        True,
        None,
    ),
    "an MCP server's error": ("mcp_tool_result", {"is_error": True, "content": "no such page"}, True, None),
    "an MCP server's result": ("mcp_tool_result", {"is_error": False, "content": []}, False, None),
    "an is_error that is no boolean": ("mcp_tool_result", {"is_error": "yes", "content": []}, False, None),
    "code that failed": (
        "code_execution_tool_result",
        {"content": {"type": "code_execution_result", "return_code": 1, "stderr": "no", "error_code": "x"}},
        False,
        None,
    ),
    "a list": ("web_search_tool_result", {"content": [{"type": "web_search_result"}]}, False, None),
    "a type that is no text": ("web_search_tool_result", {"content": {"type": 3, "error_code": "a"}}, False, None),
    "nothing": ("web_search_tool_result", {}, False, None),
}


@rows("kind, fields, is_error, code", ENDED.values())
def test_how_a_call_ended(kind: str, fields: dict[str, Any], is_error: bool, code: str | None) -> None:
    """Codes and tools that are new pass; what is no error has none."""
    (result,) = results(
        assembled(message_start(), block_start(0, kind, tool_use_id="srvtoolu_1", **fields), block_stop(0))
    )
    assert (result.is_error, result.error_code) == (is_error, code)


def test_what_is_written_stays_out_of_logs() -> None:
    """A repr tells kinds and sizes."""
    events = assembled(message_start(), *searching(), *found())
    for event in (*uses(events), *results(events)):
        assert "tides" not in repr(event)
        assert "https" not in repr(event)
    assert repr(results(events)[0]) == "ServerToolResult(index=1, type='web_search_tool_result', is_error=False)"


# --- beside the anthropic package -------------------------------------------------------------------------------------


def models_of_the_package() -> Iterator[type[BaseModel]]:
    """The package's types of what is in replies."""
    for package in (anthropic.types, anthropic.types.beta):
        for found in pkgutil.iter_modules(package.__path__):
            if "_result" not in found.name or "managed" in found.name or found.name.endswith("_param"):
                continue
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            for name in getattr(module, "__all__", ()):
                value = getattr(module, name)
                if isinstance(value, type) and issubclass(value, BaseModel):
                    yield value


def test_result_blocks_of_the_anthropic_package() -> None:
    """Each that names a call is known as a result."""
    kinds = {
        kind
        for model in models_of_the_package()
        if "tool_use_id" in model.model_fields
        for kind in get_args(model.model_fields["type"].annotation)
    }
    assert {"web_search_tool_result", "bash_code_execution_tool_result", "mcp_tool_result"} <= kinds
    assert [kind for kind in sorted(kinds) if not is_server_result(kind)] == []


def test_error_codes_of_the_anthropic_package() -> None:
    """All of them are known here, so that an editor can offer them."""
    codes = {
        code
        for model in models_of_the_package()
        if "error_code" in model.model_fields
        for code in get_args(model.model_fields["error_code"].annotation)
    }
    assert "max_uses_exceeded" in codes
    assert codes - set(get_args(ServerToolErrorCode)) == set()
