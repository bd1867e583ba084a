"""pydantic-ai's `Agent`: `run`, and `iter` with a stream of each response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from anthropic import AsyncAnthropic
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, UsageLimits
from pydantic_ai.messages import TextPart, ThinkingPart
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider

from .job import MODEL, Job, Result, weather_noted_in


class _Weather(BaseModel):
    city: str
    degrees: int


async def run(job: Job) -> Result:
    async def ask(agent: Any, question: str, options: Any) -> Any:
        return await agent.run(question, **options)

    return await _ask(job, ask)


async def iterate(job: Job) -> Result:
    async def ask(agent: Any, question: str, options: Any) -> Any:
        events: Any
        async with agent.iter(question, **options) as running:
            async for node in running:
                if Agent.is_model_request_node(node):
                    async with node.stream(running.ctx) as events:
                        async for _ in events:
                            pass
        return running.result

    return await _ask(job, ask)


async def _ask(job: Job, ask: Callable[[Any, str, Any], Awaitable[Any]]) -> Result:
    result = Result()
    settings = AnthropicModelSettings(max_tokens=2_048, anthropic_eager_input_streaming=job.eager)
    if job.thinking:
        settings["anthropic_thinking"] = {"type": "adaptive"}
    async with AsyncAnthropic(base_url=job.base_url, api_key="any") as client:
        model = AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client))
        output: Any = NativeOutput(_Weather) if job.output else str
        agent: Any = Agent(
            model, tools=[weather_noted_in(result)] if job.tool else [], output_type=output, model_settings=settings
        )
        limits = UsageLimits(input_tokens_limit=100_000, count_tokens_before_request=job.count)
        found = await ask(agent, job.question, {"usage_limits": limits})
    parts = [part for message in found.all_messages() for part in message.parts]
    result.text = [part.content for part in parts if isinstance(part, TextPart)][-1]
    result.thinking = "".join(part.content for part in parts if isinstance(part, ThinkingPart))
    result.output = found.output.model_dump() if job.output else None
    return result
