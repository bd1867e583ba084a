"""`models.json`: names of every platform find their row, each row says where it is stated, and the docs show it."""

from __future__ import annotations

from typing import Any, get_args

from anthropic.types import ModelParam
from tests.missing import anthropic_since
from tests.streams import USER
from tests.tables import rows

from eagerstream_wire import model_facts, model_table, validate_history
from eagerstream_wire._models import NO_PREFILL, request_faults_of_model

ASSISTANT = {"role": "assistant", "content": "Half of"}
FOUND = {
    "role": "assistant",
    "content": [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    ],
}
PAUSED = {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]}


@anthropic_since("2.14")
def test_every_model_of_the_installed_package() -> None:
    """Each has a row, and no row is for a model that the package does not know."""
    names = get_args(get_args(ModelParam)[0])
    assert [name for name in names if model_facts(name) is None] == []
    assert {id for facts in model_table() for id in facts.ids} <= set(names)
    assert all(facts.sources for facts in model_table())


@rows(
    "name, found",
    [
        ("claude-opus-5", "claude-opus-5"),
        ("claude-opus-5-5", "claude-opus-5-5"),
        ("claude-opus-5-7", None),
        ("us.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("anthropic/claude-sonnet-4.6", "claude-sonnet-4-6"),
        ("claude-opus-4-1", None),
        ("my-claude-opus-5", None),
        ("claude-opus-5-mine", None),
        ("claude-opus-5\n", None),
        ("someone/claude-opus-4-6-v1-gguf", None),
        ("anthropic/claude-opus-4.6:beta", "claude-opus-4-6"),
        ("claude-opus-4-6[1m]", "claude-opus-4-6"),
        ("gpt-7", None),
        ("", None),
        (None, None),
        ("x" * 10_000, None),
    ],
)
def test_names(name: Any, found: str | None) -> None:
    facts = model_facts(name)
    assert (facts is None) if found is None else (facts is not None and found in facts.ids)


@rows(
    "model, body, fault",
    [
        ("claude-opus-4-7", {"temperature": 0.5}, "`temperature` is deprecated for this model."),
        ("claude-opus-4-7", {"temperature": 1}, None),
        ("claude-opus-4-6", {"temperature": 0.5}, None),
        ("claude-opus-4-7", {"thinking": {"type": "enabled", "budget_tokens": 2_000}}, "thinking.type.enabled"),
        ("claude-haiku-4-5", {"thinking": {"type": "adaptive"}}, "thinking.type.adaptive"),
        ("claude-opus-5-5", {"thinking": {"type": "disabled"}}, "thinking.type.disabled"),
        ("claude-opus-5-5", {"tool_choice": {"type": "any"}}, "forced tool use"),
        ("claude-opus-5", {"tool_choice": {"type": "any"}}, None),
        ("claude-haiku-4-5", {"tool_choice": {"type": "any"}, "thinking": {"type": "enabled"}}, "tool_choice"),
        ("another", {"temperature": 9, "thinking": {"type": "enabled"}, "tool_choice": {"type": "any"}}, None),
    ],
)
def test_parameters(model: str, body: dict[str, Any], fault: str | None) -> None:
    faults = list(request_faults_of_model({"model": model, **body}))
    assert (not faults) if fault is None else (len(faults) == 1 and fault in faults[0])


def test_a_prefill() -> None:
    """Refused by models since 4.6; not if the API has paused, nor by a model that is not known."""
    for model, messages, refused in (
        ("claude-opus-4-7", [USER, ASSISTANT], True),
        ("claude-haiku-4-5", [USER, ASSISTANT], False),
        ("claude-opus-4-7", [USER, PAUSED], False),
        ("claude-opus-4-7", [USER, FOUND], False),
        ("claude-opus-4-7", [USER], False),
        ("another", [USER, ASSISTANT], False),
        (None, [USER, ASSISTANT], False),
    ):
        faults = validate_history(messages, model=model)
        assert [fault.message for fault in faults] == ([NO_PREFILL] if refused else []), (model, messages)
