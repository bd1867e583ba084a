"""Serve a chat to `useChat` of the Vercel AI SDK and to assistant-ui: inputs grow on the page.

The page requests `/api/chat` from its own server, which must forward it (a rewrite of Next.js, a proxy of Vite).

Needs: `eagerstream[progress]`.

Usage:
    ANTHROPIC_API_KEY=... python serve_vercel.py [MODEL [PORT]]
    eagerstream serve --script -- python serve_vercel.py
"""

import sys

import eagerstream
from eagerstream_progress import Hub
from eagerstream_progress.vercel import ChatRequest, vercel_app

from anthropic import AsyncAnthropic

PAGES = ["http://localhost:3000", "http://localhost:5173"]  # of Next.js and Vite: they forward requests with these
hub = Hub()


@eagerstream.tool
async def draft_letter(to: str, paragraphs: list[str]) -> str:
    """Draft a letter, which the page shows while the model writes it."""
    return f"a letter to {to}, {len(paragraphs)} paragraphs"


@eagerstream.tool(approve=hub.approve)  # the page asks, and answers with addToolApprovalResponse
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
            messages=chat.messages,  # as the client sends them; see to_messages
        )

    # It names the extra if it is missing, which the next import does not.
    app = vercel_app(start, hub=hub, origins=PAGES)
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=port)


if __name__ == "__main__":
    model = sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7"
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
    main(model, port)
