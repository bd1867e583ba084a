"""`model_facts`: what a model accepts, as far as it is stated anywhere. `models.json` has the sources and their date.

A model that is not in the table is unknown: a newer one, or one behind a gateway. Nothing is refused for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

NO_PREFILL: Final = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)
_SAMPLING: Final = {"temperature": 1, "top_p": 1, "top_k": None}
"""The parameters, and the value that each model accepts."""
_BEHIND: Final = r"(?:[-@](?:\d{8}|latest))?(?:-v\d+)?(?::[a-z0-9]+)?(?:\[[^\]]*\])?\Z"
"""Behind the name of a model: nothing, a date, or the version of a platform. Not another number: 5 is not 5.5."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The facts about what a model accepts. None: it is not stated.

    Attributes:
        ids: The names of the models with these facts.
        prefill: The last message may be the start of the response.
        sampling: `temperature`, `top_p` and `top_k` may have other values than the default ones.
        thinking: The types of `thinking`.
        forced_tool_choice: When `tool_choice` may force a call.
        context_tokens: Size of the context window.
        output_tokens: Maximum of `max_tokens`.
        sources: Where it is stated.
    """

    ids: tuple[str, ...]
    prefill: bool | None
    sampling: bool | None
    thinking: tuple[str, ...] | None
    forced_tool_choice: Literal["always", "without thinking", "never"] | None
    context_tokens: int | None
    output_tokens: int | None
    sources: tuple[str, ...]


@cache
def model_table() -> tuple[ModelFacts, ...]:
    """Return the table."""
    table = json.loads(files(__package__).joinpath("models.json").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = table["models"]
    for row in rows:
        row.update({name: tuple(value) for name, value in row.items() if isinstance(value, list)})
    return tuple(ModelFacts(**row) for row in rows)


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], ModelFacts], ...]:
    return tuple(
        (re.compile(rf"(?:^|[./])(?:{'|'.join(map(re.escape, facts.ids))}){_BEHIND}"), facts) for facts in model_table()
    )


def model_facts(model: object) -> ModelFacts | None:
    """Return what a model accepts; None if it is not in the table.

    Args:
        model: Its name, as on any platform: `claude-opus-4-7`, `us.anthropic.claude-opus-4-6-v1`,
            `claude-haiku-4-5@20251001`, `anthropic/claude-opus-4.6`.
    """
    name = re.sub(r"(?<=\d)\.(?=\d)", "-", model.lower()) if isinstance(model, str) and len(model) < 200 else ""
    return next((facts for pattern, facts in _patterns() if pattern.search(name)), None)


def request_faults_of_model(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the model of a request would refuse of its parameters, in the API's words if they are known."""
    facts = model_facts(body.get("model"))
    if facts is None:
        return
    thinking = body.get("thinking")
    kind = thinking.get("type") if isinstance(thinking, Mapping) else None
    if facts.thinking is not None and isinstance(kind, str) and kind not in ("between_tools", *facts.thinking):
        use = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        yield f'"thinking.type.{kind:.40}" is not supported for this model. {use}'
    if facts.sampling is False:
        for name, accepted in _SAMPLING.items():
            if body.get(name) is not None and body[name] != accepted:
                yield f"`{name}` is deprecated for this model."
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping) and choice.get("type") in ("any", "tool"):
        if facts.forced_tool_choice == "never":
            yield "tool_choice: this model does not support forced tool use"
        elif facts.forced_tool_choice == "without thinking" and kind in ("enabled", "adaptive"):
            yield "Thinking may not be enabled when tool_choice forces tool use."
