"""`Recording` and its files."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from packages.wire.tests.recordings import for_recordings

from eagerstream.errors import UsageError
from eagerstream.recordings import Chunk, Recording
from tests.tables import rows

_EVENT = b'event: ping\ndata: {"type": "ping"}\n\n'
_HEADER = '{"eagerstream_recording": 1}'


def _recordings() -> st.SearchStrategy[Recording]:
    times = st.lists(st.floats(0, 1e6), max_size=8).map(sorted)
    data = st.one_of(st.binary(max_size=20), st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")))
    chunks = times.flatmap(lambda at: st.tuples(*(st.builds(Chunk, st.just(at_s), data) for at_s in at)))
    names = st.text(string.ascii_letters + "-", min_size=1, max_size=8)
    values = st.text(string.ascii_letters + " ;=/é", max_size=8)
    return st.builds(
        Recording, chunks, status=st.integers(200, 599), headers=st.dictionaries(names, values), note=st.text()
    )


@pytest.mark.slow
@given(recording=_recordings())
def test_round_trip(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is saved as it is comes back exactly, whatever the bytes, times, headers and note are."""
    path = tmp_path_factory.getbasetemp() / "round_trip.jsonl"
    recording.save(path, redact=False)
    assert Recording.load(path) == recording
    recording.save(path)
    assert Recording.load(path) == recording.redacted()


def test_file_is_readable(tmp_path: Path) -> None:
    """The format is documented line by line: text stays text, and a cut character becomes base64."""
    path = tmp_path / "reply.jsonl"
    recording = Recording((Chunk(0.5, "é".encode()), Chunk(0.75, b"\xc3"), Chunk(0.75, b"\xa9")), note="by hand")
    recording.save(path)
    header, *chunks = path.read_bytes().decode().splitlines()
    assert json.loads(header) == {
        "eagerstream_recording": 1,
        "status": 200,
        "headers": {"content-type": "text/event-stream; charset=utf-8"},
        "note": "by hand",
    }
    assert chunks == [
        '{"at_s": 0.5, "data": "é"}',
        '{"at_s": 0.75, "base64": "ww=="}',
        '{"at_s": 0.75, "base64": "qQ=="}',
    ]


@for_recordings
def test_plain_bodies(recording: Path) -> None:
    """Every recorded body loads as it stands, with everything at 0."""
    loaded = Recording.load(recording)
    assert loaded.body == recording.read_bytes()
    assert loaded.duration_s == 0


def test_properties() -> None:
    """The body is all chunks joined, the duration the time of the last; both exist without any chunk."""
    recording = Recording((Chunk(0.5, b"ab"), Chunk(2, b"c")))
    assert (recording.body, recording.duration_s) == (b"abc", 2)
    assert (Recording(()).body, Recording(()).duration_s) == (b"", 0)
    assert Recording.from_body(b"abc").chunks == (Chunk(0, b"abc"),)


def test_is_a_value() -> None:
    """A recording can be a key, and does not change with the dict that it was made from."""
    headers = {"x-a": "1"}
    recording = Recording((), headers=headers)
    headers["x-a"] = "2"
    assert recording.headers == {"x-a": "1"}
    assert hash(recording) == hash(Recording((), headers={"x-a": "1"}))


@rows(
    "name, content, line",
    [
        ("a.sse", b"", 1),
        ("a.sse", b"hello", 1),
        ("a.sse", b": comment\n\nevent: ping\ndata: {}\n\n", 4),
        ("a.txt", b'\ndata: {"type": "ping"}', 2),  # no blank line: the event never ends
        ("a.jsonl", b"", 1),
        ("a.jsonl", b"\n\n", 1),
        ("a.jsonl", b"[1]", 1),
        ("a.jsonl", b"{", 1),
        ("a.jsonl", b"\xff{}", 1),
        ("a.jsonl", b"[" * 100_000, 1),
        ("a.jsonl", b'{"at_s": 0, "data": ""}', 1),
        ("a.jsonl", b'{"eagerstream_recording": 2}', 1),
        ("a.jsonl", b'{"eagerstream_recording": 1, "status": 99}', 1),
        ("a.jsonl", b'{"eagerstream_recording": 1, "status": true}', 1),
        ("a.jsonl", b'{"eagerstream_recording": 1, "note": 1}', 1),
        ("a.jsonl", b'{"eagerstream_recording": 1, "headers": []}', 1),
        ("a.jsonl", b'{"eagerstream_recording": 1, "headers": {"a b": "c"}}', 1),
        ("a.jsonl", b'{"eagerstream_recording": 1, "headers": {"a": "b\\r\\nc: d"}}', 1),
        ("a.jsonl", b'{"eagerstream_recording": 1, "headers": {"a": 1}}', 1),
        ("a.jsonl", f'{_HEADER}\n\n{{"data": ""}}'.encode(), 3),
        ("a.jsonl", f'{_HEADER}\n{{"at_s": true, "data": ""}}'.encode(), 2),
        ("a.jsonl", f'{_HEADER}\n{{"at_s": -0.1, "data": ""}}'.encode(), 2),
        ("a.jsonl", f'{_HEADER}\n{{"at_s": NaN, "data": ""}}'.encode(), 2),
        ("a.jsonl", f'{_HEADER}\n{{"at_s": Infinity, "data": ""}}'.encode(), 2),
        ("a.jsonl", f'{_HEADER}\n{{"at_s": 1{"0" * 400}, "data": ""}}'.encode(), 2),
        ("a.jsonl", f'{_HEADER}\n{{"at_s": 2, "data": ""}}\n{{"at_s": 1, "data": ""}}'.encode(), 3),
        ("a.jsonl", f'{_HEADER}\n{{"at_s": 0}}'.encode(), 2),
        ("a.jsonl", f'{_HEADER}\n{{"at_s": 0, "data": 1}}'.encode(), 2),
        ("a.jsonl", f'{_HEADER}\n{{"at_s": 0, "data": "", "base64": ""}}'.encode(), 2),
        ("a.jsonl", f'{_HEADER}\n{{"at_s": 0, "base64": "?"}}'.encode(), 2),
        ("a.jsonl", f'{_HEADER}\n{{"at_s": 0, "data": "\\ud800"}}'.encode(), 2),
    ],
)
def test_bad_files(name: str, content: bytes, line: int, tmp_path: Path) -> None:
    """A file that does not parse is refused in one line that names the file and the line at fault."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        Recording.load(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    """A missing file, a directory and a foreign suffix are named, for reading and for writing."""
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "a.json").write_bytes(_EVENT)
    for name in ("missing.sse", "folder.jsonl", "a.json"):
        with pytest.raises(UsageError, match=name):
            Recording.load(tmp_path / name)
    for name in ("missing/a.jsonl", "folder.jsonl", "a.sse"):
        with pytest.raises(UsageError, match=name):
            Recording.from_body(_EVENT).save(tmp_path / name)


@rows("times", [(-1,), (float("nan"),), (float("inf"),), (1, 0.5), (True,), ("1",)])
def test_bad_times(times: tuple[float, ...]) -> None:
    """A recording made in code keeps to the same rules as one from a file."""
    with pytest.raises(UsageError, match="at_s"):
        Recording(tuple(Chunk(at_s, b"") for at_s in times))
