"""The bill of materials of a release, in CycloneDX 1.5: what uv.lock has for the package and its extras, and its files.

    python -m tests.sbom dist/* >eagerstream.cdx.json

It needs uv, which writes the dependencies with the hashes of their files, and takes nothing from a registry.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).parents[1]
_EXPORT: Final = (
    "uv",
    "export",
    "--quiet",
    "--frozen",
    "--no-default-groups",
    "--all-packages",
    "--all-extras",
    "--format",
    "cyclonedx1.5",
)


def with_files(export: dict[str, Any], files: Sequence[Path]) -> dict[str, Any]:
    """Return a bill of uv with the version of the release, which uv does not know, and the hashes of its files.

    Args:
        export: The bill, as uv exports it.
        files: The wheels and the source distribution.

    Raises:
        ValueError: There is no file, or they are of several versions.
    """
    versions = {file.name.removesuffix(".tar.gz").split("-")[1] for file in files}
    if len(versions) != 1:
        raise ValueError(f"the files are of these versions: {', '.join(sorted(versions)) or 'none'}")
    (version,) = versions
    own = export["metadata"]["component"]
    parts = [
        {
            "type": "file",
            "name": file.name,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}],
        }
        for file in sorted(files)
    ]
    described = {**own, "version": version, "purl": f"pkg:pypi/{own['name']}@{version}", "components": parts}
    return {**export, "metadata": {**export["metadata"], "component": described}}


def main() -> None:
    """Print the bill of the files that the command line names."""
    export = json.loads(subprocess.run(_EXPORT, cwd=_ROOT, check=True, stdout=subprocess.PIPE).stdout)
    print(json.dumps(with_files(export, [*map(Path, sys.argv[1:])]), indent=2))


if __name__ == "__main__":
    main()
