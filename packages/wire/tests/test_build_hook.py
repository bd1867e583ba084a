"""`EAGERSTREAM_COMPILE`: whether a wheel that is built contains compiled modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypyc", reason="mypy compiles the modules")

_FOLDER = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def failing_compiler(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder for PYTHONPATH whose mypyc gives up at once, as it does for a source that it refuses."""
    folder = tmp_path_factory.mktemp("failing")
    (folder / "mypyc").mkdir()
    (folder / "mypyc" / "__init__.py").touch()
    (folder / "mypyc" / "build.py").write_text("raise SystemExit(1)")
    return str(folder)


def _built(folder: Path, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    env = {name: value for name, value in os.environ.items() if name != "EAGERSTREAM_COMPILE"} | environment
    done = subprocess.run(command, cwd=_FOLDER, env=env, capture_output=True, text=True, check=False)
    return done, [wheel.name.removeprefix("eagerstream_wire-").partition("-")[2] for wheel in folder.glob("*.whl")]


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"EAGERSTREAM_COMPILE": "0"}, ""),
        ({"CC": "no-such-compiler"}, "the C compiler no-such-compiler is missing"),
        ({"EAGERSTREAM_COMPILE": "auto", "CC": "true"}, "SystemExit: 1"),
    ],
)
def test_a_pure_wheel(environment: dict[str, str], reason: str, failing_compiler: str, tmp_path: Path) -> None:
    """A machine that cannot compile gets the pure wheel, and is told why. Nothing fails."""
    environment = environment | {"PYTHONPATH": failing_compiler}
    done, tags = _built(tmp_path, **environment)
    assert (done.returncode, tags) == (0, ["py3-none-any.whl"]), done.stderr
    assert reason in done.stdout + done.stderr
    assert bool(reason) == ("pure Python" in done.stdout + done.stderr)


@pytest.mark.parametrize("mode", ["1", "yes"])
def test_no_wheel(mode: str, failing_compiler: str, tmp_path: Path) -> None:
    """A release must not become pure by accident, and neither by a slip in the variable."""
    done, tags = _built(tmp_path, EAGERSTREAM_COMPILE=mode, PYTHONPATH=failing_compiler)
    assert done.returncode != 0
    assert tags == []
