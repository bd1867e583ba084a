"""What the API refuses in a block is replaced or left out when the block opens."""

from __future__ import annotations

import re
from typing import Any

from packages.wire.tests.inputs import fed
from tests.streams import block_stop, input_delta, message_start, tool_start
from tests.tables import rows

from eagerstream_wire import ParsingLimits
from eagerstream_wire._echo import legal_id, legal_name, repaired


def test_fields_of_a_call_without_a_json_form_are_left_out() -> None:
    """The API would refuse them in each later request, and a call that runs must be kept."""
    odd: dict[str, Any] = {"a": 1, "b": float("inf"), "c": [10**5000], "d": {1}, "caller": 5}
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    events = message_start(), tool_start(0, "now", **odd, e=deep), input_delta(0, "{}"), block_stop(0)
    assembler, _ = fed(*events, limits=ParsingLimits(max_values=1_000_000))
    assert assembler.message["content"] == [{"type": "tool_use", "id": "toolu_0", "name": "now", "input": {}, "a": 1}]


@rows("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
@rows("id", ["functions.x:0", "\ud800", "é", " ", "x" * 300 + "."])
def test_an_id_that_the_api_refuses_has_a_stand_in(id: str, kind: str) -> None:
    """Call and result are repaired apart from each other, so the same id must give the same stand-in."""
    stand_in = legal_id(id, kind)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", stand_in)
    assert stand_in == legal_id(id, kind) == legal_id(stand_in, kind)
    assert stand_in != legal_id(id + ".", kind)


@rows("id, kind", [("toolu_1", "tool_use"), ("any-Id_1", "mcp_tool_use"), ("srvtoolu_1", "server_tool_use")])
def test_a_legal_id_stays(id: str, kind: str) -> None:
    """The API knows its own ids by their text."""
    assert legal_id(id, kind) == id


@rows("id", ["", None, 5, ["x"]])
def test_an_id_that_is_missing_has_no_stand_in(id: object) -> None:
    """Two calls without an id would get the same one."""
    assert legal_id(id, "tool_use") == ""


@rows(
    "name, kind, legal",
    [
        ("now", "tool_use", "now"),
        ("psql -c 'a'", "tool_use", "psql_-c_a_"),
        ("y" * 100, "tool_use", "y" * 64),
        ("", "tool_use", "unnamed_tool"),
        (None, "tool_use", "unnamed_tool"),
        ("any name: of a server", "mcp_tool_use", "any name: of a server"),
        ("y" * 201, "mcp_tool_use", "y" * 64),
        ("no such tool", "server_tool_use", ""),
    ],
)
def test_names(name: object, kind: str, legal: str) -> None:
    """The strictest rule of the API holds for tools of the client; the API has no stand-in for a tool of its own."""
    assert legal_name(name, kind) == legal


def test_the_block_that_came_is_not_changed() -> None:
    """It belongs to the caller: the repairs are made in a copy."""
    block = {"type": "web_search_tool_result", "tool_use_id": "a.b", "content": []}
    kept = repaired(block)
    assert block["tool_use_id"] == "a.b"
    assert kept == {**block, "tool_use_id": legal_id("a.b", "server_tool_use")}
