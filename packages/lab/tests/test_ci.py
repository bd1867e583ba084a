"""The workflows of the docs: their steps, run as a CI service runs them, on versions of which the last one is slower."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.commands import COMMAND, ENVIRONMENT

from eagerstream_lab._compare import EXCEEDED

PAGE = Path(__file__).parents[3] / "docs/guides/regressions.md"

AGENT = """
import json, os, time, urllib.request

TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}

def ask(messages):
    body = {"model": os.environ["EAGERSTREAM_BENCH_MODEL"], "max_tokens": 1024, "tools": [TOOL], "messages": messages}
    request = urllib.request.Request(
        os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
        {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "key"},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)["content"]

messages = [{"role": "user", "content": os.environ["EAGERSTREAM_BENCH_PROMPT"]}]
content = ask(messages)
while calls := [block for block in content if block["type"] == "tool_use"]:
    time.sleep(TOOL_S)
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "nothing"} for call in calls]
    messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    content = ask(messages)
"""


def steps(number: int) -> dict[str, str]:
    """The steps of a workflow with a script, by name. The first one installs; here everything is installed."""
    yaml: Any = pytest.importorskip("yaml")
    text = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[number]
    (job,) = yaml.safe_load(text)["jobs"].values()
    found = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    assert list(found)[1:] == ["Measure", "Compare", "Show"]
    assert "pip install" in found.pop(next(iter(found)))
    return {name: script.replace("-n 20", "-n 7 --speed 100") for name, script in found.items()}


def run(script: str, folder: Path) -> int:
    """Run a step as GitHub does."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    executable(tools / "eagerstream", *COMMAND)
    executable(tools / "python", sys.executable)
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env={**ENVIRONMENT, **environment}, timeout=240, check=False).returncode


def executable(path: Path, *command: str) -> None:
    path.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def program(folder: Path, tool_s: float) -> None:
    """Write a program whose tool takes this long, with an environment of its own."""
    (folder / ".venv/bin").mkdir(parents=True, exist_ok=True)
    executable(folder / ".venv/bin/python", sys.executable)
    (folder / "agent.py").write_text(AGENT.replace("TOOL_S", f"{tool_s}"), encoding="utf-8")


@pytest.mark.slow
def test_a_pull_request(tmp_path: Path) -> None:
    """A change with a slower tool fails, and the summary of the job says why."""
    program(tmp_path / "base", 0.1)
    program(tmp_path, 0.4)
    scripts = steps(0)
    assert run(scripts["Measure"], tmp_path) == 0
    assert run(scripts["Compare"], tmp_path) == EXCEEDED
    assert run(scripts["Show"], tmp_path) == 0
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert re.search(r"^\| `duration_s:\+10%` \| exceeded \| `change", summary, re.MULTILINE)


@pytest.mark.slow
def test_a_history(tmp_path: Path) -> None:
    """Each push adds its results. The slow one fails, and the trend shows all of them with their commits."""
    for command in ("init -q", "config user.email a@example.com", "config user.name a"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    codes: list[int] = []
    scripts = steps(1)
    for tool_s in (0.0, 0.001, 0.3):
        program(tmp_path, tool_s)
        subprocess.run(["git", "add", "agent.py"], cwd=tmp_path, check=True)
        subprocess.run(["git", "commit", "-qm", "change"], cwd=tmp_path, check=True)
        assert run(scripts["Measure"], tmp_path) == 0
        codes.append(run(scripts["Compare"], tmp_path))
    assert run(scripts["Show"], tmp_path) == 0
    log = subprocess.run(["git", "log", "--format=%H"], cwd=tmp_path, capture_output=True, text=True, check=True)
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert codes == [0, 0, EXCEEDED]
    assert re.findall(r"^\| `2\d{3}-\d\d-\d\d` \| `(\w{8})` \|", summary, re.MULTILINE) == [
        commit[:8] for commit in reversed(log.stdout.split())
    ]
