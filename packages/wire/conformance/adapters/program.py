"""The adapter of an implementation in any language, as a program: a line of JSON for each call and for each answer.

The command is in the environment variable CONFORMANCE_PROGRAM. Its first line answers `{"call": "hello"}` with a list
of the kinds that it supports, and optionally with what it lacks: `{"kinds": ["sse"], "lacks": ["lone_surrogates"]}`.
Later calls have the form `{"call": "sse", "given": [...]}`. Chunks of bytes are given in base64.
"""

import base64
import json
import os
import shlex
import subprocess
from functools import partial
from typing import Any

from ..run import number

_PROCESS: Any = subprocess.Popen(
    shlex.split(os.environ["CONFORMANCE_PROGRAM"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
)


def _call(kind: str, given: Any) -> Any:
    if kind in {"sse", "inputs"}:
        given = [base64.b64encode(chunk).decode() for chunk in given]
    print(json.dumps({"call": kind, "given": given}), file=_PROCESS.stdin, flush=True)
    answer = json.loads(_PROCESS.stdout.readline() or '{"error": "the program has ended"}', object_hook=number)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


_hello = _call("hello", None)
lacks = _hello.get("lacks", ())
globals().update({kind: partial(_call, kind) for kind in _hello["kinds"]})
