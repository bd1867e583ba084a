"""`notebook_progress`, on a display that keeps what it is given."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from anthropic.types import MessageParam

import eagerstream
from eagerstream.errors import UsageError
from eagerstream.loop import Run
from eagerstream_progress import notebook
from eagerstream_progress.notebook import notebook_progress
from eagerstream_testing import reply, tool_use

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The states of the cell's output, the last one at the end."""
    kept: list[dict[str, str]] = []

    class Handle:
        def update(self, bundle: dict[str, str], *, raw: bool) -> None:
            assert raw
            kept.append(bundle)

    def display(bundle: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        kept.append(bundle)
        return Handle()

    module: Any = ModuleType("IPython.display")
    module.display = display
    monkeypatch.setenv("FORCE_COLOR", "1")  # as kernels do
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return kept


@eagerstream.tool
async def write(text: str) -> str:
    """Write a text."""
    return HOSTILE


def asked(*texts: str) -> Run:
    """A run that writes these texts."""
    client = reply(*(tool_use("write", {"text": text}) for text in texts))
    question: MessageParam = {"role": "user", "content": "Write."}
    return eagerstream.run(client, model="m", max_tokens=10, max_turns=1, tools=[write], messages=[question])


@pytest.mark.anyio
async def test_the_last_state_is_shown_and_escaped(outputs: list[dict[str, str]]) -> None:
    """A model and a tool write what the page of the notebook must not run."""
    async with asked(HOSTILE) as run, notebook_progress(run):
        await run.finish()
    assert "write" in outputs[-1]["text/plain"]
    assert "limit" in outputs[-1]["text/plain"]
    assert "&lt;script&gt;" in outputs[-1]["text/html"]
    assert not any("\x1b" in output["text/html"] or "?7h" in output["text/html"] for output in outputs)
    assert not any("<script" in output["text/html"] for output in outputs)


@pytest.mark.anyio
async def test_a_large_input_makes_a_small_output(outputs: list[dict[str, str]]) -> None:
    """A notebook keeps each output in its file."""
    async with asked("many words " * 3_000) as run, notebook_progress(run):
        await run.finish()
    assert max(len(output["text/html"]) for output in outputs) < 20_000


@pytest.mark.anyio
async def test_the_end_shows_every_call(outputs: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only while the run is active, an output has a height."""
    monkeypatch.setattr(notebook, "_ROWS", 5)
    async with asked(*"-" * 12) as run, notebook_progress(run):
        await run.finish()
    assert max(output["text/plain"].count("\n") for output in outputs[:-1]) < 5
    assert outputs[-1]["text/plain"].count("write") == 12


@pytest.mark.anyio
async def test_a_failed_block_shows_the_last_state(outputs: list[dict[str, str]]) -> None:
    """A cell that fails or is stopped keeps what was seen."""
    with pytest.raises(ZeroDivisionError):
        async with asked("a text") as run, notebook_progress(run):
            await run.finish()
            raise ZeroDivisionError
    assert "write" in outputs[-1]["text/plain"]


def test_without_ipython_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only notebooks have IPython."""
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(UsageError, match="pip install ipykernel"):
        notebook_progress()


@pytest.mark.anyio
async def test_objects_show_figures_without_inputs(outputs: list[dict[str, str]]) -> None:
    """A notebook is saved and shared with its outputs, so they show no more than a log may."""
    question: MessageParam = {"role": "user", "content": "Write."}
    client = reply(tool_use(HOSTILE, {"text": "the secret"}))
    async with eagerstream.run(client, model=HOSTILE, max_tokens=10, max_turns=1, messages=[question]) as run:
        inputs = [event.input async for event in run if isinstance(event, eagerstream.InputStop)]
    latency: Any = run.latency
    for shown in (run, run.result, latency, inputs[0]):
        html = shown._repr_html_()
        assert len(html) < 20_000
        assert "secret" not in html
        assert "<script" not in html
    assert "limit" in run.result._repr_html_()
    assert "<svg" in latency._repr_html_()
    assert "<rect" in latency._repr_html_()
    assert "valid" in inputs[0]._repr_html_()
