"""The two flavors, compiled and pure: the same public surface, and the differences that remain, as the docs list them.

Only with a compiled installation: `.ci/wheels` runs these tests. `tests/fuzz/flavors.py` compares everything else.
"""

from __future__ import annotations

import json
import subprocess
import traceback
from pathlib import Path
from typing import Any

import pytest

import eagerstream_wire as wire
from eagerstream.errors import ProtocolError, UsageError
from eagerstream.limits import DEFAULT_LIMITS
from eagerstream_wire import (
    INVALID_JSON,
    InputAccumulator,
    PartialJSON,
    SSEDecoder,
    ToolInput,
    WireDecoder,
    decode_event,
    is_compiled,
)
from eagerstream_wire._message_inputs import MessageInputs
from tests.streams import tool_start
from tests.tables import rows

from .flavors import other_python, smaller
from .surface import surface

_ROOT = Path(__file__).parents[2]

compiled_only = pytest.mark.skipif(not is_compiled(), reason="the installed flavor is pure")


@compiled_only
def test_the_same_surface() -> None:
    """Names, bases, parameters with their defaults, and docstrings."""
    python, environment = other_python()
    command = [python, "-m", f"{__package__}.surface"]
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=True)
    pure, compiled = json.loads(done.stdout), json.loads(json.dumps(surface()))
    assert pure.keys() == compiled.keys()
    # A signature in C has only literals as defaults, and `...` for others; and the compiler leaves no docstring in
    # enums and named tuples.
    without_docstring = {"MessageState", "Outcome", "ParseFault", "ServerSentEvent"}
    for name, (*_, parameters, _) in compiled.items():
        assert parameters != "unknown" or pure[name][-2] == "unknown", name
        if isinstance(parameters, list):
            for expected, found in zip(pure[name][-2], parameters, strict=True):
                expected[2] = found[2] if found[2] == "Ellipsis" else expected[2]
    for name in pure:
        if name.partition(".")[0] in without_docstring:
            pure[name][-1] = compiled[name][-1] = None
    assert compiled == pure


def _input() -> ToolInput:
    accumulator: InputAccumulator[ToolInput] = InputAccumulator()
    accumulator.feed(tool_start(0))
    return accumulator.inputs[0]


@compiled_only
@rows(
    "call, arguments",
    [(PartialJSON().feed, [3]), (SSEDecoder().feed, ["text"]), (decode_event, [None])],
)
def test_wrong_types(call: Any, arguments: list[Any]) -> None:
    """A compiled function checks its arguments first. Its object stays as it was."""
    with pytest.raises(TypeError):
        call(*arguments)


@compiled_only
def test_true_is_one() -> None:
    """A parameter that is an int takes True for 1; pure code sees that it is a bool."""
    WireDecoder(max_event_bytes=True)
    with pytest.raises(UsageError):
        WireDecoder(max_event_bytes=0)


@compiled_only
def test_attributes() -> None:
    """They have types, and cannot be deleted. The process survives it."""
    input: Any = _input()
    parser: Any = PartialJSON()
    with pytest.raises(TypeError):
        input.index = "x"
    with pytest.raises(AttributeError):
        del input.index
    with pytest.raises(AttributeError, match="no deleter"):
        del parser.reports
    with pytest.raises(AttributeError):
        parser.value = 1


@compiled_only
def test_methods_are_not_replaced() -> None:
    """Compiled code calls the method of the class, and an override in a subclass."""
    seen: list[str] = []

    class Noting(MessageInputs[ToolInput]):
        def note(self, violation: str) -> None:
            seen.append("subclass")

    options: Any = {"parser": PartialJSON, "limits": DEFAULT_LIMITS, "input_type": ToolInput}
    options |= {"invalid_key": INVALID_JSON, "reports": False}
    replaced: Any = MessageInputs(**options)
    replaced.note = lambda _: seen.append("instance")
    for inputs in (replaced, Noting(**options)):
        inputs.feed_event({"type": "content_block_start"})
    assert seen == ["subclass"]


@compiled_only
def test_tracebacks_name_the_source() -> None:
    """By a path relative to the installation, the same for each build; Python does not show the line itself."""
    with pytest.raises(ProtocolError) as caught:
        decode_event("x")
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.name) == ("eagerstream_wire/_decoding.py", "decode_json")
    lines = (Path(wire.__file__).parent / "_decoding.py").read_text(encoding="utf-8").splitlines()
    assert frame.lineno is not None
    assert "raise ProtocolError" in lines[frame.lineno - 1]


def test_an_input_is_made_smaller() -> None:
    """What differs is kept as small as it can be found."""
    assert smaller(bytes(range(100)), lambda data: 7 in data and 50 in data) == bytes([7, 50])
