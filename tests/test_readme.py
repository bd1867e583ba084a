"""The README is read before anything else: its programs run, its facts hold."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eagerstream.progress import load_records
from eagerstream.testing import ReplayServer, Scenario, reply, text, tool_use

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
AGENT, PROGRESS, LATENCY, WATCH, PRIMES, OLD_ADDITION, NEW_ADDITION, OLD_WEATHER, NEW_WEATHER = re.findall(
    r"```python\n(.*?)```", README, re.DOTALL
)
POEM = tool_use("make_file", {"filename": "poem.txt", "lines_of_text": ["one line", "and another"]})


def run_program(program: str, scenario: Scenario, folder: Path | None = None, *options: str) -> str:
    with ReplayServer(scenario) as server:
        done = subprocess.run(
            [sys.executable, *options, "-c", program],
            env={**os.environ, "ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "simulated"},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
            cwd=folder,
        )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_agent() -> None:
    """The smallest agent runs its tool and ends."""
    call = tool_use("get_weather", {"city": "Paris"})
    output = run_program(AGENT, Scenario(reply(call), reply(text("It has 15 degrees."))))
    assert output.startswith("completed ")
    assert "It has 15 degrees." in output


@pytest.mark.slow
def test_the_progress_ui() -> None:
    """The smallest progress UI counts lines while they come."""
    output = run_program(PROGRESS, Scenario(reply(POEM)))
    assert "lines so far" in output
    assert "valid" in output


@pytest.mark.slow
def test_the_latency_measurement() -> None:
    """The smallest measurement tells of the first value, the tool and the gaps, eager and not."""
    output = run_program(LATENCY, Scenario(reply(POEM)))
    for eager in (True, False):
        assert re.search(
            rf"eager={eager}: first value after [\d.]+ s, tool after [\d.]+ s, longest gap [\d.]+ s", output
        )


@pytest.mark.slow
def test_a_run_that_is_watched(tmp_path: Path) -> None:
    """It is shown in plain lines, on a page, and kept in a file that can be watched again."""
    call = tool_use("get_weather", {"city": "Paris"})
    output = run_program(WATCH, Scenario(reply(call), reply(text("15 degrees."))), tmp_path)
    assert re.search(r"open http://127\.0\.0\.1:\d+/\?token=\S+", output)
    assert "get_weather" in output
    records = load_records(tmp_path / "weather.jsonl")
    assert records[-1]["type"] == "run_stop"


@pytest.mark.slow
def test_tools_in_worker_processes(tmp_path: Path) -> None:
    """The program is a file, which the workers import."""
    file = tmp_path / "primes.py"
    file.write_text(PRIMES, encoding="utf-8")
    with ReplayServer(
        Scenario(reply(tool_use("count_primes", {"below": 100})), reply(text("There are 25.")))
    ) as server:
        done = subprocess.run(
            [sys.executable, file],
            env={**os.environ, "ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "simulated"},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        result = server.requests[1].body["messages"][-1]["content"][0]
    assert (done.returncode, done.stderr) == (0, "")
    assert "There are 25." in done.stdout
    assert result["content"] == "25"


@pytest.mark.parametrize("program", [OLD_ADDITION, NEW_ADDITION], ids=["old", "new"])
@pytest.mark.slow
def test_programs_of_anthropic_tools(program: str) -> None:
    """The old one and the new one end with the same message."""
    scenario = Scenario(reply(tool_use("perform_addition", {"a": 17, "b": 4})), reply(text("It is 21.")))
    output = run_program(program, scenario, None, "-W", "ignore::DeprecationWarning:__main__")
    (message,) = [ast.literal_eval(line) for line in output.splitlines()]
    assert message["role"] == "assistant"
    assert message["content"] in ("It is 21.", [{"type": "text", "text": "It is 21."}])


@pytest.mark.slow
@pytest.mark.parametrize("program", [OLD_WEATHER, NEW_WEATHER], ids=["old", "new"])
def test_programs_of_helloagents(program: str) -> None:
    """The old one calls the tool itself, the new one lets the model: the response is the same."""
    scenario = Scenario(reply(tool_use("get_weather", {"city": "Paris"})), reply(text("Mild.")))
    assert run_program(program, scenario) == "success Paris: 15 degrees\n"


@pytest.mark.parametrize("target", re.findall(r"\]\(((?!http)[^)]+)\)", README))
def test_links_lead_somewhere(target: str) -> None:
    """Files that the README points to are there."""
    assert (ROOT / target).exists()


@pytest.mark.parametrize("command", sorted(set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))))
def test_make_knows_its_targets(command: str) -> None:
    """Commands that the README names exist."""
    done = subprocess.run(["make", "-n", command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr


def test_nothing_is_left_to_be_filled_in() -> None:
    """Figures stand where figures are promised."""
    assert not re.search(r"\b(BENCH|GROWTH|TODO)\b", README)
