"""The runners of the vectors in Go and Rust: they find what the one in Python finds."""

from __future__ import annotations

import copy
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.conformance import compiled
from benchmarks.conformance.scoring import VECTORS, cases
from packages.wire.conformance.run import judged, number

from tests.sampling import SEED

_ROOT = Path(__file__).parents[2]
_KINDS = ("sse", "partial_json", "inputs")
_SHARE = 12  # of the cases, one of so many goes through both runners
_PROGRAMS: dict[str, Callable[[], Path]] = {"go": compiled.go_programs, "rs": compiled.rust_programs}
_DIFFERENCE = re.compile(r"(\S+): (\w+) ")


def _programs(language: str) -> Path:
    """Compile the programs of a language, or skip the test. In CI, a missing compiler is a failure."""
    try:
        return _PROGRAMS[language]()
    except compiled.NoCompilerError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def _drawn(kind: str) -> list[dict[str, Any]]:
    """Return some cases of a kind without the changes, which these runners do not compare."""
    found: list[dict[str, Any]] = json.loads((VECTORS / f"{kind}.json").read_bytes())["cases"]
    drawn = copy.deepcopy(found[int(SEED) % _SHARE :: _SHARE])
    for step in (step for case in drawn for step in case["steps"]):
        step.pop("changes", None)
    return drawn


def _expected(module: str, kind: str, drawn: Any, lacks: list[str]) -> set[tuple[str, str]]:
    """Return the case and the aspect of each difference that the runner in Python finds."""
    own = importlib.import_module(module)
    adapter = SimpleNamespace(**{name: getattr(own, name) for name in _KINDS}, lacks=lacks)
    return {
        (case["id"], "error" if "the implementation" in difference else aspect)
        for case in json.loads(json.dumps(drawn), object_hook=number)
        for aspect, (right, difference) in judged(adapter, kind, case, strict=False).items()
        if right is False
    }


def _found(differences: list[str]) -> Iterator[tuple[str, str]]:
    pairs = [match.groups() for line in differences if (match := _DIFFERENCE.match(line))]
    assert len(pairs) == len(differences)
    failed = {case for case, aspect in pairs if aspect == "error"}  # the runner in Python stops at the first error
    yield from ((case, "error" if case in failed else aspect) for case, aspect in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("language", _PROGRAMS)
@pytest.mark.parametrize(
    "adapter", ["packages.wire.conformance.adapters.eagerstream", "tests.conformance.wrong_adapter"]
)
def test_runner_gives_the_verdicts_of_the_one_in_python(language: str, adapter: str, tmp_path: Path) -> None:
    """For the core, and for an adapter that is wrong in every way that a runner has to notice."""
    runner = _programs(language) / "runner"
    drawn = {kind: _drawn(kind) for kind in _KINDS}
    for kind, some in drawn.items():
        (tmp_path / f"{kind}.json").write_text(json.dumps({"cases": some}))
    lacks = ["deep", "lone_surrogates"]  # no string of Go or Rust has half of a surrogate pair
    lines = [sys.executable, "-m", "packages.wire.conformance.adapters.lines", adapter]
    command = [str(runner), str(tmp_path), ",".join(lacks), *lines]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers = {line["kind"]: line for line in map(json.loads, done.stdout.rstrip("\n").split("\n"))}
    assert list(answers) == [*_KINDS]
    for kind, answer in answers.items():
        supported = [case for case in drawn[kind] if not {*lacks} & {*case.get("needs", ())}]
        assert answer["cases"] == len(supported)
        assert set(_found(answer["differences"])) == _expected(adapter, kind, supported, lacks)
    is_right = adapter.endswith("eagerstream")
    assert is_right == (not any(answer["differences"] for answer in answers.values()))


_PROJECTS = {
    "go": ("go.mod", "module mine\n\ngo 1.19\n", "vectors_test.go", ["go", "test", "./..."]),
    "rust": (
        "Cargo.toml",
        (_ROOT / "benchmarks/conformance/rust/Cargo.toml").read_text().partition("\n# Speaks")[0] + "[lib]\n",
        "tests/vectors.rs",
        ["cargo", "test", *compiled.CARGO],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("language", _PROJECTS)
def test_program_of_the_page_finds_what_its_parser_lacks(language: str, tmp_path: Path) -> None:
    """Authors copy it. Its parser takes a text that is cut for a wrong one, and no vector is missed."""
    _programs({"go": "go", "rust": "rs"}[language])
    page = (_ROOT / "docs/reference/streaming-parsers.md").read_text()
    (program,) = re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert program.count("\n") <= 25
    manifest, text, name, command = _PROJECTS[language]
    files = {manifest: text, name: program, "src/lib.rs": ""}
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    shutil.copytree(VECTORS, tmp_path / "conformance")
    environment = {**os.environ, **compiled.GO}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    found = re.findall(r"(partial_json/\S+): outcome as given, expected (.*), got (.*)", done.stdout)
    assert {(expected.strip('"'), got.strip('"')) for _, expected, got in found} == {("incomplete", "invalid")}
    lacks = {"infinity", "lone_surrogates"}
    incomplete = [case for case in cases("partial_json") if case["expect"]["outcome"] == "incomplete"]
    assert [case for case, *_ in found] == [case["id"] for case in incomplete if not lacks & {*case.get("needs", ())}]


@pytest.mark.slow
@pytest.mark.parametrize("language", _PROGRAMS)
def test_runner_is_formatted_and_short(language: str) -> None:
    """Authors copy the file, so it has to be as their own formatter leaves it."""
    _programs(language)
    file = VECTORS / f"run.{language}"
    assert len(file.read_text().splitlines()) <= 150
    if language == "go":
        assert subprocess.run(["gofmt", "-l", file], capture_output=True, text=True, check=True).stdout == ""
