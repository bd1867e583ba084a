"""Serve a chat to `useChat` of the Vercel AI SDK and to assistant-ui: inputs grow on the page.

The page requests `/api/chat`: let its own server pass that on (a rewrite of Next.js, a proxy of Vite).

Needs: the extra `web`.

Usage:
    ANTHROPIC_API_KEY=... python serve_vercel.py [MODEL [PORT]]
    eagerstream serve --script -- python serve_vercel.py
"""

import sys

import eagerstream
from eagerstream.progress import Hub
from eagerstream.progress.vercel import ChatRequest, vercel_app

import uvicorn
from anthropic import AsyncAnthropic
from starlette.middleware.trustedhost import TrustedHostMiddleware

hub = Hub()


@eagerstream.tool
async def draft_letter(to: str, paragraphs: list[str]) -> str:
    """Draft a letter, which the page shows while it is written."""
    return f"a letter to {to}, {len(paragraphs)} paragraphs"


@eagerstream.tool(approve=hub.approve)  # the page asks, and POSTs the answer to /api/chat/<id>/approval
async def send_letter(to: str) -> str:
    """Send the letter that was drafted last."""
    return f"sent to {to}"


def main(model: str, port: int) -> None:
    client = AsyncAnthropic()

    def start(chat: ChatRequest) -> eagerstream.Run:
        return eagerstream.run(
            client,
            model=model,
            max_tokens=16_384,
            max_turns=10,
            tools=[draft_letter, send_letter],
            messages=chat.messages,  # as the client tells them; see to_messages
        )

    app = vercel_app(start, hub=hub)
    guarded = TrustedHostMiddleware(app, allowed_hosts=["127.0.0.1", "localhost"])  # no page whose name leads here
    uvicorn.run(guarded, host="127.0.0.1", port=port)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "claude-opus-4-7", int(arguments[1]) if len(arguments) > 1 else 8000)
