"""Packages of the extras: nothing imports one that is not asked for, and a missing one is told with its extra."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("claude_agent_sdk", "claude_agent_sdk", "claude-agent-sdk"),
        ("langchain", "langchain_core", "langgraph"),
        ("langchain", "langgraph", "langgraph"),
        ("otel", "opentelemetry", "otel"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_without_the_package(module: str, package: str, extra: str) -> None:
    """Who asks for it is told what to install, and nobody else imports it."""
    program = (
        "import sys, eagerstream, eagerstream_adapters\n"
        "eagerstream.run, eagerstream.stream, eagerstream.Recording\n"
        f"assert {package!r} not in sys.modules\n"
        f"sys.modules[{package!r}] = None\n"
        f"try: import eagerstream_adapters.{module}\n"
        "except eagerstream.MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert f"pip install 'eagerstream-adapters[{extra}]'" in done.stdout
