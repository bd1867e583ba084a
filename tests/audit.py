"""Known vulnerabilities of the dependencies: of the versions of uv.lock, and of the oldest that pyproject.toml allows.

    python -m tests.audit

It asks OSV, which has the advisories of GitHub and of the Python Packaging Authority. It fails if it finds one. Raise the
bound, with the advisory beside it. If that is impossible, or the advisory does not concern us, give the reason in
`ACCEPTED`.
"""

from __future__ import annotations

import json
import sys
import tomllib
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from .versions.requirements import ROOT, lower_bounds, pyproject

ACCEPTED: Final = {
    "GHSA-6wgj-66m2-xxp2": "Ray has no fix: whoever reaches its ports runs code. SECURITY.md trusts the cluster.",
}
"""Advisories that are no reason to fail, and why."""

_OSV: Final = "https://api.osv.dev/v1/querybatch"
_AT_ONCE: Final = 500  # OSV takes 1,000

Pin: TypeAlias = tuple[str, str]
"""Name and version."""


def oldest() -> set[Pin]:
    """The lower bounds of all dependencies, extras and groups of all packages."""
    found: set[Pin] = set()
    for folder in (ROOT, *(file.parent for file in ROOT.glob("packages/*/pyproject.toml"))):
        content = pyproject(folder)
        extras = content["project"].get("optional-dependencies", {}).values()
        groups = content.get("dependency-groups", {}).values()
        lines = [*content["project"]["dependencies"], *(line for lines in (*extras, *groups) for line in lines)]
        found |= {_pin(bound) for bound in lower_bounds(line for line in lines if isinstance(line, str))}
    return found


def packages() -> list[dict[str, Any]]:
    """The packages of uv.lock that come from a registry."""
    every = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    return [package for package in every if "registry" in package["source"]]


def locked() -> set[Pin]:
    """Those packages, with their versions."""
    return {(package["name"], package["version"]) for package in packages()}


def vulnerabilities(pins: Iterable[Pin]) -> Iterator[tuple[Pin, list[str]]]:
    """Yield each version with known vulnerabilities, and their ids.

    Raises:
        OSError: OSV cannot be reached, or refuses the question.
    """
    asked = sorted(pins)
    for start in range(0, len(asked), _AT_ONCE):
        some = asked[start : start + _AT_ONCE]
        queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in some]
        request = urllib.request.Request(_OSV, json.dumps({"queries": queries}).encode())
        with urllib.request.urlopen(request, timeout=60) as response:
            results = json.load(response)["results"]
        for pin, result in zip(some, results, strict=True):
            if ids := [found["id"] for found in result.get("vulns", ()) if found["id"] not in ACCEPTED]:
                yield pin, ids


def main() -> int:
    """Print what is found, and return the exit code."""
    failed = 0
    for what, pins in (("locked", locked()), ("oldest allowed", oldest())):
        for (name, version), ids in vulnerabilities(pins):
            failed = 1
            print(f"{what}: {name} {version} has {', '.join(ids)}")
        print(f"{len(pins)} {what} versions were looked up")
    return failed


def _pin(bound: str) -> Pin:
    name, _, version = bound.partition("==")
    return name, version


if __name__ == "__main__":
    sys.exit(main())
