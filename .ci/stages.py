"""The stages of CI: what each runs, what it needs, and a scheduler that keeps two cores busy.

The complete matrices take hours: all platforms under faults, five versions of the anthropic package, both wheels with
all tests, long fuzzing. Each run does a part of each, which the commit chooses. The nightly workflow does all.

Needs only the standard library: it installs the rest.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "ci"
CORES = 2
PARTS = 5  # of the nightly tests; a run has one
STAGE_LIMIT_S = 2100
STATUS_EVERY_S = 30
SHOWN_LINES = 150  # of a stage that failed

CORE_TESTS = (
    "tests/wire tests/loop tests/tools tests/transports tests/streaming tests/builtin/_code/test_statements.py"
    " tests/test_package.py"  # without the optional packages, as after `make test`
)
DEBIAN = {
    "chromium": "chromium",
    "chromedriver": "chromium-driver",
    "tmux": "tmux",
    "node": "nodejs",
    "npm": "npm",
    "redis-server": "redis-server",
    "strace": "strace",
    "bwrap": "bubblewrap",
}


@dataclass
class Stage:
    """A command, which succeeds with exit code 0.

    Attributes:
        name: Also of its log, `build/ci/<name>.log`.
        command: For bash.
        needs: Stages that have to succeed first.
        cores: It keeps so many busy.
        is_short: It runs to its end even if another stage has failed: its findings come cheap.
    """

    name: str
    command: str
    needs: tuple[str, ...] = ()
    cores: int = 1
    is_short: bool = False
    result: str = "waiting"
    begun_s: float = 0.0
    took_s: float = 0.0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    def start(self, environment: dict[str, str]) -> None:
        self.result, self.begun_s = "running", time.monotonic()
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", self.command],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def poll(self) -> bool:
        """Note how it ended; True if it has."""
        assert self.process is not None
        self.took_s = time.monotonic() - self.begun_s
        code = self.process.poll()
        if code is None and self.took_s > STAGE_LIMIT_S:
            self.stop()
            code = -1
            with self.log.open("a") as log:
                log.write(f"\nstopped: it took longer than {STAGE_LIMIT_S} s\n")
        if code is None:
            return False
        if self.result == "running":
            self.result = "passed" if code == 0 else "FAILED"
        return True

    def stop(self) -> None:
        """End it, with all that it started."""
        if self.process is None or self.process.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                continue
            except ProcessLookupError:
                pass
            break

    def progress(self) -> str:
        """How far it is, by the last thing that it printed: pytest ends its lines with a percentage."""
        lines = self.last_lines(3)
        percentages = [line[line.rindex("[") :] for line in lines if line.endswith("%]")]
        return (percentages or lines or [""])[-1][-100:].strip()

    def last_lines(self, count: int) -> list[str]:
        if not self.log.exists():
            return []
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if line.strip()][-count:]


def stages(seed: int) -> list[Stage]:
    """All of them, in the order in which they start."""
    pythons = list(_other_pythons())
    all_packages = "EAGERSTREAM_ALL_PACKAGES=1"  # a test that lacks a package fails
    return [
        Stage("install", "make .venv/.all .venv/.fuzz"),
        Stage("debian", _debian()),
        *pythons[:1],
        Stage("check", "make check", needs=("install",), is_short=True),
        Stage("quick", f"{all_packages} make test", needs=("install",), cores=2, is_short=True),
        Stage("wheels", ".ci/wheels", needs=("install",)),
        Stage("installed", _installed(seed), needs=("install", "wheels")),
        Stage("sanitize", ".ci/sanitize", needs=("install", "wheels")),
        Stage("flavors", _flavors(seed), needs=("wheels",)),
        Stage("compat", f".venv/bin/python -m tests.versions --count 2 --seed {seed}", needs=("install",)),
        *pythons[1:],
        Stage("speed", "make bench-check", needs=("install",)),
        # One process more than cores: most of these tests wait for other programs.
        Stage(
            "slow",
            f"{all_packages} .venv/bin/pytest -m 'slow or nightly' --timeout 600 --durations 40"
            f" --numprocesses {CORES + 1} --dist loadfile",
            needs=("install", "debian", "quick"),
            cores=2,
        ),
        Stage(
            "fuzz",
            f".venv/bin/python -m tests.fuzz --without flavors --seconds 60 --seed {seed} --max-len 64",
            needs=("install", "quick"),
            cores=2,
        ),
    ]


def _debian() -> str:
    """What tests drive from outside, a browser, a terminal, the protocols' own clients: installed if it is missing."""
    missing = " ".join(package for program, package in DEBIAN.items() if shutil.which(program) is None)
    if not missing:
        return "echo 'all there'"
    install = "DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends"
    return f"apt-get update --quiet=2; {install} {missing}"


def _other_pythons() -> Iterator[Stage]:
    """The quick tests of the core on the other versions of Python that are on this machine."""
    for version in ("3.12", "3.13"):
        name = f"python{version}"
        python = _find_python(version)
        if python is None:
            print(f"{name} is not on this machine: its tests are skipped", flush=True)
            continue
        venv = f"build/ci/{name}"
        install = f"make {venv}/.test VENV={venv} PYTHON={shlex.quote(python)}"
        yield Stage(name, f"{install}; {venv}/bin/pytest {CORE_TESTS}")
    yield Stage("python3.14", _debian_python("3.14"))


def _installed(seed: int) -> str:
    """Programs of the pages with the installed wheel: on this Python, and on one of the others on this machine."""
    others = [python for version in ("3.12", "3.13") if (python := _find_python(version))]
    return shlex.join([".ci/installed", "whl", sys.executable, *others[seed % max(len(others), 1) :][:1]])


def _flavors(seed: int) -> str:
    """The compiled wheel and the sources, on the same inputs."""
    other = "EAGERSTREAM_OTHER_PYTHON=build/wheel-compiled/bin/python"
    return f"{other} .venv/bin/python -m tests.fuzz flavors --seconds 60 --seed {seed} --max-len 64"


def _find_python(version: str) -> str | None:
    name = f"python{version}"
    found = [*sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}")), shutil.which(name)]
    works = [path for path in found if path and _works(path)]
    return str(works[-1]) if works else None


def _debian_python(version: str) -> str:
    """The same tests on a Python of a later Debian. A machine that cannot get it says so, and passes."""
    venv = f"build/ci/python{version}"
    get = f"python=$(.ci/debian-python {version}) || {{ code=$?; [ $code = 3 ] && exit 0; exit $code; }}"
    return f"{get}; make {venv}/.test VENV={venv} PYTHON=$python; {venv}/bin/pytest {CORE_TESTS}"


def _works(python: str | Path) -> bool:
    """Not every file of that name does: the shims of pyenv stand for versions that are not there, too."""
    return subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0


class Run:
    """Stages, run with as much at once as there are cores."""

    def __init__(self, chosen: list[Stage], environment: dict[str, str]) -> None:
        self._stages = chosen
        self._environment = environment
        self._start_s = time.monotonic()
        self._status_s = self._start_s
        self._has_failed = False

    def to_the_end(self) -> bool:
        """Run all; True if all passed."""
        try:
            while self._step():
                time.sleep(0.2)
        finally:
            for stage in self._stages:
                if stage.result == "running":
                    stage.result = "stopped"
                stage.stop()
            self._print_table()
        return all(stage.result == "passed" for stage in self._stages)

    def _step(self) -> bool:
        for stage in self._of("running"):
            if stage.poll():
                self._say(f"{stage.name} {stage.result} in {stage.took_s:.0f} s")
                failed = stage.result == "FAILED"
                _print_indented(stage.last_lines(SHOWN_LINES if failed else 3), sys.stdout)
                if failed and not self._has_failed:
                    self._has_failed = True
                    self._stop_what_matters_no_more()
        running = self._of("running")
        free = CORES - sum(stage.cores for stage in running)
        for stage in self._of("waiting"):
            if {other.name for other in self._stages if other.result == "passed"}.issuperset(stage.needs):
                if stage.cores > free:
                    break
                free -= stage.cores
                stage.start(self._environment)
                self._say(f"{stage.name} started: {stage.command}")
        if time.monotonic() - self._status_s > STATUS_EVERY_S:
            self._status_s = time.monotonic()
            for stage in self._of("running"):
                took_s = time.monotonic() - stage.begun_s
                self._say(f"{stage.name}, {took_s:.0f} s: {stage.progress()}")
        return bool(self._of("running"))

    def _stop_what_matters_no_more(self) -> None:
        """The change cannot land: only what is short may still say more about it."""
        for stage in self._stages:
            if stage.result in ("waiting", "running") and not stage.is_short:
                if stage.result == "running":
                    stage.result = "stopped"
                    stage.stop()
                else:
                    stage.result = "not run"

    def _of(self, result: str) -> list[Stage]:
        return [stage for stage in self._stages if stage.result == result]

    def _say(self, text: str) -> None:
        minutes, seconds = divmod(round(time.monotonic() - self._start_s), 60)
        print(f"[{minutes:2}:{seconds:02}] {text}", flush=True)

    def _print_table(self) -> None:
        print(f"\n{'stage':<12}{'result':<10}{'seconds':>8}")
        for stage in self._stages:
            print(f"{stage.name:<12}{stage.result:<10}{stage.took_s:>8.0f}")
        print(f"{'all':<22}{time.monotonic() - self._start_s:>8.0f}")
        passed, failed = len(self._of("passed")), len(self._of("FAILED"))
        others = len(self._stages) - passed - failed
        print(f"stages: {passed} passed, {failed} failed, {others} skipped", flush=True)


def _print_indented(lines: list[str], output: IO[str]) -> None:
    for line in lines:
        print(f"        {line[:300]}", file=output, flush=True)


def _seed() -> int:
    """Of EAGERSTREAM_SEED, or of the commit."""
    if given := os.environ.get("EAGERSTREAM_SEED"):
        return int(given)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return int(commit[:7] or "0", 16)


def main() -> int:
    seed = _seed()
    environment = os.environ | {
        "CI": "1",  # property tests try more examples
        "EAGERSTREAM_SEED": str(seed),
        "EAGERSTREAM_PART": f"{seed % PARTS + 1}/{PARTS}",
        "PYTEST_ADDOPTS": f"-p no:cacheprovider --hypothesis-seed={seed}",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # each of the many programs would compile all that it imports
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    print(f"EAGERSTREAM_SEED={seed}, part {environment['EAGERSTREAM_PART']} of the nightly tests", flush=True)
    known = {stage.name: stage for stage in stages(seed)}
    if unknown := set(sys.argv[1:]) - known.keys():
        print(f"no stage is named {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    wanted = set(sys.argv[1:] or known)
    while more := {need for name in wanted for need in known[name].needs} - wanted:
        wanted |= more
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return 0 if Run([stage for stage in known.values() if stage.name in wanted], environment).to_the_end() else 1


if __name__ == "__main__":
    sys.exit(main())
