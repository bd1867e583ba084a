"""An adapter that is wrong in many ways, by the length of what it is given: the runners have to notice the same ones."""

from __future__ import annotations

from typing import Any

from packages.wire.conformance.adapters import eagerstream

lacks = ["deep"]


def sse(chunks: Any) -> dict[str, Any]:
    if len(chunks) % 5 == 4:
        raise ValueError("an error of the implementation")
    answer = eagerstream.sse(chunks)
    match len(chunks) % 5:
        case 1:
            answer["steps"].pop()
        case 2:
            del answer["retry"]
        case 3:
            answer["steps"] = [{"events": step["events"][:1]} for step in answer["steps"]]
        case _:
            pass
    return answer


def partial_json(fragments: Any) -> dict[str, Any]:
    answer = eagerstream.partial_json(fragments)
    steps = answer["steps"]
    match len(fragments) % 9:
        case 1:
            steps[-1]["value"] = {"a": 2**63 + 1, "b": float("inf"), "__proto__": [1.0]}
        case 2:
            for step in steps:
                step["changes"] = [{"op": "add", "path": "", "value": step["value"]}]
        case 3:
            for step in steps:
                step["changes"] = [{"op": "append", "path": "/a/0", "value": "x"}]
        case 4:
            for step in steps:
                del step["finished"]
        case 5:
            answer["outcome"] = None
        case 6:
            answer["error_at"] = 1.0
        case 7:
            for step in steps:
                step["value"], step["changes"] = True, []
        case 8:
            return {}
        case _:
            pass
    return answer


def inputs(chunks: Any) -> dict[str, Any]:
    return {"steps": [{"may_start": ["toolu_1"]}], "stop_reason": "tool_use"}


def histories(given: Any) -> dict[str, Any]:
    messages = given["messages"]
    said = {"role": "user", "content": "Go on."}
    search = {"type": "server_tool_use", "id": "s"}
    found = {"type": "web_search_tool_result", "tool_use_id": "s"}
    match len(str(given)) % 7:
        case 0:
            return {"messages": messages}
        case 1:
            return {"messages": []}
        case 2:
            return {
                "messages": [
                    *messages,
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]},
                    {"role": "user", "content": ""},
                ]
            }
        case 3:
            return {"messages": [*messages, {"role": "assistant", "content": [{"type": "thinking"}]}, said]}
        case 4:
            return {"messages": [*messages, {"role": "assistant", "content": [search]}, said]}
        case 5:
            return {"messages": [*messages, {"role": "assistant", "content": [search, found]}]}
        case _:
            pass
    result = {"type": "tool_result", "tool_use_id": "a", "is_error": True}
    call = {"type": "tool_use", "id": "a"}
    return {"messages": [*messages, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]}
