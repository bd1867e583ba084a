"""The same work measured by hyperfine, by aiperf, and by the lab: where the figures mean the same, they agree.

hyperfine and `eagerstream bench --program` measure the same two programs. Each makes two requests to a double, and its
tool takes 0.1 s in one, and 0.4 s in the other. hyperfine measures the process from its start to its end, and the lab
from its first request to its last response. So the first figure has the start of Python in it, but the difference
between the programs is the same. Both run each program ten times, after one run to warm up.

aiperf (NVIDIA) and `eagerstream bench load` send the same request with four at once, for 20 seconds, to doubles that
play the same recording: a text whose first byte takes 0.4 s, at 80 tokens per second. aiperf's "request latency" is the
lab's "complete run", because the run has one request. Its "time to first token" is not the "first byte": the first
token of this recording comes 12.5 ms later.

The tools run one after the other. hyperfine comes from Debian, and aiperf from an environment of its own:
`python -m venv build/aiperf && build/aiperf/bin/pip install aiperf==0.13.0`. It needs a tokenizer, and gets a tiny one.
guidellm (0.8.1) is left out, because it sends requests of OpenAI's API only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from eagerstream.recordings import Recording
from eagerstream_testing import ReplayServer, Scenario, Timing, reply, retime, text, tool_use

from .flavors import ROOT
from .targets import Row

AIPERF: Final = ROOT / "build/aiperf/bin"
PACE: Final = "80 tokens per second"
RUNS: Final = 10
CONCURRENCY: Final = 4

_PROGRAM: Final = """
import json, os, sys, time, urllib.request
TOOL = {"name": "look", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}
def ask(messages):
    body = {"model": "claude-opus-4-7", "max_tokens": 1024, "tools": [TOOL], "messages": messages}
    url, kind = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), kind | {"x-api-key": "any"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["content"]
messages = [{"role": "user", "content": "Look."}]
content = ask(messages)
while calls := [block for block in content if block["type"] == "tool_use"]:
    time.sleep(float(sys.argv[1]))
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "nothing"} for call in calls]
    messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    content = ask(messages)
"""
_TOOL_S: Final = (0.1, 0.4)

_TOKENIZER: Final = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
made = Tokenizer(models.BPE())
made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
made.train_from_iterator([], trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(sys.argv[1])
"""


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Run the tools that are installed, print tables, and return the figures."""
    found: dict[str, Any] = {}
    rows: list[Row] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        for tool, is_installed, part in (
            ("hyperfine", shutil.which("hyperfine") is not None, _beside_hyperfine),
            ("aiperf", (AIPERF / "aiperf").exists(), _beside_aiperf),
        ):
            if is_installed:
                found[tool] = part(folder, quick=quick)
                console.print(_table(tool, found[tool]["figures"]))
                rows.append(_row(tool, found[tool]))
            else:
                console.print(f"{tool} is not installed.")
                rows.append(_row(tool, None))
    return {"versions": _versions(found), **found, "rows": [asdict(row) for row in rows]}


# --- hyperfine --------------------------------------------------------------------------------------------------------


def _beside_hyperfine(folder: Path, *, quick: bool) -> dict[str, Any]:
    runs = 6 if quick else RUNS
    program = folder / "program.py"
    program.write_text(_PROGRAM, encoding="utf-8")
    commands = [f"{sys.executable} {program} {tool_s}" for tool_s in _TOOL_S]
    turns = (reply(text("I look."), tool_use("look", {"at": "the harbour"})), reply(text("Nothing there.")))
    timing = Timing(tokens_per_second=80, first_byte_s=0.2)
    with ReplayServer(Scenario(*turns, timing=timing)) as server:
        options = ("--shell=none", "--warmup", "1", "--runs", f"{runs}", "--export-json", "hyperfine.json")
        _run(["hyperfine", *options, *commands], folder, {"ANTHROPIC_BASE_URL": server.base_url})
    theirs = json.loads((folder / "hyperfine.json").read_text(encoding="utf-8"))["results"]
    for number, turn in enumerate(turns):
        retime(turn, timing).save(folder / f"{number}.jsonl")
    given = ("--recording", "0.jsonl+1.jsonl", "-n", f"{runs}", "--primary", "duration_s", "--no-html")
    programs = [part for command in commands for part in ("--program", command)]
    names = [part for tool_s in _TOOL_S for part in ("--name", f"{tool_s} s")]
    _run(
        [sys.executable, "-m", "eagerstream", "bench", "--programs-only", *given, *programs, *names, "--out", "bench"],
        folder,
    )
    ours = json.loads((folder / "bench/results.json").read_text(encoding="utf-8"))
    cases = {case["program"]: case["metrics"]["duration_s"]["median"] for case in ours["cases"]}
    (difference,) = (one["difference"] for one in ours["comparisons"] if one["metric"] == "duration_s")
    medians = [result["median"] for result in theirs]
    figures = {
        f"the program with a tool of {tool_s} s": (theirs_s, cases[f"{tool_s} s"])
        for tool_s, theirs_s in zip(_TOOL_S, medians, strict=True)
    }
    figures["difference"] = (medians[1] - medians[0], difference["median"])
    return {"figures": figures, "interval": [difference["low"], difference["high"]]}


# --- aiperf -----------------------------------------------------------------------------------------------------------


def _beside_aiperf(folder: Path, *, quick: bool) -> dict[str, Any]:
    seconds = 10 if quick else 20
    recording = retime(reply(text("The harbour lies still. " * 20)), Timing(tokens_per_second=80, first_byte_s=0.4))
    recording.save(folder / "text.jsonl")
    _run([str(AIPERF / "python"), "-c", _TOKENIZER, "tokenizer"], folder)
    with ReplayServer(Recording.load(folder / "text.jsonl")) as server:
        options = {
            "--endpoint-type": "messages",
            "--url": server.base_url,
            "--model": "claude-opus-4-7",
            "--tokenizer": str(folder / "tokenizer"),
            "--isl": "20",
            "--concurrency": f"{CONCURRENCY}",
            "--benchmark-duration": f"{seconds}",
            "--output-artifact-dir": str(folder / "aiperf"),
            "--ui-type": "none",
        }
        given = [part for option in options.items() for part in option]
        _run([str(AIPERF / "aiperf"), "profile", "--streaming", *given], folder)
    theirs = json.loads((folder / "aiperf/profile_export_aiperf.json").read_text(encoding="utf-8"))
    load = (
        "--recording",
        "text.jsonl",
        "-c",
        f"{CONCURRENCY}",
        "--duration",
        f"{seconds}s",
        "--no-html",
        "--out",
        "load",
    )
    _run([sys.executable, "-m", "eagerstream", "bench", "load", *load], folder)
    ours = json.loads((folder / "load/load.json").read_text(encoding="utf-8"))
    (level,) = ours["cases"][0]["levels"]
    figures = {
        f"{label}, {share}": (theirs[tag][share] / 1000, level["figures"][name][share])
        for label, tag, name in (
            ("first token, or first byte", "time_to_first_token", "first_byte_s"),
            ("complete", "request_latency", "duration_s"),
        )
        for share in ("p50", "p90")
        if level["figures"][name].get(share) is not None
    }
    figures["requests per second"] = (theirs["request_throughput"]["avg"], level["throughput_per_s"])
    return {"figures": figures}


# --- output -----------------------------------------------------------------------------------------------------------


def _run(command: Sequence[str], folder: Path, more: Mapping[str, str] | None = None) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    done = subprocess.run(
        command, cwd=folder, env={**environment, **(more or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {(done.stderr or done.stdout)[-2000:]}")


def _versions(found: Mapping[str, Any]) -> dict[str, str]:
    versions: dict[str, str] = {}
    if "hyperfine" in found:
        told = subprocess.run(["hyperfine", "--version"], capture_output=True, text=True, check=True).stdout
        versions["hyperfine"] = told.split()[-1]
    if "aiperf" in found:
        code = "from importlib.metadata import version; print(version('aiperf'))"
        told = subprocess.run([AIPERF / "python", "-c", code], capture_output=True, text=True, check=True).stdout
        versions["aiperf"] = told.strip()
    return versions


def _table(tool: str, figures: Mapping[str, tuple[float, float]]) -> Table:
    table = Table(title=f"beside {tool}")
    for name in ("figure", tool, "the lab", "the lab, times as much"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    for name, (theirs, ours) in figures.items():
        table.add_row(name, f"{theirs:.3f}", f"{ours:.3f}", f"{ours / theirs:.2f}")
    return table


def _row(tool: str, measured: Mapping[str, Any] | None) -> Row:
    """Return the claim: the figures that mean the same agree within a twentieth."""
    measured_words, met = f"{tool} is not installed", None
    if measured is not None:
        other = ("the program", "first")  # they do not mean quite the same
        same = {name: pair for name, pair in measured["figures"].items() if not name.startswith(other)}
        ratios = [ours / theirs for theirs, ours in same.values()]
        measured_words = f"{min(ratios):.2f} to {max(ratios):.2f} times, median {median(ratios):.2f}"
        met = all(0.95 <= ratio <= 1.05 for ratio in ratios)
    return Row(
        work="figures that mean the same",
        against=tool,
        pace=PACE,
        target="within 5%",
        measured=measured_words,
        met=met,
        asserted=False,  # two tools on a busy machine differ by what else it does
    )
