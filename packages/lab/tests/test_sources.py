"""Sources and tools: what is asked, what is called, and whose tools are left alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.tables import rows

from eagerstream import Tool
from eagerstream.errors import UsageError
from eagerstream.inputs import InputError
from eagerstream_lab._sources import (
    called_tools,
    named_tools,
    of_prompt,
    of_prompt_file,
    of_recordings,
    poem_tools,
    recorded_tools,
    requested_tools,
)
from eagerstream_testing import reply, text, tool_use

MODULE = '''
from eagerstream import tool, ItemStream
calls = 0

@tool(timeout_s=7)
async def save(path: str, lines: list[str]) -> str:
    """Save lines."""
    return "saved"

@tool(eager=False)
async def look(place: str) -> str:
    """Look."""
    return place

def some():
    global calls
    calls += 1
    return [save, look]

both = (save, look)
of_the_api = [{"type": "web_search_20250305", "name": "web_search"}]
text = "no tools"
empty = []

def broken():
    raise RuntimeError("no")
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module of somebody's own, in the current folder."""
    name = "tools_of_a_user"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield name
    sys.modules.pop(name, None)


def test_own_tools(own: str) -> None:
    """They are taken from the current folder, streamed as the case says, and never changed."""
    for attribute in ("both", "some"):
        tools = named_tools(f"{own}:{attribute}")
        for eager in (True, False):
            made = tools.made(Path(), eager=eager)
            definitions = [one.to_dict() for one in made if isinstance(one, Tool)]
            assert [definition["eager_input_streaming"] for definition in definitions] == [eager] * 2
            assert isinstance(made[0], Tool)
            assert made[0].timeout_s == 7
            assert made[0].eager is eager
    module = sys.modules[own]
    assert (module.save.eager, module.look.eager) == (True, False)
    assert module.look.to_dict()["eager_input_streaming"] is False
    assert module.calls >= 2  # a function gives tools for each run


def test_a_copy_runs_as_the_tool_does(own: str) -> None:
    """Only its definition differs."""
    (copied,) = named_tools(f"{own}:save").made(Path(), eager=False)
    assert isinstance(copied, Tool)
    assert anyio.run(copied.call, {"path": "a", "lines": []}) == "saved"


def test_the_script_of_own_tools(own: str) -> None:
    """Each tool is called once, with an input that it takes; then the model is done."""
    first, second = named_tools(f"{own}:both").script()
    assert called_tools(first) == ["save", "look"]
    assert called_tools(second) == []


@rows("attribute", ["text", "empty", "nothing", "broken", ""])
def test_own_tools_that_are_none(own: str, attribute: str) -> None:
    """It is told what is there instead, or why it cannot be had."""
    with pytest.raises(UsageError, match=f"{own}:{attribute}"):
        named_tools(f"{own}:{attribute}").made(Path(), eager=True)


@rows("name", ["poems", "no_such_module:tools", ":", "json:"])
def test_no_such_tools(name: str) -> None:
    """A name that is none is told of."""
    with pytest.raises(UsageError):
        named_tools(name)


def test_definitions_of_the_api_are_left_alone(own: str) -> None:
    """What the API runs has no such setting."""
    tools = named_tools(f"{own}:of_the_api")
    assert tools.made(Path(), eager=True) == [{"type": "web_search_20250305", "name": "web_search"}]
    with pytest.raises(UsageError, match="no tool that runs here"):
        tools.script()


_PLAIN = {
    "name": "write",
    "description": "Write lines.",
    "eager_input_streaming": True,
    "input_schema": {
        "type": "object",
        "properties": {"lines": {"type": "array", "items": {"type": "string"}}},
        "required": ["lines"],
    },
}


@rows("form", ["list", "one", "request", "module"])
def test_plain_definitions(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a JSON file or a module: tools that check their inputs, and wait; the script calls each once."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    content = {"list": [_PLAIN, search], "one": _PLAIN, "request": {"model": "m", "tools": [_PLAIN, search]}}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("definitions.json").write_text(json.dumps(content.get(form)))
    Path("plain_definitions.py").write_text(f"tools = {[_PLAIN]!r}")
    name = "plain_definitions:tools" if form == "module" else "definitions.json"
    tools = named_tools(name, tool_s=0)
    assert tools.name == ("plain_definitions:tools" if form == "module" else "definitions")
    for eager in (True, False):
        made, *others = tools.made(Path(), eager=eager)
        assert isinstance(made, Tool)
        assert made.to_dict()["eager_input_streaming"] is eager
        assert others == ([search] if form in ("list", "request") else [])
        assert anyio.run(made.call, {"lines": ["a"]}) == "done"
        with pytest.raises(InputError):
            made.check({"lines": "a"})
    first, last = tools.script()
    assert called_tools(first) == ["write"]
    assert called_tools(last) == []


@rows("content", ["", "{", "[]", "3", '["x"]', '{"tools": []}'])
def test_definitions_that_are_none(content: str, tmp_path: Path) -> None:
    """The file is named in the fault."""
    path = tmp_path / "definitions.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"definitions\.json"):
        named_tools(str(path)).made(Path(), eager=True)


def test_the_script_of_a_request() -> None:
    """It calls the tools of the request, whatever was said before, and ends."""
    turns = requested_tools({"model": "m", "max_tokens": 9, "tools": [_PLAIN], "messages": []}).script()
    assert called_tools(turns[0])[:1] == ["write"]
    assert called_tools(turns[1]) == []
    assert called_tools(requested_tools({"model": "m", "max_tokens": 9, "messages": []}).script()[0]) == []


def test_recorded_tools() -> None:
    """They take any input, and each name comes once."""
    turns = (reply(tool_use("a", {}), tool_use("b", {"x": [1]})), reply(tool_use("a", {"y": None})))
    made = recorded_tools(turns, tool_s=0, name="r").made(Path(), eager=False)
    assert [one.to_dict()["name"] for one in made if isinstance(one, Tool)] == ["a", "b"]
    assert isinstance(made[0], Tool)
    assert anyio.run(made[0].call, {"whatever": [{}]}) == "done"


def test_a_conversation_of_recordings(tmp_path: Path) -> None:
    """Its turns follow one another; after one that ends it none can come."""
    call, end = tmp_path / "call.jsonl", tmp_path / "end.jsonl"
    reply(tool_use("a", {})).save(call)
    reply(text("Done.")).save(end)
    source = of_recordings([call, end])
    assert source.name == "call+end"
    assert source.recordings is not None
    assert len(source.recordings) == 2
    with pytest.raises(UsageError, match="none can follow"):
        of_recordings([end, call])


def test_prompts(tmp_path: Path) -> None:
    """A prompt has a name that tells nothing of it, a file that of the file; what is none is refused."""
    asked = of_prompt("something private")
    assert asked.name == of_prompt("something private").name != of_prompt("something else").name
    assert "private" not in repr(asked)
    path = tmp_path / "long.txt"
    path.write_text("Ask this.")
    assert (of_prompt_file(path).name, of_prompt_file(path).prompt) == ("long", "Ask this.")
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="UTF-8"):
        of_prompt_file(path)
    with pytest.raises(UsageError, match="cannot be read"):
        of_prompt_file(tmp_path / "none.txt")
    with pytest.raises(UsageError, match="empty"):
        of_prompt(" \n")


def test_the_poem() -> None:
    """The demo's replies call the demo's tools."""
    names = {one.to_dict()["name"] for one in poem_tools().made(Path(), eager=True) if isinstance(one, Tool)}
    first, _ = poem_tools().script()
    assert set(called_tools(first)) == names
