"""Drive one target by hypothesis: `python -m tests.fuzz.with_hypothesis TARGET FOLDER RUNS SECONDS SEED`.

For Pythons and systems that atheris has no wheel for: a thousand cases a second at most, and not guided by coverage. The
figures go to stderr in libFuzzer's words. An input that fails is shrunk and left in the folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed as seeded, settings, strategies as st

from .seeds import seeds, words
from .slowest import timed
from .targets import check_of

_BATCH = 2_000  # hypothesis remembers all examples of a run


def inputs(target: str) -> st.SearchStrategy[bytes]:
    """Lists of choices, words of the formats, and parts of recordings."""
    known = list(seeds(target))
    headers = st.binary(min_size=9, max_size=9)
    texts = st.lists(st.one_of(st.sampled_from(words()), st.binary(max_size=4)), max_size=20).map(b"".join)
    parts = st.builds(
        lambda whole, start, length: whole[start : start + length],
        st.sampled_from(known),
        st.integers(0, 2_000),
        st.integers(0, 400),
    )
    raw = st.builds(lambda header, *parts: header + b"".join(parts), headers, parts, texts, parts)
    return st.one_of(st.binary(max_size=200), st.binary(max_size=200), st.builds(bytes.__add__, headers, texts), raw)


def drive(target: str, check: Callable[[bytes], None], *, runs: int, seconds: float, seed: int) -> int:
    """Try so many inputs, for at most so long; returns how many were tried. What `check` raises comes out, shrunk."""
    tried = 0

    def attempt(data: bytes) -> None:
        nonlocal tried
        tried += 1
        check(data)

    for data in list(seeds(target))[:runs]:
        attempt(data)
    deadline = time.monotonic() + seconds
    while tried < runs and time.monotonic() < deadline:
        seed += 1
        options = settings(
            max_examples=min(_BATCH, runs - tried),
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        seeded(seed)(options(given(inputs(target))(attempt)))()
    return tried


def _main() -> None:
    import resource  # not on Windows

    target, folder, runs, seconds, seed = sys.argv[1:]
    check = timed(check_of(target), Path(folder))

    def kept(data: bytes) -> None:
        try:
            check(data)
        except BaseException:
            (Path(folder) / "crash-hypothesis").write_bytes(data)  # the last one to fail is the smallest
            raise

    start = time.monotonic()
    tried = drive(target, kept, runs=int(runs), seconds=float(seconds), seed=int(seed))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sys.stderr.write(f"Done {tried} runs in {time.monotonic() - start:.0f} second(s)\nstat::peak_rss_mb: {peak_mb}\n")


if __name__ == "__main__":
    _main()
