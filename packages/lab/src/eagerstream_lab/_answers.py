"""Responses of the embedded server: to our own cases, and to programs that bring their own tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, ClassVar

from eagerstream._support.bodies import body_events, model_text
from eagerstream._support.terms import assistant_messages
from eagerstream.errors import UsageError
from eagerstream.inputs import InputError
from eagerstream.recordings import Recording
from eagerstream.tools import ForeignDefinition, Tool
from eagerstream_testing import Scenario, at_speed, http_error

from ._profiles import Profile


@dataclass(frozen=True)
class ScriptAnswers:
    """Responses to one of our own cases, turn by turn."""

    turns: tuple[Recording, ...]
    all_fitted: ClassVar = True

    def answer(self, request: Mapping[str, Any], *, eager: bool) -> Recording:  # noqa: ARG002 - the case decides
        """Return the response to a request."""
        return Scenario(*self.turns).answer(request)


@dataclass(kw_only=True)
class ProgramAnswers:
    """Responses to a program.

    If the tools of a request can take the calls of the script, it gets the responses of our own cases. Else its tools
    are called with generated inputs, as `Scenario.scripted` does. The whole response is eager if any tool asks for it.
    A request without any tools, such as one for a title, gets a generated text.

    Attributes:
        eager, buffered: The script, turn by turn, with the times of each way to stream.
        is_recorded: The script was recorded. A request whose tools it does not fit is refused then.
        profile, speed, seed: Times of generated responses.
        fitted, misfits: Numbers of requests whose tools could and could not take the calls of the script.
    """

    eager: tuple[Recording, ...]
    buffered: tuple[Recording, ...]
    is_recorded: bool
    profile: Profile
    speed: float
    seed: str
    fitted: int = 0
    misfits: int = 0
    # The reason why tools cannot take the calls of the script, by the JSON of the tools; empty if they can.
    _known: dict[str, str] = field(default_factory=dict)

    def answer(self, request: Mapping[str, Any], *, eager: bool) -> Recording:
        """Return the response to a request."""
        number = assistant_messages(request)
        tools = request.get("tools")
        listed = [tool for tool in tools if isinstance(tool, Mapping)] if isinstance(tools, list) else []
        key = json.dumps(listed)
        if key not in self._known:
            by_name = {str(tool.get("name")): tool for tool in listed}
            found = (_fault(by_name.get(name), name, input) for name, input in self._calls)
            self._known[key] = next(filter(None, found), "")
        misfit = self._known[key]
        self.fitted += not misfit
        self.misfits += bool(misfit and listed)
        if not misfit and number < len(self.eager):
            return (self.eager if eager else self.buffered)[number]
        if misfit and self.is_recorded:
            return http_error(400, "invalid_request_error", f"the recording cannot be played: {misfit}")
        made = self.profile.play(Scenario.scripted().answer(request), eager=eager, seed=f"{self.seed} {number}")
        return at_speed(made, self.speed)

    @property
    def all_fitted(self) -> bool:
        """True if the script fitted all requests with tools so far, and at least one if it has calls."""
        return not self.misfits and bool(self.fitted or not self._calls)

    @cached_property
    def _calls(self) -> list[tuple[str, Any]]:
        """Names and inputs of all calls of the script."""
        found: list[tuple[str, Any]] = []
        for turn in self.eager:
            names: dict[Any, str] = {}
            raw: dict[Any, str] = {}
            for _, event in body_events(turn.body):
                block, index = event.get("content_block"), event.get("index")
                if isinstance(block, Mapping) and block.get("type") == "tool_use":
                    names[index] = str(block.get("name"))
                if index in names:
                    raw[index] = raw.get(index, "") + model_text(event)
            found += [(name, _value(raw[index])) for index, name in names.items()]
        return found


@dataclass(frozen=True)
class VariedAnswers:
    """Responses to many runs at once: each request gets those of a variant that is drawn for it.

    The variants differ only in their times.
    """

    variants: Sequence[ScriptAnswers | ProgramAnswers]
    random: Random

    def answer(self, request: Mapping[str, Any], *, eager: bool) -> Recording:
        """Return the response to a request."""
        return self.random.choice(self.variants).answer(request, eager=eager)

    @property
    def all_fitted(self) -> bool:
        """True if the script fitted the requests so far; see `ProgramAnswers`."""
        return any(variant.all_fitted for variant in self.variants) and not any(
            isinstance(variant, ProgramAnswers) and variant.misfits for variant in self.variants
        )


def _value(raw: str) -> Any:
    try:
        return json.loads(raw or "{}")
    except (ValueError, RecursionError):
        return None  # recorded as it was cut off: no tool needs to take it


async def _nothing(_: Mapping[str, Any]) -> None:
    """Function of tools that are made only to check inputs."""


def _fault(tool: Mapping[str, Any] | None, name: str, input: Any) -> str:
    if tool is None:
        return f"there is no tool {name}"
    if not isinstance(tool.get("input_schema"), Mapping) or not isinstance(input, dict):
        return ""
    try:
        definition = ForeignDefinition(name=name, description="", input_schema=tool["input_schema"])
        Tool(_nothing, definition=definition).check(input)
    except (InputError, UsageError, RecursionError):
        return f"the tool {name} has another schema"
    return ""
