"""How it is found: by the command of OpenTelemetry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from packages.adapters.tests.collected import DONE, Collected, finished
from tests.support import LocalAPI

from eagerstream_adapters.otel import _instrumentation as instrumentation

# The agent is ended when the program leaves it; the exporters write when it ends.
_PROGRAM = """
import anyio, eagerstream
from eagerstream_testing import reply, text
async def main():
    async with eagerstream.run(reply(text("Done.")), model="m", max_tokens=9, messages=[{"role": "user", "content": "Go"}]) as run:
        await run.finish()
anyio.run(main)
"""


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    """`opentelemetry-instrument` finds the entry point, and a program that knows nothing of it is traced."""
    found = tmp_path / "eagerstream_entry_point-0.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: eagerstream-entry-point\nVersion: 0\n")
    (found / "entry_points.txt").write_text(
        "[opentelemetry_instrumentor]\neagerstream = eagerstream_adapters.otel._instrumentor:EagerStreamInstrumentor\n"
    )
    pytest.importorskip("opentelemetry.distro", reason="opentelemetry-distro sets up the SDK of the command")
    command = Path(sys.executable).with_name("opentelemetry-instrument")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])  # what is being tested, wherever it is
    exporters = ("--traces_exporter", "console", "--metrics_exporter", "console", "--logs_exporter", "none")
    output = subprocess.run(
        [str(command), *exporters, sys.executable, "-c", _PROGRAM],
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
        timeout=50,
    ).stdout
    assert '"name": "invoke_agent"' in output
    assert '"name": "chat m"' in output
    assert '"gen_ai.client.operation.duration"' in output


@pytest.mark.anyio
async def test_the_instrumentor(collected: Collected) -> None:
    """It does what `instrument` does, and undoes it."""
    from eagerstream_adapters.otel._instrumentor import EagerStreamInstrumentor

    instrumentor = EagerStreamInstrumentor()
    instrumentor.instrument(tracer_provider=collected.tracer_provider, something_else=1)
    try:
        assert instrumentation._active
        await finished(LocalAPI([DONE]).transport())
    finally:
        instrumentor.uninstrument()
    assert not instrumentation._active
    await finished(LocalAPI([DONE]).transport())
    assert [span.name for span in collected.spans()] == ["invoke_agent", "chat claude-made-1"]
