"""Conditions of the figures: the machine and its load, the engines, the versions."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
        "CPU": _cpu(),
        "cores": str(os.cpu_count()),
        "system": _system(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}",
        **{package: _version(package) for package in _PACKAGES},
        **_node(),
    }


def load() -> str:
    """Return the number of processes that wanted to run, on average over the last minute."""
    return f"{os.getloadavg()[0]:.2f}"


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.platform()
    return f"{name}, {platform.system()} {platform.release()}"


def _node() -> dict[str, str]:
    if shutil.which("node") is None:
        return {"node": "not installed"}
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {"node": node, "jsonriver": jsonriver.VERSION}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
