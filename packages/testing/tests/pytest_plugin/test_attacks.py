"""Names, links and texts that lead the plugin out of its folder, or act on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packages.testing.tests.pytest_plugin.support import run_tests

from eagerstream.errors import UsageError
from eagerstream_testing import ReplayServer, Scenario, reply, text
from eagerstream_testing.pytest_plugin._recorded import FOLDER, folder_of, load

pytest_plugins = "pytester"

_KEY = "sk-ant-api03-" + "k" * 80
_ACTING = "\x1b]0;pwned\x07\x1b[2J\u202e"
_TEST = """
@pytest.mark.claude(recorded=True)
def test_a(claude):
    ask([user("Weather?")])
"""


@pytest.fixture
def upstream(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReplayServer]:
    """Plays the API. The folder of the inner run is the working directory."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", _KEY)
    with ReplayServer(Scenario.of(lambda _: reply(text("Mild.")))) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        yield server


def test_no_name_leads_elsewhere() -> None:
    """Names of tests, classes and files come from parameters, or from other plugins, and may be anything."""
    root, folders = Path("/tests"), set()
    names = (
        "",
        ".",
        "..",
        "...",
        "../x",
        "/x",
        "a/../../x",
        "\0",
        "C:x",
        "a\\b",
        "~",
        "\n",
        "x" * 1000,
        "\ud800",
        "\u202e",
        _ACTING,
    )
    for stem in ("test_a", "..", "..."):
        for name in names:
            item: Any = SimpleNamespace(path=root / f"{stem}.py", name=name, listchain=list)
            folder = folder_of(item)
            parent, own = folder.relative_to(root / FOLDER).parts  # neither more nor fewer
            assert {parent, own}.isdisjoint({".", ".."})
            assert folder.name.isascii()
            assert folder.name.isprintable()
            assert len(folder.name) < 150
            folders.add(folder)
    assert len(folders) == 3 * len(names)


@pytest.mark.slow
@pytest.mark.parametrize(
    "linked", ["test_a", ".test_a.part", ".test_a.old", "test_a/0001.jsonl", "test_a/requests.json", "nowhere"]
)
def test_links_in_the_folder(pytester: pytest.Pytester, upstream: ReplayServer, tmp_path: Path, linked: str) -> None:
    """A link is replaced. Nothing is written or removed at the place where it leads."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "0001.jsonl").write_text("precious")
    folder = Path(FOLDER, "test_it")
    folder.mkdir(parents=True)
    if linked.startswith("test_a/"):
        (folder / "test_a").mkdir()
        (folder / linked).symlink_to(elsewhere / "0001.jsonl")
    elif linked == "nowhere":
        (folder / "test_a").symlink_to(tmp_path / "nowhere")
    else:
        (folder / linked).symlink_to(elsewhere)
    for _ in range(2):
        run_tests(pytester, _TEST, "--claude-record").assert_outcomes(passed=1)
        assert [(path.name, path.read_text()) for path in elsewhere.iterdir()] == [("0001.jsonl", "precious")]
        assert [path.name for path in folder.iterdir()] == ["test_a"]
        assert not any(path.is_symlink() for path in (folder / "test_a").iterdir())
    run_tests(pytester, _TEST).assert_outcomes(passed=1)


def test_an_index_of_another_form(tmp_path: Path) -> None:
    """It is a `UsageError` that names the file."""
    for entries in ("5", "null", "{}", '"0001.jsonl"', "[5]", '[{"file": "0001.jsonl\\n", "turn": 0, "messages": ""}]'):
        (tmp_path / "requests.json").write_text(f'{{"eagerstream_test_recordings": 1, "requests": {entries}}}')
        with pytest.raises(UsageError, match=r"requests\.json: "):
            load(tmp_path)


@pytest.mark.slow
def test_texts_in_a_failure(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of a model and errors of a reply act on no terminal, and show no key."""
    monkeypatch.setenv("HOSTILE", _ACTING + _KEY)
    code = """
import httpx, os

def test_ids(claude):
    hostile = os.environ["HOSTILE"]
    claude.replies(text(hostile))
    call = {"type": "tool_use", "id": hostile, "name": hostile, "input": {hostile: hostile}}
    messages = [user("a"), {"role": "assistant", "content": [call]}, user(hostile)]
    body = {"model": hostile, "max_tokens": 9, "messages": messages}
    httpx.post(f"{claude.base_url}/v1/messages", headers={"x-api-key": hostile[-90:], hostile[-90:]: "a"}, json=body)

def test_an_error(claude):
    def fail(body):
        raise ValueError(os.environ["HOSTILE"])
    claude.replies(fail)
    httpx.post(f"{claude.base_url}/v1/messages", json={"model": "m", "max_tokens": 9, "messages": [user("a")]})
"""
    result = run_tests(pytester, code)
    result.assert_outcomes(failed=2)
    shown = result.stdout.str() + result.stderr.str()
    result.stdout.fnmatch_lines(
        ["request 1 sent a history that the API refuses: *", "reply 1: its function raised ValueError: *"]
    )
    assert "kkkk" not in shown
    assert all(character not in shown for character in "\x1b\x07\u202e")


@pytest.mark.slow
def test_no_real_key(pytester: pytest.Pytester, upstream: ReplayServer) -> None:
    """A test that is not recorded, or has no recordings, asks no API. Clients that it makes have no key of yours."""
    code = f"""
import os

def test_variables(claude):
    claude.replies(text("a"))
    ask([user("a")])
    assert {_KEY!r} not in os.environ.values()
    assert claude.base_url == os.environ["ANTHROPIC_BASE_URL"] != {upstream.base_url!r}
{_TEST}
"""
    run_tests(pytester, code).assert_outcomes(passed=1, errors=1)
    assert upstream.requests == []
