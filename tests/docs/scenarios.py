"""Of each program in the docs: what the API answers, and what the program must print."""

from __future__ import annotations

import ast
import csv
import inspect
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from packages.adapters.tests.chat.server import ChatServer

from eagerstream import RunResult
from eagerstream.recordings import Recording
from eagerstream_progress import load_records
from eagerstream_testing import (
    ReplayServer,
    Scenario,
    Scripted,
    Timing,
    Turn,
    http_error,
    reply,
    text,
    thinking,
    tool_use,
)
from tests.continuing import is_asked, rest_of
from tests.docs.line import line
from tests.docs.programs import PAGES, Done, programs, run_program, serving
from tests.source_tree import ROOT

_WEATHER = tool_use("get_weather", {"city": "Paris"})
_MILD = text("It has 15 degrees in Paris.")
_POEM = tool_use("make_file", {"filename": "poem.txt", "lines_of_text": ["one line", "and another"]})
_TIMING = Timing(tokens_per_second=200)
_FAST = Timing(tokens_per_second=300)


@dataclass(frozen=True)
class Tried:
    """How a program is tried. `run` takes its code and a folder."""

    run: Callable[[str, Path], None]


_ENDED = r"the run \w+ ended with the status {} turns \(last request req_\w+\)\n"
"""A run warns of an end that is no success."""

SCENARIOS: dict[str, Tried] = {}


def program(
    *turns: Turn,
    name: str | None = None,
    timing: Timing | None = None,
    options: Sequence[str] = (),
    wrap: Callable[[str], str] = str,
    warns: str = "",
    server: type[ReplayServer | ChatServer] = ReplayServer,
) -> Callable[[Callable[[Done], None]], Callable[[Done], None]]:
    """Register the check of a program; it is named after the function.

    Args:
        turns: What the API answers, turn by turn; a function takes the request.
        name: Instead of the function's name.
        timing: Of the responses.
        options: Of Python.
        wrap: Makes a program of the code.
        warns: Pattern of all that the program says on stderr.
        server: Plays what the API answers.
    """

    def register(check: Callable[[Done], None]) -> Callable[[Done], None]:
        def run(code: str, folder: Path) -> None:
            scenario = Scenario(*(turns or (reply(text("Not asked.")),)), timing=timing)
            check(run_program(wrap(code), scenario, folder, options=options, warns=warns, server=server))

        SCENARIOS[name or check.__name__.replace("_", "-")] = Tried(run)
        return check

    return register


def _as_cell(code: str) -> str:
    """A program that runs the code as a notebook does: `await` is allowed at its top."""
    return inspect.cleandoc(f"""
        import ast, asyncio
        code = compile({code!r}, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        asyncio.run(eval(code, {{"__name__": "__main__"}}))
    """)


def server(*turns: Recording, timing: Timing) -> Callable[[Callable[[str, Path], None]], Callable[[str, Path], None]]:
    """Register the check of a program that serves. It gets the address, and a folder."""

    def register(check: Callable[[str, Path], None]) -> Callable[[str, Path], None]:
        def run(code: str, folder: Path) -> None:
            with serving(code, Scenario(*turns, timing=timing), folder) as url:
                check(url, folder)

        SCENARIOS[check.__name__.replace("_", "-")] = Tried(run)
        return check

    return register


# --- start/quickstart.md ----------------------------------------------------------------------------------------------


@program(reply(_WEATHER), reply(_MILD))
def quickstart_agent(done: Done) -> None:
    assert "so far: {'city': 'Paris'}" in done.output
    assert "result: Paris: 15 degrees" in done.output
    assert "It has 15 degrees in Paris.\ncompleted {'input_tokens'" in done.output


@program(reply(text("Hello.")))
def quickstart_stream(done: Done) -> None:
    assert done.output.startswith("Hello.\nend_turn {'input_tokens'")


@program()
def quickstart_offline(done: Done) -> None:
    assert done.output == "completed It has 15 degrees in Paris.\n"
    assert not done.requests


@program(reply(text("Hello.")), wrap=_as_cell)
def quickstart_notebook(done: Done) -> None:
    assert done.output == "Hello."


# --- start/from-anthropic.md ------------------------------------------------------------------------------------------


@program(reply(_WEATHER))
def anthropic_stream(done: Done) -> None:
    assert "so far: {'city': 'Paris'}" in done.output
    assert done.output.endswith("input: {'city': 'Paris'}\n")


@program(reply(_WEATHER))
def eagerstream_stream(done: Done) -> None:
    assert "so far: {'city': 'Pa" in done.output
    assert done.output.endswith("input: {'city': 'Paris'}\n")
    assert done.requests[0].body["tools"][0]["eager_input_streaming"] is True


@program(reply(_WEATHER), reply(_MILD))
def anthropic_runner(done: Done) -> None:
    assert done.output == "end_turn It has 15 degrees in Paris.\n"


@program(reply(_WEATHER), reply(_MILD))
def eagerstream_run(done: Done) -> None:
    assert done.output == "end_turn It has 15 degrees in Paris.\n"


# --- start/from-others.md ---------------------------------------------------------------------------------------------

_SHOWN = reply(
    tool_use("word_of_the_day", {}), tool_use("show_poem", {"title": "The harbour", "lines": ["one line", "another"]})
)


@program(_SHOWN, reply(text("There it is.")))
def langgraph(done: Done) -> None:
    assert done.output == "*** The harbour\none line\nanother\nThere it is.\n"


@program(_SHOWN, reply(text("There it is.")), name="pydantic-ai")
def pydantic_ai(done: Done) -> None:
    assert done.output == "*** The harbour\none line\nanother\nThere it is.\n"


@program(reply(_WEATHER), reply(_MILD), server=ChatServer)
def openai(done: Done) -> None:
    assert done.output == "It has 15 degrees in Paris.\n"


@program(reply(_WEATHER), timing=_TIMING)
@program(reply(_WEATHER), timing=_TIMING, name="wire-early-calls")
def early_calls(done: Done) -> None:
    *partial, result = map(ast.literal_eval, done.output.splitlines())
    assert any(value.get("city", "") in ("P", "Pa", "Par", "Pari") for value in partial)
    assert result["content"] == "Paris: 15 degrees"
    assert result["tool_use_id"].startswith("toolu_")


# --- start/from-older-libraries.md ------------------------------------------------------------------------------------

_ADDITION = (reply(tool_use("perform_addition", {"a": 17, "b": 4})), reply(text("It is 21.")))


def _addition(done: Done) -> None:
    """The old program and the new one end with the same message."""
    (message,) = [ast.literal_eval(line) for line in done.output.splitlines()]
    assert message["role"] == "assistant"
    assert message["content"] in ("It is 21.", [{"type": "text", "text": "It is 21."}])


def _weather(done: Done) -> None:
    """The old program calls the tool itself, the new one lets the model: the response is the same."""
    assert done.output == "success Paris: 15 degrees\n"


program(*_ADDITION, name="old-addition", options=["-W", "ignore::DeprecationWarning:__main__"])(_addition)
program(*_ADDITION, name="new-addition")(_addition)
program(name="old-weather")(_weather)
program(reply(_WEATHER), reply(text("Mild.")), name="new-weather")(_weather)


# --- guides/typed-values.md -------------------------------------------------------------------------------------------

_TEAS = {"title": "Teas", "rows": [{"name": "Assam", "price": 4.5}, {"name": "Sencha", "price": -1}]}


@program(reply(tool_use("show_table", _TEAS)))
def typed_table(done: Done) -> None:
    assert "\nAss" in done.output
    assert "Assam 4.5\nSencha -1\ndoes not fit: rows[1].price\n" in done.output
    assert done.output.endswith("Row(name='Sencha', price=-1)])\n")


# --- guides/text.md ---------------------------------------------------------------------------------------------------


@program(reply(text("A place for ships.")))
def print_text(done: Done) -> None:
    assert done.output == "A place for ships.\n18 characters\n"


@program(reply(thinking("7 times 13."), text("No.")), name="thinking")
def show_thinking(done: Done) -> None:
    assert done.output == "7 times 13.No.\n['thinking', 'text']\n"
    assert done.requests[0].body["thinking"] == {"type": "adaptive"}


_CITATION = {"type": "char_location", "cited_text": "The bell rings at noon.", "document_index": 0}
_CITING = Scripted(
    {"type": "text", "text": "", "citations": []},
    ({"type": "text_delta", "text": "At noon."}, {"type": "citations_delta", "citation": _CITATION}),
)


@program(reply(_CITING))
def citations(done: Done) -> None:
    assert done.output == "cites: The bell rings at noon.\nAt noon. [1 citations]\n"


@program(reply(_WEATHER), reply(_MILD))
def usage(done: Done) -> None:
    assert done.output.startswith("turn 1 wrote ")
    first, second, total = (list(map(int, re.findall(r"\d+", line))) for line in done.output.splitlines())
    assert total[1] == first[1] + second[1]


@program(reply(_WEATHER), reply(tool_use("get_weather", {"city": "Lima"})), reply(_MILD))
def tool_choice(done: Done) -> None:
    assert done.output == "2 calls, 3 turns\n"
    assert [request.body.get("tool_choice") for request in done.requests] == [{"type": "any"}, {"type": "any"}, None]


# --- guides/output.md -------------------------------------------------------------------------------------------------


@program(reply(text('{"title": "Cities", "rows": [{"city": "Oslo", "people": 717710}]}')), timing=_TIMING)
def output(done: Done) -> None:
    assert "so far: title='Cities' rows=[Row(city='Os" in done.output
    assert done.output.endswith("Cities has 1 rows\n")


@program(reply(text('Here:\n```json\n{"name": "Ada", "age": 36}\n```')))
def output_prompted(done: Done) -> None:
    assert done.output == "name='Ada' age=36 valid None\n"


# --- guides/events.md -------------------------------------------------------------------------------------------------


@program(reply(_POEM), timing=_TIMING)
def fields_of_an_input(done: Done) -> None:
    assert done.output == "will write poem.txt\nline: one line\nline: and another\nvalid\n"


@program(reply(_POEM), timing=_TIMING)
def fewer_events(done: Done) -> None:
    assert "lines so far" in done.output
    assert done.output.endswith("valid {'filename': 'poem.txt', 'lines_of_text': ['one line', 'and another']}\n")


@program(reply(text("A place for ships.")))
def events_of_a_response(done: Done) -> None:
    assert done.output.startswith("A place for ships.\nend_turn ")


@program(reply(_WEATHER))
def accumulator(done: Done) -> None:
    assert "so far: {'city': 'Pa" in done.output
    assert "finished: Paris" in done.output
    assert done.output.endswith("valid {'city': 'Paris'}\n")


# --- guides/state.md --------------------------------------------------------------------------------------------------


@program(
    reply(tool_use("shelf_of", {"title": "Faust"})),
    reply(tool_use("lend", {"title": "Faust"}), tool_use("shelf_of", {"title": "Faust", "room": "cellar"})),
    reply(text("Here you are.")),
)
def context(done: Done) -> None:
    assert done.output == "[('Ada', 'Faust')]\n"
    assert [[*tool["input_schema"]["properties"]] for tool in done.requests[0].body["tools"]] == [["title"], ["title"]]
    told = done.requests[2].body["messages"][-1]["content"]
    assert told[0]["content"] == "lent in turn 2"
    assert "'room'" in told[1]["content"]


def _librarian(request: Mapping[str, Any]) -> Recording:
    match request["messages"]:
        case [{"content": "May I read here?"}]:
            return reply(text("No."))
        case [_]:
            return reply(tool_use("lend", {"title": "Faust"}))
        case _:
            return reply(text("Done."))


@program(_librarian, _librarian, _librarian)
def agent(done: Done) -> None:
    assert done.output == "lent to Ada\nlent to Bob\nNo."
    assert [request.body["system"] for request in done.requests] == [
        *["You are a librarian."] * 4,
        "You are a strict librarian.",
    ]


@program(
    reply(tool_use("count_rows", {"table": "readers"}), tool_use("count_rows", {"table": "books"})),
    reply(text("Seven and five.")),
)
def session_per_call(done: Done) -> None:
    assert done.output == "Seven and five. 2 2\n"


# --- guides/tools.md --------------------------------------------------------------------------------------------------


@program()
def tool(done: Done) -> None:
    definition = json.loads(done.output)
    assert definition["description"] == "Order a cup of tea."
    assert definition["eager_input_streaming"] is True
    assert definition["input_schema"]["properties"]["kind"] == {
        "description": "Which tea.",
        "enum": ["black", "green"],
        "type": "string",
    }


@program(reply(tool_use("count_words", {"texts": ["a bell", "the sea is calm"]})), reply(text("Six.")))
def progress_of_a_tool(done: Done) -> None:
    assert done.output == "count_words 1 of 2\ncount_words 2 of 2\ncount_words -> 6\n"


def _asked(request: Mapping[str, Any]) -> Recording:
    """Only the parent has tools."""
    is_parent = "tools" in request
    return reply(tool_use("research", {"question": "How deep?"}) if is_parent else text("11 km."))


@program(_asked, reply(text("It is 11 km deep.")))
def sub_runs(done: Done) -> None:
    assert done.output == (
        "research asks claude-haiku-4-5\nresearch is answered: completed 1\nIt is 11 km deep. True\n"
    )


@program(
    reply(tool_use("take", {"item": "tea", "count": 5}), tool_use("take", {"item": "coffee", "count": 1})),
    reply(text("Three teas.")),
)
def tool_response(done: Done) -> None:
    tea, coffee = done.output.splitlines()
    assert tea.startswith("partial {'taken': 3} ")
    assert "The stock is empty." in tea
    assert coffee == "error {} '[NOT_FOUND] There is no coffee.'"


@program(
    reply(tool_use("calculator", {"expression": "6 * 7"})),
    reply(tool_use("Write", {"path": "answer.txt", "content": "42"})),
    reply(text("Done.")),
)
def builtin(done: Done) -> None:
    assert done.output.startswith("calculator success ")
    assert (done.folder / "work" / "answer.txt").read_text() == "42"


@program(
    reply(
        tool_use("write", {"file_path": "answer.txt", "content": "42"}),
        tool_use("read", {"file_path": "answer.txt"}),
    ),
    reply(tool_use("bash", {"command": "cat answer.txt"})),
    reply(text("Done.")),
)
def official_tools(done: Done) -> None:
    assert done.output.splitlines() == ["write wrote 2 bytes to answer.txt", "read 42", "bash 42"]


# --- guides/early-start.md --------------------------------------------------------------------------------------------


@program(
    reply(
        tool_use("get_weather", {"city": "Paris"}),
        tool_use("get_weather", {"city": "Lima"}),
        tool_use("send_mail", {"text": "15 degrees in Paris and in Lima."}),
    ),
    reply(text("Sent.")),
    timing=_TIMING,
)
def early_start(done: Done) -> None:
    lines = done.output.splitlines()
    assert lines.index("the response has ended") < lines.index("start send_mail")
    assert lines[: lines.index("the response has ended")].count("stop get_weather") == 2


# --- guides/streaming-parameters.md -----------------------------------------------------------------------------------


@program(reply(_POEM), reply(text("Done.")), timing=_TIMING)
def streaming_parameters(done: Done) -> None:
    assert done.output == "starts, its input is still being written\nwrote 2 lines\n"
    assert (done.folder / "poem.txt").read_text() == "one line\nand another\n"


# --- guides/approval-and-guards.md ------------------------------------------------------------------------------------


@program(
    reply(tool_use("delete_file", {"path": "tmp/a.txt"}), tool_use("delete_file", {"path": "notes.txt"})),
    reply(text("One is deleted.")),
)
def approval(done: Done) -> None:
    assert "asked about {'path': 'notes.txt'}" in done.output
    assert done.output.endswith("True deleted tmp/a.txt\nFalse Only files in tmp/ may be deleted.\n")


@program(
    reply(tool_use("write_file", {"path": "../notes.txt", "body": "a long text " * 100})),
    reply(text("I cannot write there.")),
    timing=Timing(tokens_per_second=2000),
)
def guard(done: Done) -> None:
    assert done.output == "False incomplete The path must stay inside the folder.\ncompleted\n"


@program(
    reply(_WEATHER, tool_use("get_weather", {"city": "Atlantis"})),
    reply(text("15 degrees in Paris.")),
)
def step_by_step(done: Done) -> None:
    assert done.output == "completed ['Paris: 15 degrees', 'There is no such city.']\n"


# --- guides/errors.md -------------------------------------------------------------------------------------------------


@program(
    reply(_WEATHER),
    http_error(401, "authentication_error", "invalid x-api-key"),
    warns=_ENDED.format("error, APIError after 1"),
)
def errors(done: Done) -> None:
    assert done.output == "401 authentication_error False\nerror after 1 turns, 1 calls\n"
    assert RunResult.from_json((done.folder / "run.json").read_text()).messages[-1]["role"] == "user"


_LONG_POEM = {"path": "poem.txt", "body": "".join(f"This is line {number}.\n" for number in range(20))}


def _rest_of_poem(request: Mapping[str, Any]) -> Recording:
    if asked := is_asked(request):
        seen = request["messages"][-2]["content"][-1]["input"]
        return reply(tool_use("continue_input", rest_of(_LONG_POEM, seen, asked)))
    return reply(text("Done."))


@program(
    reply(tool_use("write_file", json.dumps(_LONG_POEM)[:200]), stop_reason="max_tokens"),
    _rest_of_poem,
    warns=r"an input was cut off after 200 characters, and its rest is asked for: max_tokens \(requests .*\)\n",
)
def continued_inputs(done: Done) -> None:
    assert done.output == f"completed wrote {len(_LONG_POEM['body'])} characters\n"
    assert (done.folder / "out" / "poem.txt").read_text() == _LONG_POEM["body"]
    assert [request.body["max_tokens"] for request in done.requests] == [4096, 8192, 4096]


@program(reply(_MILD))
def pings(done: Done) -> None:
    assert "The model thinks.\n" in done.output


@program(reply(_WEATHER), reply(_MILD), warns=_ENDED.format("limit, max_cost after 1"))
def budget(done: Done) -> None:
    assert done.output == "limit max_cost True\n"
    assert len(done.requests) == 1


@program(reply(tool_use("make_file", {"filename": "poem.txt", "lines_of_text": ["line"] * 200})), timing=_TIMING)
def cancel(done: Done) -> None:
    assert done.output == "cancelled incomplete\nfaults of the history: []\n"


# --- guides/holding.md ------------------------------------------------------------------------------------------------


@program(reply(text("one two three " * 200)), timing=_TIMING)
def held_in_a_generator(done: Done) -> None:
    piece, last = done.output.splitlines()
    assert piece.startswith("one")
    assert last == "still here"


@program(reply(text("I am well.")))
def held_in_a_session(done: Done) -> None:
    assert done.output == "I am well.\n"


# --- guides/logging.md ------------------------------------------------------------------------------------------------


@program(reply(_WEATHER), reply(_MILD))
def see_the_log(done: Done) -> None:
    lines = [line for line in done.output.splitlines() if line.startswith("DEBUG")]
    assert sum("a request is sent: model 'claude-opus-4-7'" in line for line in lines) == 2
    assert sum("of the tool 'get_weather' starts" in line for line in lines) == 1
    assert "Paris" not in done.output


# --- guides/saving.md -------------------------------------------------------------------------------------------------


@program(
    reply(tool_use("add_note", {"text": "Danube"})),
    reply(text("I noted it.")),
    warns=_ENDED.format("limit, max_turns after 1"),
)
def saving(done: Done) -> None:
    assert done.output == "limit with 3 messages\ncompleted with 4 messages\n"
    assert (done.folder / "notes.txt").read_text() == "Danube\n"


# --- guides/steering.md -----------------------------------------------------------------------------------------------


@program(reply(text("Rain falls.")), reply(text("Rain falls\non the roof\nall night.")))
def answer_the_model(done: Done) -> None:
    assert done.output == "Rain falls.\nRain falls\non the roof\nall night.\n"
    assert done.requests[1].body["messages"][-1]["content"] == "A haiku has three lines."
    assert len(done.requests) == 2


# --- guides/durable.md ------------------------------------------------------------------------------------------------


@program(reply(tool_use("pay", {"amount": 17})), reply(text("It is paid.")))
def durable(done: Done) -> None:
    assert done.output == "completed It is paid.\n"
    assert (done.folder / "runs.db").exists()


# --- guides/progress.md -----------------------------------------------------------------------------------------------


@program(reply(_WEATHER), reply(_MILD))
def watch(done: Done) -> None:
    """It is shown in plain lines, on a page, and kept in a file that can be watched again."""
    assert re.search(r"open http://127\.0\.0\.1:\d+/\?token=\S+", done.output)
    assert "get_weather" in done.output
    assert load_records(done.folder / "weather.jsonl")[-1]["type"] == "run_stop"


@program(reply(_POEM), reply(text("Done.")), timing=_TIMING)
def summaries(done: Done) -> None:
    # Deltas that wait are merged, so a program that was held up may show no count of 1.
    assert re.search(r"^Creating poem\.txt, [012] lines?$", done.output, re.MULTILINE)
    assert done.output.endswith("Created poem.txt, 2 lines\n")
    assert "and another" not in done.output


_WRITTEN = tool_use("Write", {"path": "poem.txt", "content": "one line"})
_PUBLISHED = tool_use("publish", {"filename": "poem.txt", "summary": "A poem."})


def _edit(_: str, folder: Path) -> None:
    """The client starts the agent, as an editor does."""
    codes = {program.name: program.code for page in PAGES for program in programs(page)}
    (folder / "agent.py").write_text(codes["acp-agent"], encoding="utf-8")
    scenario = Scenario(reply(_WRITTEN), reply(_PUBLISHED), reply(text("Done.")), timing=_TIMING)
    done = run_program(codes["acp-client"], scenario, folder)
    assert f"Write `poem.txt`  {{'path': 'poem.txt', 'content': 'one line'}} {folder}/poem.txt" in done.output
    assert "May it run? publish `poem.txt`" in done.output
    assert done.output.endswith("completed \nDone.\n end_turn\n")
    assert (folder / "poem.txt").read_text(encoding="utf-8") == "one line"


SCENARIOS["acp-agent"] = SCENARIOS["acp-client"] = Tried(_edit)


_ROWS = tool_use("import_rows", {"rows": "Shanghai,China\nSingapore,Singapore\n"})


@program(reply(_ROWS), reply(text("Done.")), timing=_TIMING)
def progress_about_lines(done: Done) -> None:
    assert "▸ line 1 running · insert" in done.output
    assert "done: imported 2 rows" in done.output


_CALLS = tool_use("edit_notes", {"old": "Call Ada.\n", "new": "Call Ada.\nCall Bob.\n"})


@program(reply(_CALLS), reply(text("Done.")), timing=_TIMING)
def live_diffs(done: Done) -> None:
    assert re.search(r"edit_notes .* done \+1 -0: replaced", done.output)
    assert (done.folder / "notes.txt").read_text() == "Buy milk.\nCall Ada.\nCall Bob.\nWater the plants.\n"


_DOCUMENT = {"title": "Harbours", "paragraphs": [f"Paragraph {number}." for number in range(400)]}


@server(
    reply(tool_use("write_document", _DOCUMENT), tool_use("publish", {"title": "Harbours"})),
    reply(text("Done.")),
    timing=_FAST,
)
def web_page(url: str, folder: Path) -> None:
    """The page shows the input as it grows, also after a lost connection and a reload, asks, and stops the run."""
    from selenium.webdriver.support.ui import WebDriverWait  # the quick tests do without a browser

    from tests.browser import chromium

    with line(url) as wire, chromium(folder / "profile") as browser:

        def count() -> int:
            return len(browser.find_elements("css selector", "#paragraphs p"))

        wait = WebDriverWait(browser, 30)
        browser.get(wire.url)
        browser.find_element("id", "start").click()
        wait.until(lambda _: count() > 3)
        assert browser.find_element("id", "title").text == "Harbours"
        before, connections = count(), wire.connections
        wire.cut()
        wait.until(lambda _: wire.connections > connections and count() > before + 3)
        browser.refresh()
        wait.until(lambda _: count() > before + 3)
        browser.find_element("id", "stop").click()
        wait.until(lambda _: browser.find_element("id", "state").text == "cancelled")
        shown = [paragraph.text for paragraph in browser.find_elements("css selector", "#paragraphs p")]
        assert len(shown) < 400
        assert _DOCUMENT["paragraphs"][: len(shown) - 1] == shown[:-1]
        browser.find_element("id", "start").click()
        questions = browser.find_element("id", "questions")
        wait.until(lambda _: questions.text.startswith('May publish run with {"title": "Harbours"}?'))
        browser.execute_script("document.querySelector('#questions button').click()")
        wait.until(lambda _: questions.text == "" and count() == 400)
    foreign = {"sec-fetch-site": "cross-site"}
    assert httpx.post(f"{url}/start", headers=foreign, timeout=20).status_code == 403


@server(reply(tool_use("write_document", _DOCUMENT)), reply(text("Done.")), timing=_FAST)
def web_page_fastapi(url: str, folder: Path) -> None:
    """A run is started by a request, and the page that is ready shows it."""
    from selenium.webdriver.support.ui import WebDriverWait

    from tests.browser import chromium

    started = httpx.post(f"{url}/start", params={"subject": "boats"}, timeout=20).json()
    with chromium(folder / "profile") as browser:
        browser.get(f"{url}/watch/#run={started['run']}")
        wait = WebDriverWait(browser, 30)
        wait.until(lambda _: browser.find_elements("css selector", ".call[data-phase=done]"))
        assert browser.find_element("css selector", "h1").text == "boats"
    foreign = {"sec-fetch-site": "cross-site"}
    assert httpx.post(f"{url}/start", headers=foreign, timeout=20).status_code == 403


# --- guides/vercel.md and agui.md -------------------------------------------------------------------------------------

_LETTER = {"to": "Ada", "paragraphs": [f"Paragraph {number} of a letter." for number in range(150)]}
_LETTERS = (
    reply(tool_use("draft_letter", _LETTER)),
    reply(tool_use("send_letter", {"to": "Ada"})),
    reply(text("It is sent.")),
)


def _open_built(page: str, language: str, url: str, folder: Path) -> Any:
    """Build the client that a page of the docs has, as its reader would, and open it in a browser."""
    from packages.progress.tests.clients.bundle import build

    from tests.browser import chromium

    code = re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)
    build(code[0], folder / "dist")
    return chromium(folder / "profile")


@server(*_LETTERS, timing=_FAST)
def vercel_chat(url: str, folder: Path) -> None:
    """The letter grows, also after a reload; it is sent after an approval, in the same message."""
    from selenium.webdriver.support.ui import WebDriverWait

    with _open_built("guides/vercel.md", "tsx", url, folder) as browser:
        wait = WebDriverWait(browser, 30)

        def paragraphs() -> int:
            return len(browser.find_elements("css selector", "section p"))

        browser.get(url)
        wait.until(lambda _: browser.find_elements("css selector", "input"))[0].send_keys("A letter to Ada.\n")
        wait.until(lambda _: 3 < paragraphs() < 150)
        browser.refresh()
        wait.until(lambda _: 3 < paragraphs() < 150)
        wait.until(lambda _: browser.find_elements("css selector", "[data-state=approval-requested]"))
        assert paragraphs() == 150
        browser.execute_script("document.querySelector('[data-state=approval-requested] button').click()")
        wait.until(lambda _: "It is sent." in browser.find_element("css selector", "main").text)
        assert len(browser.find_elements("css selector", "article[data-role=assistant]")) == 1
        assert len(browser.find_elements("css selector", "[data-state=output-available]")) == 2


@server(*_LETTERS, timing=_FAST)
def agui_agent(url: str, folder: Path) -> None:
    """The letter grows in the state, and is sent after the answer to the interrupt."""
    from selenium.webdriver.support.ui import WebDriverWait

    with _open_built("guides/agui.md", "ts", url, folder) as browser:
        wait = WebDriverWait(browser, 30)

        def press(word: str) -> bool:
            script = "const found = [...document.querySelectorAll('button')].find((one) => one.textContent === arguments[0]); found?.click(); return Boolean(found)"
            return bool(browser.execute_script(script, word))

        browser.get(url)
        browser.execute_script("window.prompt = () => 'A letter to Ada.'")
        wait.until(lambda _: press("Send"))
        wait.until(lambda _: 3 < len(browser.find_elements("css selector", "section p")) < 150)
        wait.until(lambda _: press("Approve"))
        wait.until(lambda _: "assistant: It is sent." in browser.find_element("id", "root").text)
        assert len(browser.find_elements("css selector", "section p")) == 150
        assert "send_letter Ada: done" in browser.find_element("id", "root").text


# --- guides/latency.md ------------------------------------------------------------------------------------------------


@program(reply(_POEM), warns=_ENDED.format("limit, max_turns after 1") * 2)  # two runs
def latency(done: Done) -> None:
    for eager in (True, False):
        figures = rf"eager={eager}: first value after [\d.]+ s, tool after [\d.]+ s, longest gap [\d.]+ s"
        assert re.search(figures, done.output)


@program(reply(_WEATHER, tool_use("get_weather", {"city": "Lima"})), reply(_MILD))
def latency_csv(done: Done) -> None:
    head, *rows = csv.reader((done.folder / "calls.csv").read_text().splitlines())
    assert head[:3] == ["turn", "name", "start_s"]
    assert [row[:2] for row in rows] == [["1", "get_weather"]] * 2
    assert all(float(figure) >= 0 for row in rows for figure in row[2:])


# --- guides/testing.md ------------------------------------------------------------------------------------------------


@program(reply(_WEATHER), reply(_MILD))
def testing_agent(done: Done) -> None:
    assert done.output == "It has 15 degrees in Paris.\n"


def _pytest(code: str, folder: Path) -> None:
    """The test imports the agent from the block before it."""
    agent = next(block.code for page in PAGES for block in programs(page) if block.name == "testing-agent")
    assert len(agent.splitlines()) <= 30
    (folder / "agent.py").write_text(agent, encoding="utf-8")
    options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin"]
    done = run_program(code, Scenario(reply(text("Not asked."))), folder, options=options)
    assert "3 passed" in done.output
    assert not done.requests


SCENARIOS["testing-pytest"] = Tried(_pytest)


@program()
def testing_server(done: Done) -> None:
    assert done.output == "completed ['Paris: 15 degrees']\ntool_result\n"


@program(
    warns=r"(turn 1 of the run \w+ is sent again in 0\.0 s: (APIError|StreamInterrupted) \(request req_\w+\)\n){2}"
)
def testing_faults(done: Done) -> None:
    again, once_more, end = done.output.splitlines()
    assert again == "again, because: APIError"
    assert once_more == "again, because: StreamInterrupted"
    assert end == "completed after 3 requests"


# --- guides/aimock.md -------------------------------------------------------------------------------------------------


def _fixtures(code: str, folder: Path) -> None:
    """The program reads the fixtures with which aimock itself is tried."""
    fixtures = Path(__file__).parents[2] / "packages/testing/tests/aimock/fixtures.json"
    shutil.copy(fixtures, folder / "fixtures.json")
    done = run_program(code, Scenario(reply(text("Not asked."))), folder)
    assert done.output == "['tool_use']\n"
    assert not done.requests


SCENARIOS["aimock"] = Tried(_fixtures)


# --- guides/platforms.md ----------------------------------------------------------------------------------------------


@program(reply(text("Hello.")))
def http_transport(done: Done) -> None:
    assert done.output == "Hello.\n"


# --- guides/workers.md ------------------------------------------------------------------------------------------------


@program(reply(tool_use("count_primes", {"below": 100})), reply(text("There are 25.")))
def workers(done: Done) -> None:
    assert "There are 25." in done.output
    assert done.requests[1].body["messages"][-1]["content"][0]["content"] == "25"


@server(reply(_WEATHER), reply(_MILD), timing=Timing())
def gateway(url: str, _: Path) -> None:
    """A client reads the records of its run, to the last one."""
    with httpx.stream("POST", f"{url}/runs", json={"question": "Weather in Paris?"}, timeout=20) as response:
        records = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
    assert records[0]["type"] == "run_start"
    assert records[-1]["status"] == "completed"


# --- guides/several-processes.md --------------------------------------------------------------------------------------


def _several_processes(code: str, folder: Path) -> None:
    """Runs are started, decided about and read to their ends through any of four workers."""
    from packages.progress.tests.redis_server import RedisServer

    runs = Scenario(reply(tool_use("publish", {"title": "Harbours", "text": "Long."})), reply(text("Done.")))
    secrets = {"RELAY_SECRET": "a secret of the test", "PAGE_TOKEN": "a-token-of-the-test"}
    with RedisServer(folder) as redis, pytest.MonkeyPatch.context() as environ:
        for name, value in {**secrets, "REDIS_URL": redis.url, "WEB_CONCURRENCY": "4"}.items():
            environ.setenv(name, value)
        with (
            serving(code, runs, folder) as url,
            httpx.Client(headers={"authorization": "Bearer a-token-of-the-test"}) as client,
        ):
            started: list[dict[str, Any]] = []
            while len({each["pid"] for each in started}) < 2:  # the system chooses, and not all may have started yet
                started.append(client.post(f"{url}/start", headers={"connection": "close"}, timeout=30).json())
                assert len(started) < 200
                time.sleep(0.1)
            for each in started:
                path = f"{url}/watch/runs/{each['run']}"
                while (answer := client.post(f"{path}/decide", json={"block": 1, "approved": True})).status_code == 409:
                    time.sleep(0.1)
                assert answer.status_code == 204
                while '"run_stop"' not in client.get(f"{path}/records.jsonl", timeout=30).text:
                    time.sleep(0.1)


SCENARIOS["several-processes"] = Tried(_several_processes)

# --- guides/mcp-apps.md ------------------------------------------------------------------------------------------------


def _is_the_example(code: str, _: Path) -> None:
    """The program and its page are those of the example, which `test_mcp_apps_page.py` tries in a browser."""
    program = (ROOT / "examples/serve_mcp_apps.py").read_text(encoding="utf-8")
    assert program.split('"""\n\n', 1)[1] == code
    page = (ROOT / "examples/serve_mcp_apps.html").read_text(encoding="utf-8")
    assert f"```html\n{page}```\n" in (ROOT / "docs/guides/mcp-apps.md").read_text(encoding="utf-8")


SCENARIOS["mcp-apps"] = Tried(_is_the_example)


# --- packages/wire/README.md ------------------------------------------------------------------------------------------


@program()
def wire_partial_values(done: Done) -> None:
    assert done.output.splitlines() == [
        "{'lines': ['one li']}",
        "{'lines': ['one line', 'tw']}",
        "{'lines': ['one line', 'two']}",
        "make_file valid {'lines': ['one line', 'two']}",
    ]


@program()
def wire_repair(done: Done) -> None:
    fault, repair = done.output.splitlines()
    assert fault.startswith("fault: messages.1: `tool_use` ids were found without `tool_result` blocks")
    assert repair.startswith("repair: ")


# --- the pages of other packages --------------------------------------------------------------------------------------


@program()
def testing_readme(done: Done) -> None:
    assert done.output == "tool_use {'city': 'Paris'}\n1 request\n"


@program(reply(_WEATHER), reply(_MILD))
def progress_readme(done: Done) -> None:
    assert "get_weather" in done.output
    assert "Paris: 15 degrees" in done.output


@program(reply(tool_use("calculator", {"expression": "6 * 7"})), reply(text("42.")))
def toolkit_readme(done: Done) -> None:
    assert "42" in done.output


@program(reply(text("Hello.")))
def durable_readme(done: Done) -> None:
    assert done.output == "completed Hello.\n"
