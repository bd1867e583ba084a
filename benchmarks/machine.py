"""Conditions of the figures: the machine and its load, the engines, the versions."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime

from eagerstream_lab._machine import cpu_name, system_name, versions

from . import jsonriver

_PACKAGES = (
    "eagerstream",
    "aiohttp",
    "anthropic",
    "anyio",
    "botocore",
    "claude-agent-sdk",
    "genkit",
    "httpx",
    "httpx2",
    "instructor",
    "jiter",
    "langchain-core",
    "langgraph",
    "mcp",
    "mypy",
    "openai",
    "partial-json-parser",
    "pydantic",
    "pydantic_core",
    "pydantic-ai-slim",
    "uvloop",
)


def describe() -> dict[str, str]:
    """Return names and values, in the order of reading. "load" is the load average of one minute."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "load": load(),
        "CPU": cpu_name(),
        "cores": str(os.cpu_count()),
        "system": system_name(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}",
        **{package: found or "not installed" for package, found in versions(_PACKAGES).items()},
        **_node(),
    }


def load() -> str:
    """Return the number of processes that wanted to run, on average over the last minute."""
    return f"{os.getloadavg()[0]:.2f}"


def _node() -> dict[str, str]:
    if shutil.which("node") is None:
        return {"node": "not installed"}
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {"node": node, "jsonriver": jsonriver.VERSION}
