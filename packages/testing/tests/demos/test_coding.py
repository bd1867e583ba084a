"""The scripted session of a coding agent, played with the real tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from anthropic import AsyncAnthropic

from eagerstream import InputDelta, InputStop, RunStatus, run, validate_history
from eagerstream_testing import ReplayServer, Timing
from eagerstream_testing.demos import coding
from eagerstream_toolkit import Bash, EagerTextEditor, Memory


@pytest.mark.anyio
@pytest.mark.slow
async def test_the_session(tmp_path: Path) -> None:
    """Ten turns with calls beside one another; a file grows on the disk while its input is still being written."""
    work = tmp_path / "work"
    work.mkdir()
    on_disk: list[int] = []
    async with (
        ReplayServer(coding.session(timing=Timing(tokens_per_second=400))) as server,
        AsyncAnthropic(api_key="none", base_url=server.base_url) as client,
        Bash(cwd=work) as bash,
        run(
            client,
            model="claude-made-1",
            max_tokens=9,
            messages=[{"role": "user", "content": coding.TASK}],
            tools=[bash, EagerTextEditor(work), Memory(tmp_path / "memories")],
        ) as running,
    ):
        is_written = False
        async for event in running:
            match event:
                case InputDelta() if not is_written and (work / "words.py").exists():
                    on_disk.append((work / "words.py").read_text().count("\n"))
                case InputStop(input=input) if input.partial.get("path") == "words.py":
                    is_written = True
    result = running.result
    assert (result.status, result.turns) == (RunStatus.COMPLETED, 10)
    assert validate_history(result.messages) == []
    assert on_disk == sorted(on_disk)
    assert any(0 < lines < 30 for lines in on_disk)  # before the input had ended
    assert [turn for turn in range(1, 11) if sum(call.turn == turn for call in result.calls) > 1] == [
        1,
        2,
        4,
        5,
        6,
        7,
        8,
        9,
    ]
    failed, *passed = [call.response for call in result.calls if call.input.value == {"command": coding.RUN_TESTS}]
    assert failed is not None
    assert "FAILED (failures=1)" in failed.text
    assert [response.text.endswith("OK") for response in passed if response] == [True, True]
    assert not any(call.is_error for call in result.calls)
    assert "text.lower()" in (work / "words.py").read_text()
    assert (tmp_path / "memories" / "words.md").read_text().count("\n") == 3
