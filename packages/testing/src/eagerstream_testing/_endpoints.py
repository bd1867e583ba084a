"""The endpoints of the double, without HTTP: a message, or a count of tokens, for the body of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isinf
from typing import Any, NamedTuple, TypeAlias

from eagerstream import EagerSupport
from eagerstream.recordings import Recording

from ._eager_requests import InputBuffering, eager_tools
from ._injection import Answer, break_reply
from ._one_piece import in_one_piece
from ._platforms import Dialect, Headers, Refused
from ._received import ReceivedRequest
from ._scenario import Scenario
from ._schedule import Faults
from ._threads import NO_THREADS, MessageThreads
from ._token_count import count_response


@dataclass(frozen=True)
class Behaviour:
    """The settings of the double.

    Attributes:
        scenario: Chooses the response to each request.
        speed: Factor by which to play faster than recorded.
        faults: The schedule of faults; `None` for no faults.
        eager: The accepted ways to ask for eager input streaming, by model. A model that is not listed accepts any.
        on_answer: Called with each request when its response starts.
        threads: Keeps the conversations of message threads.
        read_bytes_per_s: Rate at which the bodies of requests are read. The response starts that much later.
        buffering: Holds inputs back unless the request wants them as they are written; `None` for no request.
    """

    scenario: Scenario
    speed: float = 1.0
    faults: Faults | None = None
    eager: Mapping[str, EagerSupport] | EagerSupport = "any"
    on_answer: Callable[[ReceivedRequest], object] | None = None
    threads: MessageThreads = field(default_factory=MessageThreads)
    read_bytes_per_s: float = inf
    buffering: InputBuffering | None = None

    def eager_support(self, model: object) -> EagerSupport:
        """Return the ways that this model accepts."""
        return self.eager if isinstance(self.eager, str) else self.eager.get(str(model), "any")


class Asked(NamedTuple):
    """A request, after its JSON was read."""

    headers: Headers
    body: dict[str, Any]
    path_parameters: Mapping[str, Any]
    received: ReceivedRequest


Endpoint: TypeAlias = Callable[[Behaviour, Dialect, Asked], Answer]
"""Returns the answer to a request, or raises `Refused`."""


def message_endpoint(*, streams: bool | None) -> Endpoint:
    """Return the endpoint for messages.

    Args:
        streams: The responses of its path are streamed, or come in one piece. `None`: each request says so.
    """

    def answer(behaviour: Behaviour, dialect: Dialect, asked: Asked) -> Answer:
        received = asked.received
        body = dialect.request(asked.body, asked.path_parameters, streams=streams)
        betas = dialect.betas(asked.headers, asked.body)
        thread = body.get("thread")
        if thread is not None and not dialect.has_threads and behaviour.threads.support != "ignores":
            raise Refused(400, "invalid_request_error", NO_THREADS)
        body = received.complete = behaviour.threads.complete(body, betas, received)
        _refuse_first(dialect.faults(body, betas, behaviour.eager_support(body.get("model"))))
        recording = behaviour.threads.identified(thread, _response(behaviour.scenario, body))
        played = recording
        if body.get("stream") is not True:
            played = in_one_piece(recording)
        elif behaviour.buffering is not None and not isinf(behaviour.speed):
            played = behaviour.buffering.apply(recording, eager_tools(body, betas))
        played = dialect.spoken(played)
        faults = behaviour.faults if played.status == 200 else None  # an error gets no fault, and uses none up
        fault = received.fault = faults.draw(body, played) if faults is not None else None
        result = Answer(played) if fault is None else break_reply(played, fault, received.request_id)
        result = result._replace(recording=dialect.spoken(result.recording))
        is_refused = result.recording.status != 200  # an `error` event of the scenario, in one piece
        behaviour.threads.keep(thread, body, recording, breaks_off=fault is not None or is_refused)
        return result

    return answer


def count_endpoint(_: Behaviour, dialect: Dialect, asked: Asked) -> Answer:
    """Answer a request for a count of tokens. It gets no faults, and uses none up."""
    body = dialect.counted(asked.body)
    _refuse_first(dialect.count_faults(body, dialect.betas(asked.headers, asked.body)))
    try:
        return Answer(count_response(body))
    except RecursionError as error:
        raise Refused(400, "invalid_request_error", "The request body is nested too deeply") from error


def _refuse_first(faults: Iterable[str]) -> None:
    for fault in faults:
        raise Refused(400, "invalid_request_error", fault)  # the API also reports one at a time


def _response(scenario: Scenario, body: dict[str, Any]) -> Recording:
    try:
        return scenario.answer(body)
    except Exception as error:
        # A function of the scenario failed. Its author sees the reason in the client's exception.
        what = f"the scenario failed: {type(error).__name__}: {error}"
        raise Refused(500, "api_error", what) from error
