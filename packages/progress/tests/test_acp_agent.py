"""The agent of ACP: sessions, prompts, permission, cancellation, and editors that leave. Both official libraries try it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp import RequestError, connect_to_agent, text_block
from acp.schema import RequestPermissionResponse
from packages.progress.tests.streams import IMAGE
from tests.node import need_packages, run_client
from tests.streams import REQUEST, input_delta, message_start, tool_start
from tests.support import Gate, LocalAPI, check_history, until, whole_call

import eagerstream
from eagerstream import APIError, RunStatus, tool
from eagerstream_progress import Hub
from eagerstream_progress.acp import ACPPrompt
from eagerstream_progress.acp._stdio import new_agent, serve_streams
from eagerstream_testing import ReplayServer, Scenario, Timing, http_error, reply, text, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]  # as the official library

SECRET = "hunter2"
CWD = "/home/ada/project"


class Editor:
    """A client with the official library. It remembers what it is told."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[], Any] = lambda: {"outcome": "selected", "optionId": "allow"}
        self.agent: Any = None

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update.model_dump(mode="json", by_alias=True, exclude_none=True)))

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **_: Any) -> Any:
        self.asked.append(tool_call.model_dump(mode="json", by_alias=True, exclude_none=True))
        answer = self.answer()
        return RequestPermissionResponse.model_validate(
            {"outcome": await answer if hasattr(answer, "__await__") else answer}
        )

    async def new_session(self, cwd: str = CWD) -> str:
        session: str = (await self.agent.new_session(cwd=cwd, mcp_servers=[])).session_id
        return session

    async def prompt(self, session: str, text: str = "Hello") -> str:
        with anyio.fail_after(30):
            answer = await self.agent.prompt(session_id=session, prompt=[text_block(text)])
        return str(answer.stop_reason)

    def calls(self) -> dict[str, str]:
        """The last status of each call."""
        return {
            update["toolCallId"]: update["status"]
            for _, update in self.updates
            if update["sessionUpdate"].startswith("tool_call") and "status" in update
        }

    def texts(self, session: str) -> str:
        return "".join(
            update["content"]["text"]
            for id, update in self.updates
            if id == session and update["sessionUpdate"] == "agent_message_chunk"
        )


@asynccontextmanager
async def editing(start: Any, **options: Any) -> AsyncIterator[Editor]:
    """An editor and an agent, with a connection between them that the editor closes at the end."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    agent_reader, agent_writer = await asyncio.open_connection(sock=theirs)
    editor = Editor()
    connection = connect_to_agent(editor, writer, reader)  # type: ignore[arg-type]
    editor.agent = connection
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve_streams, new_agent(start, min_interval_s=0, **options), agent_reader, agent_writer)
        await connection.initialize(protocol_version=1)
        try:
            yield editor
        finally:
            with anyio.CancelScope(shield=True):
                await connection.close()
                writer.close()
                await writer.wait_closed()


def starting(api: LocalAPI, *tools: Any) -> Callable[[ACPPrompt], eagerstream.Run]:
    def start(prompt: ACPPrompt) -> eagerstream.Run:
        request = {**REQUEST, "messages": prompt.messages, "tools": [*tools]}
        return eagerstream.run(api.transport(), **request, restart_delay_s=0.001)

    return start


@tool
async def read_file(path: str) -> list[dict[str, Any]]:
    """Read a file."""
    return [{"type": "text", "text": path}, IMAGE]


# --- sessions and prompts ---------------------------------------------------------------------------------------------


async def test_sessions_keep_their_conversations() -> None:
    """The next prompt of a session continues it; another session has its own; a closed one is gone."""
    api = LocalAPI(reply(tool_use("read_file", {"path": "a.py"})), reply(text("One.")), reply(text("Two.")))
    async with editing(starting(api, read_file)) as editor:
        first, second = await editor.new_session(), await editor.new_session()
        assert await editor.prompt(first) == "end_turn"
        assert await editor.prompt(first, "More") == "end_turn"
        assert await editor.prompt(second) == "end_turn"
        assert (editor.texts(first), editor.texts(second)) == ("One.Two.", "Two.")
        assert [*editor.calls().values()] == ["completed"]
        await editor.agent.close_session(session_id=first)
        with pytest.raises(RequestError, match="no such session"):
            await editor.prompt(first)
    sent = [exchange.body["messages"] for exchange in api.exchanges]
    assert [len(messages) for messages in sent] == [1, 3, 5, 1]
    check_history(sent[2])


@pytest.mark.parametrize(
    ("cwd", "prompt"),
    [("relative", [text_block("x")]), (CWD, []), (CWD, [text_block(" ")])],
    ids=["cwd", "none", "blank"],
)
async def test_requests_that_are_refused(cwd: str, prompt: list[Any]) -> None:
    """With a reason, and without a run."""
    async with editing(lambda _: pytest.fail("nothing begins")) as editor:
        with pytest.raises(RequestError) as caught:
            await editor.agent.prompt(session_id=await editor.new_session(cwd), prompt=prompt)
        assert caught.value.code == -32602


async def test_one_prompt_at_a_time() -> None:
    """A second prompt is refused while the first is answered; another session is free."""
    gate = Gate()
    api = LocalAPI([gate, reply(text("One."))], reply(text("Two.")))
    async with editing(starting(api)) as editor, anyio.create_task_group() as tasks:
        first, second = await editor.new_session(), await editor.new_session()
        tasks.start_soon(editor.prompt, first)
        await gate.reached.wait()
        with pytest.raises(RequestError, match="being answered"):
            await editor.prompt(first)
        assert await editor.prompt(second) == "end_turn"
        gate.opened.set()
    assert len(api.exchanges) == 2


async def test_a_refusal_is_forgotten() -> None:
    """By the protocol, the next prompt does not contain a refused one."""
    api = LocalAPI(reply(text("No."), stop_reason="refusal"), reply(text("Yes.")))
    async with editing(starting(api)) as editor:
        session = await editor.new_session()
        assert await editor.prompt(session, "Something bad") == "refusal"
        assert await editor.prompt(session, "Something good") == "end_turn"
    assert "bad" not in json.dumps(api.exchanges[1].body)


# --- permission -------------------------------------------------------------------------------------------------------


def _raise() -> Any:
    raise RequestError(-32603, "no dialog")


@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        (lambda: {"outcome": "selected", "optionId": "allow"}, True),
        (lambda: {"outcome": "selected", "optionId": "reject"}, False),
        (lambda: {"outcome": "selected", "optionId": "allow_always"}, False),
        (lambda: {"outcome": "cancelled"}, False),
        (_raise, False),
    ],
    ids=["allow", "reject", "unknown", "cancelled", "error"],
)
async def test_permission(answer: Any, runs: bool) -> None:
    """Only the option to allow runs the call; the question has its title, its file and its input."""
    hub, ran = Hub(), []

    @tool(approve=hub.approve)
    async def delete_file(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return "deleted"

    api = LocalAPI(reply(tool_use("delete_file", {"path": "a.py"})), reply(text("Done.")))
    async with editing(starting(api, delete_file), hub=hub) as editor:
        editor.answer = answer
        assert await editor.prompt(await editor.new_session()) == "end_turn"
        (asked,) = editor.asked
        assert (asked["title"], asked["kind"], asked["rawInput"]) == ("delete_file `a.py`", "delete", {"path": "a.py"})
        assert asked["locations"] == [{"path": f"{CWD}/a.py"}]
        assert editor.calls() == {asked["toolCallId"]: "completed" if runs else "failed"}
    assert ran == (["a.py"] if runs else [])


async def test_a_decision_elsewhere() -> None:
    """The question to the editor is withdrawn, and an answer that comes later counts for nothing."""
    hub = Hub()

    @tool(approve=hub.approve)
    async def delete_file(path: str) -> str:
        """Delete a file."""
        return "deleted"

    answered = anyio.Event()

    async def late() -> dict[str, str]:
        await answered.wait()
        return {"outcome": "selected", "optionId": "reject"}

    api = LocalAPI(reply(tool_use("delete_file", {"path": "a.py"})), reply(text("Done.")))
    async with editing(starting(api, delete_file), hub=hub) as editor, anyio.create_task_group() as tasks:
        editor.answer = late
        tasks.start_soon(editor.prompt, await editor.new_session())
        await until(lambda: editor.asked)
        ((run, block),) = hub.questions
        hub.decide(run, block, approved=True)
        await until(lambda: "completed" in editor.calls().values())
        answered.set()


# --- cancellation and failures ----------------------------------------------------------------------------------------


async def test_cancel_in_the_middle_of_an_input() -> None:
    """The prompt is answered with `cancelled`, the call has failed, and the conversation can go on."""
    gate = Gate()
    api = LocalAPI(
        [message_start(), tool_start(0, "read_file"), input_delta(0, '{"path": "a'), gate], reply(text("Again."))
    )
    async with editing(starting(api, read_file)) as editor, anyio.create_task_group() as tasks:
        session = await editor.new_session()
        reasons: list[str] = []

        async def ask() -> None:
            reasons.append(await editor.prompt(session))

        tasks.start_soon(ask)
        await until(editor.calls)
        await editor.agent.cancel(session_id=session)
        await until(lambda: reasons)
        assert reasons == ["cancelled"]
        assert [*editor.calls().values()] == ["failed"]
        assert not any("locations" in update for _, update in editor.updates)
        assert await editor.prompt(session, "Again") == "end_turn"
    check_history(api.exchanges[-1].body["messages"])


async def test_cancel_before_and_after_a_run() -> None:
    """While `start` waits, nothing begins. Without a prompt, it has no effect."""
    reached = anyio.Event()

    async def start(_: ACPPrompt) -> eagerstream.Run:
        reached.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with editing(start) as editor, anyio.create_task_group() as tasks:
        session = await editor.new_session()
        for id in (session, "unknown"):
            await editor.agent.cancel(session_id=id)

        async def ask() -> None:
            assert await editor.prompt(session) == "cancelled"

        tasks.start_soon(ask)
        await reached.wait()
        await editor.agent.cancel(session_id=session)


async def test_cancel_while_a_person_is_asked() -> None:
    """The question ends with the run, although the editor never answers it."""
    hub = Hub()

    @tool(approve=hub.approve)
    async def delete_file(path: str) -> str:
        """Delete a file."""
        raise AssertionError

    api = LocalAPI(reply(tool_use("delete_file", {"path": "a.py"})))
    async with editing(starting(api, delete_file), hub=hub) as editor, anyio.create_task_group() as tasks:
        editor.answer = anyio.sleep_forever
        session = await editor.new_session()

        async def ask() -> None:
            assert await editor.prompt(session) == "cancelled"

        tasks.start_soon(ask)
        await until(lambda: editor.asked)
        await editor.agent.cancel(session_id=session)
    assert hub.questions == []


async def test_a_run_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """The editor gets our errors with their text; the log has no word of an input; the conversation can go on."""
    failed = http_error(400, "invalid_request_error", "not like this")
    api = LocalAPI(reply(tool_use("read_file", {"path": SECRET})), failed, reply(text("Again.")))
    async with editing(starting(api, read_file)) as editor:
        session = await editor.new_session()
        with pytest.raises(RequestError) as caught:
            await editor.prompt(session)
        assert (caught.value.code, caught.value.data) == (-32603, {"type": "APIError"})
        assert "not like this" in str(caught.value)
        assert await editor.prompt(session, "Again") == "end_turn"
    check_history(api.exchanges[-1].body["messages"])
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("error", "said", "is_traced"), [(OSError(SECRET), "The run failed.", True), (APIError("busy"), "busy", False)]
)
async def test_a_start_that_fails(
    error: Exception, said: str, is_traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors of the program are in its log completely, and the editor gets their class only."""

    def start(_: ACPPrompt) -> eagerstream.Run:
        raise error

    async with editing(start) as editor:
        with pytest.raises(RequestError, match=said) as caught:
            await editor.prompt(await editor.new_session())
        assert SECRET not in json.dumps([str(caught.value), caught.value.data])
    assert (SECRET in caplog.text) == is_traced


async def test_a_view_that_fails(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that cannot be shown is cancelled: it would cost money, and nobody would see what it does."""
    gate = Gate()
    api = LocalAPI([message_start(), *whole_call(0, "read_file", json.dumps({"path": SECRET})), gate])
    monkeypatch.setattr("eagerstream_progress.acp._call.title_of", lambda *_: dict[str, str]()[SECRET])
    runs: list[eagerstream.Run] = []

    def start(prompt: ACPPrompt) -> eagerstream.Run:
        runs.append(starting(api, read_file)(prompt))
        return runs[0]

    async with editing(start) as editor:
        with pytest.raises(RequestError, match="The run failed"):
            await editor.prompt(await editor.new_session())
    assert runs[0].result.status is RunStatus.CANCELLED
    assert SECRET not in caplog.text
    assert "a run of an editor failed: KeyError" in caplog.text


# --- editors that leave -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def raw_editor(start: Any, ended: Callable[[], object]) -> AsyncIterator[tuple[Any, ...]]:
    """An agent whose editor is a socket: the task of the agent, functions that send and read lines, and the stream."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours, limit=2**12)
    agent_reader, agent_writer = await asyncio.open_connection(sock=theirs)

    async def serve() -> None:
        try:
            await serve_streams(new_agent(start, min_interval_s=0), agent_reader, agent_writer)
        finally:
            ended()

    serving = asyncio.create_task(serve())

    async def send(id: int, method: str, **params: Any) -> Any:
        writer.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")
        await writer.drain()

    async def read() -> Any:
        return json.loads(await reader.readline())

    try:
        yield serving, send, read, writer
        with anyio.fail_after(30):
            await asyncio.wait([serving])
    finally:
        writer.close()


@pytest.mark.parametrize("way", ["closes", "does not read", "is cancelled"])
async def test_an_editor_that_leaves(way: str) -> None:
    """The run is cancelled, and its tool has ended when the agent returns, also if the output is full."""
    events: list[str] = []

    @tool
    async def work(path: str) -> str:
        """Work."""
        events.append("started")
        try:
            await anyio.sleep_forever()
        finally:
            events.append("tool ended")
        return ""

    flood = [text("x" * 400_000)] if way == "does not read" else []
    api = LocalAPI(reply(*flood, tool_use("work", {"path": "a"})))
    async with raw_editor(starting(api, work), lambda: events.append("agent ended")) as (serving, send, read, writer):
        await send(1, "session/new", cwd=CWD, mcpServers=[])
        session = (await read())["result"]["sessionId"]
        await send(2, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}])
        await until(lambda: events)
        match way:
            case "closes":
                writer.close()
            case "does not read":
                writer.write_eof()
            case _:
                serving.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await serving
    assert events == ["started", "tool ended", "agent ended"]


# --- the official library of TypeScript, and processes ----------------------------------------------------------------

AGENT = """
import asyncio
import anthropic, anyio, eagerstream
from eagerstream_progress import Hub
from eagerstream_progress.acp import ACPPrompt, serve_acp

hub = Hub()

@eagerstream.tool
async def write_file(path: str, content: str) -> str:
    "Write a file."
    print("printed by a tool", flush=True)
    await anyio.run_process(["sh", "-c", "cat; echo printed by a child"], stdout=None, stdin=None)
    return f"wrote {len(content)} characters"

@eagerstream.tool(approve=hub.approve)
async def delete_file(path: str) -> str:
    "Delete a file."
    return "deleted"

async def main():
    async with anthropic.AsyncAnthropic(max_retries=0) as client:
        def start(prompt: ACPPrompt) -> eagerstream.Run:
            return eagerstream.run(
                client, model="claude-made-1", max_tokens=1024, tools=[write_file, delete_file], messages=prompt.messages
            )

        await serve_acp(start, hub=hub)
    print("printed at the end")

asyncio.run(main())
"""


def drive_editor(server: ReplayServer, folder: Path, *steps: dict[str, Any], answers: Sequence[str] = ()) -> Any:
    """What the official client of TypeScript saw of the agent, which it starts as an editor does."""
    program = folder / "agent.py"
    program.write_text(AGENT)
    given = {
        "command": [sys.executable, str(program)],
        "cwd": str(folder),
        "env": {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "simulated"},
        "answers": [*answers],
        "steps": [{"do": "new", "as": "a", "cwd": CWD}, *steps],
    }
    return run_client("acp.mjs", given=given)


def in_turn(*replies: Any, **options: Any) -> Scenario:
    """A scenario that answers each request with the next reply, whatever the conversation is."""
    waiting = iter(replies)
    return Scenario.of(lambda _: next(waiting), **options)


def ask(name: str, said: str = "Hello", session: str = "a") -> dict[str, Any]:
    return {"do": "prompt", "in": session, "as": name, "prompt": [{"type": "text", "text": said}]}


def answered(name: str) -> dict[str, Any]:
    return {"do": "answered", "as": name}


@pytest.mark.slow
def test_an_editor(tmp_path: Path, anyio_backend: str) -> None:
    """An input grows, a path comes when it is finished, calls are allowed and rejected, and a second prompt continues."""
    path, content = f"src/{'deep/' * 20}module.py", "x = 1\n" * 60
    write = tool_use("write_file", {"path": path, "content": content}, fragment_chars=1)
    delete = tool_use("delete_file", {"path": path})
    scenario = Scenario(
        *(reply(text("Let me."), write), reply(delete), reply(delete, text("Wait.")), reply(text("Done."))),
        reply(text("More.")),
        timing=Timing(tokens_per_second=100),
    )
    with ReplayServer(scenario) as server:
        steps = [ask("1"), answered("1"), ask("2", "And?"), answered("2")]
        got = drive_editor(server, tmp_path, *steps, answers=["allow", "reject"])
        assert [len(request.body["messages"]) for request in server.requests] == [1, 3, 5, 7, 9]
    assert (got["faults"], got["exit"]) == ([], 0)
    assert [got["prompts"][name]["stopReason"] for name in "12"] == ["end_turn", "end_turn"]
    updates = got["updates"]["a"]
    assert {place["path"] for update in updates for place in update.get("locations", ())} == {f"{CWD}/{path}"}
    first = next(update["toolCallId"] for update in updates if "toolCallId" in update)
    inputs = [update["rawInput"] for update in updates if update.get("toolCallId") == first and "rawInput" in update]
    assert len(inputs) > 5
    unfinished = [input for input in inputs if input.get("path", "") != path]
    assert unfinished, "the path was seen only when it was complete"
    statuses: dict[str, list[str]] = {}
    for update in updates:
        if "status" in update:
            statuses.setdefault(update["toolCallId"], []).append(update["status"])
    assert [*statuses.values()] == [
        ["pending", "in_progress", "completed"],
        ["pending", "in_progress", "completed"],
        ["pending", "failed"],
    ]
    assert [question["toolCall"]["title"] for question in got["asked"]] == [f"delete_file `{path}`"] * 2
    assert "".join(
        update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"
    ) == ("Let me.Wait.Done.More.")
    # Standard output is the protocol's, also when the editor has left.
    assert sorted(got["stderr"].splitlines()) == ["printed at the end", "printed by a child", "printed by a tool"]


@pytest.mark.slow
def test_an_editor_that_cancels(tmp_path: Path, anyio_backend: str) -> None:
    """In the middle of an input, and while it is asked. Two sessions do not disturb each other."""
    slow = tool_use("write_file", {"path": "a.py", "content": "x" * 4_000})
    delete = tool_use("delete_file", {"path": "a.py"})
    scenario = in_turn(reply(slow), reply(delete), reply(text("Free.")), timing=Timing(tokens_per_second=50))
    with ReplayServer(scenario) as server:
        got = drive_editor(
            server,
            tmp_path,
            *(ask("1"), {"do": "seen", "text": '"locations"'}, {"do": "cancel", "in": "a"}, answered("1")),
            *({"do": "new", "as": "b", "cwd": "/srv"}, ask("2", session="b"), {"do": "seen", "text": '"options"'}),
            *({"do": "cancel", "in": "b"}, answered("2"), ask("3"), answered("3"), {"do": "close", "in": "b"}),
        )
    assert (got["faults"], got["exit"], got["stderr"]) == ([], 0, "printed at the end\n")
    assert [got["prompts"][name]["stopReason"] for name in "123"] == ["cancelled", "cancelled", "end_turn"]
    assert got["updates"]["a"][-1]["content"]["text"] == "Free."
    ends = [[update["status"] for update in got["updates"][name] if "status" in update][-1] for name in "ab"]
    assert ends == ["failed", "failed"]


@pytest.mark.slow
def test_an_error_of_the_api(tmp_path: Path, anyio_backend: str) -> None:
    """It is the answer to the prompt, and the next prompt works. Audio is refused: we do not offer it."""
    scenario = in_turn(http_error(400, "invalid_request_error", "that model is not known"), reply(text("Fine.")))
    with ReplayServer(scenario) as server:
        audio = {"type": "audio", "mimeType": "audio/wav", "data": "aa"}
        got = drive_editor(
            server,
            tmp_path,
            ask("1"),
            answered("1"),
            ask("2"),
            answered("2"),
            {**ask("3"), "prompt": [audio]},
            answered("3"),
        )
    assert got["prompts"]["1"]["error"]["code"] == -32603
    assert "that model is not known" in got["prompts"]["1"]["error"]["message"]
    assert got["prompts"]["2"] == {"stopReason": "end_turn", "_meta": {"eagerstream": {"status": "completed"}}}
    assert got["prompts"]["3"]["error"]["code"] == -32602


@pytest.mark.slow
def test_an_editor_that_crashes(tmp_path: Path, anyio_backend: str) -> None:
    """In the middle of an input: the agent's process ends, and its request is closed."""
    need_packages()
    slow = tool_use("write_file", {"path": "a.py", "content": "x" * 100_000})
    with ReplayServer(Scenario(reply(slow), timing=Timing(tokens_per_second=50))) as server:
        program = tmp_path / "agent.py"
        program.write_text(f"import os; open('pid', 'w').write(str(os.getpid()))\n{AGENT}")
        env = {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "simulated"}
        steps = [
            {"do": "new", "as": "a", "cwd": CWD},
            ask("1"),
            {"do": "seen", "text": '"locations"'},
            {"do": "vanish"},
        ]
        given = {"command": [sys.executable, str(program)], "cwd": str(tmp_path), "env": env, "steps": steps}
        script = Path(__file__).parent / "clients/acp.mjs"
        done = subprocess.run(
            ["node", str(script)], input=json.dumps(given), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == -signal.SIGKILL
        pid = int((tmp_path / "pid").read_text())
        anyio.run(until, partial(_is_gone, pid))


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"  # nobody waits for it


@pytest.mark.slow
def test_without_the_extra(anyio_backend: str) -> None:
    """The error names it. The encoder needs nothing of it."""
    code = (
        "import sys; sys.modules['acp'] = None\n"
        "from eagerstream_progress.acp import ACPEncoder, serve_acp\n"
        "import anyio; ACPEncoder(cwd='/').encode([])\n"
        "anyio.run(serve_acp, None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "eagerstream-progress[acp]" in done.stderr


@pytest.mark.slow
def test_no_editor(tmp_path: Path, anyio_backend: str) -> None:
    """Started by hand with a file as its input, it says who starts it."""
    (tmp_path / "agent.py").write_text(AGENT)
    env = {**os.environ, "ANTHROPIC_API_KEY": "simulated"}
    command = [sys.executable, str(tmp_path / "agent.py")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=env)
    assert done.stderr.endswith(
        "UsageError: an editor starts this program, with pipes as its standard input and output\n"
    )
