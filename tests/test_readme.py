"""The README is read before anything else: its program runs, and its links lead somewhere.

It is also the text of the package page, so all of its links and pictures are absolute.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from tests.docs.programs import PAGES, PYTHON, ROOT, environment, programs
from tests.prose import headings
from tests.tables import rows

PAGE = ROOT / "README.md"
README = PAGE.read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCS, REPOSITORY = f"{PROJECT['urls']['Documentation']}/en/latest/", PROJECT["urls"]["Source"]
RAW = REPOSITORY.replace("github.com", "raw.githubusercontent.com")
ELSEWHERE = (  # protocols, who speaks them, and tools beside ours
    "https://agentclientprotocol.com",
    "https://apps.extensions.modelcontextprotocol.io",
    "https://docs.ag-ui.com",
    "https://github.com/CopilotKit/aimock",
    "https://github.com/giltene/wrk2",
    "https://zed.dev",
)
COMMANDS = sorted(
    {
        command
        for page in (PAGE, *PAGES)
        for command in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
)


def test_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The first program that anybody tries prints text and a growing input, and runs its tool."""
    (agent,) = programs(PAGE)
    poem = {"filename": "poem.txt", "lines_of_text": ["one line", "and another"]}
    monkeypatch.chdir(tmp_path)
    with ReplayServer(Scenario(reply(tool_use("make_file", poem)), reply(text("It is there.")))) as server:
        for name, value in environment(server).items():
            monkeypatch.setenv(name, value)
        exec(compile(agent.code, str(PAGE), "exec", dont_inherit=True), {"__name__": "__main__"})
    output, errors = capsys.readouterr()
    assert output.startswith("\n\r")  # one line, which is written anew
    assert "\r2 lines so far\nmake_file -> wrote 2 lines\n" in output
    assert "It is there.completed {'input_tokens'" in output
    assert errors == ""
    assert (tmp_path / "poem.txt").read_text() == "one line\nand another"
    assert len(agent.code.splitlines()) <= 25


@pytest.mark.slow
def test_the_agent_without_a_key(tmp_path: Path) -> None:
    """The README's command runs the same program on a scripted model, in a process of its own."""
    (agent,) = programs(PAGE)
    (command,) = re.findall(r"&& eagerstream (serve .*) python agent\.py$", README, re.MULTILINE)
    (tmp_path / "agent.py").write_text(agent.code, encoding="utf-8")
    line = [PYTHON, "-m", "eagerstream", *command.split(), PYTHON, "agent.py"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    assert re.search(r" lines so far\nmake_file -> wrote \d+ lines\n", done.stdout)
    assert "completed {'input_tokens'" in done.stdout


@rows("target", sorted(set(re.findall(r"\]\(([^)\s]+)\)", README))))
def test_links_are_absolute_and_lead_somewhere(target: str) -> None:
    """The package page has no files beside it. Links to the docs and the repository name what is there."""
    address, _, heading = target.partition("#")
    if address.startswith(DOCS):
        page = ROOT / "docs" / address.removeprefix(DOCS).replace(".html", ".md")
        assert page.is_file()
        assert not heading or heading in headings(page)
    else:
        (base,) = (
            base
            for base in (f"{REPOSITORY}/blob/main/", f"{REPOSITORY}/tree/main/", f"{RAW}/main/")
            if address.startswith(base)
        )
        assert (ROOT / address.removeprefix(base)).exists()


QUESTIONS = {
    "install": ("start/quickstart.html", "pip install eagerstream"),
    "print text": ("guides/text.html", "TextDelta"),
    "list of events": ("guides/events.html", "## All events"),
    "thinking": ("guides/text.html", "thinking={"),
    "usage": ("guides/text.html#tokens", "run.result.usage"),
    "tool_choice": ("guides/text.html#which-tool-the-model-calls", '{"type": "any"}'),
    "without a key": ("guides/testing.html", "ReplayServer"),
    "FastAPI": ("guides/progress.html#your-own-page", "FastAPI("),
    "Stop button": ("guides/progress.html#your-own-page", "run.cancel()"),
    "notebook": ("guides/progress.html#in-a-notebook", "notebook"),
    "anthropic SDK": ("start/from-anthropic.html", "client.messages.stream"),
    "does not work": ("guides/errors.html#troubleshooting", "| symptom | cause | remedy |"),
}


@rows("question", QUESTIONS)
def test_a_question_of_a_new_user(question: str) -> None:
    """The table of the README leads straight to the answer."""
    target, answer = QUESTIONS[question]
    (row, *_) = [line for line in README.splitlines() if line.startswith("|") and f"({DOCS}{target})" in line]
    assert row
    page = (ROOT / "docs" / target.partition("#")[0]).with_suffix(".md")
    assert answer in page.read_text(encoding="utf-8")


def test_pictures_are_absolute() -> None:
    """Neither in Markdown nor in HTML is there a picture beside the page."""
    assert re.findall(r"!\[[^\]]*\]\((?!https://)|(?:src|href)=\"(?!https://)", README) == []


@rows("page", [page for page in PAGES if page.name != "README.md"])
def test_the_docs_use_the_same_bases(page: Path) -> None:
    """Pages link to the repository, and to each other without the address of the docs. Pictures come with the docs."""
    written = re.sub(r"(?s)<!-- (\w+) -->.*<!-- end of \1 -->", "", page.read_text(encoding="utf-8"))  # not its table
    found = re.findall(r"\]\((https://[^)\s]+)\)", written)
    assert [link for link in found if not link.startswith((f"{REPOSITORY}/", *ELSEWHERE))] == []


def test_it_is_short() -> None:
    """Who wants to know more follows a link."""
    assert len(README.splitlines()) <= 250


def test_the_dependencies() -> None:
    """The README names what `pip install eagerstream` brings."""
    (row,) = re.findall(r"^\| dependencies \| (.+) \|$", README, re.MULTILINE)
    assert row.split(", ") == sorted(re.split(r"[<>=]", each)[0] for each in PROJECT["dependencies"])


def test_make_knows_its_targets() -> None:
    """Commands that the README and the docs name exist."""
    assert len(COMMANDS) > 10
    done = subprocess.run(["make", "-n", *COMMANDS], cwd=ROOT, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr


def test_nothing_is_left_to_be_filled_in() -> None:
    """Figures stand where figures are promised."""
    assert not re.search(r"\b(BENCH|GROWTH|TODO)\b", README)
