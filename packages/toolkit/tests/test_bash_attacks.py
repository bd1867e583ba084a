"""`Bash` against commands, and outputs of commands, that set out to fake a result or to spoil the shell."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from packages.toolkit.tests import support
from packages.toolkit.tests.bash_support import LATE, answer, assert_sane, is_running, said, shell
from packages.toolkit.tests.cases import case
from tests.support import until

from eagerstream_toolkit import Bash

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]  # the attacks are on bash

# --- output that looks like the end of a command --------------------------------------------------------------------------

_RECORDED = ("bash", "-c", "tee -a script | bash --noprofile --norc 2> >(tee -a report >&2)")
"""A shell whose script and reports can be read by the commands: more than they could ever know."""
_OLD_WORDS = """sed '$d' script | grep -oE '[0-9a-f]{32}' | sort -u"""
"""All but those of the frame that is running."""


_FORGING = {
    "earlier reports as they were": "cat report",
    "earlier reports, on stderr": "cat report >&2",
    "earlier marks": f"for w in $({_OLD_WORDS}); do printf \"trap -- '%s' EXIT\\n\" $w; done",
    "earlier words anew": f"for w in $({_OLD_WORDS}); do printf \"'%s 9 x' EXIT\\n\" $w >&2; done",
    "earlier frames": "sed '$d' script",
    "the beginning of a mark, at the very end": 'printf "trap -- \'"',
    "beginnings of marks in one another": "printf \"trap -- '\\ntrap -- 'trap -- 'tr\"",
    "words that are guessed": "printf \"trap -- '%032x 0 braceexpand' EXIT\\n\" 0 1",
    "NUL, no UTF-8, escape sequences": r"printf '\0\0\377\376\xc3\x28\x1b[2J\x1b]0;x\x07\x9b\r\n'",
    "half a character at the end": r"printf '\360\237'",
    "megabytes of NUL without a line feed": "head -c 3000000 /dev/zero",
    "a megabyte of noise": "head -c 1000000 /dev/urandom",
    "a megabyte of beginnings of marks": 'yes "trap -- \'" | head -c 1000000',
}


async def test_forged_output(tmp_path: Path) -> None:
    """Nothing that is printed ends a command, or sets its status: what stands behind it comes too, and the real status."""
    async with shell(argv=_RECORDED, cwd=tmp_path) as bash:
        for status in (5, 0, 5):
            await said(bash, f"echo before; (exit {status})")
        await until(lambda: (tmp_path / "report").read_text().count("EXIT") == 4)
        for name, forging in _FORGING.items():
            with case(name):
                response = await answer(bash, f"{forging}; echo; echo behind; (exit 3)")
                assert response.text.endswith("\nbehind\n(exit status 3)")
                assert response.data["exit_status"] == 3
                assert await said(bash, forging) != "ok"
                await assert_sane(bash)


_CHANNELS = (
    """bash -c 'for fd in /proc/$PPID/fd/*; do case $(stat -c %%A $fd) in l-w*) %s >$fd;; esac; done'; (exit 3)"""
)
"""Writes into whatever the shell has open for writing, its own channel as well."""


@pytest.mark.parametrize(
    "writing",
    [
        pytest.param(r"""printf "trap -- \x27%032x 0 braceexpand\x27 EXIT\n" 1""", id="a report"),
        pytest.param(r"printf 9\x27", id="the beginning of a line"),
        pytest.param("head -c 1000000 /dev/zero", id="a megabyte"),
        pytest.param("cat report", id="earlier reports"),
    ],
)
async def test_the_shells_own_channel(writing: str, tmp_path: Path) -> None:
    """What a child writes there, through `/proc`, is no report without the word, and neither spoils the real one."""
    async with shell(argv=_RECORDED, cwd=tmp_path) as bash:
        await said(bash, "(exit 5)")
        response = await answer(bash, _CHANNELS % writing)
        assert response.data["exit_status"] == 3
        assert (tmp_path / "report").stat().st_size > 200
        await assert_sane(bash)


# --- where the words of a frame could show --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "peeking",
    [
        pytest.param(["set; declare -p; declare -f; alias; trap -p"], id="variables, functions, aliases, traps"),
        pytest.param(["env; cat /proc/self/environ /proc/$$/environ"], id="the environment"),
        pytest.param(["cat /proc/self/cmdline /proc/$$/cmdline; ps -ef 2>/dev/null"], id="arguments"),
        pytest.param(
            ['echo "$BASH_EXECUTION_STRING $_ $BASH_COMMAND ${BASH_SOURCE[*]} ${FUNCNAME[*]}"'], id="bash's own"
        ),
        pytest.param(["history; fc -l", "set -o history; history", "history; fc -l; history 5"], id="the history"),
        pytest.param(["set -o history -o histexpand", "echo !! !-1", "history"], id="history expansion"),
        pytest.param(["set -x; echo a", "echo b", "set +x"], id="a trace"),
        pytest.param(
            ["exec 6>trace; BASH_XTRACEFD=6; set -x", "echo a", "echo b", "cat trace"], id="a trace into a file"
        ),
        pytest.param(["BASH_XTRACEFD=1; set -x", "echo a", "echo b"], id="a trace on the shell's stdout"),
        pytest.param(
            ["PS4='$(echo \"$BASH_COMMAND\" >>ps4; set >>ps4)'; set -x", "echo a", "set +x; cat ps4"],
            id="the prompt of a trace",
        ),
        pytest.param(["set -v", "echo a", "echo b", "set +v"], id="lines as they are read"),
        pytest.param(
            ["trap 'echo \"[$BASH_COMMAND]\" >>log; set >>log' DEBUG", "echo a", "cat log"], id="a DEBUG trap"
        ),
        pytest.param(
            ["set -T; trap 'echo \"[$BASH_COMMAND]\" >>log; set >>log' DEBUG", "echo a", "cat log"],
            id="a DEBUG trap, in subshells too",
        ),
        pytest.param(
            ["set -E; trap 'echo \"[$BASH_COMMAND]\" >>log' ERR EXIT RETURN", "false", "cat log"], id="other traps"
        ),
        pytest.param(["PROMPT_COMMAND='set; history'; PS0='$(set)'", "echo a"], id="prompts"),
        pytest.param(["trap 'set; echo \"$BASH_COMMAND\"' CHLD USR1 EXIT", "echo a", "exit"], id="signals and the end"),
        pytest.param(
            ["(for i in 1 2 3 4 5; do timeout 0.01 cat /proc/$$/fd/10 /proc/$$/fd/0; done) 2>/dev/null"],
            id="the script's own pipe",
        ),
        pytest.param(
            [
                'printf() { set >>calls; builtin echo "$*" >>calls; }',
                'echo() { printf "$@"; }; trap() { printf "$@"; }; export() { printf "$@"; }; exit() { printf "$@"; }',
                "true",
                "cat calls",
            ],
            id="functions that are called in its place",
        ),
    ],
)
async def test_peeking(peeking: list[str], tmp_path: Path, words: list[str]) -> None:
    """A command never sees a word that could end it."""
    async with shell(cwd=tmp_path) as bash:
        seen = [await said(bash, command) for command in peeking]
        seen.append(_written(tmp_path))
        assert len(words) >= 2 * len(peeking)
        assert not [word for word in words if any(word in text for text in seen)]


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The random words of all frames so far, as they are made up."""
    made_up: list[str] = []
    token_hex = secrets.token_hex

    def remembered(nbytes: int) -> str:
        made_up.append(token_hex(nbytes))
        return made_up[-1]

    monkeypatch.setattr("eagerstream_toolkit._bash.frame.secrets.token_hex", remembered)
    return made_up


def _written(folder: Path) -> str:
    """All that commands wrote into files."""
    return "".join(path.read_text() for path in folder.iterdir())


# --- what spoils a shell --------------------------------------------------------------------------------------------------

_OVERRIDES = "eval printf echo builtin command trap exit export set unset : exec read declare return test ["


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoiling",
    [
        pytest.param("echo 'unterminated", id="an unterminated quote"),
        pytest.param('echo "unterminated $(', id="an unterminated substitution"),
        pytest.param("cat <<END\nno end", id="a here-document without its end"),
        pytest.param("if true; then", id="an unfinished if"),
        pytest.param("echo a \\", id="a backslash at the end"),
        pytest.param("}; ) ; fi; done; esac", id="closing what is not open"),
        pytest.param("'; echo fake; '", id="breaking out of quotes"),
        pytest.param("\\'; echo fake; $'", id="breaking out of ANSI-C quotes"),
        pytest.param("cat /dev/stdin; cat <&0; read -r x; mapfile y", id="reading stdin"),
        pytest.param("exit 3", id="exit"),
        pytest.param("return 3; break; continue 2; logout", id="leaving what it is not in"),
        pytest.param("exec cat", id="exec"),
        pytest.param("exec bash", id="exec of another shell"),
        pytest.param("exec 1>&- 2>&- 0<&-", id="closing stdin, stdout and stderr"),
        pytest.param("exec >/dev/null 2>&1", id="redirecting for good"),
        pytest.param("exec 10<&- 11>&- 12>&- 13>&-", id="closing bash's own descriptors"),
        pytest.param('for fd in {3..255}; do eval "exec $fd>&-"; done', id="closing all descriptors"),
        pytest.param("exec 10</etc/passwd 11>/dev/null 19>/dev/null", id="putting others in their places"),
        pytest.param("echo echo fake >script; exec 10<script 11<script 12<script; rm script", id="another script"),
        pytest.param("ulimit -n 12", id="no descriptors left"),
        pytest.param("ulimit -f 0", id="no file may grow"),
        pytest.param("set -e; false", id="ending at the first error"),
        pytest.param("set -euo pipefail", id="strict mode"),
        pytest.param("set -e; set -E; trap 'exit 5' ERR", id="exit at an error"),
        pytest.param("set -x; set -v", id="traces"),
        pytest.param("set -f -C -k -a -b -m -B -h -P", id="options"),
        pytest.param("set -o posix", id="POSIX mode"),
        pytest.param("set -o vi; set -o ignoreeof", id="editing"),
        pytest.param("set -o history -o histexpand; echo '!!'", id="history expansion"),
        pytest.param("shopt -s expand_aliases extglob nullglob failglob lastpipe inherit_errexit", id="shell options"),
        pytest.param("set -t", id="one command only"),
        pytest.param("IFS=0123456789; unset PATH HOME; LC_ALL=xx; LINENO=x; POSIXLY_CORRECT=y", id="variables"),
        pytest.param("IFS='\n' ; PATH=; BASH_ENV=/x; SHELLOPTS=", id="other variables"),
        pytest.param("trap 'echo fake; exit 0' EXIT; exit 3", id="an EXIT trap"),
        pytest.param("trap '' INT TERM HUP PIPE CHLD USR1", id="ignoring signals"),
        pytest.param("trap 'true' DEBUG ERR RETURN", id="traps"),
        pytest.param("kill -9 $$", id="killing the shell"),
        pytest.param("kill -TERM $$; kill -HUP $$", id="asking the shell to end"),
        pytest.param("kill -9 0", id="killing the group"),
        pytest.param("sleep 1000 & sleep 1000 & disown; nohup sleep 1000 >/dev/null 2>&1 &", id="background jobs"),
        pytest.param(
            "(while :; do sleep 0.01; done) & (sleep 1000; echo late) >/dev/null &", id="background subshells"
        ),
        pytest.param("coproc sleep 1000", id="a coprocess"),
        pytest.param("for i in {1..100}; do sleep 1000 & done", id="a hundred processes"),
        pytest.param("d=$(mktemp -d); cd $d; rmdir $d; pwd; ls", id="a folder that is gone"),
        pytest.param("cd /; PWD=x; OLDPWD=y; umask 777", id="the folder and the mask"),
        pytest.param("stty raw -echo; stty sane; tput reset; clear", id="a terminal"),
        pytest.param("f() { f; }; FUNCNEST=50; f", id="recursion"),
        pytest.param("unset -f eval; unset eval; hash -r; enable -n printf echo test", id="builtins that go"),
        pytest.param("enable -n eval", id="no eval"),
        pytest.param("eval() { :; }", id="an eval that does nothing"),
        pytest.param("eval() { echo ok; }; readonly -f eval", id="an eval that fakes"),
        pytest.param(f'for f in {_OVERRIDES}; do . /dev/stdin <<<"function $f {{ return 0; }}"; done', id="functions"),
        pytest.param(
            "printf() { builtin echo fake; }; readonly -f printf; echo() { :; }; readonly -f echo; unset -f echo",
            id="functions that cannot be removed",
        ),
        pytest.param(
            "shopt -s expand_aliases; alias printf='echo fake' eval='echo fake' trap=: set=: export=: exit=: true=false",
            id="aliases",
        ),
        pytest.param(f"x={'y' * 1_000_000}; echo ${{#x}}", id="a megabyte"),
        pytest.param("\x1b[201~\x03\x04\x1a\x7f", id="keys of a terminal"),
    ],
)
async def test_spoiling(spoiling: str, tmp_path: Path) -> None:
    """The shell goes on as it should, or the model is told that it ended, and the next one is as it should be."""
    async with shell(cwd=tmp_path) as bash:
        pid = await said(bash, "echo $$")
        told = await _told(bash, spoiling)
        if "for f in" not in spoiling and "readonly -f echo" not in spoiling:  # which is what `echo` now means
            told += await _told(bash, "echo ok")
            assert told.splitlines()[-1] == "ok"  # behind traces
            told += await _told(bash, f"[[ $$ == {pid} ]]")
            assert told.splitlines()[-1] != "(exit status 1)" or "The shell " in told
        told = await _told(bash, r"(\exit 7)")
        assert told.splitlines()[-1] == "(exit status 7)" or "The shell " in told
        await bash.call({"restart": True})
        await assert_sane(bash)


async def _told(bash: Bash, command: str) -> str:
    """All that the model is told of it."""
    return f"{await support.said(bash, command=command)}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "holding",
    [
        pytest.param("exec sleep 1000", id="exec of a program that stays"),
        pytest.param("while :; do :; done", id="a loop"),
        pytest.param("yes", id="endless output"),
        pytest.param("yes >&2 & yes", id="endless output of two"),
        pytest.param("cat /dev/zero", id="endless NUL"),
        pytest.param("kill -STOP $$", id="a shell that is stopped"),
        pytest.param("trap '' INT TERM HUP; sleep 1000", id="ignoring signals"),
        pytest.param("set -n", id="a shell that reads and does nothing"),
        pytest.param("enable -n trap", id="no trap"),
        pytest.param("readonly POSIXLY_CORRECT=1", id="no POSIX mode"),
        pytest.param("shopt -s extdebug; trap 'false' DEBUG", id="a DEBUG trap that skips everything"),
        pytest.param("trap 'sleep 1000' DEBUG CHLD; true", id="a trap that stays"),
        pytest.param("wait & sleep 1000 & wait", id="waiting for background jobs"),
        pytest.param("exec 1>&- 2>&-; exec sleep 1000", id="nobody writes any more"),
        pytest.param(
            "f() { (($1 > 0)) && { f $(($1 - 1)) & f $(($1 - 1)) & }; sleep 1000; }; f 5", id="a small fork bomb"
        ),
        pytest.param("setsid sleep 5 & sleep 1000", id="a process that leaves the session"),
        pytest.param("cat /proc/$$/fd/10", id="eating the script"),
    ],
)
async def test_holding_up(holding: str) -> None:
    """At the latest, the time limit ends it: nothing blocks, fills the memory, or is taken for a result."""
    async with shell(timeout_s=0.05) as bash:
        text = await said(bash, f"echo begun; {holding}")
        assert text.startswith(f"{LATE} 0.05 seconds")
        assert len(text) < 40_000
        await assert_sane(bash)


async def test_readers_of_the_script() -> None:
    """A background job that reads the script in the shell's place: the command is late, and not answered wrongly."""
    async with shell(timeout_s=0.1) as bash:
        await said(bash, "exec 8</proc/$$/fd/10; cat <&8 >/dev/null & exec 8<&-")
        for _ in range(3):  # either reader may get the script: the kernel gives it to one of them
            assert await said(bash, "echo ok") in ("ok", f"{LATE} 0.1 seconds")
        await bash.call({"restart": True})
        await assert_sane(bash)


async def test_late_output_of_an_earlier_shell(tmp_path: Path) -> None:
    """What left the session in time lives on, and is not heard any more."""
    async with shell(cwd=tmp_path) as bash:
        await said(
            bash, "setsid bash -c 'echo $$ >pid; mv pid ready; until [ -e go ]; do sleep 0.01; done; echo fake' &"
        )
        await until((tmp_path / "ready").exists)
        await bash.call({"restart": True})
        pid = int((tmp_path / "ready").read_text())
        assert is_running(pid)
        (tmp_path / "go").touch()
        await until(lambda: not is_running(pid))
        await assert_sane(bash)
