"""Runs pytest inside of a test, on tests that use the fixture `claude`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

# pytest forgets the modules that an inner run imports, and would import these in each one.
# With two copies of httpx, or of httpcore, which httpx imports with its first client, the proxy would not know its errors.
for _name in (
    "anthropic",
    "httpx",
    "httpcore",
    "eagerstream_testing.pytest_plugin._opening",
    "eagerstream_testing.pytest_plugin._recorder",
):
    importlib.import_module(_name)

_UNUSED = ("cacheprovider", "doctest", "hypothesispytest", "junitxml", "langsmith_plugin", "timeout", "xdist")
OPTIONS = ("--strict-markers", *(option for name in _UNUSED for option in ("-p", f"no:{name}")))

AGENT = '''
import anthropic, pytest
from eagerstream.recordings import Recording
from eagerstream_testing import Fault, FaultKind, Faults, Scenario, Timing, http_error, reply, text, tool_use

TOOL = {"name": "get_weather", "description": "...", "input_schema": {"type": "object"}}

def ask(messages, **options):
    with anthropic.Anthropic(**{"max_retries": 0, **options}) as client:
        with client.messages.stream(
            model="claude-opus-4-7", max_tokens=100, tools=[TOOL], messages=messages
        ) as stream:
            return stream.get_final_message()

def user(content):
    return {"role": "user", "content": content}

def agent(question, **options):
    """Ask until the model calls no tool."""
    messages = [user(question)]
    while True:
        message = ask(messages, **options)
        messages.append({"role": "assistant", "content": message.content})
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return message.content[0].text
        messages.append(user([
            {"type": "tool_result", "tool_use_id": call.id, "content": f"{call.input['city']}: 15 degrees"}
            for call in calls
        ]))
'''


def run_tests(pytester: pytest.Pytester, code: str, *options: str) -> pytest.RunResult:
    """Run the tests of a file named `test_it.py`, which imports everything from the agent.

    They run in this process: a process of its own takes a second to import everything.
    """
    Path("agent.py").write_text(AGENT)
    Path("test_it.py").write_text(f"from agent import *\n{code}")
    return pytester.runpytest_inprocess(*OPTIONS, *options)
