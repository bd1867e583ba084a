"""The cases of `packages/wire/conformance/histories.json`: the messages after a response, however it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from .response import (
    Event,
    block_start,
    block_stop,
    body_of,
    call,
    delta,
    ended,
    error,
    fragment,
    message_delta,
    message_start,
    said,
    searched,
    thought,
    tool_start,
)

USER: Final[dict[str, Any]] = {"role": "user", "content": "Weather in Paris?"}
NEXT: Final = "Go on."


class Kind(NamedTuple):
    """A call in a certain state.

    Attributes:
        fragments: Its text.
        closed: Its block ended.
        ran: It has a result.
    """

    fragments: tuple[str, ...]
    closed: bool
    ran: bool

    @property
    def is_cut(self) -> bool:
        """True if its object is not complete."""
        return not self.closed or self.fragments == ('{"city": "Pa',)


_KINDS: Final = {
    "finished": Kind(('{"city": "Paris"}',), closed=True, ran=True),
    "unstarted": Kind(('{"city": "Paris"}',), closed=True, ran=False),
    "invalid": Kind(('{"city": Paris}',), closed=True, ran=False),
    "cut": Kind(('{"city": "Pa',), closed=True, ran=False),
    "open": Kind(('{"city": "Pa',), closed=False, ran=False),
}
_REASONS: Final = (
    "tool_use", "end_turn", "max_tokens", "stop_sequence", "pause_turn", "refusal", "model_context_window_exceeded",
    "later_reason", None,
)  # fmt: skip
_KEPT_ONLY_IF_RAN: Final = ("model_context_window_exceeded", "later_reason", None)
_WHY_KEPT: Final = "A call that ran keeps its result. Any other call that stays is answered with an error."


def cases() -> list[dict[str, Any]]:
    """Return all cases, in order."""
    families = (_complete, _interrupted, _contents, _server_calls, _echoes)
    return [case for family in families for case in family()]


def _case(
    id: str,
    why: str,
    events: Iterable[Event],
    results: dict[str, str],
    *,
    ran: Sequence[str] = (),
    ending: str = "complete",
    may_drop: Sequence[str] = (),
    failed: Sequence[str] = (),
    echoed: dict[str, Any] | None = None,
    messages: Sequence[dict[str, Any]] = (USER,),
) -> dict[str, Any]:
    """Return a case.

    Args:
        id: Family and name.
        why: The rule, in a sentence.
        events: The response, as far as it came.
        results: The expected results.
        ran: Ids of the calls that ran.
        ending: `"complete"` or `"lost"`.
        may_drop: Ids of calls that a history may leave out, too.
        failed: Ids of those that failed.
        echoed: The inputs that calls are echoed with, if the case is about them.
        messages: The messages of the request.
    """
    given = {
        "messages": [*messages],
        "response": body_of([message_start(), *events]),
        "ending": ending,
        "results": {
            one: {"content": "failed", "is_error": True} if one in failed else {"content": "sunny"} for one in ran
        },
        "next": NEXT,
    }
    case: dict[str, Any] = {"id": f"histories/{id}", "why": why, "given": given}
    others = [
        {key: result for key, result in results.items() if key not in left_out}
        for count in range(1, len(may_drop) + 1)
        for left_out in combinations(may_drop, count)
    ]
    others = [other for at, other in enumerate(others) if other != results and other not in others[:at]]
    if others:
        case["also"] = {"results": others}
    expect: dict[str, Any] = {"results": results}
    if echoed is not None:
        expect["echoed"] = echoed
    return {**case, "expect": expect}


def _calls(names: Sequence[str], *, first: int = 0) -> tuple[list[Event], dict[str, Kind]]:
    """Return the events of calls in these states, and their ids. Each has a tool of its own."""
    events: list[Event] = []
    kinds = {}
    for index, name in enumerate(names, first):
        kind = kinds[f"toolu_{index}"] = _KINDS[name]
        made = call(index, *kind.fragments, name=f"{name}_{index}")
        events += made if kind.closed else made[:-1]
    return events, kinds


_SHAPES: Final = (
    (), ("finished",), ("unstarted",), ("invalid",), ("cut",), ("open",), ("finished", "finished"), ("finished", "invalid"),
    ("finished", "open"), ("invalid", "finished"), ("unstarted", "finished"), ("finished", "unstarted", "cut"),
    ("invalid", "cut"), ("finished", "invalid", "open"),
)  # fmt: skip


def _complete() -> Iterator[dict[str, Any]]:
    for reason in _REASONS:
        for names in _SHAPES:
            events, kinds = _calls(names, first=1)
            ran = [id for id, kind in kinds.items() if kind.ran]
            results = {id: "ok" if kind.ran else "error" for id, kind in kinds.items()}
            why = _WHY_KEPT
            if reason == "refusal":
                why, results = "A refused turn is left out of the history, with its calls.", {}
            elif reason in _KEPT_ONLY_IF_RAN and not ran:
                why, results = "Nothing of the turn ran, and it cannot be continued: its calls are left out.", {}
            others = [id for id, kind in kinds.items() if not kind.ran] if results else []
            name = "-".join(names) or "text"
            all_events = [*said(0), *events, *ended(reason)]
            yield _case(f"{str(reason).lower()}/{name}", why, all_events, results, ran=ran, may_drop=others)


def _interrupted() -> Iterator[dict[str, Any]]:
    for family, last, ending in (
        ("lost", [], "lost"), ("error_event", [error()], "complete"), ("no_end", [], "complete"),
    ):  # fmt: skip
        for names in _SHAPES:
            events, kinds = _calls(names, first=1)
            ran = [id for id, kind in kinds.items() if kind.ran]
            why = "Calls that ran keep their results; a call that was cut is written again by the model."
            results = {id: "ok" if kind.ran else "error" for id, kind in kinds.items() if not kind.is_cut}
            if not ran:
                why, results = "Nothing ran, so the same request can be sent again.", {}
            name = "-".join(names) or "text"
            others = [id for id in results if id not in ran]
            all_events = [*said(0), *events, *last]
            yield _case(f"{family}/{name}", why, all_events, results, ran=ran, ending=ending, may_drop=others)
    ran = ["toolu_1"]
    ok = {"toolu_1": "ok"}
    before = [*thought(0), *call(1, "{}")]
    why = "What follows the last complete call is left out: the API does not continue half a block."
    for name, more in {
        "thinking": thought(2), "half_thinking": thought(2)[:2], "text": said(2), "half_text": said(2)[:2], "empty_text": said(2, ""),
        "call_without_text": [tool_start(2)], "call_in_text": [tool_start(2), fragment(2, '{"a')], "nothing": [],
        "call_before_its_end": call(2, "{}")[:-1], "server_call": searched(2, "srvtoolu_2", answered=False),
        "server_call_and_result": searched(2, "srvtoolu_2"), "unknown_block": [block_start(2, type="later", x=1), block_stop(2)],
    }.items():  # fmt: skip
        yield _case(f"lost/then_{name}", why, [*before, *more], ok, ran=ran, ending="lost")
        yield _case(f"error_event/then_{name}", why, [*before, *more, error()], ok, ran=ran)
    for name, more in {"thinking": thought(0), "half_thinking": thought(0)[:2], "text": said(0), "start": []}.items():
        yield _case(f"lost/only_{name}", "Nothing ran, so the same request can be sent again.", more, {}, ending="lost")
    why = "Some gateways omit message_stop: after the stop reason, a clean end completes the response."
    yield _case(
        "no_end/after_reason", why, [*call(0, "{}"), message_delta("tool_use")], {"toolu_0": "ok"}, ran=["toolu_0"]
    )
    why = "A connection that is lost after message_stop loses nothing."
    yield _case(
        "lost/after_the_end",
        why,
        [*call(0, "{}"), *ended("tool_use")],
        {"toolu_0": "ok"},
        ran=["toolu_0"],
        ending="lost",
    )
    why = "A call whose tool failed has run: its error is its result."
    yield _case(
        "lost/after_failed_call",
        why,
        call(0, "{}"),
        {"toolu_0": "error"},
        ran=["toolu_0"],
        failed=["toolu_0"],
        ending="lost",
    )


def _contents() -> Iterator[dict[str, Any]]:
    why = "The API refuses thinking at the end of a message, empty text, and a message without content."
    contents = {
        "thinking_last": thought(0), "text_then_thinking": [*said(0), *thought(1)], "empty_text": said(0, ""), "nothing": [],
        "thinking_then_empty_text": [*thought(0), *said(1, "")], "redacted_thinking": [
            block_start(0, type="redacted_thinking", data="x"), block_stop(0)],
        "text": said(0), "thinking_then_text": [*thought(0), *said(1)], "blank_text": said(0, " \n"),
        "half_thinking": [block_start(0, type="thinking", thinking=""), delta(0, type="thinking_delta", thinking="S")],
        "unfinished_text": said(0)[:-1],
    }  # fmt: skip
    for name, events in contents.items():
        for reason in ("end_turn", "max_tokens", "stop_sequence"):
            yield _case(f"contents/{name}-{reason}", why, [*events, *ended(reason)], {})
    for name, events in {
        "empty_text_between": [*call(0, "{}"), *said(1, ""), *call(2, "{}")], "thinking_between": [*call(0, "{}"), *thought(1), *call(2, "{}")],
        "text_last": [*call(0, "{}"), *call(2, "{}"), *said(3)], "thinking_last_after_calls": [*call(0, "{}"), *call(2, "{}"), *thought(3)],
    }.items():  # fmt: skip
        results = {"toolu_0": "ok", "toolu_2": "ok"}
        yield _case(f"contents/{name}", why, [*events, *ended("tool_use")], results, ran=[*results])
    earlier: list[dict[str, Any]] = [
        USER,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_x", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_x", "content": "seen"}]},
    ]
    why = "Earlier turns stay as they are."
    results = {"toolu_x": "ok", "toolu_0": "ok"}
    yield _case(
        "contents/after_a_turn", why, [*call(0, "{}"), *ended("tool_use")], results, ran=["toolu_0"], messages=earlier
    )
    yield _case(
        "contents/refused_after_a_turn", why, [*said(0), *ended("refusal")], {"toolu_x": "ok"}, messages=earlier
    )
    yield _case("contents/lost_after_a_turn", why, said(0)[:2], {"toolu_x": "ok"}, messages=earlier, ending="lost")
    why = "Calls before a fallback block are those of a model that gave up: the API wants them left out."
    fallback = [block_start(2, type="fallback", **{"from": {"model": "a"}, "to": {"model": "b"}}), block_stop(2)]
    events = [*said(0), *call(1, "{}"), *fallback, *call(3, "{}"), *ended("tool_use")]
    yield _case("contents/call_before_fallback", why, events, {"toolu_3": "ok"}, ran=["toolu_1", "toolu_3"])


def _server_calls() -> Iterator[dict[str, Any]]:
    open_search = searched(0, "srvtoolu_0", answered=False)
    why = "If the API did not run its own call, the call is left out: without its result, the API refuses it."
    for reason in ("end_turn", "max_tokens", "stop_sequence"):
        yield _case(f"server_calls/open-{reason}", why, [*open_search, *said(1), *ended(reason)], {})
    yield _case(
        "server_calls/open-lost", why, [*open_search, *call(1, "{}")], {"toolu_1": "ok"}, ran=["toolu_1"], ending="lost"
    )
    why = "A paused response goes back as it is, and the API goes on with its own call."
    yield _case(
        "server_calls/paused", why, [*said(0), *searched(1, "srvtoolu_1", answered=False), *ended("pause_turn")], {}
    )
    yield _case(
        "server_calls/paused_after_result", why, [*searched(0, "srvtoolu_0"), *said(2), *ended("pause_turn")], {}
    )
    why = "The API goes on with its own call once the client's calls are answered."
    yield _case(
        "server_calls/beside_a_call",
        why,
        [*open_search, *call(1, "{}"), *ended("tool_use")],
        {"toolu_1": "ok"},
        ran=["toolu_1"],
    )
    why = "A server call and its result stay together."
    yield _case("server_calls/answered", why, [*searched(0, "srvtoolu_0"), *said(2), *ended("end_turn")], {})
    yield _case("server_calls/answered_and_call", why, [
        *searched(0, "srvtoolu_0"), *call(2, "{}"), *ended("tool_use")], {"toolu_2": "ok"}, ran=["toolu_2"])  # fmt: skip
    cut = [tool_start(0, id="srvtoolu_0", name="web_search", type="server_tool_use"), fragment(0, '{"q')]
    why = "A server call that was cut has not run, so it is left out."
    yield _case("server_calls/cut-max_tokens", why, [*cut, *ended("max_tokens")], {})
    yield _case("server_calls/cut-lost", why, cut, {}, ending="lost")


def _echoes() -> Iterator[dict[str, Any]]:
    why = "Text that is no JSON object goes back to the model under INVALID_JSON, with an error as its result."
    texts = {
        "bare_word": '{"city": Paris}', "array": "[1, 2]", "string": '"x"', "trailing_text": '{"a": 1} ok', "nan": '{"a": NaN}',
        "quote": '{"cmd": "echo "hi""}', "line_end": '{"a": "x\ny"}', "empty_key": "{: 1}", "unicode": '{"a": Zürich}',
    }  # fmt: skip
    for name, text in texts.items():
        echoed = {"toolu_0": {"INVALID_JSON": text}}
        yield _case(f"echoes/{name}", why, [*call(0, text), *ended("tool_use")], {"toolu_0": "error"}, echoed=echoed)
    events = [*call(0, '{"a": 1}'), *call(1, '{"a": x}', name="other"), *ended("tool_use")]
    both: dict[str, Any] = {"toolu_0": {"a": 1}, "toolu_1": {"INVALID_JSON": '{"a": x}'}}
    results = {"toolu_0": "ok", "toolu_1": "error"}
    yield _case("echoes/valid_and_invalid", why, events, results, ran=["toolu_0"], echoed=both)
    values: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("nested", '{"a": {"b": [1, null, "x"]}}', {"a": {"b": [1, None, "x"]}}), ("no_text", "", {}),
        ("repeated_key", '{"a": 1, "a": 2}', {"a": 2}), ("escapes", '{"a": "\\u00e9\\n"}', {"a": "é\n"}),
    )  # fmt: skip
    for name, text, value in values:
        why = "A valid input goes back as the object that it is."
        yield _case(
            f"echoes/{name}",
            why,
            [*call(0, text), *ended("tool_use")],
            {"toolu_0": "ok"},
            ran=["toolu_0"],
            echoed={"toolu_0": value},
        )
    why = "An input that came with the start of its call goes back as it came."
    given = call(0, input={"a": 1})
    yield _case(
        "echoes/given",
        why,
        [*given, *ended("tool_use")],
        {"toolu_0": "ok"},
        ran=["toolu_0"],
        echoed={"toolu_0": {"a": 1}},
    )
