"""Approvals over AG-UI and `useChat` by a run that sleeps in its journal meanwhile: no process has it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from packages.progress.tests.agui_client import Client
from packages.progress.tests.asgi import client_of
from packages.progress.tests.ui_messages import Reader
from tests.streams import REQUEST
from tests.support import LocalAPI

import eagerstream
from eagerstream import Run, tool
from eagerstream.loop import Resumed, resume
from eagerstream.tools import ask_elsewhere
from eagerstream_durable.journal import Journal
from eagerstream_progress.agui import agui_app, answers_of, messages_of
from eagerstream_progress.vercel import ChatRequest, vercel_app
from eagerstream_testing import reply, text, tool_use
from eagerstream_wire import SSEDecoder

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("approved", [True, False])]


@tool
async def look(at: str) -> str:
    """Look."""
    return f"looked at {at}"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagerstream.loop._durability._LOOK_S", 0.01)


class Paying:
    """The two `start` functions of the guides, with a tool that asks."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        looks = [tool_use("look", {"at": name}, id=f"toolu_{name}") for name in ("a", "b")]
        pays = tool_use("pay", {"amount": 3}, id="toolu_pay")
        self.api = LocalAPI(reply(text("I look, and pay."), looks[0], pays, looks[1]), reply(text("Done.")))
        self.paid: list[int] = []
        self.run_ids: list[str] = []

        @tool(approve=ask_elsewhere)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        self._tools: list[Any] = [pay, look]

    async def agui(self, input: RunAgentInput) -> Run | Resumed:
        return await self._run(messages_of(input), answers_of(input))

    async def vercel(self, chat: ChatRequest) -> Run | Resumed:
        return await self._run(chat.messages, chat.approvals)

    async def _run(self, messages: Any, answers: Any) -> Run | Resumed:
        for each in answers:
            await self.journal.decide(each.run, each.call, each.approved or each.reason or False)
        if answers:
            self.run_ids.append(answers[0].run)
            return resume(self.api.anthropic(), self.journal, answers[0].run, tools=self._tools)
        request: Any = REQUEST | {"messages": messages}
        run = eagerstream.run(self.api.anthropic(), **request, tools=self._tools, journal=self.journal)
        self.run_ids.append(run.id)
        return run

    async def check_waiting(self) -> None:
        """Nobody has the run."""
        summary = await self.journal.summary(self.run_ids[0])
        assert (summary.status, summary.owner) == ("waiting", "none")

    async def check_end(self, *, approved: bool) -> None:
        """The second request has continued the run of the first one."""
        first, second = self.run_ids
        assert second == first
        assert (await self.journal.summary(first)).status == "completed"
        assert self.paid == ([3] if approved else [])
        sent = json.dumps(self.api.exchanges[1].body["messages"])
        assert ("too much" in sent) is not approved


async def posted(app: Any, path: str, body: Any) -> list[Any]:
    """The events of an answer."""
    async with client_of(app) as client:
        answer = await client.post(path, json=body, timeout=20)
    assert answer.status_code == 200, answer.text
    return [json.loads(event.data) for event in SSEDecoder().feed(answer.content) if event.data != "[DONE]"]


async def test_agui(tmp_path: Path, approved: bool) -> None:
    """The run ends with an interrupt, and `resume` continues it in another run of the protocol."""
    async with Journal(tmp_path / "runs.db") as journal:
        paying = Paying(journal)
        app = agui_app(paying.agui, min_interval_s=0)
        said = [{"id": "u1", "role": "user", "content": "Pay three."}]
        body: dict[str, Any] = {"threadId": "t", "runId": "run 1", "messages": said}
        client = Client(said)
        client.take(await posted(app, "/", body))
        await paying.check_waiting()
        (interrupt,) = client.end["outcome"]["interrupts"]
        assert interrupt["toolCallId"] == "toolu_pay"
        payload = {"approved": approved} | ({} if approved else {"reason": "too much"})
        answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
        body |= {"runId": "run 2", "messages": client.messages, "state": client.state, "resume": [answer]}
        rest = Client(client.messages)
        rest.take(await posted(app, "/", body))
        await paying.check_end(approved=approved)
    assert rest.end["type"] == "RUN_FINISHED"
    assert set(rest.results) == {"toolu_a", "toolu_pay", "toolu_b"}
    assert ("paid 3" in rest.results["toolu_pay"]["content"]) is approved
    texts = [
        message["content"] for message in rest.messages if message["role"] == "assistant" and message.get("content")
    ]
    assert texts == ["I look, and pay.", "Done."]


async def test_vercel(tmp_path: Path, approved: bool) -> None:
    """The message ends with the question, and the next request continues the same message."""
    async with Journal(tmp_path / "runs.db") as journal:
        paying = Paying(journal)
        app = vercel_app(paying.vercel)
        said = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Pay three."}]}
        body: dict[str, Any] = {"id": "chat-1", "messages": [said], "trigger": "submit-message"}
        reader = Reader()
        reader.read(await posted(app, "/api/chat", body))
        await paying.check_waiting()
        (call,) = (each for each in reader.calls if each["toolCallId"] == "toolu_pay")
        assert call["state"] == "approval-requested"
        call["state"] = "approval-responded"
        call["approval"] |= {"approved": approved} | ({} if approved else {"reason": "too much"})
        message = copy.deepcopy(reader.message) | {"role": "assistant"}
        chunks = await posted(app, "/api/chat", body | {"messages": [said, message]})
        assert chunks[0]["messageId"] == message["id"]
        await paying.check_end(approved=approved)
        reader.read(chunks)
    states = {each["toolCallId"]: each["state"] for each in reader.ended().calls}
    end = "output-available" if approved else "output-denied"
    assert states == {"toolu_a": "output-available", "toolu_pay": end, "toolu_b": "output-available"}
    texts = [part["text"] for part in reader.parts if part["type"] == "text"]
    assert texts == ["I look, and pay.", "Done."]
