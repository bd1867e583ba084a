"""`EagerFallback`: inputs streamed as they are written, even if the API refuses the field that requests this.

A tool requests it with `eager_input_streaming` in its definition. Some platforms refuse that field for some models.
Most of these accept the older beta, which applies to all tools of a request; some refuse that too. Therefore a request
has up to three forms, which are sent one after the other until one is accepted:

| form | the tools | the beta | is omitted if |
|---|---|---|---|
| field | unchanged | as the user gave it | |
| header | without the field | added | a tool has `false`, no tool has `true`, or a toolset forbids the beta |
| neither | without the field | as the user gave it | the user gave the beta |

`false` requests a checked input even under the beta. If the field is refused, nothing else can express `false`, so then
no tool may stream unchecked. A beta that the user gave is never removed: its refusal is raised.

Sources: the API's guide to fine-grained tool streaming; the 400 responses of the API, of Vertex and of Bedrock.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum
from functools import partial
from typing import Final, Literal, TypeAlias

from eagerstream_wire._tool_kind import EAGER_FIELD, LEGACY_BETA, accepted_betas, betas_for, forbids_legacy_beta

from ..errors import APIError, UsageError
from ..limits import Limits
from ._base import Reply, RequestBody, Transport, betas_of, check_legacy_beta, with_betas
from ._memory import ClientMemory
from ._opening import Opening

_log = logging.getLogger(__name__)

EagerForm: TypeAlias = Literal["field", "header"]
"""The way an accepted request asked for inputs as they are written: with the field of its tools, or with the beta."""


class _Form(Enum):
    FIELD = "field"
    HEADER = "header"
    NEITHER = "neither"


_REFUSALS: Final = {
    _Form.FIELD: re.compile(EAGER_FIELD),
    # Bedrock only says "invalid beta flag" and does not name it.
    _Form.HEADER: re.compile(rf"{LEGACY_BETA}|invalid beta flag|anthropic[-_]beta", re.IGNORECASE),
}

_NAMES: Final = {_Form.FIELD: EAGER_FIELD, _Form.HEADER: f"the beta {LEGACY_BETA}"}
_HOW: Final = {_Form.HEADER: f"with {_NAMES[_Form.HEADER]}", _Form.NEITHER: "without it"}
_INSTEAD: Final = {
    _Form.HEADER: f"the beta {LEGACY_BETA} is sent instead, and the inputs of all tools arrive as they are written",
    _Form.NEITHER: "requests go without, and tool inputs arrive buffered",
}


class _Learned:
    """The knowledge about one model.

    Attributes:
        refused: Forms that were refused before another form was accepted.
        told: Forms whose use as a substitute was already logged.
    """

    def __init__(self) -> None:
        self.refused: set[_Form] = set()
        self.told: set[_Form] = set()


_Memory: TypeAlias = MutableMapping[tuple[str, str], _Learned]
"""Knowledge by address and model."""

_memories: ClientMemory[_Memory] = ClientMemory(dict)


def _nothing() -> None:
    pass


class EagerFallback(Transport):
    """Sends a request over another transport, in the first of its forms that the API accepts.

    Each instance belongs to one stream or one run, which sends one request at a time. Knowledge of a client and a model
    is shared: by all instances of that client while the client lives, and by its copies that use the same address
    (`client.with_options(...)`).

    Args:
        transport: Sends the requests.
        client: The user's object, whose memory is used. If it has no hash or no weak references, the memory ends with
            this instance.
        option: `"auto"`, or None to send each request only in its original form.

    Raises:
        UsageError: `option` is neither.

    Attributes:
        eager: The form in which the last accepted request asked for eager inputs. None before that, if no tool asks,
            and if every form that asks was refused.
        client: The user's object.
    """

    def __init__(self, transport: Transport, client: object, option: Literal["auto"] | None) -> None:
        if option not in (None, "auto"):
            raise UsageError(f'eager_fallback must be "auto" or None, not {option!r}')
        self.eager: EagerForm | None = None
        self.client = client
        self._transport = transport
        self._falls_back = option is not None
        self._memory = _memories.of(client)
        self._refused_id: str | None = None  # of the last request that was refused for its form
        # Kept even before any form is accepted: no form is tried twice. Per model, because a run may change its model.
        self._refused_by: dict[str, set[_Form]] = {}

    def opening_timeout_s(self, limits: Limits) -> float:
        """See `Transport.opening_timeout_s`. It is that of each form."""
        return self._transport.opening_timeout_s(limits)

    def open(
        self, request: RequestBody, limits: Limits, begin: Callable[[], object] = _nothing
    ) -> AbstractAsyncContextManager[Reply]:
        """See `Transport.open`. If cancelled, it closes everything it has opened.

        Args:
            request, limits: See `Transport.open`.
            begin: Called before each form is sent: its time begins.

        Raises:
            APIError: The API refused every form (the last error is raised, with the earlier ones as its context), or
                refused one of them for another reason.
        """
        return Opening(partial(self._enter, request, limits, begin))

    async def _enter(
        self, request: RequestBody, limits: Limits, begin: Callable[[], object], opening: Opening
    ) -> Reply:
        default_betas = self._transport.default_betas  # asked for once: a client puts all its headers together for them
        request = _with_betas_of_tools(request, default_betas)
        refused = self._refused_by.get(str(request.get("model")), set())
        learned = self._memory.get(self._key(request)) if self._memory else None
        known = refused if learned is None else learned.refused | refused
        forms = self._forms(request, default_betas)
        if known:
            # If all are known to be refused, the last one is sent: its error gives the reason.
            possible = [*forms]
            forms = iter([form for form in possible if form not in known] or possible[-1:])

        def attempt(form: _Form) -> AbstractAsyncContextManager[Reply]:
            begin()
            sent = request
            if form is not _Form.FIELD:
                without = [
                    {name: value for name, value in tool.items() if name != EAGER_FIELD} for tool in request["tools"]
                ]
                sent = {**request, "tools": without}
            if form is _Form.HEADER:
                sent = with_betas(sent, [LEGACY_BETA], default_betas)
            return self._transport.open(sent, limits)

        try:
            form, reply = await self._enter_first(forms, attempt, opening, refused)
        finally:
            if refused:
                self._refused_by[str(request.get("model"))] = refused
        self._accept(form, request, refused)
        return reply

    async def _enter_first(
        self,
        forms: Iterator[_Form],
        attempt: Callable[[_Form], AbstractAsyncContextManager[Reply]],
        opening: Opening,
        refused: set[_Form],
    ) -> tuple[_Form, Reply]:
        """Return the first accepted form and its response, which `opening` closes."""
        form = next(forms)
        try:
            return form, await opening.enter(attempt(form))
        except APIError as error:
            # Any status, and anywhere in the body: gateways wrap the refusal of the API in errors of their own.
            is_refused = error.status_code is not None and error.status_code >= 400
            is_400 = error.status_code == 400
            if is_refused and form in _REFUSALS and _names(error, form):
                refused.add(form)
                self._refused_id = error.request_id
            elif is_400 and form in _HOW and error.hint is None:
                error.hint = f"The request was sent {_HOW[form]}: {EAGER_FIELD} is refused, see eager_fallback"
            others = [*forms]
            if not others or form not in refused:
                raise
            # Inside `except`: an error keeps the earlier ones as its context.
            return await self._enter_first(iter(others), attempt, opening, refused)

    def _accept(self, form: _Form, request: RequestBody, refused: set[_Form]) -> None:
        """Record the accepted form, and log once per model that it replaces the field."""
        asks = True in _said(request)
        self.eager = form.value if asks and form is not _Form.NEITHER else None
        if form is _Form.FIELD:
            return
        model = str(request.get("model"))
        learned = self._memory.setdefault(self._key(request), _Learned())
        learned.refused |= refused
        if form not in learned.told:
            learned.told.add(form)
            names = " and ".join(name for each, name in _NAMES.items() if each in learned.refused)
            what = "the API refuses %s for the model %.80r: %s (request %s; see eager_fallback of eagerstream.stream)"
            _log.warning(what, names, model, _INSTEAD[form], self._refused_id)

    def _forms(self, request: RequestBody, default_betas: Sequence[str]) -> Iterator[_Form]:
        """Yield the possible forms of a request, in the order of the attempts."""
        yield _Form.FIELD
        # Only after a refusal: nearly all requests are accepted in their first form.
        said = _said(request)
        if not (said and self._falls_back):
            return
        is_forbidden = any(map(forbids_legacy_beta, request["tools"]))
        if True in said and False not in said and not is_forbidden:
            yield _Form.HEADER
        if LEGACY_BETA not in betas_of(request, default_betas):
            yield _Form.NEITHER

    def _key(self, request: RequestBody) -> tuple[str, str]:
        return str(getattr(self.client, "base_url", "")), str(request.get("model"))


def _names(error: APIError, form: _Form) -> bool:
    """Return True if an error names what a form has."""
    # A transport of the user's own has only texts.
    return any(map(_REFUSALS[form].search, (error.reason, error.body, *error.names_of_eager)))


def _with_betas_of_tools(request: RequestBody, default_betas: Sequence[str]) -> RequestBody:
    """Return the request with the betas that its tools need, including those in a header of the client.

    Bedrock's client reads only the headers of the request.
    """
    tools = request.get("tools") or ()
    given = betas_of(request, default_betas)
    check_legacy_beta(tools, given)
    needed = [beta for tool in tools for beta in accepted_betas(tool) if beta in default_betas]
    betas = [*needed, *betas_for(tools, given)]
    return with_betas(request, betas, default_betas) if {*betas} - {*betas_of(request, ())} else request


def _said(request: RequestBody) -> list[object]:
    """Return the values of the field in the tools of a request, without the tools that omit it."""
    return [tool[EAGER_FIELD] for tool in request.get("tools") or () if EAGER_FIELD in tool]
