"""`RecordingFolder`: names, order, modes, masking, and what happens where nothing can be written."""

from __future__ import annotations

import json
import logging
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from eagerstream.errors import UsageError
from eagerstream.recordings import Recording
from eagerstream_testing import reply, text, tool_use
from eagerstream_testing.capture import RecordingFolder, SavedReply

KEY = "sk-ant-api03-Zx9_abc-DEF"
HEADERS = [("content-type", "text/event-stream"), ("Set-Cookie", "hunter2"), ("request-id", "req_1")]
REQUEST: dict[str, Any] = {"model": "m-1", "tools": [{"name": "f", "input_schema": {"properties": {"city": {}}}}]}


def tape_reply(folder: RecordingFolder, said: str = "Hello", *, cut: str = "", request: Any = None) -> None:
    tape = folder.begin(REQUEST if request is None else request, host="api.test")
    tape.begin(200, HEADERS)
    tape.take(reply(text(said), tool_use("f", {"city": said})).body)
    tape.end(cut)


def names(folder: RecordingFolder) -> list[str]:
    folder.flush()
    return sorted(path.name for path in folder.path.iterdir())


def test_files_are_numbered_by_their_requests(tmp_path: Path) -> None:
    """Whichever reply ends first; a request without a reply leaves its number out."""
    folder = RecordingFolder(tmp_path)
    first, unanswered, third = (folder.begin(REQUEST) for _ in range(3))
    for tape, data in ((third, b"3"), (first, b"1")):
        tape.begin(200, HEADERS)
        tape.take(data)
        tape.end()
    unanswered.end("nothing came")
    assert names(folder) == ["0001.jsonl", "0003.jsonl"]
    assert [Recording.load(tmp_path / name).body for name in names(folder)] == [b"1", b"3"]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """Numbers go on after those that are there; what is half written by another program is left alone, too."""
    for name in ("0007.jsonl", "0009.jsonl.part", "notes.txt"):
        (tmp_path / name).write_text("mine")
    folder = RecordingFolder(tmp_path)
    tape_reply(folder)
    other = RecordingFolder(tmp_path)
    tape_reply(other)
    folder.flush()
    other.flush()
    tape_reply(folder)
    assert names(folder) == [
        "0007.jsonl",
        "0009.jsonl.part",
        "0010.jsonl",
        "0011.jsonl",
        "0012.jsonl",
        "notes.txt",
    ]
    assert (tmp_path / "0007.jsonl").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="files have no modes there")
def test_only_the_owner_reads_them(tmp_path: Path) -> None:
    """They hold conversations; the folder is made so, too."""
    folder = RecordingFolder(tmp_path / "a" / "b")
    tape_reply(folder)
    assert names(folder) == ["0001.jsonl"]
    assert stat.S_IMODE((folder.path / "0001.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) & 0o077 == 0


def test_what_is_known_of_a_reply(tmp_path: Path) -> None:
    """The note says where it is from; headers of the connection go, and times count from the request."""
    saved: list[SavedReply] = []
    folder = RecordingFolder(tmp_path, on_saved=saved.append)
    tape = folder.begin(b'{"model": "m-1"}', host="api.test:8080")
    tape.begin(529, [*HEADERS, ("Transfer-Encoding", "chunked"), ("a", "1"), ("A", "2")])
    for data in (b"one", b"", b"two"):
        tape.take(data)
    tape.end("the client left")
    folder.flush()
    loaded = Recording.load(tmp_path / "0001.jsonl")
    assert loaded.note == "recorded from api.test:8080, m-1, HTTP 529; the client left"
    assert loaded.headers == {
        "content-type": "text/event-stream",
        "set-cookie": "[redacted]",
        "request-id": "req_1",
        "a": "1, 2",
    }
    assert [chunk.data for chunk in loaded.chunks] == [b"one", b"two"]
    assert 0 < loaded.chunks[0].at_s <= loaded.chunks[1].at_s
    assert saved == [SavedReply(tmp_path / "0001.jsonl", 529, loaded.duration_s, 2, 6, "the client left")]


@pytest.mark.parametrize("as_body", [False, True])
def test_masking(as_body: bool, tmp_path: Path) -> None:
    """Secrets go unless they are to be kept, contents on request; the keys that the request declares stay."""
    request = (
        b'{"tools":[{"name":"f","input_schema":{"$defs":{"x":{"properties":{"city":{}}}}}}]}' if as_body else REQUEST
    )
    for has_key in (False, True):
        folder = RecordingFolder(tmp_path / f"{has_key}", keep_secrets=has_key)
        tape_reply(folder, f"Words and {KEY}", request=request)
        folder.flush()
        content = (folder.path / "0001.jsonl").read_text()
        loaded = Recording.load(folder.path / "0001.jsonl")
        assert ("hunter2" in content) is has_key
        assert (KEY in reply_text(loaded)) is has_key
        assert "Words" in reply_text(loaded)
    folder = RecordingFolder(tmp_path / "contents", redact_contents=True)
    tape_reply(folder, "Words", request=request)
    folder.flush()
    body = Recording.load(folder.path / "0001.jsonl").body
    assert b"Words" not in body.replace(b"\n", b"")
    said = "".join(input_pieces(body))
    assert said == '{"city": "*****"}'


def test_a_long_request_is_not_parsed_for_a_note(tmp_path: Path) -> None:
    """Other replies would wait; its keys are looked for all the same where contents are masked."""
    body = json.dumps({**REQUEST, "messages": "x" * 1_100_000}).encode()
    for masked in (False, True):
        folder = RecordingFolder(tmp_path / f"{masked}", redact_contents=masked)
        tape_reply(folder, "Words", request=body)
        folder.flush()
        made = Recording.load(folder.path / "0001.jsonl")
        assert ("m-1" in made.note) is masked
        assert "city" in "".join(input_pieces(made.body))
        assert ("Words" in reply_text(made)) is not masked


def reply_text(recording: Recording) -> str:
    return "".join(event["delta"].get("text", "") for event in deltas(recording.body))


def input_pieces(body: bytes) -> list[str]:
    return [event["delta"].get("partial_json", "") for event in deltas(body)]


def deltas(body: bytes) -> list[dict[str, Any]]:
    from tests.streams import wire_events

    return [event for event in wire_events(body) if event["type"] == "content_block_delta"]


@pytest.mark.skipif(sys.platform == "win32", reason="folders are not protected in this way there")
def test_what_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One warning, however many there are; nothing is raised, and it goes on where it can again."""
    folder = RecordingFolder(tmp_path / "gone")
    folder.path.rmdir()
    for _ in range(3):
        tape_reply(folder, "secret words")
    folder.flush()
    assert folder.lost == 3
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.message == f"{folder.path}: a recording cannot be written: No such file or directory"
    folder.path.mkdir()
    tape_reply(folder)
    assert names(folder) == ["0004.jsonl"]


def test_at_the_end_of_the_program(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What ends after the last moment in which threads can be given work is lost with a warning."""
    folder = RecordingFolder(tmp_path)
    folder._writer.shutdown()
    for request in (REQUEST, b"{}"):
        tape_reply(folder, request=request)
    assert [record.message for record in caplog.records] == [
        f"{tmp_path}: the program ended before a recording was written"
    ]


def test_what_http_does_not_have(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A peer may send any status; that is no recording, and no reason to fail."""
    folder = RecordingFolder(tmp_path)
    tape = folder.begin(b"[]")
    tape.begin(799, HEADERS)
    tape.end()
    assert names(folder) == []
    assert folder.lost == 1
    assert "status" in caplog.text


def test_one_who_fails_to_be_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The file is there all the same."""

    def fail(_: SavedReply) -> None:
        raise OSError("the pipe is closed")

    folder = RecordingFolder(tmp_path, on_saved=fail)
    tape_reply(folder)
    assert names(folder) == ["0001.jsonl"]
    assert folder.lost == 0
    assert "OSError" in caplog.text


def test_bounds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is too large, alone or with others, is given up with a warning, and makes room for others again."""
    folder = RecordingFolder(tmp_path, max_reply_bytes=2_000, max_held_bytes=3_000)
    large, first, second = (folder.begin(REQUEST) for _ in range(3))
    large.begin(200, HEADERS)
    for _ in range(20):  # many small chunks are large, too
        large.take(b"x")
    first.begin(200, HEADERS)
    first.take(b"x" * 1_700)
    second.begin(200, HEADERS)
    second.take(b"x" * 1_700)
    first.end()
    large.end()
    second.end()
    assert names(folder) == ["0002.jsonl"]
    tape_reply(folder)
    assert names(folder) == ["0002.jsonl", "0004.jsonl"]
    assert [record.message for record in caplog.records] == [
        "a response over 2000 bytes is not recorded",
        "a response is not recorded while too many others are in memory",
    ]


@pytest.mark.parametrize("keep_secrets", [False, True])
def test_binary_frames(keep_secrets: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing can be masked in them: they are recorded as they are, or not."""
    folder = RecordingFolder(tmp_path, keep_secrets=keep_secrets)
    for _ in range(2):
        tape = folder.begin(REQUEST)
        tape.begin(200, [("content-type", "application/vnd.amazon.eventstream")])
        tape.take(b"\x00\x01")
        tape.end()
    assert names(folder) == (["0001.jsonl", "0002.jsonl"] if keep_secrets else [])
    assert len(caplog.records) == (0 if keep_secrets else 1)


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    """Said at once, in one line."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made a folder"):
        RecordingFolder(tmp_path / "file" / "inside")
    with pytest.raises(UsageError, match="cannot be kept"):
        RecordingFolder(tmp_path, keep_secrets=True, redact_contents=True)
    for bounds in ({"max_reply_bytes": 0}, {"max_held_bytes": True}):
        with pytest.raises(UsageError, match="at least 1"):
            RecordingFolder(tmp_path, **bounds)


def test_requests_are_kept(tmp_path: Path) -> None:
    """Beside their responses, if asked for: what was sent, without keys; a body that is no JSON, or is long, as its size."""
    folder = RecordingFolder(tmp_path, keep_requests=True)
    messages = [{"role": "user", "content": f"The key is {KEY}."}]
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    bodies: list[Any] = [
        json.dumps({"model": "m-1", "messages": messages}).encode(),
        b"no JSON",
        b'"' + b"a" * 2_000_000 + b'"',
        {"model": "m-1", "messages": messages},
    ]
    for request in bodies:
        tape = folder.begin(request, host="api.test", headers=headers)
        messages.append({"role": "assistant", "content": "It came later."})
        tape.begin(200, HEADERS)
        tape.take(b"data: {}")
        tape.end()
    folder.begin(b"{}").end("nothing came")
    assert [name for name in names(folder) if "request" in name] == [f"000{n}.request.json" for n in range(1, 5)]
    whole, text_body, long_body, mapping = (
        json.loads((tmp_path / f"000{n}.request.json").read_text()) for n in range(1, 5)
    )
    assert whole["headers"] == {"x-api-key": "[redacted]", "content-type": "application/json"}
    assert whole["body"] == {"model": "m-1", "messages": [{"role": "user", "content": "The key is [redacted]."}]}
    assert [told["body_bytes"] for told in (text_body, long_body)] == [7, 2_000_002]
    assert len(mapping["body"]["messages"]) == 4
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / "0001.request.json").stat().st_mode) == 0o600


def test_requests_with_secrets(tmp_path: Path) -> None:
    """As they were, like the responses."""
    folder = RecordingFolder(tmp_path, keep_requests=True, keep_secrets=True)
    tape_reply(folder, request=json.dumps({"key": KEY}).encode())
    folder.flush()
    assert json.loads((tmp_path / "0001.request.json").read_text()) == {"headers": {}, "body": {"key": KEY}}
    with pytest.raises(UsageError, match="requests are contents"):
        RecordingFolder(tmp_path, keep_requests=True, redact_contents=True)
