"""Ask the Messages API, or the double, whether the assumptions hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eagerstream import TextFragment
from eagerstream.errors import APIError
from eagerstream.limits import DEFAULT_LIMITS
from eagerstream.recordings import Recording
from eagerstream.transports import as_transport

from ._answering import ScriptedModel
from ._assumptions import Answer, Assumption, faults
from ._scripted import reply, text, thinking, tool_use

_SHORT_TOKENS: Final = 16
"""A `max_tokens` that ends every response of the double."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The meaning of an answer for an assumption.

    Attributes:
        assumption: The assumption.
        faults: In which ways the answer is not the expected one. Empty if the assumption holds.
        skipped: Why it was not asked; None if it was.
    """

    assumption: Assumption
    faults: Sequence[str] = ()
    skipped: str | None = None


async def verdict_of(client: Any, assumption: Assumption, *, model: str, platform: str) -> Verdict:
    """Send the request of an assumption with a client of the anthropic package, and return what the answer says.

    Raises:
        EagerStreamError: The API could not be reached, refused the key, does not know the model, or had no capacity.
    """
    if (skipped := assumption.unfit_for(model, platform)) is not None:
        return Verdict(assumption, skipped=skipped)
    answer = await _ask(client, assumption, model)
    return Verdict(assumption, tuple(faults(assumption.answer, answer)))


async def _ask(client: Any, assumption: Assumption, model: str) -> Answer:
    body = assumption.body(model)
    try:
        if assumption.to == "count_tokens":
            counted = await client.messages.count_tokens(**body)
            return Answer(200, body=counted.model_dump())
        return await _streamed(client, body)
    except APIError as error:
        if error.status_code is None or error.status_code in (401, 403, 404) or error.retryable:
            raise
        return Answer(error.status_code, said=f"{error.error_type}: {error.reason}")


async def _streamed(client: Any, body: Mapping[str, Any]) -> Answer:
    events: list[Mapping[str, Any]] = []
    async with as_transport(client).open(body, DEFAULT_LIMITS) as answered:
        headers = {name.lower(): value for name, value in getattr(answered, "headers", {}).items()}
        while (batch := await answered.receive()) is not None:
            for event in batch:
                if isinstance(event, dict):
                    events.append(event)
                else:
                    index, said = event
                    delta: dict[str, Any] = {"type": "input_json_delta", "partial_json": said}
                    if isinstance(event, TextFragment):
                        delta = {"type": "text_delta", "text": said}
                    events.append({"type": "content_block_delta", "index": index, "delta": delta})
    return Answer(200, headers=headers, events=events)


class AssumedModel(ScriptedModel):
    """A turn of a `Scenario` that answers as the API is assumed to, also where the request limits an answer."""

    def __call__(self, request: Mapping[str, Any]) -> Recording:
        """Return the response to a request."""
        model = str(request.get("model"))
        if isinstance(stops := request.get("stop_sequences"), list) and stops:
            return reply(text("1234"), stop_sequence=str(stops[0]), model=model)
        if request.get("max_tokens", math.inf) <= _SHORT_TOKENS:
            named = (request.get("tool_choice") or {}).get("name")
            cut = tool_use(str(named), '{"text": "All human be') if named else text("1, 2, 3,")
            return reply(cut, stop_reason="max_tokens", model=model)
        if (request.get("thinking") or {}).get("type") == "enabled":
            return reply(thinking("7 times 13 is 91."), text("No."), model=model)
        return super().__call__(request)
