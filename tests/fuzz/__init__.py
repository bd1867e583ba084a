"""Fuzzing: targets that hold the parsers to their promises on any bytes at all.

A target is a function `check(data: bytes)` that raises where a promise is broken. Half of the inputs are taken as they
are; the other half are a list of choices that a grammar makes well-formed streams from, with slips, repetitions and
arbitrary cuts, so that deep states are reached. Drive all of them, or one, or try one input again:

    python -m tests.fuzz --seconds 600
    python -m tests.fuzz partial_json --runs 100000
    python -m tests.fuzz partial_json --replay build/fuzz/partial_json/crash-...

What fails goes into `corpus/TARGET/`, with the change that mends it: the quick tests try all of these inputs.

`atheris` drives them by coverage where it is installed (`make fuzz` does that), `hypothesis` otherwise.
"""
