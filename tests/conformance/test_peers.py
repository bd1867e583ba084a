"""The published scores of other libraries, and the runner in TypeScript."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.conformance import questions
from benchmarks.conformance.page import read, rendered
from benchmarks.conformance.peers import PEERS
from benchmarks.conformance.scoring import VECTORS, cases
from packages.wire.conformance.run import KINDS, judged

from tests.node import need_packages
from tests.sampling import SEED

_ROOT = Path(__file__).parents[2]
_NPM = _ROOT / "benchmarks/conformance/npm"
_MEASURED = {(peer["package"], peer["language"]): peer for peer in read()["peers"]}
_INSTALLED = ("jiter", "langchain-core", "pydantic-ai-slim")  # they come with the tests, and are quick
_OUTSIDE = ("@earendil-works/pi-ai", "@copilotkit/aimock", "encoding/json")  # quick, too


def test_scores_are_of_the_vectors_that_are_published() -> None:
    """Otherwise `make conformance` has to run again: the page would show cases that are others by now."""
    assert read()["cases"] == {kind: len(cases(kind)) for kind in KINDS}
    ids = {case["id"] for kind in KINDS for case in cases(kind)}
    for peer in _MEASURED.values():
        assert {f"{family}/{name}" for family, found in peer["wrong"].items() for name in found["cases"]} <= ids


def test_page_names_each_library_and_each_of_its_wrong_cases() -> None:
    text = rendered(read())
    assert list(_MEASURED) == [(peer.package, peer.language) for peer in PEERS]
    for peer in _MEASURED.values():
        section = text.partition(f"\n## {peer['package']} {peer['version']} ({peer['language']})\n")[2].partition(
            "\n## "
        )[0]
        assert all(name in section for found in peer["wrong"].values() for name in found["cases"])
        wrong = sum(score["wrong"] for score in peer["scores"].values())
        assert wrong == sum(len(found["cases"]) for found in peer["wrong"].values())


def test_own_core_is_right_in_all_cases() -> None:
    own = _MEASURED["eagerstream", "Python"]
    assert own["wrong"] == {}
    assert [kind for kind in KINDS if own["scores"][kind]["not supported"]] == []


def test_page_has_the_answers_of_each_parser() -> None:
    """A parser that shows values answers all questions: a gap would look as if it had none."""
    text = questions.tables(read()["peers"])
    for peer in _MEASURED.values():
        shows_values = "value" in peer["aspects"].get("partial_json", ())
        assert (f"| {peer['package']} ({peer['language']}) |" in text) == shows_values
        assert [*peer["answers"]] == ([*questions.UNFINISHED, *questions.WRONG] if shows_values else [])


@pytest.mark.slow
@pytest.mark.parametrize("package", [*_INSTALLED, *_OUTSIDE])
def test_committed_verdicts_are_those_of_the_adapter(package: str) -> None:
    """A page of old verdicts would accuse a library of what it does not do."""
    (peer,) = [one for one in PEERS if one.package == package]
    if peer.language == "TypeScript":
        need_packages(_NPM)
    committed = _MEASURED[package, peer.language]
    if peer.version != committed["version"]:
        pytest.skip(f"{package} {peer.version} is not the one that was measured")
    command = [sys.executable, "-m", "benchmarks.conformance.scoring", str(PEERS.index(peer))]
    found = json.loads(subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True).stdout)
    assert {name: found[name] for name in found} == {name: committed[name] for name in found}


_COMPARE = """
import { readFileSync, writeFileSync } from "node:fs";
import { judged, read, type Case, type Adapter } from "ROOT/packages/wire/conformance/run.ts";
import * as adapter from "ROOT/packages/wire/conformance/adapters/program.ts";
const verdicts: unknown[] = [];
void (async () => {
  for (const [kind, one] of read(readFileSync(process.argv[2]!, "utf8")) as unknown as [string, Case][])
    for (const strict of [true, false])
      for (const [aspect, right] of await judged(adapter as unknown as Adapter, kind, one, strict))
        verdicts.push([one.id, strict, aspect, right]);
  writeFileSync(process.argv[3]!, JSON.stringify(verdicts));
  process.exit();
})();
"""
_SHARE = 12  # of the cases, one of so many goes through both runners


@pytest.mark.slow
@pytest.mark.parametrize(
    "adapter", ["packages.wire.conformance.adapters.eagerstream", "tests.conformance.wrong_adapter"]
)
def test_both_runners_give_the_same_verdicts(adapter: str, tmp_path: Path) -> None:
    """For the core, and for an adapter that is wrong in every way that a runner has to notice."""
    need_packages(_NPM)
    texts = {kind: json.loads((VECTORS / f"{kind}.json").read_bytes())["cases"] for kind in KINDS}
    drawn = [(kind, one) for kind in KINDS for one in texts[kind][int(SEED) % _SHARE :: _SHARE]]
    (tmp_path / "drawn.json").write_text(json.dumps(drawn))
    script, found = tmp_path / "verdicts.mts", tmp_path / "verdicts.json"
    script.write_text(_COMPARE.replace("ROOT", str(_ROOT)))
    program = f"{sys.executable} -m packages.wire.conformance.adapters.lines {adapter}"
    done = subprocess.run(
        ["node", str(_NPM / "node_modules/tsx/dist/cli.mjs"), str(script), str(tmp_path / "drawn.json"), str(found)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=_ROOT,
        env={**os.environ, "CONFORMANCE_PROGRAM": program},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    module = importlib.import_module(adapter)
    ids = {one["id"] for _, one in drawn}
    expected = [
        [case["id"], strict, aspect, right]
        for kind in KINDS
        for case in cases(kind)
        if case["id"] in ids
        for strict in (True, False)
        for aspect, (right, _) in judged(module, kind, case, strict).items()
    ]
    pairs = zip(json.loads(found.read_bytes()), expected, strict=True)
    assert [pair for pair in pairs if pair[0] != pair[1]] == []


@pytest.mark.slow
def test_runner_in_typescript_is_strictly_typed_and_short() -> None:
    need_packages(_NPM)
    done = subprocess.run(
        ["node", "node_modules/typescript/bin/tsc", "-p", "."], capture_output=True, text=True, check=False, cwd=_NPM
    )
    assert done.stdout == ""
    assert len((_ROOT / "packages/wire/conformance/run.ts").read_text().splitlines()) <= 150
