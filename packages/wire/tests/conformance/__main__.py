"""Write the vectors anew: `python -m packages.wire.tests.conformance` (`make vectors`)."""

from __future__ import annotations

from . import faults, histories, inputs, partial_json, sse
from .writing import FOLDER, written

GENERATORS = {
    "sse": sse.cases,
    "partial_json": partial_json.cases,
    "inputs": inputs.cases,
    "histories": histories.cases,
    "faults": faults.cases,
}

if __name__ == "__main__":
    for kind, cases in GENERATORS.items():
        (FOLDER / f"{kind}.json").write_text(written(kind, cases()), "utf-8")
