"""Mutants of the parsers: the vectors alone have to notice them.

`python -m packages.wire.tests.conformance.mutants` tries all mutants and prints those that no vector notices and that have no reason
in `not_in_vectors`. `--count 200 --seed 7` tries a part, as the slow test does.

A mutant differs from the source in one place: a comparison, a constant, a statement that is left out. Each runs in a fork
of this process, so the checkout and this process stay as they are. The fork runs the mutated module and all modules that
import it anew, and then the vectors of its kind, until one is wrong.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import resource
import signal
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from packages.wire.conformance import run
from packages.wire.conformance.adapters import eagerstream_wire as adapter

from .mutations import Mutation, mutations
from .not_in_vectors import reason_for
from .writing import FOLDER

MODULES: Final = {
    "sse": ("_decoder", "_sse"),
    "partial_json": ("_json_changes", "_json_builder", "_json_scalars", "_partial_json"),
}
"""Kind of vectors to the modules that they test. Each may import the ones before it."""

_CASE_S: Final = 0.5
"""Seconds of processor time for one case. They take a few milliseconds; only endless loops take more."""
_MEMORY_BYTES: Final = 4 << 30
_CASES_WITH_REASON: Final = 150
"""Number of cases for a mutant with a reason. All cases of a kind take seconds, and most slips show in the first few."""


@dataclass(frozen=True)
class Mutant:
    """A mutation of a module, by its number there."""

    kind: str
    module: str
    number: int

    def __str__(self) -> str:
        return f"{self.module}-{self.number}"


@cache
def _loaded(name: str) -> tuple[ModuleType, ast.Module, CodeType]:
    module = import_module(f"eagerstream_wire.{name}")
    path = str(module.__file__)
    tree = ast.parse(Path(path).read_text("utf-8"), path)
    return module, tree, compile(tree, path, "exec")


@cache
def _mutations(name: str) -> list[Mutation]:
    return list(mutations(_loaded(name)[1]))


@cache
def _cases(kind: str) -> list[dict[str, Any]]:
    cases = json.loads((FOLDER / f"{kind}.json").read_bytes(), object_hook=run.number)["cases"]
    # Neighbours are alike: in this order most mutants are noticed by one of the first cases. Long ones come last.
    return sorted(cases, key=lambda case: (case["id"].split("/")[1] == "long", zlib.crc32(case["id"].encode())))


def all_mutants() -> list[Mutant]:
    """Return all mutants."""
    return [
        Mutant(kind, module, number)
        for kind, modules in MODULES.items()
        for module in modules
        for number in range(len(_mutations(module)))
    ]


def drawn(mutants: Iterable[Mutant], count: int, seed: str) -> list[Mutant]:
    """Return `count` of the mutants; the same ones for the same seed."""
    return sorted(mutants, key=lambda mutant: zlib.crc32(f"{seed} {mutant}".encode()))[:count]


def _reason(mutant: Mutant) -> str:
    return reason_for(mutant.module, _mutations(mutant.module)[mutant.number])


def difference(mutant: Mutant) -> str:
    """Return the source of a mutant's statement, before and after."""
    mutation = _mutations(mutant.module)[mutant.number]
    return f"{mutant}, line {mutation.line}, {mutation.function}\n  - {mutation.before}\n  + {mutation.after}"


def noticed_by(mutant: Mutant) -> str | None:
    """Return the case that notices a mutant, in a fork; None if none does."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            sender.send(_first_wrong(mutant))
        finally:
            os._exit(0)
    sender.close()
    with receiver:
        try:
            found: str | None = receiver.recv()
        except EOFError:
            found = "(the process ended)"
    os.waitpid(child, 0)
    return found


def _first_wrong(mutant: Mutant) -> str | None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))

    def refuse(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGVTALRM, refuse)
    try:
        _become(mutant)
    except Exception:
        return "(import)"
    cases = _cases(mutant.kind)
    for case in cases[:_CASES_WITH_REASON] if _reason(mutant) else cases:
        signal.setitimer(signal.ITIMER_VIRTUAL, _CASE_S)
        try:
            verdicts = run.judged(adapter, mutant.kind, case, strict=True)
        except TimeoutError:
            return str(case["id"])
        if any(right is False for right, _ in verdicts.values()):
            return str(case["id"])
    return None


def _become(mutant: Mutant) -> None:
    """Run the mutated module and its importers anew, in this process."""
    modules = MODULES[mutant.kind]
    for name in modules[modules.index(mutant.module) :]:
        module, tree, code = _loaded(name)
        if name == mutant.module:
            _mutations(name)[mutant.number].apply()
            code = compile(ast.fix_missing_locations(tree), str(module.__file__), "exec")
        exec(code, module.__dict__)
    for name, value in vars(_loaded(modules[-1])[0]).items():
        if name in vars(adapter):
            setattr(adapter, name, value)


def unnoticed(mutants: Sequence[Mutant], *, processes: int) -> Iterator[Mutant]:
    """Yield the mutants that no vector notices."""
    for kind, modules in MODULES.items():
        _cases(kind)
        for name in modules:
            _mutations(name)
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for number, (mutant, found) in enumerate(zip(mutants, pool.imap(noticed_by, mutants), strict=True), 1):
            if found is None:
                yield mutant
            if sys.stderr.isatty() or not number % 100:
                print(f"{number} of {len(mutants)}", file=sys.stderr, end="\r" if sys.stderr.isatty() else "\n")


def main() -> int:
    """Print the mutants that no vector notices, without those that none can notice, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, help="try only so many")
    parser.add_argument("--seed", default="0", help="which ones")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    mutants = all_mutants()
    mutants = drawn(mutants, options.count or len(mutants), options.seed)
    survivors, reasons = [], Counter[str]()
    for mutant in unnoticed(mutants, processes=options.processes):
        if reason := _reason(mutant):
            reasons[reason] += 1
        else:
            survivors.append(mutant)
            print(difference(mutant), flush=True)
    for module, count in Counter(mutant.module for mutant in mutants).items():
        print(f"{module}: {sum(mutant.module == module for mutant in survivors)} of {count} survive without a reason")
    for reason, count in reasons.most_common():
        print(f"{count:4} survive: {reason}")
    equal = reasons.total()
    noticed = len(mutants) - len(survivors) - equal
    print(f"{noticed} noticed, {equal} survive with a reason, {len(survivors)} survive without one")
    rates = noticed / len(mutants), noticed / max(len(mutants) - equal, 1)
    print(f"noticed: {rates[0]:.1%} of all, {rates[1]:.1%} of all without the survivors that have a reason")
    return 0


if __name__ == "__main__":
    sys.exit(main())
