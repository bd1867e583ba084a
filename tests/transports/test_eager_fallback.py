"""`EagerFallback`: which forms of a request are sent, when, and what is kept of what was refused."""

from __future__ import annotations

import gc
import json
import logging
import re
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
import sniffio
from anthropic import APIStatusError, Omit

import eagerstream
from eagerstream.calls import RunStatus
from eagerstream.errors import APIError, StreamInterrupted, UsageError
from eagerstream.limits import Limits
from eagerstream.loop import Conversation, Restarted, Run, RunResult, TurnStart
from eagerstream.recordings import Chunk, Recording
from eagerstream.streaming import MessageStream
from eagerstream.tools import tool
from eagerstream.transports import HTTPTransport, Reply, RequestBody, Transport
from eagerstream.transports._eager_fallback import EagerFallback
from eagerstream_testing import error_event, http_error, reply, text, tool_use
from eagerstream_wire import MessageStop, WireEvent
from eagerstream_wire._tool_kind import LEGACY_BETA
from tests.streaming.streams import error_of, finished
from tests.streams import MESSAGE_STOP, REQUEST, message_delta, message_start
from tests.support import Exchange, LocalAPI, Piece, all_tasks_blocked, anthropic_http_library, check_history
from tests.tables import rows

SLOWLY_S = 20
NEVER_S = 3600.0
FIELD = "eager_input_streaming"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}

EAGER = {"name": "get_weather", "input_schema": SCHEMA, FIELD: True}
BUFFERED = {"name": "pay", "input_schema": SCHEMA, FIELD: False}
UNSAID = {"name": "look", "input_schema": SCHEMA}
WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}

FIELD_REFUSAL = "tools.0.custom.eager_input_streaming: Extra inputs are not permitted"
BETA_REFUSAL = (
    f"Unexpected value(s) `{LEGACY_BETA}` for the `anthropic-beta` header. Please consult our documentation at "
    "docs.anthropic.com or try again without the header."
)
WEATHER = reply(text("Let me look."), tool_use("get_weather", {"city": "Oslo"}))
DONE = reply(text("Done."), message_id="msg_done")

MINE, YOURS = "mine-2025-01-01", "yours-2025-01-01"
"""Betas that the user gave."""

FIRST = ("field", "header", "neither")
"""The forms, in their order."""


def refused(message: str, status: int = 400) -> Recording:
    return http_error(status, "invalid_request_error", message)


def betas_of(exchange: Exchange) -> list[str]:
    """The betas that arrived."""
    return [beta.strip() for beta in exchange.headers.get("anthropic-beta", "").split(",") if beta.strip()]


def form_of(exchange: Exchange) -> str:
    """The form in which a request arrived."""
    if any(FIELD in tool for tool in exchange.body.get("tools", ())):
        return "field"
    return "header" if LEGACY_BETA in betas_of(exchange) else "neither"


class Platform(LocalAPI):
    """Takes some forms of a request, and refuses the others in its words.

    Where a request has both, it is the field that it refuses, as Bedrock does.
    """

    def __init__(
        self,
        *,
        takes: Sequence[str] = (),
        field_refusal: Recording = refused(FIELD_REFUSAL),
        beta_refusal: Recording = refused(BETA_REFUSAL),
        bodies: Sequence[Sequence[Piece]] = ([WEATHER],),
    ) -> None:
        super().__init__(*bodies)
        self.takes = set(takes)
        self.field_refusal = field_refusal
        self.beta_refusal = beta_refusal
        self.accepted = 0

    @property
    def forms(self) -> list[str]:
        """In which the requests came."""
        return [form_of(exchange) for exchange in self.exchanges]

    def body_for(self, exchange: Exchange) -> Sequence[Piece] | Recording:
        form = form_of(exchange)
        if form not in self.takes:
            if form == "field":
                return self.field_refusal
            if form == "header":
                return self.beta_refusal
        self.accepted += 1
        return self._bodies[min(self.accepted, len(self._bodies)) - 1]


def client_of(api: LocalAPI, kind: str) -> Any:
    return api.anthropic() if kind == "anthropic" else api.transport()


async def streamed(client: Any, *tools: Any, **options: Any) -> MessageStream:
    """A stream that was read to its end."""
    stream = await finished(client, **options, tools=tools)
    assert stream.is_whole
    return stream


async def failure_of(client: Any, *tools: Any, **options: Any) -> APIError:
    error: APIError = await error_of(client, tools=tools, **options)
    return error


def chain_of(error: BaseException | None) -> list[BaseException]:
    """An error, and all that a traceback of it tells of."""
    chain: list[BaseException] = []
    while error is not None:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


both_clients = pytest.mark.parametrize("kind", ["anthropic", "http"])
pytestmark = pytest.mark.anyio

# --- the forms --------------------------------------------------------------------------------------------------------


@both_clients
async def test_the_field_is_taken(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """One request, as it was given, and nothing to tell of."""
    api = Platform(takes=["field"])
    stream = await streamed(client_of(api, kind), EAGER, UNSAID, eager=False)
    assert stream.eager == "field"
    (exchange,) = api.exchanges
    assert exchange.body == {**REQUEST, "tools": [EAGER, UNSAID], "stream": True}
    assert betas_of(exchange) == []
    assert caplog.records == []


@both_clients
async def test_the_field_is_refused(kind: str) -> None:
    """Sent again without the field on any tool and with the beta; all else of it is the same, and what the user gave
    is untouched."""
    api = Platform(takes=["header"])
    tools = [dict(EAGER), dict(UNSAID), dict(WEB_SEARCH), {**EAGER, "name": "other"}]
    stream = await streamed(client_of(api, kind), *tools, system="Be brief.")
    assert stream.eager == "header"
    assert stream.inputs[1].value == {"city": "Oslo"}
    first, second = api.exchanges
    assert form_of(first) == "field"
    without = {name: value for name, value in EAGER.items() if name != FIELD}
    assert second.body == {**first.body, "tools": [without, UNSAID, WEB_SEARCH, {**without, "name": "other"}]}
    assert betas_of(second) == [LEGACY_BETA]
    assert second.url == first.url
    assert first.closed and second.closed
    assert tools == [EAGER, UNSAID, WEB_SEARCH, {**EAGER, "name": "other"}]


@both_clients
async def test_the_beta_is_refused_too(kind: str) -> None:
    """Sent once more with neither: inputs arrive buffered, which is better than no reply."""
    for words in (
        BETA_REFUSAL,
        "invalid beta flag",
        "Invalid Beta Flag",
        "anthropic_beta: Extra inputs are not permitted",
        "`anthropic-beta` cannot be used here",
    ):
        api = Platform(beta_refusal=refused(words))
        stream = await streamed(client_of(api, kind), EAGER)
        assert stream.eager is None, words
        assert api.forms == ["field", "header", "neither"], words
        assert betas_of(api.exchanges[2]) == []
        assert all(exchange.closed for exchange in api.exchanges)


async def test_a_refusal_without_the_api_s_envelope() -> None:
    """Bedrock says `{"message": ...}`: the anthropic client's own words have it."""
    headers = {"content-type": "application/json"}
    said = Recording((Chunk(0, b'{"message": "%s"}' % FIELD_REFUSAL.encode()),), status=400, headers=headers)
    flag = Recording((Chunk(0, b'{"message": "invalid beta flag"}'),), status=400, headers=headers)
    api = Platform(field_refusal=said, beta_refusal=flag)
    await streamed(api.anthropic(), EAGER)
    assert api.forms == ["field", "header", "neither"]


def _of_gateway(status: int, body: object) -> Recording:
    kind = "text/plain" if isinstance(body, str) else "application/json"
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return Recording((Chunk(0, data),), status=status, headers={"content-type": kind})


def of_gateways(refusal: str, name: str) -> list[Recording]:
    """A refusal in the forms in which gateways and validators pass it on."""
    unknown = {"type": "extra_forbidden", "loc": ["body", "tools", 0, name], "msg": "Extra inputs are not permitted"}
    return [
        _of_gateway(422, {"detail": [unknown]}),
        _of_gateway(500, {"error": {"type": "request_fail", "upstream_error": {"error": {"message": refusal}}}}),
        _of_gateway(502, {"error": f"upstream 400: {json.dumps({'message': refusal})}"}),
        _of_gateway(400, {"message": "must NOT have additional properties", "params": {"additionalProperty": name}}),
        _of_gateway(400, f"unknown field `{name}`, expected one of `name`, `description`"),
        _of_gateway(400, {"message": "unexpected", "token": name}),
        _of_gateway(422, {"detail": ["x" * 20_000, unknown]}),
        Recording((Chunk(0, refusal.encode()),), status=400, headers={"content-type": "text/html"}),
        _of_gateway(403, [{"error": {"code": 403, "message": "Forbidden", "details": [{"fieldViolations": [name]}]}}]),
    ]


@both_clients
async def test_a_refusal_in_the_words_of_a_gateway(kind: str) -> None:
    """Whatever its status, and wherever in its body the field or the beta is named."""
    for field, beta in zip(of_gateways(FIELD_REFUSAL, FIELD), of_gateways(BETA_REFUSAL, LEGACY_BETA), strict=True):
        api = Platform(field_refusal=field, beta_refusal=beta)
        await streamed(client_of(api, kind), EAGER)
        assert api.forms == list(FIRST), field.body


OTHER_ERRORS = [
    refused("messages.0.content: Field required"),
    refused("messages.0.content: Field required", 422),
    refused("Overloaded", 529),
]


@both_clients
async def test_other_errors_of_the_field(kind: str) -> None:
    """Not what another form would help against: raised as it is."""
    for error in (*OTHER_ERRORS, refused(BETA_REFUSAL)):
        api = Platform(field_refusal=error, takes=["header"])
        raised = await failure_of(client_of(api, kind), EAGER)
        assert raised.status_code == error.status
        assert raised.reason in error.body.decode()
        assert api.forms == ["field"], error.body


@both_clients
async def test_other_errors_of_the_header(kind: str) -> None:
    """The same, once the field was refused: the last word is raised, and nothing more is sent."""
    for error in (*OTHER_ERRORS, refused(FIELD_REFUSAL)):
        api = Platform(beta_refusal=error)
        raised = await failure_of(client_of(api, kind), EAGER)
        assert raised.status_code == error.status
        assert raised.reason in error.body.decode()
        assert api.forms == ["field", "header"], error.body


@both_clients
async def test_all_forms_are_refused(kind: str) -> None:
    """The last error is raised; a traceback of it tells of those before."""
    last = "invalid beta flag: the third"
    api = LocalAPI(refused(FIELD_REFUSAL), refused(BETA_REFUSAL), refused(last))
    raised = await failure_of(client_of(api, kind), EAGER)
    assert raised.reason == last
    reasons = [error.reason for error in chain_of(raised) if isinstance(error, APIError)]
    assert reasons == [last, BETA_REFUSAL, FIELD_REFUSAL]
    if kind == "anthropic":
        assert isinstance(raised.__cause__, APIStatusError)  # the client's own exception, as for every error
    assert len(api.exchanges) == 3


class Source(Transport):
    """A transport of one's own, which answers from a list of errors, or of what is to be done."""

    default_timeout_s = 500.0

    def __init__(self, *answers: Any) -> None:
        self.requests: list[RequestBody] = []
        self.opened = self.closed = 0
        self.answers = list(answers)

    def opening_timeout_s(self, limits: Limits) -> float:
        return self.default_timeout_s

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:
        self.requests.append(request)
        self.opened += 1
        try:
            await anyio.lowlevel.checkpoint()
            answer = self.answers.pop(0) if self.answers else None
            if isinstance(answer, Exception):
                raise answer
            if answer == "slow refusal":
                await anyio.sleep(0.02)
                raise field_error()
            if answer == "silence":
                await anyio.sleep_forever()
            yield OwnReply(None if answer is None else answer)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            self.closed += 1


class OwnReply:
    """A reply of one's own; `error` is raised by reading it."""

    def __init__(self, error: Any) -> None:
        self.request_id: str | None = "req_own"
        self._error = error
        self._events: list[list[WireEvent]] = [[message_start()], [message_delta("end_turn"), MESSAGE_STOP]]

    async def receive(self) -> list[WireEvent] | None:
        await anyio.lowlevel.checkpoint()
        if self._error is not None:
            raise self._error["raised"]
        return self._events.pop(0) if self._events else None


def field_error() -> APIError:
    return APIError(FIELD_REFUSAL, status_code=400)


def beta_error() -> APIError:
    return APIError(BETA_REFUSAL, status_code=400)


async def test_a_transport_of_one_s_own() -> None:
    """Any transport gets the same forms, as requests that it may read as it likes."""
    source = Source(field_error(), beta_error())
    headers = {"Anthropic-Beta": MINE, "x-note": "a"}
    stream = await streamed(source, EAGER, extra_headers=headers)
    assert (stream.eager, stream.request_id) == (None, "req_own")
    without = {name: value for name, value in EAGER.items() if name != FIELD}
    assert source.requests == [
        {**REQUEST, "tools": [EAGER], "extra_headers": headers},
        {
            **REQUEST,
            "tools": [without],
            "extra_headers": {"anthropic-beta": f"{MINE},{LEGACY_BETA}", "x-note": "a"},
        },
        {**REQUEST, "tools": [without], "extra_headers": headers},
    ]


@pytest.mark.parametrize("tools", [None, [], [UNSAID], [UNSAID, WEB_SEARCH]])
async def test_nothing_to_fall_back_from(tools: Any) -> None:
    """Where no tool has the field, the request goes out as the very object that it is, and is sent once."""
    request = REQUEST if tools is None else {**REQUEST, "tools": tools}
    source = Source(None, field_error())
    fallback = EagerFallback(source, source, "auto")
    async with fallback.open(request, Limits()):
        assert fallback.eager is None
    with pytest.raises(APIError, match="Extra inputs"):
        async with fallback.open(request, Limits()):
            raise AssertionError
    assert [sent is request for sent in source.requests] == [True, True]


async def test_a_recording() -> None:
    """Played back, whatever the tools ask; a recorded refusal stays one."""
    assert (await streamed(WEATHER, EAGER)).eager == "field"
    assert (await failure_of(refused(FIELD_REFUSAL), EAGER)).reason == FIELD_REFUSAL


# --- false ------------------------------------------------------------------------------------------------------------


@both_clients
async def test_false_cannot_be_said_under_the_beta(kind: str) -> None:
    """A tool that wants its input checked must not get unchecked fragments: the beta is left out for all."""
    api = Platform(takes=["header"])
    stream = await streamed(client_of(api, kind), EAGER, BUFFERED)
    assert stream.eager is None
    assert api.forms == ["field", "neither"]


@both_clients
async def test_false_where_the_field_is_taken(kind: str) -> None:
    """It is said, beside the tools that want the other."""
    api = Platform(takes=["field"])
    stream = await streamed(client_of(api, kind), EAGER, BUFFERED)
    assert stream.eager == "field"
    assert [tool[FIELD] for tool in api.exchanges[0].body["tools"]] == [True, False]


@pytest.mark.parametrize("value", [False, None])
async def test_nobody_asks(value: bool | None) -> None:
    """A field that says something else than true is refused as well, and must go; the beta would ask for what nobody
    wants."""
    for takes in (["field"], ["header"]):
        api = Platform(takes=takes)
        stream = await streamed(api.transport(), UNSAID | {FIELD: value})
        assert stream.eager is None
        assert api.forms == (["field"] if takes == ["field"] else ["field", "neither"])


@pytest.mark.parametrize("kind", ["computer_toolset_20260801", "browser_toolset_20260801"])
async def test_toolsets_that_forbid_the_beta(kind: str) -> None:
    """The API refuses the beta beside them: it is not tried."""
    api = Platform(takes=["header"])
    await streamed(api.transport(), EAGER, {"type": kind})
    assert api.forms == ["field", "neither"]


# --- the user's own betas and headers ---------------------------------------------------------------------------------


def anthropic_with(api: LocalAPI, **headers: Any) -> Any:
    return api.anthropic().with_options(default_headers=headers)


def http_with(api: LocalAPI, **headers: str) -> Any:
    return HTTPTransport(base_url="http://local", headers=headers, http_client=api.client(httpx))


BETAS: list[tuple[dict[str, Any], list[str]]] = [
    ({"betas": [MINE, YOURS]}, [MINE, YOURS]),
    ({"betas": []}, []),
    ({"betas": Omit()}, []),
    ({"extra_headers": {"anthropic-beta": MINE}}, [MINE]),
    ({"extra_headers": {"Anthropic-Beta": f"{MINE}, {YOURS}", "x-note": "a"}}, [MINE, YOURS]),
    ({"extra_headers": {"x-note": "a"}}, []),
    ({"extra_headers": None}, []),
]


@both_clients
async def test_betas_of_the_request_stay(kind: str) -> None:
    """The beta comes beside them, and goes without them."""
    for options, given in BETAS:
        api = Platform()
        await streamed(client_of(api, kind), EAGER, **options)
        sent = [betas_of(exchange) for exchange in api.exchanges]
        assert sent == [given, [*given, LEGACY_BETA], given], options
        assert len({exchange.url for exchange in api.exchanges}) == 1  # that of the betas, or the other
        note = (options.get("extra_headers") or {}).get("x-note")
        assert [exchange.headers.get("x-note") for exchange in api.exchanges] == [note] * 3


ON_HTTPX = anthropic_http_library() is httpx
"""The anthropic package is older than 1.0."""

BY_CASE = pytest.mark.skipif(ON_HTTPX, reason="clients before 1.0 tell headers apart by the case of their names")


def closes_what_is_cancelled(kind: str) -> bool:
    """Clients before 1.0 leave that to the connection while they read a refusal, which a mock does not have."""
    return kind != "anthropic" or not ON_HTTPX


@pytest.mark.parametrize("with_headers", [anthropic_with, http_with])
@pytest.mark.parametrize("name", ["anthropic-beta", "Anthropic-Beta"])
async def test_betas_of_the_client_stay(with_headers: Any, name: str) -> None:
    """A header of the request replaces that of the client: it says both."""
    api = Platform()
    await streamed(with_headers(api, **{name: f"{MINE},{YOURS}", "x-note": "a"}), EAGER)
    given = [MINE, YOURS]
    # Clients before 1.0 send both headers where their names differ in case: betas come twice, which does no harm.
    sent = [[*dict.fromkeys(betas_of(exchange))] for exchange in api.exchanges]
    assert sent == [given, [*given, LEGACY_BETA], given]
    assert [exchange.headers["x-note"] for exchange in api.exchanges] == ["a"] * 3


@pytest.mark.parametrize(
    ("with_headers", "given"), [(anthropic_with, [YOURS]), (http_with, [MINE, YOURS])], ids=["anthropic", "http"]
)
async def test_betas_of_the_client_and_of_the_request(with_headers: Any, given: list[str]) -> None:
    """Together as without the beta: an anthropic client replaces the one by the other, `HTTPTransport` adds them."""
    api = Platform()
    await streamed(with_headers(api, **{"anthropic-beta": MINE}), EAGER, betas=[YOURS])
    assert [betas_of(exchange) for exchange in api.exchanges] == [given, [*given, LEGACY_BETA], given]


@both_clients
async def test_betas_and_a_header_of_the_request(kind: str) -> None:
    """Where an anthropic client sends only the header, the beta must not be lost in the betas."""
    api = Platform()
    options = {"betas": [YOURS], "extra_headers": {"anthropic-beta": MINE}}
    await streamed(client_of(api, kind), EAGER, **options)
    first, second, third = map(betas_of, api.exchanges)
    assert first == third == ([MINE] if kind == "anthropic" else [MINE, YOURS])
    assert sorted(second) == sorted([*first, LEGACY_BETA])


@pytest.mark.parametrize("name", ["anthropic-beta", pytest.param("Anthropic-Beta", marks=BY_CASE)])
async def test_a_header_that_the_request_removes(name: str) -> None:
    """The user does not want the client's betas in this request: the beta must not bring them back."""
    api = Platform(takes=["header"])
    client = anthropic_with(api, **{"anthropic-beta": MINE})
    await streamed(client, EAGER, extra_headers={name: Omit()})
    assert [betas_of(exchange) for exchange in api.exchanges] == [[], [LEGACY_BETA]]


OWN: list[Any] = [
    pytest.param(Platform.anthropic, {"betas": [LEGACY_BETA]}, id="betas"),
    pytest.param(Platform.anthropic, {"extra_headers": {"Anthropic-Beta": f"{MINE},{LEGACY_BETA}"}}, id="header"),
    pytest.param(lambda api: anthropic_with(api, **{"anthropic-beta": LEGACY_BETA}), {}, id="anthropic client"),
    pytest.param(lambda api: http_with(api, **{"anthropic-beta": LEGACY_BETA}), {}, id="transport"),
    pytest.param(Platform.transport, {"betas": [LEGACY_BETA]}, id="betas over http"),
]


@pytest.mark.parametrize(("client_of", "options"), OWN)
async def test_a_beta_that_the_user_gave(client_of: Any, options: dict[str, Any]) -> None:
    """It is his: it is in every form, once, and its refusal is raised."""
    api = Platform()
    error = await failure_of(client_of(api), EAGER, **options)
    assert error.reason == BETA_REFUSAL
    assert api.forms == ["field", "header"]
    assert [betas_of(exchange).count(LEGACY_BETA) for exchange in api.exchanges] == [1, 1]
    assert betas_of(api.exchanges[0]) == betas_of(api.exchanges[1])
    api = Platform(takes=["header"])
    assert (await streamed(client_of(api), EAGER, **options)).eager == "header"


@pytest.mark.parametrize(("client_of", "options"), OWN)
async def test_a_beta_that_the_user_gave_and_false(client_of: Any, options: dict[str, Any]) -> None:
    """Without the field, his beta would stream what must not be: the refusal of the field is raised."""
    api = Platform(takes=["header"])
    assert (await failure_of(client_of(api), EAGER, BUFFERED, **options)).reason == FIELD_REFUSAL
    assert api.forms == ["field"]


# --- what is remembered -----------------------------------------------------------------------------------------------


@both_clients
@pytest.mark.parametrize("takes", [["header"], []], ids=["header", "neither"])
async def test_the_next_request_begins_with_what_was_accepted(kind: str, takes: list[str]) -> None:
    """Also that of another stream of the same client, and of a run; not that of another model, or another client."""
    api = Platform(takes=takes, bodies=([DONE],))
    client = client_of(api, kind)
    tried = list(FIRST[: 2 if takes else 3])
    assert (await streamed(client, EAGER)).eager == (takes[0] if takes else None)
    assert api.forms == tried
    assert (await streamed(client, EAGER)).eager == (takes[0] if takes else None)
    assert api.forms == [*tried, tried[-1]]
    async with eagerstream.run(client, **REQUEST, tools=[get_weather]) as run:
        await run.finish()
    assert run.eager == (takes[0] if takes else None)
    assert api.forms == [*tried, tried[-1], tried[-1]]
    await streamed(client, EAGER, model="another")
    assert api.forms == [*tried, tried[-1], tried[-1], *tried]
    await streamed(client_of(api, kind), EAGER)
    assert api.forms == [*tried, tried[-1], tried[-1], *tried, *tried]


async def test_only_what_was_accepted_is_remembered() -> None:
    """Where no form was accepted, the refusals may have had another reason: the next request begins with the field."""
    overloaded = refused("Overloaded", 529)
    api = Platform(beta_refusal=overloaded)
    client = api.transport()
    for _ in range(2):
        assert (await failure_of(client, EAGER)).status_code == 529
    assert api.forms == ["field", "header"] * 2
    api.takes.add("field")
    assert (await streamed(client, EAGER)).eager == "field"


async def test_what_is_remembered_is_refused_later() -> None:
    """It goes on down the list, and that is remembered then."""
    api = Platform(takes=["header"])
    client = api.transport()
    await streamed(client, EAGER)
    api.takes.clear()
    await streamed(client, EAGER)
    await streamed(client, EAGER)
    assert api.forms == ["field", "header", "header", "neither", "neither"]


async def test_a_form_that_was_left_out_was_not_refused() -> None:
    """One request with a tool that says false must not cost the others of the client the beta."""
    api = Platform(takes=["header"])
    client = api.transport()
    assert (await streamed(client, EAGER, BUFFERED)).eager is None
    assert (await streamed(client, EAGER)).eager == "header"
    assert (await streamed(client, EAGER, BUFFERED)).eager is None
    assert api.forms == ["field", "neither", "header", "neither"]


async def test_a_beta_of_the_user_s_own_where_all_is_known_to_be_refused() -> None:
    """The request is sent all the same, in its last form: the user is told why it fails."""
    api = Platform()
    client = api.transport()
    await streamed(client, EAGER)
    assert (await failure_of(client, EAGER, betas=[LEGACY_BETA])).reason == BETA_REFUSAL
    assert (await failure_of(client, EAGER, BUFFERED, betas=[LEGACY_BETA])).reason == FIELD_REFUSAL
    assert api.forms == ["field", "header", "neither", "header", "field"]


@both_clients
@pytest.mark.slow
async def test_nothing_is_kept_alive(kind: str) -> None:
    """A client that nobody uses any more goes, with what is remembered of it."""
    client = client_of(Platform(takes=["header"]), kind)
    await streamed(client, EAGER)
    gone = weakref.ref(client)
    del client
    await all_tasks_blocked()  # older versions of anyio have a callback in the event loop yet
    gc.collect()
    assert gone() is None


async def test_copies_of_a_client() -> None:
    """A copy for one request, as the anthropic package's users make it, knows what the client knows."""
    api = Platform(takes=["header"])
    client = Platform.anthropic(api)
    for _ in range(3):
        await streamed(client.with_options(timeout=30), EAGER)
    assert api.forms == ["field", "header", "header", "header"]
    await streamed(client.with_options(base_url="http://elsewhere"), EAGER)
    assert api.forms[4:] == ["field", "header"]


async def test_what_is_used_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Once for each way in which requests to a model differ from what was asked for."""
    api = Platform(takes=["header"])
    client = Platform.anthropic(api)
    for tools in ([EAGER], [EAGER], [EAGER, BUFFERED], [EAGER, BUFFERED], [EAGER]):
        await streamed(client, *tools)
    assert api.forms == ["field", "header", "header", "neither", "neither", "header"]
    first, second = (record.getMessage() for record in caplog.records if "refuses" in record.getMessage())
    assert "the inputs of all tools arrive as they are written" in first
    assert "tool inputs arrive buffered" in second


async def test_another_error_of_a_later_form() -> None:
    """Nobody asked for the beta in so many words: the error tells why it was there."""
    api = LocalAPI(refused(FIELD_REFUSAL), refused("x-header: not allowed here"))
    error = await failure_of(api.transport(), EAGER)
    assert error.hint is not None
    assert LEGACY_BETA in error.hint
    assert "eager_fallback" in error.hint
    assert len(api.exchanges) == 2


@rows("value", ["true", 1, {}])
def test_a_field_that_is_no_boolean(value: object) -> None:
    """It would be refused, and taken for a field that is not known."""
    with pytest.raises(UsageError, match="True or False"):
        eagerstream.stream(LocalAPI([DONE]).transport(), **REQUEST, tools=[{**EAGER, "eager_input_streaming": value}])


@both_clients
async def test_betas_that_can_be_read_once(kind: str) -> None:
    """An iterator of betas is not used up by who looks at them."""
    api = Platform(takes=["header"])
    await streamed(client_of(api, kind), EAGER, betas=iter([YOURS]))
    assert [betas_of(exchange) for exchange in api.exchanges] == [[YOURS], [YOURS, LEGACY_BETA]]
    with pytest.raises(UsageError, match="betas must be a list"):
        eagerstream.stream(client_of(api, kind), **REQUEST, betas="one")


class Slotted:
    """A client without room for weak references."""

    __slots__ = ("messages",)

    def __init__(self, api: LocalAPI) -> None:
        self.messages = api.anthropic().messages


class Unhashable(HTTPTransport):
    """A transport that says when it equals another, and nothing of a hash."""

    def __init__(self, api: LocalAPI) -> None:
        super().__init__(base_url="http://local", http_client=api.client(httpx))

    def __hash__(self) -> int:
        raise TypeError("unhashable type")

    def __eq__(self, other: object) -> bool:
        return self is other


@pytest.mark.parametrize("make", [Slotted, Unhashable])
async def test_clients_that_cannot_be_remembered(make: Any) -> None:
    """They fall back as all others do, each time anew."""
    api = Platform(takes=["header"], bodies=([DONE],))
    client = make(api)
    for _ in range(2):
        assert (await streamed(client, EAGER)).eager == "header"
    assert api.forms == ["field", "header"] * 2


async def test_two_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Both may find out by themselves; neither disturbs the other, and what they found is the same."""
    source = Source(field_error(), field_error(), beta_error(), beta_error())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(streamed, source, EAGER)
        tasks.start_soon(streamed, source, EAGER)
    assert source.opened == source.closed == 6
    assert len(caplog.records) == 1
    await streamed(source, EAGER)
    assert source.opened == 7


# --- what is told -----------------------------------------------------------------------------------------------------


async def test_the_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Once for a client and a model: what was refused, what is sent instead, and what that means."""
    caplog.set_level(logging.INFO, logger="eagerstream")
    caplog.set_level(logging.WARNING, logger="httpx")
    api = Platform(takes=["header"])
    client = api.transport()
    for _ in range(2):
        await streamed(client, EAGER)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("eagerstream.transports._eager_fallback", "WARNING")
    assert re.sub(r"req_\w+", "REQ", record.getMessage()) == (
        f"the API refuses eager_input_streaming for the model 'claude-made-1': the beta {LEGACY_BETA} is sent instead, "
        "and the inputs of all tools arrive as they are written (request REQ; see eager_fallback of "
        "eagerstream.stream)"
    )
    caplog.clear()
    await streamed(client, EAGER, model="claude-made-2")
    await streamed(api.transport(), EAGER)
    assert ["claude-made-2" in record.getMessage() for record in caplog.records] == [True, False]


async def test_the_warning_of_neither(caplog: pytest.LogCaptureFixture) -> None:
    """Inputs arrive buffered: said once, and not before it is so. A later refusal makes it so later."""
    api = Platform(takes=["header"])
    client = api.transport()
    await streamed(client, EAGER)
    api.takes.clear()
    for _ in range(2):
        await streamed(client, EAGER)
    _, record = caplog.records
    assert re.sub(r"req_\w+", "REQ", record.getMessage()) == (
        f"the API refuses {FIELD} and the beta {LEGACY_BETA} for the model 'claude-made-1': requests go without, and "
        "tool inputs arrive buffered (request REQ; see eager_fallback of eagerstream.stream)"
    )


async def test_no_warning_of_what_failed(caplog: pytest.LogCaptureFixture) -> None:
    """An error is raised, which says it all."""
    await failure_of(Platform(beta_refusal=refused("Overloaded", 529)).transport(), EAGER)
    assert caplog.records == []


@both_clients
async def test_no_secret_in_the_warning(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither keys nor headers nor what is said."""
    api = Platform()
    with caplog.at_level(logging.WARNING, logger="eagerstream"):
        await streamed(
            client_of(api, kind),
            EAGER | {"description": "hunter2"},
            system="hunter2",
            extra_headers={"x-api-key": "hunter2", "anthropic-beta": "hunter2"},
        )
    assert len(api.exchanges) == 3
    assert [record.name for record in caplog.records] == ["eagerstream.transports._eager_fallback"]
    assert "hunter2" not in caplog.text


# --- the option -------------------------------------------------------------------------------------------------------


@both_clients
async def test_without_a_fallback(kind: str) -> None:
    """The refusal is raised; what is accepted is told all the same; nothing is learned, and nothing known is used."""
    api = Platform(takes=["header"])
    client = client_of(api, kind)
    await streamed(client, EAGER)
    assert (await failure_of(client, EAGER, eager_fallback=None)).reason == FIELD_REFUSAL
    assert api.forms == ["field", "header", "field"]
    api.takes.add("field")
    assert (await streamed(client, EAGER, eager_fallback=None)).eager == "field"
    assert (await streamed(client, EAGER)).eager == "header"


@rows("start", [eagerstream.stream, eagerstream.run])
@rows("option", ["none", "field", True, False, 0])
def test_bad_options(start: Any, option: Any) -> None:
    """Refused before anything is sent."""
    with pytest.raises(UsageError, match="eager_fallback"):
        start(WEATHER, **REQUEST, eager_fallback=option)


# --- time and cancellation --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("before", [[], [field_error()], [field_error(), beta_error()]])
@pytest.mark.parametrize("bound", ["idle_timeout_s", "progress_timeout_s"])
async def test_a_peer_that_is_silent(before: list[APIError], bound: str) -> None:
    """Given up after the time of one request, not of three, in whichever form it came."""
    source = Source(*before, "silence")
    options: dict[str, Any] = {"idle_timeout_s": NEVER_S, bound: 0.1}
    limits = Limits(**options)
    source.default_timeout_s = Transport.opening_timeout_s(source, limits)
    with anyio.fail_after(SLOWLY_S):
        raised = await error_of(source, StreamInterrupted, tools=[EAGER], limits=limits)
    assert raised.reason == "no response started within 0.1 s"
    assert source.opened == source.closed == len(before) + 1


async def test_each_form_has_its_own_time() -> None:
    """What the one before took is not taken off."""
    deadlines: list[float] = []

    class Slow(Source):
        def open(self, request: RequestBody, limits: Limits) -> Any:
            deadlines.append(anyio.current_effective_deadline())
            return super().open(request, limits)

    source = Slow("slow refusal")
    await streamed(source, EAGER)
    first, second = deadlines
    assert first + 0.01 <= second <= anyio.current_time() + Source.default_timeout_s


@pytest.mark.parametrize("before", [[], [field_error()], [field_error(), beta_error()]])
async def test_cancelled_while_it_opens(before: list[APIError]) -> None:
    """Nothing stays open, and nothing is learned."""
    source = Source(*before, "silence")
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(streamed, source, EAGER)
            while source.opened <= len(before):
                await anyio.lowlevel.checkpoint()
            scope.cancel()
    assert scope.cancelled_caught
    assert source.opened == source.closed == len(before) + 1
    source.answers.clear()
    assert (await streamed(source, EAGER)).eager == "field"


@both_clients
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_cancelled_when_a_request_arrives(kind: str, number: int) -> None:
    """Before its answer is read: the answer is closed, and no other form is sent. On trio one more may be.

    The cancellation reaches the task that holds the stream, which leaves and so cancels the reading. trio shuffles the
    tasks, and the reading may be the first one.
    """
    scope = anyio.CancelScope()

    class Cancels(Platform):
        def body_for(self, exchange: Exchange) -> Sequence[Piece] | Recording:
            if len(self.exchanges) == number - 1:
                scope.cancel()
            return super().body_for(exchange)

    api = Cancels()
    client = client_of(api, kind)
    with scope:
        await streamed(client, EAGER)
    assert scope.cancelled_caught
    sent = len(api.exchanges)
    assert number <= sent <= number + (sniffio.current_async_library() == "trio")
    assert api.forms == list(FIRST[:sent])
    if closes_what_is_cancelled(kind):
        assert [exchange.closed for exchange in api.exchanges] == [True] * sent


@both_clients
async def test_cancelled_at_any_step(kind: str) -> None:
    """Between its requests, in their answers, in the reply: every body that was begun is closed."""
    whole: list[MessageStream] = []

    async def go(client: Any, scope: anyio.CancelScope) -> None:
        whole.append(await streamed(client, EAGER))
        scope.cancel()

    api = Platform()
    steps = 0
    while not whole:
        api.exchanges.clear()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(go, client_of(api, kind), scope)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
        if closes_what_is_cancelled(kind):
            assert [exchange.closed for exchange in api.exchanges] == [True] * len(api.exchanges), steps
        steps += 1
    assert steps > 3  # one for each request at least
    assert len(api.exchanges) == 3


@pytest.mark.parametrize("error", [field_error(), beta_error()])
async def test_errors_of_the_body_are_no_refusals(error: APIError) -> None:
    """Once the reply was handed out, whatever is raised in the block is the caller's, and nothing is sent again."""
    source = Source()
    fallback = EagerFallback(source, source, "auto")
    with pytest.raises(APIError) as caught:
        async with fallback.open({**REQUEST, "tools": [EAGER]}, Limits()):
            raise error
    assert caught.value is error
    assert error.__context__ is None
    assert source.opened == source.closed == 1


@pytest.mark.parametrize("error", [field_error(), beta_error()])
async def test_errors_while_the_reply_is_read_are_no_refusals(error: APIError) -> None:
    """A client that decodes raises its own status errors in the middle of a reply, in whatever words."""
    source = Source(field_error(), {"raised": error})
    assert await failure_of(source, EAGER) is error
    assert source.opened == source.closed == 2


@both_clients
async def test_error_events_are_no_refusals(kind: str) -> None:
    """The reply has begun."""
    event = reply(error_event("invalid_request_error", FIELD_REFUSAL))
    api = Platform(takes=["field"], bodies=([event],))
    assert (await failure_of(client_of(api, kind), EAGER)).reason == FIELD_REFUSAL
    assert api.forms == ["field"]


# --- runs -------------------------------------------------------------------------------------------------------------


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city.

    Args:
        city: City and country.
    """
    return f"15 degrees in {city}"


async def ran(client: Any, **options: Any) -> tuple[Run, list[Any]]:
    async with eagerstream.run(client, **{**REQUEST, "tools": [get_weather], **options}) as run:
        events = [event async for event in run]
    check_history(run.result.messages)
    return run, events


@both_clients
async def test_a_run(kind: str) -> None:
    """Its first request finds out, the others use it; a refusal is no turn, and no interruption."""
    api = Platform(takes=["header"], bodies=([WEATHER], [DONE]))
    run, events = await ran(client_of(api, kind), max_restarts=0)
    assert run.result.status is RunStatus.COMPLETED
    assert run.eager == "header"
    assert api.forms == ["field", "header", "header"]
    assert [event.turn for event in events if isinstance(event, TurnStart)] == [1, 2]
    assert not any(isinstance(event, Restarted) for event in events)
    assert sum(isinstance(event, MessageStop) for event in events) == run.result.turns == 2


async def test_a_run_that_tells_while_it_runs() -> None:
    """Nothing before the first reply, and from then on what it had."""
    api = Platform(takes=["field"], bodies=([WEATHER], [DONE]))
    seen: list[str | None] = []
    async with eagerstream.run(api.transport(), **REQUEST, tools=[get_weather]) as run:
        assert run.eager is None
        async for event in run:
            if isinstance(event, MessageStop):
                seen.append(run.eager)
    assert seen == ["field", "field"]


async def test_a_run_of_which_all_forms_are_refused() -> None:
    """A 400 ends a run, as ever; it is not asked again."""
    api = LocalAPI(refused(FIELD_REFUSAL), refused(BETA_REFUSAL), refused("invalid beta flag"))
    with pytest.raises(APIError, match="invalid beta flag") as caught:
        await ran(api.transport())
    assert len(api.exchanges) == 3
    result = RunResult.of(caught.value)
    assert result is not None
    assert result.status is RunStatus.ERROR


async def test_a_run_that_is_interrupted_between_the_forms() -> None:
    """Another form may be refused for now: that is an interruption like any other, and the run goes on with it."""
    overloaded = refused("Overloaded", 529)
    api = LocalAPI(refused(FIELD_REFUSAL), overloaded, [WEATHER], [DONE])
    run, events = await ran(api.transport(), restart_delay_s=0)
    assert run.result.status is RunStatus.COMPLETED
    assert sum(isinstance(event, Restarted) for event in events) == 1
    assert [form_of(exchange) for exchange in api.exchanges] == ["field", "header", "header", "header"]


async def test_a_run_without_a_fallback() -> None:
    """The same option, with the same meaning."""
    api = Platform(takes=["header"])
    with pytest.raises(APIError, match="Extra inputs"):
        await ran(api.transport(), eager_fallback=None)
    assert api.forms == ["field"]


def test_the_option_is_none_of_a_conversation() -> None:
    """Who drives the steps by hand gives it to `stream`; here it would go to the API."""
    options: dict[str, Any] = {**REQUEST, "eager_fallback": "auto"}
    with pytest.raises(UsageError, match="eager_fallback"):
        Conversation(**options)
