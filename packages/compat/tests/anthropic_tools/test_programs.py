"""The document's programs as they stand there: they return what it says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packages.compat.tests.anthropic_tools.documented import (
    AUTOMATIC,
    HANDLE,
    LOOP,
    MANUAL,
    MATH_TOOLS,
    OUR_HANDLE,
    TIME_OF_DAY,
)
from packages.compat.tests.anthropic_tools.support import turn

from eagerstream import validate_history
from eagerstream_testing import ReplayServer, Scenario, text, tool_use

pytestmark = pytest.mark.slow

SALLY = "At the end of the day Sally has 14 pieces of fruit."
STEPS = "Ok. Let's think through this in steps.\nSally has 17 apples.\nSally gives 9 apples to jim.\nso:\n"
SUBTRACT = turn(1, text(STEPS), tool_use("perform_subtraction", {"a": 17, "b": 9}, id="toolu_real"))
ADD = turn(2, tool_use("perform_addition", {"a": 8, "b": 6}))
DONE = turn(3, text(SALLY))
MATH = Scenario(SUBTRACT, ADD, DONE)


def run(program: str, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[list[dict[str, Any]]]]:
    """What the last line of a program gives, as at a prompt, and the messages of its requests.

    It runs in this process: a process of its own takes two seconds to import everything. How a program ends is tested
    in `test_sync`.
    """
    *_, last = ast.parse(program).body
    lines = program.splitlines()
    before, shown = lines[: last.lineno - 1], lines[last.lineno - 1 :]
    names: dict[str, Any] = {"__name__": "__main__"}
    with ReplayServer(scenario) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "simulated")
        exec("\n".join(before), names)
        answer = eval("\n".join(["(", *shown, ")"]), names)
        sent = [request.body["messages"] for request in server.requests]
    for messages in sent:
        assert validate_history(messages) == []
    return ast.literal_eval(repr(answer)), sent


def results(messages: list[dict[str, Any]]) -> list[Any]:
    """What the last calls were answered."""
    return [block["content"] for block in messages[-1]["content"]]


def test_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first program of the document."""
    scenario = Scenario(turn(1, tool_use("get_time_of_day", {"time_zone": "UTC"})), turn(2, text("It is late.")))
    answer, (first, second) = run(TIME_OF_DAY, scenario, monkeypatch)
    assert answer == {"role": "assistant", "content": "It is late."}
    assert first == [{"role": "user", "content": "What time is it in Los Angeles?"}]
    assert re.fullmatch(r"\d\d:\d\d:\d\d", results(second)[0])


def test_automatic(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the document says that it returns."""
    answer, sent = run(AUTOMATIC, MATH, monkeypatch)
    assert answer == {"role": "assistant", "content": SALLY}
    assert [results(messages) for messages in sent[1:]] == [["8"], ["14"]]


def test_manual(monkeypatch: pytest.MonkeyPatch) -> None:
    """And here; one key more keeps the id, which the format has no place for."""
    answer, _ = run(MANUAL, MATH, monkeypatch)
    assert answer == {
        "role": "tool_inputs",
        "content": STEPS,
        "tool_inputs": [{"tool_name": "perform_subtraction", "tool_arguments": {"a": 17, "b": 9}}],
        "_tool_use_ids": ["toolu_real"],
    }


@pytest.mark.parametrize("handle", [HANDLE, OUR_HANDLE], ids=["theirs", "ours"])
def test_the_whole_loop(handle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is the user's turn, with the function of the document, and with ours."""
    messages, sent = run(MATH_TOOLS + handle + LOOP, MATH, monkeypatch)
    assert messages[-1] == {"role": "assistant", "content": SALLY}
    assert messages[4]["tool_outputs"] == [{"tool_name": "perform_addition", "tool_result": 14}]
    assert [len(history) for history in sent] == [1, 3, 5]
    assert sent[1][1]["content"][1]["id"] == "toolu_real"


@pytest.mark.parametrize("handle", [HANDLE, OUR_HANDLE], ids=["theirs", "ours"])
def test_the_loop_with_a_tool_that_is_not_there(handle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is told, and goes on."""
    scenario = Scenario(turn(1, tool_use("perform_magic", {})), ADD, DONE)
    messages, _ = run(MATH_TOOLS + handle + LOOP, scenario, monkeypatch)
    told = "No tool named <tool_name>perform_magic</tool_name> available."
    assert messages[2] == {"role": "tool_outputs", "tool_outputs": None, "tool_error": told}
    assert messages[-1] == {"role": "assistant", "content": SALLY}


def test_importing_it_is_told_once(tmp_path: Path) -> None:
    """At the line that imports, and never again."""
    file = tmp_path / "program.py"
    lines = [
        "import eagerstream",
        "from eagerstream_compat.anthropic_tools import BaseTool",
        "import eagerstream_compat.anthropic_tools",
    ]
    file.write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "-W", "always", file], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0
    assert done.stderr.count("DeprecationWarning") == 1
    assert done.stderr.startswith(f"{file}:2: DeprecationWarning: eagerstream_compat.anthropic_tools is deprecated")
