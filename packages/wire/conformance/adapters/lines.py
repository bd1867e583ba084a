"""Speak the lines of `program.py` for an adapter in Python: `python -m conformance.adapters.lines ADAPTER`."""

import base64
import importlib
import json
import math
import sys
from typing import Any

from ..run import KINDS, number

_SAFE = 2**53  # integers from here on are not exact in every reader of JSON


def exactly(item: Any) -> Any:
    """Return a JSON value whose numbers no reader of JSON changes."""
    if isinstance(item, dict):
        return {key: exactly(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [exactly(value) for value in item]
    if isinstance(item, float) and not math.isfinite(item):
        return {"$number": "1e400" if item > 0 else "-1e400"} if math.isinf(item) else {"$nan": True}
    return {"$number": str(item)} if isinstance(item, int) and abs(item) >= _SAFE else item


def answer(adapter: Any, call: str, given: Any) -> Any:
    """Return what the adapter answers to one call, or the error that it raises."""
    if call == "hello":
        return {"kinds": [kind for kind in KINDS if hasattr(adapter, kind)], "lacks": [*getattr(adapter, "lacks", ())]}
    if call in {"sse", "inputs"}:
        given = [base64.b64decode(chunk) for chunk in given]
    try:
        return exactly(getattr(adapter, call)(given))
    except Exception as error:  # of the implementation: the case is wrong, and the next one is read
        return {"error": repr(error)}


if __name__ == "__main__":
    _adapter = importlib.import_module(sys.argv[1])
    for _line in sys.stdin:
        _call = json.loads(_line, object_hook=number)
        print(json.dumps(answer(_adapter, _call["call"], _call["given"])), flush=True)
