"""A run as the events of AG-UI: a client accepts them, and has our messages and partials."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st
from packages.progress.tests.agui_client import Client
from packages.progress.tests.streams import Told, told_faults, told_recordings
from tests.node import run_client
from tests.patches import Patches
from tests.reliability.schedules import at_bytes, at_events
from tests.streams import cut_at, made_recordings, written
from tests.tables import rows

from eagerstream_progress import Record
from eagerstream_progress._exact import marked
from eagerstream_progress.agui import AGUIEncoder, _encoder as encoder_module, _rebuilt as rebuilt
from eagerstream_progress.agui._content import MAX_EVENT_CHARS, METADATA_KEY, bounded
from eagerstream_progress.agui._state import MAX_STATE_CHARS, StateMirror

USER = {"id": "user", "role": "user", "content": "Go on."}


class Run:
    """Records of a run, written short, and what a client makes of them; the run and its first turn have begun."""

    def __init__(
        self, *, messages: Sequence[dict[str, Any]] = (USER,), is_watched: bool = True, **options: Any
    ) -> None:
        self._is_watched = is_watched
        self.encoder = AGUIEncoder(thread_id="thread", run_id="run", messages=messages, **options)
        self.client = Client(messages)
        self.events: list[dict[str, Any]] = []
        self._seq = 0
        self._makers: dict[int, Patches] = {}
        self.tell("run_start", run="R", started_at="2026-01-01T00:00:00Z", name=None, model="claude-made-1")
        self.turn(1)

    def record(self, type: str, **fields: Any) -> Any:
        self._seq += 1
        return {"v": 1, "seq": self._seq, "at_s": float(self._seq), "type": type, **fields}

    def tell(self, type: str, **fields: Any) -> Run:
        self._take(self.encoder.encode([self.record(type, **fields)]))
        return self

    def _take(self, events: list[dict[str, Any]]) -> None:
        self.events += json.loads(json.dumps(events, allow_nan=False))
        if self._is_watched:
            self.client.take(events)

    def turn(self, number: int) -> Run:
        self.tell("turn_start", turn=number)
        return self.tell("message_start", id=f"msg_{number}", model="claude-made-1", restarted=False)

    def text(self, block: int, *pieces: str, **content: Any) -> Run:
        self.tell("block_start", block=block, index=block, kind="text")
        for piece in pieces:
            self.tell("text_delta", block=block, text=piece)
        return self.tell("block_stop", block=block, content={"type": "text", **content})

    def thinking(self, block: int, *pieces: str, **content: Any) -> Run:
        self.tell("block_start", block=block, index=block, kind="thinking")
        for piece in pieces:
            self.tell("thinking_delta", block=block, thinking=piece)
        return self.tell("block_stop", block=block, content={"type": "thinking", **content})

    def begin(self, block: int, *fragments: str, id: str | None = None, kind: str = "tool_use", **fields: Any) -> Run:
        id = f"toolu_{block}" if id is None else id
        start = {"block": block, "index": block, "id": id, "name": "tool", "kind": kind, "input": None}
        self.tell("input_start", **{**start, **fields})
        for fragment in fragments:
            self.fragment(block, fragment)
        return self

    def fragment(self, block: int, fragment: str) -> Run:
        maker = self._makers.setdefault(block, Patches())
        patch = maker.feed(fragment)
        return self.tell("input_delta", block=block, fragment=fragment, patch=patch, finished=maker.finished)

    def call(self, block: int, *fragments: str, outcome: str = "valid", **options: Any) -> Run:
        self.begin(block, *fragments, **options)
        return self.tell("input_stop", block=block, outcome=outcome, error=None)

    def result(self, block: int, content: Any = "ok", *, is_error: bool = False) -> Run:
        return self.tell("tool_stop", block=block, ran=not is_error, is_error=is_error, content=content)

    def restart(self, turn: int = 1) -> Run:
        self.tell("restarted", turn=turn, reason="interrupted", delay_s=0.0, error=None)
        return self.tell("message_start", id="msg_again", model="claude-made-1", restarted=False)

    def stop(self, status: str = "completed", *, error: Any = None, usage: Any = None) -> Client:
        self.tell("message_stop", stop_reason="end_turn", usage={})
        self.tell("turn_stop", turn=1, error=None)
        self.tell("run_stop", status=status, turns=1, usage=usage or {}, error=error)
        assert self.encoder.is_ended
        return self.client

    @property
    def told(self) -> list[tuple[str, str]]:
        """The conversation in short: who speaks, and the text, or the calls."""
        return [
            (message["role"], message.get("content") or ",".join(call["id"] for call in message.get("toolCalls") or ()))
            for message in self.client.messages
        ]


# --- the order of things ----------------------------------------------------------------------------------------------


def test_a_turn_that_broke_off() -> None:
    """The client is told of what, in our words; of an error that is not ours only that there was one."""
    for error, said in (
        ({"type": "StreamInterrupted", "text": "no byte came"}, "no byte came"),
        ({"type": "OSError", "text": "/srv/key.pem"}, "The run failed."),
    ):
        client = Run().text(1, "Let").tell("turn_stop", turn=1, error=error).turn(2).text(2, "Again.").stop()
        assert client.customs["interrupted"] == [{"turn": 1, "error": {"type": error["type"], "text": said}}]


def test_a_run() -> None:
    """Run, step, text, call, result: each begins and ends in its place, and the ids are the client's."""
    client = Run().text(1, "Let me ", "see.").call(2, '{"a": ', "1}").result(2).stop()
    assert client.types == [
        *("RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED"),
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        *("TOOL_CALL_START", "STATE_DELTA", "TOOL_CALL_ARGS", "STATE_DELTA", "TOOL_CALL_ARGS", "STATE_DELTA"),
        *("TOOL_CALL_END", "STATE_DELTA", "TOOL_CALL_RESULT", "STATE_DELTA"),
        *("STEP_FINISHED", "RUN_FINISHED"),
    ]
    assert (client.end["threadId"], client.end["runId"]) == ("thread", "run")
    assert client.end["result"] == {"status": "completed", "turns": 1, "stopReason": "end_turn"}
    call = {"name": "tool", "kind": "tool_use", "phase": "done", "outcome": "valid", "input": {"a": 1}}
    assert client.state == {"toolCalls": {"toolu_2": call}}


def test_text_and_calls_keep_their_order() -> None:
    """What a reply says after a call stands behind it, and behind its result."""
    run = Run().text(1, "one").text(2, " two").call(3).call(4).text(5, "three").call(6)
    for block in (6, 4, 3):
        run.result(block, f"result {block}")
    run.stop()
    assert run.told == [
        ("user", "Go on."),
        ("assistant", "one two"),
        ("tool", "result 4"),
        ("tool", "result 3"),
        ("assistant", "three"),
        ("tool", "result 6"),
    ]
    assert [len(message.get("toolCalls", ())) for message in run.client.messages] == [0, 2, 0, 0, 1, 0]


def test_blocks_that_are_written_at_once() -> None:
    """A peer that mixes the deltas of its blocks loses nothing."""
    run = Run().tell("block_start", block=1, index=0, kind="text").tell("text_delta", block=1, text="a")
    run.begin(2, '{"x":').tell("text_delta", block=1, text="b").begin(3, "{}").fragment(2, "1}")
    for block in (2, 3):
        run.tell("input_stop", block=block, outcome="valid", error=None)
    run.tell("block_stop", block=1, content={"type": "text"})
    client = run.stop()
    assert "".join(text for role, text in run.told if role == "assistant" and not text.startswith("toolu")) == "ab"
    assert [call["function"]["arguments"] for call in client.calls.values()] == ['{"x":1}', "{}"]


def test_thinking() -> None:
    """Thinking is reasoning, its signature the encrypted value; so is what was redacted, which is marked."""
    run = Run().thinking(1, "hm", "m", signature="c2ln")
    run.tell("block_start", block=2, index=1, kind="redacted_thinking")
    run.tell("block_stop", block=2, content={"type": "redacted_thinking", "data": "cmVk"})
    thought, redacted, said = run.text(3, "So.").stop().messages[1:]
    assert (thought["role"], thought["content"], thought["encryptedValue"]) == ("reasoning", "hmm", "c2ln")
    assert (redacted["content"], redacted["encryptedValue"]) == ("", "cmVk")
    assert redacted["metadata"] == {"eagerstream": {"type": "redacted_thinking"}}
    assert said["content"] == "So."


def test_citations() -> None:
    """What a text cites is in the metadata of its message."""
    citation = {"type": "char_location", "cited_text": "High water 18:40", "document_index": 0}
    client = Run().text(1, "At ").text(2, "18:40", citations=[citation]).text(3, ".").stop()
    assert client.messages[1]["metadata"]["eagerstream"]["citations"] == [citation]


def test_a_call_that_the_api_runs() -> None:
    """It is marked, and its result is what the result's block says, whenever that comes."""
    run = Run().call(1, '{"query": "tide"}', id="srvtoolu_1", kind="server_tool_use")
    assert run.client.state["toolCalls"]["srvtoolu_1"]["phase"] == "running"
    found = [{"type": "web_search_result", "url": "https://example.com"}]
    run.tell("turn_stop", turn=1, error=None).turn(2)
    run.tell("block_start", block=2, index=0, kind="web_search_tool_result")
    block = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found}
    run.tell("block_stop", block=2, content=block)
    client = run.text(3, "Found.").stop()
    assert json.loads(client.results["srvtoolu_1"]["content"]) == found
    assert client.calls["srvtoolu_1"]["metadata"] == {"eagerstream": {"kind": "server_tool_use"}}
    assert run.told[-1] == ("assistant", "Found.")


def test_a_call_that_the_api_never_answers() -> None:
    """Clients take a call without a result for one of their own: at the end, each has one."""
    client = Run().call(1, "{}", id="srvtoolu_1", kind="server_tool_use").stop()
    assert client.results["srvtoolu_1"]["metadata"] == {"eagerstream": {"isError": True}}


@rows("outcome", ["invalid", "incomplete"])
def test_inputs_that_are_not_whole(outcome: str) -> None:
    """The raw text stays, the call is ended, its result says why; also where the run says nothing more of it."""
    run = Run().call(1, '{"a": "b', outcome=outcome).begin(2, '{"c": ')
    run.result(1, "Not executed", is_error=True)
    client = run.stop()
    assert [call["function"]["arguments"] for call in client.calls.values()] == ['{"a": "b', '{"c": ']
    assert [each["outcome"] for each in client.state["toolCalls"].values()] == [outcome, "incomplete"]
    assert [each["phase"] for each in client.state["toolCalls"].values()] == ["failed", "failed"]
    assert all(result["metadata"]["eagerstream"]["isError"] for result in client.results.values())
    assert len(client.results) == 2


def test_an_input_that_is_empty_or_came_whole() -> None:
    """The arguments are JSON text: `{}` for no text at all, and the object where it came without fragments."""
    client = Run().call(1).call(2, input={"days": [1, 2]}).stop()
    assert [json.loads(call["function"]["arguments"]) for call in client.calls.values()] == [{}, {"days": [1, 2]}]
    assert client.state["toolCalls"]["toolu_2"]["input"] == {"days": [1, 2]}


def test_a_tool_that_runs_inside_its_input() -> None:
    """Its result may come first, and waits for the end of the input. Without one, that end does not make it wait."""
    run = Run().begin(1, '{"a": 1').tell("tool_start", block=1).begin(2, "{").tell("tool_start", block=2)
    run.result(1, "enough").fragment(1, "}").fragment(2, "}")
    assert "TOOL_CALL_RESULT" not in run.client.types
    for block in (1, 2):
        run.tell("input_stop", block=block, outcome="valid", error=None)
    assert [call["phase"] for call in run.client.state["toolCalls"].values()] == ["done", "running"]
    assert run.stop().results["toolu_1"]["content"] == "enough"


def test_progress_and_approval() -> None:
    """Progress is a custom event with the id of the call; a question is a phase in the state, and an interrupt."""
    run = Run().call(1, "{}").tell("approval_start", block=1)
    assert run.client.state["toolCalls"]["toolu_1"]["phase"] == "approval"
    run.tell("approval_stop", block=1, approved=True, reason=None)
    assert run.client.state["toolCalls"]["toolu_1"]["phase"] == "waiting"
    client = run.tell("tool_start", block=1).tell("tool_progress", block=1, value={"done": 0.5}).result(1).stop()
    assert client.customs == {
        "tool_progress": [{"toolCallId": "toolu_1", "value": {"done": 0.5}}],
    }


def test_what_the_protocol_has_no_word_for() -> None:
    """Events and blocks that nobody knows pass as raw events; one that is too large only says so."""
    run = Run().tell("unknown", event={"type": "new_event", "x": 1})
    run.tell("block_start", block=1, index=0, kind="new_block")
    run.tell("block_stop", block=1, content={"type": "new_block", "y": 2})
    client = run.tell("unknown", event={"type": "huge", "z": "z" * 2_000_000}).stop()
    assert client.raw[:2] == [{"type": "new_event", "x": 1}, {"type": "new_block", "y": 2}]
    assert [*client.raw[2]] == ["leftOut"]


def test_the_largest_event() -> None:
    """A value may have `MAX_EVENT_CHARS` characters as JSON; a larger one is only counted."""
    value = "z" * (MAX_EVENT_CHARS - 2)  # its quotes count
    assert bounded(value) == value
    assert bounded(value + "z") == {"leftOut": f"{MAX_EVENT_CHARS + 1:,} characters"}


def test_results_with_pictures() -> None:
    """Blocks become parts; what has no part is there as JSON, what is too large is named."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    linked = {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}
    filed = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
    plain = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}}
    huge = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 7_000_000}}
    other = {"type": "search_result", "title": "Tide", "source": "https://example.com", "content": []}
    run = Run().call(1, "{}").result(1, [{"type": "text", "text": "see"}, image, linked, filed, plain, huge, other])
    text, picture, document, file, note, left_out, unknown = run.stop().results["toolu_1"]["content"]
    assert text == {"type": "text", "text": "see"}
    assert picture["source"] == {"type": "data", "value": "aGk=", "mimeType": "image/png"}
    assert document["source"] == {"type": "url", "value": "https://example.com/a.pdf"}
    assert file["source"] == {"type": "file", "value": "file_1", "provider": "anthropic"}
    assert note["source"] == {"type": "data", "value": "aGk=", "mimeType": "text/plain"}
    assert "Left out: image" in left_out["text"]
    assert json.loads(unknown["text"]) == other


# --- ids --------------------------------------------------------------------------------------------------------------


@rows("id", ["", "__proto__", "constructor", "toolu_1", "earlier", "a/b~c"])
def test_ids_of_calls(id: str) -> None:
    """Ids come from a model: one that is taken, or that a client trips over, is replaced; any other stays."""
    earlier = {"id": "m", "role": "assistant", "toolCalls": [{"id": "earlier", "type": "function", "function": {}}]}
    run = Run()
    run.encoder = AGUIEncoder(messages=[USER, earlier])
    run.client = Client([USER, earlier])
    run.tell("run_start", run="R", started_at="2026-01-01T00:00:00Z", name=None, model=None)
    run.turn(1).call(1, '{"n": 1}').call(2, '{"n": 2}', id=id).result(1, "one").result(2, "two")
    client = run.stop()
    first, second = [*client.calls][-2:]
    assert (second == id) is (id == "a/b~c")
    assert client.state["toolCalls"][second]["input"] == {"n": 2}
    assert (client.results[first]["content"], client.results[second]["content"]) == ("one", "two")


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_a_restart_takes_back_what_came_of_the_turn() -> None:
    """Nothing void is left in the messages or in the state; what came before the turn is, and the client's own."""
    run = Run().text(1, "Kept.").call(2, "{}").result(2).tell("turn_stop", turn=1, error=None).turn(2)
    run.text(3, "Void.").begin(4, '{"a": ').restart(2)
    assert run.told == [("user", "Go on."), ("assistant", "Kept."), ("tool", "ok")]
    assert [*run.client.state["toolCalls"]] == ["toolu_2"]
    run.fragment(4, "1}").result(4)  # nobody wants it any more
    client = run.text(5, "Again.").call(6, '{"a": 1}', id="toolu_4").result(6, "six").stop()
    assert client.calls["toolu_4"]["function"]["arguments"] == '{"a": 1}'
    assert client.results["toolu_4"]["content"] == "six"
    assert client.customs["restarted"][0]["turn"] == 2
    assert "Void." not in json.dumps(client.messages)


def test_a_message_that_begins_again_within_its_reply() -> None:
    """A gateway's own retry is a restart, too."""
    run = Run().text(1, "Void.").begin(2, "{")
    run.tell("message_start", id="msg_2", model="claude-made-1", restarted=True).text(3, "Again.").stop()
    assert run.told == [("user", "Go on."), ("assistant", "Again.")]


def test_a_restart_of_thinking() -> None:
    """A client keeps its reasoning where a snapshot has none: it is emptied, and filled by the next attempt."""
    run = Run().thinking(1, "void").restart()
    assert run.told == [("user", "Go on."), ("reasoning", "")]
    run.thinking(2, "new ", "thoughts", signature="c2ln").restart().thinking(3, "last", signature="bGFzdA")
    run.text(4, "So.").stop()
    assert run.told == [("user", "Go on."), ("reasoning", "last"), ("assistant", "So.")]
    assert run.client.messages[1]["encryptedValue"] == "bGFzdA"


def test_a_restart_beside_thinking_that_stays() -> None:
    """Where a snapshot has reasoning, it is the whole of it: what is void goes."""
    given_messages = [USER, {"id": "r", "role": "reasoning", "content": "before"}]
    run = Run(messages=given_messages).thinking(1, "void").restart().text(2, "So.")
    run.stop()
    assert run.told == [("user", "Go on."), ("reasoning", "before"), ("assistant", "So.")]


def test_a_restart_takes_back_the_result_of_an_earlier_call() -> None:
    """The result of a call that the API ran in a paused turn comes again with the next attempt."""
    run = Run().call(1, "{}", id="srvtoolu_1", kind="server_tool_use").tell("turn_stop", turn=1, error=None).turn(2)
    block = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": "void"}
    run.tell("block_stop", block=2, content=block).restart(2)
    assert run.client.results == {}
    run.tell("block_stop", block=3, content={**block, "content": "found"})
    assert run.stop().results["srvtoolu_1"]["content"] == "found"


def test_a_restart_in_a_conversation_too_long_for_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client would give up on it: what is void stays, ended and with a result that says so."""
    monkeypatch.setattr(rebuilt, "MAX_SNAPSHOT_CHARS", 50)
    run = Run().text(1, "Void.").call(2, '{"a": 1}').restart().text(3, "Again.").call(4, "{}", id="toolu_2").result(4)
    client = run.stop()
    assert "Void" in client.results["toolu_2"]["content"]
    assert len(client.calls) == len(client.results) == 2


# --- the end ----------------------------------------------------------------------------------------------------------


def test_errors() -> None:
    """Our own errors in their words, without secrets; of any other only the class."""
    key = "sk-ant-api03-hunter2hunter2hunter2"
    client = Run().begin(1, "{").stop("error", error={"type": "APIError", "text": f"no such key: {key}"})
    assert client.end["code"] == "APIError"
    assert client.end["message"].startswith("no such key")
    assert "hunter2" not in client.end["message"]
    other = Run().stop("error", error={"type": "OperationalError", "text": "postgres://me:hunter2@db"})
    assert (other.end["code"], other.end["message"]) == ("OperationalError", "The run failed.")


def test_an_end_that_the_records_do_not_have() -> None:
    """A log that was cut still ends, once."""
    run = Run().text(1, "So far").begin(2, "{")
    run._take(run.encoder.fail("The run ended early.", code="ended_early"))
    assert run.client.end["type"] == "RUN_ERROR"
    assert run.encoder.fail("again") == []
    assert run.encoder.encode([run.record("text_delta", block=1, text="more")]) == []
    assert [event["type"] for event in AGUIEncoder().fail("Nothing began.")][-1] == "RUN_ERROR"


@rows("status", ["completed", "refused", "truncated", "limit", "paused", "unknown", "cancelled"])
def test_how_runs_end(status: str) -> None:
    """A run that did not fail has finished, and says how. The protocol has a word for one that was cancelled."""
    end = Run().text(1, "So.").begin(2, "{").stop(status).end
    if status == "cancelled":
        assert end["outcome"] == {"type": "cancelled"}
    else:
        assert (end["result"]["status"], end["outcome"]) == (status, {"type": "success"})


def test_usage() -> None:
    """The protocol's total of the input is with what was read from a cache or written to it; nonsense is left out."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 7}
    client = Run().stop(usage=usage)
    assert client.end["usage"] == [
        {
            "provider": "anthropic",
            "model": "claude-made-1",
            "inputTokens": 17,
            "outputTokens": 7,
            "totalTokens": 24,
            "cachedInputTokens": 5,
            "cacheWriteInputTokens": 2,
        }
    ]
    nonsense = Run().stop(usage={"input_tokens": -1, "output_tokens": True, "cache_read_input_tokens": 2**70})
    assert "usage" not in nonsense.end


def test_calls_that_the_application_answers() -> None:
    """Once only they are left, the run may be cancelled: it has succeeded, and names them in their order."""
    run = Run().call(1, "{}").call(2, "{}").call(3, "{}")
    run.tell("tool_start", block=3).tell("tool_progress", block=3, value=encoder_module.AWAITS_APPLICATION)
    run.tell("tool_start", block=1).tell("tool_progress", block=1, value=encoder_module.AWAITS_APPLICATION)
    run.tell("message_stop", stop_reason="tool_use", usage={})
    assert not run.encoder.awaits_application  # the second call is still to run
    run.result(2)
    assert run.encoder.awaits_application
    client = run.result(1, "cancelled", is_error=True).result(3, "cancelled", is_error=True).stop("cancelled")
    assert client.end["outcome"] == {"type": "success", "pendingToolCallIds": ["toolu_1", "toolu_3"]}
    assert [*client.results] == ["toolu_2"]
    assert client.state["toolCalls"]["toolu_1"]["phase"] == "pending"


# --- text that does not fit -------------------------------------------------------------------------------------------


def test_halves_of_a_surrogate_pair() -> None:
    """A pair that is cut between two fragments reaches the client as one character."""
    run = Run().text(1, "a\ud83d", "\ude00b").call(2, '"\ud83d', '\ude00"', outcome="invalid")
    deltas = [event["delta"] for event in run.events if "delta" in event and isinstance(event["delta"], str)]
    assert deltas == ["a", "\U0001f600b", '"', '\U0001f600"']
    half = Run().call(1, '"\ud83d', outcome="invalid")  # the other half never comes: nothing is lost
    assert half.client.calls["toolu_1"]["function"]["arguments"] == '"\ud83d'


def test_events_stay_below_what_a_client_takes() -> None:
    """A delta of many megabytes, as those who come late get it, is sent in pieces."""
    text = "x" * 3_000_000
    run = Run().text(1, text).call(2, f'{{"a": "{text}"}}')
    assert max(len(json.dumps(event)) for event in run.events) < 1_200_000
    assert run.client.messages[1]["content"] == text
    assert run.client.calls["toolu_2"]["function"]["arguments"] == f'{{"a": "{text}"}}'


def test_texts_that_are_no_longer_kept() -> None:
    """What a log had to leave out is marked in a text, and for a call told in its metadata and in its state."""
    run = Run().tell("text_delta", block=1, text="", omitted_chars=12_345)
    run.begin(2).tell("input_delta", block=2, fragment="", patch=[], finished=[], omitted_chars=99)
    op = {"op": "append", "path": "/a", "value": "more"}
    run.tell("input_delta", block=2, fragment='more"}', patch=[op], finished=[])
    run.tell("input_stop", block=2, outcome="valid", error=None)
    client = run.stop()
    assert "12,345" in client.messages[1]["content"]
    assert client.calls["toolu_2"]["metadata"] == {"eagerstream": {"omittedChars": 99}}
    assert client.state["toolCalls"]["toolu_2"]["truncated"] is True


# --- the state --------------------------------------------------------------------------------------------------------

_KEYS = st.text(max_size=4) | st.sampled_from(["a", "a/b", "~", "~1", "", "-", "0", "toString", "$number", "$$number"])
_BARRED = st.sampled_from(["__proto__", "constructor", "prototype"])


def _documents(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    leaves = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.just(2**53 + 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text()
    )
    values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=12)
    return st.dictionaries(keys, values, max_size=6)


def _without_barred(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {
            key: _without_barred(item, key)
            for key, item in value.items()
            if key != "__proto__" and not (name == "constructor" and key == "prototype")
        }
    return [_without_barred(item) for item in value] if isinstance(value, list) else value


def _check_partials(raw: str, cuts: Sequence[int], batches: int) -> None:
    """After each patch, the input in the state is one that was there before, and none earlier than the last one."""
    maker = Patches()
    mirror, partials, last = StateMirror(), ["null"], 0
    state: Any = {"toolCalls": {}}
    client = Client()
    client.state = state
    mirror.start("c", {"name": "tool"})
    for number, piece in enumerate(cut_at(raw, cuts)):
        mirror.patch("c", maker.feed(piece))
        value = maker.parser.value
        partials.append(written(marked(_without_barred(deepcopy(value))) if isinstance(value, dict) else None))
        if number % batches == 0:
            client._apply({"type": "STATE_DELTA", "delta": deepcopy(mirror.take())})
            last = partials.index(written(client.state["toolCalls"]["c"]["input"]), last)
    mirror.set("c", phase="done")
    client._apply({"type": "STATE_DELTA", "delta": mirror.take()})
    assert written(client.state["toolCalls"]["c"]["input"]) == partials[-1]


_CUTS = st.lists(st.integers(0, 300), max_size=30)


@settings(max_examples=25)
@example({"a": ["xy"]}, [9], 1)
@given(_documents(_KEYS | _BARRED), _CUTS, st.integers(1, 4))
def test_each_patch_gives_a_partial(document: Any, cuts: list[int], batches: int) -> None:
    """Any document, cut anywhere, in batches of any size. Keys that a client refuses are in no patch."""
    _check_partials(json.dumps(document), cuts, batches)


@settings(max_examples=15)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), _documents(_KEYS) | st.text()), max_size=4), st.lists(st.integers(0, 200))
)
def test_repeated_keys(pairs: list[tuple[str, Any]], cuts: list[int]) -> None:
    """The last value of a key counts."""
    fields = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in pairs)
    _check_partials(f"{{{', '.join(fields)}}}", cuts, 1)


def test_a_long_string_costs_a_multiple_of_itself() -> None:
    """RFC 6902 cannot append; sending the string whole each time would cost the square of its length."""
    run = Run().begin(1, '{"text": "')
    for number in range(1_000):
        run.fragment(1, f"{number:07d} ")
    run.fragment(1, '"}').tell("input_stop", block=1, outcome="valid", error=None)
    sent = sum(len(json.dumps(event)) for event in run.events if event["type"] == "STATE_DELTA")
    assert sent < 10 * 8_000
    assert len(run.client.state["toolCalls"]["toolu_1"]["input"]["text"]) == 8_000


def test_inputs_too_large_for_the_state() -> None:
    """Beyond the bound a call's input stays as it is, and says so; its arguments are whole; other calls go on."""
    run = Run().begin(1, '{"text": "')
    for _ in range(MAX_STATE_CHARS // 100_000 + 1):
        run.fragment(1, "x" * 100_000)
    run.fragment(1, '", "more": 1}').tell("input_stop", block=1, outcome="valid", error=None)
    client = run.call(2, '{"n": 1}').stop()
    first, second = client.state["toolCalls"].values()
    assert first["truncated"] is True
    assert MAX_STATE_CHARS * 0.8 < len(first["input"]["text"]) <= MAX_STATE_CHARS
    assert json.loads(client.calls["toolu_1"]["function"]["arguments"])["more"] == 1
    assert second["input"] == {"n": 1}


@rows("path", ["/b", "/a/0", "/c/5", "/c/x", "/d"])
def test_patches_that_do_not_fit(path: str) -> None:
    """Records may come from a file that anybody wrote: an input that goes on where nothing is stays as it was."""
    run = Run().begin(1)
    first = {"op": "add", "path": "", "value": {"a": "x", "c": ["y"], "d": 1}}
    for op in (first, {"op": "append", "path": path, "value": "z"}, {"op": "add", "path": "/e", "value": 2}):
        run.tell("input_delta", block=1, fragment="x", patch=[op], finished=[])
    (call,) = run.stop().state["toolCalls"].values()
    assert (call["input"], call["truncated"]) == (first["value"], True)


def test_a_restart_makes_room_in_the_state() -> None:
    """What is void no longer counts."""
    run = Run()
    for block in range(1, 5):
        run.begin(block, '{"text": "' + "x" * (MAX_STATE_CHARS // 2)).restart()
    client = run.call(5, '{"n": 1}').stop()
    assert client.state["toolCalls"] == {"toolu_5": {**client.state["toolCalls"]["toolu_5"], "input": {"n": 1}}}


def test_the_state_that_the_client_has_already() -> None:
    """It stays, but for the calls of an earlier run."""
    run = Run(state={"cart": [1], "toolCalls": {"old": {}}})
    assert run.client.state == {"cart": [1], "toolCalls": {}}
    assert Run(state=[1]).client.state == {"toolCalls": {}}


# --- any order --------------------------------------------------------------------------------------------------------


class AnyRun(Run):
    """Does what it is told by numbers, as far as the records of a run may come so."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._block = 0
        self._turn = 1
        self._open: dict[int, str] = {}  # blocks of this message
        self._calls: list[int] = []  # of this turn, or void

    def act(self, action: str, number: int) -> None:
        block = [*self._open][number % len(self._open)] if self._open else 0
        kind = self._open.get(block)
        call = self._calls[number % len(self._calls)] if self._calls else 0
        match action:
            case "text" | "thinking" | "redacted_thinking" | "new_block":
                self._open[self._opened()] = action
                self.tell("block_start", block=self._block, index=self._block, kind=action)
            case "call":
                self._calls.append(self._opened())
                self._open[self._block] = action
                self.begin(self._block, id=f"toolu_{number % 3}", kind=["tool_use", "server_tool_use"][number % 2])
            case "delta" if kind == "call":
                self.fragment(block, ['{"a": "', "x", '", "b": [1, ', "]}"][number % 4])
            case "delta" if kind in ("text", "thinking"):
                self.tell(f"{kind}_delta", **{"block": block, kind: "x" * (number % 3)})
            case "stop" if kind == "call":
                del self._open[block]
                self.tell("input_stop", block=block, outcome=["valid", "invalid", "incomplete"][number % 3], error=None)
            case "stop" if kind is not None:
                del self._open[block]
                result = {"tool_use_id": f"toolu_{number % 3}"} if kind == "new_block" else {}
                self.tell("block_stop", block=block, content={"type": kind, "signature": "s", **result})
            case "tool_start" if call:
                self.tell("tool_start", block=call)
            case "result" if call:
                self.result(call, "ok", is_error=number % 2 == 0)
            case "restart":
                self._open.clear()
                self.restart(self._turn)
            case "turn":
                self._open.clear()
                self._turn += 1
                self.tell("turn_stop", turn=self._turn - 1, error=None).turn(self._turn)
            case _:
                pass

    def _opened(self) -> int:
        self._block += 1
        return self._block


_ACTIONS = [
    *("text", "thinking", "redacted_thinking", "new_block", "call", "call", "delta", "delta", "delta", "stop", "stop"),
    *("tool_start", "result", "result", "restart", "turn"),
]
_SCRIPTS = st.lists(st.tuples(st.sampled_from(_ACTIONS), st.integers(0, 11)), min_size=10, max_size=60)


@settings(max_examples=20)
@given(_SCRIPTS, st.booleans())
def test_any_order(script: list[tuple[str, int]], has_reasoning: bool) -> None:
    """Whatever happens in whatever order: the rules of the protocol hold, and what the encoder has is the client's."""
    before = [{"id": "r", "role": "reasoning", "content": "before"}] if has_reasoning else []
    run = AnyRun(messages=[USER, *before])
    for action, number in script:
        run.act(action, number)
    client = run.stop()
    assert client.results.keys() == client.calls.keys() == client.state["toolCalls"].keys()
    rendered = [part for message in run.encoder._conversation.messages for part in message.rendered(void_turn=0)]
    ours = {message["id"]: message for message in client.messages[1 + len(before) :]}
    assert ours == {message["id"]: message for message in rendered}


@pytest.mark.slow
def test_the_real_client_rebuilds_the_same() -> None:
    """Of many runs in which anything happens, `@ag-ui/client` has the messages and the state that our own client has."""
    numbers = random.Random(1)
    runs = []
    for number in range(300):
        before = [{"id": "r", "role": "reasoning", "content": "before"}] if number % 2 else []
        run = AnyRun(messages=[USER, *before])
        for _ in range(30):
            run.act(numbers.choice(_ACTIONS), numbers.randrange(12))
        run.stop()
        runs.append((run, {"events": run.events, "messages": [USER, *before]}))
    for (run, _), outcome in zip(
        runs, run_client("agui.mjs", given={"streams": [each for _, each in runs]}), strict=True
    ):
        assert (outcome["error"], outcome["warnings"]) == (None, [])
        assert outcome["messages"] == run.client.messages
        assert outcome["state"] == run.client.state


# --- all that happens -------------------------------------------------------------------------------------------------


def _encoded(records: list[Record], at_once: int) -> list[dict[str, Any]]:
    encoder = AGUIEncoder(thread_id="thread", run_id="run", messages=[USER])
    events = [event for at in range(0, len(records), at_once) for event in encoder.encode(records[at : at + at_once])]
    assert encoder.is_ended
    return deepcopy(events)


def _ways(told: Told) -> Iterable[list[dict[str, Any]]]:
    """One by one, some at once, and as those get it who come late."""
    return _encoded(told.records, 1), _encoded(told.records, 7), _encoded(told.snapshot, len(told.snapshot))


def _check(told: Told, messages: Sequence[dict[str, Any]], state: Any, *, is_error: bool) -> None:
    """The rebuilt messages have our inputs and results, and the state our partials."""
    calls = {call["id"]: call for message in messages for call in message.get("toolCalls") or ()}
    results = {message["toolCallId"]: message for message in messages if message["role"] == "tool"}
    views = told.calls()
    assert is_error is (told.records[-1]["type"] == "run_stop" and told.records[-1]["status"] == "error")
    assert [call["function"]["name"] for call in calls.values()] == [view.name for view in views]
    assert [call["function"]["arguments"] for call in calls.values()] == [
        view.raw or (json.dumps(view.partial) if view.outcome == "valid" else "") for view in views
    ]
    assert [each["input"] or {} for each in state["toolCalls"].values()] == [view.partial for view in views]
    assert [each["outcome"] for each in state["toolCalls"].values()] == [view.outcome or "incomplete" for view in views]
    assert results.keys() == calls.keys(), "each call has its result"
    stops = {record["block"]: record for record in told.records if record["type"] == "tool_stop"}
    for view, result in zip(views, (results[id] for id in calls), strict=True):
        if view.block in stops:
            stop = stops[view.block]
            if isinstance(stop["content"], str):
                assert result["content"] == stop["content"]
            else:
                assert [part["type"] for part in result["content"]] == [block["type"] for block in stop["content"]]
            assert bool(METADATA_KEY in result.get("metadata", {})) is stop["is_error"]


def _check_all(all_told: Iterable[Told]) -> None:
    for told in all_told:
        for events in _ways(told):
            client = Client([USER])
            client.take(events)
            assert client.last is not None, told.name
            _check(told, client.messages, client.state, is_error=client.end["type"] == "RUN_ERROR")


def test_recordings() -> None:
    """Each of our own recordings is a stream that the rules of the protocol allow, with our inputs and results."""
    _check_all(told_recordings(made_recordings()))


@pytest.mark.nightly
@pytest.mark.timeout(200)
def test_all_recordings_and_connections_that_are_lost() -> None:
    """As above, for every recording, and a connection that is lost within events."""
    _check_all(chain(told_recordings(), told_faults(at_bytes(step=31))))


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_the_real_client() -> None:
    """`@ag-ui/client` accepts each recording and each fault, without a warning, and rebuilds our inputs and results."""
    all_told = [*told_recordings(), *told_faults(at_events())]
    streams = [(told, events) for told in all_told for events in _ways(told)]
    given = {"streams": [{"events": events, "messages": [USER]} for _, events in streams]}
    for (told, _), outcome in zip(streams, run_client("agui.mjs", given=given), strict=True):
        assert (outcome["error"], outcome["warnings"]) == (None, []), told.name
        _check(told, outcome["messages"], outcome["state"], is_error=outcome["runError"] is not None)


@pytest.mark.slow
def test_the_real_client_and_hostile_inputs() -> None:
    """Keys that pollute prototypes, deep nesting, lone surrogates: no warning, the raw text whole, the state, too."""
    raws = [
        '{"__proto__": {"x": 1}, "constructor": {"prototype": {"y": 2}, "z": 3}, "toString": "w"}',
        '{"a": {"__proto__": ["x", {"deep": "text"}], "b": "c"}, "": {"/": {"~": "~1"}}}',
        '{"a":' * 500 + "1" + "}" * 500,
        '{"half": "\\ud800", "\\udc00": 1}',
    ]
    streams = []
    for raw in raws:
        run = Run(is_watched=False).call(1, *(raw[at : at + 3] for at in range(0, len(raw), 3))).result(1)
        run.stop()
        streams.append({"events": run.events, "messages": [USER]})
    told = run_client("agui.mjs", given={"streams": streams})
    for raw, outcome in zip(raws, told, strict=True):
        assert (outcome["error"], outcome["warnings"]) == (None, [])
        assert outcome["messages"][1]["toolCalls"][0]["function"]["arguments"] == raw
        state = outcome["state"]["toolCalls"]["toolu_1"]["input"]
        assert state == (json.loads(raw) if raw.startswith('{"a":{') else _without_barred(json.loads(raw)))
