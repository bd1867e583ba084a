"""A server that answers request by request, and the tools, blocks and bodies that the tests of this folder compare."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import anyio

import eagerstream
from eagerstream import Conversation, InputInterrupted, Tool, tool
from eagerstream.calls import RunStatus, Turn
from eagerstream.errors import ToolError
from eagerstream.loop import Run, RunResult
from eagerstream.recordings import Recording
from eagerstream.streaming import MessageStream
from eagerstream.tools import Group, ItemStream, TextStream
from eagerstream_testing import ReplayServer, Scenario, Timing, http_error, reply, retime, text
from eagerstream_wire import WireEvent
from tests import api_rules
from tests.streams import MESSAGE_STOP, REQUEST, USER, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Exchange, Gate, LocalAPI, Piece, all_tasks_blocked, anthropic_client, check_history, refused

SLOWLY_S = 20
Message = dict[str, Any]


class Serial:
    """The nth request of a conversation gets its nth reply, over a real socket, cut at random places.

    A `Scenario` counts the assistant messages of a request instead, which a retry and a reply without content do not
    add to.
    """

    def __init__(self) -> None:
        self.server = ReplayServer(Scenario.of(self._answer), speed=float("inf"))
        self.bodies: list[dict[str, Any]] = []
        self._replies: Sequence[Recording] = ()

    def _answer(self, request: Mapping[str, Any]) -> Recording:
        self.bodies.append(dict(request))
        if faults := api_rules.check_request(request):
            return refused(faults)
        if len(self.bodies) > len(self._replies):
            return http_error(400, "invalid_request_error", "one request too many")
        answer = self._replies[len(self.bodies) - 1]
        if answer.status != 200:
            return answer
        return retime(answer, Timing(cut="random", seed=len(self.bodies), speed=float("inf")))

    @asynccontextmanager
    async def conversing(self, *replies: Recording) -> AsyncIterator[Any]:
        """The real client; `bodies` are the requests from here on."""
        self._replies = replies
        self.bodies = []
        async with anthropic_client(self.server.base_url) as client:
            yield client


class Listed(LocalAPI):
    """The same without a socket, event by event."""

    def body_for(self, exchange: Exchange) -> Sequence[Piece] | Recording:
        """Return the reply to this request, or say what is wrong with it."""
        if faults := api_rules.check_request(exchange.body):
            return refused(faults)
        if len(self.exchanges) >= len(self._bodies):
            return http_error(400, "invalid_request_error", "one request too many")
        answer = self._bodies[len(self.exchanges)]
        if not isinstance(answer, Recording) or answer.status != 200:
            return answer
        return [event + b"\n\n" for event in answer.body.split(b"\n\n") if event]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """All requests."""
        return [exchange.body for exchange in self.exchanges]


# --- tools ------------------------------------------------------------------------------------------------------------


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city.

    Args:
        city: City and country.
    """
    return f"15 degrees in {city}"


@tool
async def now() -> str:
    """The time."""
    return "noon"


@tool
async def fail(how: Literal["loudly", "kindly"] = "loudly") -> None:
    """Fail."""
    if how == "kindly":
        raise ToolError("Rate limit exceeded.", hint="Retry after 60 seconds.")
    raise ConnectionError("no route")


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


@tool
async def draw() -> list[dict[str, Any]]:
    """A picture."""
    return [IMAGE]


@tool(group=Group("files", stop_on_error=True))
async def write_file(path: str) -> str:
    """Write a file, one after the other."""
    if path == "/":
        raise PermissionError("no")
    return f"wrote {path}"


TOOLS: list[Tool] = [get_weather, now, fail, draw, write_file]
DONE = reply(text("Done."), message_id="msg_done")
CUT = "Not executed: the input of this call was cut off before its JSON was complete."
NOT_RUN = "Not executed: the response ended before this call was run."
NO_ROUTE = "ConnectionError: no route"


class Scribe:
    """A streaming tool that remembers what it got, and when its reading ended how."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.has: dict[int, anyio.Event] = {}
        self.begun = anyio.Event()
        self.interrupted: InputInterrupted | None = None

    def after(self, count: int) -> anyio.Event:
        """Set when so many lines have been read."""
        return self.has.setdefault(count, anyio.Event())

    @tool
    async def make_file(self, filename: str, lines: ItemStream[str]) -> str:
        """Write a file."""
        self.begun.set()
        try:
            async for line in lines:
                self.got.append(line)
                self.after(len(self.got)).set()
        except InputInterrupted as error:
            self.interrupted = error
            return f"kept {len(self.got)} lines of {filename}"
        return f"wrote {len(self.got)} lines to {filename}"


# --- messages, written short ------------------------------------------------------------------------------------------


def assistant(*blocks: dict[str, Any]) -> Message:
    """A reply in a history."""
    return {"role": "assistant", "content": list(blocks)}


def results(*blocks: dict[str, Any]) -> Message:
    """The answers to its calls."""
    return {"role": "user", "content": list(blocks)}


def said(content: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": content}


def call(id: str, name: str, input: Any, **fields: Any) -> dict[str, Any]:
    """A call in a history."""
    return {"type": "tool_use", "id": id, "name": name, "input": input, **fields}


def result(id: str, content: Any) -> dict[str, Any]:
    """Its result."""
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def error(id: str, content: str) -> dict[str, Any]:
    """Its result, an error."""
    return {**result(id, content), "is_error": True}


QUICK: dict[str, Any] = {**REQUEST, "tools": TOOLS, "restart_delay_s": 0}
"""A request that is sent again at once."""

ALL_DONE = assistant(said("Done."))


def body(*messages: Message, tools: Sequence[Any] = TOOLS, **fields: Any) -> dict[str, Any]:
    """The whole body of a request whose history is the first user message and these."""
    definitions = [made if isinstance(made, dict) else made.to_dict() for made in tools]
    whole = {**REQUEST, "stream": True, **fields, "messages": [USER, *messages]}
    return {**whole, "tools": definitions} if definitions else whole


@contextmanager
def only_new_garbage() -> Iterator[None]:
    """The garbage collector looks at what is made from here on only, not at all modules.

    Nothing is unfrozen at the end: `gc.unfreeze` would also undo the freeze after the collection of all tests.
    """
    gc.collect(0)
    gc.freeze()
    yield


# --- bodies of responses, written short --------------------------------------------------------------------------------

END: list[WireEvent] = [message_delta("tool_use"), MESSAGE_STOP]


def refused_for_now(status: int, error_type: str, **headers: str) -> Recording:
    """A refusal whose headers say how long to wait, with `_` for `-`."""
    refusal = http_error(status, error_type, "Not now")
    added = {name.replace("_", "-"): value for name, value in headers.items()}
    return Recording(refusal.chunks, status=status, headers={**refusal.headers, **added})


def opened(name: str, *fragments: str, index: int = 0) -> list[Piece]:
    """A call whose input is being written."""
    return [tool_start(index, name), *(input_delta(index, fragment) for fragment in fragments)]


def ended(reason: str = "tool_use", index: int = 0) -> list[Piece]:
    """The end of the block and of the response."""
    return [block_stop(index), message_delta(reason), MESSAGE_STOP]


class _Blocked:
    async def wait(self) -> None:
        await all_tasks_blocked()


class UntilBlocked(Gate):
    """A place in a body where it goes on once everything else waits."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: Any = _Blocked()


# --- running ----------------------------------------------------------------------------------------------------------


def checked(result: RunResult, given: RunResult | Sequence[Mapping[str, Any]] = (USER,)) -> RunResult:
    """A result whose history obeys the law, by both of its checkers; each of its calls says whether it is in there."""
    given = given.messages if isinstance(given, RunResult) else given
    check_history(result.messages)
    assert eagerstream.validate_history(result.messages) == []
    assert result.messages[: len(given)] == list(given)
    kept = [
        block["id"]
        for message in result.messages[len(given) :]
        for block in message["content"]
        if isinstance(block, dict)
        if block["type"] == "tool_use"
    ]
    assert sorted(made.input.echo_id for made in result.calls if made.in_history) == sorted(kept)
    return result


@asynccontextmanager
async def running(client: Any, **options: Any) -> AsyncIterator[Run]:
    """A run of `REQUEST` that is over in time. Its history obeys the law."""
    options = {**REQUEST, **options}
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(client, **options) as run:
            yield run
    checked(run.result, options["messages"])


async def finished(client: Any, **options: Any) -> Run:
    """A run that went to its end."""
    async with running(client, **{"tools": TOOLS, **options}) as run:
        await run.finish()
    assert run.result.status not in (RunStatus.CANCELLED, RunStatus.ERROR)
    return run


async def events_in(run: Run) -> list[Any]:
    """All events of a run that has not been entered yet."""
    with anyio.fail_after(SLOWLY_S):
        async with run:
            return [event async for event in run]


async def events_of(client: Any, **options: Any) -> tuple[list[Any], Run]:
    """All events of a run, and the run."""
    run = eagerstream.run(client, **{"tools": TOOLS, **REQUEST, **options})
    events = await events_in(run)
    checked(run.result)
    return events, run


def results_in(messages: Sequence[Mapping[str, Any]], number: int = -1) -> list[dict[str, Any]]:
    """The results in one message."""
    return [item for item in messages[number]["content"] if item["type"] == "tool_result"]


def only_result(run: Run) -> Mapping[str, Any]:
    """The result of the only call of the first turn."""
    (result,) = run.result.messages[2]["content"]
    found: Mapping[str, Any] = result
    return found


async def next_response(client: Any, conversation: Conversation) -> MessageStream:
    """The response to the next request of a conversation, read to its end and not taken in."""
    async with eagerstream.stream(client, **conversation.request()) as stream:
        await stream.finish()
    return stream


async def next_turn(client: Any, conversation: Conversation) -> Turn:
    """The next turn of a conversation; none of its calls has run."""
    return conversation.take(await next_response(client, conversation))


async def by_hand(client: Any, **options: Any) -> Conversation:
    """The same conversation, driven step by step."""
    conversation = Conversation(**{"tools": TOOLS, **REQUEST, **options})
    with anyio.fail_after(SLOWLY_S):
        while not conversation.ended:
            turn = await next_turn(client, conversation)
            await conversation.execute(turn)
            turn.results()
    checked(conversation.result, options.get("messages", (USER,)))
    return conversation


class Remover:
    """A streaming tool that says what it has done when its input breaks off."""

    def __init__(self, **options: Any) -> None:
        self.begun = anyio.Event()

        @tool(**options)
        async def write(words: TextStream) -> str:
            self.begun.set()
            try:
                return await words
            except InputInterrupted:
                return "removed it again"

        self.tool = write


class Endless:
    """A tool that starts, may run twice and never ends, and the gate that holds a response back until it has started."""

    def __init__(self, **options: Any) -> None:
        self.begun = anyio.Event()
        self.cancelled = False
        self.gate = Gate()

        @tool(**{"idempotent": True, **options})
        async def endless() -> None:
            self.begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled = True

        self.tool = endless

    async def finish(self, api: LocalAPI, **options: Any) -> Run:
        """A run that goes to its end once the tool has started."""
        async with running(api.transport(), **options) as run:
            await self.begun.wait()
            self.gate.opened.set()
            await run.finish()
        return run


CALLER = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}


def called_by_code(name: str) -> list[Any]:
    """A response in which code calls a tool."""
    return [message_start(), tool_start(0, name, caller=CALLER), input_delta(0, "{}"), block_stop(0), *END]
