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

from eagerstream.errors import ProtocolError, UsageError
from eagerstream.wire import (
    InputAccumulator,
    PartialJSON,
    SSEDecoder,
    ToolInput,
    WireDecoder,
    decode_event,
    is_compiled,
)
from tests.support import tool_start

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
    unknown = set()
    for name, mine in compiled.items():
        if mine != pure[name]:
            unknown.add(name)
            assert [part for part in mine if part != "unknown"] == [
                part for part, shown in zip(pure[name], mine, strict=True) if shown != "unknown"
            ]
    # Their defaults are no literals, which the text of a signature in C cannot express.
    assert unknown == {
        *("Decoder", "FragmentDecoder", "InputAccumulator", "MessageAssembler"),
        *("PartialJSON", "SSEDecoder", "WireDecoder"),
    }


def _input() -> ToolInput:
    accumulator: InputAccumulator[ToolInput] = InputAccumulator()
    accumulator.feed(tool_start(0))
    return accumulator.inputs[0]


@compiled_only
@pytest.mark.parametrize(
    ("call", "arguments"),
    [(PartialJSON().feed, [3]), (SSEDecoder().feed, ["text"]), (decode_event, [None]), (PartialJSON, [])],
)
def test_wrong_types(call: Any, arguments: list[Any]) -> None:
    """A compiled function checks its arguments first. Its object stays as it was."""
    with pytest.raises(TypeError):
        call(*arguments, **({} if arguments else {"limits": 3}))


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

    class Noting(InputAccumulator[ToolInput]):
        def note(self, violation: str) -> None:
            seen.append("subclass")

    replaced: Any = InputAccumulator()
    replaced.note = lambda _: seen.append("instance")
    for accumulator in (replaced, Noting()):
        accumulator.feed({"type": "content_block_start"})
    assert seen == ["subclass"]


@compiled_only
def test_tracebacks_show_the_source() -> None:
    """The name of a file in a traceback is relative, and is found in the installation."""
    with pytest.raises(ProtocolError) as caught:
        decode_event("x")
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.name) == ("eagerstream/wire/_decoding.py", "decode_json")
    assert frame.line is not None
    assert "raise ProtocolError" in frame.line


def test_an_input_is_made_smaller() -> None:
    """What differs is kept as small as it can be found."""
    assert smaller(bytes(range(100)), lambda data: 7 in data and 50 in data) == bytes([7, 50])
