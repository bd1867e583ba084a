"""Start-up times: `import eagerstream`, and the time from the start of a program to its first request.

Each program is a new process whose modules are already compiled. The shortest of several runs counts. The time of an
interpreter that does nothing is subtracted from the import, but not from the request. The request counts from the start
of the process until a loopback server has read its headers. The peer sends the same request with `messages.stream()`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any, Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

from .targets import Row

PACE: Final = "no stream"
_REQUEST: Final = 'model="m", max_tokens=1, messages=[{"role": "user", "content": "Go."}]'
_RUN: Final = """
import sys, anyio, eagerstream
{imports}

async def main():
    client = {client}
    async with eagerstream.{function}(client, eager_fallback=None, {request}) as run:
        await run.finish()

anyio.run(main)
"""
_TOOL: Final = '''
@eagerstream.tool
async def get_weather(city: str, days: int = 1) -> str:
    """Get the weather.

    Args:
        city: Where.
        days: For how long.
    """
    return "rain"
'''
_PEER: Final = f"""
import sys, asyncio
from anthropic import AsyncAnthropic

async def main():
    client = AsyncAnthropic(base_url=sys.argv[1], api_key="k", max_retries=0)
    async with client.messages.stream({_REQUEST}) as stream:
        await stream.get_final_message()

asyncio.run(main())
"""
_HTTPX2: Final = "eagerstream.HTTPTransport(base_url=sys.argv[1], http_client=httpx2.AsyncClient())"
_HTTPX: Final = "eagerstream.HTTPTransport(base_url=sys.argv[1], library='httpx')"
_ANTHROPIC: Final = 'AsyncAnthropic(base_url=sys.argv[1], api_key="k", max_retries=0)'
_OURS: Final = "stream, HTTPTransport with httpx2"
_THEIRS: Final = "anthropic, messages.stream()"


def _ours(function: str, client: str, imports: str = "", *, tools: str = "") -> str:
    return _RUN.format(function=function, client=client, imports=imports, request=_REQUEST + tools)


PROGRAMS: Final = {
    _OURS: _ours("stream", _HTTPX2, "import httpx2"),
    "stream, HTTPTransport with httpx": _ours("stream", _HTTPX),
    "stream, AsyncAnthropic": _ours("stream", _ANTHROPIC, "from anthropic import AsyncAnthropic"),
    "run with a tool, HTTPTransport with httpx2": _ours(
        "run", _HTTPX2, "import httpx2" + _TOOL, tools=', tools=[get_weather], on_interrupt="raise"'
    ),
    _THEIRS: _PEER,
}
"""Programs by name. Each sends one request to the address in its argument, and fails."""


def _run_s(program: str, environment: Mapping[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    return time.perf_counter() - start


def _first_request_s(program: str, environment: Mapping[str, str]) -> float:
    """Return the seconds until the headers of a request arrive. The connection closes then, and the program fails."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.settimeout(60)
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", program, address], env=environment, stderr=subprocess.PIPE, text=True
        )
        try:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(60)
                received = b""
                while b"\r\n\r\n" not in received:
                    piece = connection.recv(65_536)
                    assert piece, "no request came"
                    received += piece
                elapsed = time.perf_counter() - start
        finally:
            process.communicate(timeout=60)
    assert received.startswith(b"POST /v1/messages"), received[:80]
    return elapsed


def measure(repeats: int, console: Console) -> dict[str, float]:
    """Return the least seconds of each import and each program."""
    programs = {name: text for name, text in PROGRAMS.items() if "httpx2" not in text or find_spec("httpx2")}
    imports = {"nothing": "pass", "import eagerstream": "import eagerstream", "import anthropic": "import anthropic"}
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as compiled:
        # Also if the environment forbids to write compiled modules: an installed program has them.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = compiled
        for repeat in track(range(repeats + 1), "start-up", console=console, transient=True):
            times = {name: _run_s(program, environment) for name, program in imports.items()}
            times |= {name: _first_request_s(program, environment) for name, program in programs.items()}
            if repeat:  # the first one compiles
                best = {name: min(took_s, best.get(name, took_s)) for name, took_s in times.items()}
    nothing_s = best.pop("nothing")
    return {name: took_s - nothing_s if name in imports else took_s for name, took_s in best.items()}


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all programs, print a table, and return the figures."""
    times_s = measure(3 if quick else 10, console)
    table = Table(title="start-up: ms")
    table.add_column("step")
    table.add_column("ms", justify="right")
    for name, took_s in times_s.items():
        table.add_row(name if name.startswith("import ") else f"to the first request: {name}", f"{took_s * 1e3:.0f}")
    console.print(table)
    if _OURS not in times_s:
        console.print("httpx2 is skipped: it is not installed")
    rows = [
        Row(
            work="import eagerstream",
            against="import anthropic; both less a bare interpreter",
            pace=PACE,
            target="less",
            measured=f"{times_s['import eagerstream'] * 1e3:.0f} ms, not {times_s['import anthropic'] * 1e3:.0f} ms",
            met=times_s["import eagerstream"] < times_s["import anthropic"],
        ),
        Row(
            work="from the start of a program to its first request, over HTTPTransport",
            against=_THEIRS,
            pace=PACE,
            target="less",
            measured=f"{times_s[_OURS] / times_s[_THEIRS]:.2f} times: "
            f"{times_s[_OURS] * 1e3:.0f} and {times_s[_THEIRS] * 1e3:,.0f} ms"
            if _OURS in times_s
            else "httpx2 is not installed",
            met=times_s[_OURS] < times_s[_THEIRS] if _OURS in times_s else None,
        ),
    ]
    return {"seconds": times_s, "rows": [asdict(row) for row in rows]}


if __name__ == "__main__":
    main(Console(), quick=True)
