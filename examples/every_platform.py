"""Run the same agent on every platform: only the client and the model's name differ.

Each client finds its credentials as its platform's tools do. GOOGLE_ACCESS_TOKEN may hold a token for Google's.
Platforms: anthropic, aws, bedrock, bedrock-mantle, foundry, google-cloud, vertex.

Needs: `eagerstream[bedrock]` for AWS, `eagerstream[vertex]` for Google.

Usage:
    ANTHROPIC_API_KEY=... python every_platform.py PLATFORM MODEL
    eagerstream serve --script -- python every_platform.py anthropic claude-opus-4-7
"""

import os
import sys
from typing import Any

import eagerstream
from eagerstream import printable

import anthropic
import anyio
from anthropic.lib.bedrock import AsyncAnthropicBedrock, AsyncAnthropicBedrockMantle
from anthropic.lib.vertex import AsyncAnthropicVertex
from anthropic.types import MessageParam

QUESTION: MessageParam = {"role": "user", "content": "How is the weather in Oslo, Vienna and Lima?"}


def client_of(platform: str) -> Any:
    token = os.environ.get("GOOGLE_ACCESS_TOKEN")
    match platform:
        case "bedrock":
            return AsyncAnthropicBedrock()
        case "bedrock-mantle":
            return AsyncAnthropicBedrockMantle()
        case "aws":
            return anthropic.AsyncAnthropicAWS()
        case "vertex":
            return AsyncAnthropicVertex(access_token=token)
        case "foundry":
            return anthropic.AsyncAnthropicFoundry()
        case "google-cloud":
            return anthropic.AsyncAnthropicGoogleCloud(token_provider=(lambda: token) if token else None)
        case "anthropic":
            return anthropic.AsyncAnthropic()
        case _:
            sys.exit(__doc__)


@eagerstream.tool
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"{city}: 15 degrees"


async def main(platform: str, model: str) -> None:
    async with (
        client_of(platform) as client,
        eagerstream.run(client, model=model, max_tokens=1024, tools=[get_weather], messages=[QUESTION]) as run,
    ):
        async for event in run:
            if isinstance(event, eagerstream.InputDelta):
                print(printable(f"{event.input.name} {event.input.partial}"))
    print(run.result.status)


if __name__ == "__main__":
    platform, model = sys.argv[1:] if len(sys.argv) == 3 else ("", "")
    anyio.run(main, platform, model)
