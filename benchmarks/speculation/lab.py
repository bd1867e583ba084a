"""The same sessions in real time, with the lab: `python -m benchmarks.speculation.lab [code] [web] [data] [slow-data]`.

It records the responses of a session with half of the predictions right, and runs `eagerstream bench --programs-only`
with them. The two programs are this module with the arguments `run SESSION without` and `run SESSION with`. A session
takes 13 minutes, and waits most of them. The results are in `build/speculation`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final

import anyio

from eagerstream import HTTPTransport

from . import FAST
from .sessions import CODE, DATA, WEB, Model, Session, both_sides, play

ROOT: Final = Path(__file__).parents[2]
SESSIONS: Final[Mapping[str, Session]] = {"code": CODE, "web": WEB, "data": DATA, "slow-data": DATA.taking(1.0, 1.0)}
RUNS: Final = 10


def recorded(session: Session, chance: float = 0.5) -> Model:
    """Return the model of the first session in which this share of its choices is right, rounded."""
    right = round(chance * sum(isinstance(given, str) for _, given in session.calls))
    runs = (both_sides(session, chance, seed, FAST) for seed in count())
    return next(model for _, speculating, model in runs if speculating.report.hits == right)


def measure(name: str, folder: Path) -> None:
    """Measure both programs with a session, print the verdict, and write the results into the folder."""
    paths = [folder / f"{name}-{turn:02}.jsonl" for turn in range(len(SESSIONS[name].calls) + 1)]
    for path, response in zip(paths, recorded(SESSIONS[name]).responses, strict=True):
        response.save(path, redact=False)
    command = [
        sys.executable,
        "-m",
        "eagerstream",
        "bench",
        "--programs-only",
        "--recording",
        "+".join(map(str, paths)),
    ]
    for side in ("without", "with"):
        program = f"{sys.executable} -m {__package__}.lab run {name} {side}"
        command += ["--program", program, "--name", side]
    command += ["--primary", "duration_s", "-n", f"{RUNS}", "--no-html", "--out", f"{folder / name}"]
    subprocess.run(command, check=True, cwd=ROOT)


def main(arguments: list[str]) -> None:
    """Measure the named sessions, or run one of them against the address in `ANTHROPIC_BASE_URL`."""
    if arguments[:1] == ["run"]:
        _, name, side = arguments
        client = HTTPTransport(base_url=os.environ["ANTHROPIC_BASE_URL"], api_key="any")

        async def run() -> None:
            async with client:
                await play(SESSIONS[name], client, speculates=side == "with")

        anyio.run(run)
        return
    folder = ROOT / "build" / "speculation"
    folder.mkdir(parents=True, exist_ok=True)
    for name in arguments or ("code", "web", "data"):
        measure(name, folder)


if __name__ == "__main__":
    main(sys.argv[1:])
