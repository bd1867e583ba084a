"""`ObservationTruncator`: its bounds hold, and files are written only where they are asked for, and only there."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eagerstream.compat.helloagents import ObservationTruncator, ToolErrorCode, ToolResponse, truncate_results
from eagerstream.errors import UsageError
from tests.tables import rows


def test_short_outputs_stay() -> None:
    """Nothing is cut."""
    result = ObservationTruncator().truncate("search", "one\ntwo")
    assert (result["truncated"], result["preview"], result["full_output_path"]) == (False, "one\ntwo", None)
    assert (result["stats"]["original_lines"], result["stats"]["original_bytes"]) == (2, 7)


def test_one_long_line() -> None:
    """A line of 60 kB: the bound of bytes holds for what is shown, too."""
    result = ObservationTruncator().truncate("search", "x" * 60_000)
    assert result["truncated"]
    assert len(result["preview"].encode()) <= 51_200
    assert result["stats"]["kept_bytes"] == len(result["preview"].encode())


@rows(
    "direction, preview",
    [("head", "0\n1\n2\n3"), ("tail", "6\n7\n8\n9"), ("head_tail", "0\n1\n...(中间省略)...\n8\n9")],
)
def test_directions(direction: Any, preview: str) -> None:
    """Which end is kept, and what stands for the middle."""
    result = ObservationTruncator(4, truncate_direction=direction).truncate("t", "".join(f"{n}\n" for n in range(10)))
    assert result["preview"] == preview
    assert list(result["stats"]) == [
        *("direction", "original_lines", "original_bytes", "kept_lines", "kept_bytes", "time_ms")
    ]
    assert (result["stats"]["direction"], result["stats"]["original_lines"]) == (direction, 10)
    assert (result["stats"]["kept_lines"], result["stats"]["kept_bytes"]) == (4, len(preview.encode()))


@rows("line_break", ["\n", "\r\n", "\r"])
def test_previews_have_no_line_break_at_the_end(line_break: str) -> None:
    """HelloAgents joins the kept lines: one line break is missing, and an empty last line stays."""
    output = line_break.join(["a", "", "b"])
    assert ObservationTruncator(1).truncate("t", output)["preview"] == "a"
    assert ObservationTruncator(2).truncate("t", output)["preview"] == f"a{line_break}"
    assert ObservationTruncator(3).truncate("t", f"{output}{line_break}")["preview"] == f"{output}{line_break}"


@given(st.text(), st.integers(1, 5), st.integers(1, 60), st.sampled_from(["head", "tail", "head_tail"]))
def test_bounds_hold(output: str, max_lines: int, max_bytes: int, direction: Any) -> None:
    """For any text and any bounds."""
    result = ObservationTruncator(max_lines, max_bytes, direction).truncate("t", output)
    assert len(result["preview"].encode()) <= max_bytes
    assert result["stats"]["kept_lines"] <= max_lines


@rows("options", [{"max_lines": 0}, {"max_bytes": 0}, {"truncate_direction": "middle"}])
def test_settings_that_cannot_be(options: Any) -> None:
    """They are refused when it is made, and not at the first long output."""
    with pytest.raises(UsageError):
        ObservationTruncator(**options)


# --- files ------------------------------------------------------------------------------------------------------------


def test_no_file_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody names a folder, none is made."""
    monkeypatch.chdir(tmp_path)
    assert ObservationTruncator(1).truncate("t", "a\nb")["full_output_path"] is None
    assert list(tmp_path.iterdir()) == []


def test_the_whole_output_is_saved(tmp_path: Path) -> None:
    """As JSON, with its metadata, for its owner; only where it was cut."""
    truncator = ObservationTruncator(1, output_dir=str(tmp_path / "tool-output"))
    assert (tmp_path / "tool-output").is_dir()
    assert truncator.truncate("search", "a")["full_output_path"] is None
    output = "第一\n\ud800第二"
    path = truncator.truncate("search", output, {"query": "x", "when": object})["full_output_path"]
    assert path is not None
    assert Path(path).parent == tmp_path / "tool-output"
    saved = json.loads(Path(path).read_text("utf-8"))
    assert list(saved) == ["tool", "output", "timestamp", "metadata"]
    assert (saved["tool"], saved["output"], saved["metadata"]["query"]) == ("search", "第一\n\ufffd第二", "x")
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "name", ["../../evil", "/etc/passwd", "a\0b", "..", "", "x" * 5000, "C:\\evil", "工具", "a\nb", "\ud800"]
)
def test_names_of_tools_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    """A model may have made them up: each gives a file in the folder, and nowhere else."""
    folder = tmp_path / "out"
    path = ObservationTruncator(1, output_dir=folder).truncate(name, "a\nb")["full_output_path"]
    assert path is not None
    assert [str(each) for each in folder.iterdir()] == [path]
    assert list(tmp_path.iterdir()) == [folder]
    assert json.loads(Path(path).read_text("utf-8"))["output"] == "a\nb"


@pytest.mark.slow
def test_calls_at_a_time(tmp_path: Path) -> None:
    """Each has a file of its own."""
    truncator = ObservationTruncator(1, output_dir=tmp_path)
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda number: truncator.truncate("t", f"{number}\nb"), range(200)))
    paths = [result["full_output_path"] for result in results]
    assert len(set(paths)) == 200
    assert [json.loads(Path(str(path)).read_text())["output"][:-2] for path in paths] == [str(n) for n in range(200)]


def test_a_folder_that_is_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The preview is there all the same, and the log tells that the rest is lost."""
    truncator = ObservationTruncator(1, output_dir=tmp_path / "out")
    (tmp_path / "out").rmdir()
    result = truncator.truncate("t", "private\nb")
    assert (result["truncated"], result["full_output_path"]) == (True, None)
    assert "cannot be saved: No such file or directory" in caplog.text
    assert "private" not in caplog.text


# --- responses --------------------------------------------------------------------------------------------------------


def test_responses(tmp_path: Path) -> None:
    """A success that is cut is partial, and says so; an error stays one; what is short stays as it is."""
    truncator = ObservationTruncator(2)
    short = ToolResponse.success("a")
    assert truncator.truncate_response("t", short) is short
    cut = truncator.truncate_response("t", ToolResponse.success("a\nb\nc", {"n": 1}))
    assert (cut.status, cut.text, cut.data, cut.context) == ("partial", "a\nb", {"n": 1}, None)
    assert cut.reason == "输出过长,已截断到 2 行(共 3 行)"
    failed = truncator.truncate_response("t", ToolResponse.error(ToolErrorCode.TIMEOUT, "a\nb\nc"))
    assert (failed.status, failed.code, failed.error_info) == (
        "error",
        "TIMEOUT",
        {"code": "TIMEOUT", "message": "a\nb"},
    )
    saving = ObservationTruncator(2, output_dir=tmp_path)
    saved = saving.truncate_response("t", ToolResponse.partial("a\nb\nc", context={"x": 1}, reason="too many"))
    assert saved.reason == "too many"
    assert saved.context == {"x": 1, "full_output_path": str(next(tmp_path.iterdir()))}


def test_too_many_results() -> None:
    """The document's example, word for word."""
    found = [{"id": number} for number in range(500)]
    response = truncate_results(found, 100)
    assert (response.status, response.text) == ("partial", "搜索完成(前 100 条结果)")
    assert response.data == {"results": found[:100], "total": 500, "truncated": True}
    assert response.reason == "结果过多,已截断到 100 条"
