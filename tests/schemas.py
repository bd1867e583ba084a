"""Write the JSON Schemas that the package contains, which are made from its types: `python -m tests.schemas`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from eagerstream_lab._load_results import load_schema
from eagerstream_lab._results import results_schema
from eagerstream_progress import record_schema
from tests.source_tree import ROOT

SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "packages/progress/src/eagerstream_progress/record.schema.json": record_schema,
    "packages/lab/src/eagerstream_lab/results.schema.json": results_schema,
    "packages/lab/src/eagerstream_lab/load.schema.json": load_schema,
}
"""Functions that return the schemas, by path in the repository."""


def main() -> None:
    for path, schema in SCHEMAS.items():
        text = json.dumps(schema(), indent=2) + "\n"
        (ROOT / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
