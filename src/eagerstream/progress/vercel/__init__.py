"""Vercel UI message streams: runs behind `useChat`, and whatever else reads `x-vercel-ai-ui-message-stream: v1`.

`vercel_app` is the endpoint that the `ai` package's `DefaultChatTransport` (and assistant-ui on top of it) talks to.
Its parts can be used alone: `UIMessageEncoder` makes the chunks, `to_messages` turns UI messages into those of the API.
"""

from .app import ChatRequest, vercel_app
from .encoder import Chunk, UIMessageEncoder, describe_error
from .messages import UIMessageError, to_messages

__all__ = [
    "ChatRequest",
    "Chunk",
    "UIMessageEncoder",
    "UIMessageError",
    "describe_error",
    "to_messages",
    "vercel_app",
]
