"""`Computer`: what each version offers, what each action does to a handler, and what a handler never sees."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, get_args

import anthropic.types
import anyio
import pytest
from packages.toolkit.tests.cases import case
from tests.streams import REQUEST
from tests.support import anthropic_client
from tests.tables import rows
from tests.tools.calls import a_call

import eagerstream
from eagerstream.errors import UsageError
from eagerstream.tools import InProcessExecutor, ToolCall
from eagerstream_testing import ReplayServer, Scenario, Scripted, reply, text, tool_use
from eagerstream_toolkit import Computer, ComputerHandler
from eagerstream_toolkit._computer import ACTIONS, ComputerVersion
from eagerstream_toolkit._computer_handler import Point

TOOLSET: Final = "computer_toolset_20260801"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
SKIPPED = "Not executed: an earlier computer action in this turn failed."


class Recorder(ComputerHandler):
    """A computer that can do everything, and remembers it."""

    def __init__(self, width: int = 1024, height: int = 768) -> None:
        super().__init__(width=width, height=height)
        self.done: list[tuple[Any, ...]] = []
        self.note: str | None = None
        self.picture = PNG

    async def screenshot(self) -> bytes:
        self.done.append(("screenshot",))
        return self.picture

    @classmethod
    def can(cls, action: str) -> None:
        """Give it an action with the parameters that a handler has for it."""

        @functools.wraps(getattr(ComputerHandler, action))
        async def method(self: Recorder, *values: Any, **named: Any) -> Any:
            bound = inspect.signature(method).bind(self, *values, **named)
            bound.apply_defaults()
            if bound.arguments.get("text") == "fail":
                raise ConnectionError("the cable is out")
            self.done.append((action, *list(bound.arguments.values())[1:]))
            return {"zoom": self.picture, "cursor_position": (3, 4)}.get(action, self.note)

        setattr(cls, action, method)


for _action in {*ACTIONS} - {"screenshot"}:
    Recorder.can(_action)


class Eye(ComputerHandler):
    """A computer that can only be looked at."""

    async def screenshot(self) -> bytes:
        return PNG


TURNS = itertools.count(1)
SIZE = {"display_width_px": 800, "display_height_px": 600}


def call_of(version: str, action: Any, input: dict[str, Any], *, index: int = 0, turn: int | None = None) -> ToolCall:
    """A call as the model writes it for a version of the tool, in a turn of its own."""
    turn = next(TURNS) if turn is None else turn
    if version == TOOLSET:
        return a_call(action, json.dumps(input), index=index, turn=turn, toolset_name="computer")
    return a_call("computer", json.dumps({"action": action, **input}), index=index, turn=turn)


async def answer(computer: Computer, call: ToolCall) -> tuple[Any, bool]:
    """What the model reads, and whether it is an error."""
    with anyio.fail_after(50):
        await InProcessExecutor([computer]).execute(call)
    assert call.result is not None
    assert call.result.get("toolset_name") == call.block.get("toolset_name")
    return call.result.get("content"), call.is_error


async def act(action: str, input: dict[str, Any], version: ComputerVersion = TOOLSET, **size: int) -> Any:
    """What a recorder did, and what the model reads of it."""
    recorder = Recorder(**size)
    content, is_error = await answer(Computer(recorder, version=version), call_of(version, action, input))
    return recorder.done, content, is_error


# --- definitions ------------------------------------------------------------------------------------------------------


def test_the_actions_are_those_of_the_anthropic_package() -> None:
    """A member that it adds, or a field, is noticed here; which fields are needed is its word, too."""
    members = pytest.importorskip("anthropic.types.computer_member_name")
    assert tuple(ACTIONS) == members.COMPUTER_MEMBER_NAME_VALUES
    for name, action in ACTIONS.items():
        model = getattr(anthropic.types, f"Computer{name.title().replace('_', '')}Input")
        assert set(action.required) == {name for name, field in model.model_fields.items() if field.is_required()}
        assert {*action.required, *action.optional} == set(model.model_fields)


@rows(
    "version, display_number, rest, betas",
    [
        (TOOLSET, None, {}, ()),  # no name and no size: the API refuses what is too much
        ("computer_20251124", None, {"name": "computer", **SIZE, "enable_zoom": True}, ("computer-use-2025-11-24",)),
        ("computer_20250124", 1, {"name": "computer", **SIZE, "display_number": 1}, ("computer-use-2025-01-24",)),
    ],
)
def test_definitions(
    version: ComputerVersion, display_number: int | None, rest: dict[str, Any], betas: tuple[str, ...]
) -> None:
    """A single tool has the size of the display. The later one has zoom, since the handler has it."""
    recorder = Recorder(800, 600)
    recorder.display_number = display_number
    computer = Computer(recorder, version=version, cache_control={"type": "ephemeral"})
    assert computer.to_dict() == {"type": version, **rest, "cache_control": {"type": "ephemeral"}}
    assert computer.betas == betas
    assert Computer(recorder, version=version).to_dict() == {"type": version, **rest}


def test_what_a_handler_cannot_do_is_not_offered() -> None:
    """All members but two are off; the user's own settings stay."""
    configs = Computer(Eye(), configs={"screenshot": {"defer_loading": True}}).to_dict()["configs"]
    assert configs.pop("screenshot") == {"defer_loading": True}
    assert "wait" not in configs  # which any computer can
    assert len(configs) == 15
    assert all(config == {"enabled": False} for config in configs.values())
    assert "enable_zoom" not in Computer(Eye(), version="computer_20251124").to_dict()


@rows(
    "options, said",
    [
        ({"version": "computer_20241022"}, "version"),
        ({"version": "computer_20251124", "configs": {"zoom": {"enabled": False}}}, "configs"),
        ({"configs": {"fly": {"enabled": True}}}, "fly"),
        ({"definition": {}}, "definition"),
        ({"strict": True}, "strict"),
        ({"eager": True}, "eager_input_streaming"),
        ({"name": "pc"}, "name"),
    ],
)
def test_wrong_settings(options: dict[str, Any], said: str) -> None:
    """When it is made, not when the API refuses the request."""
    with pytest.raises(UsageError, match=said):
        Computer(Recorder(), **options)


async def at_x_and_y(self: ComputerHandler, x: int, y: int) -> None: ...
async def without_holding(self: ComputerHandler, at: Point | None = None) -> None: ...
async def point_needed(self: ComputerHandler, at: Point, *, holding: str | None = None) -> None: ...
async def by_position(self: ComputerHandler, at: Point | None, holding: str | None = None, /) -> None: ...
def not_async(self: ComputerHandler, at: Point | None = None, *, holding: str | None = None) -> None: ...
async def anything(self: ComputerHandler, **arguments: object) -> None: ...
async def more(self: ComputerHandler, at: Point | None = None, holding: str = "", speed: int = 1) -> None: ...


@rows(
    "method, given",
    [
        (at_x_and_y, "(self, x, y)"),
        (without_holding, "(self, at=None)"),
        (point_needed, "(self, at, *, holding=None)"),
        (by_position, "(self, at, holding=None, /)"),
        (not_async, "(self, at=None, *, holding=None)"),
    ],
)
def test_a_handler_whose_method_is_another(method: Callable[..., object], given: str) -> None:
    """Told when the tool is made, not by the model that reads a TypeError."""
    handler = type("Robot", (Eye,), {"left_click": method})()
    with pytest.raises(UsageError) as caught:
        Computer(handler)
    should = "async def left_click(self, at=None, *, holding=None)"
    assert str(caught.value) == f"Robot.left_click{given} must be: {should}"


@rows("method", [anything, more, Recorder.left_click])
def test_methods_that_can_be_called_so(method: Callable[..., object]) -> None:
    """Whatever takes what is given."""
    assert "left_click" not in Computer(type("Robot", (Eye,), {"left_click": method})()).to_dict()["configs"]


def test_all_methods_at_once() -> None:
    """Nobody has to mend one to hear of the next."""
    handler = type("Robot", (Eye,), {"left_click": at_x_and_y, "scroll": at_x_and_y, "wait": at_x_and_y})()
    with pytest.raises(UsageError, match=r"left_click\(.*scroll\(.*wait\("):
        Computer(handler)


@rows("handler", ["x", None, Eye])
def test_what_is_no_handler(handler: Any) -> None:
    """An error of ours."""
    with pytest.raises(UsageError, match="handler must be a ComputerHandler, not"):
        Computer(handler)


# --- actions ----------------------------------------------------------------------------------------------------------

AT = {"coordinate": [10, 20]}
TAKEN: list[tuple[str, dict[str, Any], tuple[Any, ...], Any]] = [
    ("key", {"text": "ctrl+a"}, ("key", "ctrl+a", 1), "Pressed ctrl+a."),
    ("key", {"text": "Down", "repeat": 3}, ("key", "Down", 3), "Pressed Down."),
    ("hold_key", {"text": "shift", "duration": 1.5}, ("hold_key", "shift", 1.5), "Held shift for 1.5s."),
    ("type", {"text": "Hi\r\n{text}\t你"}, ("type", "Hi\n{text}\t你"), "Typed."),
    ("cursor_position", {}, ("cursor_position",), "X=3,Y=4"),
    ("mouse_move", AT, ("mouse_move", (10, 20)), "Moved the mouse."),
    ("left_mouse_down", {}, ("left_mouse_down",), "Left mouse button pressed."),
    ("left_mouse_up", {}, ("left_mouse_up",), "Left mouse button released."),
    ("left_click", AT, ("left_click", (10, 20), None), "Clicked."),
    ("left_click", {}, ("left_click", None, None), "Clicked."),
    ("left_click", {"coordinate": None, "text": None}, ("left_click", None, None), "Clicked."),
    ("left_click", {"coordinate": [10.0, 0], "text": "ctrl"}, ("left_click", (10, 0), "ctrl"), "Clicked."),
    (
        "left_click_drag",
        {"start_coordinate": [1, 2], "coordinate": [1023, 767]},
        ("left_click_drag", (1, 2), (1023, 767), None),
        "Dragged.",
    ),
    ("right_click", AT, ("right_click", (10, 20), None), "Right-clicked."),
    ("middle_click", AT, ("middle_click", (10, 20), None), "Middle-clicked."),
    ("double_click", AT, ("double_click", (10, 20), None), "Double-clicked."),
    ("triple_click", AT, ("triple_click", (10, 20), None), "Triple-clicked."),
    (
        "scroll",
        {**AT, "scroll_direction": "down", "scroll_amount": 5, "text": "shift"},
        ("scroll", "down", 5, (10, 20), "shift"),
        "Scrolled down.",
    ),
    ("scroll", {"scroll_direction": "left", "scroll_amount": 0}, ("scroll", "left", 0, None, None), "Scrolled left."),
    ("wait", {"duration": 300}, ("wait", 300), "Waited 300s."),
    ("screenshot", {}, ("screenshot",), "image"),
    ("zoom", {"region": [0, 0, 1024, 768]}, ("zoom", (0, 0, 1024, 768)), "image"),
]


@pytest.mark.anyio
async def test_actions() -> None:
    """Each action reaches its method, in every version; the model gets a line or an image."""
    for version in get_args(ComputerVersion):
        for action, input, done, said in TAKEN:
            with case(version, action, input, done, said):
                did, content, is_error = await act(action, input, version)
                if action == "zoom" and version == "computer_20250124":
                    assert (did, content, is_error) == ([], "Error: the action zoom is not available here.", True)
                    continue
                assert did == [done]
                assert not is_error
                if said == "image":
                    (block,) = content
                    assert (block["type"], block["source"]["media_type"]) == ("image", "image/png")
                else:
                    assert content == said


INVALID: dict[str, tuple[str, Any, str]] = {
    "no coordinate": ("mouse_move", {}, "it needs coordinate"),
    "coordinate of null": ("mouse_move", {"coordinate": None}, "it needs coordinate"),
    "right of the display": ("left_click", {"coordinate": [1024, 0]}, "x from 0 to 1023"),
    "below the display": ("left_click", {"coordinate": [0, 768]}, "y from 0 to 767"),
    "negative": ("left_click", {"coordinate": [-1, 0]}, "on the display"),
    "enormous": ("left_click", {"coordinate": [10**400, 0]}, "two whole numbers"),
    "half a pixel": ("left_click", {"coordinate": [0.5, 0]}, "two whole numbers"),
    "booleans": ("left_click", {"coordinate": [True, False]}, "two whole numbers"),
    "text for numbers": ("left_click", {"coordinate": ["1", "2"]}, "two whole numbers"),
    "three numbers": ("left_click", {"coordinate": [1, 2, 3]}, "two whole numbers"),
    "an object": ("left_click", {"coordinate": {"x": 1, "y": 2}}, "two whole numbers"),
    "one text": ("left_click", {"coordinate": "12"}, "two whole numbers"),
    "no start": ("left_click_drag", {"coordinate": [1, 2]}, "it needs start_coordinate"),
    "direction": ("scroll", {"scroll_direction": "in", "scroll_amount": 1}, "up, down, left or right"),
    "direction of a list": ("scroll", {"scroll_direction": ["up"], "scroll_amount": 1}, "up, down, left or right"),
    "no amount": ("scroll", {"scroll_direction": "up"}, "it needs scroll_amount"),
    "too many clicks": ("scroll", {"scroll_direction": "up", "scroll_amount": 101}, "from 0 to 100"),
    "too long": ("wait", {"duration": 300.5}, "from 0 to 300"),
    "back in time": ("wait", {"duration": -1}, "from 0 to 300"),
    "duration as text": ("wait", {"duration": "1"}, "a number from 0 to 300"),
    "duration as a boolean": ("wait", {"duration": True}, "a number"),
    "hold too long": ("hold_key", {"text": "a", "duration": 301}, "from 0 to 300"),
    "repeat 0": ("key", {"text": "a", "repeat": 0}, "from 1 to 100"),
    "repeat 101": ("key", {"text": "a", "repeat": 101}, "from 1 to 100"),
    "repeat a half": ("key", {"text": "a", "repeat": 1.5}, "a whole number"),
    "no key": ("key", {"text": ""}, "the name of a key"),
    "a key of blanks": ("key", {"text": "  "}, "the name of a key"),
    "a key of lines": ("key", {"text": "a\nb"}, "the name of a key"),
    "a long key": ("key", {"text": "a" * 101}, "the name of a key"),
    "held keys of a list": ("left_click", {"text": ["ctrl"]}, "the name of a key"),
    "no text": ("type", {"text": ""}, "1 to 10000 characters"),
    "long text": ("type", {"text": "a" * 10_001}, "1 to 10000 characters"),
    "escape sequence": ("type", {"text": "\x1b[A"}, "control characters"),
    "C1 control": ("type", {"text": "\x9b"}, "control characters"),
    "empty region": ("zoom", {"region": [5, 5, 5, 9]}, "x0 < x1"),
    "region turned round": ("zoom", {"region": [9, 9, 5, 5]}, "x0 < x1"),
    "region beyond": ("zoom", {"region": [0, 0, 1025, 10]}, "1024 by 768"),
    "region of two": ("zoom", {"region": [0, 0]}, "four whole numbers"),
    "a field too many": ("screenshot", {"path": "/etc/passwd"}, "it takes no 'path'"),
    "a method's own word": ("left_click", {"holding": "ctrl"}, "it takes no 'holding'"),
}


@pytest.mark.anyio
async def test_inputs_that_are_refused() -> None:
    """The handler never sees them; the model reads what is wrong."""
    for action, input, said in INVALID.values():
        with case(action, input, said):
            done, content, is_error = await act(action, input)
            assert done == []
            assert is_error
            assert said in content
            assert content.startswith(f"Error: {action}: ")
            assert len(content) < 300


@pytest.mark.anyio
async def test_every_fault_is_told() -> None:
    """One attempt is enough to mend them all; thousands of fields are not all told."""
    _, content, _ = await act("scroll", {"scroll_direction": 1, "coordinate": 2, **{f"f{n}": 0 for n in range(5000)}})
    assert "it needs scroll_amount; scroll_direction must be" in content
    assert "coordinate must be" in content
    assert len(content) < 1000


_ACTIONS_THAT_DO_NOT_EXIST: list[Any] = ["fly", "__init__", "display_number", "_did", "", 7, None, ["key"], "x" * 1000]


@pytest.mark.anyio
async def test_actions_that_do_not_exist() -> None:
    """Nothing but an action is looked up in the handler, whatever the model writes, or calls as a member."""
    for name in _ACTIONS_THAT_DO_NOT_EXIST:
        with case(name):
            recorder = Recorder()
            computer = Computer(recorder, version="computer_20251124")
            content, is_error = await answer(computer, call_of("computer_20251124", name, {}))
            assert is_error
            assert "there is no action" in content
            assert "left_click_drag" in content
            assert len(content) < 400
            assert recorder.done == []
    content, is_error = await answer(Computer(Recorder()), call_of(TOOLSET, "_did", {}))
    assert is_error
    assert "there is no action '_did'" in content


@pytest.mark.anyio
async def test_what_the_handler_cannot_do() -> None:
    """An error in words, as is an action that is switched off; waiting it need not do itself."""
    versions: list[ComputerVersion] = [TOOLSET, "computer_20251124"]
    for version in versions:
        with case(version):
            computer = Computer(Eye(), version=version)
            content, is_error = await answer(computer, call_of(version, "left_click", {}))
            assert (content, is_error) == ("Error: the action left_click is not available here.", True)
            assert await answer(computer, call_of(version, "wait", {"duration": 0})) == ("Waited 0s.", False)
    computer = Computer(recorder := Recorder(), configs={"type": {"enabled": False}})
    content, is_error = await answer(computer, call_of(TOOLSET, "type", {"text": "a"}))
    assert (content, is_error, recorder.done) == ("Error: the action type is not available here.", True, [])


@pytest.mark.anyio
async def test_a_note_of_the_handler() -> None:
    """It follows the line of the action, within bounds."""
    recorder = Recorder()
    recorder.note = "A dialog was dismissed." * 1000
    content, _ = await answer(Computer(recorder), call_of(TOOLSET, "left_click", {}))
    assert content.startswith("Clicked.\nA dialog was dismissed.")
    assert len(content) < 5000


_PICTURES_THAT_THE_API_WOULD_REFUSE = [
    (b"<html>", "Error: the computer gave no image."),
    (PNG + bytes(4_000_000), "more than the API takes"),
]


@pytest.mark.anyio
async def test_pictures_that_the_api_would_refuse() -> None:
    """An error of the action, not of the next request."""
    for picture, said in _PICTURES_THAT_THE_API_WOULD_REFUSE:
        with case(picture, said):
            recorder = Recorder()
            recorder.picture = picture
            content, is_error = await answer(Computer(recorder), call_of(TOOLSET, "screenshot", {}))
            assert is_error
            assert said in content


# --- several actions in one turn --------------------------------------------------------------------------------------


def member(name: str, input: dict[str, Any]) -> Scripted:
    """The call of a toolset's member; its input comes in one fragment."""
    call = tool_use(name, input, fragment_chars=10_000)
    return replace(call, block={**call.block, "toolset_name": "computer"})


def single(name: str, input: dict[str, Any]) -> Scripted:
    """The call of the single tool."""
    return tool_use("computer", {"action": name, **input})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("version", "call"), [(TOOLSET, member), ("computer_20250124", single)], ids=["toolset", "single tool"]
)
async def test_actions_of_a_turn(version: ComputerVersion, call: Callable[..., Scripted]) -> None:
    """In order, none after the first that fails, in the API's words; the next turn begins anew."""
    recorder = Recorder()
    computer = Computer(recorder, version=version)
    first = reply(
        call("left_click", {"coordinate": [1, 2]}),
        call("type", {"text": "fail"}),
        call("key", {"text": "Return"}),
        call("screenshot", {}),
    )
    scenario = Scenario(first, reply(call("screenshot", {})), reply(text("Done.")))
    async with ReplayServer(scenario) as server, anthropic_client(server.base_url) as client:
        request = {**REQUEST, "betas": list(computer.betas)} if computer.betas else REQUEST
        async with eagerstream.run(client, tools=[computer], **request) as run:
            await run.finish()
        requests = server.requests
    assert recorder.done == [("left_click", (1, 2), None), ("screenshot",)]
    results = requests[1].body["messages"][-1]["content"]
    assert [result["content"] for result in results[:1]] == ["Clicked."]
    assert [result["content"] for result in results[1:]] == ["ConnectionError: the cable is out", SKIPPED, SKIPPED]
    assert [result.get("is_error", False) for result in results] == [False, True, True, True]
    (image,) = requests[2].body["messages"][-1]["content"][0]["content"]
    assert image["type"] == "image"
    names = {
        result.get("toolset_name") for request in requests[1:] for result in request.body["messages"][-1]["content"]
    }
    assert names == ({"computer"} if version == TOOLSET else {None})
    assert requests[0].body["tools"] == [computer.to_dict()]
    assert requests[0].headers.get("anthropic-beta") == (",".join(computer.betas) or None)


@pytest.mark.anyio
async def test_an_input_that_is_invalid_stops_the_turn() -> None:
    """As an action that failed: what comes after it was meant for another screen."""
    recorder = Recorder()
    calls = [
        call_of(TOOLSET, "left_click", {"coordinate": [5000, 1]}, index=0, turn=0),
        call_of(TOOLSET, "type", {"text": "rm -rf"}, index=1, turn=0),
    ]
    executor = InProcessExecutor([Computer(recorder)])
    for call in calls:
        executor.admit(call)
    async with anyio.create_task_group() as tasks:
        for call in calls:
            tasks.start_soon(executor.execute, call)
    assert recorder.done == []
    assert calls[1].result is not None
    assert calls[1].result["content"] == SKIPPED
