"""`Bash`: what a command gives, what is left for the next one, and how a shell ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.toolkit.tests.bash_support import (
    LATE,
    SLOWLY_S,
    answer,
    assert_sane,
    children,
    descriptors,
    error,
    is_running,
    said,
    shell,
)
from packages.toolkit.tests.cases import case
from packages.toolkit.tests.support import conversation, results
from tests.streams import REQUEST
from tests.support import anthropic_client, check_history, until

import eagerstream
from eagerstream.errors import ToolError, UsageError
from eagerstream.loop import ToolProgress, ToolStop
from eagerstream.tools import ToolErrorCode, ToolStatus
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from eagerstream_toolkit import Bash
from eagerstream_toolkit._session_process import SessionProcess

pytestmark = pytest.mark.anyio

# --- commands -----------------------------------------------------------------------------------------------------------


_COMMANDS = {
    "a line": ("echo hello", "hello", 0),
    "no final line feed": ("printf hello", "hello", 0),
    "only the last line feed goes": (r"printf 'a\n\n'", "a\n", 0),
    "nothing": ("true", "", 0),
    "stdout and stderr as they were written": ("echo 1; echo 2 >&2; echo 3", "1\n2\n3", 0),
    "a status": ("false", "(exit status 1)", 1),
    "a status behind output": ("echo no; (exit 42)", "no\n(exit status 42)", 42),
    "a status has a line of its own": ("printf no; false", "no\n(exit status 1)", 1),
    "nothing found is no error": ("echo a | grep b", "(exit status 1)", 1),
    "a here-document": ("cat <<'END'\n$x `y`\nEND", "$x `y`", 0),
    "several lines": ("for i in 1 2\ndo\necho $i\ndone", "1\n2", 0),
    "quotes": (r"""echo "a'b" 'c"d' '\n' $'e\tf' '!' '\' """, "a'b c\"d \\n e\tf ! \\", 0),
    "no ASCII": ("echo 'déjà 日本 😀'", "déjà 日本 😀", 0),
    "a comment": ("# nothing\n\n", "", 0),
    "a carriage return": ("echo a\r", "a\r", 0),
    "stdin is empty": ('cat; read x; echo "[$x]"', "[]", 0),
    "no terminal": ("tty", "not a tty\n(exit status 1)", 1),
    "quiet programs": ("echo $TERM $PAGER $GIT_PAGER", "dumb cat cat", 0),
    "a background job is not waited for": ("sleep 1000 & echo started", "started", 0),
}


async def test_commands() -> None:
    """What the model sees of a command, and what programs do."""
    async with shell() as bash:
        for name, (command, printed, exit_status) in _COMMANDS.items():
            with case(name):
                response = await answer(bash, command)
                assert response.text == printed
                assert response.status is ToolStatus.SUCCESS
                assert response.data["exit_status"] == exit_status
                assert response.data["truncated"] is False


async def test_what_cannot_be_run_is_an_error() -> None:
    """In bash's words."""
    async with shell() as bash:
        for command, told, code in (
            ("no_such_program", "no_such_program: command not found", ToolErrorCode.NOT_FOUND),
            ("/etc/passwd", "/etc/passwd: Permission denied", ToolErrorCode.PERMISSION_DENIED),
            ("(exit 126)", "(exit status 126)", ToolErrorCode.PERMISSION_DENIED),
        ):
            with case(command):
                with pytest.raises(ToolError) as caught:
                    await answer(bash, command)
                assert str(caught.value).endswith(told)
                assert caught.value.code == code


async def test_state_is_kept() -> None:
    """All that a shell knows, its last status included."""
    async with shell() as bash:
        await answer(bash, "cd /usr; x=1; export Y=2; f() { echo f$x; }; set -o pipefail; trap 'echo usr1' USR1")
        assert await said(bash, "pwd; f; env | grep ^Y=; false | true") == "/usr\nf1\nY=2\n(exit status 1)"
        assert await said(bash, "echo $?") == "1"
        assert await said(bash, "kill -USR1 $$") == "usr1"


async def test_restart() -> None:
    """The trained-in words; nothing is left of the old shell; with a command, that runs in the new one."""
    async with shell(cwd="/usr") as bash:
        await answer(bash, "cd /; x=1")
        old = int(await said(bash, "sleep 1000 & echo $!"))
        assert (await bash.call({"restart": True})).text == "Bash session restarted"
        assert not is_running(old)
        assert await said(bash, "echo [$x] $PWD") == "[] /usr"
        await answer(bash, "x=1")
        assert (await bash.call({"restart": True, "command": "echo [$x]"})).text == "[]"


async def test_a_shell_that_ended() -> None:
    """The model is told that its state is gone, by the command that ended it, or by the next one; once."""
    async with shell() as bash:
        response = await answer(bash, "echo bye; exit 3")
        assert response.status is ToolStatus.PARTIAL
        assert response.reason is not None
        assert response.reason.startswith("The shell ended with this command")
        assert response.text == "bye\n(exit status 3)"
        assert response.data["exit_status"] == 3
        shell_pid = int((await answer(bash, "echo $$")).text)
        os.kill(shell_pid, signal.SIGKILL)
        session = bash._holder.session
        assert session is not None
        await until(lambda: session.has_ended)  # until then, the next command would be the one that finds out
        response = await answer(bash, "echo ok")
        assert (response.status, response.text) == (ToolStatus.PARTIAL, "ok")
        assert (await answer(bash, "echo ok")).status is ToolStatus.SUCCESS
        assert "The shell ended with this command" in await error(bash, "exec no_such_program")


_NO_COMMAND = "Error: bash needs a command, or restart: true"
_NO_INPUTS: list[tuple[dict[str, Any], str]] = [
    ({}, _NO_COMMAND),
    ({"command": ""}, _NO_COMMAND),
    ({"restart": False}, _NO_COMMAND),
    ({"command": 1}, "Error: command must be a string"),
    ({"command": ["ls"]}, "Error: command must be a string"),
    ({"command": "ls", "restart": "yes"}, "Error: restart must be true or false"),
    ({"command": "ls", "restart": 1}, "Error: restart must be true or false"),
    ({"command": "ls", "timeout": 1}, "Error: bash takes command and restart, not 'timeout'"),
    ({"command": "echo a\0b"}, "Error: command must not contain the character NUL"),
    ({"command": "x" * 3_000_000}, "Error: command must not be longer than 2097152 bytes: write it to a file in parts"),
]


async def test_inputs_that_are_none() -> None:
    """The API's schema is not checked by anybody else."""
    bash = Bash()
    for input, told in _NO_INPUTS:
        with case(told):
            with pytest.raises(ToolError) as caught:
                await bash.call(input)
            assert str(caught.value) == told
            assert caught.value.code == ToolErrorCode.INVALID_PARAM


async def test_settings_that_are_none() -> None:
    """They show when the tool is made."""
    wrong: list[dict[str, Any]] = [
        *({"timeout_s": 0}, {"timeout_s": float("inf")}, {"timeout_s": "5"}, {"timeout_s": True}),
        *({"max_output_chars": 10}, {"max_output_chars": 1e9}, {"argv": ()}, {"argv": "bash"}, {"argv": ("bash", 7)}),
        *({"argv": ("",)}, {"argv": ("bash\0",)}, {"argv": (Path("a"), b"b")}, {"cwd": 7}, {"cwd": "/tmp\0"}),
        *(
            {"env": {"A": 1}},
            {"env": {1: "a"}},
            {"env": {"A": Path("a")}},
            {"env": {"A=B": "a"}},
            {"env": {"": "a"}},
            {"env": {"A": "a\0"}},
        ),
    ]
    for settings in wrong:
        with case(settings), pytest.raises(UsageError):
            Bash(**settings)


async def test_the_definition() -> None:
    """As the API has it, and as the model was trained on it."""
    assert Bash().to_dict() == {"type": "bash_20250124", "name": "bash"}
    assert Bash(cache_control={"type": "ephemeral"}).to_dict()["cache_control"] == {"type": "ephemeral"}


# --- output -------------------------------------------------------------------------------------------------------------


async def test_long_output() -> None:
    """Its beginning and its end, and how long it is."""
    async with shell(max_output_chars=100) as bash:
        response = await answer(bash, "seq 1 100000; false")
    head, notice, tail = response.text.partition("... Output truncated (100000 total lines) ...")
    assert notice
    assert head.startswith("1\n2\n3\n")
    assert tail.endswith("99999\n100000\n(exit status 1)")
    assert len(response.text) < 200
    assert response.data == {"exit_status": 1, "truncated": True, "lines": 100_000}
    assert response.stats == {"output_bytes": 588_895}


async def test_output_of_a_background_job(tmp_path: Path) -> None:
    """What it prints between two commands comes with the second one."""
    async with shell(cwd=tmp_path) as bash:
        await answer(bash, "{ until [ -e go ]; do sleep 0.01; done; echo late; touch gone; } &")
        (tmp_path / "go").touch()
        await until((tmp_path / "gone").exists)
        assert await said(bash, "echo ok") == "late\nok"


# --- time, cancellation, the end ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_time_is_up(tmp_path: Path) -> None:
    """The trained-in words, and what was printed so far; all that ran is gone, in whatever process group."""
    async with shell(timeout_s=0.3, cwd=tmp_path) as bash:
        assert await error(bash, "sleep 1000") == "Error: command did not finish within 0.3 seconds"
        assert (
            await error(
                bash,
                "echo a; sleep 1000 & echo $! >1; timeout 1000 sleep 1000 & echo $! >2;"
                " set -m; sleep 1000 & echo $! >3; sleep 1000",
            )
            == "Error: command did not finish within 0.3 seconds\na"
        )
        pids = [int((tmp_path / name).read_text()) for name in "123"]
        await until(lambda: not any(map(is_running, pids)))
        await assert_sane(bash)


async def test_cancelled(tmp_path: Path) -> None:
    """What runs is killed; the next command runs in a new shell, and says so."""
    async with shell(cwd=tmp_path) as bash:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(said, bash, "x=1; (sleep 1000; true) & echo $! >pid; mv pid ready; sleep 1000")
            await until((tmp_path / "ready").exists)
            tasks.cancel_scope.cancel()
        await until(lambda: not is_running(int((tmp_path / "ready").read_text())))
        response = await answer(bash, "echo [$x]")
        assert (response.status, response.text) == (ToolStatus.PARTIAL, "[]")
        await assert_sane(bash)


async def test_cancelled_while_it_starts() -> None:
    """A shell that does not answer is not left behind."""
    before = children()
    async with shell(argv=("sleep", "1000")) as bash:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(said, bash, "echo a")
            await until(lambda: children(before))
            tasks.cancel_scope.cancel()
        await until(lambda: not children(before))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelled_by_asyncio_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that asyncio cancels leaves before the thread that starts the shell: no shell, no descriptor is left."""
    is_waiting, goes_on, is_made = threading.Event(), threading.Event(), threading.Event()

    def slowly(*args: Any, **options: Any) -> SessionProcess:
        is_waiting.set()
        goes_on.wait(SLOWLY_S)
        process = SessionProcess(*args, **options)
        is_made.set()
        return process

    async with shell() as bash:
        await assert_sane(bash)  # starts the watchdog, which has a descriptor
        await bash.aclose()
        gc.collect()
        processes, before = children(), descriptors()
        monkeypatch.setattr("eagerstream_toolkit._bash.session.SessionProcess", slowly)
        task = asyncio.create_task(said(bash, "echo a"))
        await until(is_waiting.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        goes_on.set()
        await until(is_made.is_set)
        await until(lambda: not children(processes) and descriptors() == before)
        await assert_sane(bash)


@pytest.mark.slow
@pytest.mark.parametrize("argv", [("/no/such/program",), ("false",), ("cat",)], ids=["missing", "ends", "no bash"])
async def test_a_shell_that_cannot_be_started(argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is told no more than that."""
    monkeypatch.setattr("eagerstream_toolkit._bash.session.START_S", 0.1)
    before = children()
    async with shell(argv=argv) as bash:
        assert await error(bash, "echo a") == "Error: the shell could not be started"
        with pytest.raises(ToolError, match="could not be started"):
            await bash.call({"restart": True})
    await until(lambda: not children(before))


async def test_a_folder_that_goes_away(tmp_path: Path) -> None:
    """One that is not there is told of when the tool is made; later, the model is told that there is no shell."""
    with pytest.raises(UsageError, match="not a folder, so no shell can start in it"):
        Bash(cwd=tmp_path / "missing")
    folder = tmp_path / "folder"
    folder.mkdir()
    async with shell(cwd=folder) as bash:
        folder.rmdir()
        assert await error(bash, "echo a") == "Error: the shell could not be started"


async def test_closed_while_a_command_runs(tmp_path: Path) -> None:
    """The command ends with the shell; a call after that has a new one."""
    async with shell(cwd=tmp_path) as bash:
        texts: list[str] = []

        async def run() -> None:
            texts.append(await said(bash, "touch ready; sleep 1000"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until((tmp_path / "ready").exists)
            await bash.aclose()
        assert texts == ["(exit status 137)"]
        await assert_sane(bash)


@pytest.mark.slow
async def test_restarts_leave_nothing() -> None:
    """No process, no zombie, no descriptor, no thread that waits."""
    processes = children()
    async with shell() as bash:
        await assert_sane(bash)
        before = descriptors()
        for _ in range(50):
            await bash.call({"restart": True})
        pid = int(await said(bash, "echo $$"))
        await until(lambda: children(processes) == {pid})
        assert descriptors() == before
    await until(lambda: not children(processes))


@pytest.mark.slow
async def test_the_tool_is_forgotten() -> None:
    """The shell goes with it."""
    bash = Bash()
    pid = int(await said(bash, "echo $$"))
    assert is_running(pid)
    del bash
    gc.collect()
    await until(lambda: not is_running(pid))


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_program_ends(tmp_path: Path) -> None:
    """The shell and its jobs go with it, whatever their process group."""
    program = (
        "import asyncio\nfrom eagerstream_toolkit._bash.tool import Bash\nbash = Bash()\n"
        "asyncio.run(bash.call({'command': 'echo $$ >shell; timeout 1000 sleep 1000 & echo $! >job'}))\n"
    )
    await anyio.run_process([sys.executable, "-c", program], cwd=tmp_path)
    pids = [int((tmp_path / name).read_text()) for name in ("shell", "job")]
    await until(lambda: not any(map(is_running, pids)))


async def test_two_calls_at_once() -> None:
    """Two runs may have the same tool: their commands do not mix."""
    async with shell() as bash:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(said, bash, "x=$x.; sleep 0.01; x=$x-")
        assert await said(bash, "echo $x") == ".-.-.-"


# --- the environment ----------------------------------------------------------------------------------------------------


async def test_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key of the API, under its own name or another; nothing that makes bash behave otherwise."""
    rc = tmp_path / "rc"
    rc.write_text("echo rc")
    for name, value in {
        "ANTHROPIC_API_KEY": "k1",
        "ANTHROPIC_BASE_URL": "k2",
        "MY_KEY": "sk-ant-api03-x",
        "BASH_ENV": str(rc),
        "BASH_FUNC_echo%%": "() { builtin echo fake; }",
        "PROMPT_COMMAND": "echo prompt",
        "PS4": "$(echo ps4)",
        "SHELLOPTS": "xtrace",
        "HARMLESS": "kept",
    }.items():
        monkeypatch.setenv(name, value)
    async with shell(env={"ANTHROPIC_TOKEN": "k3", "MINE": "given", "TERM": "xterm"}) as bash:
        found = await said(bash, "env")
        assert await said(bash, "set -x; true; set +x") == "++ true\n++ set +x"
    names = {line.partition("=")[0] for line in found.splitlines()}
    assert not {name for name in names if name.startswith(("ANTHROPIC", "BASH_", "PS"))}
    assert not names & {"MY_KEY", "PROMPT_COMMAND", "SHELLOPTS"}
    assert {"HARMLESS=kept", "MINE=given", "TERM=xterm"} <= set(found.splitlines())


async def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is given, or that of this process when the shell is started."""
    async with shell(cwd=tmp_path) as bash:
        assert await said(bash, "pwd") == f"{tmp_path}"
    async with shell() as bash:
        monkeypatch.chdir("/usr")
        assert await said(bash, "pwd") == "/usr"


# --- a shell elsewhere --------------------------------------------------------------------------------------------------

_RELAY = """
import subprocess, sys, threading, time
inner = subprocess.Popen(["bash", "--noprofile", "--norc"], stdin=0, stdout=-1, stderr=-1, bufsize=0)
def relay(source, target, size, delay_s):
    while data := source.read(1):
        time.sleep(delay_s)
        target.write(data + source.read(size))
        target.flush()
size, delay_s = int(sys.argv[1]), float(sys.argv[2])
late = threading.Thread(target=relay, args=(inner.stdout, sys.stdout.buffer, size, delay_s))
late.start()
relay(inner.stderr, sys.stderr.buffer, 10, 0)
late.join()
sys.exit(inner.wait())
"""


async def test_a_wrapper_whose_streams_come_late() -> None:
    """As a container's: each stream at its own pace, in pieces. The output is whole, and the next one's is its own."""
    async with shell(argv=(sys.executable, "-c", _RELAY, "7", "0.002")) as bash:
        assert await said(bash, "seq 1 50") == "\n".join(map(str, range(1, 51)))
        assert await said(bash, "echo ok") == "ok"
        assert await said(bash, "seq 1 20; exit 3") == "\n".join([*map(str, range(1, 21)), "(exit status 3)"])
        await assert_sane(bash)


@pytest.mark.slow
async def test_a_wrapper_that_collects() -> None:
    """What comes behind the mark together with it belongs to the next command."""
    async with shell(argv=(sys.executable, "-c", _RELAY, "1000", "0.1")) as bash:
        first = await said(bash, "{ sleep 0.03; echo late; } & echo early")
        second = await said(bash, "wait")
        assert f"{first}\n{second}".split() == ["early", "late"]


# --- in a run -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_in_a_run(caplog: pytest.LogCaptureFixture) -> None:
    """Two calls of a turn in order, progress while they run, an error as such; and none of it in a log."""
    caplog.set_level(logging.DEBUG, "eagerstream")
    commands = ["echo hunter2; cd /usr; until [ $((i++)) -gt 30 ]; do sleep 0.01; done; echo b", "pwd", "hunter2"]
    scenario = Scenario(
        reply(*(tool_use("bash", {"command": command}) for command in commands), tool_use("bash", {"restart": True})),
        reply(text("Done.")),
    )
    events: list[Any] = []
    async with ReplayServer(scenario, speed=float("inf")) as server, anthropic_client(server.base_url) as client:
        async with shell() as bash, eagerstream.run(client, tools=[bash], **REQUEST) as run:
            events += [event async for event in run]
    check_history(run.result.messages)
    contents = [
        (event.result.get("content"), event.result.get("is_error")) for event in events if isinstance(event, ToolStop)
    ]
    assert contents[:2] == [("hunter2\nb", None), ("/usr", None)]
    assert contents[2] == (f"{contents[2][0]}", True)
    assert str(contents[2][0]).endswith("hunter2: command not found")
    assert contents[3] == ("Bash session restarted", None)
    assert "hunter2\n" in [event.value for event in events if isinstance(event, ToolProgress)]
    assert not any("hunter2" in f"{record.getMessage()} {record.args!r}" for record in caplog.records)


@pytest.mark.slow
async def test_a_call_that_is_late_in_a_run() -> None:
    """The tool's own words, and not the executor's."""
    async with shell(timeout_s=0.1) as bash:
        result = await conversation(bash, {"command": "echo a; sleep 1000"})
    [(content, is_error)] = results(result)
    assert is_error
    assert content.startswith(f"{LATE} 0.1 seconds")
