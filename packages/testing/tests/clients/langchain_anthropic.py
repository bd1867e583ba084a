"""LangChain's `ChatAnthropic`: `ainvoke` and `astream`, in the loop of its documentation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest
from langchain_anthropic import ChatAnthropic, chat_models
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from .job import INPUT, MODEL, SCHEMA, Job, Result, weather_noted_in

_Ask: TypeAlias = Callable[[Any, list[Any]], Awaitable[Any]]


async def ainvoke(job: Job) -> Result:
    async def ask(model: Any, messages: list[Any]) -> Any:
        return await model.ainvoke(messages)

    return await _converse(job, ask)


async def astream(job: Job) -> Result:
    async def ask(model: Any, messages: list[Any]) -> Any:
        whole: Any = None
        async for chunk in model.astream(messages):
            whole = chunk if whole is None or isinstance(chunk, dict) else whole + chunk
        return whole

    return await _converse(job, ask)


async def _converse(job: Job, ask: _Ask) -> Result:
    result = Result()
    # Its parameters go by aliases, of which the type checker knows nothing.
    settings: dict[str, Any] = {"model": MODEL, "base_url": job.base_url, "api_key": "any", "max_tokens": 2_048}
    if job.thinking:
        settings["thinking"] = {"type": "adaptive"}
    async with _model(settings) as model:
        return await _ask(job, ask, model, result, weather_noted_in(result))


@asynccontextmanager
async def _model(settings: Mapping[str, Any]) -> AsyncIterator[Any]:
    """Give the model clients of its own, and close them. It would share them with all models of the same address.

    The clients that other tests share stay as they are: to drop one would close it, in an event loop that has ended.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_get_default_httpx_client", "_get_default_async_httpx_client"):
            shared: Any = getattr(chat_models, name)
            patch.setattr(chat_models, name, shared.__wrapped__)
        model: Any = ChatAnthropic(**settings)
        try:
            yield model
        finally:
            await model._async_client.close()
            model._client.close()


async def _ask(job: Job, ask: _Ask, model: Any, result: Result, get_weather: Any) -> Result:
    messages: list[Any] = [HumanMessage(job.question)]
    if job.count:
        return Result(tokens=model.get_num_tokens_from_messages(messages))
    if job.broken:
        call: Any = {"id": "toolu_1", "name": "get_weather", "args": INPUT}
        messages = [HumanMessage(job.question), AIMessage("", tool_calls=[call]), HumanMessage("Well?")]
    if job.output:
        schema = {"title": "weather", "description": "The weather.", **SCHEMA}
        result.output = await ask(model.with_structured_output(schema, method="json_schema"), messages)
        return result
    weather: Any = tool(get_weather, extras={"eager_input_streaming": True} if job.eager else None)
    if job.tool:
        model = model.bind_tools([weather])
    while True:
        message = await ask(model, messages)
        result.text = message.text
        result.thinking += "".join(
            block.get("reasoning", "") for block in message.content_blocks if block["type"] == "reasoning"
        )
        if not message.tool_calls:
            return result
        messages = [*messages, message, *[await weather.ainvoke(call) for call in message.tool_calls]]
