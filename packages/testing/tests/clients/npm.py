"""Clients from npm, in one Node process: Anthropic's SDK for TypeScript, and the `ai` package."""

from __future__ import annotations

from dataclasses import asdict

import anyio
from tests.node import ask_client

from .job import MODEL, RESULT, SCHEMA, TOOL, Driver, Job, Result


class ClientError(Exception):
    """Raised for an exception of a client: its name and its text."""


def _driver(client: str, call: str) -> Driver:
    async def drive(job: Job) -> Result:
        fixed = {"model": MODEL, "definition": TOOL, "schema": SCHEMA, "answer": RESULT}
        given = {"client": client, "call": call, "job": {**asdict(job), "messages": job.messages, **fixed}}
        answer = await anyio.to_thread.run_sync(ask_client, "messages.mjs", given)
        if "error" in answer:
            raise ClientError(answer["error"])
        return Result(**answer["result"])

    return drive


anthropic_create = _driver("anthropic", "create")
anthropic_create_stream = _driver("anthropic", "createStream")
anthropic_stream = _driver("anthropic", "stream")
anthropic_runner = _driver("anthropic", "runner")
anthropic_streamed_runner = _driver("anthropic", "streamedRunner")
anthropic_eager_runner = _driver("anthropic", "eagerRunner")
ai_generate = _driver("ai", "generate")
ai_stream = _driver("ai", "stream")
