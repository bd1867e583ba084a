"""Code that attacks: a table of programs, and a check that says from outside whether a sandbox stopped them.

In a program, `$FOLDER` is a folder outside of the sandbox with a file `secret`, `$PORT` is a port on which this process
listens, and `$PID` is the id of this process. It prints `TOOK` when it has more than any sandbox should give it.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, Self

import anyio
from packages.toolkit.tests._code.sessions import FUNCTIONS, Host, run
from tests.support import until

from eagerstream.errors import ToolError
from eagerstream_toolkit._code.sandbox import CodeSandbox, StatementEnd

TIME_S: Final = 1.0
"""Seconds that an attack without an end may run before it is cancelled."""
_SLACK_S: Final = 20.0
_GROWTH_BYTES: Final = 256 * 1024 * 1024
MARK: Final = "EAGERSTREAM_ATTACK"
"""Environment variable by which the processes of an attack are found: give it to the sandbox as `sandbox_mark()` says."""


class Verdict(Enum):
    """Facts about an attack, as seen from outside."""

    STOPPED = "stopped"
    """The sandbox refused it, and it had no effect."""
    BOUNDED = "bounded"
    """It ran until a limit of time, memory or number, or lost its interpreter. Nothing of it is left."""
    NOT_STOPPED = "not stopped"
    """It had its effect."""


@dataclass(frozen=True)
class Attack:
    """A program.

    Attributes:
        name: For the table.
        code: Python. See the module.
        what: Its effect: a key of `_EFFECTS`.
    """

    name: str
    code: str
    what: str

    @property
    def is_endless(self) -> bool:
        """True if it must be cancelled: otherwise its own end is awaited, however slow the machine is."""
        return self.what == "runs on" or "while True" in self.code or "range(100_000)" in self.code


_LOOPS: Final = [
    Attack("endless loop", "n = 0\nwhile True:\n    n += 1", "runs on"),
    Attack("endless loop with await", "while True:\n    await asyncio.sleep(0)", "runs on"),
    Attack(
        "loop that catches everything",
        "n = 0\nwhile True:\n    try:\n        while True:\n            n += 1\n    except BaseException:\n        pass",
        "runs on",
    ),
    Attack("sleep", "import time\ntime.sleep(1000)", "runs on"),
    Attack("pattern that backtracks", "import re\nre.match('(a+)+$', 'a' * 60 + 'b')", "runs on"),
    Attack("huge power", "n = 7 ** 7 ** 12", "runs on"),
    Attack(
        "thread that loops",
        _THREAD := "import threading\ndef f():\n    while True:\n        pass\n"
        "threading.Thread(target=f).start()\nprint('TOOK')",
        "outlives",
    ),
]
_MEMORY: Final = [
    Attack("one large object", "x = bytearray(8 << 30)\nprint('TOOK')", "takes"),
    Attack("many objects", "x = []\nwhile len(x) < 4000:\n    x.append(bytearray(1 << 20))\nprint('TOOK')", "takes"),
    Attack("text that doubles", "x = 'ab'\nwhile len(x) < 8 << 30:\n    x += x\nprint('TOOK')", "takes"),
    Attack("list that doubles", "x = [1]\nwhile len(x) < 1 << 30:\n    x = x + x\nprint('TOOK')", "takes"),
    Attack("huge shift", "x = 1 << (8 << 33)\nprint('TOOK')", "takes"),
]
_DEPTH: Final = [
    Attack("recursion", "def f(n):\n    return f(n + 1)\nf(0)", "spoils"),
    Attack(
        "recursion without a limit",
        "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(n):\n    return [f(n + 1) for _ in 'a']\nf(0)",
        "runs on",
    ),
    Attack("repr of a deep list", "x = []\nfor _ in range(200_000):\n    x = [x]\nrepr(x)", "spoils"),
    Attack("deep value", "x = []\nfor _ in range(200_000):\n    x = [x]\nx", "spoils"),
    Attack("deep argument", "x = []\nfor _ in range(200_000):\n    x = [x]\nawait echo(x)", "spoils"),
    Attack("deep brackets", f"x = {'(' * 3000}1{')' * 3000}", "spoils"),
    Attack("deep operators", f"x = {'-' * 200_000}1", "spoils"),
    Attack("deep attributes", f"x = a{'.a' * 100_000}", "spoils"),
    Attack("deep source in eval", "eval('(' * 100_000 + ')' * 100_000)", "spoils"),
]
_PROCESSES: Final = [
    Attack(
        "300 forks",
        "import os, time\nfor _ in range(300):\n    if os.fork() == 0:\n        time.sleep(1000)\nprint('TOOK')",
        "takes",
    ),
    Attack("child that outlives", "import subprocess\nsubprocess.Popen(['sleep', '1000'])", "outlives"),
    Attack(
        "child in a group of its own",
        "import subprocess\nsubprocess.Popen(['sleep', '1000'], process_group=0)",
        "outlives",
    ),
    Attack(
        "daemon in a session of its own",
        "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)",
        "outlives",
    ),
    Attack("signal to the program", "import os, signal\nos.kill($PID, signal.SIGUSR1)", "signals"),
    Attack(
        "signal to its group",
        # The pause lets the end of a wrapper in the group reach the worker.
        "import os, signal, time\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\nos.killpg(0, signal.SIGUSR1)\n"
        "time.sleep(0.3)",
        "signals",
    ),
    Attack("exit", "import os\nos._exit(0)", "spoils"),
    Attack("kill itself", "import os\nos.kill(os.getpid(), 9)", "spoils"),
    Attack("crash", "import ctypes\nctypes.string_at(0)", "spoils"),
]
_FILES: Final = [
    Attack("write a file", "open('$FOLDER/written', 'w').write('x')", "writes"),
    Attack("write a file by pathlib", "import pathlib\npathlib.Path('$FOLDER/written').write_text('x')", "writes"),
    Attack("write a file by exec", "exec(\"open('$FOLDER/written', 'w').write('x')\")", "writes"),
    Attack("write a file by eval", "eval(\"__import__('os').open('$FOLDER/written', 65)\")", "writes"),
    Attack(
        "write a file by subclasses",
        "for c in ().__class__.__base__.__subclasses__():\n    if c.__name__ == '_wrap_close':\n"
        "        c.__init__.__globals__['open']('$FOLDER/written', 65)",
        "writes",
    ),
    Attack("read a file", "print(open('$FOLDER/secret').read())", "leaks"),
    Attack("remove a file", "import os\nos.remove('$FOLDER/secret')", "removes"),
    Attack("file of a terabyte", "f = open('$FOLDER/large', 'wb')\nf.truncate(1 << 40)\nprint('TOOK')", "takes"),
    Attack(
        "10,000 open files", "x = []\nwhile len(x) < 10_000:\n    x.append(open('/dev/null'))\nprint('TOOK')", "takes"
    ),
]
_SECRETS: Final = [
    Attack("environment", "import os\nprint(dict(os.environ))", "leaks"),
    Attack("environment of the program", "print(open('/proc/$PID/environ').read())", "leaks"),
    Attack("network", "import socket\nsocket.create_connection(('127.0.0.1', $PORT)).close()", "connects"),
    Attack(
        "setting of the kernel",  # a core_pattern is run by the kernel, outside of any sandbox
        "open('/proc/sys/kernel/core_pattern', 'r+b').close()\nprint('TOOK')",
        "takes",
    ),
    Attack("modules of the program", "import eagerstream\nprint('TOOK')", "takes"),
]
_PIPE: Final = [
    Attack("flood of lines", "while True:\n    print('x' * 1000)", "floods"),
    Attack("flood without a line feed", "while True:\n    print('x' * 1000, end='')", "floods"),
    Attack("one huge line", "print('x' * 50_000_000)", "floods"),
    Attack("huge value", "'x' * 50_000_000", "floods"),
    Attack("huge argument", "await echo('x' * 50_000_000)", "floods"),
    Attack("huge error", "raise ValueError('x' * 50_000_000)", "floods"),
    Attack(
        "flood of calls",
        "while True:\n    t = asyncio.ensure_future(echo('x' * 1000))\n    await asyncio.sleep(0)",
        "floods",
    ),
    Attack("100,000 calls at once", "await asyncio.gather(*(echo(n) for n in range(100_000)))", "floods"),
    Attack(
        "noise in all descriptors",
        "import os\nwhile True:\n    for fd in range(3, 64):\n        try:\n"
        "            os.write(fd, b'x' * 10_000)\n        except OSError:\n            pass",
        "floods",
    ),
    Attack(
        "forged messages in all descriptors",
        "import os\nfor fd in range(3, 64):\n    for line in (b'{}', b'[]', b'{\"end\": 1}', b'{\"call\": 1}', b'1'):\n"
        "        try:\n            os.write(fd, line + b'\\n')\n        except OSError:\n            pass",
        "spoils",
    ),
    Attack("all descriptors closed", "import os\nos.closerange(0, 1000)", "spoils"),
]
ATTACKS: Final = [*_LOOPS, *_MEMORY, *_DEPTH, *_PROCESSES, *_FILES, *_SECRETS, *_PIPE]

_BY_LIMIT: Final = (
    "MemoryError",
    "RecursionError",
    "SystemError",
    "TimeoutError",
    "OSError",
    "BlockingIOError",
    "RuntimeError: can't",
)
"""Errors of code that reached a limit. Others mean that the sandbox does not have what the code asked for."""


def sandbox_mark() -> dict[str, str]:
    """Return the environment for a sandbox with processes, by which those are found."""
    return {MARK: str(os.getpid())}


async def verdict(attack: Attack, sandbox: CodeSandbox, folder: Path) -> Verdict:
    """Run an attack in a sandbox, and return its verdict.

    Args:
        attack: The attack.
        sandbox: A sandbox. If it has processes, they have the environment `sandbox_mark()`.
        folder: An empty folder. The user of the sandbox may write into it.
    """
    with _Outside(folder) as outside:
        code = attack.code.replace("$FOLDER", str(folder)).replace("$PID", str(os.getpid()))
        code = code.replace("$PORT", str(outside.port))
        host = _QuietHost()
        result = value = None
        is_over = False
        with anyio.move_on_after(2 * _SLACK_S):
            session = await sandbox.open(FUNCTIONS)
            try:
                async with session.serve(host):
                    with anyio.move_on_after(TIME_S if attack.is_endless else _SLACK_S):
                        result = await run(session, code)
                        value = None if session.has_ended else await session.finish()
            finally:
                session.close()
            is_over = True
        texts = [host.output, result.text if result else "", value.text if value else ""]
        await outside.settle()
        effects = {
            "runs on": not is_over,
            "outlives": bool(survivors()),
            "takes": "TOOK" in host.output,
            "spoils": not await _works(sandbox),
            "signals": outside.was_signalled,
            "writes": (folder / "written").exists(),
            "removes": not (folder / "secret").exists(),
            "leaks": any(secret in text for secret in outside.secrets for text in texts),
            "connects": outside.was_reached,
            "floods": outside.growth_bytes > _GROWTH_BYTES or any(len(text) > 40_000_000 for text in texts[1:]),
        }
    if effects[attack.what] or not is_over:
        return Verdict.NOT_STOPPED
    # An attack without an end is cut off sooner or later, by the time or by itself: that depends on the machine.
    is_endless = attack.what in ("runs on", "floods")
    if is_endless or result is None or result.end is StatementEnd.LOST:
        return Verdict.BOUNDED
    last = result.text.rpartition("\n")[2]
    if result.end is StatementEnd.RAISED and last.startswith(_BY_LIMIT):
        return Verdict.BOUNDED
    # If it ended by itself and has no effect, what it left behind was ended with it.
    is_ended = result.end is StatementEnd.DONE and attack.what == "outlives"
    return Verdict.BOUNDED if is_ended else Verdict.STOPPED


def survivors() -> list[int]:
    """Return the living processes of attacks."""
    mark = f"{MARK}={os.getpid()}".encode()
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
        except OSError:
            continue
    return found


def kill_survivors() -> None:
    """Kill them."""
    for pid in survivors():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class _QuietHost(Host):
    """A host that keeps as much output as a tool does, and says that a flood comes."""

    def print(self, text: str) -> None:
        if len(self.output) < 1_000_000:
            super().print(text)

    async def call(self, name: str, arguments: object) -> None:
        await anyio.lowlevel.checkpoint()


async def _works(sandbox: CodeSandbox) -> bool:
    try:
        session = await sandbox.open(FUNCTIONS)
    except ToolError:
        return False
    try:
        async with session.serve(Host()):
            await run(session, "1 + 1")
            return (await session.finish()).data == 2
    finally:
        session.close()


class _Outside:
    """The facts outside of a sandbox."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._secret = secrets.token_hex(16)
        self.secrets = [self._secret]
        self.was_signalled = False
        self.was_reached = False
        self.growth_bytes = 0

    def __enter__(self) -> Self:
        (self._folder / "secret").write_text(self._secret)
        os.environ["SOME_API_KEY"] = self._secret
        own = Path("/proc/self/environ").read_bytes().split(b"\0")
        self.secrets += [max(own, key=len).decode(errors="replace")] if any(own) else []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setblocking(False)
        self.port = self._server.getsockname()[1]
        self._handler = signal.signal(signal.SIGUSR1, self._signalled)
        self._memory = _Memory()
        return self

    def __exit__(self, *_: object) -> None:
        kill_survivors()
        signal.signal(signal.SIGUSR1, self._handler)
        self._server.close()
        self._memory.stop()
        del os.environ["SOME_API_KEY"]

    def _signalled(self, *_: object) -> None:
        self.was_signalled = True

    async def settle(self) -> None:
        """Wait for the end of what is being killed, at most for 3 seconds."""
        self.growth_bytes = self._memory.stop()
        with anyio.move_on_after(3):
            await until(lambda: not survivors())
        try:
            self._server.accept()[0].close()
            self.was_reached = True
        except BlockingIOError:
            pass


class _Memory:
    """Measures the growth of this process in a thread."""

    def __init__(self) -> None:
        self._first = self._most = _resident_bytes()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure)
        self._thread.start()

    def stop(self) -> int:
        self._over.set()
        self._thread.join()
        return self._most - self._first

    def _measure(self) -> None:
        while not self._over.wait(0.02):
            self._most = max(self._most, _resident_bytes())


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
