"""The cases of `packages/wire/conformance/faults.json`: what a run makes of a schedule of faults."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from .histories import NEXT, USER
from .response import (
    STOP,
    Event,
    body_of,
    call,
    ended,
    error,
    fragment,
    message_delta,
    message_start,
    said,
    thought,
    tool_start,
)

Attempt = dict[str, Any]
RESTARTS: Final = 2

_CALL: Final = [*said(0), *call(1, '{"city": ', '"Paris"}')]
_TWO: Final = [*_CALL, *call(2, '{"city": "Oslo"}')]
_DONE: Final = [message_start(id="msg_9"), *said(0, "Done."), *ended("end_turn")]
_GOOD: Final = [message_start(), *_CALL, *ended("tool_use")]
_PAGE: Final = "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>"


def cases() -> list[dict[str, Any]]:
    """Return all cases, in order."""
    return [case for family in (_http, _pages, _unanswered, _broken, _streams, _many) for case in family()]


def _case(
    id: str,
    why: str,
    attempts: Iterable[Attempt],
    requests: int,
    ran: Sequence[str] = (),
    *,
    status: str = "completed",
    results: dict[str, str] | None = None,
) -> dict[str, Any]:
    given = {
        "messages": [USER],
        "attempts": [*attempts],
        "results": {f"toolu_{number}": {"content": "sunny"} for number in range(1, 10)},
        "restarts": RESTARTS,
        "next": NEXT,
    }
    results = dict.fromkeys(ran, "ok") if results is None else results
    expect = {"requests": requests, "calls": [*ran], "status": status, "results": results}
    return {"id": f"faults/{id}", "why": why, "given": given, "expect": expect}


def _reply(frames: Iterable[Event], *, ending: str = "complete") -> Attempt:
    return {"status": 200, "body": body_of(frames), "ending": ending}


def _refusal(status: int, type: str, **headers: str) -> Attempt:
    body = json.dumps({"type": "error", "error": {"type": type, "message": "No."}})
    headers = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
    return {"status": status, "headers": headers, "body": body, "ending": "complete"}


_GOOD_REPLIES: Final = (_reply(_GOOD), _reply(_DONE))
_UNANSWERED: Final = {"status": None, "body": "", "ending": "lost"}


def _http() -> Iterator[dict[str, Any]]:
    for status, type in {
        400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
        404: "not_found_error", 413: "request_too_large",
    }.items():  # fmt: skip
        why = "The API refuses this request for good: to send it again is of no use."
        yield _case(f"http/{status}", why, [_refusal(status, type), *_GOOD_REPLIES], 1, status="error")
        why = "The second request is refused for good: the result of the call stays in the history."
        refused = [_reply(_GOOD), _refusal(status, type), _reply(_DONE)]
        yield _case(f"http/{status}-after_call", why, refused, 2, ["toolu_1"], status="error")
    for status, type in {
        408: "timeout_error", 409: "conflict_error", 429: "rate_limit_error", 500: "api_error", 502: "api_error",
        503: "api_error", 504: "timeout_error", 529: "overloaded_error",
    }.items():  # fmt: skip
        one = _refusal(status, type)
        why = "The API cannot answer now: the same request is sent again."
        yield _case(f"http/{status}-once", why, [one, *_GOOD_REPLIES], 3, ["toolu_1"])
        yield _case(f"http/{status}-after_call", why, [_reply(_GOOD), one, _reply(_DONE)], 3, ["toolu_1"])
        why = "A request is not sent again for ever."
        yield _case(f"http/{status}-always", why, [one] * 9, 1 + RESTARTS, status="error")
    why = "The API itself says whether to send the request again."
    stop, again = ({"x_should_retry": word} for word in ("false", "true"))
    yield _case(
        "http/should_not_retry", why, [_refusal(529, "overloaded_error", **stop), *_GOOD_REPLIES], 1, status="error"
    )
    yield _case(
        "http/should_retry", why, [_refusal(400, "invalid_request_error", **again), *_GOOD_REPLIES], 3, ["toolu_1"]
    )
    wait = _refusal(429, "rate_limit_error", retry_after="0")
    yield _case("http/retry_after", "The API says how long to wait.", [wait, *_GOOD_REPLIES], 3, ["toolu_1"])
    twice = [_refusal(529, "overloaded_error")] * 2
    yield _case("http/twice", "Two faults in a row are within the bound.", [*twice, *_GOOD_REPLIES], 4, ["toolu_1"])
    why = "After a complete response, the count of faults starts again."
    yield _case("http/twice_and_twice", why, [*twice, _reply(_GOOD), *twice, _reply(_DONE)], 6, ["toolu_1"])


def _pages() -> Iterator[dict[str, Any]]:
    html = {"content-type": "text/html"}
    page = {"status": 200, "headers": html, "body": _PAGE, "ending": "complete"}
    why = "A page with status 200 is no answer of the API, and would come again."
    yield _case("pages/html_200", why, [page, *_GOOD_REPLIES], 1, status="error")
    why = "A gateway's page with a status of the server's side: the request is sent again."
    yield _case("pages/html_502", why, [{**page, "status": 502}, *_GOOD_REPLIES], 3, ["toolu_1"])
    yield _case("pages/html_404", "The address is wrong.", [{**page, "status": 404}, *_GOOD_REPLIES], 1, status="error")


def _unanswered() -> Iterator[dict[str, Any]]:
    why = "Nobody answers: the same request is sent again, but not for ever."
    yield _case("unanswered/once", why, [_UNANSWERED, *_GOOD_REPLIES], 3, ["toolu_1"])
    yield _case("unanswered/after_call", why, [_reply(_GOOD), _UNANSWERED, _reply(_DONE)], 3, ["toolu_1"])
    yield _case("unanswered/always", why, [_UNANSWERED] * 9, 1 + RESTARTS, status="error")
    yield _case(
        "unanswered/always_after_call",
        why,
        [_reply(_GOOD), *[_UNANSWERED] * 9],
        2 + RESTARTS,
        ["toolu_1"],
        status="error",
    )


def _broken() -> Iterator[dict[str, Any]]:
    places: dict[str, list[Event]] = {
        "nothing": [], "start": [message_start()], "half_text": [message_start(), *said(0)[:2]],
        "text": [message_start(), *said(0)], "thinking": [message_start(), *thought(0)],
        "call_without_text": [message_start(), tool_start(0)], "call_in_text": [message_start(), tool_start(0), fragment(0, '{"a')],
        "call_before_its_end": [message_start(), *call(0, "{}")[:-1]], "empty_call": [message_start(), *call(0)],
        "invalid_call": [message_start(), *call(0, '{"a": b}')],
    }  # fmt: skip
    for name, frames in places.items():
        why = "Nothing of the response ran, so the same request is sent again."
        for how, attempt in _ways(frames):
            yield _case(f"broken/{how}-{name}", why, [attempt, *_GOOD_REPLIES], 3, ["toolu_1"])
        yield _case(
            f"broken/always-{name}",
            "A request is not sent again for ever.",
            [_reply(frames, ending="lost")] * 9,
            1 + RESTARTS,
            status="error",
        )
    more: dict[str, list[Event]] = {
        "nothing": [], "text": said(2), "half_text": said(2)[:2], "thinking": thought(2), "call_in_text": [tool_start(2), fragment(2, '{"a')],
        "call_before_its_end": call(2, "{}")[:-1],
    }  # fmt: skip
    for name, frames in more.items():
        why = "A call of the response ran: the conversation goes on with its result, and it does not run again."
        for how, attempt in _ways([message_start(), *_CALL, *frames]):
            yield _case(f"broken/{how}-after_call-{name}", why, [attempt, _reply(_DONE)], 2, ["toolu_1"])
    both = ["toolu_1", "toolu_2"]
    why = "All calls that ran keep their results."
    for how, attempt in _ways([message_start(), *_TWO]):
        yield _case(f"broken/{how}-after_two_calls", why, [attempt, _reply(_DONE)], 2, both)
    why = "An interruption after a call, and then nothing but interruptions: the result stays in the history."
    lost = _reply([message_start(), *_CALL], ending="lost")
    yield _case(
        "broken/after_call_then_always", why, [lost, *[_UNANSWERED] * 9], 1 + RESTARTS, ["toolu_1"], status="error"
    )
    why = "Each response loses its connection after another call."
    second = _reply([message_start(id="msg_2"), *call(0, "{}", id="toolu_2")], ending="lost")
    yield _case("broken/twice_after_a_call", why, [lost, second, _reply(_DONE)], 3, both)


def _ways(frames: list[Event]) -> Iterator[tuple[str, Attempt]]:
    yield "lost", _reply(frames, ending="lost")
    yield "ended", _reply(frames)
    if frames:
        yield "error_event", _reply([*frames, error()])


def _streams() -> Iterator[dict[str, Any]]:
    ran = ["toolu_1"]
    why = "Some gateways omit message_stop: after the stop reason, a clean end completes the response."
    yield _case("streams/no_message_stop", why, [_reply(_GOOD[:-1]), _reply(_DONE)], 2, ran)
    why = "The response was complete, so the lost connection changes nothing."
    yield _case("streams/lost_after_message_stop", why, [_reply(_GOOD, ending="lost"), _reply(_DONE)], 2, ran)
    why = "Before its stop reason, a response is not complete."
    lost = _reply([message_start(), *said(0)])
    yield _case("streams/text_without_end", why, [lost, _reply(_DONE)], 2)
    why = "An error event that says the request is wrong would come again."
    wrong = _reply([message_start(), *said(0), error("invalid_request_error")])
    yield _case("streams/error_for_good", why, [wrong, *_GOOD_REPLIES], 1, status="error")
    for type in ("api_error", "overloaded_error", "rate_limit_error", "timeout_error"):
        why = "An error event may come after the status 200: the request is sent again."
        yield _case(f"streams/{type}", why, [_reply([message_start(), error(type)]), *_GOOD_REPLIES], 3, ran)
    why = "A gateway that tries again writes a second message_start. Nothing of the first message ran, so the second counts."
    again = message_start(id="msg_2")
    firsts: dict[str, list[Event]] = {
        "text": said(0)[:2],
        "call_in_text": [tool_start(0), fragment(0, '{"a')],
        "start": [],
    }
    for name, frames in firsts.items():
        yield _case(
            f"streams/again_after_{name}",
            why,
            [_reply([message_start(), *frames, again, *_CALL, *ended("tool_use")]), _reply(_DONE)],
            2,
            ran,
        )
    why = "An event that comes twice must not make a call run twice."
    stop = _CALL[-1]
    yield _case(
        "streams/block_stop_twice",
        why,
        [_reply([message_start(), *_CALL, stop, *ended("tool_use")]), _reply(_DONE)],
        2,
        ran,
    )
    yield _case("streams/message_stop_twice", why, [_reply([*_GOOD, STOP]), _reply(_DONE)], 2, ran)
    yield _case("streams/reason_twice", why, [_reply([*_GOOD[:-1], *ended("tool_use")]), _reply(_DONE)], 2, ran)
    why = "A fragment that comes twice spoils the input: the call must not run, and the model learns why."
    twice = [
        tool_start(1),
        fragment(1, '{"city": '),
        fragment(1, '{"city": '),
        fragment(1, '"Paris"}'),
        *call(1, "{}")[2:],
    ]
    spoilt = _reply([message_start(), *twice, *ended("tool_use")])
    yield _case("streams/fragment_twice", why, [spoilt, _reply(_DONE)], 2, results={"toolu_1": "error"})
    why = "A fragment is missing: the call must not run, and the model learns why."
    missing = _reply([message_start(), *call(1, '{"city": '), *ended("tool_use")])
    yield _case("streams/fragment_missing", why, [missing, _reply(_DONE)], 2, results={"toolu_1": "error"})


def _many() -> Iterator[dict[str, Any]]:
    for reason, status in {
        "end_turn": "completed", "max_tokens": "truncated", "stop_sequence": "stop_sequence", "refusal": "refused",
    }.items():  # fmt: skip
        why = "The stop reason of the last response says how the run ended."
        last = _reply([message_start(id="msg_2"), *said(0), message_delta(reason), STOP])
        yield _case(f"many/{reason}", why, [_reply(_GOOD), last], 2, ["toolu_1"], status=status)
        yield _case(
            f"many/{reason}-after_fault",
            why,
            [_UNANSWERED, _reply(_GOOD), _refusal(529, "overloaded_error"), last],
            4,
            ["toolu_1"],
            status=status,
        )
    why = "A long run may meet a fault in each of its turns."
    attempts: list[Attempt] = []
    for turn in range(1, 6):
        attempts += [
            _UNANSWERED,
            _reply([message_start(id=f"msg_{turn}"), *call(0, "{}", id=f"toolu_{turn}"), *ended("tool_use")]),
        ]
    ran = [f"toolu_{turn}" for turn in range(1, 6)]
    yield _case("many/five_turns", why, [*attempts, _UNANSWERED, _reply(_DONE)], 12, ran)
