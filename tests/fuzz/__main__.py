"""Fuzz the targets, each in a process of its own, as many at once as there are cores, and say what came of it."""

from __future__ import annotations

import argparse
import base64
import importlib.util
import math
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from .seeds import dictionary, write_seeds
from .slowest import forget_slowest, slowest_in
from .targets import SHARES, check_of

_ROOT: Final = Path(__file__).parents[2]
_FAILURES: Final = ("crash-*", "timeout-*", "oom-*", "leak-*")
_ONE_INPUT_S: Final = 10  # a thousand times what the slowest takes
_RSS_MB: Final = 512  # five times what a target takes
_NO_ATHERIS: Final = "atheris is not installed; make fuzz installs it"
_ENDLESS: Final = (1 << 31) - 1  # libFuzzer counts in 32 bits


class _Run(NamedTuple):
    cases: str
    seconds: float
    corpus: str
    features: str
    peak_mb: str
    slowest: str
    failure: Path | None
    log: Path
    code: int


def main() -> int:
    """See `--help`."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(SHARES)}; all by default")
    parser.add_argument("--without", choices=SHARES, action="append", default=[], help="leave this target out")
    parser.add_argument("--runs", type=int, help="cases in total; without it only the time limits them")
    parser.add_argument("--seconds", type=float, default=600, help="at most so long in total; 600 by default")
    parser.add_argument("--seed", type=int, help="where chance begins: the same runs again")
    parser.add_argument("--max-len", type=int, default=256, help="bytes of an input; with 64 a case costs a quarter")
    parser.add_argument("--driver", choices=("atheris", "hypothesis"), help="atheris by default, where it is installed")
    parser.add_argument("--folder", type=Path, default=_ROOT / "build" / "fuzz", help="for corpora, logs and failures")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="try this input alone, in this process")
    options = parser.parse_args()
    targets = options.targets or [target for target in SHARES if target not in options.without]
    if unknown := [target for target in targets if target not in SHARES]:
        parser.error(f"no target is named {', '.join(unknown)}; there are {', '.join(SHARES)}")
    if options.replay:
        if len(options.targets) != 1:
            parser.error("--replay takes one target")
        check_of(targets[0])(options.replay.read_bytes())
        print(f"{targets[0]} holds")
        return 0
    driver = options.driver or ("atheris" if importlib.util.find_spec("atheris") else "hypothesis")
    if driver == "atheris" and not importlib.util.find_spec("atheris"):
        parser.error(_NO_ATHERIS)
    if options.driver is None and driver == "hypothesis":
        print(f"{_NO_ATHERIS}: hypothesis drives, slower and not by coverage", flush=True)
    return _fuzz_all(
        targets, driver, options.folder, options.runs, options.seconds, options.seed, max_len=options.max_len
    )


def _fuzz_all(
    targets: Sequence[str],
    driver: str,
    folder: Path,
    runs: int | None,
    seconds: float,
    seed: int | None,
    *,
    max_len: int,
) -> int:
    whole = sum(SHARES[target] for target in targets)
    at_once = min(os.cpu_count() or 1, len(targets))
    seconds_each = seconds / math.ceil(len(targets) / at_once)

    def fuzz(target: str) -> _Run:
        share = round(runs * SHARES[target] / whole) if runs else _ENDLESS
        return _fuzz(target, driver, folder / target, share, seconds_each, seed, max_len=max_len)

    total = 0
    failed: list[tuple[str, _Run]] = []
    start = time.monotonic()
    print(_row("target", "cases", "cases/s", "corpus", "features", "peak MB", "slowest input"), flush=True)
    with ThreadPoolExecutor(at_once) as pool:
        for target, run in zip(targets, pool.map(fuzz, targets), strict=True):
            cases = int(run.cases or 0)
            total += cases
            rate = f"{cases / run.seconds:.0f}"
            print(_row(target, f"{cases:,}", rate, run.corpus, run.features, run.peak_mb, run.slowest), flush=True)
            if run.code:
                failed.append((target, run))
    print(f"{total:,} cases in {time.monotonic() - start:.0f} s, driven by {driver}")
    for target, run in failed:
        print(f"\n{target} failed with exit code {run.code}; {run.log} ends with:\n")
        lines = run.log.read_text(errors="replace").splitlines()
        print("\n".join([line for line in lines if not line.startswith("#")][-40:]))
        if run.failure is not None:
            print(f"\nTry it again: python -m tests.fuzz {target} --replay {run.failure}")
            print(f"which holds, in base64: {base64.b64encode(run.failure.read_bytes()).decode()}")
    return 1 if failed else 0


def _row(*cells: str) -> str:
    return f"{cells[0]:18}" + "".join(f"{cell:>11}" for cell in cells[1:6]) + f"  {cells[6]}"


def _fuzz(target: str, driver: str, folder: Path, runs: int, seconds: float, seed: int | None, *, max_len: int) -> _Run:
    """One target, in a process of its own."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    forget_slowest(folder)
    for pattern in _FAILURES:
        for old in folder.glob(pattern):
            old.unlink()
    arguments = [target, str(folder)]
    if driver == "atheris":
        write_seeds(target, folder / "seeds")
        words = folder / "words.dict"
        words.write_text(dictionary())
        arguments += [
            f"-runs={runs}",
            f"-max_total_time={max(1, round(seconds))}",
            f"-seed={secrets.randbelow(_ENDLESS) + 1 if seed is None else seed}",
            "-print_final_stats=1",
        ]
        arguments += [f"-timeout={_ONE_INPUT_S}", f"-rss_limit_mb={_RSS_MB}", f"-malloc_limit_mb={_RSS_MB // 4}"]
        arguments += [f"-max_len={max_len}", "-reload=0"]
        # Cheap inputs more often: two to four times the cases in the same time. What comes next then hangs on times, and
        # no seed brings back a run: not where one was given.
        arguments.append("-entropic_scale_per_exec_time=1" if seed is None else "-entropic=0")
        arguments += [f"-dict={words}", f"-artifact_prefix={folder}{os.sep}"]
        arguments += [str(corpus), str(folder / "seeds")]
    else:
        arguments += [str(runs), str(seconds), str(secrets.randbelow(_ENDLESS) if seed is None else seed)]
    log = folder / "log.txt"
    scratch = folder / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    start = time.monotonic()
    with log.open("wb") as output:
        code = subprocess.run(
            [sys.executable, "-m", f"{__package__}.with_{driver}", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            cwd=_ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": str(scratch)},  # libFuzzer lets nobody clean up
        ).returncode
    took_s = time.monotonic() - start
    text = log.read_text(errors="replace")
    slowest = slowest_in(folder)
    return _Run(
        cases=_last(r"Done (\d+) runs", text) or _last(r"(?m)^#(\d+)\s", text),
        seconds=took_s,
        corpus=_last(r"corp: (\d+)", text),
        features=_last(r"ft: (\d+)", text),
        peak_mb=_last(r"peak_rss_mb:\s+(\d+)", text) or _last(r"rss: (\d+)Mb", text),
        slowest=f"{slowest.name.partition('-')[2]}, {slowest.stat().st_size} bytes" if slowest else "",
        failure=next((path for pattern in _FAILURES for path in folder.glob(pattern)), None),
        log=log,
        code=code,
    )


def _last(pattern: str, text: str) -> str:
    found = re.findall(pattern, text)
    return str(found[-1]) if found else ""


if __name__ == "__main__":
    sys.exit(main())
