"""Measure all libraries, and write `benchmarks/conformance.json`, from which the page of the documentation is made."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from packages.wire.conformance.run import KINDS

from .page import RESULTS, total
from .peers import PEERS
from .scoring import cases

_LIMIT_S = 900


def main() -> int:
    """Write the results; return 1 if a library is missing or its adapter failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conformance", description=__doc__)
    parser.add_argument(
        "--only", default="", help="only libraries whose name contains this; writes nothing, prints all"
    )
    options = parser.parse_args()
    places = [place for place, peer in enumerate(PEERS) if options.only in peer.package]
    if missing := [PEERS[place].package for place in places if PEERS[place].version is None]:
        print(f"Not installed: {', '.join(missing)}. `make conformance` installs all.", file=sys.stderr)
        return 1
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(_measured, places))
    if options.only:
        print(json.dumps(found, indent=1))
        return 0
    results = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "cases": {kind: len(cases(kind)) for kind in KINDS},
        "peers": found,
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"Wrote {RESULTS}")
    return 0


def _measured(place: int) -> dict[str, Any]:
    """Run a library in a process of its own.

    Raises:
        RuntimeError: It ended without a result.
    """
    peer = PEERS[place]
    command = [sys.executable, "-m", "benchmarks.conformance.scoring", str(place)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_LIMIT_S, env={**os.environ})
    if done.returncode:
        raise RuntimeError(f"the adapter of {peer.package} ({peer.language}) failed:\n{done.stderr[-4000:]}")
    head = {"package": peer.package, "language": peer.language, "version": peer.version, "about": peer.about}
    found = {**head, **json.loads(done.stdout.splitlines()[-1])}
    print(f"{peer.package} {peer.version} ({peer.language}): {total(found)}", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
