"""Sources of responses, and the tools that they call."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio

from eagerstream._support.bodies import body_events
from eagerstream._support.plain_json import load_json
from eagerstream._support.terms import EAGER_FIELD, USER_DEFINED, tool_kind
from eagerstream.errors import UsageError
from eagerstream.recordings import Recording
from eagerstream.tools import ForeignDefinition, ForeignTool, Tool, as_tool
from eagerstream_testing import Scenario, made_up_input, reply, text, tool_use
from eagerstream_testing.demos import poem

from ._profiles import check_playable
from ._results import read_whole

AnyTool: TypeAlias = ForeignTool | Mapping[str, Any]

POEM: Final = "poem"
"""Name of the demo's source and tool set."""

_MAX_PROMPT_BYTES: Final = 8 * 2**20
_MAX_DEFINITIONS_BYTES: Final = 8 * 2**20
_NOT_SAID: Final = "(what a recording answers is not in it)"
_GOES_ON: Final = frozenset({"tool_use", "pause_turn"})


@dataclass(frozen=True, kw_only=True)
class ToolSet:
    """Tools, and the embedded server's responses to a prompt.

    Attributes:
        name: Name in the id of a case.
        make: Function that returns the tools for one run. Its argument is a folder for that run, which is deleted
            afterwards.
        script: Function that returns the responses to a prompt, turn by turn, without times.
    """

    name: str
    make: Callable[[Path], Sequence[AnyTool]] = field(repr=False)
    script: Callable[[], Sequence[Recording]] = field(repr=False)

    def made(self, folder: Path, *, eager: bool) -> list[AnyTool]:
        """Return the tools of one run, each a copy with eager or buffered streaming.

        Raises:
            UsageError: One of them cannot be run.
        """
        return [_streamed(tool, eager=eager) for tool in self.make(folder)]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Source of responses: the model (on the embedded server, the script of the tools), or recordings.

    Attributes:
        name: Name in the id of a case.
        prompt: Prompt for the model.
        recordings: One recording for each turn; `None` to ask the model.
        tools: Default tools.
    """

    name: str
    prompt: str = field(repr=False)
    tools: ToolSet
    recordings: tuple[Recording, ...] | None = None


def the_poem() -> Source:
    """Return the source of the demo."""
    return Source(name=POEM, prompt=poem.PROMPT, tools=poem_tools())


def of_prompt(prompt: str, *, name: str | None = None) -> Source:
    """Return a source for a prompt. Without a name, it gets one from a digest, which does not reveal the prompt.

    Raises:
        UsageError: The prompt is empty.
    """
    if not prompt.strip():
        raise UsageError("a prompt must not be empty")
    digest = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return Source(name=name or f"prompt-{digest}", prompt=prompt, tools=poem_tools())


def of_prompt_file(path: Path) -> Source:
    """Return a source for the prompt in a text file.

    Raises:
        UsageError: The file cannot be read, is not UTF-8, is too large, or is empty.
    """
    content = read_whole(path, max_bytes=_MAX_PROMPT_BYTES)
    try:
        return of_prompt(content.decode(), name=path.stem)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: a prompt must be UTF-8 text") from error


def of_recordings(paths: Sequence[Path], *, tool_s: float = 0.0) -> Source:
    """Return a source of recordings, each of which answers one turn of a conversation, in their order.

    Raises:
        UsageError: A recording cannot be read or played, or one before the last has a stop reason that ends the
            conversation.
    """
    recordings = tuple(Recording.load(path) for path in paths)
    for number, (path, recording) in enumerate(zip(paths, recordings, strict=True), 1):
        check_playable(recording, str(path))
        events = [event.data for event in body_events(recording.body)]
        deltas = [event.get("delta") for event in events if event.get("type") == "message_delta"]
        reasons = [delta.get("stop_reason") for delta in deltas if isinstance(delta, Mapping)]
        reason = reasons[-1] if reasons else None
        if number < len(paths) and reason not in _GOES_ON:
            raise UsageError(
                f"{path}: the conversation ends with this turn (stop reason {reason!r:.40}), none can follow"
            )
    name = "+".join(path.stem for path in paths)
    return Source(
        name=name, prompt=_NOT_SAID, tools=recorded_tools(recordings, tool_s=tool_s, name=name), recordings=recordings
    )


def poem_tools() -> ToolSet:
    """Return the tools of the demo, and its responses."""
    return ToolSet(name=POEM, make=partial(poem.tools, eager=True), script=poem.replies)


def own_tools(place: str, *, tool_s: float = 0.0) -> ToolSet:
    """Return the user's own tools. The script calls each of them once, with a generated input.

    Args:
        place: `module:attribute`. The attribute is a tool, a list of tools, or a function that returns either. The
            function is called once for each run. Modules in the current folder are found, too. A tool may be a plain
            definition, `{"name": ..., "input_schema": {...}}`.
        tool_s: Duration of a tool that is a plain definition. It does nothing else.

    Raises:
        UsageError: There is no such attribute, or it cannot be loaded. The returned set raises it, too, if the
            attribute gives no tools or no input could be generated.
    """
    module_name, _, attribute = place.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:  # as `python -m` does; the command's own script is elsewhere
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module_name)
        for step in attribute.split("."):
            found = getattr(found, step)
    except (Exception, SystemExit) as error:  # a user's module may do anything when it is imported
        raise UsageError(f"{place} cannot be loaded: {type(error).__name__}: {error}") from error

    def make(_: Path) -> list[AnyTool]:
        try:
            made = found if _is_tool(found) or not callable(found) else found()
        except (Exception, SystemExit) as error:
            raise UsageError(f"{place} gives no tools: {type(error).__name__}: {error}") from error
        listed = [made] if _is_tool(made) or isinstance(made, Mapping) else made
        if isinstance(listed, str | bytes) or not isinstance(listed, Sequence) or not listed:
            raise UsageError(
                f"{place} must be a list of tools, or a function that gives one, not {type(made).__name__}"
            )
        return [_runnable(tool, tool_s) for tool in listed]

    return ToolSet(name=place, make=make, script=_calling_each(make, place))


def defined_tools(path: Path, *, tool_s: float = 0.0) -> ToolSet:
    """Return tools for the definitions in a JSON file: a list of them, one, or an object with a list `tools`.

    They accept what their schemas allow, and only wait for `tool_s` seconds.

    Raises:
        UsageError: The file cannot be read, is too large, or contains something else.
    """
    try:
        found: Any = load_json(read_whole(path, max_bytes=_MAX_DEFINITIONS_BYTES))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON") from error
    if isinstance(found, dict):
        found = found["tools"] if isinstance(found.get("tools"), list) else [found]
    if not isinstance(found, list) or not found or not all(isinstance(tool, dict) for tool in found):
        raise UsageError(f"{path}: neither a definition of a tool nor a list of them")

    def make(_: Path) -> list[AnyTool]:
        return [_runnable(tool, tool_s) for tool in found]

    return ToolSet(name=path.stem, make=make, script=_calling_each(make, str(path)))


def requested_tools(request: Mapping[str, Any]) -> ToolSet:
    """Return the tools of a program, from one of its requests. Only the program can run them.

    The script calls them as `Scenario.scripted` does, and then ends the conversation.
    """
    first = Scenario.scripted().answer({**request, "messages": [{"role": "user", "content": "Go."}]})
    turns = (first, reply(text("Each tool was called.")))
    return ToolSet(name="requested", make=lambda _: (), script=lambda: turns)


def _calling_each(make: Callable[[Path], Sequence[AnyTool]], place: str) -> Callable[[], Sequence[Recording]]:
    """Return the function that returns a script, which calls each tool once, with a generated input."""

    @cache
    def script() -> tuple[Recording, ...]:
        runnable = [tool for tool in map(as_tool, make(Path())) if tool is not None]
        if not runnable:
            raise UsageError(f"{place} has no tool that runs here, which a scripted response could call")
        calls = [tool_use(tool.name, made_up_input(tool)) for tool in runnable]
        return reply(text("I will call each tool once."), *calls), reply(text("Each tool was called once."))

    return script


def _runnable(tool: AnyTool, tool_s: float) -> AnyTool:
    """Return a tool that waits instead of a plain definition. Tools that the API runs stay as they are."""
    if not isinstance(tool, Mapping) or tool_kind(tool) != USER_DEFINED or "input_schema" not in tool:
        return tool
    options = {name: value for name, value in tool.items() if name != EAGER_FIELD}
    return Tool(partial(_wait, tool_s), definition=ForeignDefinition(options))


async def _wait(tool_s: float, _: dict[str, Any]) -> str:
    await anyio.sleep(tool_s)
    return "done"


def recorded_tools(recordings: Sequence[Recording], *, tool_s: float, name: str) -> ToolSet:
    """Return tools for the calls of recordings. They accept any input, and only wait for `tool_s` seconds."""

    def made(_: Path) -> list[AnyTool]:
        schema = {"type": "object"}
        names = dict.fromkeys(called for recording in recordings for called in called_tools(recording))
        definitions = [{"name": called, "description": "Recorded.", "input_schema": schema} for called in names]
        return [_runnable(definition, tool_s) for definition in definitions]

    def script() -> tuple[Recording, ...]:
        raise UsageError(f"the tools of {name} were made for that recording, and have no response to a prompt")

    return ToolSet(name="recorded", make=made, script=script)


def named_tools(name: str, *, tool_s: float = 0.0) -> ToolSet:
    """Return the tool set with this name: the demo's, a JSON file of definitions, or `module:attribute`.

    Raises:
        UsageError: There is no such tool set; see `own_tools` and `defined_tools`.
    """
    if name == POEM:
        return poem_tools()
    if Path(name).suffix == ".json":
        return defined_tools(Path(name), tool_s=tool_s)
    if ":" not in name:
        raise UsageError(f"{name!r} names no tools: give {POEM!r}, a .json file, or module:attribute")
    return own_tools(name, tool_s=tool_s)


def called_tools(recording: Recording) -> list[str]:
    """Return the names of the tools that a response calls, in order, with repetitions."""
    blocks = (event.data.get("content_block") for event in body_events(recording.body))
    calls = (block for block in blocks if isinstance(block, Mapping) and block.get("type") == "tool_use")
    return [str(call.get("name")) for call in calls]


def _is_tool(value: object) -> bool:
    return isinstance(value, ForeignTool) and not isinstance(value, type)


def _streamed(tool: AnyTool, *, eager: bool) -> AnyTool:
    """Return a copy of a user-defined tool with this streaming. For other tools, the API decides."""
    runnable = as_tool(tool)
    if runnable is None or tool_kind(runnable.to_dict()) != USER_DEFINED:
        return tool
    return runnable.with_options(eager=eager)
