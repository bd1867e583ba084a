"""Write the JSON Schemas that the package contains, which are made from its types: `python -m tests.schemas`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import eagerstream
from eagerstream_lab._results import results_schema
from eagerstream_progress import record_schema

SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "progress/record.schema.json": record_schema,
    "latency/results.schema.json": results_schema,
}
"""Functions that return the schemas, by path in the package."""


def main() -> None:
    for path, schema in SCHEMAS.items():
        text = json.dumps(schema(), indent=2) + "\n"
        Path(eagerstream.__file__).parent.joinpath(path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
